/* Loads, launches and times the kernels of `acre bench heap`, and evaluates their counts. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "heap_bench.h"

/* Without nvcc there are no kernels for a GPU. */
#ifdef ACRE_HAVE_KERNELS
extern const unsigned char acre__heap_kernels_acre_fatbin[];
extern const unsigned char acre__heap_kernels_driver_fatbin[];
static const unsigned char *const heap_image = acre__heap_kernels_acre_fatbin;
static const unsigned char *const heap_driver_image = acre__heap_kernels_driver_fatbin;
#else
static const unsigned char *const heap_image = NULL;
static const unsigned char *const heap_driver_image = NULL;
#endif

enum {
    /* Long enough for the host to queue an event, a kernel and another event. */
    HEAP_HOLD_NS = 30000,
    /* The slowest measured kernel, CUDA's malloc for 2^20 threads, takes a second. */
    HEAP_WAIT_S = 20
};

const char *heap_who(enum heap_party party) {
    static const char *const names[HEAP_PARTIES] = {"acre", "floor", "bump", "driver"};
    return names[party];
}

enum heap_kernel heap_kernel_of(enum heap_kernel acres, enum heap_party party) {
    return (enum heap_kernel)((unsigned)acres +
                              party * (unsigned)(HEAP_K_alloc_floor - HEAP_K_alloc_acre));
}

const char *heap_case_name(const char *what, uint32_t bytes, unsigned log2,
                           char name[BENCH_NAME_BYTES]) {
    char whole[BENCH_NAME_BYTES], threads[8] = "";
    if (log2) {
        snprintf(threads, sizeof threads, " 2^%u", log2 % 100);
    }
    if (bytes) {
        bench_case_name(what, bytes, whole);
    } else {
        snprintf(whole, sizeof whole, "%s mixed", what);
    }
    snprintf(name, BENCH_NAME_BYTES, "%.*s%s", (int)(BENCH_NAME_BYTES - sizeof threads), whole,
             threads);
    return name;
}

/* ---- opening ---- */

static const char *const heap_names[HEAP_KERNELS] = {
#define HEAP_KERNEL_NAME(name, call) [HEAP_K_##name] = "heap_" #name,
#define HEAP_PARTY_NAME(name, party, number) [HEAP_K_##name##_##party] = "heap_" #name "_" #party,
    HEAP_COMMON_KERNELS(HEAP_KERNEL_NAME) HEAP_ALL_ROUNDS(HEAP_PARTY_NAME)
        HEAP_ALL_PARTIES(HEAP_PARTY_NAME)};

/* Records which driver call failed and why. Returns 0. */
static int heap_refused(struct heap_bench *b, const char *call, CUresult result) {
    const char *name = NULL;
    char text[128];
    if (b->drv->cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) {
        name = "unknown";
    }
    snprintf(text, sizeof text, "%s: %s failed: %s", b->doing, call, name);
    bench_blame(b->bench, false);
    bench_reason(b->bench, text);
    return 0;
}

/* Looks up the kernels from `first` to before `end` and runs each once without work, since lazy
 * loading at the first launch must not be measured. */
static int heap_load(struct heap_bench *b, const void *image, CUmodule *module,
                     enum heap_kernel first, enum heap_kernel end) {
    struct heap_job job;
    CUresult result = b->drv->cuModuleLoadData(module, image);
    if (result) {
        return heap_refused(b, "cuModuleLoadData", result);
    }
    if (!heap_job_begin(b, &job)) {
        return 0;
    }
    for (unsigned i = first; i < end; i++) {
        result = b->drv->cuModuleGetFunction(&b->functions[i], *module, heap_names[i]);
        if (result) {
            return heap_refused(b, "cuModuleGetFunction", result);
        }
        if (!heap_launch(b, (enum heap_kernel)i, &job)) {
            return 0;
        }
    }
    return heap_wait(b);
}

