/* What a pool has in common for all threads: slots by class, free ones of each stream, and ready
 * ones.
 *
 * A free slot is in exactly one list, and every list has one thing to wait for (pool_stream.c), so
 * no order can be lost. All of this is called with the pool's lock held. */
#include <stdlib.h>

#include "base/status.h"
#include "pool/pool.h"

void acre__slots_move(struct acre__slots *to, struct acre__slots *from, uint32_t count) {
    while (count-- && from->first) {
        struct acre__slot *slot = from->first;
        from->first = slot->next;
        from->count--;
        if (!from->first)
            from->last = NULL;
        acre__slots_push(to, slot);
    }
}

/* ---- giving ---- */

/* Large ones become holes. */
static void large_put(acre_pool *pool, const struct acre__reach *to, struct acre__slots *slots) {
    for (struct acre__slot *slot = slots->first, *next; slot; slot = next) {
        struct acre__slab *slab = acre__pool_table_find(slot->p);
        next = slot->next;
        acre__limit_credit(pool, slab->slot_bytes);
        acre__large_give(pool, slab, to);
    }
    *slots = (struct acre__slots){0};
}

/* Small ones, which threads had, are the pool's again. */
static void small_credit(acre_pool *pool, uint32_t size_class, const struct acre__slots *slots) {
    acre__limit_credit(pool, (uint64_t)slots->count * acre__class_bytes(size_class));
}

void acre__freed_put(acre_pool *pool, struct acre__pool_stream *stream, uint32_t size_class,
                     struct acre__slots *slots) {
    struct acre__freed *freed = stream->recent->freed;
    if (size_class == ACRE__CLASSES) {
        struct acre__reach to = acre__stream_reach(stream);
        large_put(pool, &to, slots);
        return;
    }
    small_credit(pool, size_class, slots);
    freed->count += slots->count;
    acre__slots_join(&freed->slots[size_class], slots);
}

static void slots_ready(acre_pool *pool, uint32_t size_class, struct acre__slots *slots) {
    for (struct acre__slot *slot = slots->first; slot; slot = slot->next)
        acre__pool_table_find(slot->p)->idle++;
    acre__slots_join(&pool->ready[size_class], slots);
}

void acre__central_ready(acre_pool *pool, uint32_t size_class, struct acre__slots *slots) {
    if (size_class == ACRE__CLASSES) {
        large_put(pool, NULL, slots);
        return;
    }
    small_credit(pool, size_class, slots);
    slots_ready(pool, size_class, slots);
}

void acre__freed_ready(acre_pool *pool, struct acre__freed *freed) {
    for (uint32_t i = 0; freed->count && i < ACRE__CLASSES; i++)
        slots_ready(pool, i, &freed->slots[i]);
    acre__arena_ready(&pool->blocks_in, &freed->holes);
    freed->count = 0;
}

int acre__central_give(acre_pool *pool, uint32_t size_class, acre_stream stream, uint64_t id,
                       struct acre__slots *slots) {
    acre_status status;
    struct acre__pool_stream *own =
        acre__stream_find(pool, stream, acre__stream_thread(stream), id, &status);
    if (!own)
        return 0;
    pool->spills++;
    acre__stream_put(pool, own, size_class, slots, 1);
    return 1;
}

/* If the handle is another stream's now, or nobody's, only an idle device brings them back. */
int acre__central_give_old(acre_pool *pool, uint32_t size_class, acre_stream handle,
                           uint64_t thread, uint64_t id, struct acre__slots *slots) {
    acre_status status;
    struct acre__pool_stream *stream = acre__stream_is_gone(pool, handle, thread, id)
                                           ? acre__stream_lost(pool)
                                           : acre__stream_find(pool, handle, thread, id, &status);
    if (!stream)
        return 0;
    pool->spills++;
    acre__stream_put(pool, stream, size_class, slots, 0);
    return 1;
}

/* ---- taking ---- */

static void take_freed(struct acre__want *want, struct acre__freed *freed) {
    struct acre__slots *from = &freed->slots[want->size_class];
    uint32_t had = from->count;
    acre__slots_move(&want->slots, from, want->count - want->slots.count);
    freed->count -= had - from->count;
}

/* From the list of those that wait for nothing. */
static void take_ready(struct acre__want *want) {
    uint32_t before = want->slots.count;
    acre__slots_move(&want->slots, &want->pool->ready[want->size_class], want->count - before);
    struct acre__slot *slot = want->slots.first;
    for (uint32_t i = before; i < want->slots.count; i++, slot = slot->next)
        acre__pool_table_find(slot->p)->idle--;
}

/* Slots that were never used. */
static void take_fresh(struct acre__want *want) {
    struct acre__slab **fresh = &want->pool->fresh[want->size_class], *slab = *fresh;
    while (slab && slab->fresh < slab->count && want->slots.count < want->count)
        acre__slots_push(&want->slots, acre__slab_fresh(slab));
    if (slab && slab->fresh == slab->count)
        *fresh = NULL;
}

static uint32_t stream_slots(const struct acre__pool_stream *stream, uint32_t size_class) {
    return stream->recent->freed->slots[size_class].count +
           stream->marked->freed->slots[size_class].count;
}

/* Memory of other streams that are known to be done with it. */
static void take_done(struct acre__want *want, struct acre__pool_stream *own) {
    acre_pool *pool = want->pool;
    for (struct acre__pool_stream *at = pool->streams; at && !want->slots.count; at = at->next) {
        if (at == own || !stream_slots(at, want->size_class))
            continue;
        acre__stream_settle(pool, at, 0);
        take_ready(want);
    }
}

/* The stream waits for the work behind memory of another one. */
static acre_status take_behind(struct acre__want *want, struct acre__pool_stream *own) {
    acre_pool *pool = want->pool;
    for (struct acre__pool_stream *at = pool->streams; at; at = at->next) {
        struct acre__generation *from =
            at->marked->freed->slots[want->size_class].count ? at->marked : at->recent;
        if (at == own || !from->freed->slots[want->size_class].count)
            continue;
        acre_status status = acre__stream_join(pool, at, from, want->stream);
        if (status == ACRE_E_NOT_READY)
            continue;
        if (status)
            return status;
        pool->waits++;
        if (acre__trace_is_on())
            acre__trace_wait(&pool->trace, want->stream);
        take_freed(want, from->freed);
        return ACRE_OK;
    }
    return ACRE_OK;
}

/* Slots of a new slab. */
static acre_status take_new(struct acre__want *want) {
    struct acre__slab *slab;
    acre_status status = acre__slab_make(want->pool, want->size_class, &slab);
    if (status)
        return status;
    want->pool->fresh[want->size_class] = slab;
    take_fresh(want);
    return ACRE_OK;
}

acre_status acre__central_take(struct acre__want *want, enum acre__effort effort) {
    acre_status status;
    struct acre__pool_stream *own = acre__central_stream(want, &status);
    if (!own)
        return status;
    if (effort == ACRE__TAKE_BEHIND)
        return take_behind(want, own);
    take_freed(want, own->recent->freed);
    if (want->slots.count < want->count)
        take_freed(want, own->marked->freed);
    if (want->slots.count < want->count)
        take_ready(want);
    if (want->slots.count < want->count)
        take_fresh(want);
    if (want->slots.count || effort == ACRE__TAKE_FREE)
        return ACRE_OK;
    take_done(want, own);
    return want->slots.count ? ACRE_OK : take_new(want);
}

struct acre__pool_stream *acre__central_stream(const struct acre__want *want, acre_status *status) {
    return acre__stream_find(want->pool, want->stream, acre__stream_thread(want->stream), want->id,
                             status);
}
