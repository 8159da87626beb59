/* acre_heap: malloc and free inside kernels.
 *
 *   host:    acre_heap_create(device, NULL, &heap); acre_heap_get_handle(heap, &h);
 *   kernel:  void *p = acre_heap_malloc(h, n); ... acre_heap_free(h, p);
 *
 * The same source compiles with nvcc and NVRTC (compute capability 7.0 and later, no relocatable
 * device code; acre_heap_rtc.h is all of it in one file for NVRTC), as C11 and as C++17. In C and
 * C++ a "kernel" is a function run by acre_soft_launch, or any code on an ordinary host thread. A
 * program passes the handle to its kernels by value. It may have several heaps.
 *
 * A block is aligned to 16 bytes and stays live across launches until some thread frees it. It is
 * ordinary device memory: cuMemcpy, cuMemset and acre_copy accept it. Requests up to 32 KiB are
 * rounded up to a size class: 16, 32, 48, 64, 96, ... 24 KiB, 32 KiB. Above 32 bytes that wastes at
 * most a third of the block. Of larger requests, those that would waste more than a fifth of their
 * pages of 64 KiB share 1 MiB with others of their size (up to 204 KiB); the others get pages, and
 * above 1 MiB segments of 2 MiB.
 *
 * A request returns NULL if there is no memory, or if the heap did not grow in time
 * (acre_heap_options.wait_ns). The heap counts and ignores invalid frees, with one exception: if
 * the heap has allocated the address again, a double free frees the new block.
 *
 * Calls may be divergent. Lanes of a warp that reach a call together are served together.
 *
 * Before the include a file may define
 *   ACRE_HEAP_AS_MALLOC  malloc and free in its kernels use a heap (acre/heap/dropin.h);
 *   ACRE_HEAP_AS_NEW     with it, so do new and delete in its device code;
 *   ACRE_HEAP_FULL_ORDER, ACRE_HEAP_CHIP_ORDER  the memory order (acre/heap/base.h);
 *   ACRE_HEAP_DEBUG      blocks are poisoned, checked for overflow and tagged (acre/heap/debug.h),
 *                        which costs 32 bytes and a write to all bytes of each block;
 *   ACRE_HEAP_TAG        the tag of its blocks, with ACRE_HEAP_DEBUG. */
#ifndef ACRE_HEAP_H
#define ACRE_HEAP_H

#include "heap/blocks.h"
#include "heap/debug.h"
#include "heap/plain.h"

/* ---- inside kernels ----------------------------------------------------------------------------
 */

/* Allocates at least `bytes`, aligned to 16. 0 bytes count as 1. NULL if there is no memory. */
ACRE__HEAP_FN void *acre_heap_malloc(acre_heap_handle h, size_t bytes) {
#ifdef ACRE_HEAP_DEBUG
    return ACRE__HEAP_CALL(acre__heap_debug_malloc, h, bytes, 1, ACRE_HEAP_TAG);
#else
    return acre__heap_plain_malloc(h, bytes);
#endif
}

/* Allocates like acre_heap_malloc, aligned to `align`, a power of two up to 2 MiB. For any other
 * `align` it returns NULL and counts the request in the statistic bad_alignment. */
ACRE__HEAP_FN void *acre_heap_aligned_malloc(acre_heap_handle h, size_t bytes, size_t align) {
#ifdef ACRE_HEAP_DEBUG
    return ACRE__HEAP_CALL(acre__heap_debug_malloc, h, bytes, align, ACRE_HEAP_TAG);
#else
    return acre__heap_plain_aligned_malloc(h, bytes, align);
#endif
}

/* Frees a block that any of the functions here allocated. NULL is a no-op. */
ACRE__HEAP_FN void acre_heap_free(acre_heap_handle h, void *p) {
#ifdef ACRE_HEAP_DEBUG
    ACRE__HEAP_CALL(acre__heap_debug_free, h, p);
#else
    acre__heap_plain_free(h, p);
#endif
}

/* Returns the usable bytes of a block, at least as many as requested; 0 if `p` is not the address
 * of a live block of this heap. */
ACRE__HEAP_FN size_t acre_heap_usable_size(acre_heap_handle h, const void *p) {
#ifdef ACRE_HEAP_DEBUG
    return ACRE__HEAP_CALL(acre__heap_debug_usable_size, h, p);
#else
    return acre__heap_plain_usable_size(h, p);
#endif
}

