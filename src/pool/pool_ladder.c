/* The out-of-memory ladder: a pool climbs it rung by rung until one of them serves the request.
 *
 * The lower rungs keep the pool's lock: drain thread caches; reuse memory that other streams have
 * finished with; release free memory and map new memory; wait in stream order for another stream's
 * memory. Only a pool with ACRE_POOL_DEBUG releases the lock there, to empty its quarantine. The
 * upper rungs release the lock, since they use other pools, call the user's callback or wait on the
 * host. The pool may have changed afterwards, so every rung searches everything again. The ladder
 * serves small and large blocks, lack of memory and limits.
 *
 * The host waits for streams without the pool's lock. It does not wait for a stream's own event,
 * which other threads may record again meanwhile. Instead a stream of the pool waits for the event,
 * and the host waits for that stream. There is one exception: frees that have no event and can get
 * none become ready only when the device is idle. For those, acre__streams_recover waits for the
 * device with the lock held. */
#include "base/atomic.h"
#include "base/status.h"
#include "device/limbo.h"
#include "device/held.h"
#include "pool/pool_central.h"
#include "pool/pool_debug.h"
#include "pool/pool_freed.h"
#include "pool/pool_ladder.h"
#include "pool/pool_large.h"
#include "pool/pool_limit.h"
#include "pool/pool_list.h"
#include "pool/pool_report.h"
#include "pool/pool_spill.h"
#include "pool/pool_trim.h"
#include "space/chunk.h"
#include "space/mapped.h"

/* ---- trying ---- */

/* While acre holds more than the limit of the device: releases free memory. If that is too little,
 * the pool serves single slots of what it holds, as far as the bytes in use stay within the limit:
 * reserves them. */
static acre_status within_device_limit(struct acre__want *want, uint64_t *reserved) {
    acre_device *dev = want->pool->dev;
    if (!acre__pool_over(want->pool))
        return ACRE_OK;
    acre__slab_trim(want->pool, 0);
    if (acre__chunk_within_limit(dev, want->bytes) == ACRE_OK)
        return ACRE_OK;
    want->count = want->most = 1;
    return acre__limit_reserve(want->pool, want->bytes, reserved);
}

/* Charges the slots. If they are larger than what was reserved of the limit of the device, and the
 * rest of them exceeds it, the pool keeps them. */
static acre_status ladder_charge(struct acre__want *want, struct acre__want *part,
                                 uint64_t reserved) {
    acre_pool *pool = want->pool;
    uint64_t each = acre__pool_table_find(part->slots.first->p)->slot_bytes; /* may be larger */
    uint64_t bytes = part->slots.count * each;
    acre_status status = ACRE_OK;
    if (reserved && bytes > reserved)
        status = acre__limit_reserve(pool, bytes - reserved, &reserved);
    acre__limit_charge(pool, bytes, part->slots.count);
    acre__limit_unreserve(pool, reserved);
    if (status)
        acre__freed_add(pool, acre__central_stream(want)->recent->freed, want->size_class,
                        &part->slots);
    want->slots = part->slots;
    return status;
}

/* Takes slots, as far as the limits and `effort` allow. Returns ACRE_OK without slots if there are
 * none. */
static acre_status ladder_try(struct acre__want *want, enum acre__effort effort) {
    struct acre__want part = *want;
    uint64_t reserved = 0;
    uint32_t suspended = acre__load(&want->pool->is_suspended, memory_order_relaxed);
    if (suspended)
        return acre__fail(acre__suspended_as(suspended), "memory of the pool is suspended");
    acre_status status = acre__limit_check(want->pool, want->bytes, &part.count);
    want->is_limited = status == ACRE_E_LIMIT;
    if (status || (status = within_device_limit(&part, &reserved)))
        return status;
    if (reserved && effort == ACRE__TAKE_BEHIND) /* a later rung waits, which may release memory */
        effort = ACRE__TAKE_FREE;
    (void)acre__limit_check(want->pool, want->bytes, &part.most);
    status = want->size_class == ACRE__CLASSES ? acre__large_take(&part, effort)
                                               : acre__central_take(&part, effort);
    if (part.slots.count)
        return ladder_charge(want, &part, reserved);
    acre__limit_unreserve(want->pool, reserved);
    want->slots = part.slots;
    return status;
}

