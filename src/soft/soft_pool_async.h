/* Pool memory that the host frees (soft_pool_async.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_POOL_ASYNC_H
#define ACRE_SOFT_POOL_ASYNC_H

#include "soft/soft_types.h"

/* Frees pool memory with cuMemFree: the caller guarantees that nothing uses it any more. */
CUresult acre__soft_pool_free_now(struct soft_range *range);

#endif
