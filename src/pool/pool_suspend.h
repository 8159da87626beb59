/* What acre_suspend needs of pools: no allocations while it works, and which blocks are live. */
#ifndef ACRE_POOL_SUSPEND_H
#define ACRE_POOL_SUSPEND_H

#include "pool/pool.h"

/* A live block, or all memory of a pool whose free blocks have contents, too
 * (ACRE_POOL_DEBUG). */
struct acre__pool_live {
    const acre_pool *pool;
    uint64_t at, bytes;
    uint32_t tag;
};

/* No lock held. Stops the allocations of all pools of the device that have mapped memory, and
 * empties their thread caches; from now on allocations wait for acre__pools_resume. */
void acre__pools_suspend(acre_device *dev);

/* No lock held: calls `fn` for every live block of these pools, by rising address within each
 * slab. */
void acre__pools_visit_live(acre_device *dev,
                            void (*fn)(void *user, const struct acre__pool_live *), void *user);

/* No lock held: allows the allocations of pools again that have no memory away, unless everything
 * on the device is suspended. */
void acre__pools_resume(acre_device *dev);

#endif
