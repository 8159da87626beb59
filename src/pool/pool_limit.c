/* Limits of a pool: how many bytes threads may have of it.
 *
 * Slots count once they have left the pool's lists, whether they are live or in a thread's cache.
 * The pool counts them in batches, under its lock, when they leave and return. So hits update no
 * counter. The pool drains caches before a call fails, so only live blocks make it fail. */
#include "base/atomic.h"
#include "base/status.h"
#include "pool/pool_limit.h"

acre_status acre__limit_check(const acre_pool *pool, size_t bytes, uint32_t *count) {
    if (!pool->limit_bytes)
        return ACRE_OK;
    uint64_t left = pool->used < pool->limit_bytes ? pool->limit_bytes - pool->used : 0;
    if (left < bytes)
        return acre__fail(
            ACRE_E_LIMIT, "%zu bytes requested; %llu of the pool's limit of %llu bytes are in use",
            bytes, (unsigned long long)pool->used, (unsigned long long)pool->limit_bytes);
    if (bytes && *count > left / bytes)
        *count = (uint32_t)(left / bytes);
    return ACRE_OK;
}

void acre__limit_charge(acre_pool *pool, uint64_t bytes, uint32_t count) {
    pool->used += bytes;
    pool->used_blocks += count;
    acre__account_idle(&pool->account, 0, bytes);
}

void acre__limit_credit(acre_pool *pool, uint64_t bytes, uint32_t count) {
    pool->used -= bytes;
    pool->used_blocks -= count;
    acre__account_idle(&pool->account, bytes, 0);
    if (pool->used <= pool->soft_limit_bytes)
        pool->soft_mark = pool->soft_limit_bytes;
}

acre_status acre__limit_reserve(acre_pool *pool, uint64_t bytes, uint64_t *reserved) {
    if (!acre__pool_over(pool))
        return ACRE_OK;
    if (!acre__held_reserve(pool->dev, bytes))
        return acre__held_refuse(pool->dev, bytes, bytes, ACRE__HELD_ASK);
    *reserved += bytes;
    return ACRE_OK;
}

void acre__limit_unreserve(acre_pool *pool, uint64_t reserved) {
    if (reserved)
        acre__fetch_add(&pool->dev->pool_idle_bytes, reserved, memory_order_seq_cst);
}
