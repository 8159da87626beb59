/* Making slabs and ending them. Under the pool's lock. */
#ifndef ACRE_POOL_SLAB_MAKE_H
#define ACRE_POOL_SLAB_MAKE_H

#include "pool/pool.h"

/* Makes another slab of the class, for work of a stream. */
acre_status acre__slab_make(acre_pool *pool, uint32_t size_class,
                            const struct acre__pool_stream *own);
/* Ends slabs that are fully free for the stream (NULL: for any stream), at most `most` bytes of
 * them. Returns their bytes. */
uint64_t acre__slabs_end_idle(acre_pool *pool, const struct acre__pool_stream *own, uint64_t most);
/* Reserves memory until the pool holds `bytes`. */
acre_status acre__slab_reserve(acre_pool *pool, uint64_t bytes);
/* Ends all slabs and large blocks of a pool, also live ones, and releases the memory. */
void acre__slab_end_all(acre_pool *pool);

#endif
