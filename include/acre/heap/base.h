/* What the heap needs of the processor it runs on: atomics with their order, and the lanes of a
 * warp. Part of acre_heap.h, not to be included by itself.
 *
 * Compiled by nvcc these are PTX instructions of device scope and the warp intrinsics; elsewhere
 * the compiler's atomics and the lanes of acre/soft.h, which for a plain thread are a warp of one.
 * An order is a word of the call (relaxed, acquire, release, acq_rel), so that one line of the heap
 * says the same on both. In test builds every atomic is a point where the seeded scheduler may let
 * another virtual thread run. */
#ifndef ACRE_HEAP_BASE_H
#define ACRE_HEAP_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__

#define ACRE__HEAP_FN static __device__ inline
/* Ways that are seldom taken are called, so that the common one keeps few registers. That alone
 * does not do it: ptxas adds up the registers of a chain of direct calls (170 for malloc). Where
 * the first of a chain is called by its address (ACRE__HEAP_APART), each of them saves what it
 * needs, and a kernel has the most that one of them takes. But what one lane saves takes the room
 * of a whole warp in the cache, so that a chain of three costs more than all that it does: ways
 * that are taken now and then are one call deep. */
#define ACRE__HEAP_SLOW static __device__ __noinline__
#define ACRE__HEAP_APART(type, name, function) type volatile name = function

#define ACRE__HEAP_PTX_RMW(op, order, bits, letter)                                                \
    ACRE__HEAP_FN uint##bits##_t acre__heap_##op##bits##_##order(uint##bits##_t *p,                \
                                                                 uint##bits##_t v) {               \
        uint##bits##_t old;                                                                        \
        asm volatile("atom." #order ".gpu.global." ACRE__HEAP_PTX_##op #bits " %0, [%1], %2;"      \
                     : "=" letter(old)                                                             \
                     : "l"(p), letter(v)                                                           \
                     : "memory");                                                                  \
        return old;                                                                                \
    }
#define ACRE__HEAP_PTX_add "add.u"
#define ACRE__HEAP_PTX_and "and.b"
#define ACRE__HEAP_PTX_or "or.b"
#define ACRE__HEAP_PTX_exch "exch.b"
#define ACRE__HEAP_PTX_CAS(order, bits, letter)                                                    \
    ACRE__HEAP_FN int acre__heap_cas##bits##_##order(uint##bits##_t *p, uint##bits##_t *expected,  \
                                                     uint##bits##_t v) {                           \
        uint##bits##_t wanted = *expected;                                                         \
        asm volatile("atom." #order ".gpu.global.cas.b" #bits " %0, [%1], %2, %3;"                 \
                     : "=" letter(*expected)                                                       \
                     : "l"(p), letter(wanted), letter(v)                                           \
                     : "memory");                                                                  \
        return *expected == wanted;                                                                \
    }
#define ACRE__HEAP_PTX_LOAD(order, bits, letter)                                                   \
    ACRE__HEAP_FN uint##bits##_t acre__heap_load##bits##_##order(const uint##bits##_t *p) {        \
        uint##bits##_t v;                                                                          \
        asm volatile("ld." #order ".gpu.global.u" #bits " %0, [%1];"                               \
                     : "=" letter(v)                                                               \
                     : "l"(p)                                                                      \
                     : "memory");                                                                  \
        return v;                                                                                  \
    }
#define ACRE__HEAP_PTX_STORE(order, bits, letter)                                                  \
    ACRE__HEAP_FN void acre__heap_store##bits##_##order(uint##bits##_t *p, uint##bits##_t v) {     \
        asm volatile("st." #order ".gpu.global.u" #bits " [%0], %1;" ::"l"(p), letter(v)           \
                     : "memory");                                                                  \
    }
#define ACRE__HEAP_PTX_ALL(bits, letter)                                                           \
    ACRE__HEAP_PTX_RMW(add, relaxed, bits, letter)                                                 \
    ACRE__HEAP_PTX_RMW(add, acquire, bits, letter)                                                 \
    ACRE__HEAP_PTX_RMW(add, acq_rel, bits, letter)                                                 \
    ACRE__HEAP_PTX_RMW(or, relaxed, bits, letter)                                                  \
    ACRE__HEAP_PTX_RMW(or, acq_rel, bits, letter)                                                  \
    ACRE__HEAP_PTX_RMW(or, acquire, bits, letter)                                                  \
    ACRE__HEAP_PTX_RMW(or, release, bits, letter)                                                  \
    ACRE__HEAP_PTX_RMW(and, relaxed, bits, letter)                                                 \
    ACRE__HEAP_PTX_RMW(and, acq_rel, bits, letter)                                                 \
    ACRE__HEAP_PTX_RMW(and, acquire, bits, letter)                                                 \
    ACRE__HEAP_PTX_RMW(exch, acquire, bits, letter)                                                \
    ACRE__HEAP_PTX_RMW(exch, acq_rel, bits, letter)                                                \
    ACRE__HEAP_PTX_RMW(exch, relaxed, bits, letter)                                                \
    ACRE__HEAP_PTX_CAS(acquire, bits, letter)                                                      \
    ACRE__HEAP_PTX_CAS(acq_rel, bits, letter)                                                      \
    ACRE__HEAP_PTX_CAS(relaxed, bits, letter)                                                      \
    ACRE__HEAP_PTX_LOAD(relaxed, bits, letter)                                                     \
    ACRE__HEAP_PTX_LOAD(acquire, bits, letter)                                                     \
    ACRE__HEAP_PTX_STORE(relaxed, bits, letter)                                                    \
    ACRE__HEAP_PTX_STORE(release, bits, letter)
