/* Operations, markers, the work of graphs, and graphs (soft_op.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_OP_H
#define ACRE_SOFT_OP_H

#include "soft/soft_types.h"

struct soft_op *acre__soft_op_make(enum soft_op_kind kind);
void acre__soft_op_free(struct soft_op *op);
void acre__soft_ops_free(struct soft_op *op); /* and all after it */

struct soft_marker *acre__soft_marker_make(void);
void acre__soft_marker_drop(struct soft_marker *marker);
void acre__soft_marker_finish(struct soft_marker *marker); /* done, now */

/* A graph for a capture to record into, by one stream so far. NULL without memory. */
struct CUgraph_st *acre__soft_graph_make(void);
void acre__soft_graph_free(struct CUgraph_st *graph);
/* The operation becomes the graph's next node. */
void acre__soft_graph_record(struct CUgraph_st *graph, struct soft_op *op);

/* A work without nodes, refs = 1; NULL without memory. */
struct soft_work *acre__soft_work_make(void);
/* The operation becomes the work's last node. */
void acre__soft_work_append(struct soft_work *work, struct soft_op *op);
/* One reference less. The last one frees it and lets go of the objects. */
void acre__soft_work_drop(struct soft_work *work);

#endif
