/* The slow path: checks everything, and moves slots between the thread's cache and the pool. */
#include "pool/pool_slow.h"

#include <stdlib.h>

#include "base/atomic.h"
#include "base/status.h"
#include "base/thread.h"
#include "pool/pool_tag.h"
#include "pool/pool_watch.h"

enum { STACK_LEFT = 4 }; /* a full stack keeps one in so many of its slots */

/* ---- what a lane proves ---- */

/* A lane exists only while its pool and its stream do, unless the stream is foreign. So neither
 * needs another check. */
struct known {
    int is_known;
    int is_checked; /* the stream may be captured */
    uint64_t id;    /* of the stream */
};

/* Any values are safe. */
static struct known lane_known(struct acre__pool_cache *cache, const acre_pool *pool,
                               acre_stream stream) {
    struct known known = {0, 1, ACRE__ID_UNKNOWN};
    if (!cache)
        return known;
    acre__cache_enter(cache);
    const struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    if (lane && !lane->is_foreign && !lane->pool->is_ended && !acre__device_is_lost(pool->dev))
        known = (struct known){1, lane->is_checked, lane->id};
    acre__cache_leave(cache);
    return known;
}

/* As acre__pool_stream_id. */
static acre_status known_id(const struct known *known, const acre_pool *pool, acre_stream stream,
                            uint64_t *id) {
    if (!known->is_known)
        return acre__pool_stream_id(pool->dev, stream, id);
    *id = known->id;
    if (known->is_checked && acre__stream_is_captured(pool->dev, stream))
        return acre__pool_stream_id(pool->dev, stream, id);
    return ACRE_OK;
}

/* ---- checks ---- */

static acre_status alloc_check(const struct known *known, acre_pool *pool, size_t bytes,
                               size_t alignment, acre_stream stream, void **p) {
    acre_status status = known->is_known ? ACRE_OK : acre__pool_enter(pool);
    if (status)
        return status;
    if (!p)
        return acre__fail(ACRE_E_NULL, "acre_pool_alloc: p is NULL");
    if (!bytes || bytes > ACRE__BYTES_MOST ||
        (pool->flags & ACRE_POOL_DEBUG && bytes > ACRE__BYTES_MOST - ACRE__GRAIN))
        return acre__fail(ACRE_E_INVALID, "acre_pool_alloc: %zu bytes", bytes);
    if (alignment & (alignment - 1) || alignment > (size_t)1 << 30)
        return acre__fail(ACRE_E_INVALID,
                          "acre_pool_alloc: an alignment of %zu is no power of two up to 1 GiB",
                          alignment);
    return known->is_known ? ACRE_OK : acre__stream_check(pool->dev, stream);
}

/* 1 for a block without a size class: slabs begin only at multiples of the table's unit. */
static int is_large(size_t bytes, size_t alignment) {
    return bytes > ACRE__SMALL_MOST || alignment > (size_t)1 << ACRE__TABLE_UNIT_BITS;
}

/* The smallest class from that of `bytes` on whose slots are all aligned. */
static uint32_t class_aligned(size_t bytes, size_t alignment) {
    uint32_t size_class = acre__class_of(bytes);
    while (alignment > ACRE__GRAIN && acre__class_bytes(size_class) % alignment)
        size_class++;
    return size_class;
}

/* The request, rounded as the pool does. */
static struct acre__want want_of(acre_pool *pool, size_t bytes, size_t alignment,
                                 acre_stream stream) {
    struct acre__want want = {
        .pool = pool, .stream = stream, .size_class = ACRE__CLASSES, .count = 1};
    want.alignment = alignment < ACRE__GRAIN ? ACRE__GRAIN : alignment;
    want.bytes = acre__large_bytes(bytes);
    if (!is_large(bytes, alignment)) {
        want.size_class = class_aligned(bytes, alignment);
        want.bytes = acre__class_bytes(want.size_class);
    }
    return want;
}

