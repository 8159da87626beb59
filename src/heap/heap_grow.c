/* Heaps: the list of heaps, growth, limits. See heap.h. */
#include "base/atomic.h"
#include "base/round.h"
#include "base/status.h"
#include "heap/heap.h"
#include "watch/origin.h"
#include "space/mapped.h"

struct acre__live_list acre__heaps = ACRE__LIVE_LIST("a heap", ACRE__RANK_HEAP + 1);

acre_status acre__heap_lock(acre_heap *heap) {
    acre_status status = acre__heap_enter(heap);
    if (status == ACRE_OK)
        acre__lock_take(&heap->lock);
    return status;
}

acre_status acre__heap_unlock(acre_heap *heap, acre_status status) {
    acre__lock_give(&heap->lock);
    return status;
}

size_t acre__heap_records_begin(uint32_t max_segments) {
    return acre__round_up(acre__heap_control_bytes(max_segments), 128);
}

size_t acre__heap_records_bytes(uint32_t max_segments, uint64_t segments) {
    return acre__heap_records_begin(max_segments) + (size_t)segments * sizeof(acre_heap_segment);
}

void acre__heap_book(acre_heap *heap) {
    acre__book_change(&heap->block, heap->blocks.range.at, heap->blocks.mapped);
    acre__origin_resize(heap, heap->blocks.mapped);
    acre__book_change(&heap->record_block, heap->records.range.at, heap->records.mapped);
}

/* If the driver mapped memory, but then allowed neither access to it nor its unmapping, its
 * addresses are in limbo with the memory. Once acre_trim has got them out, the extent can get them
 * again. */
static acre_status grow_extent(struct acre__extent *extent, size_t bytes, size_t whole) {
    if (extent->range.bytes < bytes)
        (void)acre__extent_extend(extent, whole);
    return acre__extent_grow(extent, bytes);
}

/* Once kernels that poll know of the memory it stays, even if publishing it to all fails. */
acre_status acre__heap_grow_to(acre_heap *heap, uint64_t segments, int is_published) {
    uint64_t before = heap->committed;
    acre_status status = ACRE_OK;
    if (segments <= before)
        return heap->is_unsaid && is_published ? acre__heap_publish(heap) : ACRE_OK;
    if (segments > heap->limit)
        return acre__fail(ACRE_E_LIMIT, "%llu bytes requested, the heap's limit is %llu bytes",
                          (unsigned long long)(segments * ACRE__HEAP_SEGMENT_BYTES),
                          (unsigned long long)(heap->limit * ACRE__HEAP_SEGMENT_BYTES));
    uint32_t most = heap->h.max_segments;
    status = grow_extent(&heap->records, acre__heap_records_bytes(most, segments),
                         acre__heap_records_bytes(most, most));
    if (status == ACRE_OK)
        status = grow_extent(&heap->blocks, (size_t)segments * ACRE__HEAP_SEGMENT_BYTES,
                             (size_t)most * ACRE__HEAP_SEGMENT_BYTES);
    acre__heap_book(heap);
    if (status) /* memory that was mapped stays for the next growth */
        return status;
    heap->committed = segments;
    heap->is_full = segments >= heap->limit;
    acre__store(&heap->short_ns, 0, memory_order_relaxed);
    heap->is_refused = 0;
    heap->grows++;
    if (is_published)
        return acre__heap_publish(heap);
    acre__heap_say(heap);
    return ACRE_OK;
}

static acre_status heap_grow(acre_heap *heap, uint64_t bytes) {
    acre_status status = acre__heap_lock(heap);
    if (status)
        return status;
    return acre__heap_unlock(heap, acre__heap_grow_to(heap, acre__heap_segments_for(bytes), 1));
}

acre_status acre_heap_grow(acre_heap *heap, uint64_t bytes) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = heap_grow(heap, bytes);
    while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_heap_grow");
}

static acre_status heap_get_limit(acre_heap *heap, uint64_t *bytes) {
    if (bytes)
        *bytes = 0;
    acre_status status = acre__heap_enter(heap);
    if (status || (status = acre__not_null(bytes, "acre_heap_get_limit: bytes")))
        return status;
    acre__lock_take(&heap->lock);
    *bytes = heap->limit * ACRE__HEAP_SEGMENT_BYTES;
    acre__lock_give(&heap->lock);
    return ACRE_OK;
}

acre_status acre_heap_get_limit(acre_heap *heap, uint64_t *bytes) {
    return acre__in_call(heap_get_limit(heap, bytes), "acre_heap_get_limit");
}

static acre_status heap_set_limit(acre_heap *heap, uint64_t bytes) {
    uint64_t segments = acre__heap_segments_for(bytes);
    acre_status status = acre__heap_enter(heap);
    if (status)
        return status;
    if (segments > heap->h.max_segments)
        return acre__fail(ACRE_E_ADDRESS_SPACE,
                          "a limit of %llu bytes requested, the heap has addresses for %llu bytes: "
                          "create it with a larger limit",
                          (unsigned long long)bytes,
                          (unsigned long long)heap->h.max_segments * ACRE__HEAP_SEGMENT_BYTES);
    acre__lock_take(&heap->lock);
    uint64_t before = heap->limit, full = heap->is_full;
    heap->limit = segments;
    heap->is_full = heap->committed >= segments;
    status = acre__heap_publish(heap);
    if (status) {
        heap->limit = before;
        heap->is_full = full;
    } else {
        heap->is_refused = 0;
    }
    return acre__heap_unlock(heap, status);
}

acre_status acre_heap_set_limit(acre_heap *heap, uint64_t bytes) {
    return acre__in_call(heap_set_limit(heap, bytes), "acre_heap_set_limit");
}
