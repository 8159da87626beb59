/* Heaps: creation and destruction. See heap.h. */
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/log.h"
#include "base/options.h"
#include "base/run.h"
#include "base/status.h"
#include "base/thread.h"
#include "heap/heap.h"
#include "watch/origin.h"
#include "space/mapped.h"

/* The default of CUDA's own heap. */
#define HEAP_INITIAL_BYTES ((uint64_t)8 << 20)
/* Mapping takes 60 us, whatever the size. */
#define HEAP_STEP_BYTES ((uint64_t)64 << 20)
/* Growth takes one to ten milliseconds while every SM is busy. */
#define HEAP_WAIT_NS ((uint64_t)1000000000)

/* ---- options ---- */

static acre_status options_check(acre_device *dev, acre_heap_options *options) {
    if (options->reserved || options->flags & ~ACRE_HEAP_NO_SERVICE)
        return acre__fail(ACRE_E_OPTIONS, "acre_heap_options: flags 0x%x, reserved %u",
                          options->flags, options->reserved);
    if (!options->initial_bytes)
        options->initial_bytes = HEAP_INITIAL_BYTES;
    if (!options->limit_bytes) {
        uint64_t most = (uint64_t)ACRE__HEAP_SEGMENTS_MOST * ACRE__HEAP_SEGMENT_BYTES;
        options->limit_bytes = dev->info.total_bytes < most ? dev->info.total_bytes : most;
        if (options->limit_bytes < options->initial_bytes)
            options->limit_bytes = options->initial_bytes;
    }
    if (!options->step_bytes)
        options->step_bytes = HEAP_STEP_BYTES;
    if (!options->wait_ns)
        options->wait_ns = HEAP_WAIT_NS;
    if (options->initial_bytes > options->limit_bytes)
        return acre__fail(ACRE_E_INVALID, "acre_heap_options: initial %llu, limit %llu bytes",
                          (unsigned long long)options->initial_bytes,
                          (unsigned long long)options->limit_bytes);
    if (acre__heap_segments_for(options->limit_bytes) > ACRE__HEAP_SEGMENTS_MOST)
        return acre__fail(ACRE_E_INVALID, "acre_heap_options: limit %llu bytes, 512 GiB at most",
                          (unsigned long long)options->limit_bytes);
    return ACRE_OK;
}

/* ---- parts of a new heap ---- */

static acre_status make_book(acre_heap *heap, struct acre__block *block,
                             struct acre__extent *extent) {
    *block = (struct acre__block){.node.key = extent->range.at,
                                  .dev = heap->dev,
                                  .kind = ACRE_KIND_DEVICE,
                                  .source = ACRE__FROM_SPACE,
                                  .owner = ACRE__OWNED_BY_HEAP,
                                  .extent = extent};
    return acre__book_add(block)
               ? ACRE_OK
               : acre__fail(ACRE_E_REGISTERED,
                            "the addresses of a new heap are already in acre's book");
}

static acre_status make_pinned(acre_heap *heap, uint32_t flags) {
    void *p = NULL, *seen = NULL;
    acre_status status = acre_mem_alloc(heap->dev, ACRE_KIND_MAPPED, sizeof *heap->pinned, 0, &p);
    if (status)
        return acre__in_call(status, NULL);
    heap->pinned = p;
    acre__origin_forget(p);
    memset(heap->pinned, 0, sizeof *heap->pinned);
    if (!(flags & ACRE_HEAP_NO_SERVICE)) {
        status = acre_mem_device_pointer(heap->dev, &heap->pinned->wish, &seen);
        heap->wish_address = (uintptr_t)seen;
    }
    /* Non-blocking: its copies must run while a kernel on the default stream waits for memory. */
    return status ? status
                  : acre__stream_create_own(heap->dev, ACRE_STREAM_NON_BLOCKING, &heap->stream);
}

