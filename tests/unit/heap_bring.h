/* For tests of the host side of heaps, on any device. A test copies the heap's records to host
 * memory, does there what a kernel would do, and writes the records back. The heap's core cannot
 * tell the copy from the real records. */
#ifndef ACRE_TESTS_UNIT_HEAP_BRING_H
#define ACRE_TESTS_UNIT_HEAP_BRING_H

#include <stdlib.h>

#include "heap/heap.h"

/* Copies the records of all committed segments to host memory and applies the host's answer, as a
 * kernel would. `host` is 0 in the copy, so no call on it waits for the host. */
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
    acre__heap_hear(acre__heap_of(image));
    acre__lock_give(&heap->lock);
    image.control->host = 0;
    return image;
}

static inline void heap_bring_end(acre_heap_handle image) {
    free(image.control);
    free(image.segments);
}

/* Writes the copied records back to the heap and frees the copy. */
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
