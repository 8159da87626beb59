/* Shared by bench_pool.c and pool_*.c: the parties, and their calls to allocate and free a block.
 *
 * The calls are inline and each loop is compiled once per party, so that no party pays for the
 * choice between them. */
#ifndef ACRE_BENCH_POOL_PARTIES_H
#define ACRE_BENCH_POOL_PARTIES_H

#include <stdlib.h>

#include "bench.h"

/* In the order of their turns. */
enum pool_party {
    POOL_ACRE,
    POOL_DRIVER, /* cuMemAllocAsync, cuMemFreeAsync */
    POOL_MALLOC, /* glibc, which has no streams */
    POOL_PARTIES
};

enum {
    POOL_STREAMS = 16,      /* also the limit of threads */
    POOL_MALLOC_BYTES = 64, /* of malloc's block if the size is not part of the comparison */
    POOL_BLOCK_BYTES = 65536
};

struct pool_bench {
    struct bench *bench;
    acre_device *device;
    const struct acre__driver *drv;
    CUcontext context; /* of the device, for threads */
    acre_device_info info;
    acre_pool *pool;
    acre_stream streams[POOL_STREAMS];
    unsigned threads; /* limit by the machine's cores */
    enum pool_party parties[POOL_PARTIES];
    unsigned party_count;
};

const char *pool_who(enum pool_party party);

/* Writes the parties of a case into `parties`: all that are available, with or without malloc.
 * Returns their number. */
unsigned pool_parties(const struct pool_bench *p, bool with_malloc,
                      enum pool_party parties[POOL_PARTIES]);

/* Returns the number of repetitions in a turn: `count`, or a hundredth of it in a quick run. */
uint64_t pool_count(const struct pool_bench *p, uint64_t count);

/* Returns 1 if the device has that much free memory; else 0 after the message that the case is
 * skipped. */
int pool_has_room(const struct pool_bench *p, const char *name, uint64_t bytes);

/* Return a random integer, and a random number from 0 to below 1. */
uint64_t pool_random(uint64_t *state);
double pool_random_share(uint64_t *state);

/* ---- cases in other files: each returns 0 on failure ---- */

int pool_thread_cases(struct pool_bench *p); /* pool_threads.c */
int pool_cross_thread(struct pool_bench *p);
int pool_handover(struct pool_bench *p);
int pool_frag(struct pool_bench *p);        /* pool_frag.c */
int pool_drift(struct pool_bench *p);       /* pool_drift.c */
int pool_trace_cases(struct pool_bench *p); /* pool_trace.c */
int pool_idle(struct pool_bench *p);        /* pool_held.c */
int pool_survivors(struct pool_bench *p);
int pool_drift_sizes(struct pool_bench *p);  /* part of the case drift */
int pool_many_streams(struct pool_bench *p); /* pool_many.c */
int pool_trim_case(struct pool_bench *p);
int pool_use(struct pool_bench *p); /* pool_use.c */

/* ---- one block ---- */

#define POOL_INLINE static inline __attribute__((always_inline))

/* Allocates a block. Returns NULL on failure. */
POOL_INLINE void *pool_alloc(const struct pool_bench *p, enum pool_party party, size_t bytes,
                             acre_stream stream) {
    void *block = NULL;
    CUdeviceptr at = 0;
    switch (party) {
    case POOL_ACRE:
        (void)acre_pool_alloc(p->pool, bytes, 0, stream, &block);
        return block;
    case POOL_DRIVER:
        return p->drv->cuMemAllocAsync(&at, bytes, stream) ? NULL : (void *)(uintptr_t)at;
    default:
        block = malloc(bytes);
        __asm__ volatile("" : : "r"(block) : "memory"); /* keeps malloc from being removed */
        return block;
    }
}

/* Frees a block. Returns 0 on failure. */
POOL_INLINE int pool_free(const struct pool_bench *p, enum pool_party party, void *block,
                          acre_stream stream) {
    switch (party) {
    case POOL_ACRE:
        return acre_pool_free(p->pool, block, stream) == ACRE_OK;
    case POOL_DRIVER:
        return p->drv->cuMemFreeAsync((CUdeviceptr)(uintptr_t)block, stream) == CUDA_SUCCESS;
    default:
        free(block);
        return 1;
    }
}

/* Calls the copy of a loop that is compiled for one party, with the party as its last argument. */
#define POOL_EACH(party, loop, ...)                                                                \
    ((party) == POOL_ACRE     ? loop(__VA_ARGS__, POOL_ACRE)                                       \
     : (party) == POOL_DRIVER ? loop(__VA_ARGS__, POOL_DRIVER)                                     \
                              : loop(__VA_ARGS__, POOL_MALLOC))

/* Allocates and frees a block `count` times. */
POOL_INLINE int pool_pairs(const struct pool_bench *p, size_t bytes, acre_stream stream,
                           uint64_t count, enum pool_party party) {
    if (party == POOL_MALLOC) {
        bytes = POOL_MALLOC_BYTES;
    }
    for (uint64_t i = 0; i < count; i++) {
        void *block = pool_alloc(p, party, bytes, stream);
        if (!block || !pool_free(p, party, block, stream)) {
            return 0;
        }
    }
    return 1;
}

#endif