/* Marks a slot as not live. Returns 0 if another thread was first. */
static int slot_unlive(struct acre__slot *slot, uint32_t *before) {
    *before = acre__load(slot->state, memory_order_acquire);
    while (*before & ACRE__SLOT_LIVE)
        if (acre__cas(slot->state, before, 0, memory_order_acq_rel, memory_order_acquire))
            return 1;
    return 0;
}

/* A slab without live blocks may end at any time, hence the reader's section. Inside it, this
 * thread also wins the block against other threads that free it. */
static struct acre__slot *block_find(acre_pool *pool, const void *p, struct acre__slab **found,
                                     uint32_t *before, acre_status *status) {
    struct acre__pool_cache *cache = acre__cache_self();
    acre__reader_enter(cache);
    struct acre__slab *slab = acre__pool_table_find(p);
    struct acre__slot *around = slab ? acre__slab_around(slab, p) : NULL;
    int is_live = around && acre__load(around->state, memory_order_acquire) & ACRE__SLOT_LIVE;
    const acre_pool *owner = is_live ? slab->pool : NULL;
    const void *begin = is_live ? acre__slab_begin(slab, around) : NULL;
    if (is_live && before && begin == p && (!pool || owner == pool))
        is_live = slot_unlive(around, before);
    begin = is_live ? begin : NULL;
    acre__reader_leave(cache);
    if (!is_live)
        begin = acre__pools_around(p, &owner);
    *found = slab;
    *status = ACRE_OK;
    if (!begin)
        *status = acre__fail(ACRE_E_POINTER, "%p is no block of a pool, or was freed already", p);
    else if (pool && owner != pool)
        *status = acre__fail(ACRE_E_HANDLE, "%p belongs to another pool", p);
    else if (begin != p)
        *status = acre__fail(ACRE_E_INTERIOR, "%p lies inside a block that begins at %p", p, begin);
    return *status ? NULL : around;
}

struct acre__slot *acre__pool_block(acre_pool *pool, const void *p, struct acre__slab **slab,
                                    acre_status *status) {
    return block_find(pool, p, slab, NULL, status);
}

struct acre__slot *acre__pool_unlive(acre_pool *pool, const void *p, struct acre__slab **slab,
                                     uint32_t *before, acre_status *status) {
    return block_find(pool, p, slab, before, status);
}

void acre__pool_enliven(struct acre__slab *slab, struct acre__slot *slot, uint32_t live,
                        size_t bytes) {
    if (acre__slab_is_large(slab))
        acre__store(&slab->asked, bytes, memory_order_relaxed);
    else
        live |= (uint32_t)bytes << ACRE__SLOT_BYTES_SHIFT;
    acre__store(slot->state, live, memory_order_release);
}

/* ---- fetching ---- */

/* Makes sure that the calling thread has a lane. That needs the stream's id, which a captured
 * stream cannot be asked for. Returns ACRE_OK also if there is no memory for a lane. */
static acre_status lane_ensure(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                               int may_be_captured) {
    uint64_t id = ACRE__ID_UNKNOWN;
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    int is_there = lane != NULL, is_foreign = lane && lane->is_foreign;
    acre__cache_leave(cache);
    if ((is_there && !is_foreign) || acre__device_is_lost(pool->dev))
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

/* Takes a slot from the calling thread's stack; NULL if it is empty. */
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

/* Pushes slots onto the calling thread's stack. Returns 0 without a lane for them, or memory. */
static int put_cached(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                      uint32_t size_class, struct acre__slots *slots) {
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    int is_put = lane && acre__lane_put(lane, size_class, slots);
    acre__cache_leave(cache);
    return is_put;
}

/* Lock held: how many slots to fetch. About half of the stack's new grant, or all of it if they are
 * in one bundle. */
static void want_batch(struct acre__want *want, struct acre__pool_cache *cache) {
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, want->pool, want->stream);
    if (lane) {
        acre__lane_grow(lane, want->size_class);
        want->most = lane->stacks[want->size_class].most;
    }
    acre__cache_leave(cache);
    uint32_t most = want->most, line = 16u >> acre__class_state_shift(want->size_class);
    want->count = most > 2 * line ? most / 2 : most > line ? line : most > 1 ? most : 1;
}

