/* Pools with ACRE_POOL_DEBUG: red zones, poison, quarantine. */
#ifndef ACRE_POOL_DEBUG_H
#define ACRE_POOL_DEBUG_H

#include "pool/pool.h"

/* Poisons a new block and its red zone; notes the bytes requested. */
acre_status acre__pool_debug_alloc(acre_pool *pool, const struct acre__slab *slab, void *p,
                                   size_t bytes, int zero, acre_stream stream);
/* Waits for the stream, checks and poisons the block, and quarantines it. After a failure the
 * caller still owns it. */
acre_status acre__pool_debug_free(struct acre__slab *slab, struct acre__slot *slot,
                                  acre_stream stream);
/* Lock held: the bytes requested, 0 if unknown. */
size_t acre__pool_debug_bytes(acre_pool *pool, const void *p);
/* Lock held: forgets the bytes requested, without checking the block. */
void acre__pool_debug_forget(acre_pool *pool, const void *p);
/* Empties the quarantine. */
void acre__pool_debug_flush(acre_pool *pool);
/* Frees the debug records of a pool that ends. */
void acre__pool_debug_end(acre_pool *pool);

#endif
