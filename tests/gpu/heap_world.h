/* A heap on a GPU or on the soft device, and launches of heap_kernels.h on it. The tests run
 * unchanged on both.
 *
 *   test_gpu_heap            a GPU; skipped where there is none
 *   test_gpu_heap soft [1]   the soft device, with warps of 32 lanes or of 1
 *
 * ACRE_TEST_MEMCHECK=1 makes all sizes small, as compute-sanitizer needs it. ACRE_TEST_ONLY names
 * the tests to run (* and ? as in a shell). */
#ifndef ACRE_TESTS_GPU_HEAP_WORLD_H
#define ACRE_TESTS_GPU_HEAP_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu_fixture.h"
#include "heap_job.h"
#include "support/cases.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

struct heap_world {
    acre_device *dev;
    struct gpu *gpu; /* NULL on the soft device */
    CUmodule module;
    acre_stream stream;
    acre_event begin, end;
    int is_memcheck;
    uint32_t lanes;
    uint32_t threads; /* most threads of a launch */
    uint64_t bytes;   /* a heap of ordinary size */
    /* The current test's heap, and the argument of its kernels. */
    acre_heap *heap;
    struct heap_job job;
    uint64_t counts[HEAP_COUNTS]; /* read after a launch */
    double ms;                    /* duration of the launch */
};

/* Reads the arguments of main: soft [LANES] for the soft device, full for kernels with
 * ACRE_HEAP_FULL_ORDER, few for ACRE_HEAP_FEW_REGISTERS. Call this first. */
void heap_arguments(int argc, char **argv);
int heap_setup(void **state);
int heap_teardown(void **state);

static inline uint64_t heap_pick(const struct heap_world *w, uint64_t gpu, uint64_t memcheck,
                                 uint64_t soft) {
    return !w->gpu ? soft : w->is_memcheck ? memcheck : gpu;
}

/* Creates a heap of `initial` bytes that grows up to `maximum`; 0: it cannot grow. Resets the job:
 * no blocks, default sizes. */
void heap_begin(struct heap_world *w, uint64_t initial, uint64_t maximum);

/* Expects that every block is freed, that the heap counted `wrong` wrong frees, and that all memory
 * can be allocated again. Destroys the heap. */
void heap_end(struct heap_world *w, uint64_t wrong);

acre_heap_stats heap_stats(struct heap_world *w);

/* Runs a kernel with job.threads threads on the world's stream and waits for it. The wait is
 * bounded: a kernel that hangs ends the program. Fails the test if a check in the kernel failed. */
void heap_run(struct heap_world *w, const char *kernel);
void heap_run_on(struct heap_world *w, const char *kernel, acre_stream stream);

/* Sets the block sizes of later launches. */
void heap_sizes(struct heap_world *w, uint64_t low, uint64_t high, uint32_t is_log);

/* Returns the largest power of two of threads whose blocks of `bytes` fit into `room`, at most
 * w->threads. */
uint32_t heap_threads_for(const struct heap_world *w, uint64_t bytes, uint64_t room);

#endif
