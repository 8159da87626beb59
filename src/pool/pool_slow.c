/* The slow way: everything checked, slots fetched from the pool and given to it in batches. */
#include "pool/pool_slow.h"

#include <stdlib.h>

#include "base/atomic.h"
#include "base/status.h"
#include "base/thread.h"

/* ---- checks ---- */

static acre_status alloc_check(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream,
                               void **p) {
    acre_status status = acre__pool_enter(pool);
    if (status)
        return status;
    if (!p)
        return acre__fail(ACRE_E_NULL, "acre_pool_alloc: p is NULL");
    if (!bytes || bytes > ACRE__CLASS_BYTES_MOST ||
        (pool->flags & ACRE_POOL_DEBUG && bytes > ACRE__CLASS_BYTES_MOST - ACRE__GRAIN))
        return acre__fail(ACRE_E_INVALID, "acre_pool_alloc: %zu bytes", bytes);
    if (alignment & (alignment - 1) || alignment > (size_t)1 << 30)
        return acre__fail(ACRE_E_INVALID,
                          "acre_pool_alloc: an alignment of %zu is no power of two up to 1 GiB",
                          alignment);
    return acre__stream_check(pool->dev, stream);
}

/* The class whose slots all begin at multiples of the alignment. */
static uint32_t class_aligned(size_t bytes, size_t alignment) {
    uint32_t size_class = acre__class_of(bytes);
    size_t within = alignment > ACRE__SLAB_UNIT ? ACRE__SLAB_UNIT : alignment;
    while (within > ACRE__GRAIN && acre__class_bytes(size_class) % within)
        size_class++;
    return size_class;
}

struct acre__slot *acre__pool_block(acre_pool *pool, const void *p, struct acre__slab **found,
                                    acre_status *status) {
    struct acre__slab *slab = acre__pool_table_find(p);
    *found = slab;
    *status = ACRE_OK;
    struct acre__slot *around = slab ? acre__slab_around(slab, p) : NULL;
    if (!around || !(acre__load(around->state, memory_order_acquire) & ACRE__SLOT_LIVE)) {
        *status = acre__fail(ACRE_E_POINTER, "%p is no block of a pool, or was freed already", p);
        return NULL;
    }
    if (pool && slab->pool != pool)
        *status = acre__fail(ACRE_E_HANDLE, "%p belongs to another pool", p);
    else if (acre__slab_slot(slab, p) != around)
        *status =
            acre__fail(ACRE_E_INTERIOR, "%p lies inside a block that begins at %p", p, around->p);
    return *status ? NULL : around;
}

int acre__pool_unlive(struct acre__slot *slot, uint8_t *before) {
    *before = acre__load(slot->state, memory_order_acquire);
    while (*before & ACRE__SLOT_LIVE)
        if (acre__cas(slot->state, before, 0, memory_order_acq_rel, memory_order_acquire))
            return 1;
    return 0;
}

/* ---- fetching ---- */

/* Makes sure that the calling thread has a lane; the stream's id must be known from then on. A
 * stream that is captured cannot be asked for it. ACRE_OK also without memory for one. */
static acre_status lane_ensure(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                               int may_be_captured) {
    uint64_t id = ACRE__ID_UNKNOWN;
    acre__cache_enter(cache);
    int is_there = acre__cache_lane(cache, pool, stream) != NULL;
    acre__cache_leave(cache);
    if (is_there || acre__device_is_lost(pool->dev))
        return ACRE_OK;
    acre_status status = acre__pool_stream_id(pool->dev, stream, &id);
    if (status && !(may_be_captured && status == ACRE_E_CAPTURING))
        return status;
    acre__cache_enter(cache);
    (void)acre__cache_lane_make(cache, pool, stream, id);
    acre__cache_leave(cache);
    return ACRE_OK;
}

/* A slot out of the calling thread's stack; NULL when it is empty. */
static struct acre__slot *take_cached(struct acre__pool_cache *cache, acre_pool *pool,
                                      acre_stream stream, uint32_t size_class) {
    struct acre__slots slots = {0};
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    uint32_t count = lane ? lane->stacks[size_class].count : 0;
    if (count)
        acre__lane_take(lane, size_class, count - 1, &slots);
    acre__cache_leave(cache);
    return slots.first;
}

/* Puts slots into the calling thread's stack; *is_full: it then has more than it should. 0 when
 * there is no lane for them, or no memory. */