ACRE__HEAP_PTX_ALL(32, "r")
ACRE__HEAP_PTX_ALL(64, "l")

#define acre__heap_load32(p, order) acre__heap_load32_##order(p)
#define acre__heap_load64(p, order) acre__heap_load64_##order(p)
#define acre__heap_store32(p, v, order) acre__heap_store32_##order(p, v)
#define acre__heap_store64(p, v, order) acre__heap_store64_##order(p, v)
#define acre__heap_add32(p, v, order) acre__heap_add32_##order(p, v)
#define acre__heap_add64(p, v, order) acre__heap_add64_##order(p, v)
#define acre__heap_or32(p, v, order) acre__heap_or32_##order(p, v)
#define acre__heap_or64(p, v, order) acre__heap_or64_##order(p, v)
#define acre__heap_and32(p, v, order) acre__heap_and32_##order(p, v)
#define acre__heap_and64(p, v, order) acre__heap_and64_##order(p, v)
#define acre__heap_exch32(p, v, order) acre__heap_exch32_##order(p, v)
#define acre__heap_exch64(p, v, order) acre__heap_exch64_##order(p, v)
#define acre__heap_cas32(p, e, v, order) acre__heap_cas32_##order(p, e, v)
#define acre__heap_cas64(p, e, v, order) acre__heap_cas64_##order(p, e, v)

/* An atomic that has returned was performed, for the whole chip, what is done with its result comes
 * after it, and a fence has made what was written before it visible to all. So free memory needs
 * one fence, by whoever frees it, and none by those who take it, or pass it on from one word to the
 * next by atomics whose results they wait for: that order is called `chip`, and `chip_acquire`
 * where loads follow that do not depend on the result. Fences, and what they do to the caches, cost
 * far more than the atomics. Plain stores need one before what publishes them. Elsewhere the order
 * is the atomics' own. */
#define ACRE__HEAP_PTX_CHIP(op, bits)                                                              \
    ACRE__HEAP_FN uint##bits##_t acre__heap_##op##bits##_chip(uint##bits##_t *p,                   \
                                                              uint##bits##_t v) {                  \
        return acre__heap_##op##bits##_relaxed(p, v);                                              \
    }
ACRE__HEAP_PTX_CHIP(add, 64)
ACRE__HEAP_PTX_CHIP(or, 64)
ACRE__HEAP_PTX_CHIP(and, 64)
ACRE__HEAP_PTX_CHIP(or, 32)
ACRE__HEAP_PTX_CHIP(and, 32)
ACRE__HEAP_PTX_CHIP(exch, 32)
ACRE__HEAP_FN uint64_t acre__heap_and64_chip_acquire(uint64_t *p, uint64_t v) {
    return acre__heap_and64_acquire(p, v);
}
ACRE__HEAP_FN int acre__heap_cas64_chip(uint64_t *p, uint64_t *expected, uint64_t v) {
    return acre__heap_cas64_relaxed(p, expected, v);
}
ACRE__HEAP_FN void acre__heap_store64_chip(uint64_t *p, uint64_t v) {
    acre__heap_store64_relaxed(p, v);
}
ACRE__HEAP_FN void acre__heap_fence(void) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

