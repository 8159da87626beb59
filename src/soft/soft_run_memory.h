/* Runs operations on memory (soft_run_memory.c). Guarded by acre__soft.lock, which is released
 * while bytes are copied. */
#ifndef ACRE_SOFT_RUN_MEMORY_H
#define ACRE_SOFT_RUN_MEMORY_H

#include "soft/soft_types.h"

/* Runs a stream-ordered alloc or free. Returns LAUNCH_FAILED if it is not ordered. */
CUresult acre__soft_run_pooled(struct soft_stream *stream, struct soft_op *op);
/* Runs a copy or a fill. */
CUresult acre__soft_run_copy(struct soft_stream *stream, struct soft_op *op);

#endif
