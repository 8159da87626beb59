/* The list of pools. */
#ifndef ACRE_POOL_LIST_H
#define ACRE_POOL_LIST_H

#include "acre.h"
#include "device/live.h"

/* All pools. A thread that exits holds the lock of this list while it empties its cache, so that no
 * pool is destroyed meanwhile. */
extern struct acre__live_list acre__pools;

/* Checks a handle: ACRE_E_NULL, ACRE_E_HANDLE, ACRE_E_FORKED. Any value is safe. */
static inline acre_status acre__pool_check(const acre_pool *pool) {
    return acre__live_check(&acre__pools, pool);
}
/* As acre__pool_check, and checks that the device is not lost. */
static inline acre_status acre__pool_enter(const acre_pool *pool) {
    return acre__live_enter(&acre__pools, pool);
}

/* No lock held: calls `fn` for every pool but `but`, with the pool's lock held. */
void acre__pools_visit(const acre_pool *but, void (*fn)(acre_pool *pool, void *user), void *user);
/* Returns 1 if the pool uses the same physical memory as that kind on the device. */
int acre__pool_is_like(const acre_pool *pool, const acre_device *dev, acre_kind kind);

#endif