static int put_cached(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                      uint32_t size_class, struct acre__slots *slots, int *is_full) {
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    int is_put = lane && acre__lane_put(lane, size_class, slots);
    if (is_put)
        *is_full = lane->stacks[size_class].count > lane->stacks[size_class].most;
    acre__cache_leave(cache);
    return is_put;
}

/* How many to fetch at a time: half of what a stack may hold. */
static uint32_t batch_count(uint32_t size_class) {
    size_t count = ((size_t)4 << 20) / acre__class_bytes(size_class);
    return (uint32_t)(count < 1 ? 1 : count > 64 ? 64 : count);
}

/* What the thread has of a stream that ended without being retired goes first. */
static acre_status refill(acre_pool *pool, acre_stream stream, uint32_t size_class,
                          struct acre__pool_cache *cache, struct acre__slot **out) {
    struct acre__slots slots = {0};
    uint64_t id;
    int is_full;
    acre_status status = acre__pool_stream_id(pool->dev, stream, &id);
    if (status)
        return status;
    acre__lock_take(&pool->lock);
    if (cache && acre__cache_is_old(cache, pool, stream, id))
        acre__cache_drain(pool, stream, 0, 0);
    status = acre__central_take(pool, size_class, stream, id, cache ? batch_count(size_class) : 1,
                                &slots);
    acre__lock_give(&pool->lock);
    if (status)
        return status;
    *out = slots.first;
    slots.first = slots.first->next;
    slots.last = slots.first ? slots.last : NULL;
    slots.count--;
    if (slots.count && !put_cached(cache, pool, stream, size_class, &slots, &is_full)) {
        acre__lock_take(&pool->lock);
        (void)acre__central_give(pool, size_class, stream, id, &slots);
        acre__lock_give(&pool->lock);
    }
    return ACRE_OK;
}

/* A slot that begins at a multiple of more than 2 MiB: one that is there, in whatever cache, or a
 * slab of its own. */
static acre_status take_far_aligned(acre_pool *pool, uint32_t size_class, size_t alignment,
                                    acre_stream stream, struct acre__slot **out) {
    uint64_t id;
    *out = NULL;
    acre_status status = acre__pool_stream_id(pool->dev, stream, &id);
    if (status)
        return status;
    acre__lock_take(&pool->lock);
    acre__cache_drain(pool, NULL, 1, 0);
    status = acre__central_take_aligned(pool, size_class, alignment, stream, id, out);
    if (status == ACRE_OK && !*out) {
        struct acre__slab *slab;
        status = acre__slab_make(pool, size_class, alignment, &slab);
        if (status == ACRE_OK)
            *out = acre__slab_fresh(slab);
    }
    acre__lock_give(&pool->lock);
    return status;
}

static acre_status zero_fill(acre_pool *pool, void *p, size_t bytes, acre_stream stream) {
    return acre_fill(pool->dev, p, 0, bytes, stream);
}

acre_status acre__pool_alloc_slow(acre_pool *pool, size_t bytes, size_t alignment,
                                  acre_stream stream, int zero, void **p) {
    if (p)
        *p = NULL;
    acre_status status = alloc_check(pool, bytes, alignment, stream, p);
    if (status)
        return status;
    struct acre__pool_cache *cache = acre__cache_self();
    size_t zone = pool->flags & ACRE_POOL_DEBUG ? ACRE__GRAIN : 0;
    uint32_t size_class = class_aligned(bytes + zone, alignment);
    struct acre__slot *slot = NULL;
    if (alignment > ACRE__SLAB_UNIT) {
        status = take_far_aligned(pool, size_class, alignment, stream, &slot);
    } else {
        if (cache)
            status = lane_ensure(cache, pool, stream, 0);
        slot = cache && !status ? take_cached(cache, pool, stream, size_class) : NULL;
        if (!slot && !status)
            status = refill(pool, stream, size_class, cache, &slot);
    }
    if (status)
        return status;
    uint8_t live = cache ? cache->live : ACRE__SLOT_LIVE;
    acre__store(slot->state, live, memory_order_release);
    zero = zero || pool->flags & ACRE_POOL_ZERO;
    if (zone)
        status = acre__pool_debug_alloc(pool, slot, size_class, bytes, zero, stream);
    else if (zero)
        status = zero_fill(pool, slot->p, acre__class_bytes(size_class), stream);
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        acre__store(slot->state, 0, memory_order_release);
        (void)acre__pool_free_plain(pool, slot, size_class, stream);
        return acre__said_fail(status, &said);
    }
    *p = slot->p;
    return ACRE_OK;
}

