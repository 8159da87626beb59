/* Finds the slot of an address that is freed, and returns the slot to a cache or to the pool. */
#ifndef ACRE_POOL_FREE_H
#define ACRE_POOL_FREE_H

#include "pool/pool.h"

/* Finds the slot of the live block at `p`, in the pool, or in any pool if `pool` is NULL. Otherwise
 * returns NULL and sets *status: POINTER, INTERIOR, HANDLE or KIND. If `before` is not NULL, also
 * marks the block as free, and *before is its old state. Of several threads that call this for one
 * block, one gets it. */
struct acre__slot *acre__pool_block(acre_pool *pool, const void *p, struct acre__slab **slab,
                                    uint32_t *before, acre_status *status);
/* Lock held: records that work of another stream uses the block. */
acre_status acre__pool_note_use(acre_pool *pool, struct acre__slot *slot, acre_stream stream);
/* Puts a slot that is no longer live into the calling thread's stack or, failing that, into the
 * pool, as freed on the stream. */
acre_status acre__pool_free_plain(struct acre__slab *slab, struct acre__slot *slot,
                                  acre_stream stream);
/* Frees a slot whose stream is unknown. The pool reuses the slot only after all work of the
 * device. */
void acre__give_lost(struct acre__slab *slab, struct acre__slot *slot);

#endif
