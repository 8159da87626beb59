/* The driver's own pools as objects (soft_pool.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_POOL_H
#define ACRE_SOFT_POOL_H

#include "soft/soft_pool_types.h"

/* The host has waited for something; with a context, for all of its work. */
void acre__soft_pools_synced(const struct CUctx_st *ctx);
/* The end of a device's memory, and of all pools. */
void acre__soft_pools_stop(struct soft_device *device);
void acre__soft_pools_forget(void);

/* The pool of a handle that the program may use; NULL: none. */
struct CUmemPoolHandle_st *acre__soft_pool_find(CUmemoryPool handle);
CUresult acre__soft_pool_make(const CUmemPoolProps *props, struct CUmemPoolHandle_st **out);
/* The pool that allocations of the device's streams come from. */
CUresult acre__soft_pool_current(struct soft_device *device, struct CUmemPoolHandle_st **out);

#endif