static acre_status make_memory(acre_heap *heap) {
    uint32_t most = heap->h.max_segments;
    acre_status status =
        acre__extent_open(&heap->blocks, heap->dev, 0, (size_t)most * ACRE__HEAP_SEGMENT_BYTES,
                          ACRE__HEAP_SEGMENT_BYTES, 0);
    if (status == ACRE_OK)
        status =
            acre__extent_open(&heap->records, heap->dev, 0, acre__heap_records_bytes(most, most),
                              ACRE__HEAP_SEGMENT_BYTES, 0);
    if (status == ACRE_OK)
        status = make_book(heap, &heap->block, &heap->blocks);
    if (status == ACRE_OK)
        status = make_book(heap, &heap->record_block, &heap->records);
    heap->h.base = (char *)(uintptr_t)heap->blocks.range.at;
    heap->h.control = (acre_heap_control *)(uintptr_t)heap->records.range.at;
    heap->h.segments =
        (acre_heap_segment *)(uintptr_t)(heap->records.range.at + acre__heap_records_begin(most));
    return status;
}

/* The host puts the first memory into the trees itself: no kernel uses the heap yet. */
static acre_status make_first(acre_heap *heap, uint64_t segments) {
    acre_status status =
        acre__extent_grow(&heap->records, acre__heap_records_begin(heap->h.max_segments));
    if (status == ACRE_OK)
        status = acre__heap_write_control(heap, 0, NULL);
    if (status == ACRE_OK)
        status = acre__heap_grow_to(heap, segments, 1);
    if (status == ACRE_OK)
        status = acre__heap_write_free(heap, segments, NULL);
    if (status == ACRE_OK)
        status = acre__heap_write_control(heap, (uint32_t)segments, NULL);
    heap->grows = 0;
    return status;
}

/* ---- destruction, and closing of the device ---- */

static void heap_end(acre_heap *heap) {
    acre__heap_service_end(heap);
    acre__book_change(&heap->block, 0, 0);
    acre__book_change(&heap->record_block, 0, 0);
    if (heap->stream)
        (void)acre__stream_destroy_own(heap->dev, heap->stream);
    if (heap->pinned)
        (void)acre_mem_free(heap->dev, heap->pinned);
    if (heap->records.dev)
        acre__extent_close(&heap->records);
    if (heap->blocks.dev)
        acre__extent_close(&heap->blocks);
    acre__lock_destroy(&heap->lock);
    free(heap);
}

static const struct acre__what heap_what = {"acre_heap_create", "heap", "heap", "heaps"};

static void heap_close(acre_device *dev) {
    unsigned count = 0;
    for (acre_heap *heap; (heap = acre__live_take_any(&acre__heaps, dev)); count++)
        heap_end(heap);
    if (!count || acre__origin_log_leaks(dev, &heap_what))
        return;
    acre__log(ACRE_LOG_WARN, "heap", "%s: closed with %u heaps not destroyed", dev->label, count);
    acre__run_leaked("acre_heap_create", count, 0, NULL);
}

/* ---- creating ---- */

static acre_status heap_make(acre_device *dev, const acre_heap_options *options, acre_heap *heap) {
    static const struct acre__device_hooks hooks = {.close = heap_close};
    heap->dev = dev;
    heap->h.max_segments = (uint32_t)acre__heap_segments_for(options->limit_bytes);
    heap->limit = heap->h.max_segments;
    heap->step = acre__heap_segments_for(options->step_bytes);
    heap->ahead = acre__heap_segments_for(options->ahead_bytes);
    heap->wait_ns = options->wait_ns;
    acre__lock_init(&heap->lock, "heap", ACRE__RANK_HEAP);
    acre_status status = make_pinned(heap, options->flags);
    if (status == ACRE_OK)
        status = make_memory(heap);
    /* After the calls above: hooks added later run first, so a heap ends before what it uses. */
    acre__device_hooks_add(&hooks);
    if (status == ACRE_OK)
        status = make_first(heap, acre__heap_segments_for(options->initial_bytes));
    return status ? status : acre__heap_service_begin(heap);
}

