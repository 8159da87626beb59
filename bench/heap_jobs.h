/* The kernels of `acre bench heap`, written once: for nvcc (heap_kernels_acre.cu and
 * heap_kernels_driver.cu) and for the soft device (heap_soft.c).
 *
 * Every kernel has one argument, a job. Kernels that allocate or free are compiled once per party,
 * which is a constant in them, so that no party pays for the choice. Fields of the job bound all
 * loops. acre/heap/base.h defines atomics and warp functions for both compilers. */
#ifndef ACRE_BENCH_HEAP_JOBS_H
#define ACRE_BENCH_HEAP_JOBS_H

#include "acre_heap.h"

/* The allocators. */
enum heap_party {
    HEAP_ACRE,
    HEAP_FLOOR,  /* none: a thread computes the address of its block */
    HEAP_BUMP,   /* bump pointer: one atomic per warp on one word; cannot free */
    HEAP_DRIVER, /* CUDA's own malloc and free */
    HEAP_PARTIES
};

/* The counts of kernels, in device memory. */
enum heap_count {
    HEAP_NULLS,               /* requests that got NULL */
    HEAP_DAMAGED,             /* threads that found overwritten contents */
    HEAP_ODD,                 /* blocks that are not aligned to 16 bytes */
    HEAP_STRAY,               /* blocks outside of their memory */
    HEAP_WRONGS,              /* the counts above are errors, except NULL from a full heap */
    HEAP_TAKEN = HEAP_WRONGS, /* blocks allocated */
    HEAP_GIVEN,               /* blocks freed */
    HEAP_KEPT,                /* blocks that rounds do not free */
    HEAP_END,                 /* 1 + the round in which a thread got NULL; 0: none yet */
    HEAP_LONGEST,             /* longest time in malloc until NULL, in nanoseconds */
    HEAP_COUNTS
};

enum { HEAP_BLOCK_THREADS = 256, HEAP_MIXED_LEAST = 16, HEAP_MIXED_MOST = 4096 };

struct heap_job {
    acre_heap_handle heap; /* of acre; zero for other parties */
    char *plane;           /* memory of floor and bump */
    uint64_t plane_bytes;
    uint64_t *bumped; /* bytes of the plane that bump has allocated */
    void **at;        /* the block of each thread; heap_do_fill uses two words per thread */
    void **kept;      /* blocks that rounds keep */
    uint64_t *counts; /* HEAP_COUNTS */
    uint64_t threads; /* a power of two for rounds */
    uint64_t stride;  /* floor: distance of two blocks */
    uint32_t bytes;   /* of a block; 0: mixed */
    uint32_t rounds;  /* churn: blocks per thread, one after the other; fill: live at most */
    uint32_t round;   /* number of this launch */
    uint32_t hold_ns;
    uint32_t is_scattered; /* free: threads free blocks of others, all over the heap; needs a power
                              of two of threads */
};

#ifdef __CUDACC__
#define HEAP_FN static __device__ __forceinline__
#define HEAP_KERNEL(name, call)                                                                    \
    extern "C" __global__ void __launch_bounds__(HEAP_BLOCK_THREADS)                               \
        heap_##name(const struct heap_job job) {                                                   \
        call(&job);                                                                                \
    }
#define HEAP_PARTY_KERNEL(name, party, number)                                                     \
    extern "C" __global__ void __launch_bounds__(HEAP_BLOCK_THREADS)                               \
        heap_##name##_##party(const struct heap_job job) {                                         \
        heap_do_##name(&job, number);                                                              \
    }
#define HEAP_INDEX() (blockIdx.x * (uint64_t)blockDim.x + threadIdx.x)
#else
#define HEAP_FN ACRE__HEAP_FN
#define HEAP_KERNEL(name, call)                                                                    \
    static void heap_##name(void *arg) {                                                           \
        call(arg);                                                                                 \
    }
#define HEAP_PARTY_KERNEL(name, party, number)                                                     \
    static void heap_##name##_##party(void *arg) {                                                 \
        heap_do_##name(arg, number);                                                               \
    }