/* A hint that rarely changes: may come from the multiprocessor's own cache. */
ACRE__HEAP_FN uint64_t acre__heap_hint64(const uint64_t *p) {
    uint64_t v;
    asm volatile("ld.relaxed.cta.global.u64 %0, [%1];" : "=l"(v) : "l"(p));
    return v;
}
ACRE__HEAP_FN uint32_t acre__heap_hint32(const uint32_t *p) {
    uint32_t v;
    asm volatile("ld.relaxed.cta.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

/* A word in the host's memory, mapped for the device. */
ACRE__HEAP_FN void acre__heap_tell_host(uint64_t *p, uint64_t v) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

ACRE__HEAP_FN uint64_t acre__heap_ask_host(const uint64_t *p) {
    uint64_t v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

ACRE__HEAP_FN uint32_t acre__heap_lane(void) {
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

ACRE__HEAP_FN uint32_t acre__heap_sm(void) {
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

ACRE__HEAP_FN uint32_t acre__heap_warp(void) {
    uint32_t warp;
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    return warp;
}

#define acre__heap_active() __activemask()
#define acre__heap_ballot(mask, predicate) (__ballot_sync(mask, predicate) & (mask))
#define acre__heap_syncwarp(mask) __syncwarp(mask)
#define acre__heap_match(mask, value) (__match_any_sync(mask, (unsigned)(value)) & (mask))
#define acre__heap_shfl(mask, value, lane)                                                         \
    ((uint64_t)__shfl_sync(mask, (unsigned long long)(value), (int)(lane)))
#define acre__heap_barrier() __syncthreads()
#define acre__heap_popc32(x) ((uint32_t)__popc(x))
#define acre__heap_popc64(x) ((uint32_t)__popcll(x))
#define acre__heap_ctz32(x) ((uint32_t)__ffs((int)(x)) - 1u)
#define acre__heap_ctz64(x) ((uint32_t)__ffsll((long long)(x)) - 1u)
#define acre__heap_log2(x) (31u - (uint32_t)__clz((int)(x)))
#define acre__heap_time_ns() acre__heap_timer()
#define acre__heap_pause(tries) __nanosleep((tries) < 6 ? 32u << (tries) : 2048u)

/* Which thread of its block, and of how many. */
ACRE__HEAP_FN uint32_t acre__heap_thread(void) {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
ACRE__HEAP_FN uint32_t acre__heap_threads(void) {
    return blockDim.x * blockDim.y * blockDim.z;
}

ACRE__HEAP_FN uint64_t acre__heap_timer(void) {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

/* All bits of the lanes in `peers`, which all call this. */
ACRE__HEAP_FN uint64_t acre__heap_union(uint32_t peers, uint64_t bits) {
#if __CUDA_ARCH__ >= 800
    uint32_t low = __reduce_or_sync(peers, (uint32_t)bits);
    uint32_t high = __reduce_or_sync(peers, (uint32_t)(bits >> 32));
    return (uint64_t)high << 32 | low;
#else
    uint64_t all = 0;
    for (uint32_t left = peers; left; left &= left - 1)
        all |= acre__heap_shfl(peers, bits, acre__heap_ctz32(left));
    return all;
#endif
}

#else /* not nvcc */

#include <time.h>

#include "../soft.h"

/* Not every program uses every function, and a header cannot know. */
#define ACRE__HEAP_FN __attribute__((unused)) static inline
#define ACRE__HEAP_SLOW __attribute__((unused)) static
#define ACRE__HEAP_APART(type, name, function) type name = function

#ifdef ACRE_TEST_POINTS
#ifdef __cplusplus
extern "C"
#endif
    void
    acre__sched_point(void);
#define ACRE__HEAP_POINT() acre__sched_point()
#else
#define ACRE__HEAP_POINT() ((void)0)
#endif

#define ACRE__HEAP_ORDER_relaxed __ATOMIC_RELAXED
#define ACRE__HEAP_ORDER_acquire __ATOMIC_ACQUIRE
#define ACRE__HEAP_ORDER_release __ATOMIC_RELEASE
#define ACRE__HEAP_ORDER_acq_rel __ATOMIC_ACQ_REL
#define ACRE__HEAP_ORDER_chip __ATOMIC_ACQ_REL
#define ACRE__HEAP_ORDER_chip_acquire __ATOMIC_ACQ_REL
#define acre__heap_fence() ((void)0)
/* What a compare-and-swap that failed has seen is used, so it is an acquire where that matters. */
#define ACRE__HEAP_FAILED_relaxed __ATOMIC_RELAXED
#define ACRE__HEAP_FAILED_acquire __ATOMIC_ACQUIRE
#define ACRE__HEAP_FAILED_acq_rel __ATOMIC_ACQUIRE
#define ACRE__HEAP_FAILED_chip __ATOMIC_ACQUIRE

#define acre__heap_load32(p, order)                                                                \
    (ACRE__HEAP_POINT(), __atomic_load_n(p, ACRE__HEAP_ORDER_##order))
#define acre__heap_load64(p, order) acre__heap_load32(p, order)
#define acre__heap_store32(p, v, order)                                                            \
    (ACRE__HEAP_POINT(), __atomic_store_n(p, v, ACRE__HEAP_ORDER_##order))
#define acre__heap_store64(p, v, order) acre__heap_store64_##order(p, v)
#define acre__heap_store64_relaxed(p, v) acre__heap_store32(p, v, relaxed)
#define acre__heap_store64_release(p, v) acre__heap_store32(p, v, release)
#define acre__heap_store64_chip(p, v) acre__heap_store32(p, v, release)
#define acre__heap_add32(p, v, order)                                                              \
    (ACRE__HEAP_POINT(), __atomic_fetch_add(p, v, ACRE__HEAP_ORDER_##order))
#define acre__heap_add64(p, v, order) acre__heap_add32(p, v, order)
#define acre__heap_or32(p, v, order)                                                               \
    (ACRE__HEAP_POINT(), __atomic_fetch_or(p, v, ACRE__HEAP_ORDER_##order))
#define acre__heap_or64(p, v, order) acre__heap_or32(p, v, order)
#define acre__heap_and32(p, v, order)                                                              \
    (ACRE__HEAP_POINT(), __atomic_fetch_and(p, v, ACRE__HEAP_ORDER_##order))
#define acre__heap_and64(p, v, order) acre__heap_and32(p, v, order)
#define acre__heap_exch32(p, v, order)                                                             \
    (ACRE__HEAP_POINT(), __atomic_exchange_n(p, v, ACRE__HEAP_ORDER_##order))
#define acre__heap_exch64(p, v, order) acre__heap_exch32(p, v, order)
#define acre__heap_cas32(p, e, v, order)                                                           \
    (ACRE__HEAP_POINT(),                                                                           \
     __atomic_compare_exchange_n(p, e, v, 0, ACRE__HEAP_ORDER_##order, ACRE__HEAP_FAILED_##order))
#define acre__heap_cas64(p, e, v, order) acre__heap_cas32(p, e, v, order)
#define acre__heap_hint64(p) acre__heap_load64(p, relaxed)
#define acre__heap_hint32(p) acre__heap_load32(p, relaxed)
#define acre__heap_tell_host(p, v) acre__heap_store64(p, v, release)
#define acre__heap_ask_host(p) acre__heap_load64(p, acquire)

#define acre__heap_lane() acre_soft_lane()
#define acre__heap_sm() acre_soft_sm()
#define acre__heap_warp() 0u
#define acre__heap_active() acre_soft_activemask()
#define acre__heap_ballot(mask, predicate) acre_soft_ballot(mask, predicate)
#define acre__heap_syncwarp(mask) acre_soft_syncwarp(mask)
#define acre__heap_match(mask, value) acre_soft_match_any(mask, value)
#define acre__heap_shfl(mask, value, lane) acre_soft_shfl(mask, value, lane)
#define acre__heap_barrier() acre_soft_syncthreads()

ACRE__HEAP_FN uint32_t acre__heap_thread(void) {
    return acre_soft_thread_index(0) +
           acre_soft_block_size(0) *
               (acre_soft_thread_index(1) + acre_soft_block_size(1) * acre_soft_thread_index(2));
}
ACRE__HEAP_FN uint32_t acre__heap_threads(void) {
    return acre_soft_block_size(0) * acre_soft_block_size(1) * acre_soft_block_size(2);
}

#define acre__heap_popc32(x) ((uint32_t)__builtin_popcount(x))
#define acre__heap_popc64(x) ((uint32_t)__builtin_popcountll(x))
#define acre__heap_ctz32(x) ((uint32_t)__builtin_ctz(x))
#define acre__heap_ctz64(x) ((uint32_t)__builtin_ctzll(x))
#define acre__heap_log2(x) (31u - (uint32_t)__builtin_clz(x))

ACRE__HEAP_FN uint64_t acre__heap_time_ns(void) {
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Lanes of one warp may be fibers of one thread, of which only a yield lets others run. */
ACRE__HEAP_FN void acre__heap_pause(uint32_t tries) {
    ACRE__HEAP_POINT();
    (void)tries;
    acre_soft_yield();
}

ACRE__HEAP_FN uint64_t acre__heap_union(uint32_t peers, uint64_t bits) {
    uint64_t all = 0;
    for (uint32_t left = peers; left; left &= left - 1)
        all |= acre__heap_shfl(peers, bits, acre__heap_ctz32(left));
    return all;
}

#endif

/* Where a warp runs, as hints. Seven warps of an SM that run at once have seven places, which for
 * the 132 of the largest chips makes somewhat less than there are arenas; `spin` is another number
 * for every warp that runs, in which all bits are as good as random. */
ACRE__HEAP_FN uint32_t acre__heap_place(void) {
    return acre__heap_sm() * 7 + acre__heap_warp() % 7;
}
ACRE__HEAP_FN uint32_t acre__heap_spin(void) {
    return (acre__heap_sm() * 64 + acre__heap_warp()) * 0x9e3779b1u >> 16;
}

#endif
