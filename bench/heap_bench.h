/* Shared by the files of `acre bench heap`: launching and timing kernels, jobs, heaps, and the
 * cases.
 *
 * On a GPU the kernels are those of heap_kernels_acre.cu and heap_kernels_driver.cu, launched by
 * the driver's calls and timed by events. On a soft device they are those of heap_soft.c, timed by
 * the host's clock. Functions return 0 on failure, which the suite then reports. */
#ifndef ACRE_BENCH_HEAP_BENCH_H
#define ACRE_BENCH_HEAP_BENCH_H

#include "bench.h"
#include "heap_jobs.h"

/* clang-format off */
enum heap_kernel {
#define HEAP_KERNEL_NUMBER(name, call) HEAP_K_##name,
#define HEAP_PARTY_NUMBER(name, party, number) HEAP_K_##name##_##party,
    HEAP_COMMON_KERNELS(HEAP_KERNEL_NUMBER)
    HEAP_ALL_ROUNDS(HEAP_PARTY_NUMBER)
    HEAP_ALL_PARTIES(HEAP_PARTY_NUMBER) /* CUDA's own malloc is the last */
    HEAP_KERNELS
#undef HEAP_KERNEL_NUMBER
#undef HEAP_PARTY_NUMBER
};
/* clang-format on */

#define HEAP_MIB (UINT64_C(1) << 20)
/* Size of CUDA's own heap: room for 2^20 blocks of 64 bytes, or 2^14 of 8 KiB, and its overhead. */
#define HEAP_DRIVER_BYTES (1024 * HEAP_MIB)

struct heap_bench {
    struct bench *bench;
    acre_device *device;
    const struct acre__driver *drv;
    acre_device_info info;
    bool is_soft, is_quick;
    acre_stream stream;
    acre_event begin, end;              /* GPU only */
    CUmodule module, driver_module;     /* GPU only; heap_open_driver loads the second */
    CUfunction functions[HEAP_KERNELS]; /* GPU only */
    void *words; /* device memory: the counts of the kernels, then the word of bump */
    bool is_driver_tried, has_driver;
    const char *doing; /* the current case, for messages */
};

/* ---- heap_device.c ---- */

const char *heap_who(enum heap_party party);

/* Writes a name such as "alloc cold 64B 2^20" into `name` and returns it. 0 bytes are mixed sizes;
 * with a `log2` of 0 the name has no number of threads. */
const char *heap_case_name(const char *what, uint32_t bytes, unsigned log2,
                           char name[BENCH_NAME_BYTES]);

/* Returns a party's version of a kernel: heap_kernel_of(HEAP_K_alloc_acre, HEAP_BUMP). */
enum heap_kernel heap_kernel_of(enum heap_kernel acres, enum heap_party party);

/* Loads the kernels and creates the objects that they need. *lacks says why the suite cannot run
 * here, or is NULL. */
int heap_open(struct heap_bench *b, const char **lacks);
int heap_close(struct heap_bench *b);

/* Sets up CUDA's own heap and the kernels that use it, once. Sets `has_driver`, or prints why
 * CUDA's malloc is skipped. */
int heap_open_driver(struct heap_bench *b);

/* Queues a kernel with job->threads threads. On a soft device also waits for it. */
int heap_launch(struct heap_bench *b, enum heap_kernel kernel, const struct heap_job *job);

/* Waits for all queued work. If a kernel does not finish within 20 seconds, prints a message and
 * ends the program, since a kernel cannot be cancelled. */
int heap_wait(struct heap_bench *b);

/* Launches a kernel, waits for it, and measures its time. */
int heap_time(struct heap_bench *b, enum heap_kernel kernel, const struct heap_job *job,
              double *us);

/* Fills device memory with zeros, in stream order. */
int heap_clear(struct heap_bench *b, void *p, size_t bytes);

/* Initialises a job and sets all counts to 0. */
int heap_job_begin(struct heap_bench *b, struct heap_job *job);
/* Waits for the kernels and copies their counts. */
int heap_job_counts(struct heap_bench *b, uint64_t counts[HEAP_COUNTS]);

/* Reports the errors among the counts as findings of the suite. */
void heap_job_judge(struct heap_bench *b, enum heap_party party, const uint64_t counts[HEAP_COUNTS],
                    bool may_be_null);

/* Fills all blocks of the job and checks their contents. Reports errors as findings. */
int heap_job_check(struct heap_bench *b, enum heap_party party, const struct heap_job *job);

/* Creates a heap that has all its memory from the start. */
acre_heap *heap_make(struct heap_bench *b, uint64_t bytes, acre_heap_handle *handle);
/* Destroys a heap. Live blocks are a finding. */
int heap_unmake(struct heap_bench *b, acre_heap *heap);

/* Returns false, after the message that the case is skipped, if the device has too little memory
 * for a heap of this size, its records and other memory. */
bool heap_has_room(struct heap_bench *b, const char *name, uint64_t heap, uint64_t other);

/* ---- heap_soft.c ---- */

/* Returns the soft device's version of a kernel; NULL for kernels of CUDA's own malloc. */
acre_soft_kernel heap_soft_kernel(enum heap_kernel kernel);

/* ---- the cases ---- */

int heap_alloc_cases(struct heap_bench *b); /* heap_alloc.c */
int heap_large_cases(struct heap_bench *b);
int heap_scatter_cases(struct heap_bench *b);
int heap_driver_cases(struct heap_bench *b); /* heap_alloc.c */
int heap_churn_cases(struct heap_bench *b);  /* heap_churn.c */
int heap_fill_cases(struct heap_bench *b);   /* heap_full.c */
int heap_round_cases(struct heap_bench *b);  /* heap_full.c */
int heap_grow_cases(struct heap_bench *b);   /* heap_full.c */
int heap_thread_cases(struct heap_bench *b); /* heap_threads.c */

#endif
