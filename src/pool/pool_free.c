/* Frees: finds the slot of an address, and returns the slot to a cache or to the pool. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/status.h"
#include "pool/pool_free.h"
#include "pool/pool_list.h"
#include "pool/pool_watch.h"
#include "space/book.h"
#include "watch/origin.h"

enum { STACK_LEFT = 4 }; /* a full stack keeps a quarter of its slots */

/* As acre__pool_stream_id, but uses the id that the lane has, if the stream is not captured. */
static acre_status known_id(const struct acre__known *known, const acre_pool *pool,
                            acre_stream stream, uint64_t *id) {
    if (!known->is_known)
        return acre__pool_stream_id(pool->dev, stream, id);
    *id = known->id;
    if (known->is_checked && acre__stream_is_captured(pool->dev, stream))
        return acre__pool_stream_id(pool->dev, stream, id);
    return ACRE_OK;
}

/* Marks a slot as free. Returns 0 if another thread was first. */
static int slot_unlive(struct acre__slot *slot, uint32_t *before) {
    *before = acre__load(slot->state, memory_order_acquire);
    while (*before & ACRE__SLOT_LIVE)
        if (acre__cas(slot->state, before, 0, memory_order_acq_rel, memory_order_acquire))
            return 1;
    return 0;
}

static acre_status no_block(const void *p) {
    acre_status status = acre__book_check_owner(p, ACRE__OWNED_BY_POOL);
    if (status)
        return status;
    (void)acre__origin_log_double_free(p);
    return acre__fail(ACRE_E_POINTER, "%p is not a live block of a pool (double free?)", p);
}

/* Finds a live large block, of any pool, that contains the address but does not begin there.
 * Returns its start, or NULL. */
static const void *large_around(const void *p, const acre_pool **owner) {
    const void *begin = NULL;
    acre__lock_take(&acre__pools.lock);
    for (acre_pool *pool = NULL; !begin && (pool = acre__live_next(&acre__pools, pool));) {
        acre__lock_take(&pool->lock);
        struct acre__slab *slab = acre__slab_of(pool, p);
        if (slab && acre__slab_is_large(slab) && slab->at != (uintptr_t)p &&
            acre__load(&slab->states[0], memory_order_relaxed) & ACRE__SLOT_LIVE) {
            begin = slab->slots[0].p;
            *owner = pool;
        }
        acre__lock_give(&pool->lock);
    }
    acre__lock_give(&acre__pools.lock);
    return begin;
}

/* A slab without live blocks may be destroyed at any time, hence the reader section. The section
 * also covers the compare-and-swap that decides which thread frees the block. */
struct acre__slot *acre__pool_block(acre_pool *pool, const void *p, struct acre__slab **found,
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
        begin = large_around(p, &owner);
    *found = slab;
    *status = ACRE_OK;
    if (!begin)
        *status = no_block(p);
    else if (pool && owner != pool)
        *status = acre__fail(ACRE_E_HANDLE, "%p belongs to another pool", p);
    else if (begin != p)
        *status = acre__fail(ACRE_E_INTERIOR, "%p lies inside a block that begins at %p", p, begin);
    return *status ? NULL : around;
}

acre_status acre__pool_note_use(acre_pool *pool, struct acre__slot *slot, acre_stream stream) {
    struct acre__pool_use *use = acre__pool_use_find(pool, slot->p);
    if (!use && (use = calloc(1, sizeof *use))) {
        use->node.key = (uintptr_t)slot->p;
        acre__uses_open(&use->uses, pool->dev);
        acre__uses_lend(&pool->spare_events, &use->uses);
        acre__tree_insert(&pool->uses, &use->node);
    }
    acre_status status = use ? acre__uses_record(&use->uses, stream)
                             : acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a use");
    if (status == ACRE_OK) {
        use->key ^= (uintptr_t)stream;
        atomic_fetch_or_explicit(slot->state, ACRE__SLOT_USED, memory_order_release);
    }
    return status;
}

/* If out of host memory for the record of unknown streams, waits for the device. */
void acre__give_lost(struct acre__slab *slab, struct acre__slot *slot) {
    acre_pool *pool = slab->pool;
    struct acre__slots one = acre__slots_of(slot);
    acre__lock_take(&pool->lock);
    struct acre__pool_stream *lost = acre__stream_lost(pool);
    if (lost)
        acre__stream_put(pool, lost, slab->size_class, &one, 0);
    else
        (void)acre__central_give_after_all(pool, slab->size_class, &one);
    acre__lock_give(&pool->lock);
}

/* Prefetches the records of the slots that a full stack is about to return: other threads wrote
 * them last. The caller does not hold the pool's lock yet, so it holds the lock for a shorter
 * time. */
