/* The slow path: checks everything, and moves slots between the thread's cache and the pool. */

#include "base/atomic.h"
#include "base/status.h"
#include "base/thread.h"
#include "pool/pool_debug.h"
#include "pool/pool_free.h"
#include "pool/pool_ladder.h"
#include "pool/pool_large.h"
#include "pool/pool_list.h"
#include "pool/pool_report.h"
#include "pool/pool_slow.h"
#include "pool/pool_spill.h"
#include "pool/pool_tag.h"
#include "pool/pool_watch.h"
#include "space/mapped.h"
#include "watch/probes.h"

/* ---- checks ---- */

static acre_status alloc_check(const struct acre__known *known, acre_pool *pool, size_t alignment,
                               acre_stream stream, void **p) {
    acre_status status = known->is_known ? ACRE_OK : acre__pool_enter(pool);
    if (status)
        return status;
    if (!p)
        return acre__fail(ACRE_E_NULL, "p is NULL");
    if (alignment & (alignment - 1) || alignment > (size_t)1 << 30)
        return acre__fail(ACRE_E_INVALID, "alignment %zu is not a power of two up to 1 GiB",
                          alignment);
    return known->is_known ? ACRE_OK : acre__stream_check(pool->dev, stream);
}

/* Returns the smallest class from that of `bytes` on whose slots are all aligned. */
static uint32_t class_aligned(size_t bytes, size_t alignment) {
    uint32_t size_class = acre__class_of(bytes);
    while (alignment > ACRE__GRAIN && acre__class_bytes(size_class) % alignment)
        size_class++;
    return size_class;
}

/* Builds a request, with the bytes rounded as the pool does. */
static struct acre__want want_of(acre_pool *pool, size_t bytes, size_t alignment,
                                 acre_stream stream) {
    struct acre__want want = {
        .pool = pool, .stream = stream, .size_class = ACRE__CLASSES, .count = 1};
    want.alignment = alignment < ACRE__GRAIN ? ACRE__GRAIN : alignment;
    want.bytes = acre__large_bytes(bytes);
    /* Slabs begin only at multiples of the table's unit. */
    if (bytes <= ACRE__SMALL_MOST && alignment <= (size_t)1 << ACRE__TABLE_UNIT_BITS) {
        want.size_class = class_aligned(bytes, alignment);
        want.bytes = acre__class_bytes(want.size_class);
    }
    return want;
}

static int is_large(const struct acre__want *want) {
    return want->size_class == ACRE__CLASSES;
}

/* ---- fetching ---- */

/* Takes a slot from the calling thread's stack, or a large block that it keeps; NULL if none fits.
 */
static struct acre__slot *take_cached(const struct acre__want *want) {
    struct acre__slots slots = {0};
    struct acre__slab *slab = NULL;
    struct acre__lane *lane = acre__cache_enter_lane(want->cache, want->pool, want->stream);
    uint32_t count = lane && !is_large(want) ? lane->stacks[want->size_class].count : 0;
    if (count)
        acre__lane_take(lane, want->size_class, count - 1, &slots);
    else if (lane && is_large(want) && want->alignment <= ACRE__PIECE_GRAIN)
        slab = acre__lane_kept(lane, want->bytes);
    acre__cache_leave(want->cache);
    return slab ? &slab->slots[0] : slots.first;
}

/* Lock held: sets how many slots to fetch. About half of the stack's new grant, or all of it if
 * they are in one bundle. */
static void want_batch(struct acre__want *want) {
    struct acre__lane *lane = acre__cache_enter_lane(want->cache, want->pool, want->stream);
    if (lane) {
        acre__lane_grow(lane, want->size_class);
        want->most = lane->stacks[want->size_class].most;
    }
    acre__cache_leave(want->cache);
    uint32_t most = want->most, line = 16u >> acre__class_state_shift(want->size_class);
    want->count = most > 2 * line ? most / 2 : most > line ? line : most > 1 ? most : 1;
}

