/* The heap functions without ACRE_HEAP_DEBUG, and the helpers with which several threads share a
 * copy or fill. acre_heap.h documents the functions. Part of acre_heap.h, not to be included by
 * itself. */
#ifndef ACRE_HEAP_PLAIN_H
#define ACRE_HEAP_PLAIN_H

#include "blocks.h"

ACRE__HEAP_FN void *acre__heap_plain_pages(acre_heap_handle h, size_t bytes, size_t align) {
    uint32_t page = ACRE__HEAP_CALL(acre__heap_pages_slow, acre__heap_of(h), bytes, align);
    return page == ACRE__HEAP_NONE ? NULL : h.base + ((size_t)page << ACRE__HEAP_PAGE_LOG2);
}

ACRE__HEAP_FN void *acre__heap_plain_malloc(acre_heap_handle h, size_t bytes) {
    uint32_t size_class = bytes <= ACRE__HEAP_CLASS_MOST
                              ? acre__heap_class_of(bytes)
                              : ACRE__HEAP_CALL(acre__heap_large_class, bytes);
    if (size_class == ACRE__HEAP_SORTS)
        return acre__heap_plain_pages(h, bytes, 1);
    uint64_t at = acre__heap_malloc_slot(size_class, acre__heap_of(h));
    /* A run of pages needs less adjacent memory than a slab of such blocks. */
    if (at == ACRE__HEAP_NOWHERE && bytes > ACRE__HEAP_CLASS_MOST)
        return acre__heap_plain_pages(h, bytes, 0);
    return at == ACRE__HEAP_NOWHERE ? NULL : h.base + at;
}

ACRE__HEAP_FN void *acre__heap_plain_aligned_malloc(acre_heap_handle h, size_t bytes,
                                                    size_t align) {
    if (align == 0 || (align & (align - 1)) != 0 || align > ACRE__HEAP_ALIGN_MOST) {
        acre__heap_add64(&h.control->bad_alignment, 1, relaxed);
        return NULL;
    }
    if (align > 16) { /* slots of 2^k bytes are aligned to 2^k */
        bytes = bytes > align ? bytes : align;
        if (bytes <= ACRE__HEAP_CLASS_MOST)
            bytes = (size_t)2 << acre__heap_log2((uint32_t)bytes - 1);
    }
    if (bytes > ACRE__HEAP_CLASS_MOST && align > 256) /* large classes are aligned to 256 */
        return acre__heap_plain_pages(h, bytes, align);
    return acre__heap_plain_malloc(h, bytes);
}

/* Frees the block at an offset from the heap's base, for each lane that calls it. */
ACRE__HEAP_SLOW void acre__heap_free_at(acre__heap h, uint64_t offset) {
    uint32_t mask = acre__heap_active();
    acre__heap_found found = acre__heap_find(h, offset);
    uint32_t key = ~0u;
    if (found.what == ACRE__HEAP_IS_SLOT)
        key = (found.page << 6) + (found.slot >> 6); /* one for each word of a page's bits */
    uint32_t peers = acre__heap_group(mask, key);
    if (found.what == ACRE__HEAP_IS_SLOT)
        acre__heap_free_slots(h, found, peers);
    else if (found.what == ACRE__HEAP_IS_PAGES &&
             !ACRE__HEAP_DO(acre__heap_free_pages, found.page, h, found.info))
        found.what = ACRE__HEAP_IS_DOUBLE;
    if (found.what > ACRE__HEAP_IS_PAGES)
        acre__heap_wrong(h, found.what, 1);
}

ACRE__HEAP_FN void acre__heap_plain_free(acre_heap_handle h, void *p) {
    if (p)
        acre__heap_free_at(acre__heap_of(h), acre__heap_offset(h, p));
}

/* Returns 0 if `p` is not the address of a live block. */
ACRE__HEAP_FN size_t acre__heap_plain_usable_size(acre_heap_handle handle, const void *p) {
    acre__heap h = acre__heap_of(handle);
    acre__heap_found found = acre__heap_find(h, acre__heap_offset(handle, p));
    if (found.what == ACRE__HEAP_IS_SLOT) {
        uint64_t *word = acre__heap_bits_of(h, found.page) + (found.slot >> 6);
        int is_free = (int)(acre__heap_load64(word, relaxed) >> (found.slot & 63) & 1);
        return is_free ? 0 : acre__heap_class_bytes(ACRE__HEAP_CLASS(found.info));
    }
    if (found.what != ACRE__HEAP_IS_PAGES)
        return 0;
    if (ACRE__HEAP_KIND(found.info) == ACRE__HEAP_RUN)
        return (size_t)ACRE__HEAP_LENGTH(found.info) << ACRE__HEAP_PAGE_LOG2;
    return (size_t)acre__heap_load32(&acre__heap_segment_of(h, found.page)->length, relaxed)
           << ACRE__HEAP_SEGMENT_LOG2;
}

/* ---- copying and filling ---- */

typedef struct acre__heap_quad {
#ifdef __cplusplus
    alignas(16)
#else
    _Alignas(16)
#endif
        uint32_t part[4];
}
#ifndef __CUDACC__
__attribute__((may_alias))
#endif
acre__heap_quad;

/* Copies the part of lane `rank` of `count`. Adjacent lanes access adjacent quads. */
ACRE__HEAP_FN void acre__heap_copy_part(void *dest, const void *src, size_t bytes, uint32_t rank,
                                        uint32_t count) {
    size_t done = 0;
    if ((((uintptr_t)dest | (uintptr_t)src) & 15) == 0) {
        size_t quads = bytes / 16;
        for (size_t i = rank; i < quads; i += count)
            ((acre__heap_quad *)dest)[i] = ((const acre__heap_quad *)src)[i];
        done = quads * 16;
    }
    for (size_t i = done + rank; i < bytes; i += count)
        ((char *)dest)[i] = ((const char *)src)[i];
}

ACRE__HEAP_FN void acre__heap_fill_part(void *dest, int value, size_t bytes, uint32_t rank,
                                        uint32_t count) {
    char *to = (char *)dest;
    uint32_t word = (uint32_t)(unsigned char)value * 0x01010101u;
    acre__heap_quad quad = {{word, word, word, word}};
    size_t head = (16 - ((uintptr_t)to & 15)) & 15;
    head = head < bytes ? head : bytes;
    size_t quads = (bytes - head) / 16;
    for (size_t i = rank; i < head; i += count)
        to[i] = (char)value;
    for (size_t i = rank; i < quads; i += count)
        ((acre__heap_quad *)(void *)(to + head))[i] = quad;
    for (size_t i = head + quads * 16 + rank; i < bytes; i += count)
        to[i] = (char)value;
}

#endif
