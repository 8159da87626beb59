/* Pools with ACRE_POOL_DEBUG: red zones, poison, quarantine. */
#ifndef ACRE_POOL_DEBUG_H
#define ACRE_POOL_DEBUG_H

#include "pool/pool.h"

/* Poisons a new block and its red zone. */
acre_status acre__pool_debug_alloc(const struct acre__slab *slab, void *p, size_t bytes, int zero,
                                   acre_stream stream);
/* Frees a block: waits for the stream, checks the red zone, poisons the block and quarantines it.
 * *before is the state before the free. After a failure the caller still owns the block, maybe
 * without a red zone. */
acre_status acre__pool_debug_free(struct acre__slab *slab, struct acre__slot *slot,
                                  uint32_t *before, acre_stream stream);
/* Empties the quarantine, if the pool has one. */
void acre__pool_debug_flush(acre_pool *pool);
/* Checks what is left when the pool is destroyed: freed blocks in quarantine, and the red zones of
 * live blocks. No lock held, and no work of the device runs. */
void acre__pool_debug_end(acre_pool *pool);

#endif
