/* Streams of a pool: memory freed on each, and when other streams may reuse it.
 *
 * A stream may reuse its own frees at once. For other streams the pool records an event after the
 * frees; when the event has passed, the memory is ready for all. A stream has two generations of
 * frees. The event of `marked` stays in place; the pool records that of `recent` again after later
 * frees. When the event of `marked` has passed, `recent` becomes `marked`. So a stream needs two
 * events, however much is freed on it, and each generation waits for one of them.
 *
 * A stream that the program created with CUDA is *foreign*: the program may destroy it without
 * notifying acre, and no call may touch a dead handle. So the pool records its event inside the
 * call that frees, which names the stream. Handles of default streams and of acre's own never
 * dangle; the pool records their events when another stream needs the memory.
 *
 * A block that several streams use goes through a *relay*, a stream of acre. The relay waits for
 * all of them, and the block counts as freed on the relay.
 *
 * All functions require the pool's lock. */
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "device/driver_status.h"
#include "pool/pool.h"
#include "pool/pool_freed.h"

enum {
    STREAM_PER_THREAD = 2, /* same handle in all threads, another stream in each */
    FORGOTTEN_MOST = 64,   /* destroyed streams before a full sweep */
    WALK_MOST = 256,       /* most streams that one call passes over */
    SETTLE_MOST = 16       /* most streams that one call settles, unless memory is short */
};

/* A thread without a record of acre has no id, so the kernel's id is used. */
uint64_t acre__stream_thread(acre_stream stream) {
    if ((uintptr_t)stream != STREAM_PER_THREAD)
        return 0;
    uint64_t id = acre__thread_self()->id;
    return id ? id : (uint64_t)1 << 63 | (uint64_t)gettid();
}

/* ---- records ---- */

static struct acre__tree *stream_index(acre_pool *pool, uint64_t thread) {
    return thread ? &pool->thread_streams : &pool->handle_streams;
}

static struct acre__pool_stream *stream_lookup(acre_pool *pool, acre_stream handle,
                                               uint64_t thread) {
    uint64_t key = thread ? thread : (uintptr_t)handle;
    return acre__tree_entry(acre__tree_find(stream_index(pool, thread), key),
                            struct acre__pool_stream, node);
}

static void stream_free(struct acre__pool_stream *stream) {
    for (int i = 0; i < 2; i++) {
        acre__uses_close(&stream->generations[i].mark);
        acre__freed_end(stream->generations[i].freed);
    }
    free(stream);
}

void acre__stream_turn(struct acre__pool_stream *stream, struct acre__generation *recent,
                       struct acre__generation *marked) {
    stream->recent = recent;
    stream->marked = marked;
    for (int i = 0; i < ACRE__ARENAS; i++) {
        stream->reach[i].recent = &recent->freed->holes[i];
        stream->reach[i].marked = &marked->freed->holes[i];
    }
}

static struct acre__pool_stream *stream_make(acre_pool *pool, acre_stream handle, uint64_t thread,
                                             uint64_t id) {
    struct acre__pool_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    for (int i = 0; i < 2; i++) {
        acre__uses_open(&stream->generations[i].mark, pool->dev);
        stream->generations[i].freed = calloc(1, sizeof *stream->generations[i].freed);
    }
    if (!stream->generations[0].freed || !stream->generations[1].freed) {
        stream_free(stream);
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        stream->generations[i].freed->stream = stream;
        stream->generations[i].freed->pool = pool;
    }
    acre__stream_turn(stream, &stream->generations[0], &stream->generations[1]);
    stream->stream = handle;
    stream->thread = thread;
    stream->id = id;
    /* The per-thread stream of another thread cannot be queried either. */
    stream->is_foreign = thread || acre__stream_is_foreign(pool->dev, handle);
    stream->is_independent = acre__stream_is_independent(pool->dev, handle);
    stream->next = pool->streams;
    pool->blocks_in.is_common |= pool->streams != NULL;
    pool->streams = stream;
    return stream;
}

static int stream_has(const struct acre__pool_stream *stream) {
    return acre__freed_has(stream->recent->freed) || acre__freed_has(stream->marked->freed);
}

/* Removes a stream from lookups: another one may get its handle. */
static void stream_forget(acre_pool *pool, struct acre__pool_stream *stream) {
    acre__tree_remove(stream_index(pool, stream->thread), &stream->node);
    stream->is_forgotten = 1;
    pool->forgotten++;
}

