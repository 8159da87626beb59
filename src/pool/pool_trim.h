/* Releases memory of a pool. The pool's lock is held. */
#ifndef ACRE_POOL_TRIM_H
#define ACRE_POOL_TRIM_H

#include "pool/pool.h"

/* Drains the caches and releases memory until `keep_bytes` remain. Memory freed on a stream that is
 * being captured stays. */
void acre__pool_trim(acre_pool *pool, uint64_t keep_bytes);
/* Releases fully free slabs that wait for nothing, and unused memory, down to `keep` bytes. */
void acre__slab_trim(acre_pool *pool, uint64_t keep);
/* If `used` exceeds the soft limit, releases unused memory. Memory that work in flight may use
 * stays. */
void acre__limit_relieve(acre_pool *pool, acre_stream stream, uint64_t id);

#endif
