/* Trim and reset of a heap. No kernel uses the heap at that time. See heap.h. */
#include <stdlib.h>

#include "base/status.h"
#include "heap/heap.h"
#include "heap/heap_image.h"

/* Puts all runs of pages into the trees before the first segment is free, so that freed pages can
 * be found if the reset fails half way. The trees of slabs stay, for slabs that are not freed
 * yet. */
static acre_status reset_runs(acre_heap *heap, uint64_t opened) {
    acre_heap_control *image = malloc(acre__heap_control_bytes(heap->h.max_segments));
    if (!image)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the records of a heap");
    acre__heap_image_control(image, heap->h.max_segments, (uint32_t)opened);
    acre_status status = acre__heap_write_trees(heap, image, ACRE__HEAP_RUNS);
    free(image);
    return status;
}

/* Segments that kernels have not opened stay unopened, and pages on desks stay there. If the reset
 * failed half way, either of them could have two owners, or none. */
static acre_status heap_reset(acre_heap *heap) {
    acre_heap_stats now = {.struct_size = sizeof now};
    uint64_t desks[1 << ACRE__HEAP_DESKS_LOG2], opened = 0;
    acre_status status = acre__heap_lock(heap);
    if (status)
        return status;
    status = acre__heap_census(heap, &now); /* updates the peak */
    if (status == ACRE_OK)
        status = acre__heap_opened(heap, &opened);
    if (status == ACRE_OK)
        status = reset_runs(heap, opened);
    if (status == ACRE_OK)
        status = acre__heap_read(heap, desks, (uintptr_t)heap->h.control->desks, sizeof desks);
    if (status == ACRE_OK)
        status = acre__heap_write_free(heap, opened, desks);
    if (status == ACRE_OK)
        status = acre__heap_write_control(heap, (uint32_t)opened, desks);
    return acre__heap_unlock(heap, status);
}

acre_status acre_heap_reset(acre_heap *heap) {
    return acre__in_call(heap_reset(heap), "acre_heap_reset");
}

/* The free pages of a segment, including those on desks. */
static uint32_t trim_free(const acre_heap_handle image, uint64_t segment) {
    uint32_t pages = image.segments[segment].free_pages;
    for (uint32_t i = 0; i < 1u << ACRE__HEAP_DESKS_LOG2 && pages != 0xffffffffu; i++)
        if (ACRE__HEAP_DESK_SEGMENT(image.control->desks[i]) == segment)
            pages |= acre__heap_desk_pages(image.control->desks[i]);
    return pages;
}

/* The number of segments up to the last one that is not entirely free. */
static uint64_t trim_used(const acre_heap_handle image, uint64_t segments) {
    while (segments > 0 &&
           (segments > image.control->opened || trim_free(image, segments - 1) == 0xffffffffu))
        segments--;
    return segments;
}

/* Removes the segments from `keep` on, which are all free, from the trees and desks. */
static void trim_cut(acre_heap_handle image, uint64_t keep) {
    uint64_t opened = image.control->opened;
    uint32_t spread = acre__heap_spread_of(keep, ACRE__HEAP_LEAST_LOG2);
    for (uint32_t c = 0; c < ACRE__HEAP_SORTS; c++)
        if (image.control->spread[c] > spread)
            image.control->spread[c] = spread;
    for (uint32_t i = 0; i < 1u << ACRE__HEAP_DESKS_LOG2; i++)
        if (image.control->desks[i] && ACRE__HEAP_DESK_SEGMENT(image.control->desks[i]) >= keep)
            image.control->desks[i] = 0;
    if (keep < opened) {
        acre__heap_note_whole((uint32_t)keep, (uint32_t)(opened - keep), acre__heap_of(image), 0);
        image.control->opened = keep;
    }
    image.control->committed = keep;
}

/* The heap code works on any memory, so the records are copied to the host, and acre__heap_flush
 * detaches the slabs of the arenas there. Writing the records back may fail at any piece, and
 * kernels that come later use what is there then. So the order is:
 * - The trees go first. They may have hints to free pages that are not free yet.
 * - Then the segments. Each is consistent by itself, and its slabs have no slots left for arenas
 *   that still name them. Desks keep their pages, except for segments that are to be unmapped.
 * - The control goes last, with empty arenas. The number of segments and the trees of runs are in
 *   one copy, since kernels must not find pages in a tree whose segments are to be opened again. */
_Static_assert(sizeof(acre_heap_control) +
                       ACRE__HEAP_RUNS * (65 + ACRE__HEAP_SEGMENTS_MOST / 64) * sizeof(uint64_t) <=
                   ACRE__HEAP_BATCH * sizeof(acre_heap_segment),
               "the control and the trees of runs are one piece");
static acre_status trim_image(acre_heap *heap, acre_heap_handle image, uint64_t *keep) {
    size_t control = acre__heap_control_bytes(image.max_segments);
    acre_status status = acre__heap_read(heap, image.control, (uintptr_t)heap->h.control, control);
    if (status)
        return status;
    size_t records = (size_t)image.control->opened * sizeof *image.segments;
    status = acre__heap_read(heap, image.segments, acre__heap_segment_at(heap, 0), records);
    if (status)
        return status;
    acre__heap_flush(acre__heap_of(image), image.control->flushes);
    image.control->flushes = 0; /* memory is not short any more */
    uint64_t used = trim_used(image, heap->committed);
    *keep = *keep > used ? *keep : used;
    status = acre__heap_write_trees(heap, image.control, ACRE__HEAP_TREES);
    if (status == ACRE_OK)
        status = acre__heap_write(heap, acre__heap_segment_at(heap, 0), image.segments, records);
    trim_cut(image, *keep);
    return status ? status
                  : acre__heap_write(heap, (uintptr_t)heap->h.control, image.control, control);
}

static acre_status trim_to(acre_heap *heap, uint64_t keep) {
    acre_heap_handle image = {.max_segments = heap->h.max_segments};
    acre_status status;
    image.control = malloc(acre__heap_control_bytes(image.max_segments));
    image.segments = malloc((size_t)heap->committed * sizeof *image.segments);
    if (image.control && image.segments)
        status = trim_image(heap, image, &keep);
    else
        status = acre__fail(ACRE_E_HOST_MEMORY, "no memory to read the records of a heap");
    free(image.control);
    free(image.segments);
    if (status)
        return status;
    /* Only whole chunks are unmapped: segments that stay mapped behind `keep` count as new. */
    (void)acre__extent_shrink(&heap->blocks, (size_t)keep * ACRE__HEAP_SEGMENT_BYTES);
    acre__heap_book(heap);
    if (heap->committed > heap->blocks.mapped / ACRE__HEAP_SEGMENT_BYTES)
        heap->committed = heap->blocks.mapped / ACRE__HEAP_SEGMENT_BYTES;
    heap->is_full = heap->committed >= heap->limit;
    heap->is_refused = 0;
    return acre__heap_publish(heap);
}

static acre_status heap_trim(acre_heap *heap, uint64_t bytes) {
    acre_status status = acre__heap_lock(heap);
    if (status)
        return status;
    /* If growth failed half way, more may be mapped than kernels know. */
    uint64_t keep = acre__heap_segments_for(bytes);
    if (keep < heap->blocks.mapped / ACRE__HEAP_SEGMENT_BYTES)
        status = trim_to(heap, keep < heap->committed ? keep : heap->committed);
    return acre__heap_unlock(heap, status);
}

acre_status acre_heap_trim(acre_heap *heap, uint64_t bytes) {
    return acre__in_call(heap_trim(heap, bytes), "acre_heap_trim");
}