struct acre__pool_stream *acre__stream_find(acre_pool *pool, acre_stream handle, uint64_t thread,
                                            uint64_t id) {
    struct acre__pool_stream *stream = stream_lookup(pool, handle, thread);
    if (stream && acre__id_differs(stream->id, id)) {
        stream->is_over = 1;
        stream_forget(pool, stream);
        stream = NULL;
    }
    if (stream) {
        stream->is_over = 0; /* a retire failed: the stream still exists */
        stream->id = id == ACRE__ID_UNKNOWN ? stream->id : id;
        return stream;
    }
    if (pool->forgotten > FORGOTTEN_MOST) /* the program creates and destroys many */
        acre__streams_settle(pool, NULL, 1);
    stream = stream_make(pool, handle, thread, id);
    if (!stream) {
        (void)acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a stream");
        return NULL;
    }
    stream->node.key = thread ? thread : (uintptr_t)handle;
    acre__tree_insert(stream_index(pool, thread), &stream->node);
    return stream;
}

/* ---- events ---- */

static void generation_ready(struct acre__generation *generation) {
    acre__freed_ready(generation->freed);
    generation->is_covered = 0;
}

static void stream_ready(struct acre__pool_stream *stream) {
    generation_ready(stream->marked);
    generation_ready(stream->recent);
}

/* Returns 1 if all work of the stream is done. The driver's answer is valid only for independent
 * streams; for others the result is 0. */
static int stream_is_idle(acre_pool *pool, const struct acre__pool_stream *stream) {
    struct acre__current current;
    const char *what;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    const struct acre__driver *drv = pool->dev->drv;
    if (!stream->is_independent ||
        acre__device_push_relaxed(pool->dev, &current, &what) != CUDA_SUCCESS)
        return 0;
    int is_idle = drv->cuStreamIsCapturing(stream->stream, &state) == CUDA_SUCCESS &&
                  state == CU_STREAM_CAPTURE_STATUS_NONE &&
                  drv->cuStreamQuery(stream->stream) == CUDA_SUCCESS;
    acre__device_pop(pool->dev, &current);
    return is_idle;
}

/* Returns 1 if the handle may be touched: the caller names the stream, or the handle never
 * dangles. */
static int stream_is_safe(const struct acre__pool_stream *stream, int is_named) {
    return !stream->is_over && stream->thread == acre__stream_thread(stream->stream) &&
           (is_named || !stream->is_foreign);
}

/* Records an event after all frees. Returns 0 if the driver refuses. */
static int stream_mark(acre_pool *pool, struct acre__pool_stream *stream) {
    if (acre__uses_record(&stream->recent->mark, stream->stream))
        return 0;
    stream->recent->is_covered = 1;
    pool->events++;
    return 1;
}

/* Makes memory ready whose event has passed. */
static void stream_advance(struct acre__pool_stream *stream) {
    for (;;) {
        struct acre__generation *marked = stream->marked;
        if (acre__freed_has(marked->freed)) {
            if (!acre__uses_are_done(&marked->mark))
                return;
            generation_ready(marked);
        }
        if (!stream->recent->is_covered || !acre__freed_has(stream->recent->freed))
            return;
        acre__stream_turn(stream, marked, stream->recent);
        marked->is_covered = 0; /* its event is older */
    }
}

void acre__stream_settle(acre_pool *pool, struct acre__pool_stream *stream, int is_named) {
    if (stream->graph || !stream_has(stream))
        return;
    if (stream_is_safe(stream, is_named) && !stream->recent->is_covered &&
        acre__freed_has(stream->recent->freed)) {
        if (stream_is_idle(pool, stream)) {
            stream_ready(stream);
            return;
        }
        (void)stream_mark(pool, stream);
    }
    stream_advance(stream);
}

int acre__stream_is_behind(acre_pool *pool, const struct acre__pool_stream *stream) {
    return stream->is_independent ? !stream_is_idle(pool, stream) : stream_has(stream);
}

/* Frees the records of destroyed streams whose memory is all ready. */
static void streams_sweep(acre_pool *pool) {
    pool->forgotten = 0; /* the next sweep comes after as many more */
    for (struct acre__pool_stream **link = &pool->streams; *link;) {
        struct acre__pool_stream *stream = *link;
        if (!stream->is_forgotten || stream_has(stream)) {
            link = &stream->next;
            continue;
        }
        *link = stream->next;
        if (pool->hand == stream)
            pool->hand = stream->next;
        stream_free(stream);
    }
}