/* ---- giving ---- */

/* Half of a stack that is full goes to the pool. A stream that is captured cannot be asked for its
 * id: the stack just grows. */
static void spill(acre_pool *pool, acre_stream stream, uint32_t size_class,
                  struct acre__pool_cache *cache) {
    struct acre__slots slots = {0};
    uint64_t id = ACRE__ID_UNKNOWN, lane_id = ACRE__ID_UNKNOWN;
    int ignored;
    if (!acre__device_is_lost(pool->dev) && acre__pool_stream_id(pool->dev, stream, &id))
        return;
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    if (lane) {
        acre__lane_take(lane, size_class, lane->stacks[size_class].most / 2, &slots);
        lane_id = lane->id;
    }
    acre__cache_leave(cache);
    acre__lock_take(&pool->lock);
    int is_given = acre__id_differs(lane_id, id)
                       ? acre__central_give_old(pool, size_class, stream,
                                                acre__stream_thread(stream), lane_id, &slots)
                       : acre__central_give(pool, size_class, stream, id, &slots);
    acre__lock_give(&pool->lock);
    if (!is_given)
        (void)put_cached(cache, pool, stream, size_class, &slots, &ignored);
}

/* A block that other streams use as well: it waits for all of them, and for this one. */
static acre_status free_used(acre_pool *pool, struct acre__slot *slot, uint32_t size_class,
                             acre_stream stream) {
    acre__lock_take(&pool->lock);
    struct acre__pool_batch *batch = acre__central_batch(pool);
    acre_status status = batch ? acre__uses_record(&batch->uses, stream)
                               : acre__fail(ACRE_E_HOST_MEMORY, "no memory to note a freed block");
    if (status == ACRE_OK) {
        acre__central_take_uses(pool, slot->p, batch);
        acre__slots_push(&batch->free[size_class], slot);
    }
    if (batch) {
        struct acre__pool_batch **to = status ? &pool->unused : &pool->batches;
        batch->next = *to;
        *to = batch;
    }
    acre__lock_give(&pool->lock);
    return status;
}

/* Into the calling thread's stack, or where that cannot be to the pool. */
acre_status acre__pool_free_plain(acre_pool *pool, struct acre__slot *slot, uint32_t size_class,
                                  acre_stream stream) {
    struct acre__pool_cache *cache = acre__cache_self();
    struct acre__slots one = {0};
    int is_full = 0;
    acre_status status = cache ? lane_ensure(cache, pool, stream, 1) : ACRE_OK;
    if (status)
        return status;
    acre__slots_push(&one, slot);
    one.last->next = NULL;
    if (cache && put_cached(cache, pool, stream, size_class, &one, &is_full)) {
        if (is_full)
            spill(pool, stream, size_class, cache);
        return ACRE_OK;
    }
    uint64_t id = ACRE__ID_UNKNOWN;
    if (!acre__device_is_lost(pool->dev) &&
        (status = acre__pool_stream_id(pool->dev, stream, &id)) && status != ACRE_E_CAPTURING)
        return status;
    acre__lock_take(&pool->lock);
    int is_given = acre__central_give(pool, size_class, stream, id, &one);
    acre__lock_give(&pool->lock);
    return is_given ? ACRE_OK
                    : acre__fail(ACRE_E_HOST_MEMORY, "no memory to note that a block was freed");
}

acre_status acre__pool_free_slow(acre_pool *pool, void *p, acre_stream stream) {
    struct acre__slab *slab;
    acre_status status = pool ? acre__pool_check(pool) : acre__enter();
    if (status || !p)
        return status;
    struct acre__slot *slot = acre__pool_block(pool, p, &slab, &status);
    if (!slot)
        return status;
    pool = slab->pool;
    status = acre__stream_check(pool->dev, stream);
    uint8_t before;
    if (status)
        return status;
    if (!acre__pool_unlive(slot, &before))
        return acre__fail(ACRE_E_POINTER, "%p was freed already", p);
    if (pool->flags & ACRE_POOL_DEBUG)
        status = acre__pool_debug_free(pool, slot, slab->size_class, stream);
    else if (before & ACRE__SLOT_USED)
        status = free_used(pool, slot, slab->size_class, stream);
    else
        status = acre__pool_free_plain(pool, slot, slab->size_class, stream);
    if (status)
        acre__store(slot->state, before, memory_order_release);
    return status;
}
