/* Stream-ordered allocation and free.
 *
 * Calls change the records at once: a freed pointer is unknown, and its memory is available to the
 * next allocation. Each alloc and free is also an operation of its stream, which the clocks
 * (soft_clock.c) treat as a write. So the clocks find uses on another stream that are not ordered
 * after the alloc or not before the free, and memory that is reused too early. */
#include <stdlib.h>

#include "base/round.h"
#include "soft/soft_api.h"
#include "soft/soft_capture.h"
#include "soft/soft_clock.h"
#include "soft/soft_enter.h"
#include "soft/soft_op.h"
#include "soft/soft_past.h"
#include "soft/soft_physical.h"
#include "soft/soft_pool.h"
#include "soft/soft_pool_async.h"
#include "soft/soft_pool_fit.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_pool_types.h"
#include "soft/soft_queue.h"
#include "soft/soft_range.h"
#include "soft/soft_run.h"
#include "soft/soft_state.h"
#include "soft/soft_thread.h"

/* ---- operations ---- */

/* Creates an alloc or free operation for the memory, with its own marker. Returns NULL when out of
 * memory. */
static struct soft_op *pooled_op(enum soft_op_kind kind, uint64_t address, size_t bytes,
                                 struct soft_backing *backing, size_t offset) {
    struct soft_op *op = acre__soft_op_make(kind);
    if (!op || !(op->marker = acre__soft_marker_make())) {
        free(op);
        return NULL;
    }
    op->to.address = address;
    op->width = bytes;
    op->backing = backing;
    op->offset = offset;
    acre__soft_backing_keep(backing);
    return op;
}

/* Queues the operation and takes ownership of it, also on failure. On success the caller gets a
 * reference to the marker. */
static CUresult pooled_queue(struct soft_stream *stream, struct soft_op *op,
                             struct soft_marker **marker) {
    *marker = op->marker;
    op->marker->refs++;
    CUresult result = acre__soft_submit_bare(stream, op);
    if (result)
        acre__soft_marker_drop(*marker);
    else
        acre__soft_past_record(stream, *marker);
    return result;
}

/* Begins a stream-ordered call. It invalidates a capture, because graphs with memory nodes are not
 * supported. */
static CUresult pooled_enter(CUstream handle, const void *output, struct soft_stream **stream) {
    CUresult result = acre__soft_stream_enter(handle, output, stream);
    if (result)
        return result;
    int is_captured = 0;
    if ((result = acre__soft_capture_submit(*stream, &is_captured)) ||
        (result = acre__soft_capture_disturb(*stream)))
        return acre__soft_leave(result);
    return CUDA_SUCCESS;
}

/* ---- allocating ---- */

static CUresult pool_hand_out(struct soft_stream *stream, const struct soft_fit *fit, size_t bytes,
                              CUdeviceptr *out) {
    struct CUmemPoolHandle_st *pool = fit->segment->pool;
    struct soft_backing *backing = fit->segment->backing;
    uint64_t address = fit->first->node.key;
    size_t whole = acre__round_up(bytes, SOFT_POOL_UNIT), offset = address - fit->segment->node.key;
    struct soft_gap *gap = calloc(1, sizeof *gap);
    struct soft_op *op = pooled_op(SOFT_ALLOC, address, whole, backing, offset);
    struct soft_range *range = NULL;
    CUresult result = gap && op ? acre__soft_range_add(SOFT_POOLED, address, bytes, pool->device,
                                                       backing, offset, &range)
                                : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        if (op)
            acre__soft_op_free(op);
        free(gap);
        return result;
    }
    acre__soft_backing_keep(backing);
    range->pool = pool;
    range->gap = gap;
    if ((result = pooled_queue(stream, op, &range->born))) {
        range->born = NULL;
        acre__soft_range_remove(range);
        return result;
    }
    acre__soft_fit_take(fit, whole, op);
    acre__soft_pool_count(pool, 0, (int64_t)whole);
    pool->live_count++;
    *out = address;
    return CUDA_SUCCESS;
}

