/* Creates and destroys slabs. The pool's lock is held. */
#ifndef ACRE_POOL_SLAB_MAKE_H
#define ACRE_POOL_SLAB_MAKE_H

#include "pool/pool.h"

/* Creates another slab of the class, for a stream. */
acre_status acre__slab_make(acre_pool *pool, uint32_t size_class,
                            const struct acre__pool_stream *own);
/* Destroys slabs that are fully free for the stream (NULL: for any stream), at most `most` bytes of
 * them. Their memory becomes holes. Returns their bytes. */
uint64_t acre__slabs_end_idle(acre_pool *pool, const struct acre__pool_stream *own, uint64_t most);
/* Reserves memory until the pool holds `bytes`. */
acre_status acre__slab_reserve(acre_pool *pool, uint64_t bytes);
/* Destroys all slabs and large blocks of a pool, also live ones, and releases the memory. */
void acre__slab_end_all(acre_pool *pool);

/* As acre__slab_make, but makes the smallest slab, and of existing memory only: any hole will do.
 * *is_made is 0, with ACRE_OK, if no hole is large enough. */
acre_status acre__slab_make_any(acre_pool *pool, uint32_t size_class,
                                const struct acre__pool_stream *own, int *is_made);

/* The size of the largest block that existing holes can hold: a large one with this alignment, or a
 * small one. `own` may be NULL. */
uint64_t acre__slab_room(const acre_pool *pool, const struct acre__pool_stream *own, int is_large,
                         size_t alignment);

#endif