static void lane_prefetch(struct acre__pool_cache *cache, const acre_pool *pool, acre_stream stream,
                          uint32_t size_class) {
    struct acre__lane *lane = acre__cache_enter_lane(cache, pool, stream);
    if (lane && lane->stacks[size_class].count >= lane->stacks[size_class].most)
        acre__lane_prefetch(lane, size_class, lane->stacks[size_class].most / STACK_LEFT);
    acre__cache_leave(cache);
}

/* Lock held: grows the stack's grant. Returns 1 if the stack then has room for another slot.
 * Otherwise moves most of the stack to `slots`, which already has the freed slot: the longer these
 * lists, the fewer calls need the lock. *id becomes the id of the lane's stream. */
static int lane_make_room(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                          uint32_t size_class, struct acre__slots *slots, uint64_t *id) {
    struct acre__lane *lane = acre__cache_enter_lane(cache, pool, stream);
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

/* Called if out of host memory to record the slots. A block that is just being freed stays live,
 * and the free fails. Slots from a stack must return to the pool, after a wait for the device. */
static acre_status spill_failed(acre_pool *pool, uint32_t size_class, struct acre__slots *slots) {
    int is_given = 0;
    if (slots->count > 1) {
        acre__lock_take(&pool->lock);
        is_given = acre__central_give_after_all(pool, size_class, slots);
        acre__lock_give(&pool->lock);
    }
    return is_given ? ACRE_OK
                    : acre__fail(ACRE_E_HOST_MEMORY, "no memory to record that a block was freed");
}

/* Puts a freed slot into the grown stack, or returns it to the pool with most of the full stack. */
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
        is_given = acre__central_give(pool, size_class, stream, lane_id, id, slots);
    if (cache && is_given && acre__id_differs(lane_id, id))
        acre__cache_renew(cache, pool, stream, id);
    acre__lock_give(&pool->lock);
    acre__pool_export(pool);
    if (!slots->count || (cache && acre__cache_put(cache, pool, stream, size_class, slots)))
        return ACRE_OK;
    if (is_given) { /* a suspend emptied and closed the stack after it had grown */
        acre__lock_take(&pool->lock);
        is_given = acre__central_give(pool, size_class, stream, id, id, slots);
        acre__lock_give(&pool->lock);
    }
    return is_given ? ACRE_OK : spill_failed(pool, size_class, slots);
}

/* Keeps a large block in the lane. Returns 0 if the block must return to the pool. If it was the
 * last live one of the lane, all kept blocks return to the pool too. */
static int keep_cached(struct acre__pool_cache *cache, struct acre__slab *slab, acre_stream stream,
                       const struct acre__known *known) {
    acre_pool *pool = slab->pool;
    int is_last = 0;
    struct acre__lane *lane = acre__cache_enter_lane(cache, pool, stream);
    int is_kept = lane && acre__lane_keep(lane, slab, &is_last);
    acre__cache_leave(cache);
    uint64_t id;
    if (is_kept || acre__device_is_lost(pool->dev) || known_id(known, pool, stream, &id) != ACRE_OK)
        return is_kept;
    acre__lock_take(&pool->lock);
    if (is_last)
        acre__cache_flush_kept(cache, pool, stream, id);
    lane = acre__cache_enter_lane(cache, pool, stream);
    if (lane) {
        lane->large_live--;
        acre__lane_grow_kept(lane, slab->bytes);
    }
    acre__cache_leave(cache);
    acre__lock_give(&pool->lock);
    return 0;
}

/* Frees into the calling thread's stack or, failing that, to the pool. Slots freed on a captured
 * stream stay in the stack without bound, because no event can be recorded after them. */
acre_status acre__pool_free_plain(struct acre__slab *slab, struct acre__slot *slot,
                                  acre_stream stream) {
    acre_pool *pool = slab->pool;
    struct acre__pool_cache *cache = acre__cache_self();
    struct acre__slots slots = {0};
    uint32_t size_class = slab->size_class;
    uint64_t id = ACRE__ID_UNKNOWN;
    int is_large = acre__slab_is_large(slab);
    const struct acre__known known = acre__cache_knows(cache, pool, stream);
    acre_status status =
        cache && !known.is_known ? acre__cache_ensure(cache, pool, stream, 1) : ACRE_OK;
    if (status)
        return status;
    if (is_large && cache && keep_cached(cache, slab, stream, &known))
        return ACRE_OK;
    if (!acre__device_is_lost(pool->dev))
        status = known_id(&known, pool, stream, &id);
    if (status && status != ACRE_E_CAPTURING)
        return status;
    acre__slots_push(&slots, slot);
    if (status && !is_large && cache && !acre__pool_over(pool) &&
        acre__cache_put(cache, pool, stream, size_class, &slots))
        return ACRE_OK;
    return spill(pool, stream, size_class, is_large ? NULL : cache, id, &slots);
}
