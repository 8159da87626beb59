/* Running operations on memory (soft_run_memory.c). Guarded by acre__soft.lock, which is given up
 * while bytes move. */
#ifndef ACRE_SOFT_RUN_MEMORY_H
#define ACRE_SOFT_RUN_MEMORY_H

#include "soft/soft_types.h"

/* The alloc or free is reached in its stream. LAUNCH_FAILED when it is not ordered. */
CUresult acre__soft_run_pooled(struct soft_stream *stream, struct soft_op *op);
/* A copy or a fill is reached in its stream. */
CUresult acre__soft_run_copy(struct soft_stream *stream, struct soft_op *op);

#endif
