/* malloc and free inside kernels: acre's heap against the same kernel without an allocator (floor),
 * a bump pointer that cannot free (bump) and CUDA's own malloc (driver).
 *
 *   alloc    each thread allocates a block, then frees it, by size and number of threads
 *            (heap_alloc.c)
 *   large    case alloc for 16 KiB to 64 MiB (heap_alloc.c)
 *   scatter  case alloc, but each thread frees the block of another (heap_alloc.c)
 *   driver   case alloc against CUDA's own malloc, with few sizes, since it takes seconds
 *            (heap_alloc.c)
 *   churn    malloc, use and free in one kernel, many times (heap_churn.c)
 *   fill     allocate until the heap is full, free all, and fill again (heap_full.c)
 *   rounds   each thread allocates a block, one in sixteen is kept, until the heap is full
 *            (heap_full.c)
 *   grow     a heap of 8 MiB grows while a kernel allocates from it (heap_full.c)
 *   threads  host threads use the heap of a soft device, against glibc's malloc (heap_threads.c)
 *
 * The kernels are written once (heap_jobs.h) and also run on soft devices, with fewer threads.
 * Their times there say nothing about a GPU. */
#include <stdio.h>

#include "cli.h"
#include "heap_bench.h"

static const struct {
    const char *name;
    int (*run)(struct heap_bench *b);
} heap_cases[] = {
    {"alloc", heap_alloc_cases},   {"large", heap_large_cases}, {"scatter", heap_scatter_cases},
    {"driver", heap_driver_cases}, {"churn", heap_churn_cases}, {"fill", heap_fill_cases},
    {"rounds", heap_round_cases},  {"grow", heap_grow_cases},   {"threads", heap_thread_cases}};

enum { HEAP_CASES = sizeof heap_cases / sizeof heap_cases[0] };

const char *bench_heap_case(size_t index) {
    return index < HEAP_CASES ? heap_cases[index].name : NULL;
}

int bench_heap(struct bench *bench) {
    struct heap_bench b = {.bench = bench,
                           .device = bench_device(bench),
                           .drv = bench_driver(bench),
                           .info = {.struct_size = sizeof b.info},
                           .is_quick = bench_is_quick(bench)};
    const char *lacks = NULL;
    b.is_soft = b.drv->is_soft;
    if (acre_device_get_info(b.device, &b.info) || !heap_open(&b, &lacks)) {
        return 1;
    }
    if (lacks) {
        cli_say("suite heap skipped: %s", lacks);
        return 0;
    }
    for (size_t i = 0; i < HEAP_CASES; i++) {
        if (!bench_is_case_wanted(bench, heap_cases[i].name)) {
            continue;
        }
        if (acre_device_get_info(b.device, &b.info) || !heap_cases[i].run(&b)) {
            return 1; /* without cleaning up: more calls could replace the detail */
        }
    }
    return !heap_close(&b);
}
