/* The driver's memory pools as objects (soft_pool.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_POOL_H
#define ACRE_SOFT_POOL_H

#include "soft/soft_pool_types.h"

/* Updates all pools after the host has waited; with a context, for all of its work. */
void acre__soft_pools_synced(const struct CUctx_st *ctx);
/* acre__soft_pools_stop destroys the pools of a device, except the default one, which it empties.
 * acre__soft_pools_forget destroys all pools. */
void acre__soft_pools_stop(struct soft_device *device);
void acre__soft_pools_forget(void);

/* Returns the pool of a handle that the program may use; NULL: there is none. */
struct CUmemPoolHandle_st *acre__soft_pool_find(CUmemoryPool handle);
CUresult acre__soft_pool_make(const CUmemPoolProps *props, struct CUmemPoolHandle_st **out);
/* Returns the pool that allocations on the device's streams come from. */
CUresult acre__soft_pool_current(struct soft_device *device, struct CUmemPoolHandle_st **out);

#endif
