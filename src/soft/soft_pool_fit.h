/* Memory of a pool for a stream (soft_pool_fit.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_POOL_FIT_H
#define ACRE_SOFT_POOL_FIT_H

#include "soft/soft_pool_types.h"

/* Gaps side by side: the first of them, and what they have together. */
struct soft_fit {
    struct soft_segment *segment;
    struct soft_gap *first;
    size_t bytes;
};

/* Memory of the pool that the stream may have, for the least that it has to do; the pool may grow.
 * CUDA_ERROR_OUT_OF_MEMORY: none. Nothing is taken yet. */
CUresult acre__soft_fit_find(struct CUmemPoolHandle_st *pool, const struct soft_stream *stream,
                             size_t bytes, struct soft_fit *fit);
/* Queues the waits that it has to do. */
CUresult acre__soft_fit_wait(struct soft_stream *stream, const struct soft_fit *fit, size_t bytes);
/* Takes the bytes out of their gaps, for the operation, which is queued, to begin them. */
void acre__soft_fit_take(const struct soft_fit *fit, size_t bytes, struct soft_op *op);

#endif
