/* Host pages (soft_memory.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_MEMORY_H
#define ACRE_SOFT_MEMORY_H

#include "soft/soft_types.h"

/* Allocates pages of this process and registers them as a range of that kind. */
CUresult acre__soft_pages_make(struct CUctx_st *ctx, enum soft_range_kind kind, size_t bytes,
                               unsigned flags, uint64_t *out);

#endif
