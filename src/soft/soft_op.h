/* Operations, markers, graphs and their work (soft_op.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_OP_H
#define ACRE_SOFT_OP_H

#include "soft/soft_types.h"

struct soft_op *acre__soft_op_make(enum soft_op_kind kind);
void acre__soft_op_free(struct soft_op *op);
/* Creates an alloc or free operation for pool memory, with its own marker. Returns NULL when out of
 * memory. */
struct soft_op *acre__soft_op_pooled(enum soft_op_kind kind, uint64_t address, size_t bytes,
                                     struct soft_backing *backing, size_t offset);
void acre__soft_ops_free(struct soft_op *op); /* frees `op` and all operations after it */

struct soft_marker *acre__soft_marker_make(void);
void acre__soft_marker_drop(struct soft_marker *marker);
void acre__soft_marker_finish(struct soft_marker *marker); /* marks it done, with the time */

/* Creates a graph that one stream captures into. Returns NULL when out of memory. */
struct CUgraph_st *acre__soft_graph_make(void);
void acre__soft_graph_free(struct CUgraph_st *graph);
/* Ends the capture into the graph for the memory that its nodes allocate. */
void acre__soft_graph_captured(struct CUgraph_st *graph);
/* Appends the operation to the graph as its next node. */
void acre__soft_graph_record(struct CUgraph_st *graph, struct soft_op *op);

/* Creates a work without nodes, refs = 1. Returns NULL when out of memory. */
struct soft_work *acre__soft_work_make(void);
/* Appends the operation to the work as its last node. */
void acre__soft_work_append(struct soft_work *work, struct soft_op *op);
/* Drops one reference. The last one frees the work and drops its references to objects. */
void acre__soft_work_drop(struct soft_work *work);

#endif
