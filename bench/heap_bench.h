/* What the files of `acre bench heap` share: the device that kernels run on, how they are launched
 * and timed, and the figures.
 *
 * On a GPU kernels are those of heap_kernels_*.cu, launched by the driver's calls and timed by
 * events; on a soft device those of heap_soft.c, timed by the host's clock. Functions return 0 when
 * something was refused, which the suite then reports. */
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
/* Of CUDA's own heap: 2^20 blocks of 64 bytes, and 2^14 of 8 KiB, with what it needs itself. */
#define HEAP_DRIVER_BYTES (1024 * HEAP_MIB)

struct heap_bench {
    struct bench *bench;
    acre_device *device;
    const struct acre__driver *drv;
    acre_device_info info;
    bool is_soft, is_quick;
    acre_stream stream;
    acre_event begin, end;              /* of a GPU */
    CUmodule module, driver_module;     /* of a GPU; the second once it is asked for */
    CUfunction functions[HEAP_KERNELS]; /* of a GPU */
    void *words; /* of the device: what kernels count, and bump's word behind it */
    bool is_driver_tried, has_driver;
    const char *doing; /* the case, for messages */
};

/* ---- heap_device.c ---- */

const char *heap_who(enum heap_party party);

/* "alloc cold 64B 2^20" into `name`, which is returned; 0 bytes are mixed, and a `log2` of 0 says
 * nothing of threads. */
const char *heap_case_name(const char *what, uint32_t bytes, unsigned log2,
                           char name[BENCH_NAME_BYTES]);

/* The party's form of a kernel: heap_kernel_of(HEAP_K_alloc_acre, HEAP_BUMP). */
enum heap_kernel heap_kernel_of(enum heap_kernel acres, enum heap_party party);

/* Opens what kernels need. *lacks is what is missing here, in words, or NULL. */
int heap_open(struct heap_bench *b, const char **lacks);
int heap_close(struct heap_bench *b);

/* CUDA's own heap, and the kernels that use it, once; `has_driver` says whether they are there, and
 * a message why not. */
int heap_open_driver(struct heap_bench *b);

/* Queues a kernel with a thread for each of the job's. A soft device is waited for. */
int heap_launch(struct heap_bench *b, enum heap_kernel kernel, const struct heap_job *job);

/* Waits for all that is queued. A kernel that does not end within a long time ends the program,
 * which says so: there is nothing else to be done with it. */
int heap_wait(struct heap_bench *b);

/* Launches a kernel, waits for it, and says what it took. */
int heap_time(struct heap_bench *b, enum heap_kernel kernel, const struct heap_job *job,
              double *us);

/* Fills memory of the device with zeros, on the stream. */
int heap_clear(struct heap_bench *b, void *p, size_t bytes);

/* A job with the device's words, the counts being 0. */
int heap_job_begin(struct heap_bench *b, struct heap_job *job);
/* What kernels have counted. */
int heap_job_counts(struct heap_bench *b, uint64_t counts[HEAP_COUNTS]);

/* Says of these what is wrong, as findings of the suite. */
void heap_job_judge(struct heap_bench *b, enum heap_party party, const uint64_t counts[HEAP_COUNTS],
                    bool may_be_null);

/* Writes all blocks of the job full and looks at them; what is wrong is a finding of the suite. */
int heap_job_check(struct heap_bench *b, enum heap_party party, const struct heap_job *job);

/* A heap that has all its memory from the start. */
acre_heap *heap_make(struct heap_bench *b, uint64_t bytes, acre_heap_handle *handle);
/* Ends it; blocks that are left are a finding. */
int heap_unmake(struct heap_bench *b, acre_heap *heap);

/* False, after it was said, when the device has no room for a heap of so many bytes, its records
 * and other memory. */
bool heap_has_room(struct heap_bench *b, const char *name, uint64_t heap, uint64_t other);

/* ---- heap_soft.c ---- */

/* NULL for kernels that there are none of: CUDA's own malloc. */
acre_soft_kernel heap_soft_kernel(enum heap_kernel kernel);

/* ---- the cases ---- */

int heap_alloc_cases(struct heap_bench *b);  /* heap_alloc.c */
int heap_driver_cases(struct heap_bench *b); /* heap_alloc.c */
int heap_churn_cases(struct heap_bench *b);  /* heap_churn.c */
int heap_fill_cases(struct heap_bench *b);   /* heap_full.c */
int heap_round_cases(struct heap_bench *b);  /* heap_full.c */
int heap_grow_cases(struct heap_bench *b);   /* heap_full.c */
int heap_thread_cases(struct heap_bench *b); /* heap_threads.c */

#endif