static CUresult pool_alloc(struct soft_stream *stream, struct CUmemPoolHandle_st *pool,
                           size_t bytes, CUdeviceptr *out) {
    struct soft_fit fit;
    if (!bytes) { /* 0 bytes are NULL, and freeing NULL is a no-op */
        *out = 0;
        return CUDA_SUCCESS;
    }
    if (bytes > acre__soft.config.bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t whole = acre__round_up(bytes, SOFT_POOL_UNIT);
    acre__soft.is_past_kept = 1;
    CUresult result = acre__soft_follow_legacy(stream);
    if (!result)
        result = acre__soft_fit_find(pool, stream, whole, &fit);
    if (!result)
        result = acre__soft_fit_wait(stream, &fit, whole);
    return result ? result : pool_hand_out(stream, &fit, bytes, out);
}

CUresult acre__soft_cuMemAllocFromPoolAsync(CUdeviceptr *ptr_out, size_t bytes, CUmemoryPool pool,
                                            CUstream handle) {
    struct soft_stream *stream;
    CUresult result = pooled_enter(handle, ptr_out, &stream);
    if (result)
        return result;
    struct CUmemPoolHandle_st *from = acre__soft_pool_find(pool);
    if (!from || from->is_imported)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    return acre__soft_leave(pool_alloc(stream, from, bytes, ptr_out));
}

CUresult acre__soft_cuMemAllocAsync(CUdeviceptr *ptr_out, size_t bytes, CUstream handle) {
    struct soft_stream *stream;
    struct CUmemPoolHandle_st *pool;
    CUresult result = pooled_enter(handle, ptr_out, &stream);
    if (result)
        return result;
    if ((result = acre__soft_pool_current(&acre__soft.devices[stream->device], &pool)))
        return acre__soft_leave(result);
    return acre__soft_leave(pool_alloc(stream, pool, bytes, ptr_out));
}

/* ---- freeing ---- */

/* Turns the range into a gap that follows the marker. Takes over the reference to the marker. */
static void pool_take_back(struct soft_range *range, struct soft_marker *freed) {
    struct CUmemPoolHandle_st *pool = range->pool;
    struct soft_gap *gap = range->gap;
    size_t whole = acre__round_up(range->bytes, SOFT_POOL_UNIT);
    uint64_t address = range->node.key;
    range->gap = NULL;
    acre__soft_range_remove(range);
    acre__soft_pool_count(pool, pool->is_imported ? -(int64_t)whole : 0, -(int64_t)whole);
    pool->live_count--;
    if (gap) {
        *gap = (struct soft_gap){.node = {.key = address}, .bytes = whole, .freed = freed};
        acre__soft_gap_put(acre__soft_segment_find(address), gap);
    } else { /* imported: the bytes belong to the exporting pool */
        acre__soft_marker_drop(freed);
    }
    acre__soft_pools_tend();
}

CUresult acre__soft_cuMemFreeAsync(CUdeviceptr ptr, CUstream handle) {
    struct soft_stream *stream;
    struct soft_marker *freed;
    CUresult result = pooled_enter(handle, &ptr, &stream);
    if (result)
        return result;
    if (!ptr)
        return acre__soft_leave(CUDA_SUCCESS);
    struct soft_range *range = acre__soft_range_find(ptr);
    if (!range || range->node.key != ptr || range->is_going ||
        (range->kind != SOFT_POOLED && range->kind != SOFT_PLAIN))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_follow_legacy(stream)))
        return acre__soft_leave(result);
    int is_pooled = range->kind == SOFT_POOLED;
    size_t whole = is_pooled ? acre__round_up(range->bytes, SOFT_POOL_UNIT) : range->bytes;
    struct soft_op *op = pooled_op(SOFT_FREE, ptr, whole, range->backing, range->offset);
    if (!op)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if ((result = pooled_queue(stream, op, &freed)))
        return acre__soft_leave(result);
    if (is_pooled) {
        pool_take_back(range, freed);
    } else {
        range->is_going = 1; /* work queued before the free still needs it */
        acre__soft_marker_drop(freed);
    }
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_pool_free_now(struct soft_range *range) {
    struct soft_device *device;
    CUresult result = acre__soft_current(&device); /* needs none, but a lost one is an error */
    if (result && result != CUDA_ERROR_INVALID_CONTEXT)
        return result;
    struct soft_piece piece = {range->backing, range->offset, range->bytes, range->node.key, 0};
    struct soft_marker *born = range->born;
    /* Work from before the allocation used the memory for its previous owner, so it is not
     * reported. */
    acre__soft_report_pending(range->node.key, range->bytes, born ? born->serial : 0, "freed");
    if (!born || born->done)
        acre__soft_clock_check_free(&piece, "freed");
    /* Nothing uses the memory any more, but its allocation may still be queued. */
    range->born = NULL;
    if (born && acre__soft_past_is_observed(born, NULL)) {
        acre__soft_marker_drop(born);
        born = NULL;
    }
    pool_take_back(range, born);
    return CUDA_SUCCESS;
}