/* Takes slots from the pool. First returns slots that the thread cached for a dead stream with the
 * same handle. For a large block, also returns the large blocks that the thread keeps, so that
 * holes merge. */
static acre_status fetch(struct acre__want *want) {
    acre_pool *pool = want->pool;
    acre_status status = ACRE_OK;
    if (!want->is_id_known)
        status = acre__pool_stream_id(pool->dev, want->stream, &want->id);
    if (status)
        return status;
    acre__lock_take(&pool->lock);
    if (want->cache) {
        if (!want->is_id_known)
            acre__cache_renew(want->cache, pool, want->stream, want->id);
        if (is_large(want))
            acre__cache_flush_kept(want->cache, pool, want->stream, want->id);
        acre__cache_age(want->cache, pool, want->stream);
        if (!is_large(want))
            want_batch(want);
    }
    status = acre__ladder_take(want);
    acre__lock_give(&pool->lock);
    return status;
}

static acre_status refill(struct acre__want *want, struct acre__slot **out) {
    acre_pool *pool = want->pool;
    acre_status status = fetch(want);
    struct acre__slots slots = want->slots;
    if (status)
        return status;
    *out = acre__slots_pop(&slots);
    if (slots.count &&
        !acre__cache_put(want->cache, pool, want->stream, want->size_class, &slots)) {
        acre__lock_take(&pool->lock);
        (void)acre__central_give(pool, want->size_class, want->stream, want->id, want->id, &slots);
        acre__lock_give(&pool->lock);
    }
    acre__pool_export(pool); /* now: slots on their way to the cache would count as live */
    return ACRE_OK;
}

static acre_status take_large(struct acre__want *want, struct acre__slot **out) {
    acre_status status = fetch(want);
    *out = want->slots.first;
    if (want->cache && status == ACRE_OK)
        acre__cache_count_large(want->cache, want->pool, want->stream);
    acre__pool_export(want->pool);
    return status;
}

static acre_status take_captured(struct acre__want *want, struct acre__slot **slot) {
    struct acre__graph_block *block;
    acre_status status = acre__graph_begin(want, &block);
    if (status)
        return status;
    status = acre__ladder_take(want);
    *slot = status ? NULL : want->slots.first;
    acre__graph_end(want, block, status);
    return status;
}

/* Takes a slot from the capture's memory, the thread's cache or the pool. */
static acre_status take_slot(struct acre__want *want, struct acre__slot **slot) {
    if (want->is_captured)
        return take_captured(want, slot);
    *slot = want->cache ? take_cached(want) : NULL;
    if (*slot)
        return ACRE_OK;
    return is_large(want) ? take_large(want, slot) : refill(want, slot);
}

/* Frees a slot that no work used, even if driver calls fail. */
static void slot_return(struct acre__slab *slab, struct acre__slot *slot, uint32_t live,
                        acre_stream stream) {
    if (live & ACRE__SLOT_GRAPH)
        acre__graph_discard(slab, slot);
    else if (acre__pool_free_plain(slab, slot, stream))
        acre__give_lost(slab, slot);
}

static acre_status tag_refuse(struct acre__want *want, uint32_t over) {
    uint64_t used, limit;
    acre__tag_limit(over, &used, &limit);
    acre_status status = acre__fail(
        ACRE_E_LIMIT,
        "%zu bytes requested; %llu of the limit of %llu bytes of the tag %.100s are in use",
        want->bytes, (unsigned long long)used, (unsigned long long)limit, acre__tag_path(over));
    acre__lock_take(&want->pool->lock);
    status = acre__report_refusal(want, status, over);
    acre__lock_give(&want->pool->lock);
    return status;
}

/* Charges the request to the calling thread's tag, if its limit and those of its parents allow it.
 * Otherwise adds the counters of all threads first, then calls the pool's callback. */
