/* For tests of the heap's core: a heap in ordinary host memory, whose threads are warps of one
 * lane, and a check of all its records while no thread uses the heap. */
#ifndef ACRE_TESTS_UNIT_HEAP_FIXTURE_H
#define ACRE_TESTS_UNIT_HEAP_FIXTURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "heap/heap_image.h"

struct heap_fixture {
    acre_heap_handle h;
    char *pages;
    size_t bytes;
};

/* Creates a heap with memory for `segments` of its `max_segments`. */
static inline void heap_begin(struct heap_fixture *f, uint32_t segments, uint32_t max_segments) {
    f->bytes = (max_segments + (size_t)1) * ACRE__HEAP_SEGMENT_BYTES;
    f->pages = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(f->pages, MAP_FAILED);
    uintptr_t at = ((uintptr_t)f->pages + ACRE__HEAP_SEGMENT_BYTES - 1) &
                   ~(uintptr_t)(ACRE__HEAP_SEGMENT_BYTES - 1);
    f->h.base = (char *)at;
    f->h.control = aligned_alloc(128, (acre__heap_control_bytes(max_segments) + 127) / 128 * 128);
    f->h.segments = calloc(max_segments, sizeof(acre_heap_segment));
    f->h.max_segments = max_segments;
    f->h.reserved = 0;
    assert_non_null(f->h.control);
    assert_non_null(f->h.segments);
    acre__heap_image_control(f->h.control, max_segments, segments);
    acre__heap_image_free(f->h.segments, segments);
}

static inline void heap_end(struct heap_fixture *f) {
    munmap(f->pages, f->bytes);
    free(f->h.control);
    free(f->h.segments);
}

static inline uint64_t heap_wrong_frees(const struct heap_fixture *f) {
    const acre_heap_control *control = f->h.control;
    return control->double_frees + control->foreign_frees + control->interior_frees;
}

/* ---- invariants while no thread is in a call ---- */

/* Returns 1 if an arena of the class holds the slab. */
static inline int heap_is_attached(acre_heap_handle h, uint32_t size_class, uint32_t page) {
    for (uint32_t i = 0; i < (1 << ACRE__HEAP_ARENAS_LOG2); i++) {
        uint64_t arena = h.control->arenas[size_class][i];
        if (ACRE__HEAP_STATE(arena) >= ACRE__HEAP_FRONT && ACRE__HEAP_ARENA_PAGE(arena) == page)
            return 1;
    }
    return 0;
}

static inline int heap_tree_has(acre_heap_handle h, uint32_t tree, uint32_t i) {
    const uint64_t *words = acre__heap_tree(acre__heap_of(h), tree);
    for (uint32_t level = 0; level < 3; level++, i >>= 6)
        if (!(words[acre__heap_level(level) + (i >> 6)] >> (i & 63) & 1))
            return 0;
    return 1;
}

static inline const char *heap_slab_fault(acre_heap_handle h, uint32_t page) {
    const acre__heap_page *record = acre__heap_page_of(acre__heap_of(h), page);
    const uint64_t *bits = acre__heap_bits_of(acre__heap_of(h), page);
    uint32_t size_class = ACRE__HEAP_CLASS(record->info), set = 0;
    uint32_t cap = record->info & ACRE__HEAP_OWN
                       ? ACRE__HEAP_CAP(record->freed) /* as many as the warp took */
                       : acre__heap_slots(size_class, ACRE__HEAP_LENGTH(record->info));
    uint32_t used = ACRE__HEAP_COUNT(record->bump);
    if (ACRE__HEAP_SORT(record->bump) != size_class + 1 || ACRE__HEAP_CAP(record->bump) != cap)
        return "a slab's bump word is not of its class";
    if (ACRE__HEAP_SORT(record->freed) != size_class + 1 || ACRE__HEAP_CAP(record->freed) != cap)
        return "a slab's freed word is not of its class";
    for (uint32_t i = 0; i < cap; i++) {
        uint32_t bit = (uint32_t)(bits[i >> 6] >> (i & 63) & 1);
        set += bit;
        if (bit && i >= used)
            return "a slot is freed that was never allocated";
    }
    if (set != ACRE__HEAP_COUNT(record->freed))
        return "freed slots and their count differ";
    if (set == cap)
        return "all slots are free, but the page is still a slab";
    int is_attached = heap_is_attached(h, size_class, page);
    if (used < cap && !is_attached)
        return "slots that were never used belong to no arena: they leak";
    const acre_heap_segment *segment = acre__heap_segment_of(acre__heap_of(h), page);
    int is_hinted = 0;
    for (uint32_t tier = 0; tier < ACRE__HEAP_TIERS; tier++)
        is_hinted |= (segment->tiers[tier][size_class] >> (page & 31) & 1) &&
                     heap_tree_has(h, acre__heap_tier_tree(tier, size_class), page >> 5);
    if (set && !is_attached && !is_hinted)
        return "no arena and no tree lists a slab with freed slots: they leak";
    return NULL;
}