/* Returns 1 if the address is in the address range of this heap, inside a block or not. */
ACRE__HEAP_FN int acre_heap_owns(acre_heap_handle h, const void *p) {
    return (uint64_t)((uintptr_t)p - (uintptr_t)h.base) < (uint64_t)h.max_segments
                                                              << ACRE__HEAP_SEGMENT_LOG2;
}

/* Sets the tag of a block, any number that the program chooses. Only debug builds keep tags.
 * acre_heap_inspect reports them, and acre_heap_destroy logs leaks by tag. The first tag of a block
 * is ACRE_HEAP_TAG of the file that allocates the block, or 0 if the file does not define it. */
ACRE__HEAP_FN void acre_heap_set_tag(acre_heap_handle h, void *p, uint32_t tag) {
#ifdef ACRE_HEAP_DEBUG
    ACRE__HEAP_CALL(acre__heap_debug_set_tag, h, p, tag);
#else
    (void)h, (void)p, (void)tag;
#endif
}

/* Allocates like acre_heap_malloc, with a tag other than ACRE_HEAP_TAG. */
ACRE__HEAP_FN void *acre_heap_malloc_tagged(acre_heap_handle h, size_t bytes, uint32_t tag) {
#ifdef ACRE_HEAP_DEBUG
    return ACRE__HEAP_CALL(acre__heap_debug_malloc, h, bytes, 1, tag);
#else
    (void)tag;
    return acre__heap_plain_malloc(h, bytes);
#endif
}

/* ---- copying and filling ----
 *
 * The plain functions are for one thread. All lanes of `mask` call the warp functions, with the
 * same arguments; all threads of the block call the block functions, with the same arguments. Warp
 * and block functions end with a barrier, so that all their threads see the result. Accesses are 16
 * bytes wide where the addresses allow it. Source and destination must not overlap. */

ACRE__HEAP_FN void *acre_heap_memcpy(void *dest, const void *src, size_t bytes) {
    acre__heap_copy_part(dest, src, bytes, 0, 1);
    return dest;
}

ACRE__HEAP_FN void *acre_heap_memset(void *dest, int value, size_t bytes) {
    acre__heap_fill_part(dest, value, bytes, 0, 1);
    return dest;
}

ACRE__HEAP_FN uint32_t acre__heap_rank_in(uint32_t mask) {
    return acre__heap_popc32(mask & ((1u << acre__heap_lane()) - 1));
}

ACRE__HEAP_FN void *acre_heap_warp_memcpy(uint32_t mask, void *dest, const void *src,
                                          size_t bytes) {
    acre__heap_copy_part(dest, src, bytes, acre__heap_rank_in(mask), acre__heap_popc32(mask));
    acre__heap_syncwarp(mask);
    return dest;
}

ACRE__HEAP_FN void *acre_heap_warp_memset(uint32_t mask, void *dest, int value, size_t bytes) {
    acre__heap_fill_part(dest, value, bytes, acre__heap_rank_in(mask), acre__heap_popc32(mask));
    acre__heap_syncwarp(mask);
    return dest;
}

ACRE__HEAP_FN void *acre_heap_block_memcpy(void *dest, const void *src, size_t bytes) {
    acre__heap_copy_part(dest, src, bytes, acre__heap_thread(), acre__heap_threads());
    acre__heap_barrier();
    return dest;
}

ACRE__HEAP_FN void *acre_heap_block_memset(void *dest, int value, size_t bytes) {
    acre__heap_fill_part(dest, value, bytes, acre__heap_thread(), acre__heap_threads());
    acre__heap_barrier();
    return dest;
}

/* ---- more forms of malloc ---- */

/* Allocates `count` times `bytes` and zeroes the block. NULL also if the product overflows. */
ACRE__HEAP_FN void *acre_heap_calloc(acre_heap_handle h, size_t count, size_t bytes) {
    size_t all = bytes && count > SIZE_MAX / bytes ? SIZE_MAX : count * bytes;
    void *p = acre_heap_malloc(h, all);
    return p ? acre_heap_memset(p, 0, all) : NULL;
}

/* Where a block goes when it is resized, and how many bytes to copy there; the old block is still
 * to be freed then. 0 bytes: it stays, is new, or there is no memory. */
typedef struct acre__heap_move {
    void *to;
    size_t bytes;
} acre__heap_move;