static acre_status tag_charge(struct acre__want *want) {
    struct acre__pool_cache *cache = want->cache;
    for (uint32_t attempt = 0;; attempt++) {
        uint64_t used, limit;
        acre__cache_enter(cache);
        acre__tag_flush(cache, NULL);
        acre__cache_leave(cache);
        uint32_t over = acre__tag_try(cache->tag, want->bytes);
        if (over) {
            acre__caches_visit(acre__tag_flush, NULL);
            over = acre__tag_try(cache->tag, want->bytes);
        }
        cache->is_tag_full = over != 0;
        if (!over)
            return ACRE_OK;
        acre__tag_limit(over, &used, &limit);
        if (want->bytes > limit || !acre__ladder_ask(want->pool, want->bytes, attempt))
            return tag_refuse(want, over);
    }
}

/* As take_slot, and tags the slot if the thread has a tag set. *live is the state to store. */
static acre_status take_tagged(struct acre__want *want, struct acre__slot **slot, uint32_t *live) {
    const struct acre__pool_cache *cache = want->cache;
    uint32_t tag = cache ? cache->tag : 0;
    acre_status status = tag ? tag_charge(want) : ACRE_OK;
    *live = (cache ? cache->live : ACRE__SLOT_LIVE) | (want->is_captured ? ACRE__SLOT_GRAPH : 0);
    if (status)
        return status;
    int64_t charged = (int64_t)want->bytes;
    status = take_slot(want, slot);
    if (!tag)
        return status;
    struct acre__slab *slab = *slot ? acre__pool_table_find((*slot)->p) : NULL;
    if (slab && acre__tag_set(slab, (*slot)->state, tag)) {
        *live |= ACRE__SLOT_TAGGED;
        acre__tag_change(tag, (int64_t)slab->slot_bytes - charged, 0); /* the slot may be larger */
        return ACRE_OK;
    }
    acre__tag_change(tag, -charged, -1);
    if (!slab)
        return status;
    slot_return(slab, *slot, *live, want->stream);
    return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the tags of a slab");
}

acre_status acre__pool_alloc_undo(acre_status status, struct acre__slab *slab,
                                  struct acre__slot *slot, acre_stream stream) {
    struct acre__said said;
    acre__said_keep(&said);
    uint32_t live = acre__exchange(slot->state, 0, memory_order_acq_rel);
    acre__tag_change(acre__tag_of(slab, slot->state, live), -(int64_t)slab->slot_bytes, -1);
    slot_return(slab, slot, live, stream);
    return acre__said_fail(status, &said);
}

/* Refuses a size that no pool can serve, as out of memory: the program handles it as any request
 * that is too large. */
static acre_status refuse_huge(acre_pool *pool, size_t bytes, acre_stream stream,
                               struct acre__pool_cache *cache) {
    struct acre__want want = {.pool = pool,
                              .cache = cache,
                              .stream = stream,
                              .size_class = ACRE__CLASSES,
                              .alignment = ACRE__GRAIN,
                              .bytes = bytes};
    acre__lock_take(&pool->lock);
    acre_status status = acre__ladder_refuse_huge(&want);
    acre__lock_give(&pool->lock);
    return status;
}