#define HEAP_INDEX()                                                                               \
    (acre_soft_block_index(0) * (uint64_t)acre_soft_block_size(0) + acre_soft_thread_index(0))
#endif

/* Kernels that are compiled for each party. */
#define HEAP_PARTY_KERNELS(X, party, number)                                                       \
    X(alloc, party, number)                                                                        \
    X(free, party, number)                                                                         \
    X(churn, party, number)                                                                        \
    X(fill, party, number)                                                                         \
    X(drain, party, number)

#define HEAP_ALL_PARTIES(X)                                                                        \
    HEAP_PARTY_KERNELS(X, acre, HEAP_ACRE)                                                         \
    HEAP_PARTY_KERNELS(X, floor, HEAP_FLOOR)                                                       \
    HEAP_PARTY_KERNELS(X, bump, HEAP_BUMP)                                                         \
    HEAP_PARTY_KERNELS(X, driver, HEAP_DRIVER)

/* Kernels of rounds, in which floor and driver do not take part. */
#define HEAP_ROUND_KERNELS(X, party, number)                                                       \
    X(round_take, party, number)                                                                   \
    X(round_give, party, number)                                                                   \
    X(round_end, party, number)

#define HEAP_ALL_ROUNDS(X)                                                                         \
    HEAP_ROUND_KERNELS(X, acre, HEAP_ACRE)                                                         \
    HEAP_ROUND_KERNELS(X, bump, HEAP_BUMP)

#define HEAP_COMMON_KERNELS(X)                                                                     \
    X(null, heap_do_null)                                                                          \
    X(hold, heap_do_hold)                                                                          \
    X(paint, heap_do_paint)                                                                        \
    X(check, heap_do_check)

/* ---- random sizes ---- */