static acre_status want_id(struct acre__want *want) {
    return want->is_id_known ? ACRE_OK
                             : acre__pool_stream_id(want->pool->dev, want->stream, &want->id);
}

/* First gives back what the thread cached for a stream that ended without being retired. */
static acre_status refill(struct acre__want *want, struct acre__pool_cache *cache,
                          struct acre__slot **out) {
    acre_pool *pool = want->pool;
    acre_stream stream = want->stream;
    uint32_t size_class = want->size_class;
    acre_status status = want_id(want);
    if (status)
        return status;
    acre__lock_take(&pool->lock);
    if (cache) {
        if (!want->is_id_known)
            acre__cache_renew(cache, pool, stream, want->id);
        acre__cache_age(cache, pool, stream);
        want_batch(want, cache);
    }
    status = acre__ladder_take(want);
    acre__lock_give(&pool->lock);
    acre__pool_export(pool);
    struct acre__slots slots = want->slots;
    if (status)
        return status;
    *out = acre__slots_pop(&slots);
    if (slots.count && !put_cached(cache, pool, stream, size_class, &slots)) {
        acre__lock_take(&pool->lock);
        (void)acre__central_give(pool, size_class, stream, want->id, &slots);
        acre__lock_give(&pool->lock);
    }
    return ACRE_OK;
}

/* Takes a large block that the calling thread keeps; NULL if none fits. */
static struct acre__slot *kept_take(struct acre__pool_cache *cache, acre_pool *pool,
                                    acre_stream stream, size_t bytes, size_t alignment) {
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    struct acre__slab *slab =
        lane && alignment <= ACRE__PIECE_GRAIN ? acre__lane_kept(lane, bytes) : NULL;
    acre__cache_leave(cache);
    return slab ? &slab->slots[0] : NULL;
}

/* Takes a large block. First gives kept blocks to the pool, so that its holes merge. */
static acre_status take_large(struct acre__want *want, struct acre__pool_cache *cache,
                              struct acre__slot **out) {
    acre_pool *pool = want->pool;
    acre_stream stream = want->stream;
    if (cache && (*out = kept_take(cache, pool, stream, want->bytes, want->alignment)))
        return ACRE_OK;
    acre_status status = want_id(want);
    if (status)
        return status;
    acre__lock_take(&pool->lock);
    if (cache) {
        if (!want->is_id_known)
            acre__cache_renew(cache, pool, stream, want->id);
        acre__cache_flush_kept(cache, pool, stream, want->id);
        acre__cache_age(cache, pool, stream);
    }
    status = acre__ladder_take(want);
    acre__lock_give(&pool->lock);
    acre__pool_export(pool);
    *out = want->slots.first;
    if (cache && status == ACRE_OK)
        acre__cache_count_large(cache, pool, stream);
    return status;
}

static acre_status zero_fill(acre_pool *pool, void *p, size_t bytes, acre_stream stream) {
    return acre_fill(pool->dev, p, 0, bytes, stream);
}

/* Takes a slot from the capture's memory, the thread's cache or the pool. */
static acre_status take_slot(struct acre__want *want, struct acre__pool_cache *cache,
                             struct acre__slot **slot) {
    if (want->is_captured)
        return acre__graph_take(want, slot);
    if (want->size_class == ACRE__CLASSES)
        return take_large(want, cache, slot);
    *slot = cache ? take_cached(cache, want->pool, want->stream, want->size_class) : NULL;
    return *slot ? ACRE_OK : refill(want, cache, slot);
}

