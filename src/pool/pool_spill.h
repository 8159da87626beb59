/* Spillable blocks of pools (acre/spill.h).
 *
 * Each has an extent of its own, so that its memory can leave alone. It is not in the pool's arenas
 * or table; the pool counts its bytes, while they are on the device, for its limits. */
#ifndef ACRE_POOL_SPILL_H
#define ACRE_POOL_SPILL_H

#include "pool/pool.h"

/* No lock held: makes blocks leave whose bytes, with the device's free memory, reach `bytes`:
 * blocks of `only`, or of all pools of the device (NULL). Waits for the device and for copies.
 * Returns the bytes that left; 0 if blocks are too few. */
uint64_t acre__spill_out(acre_device *dev, const acre_pool *only, uint64_t bytes);

/* Allocates a block of at least the granularity, and makes others leave if it must. */
acre_status acre__spill_alloc(acre_pool *pool, size_t bytes, void **p);

/* Bytes of the device's spillable blocks that are away. */
uint64_t acre__spill_away_bytes(const acre_device *dev);

/* Frees a spillable block; `pool` NULL: of any pool. Returns 0 if the address is not one: *status
 * is not set then. */
int acre__spill_free(const acre_pool *pool, void *p, acre_stream stream, acre_status *status);

/* For a pool that ends, when the device has no work: frees all its blocks. Adds what was live to
 * *blocks and *bytes. */
void acre__spills_end(const acre_pool *pool, uint64_t *blocks, uint64_t *bytes);

#endif
