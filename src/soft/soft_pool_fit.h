/* Finding memory of a pool for a stream (soft_pool_fit.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_POOL_FIT_H
#define ACRE_SOFT_POOL_FIT_H

#include "soft/soft_pool_types.h"

/* Adjacent gaps: the first of them, and their total size. */
struct soft_fit {
    struct soft_segment *segment;
    struct soft_gap *first;
    size_t bytes;
};

/* Finds memory of the pool for the stream, and prefers memory with the weakest requirement (enum
 * reuse). Without a stream (NULL) it finds only memory that any stream may use. May grow the pool.
 * Returns CUDA_ERROR_OUT_OF_MEMORY if there is none. Takes no memory yet. */
CUresult acre__soft_fit_find(struct CUmemPoolHandle_st *pool, const struct soft_stream *stream,
                             size_t bytes, struct soft_fit *fit);
/* Queues the waits that the stream needs before it may use the memory. */
CUresult acre__soft_fit_wait(struct soft_stream *stream, const struct soft_fit *fit, size_t bytes);
/* Creates the range of an allocation at the start of the fit. Takes no memory yet. */
CUresult acre__soft_fit_range(const struct soft_fit *fit, size_t bytes, struct soft_range **out);
/* Takes the memory of the range out of its gaps: `whole` bytes, for the queued operation that
 * allocates them. NULL: none is queued, and any stream may use the memory. */
void acre__soft_fit_give(const struct soft_fit *fit, size_t whole, struct soft_op *op);

#endif