/* Frees a slot whose stream the driver does not know: it waits until the device is idle. */
static void give_lost(struct acre__slab *slab, struct acre__slot *slot) {
    acre_pool *pool = slab->pool;
    struct acre__slots one = {0};
    acre__slots_push(&one, slot);
    acre__lock_take(&pool->lock);
    struct acre__pool_stream *lost = acre__stream_lost(pool);
    if (lost)
        acre__stream_put(pool, lost, slab->size_class, &one, 0);
    else
        (void)acre__central_give_after_all(pool, slab->size_class, &one);
    acre__lock_give(&pool->lock);
}

/* Frees a slot that was not used, whatever the driver refuses. */
static void slot_return(struct acre__slab *slab, struct acre__slot *slot, uint32_t live,
                        acre_stream stream) {
    if (live & ACRE__SLOT_GRAPH)
        acre__graph_discard(slab, slot);
    else if (acre__pool_free_plain(slab, slot, stream))
        give_lost(slab, slot);
}

/* As take_slot, and tags the slot if the thread has a tag set. *live is the state to store. */
static acre_status take_tagged(struct acre__want *want, struct acre__pool_cache *cache,
                               struct acre__slot **slot, uint32_t *live) {
    uint32_t tag = cache ? cache->tag : 0;
    acre_status status = tag ? acre__tag_charge(want, cache) : ACRE_OK;
    *live = (cache ? cache->live : ACRE__SLOT_LIVE) | (want->is_captured ? ACRE__SLOT_GRAPH : 0);
    if (status)
        return status;
    int64_t charged = (int64_t)want->bytes;
    status = take_slot(want, cache, slot);
    if (!tag)
        return status;
    struct acre__slab *slab = status ? NULL : acre__pool_table_find((*slot)->p);
    if (slab && acre__tag_set(slab, (*slot)->state, tag)) {
        *live |= ACRE__SLOT_TAGGED;
        acre__tag_change(tag, (int64_t)slab->slot_bytes - charged, 0); /* it may be larger */
        return ACRE_OK;
    }
    acre__tag_change(tag, -charged, -1);
    if (status)
        return status;
    slot_return(slab, *slot, *live, want->stream);
    return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the tags of a slab");
}

acre_status acre__pool_alloc_undo(acre_status status, struct acre__slab *slab,
                                  struct acre__slot *slot, acre_stream stream) {
    struct acre__said said;
    acre__said_keep(&said);
    if (slab->pool->flags & ACRE_POOL_DEBUG) {
        acre__lock_take(&slab->pool->lock);
        acre__pool_debug_forget(slab->pool, slot->p);
        acre__lock_give(&slab->pool->lock);
    }
    uint32_t live = acre__exchange(slot->state, 0, memory_order_acq_rel);
    acre__tag_change(acre__tag_of(slab, slot->state, live), -(int64_t)slab->slot_bytes, -1);
    slot_return(slab, slot, live, stream);
    return acre__said_fail(status, &said);
}

acre_status acre__pool_alloc_slow(acre_pool *pool, size_t bytes, size_t alignment,
                                  acre_stream stream, int how, void **p) {
    if (p)
        *p = NULL;
    struct acre__pool_cache *cache = acre__cache_self();
    const struct known known = lane_known(cache, pool, stream);
    acre_status status = alloc_check(&known, pool, bytes, alignment, stream, p);
    if (status)
        return status;
    size_t zone = pool->flags & ACRE_POOL_DEBUG ? ACRE__GRAIN : 0;
    struct acre__want want = want_of(pool, bytes + zone, alignment, stream);
    struct acre__slot *slot = NULL;
    uint32_t live;
    want.is_id_known = known.is_known;
    want.id = known.id;
    if (known.is_checked)
        status = acre__stream_ask_captured(pool->dev, stream, &want.is_captured);
    if (status == ACRE_OK && cache && !known.is_known && !want.is_captured)
        status = lane_ensure(cache, pool, stream, 0);
    if (status == ACRE_OK)
        status = take_tagged(&want, cache, &slot, &live);
    if (status)
        return status;
    struct acre__slab *slab = acre__pool_table_find(slot->p);
    acre__pool_enliven(slab, slot, live, bytes);
    int zero = how & ACRE__ALLOC_ZERO || pool->flags & ACRE_POOL_ZERO;
    if (zone)
        status = acre__pool_debug_alloc(pool, slab, slot->p, bytes, zero, stream);
    else if (zero)
        status = zero_fill(pool, slot->p, slab->slot_bytes, stream);
    if (status)
        return acre__pool_alloc_undo(status, slab, slot, stream);
    *p = slot->p;
    return ACRE_OK;
}

