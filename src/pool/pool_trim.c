/* Releases memory: trim, and the soft limit. The pool's lock is held. */
#include "pool/pool.h"
#include "pool/pool_slab_make.h"
#include "pool/pool_trim.h"

enum { RETIRED_MOST = 4 << 20 }; /* bytes of slab records before they are freed */

void acre__slab_trim(acre_pool *pool, uint64_t keep) {
    uint64_t held = pool->account.held;
    if (held <= keep)
        return;
    (void)acre__slabs_end_idle(pool, NULL, held - keep);
    uint64_t went = acre__arena_trim(&pool->blocks_in, held - keep);
    (void)acre__arena_trim(&pool->slabs_in, held - keep - went);
    pool->is_reserved &= pool->account.held > 0;
    if (pool->retired_bytes > RETIRED_MOST) {
        if (acre__caches_claim())
            acre__slabs_reap(pool);
        acre__caches_unclaim();
    }
}

void acre__pool_trim(acre_pool *pool, uint64_t keep_bytes) {
    acre__graphs_settle(pool);
    (void)acre__cache_drain(pool, NULL, 1, ACRE__GIVE);
    acre__streams_settle(pool, NULL, 1);
    acre__slab_trim(pool, keep_bytes);
}

/* Once over the limit, a pool releases memory again only when `used` has grown by an eighth. So
 * refills do not slow down a program that stays over the limit. */
void acre__limit_relieve(acre_pool *pool, acre_stream stream, uint64_t id) {
    if (!pool->soft_limit_bytes || pool->used <= pool->soft_mark)
        return;
    pool->over_soft++;
    (void)acre__cache_drain(pool, NULL, 1, ACRE__GIVE_GENTLY);
    acre__streams_settle(pool, acre__stream_named(pool, stream, id), 1);
    acre__slab_trim(pool, pool->soft_limit_bytes);
    if (pool->used > pool->soft_limit_bytes)
        pool->soft_mark = pool->used + pool->used / 8;
}