int heap_open(struct heap_bench *b, const char **lacks) {
    acre_heap *heap = NULL;
    *lacks = NULL;
    b->doing = "start";
    if (!b->is_soft && !heap_image) {
        *lacks = "this tool was built without nvcc, so it has no kernels for a GPU";
        return 1;
    }
    acre_status status = acre_heap_create(b->device, NULL, &heap);
    if (status == ACRE_E_UNSUPPORTED) {
        *lacks = cli_detail();
        return 1;
    }
    if (status || acre_heap_destroy(heap, NULL, NULL) ||
        acre_stream_create(b->device, ACRE_STREAM_NON_BLOCKING, &b->stream) ||
        acre_event_create(b->device, ACRE_EVENT_TIMING, &b->begin) ||
        acre_event_create(b->device, ACRE_EVENT_TIMING, &b->end) ||
        acre_mem_alloc(b->device, ACRE_KIND_DEVICE, (HEAP_COUNTS + 1) * sizeof(uint64_t), 0,
                       &b->words)) {
        return 0;
    }
    return b->is_soft || heap_load(b, heap_image, &b->module, (enum heap_kernel)0,
                                   heap_kernel_of(HEAP_K_alloc_acre, HEAP_DRIVER));
}

/* Returns why CUDA's own malloc cannot be measured, or NULL. */
static const char *heap_driver_lacks(struct heap_bench *b) {
    if (b->is_soft) {
        return "a soft device has no device-side malloc";
    }
    if (b->info.free_bytes < 4 * HEAP_DRIVER_BYTES) {
        return "there is not enough memory for its heap";
    }
    /* The limit can only be set before a module that uses the heap is loaded. */
    return b->drv->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP_DRIVER_BYTES) == CUDA_SUCCESS
               ? NULL
               : "the driver does not allow a larger heap";
}

int heap_open_driver(struct heap_bench *b) {
    if (b->is_driver_tried) {
        return 1;
    }
    b->is_driver_tried = true;
    const char *lacks = heap_driver_lacks(b);
    if (lacks) {
        cli_say("suite heap: driver skipped: %s", lacks);
        return 1;
    }
    b->has_driver = heap_load(b, heap_driver_image, &b->driver_module,
                              heap_kernel_of(HEAP_K_alloc_acre, HEAP_DRIVER), HEAP_KERNELS);
    return b->has_driver;
}

int heap_close(struct heap_bench *b) {
    CUmodule modules[] = {b->module, b->driver_module};
    if (acre_mem_free(b->device, b->words) || acre_event_destroy(b->device, b->begin) ||
        acre_event_destroy(b->device, b->end) || acre_stream_destroy(b->device, b->stream)) {
        return 0;
    }
    for (unsigned i = 0; i < 2; i++) {
        CUresult result = modules[i] ? b->drv->cuModuleUnload(modules[i]) : CUDA_SUCCESS;
        if (result) {
            return heap_refused(b, "cuModuleUnload", result);
        }
    }
    return 1;
}

/* ---- running ---- */

int heap_launch(struct heap_bench *b, enum heap_kernel kernel, const struct heap_job *job) {
    struct heap_job copy = *job; /* neither launch accepts a pointer to const */
    uint64_t blocks = (job->threads + HEAP_BLOCK_THREADS - 1) / HEAP_BLOCK_THREADS;
    uint32_t grid = blocks ? (uint32_t)blocks : 1;
    bool is_one = kernel == HEAP_K_hold; /* needs a single thread */
    if (b->is_soft) {
        return acre_soft_launch(
                   b->device, b->stream, heap_soft_kernel(kernel), (uint32_t[]){grid, 1, 1},
                   (uint32_t[]){is_one ? 1 : HEAP_BLOCK_THREADS, 1, 1}, 0, &copy) == ACRE_OK &&
               acre_stream_sync(b->device, b->stream) == ACRE_OK;
    }
    void *params[] = {&copy};
    CUresult result =
        b->drv->cuLaunchKernel(b->functions[kernel], is_one ? 1 : grid, 1, 1,
                               is_one ? 1 : HEAP_BLOCK_THREADS, 1, 1, 0, b->stream, params, NULL);
    return result ? heap_refused(b, heap_names[kernel], result) : 1;
}

/* Polls the event, since a blocking wait has no timeout. */
static int heap_wait_event(struct heap_bench *b, acre_event event) {
    uint64_t begin = cli_now_ns();
    acre_status status;
    while ((status = acre_event_query(b->device, event)) == ACRE_E_NOT_READY) {
        struct timespec pause = {0, 20000};
        if (cli_now_ns() - begin > UINT64_C(1000000000) * HEAP_WAIT_S) {
            cli_say("suite heap: %s: a kernel did not finish within %d s", b->doing, HEAP_WAIT_S);
            _exit(CLI_CANNOT);
        }
        nanosleep(&pause, NULL);
    }
    return status == ACRE_OK;
}

int heap_wait(struct heap_bench *b) {
    return b->is_soft || (acre_event_record(b->device, b->end, b->stream) == ACRE_OK &&
                          heap_wait_event(b, b->end));
}