/* ---- giving ---- */

/* Fetches the records of the slots that a full stack is about to give: other threads wrote them
 * last. Not under the pool's lock, which is then held for a shorter time. */
static void lane_prefetch(struct acre__pool_cache *cache, const acre_pool *pool, acre_stream stream,
                          uint32_t size_class) {
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    if (lane && lane->stacks[size_class].count >= lane->stacks[size_class].most)
        acre__lane_prefetch(lane, size_class, lane->stacks[size_class].most / STACK_LEFT);
    acre__cache_leave(cache);
}

/* Lock held. More may be kept from now on: returns 1 if there is room for another slot. Otherwise
 * moves most of the stack to the list, which has the slot that is freed: the longer the lists are,
 * the fewer calls need the lock. *id is that of the stream that the lane is of. */
static int lane_make_room(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                          uint32_t size_class, struct acre__slots *slots, uint64_t *id) {
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    int has_room = 0;
    if (lane) {
        acre__lane_grow(lane, size_class);
        const struct acre__stack *stack = &lane->stacks[size_class];
        has_room = stack->count < stack->most;
        if (!has_room)
            acre__lane_take(lane, size_class, stack->most / STACK_LEFT, slots);
        *id = lane->id;
    }
    acre__cache_leave(cache);
    return has_room;
}

/* Lock held. Slots from a lane were freed on the lane's stream, which may have ended. */
static int slots_give(acre_pool *pool, acre_stream stream, uint32_t size_class, uint64_t lane_id,
                      uint64_t id, struct acre__slots *slots) {
    return acre__id_differs(lane_id, id)
               ? acre__central_give_old(pool, size_class, stream, acre__stream_thread(stream),
                                        lane_id, 1, slots)
               : acre__central_give(pool, size_class, stream, id, slots);
}

/* There is no memory to record the slots. A block that is just being freed stays live. Slots from a
 * stack must go to the pool, after waiting for the device. */
static acre_status spill_failed(acre_pool *pool, uint32_t size_class, struct acre__slots *slots) {
    int is_given = 0;
    if (slots->count > 1) {
        acre__lock_take(&pool->lock);
        is_given = acre__central_give_after_all(pool, size_class, slots);
        acre__lock_give(&pool->lock);
    }
    return is_given ? ACRE_OK
                    : acre__fail(ACRE_E_HOST_MEMORY, "no memory to note that a block was freed");
}

/* Gives a freed slot to the pool, with most of the stack if that is full. */
static acre_status spill(acre_pool *pool, acre_stream stream, uint32_t size_class,
                         struct acre__pool_cache *cache, uint64_t id, struct acre__slots *slots) {
    uint64_t lane_id = id;
    int is_given = 1;
    if (cache)
        lane_prefetch(cache, pool, stream, size_class);
    acre__lock_take(&pool->lock);
    if (cache)
        acre__cache_age(cache, pool, stream);
    if (!cache || !lane_make_room(cache, pool, stream, size_class, slots, &lane_id))
        is_given = slots_give(pool, stream, size_class, lane_id, id, slots);
    if (cache && is_given && acre__id_differs(lane_id, id))
        acre__cache_renew(cache, pool, stream, id);
    acre__lock_give(&pool->lock);
    acre__pool_export(pool);
    if (!slots->count || (cache && put_cached(cache, pool, stream, size_class, slots)))
        return ACRE_OK;
    return spill_failed(pool, size_class, slots);
}

