/* Stream-ordered allocation and free.
 *
 * Calls change the records at once: a freed pointer is unknown, and its memory is available to the
 * next allocation. Each alloc and free is also an operation of its stream, which the clocks
 * (soft_clock.c) treat as a write. So the clocks find uses on another stream that are not ordered
 * after the alloc or not before the free, and memory that is reused too early. */
#include "base/round.h"
#include "soft/soft_api.h"
#include "soft/soft_capture.h"
#include "soft/soft_clock.h"
#include "soft/soft_enter.h"
#include "soft/soft_graph_memory.h"
#include "soft/soft_op.h"
#include "soft/soft_past.h"
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

/* ---- how calls begin ---- */

/* Begins a stream-ordered call. In a capture the call becomes a node. */
static CUresult pooled_enter(CUstream handle, const void *output, struct soft_stream **stream,
                             int *is_captured) {
    CUresult result = acre__soft_stream_enter(handle, output, stream);
    if (result)
        return result;
    result = acre__soft_capture_submit(*stream, is_captured);
    return result ? acre__soft_leave(result) : CUDA_SUCCESS;
}

/* Begins an allocation. Outside a capture it is refused where cuMemAlloc is. */
static CUresult alloc_enter(CUstream handle, const void *output, struct soft_stream **stream,
                            int *is_captured) {
    CUresult result = pooled_enter(handle, output, stream, is_captured);
    if (result || *is_captured)
        return result;
    result = acre__soft_capture_refuse();
    return result ? acre__soft_leave(result) : CUDA_SUCCESS;
}

/* ---- allocating ---- */

static CUresult pool_hand_out(struct soft_stream *stream, const struct soft_fit *fit, size_t bytes,
                              CUdeviceptr *out) {
    uint64_t address = fit->first->node.key;
    size_t whole = acre__round_up(bytes, SOFT_POOL_UNIT);
    struct soft_op *op = acre__soft_op_pooled(SOFT_ALLOC, address, whole, fit->segment->backing,
                                              address - fit->segment->node.key);
    struct soft_range *range;
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = acre__soft_fit_range(fit, bytes, &range);
    if (result) {
        acre__soft_op_free(op);
        return result;
    }
    if ((result = acre__soft_submit_marked(stream, op, &range->born))) {
        range->born = NULL;
        acre__soft_range_remove(range);
        return result;
    }
    acre__soft_fit_give(fit, whole, op);
    *out = address;
    return CUDA_SUCCESS;
}

static CUresult pool_alloc(struct soft_stream *stream, int is_captured,
                           struct CUmemPoolHandle_st *pool, size_t bytes, CUdeviceptr *out) {
    struct soft_fit fit;
    if (!bytes) { /* 0 bytes are NULL, and freeing NULL is a no-op */
        *out = 0;
        return CUDA_SUCCESS;
    }
    if (bytes > acre__soft.config.bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t whole = acre__round_up(bytes, SOFT_POOL_UNIT);
    acre__soft.is_past_kept = 1;
    if (is_captured)
        return acre__soft_graph_alloc(stream, pool, bytes, out);
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
    int is_captured = 0;
    CUresult result = alloc_enter(handle, ptr_out, &stream, &is_captured);
    if (result)
        return result;
    struct CUmemPoolHandle_st *from = acre__soft_pool_find(pool);
    if (!from || from->is_imported)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    return acre__soft_leave(pool_alloc(stream, is_captured, from, bytes, ptr_out));
}

CUresult acre__soft_cuMemAllocAsync(CUdeviceptr *ptr_out, size_t bytes, CUstream handle) {
    struct soft_stream *stream;
    struct CUmemPoolHandle_st *pool;
    int is_captured = 0;
    CUresult result = alloc_enter(handle, ptr_out, &stream, &is_captured);
    if (result)
        return result;
    if ((result = acre__soft_pool_current(&acre__soft.devices[stream->device], &pool)))
        return acre__soft_leave(result);
    return acre__soft_leave(pool_alloc(stream, is_captured, pool, bytes, ptr_out));
}

/* ---- freeing ---- */

/* Frees memory in the order of a stream that is not captured. */
static CUresult range_free(struct soft_range *range, struct soft_stream *stream) {
    struct soft_marker *freed;
    CUresult result = acre__soft_follow_legacy(stream);
    if (result)
        return result;
    if (range->graph)
        return acre__soft_graph_memory_free(range->graph, stream);
    int is_pooled = range->kind == SOFT_POOLED;
    size_t whole = is_pooled ? acre__round_up(range->bytes, SOFT_POOL_UNIT) : range->bytes;
    struct soft_op *op =
        acre__soft_op_pooled(SOFT_FREE, range->node.key, whole, range->backing, range->offset);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if ((result = acre__soft_submit_marked(stream, op, &freed)))
        return result;
    if (is_pooled) {
        acre__soft_pool_take_back(range, freed);
    } else {
        range->is_going = 1; /* work queued before the free still needs it */
        acre__soft_marker_drop(freed);
    }
    return CUDA_SUCCESS;
}

CUresult acre__soft_cuMemFreeAsync(CUdeviceptr ptr, CUstream handle) {
    struct soft_stream *stream;
    int is_captured = 0;
    CUresult result = pooled_enter(handle, &ptr, &stream, &is_captured);
    if (result)
        return result;
    if (!ptr)
        return acre__soft_leave(CUDA_SUCCESS);
    struct soft_range *range = acre__soft_range_find(ptr);
    if (!range || range->node.key != ptr || range->is_going ||
        (range->kind != SOFT_POOLED && range->kind != SOFT_PLAIN))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    return acre__soft_leave(is_captured ? acre__soft_graph_free_later(range, stream)
                                        : range_free(range, stream));
}

CUresult acre__soft_pool_free_now(struct soft_range *range) {
    struct soft_device *device;
    CUresult result = acre__soft_current(&device); /* needs none, but a lost one is an error */
    if (result && result != CUDA_ERROR_INVALID_CONTEXT)
        return result;
    if (range->graph && !range->graph->is_live)
        return CUDA_ERROR_INVALID_VALUE;
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
    if (range->graph)
        acre__soft_graph_memory_freed(range->graph, born);
    else
        acre__soft_pool_take_back(range, born);
    return CUDA_SUCCESS;
}
