/* The slow path: what happens on a miss. */
#ifndef ACRE_POOL_SLOW_H
#define ACRE_POOL_SLOW_H

#include "pool/pool.h"

enum { ACRE__ALLOC_ZERO = 1 }; /* zeroed in stream order */

/* Allocates with all checks. `how` is a set of ACRE__ALLOC_*. */
acre_status acre__pool_alloc_slow(acre_pool *pool, size_t bytes, size_t alignment,
                                  acre_stream stream, int how, void **p);
/* Frees with all checks. `pool` NULL: the pool that has the address. */
acre_status acre__pool_free_slow(acre_pool *pool, void *p, acre_stream stream);

/* acre_pool_free without trace records (pool_hit.c). */
acre_status acre__pool_free_untraced(acre_pool *pool, void *p, acre_stream stream);

/* Checks a handle: ACRE_E_NULL, ACRE_E_HANDLE, ACRE_E_FORKED. Any value is safe. */
acre_status acre__pool_check(const acre_pool *pool);
/* As acre__pool_check, and checks that the device is not lost. */
acre_status acre__pool_enter(const acre_pool *pool);

/* The slot of a live block of the pool, for NULL of any pool; otherwise NULL and *status: POINTER,
 * INTERIOR or HANDLE. */
struct acre__slot *acre__pool_block(acre_pool *pool, const void *p, struct acre__slab **slab,
                                    acre_status *status);

/* The start of the large block of any pool that contains the address; NULL if there is none. */
const void *acre__pools_around(const void *p, const acre_pool **owner);

/* Marks a block as live: sets its state, and the bytes requested. */
void acre__pool_enliven(struct acre__slab *slab, struct acre__slot *slot, uint32_t live,
                        size_t bytes);
/* As acre__pool_block, and marks the block as not live; *before is its old state. If threads race,
 * one gets the block. */
struct acre__slot *acre__pool_unlive(acre_pool *pool, const void *p, struct acre__slab **slab,
                                     uint32_t *before, acre_status *status);

/* Lock held: records that work of another stream uses the block. */
acre_status acre__pool_note_use(acre_pool *pool, struct acre__slot *slot, acre_stream stream);

/* Frees a block that the program never got, whatever the driver refuses. Returns `status` with the
 * detail that it had. */
acre_status acre__pool_alloc_undo(acre_status status, struct acre__slab *slab,
                                  struct acre__slot *slot, acre_stream stream);

/* Gives a slot that is no longer live to the calling thread's stack, or else to the pool, as freed
 * on the stream. */
acre_status acre__pool_free_plain(struct acre__slab *slab, struct acre__slot *slot,
                                  acre_stream stream);

/* ---- pool_debug.c: for pools with ACRE_POOL_DEBUG ---- */

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
