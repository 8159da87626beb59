/* acre_heap: malloc and free inside kernels.
 *
 *   host:    acre_heap_create(device, NULL, &heap); acre_heap_get_handle(heap, &h);
 *   kernel:  void *p = acre_heap_malloc(h, n); ... acre_heap_free(h, p);
 *
 * One source for nvcc (compute capability 7.0 and later, no relocatable device code), C11 and
 * C++17, where a "kernel" is a function run by acre_soft_launch, or any thread. The handle is
 * passed to the kernel by value; there may be several heaps.
 *
 * Blocks are aligned to 16 bytes, live across launches until any thread frees them, and are
 * ordinary device memory: cuMemcpy, cuMemset and acre_copy take them. Sizes up to 32 KiB go by
 * class (16, 32, 48, 64, 96, ... 24 KiB, 32 KiB: a third is wasted at most from 33 bytes on), up to
 * 1 MiB by pages of 64 KiB, beyond by segments of 2 MiB. NULL is returned when nothing can serve
 * the request, or when the heap may grow and did not within its bound of time. Wrong frees are
 * counted and ignored, as far as records tell: an address that was freed and allocated again is a
 * live block.
 *
 * Calls may be divergent, from any lanes of a warp; lanes that come together are served together.
 *
 * Before the include a file may define
 *   ACRE_HEAP_AS_MALLOC  malloc and free of its kernels are a heap's (acre/heap/dropin.h);
 *   ACRE_HEAP_DEBUG      blocks are poisoned, watched behind their ends and tagged
 *                        (acre/heap/debug.h), at the cost of 32 bytes and of touching all of each;
 *   ACRE_HEAP_TAG        with that, the number that its blocks are tagged with.
 */
#ifndef ACRE_HEAP_H
#define ACRE_HEAP_H

#include "heap/blocks.h"
#include "heap/debug.h"
#include "heap/plain.h"

/* ---- inside kernels ----------------------------------------------------------------------------
 */

/* At least `bytes` (0 counts as 1: a block of its own), aligned to 16. */
ACRE__HEAP_FN void *acre_heap_malloc(acre_heap_handle h, size_t bytes) {
#ifdef ACRE_HEAP_DEBUG
    return acre__heap_debug_malloc(h, bytes, 1, ACRE_HEAP_TAG);
#else
    return acre__heap_plain_malloc(h, bytes);
#endif
}

/* The same, aligned to `align`: a power of two up to 2 MiB. Any other gives NULL and is counted
 * apart. */
ACRE__HEAP_FN void *acre_heap_aligned_malloc(acre_heap_handle h, size_t bytes, size_t align) {
#ifdef ACRE_HEAP_DEBUG
    return acre__heap_debug_malloc(h, bytes, align, ACRE_HEAP_TAG);
#else
    return acre__heap_plain_aligned_malloc(h, bytes, align);
#endif
}

/* Frees a block that acre_heap_malloc, or another function that allocates, returned; NULL is a
 * no-op. */
ACRE__HEAP_FN void acre_heap_free(acre_heap_handle h, void *p) {
#ifdef ACRE_HEAP_DEBUG
    acre__heap_debug_free(h, p);
#else
    acre__heap_plain_free(h, p);
#endif
}

/* How many bytes of a block may be used, at least as many as were asked for; 0 if `p` is not the
 * address of a live block of this heap. */
ACRE__HEAP_FN size_t acre_heap_usable_size(acre_heap_handle h, const void *p) {
#ifdef ACRE_HEAP_DEBUG
    return acre__heap_debug_usable_size(h, p);
#else
    return acre__heap_plain_usable_size(h, p);
#endif
}

/* 1 if the address, of a block or not, is one of this heap's. */
ACRE__HEAP_FN int acre_heap_owns(acre_heap_handle h, const void *p) {
    return (uint64_t)((uintptr_t)p - (uintptr_t)h.base) < (uint64_t)h.max_segments
                                                              << ACRE__HEAP_SEGMENT_LOG2;
}

/* What a block is for, in the program's own numbers: kept in debug builds alone, and told by
 * acre_heap_inspect and when a heap ends with blocks that were not freed. Blocks have the tag
 * ACRE_HEAP_TAG of the file that made them (0 where it is not defined) until they get another. */
ACRE__HEAP_FN void acre_heap_set_tag(acre_heap_handle h, void *p, uint32_t tag) {
#ifdef ACRE_HEAP_DEBUG
    acre__heap_debug_set_tag(h, p, tag);
#else
    (void)h, (void)p, (void)tag;
#endif
}

