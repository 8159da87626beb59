/* Giving memory back. Under the pool's lock. */
#ifndef ACRE_POOL_TRIM_H
#define ACRE_POOL_TRIM_H

#include "pool/pool.h"

/* Lock held: drains the caches and releases memory until `keep_bytes` remain. Memory freed on a
 * stream that is being captured stays. */
void acre__pool_trim(acre_pool *pool, uint64_t keep_bytes);
/* Releases fully free slabs that wait for nothing, and unused memory, down to `keep` bytes. */
void acre__slab_trim(acre_pool *pool, uint64_t keep);
/* If `used` exceeds the soft limit, releases what the pool can release. Memory freed on the stream
 * stays for it. */
void acre__limit_relieve(acre_pool *pool, acre_stream stream, uint64_t id);

#endif
