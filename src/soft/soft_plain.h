/* Plain device memory (soft_plain.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_PLAIN_H
#define ACRE_SOFT_PLAIN_H

#include "soft/soft_types.h"

/* bytes > 0; a part of a slab if they are less than half a chunk. */
CUresult acre__soft_plain_alloc(struct CUctx_st *ctx, size_t bytes, CUdeviceptr *out);
void acre__soft_plain_free(struct soft_range *range);
void acre__soft_slab_free(struct CUctx_st *ctx, struct soft_slab *slab);

#endif
