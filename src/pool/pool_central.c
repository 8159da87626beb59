/* What a pool has in common for all threads: slots by class, and what they wait for.
 *
 * Slots freed on a stream are in that stream's lists and may be used again there at once. When
 * another stream wants memory, an event is recorded behind everything that was freed on the stream
 * so far, one for all of it, and the lists become a batch; when the event has passed, its slots
 * wait for nothing any more. So a free never records an event by itself, and no order is lost: a
 * slot is in one list, and every list has one thing to wait for.
 *
 * All of this is called with the pool's lock held. */
#include <stdlib.h>

#include "base/status.h"
#include "pool/pool.h"

enum {
    /* The per-thread default stream: the same handle in every thread, another stream in each. */
    STREAM_PER_THREAD = 2
};

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

/* ---- what waits for the same ---- */

/* Large ones become holes. */
static void large_put(acre_pool *pool, struct acre__holes *holes, struct acre__slots *slots) {
    for (struct acre__slot *slot = slots->first, *next; slot; slot = next) {
        struct acre__slab *slab = acre__pool_table_find(slot->p);
        next = slot->next;
        acre__limit_credit(pool, slab->slot_bytes);
        acre__large_give(pool, slab, holes);
    }
    *slots = (struct acre__slots){0};
}

/* Small ones, which threads had, are the pool's again. */
static void small_credit(acre_pool *pool, uint32_t size_class, const struct acre__slots *slots) {
    acre__limit_credit(pool, (uint64_t)slots->count * acre__class_bytes(size_class));
}

void acre__freed_put(acre_pool *pool, struct acre__freed *freed, uint32_t size_class,
                     struct acre__slots *slots) {
    if (size_class == ACRE__CLASSES) {
        large_put(pool, &freed->holes, slots);
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
        large_put(pool, &pool->blocks_in.ready, slots);
        return;
    }
    small_credit(pool, size_class, slots);
    slots_ready(pool, size_class, slots);
}

/* All of it waits for nothing any more. */
static void freed_ready(acre_pool *pool, struct acre__freed *freed) {
    for (uint32_t i = 0; i < ACRE__CLASSES; i++)
        slots_ready(pool, i, &freed->slots[i]);
    acre__arena_ready(&pool->blocks_in, &freed->holes);
    freed->count = 0;
}

/* ---- streams ---- */

uint64_t acre__stream_thread(acre_stream stream) {
    return (uintptr_t)stream == STREAM_PER_THREAD ? acre__thread_self()->id : 0;
}

/* 1 if the calling thread can ask the driver about the stream. */
static int stream_is_reached(const struct acre__pool_stream *stream) {
    return !stream->is_over && stream->thread == acre__stream_thread(stream->stream);
}

/* 1 if the stream has nothing under way, so that what was freed on it waits for nothing. */
static int stream_is_idle(acre_pool *pool, const struct acre__pool_stream *stream) {
    struct acre__current current;
    const char *what;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    const struct acre__driver *drv = pool->dev->drv;
    if (acre__device_push_relaxed(pool->dev, &current, &what) != CUDA_SUCCESS)
        return 0;
    int is_idle = drv->cuStreamIsCapturing(stream->stream, &state) == CUDA_SUCCESS &&
                  state == CU_STREAM_CAPTURE_STATUS_NONE &&
                  drv->cuStreamQuery(stream->stream) == CUDA_SUCCESS;
    acre__device_pop(pool->dev, &current);
    return is_idle;
}

/* Makes a batch of everything that was freed on a stream, or finds that it is done. 0 when that
 * cannot be done now. */
static int stream_to_batch(acre_pool *pool, struct acre__pool_stream *stream) {
    if (!stream_is_reached(stream))
        return 0;
    if (stream_is_idle(pool, stream)) {
        freed_ready(pool, stream->freed);
        return 1;
    }
    struct acre__pool_batch *batch = acre__central_batch(pool);
    if (!batch)
        return 0;
    if (acre__uses_record(&batch->uses, stream->stream)) {
        batch->next = pool->unused;
        pool->unused = batch;
        return 0;
    }
    struct acre__freed *freed = batch->freed; /* an empty one */
    batch->freed = stream->freed;
    stream->freed = freed;
    pool->events++;
    batch->next = pool->batches;
    pool->batches = batch;
    return 1;
}

/* The handle belongs to another stream than before, and the old one was not retired: nothing but
 * all work of the device covers what was freed on it. */
static acre_status stream_renew(acre_pool *pool, struct acre__pool_stream *stream, uint64_t id) {
    acre__cache_drain(pool, stream->stream, 0, 0);
    acre_status status = acre__step_quiesce(pool->dev);
    if (status)
        return status;
    freed_ready(pool, stream->freed);
    stream->id = id;
    stream->is_over = 0;
    return ACRE_OK;
}

