/* Returning a slot to a cache or to the pool. */
#ifndef ACRE_POOL_FREE_H
#define ACRE_POOL_FREE_H

#include "pool/pool.h"

/* The slot of a live block of the pool, for NULL of any pool; otherwise NULL and *status: POINTER,
 * INTERIOR or HANDLE. If `before` is not NULL, also marks the block as not live, and *before is its
 * old state. If threads race, one gets the block. */
struct acre__slot *acre__pool_block(acre_pool *pool, const void *p, struct acre__slab **slab,
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