ACRE__HEAP_FN acre__heap_move acre__heap_plan_move(acre_heap_handle h, void *p, size_t bytes) {
    acre__heap_move move = {p, 0};
    size_t old = p ? acre_heap_usable_size(h, p) : 0;
    if (p && !old) {
        uint32_t what = acre__heap_find(acre__heap_of(h), acre__heap_offset(h, p)).what;
        if (what <= ACRE__HEAP_IS_PAGES)
            what = ACRE__HEAP_IS_DOUBLE;
        ACRE__HEAP_CALL(acre__heap_wrong, acre__heap_of(h), what, 1);
        move.to = NULL;
        return move;
    }
#ifndef ACRE_HEAP_DEBUG
    if (p && bytes <= old && (old <= 32 || bytes > old / 2))
        return move;
    if (p && bytes && old > ACRE__HEAP_CLASS_MOST) {

        if (ACRE__HEAP_CALL(acre__heap_resize, acre__heap_of(h),
                            acre__heap_find(acre__heap_of(h), acre__heap_offset(h, p)).page, bytes))
            return move;
    }
#endif
    move.to = acre_heap_malloc(h, bytes);
    if (move.to && p)
        move.bytes = old < bytes ? old : bytes;
    return move;
}

/* Resizes a block and keeps its contents up to the smaller size. A block that is large enough stays
 * in place if it has at most 32 bytes or is less than twice as large as needed. A block of pages or
 * segments (all blocks of more than 204 KiB are) also grows and shrinks in place, if it stays one
 * of its kind, and what is behind it was used before and is free now. Debug builds always move a
 * block. NULL for `p` allocates a block. If the result is NULL, the old block is unchanged. An
 * address that is not a live block returns NULL and counts as an invalid free. */
ACRE__HEAP_FN void *acre_heap_realloc(acre_heap_handle h, void *p, size_t bytes) {
    acre__heap_move move = acre__heap_plan_move(h, p, bytes);
    if (move.to && p && move.to != p) {
        (void)acre_heap_memcpy(move.to, p, move.bytes);
        acre_heap_free(h, p);
    }
    return move.to;
}

/* Allocates one block for the lanes of a warp in `mask`. All of them call the function and get the
 * same address; the value of `bytes` in the lowest lane is used. One call of acre_heap_warp_free or
 * acre_heap_free frees the block. For acre_heap_warp_free keep the mask: a later __activemask() may
 * return a different one. */
ACRE__HEAP_FN void *acre_heap_warp_malloc(acre_heap_handle h, uint32_t mask, size_t bytes) {
    uint32_t leader = acre__heap_ctz32(mask);
    uint64_t p = 0;
    if (acre__heap_lane() == leader)
        p = (uintptr_t)acre_heap_malloc(h, bytes);
    p = acre__heap_shfl(mask, p, leader);
    acre__heap_syncwarp(mask);
    return (void *)(uintptr_t)p;
}

/* Frees a block once for all lanes of the mask, after all of them have called the function. */
ACRE__HEAP_FN void acre_heap_warp_free(acre_heap_handle h, uint32_t mask, void *p) {
    acre__heap_syncwarp(mask);
    if (acre__heap_lane() == acre__heap_ctz32(mask))
        acre_heap_free(h, p);
}

/* Allocates one zeroed block, as acre_heap_warp_malloc does; all lanes zero it together. */
ACRE__HEAP_FN void *acre_heap_warp_calloc(acre_heap_handle h, uint32_t mask, size_t count,
                                          size_t bytes) {
    uint32_t leader = acre__heap_ctz32(mask);
    size_t all = bytes && count > SIZE_MAX / bytes ? SIZE_MAX : count * bytes;
    all = (size_t)acre__heap_shfl(mask, all, leader);
    void *p = acre_heap_warp_malloc(h, mask, all);
    return p ? acre_heap_warp_memset(mask, p, 0, all) : NULL;
}

/* Resizes one block for the lanes of a warp in `mask`, as acre_heap_realloc does; all lanes copy it
 * together if it moves. The values of `p` and `bytes` in the lowest lane are used. */