/* Returns 1 for a request that no rung can help: it is larger than the card or than a limit. */
static int is_hopeless(const struct acre__want *want) {
    const acre_pool *pool = want->pool;
    return (pool->kind == ACRE_KIND_DEVICE && want->bytes > acre__held_most(pool->dev)) ||
           (pool->kind == ACRE_KIND_MANAGED && want->bytes > pool->dev->info.total_bytes) ||
           (pool->limit_bytes && want->bytes > pool->limit_bytes);
}

/* ---- lower rungs ---- */

static acre_status climb_caches(struct acre__want *want) {
    acre_pool *pool = want->pool;
    if (pool->flags & ACRE_POOL_DEBUG) {
        acre__lock_give(&pool->lock);
        acre__pool_debug_flush(pool);
        acre__lock_take(&pool->lock);
    }
    (void)acre__cache_drain(pool, NULL, 1, ACRE__GIVE);
    return ladder_try(want, want->is_limited ? ACRE__TAKE_NEW : ACRE__TAKE_FREE);
}

static acre_status climb_done(struct acre__want *want) {
    acre__streams_settle(want->pool, acre__central_stream(want), 1);
    return ladder_try(want, ACRE__TAKE_FREE);
}

/* If nothing can be moved, uses holes that are meant for other sizes: small blocks and large ones
 * otherwise keep apart. */
static acre_status climb_moved(struct acre__want *want) {
    acre__slab_trim(want->pool, 0);
    acre_status status = ladder_try(want, ACRE__TAKE_NEW);
    if (!acre__is_too_much(status))
        return status;
    struct acre__said said;
    acre__said_keep(&said);
    acre_status again = ladder_try(want, ACRE__TAKE_ANY);
    return again || want->slots.count ? again : acre__said_fail(status, &said);
}

static acre_status climb_behind(struct acre__want *want) {
    return ladder_try(want, ACRE__TAKE_BEHIND);
}

/* ---- other pools ---- */

/* A visit to all pools that use the same physical memory. */
struct others {
    acre_device *dev;
    acre_kind kind;
    acre_stream waiter;
    uint32_t count; /* streams that `waiter` waits for */
    uint64_t bytes; /* released */
};

static void trim_other(acre_pool *pool, void *user) {
    struct others *others = user;
    uint64_t before = pool->account.held;
    if (!acre__pool_is_like(pool, others->dev, others->kind))
        return;
    acre__pool_trim(pool, 0);
    others->bytes += before - pool->account.held;
}

static void join_other(acre_pool *pool, void *user) {
    struct others *others = user;
    uint32_t joined;
    if (pool->dev != others->dev || !acre__pool_is_like(pool, others->dev, others->kind))
        return;
    acre__streams_settle(pool, NULL, 1);
    if (acre__streams_join(pool, others->waiter, UINT32_MAX, &joined) == ACRE_OK)
        others->count += acre__streams_pending(pool);
}

uint64_t acre__ladder_reclaim(acre_device *dev, acre_kind kind, int wait) {
    struct others others = {.dev = dev, .kind = kind};
    if (wait && acre__stream_create_own(dev, ACRE_STREAM_NON_BLOCKING, &others.waiter) == ACRE_OK) {
        acre__pools_visit(NULL, join_other, &others);
        (void)acre_stream_sync(dev, others.waiter);
        (void)acre__stream_destroy_own(dev, others.waiter);
    }
    acre__pools_visit(NULL, trim_other, &others);
    return others.bytes;
}

/* Trims the other pools, and what else holds idle memory; retries releases that the driver refused
 * earlier. With `wait`, waits for work that uses idle memory of objects other than pools. */
static acre_status climb_others(struct acre__want *want, int wait) {
    acre_device *dev = want->pool->dev;
    struct others others = {.dev = dev, .kind = want->pool->kind};
    uint64_t retired = 0;
    acre__lock_give(&want->pool->lock);
    acre__pools_visit(want->pool, trim_other, &others);
    (void)acre__device_reclaim_objects(dev, want->pool->kind, wait);
    (void)acre__limbo_retry(dev, &retired);
    acre__lock_take(&dev->lock);
    dev->limbo_retired += retired;
    acre__lock_give(&dev->lock);
    acre__lock_take(&want->pool->lock);
    return ladder_try(want, ACRE__TAKE_NEW);
}

static acre_status climb_pools(struct acre__want *want) {
    return climb_others(want, 0);
}

/* ---- the callback ---- */