static acre_status heap_create(acre_device *device, const acre_heap_options *options,
                               acre_heap **heap) {
    acre_heap_options wishes;
    struct acre__said said;
    if (heap)
        *heap = NULL;
    acre_status status = acre__device_enter(device);
    if (status || (status = acre__not_null(heap, "acre_heap_create: heap")))
        return status;
    if ((status = acre__options_in(&wishes, sizeof wishes, options, "acre_heap_options")) ||
        (status = options_check(device, &wishes)))
        return status;
    acre_heap *made = calloc(1, sizeof *made);
    if (!made)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a heap's record");
    status = heap_make(device, &wishes, made);
    if (status) {
        acre__said_keep(&said);
        heap_end(made);
        return acre__said_fail(status, &said);
    }
    acre__live_add(&acre__heaps, &made->live, device);
    if (acre__stacks_are_on()) { /* the service may grow the heap already */
        acre__lock_take(&made->lock);
        (void)acre__origin_add(made, made->blocks.mapped, &heap_what, device, device->label);
        acre__lock_give(&made->lock);
    }
    *heap = made;
    return ACRE_OK;
}

acre_status acre_heap_create(acre_device *device, const acre_heap_options *options,
                             acre_heap **heap) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = heap_create(device, options, heap);
    while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_heap_create");
}

static acre_status heap_get_handle(acre_heap *heap, acre_heap_handle *handle) {
    acre_status status = acre__heap_enter(heap);
    if (status || (status = acre__not_null(handle, "acre_heap_get_handle: handle")))
        return status;
    *handle = heap->h;
    int grows_ahead = heap->ahead && !heap->wish_address;
    /* The service may hold the lock for milliseconds. */
    if (!grows_ahead && !acre__load(&heap->short_ns, memory_order_relaxed))
        return ACRE_OK;
    acre__lock_take(&heap->lock);
    acre__heap_retry(heap, 1);
    if (grows_ahead)
        acre__heap_grow_ahead(heap);
    acre__lock_give(&heap->lock);
    return ACRE_OK;
}

acre_status acre_heap_get_handle(acre_heap *heap, acre_heap_handle *handle) {
    return acre__in_call(heap_get_handle(heap, handle), "acre_heap_get_handle");
}

/* ---- destroying ---- */

/* Logs leaked blocks and overruns. Lock held. */
static void end_log(acre_heap *heap, const acre_heap_stats *left) {
    if (left->live_blocks) {
        acre__log(ACRE_LOG_WARN, "heap",
                  "%s: heap destroyed with %llu blocks not freed (%llu bytes)", heap->dev->label,
                  (unsigned long long)left->live_blocks, (unsigned long long)left->live_bytes);
        acre__heap_log_tags(heap);
        acre__run_leaked("acre_heap_malloc", left->live_blocks, left->live_bytes, NULL);
    }
    if (left->overruns)
        acre__log(ACRE_LOG_WARN, "heap",
                  "%s: %llu blocks of a heap were written past their end, the first at %p",
                  heap->dev->label, (unsigned long long)left->overruns,
                  (void *)(uintptr_t)left->overrun_at);
}

static acre_status heap_destroy(acre_heap *heap, uint64_t *leaked_blocks, uint64_t *leaked_bytes) {
    acre_heap_stats left = {.struct_size = sizeof left};
    if (leaked_blocks)
        *leaked_blocks = 0;
    if (leaked_bytes)
        *leaked_bytes = 0;
    acre_status status = acre__enter();
    if (status || !heap)
        return status;
    status = acre__live_check(&acre__heaps, heap);
    if (status)
        return status;
    /* Waits for kernels that still use the heap while the service can answer them. */
    status = acre__device_is_lost(heap->dev) ? ACRE_OK : acre_device_sync(heap->dev);
    if (status && !acre__device_is_lost(heap->dev))
        return status;
    if (!acre__live_take(&acre__heaps, heap, &status))
        return status;
    (void)acre__origin_free(heap);
    acre__heap_service_end(heap);
    if (!acre__device_is_lost(heap->dev)) {
        acre__lock_take(&heap->lock);
        if (acre__heap_census(heap, &left))
            left.live_blocks = left.live_bytes = left.overruns = 0;
        end_log(heap, &left);
        acre__lock_give(&heap->lock);
    }
    if (leaked_blocks)
        *leaked_blocks = left.live_blocks;
    if (leaked_bytes)
        *leaked_bytes = left.live_bytes;
    heap_end(heap);
    return ACRE_OK;
}

acre_status acre_heap_destroy(acre_heap *heap, uint64_t *leaked_blocks, uint64_t *leaked_bytes) {
    return acre__in_call(heap_destroy(heap, leaked_blocks, leaked_bytes), "acre_heap_destroy");
}
