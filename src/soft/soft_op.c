/* Operations, markers, the work of graphs, and graphs that captures record.
 *
 * An operation owns the memory that it needs to run and frees it with itself. The last operation of
 * a graph's launch holds a reference to the graph's work, and a work owns operations, so each may
 * free the other. Guarded by acre__soft.lock. */
#include <stdlib.h>
#include <time.h>

#include "base/stack.h"
#include "soft/launch.h"
#include "soft/soft_clock.h"
#include "soft/soft_object.h"
#include "soft/soft_op.h"
#include "soft/soft_past.h"
#include "soft/soft_physical.h"
#include "soft/soft_state.h"

/* ---- markers ---- */

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

struct soft_marker *acre__soft_marker_make(void) {
    struct soft_marker *marker = calloc(1, sizeof *marker);
    if (!marker)
        return NULL;
    marker->refs = 1;
    if (acre__soft_clock_snapshot(&acre__soft.host, &marker->clock)) {
        free(marker);
        return NULL;
    }
    return marker;
}

void acre__soft_marker_drop(struct soft_marker *marker) {
    if (!marker || --marker->refs)
        return;
    acre__soft_clock_free(&marker->clock);
    acre__soft_past_free(&marker->past);
    free(marker);
}

void acre__soft_marker_finish(struct soft_marker *marker) {
    marker->done = 1;
    marker->time_ns = now_ns();
}

/* ---- operations ---- */

struct soft_op *acre__soft_op_make(enum soft_op_kind kind) {
    struct soft_op *op = calloc(1, sizeof *op);
    if (op) {
        op->kind = kind;
        op->rows = 1;
        if (acre__soft.config.check && acre__stacks_are_on())
            op->stack = acre__stack_take();
    }
    return op;
}

struct soft_op *acre__soft_op_pooled(enum soft_op_kind kind, uint64_t address, size_t bytes,
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

/* The caller returns the memory to its pool (acre__soft_graph_memory_settle) before it releases the
 * lock: pools are above this file. */
static void graph_memory_drop(struct soft_graph_memory *memory) {
    if (!memory || --memory->refs)
        return;
    memory->next = acre__soft.graph_memory_over;
    acre__soft.graph_memory_over = memory;
}

void acre__soft_op_free(struct soft_op *op) {
    if (op->to.deliver)
        *op->to.deliver = op->to.raw;
    else if (op->to.is_owned)
        free(op->to.raw);
    if (op->from.is_owned)
        free(op->from.raw);
    acre__soft_clock_free(&op->known);
    acre__soft_marker_drop(op->marker);
    acre__soft_launch_free(op->launch);
    acre__soft_backing_drop(op->backing);
    acre__soft_work_drop(op->work);
    graph_memory_drop(op->graph_memory);
    free(op);
}

/* ---- the work of graphs ---- */

struct soft_work *acre__soft_work_make(void) {
    struct soft_work *work = calloc(1, sizeof *work);
    if (work)
        work->refs = 1;
    return work;
}

void acre__soft_work_append(struct soft_work *work, struct soft_op *op) {
    op->next = NULL;
    if (work->last)
        work->last->next = op;
    else
        work->first = op;
    work->last = op;
}

void acre__soft_ops_free(struct soft_op *op) {
    while (op) {
        struct soft_op *next = op->next;
        acre__soft_op_free(op);
        op = next;
    }
}

void acre__soft_work_drop(struct soft_work *work) {
    if (!work || --work->refs)
        return;
    acre__soft_ops_free(work->first);
    while (work->hold_count) {
        struct soft_hold *hold = &work->holds[work->hold_count - 1];
        acre__soft_object_let_go(work, hold->object, hold->count);
    }
    free(work->holds);
    free(work);
}

/* ---- graphs ---- */

struct CUgraph_st *acre__soft_graph_make(void) {
    struct CUgraph_st *graph = calloc(1, sizeof *graph);
    if (!graph || !(graph->work = acre__soft_work_make())) {
        free(graph);
        return NULL;
    }
    graph->node.key = (uint64_t)(uintptr_t)graph;
    graph->capturing = 1;
    acre__tree_insert(&acre__soft.graphs, &graph->node);
    return graph;
}

void acre__soft_graph_captured(struct CUgraph_st *graph) {
    for (const struct soft_op *node = graph->work->first; node; node = node->next)
        if (node->graph_memory && node->graph_memory->graph == graph)
            node->graph_memory->graph = NULL;
}

void acre__soft_graph_free(struct CUgraph_st *graph) {
    acre__soft_graph_captured(graph);
    acre__tree_remove(&acre__soft.graphs, &graph->node);
    acre__soft_work_drop(graph->work);
    free(graph);
}

void acre__soft_graph_record(struct CUgraph_st *graph, struct soft_op *op) {
    acre__soft_work_append(graph->work, op);
}
