/* The arguments of the heap tests' kernels, and macros to write each kernel once for two targets.
 * nvcc compiles them for a GPU (heap_kernels.cu); a C compiler compiles them for the soft device
 * (heap_world.c). So the code that runs on the GPU is also tested on every machine. */
#ifndef ACRE_TESTS_GPU_HEAP_JOB_H
#define ACRE_TESTS_GPU_HEAP_JOB_H

#include "acre_heap.h"

enum {
    HEAP_NULLS,   /* requests that got NULL */
    HEAP_WRONG,   /* checks that failed */
    HEAP_WHERE,   /* the first of them: line << 32 | thread */
    HEAP_BLOCKS,  /* blocks allocated */
    HEAP_NULL_NS, /* longest time until a request returned NULL */
    HEAP_COUNTS = 16
};

/* The kernels' argument, passed by value. */
struct heap_job {
    acre_heap_handle h, other;
    uint64_t *at;       /* a block for each thread, or a list of them */
    uint64_t *more;     /* a second table like `at` */
    uint64_t *counts;   /* HEAP_COUNTS */
    uint32_t threads;   /* threads that take part: a power of two */
    uint32_t lanes;     /* lanes of a warp, 1 or 32 */
    uint32_t salt;      /* makes rounds differ */
    uint32_t is_log;    /* 1: small sizes are as likely as large ones */
    uint64_t low, high; /* bytes of a block */
    uint64_t most;      /* blocks for a thread */
};

#ifdef __CUDACC__
#define HEAP_KERNEL(name)                                                                          \
    static __device__ void name##_body(const struct heap_job *job);                                \
    extern "C" __global__ void name(const __grid_constant__ struct heap_job job) {                 \
        name##_body(&job);                                                                         \
    }                                                                                              \
    static __device__ void name##_body(const struct heap_job *job)
/* Declares a word in the block's shared memory. */
#define HEAP_SHARED(name)                                                                          \
    __shared__ void *name##_shared;                                                                \
    void **name = &name##_shared
#define HEAP_SHARED_ARENA(name)                                                                    \
    __shared__ acre_heap_block_arena name##_shared;                                                \
    acre_heap_block_arena *name = &name##_shared
#define heap_index() (blockIdx.x * blockDim.x + threadIdx.x)
#else
#define HEAP_KERNEL(name)                                                                          \
    static void name##_body(const struct heap_job *job);                                           \
    static void name(void *arg) {                                                                  \
        name##_body((const struct heap_job *)arg);                                                 \
    }                                                                                              \
    static void name##_body(const struct heap_job *job)
#define HEAP_SHARED(name) void **name = (void **)acre_soft_shared()
#define HEAP_SHARED_ARENA(name)                                                                    \
    acre_heap_block_arena *name = (acre_heap_block_arena *)acre_soft_shared()
#define heap_index()                                                                               \
    (acre_soft_block_index(0) * acre_soft_block_size(0) + acre_soft_thread_index(0))
#endif

ACRE__HEAP_FN void heap_count(const struct heap_job *job, uint32_t which, uint64_t n) {
    (void)acre__heap_add64(&job->counts[which], n, relaxed);
}

/* Counts a failed check and records the line and thread of the first one, so that one run on a GPU
 * suffices to find it. */
#define HEAP_CHECK(is_right)                                                                       \
    do {                                                                                           \
        if (!(is_right))                                                                           \
            heap_wrong(job, __LINE__);                                                             \
    } while (0)

ACRE__HEAP_SLOW void heap_wrong(const struct heap_job *job, uint32_t line) {
    uint64_t none = 0;
    (void)acre__heap_cas64(&job->counts[HEAP_WHERE], &none, (uint64_t)line << 32 | heap_index(),
                           relaxed);
    heap_count(job, HEAP_WRONG, 1);
}

ACRE__HEAP_FN void heap_longest(uint64_t *word, uint64_t ns) {
    uint64_t old = acre__heap_load64(word, relaxed);
    while (old < ns && !acre__heap_cas64(word, &old, ns, relaxed))
        ;
}

ACRE__HEAP_FN uint64_t heap_mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

ACRE__HEAP_FN uint64_t heap_random(const struct heap_job *job, uint64_t i) {
    return heap_mix(i << 32 | job->salt);
}

/* Returns the size of block i, between low and high. */
ACRE__HEAP_FN uint64_t heap_bytes(const struct heap_job *job, uint64_t i) {
    uint64_t r = heap_random(job, i), high = job->high;
    if (job->is_log)
        high >>= r >> 56 & 15;
    return high <= job->low ? job->low : job->low + (r & 0xffffffffffffu) % (high - job->low + 1);
}

/* Returns the index of another thread. Different threads get different partners. */
ACRE__HEAP_FN uint32_t heap_partner(const struct heap_job *job, uint32_t i) {
    return (i * 2654435761u + job->salt * 40503u) & (job->threads - 1);
}

/* ---- contents: words that differ from those of every other block ---- */

/* Unless is_whole is set, a block gets only this many words at either end. */
#define HEAP_ENDS 1024u

ACRE__HEAP_FN uint64_t heap_skip(uint64_t words, uint64_t k, uint32_t is_whole) {
    return !is_whole && words > 2 * HEAP_ENDS && k == HEAP_ENDS ? words - HEAP_ENDS : k;
}

ACRE__HEAP_FN void heap_write(uint64_t *p, uint64_t bytes, uint64_t owner, uint32_t is_whole) {
    uint64_t words = bytes / 8, seed = heap_mix(owner);
    for (uint64_t k = 0; k < words; k = heap_skip(words, k + 1, is_whole))
        p[k] = seed + k;
}

ACRE__HEAP_FN int heap_is_right(const uint64_t *p, uint64_t bytes, uint64_t owner,
                                uint32_t is_whole) {
    uint64_t words = bytes / 8, seed = heap_mix(owner), different = 0;
    for (uint64_t k = 0; k < words; k = heap_skip(words, k + 1, is_whole))
        different |= p[k] ^ (seed + k);
    return different == 0;
}

#endif
