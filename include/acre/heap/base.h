/* What the heap needs from the processor: atomics with memory orders, and the lanes of a warp. Part
 * of acre_heap.h, not to be included by itself.
 *
 * With nvcc these are PTX instructions of device scope and the warp intrinsics. Elsewhere they are
 * the compiler's atomics and the lanes of acre/soft.h, where a plain thread is a warp of one lane.
 * Every call names its order (relaxed, acquire, release, acq_rel), so that one line of the heap
 * means the same on both. In acre's own test builds, a scheduler driven by ACRE_SOFT_SEED may
 * switch to another simulated thread at every atomic. */
#ifndef ACRE_HEAP_BASE_H
#define ACRE_HEAP_BASE_H

#ifdef __CUDACC_RTC__ /* NVRTC has no headers of the host */
typedef unsigned char uint8_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#ifndef SIZE_MAX
#define SIZE_MAX (~(size_t)0)
#endif
#ifndef NULL
#define NULL 0
#endif
#else
#include <stddef.h>
#include <stdint.h>
#endif

#ifdef __CUDACC__

#define ACRE__HEAP_FN static __device__ inline
/* Functions and registers. ptxas adds up the registers of a kernel and of all functions that it
 * reaches by direct calls. A function that is called by its address saves registers instead, so a
 * kernel needs no more than the largest of them. But what it saves goes to memory, which costs two
 * to four microseconds while all warps allocate. So:
 *
 *   ACRE__HEAP_BODY   what malloc and free do for a warp: a function, so that each further call
 *                     adds little code. With ACRE_HEAP_FEW_REGISTERS, malloc is inlined, and its
 *                     slow half is called by its address: kernels with many values of their own
 *                     then need 66 registers, not 160, but wait longer for new slabs.
 *   ACRE__HEAP_SLOW   functions. ACRE__HEAP_CALL calls by address: what is rare. No two functions
 * of a chain of such calls have the same parameter types: ptxas would take them for a recursion,
 * whose stack has no bound. ACRE__HEAP_NEAR   calls directly: what is needed now and then, and has
 * no room in its caller. ACRE__HEAP_PART   part of its caller, ACRE__HEAP_DO.
 *
 * In relocatable code ptxas gives a function as many registers as it likes, and all these are calls
 * by address of small functions. */
#define ACRE__HEAP_SLOW static __device__ __noinline__
#define ACRE__HEAP_CALL(function, ...) acre__heap_apart(function)(__VA_ARGS__)
template <class type> ACRE__HEAP_FN type acre__heap_apart(type function) {
    asm volatile("" : "+l"(function));
    return function;
}
#ifdef __CUDACC_RDC__
#define ACRE__HEAP_PART ACRE__HEAP_SLOW
#define ACRE__HEAP_DO(function, ...) ACRE__HEAP_CALL(function, __VA_ARGS__)
#define ACRE__HEAP_NEAR(function, ...) ACRE__HEAP_CALL(function, __VA_ARGS__)
#else
#define ACRE__HEAP_PART ACRE__HEAP_FN
#define ACRE__HEAP_DO(function, ...) function(__VA_ARGS__)
#define ACRE__HEAP_NEAR(function, ...) function(__VA_ARGS__)
#endif
#if defined(ACRE_HEAP_FEW_REGISTERS) && !defined(__CUDACC_RDC__)
#define ACRE__HEAP_BODY static __device__ __forceinline__
#define ACRE__HEAP_HALF ACRE__HEAP_SLOW
#define ACRE__HEAP_GO_ON(function, ...) ACRE__HEAP_CALL(function, __VA_ARGS__)
#else
#define ACRE__HEAP_BODY ACRE__HEAP_SLOW
#define ACRE__HEAP_HALF ACRE__HEAP_FN
#define ACRE__HEAP_GO_ON(function, ...) function(__VA_ARGS__)
#endif
/* In front of a loop: it is not unrolled, which would take more code and registers. */
#define ACRE__HEAP_ROLLED _Pragma("unroll 1")
#define ACRE__HEAP_FOURFOLD _Pragma("unroll 4")
/* Computes what depends on a pointer from here on, not in front of the loop, which would keep it in
 * registers during the loop. */
#define ACRE__HEAP_HERE(pointer) asm volatile("" : "+l"(pointer))

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
    ACRE__HEAP_PTX_CAS(release, bits, letter)                                                      \
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

/* The order `chip`. An atomic that has returned is performed for the whole chip, and operations
 * that use its result come after it. A fence makes all earlier writes of a thread visible to all.
 * So free memory needs one fence, by the thread that frees it. It needs none by threads that take
 * it, or that move it from one word to another by atomics whose results they wait for.
 * `chip_acquire` is for atomics that are followed by loads which do not depend on the result.
 * Fences, and what they do to the caches, cost far more than the atomics. Plain stores need a fence
 * before they are published.
 *
 * PTX does not promise this; it is how an H200 (compute capability 9.0) behaved in soak tests. In
 * code for all others, and on the CPU, `chip` is acquire and release. A file can choose with
 * ACRE_HEAP_FULL_ORDER or ACRE_HEAP_CHIP_ORDER. Code for 9.0 that a driver translates for a newer
 * GPU keeps the weak order: compile for that GPU, or with ACRE_HEAP_FULL_ORDER. */
#if defined(ACRE_HEAP_FULL_ORDER) ||                                                               \
    (!defined(ACRE_HEAP_CHIP_ORDER) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900)
