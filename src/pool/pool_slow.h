/* What is done when a hit is none. */
#ifndef ACRE_POOL_SLOW_H
#define ACRE_POOL_SLOW_H

#include "pool/pool.h"

enum { ACRE__ALLOC_ZERO = 1 }; /* zeroed in stream order */

/* Checks everything. `how` is of ACRE__ALLOC_*. */
acre_status acre__pool_alloc_slow(acre_pool *pool, size_t bytes, size_t alignment,
                                  acre_stream stream, int how, void **p);
/* `pool` NULL: whichever has the address. */
acre_status acre__pool_free_slow(acre_pool *pool, void *p, acre_stream stream);

/* acre_pool_free without a word to the trace (pool_hit.c). */
acre_status acre__pool_free_untraced(acre_pool *pool, void *p, acre_stream stream);

/* ACRE_E_NULL, ACRE_E_HANDLE, ACRE_E_FORKED; any value is safe. */
acre_status acre__pool_check(acre_pool *pool);
/* The same, and the device is well. */
acre_status acre__pool_enter(acre_pool *pool);

/* The slot of a block that is handed out, of that pool or, for NULL, of any; NULL and *status
 * (POINTER, INTERIOR, HANDLE) otherwise. */
struct acre__slot *acre__pool_block(acre_pool *pool, const void *p, struct acre__slab **slab,
                                    acre_status *status);

/* Where the large block of any pool begins that an address lies in; NULL if none does. */
const void *acre__pools_around(const void *p, const acre_pool **owner);

/* The block is handed out from now on: sets its state, and the bytes that were requested. */
void acre__pool_enliven(struct acre__slab *slab, struct acre__slot *slot, uint32_t live,
                        size_t bytes);
/* As acre__pool_block, and the block is not handed out any more; *before is what its state was.
 * Only one thread gets it. */
struct acre__slot *acre__pool_unlive(acre_pool *pool, const void *p, struct acre__slab **slab,
                                     uint32_t *before, acre_status *status);

/* Lock held: work of another stream uses the block. */
acre_status acre__pool_note_use(acre_pool *pool, struct acre__slot *slot, acre_stream stream);

/* Takes a block back that nobody was told of, whatever the driver refuses; returns the status and
 * keeps its detail. */
acre_status acre__pool_alloc_undo(acre_status status, struct acre__slab *slab,
                                  struct acre__slot *slot, acre_stream stream);

/* Gives a slot that is not handed out any more to the calling thread's stack, or where that cannot
 * be to the pool, for work of the stream. */
acre_status acre__pool_free_plain(struct acre__slab *slab, struct acre__slot *slot,
                                  acre_stream stream);

/* ---- pool_debug.c: for pools with ACRE_POOL_DEBUG ---- */

/* Poisons a new block and its red zone; notes how much was asked for. */
acre_status acre__pool_debug_alloc(acre_pool *pool, const struct acre__slab *slab, void *p,
                                   size_t bytes, int zero, acre_stream stream);
/* Waits, looks, poisons, and keeps the slot for a while. After a failure it is still the caller's.
 */
acre_status acre__pool_debug_free(struct acre__slab *slab, struct acre__slot *slot,
                                  acre_stream stream);
/* Lock held: bytes that were asked for, 0 if that is not known. */
size_t acre__pool_debug_bytes(acre_pool *pool, const void *p);
/* Lock held: forgets that, without looking at the block. */
void acre__pool_debug_forget(acre_pool *pool, const void *p);
/* Empties the quarantine. */
void acre__pool_debug_flush(acre_pool *pool);
/* Frees the records of a pool that ends. */
void acre__pool_debug_end(acre_pool *pool);

#endif
