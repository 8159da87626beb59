/* The list of pools, and which of them share physical memory: see pool_list.h. */
#include "pool/pool_list.h"

#include "pool/pool.h"

struct acre__live_list acre__pools = ACRE__LIVE_LIST("a pool", ACRE__RANK_POOL_LIST);

void acre__pools_visit(const acre_pool *but, void (*fn)(acre_pool *pool, void *user), void *user) {
    acre__lock_take(&acre__pools.lock);
    for (acre_pool *pool = NULL; (pool = acre__live_next(&acre__pools, pool));) {
        if (pool == but)
            continue;
        acre__lock_take(&pool->lock);
        fn(pool, user);
        acre__lock_give(&pool->lock);
    }
    acre__lock_give(&acre__pools.lock);
}

int acre__pool_is_like(const acre_pool *pool, const acre_device *dev, acre_kind kind) {
    int is_host = kind == ACRE_KIND_PINNED || kind == ACRE_KIND_MAPPED;
    int pool_is_host = pool->kind == ACRE_KIND_PINNED || pool->kind == ACRE_KIND_MAPPED;
    return is_host == pool_is_host && !acre__device_is_lost(pool->dev) &&
           (is_host ? pool->dev->drv == dev->drv : pool->dev == dev);
}
