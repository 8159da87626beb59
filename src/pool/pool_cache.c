/* Operations of a pool on thread caches: drains them, revokes unused grants, counts slots. */

#include "pool/pool.h"
#include "pool/pool_cache.h"
#include "pool/pool_list.h"

enum {
    AGE_MISSES = 16, /* misses of a thread between two agings */
    AGE_LOOKS = 4,   /* hash table entries tried for a lane of the pool */
    AGE_DENIALS = 64 /* denied grants before all caches age */
};

/* ---- draining ---- */

/* Drains a lane. Returns 1 if no slot had to stay. The memory of a destroyed pool is already
 * released. */
static int lane_drain(struct acre__lane *lane, enum acre__give how) {
    if (lane->pool->is_ended)
        return 1;
    int is_empty = acre__lane_give(lane, ACRE__CLASSES, 0, how);
    for (uint32_t i = 0; acre__class_next(&lane->granted, &i); i++)
        is_empty &= acre__lane_give(lane, i, 0, how);
    return is_empty;
}

/* Drains all lanes of the pool. */
static void cache_drain(struct acre__pool_cache *cache, acre_pool *pool, enum acre__give how) {
    for (uint32_t i = 0; cache->lane_mask && i <= cache->lane_mask;) {
        struct acre__lane *lane = cache->lanes[i].lane;
        if (!lane || lane->pool != pool) {
            i++;
            continue;
        }
        (void)lane_drain(lane, how);
        if (how == ACRE__GIVE_ALL)
            acre__cache_lane_end(cache, lane); /* another lane may move to this entry */
        else
            i++;
    }
}

/* Drains the lane of one stream. If slots had to stay, the lane stays too. From then on hits check
 * the stream's id, because another stream may get the handle. */
static void cache_drain_stream(struct acre__pool_cache *cache, const acre_pool *pool,
                               acre_stream stream, enum acre__give how) {
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    if (!lane || lane->thread != acre__stream_thread(stream))
        return;
    int is_empty = lane_drain(lane, how);
    if (is_empty && how == ACRE__GIVE_ALL) {
        acre__cache_lane_end(cache, lane);
    } else if (!is_empty) {
        lane->is_foreign = lane->is_checked = 1;
        cache->last = NULL;
    }
}

int acre__cache_drain(acre_pool *pool, acre_stream stream, int any, enum acre__give how) {
    int is_all = acre__caches_claim();
    if (any && acre__pool_over(pool))
        how = ACRE__GIVE_ALL; /* without lanes there are no grants, and no hits */
    for (struct acre__pool_cache *at = acre__cache_first(); at; at = acre__cache_next(at))
        if (any)
            cache_drain(at, pool, how);
        else
            cache_drain_stream(at, pool, stream, how);
    if (is_all)
        acre__slabs_reap(pool); /* no thread reads these records any more */
    acre__caches_unclaim();
    return is_all;
}

void acre__cache_flush_kept(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                            uint64_t id) {
    struct acre__slots slots = {0};
    uint64_t lane_id = id;
    struct acre__lane *lane = acre__cache_enter_lane(cache, pool, stream);
    if (lane) {
        acre__lane_take_kept(lane, &slots);
        lane_id = lane->id;
    }
    acre__cache_leave(cache);
    if (!slots.count || acre__central_give(pool, ACRE__CLASSES, stream, lane_id, id, &slots))
        return;
    acre__cache_enter(cache);
    acre__lane_put_back(lane, ACRE__CLASSES, &slots);
    acre__cache_leave(cache);
}

void acre__cache_count_large(struct acre__pool_cache *cache, const acre_pool *pool,
                             acre_stream stream) {
    struct acre__lane *lane = acre__cache_enter_lane(cache, pool, stream);
    if (lane)
        lane->large_live++;
    acre__cache_leave(cache);
}

void acre__cache_renew(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                       uint64_t id) {
    struct acre__cached cached = {0};
    struct acre__lane *lane = acre__cache_enter_lane(cache, pool, stream);
    int is_old = lane && acre__id_differs(lane->id, id);
    if (lane && !is_old)
        lane->id = id;
    acre__cache_leave(cache);
    if (!is_old)
        return;
    (void)acre__cache_drain(pool, stream, 0, ACRE__GIVE);
    lane = acre__cache_enter_lane(cache, pool, stream);
    if (lane)
        acre__lane_count(lane, &cached);
    if (lane && !cached.blocks) {
        acre__lane_reset(lane); /* the new stream may be as short-lived */
        lane->id = id;
    }
    acre__cache_leave(cache);
}

/* ---- age ---- */

/* Calls `fn` for every lane of the pool; all caches are claimed. Returns the entries visited. */
static uint64_t lanes_visit(const acre_pool *pool, void (*fn)(struct acre__lane *, void *user),
                            void *user) {
    uint64_t places = 0;
    for (struct acre__pool_cache *at = acre__cache_first(); at; at = acre__cache_next(at)) {
        for (uint32_t i = 0; at->lane_mask && i <= at->lane_mask; i++)
            if (at->lanes[i].lane && at->lanes[i].lane->pool == pool)
                fn(at->lanes[i].lane, user);
        places += at->lane_mask;
    }
    return places;
}

/* A lane without a stack counts as one stack: it needs one. */
static void count_stacks(struct acre__lane *lane, void *stacks) {
    uint32_t count = acre__lane_stacks(lane);
    *(uint64_t *)stacks += count ? count : 1;
}

static void age_lane(struct acre__lane *lane, void *share) {
    (void)acre__lane_age(lane, *(const uint64_t *)share);
}