/* Frees a block that other streams use as well: it waits for them and for this one. */
static acre_status free_used(struct acre__slab *slab, struct acre__slot *slot, acre_stream stream) {
    acre_pool *pool = slab->pool;
    acre__lock_take(&pool->lock);
    acre_status status = acre__stream_put_used(pool, slot, slab->size_class, stream);
    acre__lock_give(&pool->lock);
    return status == ACRE_E_CAPTURING ? acre__graph_park(slab, slot, stream) : status;
}

/* Keeps a large block. Returns 0 if it goes to the pool. The last one takes the others with it. */
static int keep_cached(struct acre__pool_cache *cache, struct acre__slab *slab, acre_stream stream,
                       const struct known *known) {
    acre_pool *pool = slab->pool;
    int is_last = 0;
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    int is_kept = lane && acre__lane_keep(lane, slab, &is_last);
    acre__cache_leave(cache);
    uint64_t id;
    if (is_kept || acre__device_is_lost(pool->dev) || known_id(known, pool, stream, &id) != ACRE_OK)
        return is_kept;
    acre__lock_take(&pool->lock);
    if (is_last)
        acre__cache_flush_kept(cache, pool, stream, id);
    acre__cache_enter(cache);
    lane = acre__cache_lane(cache, pool, stream);
    if (lane) {
        lane->large_live--;
        acre__lane_grow_kept(lane, slab->bytes);
    }
    acre__cache_leave(cache);
    acre__lock_give(&pool->lock);
    return 0;
}

/* Frees into the calling thread's stack, or else to the pool. Slots freed on a captured stream stay
 * in the stack, however many: no event can be recorded behind them. */
acre_status acre__pool_free_plain(struct acre__slab *slab, struct acre__slot *slot,
                                  acre_stream stream) {
    acre_pool *pool = slab->pool;
    struct acre__pool_cache *cache = acre__cache_self();
    struct acre__slots slots = {0};
    uint32_t size_class = slab->size_class;
    uint64_t id = ACRE__ID_UNKNOWN;
    int is_large = acre__slab_is_large(slab);
    const struct known known = lane_known(cache, pool, stream);
    acre_status status = cache && !known.is_known ? lane_ensure(cache, pool, stream, 1) : ACRE_OK;
    if (status)
        return status;
    if (is_large && cache && keep_cached(cache, slab, stream, &known))
        return ACRE_OK;
    if (!acre__device_is_lost(pool->dev))
        status = known_id(&known, pool, stream, &id);
    if (status && status != ACRE_E_CAPTURING)
        return status;
    acre__slots_push(&slots, slot);
    if (status && !is_large && cache && put_cached(cache, pool, stream, size_class, &slots))
        return ACRE_OK;
    return spill(pool, stream, size_class, is_large ? NULL : cache, id, &slots);
}

acre_status acre__pool_free_slow(acre_pool *pool, void *p, acre_stream stream) {
    struct acre__slab *slab;
    acre_status status = pool ? acre__pool_check(pool) : acre__enter();
    if (status || !p)
        return status;
    uint32_t before = 0;
    struct acre__slot *slot = acre__pool_unlive(pool, p, &slab, &before, &status);
    if (!slot)
        return status;
    pool = slab->pool;
    status = acre__stream_check(pool->dev, stream);
    if (status) {
        acre__store(slot->state, before, memory_order_release);
        return status;
    }
    uint32_t tag = acre__tag_of(slab, slot->state, before); /* now: a large block's record may go */
    int64_t bytes = (int64_t)slab->slot_bytes;
    if (before & ACRE__SLOT_GRAPH)
        status = acre__graph_free(slab, slot, before, stream, NULL);
    else if (pool->flags & ACRE_POOL_DEBUG)
        status = acre__pool_debug_free(slab, slot, stream);
    else if (before & ACRE__SLOT_USED)
        status = free_used(slab, slot, stream);
    else
        status = acre__pool_free_plain(slab, slot, stream);
    if (status) {
        acre__graph_restore(pool, slot, before);
        return status;
    }
    acre__tag_change(tag, -bytes, -1);
    return ACRE_OK;
}