int acre__ladder_ask(acre_pool *pool, uint64_t bytes, uint32_t attempt) {
    struct acre__pool_cache *cache = acre__cache_self();
    acre__lock_take(&pool->lock);
    acre_pool_oom_fn fn = cache && !cache->is_asking ? pool->oom : NULL;
    void *user = pool->oom_user;
    pool->asking += fn != NULL;
    acre__lock_give(&pool->lock);
    if (!fn)
        return 0;
    cache->is_asking = 1;
    int again = fn(user, pool, bytes, attempt);
    cache->is_asking = 0;
    acre__lock_take(&pool->lock);
    pool->asking--;
    acre__lock_give(&pool->lock);
    return again != 0;
}

static acre_status climb_to(struct acre__want *want, acre_status status, int end, int *served);

static acre_status climb_callback(struct acre__want *want) {
    acre_status status = ACRE_OK;
    for (uint32_t attempt = 0; !want->slots.count; attempt++) {
        int ignored;
        acre__lock_give(&want->pool->lock);
        int again = acre__ladder_ask(want->pool, want->bytes, attempt);
        acre__lock_take(&want->pool->lock);
        if (!again)
            break;
        status = ladder_try(want, ACRE__TAKE_NEW);
        if (acre__is_too_much(status))
            status = climb_to(want, status, ACRE__RUNG_CALLBACK, &ignored);
        if (status && !acre__is_too_much(status))
            break;
    }
    return status;
}

/* ---- waiting ---- */

static acre_status wait_for_waiter(acre_pool *pool) {
    struct acre__uses behind;
    acre__uses_open(&behind, pool->dev);
    acre_status status = acre__uses_record(&behind, pool->waiter);
    acre__lock_give(&pool->lock);
    if (status == ACRE_OK)
        status = acre__uses_wait(&behind);
    acre__lock_take(&pool->lock);
    acre__uses_close(&behind);
    return status;
}

/* Waits for one event. It may be of the calling stream itself: its latest frees may separate two
 * holes, or keep a chunk from being released. */
static acre_status wait_for_one(struct acre__want *want, int *is_over) {
    uint32_t joined;
    acre_status status = acre__streams_join(want->pool, want->pool->waiter, 1, &joined);
    *is_over = status == ACRE_OK && !joined;
    if (status == ACRE_OK && joined)
        status = wait_for_waiter(want->pool);
    if (status || *is_over)
        return status;
    acre__streams_settle(want->pool, NULL, 1);
    status = ladder_try(want, ACRE__TAKE_FREE);
    return status || want->slots.count ? status : climb_moved(want);
}

static acre_status wait_for_others(struct acre__want *want) {
    const acre_pool *pool = want->pool;
    struct others others = {.dev = pool->dev, .kind = pool->kind, .waiter = pool->waiter};
    acre_status status = ACRE_OK;
    acre__lock_give(&want->pool->lock);
    acre__pools_visit(want->pool, join_other, &others);
    acre__lock_take(&want->pool->lock);
    if (others.count)
        status = wait_for_waiter(want->pool);
    return status ? status : climb_others(want, 1); /* some may have finished meanwhile */
}

static acre_status waiter_make(acre_pool *pool) {
    return pool->waiter
               ? ACRE_OK
               : acre__stream_create_own(pool->dev, ACRE_STREAM_NON_BLOCKING, &pool->waiter);
}

static acre_status climb_waiting(struct acre__want *want) {
    acre_pool *pool = want->pool;
    acre_status status = waiter_make(pool);
    if (status)
        return status;
    acre__streams_recover(pool);
    acre__streams_settle(pool, NULL, 1);
    uint32_t left = 2 * acre__streams_pending(pool); /* bounded: other threads may keep freeing */
    int is_over = 0;
    status = climb_moved(want); /* uses the memory that was just settled */
    while (left-- && !is_over && !want->slots.count && (!status || acre__is_too_much(status)))
        status = wait_for_one(want, &is_over);
    if (!want->slots.count && (!status || acre__is_too_much(status)))
        status = wait_for_others(want);
    return status;
}

/* ---- spilling ---- */

static acre_status climb_spill(struct acre__want *want) {
    acre_pool *pool = want->pool;
    uint64_t bytes = want->bytes;
    acre__lock_give(&pool->lock);
    uint64_t went = pool->kind == ACRE_KIND_DEVICE
                        ? acre__spill_out(pool->dev, want->is_limited ? pool : NULL, bytes)
                        : 0;
    acre__lock_take(&pool->lock);
    return went ? ladder_try(want, ACRE__TAKE_NEW) : ACRE_OK;
}

