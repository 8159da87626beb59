/* Records of heaps: see heap_image.h. They are read without atomics: the caller makes sure that
 * nobody writes them, or works on a copy. */
#include <string.h>

#include "heap/heap_image.h"

static void image_set_bits(uint64_t *words, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        words[i >> 6] |= (uint64_t)1 << (i & 63);
}

void acre__heap_image_control(acre_heap_control *image, uint32_t max_segments, uint32_t segments) {
    memset(image, 0, acre__heap_control_bytes(max_segments));
    image->committed = image->opened = segments;
    for (uint32_t c = 0; c < ACRE__HEAP_SORTS; c++)
        image->spread[c] = acre__heap_spread_of(segments, ACRE__HEAP_LEAST_LOG2);
    acre_heap_handle h = {.control = image, .max_segments = max_segments};
    uint64_t leaves = acre__heap_leaves(segments);
    for (uint32_t tree = 0; tree < ACRE__HEAP_RUNS; tree++) {
        uint64_t *words = acre__heap_tree(acre__heap_of(h), tree);
        image_set_bits(words + acre__heap_level(0), segments);
        image_set_bits(words + acre__heap_level(1), leaves);
        image_set_bits(words + acre__heap_level(2), (leaves + 63) >> 6);
    }
}

void acre__heap_image_free(acre_heap_segment *image, size_t count) {
    for (size_t i = 0; i < count; i++)
        image[i].free_pages = 0xffffffffu;
}

/* ---- slabs ---- */

/* The kind of a page. Labels of slabs outlive the slab. */
static uint32_t page_kind(const acre__heap_page *page) {
    uint32_t kind = ACRE__HEAP_KIND(page->info);
    return kind == ACRE__HEAP_SLAB && !page->freed ? (uint32_t)ACRE__HEAP_FREE : kind;
}

/* The number of slots that were ever allocated; they are live if their bit is not set. */
static uint32_t slab_used(const acre__heap_page *page) {
    uint32_t used = ACRE__HEAP_COUNT(page->bump), cap = ACRE__HEAP_CAP(page->bump);
    return used < cap ? used : cap;
}

static int slab_walk(const acre_heap_segment *segment, uint32_t page, char *address,
                     acre_heap_walk_fn fn, void *user) {
    uint32_t size_class = ACRE__HEAP_CLASS(segment->pages[page].info);
    uint32_t used = slab_used(&segment->pages[page]), bytes = acre__heap_class_bytes(size_class);
    int result = 0;
    for (uint32_t i = 0; i < used && !result; i++)
        if (!(segment->bits[page][i >> 6] >> (i & 63) & 1))
            result = fn(user, address + (size_t)i * bytes, bytes);
    return result;
}

int acre__heap_image_walk(const acre_heap_segment *image, size_t count, char *address,
                          acre_heap_walk_fn fn, void *user) {
    int result = 0;
    for (size_t i = 0; i < count && !result; i++)
        for (uint32_t page = 0; page < ACRE__HEAP_PAGES && !result; page++) {
            uint32_t info = image[i].pages[page].info, kind = page_kind(&image[i].pages[page]);
            char *at =
                address + i * ACRE__HEAP_SEGMENT_BYTES + (size_t)page * ACRE__HEAP_PAGE_BYTES;
            if (ACRE__HEAP_BACK(info))
                continue;
            if (kind == ACRE__HEAP_SLAB)
                result = slab_walk(&image[i], page, at, fn, user);
            else if (kind == ACRE__HEAP_RUN)
                result = fn(user, at, ACRE__HEAP_LENGTH(info) * ACRE__HEAP_PAGE_BYTES);
            else if (kind == ACRE__HEAP_LARGE)
                result = fn(user, at, image[i].length * ACRE__HEAP_SEGMENT_BYTES);
        }
    return result;
}

static void count_slab(const acre__heap_page *page, uint32_t info, acre_heap_stats *stats) {
    /* While a kernel makes a slab, the two words may be of different slabs. */
    uint32_t freed = ACRE__HEAP_COUNT(page->freed), used = slab_used(page);
    uint32_t live = ACRE__HEAP_SORT(page->freed) == ACRE__HEAP_SORT(page->bump) && used > freed
                        ? used - freed
                        : 0;
    uint32_t size_class = ACRE__HEAP_CLASS(info);
    acre_heap_class_stats *of = size_class < ACRE_HEAP_CLASSES
                                    ? &stats->classes[size_class]
                                    : &stats->large_classes[size_class - ACRE_HEAP_CLASSES];
    of->live_blocks += live;
    of->free_blocks += ACRE__HEAP_CAP(page->bump) - live;
    stats->live_blocks += live;
    stats->live_bytes += (uint64_t)live * acre__heap_class_bytes(size_class);
}

void acre__heap_image_count(const acre_heap_segment *image, size_t count, acre_heap_stats *stats) {
    for (size_t i = 0; i < count; i++) {
        stats->free_bytes += (uint64_t)acre__heap_popc32(image[i].free_pages)
                             << ACRE__HEAP_PAGE_LOG2;
        for (uint32_t page = 0; page < ACRE__HEAP_PAGES; page++) {
            uint32_t info = image[i].pages[page].info, kind = page_kind(&image[i].pages[page]);
            uint64_t bytes = 0;
            if (ACRE__HEAP_BACK(info) || kind == ACRE__HEAP_FREE)
                continue;
            if (kind == ACRE__HEAP_SLAB) {
                count_slab(&image[i].pages[page], info, stats);
                continue;
            }
            bytes = kind == ACRE__HEAP_RUN ? ACRE__HEAP_LENGTH(info) * ACRE__HEAP_PAGE_BYTES
                                           : image[i].length * ACRE__HEAP_SEGMENT_BYTES;
            stats->live_blocks++;
            stats->live_bytes += bytes;
        }
    }
}