/* Ages all lanes of the pool if too many grants were denied. The more entries an aging visits, the
 * more denials must precede the next one. */
static void caches_age(acre_pool *pool) {
    if (pool->denied < AGE_DENIALS + pool->aged)
        return;
    uint64_t stacks = 0;
    pool->denied = 0;
    (void)acre__caches_claim();
    (void)lanes_visit(pool, count_stacks, &stacks);
    uint64_t share = acre__lane_budget(pool) / (stacks ? stacks : 1);
    pool->aged = lanes_visit(pool, age_lane, &share);
    acre__caches_unclaim();
}

void acre__cache_age(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream) {
    int is_due = ++cache->misses % AGE_MISSES == 0;
    acre__cache_enter(cache);
    for (uint32_t i = 0; is_due && cache->lane_mask && i < AGE_LOOKS; i++) {
        struct acre__lane *lane = cache->lanes[cache->hand++ & cache->lane_mask].lane;
        if (!lane || lane->pool != pool)
            continue;
        if (acre__lane_age(lane, UINT64_MAX) && lane->stream != stream)
            acre__cache_lane_end(cache, lane);
        break;
    }
    acre__cache_leave(cache);
    caches_age(pool);
}

/* ---- counting ---- */

struct acre__cached acre__caches_count(const acre_pool *pool) {
    struct acre__cached cached = {0};
    (void)acre__caches_claim();
    (void)lanes_visit(pool, acre__lane_count, &cached);
    acre__caches_unclaim();
    return cached;
}

/* ---- the calling thread ---- */

struct acre__known acre__cache_knows(struct acre__pool_cache *cache, const acre_pool *pool,
                                     acre_stream stream) {
    struct acre__known known = {0, 1, ACRE__ID_UNKNOWN};
    if (!cache)
        return known;
    const struct acre__lane *lane = acre__cache_enter_lane(cache, pool, stream);
    if (lane && !lane->is_foreign && !lane->pool->is_ended && !acre__device_is_lost(pool->dev))
        known = (struct acre__known){1, lane->is_checked, lane->id};
    acre__cache_leave(cache);
    return known;
}

acre_status acre__cache_ensure(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                               int may_be_captured) {
    uint64_t id = ACRE__ID_UNKNOWN;
    struct acre__lane *lane = acre__cache_enter_lane(cache, pool, stream);
    int is_there = lane != NULL, is_foreign = lane && lane->is_foreign;
    acre__cache_leave(cache);
    if ((is_there && !is_foreign) || acre__device_is_lost(pool->dev))
        return ACRE_OK;
    if (!is_there && acre__stream_is_past(pool->dev, stream)) /* nothing may be allocated on it */
        return ACRE_OK;
    acre_status status = acre__pool_stream_id(pool->dev, stream, &id);
    if (is_there) { /* another stream may have the handle of a foreign stream */
        if (status == ACRE_OK) {
            acre__lock_take(&pool->lock);
            acre__cache_renew(cache, pool, stream, id);
            acre__lock_give(&pool->lock);
        }
        return status == ACRE_E_CAPTURING ? ACRE_OK : status;
    }
    if (status && !(may_be_captured && status == ACRE_E_CAPTURING))
        return status;
    acre__cache_enter(cache);
    (void)acre__cache_lane_make(cache, pool, stream, id);
    acre__cache_leave(cache);
    return ACRE_OK;
}

int acre__cache_put(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                    uint32_t size_class, struct acre__slots *slots) {
    struct acre__lane *lane = acre__cache_enter_lane(cache, pool, stream);
    int is_put = lane && acre__lane_put(lane, size_class, slots);
    acre__cache_leave(cache);
    return is_put;
}

/* ---- end of a thread ---- */

static acre_pool *some_pool(const struct acre__pool_cache *cache) {
    for (uint32_t i = 0; cache->lane_mask && i <= cache->lane_mask; i++)
        if (cache->lanes[i].lane)
            return cache->lanes[i].lane->pool;
    return NULL;
}

/* Called when the calling thread exits. Its per-thread default stream is destroyed with it. */
static void pools_leave(uint64_t thread) {
    for (acre_pool *pool = NULL; (pool = acre__live_next(&acre__pools, pool));) {
        acre__lock_take(&pool->lock);
        acre__stream_leave(pool, thread);
        acre__lock_give(&pool->lock);
    }
}

/* Other threads destroy lanes only under the lock of the list of pools, so the owner can search its
 * lanes under that lock. Lanes of a destroyed pool are still here if acre_pool_destroy could not
 * claim the cache. */
void acre__cache_empty(struct acre__pool_cache *cache, uint64_t thread) {
    acre_pool *pool;
    acre__lock_take(&acre__pools.lock);
    while ((pool = some_pool(cache))) {
        acre__lock_take(&pool->lock);
        acre__cache_enter(cache);
        cache_drain(cache, pool, ACRE__GIVE_ALL);
        acre__cache_leave(cache);
        acre__lock_give(&pool->lock);
    }
    pools_leave(thread);
    acre__lock_give(&acre__pools.lock);
}

/* ---- streams ---- */

int acre__lane_is_stale(const struct acre__lane *lane) {
    unsigned long long id = 0;
    const struct acre__driver *drv = lane->pool->dev->drv;
    return ACRE__DRIVER_HAS(drv, cuStreamGetId) &&
           drv->cuStreamGetId(lane->stream, &id) == CUDA_SUCCESS && acre__id_differs(lane->id, id);
}
