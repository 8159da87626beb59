/* A heap on a GPU or on the soft device, and the kernels of heap_kernels.h on it: the same tests
 * run on both.
 *
 *   test_gpu_heap            a GPU; skipped where there is none
 *   test_gpu_heap soft [1]   the soft device, with warps of 32 lanes or of 1
 *
 * ACRE_TEST_MEMCHECK=1 makes everything small, as compute-sanitizer needs it; ACRE_TEST_ONLY names
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
    uint32_t threads; /* the most that a launch has */
    uint64_t bytes;   /* a heap of ordinary size */
    /* The current test's heap, and what its kernels are told. */
    acre_heap *heap;
    struct heap_job job;
    uint64_t counts[HEAP_COUNTS]; /* after a launch */
    double ms;                    /* that it took */
};

/* Reads the arguments of main; before all else. */
void heap_arguments(int argc, char **argv);
int heap_setup(void **state);
int heap_teardown(void **state);

static inline uint64_t heap_pick(const struct heap_world *w, uint64_t gpu, uint64_t memcheck,
                                 uint64_t soft) {
    return !w->gpu ? soft : w->is_memcheck ? memcheck : gpu;
}

/* A heap that begins with `initial` bytes; maximum 0: and cannot grow. All else of the job is as in
 * the beginning: no blocks, counts 0. */
void heap_begin(struct heap_world *w, uint64_t initial, uint64_t maximum);

/* Every block was freed, `wrong` frees were wrong, and all memory can be allocated again. */
void heap_end(struct heap_world *w, uint64_t wrong);

acre_heap_stats heap_stats(struct heap_world *w);

/* Runs a kernel with job.threads threads on the world's stream and waits for it, for a time that is
 * bounded: a kernel that hangs ends the program. Fails the test if a check in it did. */
void heap_run(struct heap_world *w, const char *kernel);
void heap_run_on(struct heap_world *w, const char *kernel, acre_stream stream);

/* Sizes of the blocks of launches to come. */
void heap_sizes(struct heap_world *w, uint64_t low, uint64_t high, uint32_t is_log);

/* The largest power of two of threads whose blocks of `bytes` fit into `room`, at most w->threads.
 */
uint32_t heap_threads_for(const struct heap_world *w, uint64_t bytes, uint64_t room);

#endif