int heap_time(struct heap_bench *b, enum heap_kernel kernel, const struct heap_job *job,
              double *us) {
    struct heap_job hold = {.hold_ns = HEAP_HOLD_NS};
    uint64_t begin = cli_now_ns();
    float ms = 0;
    if (b->is_soft) {
        int ok = heap_launch(b, kernel, job);
        *us = (double)(cli_now_ns() - begin) / 1e3;
        return ok;
    }
    if (!heap_launch(b, HEAP_K_hold, &hold) || acre_event_record(b->device, b->begin, b->stream) ||
        !heap_launch(b, kernel, job) || !heap_wait(b) ||
        acre_event_elapsed(b->device, b->begin, b->end, &ms)) {
        return 0;
    }
    *us = (double)ms * 1e3;
    return 1;
}

/* ---- jobs ---- */

int heap_clear(struct heap_bench *b, void *p, size_t bytes) {
    return acre_fill(b->device, p, 0, bytes, b->stream) == ACRE_OK;
}

int heap_job_begin(struct heap_bench *b, struct heap_job *job) {
    uint64_t *words = b->words;
    memset(job, 0, sizeof *job);
    job->counts = words;
    job->bumped = words + HEAP_COUNTS;
    return heap_clear(b, words, (HEAP_COUNTS + 1) * sizeof *words);
}

int heap_job_counts(struct heap_bench *b, uint64_t counts[HEAP_COUNTS]) {
    /* Waits first: a copy to pageable memory would wait for the kernels without a timeout. */
    return heap_wait(b) &&
           acre_copy(b->device, counts, b->words, HEAP_COUNTS * sizeof *counts, b->stream) ==
               ACRE_OK &&
           acre_stream_sync(b->device, b->stream) == ACRE_OK;
}

void heap_job_judge(struct heap_bench *b, enum heap_party party, const uint64_t counts[HEAP_COUNTS],
                    bool may_be_null) {
    static const char *const what[HEAP_WRONGS] = {[HEAP_NULLS] = "requests got NULL",
                                                  [HEAP_DAMAGED] =
                                                      "threads found overwritten contents",
                                                  [HEAP_ODD] = "blocks are not aligned to 16 bytes",
                                                  [HEAP_STRAY] = "blocks are outside of the heap"};
    for (unsigned i = 0; i < HEAP_WRONGS; i++) {
        if (counts[i] && (i != HEAP_NULLS || !may_be_null)) {
            bench_finding(b->bench, "suite heap: %s, %s: %llu %s", b->doing, heap_who(party),
                          (unsigned long long)counts[i], what[i]);
        }
    }
}

int heap_job_check(struct heap_bench *b, enum heap_party party, const struct heap_job *job) {
    uint64_t counts[HEAP_COUNTS];
    if (!heap_clear(b, job->counts, sizeof counts) || !heap_launch(b, HEAP_K_paint, job) ||
        !heap_launch(b, HEAP_K_check, job) || !heap_job_counts(b, counts)) {
        return 0;
    }
    heap_job_judge(b, party, counts, false);
    return 1;
}

/* ---- heaps ---- */

acre_heap *heap_make(struct heap_bench *b, uint64_t bytes, acre_heap_handle *handle) {
    acre_heap_options options = {
        .struct_size = sizeof options, .initial_bytes = bytes, .limit_bytes = bytes};
    acre_heap *heap = NULL;
    return acre_heap_create(b->device, &options, &heap) == ACRE_OK &&
                   acre_heap_get_handle(heap, handle) == ACRE_OK
               ? heap
               : NULL;
}

int heap_unmake(struct heap_bench *b, acre_heap *heap) {
    uint64_t blocks = 0;
    if (acre_heap_destroy(heap, &blocks, NULL)) {
        return 0;
    }
    if (blocks) {
        bench_finding(b->bench, "suite heap: %s: %llu blocks are still live after all frees",
                      b->doing, (unsigned long long)blocks);
    }
    return 1;
}

bool heap_has_room(struct heap_bench *b, const char *name, uint64_t heap, uint64_t other) {
    char text[CLI_NUMBER_BYTES];
    uint64_t bytes = heap + heap / 64 + 8 * HEAP_MIB + other; /* records, in whole chunks */
    if (b->info.free_bytes >= bytes) {
        return true;
    }
    cli_say("suite heap: %s skipped: it needs %s of free device memory", name,
            cli_bytes(bytes, text));
    return false;
}
