/* Limits of a pool: how many bytes threads may have of it.
 *
 * Slots count once they have left the pool's lists, whether they are live or in a thread's cache.
 * They are counted in batches, under the pool's lock, when they leave and return. So hits count
 * nothing. Caches are drained before a call is refused, so only live blocks make it fail. */
#include "base/status.h"
#include "pool/pool_limit.h"

acre_status acre__limit_check(const acre_pool *pool, size_t bytes, uint32_t *count) {
    if (!pool->limit_bytes)
        return ACRE_OK;
    uint64_t left = pool->used < pool->limit_bytes ? pool->limit_bytes - pool->used : 0;
    if (left < bytes)
        return acre__fail(
            ACRE_E_LIMIT, "%zu bytes wanted; %llu bytes of the pool's limit of %llu are in use",
            bytes, (unsigned long long)pool->used, (unsigned long long)pool->limit_bytes);
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
    if (pool->used <= pool->soft_limit_bytes)
        pool->soft_mark = pool->soft_limit_bytes;
}