/* Where the record of a stream is linked in, or would be. */
static struct acre__pool_stream **stream_link(acre_pool *pool, acre_stream handle,
                                              uint64_t thread) {
    struct acre__pool_stream **link = &pool->streams;
    while (*link && ((*link)->stream != handle || (*link)->thread != thread))
        link = &(*link)->next;
    return link;
}

/* The record of a stream, made now if there is none; NULL and *status otherwise. */
static struct acre__pool_stream *stream_find(acre_pool *pool, acre_stream handle, uint64_t thread,
                                             uint64_t id, acre_status *status) {
    struct acre__pool_stream *stream = *stream_link(pool, handle, thread);
    *status = ACRE_OK;
    if (stream && (stream->is_over || acre__id_differs(stream->id, id)))
        *status = stream_renew(pool, stream, id);
    if (stream && *status)
        return NULL;
    if (stream) {
        stream->id = id == ACRE__ID_UNKNOWN ? stream->id : id;
        return stream;
    }
    stream = calloc(1, sizeof *stream);
    struct acre__freed *freed = calloc(1, sizeof *freed);
    if (!stream || !freed) {
        free(stream);
        free(freed);
        *status = acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a stream");
        return NULL;
    }
    pool->blocks_in.is_common |= pool->streams != NULL;
    stream->freed = freed;
    stream->stream = handle;
    stream->id = id;
    stream->thread = thread;
    stream->next = pool->streams;
    pool->streams = stream;
    return stream;
}

/* ---- batches ---- */

struct acre__pool_batch *acre__central_batch(acre_pool *pool) {
    struct acre__pool_batch *batch = pool->unused;
    if (batch) {
        pool->unused = batch->next;
        return batch;
    }
    batch = calloc(1, sizeof *batch);
    struct acre__freed *freed = calloc(1, sizeof *freed);
    if (!batch || !freed) {
        free(batch);
        free(freed);
        return NULL;
    }
    batch->freed = freed;
    acre__uses_open(&batch->uses, pool->dev);
    return batch;
}

static void batch_end(acre_pool *pool, struct acre__pool_batch *batch) {
    freed_ready(pool, batch->freed);
    batch->next = pool->unused;
    pool->unused = batch;
}

void acre__central_poll(acre_pool *pool) {
    for (struct acre__pool_batch **link = &pool->batches; *link;) {
        struct acre__pool_batch *batch = *link;
        if (!acre__uses_are_done(&batch->uses)) {
            link = &batch->next;
            continue;
        }
        *link = batch->next;
        batch_end(pool, batch);
    }
}

void acre__central_settle(acre_pool *pool, const struct acre__freed *own) {
    for (struct acre__pool_stream *at = pool->streams; at; at = at->next) {
        if (!acre__freed_has(at->freed))
            continue;
        if (at->freed != own)
            (void)stream_to_batch(pool, at);
        else if (stream_is_reached(at) && stream_is_idle(pool, at))
            freed_ready(pool, at->freed);
    }
    acre__central_poll(pool);
}

void acre__central_take_uses(acre_pool *pool, const void *p, struct acre__pool_batch *batch) {
    struct acre__node *node = acre__tree_find(&pool->uses, (uintptr_t)p);
    struct acre__pool_use *use = acre__tree_entry(node, struct acre__pool_use, node);
    if (!use)
        return;
    acre__tree_remove(&pool->uses, node);
    acre__uses_append(&batch->uses, &use->uses);
    free(use);
}

/* ---- taking ---- */