static acre_status alloc_once(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream,
                              int how, void **p) {
    if (p)
        *p = NULL;
    struct acre__pool_cache *cache = acre__cache_self();
    const struct acre__known known = acre__cache_knows(cache, pool, stream);
    acre_status status = alloc_check(&known, pool, alignment, stream, p);
    if (status || !bytes) /* a block of 0 bytes is NULL, as with cudaMalloc */
        return status;
    size_t zone = pool->flags & ACRE_POOL_DEBUG ? ACRE__GRAIN : 0;
    if (bytes > ACRE__BYTES_MOST - zone)
        return refuse_huge(pool, bytes, stream, cache);
    struct acre__want want = want_of(pool, bytes + zone, alignment, stream);
    struct acre__slot *slot = NULL;
    uint32_t live;
    want.cache = cache;
    want.asked = bytes;
    want.is_id_known = known.is_known;
    want.id = known.id;
    if (known.is_checked)
        status = acre__stream_ask_captured(pool->dev, stream, &want.is_captured);
    if (status == ACRE_OK && cache && !known.is_known && !want.is_captured)
        status = acre__cache_ensure(cache, pool, stream, 0);
    if (status == ACRE_OK)
        status = take_tagged(&want, &slot, &live);
    if (status)
        return status;
    struct acre__slab *slab = acre__pool_table_find(slot->p);
    /* A suspend sets the flag before it looks for live blocks (both sequentially consistent): it
     * keeps this one, or this call sees the flag. */
    acre__store(slot->state, acre__slab_ask(slab, live, bytes), memory_order_seq_cst);
    uint32_t suspended = acre__load(&pool->is_suspended, memory_order_seq_cst);
    if (suspended)
        return acre__pool_alloc_undo(
            acre__fail(acre__suspended_as(suspended), "memory of the pool is suspended"), slab,
            slot, stream);
    int zero = how & ACRE__ALLOC_ZERO || pool->flags & ACRE_POOL_ZERO;
    if (zone)
        status = acre__pool_debug_alloc(slab, slot->p, bytes, zero, stream);
    else if (zero)
        status = acre_fill(pool->dev, slot->p, 0, slab->slot_bytes, stream);
    if (status)
        return acre__pool_alloc_undo(status, slab, slot, stream);
    *p = slot->p;
    acre__probe_alloc(pool, slot->p, bytes, stream);
    return ACRE_OK;
}

acre_status acre__pool_alloc_slow(acre_pool *pool, size_t bytes, size_t alignment,
                                  acre_stream stream, int how, void **p) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = alloc_once(pool, bytes, alignment, stream, how, p);
    while (acre__must_retry(status, &seen));
    return status;
}

/* ---- freeing ---- */

/* Frees a block that becomes ready once an event has passed or, without an event, once all streams
 * that use it have passed, this one included. */
static acre_status give_shared(struct acre__slab *slab, struct acre__slot *slot, acre_stream stream,
                               acre_event event) {
    acre_pool *pool = slab->pool;
    acre__lock_take(&pool->lock);
    acre_status status = event ? acre__stream_put_after(pool, slot, slab->size_class, event)
                               : acre__stream_put_used(pool, slot, slab->size_class, stream);
    acre__lock_give(&pool->lock);
    return !event && status == ACRE_E_CAPTURING ? acre__graph_park(slab, slot, stream) : status;
}

acre_status acre__pool_give(struct acre__slab *slab, struct acre__slot *slot, uint32_t before,
                            acre_stream stream, acre_event event) {
    acre_pool *pool = slab->pool;
    acre_status status;
    /* Read now: after the free, the record of a large block may be reused. */
    uint32_t tag = acre__tag_of(slab, slot->state, before);
    int64_t bytes = (int64_t)slab->slot_bytes;
    if (before & ACRE__SLOT_GRAPH)
        status = acre__graph_free(slab, slot, before, stream, event);
    else if (pool->flags & ACRE_POOL_DEBUG)
        status = acre__pool_debug_free(slab, slot, &before, stream);
    else if (event || before & ACRE__SLOT_USED)
        status = give_shared(slab, slot, stream, event);
    else
        status = acre__pool_free_plain(slab, slot, stream);
    if (status)
        acre__graph_restore(pool, slot, before);
    else
        acre__tag_change(tag, -bytes, -1);
    return status;
}

acre_status acre__pool_free_slow(acre_pool *pool, void *p, acre_stream stream) {
    struct acre__slab *slab;
    acre_status status = pool ? acre__pool_check(pool) : acre__enter();
    if (status || !p)
        return status;
    uint32_t before = 0;
    if (acre__spill_free(pool, p, stream, &status))
        return status;
    struct acre__slot *slot = acre__pool_block(pool, p, &slab, &before, &status);
    if (!slot)
        return status;
    status = acre__stream_check_past(slab->pool->dev, stream);
    if (status) {
        acre__store(slot->state, before, memory_order_release);
        return status;
    }
    return acre__pool_give(slab, slot, before, stream, NULL);
}