/* Settles some streams. The next call continues with the streams that follow. */
static void streams_settle_some(acre_pool *pool, const struct acre__pool_stream *own) {
    unsigned looked = 0;
    for (unsigned i = 0; i < WALK_MOST && looked < SETTLE_MOST; i++) {
        struct acre__pool_stream *at = pool->hand ? pool->hand : pool->streams;
        if (!at)
            return;
        pool->hand = at->next;
        looked += stream_has(at) != 0;
        acre__stream_settle(pool, at, at == own);
        if (!at->next)
            return;
    }
}

void acre__streams_settle(acre_pool *pool, const struct acre__pool_stream *own, int all) {
    if (!all) {
        streams_settle_some(pool, own);
        return;
    }
    for (struct acre__pool_stream *at = pool->streams; at; at = at->next)
        acre__stream_settle(pool, at, at == own);
    streams_sweep(pool);
}

/* ---- freeing ---- */

static int is_covered(const struct acre__pool_stream *stream) {
    return stream->recent->is_covered && acre__freed_has(stream->recent->freed);
}

int acre__stream_has_place(acre_pool *pool, acre_stream handle, uint64_t thread, uint64_t id) {
    struct acre__pool_stream *stream = stream_lookup(pool, handle, thread);
    if (!stream || acre__id_differs(stream->id, id) || !stream->is_foreign || !is_covered(stream))
        return 1;
    stream_advance(stream);
    return !is_covered(stream);
}

void acre__stream_put(acre_pool *pool, struct acre__pool_stream *stream, uint32_t size_class,
                      struct acre__slots *slots, int is_named) {
    if (!is_named && stream->is_foreign && is_covered(stream)) {
        stream_advance(stream); /* frees with an event keep that event */
        if (is_covered(stream) && acre__stream_lost(pool))
            stream = pool->lost;
    }
    acre__freed_add(pool, stream->recent->freed, size_class, slots);
    stream->recent->is_covered = 0;
    if (is_named && stream->is_foreign && !acre__device_is_lost(pool->dev))
        (void)stream_mark(pool, stream);
}

struct acre__pool_stream *acre__stream_lost(acre_pool *pool) {
    if (!pool->lost && (pool->lost = stream_make(pool, NULL, 0, 0)))
        pool->lost->is_over = 1;
    return pool->lost;
}

/* Finds or creates the relay for a key, which stands for streams or an event. Blocks with the same
 * key share one relay. */
static struct acre__pool_stream *relay_for(acre_pool *pool, uint64_t key, acre_status *status) {
    acre_stream *relay = &pool->relays[(key * 0x9e3779b97f4a7c15u) >> 61];
    *status = ACRE_OK;
    if (!*relay)
        *status = acre__stream_create_own(pool->dev, ACRE_STREAM_NON_BLOCKING, relay);
    struct acre__pool_stream *stream =
        *status ? NULL : acre__stream_find(pool, *relay, 0, ACRE__ID_UNKNOWN);
    if (*status == ACRE_OK && !stream)
        *status = ACRE_E_HOST_MEMORY;
    return stream;
}

/* Makes the relay wait for all recorded users of the block, and frees the block on the relay.
 * Events can be reused once the relay waits for them. */
static acre_status relay_put(acre_pool *pool, struct acre__pool_stream *relay,
                             struct acre__slot *slot, uint32_t size_class) {
    struct acre__pool_use *use = acre__pool_use_find(pool, slot->p);
    acre_status status = use ? acre__uses_join(&use->uses, relay->stream) : ACRE_OK;
    if (status)
        return status;
    if (use) {
        acre__uses_forget(&use->uses);
        acre__uses_append(&pool->spare_events, &use->uses);
        acre__pool_use_end(pool, use);
    }
    struct acre__slots one = acre__slots_of(slot);
    acre__stream_put(pool, relay, size_class, &one, 0);
    return ACRE_OK;
}