/* What was freed on the stream itself. */
static void take_own(struct acre__want *want, struct acre__pool_stream *own) {
    struct acre__slots *from = &own->freed->slots[want->size_class];
    uint32_t had = from->count;
    acre__slots_move(&want->slots, from, want->count);
    own->freed->count -= had - from->count;
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

/* Memory of other streams, once it is known to be done: events are recorded behind what was freed
 * on them, and those that have passed give their slots. */
static void take_done(struct acre__want *want, const struct acre__pool_stream *own) {
    acre_pool *pool = want->pool;
    acre__central_poll(pool);
    take_ready(want);
    int is_recorded = 0;
    for (struct acre__pool_stream *at = pool->streams; at && !want->slots.count; at = at->next)
        if (at != own && at->freed->slots[want->size_class].count)
            is_recorded |= stream_to_batch(pool, at);
    if (is_recorded) {
        acre__central_poll(pool);
        take_ready(want);
    }
}

/* The stream waits for the work behind the oldest batch that has some. */
static acre_status take_behind(struct acre__want *want) {
    struct acre__pool_batch *found = NULL;
    for (struct acre__pool_batch *at = want->pool->batches; at; at = at->next)
        found = at->freed->slots[want->size_class].count ? at : found;
    if (!found)
        return ACRE_OK;
    acre_status status = acre__uses_join(&found->uses, want->stream);
    if (status)
        return status;
    want->pool->waits++;
    if (acre__trace_is_on())
        acre__trace_wait(&want->pool->trace, want->stream);
    struct acre__slots *from = &found->freed->slots[want->size_class];
    uint32_t had = from->count;
    acre__slots_move(&want->slots, from, want->count);
    found->freed->count -= had - from->count;
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
    struct acre__pool_stream *own =
        stream_find(want->pool, want->stream, acre__stream_thread(want->stream), want->id, &status);
    if (!own)
        return status;
    if (effort == ACRE__TAKE_BEHIND)
        return take_behind(want);
    take_own(want, own);
    if (want->slots.count < want->count)
        take_ready(want);
    if (want->slots.count < want->count)
        take_fresh(want);
    if (want->slots.count || effort == ACRE__TAKE_FREE)
        return ACRE_OK;
    take_done(want, own);
    return want->slots.count ? ACRE_OK : take_new(want);
}

uint32_t acre__central_pending(const acre_pool *pool) {
    uint32_t count = 0;
    for (const struct acre__pool_batch *at = pool->batches; at; at = at->next)
        count++;
    return count;
}

acre_status acre__central_join(acre_pool *pool, acre_stream waiter, int all) {
    acre_status status = ACRE_OK;
    for (struct acre__pool_batch *at = pool->batches; at && status == ACRE_OK; at = at->next)
        if (all || !at->next)
            status = acre__uses_join(&at->uses, waiter);
    return status;
}

struct acre__freed *acre__central_freed(acre_pool *pool, acre_stream stream, uint64_t id,
                                        acre_status *status) {
    const struct acre__pool_stream *own =
        stream_find(pool, stream, acre__stream_thread(stream), id, status);
    return own ? own->freed : NULL;
}

/* ---- giving ---- */

static int give(acre_pool *pool, uint32_t size_class, acre_stream stream, uint64_t thread,
                uint64_t id, struct acre__slots *slots) {
    acre_status status;
    struct acre__pool_stream *own = stream_find(pool, stream, thread, id, &status);
    if (!own)
        return 0;
    pool->spills++;
    acre__freed_put(pool, own->freed, size_class, slots);
    return 1;
}

int acre__central_give(acre_pool *pool, uint32_t size_class, acre_stream stream, uint64_t id,
                       struct acre__slots *slots) {
    return give(pool, size_class, stream, acre__stream_thread(stream), id, slots);
}

int acre__central_give_old(acre_pool *pool, uint32_t size_class, acre_stream handle,
                           uint64_t thread, uint64_t id, struct acre__slots *slots) {
    const struct acre__pool_stream *stream = *stream_link(pool, handle, thread);
    if (!stream || (!stream->is_over && !acre__id_differs(stream->id, id)))
        return give(pool, size_class, handle, thread, id, slots);
    if (!acre__device_is_lost(pool->dev) && acre__step_quiesce(pool->dev))
        return 0;
    acre__central_ready(pool, size_class, slots);
    return 1;
}

/* Where no event can be recorded, only all work of the device covers what was freed on the stream;
 * where that cannot be waited for either, the next stream with the handle has to. */
acre_status acre__central_retire(acre_pool *pool, acre_stream handle) {
    struct acre__pool_stream **link = stream_link(pool, handle, acre__stream_thread(handle));
    struct acre__pool_stream *stream = *link;
    if (!stream)
        return ACRE_OK;
    if (acre__freed_has(stream->freed) && !stream_to_batch(pool, stream)) {
        stream->is_over = 1;
        acre_status status = stream_renew(pool, stream, stream->id);
        if (status)
            return status;
    }
    *link = stream->next;
    free(stream->freed);
    free(stream);
    return ACRE_OK;
}

/* What was freed on streams that ended, and that no event could be recorded for. */
void acre__central_recover(acre_pool *pool) {
    int is_quiet = -1; /* not tried */
    for (struct acre__pool_stream *at = pool->streams; at && is_quiet; at = at->next) {
        if (!at->is_over || !acre__freed_has(at->freed))
            continue;
        if (is_quiet < 0)
            is_quiet = acre__step_quiesce(pool->dev) == ACRE_OK;
        if (is_quiet)
            freed_ready(pool, at->freed);
    }
}

void acre__central_leave(acre_pool *pool, uint64_t thread) {
    for (struct acre__pool_stream **link = &pool->streams; *link;) {
        struct acre__pool_stream *stream = *link;
        if (stream->thread != thread ||
            (acre__freed_has(stream->freed) && !stream_to_batch(pool, stream))) {
            stream->is_over |= stream->thread == thread; /* nobody can ask about it any more */
            link = &stream->next;
            continue;
        }
        *link = stream->next;
        free(stream->freed);
        free(stream);
    }
}
