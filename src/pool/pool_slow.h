/* What is done when a hit is none. */
#ifndef ACRE_POOL_SLOW_H
#define ACRE_POOL_SLOW_H

#include "pool/pool.h"

/* Checks everything. `zero` is 1 for memory that is to be zeroed in stream order. */
acre_status acre__pool_alloc_slow(acre_pool *pool, size_t bytes, size_t alignment,
                                  acre_stream stream, int zero, void **p);
/* `pool` NULL: whichever has the address. */
acre_status acre__pool_free_slow(acre_pool *pool, void *p, acre_stream stream);

/* ACRE_E_NULL, ACRE_E_HANDLE, ACRE_E_FORKED; any value is safe. */
acre_status acre__pool_check(acre_pool *pool);
/* The same, and the device is well. */
acre_status acre__pool_enter(acre_pool *pool);

/* The slot of a block that is handed out, of that pool or, for NULL, of any; NULL and *status
 * (POINTER, INTERIOR, HANDLE) otherwise. */
struct acre__slot *acre__pool_block(acre_pool *pool, const void *p, struct acre__slab **slab,
                                    acre_status *status);

/* Ends the state of being handed out: 1, or 0 when another thread was first. */
int acre__pool_unlive(struct acre__slot *slot, uint32_t *before);

#endif
