/* For tests of the host's side of heaps on any device: what a kernel would do is done on a copy of
 * the heap's records, which the core cannot tell from the real ones, and written back. */
#ifndef ACRE_TESTS_UNIT_HEAP_BRING_H
#define ACRE_TESTS_UNIT_HEAP_BRING_H

#include <stdlib.h>

#include "heap/heap.h"

/* The records, here, as far as there are any, after a kernel has heard what the host said. Nobody
 * waits for the host in it. */
static inline acre_heap_handle heap_bring(acre_heap *heap) {
    acre_heap_handle image = heap->h;
    size_t control = acre__heap_control_bytes(heap->h.max_segments);
    size_t records = (size_t)heap->committed * sizeof(acre_heap_segment);
    image.control = malloc(control);
    image.segments = malloc(records);
    assert_true(image.control && image.segments);
    acre__lock_take(&heap->lock);
    api_ok(acre__heap_read(heap, image.control, (uintptr_t)heap->h.control, control));
    api_ok(acre__heap_read(heap, image.segments, acre__heap_segment_at(heap, 0), records));
    image.control->host = (uintptr_t)&heap->pinned->wish;
    acre__heap_hear(image);
    acre__lock_give(&heap->lock);
    image.control->host = 0;
    return image;
}

static inline void heap_bring_end(acre_heap_handle image) {
    free(image.control);
    free(image.segments);
}

/* Writes them back. */
static inline void heap_put_back(acre_heap *heap, acre_heap_handle image) {
    image.control->host = heap->wish_address;
    acre__lock_take(&heap->lock);
    api_ok(acre__heap_write(heap, (uintptr_t)heap->h.control, image.control,
                            acre__heap_control_bytes(heap->h.max_segments)));
    api_ok(acre__heap_write(heap, acre__heap_segment_at(heap, 0), image.segments,
                            (size_t)heap->committed * sizeof(acre_heap_segment)));
    acre__lock_give(&heap->lock);
    heap_bring_end(image);
}

#endif
