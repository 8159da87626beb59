/* Heaps: making one, growing, trimming and resetting it, and ending it. See heap.h. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "base/thread.h"
#include "heap/heap.h"
#include "heap/heap_image.h"

/* As much as CUDA's own heap has. */
#define HEAP_INITIAL_BYTES ((uint64_t)8 << 20)
/* Mapping costs 60 us, whatever the size; writing the records of 64 MiB the same again. */
#define HEAP_STEP_BYTES ((uint64_t)64 << 20)
/* Growth takes a millisecond or ten with every SM busy. */
#define HEAP_WAIT_NS ((uint64_t)1000000000)

static uint64_t segments_for(uint64_t bytes) {
    return bytes / ACRE__HEAP_SEGMENT_BYTES + (bytes % ACRE__HEAP_SEGMENT_BYTES != 0);
}

/* Where the records of segments begin, behind the control and the trees. */
static size_t records_begin(uint32_t max_segments) {
    return (acre__heap_control_bytes(max_segments) + 127) / 128 * 128;
}

static size_t records_bytes(uint32_t max_segments, uint64_t segments) {
    return records_begin(max_segments) + (size_t)segments * sizeof(acre_heap_segment);
}

/* ---- options ---- */

static acre_status options_check(acre_device *dev, acre_heap_options *options) {
    if (options->reserved || options->flags & ~ACRE_HEAP_NO_SERVICE)
        return acre__fail(ACRE_E_OPTIONS, "acre_heap_options: flags 0x%x, reserved %u",
                          options->flags, options->reserved);
    if (!options->initial_bytes)
        options->initial_bytes = HEAP_INITIAL_BYTES;
    if (!options->maximum_bytes) {
        uint64_t most = (uint64_t)ACRE__HEAP_SEGMENTS_MOST * ACRE__HEAP_SEGMENT_BYTES;
        options->maximum_bytes = dev->info.total_bytes < most ? dev->info.total_bytes : most;
        if (options->maximum_bytes < options->initial_bytes)
            options->maximum_bytes = options->initial_bytes;
    }
    if (!options->step_bytes)
        options->step_bytes = HEAP_STEP_BYTES;
    if (!options->wait_ns)
        options->wait_ns = HEAP_WAIT_NS;
    if (options->initial_bytes > options->maximum_bytes)
        return acre__fail(ACRE_E_INVALID, "acre_heap_options: initial %llu, maximum %llu bytes",
                          (unsigned long long)options->initial_bytes,
                          (unsigned long long)options->maximum_bytes);
    if (segments_for(options->maximum_bytes) > ACRE__HEAP_SEGMENTS_MOST)
        return acre__fail(ACRE_E_INVALID, "acre_heap_options: maximum %llu bytes, 512 GiB at most",
                          (unsigned long long)options->maximum_bytes);
    return ACRE_OK;
}

/* ---- growing ---- */

static void heap_book(acre_heap *heap) {
    acre__book_change(&heap->block, heap->blocks.range.at, heap->blocks.mapped);
    acre__book_change(&heap->record_block, heap->records.range.at, heap->records.mapped);
}

acre_status acre__heap_grow_to(acre_heap *heap, uint64_t segments) {
    uint64_t before = heap->committed, full = heap->is_full;
    if (segments <= before)
        return ACRE_OK;
    if (segments > heap->h.max_segments)
        return acre__fail(ACRE_E_LIMIT, "%llu bytes wanted, the heap's maximum is %llu",
                          (unsigned long long)(segments * ACRE__HEAP_SEGMENT_BYTES),
                          (unsigned long long)heap->h.max_segments * ACRE__HEAP_SEGMENT_BYTES);
    acre_status status =
        acre__extent_grow(&heap->records, records_bytes(heap->h.max_segments, segments));
    if (status == ACRE_OK)
        status = acre__extent_grow(&heap->blocks, (size_t)segments * ACRE__HEAP_SEGMENT_BYTES);
    if (status)
        return status;
    heap_book(heap);
    status = acre__heap_write_free(heap, before, segments - before);
    heap->committed = segments;
    heap->is_full = segments == heap->h.max_segments;
    if (status == ACRE_OK)
        status = acre__heap_publish(heap);
    if (status) { /* the memory stays for the next time */
        heap->committed = before;
        heap->is_full = full;
        return status;
    }
    heap->grows++;
    return ACRE_OK;
}

acre_status acre_heap_grow(acre_heap *heap, uint64_t bytes) {
    acre_status status = acre__heap_enter(heap);
    if (status)
        return status;
    acre__lock_take(&heap->lock);
    status = acre__heap_grow_to(heap, segments_for(bytes));
    acre__lock_give(&heap->lock);
    return status;
}

/* ---- making ---- */

