/* Returning a slot to a cache or to the pool. */
#ifndef ACRE_POOL_FREE_H
#define ACRE_POOL_FREE_H

#include "pool/pool.h"

/* The slot of a live block of the pool, for NULL of any pool; otherwise NULL and *status: POINTER,
 * INTERIOR or HANDLE. */
struct acre__slot *acre__pool_block(acre_pool *pool, const void *p, struct acre__slab **slab,
                                    acre_status *status);
/* The start of the large block of any pool that contains the address; NULL if there is none. */
const void *acre__pools_around(const void *p, const acre_pool **owner);
/* As acre__pool_block, and marks the block as not live; *before is its old state. If threads race,
 * one gets the block. */
struct acre__slot *acre__pool_unlive(acre_pool *pool, const void *p, struct acre__slab **slab,
                                     uint32_t *before, acre_status *status);
/* Lock held: records that work of another stream uses the block. */
acre_status acre__pool_note_use(acre_pool *pool, struct acre__slot *slot, acre_stream stream);
/* Gives a slot that is no longer live to the calling thread's stack, or else to the pool, as freed
 * on the stream. */
acre_status acre__pool_free_plain(struct acre__slab *slab, struct acre__slot *slot,
                                  acre_stream stream);
/* Frees a slot whose stream is unknown: it waits for all work of the device. */
void acre__give_lost(struct acre__slab *slab, struct acre__slot *slot);

#endif
