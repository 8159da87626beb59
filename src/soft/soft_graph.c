/* Graphs, which captures record, and the launches of executables.
 *
 * A node is the operation that would have been queued. Nodes are kept in call order, which respects
 * every order that the capture requires: that of each stream and that of events. So a launch queues
 * copies of the nodes one after the other on one stream. The clocks, the lag and the memory checks
 * treat them like other work of that stream. A GPU may run unordered nodes in parallel; the soft
 * driver never does, so it does not find races between them.
 *
 * Addresses are looked up when the copies run. Arguments of host functions and kernels are passed
 * on unchanged. Launches of one executable run one after the other, as CUDA specifies. The last
 * operation of a launch keeps the executable's work, and with it the objects that the work holds,
 * until the launch is done.
 *
 * Graphs belong to no context, executables to the context that created them. Guarded by
 * acre__soft.lock. */
#include <stdlib.h>

#include "soft/launch.h"
#include "soft/soft_api.h"
#include "soft/soft_capture.h"
#include "soft/soft_enter.h"
#include "soft/soft_event.h"
#include "soft/soft_graph.h"
#include "soft/soft_graph_memory.h"
#include "soft/soft_object.h"
#include "soft/soft_op.h"
#include "soft/soft_past.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_queue.h"
#include "soft/soft_range.h"
#include "soft/soft_state.h"
#include "soft/soft_thread.h"

/* ---- copies of nodes ---- */

/* Copies a node for queueing. The copy refers to the program's memory and owns copies of what the
 * node owns. Returns NULL when out of memory. */
static struct soft_op *node_copy(const struct soft_op *node) {
    struct soft_op *op = acre__soft_op_make(node->kind);
    if (!op)
        return NULL;
    op->to = node->to;
    op->from = node->from;
    op->width = node->width;
    op->rows = node->rows;
    op->value = node->value;
    op->value_bytes = node->value_bytes;
    op->call = node->call;
    op->argument = node->argument;
    op->event = node->event;
    op->graph_memory = node->graph_memory;
    if (op->graph_memory)
        op->graph_memory->refs++;
    if (node->launch && !(op->launch = acre__soft_launch_copy(node->launch))) {
        acre__soft_op_free(op);
        return NULL;
    }
    return op;
}

/* Copies all nodes into a list; *out is NULL if there are none. */
static CUresult nodes_copy(const struct soft_work *work, struct soft_op **out) {
    struct soft_work copies = {0};
    for (const struct soft_op *node = work->first; node; node = node->next) {
        struct soft_op *op = node_copy(node);
        if (!op) {
            acre__soft_ops_free(copies.first);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        acre__soft_work_append(&copies, op);
    }
    *out = copies.first;
    return CUDA_SUCCESS;
}

static CUresult holds_copy(struct soft_work *to, const struct soft_work *from) {
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < from->hold_count && !result; i++)
        result = acre__soft_object_hold(to, from->holds[i].object, from->holds[i].count);
    return result;
}

/* ---- graphs ---- */

/* A graph that a capture still records into belongs to the capture and cannot be destroyed. */
CUresult acre__soft_cuGraphDestroy(CUgraph graph) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!acre__soft_graph_find(graph))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (graph->capturing)
        return acre__soft_leave(CUDA_ERROR_ILLEGAL_STATE);
    acre__soft_graph_free(graph);
    acre__soft_graph_memory_settle();
    acre__soft_objects_settle();
    return acre__soft_leave(CUDA_SUCCESS);
}

/* ---- executables ---- */

static void exec_free(struct CUgraphExec_st *exec) {
    acre__tree_remove(&acre__soft.execs, &exec->node);
    struct acre__node *node = acre__tree_first(&acre__soft.graphs);
    for (; node; node = acre__tree_next(&acre__soft.graphs, node)) {
        struct CUgraph_st *graph = acre__tree_entry(node, struct CUgraph_st, node);
        if (graph->exec == exec)
            graph->exec = NULL;
    }
    acre__soft_work_drop(exec->work);
    acre__soft_marker_drop(exec->launched);
    free(exec);
}

static struct CUgraphExec_st *exec_find(CUgraphExec exec) {
    return exec && acre__tree_find(&acre__soft.execs, (uint64_t)(uintptr_t)exec) ? exec : NULL;
}

void acre__soft_execs_end(const struct CUctx_st *ctx) {
    struct acre__node *node = acre__tree_first(&acre__soft.execs);
    while (node) {
        struct CUgraphExec_st *exec = acre__tree_entry(node, struct CUgraphExec_st, node);
        node = acre__tree_next(&acre__soft.execs, node);
        if (!ctx || exec->ctx == ctx)
            exec_free(exec);
    }
}

void acre__soft_graphs_forget(void) {
    struct acre__node *node;
    acre__soft_execs_end(NULL);
    while ((node = acre__tree_first(&acre__soft.graphs)))
        acre__soft_graph_free(acre__tree_entry(node, struct CUgraph_st, node));
}

/* Gives the executable its own work, with copies of the graph's nodes and its objects. */
static CUresult exec_fill(struct CUgraphExec_st *exec, const struct CUgraph_st *graph) {
    if (!(exec->work = acre__soft_work_make()))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = nodes_copy(graph->work, &exec->work->first);
    return result ? result : holds_copy(exec->work, graph->work);
}