static acre_status make_book(acre_heap *heap, struct acre__block *block,
                             struct acre__extent *extent) {
    *block = (struct acre__block){.node.key = extent->range.at,
                                  .dev = heap->dev,
                                  .kind = ACRE_KIND_DEVICE,
                                  .source = ACRE__FROM_SPACE,
                                  .owner = ACRE__OWNED_BY_HEAP,
                                  .extent = extent};
    return acre__book_add(block) ? ACRE_OK
                                 : acre__fail(ACRE_E_REGISTERED,
                                              "the addresses of a heap are in acre's book already");
}

static acre_status make_pinned(acre_heap *heap, uint32_t flags) {
    void *p = NULL, *seen = NULL;
    acre_status status = acre_mem_alloc(heap->dev, ACRE_KIND_MAPPED, sizeof *heap->pinned, 0, &p);
    if (status)
        return status;
    heap->pinned = p;
    memset(heap->pinned, 0, sizeof *heap->pinned);
    if (!(flags & ACRE_HEAP_NO_SERVICE)) {
        status = acre_mem_device_pointer(heap->dev, &heap->pinned->wish, &seen);
        heap->wish_address = (uintptr_t)seen;
    }
    /* Non-blocking: it has to get through while a kernel of the default stream waits for it. */
    return status ? status
                  : acre_stream_create(heap->dev, ACRE_STREAM_NON_BLOCKING, &heap->stream);
}

static acre_status make_memory(acre_heap *heap) {
    uint32_t most = heap->h.max_segments;
    acre_status status =
        acre__extent_open(&heap->blocks, heap->dev, 0, (size_t)most * ACRE__HEAP_SEGMENT_BYTES,
                          ACRE__HEAP_SEGMENT_BYTES, 0);
    if (status == ACRE_OK)
        status = acre__extent_open(&heap->records, heap->dev, 0, records_bytes(most, most),
                                   ACRE__HEAP_SEGMENT_BYTES, 0);
    if (status == ACRE_OK)
        status = make_book(heap, &heap->block, &heap->blocks);
    if (status == ACRE_OK)
        status = make_book(heap, &heap->record_block, &heap->records);
    heap->h.base = (char *)(uintptr_t)heap->blocks.range.at;
    heap->h.control = (acre_heap_control *)(uintptr_t)heap->records.range.at;
    heap->h.segments =
        (acre_heap_segment *)(uintptr_t)(heap->records.range.at + records_begin(most));
    return status;
}

/* The first memory is in the trees from the start: nobody is there yet to be disturbed. */
static acre_status make_first(acre_heap *heap, uint64_t segments) {
    acre_status status = acre__extent_grow(&heap->records, records_begin(heap->h.max_segments));
    if (status == ACRE_OK)
        status = acre__heap_write_control(heap, 0);
    if (status == ACRE_OK)
        status = acre__heap_grow_to(heap, segments);
    if (status == ACRE_OK)
        status = acre__heap_write_control(heap, (uint32_t)segments);
    heap->grows = 0;
    return status;
}

static acre_status heap_make(acre_device *dev, const acre_heap_options *options, acre_heap *heap) {
    heap->dev = dev;
    heap->h.max_segments = (uint32_t)segments_for(options->maximum_bytes);
    heap->step = segments_for(options->step_bytes);
    heap->wait_ns = options->wait_ns;
    acre__lock_init(&heap->lock, "heap", ACRE__RANK_HEAP);
    acre_status status = make_pinned(heap, options->flags);
    if (status == ACRE_OK)
        status = make_memory(heap);
    /* Behind the calls above, so that those whose memory a heap uses end after it. */
    acre__heap_hooks();
    if (status == ACRE_OK)
        status = make_first(heap, segments_for(options->initial_bytes));
    return status ? status : acre__heap_service_begin(heap);
}

acre_status acre_heap_create(acre_device *device, const acre_heap_options *options,
                             acre_heap **heap) {
    acre_heap_options wishes;
    struct acre__said said;
    if (heap)
        *heap = NULL;
    acre_status status = acre__device_enter(device);
    if (status)
        return status;
    if (!heap)
        return acre__fail(ACRE_E_NULL, "acre_heap_create: heap is NULL");
    if ((status = acre__options_in(&wishes, sizeof wishes, options, "acre_heap_options")) ||
        (status = options_check(device, &wishes)))
        return status;
    acre_heap *made = calloc(1, sizeof *made);
    if (!made)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a heap's record");
    status = heap_make(device, &wishes, made);
    if (status) {
        acre__said_keep(&said);
        acre__heap_end(made);
        return acre__said_fail(status, &said);
    }
    acre__heap_list_add(made);
    *heap = made;
    return ACRE_OK;
}

acre_status acre_heap_get_handle(acre_heap *heap, acre_heap_handle *handle) {
    acre_status status = acre__heap_enter(heap);
    if (status)
        return status;
    if (!handle)
        return acre__fail(ACRE_E_NULL, "acre_heap_get_handle: handle is NULL");
    *handle = heap->h;
    return ACRE_OK;
}

/* ---- trimming and resetting: nobody else is there ---- */