/* ---- the ladder ---- */

struct rung {
    acre_status (*climb)(struct acre__want *want);
    int helps_limits; /* it lowers `used` */
};

static const struct rung rungs[ACRE__RUNGS] = {
    [ACRE__RUNG_CACHES] = {climb_caches, 1},   [ACRE__RUNG_DONE] = {climb_done, 0},
    [ACRE__RUNG_MOVED] = {climb_moved, 0},     [ACRE__RUNG_BEHIND] = {climb_behind, 0},
    [ACRE__RUNG_POOLS] = {climb_pools, 0},     [ACRE__RUNG_CALLBACK] = {climb_callback, 1},
    [ACRE__RUNG_WAITING] = {climb_waiting, 0}, [ACRE__RUNG_SPILL] = {climb_spill, 1},
};

/* Climbs the rungs below `end`. Returns ACRE_OK and the rung that served, or the last error;
 * `refusal` is the error so far. */
static acre_status climb_to(struct acre__want *want, acre_status refusal, int end, int *served) {
    struct acre__said said;
    acre__said_keep(&said);
    for (int i = 0; i < end; i++) {
        if (want->is_limited && !rungs[i].helps_limits)
            continue;
        acre_status status = rungs[i].climb(want);
        if (want->slots.count) {
            *served = i;
            return ACRE_OK;
        }
        if (status && !acre__is_too_much(status))
            return status;
        if (status) {
            refusal = status;
            acre__said_keep(&said);
        }
    }
    return acre__said_fail(refusal, &said);
}

/* Fails with the detail of a request that is larger than the memory of its kind. */
static acre_status fail_huge(const struct acre__want *want) {
    acre_device *dev = want->pool->dev;
    if (want->pool->kind == ACRE_KIND_DEVICE && want->bytes <= dev->info.total_bytes)
        return acre__held_refuse(dev, want->bytes, want->bytes, ACRE__HELD_ASK);
    if (want->pool->kind != ACRE_KIND_DEVICE && want->pool->kind != ACRE_KIND_MANAGED)
        return acre__fail(ACRE_E_HOST_MEMORY, "%zu bytes requested, a pool serves 2 TiB at most",
                          want->bytes);
    return acre__fail(ACRE_E_DEVICE_MEMORY, "%zu bytes requested, %s has %llu bytes in all",
                      want->bytes, dev->label, (unsigned long long)dev->info.total_bytes);
}

acre_status acre__ladder_refuse_huge(struct acre__want *want) {
    uint32_t one = 1;
    acre_status status = acre__limit_check(want->pool, want->bytes, &one);
    want->is_limited = status == ACRE_E_LIMIT;
    return acre__report_refusal(want, status ? status : fail_huge(want), 0);
}

acre_status acre__ladder_take(struct acre__want *want) {
    acre_pool *pool = want->pool;
    int served = 0;
    pool->refills++;
    acre__graphs_settle(pool);
    acre_status status = ladder_try(want, ACRE__TAKE_NEW);
    if (acre__is_too_much(status) && !is_hopeless(want)) {
        int end = want->cache && want->cache->is_asking ? ACRE__RUNG_POOLS
                  : want->graph                         ? ACRE__RUNG_WAITING /* a capture is open */
                                                        : ACRE__RUNGS;
        status = climb_to(want, status, end, &served);
        pool->served[served] += status == ACRE_OK;
    } else if (status == ACRE_E_DEVICE_MEMORY) {
        status = fail_huge(want);
    }
    if (status == ACRE_OK && !want->graph)
        acre__limit_relieve(pool, want->stream, want->id);
    else if (acre__is_too_much(status))
        status = acre__report_refusal(want, status, 0);
    return status;
}

static acre_status pool_set_callback(acre_pool *pool, acre_pool_oom_fn fn, void *user) {
    acre_status status = acre__pool_check(pool);
    if (status)
        return status;
    acre__lock_take(&pool->lock);
    pool->oom = fn;
    pool->oom_user = user;
    acre__lock_give(&pool->lock);
    return ACRE_OK;
}

acre_status acre_pool_set_callback(acre_pool *pool, acre_pool_oom_fn fn, void *user) {
    return acre__in_call(pool_set_callback(pool, fn, user), "acre_pool_set_callback");
}
