/* Plain device memory (soft_plain.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_PLAIN_H
#define ACRE_SOFT_PLAIN_H

#include "soft/soft_types.h"

/* Allocates plain device memory. bytes > 0; less than half a chunk comes from a slab. */
CUresult acre__soft_plain_alloc(struct CUctx_st *ctx, size_t bytes, CUdeviceptr *out);
void acre__soft_plain_free(struct soft_range *range);
void acre__soft_slab_free(struct CUctx_st *ctx, struct soft_slab *slab);

#endif