ACRE__HEAP_FN void *acre_heap_malloc_tagged(acre_heap_handle h, size_t bytes, uint32_t tag) {
#ifdef ACRE_HEAP_DEBUG
    return acre__heap_debug_malloc(h, bytes, 1, tag);
#else
    (void)tag;
    return acre__heap_plain_malloc(h, bytes);
#endif
}

/* ---- copying and filling ----
 *
 * For one thread; for lanes of a warp, all those of `mask`, as CUDA's __syncwarp takes it; and for
 * a block, all of whose threads call them; with the same arguments. Accesses are of 16 bytes where
 * both addresses allow it. The group forms end with a barrier of their group: what they wrote is
 * there for all of it. Ranges must not overlap. */

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

/* `count` times `bytes`, all zero; NULL too if that is more than can be said. */
ACRE__HEAP_FN void *acre_heap_calloc(acre_heap_handle h, size_t count, size_t bytes) {
    size_t all = bytes && count > SIZE_MAX / bytes ? SIZE_MAX : count * bytes;
    void *p = acre_heap_malloc(h, all);
    return p ? acre_heap_memset(p, 0, all) : NULL;
}

/* A block of another size with the same contents, as far as both go; the same one where it is large
 * enough and not more than twice too large (in debug builds always another one). NULL: the old one
 * is as it was. `p` NULL is a malloc.
 * An address that is no live block's gives NULL and is counted as a wrong free. */
ACRE__HEAP_FN void *acre_heap_realloc(acre_heap_handle h, void *p, size_t bytes) {
    size_t old = p ? acre_heap_usable_size(h, p) : 0;
    if (p && !old) {
        uint32_t what = acre__heap_find(h, p).what;
        if (what <= ACRE__HEAP_IS_PAGES)
            what = ACRE__HEAP_IS_DOUBLE;
        acre__heap_wrong(h, what, 1);
        return NULL;
    }
#ifndef ACRE_HEAP_DEBUG
    if (p && bytes <= old && (old <= 32 || bytes > old / 2))
        return p;
#endif
    void *to = acre_heap_malloc(h, bytes);
    if (to && p) {
        (void)acre_heap_memcpy(to, p, old < bytes ? old : bytes);
        acre_heap_free(h, p);
    }
    return to;
}

/* One block for the lanes of a warp in `mask`, who all call this and all get its address; freed
 * once. `bytes` of the lowest of them counts. The mask is said, since who happens to be active
 * together may be other lanes when it is freed. */
ACRE__HEAP_FN void *acre_heap_warp_malloc(acre_heap_handle h, uint32_t mask, size_t bytes) {
    uint32_t leader = acre__heap_ctz32(mask);
    uint64_t p = 0;
    if (acre__heap_lane() == leader)
        p = (uintptr_t)acre_heap_malloc(h, bytes);
    p = acre__heap_shfl(mask, p, leader);
    acre__heap_syncwarp(mask);
    return (void *)(uintptr_t)p;
}

/* Frees it once for all lanes of the mask, after all of them have come here. */
ACRE__HEAP_FN void acre_heap_warp_free(acre_heap_handle h, uint32_t mask, void *p) {
    acre__heap_syncwarp(mask);
    if (acre__heap_lane() == acre__heap_ctz32(mask))
        acre_heap_free(h, p);
}

/* One block for all threads of the block, who all call this, with `slot` in its shared memory and
 * used for nothing else until the call returns. */
ACRE__HEAP_FN void *acre_heap_block_malloc(acre_heap_handle h, size_t bytes, void **slot) {
    if (acre__heap_thread() == 0)
        *slot = acre_heap_malloc(h, bytes);
    acre__heap_barrier();
    void *p = *slot;
    acre__heap_barrier();
    return p;
}

ACRE__HEAP_FN void acre_heap_block_free(acre_heap_handle h, void *p) {
    acre__heap_barrier();
    if (acre__heap_thread() == 0)
        acre_heap_free(h, p);
}

/* One block cut up among the lanes of the mask (__activemask() will do), each with the bytes that
 * it asked for, rounded up to 16: the lane's own part, and in *whole what is to be freed, once,
 * when none is used any more, as by acre_heap_warp_free. NULL for all or for none. */
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

#include "heap/host.h"

#endif

/* Behind the guard: another header may have included this one without it. */
#ifdef ACRE_HEAP_AS_MALLOC
#include "heap/dropin.h"
#endif