ACRE__HEAP_FN void *acre_heap_warp_realloc(acre_heap_handle h, uint32_t mask, void *p,
                                           size_t bytes) {
    uint32_t leader = acre__heap_ctz32(mask);
    acre__heap_move move = {NULL, 0};
    acre__heap_syncwarp(mask);
    if (acre__heap_lane() == leader)
        move = acre__heap_plan_move(h, p, bytes);
    uint64_t from = acre__heap_shfl(mask, (uintptr_t)p, leader);
    uint64_t to = acre__heap_shfl(mask, (uintptr_t)move.to, leader);
    uint64_t copied = acre__heap_shfl(mask, move.bytes, leader);
    acre__heap_syncwarp(mask);
    if (to && from && to != from) {
        (void)acre_heap_warp_memcpy(mask, (void *)(uintptr_t)to, (void *)(uintptr_t)from,
                                    (size_t)copied);
        acre_heap_warp_free(h, mask, (void *)(uintptr_t)from);
    }
    return (void *)(uintptr_t)to;
}

/* Allocates one block of memory for all threads of the thread block, which all call the function.
 * `slot` points to shared memory through which the address is broadcast; nothing else may use it
 * until the call returns. */
ACRE__HEAP_FN void *acre_heap_block_malloc(acre_heap_handle h, size_t bytes, void **slot) {
    if (acre__heap_thread() == 0)
        *slot = acre_heap_malloc(h, bytes);
    acre__heap_barrier();
    void *p = *slot;
    acre__heap_barrier();
    return p;
}

/* Frees a block once for all threads of the thread block, after all of them have called the
 * function. */
ACRE__HEAP_FN void acre_heap_block_free(acre_heap_handle h, void *p) {
    acre__heap_barrier();
    if (acre__heap_thread() == 0)
        acre_heap_free(h, p);
}

/* Allocates one zeroed block, as acre_heap_block_malloc does; all threads zero it together. */
ACRE__HEAP_FN void *acre_heap_block_calloc(acre_heap_handle h, size_t count, size_t bytes,
                                           void **slot) {
    size_t all = bytes && count > SIZE_MAX / bytes ? SIZE_MAX : count * bytes;
    void *p = acre_heap_block_malloc(h, all, slot);
    return p ? acre_heap_block_memset(p, 0, all) : NULL;
}

/* Resizes one block of memory for all threads of the thread block, as acre_heap_realloc does; all
 * threads copy it together if it moves. They all pass the same `p` and `bytes`. */
ACRE__HEAP_FN void *acre_heap_block_realloc(acre_heap_handle h, void *p, size_t bytes,
                                            void **slot) {
    size_t old = p ? acre_heap_usable_size(h, p) : 0;
    acre__heap_barrier(); /* all have read the size, and finished with the block */
    if (acre__heap_thread() == 0)
        *slot = acre__heap_plan_move(h, p, bytes).to;
    acre__heap_barrier();
    void *to = *slot;
    acre__heap_barrier();
    if (to && p && to != p) {
        (void)acre_heap_block_memcpy(to, p, old < bytes ? old : bytes);
        acre_heap_block_free(h, p);
    }
    return to;
}

/* Allocates one block and divides it among the lanes in `mask` (for example __activemask()), all of
 * which must make the call. Each lane gets the bytes that it requested, rounded up to 16. Either
 * all lanes get memory, or all get NULL. All lanes get the address of the whole block in *whole.
 * Free *whole once, when no lane uses its part any more, for example with acre_heap_warp_free.
 * Returns the lane's own part. */
ACRE__HEAP_FN void *acre_heap_coalesced_malloc(acre_heap_handle h, uint32_t mask, size_t bytes,
                                               void **whole) {
    uint32_t leader = acre__heap_ctz32(mask);
    uint64_t most = (uint64_t)h.max_segments << ACRE__HEAP_SEGMENT_LOG2;
    uint64_t mine = bytes > most ? most : ((uint64_t)bytes + 15) & ~(uint64_t)15;
    uint64_t before = 0, all = 0, p = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        uint32_t from = acre__heap_ctz32(left);
        uint64_t part = acre__heap_shfl(mask, mine ? mine : 16, from);
        before += from < acre__heap_lane() ? part : 0;
        all += part;
    }
    if (acre__heap_lane() == leader)
        p = (uintptr_t)acre_heap_malloc(h, (size_t)all);
    p = acre__heap_shfl(mask, p, leader);
    acre__heap_syncwarp(mask);
    *whole = (void *)(uintptr_t)p;
    return p ? (char *)*whole + before : NULL;
}

#include "heap/arena.h"

#ifndef __CUDACC_RTC__
#include "heap/host.h"
#endif

#endif

/* Outside the include guard: another header may have included this one without the macro. */
#ifdef ACRE_HEAP_AS_MALLOC
#include "heap/dropin.h"
#endif