/* Graphs here have no priorities, so that flag has no effect. Launches from the device are not
 * supported. A graph that is still being captured gives an executable of its nodes so far. A graph
 * that allocates memory has one executable at a time, because its addresses are fixed. */
CUresult acre__soft_cuGraphInstantiateWithFlags(CUgraphExec *exec_out, CUgraph graph,
                                                unsigned long long flags) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    const unsigned known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                           CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    if (!exec_out || !acre__soft_graph_find(graph) || flags & ~(unsigned long long)known)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_capture_refuse()))
        return acre__soft_leave(result);
    if (graph->exec)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct CUgraphExec_st *exec = calloc(1, sizeof *exec);
    if (!exec)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if ((result = exec_fill(exec, graph))) {
        acre__soft_work_drop(exec->work);
        free(exec);
        return acre__soft_leave(result);
    }
    exec->node.key = (uint64_t)(uintptr_t)exec;
    exec->ctx = acre__soft_ctx_now();
    exec->is_auto_free = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
    if (acre__soft_graph_memory_is_in(exec->work))
        graph->exec = exec;
    acre__tree_insert(&acre__soft.execs, &exec->node);
    *exec_out = exec;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuGraphExecDestroy(CUgraphExec exec) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!exec_find(exec))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_capture_refuse()))
        return acre__soft_leave(result);
    exec_free(exec);
    acre__soft_graph_memory_settle();
    acre__soft_objects_settle();
    return acre__soft_leave(CUDA_SUCCESS);
}

/* ---- launches ---- */

/* Returns 1 if the side is pool memory that was freed and not allocated again, or memory of a graph
 * that no launch has allocated. Its bytes exist and all work on them would be ordered, but the
 * program does not own them. */
static int side_is_freed(const struct soft_side *side, const struct soft_op *op, int is_write) {
    if (side->raw || !side->address)
        return 0;
    if (acre__soft_graph_memory_is_idle(side->address))
        return 1;
    size_t bytes = (op->rows - 1) * side->pitch + op->width;
    struct soft_pieces pieces = {0};
    int is_freed = acre__soft_range_resolve(side->address, bytes, side->device, is_write,
                                            &pieces) == CUDA_ERROR_INVALID_VALUE &&
                   acre__soft_range_resolve_late(side->address, bytes, side->device, is_write,
                                                 &pieces) == CUDA_SUCCESS;
    acre__soft_pieces_free(&pieces);
    return is_freed;
}

/* Queues one node of a launch. Takes ownership of the operation, also on failure. */
static CUresult op_queue(struct soft_stream *stream, struct soft_op *op) {
    if (op->event) {
        CUresult result = acre__soft_event_launch(op, stream);
        acre__soft_op_free(op);
        return result;
    }
    if (op->graph_memory)
        return acre__soft_graph_memory_launch(op, stream);
    if (op->kind == SOFT_COPY || op->kind == SOFT_FILL)
        op->is_stale = side_is_freed(&op->to, op, 1) || side_is_freed(&op->from, op, 0);
    return acre__soft_submit_bare(stream, op);
}

/* Queues a list of operations. Takes ownership of all of them, also on failure. */
static CUresult ops_queue(struct soft_stream *stream, struct soft_op *op) {
    CUresult result = CUDA_SUCCESS;
    while (op && !result) {
        struct soft_op *next = op->next;
        op->next = NULL;
        result = op_queue(stream, op);
        op = next;
    }
    acre__soft_ops_free(op);
    return result;
}

/* Queues the end of a launch after its nodes. The operation keeps the work until the launch is
 * done. */
static CUresult launch_end(struct CUgraphExec_st *exec, struct soft_stream *stream) {
    struct soft_marker *marker = acre__soft_marker_make();
    struct soft_op *op = marker ? acre__soft_op_make(SOFT_RECORD) : NULL;
    if (!op) {
        acre__soft_marker_drop(marker);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->marker = marker;
    marker->refs++;
    op->work = exec->work;
    exec->work->refs++;
    CUresult result = acre__soft_submit_bare(stream, op);
    if (result) {
        acre__soft_marker_drop(marker);
        return result;
    }
    acre__soft_past_record(stream, marker);
    acre__soft_marker_drop(exec->launched);
    exec->launched = marker;
    return CUDA_SUCCESS;
}

static CUresult launch_queue(struct CUgraphExec_st *exec, struct soft_stream *stream) {
    struct soft_op *op;
    CUresult result = acre__soft_graph_memory_check(exec->work, exec->is_auto_free);
    if (!result)
        result = acre__soft_follow_legacy(stream);
    if (!result && exec->launched)
        result = acre__soft_wait_for(stream, exec->launched);
    if (!result)
        result = acre__soft_graph_memory_free_live(exec->work, stream);
    if (!result)
        result = nodes_copy(exec->work, &op);
    if (!result)
        result = ops_queue(stream, op);
    return result ? result : launch_end(exec, stream);
}

/* Graphs within graphs are not supported: a launch cannot be captured, as on an H200. */
CUresult acre__soft_cuGraphLaunch(CUgraphExec exec, CUstream handle) {
    struct soft_stream *stream;
    CUresult result = acre__soft_stream_enter(handle, &handle, &stream);
    if (result)
        return result;
    int is_captured = 0;
    if (!exec_find(exec))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_capture_submit(stream, &is_captured)) ||
        (result = acre__soft_capture_disturb(stream)))
        return acre__soft_leave(result);
    return acre__soft_leave(launch_queue(exec, stream));
}