acre_status acre__stream_put_used(acre_pool *pool, struct acre__slot *slot, uint32_t size_class,
                                  acre_stream stream) {
    const struct acre__pool_use *use = acre__pool_use_find(pool, slot->p);
    acre_status status;
    struct acre__pool_stream *relay =
        relay_for(pool, (uintptr_t)stream ^ (use ? use->key : 0), &status);
    if (relay)
        status = acre__uses_record(&pool->spare_events, stream);
    if (status == ACRE_OK)
        status = acre__uses_join(&pool->spare_events, relay->stream);
    acre__uses_forget(&pool->spare_events);
    return status ? status : relay_put(pool, relay, slot, size_class);
}

/* Makes a relay wait for an event. Returns the relay; NULL and *status on failure. */
static struct acre__pool_stream *relay_behind(acre_pool *pool, acre_event event,
                                              acre_status *status) {
    struct acre__pool_stream *relay = relay_for(pool, (uintptr_t)event, status);
    if (relay)
        *status = acre_stream_wait(pool->dev, relay->stream, event);
    return *status ? NULL : relay;
}

acre_status acre__stream_put_after(acre_pool *pool, struct acre__slot *slot, uint32_t size_class,
                                   acre_event event) {
    acre_status status;
    struct acre__pool_stream *relay = relay_behind(pool, event, &status);
    return relay ? relay_put(pool, relay, slot, size_class) : status;
}

acre_status acre__stream_record_event(acre_pool *pool, struct acre__uses *uses, acre_event event) {
    acre_status status;
    const struct acre__pool_stream *relay = relay_behind(pool, event, &status);
    return relay ? acre__uses_record(uses, relay->stream) : status;
}

int acre__stream_is_relay(const acre_pool *pool, acre_stream stream) {
    for (unsigned i = 0; i < ACRE__RELAYS; i++)
        if (stream && pool->relays[i] == stream)
            return 1;
    return 0;
}

/* ---- waiting ---- */

acre_status acre__stream_join(acre_pool *pool, struct acre__pool_stream *stream,
                              struct acre__generation *generation, acre_stream waiter) {
    if (generation == stream->recent && !generation->is_covered &&
        (!stream_is_safe(stream, 0) || !stream_mark(pool, stream)))
        return ACRE_E_NOT_READY;
    return acre__uses_join(&generation->mark, waiter);
}

uint32_t acre__streams_pending(const acre_pool *pool) {
    uint32_t count = 0;
    for (const struct acre__pool_stream *at = pool->streams; at; at = at->next)
        count += (uint32_t)stream_has(at);
    return count;
}

acre_status acre__streams_join(acre_pool *pool, acre_stream waiter, uint32_t most,
                               uint32_t *joined) {
    *joined = 0;
    for (struct acre__pool_stream *at = pool->streams; at && *joined < most; at = at->next) {
        for (int i = 0; i < 2 && *joined < most; i++) {
            struct acre__generation *from = i ? at->recent : at->marked;
            if (!acre__freed_has(from->freed))
                continue;
            acre_status status = acre__stream_join(pool, at, from, waiter);
            /* Skips ACRE_E_NOT_READY: that stream may be dead. */
            if (status && status != ACRE_E_NOT_READY)
                return status;
            *joined += status == ACRE_OK;
        }
    }
    return ACRE_OK;
}

/* ---- end of streams ---- */

/* Returns 1 if frees on the stream have no event and cannot get one: they wait for an idle
 * device. */
static int stream_is_unknown(const struct acre__pool_stream *stream) {
    return (stream->is_over || stream->is_foreign) && !stream->recent->is_covered &&
           acre__freed_has(stream->recent->freed);
}

/* If no event can be recorded, waits for all work of the device. If that fails too, the record
 * stays, and the call can be repeated. */
acre_status acre__stream_retire(acre_pool *pool, acre_stream handle) {
    struct acre__pool_stream *stream = stream_lookup(pool, handle, acre__stream_thread(handle));
    uint64_t id;
    if (!stream)
        return ACRE_OK;
    if (acre__pool_stream_id(pool->dev, handle, &id) == ACRE_OK &&
        acre__id_differs(stream->id, id)) { /* an earlier stream had the handle */
        stream->is_over = 1;
        stream_forget(pool, stream);
        return ACRE_OK;
    }
    if (!stream->is_over)
        acre__stream_settle(pool, stream, 1);
    stream->is_over = 1;
    if (stream_is_unknown(stream)) {
        acre_status status = acre__step_quiesce(pool->dev);
        if (status)
            return status;
        stream_ready(stream);
    }
    stream_forget(pool, stream);
    if (pool->forgotten > FORGOTTEN_MOST)
        streams_sweep(pool);
    return ACRE_OK;
}