#define ACRE__HEAP_CHIP(full, chip) full
#else
#define ACRE__HEAP_CHIP(full, chip) chip
#endif
#define ACRE__HEAP_PTX_CHIP(op, bits)                                                              \
    ACRE__HEAP_FN uint##bits##_t acre__heap_##op##bits##_chip(uint##bits##_t *p,                   \
                                                              uint##bits##_t v) {                  \
        return ACRE__HEAP_CHIP(acre__heap_##op##bits##_acq_rel,                                    \
                               acre__heap_##op##bits##_relaxed)(p, v);                             \
    }
ACRE__HEAP_PTX_CHIP(add, 64)
ACRE__HEAP_PTX_CHIP(or, 64)
ACRE__HEAP_PTX_CHIP(and, 64)
ACRE__HEAP_PTX_CHIP(or, 32)
ACRE__HEAP_PTX_CHIP(and, 32)
ACRE__HEAP_PTX_CHIP(exch, 32)
ACRE__HEAP_FN uint64_t acre__heap_and64_chip_acquire(uint64_t *p, uint64_t v) {
    return ACRE__HEAP_CHIP(acre__heap_and64_acq_rel, acre__heap_and64_acquire)(p, v);
}
ACRE__HEAP_FN uint64_t acre__heap_or64_chip_release(uint64_t *p, uint64_t v) {
    return ACRE__HEAP_CHIP(acre__heap_or64_acq_rel, acre__heap_or64_release)(p, v);
}
ACRE__HEAP_FN int acre__heap_cas64_chip_release(uint64_t *p, uint64_t *expected, uint64_t v) {
    return ACRE__HEAP_CHIP(acre__heap_cas64_acq_rel, acre__heap_cas64_release)(p, expected, v);
}
ACRE__HEAP_FN int acre__heap_cas32_chip(uint32_t *p, uint32_t *expected, uint32_t v) {
    return ACRE__HEAP_CHIP(acre__heap_cas32_acq_rel, acre__heap_cas32_relaxed)(p, expected, v);
}
ACRE__HEAP_FN int acre__heap_cas64_chip(uint64_t *p, uint64_t *expected, uint64_t v) {
    return ACRE__HEAP_CHIP(acre__heap_cas64_acq_rel, acre__heap_cas64_relaxed)(p, expected, v);
}
ACRE__HEAP_FN void acre__heap_store64_chip(uint64_t *p, uint64_t v) {
    ACRE__HEAP_CHIP(acre__heap_store64_release, acre__heap_store64_relaxed)(p, v);
}
ACRE__HEAP_FN void acre__heap_fence(void) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

/* Loads a hint that rarely changes; it may come from the multiprocessor's own cache. */
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

/* Stores to a word in host memory that is mapped for the device. */
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

/* The lanes that are here together. ptxas would keep the mask in a uniform register, which a warp
 * has once, also in functions that diverged lanes of the warp execute at the same time, and these
 * would overwrite it (seen with CUDA 13.0). It does not do so with a value that depends on the
 * lane, and does not know that no lane is both below and above itself. */
ACRE__HEAP_FN uint32_t acre__heap_active(void) {
    uint32_t below, above;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    asm("mov.u32 %0, %%lanemask_gt;" : "=r"(above));
    return __activemask() | (below & above);
}

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

/* The number of the thread in its block, and the number of threads of the block. */
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

/* Returns the union of the bits of all lanes in `peers`, which all call this. */
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

/* unused: a program need not use every function. */
#define ACRE__HEAP_FN __attribute__((unused)) static inline
#define ACRE__HEAP_SLOW __attribute__((unused)) static
#define ACRE__HEAP_BODY __attribute__((unused)) static
#define ACRE__HEAP_HALF ACRE__HEAP_FN
#define ACRE__HEAP_GO_ON(function, ...) function(__VA_ARGS__)
#define ACRE__HEAP_PART ACRE__HEAP_FN
#define ACRE__HEAP_DO(function, ...) function(__VA_ARGS__)
#define ACRE__HEAP_CALL(function, ...) function(__VA_ARGS__)
#define ACRE__HEAP_NEAR(function, ...) function(__VA_ARGS__)
#define ACRE__HEAP_ROLLED
#define ACRE__HEAP_FOURFOLD
#define ACRE__HEAP_HERE(pointer) ((void)0)

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
#define ACRE__HEAP_ORDER_chip_release __ATOMIC_ACQ_REL
#define acre__heap_fence() ((void)0)
/* Callers use the value that a failed compare-and-swap has read, so that is an acquire, too. */
#define ACRE__HEAP_FAILED_relaxed __ATOMIC_RELAXED
#define ACRE__HEAP_FAILED_acquire __ATOMIC_ACQUIRE
#define ACRE__HEAP_FAILED_acq_rel __ATOMIC_ACQUIRE
#define ACRE__HEAP_FAILED_chip __ATOMIC_ACQUIRE
#define ACRE__HEAP_FAILED_chip_release __ATOMIC_ACQUIRE

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

/* Lanes of a warp may be fibers of one thread: only a yield lets the others run. */
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

/* Hints for spreading warps. Seven warps that run on an SM at the same time have seven different
 * places; for the 132 SMs of the largest chips that is slightly less than the number of arenas.
 * `spin` differs for all warps that run at the same time, and all its bits are pseudo-random. */
ACRE__HEAP_FN uint32_t acre__heap_place(void) {
    return acre__heap_sm() * 7 + acre__heap_warp() % 7;
}
ACRE__HEAP_FN uint32_t acre__heap_spin(void) {
    return (acre__heap_sm() * 64 + acre__heap_warp()) * 0x9e3779b1u >> 16;
}

#endif
