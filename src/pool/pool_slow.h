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
/* acre_pool_free without trace records; `pool` NULL: the pool that has the address (pool_hit.c). */
acre_status acre__pool_free_unwatched(acre_pool *pool, void *p, acre_stream stream);
/* Frees a block that acre__pool_block has marked as free, on the stream or, if `event` is set, once
 * the event has passed. `before` is the old state. After a failure the block is live again. */
acre_status acre__pool_give(struct acre__slab *slab, struct acre__slot *slot, uint32_t before,
                            acre_stream stream, acre_event event);
/* Frees a block that the program has not received, even if driver calls fail. Returns `status` with
 * the detail that it had. */
acre_status acre__pool_alloc_undo(acre_status status, struct acre__slab *slab,
                                  struct acre__slot *slot, acre_stream stream);

#endif
