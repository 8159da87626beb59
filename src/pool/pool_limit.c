/* Limits of a pool: how many bytes threads may have of it.
 *
 * Slots count once they have left the pool's lists, whether they are live or in a thread's cache.
 * They are counted in batches, under the pool's lock, when they leave and return. So hits count
 * nothing. Caches are drained before a call is refused, so only live blocks make it fail. */
#include "base/status.h"
#include "pool/pool_slow.h"

acre_status acre__limit_check(const acre_pool *pool, size_t bytes, uint32_t *count) {
    if (!pool->hard_bytes)
        return ACRE_OK;
    uint64_t left = pool->used < pool->hard_bytes ? pool->hard_bytes - pool->used : 0;
    if (left < bytes)
        return acre__fail(
            ACRE_E_LIMIT,
            "%zu bytes wanted; %llu bytes of the pool's hard limit of %llu are in use", bytes,
            (unsigned long long)pool->used, (unsigned long long)pool->hard_bytes);
    if (bytes && *count > left / bytes)
        *count = (uint32_t)(left / bytes);
    return ACRE_OK;
}

void acre__limit_charge(acre_pool *pool, uint64_t bytes, uint32_t count) {
    pool->used += bytes;
    pool->used_blocks += count;
}

void acre__limit_credit(acre_pool *pool, uint64_t bytes, uint32_t count) {
    pool->used -= bytes;
    pool->used_blocks -= count;
    if (pool->used <= pool->soft_bytes)
        pool->soft_mark = pool->soft_bytes;
}

/* Once over the limit, a pool releases again only when `used` has grown by an eighth. So a program
 * that stays over the limit is not slowed down by every refill. */
void acre__limit_relieve(acre_pool *pool, acre_stream stream, uint64_t id) {
    acre_status status;
    if (!pool->soft_bytes || pool->used <= pool->soft_mark)
        return;
    pool->over_soft++;
    (void)acre__cache_drain(pool, NULL, 1, ACRE__GIVE_GENTLY);
    acre__streams_settle(
        pool, acre__stream_find(pool, stream, acre__stream_thread(stream), id, &status), 1);
    acre__slab_trim(pool, pool->soft_bytes);
    if (pool->used > pool->soft_bytes)
        pool->soft_mark = pool->used + pool->used / 8;
}

acre_status acre__limit_set(acre_pool *pool, uint64_t soft_bytes, uint64_t hard_bytes) {
    if (soft_bytes && hard_bytes && soft_bytes > hard_bytes)
        return acre__fail(ACRE_E_INVALID, "a soft limit of %llu bytes above the hard one of %llu",
                          (unsigned long long)soft_bytes, (unsigned long long)hard_bytes);
    pool->soft_bytes = soft_bytes;
    pool->soft_mark = soft_bytes;
    pool->hard_bytes = hard_bytes;
    return ACRE_OK;
}

acre_status acre_pool_set_limits(acre_pool *pool, uint64_t soft_bytes, uint64_t hard_bytes) {
    acre_status status = acre__pool_check(pool);
    if (status)
        return status;
    acre__lock_take(&pool->lock);
    status = acre__limit_set(pool, soft_bytes, hard_bytes);
    acre__lock_give(&pool->lock);
    return status;
}
