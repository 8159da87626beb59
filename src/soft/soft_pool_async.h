/* Memory of pools, freed by the host (soft_pool_async.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_POOL_ASYNC_H
#define ACRE_SOFT_POOL_ASYNC_H

#include "soft/soft_types.h"

/* Pooled memory is freed by a host that says that nobody uses it any more. */
CUresult acre__soft_pool_free_now(struct soft_range *range);

#endif