HEAP_FN uint32_t heap_hash(uint64_t i) {
    uint32_t x = (uint32_t)i ^ (uint32_t)(i >> 32) * 0x9e3779b9u;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* Returns the size of the i-th block. */
HEAP_FN uint32_t heap_bytes_of(const struct heap_job *job, uint64_t i) {
    if (job->bytes)
        return job->bytes;
    return HEAP_MIXED_LEAST + heap_hash(i) % (HEAP_MIXED_MOST - HEAP_MIXED_LEAST + 1);
}

/* ---- one block of each party ---- */

/* Returns the sum of `mine` over the lower lanes of the mask; *all gets the sum over all lanes. */
HEAP_FN uint64_t heap_sum_below(uint32_t mask, uint64_t mine, uint64_t *all) {
    uint64_t below = 0;
    *all = 0;
    if (mask == 0xffffffffu) { /* a prefix sum in five steps */
        uint32_t lane = acre__heap_lane();
        uint64_t sum = mine;
        for (uint32_t step = 1; step < 32; step *= 2) {
            uint64_t other = acre__heap_shfl(mask, sum, lane >= step ? lane - step : lane);
            sum += lane >= step ? other : 0;
        }
        *all = acre__heap_shfl(mask, sum, 31);
        return sum - mine;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        uint32_t from = acre__heap_ctz32(left);
        uint64_t part = acre__heap_shfl(mask, mine, from);
        below += from < acre__heap_lane() ? part : 0;
        *all += part;
    }
    return below;
}

HEAP_FN void *heap_bump(const struct heap_job *job, uint32_t bytes) {
    uint32_t mask = acre__heap_active(), leader = acre__heap_ctz32(mask);
    uint64_t mine = (bytes + 15u) & ~15u, below, all, begin = 0;
    if (job->bytes) { /* all sizes are equal */
        below = mine * acre__heap_popc32(mask & ((1u << acre__heap_lane()) - 1));
        all = mine * acre__heap_popc32(mask);
    } else {
        below = heap_sum_below(mask, mine, &all);
    }
    if (acre__heap_lane() == leader)
        begin = acre__heap_add64(job->bumped, all, relaxed);
    below += acre__heap_shfl(mask, begin, leader);
    return below + mine <= job->plane_bytes ? job->plane + below : NULL;
}

/* Allocates a block. `place` is the position of the floor's block, in strides. */
HEAP_FN void *heap_take(const struct heap_job *job, uint32_t party, uint64_t place,
                        uint32_t bytes) {
    if (party == HEAP_ACRE)
        return acre_heap_malloc(job->heap, bytes);
    if (party == HEAP_BUMP)
        return heap_bump(job, bytes);
#ifdef HEAP_WITH_DRIVER
    if (party == HEAP_DRIVER)
        return malloc(bytes);
#endif
    return job->plane + place * job->stride;
}

HEAP_FN void heap_give(const struct heap_job *job, uint32_t party, void *p) {
    if (party == HEAP_ACRE)
        acre_heap_free(job->heap, p);
#ifdef HEAP_WITH_DRIVER
    else if (party == HEAP_DRIVER)
        free(p);
#endif
    else if ((uintptr_t)p == 1) /* never true, but makes the kernel read the pointer */
        job->counts[HEAP_STRAY] = 1;
}

/* ---- alloc: a block for each thread ---- */

HEAP_FN void heap_do_alloc(const struct heap_job *job, uint32_t party) {
    uint64_t i = HEAP_INDEX();
    if (i >= job->threads)
        return;
    uint32_t *p = (uint32_t *)heap_take(job, party, i, heap_bytes_of(job, i));
    job->at[i] = p;
    if (p)
        *p = (uint32_t)i; /* as programs do with new memory */
}

HEAP_FN void heap_do_free(const struct heap_job *job, uint32_t party) {
    uint64_t i = HEAP_INDEX();
    if (i >= job->threads)
        return;
    if (job->is_scattered) /* an odd factor reaches every block once */
        i = i * 0x9e3779b1u & (job->threads - 1);
    heap_give(job, party, job->at[i]);
}

/* Allocates from a full heap and records the longest call that returned NULL. */
HEAP_FN void heap_do_null(const struct heap_job *job) {
    uint64_t i = HEAP_INDEX();
    if (i >= job->threads)
        return;
    uint64_t begin = acre__heap_time_ns();
    void *p = acre_heap_malloc(job->heap, heap_bytes_of(job, i));
    uint64_t took = acre__heap_time_ns() - begin;
    job->at[i] = p;
    uint64_t longest = acre__heap_load64(&job->counts[HEAP_LONGEST], relaxed);
    while (!p && took > longest &&
           !acre__heap_cas64(&job->counts[HEAP_LONGEST], &longest, took, relaxed)) {
    }
}

/* ---- contents: one kernel writes all words of all blocks, a second one checks them ---- */

HEAP_FN uint32_t heap_word(uint64_t i, uint32_t k) {
    return (uint32_t)i * 0x9e3779b1u + k * 0x85ebca77u + (uint32_t)(i >> 32);
}

/* Whether the whole block is in the memory of its party. The location of CUDA's heap is unknown. */
HEAP_FN int heap_is_inside(const struct heap_job *job, const char *p, uint32_t bytes) {
    if (job->heap.base)
        return acre_heap_owns(job->heap, p) && acre_heap_owns(job->heap, p + bytes - 1);
    return !job->plane || (p >= job->plane && p + bytes <= job->plane + job->plane_bytes);
}

/* Writes or checks a block. All lanes of a warp work on the block of one lane after the other, for
 * coalesced access. */
HEAP_FN uint32_t heap_walk(const struct heap_job *job, uint64_t i, int paints) {
    uint32_t mask = acre__heap_active(), wrong = 0, lanes = acre__heap_popc32(mask);
    uint32_t rank = acre__heap_popc32(mask & ((1u << acre__heap_lane()) - 1));
    uint64_t mine = (uintptr_t)job->at[i];
    for (uint32_t left = mask; left; left &= left - 1) {
        uint32_t from = acre__heap_ctz32(left);
        uint64_t who = acre__heap_shfl(mask, i, from);
        uint32_t *p = (uint32_t *)(uintptr_t)acre__heap_shfl(mask, mine, from);
        uint32_t bytes = heap_bytes_of(job, who);
        uint32_t words = p && heap_is_inside(job, (char *)p, bytes) ? bytes / 4 : 0;
        for (uint32_t k = rank; k < words; k += lanes) {
            if (paints)
                p[k] = heap_word(who, k);
            else
                wrong += p[k] != heap_word(who, k);
        }
    }
    return wrong;
}

HEAP_FN void heap_do_paint(const struct heap_job *job) {
    uint64_t i = HEAP_INDEX();
    if (i < job->threads)
        (void)heap_walk(job, i, 1);
}

HEAP_FN void heap_count(const struct heap_job *job, enum heap_count what, uint64_t n) {
    if (n)
        acre__heap_add64(&job->counts[what], n, relaxed);
}

HEAP_FN void heap_do_check(const struct heap_job *job) {
    uint64_t i = HEAP_INDEX();
    if (i >= job->threads)
        return;
    uint32_t wrong = heap_walk(job, i, 0); /* first, before the lanes diverge */
    const char *p = (const char *)job->at[i];
    heap_count(job, HEAP_NULLS, !p);
    heap_count(job, HEAP_STRAY, p && !heap_is_inside(job, p, heap_bytes_of(job, i)));
    heap_count(job, HEAP_ODD, (uintptr_t)p % 16 != 0);
    heap_count(job, HEAP_DAMAGED, wrong != 0);
}

/* ---- churn: allocate, use and free a block, many times ---- */

HEAP_FN void heap_do_churn(const struct heap_job *job, uint32_t party) {
    uint64_t i = HEAP_INDEX();
    uint32_t nulls = 0, damaged = 0;
    if (i >= job->threads)
        return;
    for (uint32_t k = 0; k < job->rounds; k++) {
        uint64_t which = i + k * job->threads;
        volatile uint32_t *p =
            (volatile uint32_t *)heap_take(job, party, i, heap_bytes_of(job, which));
        if (p) {
            *p = (uint32_t)which;
            damaged += *p != (uint32_t)which;
            heap_give(job, party, (void *)(uintptr_t)p);
        }
        nulls += !p;
    }
    heap_count(job, HEAP_NULLS, nulls);
    heap_count(job, HEAP_DAMAGED, damaged);
}

/* ---- fill and drain: allocate until the memory is full, then free all ----
 *
 * A thread keeps its blocks in a linked list. Each block has its number at its start and at its
 * end. */

struct heap_link {
    struct heap_link *next;
    uint64_t number;
};

HEAP_FN uint64_t *heap_last(struct heap_link *p, uint32_t bytes) {
    return (uint64_t *)p + bytes / 8 - 1;
}

HEAP_FN void heap_do_fill(const struct heap_job *job, uint32_t party) {
    uint64_t i = HEAP_INDEX();
    struct heap_link *chain = NULL;
    uint32_t k = 0;
    if (i >= job->threads)
        return;
    for (; k < job->rounds; k++) {
        uint64_t which = i + k * job->threads;
        uint32_t bytes = heap_bytes_of(job, which);
        struct heap_link *p = (struct heap_link *)heap_take(job, party, which, bytes);
        if (!p)
            break;
        p->next = chain;
        p->number = which;
        *heap_last(p, bytes) = which;
        chain = p;
    }
    job->at[i] = chain;
    job->at[job->threads + i] = (void *)(uintptr_t)k;
    heap_count(job, HEAP_TAKEN, k);
    heap_count(job, HEAP_NULLS, k < job->rounds);
}

HEAP_FN void heap_do_drain(const struct heap_job *job, uint32_t party) {
    uint64_t i = HEAP_INDEX();
    if (i >= job->threads)
        return;
    struct heap_link *p = (struct heap_link *)job->at[i];
    uint32_t k = (uint32_t)(uintptr_t)job->at[job->threads + i], damaged = 0, stray = 0, odd = 0;
    for (uint32_t left = k; left > 0; left--) {
        uint64_t which = i + (left - 1) * job->threads;
        uint32_t bytes = heap_bytes_of(job, which);
        if (!p || !heap_is_inside(job, (char *)p, bytes)) {
            stray = 1; /* an overwritten link can point anywhere */
            break;
        }
        struct heap_link *next = p->next;
        damaged += p->number != which || *heap_last(p, bytes) != which;
        odd += (uintptr_t)p % 16 != 0;
        heap_give(job, party, p);
        p = next;
    }
    heap_count(job, HEAP_STRAY, stray || p);
    heap_count(job, HEAP_DAMAGED, damaged);
    heap_count(job, HEAP_ODD, odd);
    heap_count(job, HEAP_GIVEN, k);
}

/* ---- rounds: a block for each thread, of which one in sixteen is kept ----
 *
 * The first NULL ends the rounds: later launches are no-ops, so that many can be queued, and live
 * blocks stay live. */

HEAP_FN void heap_do_round_take(const struct heap_job *job, uint32_t party) {
    uint64_t i = HEAP_INDEX(), end = acre__heap_load64(&job->counts[HEAP_END], relaxed);
    if (i >= job->threads || (end && end != job->round + UINT64_C(1)))
        return;
    uint32_t mask = acre__heap_active();
    struct heap_link *p = end ? NULL : (struct heap_link *)heap_take(job, party, i, job->bytes);
    job->at[i] = p;
    if (p) {
        uint64_t number = (uint64_t)job->round << 32 | i;
        p->number = number;
        *heap_last(p, job->bytes) = number;
    } else {
        acre__heap_store64(&job->counts[HEAP_END], job->round + UINT64_C(1), relaxed);
    }
    uint32_t taken = acre__heap_popc32(acre__heap_ballot(mask, p != NULL));
    if (acre__heap_lane() == acre__heap_ctz32(mask))
        heap_count(job, HEAP_TAKEN, taken);
}

/* Frees the block of another thread, so that frees come in a different order. */
HEAP_FN void heap_do_round_give(const struct heap_job *job, uint32_t party) {
    uint64_t i = HEAP_INDEX();
    if (i >= job->threads || acre__heap_load64(&job->counts[HEAP_END], relaxed))
        return;
    uint64_t other = (i * 40503u + job->round * UINT64_C(7919)) & (job->threads - 1);
    uint32_t mask = acre__heap_active(), leader = acre__heap_ctz32(mask);
    void *p = job->at[other];
    int is_kept = heap_hash((uint64_t)job->round << 32 | other) % 16 == 0;
    uint32_t kept = acre__heap_ballot(mask, is_kept);
    uint64_t place = 0;
    if (acre__heap_lane() == leader) {
        heap_count(job, HEAP_GIVEN, acre__heap_popc32(mask & ~kept));
        place = acre__heap_add64(&job->counts[HEAP_KEPT], acre__heap_popc32(kept), relaxed);
    }
    place = acre__heap_shfl(mask, place, leader);
    if (is_kept)
        job->kept[place + acre__heap_popc32(kept & ((1u << acre__heap_lane()) - 1))] = p;
    else
        heap_give(job, party, p);
}

/* Checks and frees the kept blocks, one per thread. */
HEAP_FN void heap_do_round_end(const struct heap_job *job, uint32_t party) {
    uint64_t i = HEAP_INDEX();
    if (i >= job->threads)
        return;
    struct heap_link *p = (struct heap_link *)job->kept[i];
    if (!heap_is_inside(job, (char *)p, job->bytes)) {
        heap_count(job, HEAP_STRAY, 1);
        return;
    }
    heap_count(job, HEAP_DAMAGED, p->number != *heap_last(p, job->bytes));
    heap_count(job, HEAP_ODD, (uintptr_t)p % 16 != 0);
    heap_give(job, party, p);
}

/* ---- hold: a pause in which the host queues the following work ---- */

HEAP_FN void heap_do_hold(const struct heap_job *job) {
    uint64_t begin = acre__heap_time_ns();
    for (uint32_t i = 0; i < 1000000 && acre__heap_time_ns() - begin < job->hold_ns; i++) {
    }
}

#endif