acre_status acre_heap_reset(acre_heap *heap) {
    acre_heap_stats now = {.struct_size = sizeof now};
    acre_status status = acre__heap_enter(heap);
    if (status)
        return status;
    acre__lock_take(&heap->lock);
    status = acre__heap_census(heap, &now); /* for the peak */
    if (status == ACRE_OK)
        status = acre__heap_write_free(heap, 0, heap->committed);
    if (status == ACRE_OK)
        status = acre__heap_write_control(heap, (uint32_t)heap->committed);
    acre__lock_give(&heap->lock);
    return status;
}

/* Segments up to the last one that is not wholly free. */
static uint64_t trim_used(const acre_heap_handle image, uint64_t segments) {
    while (segments > 0 && (segments > image.control->opened ||
                            image.segments[segments - 1].free_pages == 0xffffffffu))
        segments--;
    return segments;
}

/* The core works on any memory, so the records are brought here, and what arenas hold is put back
 * by the heap's own means. */
static acre_status trim_image(acre_heap *heap, acre_heap_handle image, uint64_t *keep) {
    size_t control = acre__heap_control_bytes(image.max_segments);
    size_t records = (size_t)heap->committed * sizeof *image.segments;
    acre_status status = acre__heap_read(heap, image.control, (uintptr_t)heap->h.control, control);
    if (status == ACRE_OK)
        status = acre__heap_read(heap, image.segments, acre__heap_segment_at(heap, 0), records);
    if (status)
        return status;
    acre__heap_flush(image);
    uint64_t used = trim_used(image, heap->committed), opened = image.control->opened;
    *keep = *keep > used ? *keep : used;
    if (*keep < opened) {
        acre__heap_note_whole(image, (uint32_t)*keep, (uint32_t)(opened - *keep), 0);
        image.control->opened = *keep;
    }
    image.control->committed = *keep;
    status = acre__heap_write(heap, acre__heap_segment_at(heap, 0), image.segments, records);
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
    /* Chunks go whole: what stays mapped behind `keep` is added again as if it were new. */
    (void)acre__extent_shrink(&heap->blocks, (size_t)keep * ACRE__HEAP_SEGMENT_BYTES);
    heap_book(heap);
    heap->committed = heap->blocks.mapped / ACRE__HEAP_SEGMENT_BYTES;
    heap->is_full = heap->committed == heap->h.max_segments;
    return acre__heap_publish(heap);
}

acre_status acre_heap_trim(acre_heap *heap, uint64_t bytes) {
    acre_status status = acre__heap_enter(heap);
    if (status)
        return status;
    acre__lock_take(&heap->lock);
    if (segments_for(bytes) < heap->committed)
        status = trim_to(heap, segments_for(bytes));
    acre__lock_give(&heap->lock);
    return status;
}

/* ---- ending ---- */

void acre__heap_end(acre_heap *heap) {
    acre_status status;
    acre__heap_service_end(heap);
    if (heap->block.is_entered)
        (void)acre__book_remove(heap->dev, (void *)(uintptr_t)heap->blocks.range.at,
                                ACRE__OWNED_BY_HEAP, &status);
    if (heap->record_block.is_entered)
        (void)acre__book_remove(heap->dev, (void *)(uintptr_t)heap->records.range.at,
                                ACRE__OWNED_BY_HEAP, &status);
    if (heap->stream)
        (void)acre_stream_destroy(heap->dev, heap->stream);
    if (heap->pinned)
        (void)acre_mem_free(heap->dev, heap->pinned);
    if (heap->records.dev)
        acre__extent_close(&heap->records);
    if (heap->blocks.dev)
        acre__extent_close(&heap->blocks);
    acre__lock_destroy(&heap->lock);
    free(heap);
}

acre_status acre_heap_destroy(acre_heap *heap, uint64_t *leaked_blocks, uint64_t *leaked_bytes) {
    acre_heap_stats left = {.struct_size = sizeof left};
    if (leaked_blocks)
        *leaked_blocks = 0;
    if (leaked_bytes)
        *leaked_bytes = 0;
    acre_status status = acre__enter();
    if (status || !heap)
        return status;
    status = acre__heap_check(heap);
    if (status)
        return status;
    acre__heap_list_remove(heap);
    acre__heap_service_end(heap);
    if (!acre__device_is_lost(heap->dev)) {
        acre__lock_take(&heap->lock);
        if (acre__heap_census(heap, &left))
            left.live_blocks = left.live_bytes = 0;
        acre__lock_give(&heap->lock);
    }
    if (left.live_blocks)
        acre__log(ACRE_LOG_WARN, "heap", "%s: a heap ends with %llu blocks of %llu bytes not freed",
                  heap->dev->label, (unsigned long long)left.live_blocks,
                  (unsigned long long)left.live_bytes);
    if (leaked_blocks)
        *leaked_blocks = left.live_blocks;
    if (leaked_bytes)
        *leaked_bytes = left.live_bytes;
    acre__heap_end(heap);
    return ACRE_OK;
}