/* Returns a mask of the segment's pages that are on desks. */
static inline uint32_t heap_desked(acre_heap_handle h, uint32_t segment) {
    uint32_t pages = 0;
    for (uint32_t i = 0; i < (1 << ACRE__HEAP_DESKS_LOG2); i++)
        if (ACRE__HEAP_DESK_SEGMENT(h.control->desks[i]) == segment)
            pages |= acre__heap_desk_pages(h.control->desks[i]);
    return pages;
}

/* Returns NULL if all invariants hold, or a description of the first violation. */
static inline const char *heap_fault(acre_heap_handle h) {
    for (uint32_t s = 0; s < h.control->opened; s++) {
        const acre_heap_segment *segment = &h.segments[s];
        uint32_t desked = heap_desked(h, s), covered = segment->free_pages | desked;
        if (segment->free_pages & desked)
            return "a page is both in free_pages and on a desk";
        for (uint32_t tree = 0; tree < acre__heap_rank(segment->free_pages); tree++)
            if (!heap_tree_has(h, tree, s))
                return "no tree lists a segment with free pages: they leak";
        for (uint32_t page = 0; page < ACRE__HEAP_PAGES; page++) {
            uint32_t info = segment->pages[page].info, kind = ACRE__HEAP_KIND(info);
            if (kind == ACRE__HEAP_SLAB && !ACRE__HEAP_BACK(info) && !segment->pages[page].freed)
                continue; /* it was a slab */
            if (kind != ACRE__HEAP_SLAB && (segment->free_pages | desked) >> page & 1 && info)
                return "a free page has a label";
            if (kind == ACRE__HEAP_FREE || ACRE__HEAP_BACK(info))
                continue;
            if (kind == ACRE__HEAP_LARGE) {
                s += segment->length - 1;
                covered = 0xffffffffu;
                break;
            }
            uint32_t run = acre__heap_mask(ACRE__HEAP_LENGTH(info)) << page;
            if (covered & run)
                return "a page has two owners";
            covered |= run;
            const char *fault = kind == ACRE__HEAP_SLAB ? heap_slab_fault(h, s * 32 + page) : NULL;
            if (fault)
                return fault;
        }
        if (covered != 0xffffffffu)
            return "a page has no owner: it leaks";
    }
    for (uint32_t s = (uint32_t)h.control->opened; s < h.max_segments; s++)
        for (uint32_t tree = 0; tree < ACRE__HEAP_RUNS; tree++)
            if (acre__heap_tree(acre__heap_of(h), tree)[acre__heap_level(0) + (s >> 6)] >>
                    (s & 63) &
                1)
                return "a tree lists a segment that is not opened: it would be allocated twice";
    return NULL;
}

static inline void heap_expect_sound(acre_heap_handle h) {
    const char *fault = heap_fault(h);
    if (fault)
        fail_msg("%s", fault);
}

/* Expects that no block is live: after a flush every page is free. */
static inline void heap_expect_empty(struct heap_fixture *f) {
    acre__heap_flush(acre__heap_of(f->h), f->h.control->flushes);
    acre__heap_clear_desks(acre__heap_of(f->h));
    heap_expect_sound(f->h);
    for (uint32_t s = 0; s < f->h.control->opened; s++)
        assert_int_equal(f->h.segments[s].free_pages, 0xffffffffu);
}

static inline uint32_t heap_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

#endif
