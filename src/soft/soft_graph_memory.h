/* Memory that graphs allocate and free (soft_graph_memory.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_GRAPH_MEMORY_H
#define ACRE_SOFT_GRAPH_MEMORY_H

#include "soft/soft_types.h"

/* Records an allocation in the graph that the stream is captured into. */
CUresult acre__soft_graph_alloc(struct soft_stream *stream, struct CUmemPoolHandle_st *pool,
                                size_t bytes, CUdeviceptr *out);
/* Records a free in the graph that the stream is captured into. Returns INVALID_VALUE for memory
 * that no graph allocates, or that this capture has freed. */
CUresult acre__soft_graph_free_later(const struct soft_range *range,
                                     const struct soft_stream *stream);

/* Returns 1 if a node of the work allocates or frees memory. */
int acre__soft_graph_memory_is_in(const struct soft_work *work);
/* Returns 1 if the address is in memory of a graph that is not allocated now. */
int acre__soft_graph_memory_is_idle(uint64_t address);

/* Checks that a launch can allocate and free its memory: INVALID_VALUE if an earlier launch has
 * allocated memory that nothing has freed (unless `is_auto_free`), or if a node frees memory that
 * is not allocated. */
CUresult acre__soft_graph_memory_check(const struct soft_work *work, int is_auto_free);
/* Frees what an earlier launch has allocated and nothing has freed, in the order of the stream. */
CUresult acre__soft_graph_memory_free_live(const struct soft_work *work,
                                           struct soft_stream *stream);
/* Queues a node of a launch that allocates or frees. Takes ownership of the operation, also on
 * failure. */
CUresult acre__soft_graph_memory_launch(struct soft_op *op, struct soft_stream *stream);

/* Frees live memory outside a capture, in the order of the stream. */
CUresult acre__soft_graph_memory_free(struct soft_graph_memory *memory, struct soft_stream *stream);
/* Notes that the memory was freed. Takes over the reference to the marker; NULL: nothing uses the
 * memory any more. */
void acre__soft_graph_memory_freed(struct soft_graph_memory *memory, struct soft_marker *freed);

#endif
