/* Memory that graphs allocate and free: cuMemAllocAsync and cuMemFreeAsync in a capture.
 *
 * A captured allocation takes memory from the pool at once and becomes a node. Its address is
 * fixed: other nodes contain it. So the memory is held until no graph and no executable has a node
 * for it. (A GPU holds the addresses that long, and the memory only while a launch needs it.) A
 * launch allocates and frees the memory in stream order, as calls do: it becomes live and idle
 * again, and the clocks treat both as writes. What a graph does not free, the program frees, or a
 * free in another graph. If the last node is destroyed while the memory is live, it becomes
 * ordinary memory of its pool. Guarded by acre__soft.lock. */
#include <stdlib.h>

#include "base/round.h"
#include "soft/soft_graph_memory.h"
#include "soft/soft_op.h"
#include "soft/soft_physical.h"
#include "soft/soft_pool_fit.h"
#include "soft/soft_pool_types.h"
#include "soft/soft_queue.h"
#include "soft/soft_range.h"
#include "soft/soft_state.h"

/* ---- nodes ---- */

/* Records a node that allocates or frees the memory. */
static CUresult node_record(enum soft_op_kind kind, struct soft_graph_memory *memory,
                            const struct soft_stream *stream) {
    struct soft_op *op = acre__soft_op_make(kind);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->graph_memory = memory;
    memory->refs++;
    acre__soft_graph_record(stream->capturing, op);
    return CUDA_SUCCESS;
}

static int work_has(const struct soft_work *work, enum soft_op_kind kind,
                    const struct soft_graph_memory *memory) {
    for (const struct soft_op *node = work->first; node; node = node->next)
        if (node->kind == kind && node->graph_memory == memory)
            return 1;
    return 0;
}

int acre__soft_graph_memory_is_in(const struct soft_work *work) {
    for (const struct soft_op *node = work->first; node; node = node->next)
        if (node->graph_memory)
            return 1;
    return 0;
}

int acre__soft_graph_memory_is_idle(uint64_t address) {
    const struct soft_range *range = acre__soft_range_find(address);
    return range && range->graph && !range->graph->is_live;
}

/* ---- captures ---- */

CUresult acre__soft_graph_alloc(struct soft_stream *stream, struct CUmemPoolHandle_st *pool,
                                size_t bytes, CUdeviceptr *out) {
    size_t whole = acre__round_up(bytes, SOFT_POOL_UNIT);
    struct soft_fit fit;
    struct soft_range *range;
    /* Launches may be on any stream, so no stream's frees may be open. */
    CUresult result = acre__soft_fit_find(pool, NULL, whole, &fit);
    if (result)
        return result;
    struct soft_graph_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if ((result = acre__soft_fit_range(&fit, bytes, &range))) {
        free(memory);
        return result;
    }
    if ((result = node_record(SOFT_ALLOC, memory, stream))) {
        acre__soft_range_remove(range);
        free(memory);
        return result;
    }
    memory->range = range;
    memory->graph = stream->capturing;
    range->graph = memory;
    acre__soft_fit_give(&fit, whole, NULL);
    *out = range->node.key;
    return CUDA_SUCCESS;
}

/* A graph may free what another graph allocates, and be captured before the other is launched. */
CUresult acre__soft_graph_free_later(const struct soft_range *range,
                                     const struct soft_stream *stream) {
    struct soft_graph_memory *memory = range->graph;
    if (!memory || (memory->graph && memory->graph != stream->capturing) ||
        work_has(stream->capturing->work, SOFT_FREE, memory))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = node_record(SOFT_FREE, memory, stream);
    if (!result)
        memory->graph = NULL;
    return result;
}

/* ---- frees ---- */

void acre__soft_graph_memory_freed(struct soft_graph_memory *memory, struct soft_marker *freed) {
    acre__soft_marker_drop(memory->freed);
    memory->freed = freed;
    memory->is_live = 0;
}

CUresult acre__soft_graph_memory_free(struct soft_graph_memory *memory,
                                      struct soft_stream *stream) {
    const struct soft_range *range = memory->range;
    struct soft_marker *freed;
    if (!memory->is_live)
        return CUDA_ERROR_INVALID_VALUE;
    struct soft_op *op = acre__soft_op_pooled(SOFT_FREE, range->node.key,
                                              acre__round_up(range->bytes, SOFT_POOL_UNIT),
                                              range->backing, range->offset);
    CUresult result = op ? acre__soft_submit_marked(stream, op, &freed) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        acre__soft_graph_memory_freed(memory, freed);
    return result;
}

/* ---- launches ---- */

CUresult acre__soft_graph_memory_check(const struct soft_work *work, int is_auto_free) {
    for (const struct soft_op *node = work->first; node; node = node->next) {
        const struct soft_graph_memory *memory = node->graph_memory;
        if (!memory)
            continue;
        int is_good = node->kind == SOFT_ALLOC
                          ? !memory->is_live || is_auto_free
                          : memory->is_live || work_has(work, SOFT_ALLOC, memory);
        if (!memory->range || !is_good)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult acre__soft_graph_memory_free_live(const struct soft_work *work,
                                           struct soft_stream *stream) {
    CUresult result = CUDA_SUCCESS;
    for (const struct soft_op *node = work->first; node && !result; node = node->next)
        if (node->kind == SOFT_ALLOC && node->graph_memory && node->graph_memory->is_live)
            result = acre__soft_graph_memory_free(node->graph_memory, stream);
    return result;
}

/* Makes the operation one that allocates or frees the range. */
static CUresult launch_fill(struct soft_op *op, const struct soft_range *range) {
    if (!(op->marker = acre__soft_marker_make()))
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->to.address = range->node.key;
    op->width = acre__round_up(range->bytes, SOFT_POOL_UNIT);
    op->backing = range->backing;
    op->offset = range->offset;
    acre__soft_backing_keep(range->backing);
    return CUDA_SUCCESS;
}

/* An allocation follows the last free, which may have been on another stream. */
CUresult acre__soft_graph_memory_launch(struct soft_op *op, struct soft_stream *stream) {
    struct soft_graph_memory *memory = op->graph_memory;
    int is_alloc = op->kind == SOFT_ALLOC;
    CUresult result = launch_fill(op, memory->range);
    if (!result && is_alloc && memory->freed && memory->freed->place.stream != stream->id)
        result = acre__soft_wait_for(stream, memory->freed);
    if (result) {
        acre__soft_op_free(op);
        return result;
    }
    struct soft_marker *marker;
    if ((result = acre__soft_submit_marked(stream, op, &marker)))
        return result;
    if (!is_alloc) {
        acre__soft_graph_memory_freed(memory, marker);
        return CUDA_SUCCESS;
    }
    acre__soft_marker_drop(memory->range->born);
    memory->range->born = marker;
    memory->is_live = 1;
    return CUDA_SUCCESS;
}