void acre__stream_leave(acre_pool *pool, uint64_t thread) {
    struct acre__pool_stream *stream = stream_lookup(pool, NULL, thread);
    if (!stream)
        return;
    acre__stream_settle(pool, stream, 1);
    stream->is_over = 1;
    stream_forget(pool, stream);
}

void acre__streams_recover(acre_pool *pool) {
    int is_quiet = -1; /* not tried */
    for (struct acre__pool_stream *at = pool->streams; at && is_quiet; at = at->next) {
        if (!stream_is_unknown(at))
            continue;
        if (is_quiet < 0)
            is_quiet = acre__step_quiesce(pool->dev) == ACRE_OK;
        if (is_quiet)
            stream_ready(at);
    }
}

void acre__pool_streams_end(acre_pool *pool) {
    while (pool->streams) {
        struct acre__pool_stream *next = pool->streams->next;
        stream_free(pool->streams);
        pool->streams = next;
    }
    pool->lost = NULL;
    pool->hand = NULL;
    pool->freed = NULL;
    for (unsigned i = 0; i < ACRE__RELAYS; i++)
        if (pool->relays[i])
            (void)acre__stream_destroy_own(pool->dev, pool->relays[i]);
    acre__uses_close(&pool->spare_events);
}

/* ---- returning slots to the pool ---- */

struct acre__pool_stream *acre__central_stream(const struct acre__want *want) {
    return want->graph ? want->graph : acre__stream_named(want->pool, want->stream, want->id);
}

int acre__central_give(acre_pool *pool, uint32_t size_class, acre_stream stream, uint64_t freed_id,
                       uint64_t id, struct acre__slots *slots) {
    if (acre__id_differs(freed_id, id))
        return acre__central_give_old(pool, size_class, stream, acre__stream_thread(stream),
                                      freed_id, 1, slots);
    struct acre__pool_stream *own = acre__stream_named(pool, stream, id);
    if (!own)
        return 0;
    pool->spills++;
    acre__stream_put(pool, own, size_class, slots, 1);
    return 1;
}

/* If the handle belongs to another stream now, or to none, the slots wait until the device is idle.
 * A record created now would be that of the handle's current stream. */
int acre__central_give_old(acre_pool *pool, uint32_t size_class, acre_stream handle,
                           uint64_t thread, uint64_t id, int is_foreign,
                           struct acre__slots *slots) {
    struct acre__pool_stream *stream = stream_lookup(pool, handle, thread);
    int is_same = stream ? !acre__id_differs(stream->id, id) : !is_foreign;
    stream = is_same ? acre__stream_find(pool, handle, thread, id) : acre__stream_lost(pool);
    if (!stream)
        return 0;
    pool->spills++;
    acre__stream_put(pool, stream, size_class, slots, 0);
    return 1;
}

int acre__central_give_after_all(acre_pool *pool, uint32_t size_class, struct acre__slots *slots) {
    if (!acre__device_is_lost(pool->dev) && acre__step_quiesce(pool->dev))
        return 0;
    acre__central_ready(pool, size_class, slots);
    return 1;
}

acre_status acre__pool_stream_id(acre_device *dev, acre_stream stream, uint64_t *id) {
    struct acre__current current;
    const char *what;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    unsigned long long got = 0;
    *id = ACRE__ID_UNKNOWN;
    acre_status status = acre__device_begin(dev, &current);
    if (status)
        return status;
    what = "cuStreamIsCapturing";
    CUresult code = dev->drv->cuStreamIsCapturing(stream, &state);
    int is_captured = !code && state != CU_STREAM_CAPTURE_STATUS_NONE;
    if (!code && !is_captured && ACRE__DRIVER_HAS(dev->drv, cuStreamGetId)) {
        what = "cuStreamGetId";
        code = dev->drv->cuStreamGetId(stream, &got);
    }
    acre__device_pop(dev, &current);
    if (is_captured)
        return acre__fail(ACRE_E_CAPTURING, "the stream is being captured");
    if (code)
        return acre__stream_fail(dev, stream, code, what);
    *id = ACRE__DRIVER_HAS(dev->drv, cuStreamGetId) ? got : ACRE__ID_UNKNOWN;
    return ACRE_OK;
}
