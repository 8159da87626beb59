/* Streams and events.
 *
 * A stream or event that acre created has a record in the device's tree, by handle, until the
 * driver destroys it. The record holds the item with which it enters limbo if the driver refuses
 * that. A handle without a record may belong to the program, created with CUDA. acre passes such a
 * handle to the driver unchanged, unless another open device has a record of it.
 *
 * Invariant: a record leaves the tree before the driver destroys its stream or event, since the
 * driver may return the same handle to another thread at once. If the driver returns a handle that
 * is in the tree, the program destroyed the old object without acre: the new record replaces the
 * old one.
 *
 * Objects often live longer than their stream, and are freed with its handle. CUDA's driver crashes
 * on the handle of a destroyed stream. So acre_stream_destroy parks a stream: the driver's stream
 * stays, and acre_stream_create returns it again when it is idle. The handle of a parked stream may
 * still be used to wait for earlier work. The driver cannot give it to anyone else, and a new
 * stream with this handle follows all work that the old one had queued. Parked streams end with the
 * device. A stream that is being captured when the program destroys it is destroyed, since CUDA
 * ends the capture; so is one to which managed memory is attached, since CUDA ends the attachment.
 *
 * Locks: the device's, for records and queues only, never around a driver call, except in
 * acre__streams_any_captured. */
#include <stdlib.h>
#include <string.h>

#include "acre.h"
#include "base/atomic.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/tree.h"
#include "device/device.h"
#include "device/driver_status.h"
#include "device/limbo.h"

enum made_state {
    MADE_LIVE,
    MADE_PARKED, /* a stream that the program destroyed, in the queue of its flags */
    MADE_HELD,   /* one that a thread has taken out of the queue, or is destroying */
    MADE_DROPPED /* one that is in the tree no more; the thread that held it frees the record */
};

/* A stream or an event created by acre. Events are always live. */
struct made {
    struct acre__limbo_item item; /* also in the queue of parked streams */
    struct acre__node node;       /* key: the handle */
    uint64_t number;              /* counts all streams and events that the process created */
    uint32_t flags;               /* flags of the caller */
    enum made_state state;
    int is_attached;  /* managed memory may be attached to the stream */
    uint32_t passes;  /* of a parked stream: how often acre_stream_create passes it over */
    uint32_t backoff; /* `passes` after the next query that finds it busy */
};

/* Bits set in ids that do not come from the CUDA driver, so that they differ from its ids. */
static const uint64_t ID_OF_SOFT = (uint64_t)1 << 62;
static const uint64_t ID_OF_ACRE = (uint64_t)1 << 63;

static _Atomic uint64_t made_count;

static void made_forget(struct acre__limbo_item *item) {
    free(item);
}

static CUresult stream_give_back(const struct acre__driver *drv, struct acre__limbo_item *item) {
    return drv->cuStreamDestroy((CUstream)(uintptr_t)((struct made *)item)->node.key);
}

static CUresult event_give_back(const struct acre__driver *drv, struct acre__limbo_item *item) {
    return drv->cuEventDestroy((CUevent)(uintptr_t)((struct made *)item)->node.key);
}

static const struct acre__limbo_kind stream_kind = {"cuStreamDestroy", stream_give_back,
                                                    made_forget};
static const struct acre__limbo_kind event_kind = {"cuEventDestroy", event_give_back, made_forget};

/* ---- records ---- */

static struct made *made_create(const struct acre__limbo_kind *kind) {
    struct made *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->item.kind = kind;
    made->number = acre__fetch_add(&made_count, 1, memory_order_relaxed) + 1;
    return made;
}

/* ---- parked streams ----
 *
 * The device's lock is held. */

static struct acre__parked *parked_queue(acre_device *dev, const struct made *made) {
    return &dev->parked[made->flags % ACRE__PARKED_QUEUES];
}

static void parked_push(acre_device *dev, struct made *made) {
    struct acre__parked *queue = parked_queue(dev, made);
    made->state = MADE_PARKED;
    made->item.next = NULL;
    *(queue->first ? queue->end : &queue->first) = &made->item;
    queue->end = &made->item.next;
    queue->count++;
}

/* Takes a stream out of its queue. */
static void parked_take(acre_device *dev, struct made *made) {
    struct acre__parked *queue = parked_queue(dev, made);
    struct acre__limbo_item **link = &queue->first;
    while (*link != &made->item)
        link = &(*link)->next;
    *link = made->item.next;
    if (!*link)
        queue->end = link;
    queue->count--;
    made->state = MADE_HELD;
}

/* ---- the trees ---- */

/* Takes a record out of the tree that its handle has left. Returns the record if the caller has to
 * free it. */
static struct made *made_drop(acre_device *dev, struct acre__tree *books, struct made *made) {
    acre__tree_remove(books, &made->node);
    dev->streams_parked -= made->state != MADE_LIVE;
    if (made->state == MADE_PARKED)
        parked_take(dev, made);
    else if (made->state == MADE_HELD) {
        made->state = MADE_DROPPED;
        return NULL;
    }
    return made;
}

/* Inserts the record after the driver's create call, or frees it if that call failed. Returns
 * `status`. */
static acre_status made_enter_books(acre_device *dev, struct acre__tree *books, uint64_t *created,
                                    struct made *made, const void *handle, acre_status status) {
    if (status) {
        free(made);
        return status;
    }
    made->node.key = (uintptr_t)handle;
    acre__lock_take(&dev->lock);
    struct acre__node *node = acre__tree_find(books, made->node.key);
    struct made *stale =
        node ? made_drop(dev, books, acre__tree_entry(node, struct made, node)) : NULL;
    acre__tree_insert(books, &made->node);
    ++*created;
    acre__lock_give(&dev->lock);
    if (node)
        acre__log(ACRE_LOG_WARN, "stream", "%s: the program destroyed handle %p without acre",
                  dev->label, handle);
    free(stale);
    return ACRE_OK;
}

/* Finds the live record of a handle that the program destroys; NULL and *status if there is none.
 */
static struct made *made_find_live(acre_device *dev, const struct acre__tree *books, void *handle,
                                   const char *what, acre_status *status) {
    struct acre__node *node = acre__tree_find(books, (uintptr_t)handle);
    struct made *made = acre__tree_entry(node, struct made, node);
    if (made && made->state == MADE_LIVE)
        return made;
    *status =
        acre__fail(ACRE_E_HANDLE, "%s has no live %s %p created by acre", dev->label, what, handle);
    return NULL;
}

struct facts {
    uint64_t number;
    uint32_t flags;
    enum made_state state;
};

/* Reads the record of a handle; all zero if there is none. */
static struct facts made_look(acre_device *dev, const struct acre__tree *books,
                              const void *handle) {
    acre__lock_take(&dev->lock);
    const struct acre__node *node = acre__tree_find(books, (uintptr_t)handle);
    const struct made *made = acre__tree_entry(node, struct made, node);
    struct facts facts = {0};
    if (made)
        facts = (struct facts){made->number, made->flags, made->state};
    acre__lock_give(&dev->lock);
    return facts;
}

/* The number of the record; 0 if there is none. */
static uint64_t made_number(acre_device *dev, const struct acre__tree *books, const void *handle) {
    return made_look(dev, books, handle).number;
}

/* A copy of the fields of a device that owns a handle, taken under its lock. */
struct owner {
    const struct acre__driver *drv;
    char label[sizeof((acre_device *)0)->label];
};

/* 1 if an open device other than `dev` created the stream or event. */
static int made_elsewhere(const acre_device *dev, int is_event, const void *handle,
                          struct owner *owner) {
    int is_found = 0;
    for (acre_device *other = NULL; !is_found && (other = acre__device_next(NULL, other));) {
        if (other == dev)
            continue;
        acre__lock_take(&other->lock);
        is_found =
            acre__tree_find(is_event ? &other->events : &other->streams, (uintptr_t)handle) != NULL;
        owner->drv = other->drv;
        memcpy(owner->label, other->label, sizeof owner->label);
        acre__lock_give(&other->lock);
    }
    return is_found;
}

acre_device *acre__stream_device(acre_device *dev, acre_stream stream) {
    acre_device *other = NULL;
    if ((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD)
        return dev;
    while ((other = acre__device_next(dev, other)))
        if (made_number(other, &other->streams, stream))
            return other;
    return dev;
}

static acre_status stream_check(acre_device *dev, acre_stream stream, int is_past) {
    struct owner owner;
    if ((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD)
        return ACRE_OK;
    struct facts facts = made_look(dev, &dev->streams, stream);
    if (facts.state != MADE_LIVE && !is_past)
        return acre__fail(ACRE_E_HANDLE, "stream %p of %s was destroyed", (void *)stream,
                          dev->label);
    if (facts.number || !made_elsewhere(dev, 0, stream, &owner))
        return ACRE_OK;
    return acre__fail(ACRE_E_HANDLE, "stream %p belongs to %s, not to %s", (void *)stream,
                      owner.label, dev->label);
}

acre_status acre__stream_check(acre_device *dev, acre_stream stream) {
    return stream_check(dev, stream, 0);
}

void acre__stream_note_attached(acre_device *dev, acre_stream stream) {
    acre__lock_take(&dev->lock);
    struct acre__node *node = acre__tree_find(&dev->streams, (uintptr_t)stream);
    if (node)
        acre__tree_entry(node, struct made, node)->is_attached = 1;
    acre__lock_give(&dev->lock);
}

acre_status acre__stream_check_past(acre_device *dev, acre_stream stream) {
    return stream_check(dev, stream, 1);
}

/* Names the stream in the detail if the driver does not know it. */
static acre_status stream_name(const acre_device *dev, acre_stream stream, acre_status status,
                               CUresult code, const char *what) {
    if (code != CUDA_ERROR_INVALID_HANDLE && code != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return status;
    return acre__fail(status, "stream %p was destroyed, or is not a stream of %s: %s: %s (%d)",
                      (void *)stream, dev->label, what, acre__driver_error_name(code), (int)code);
}

acre_status acre__stream_fail(acre_device *dev, acre_stream stream, CUresult code,
                              const char *what) {
    return stream_name(dev, stream, acre__driver_fail(dev, code, what), code, what);
}

acre_status acre__stream_done(acre_device *dev, acre_stream stream,
                              const struct acre__current *current, const char *what) {
    acre_status status = acre__device_done(dev, current, what);
    return current->status ? status : stream_name(dev, stream, status, current->code, what);
}

int acre__stream_is_foreign(acre_device *dev, acre_stream stream) {
    return (uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD &&
           !made_number(dev, &dev->streams, stream);
}

int acre__stream_is_past(acre_device *dev, acre_stream stream) {
    return (uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD &&
           made_look(dev, &dev->streams, stream).state != MADE_LIVE;
}

int acre__stream_is_independent(acre_device *dev, acre_stream stream) {
    return (uintptr_t)stream < (uintptr_t)CU_STREAM_PER_THREAD ||
           made_look(dev, &dev->streams, stream).flags & ACRE_STREAM_NON_BLOCKING;
}

int acre__stream_is_capturable(acre_device *dev, acre_stream stream) {
    if ((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD)
        return (uintptr_t)stream == (uintptr_t)CU_STREAM_PER_THREAD;
    return !(made_look(dev, &dev->streams, stream).flags & ACRE_STREAM_NO_CAPTURE);
}

static CUresult captured_ask(acre_device *dev, acre_stream stream, int *is_captured,
                             const char **what) {
    struct acre__current current;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    int is_own = (uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD; /* needs no context */
    CUresult code = is_own ? CUDA_SUCCESS : acre__device_push(dev, &current, what);
    if (code)
        return code;
    *what = "cuStreamIsCapturing";
    code = dev->drv->cuStreamIsCapturing(stream, &state);
    if (!is_own)
        acre__device_pop(dev, &current);
    *is_captured = state != CU_STREAM_CAPTURE_STATUS_NONE;
    return code;
}

int acre__stream_is_captured(acre_device *dev, acre_stream stream) {
    const char *what;
    int is_captured = 0;
    return captured_ask(dev, stream, &is_captured, &what) != CUDA_SUCCESS || is_captured;
}

/* Asks with the lock held, which keeps the streams from being destroyed. The query waits for
 * nothing. */
int acre__streams_any_captured(acre_device *dev) {
    int is_any = 0;
    acre__lock_take(&dev->lock);
    struct acre__node *node = acre__tree_first(&dev->streams);
    for (; node && !is_any; node = acre__tree_next(&dev->streams, node)) {
        CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
        if (acre__tree_entry(node, struct made, node)->state != MADE_LIVE)
            continue;
        is_any =
            dev->drv->cuStreamIsCapturing((CUstream)(uintptr_t)node->key, &state) == CUDA_SUCCESS &&
            state != CU_STREAM_CAPTURE_STATUS_NONE;
    }
    acre__lock_give(&dev->lock);
    return is_any;
}

acre_status acre__stream_ask_captured(acre_device *dev, acre_stream stream, int *is_captured) {
    const char *what;
    *is_captured = 0;
    if (acre__device_is_lost(dev) || !acre__stream_is_capturable(dev, stream))
        return ACRE_OK;
    CUresult code = captured_ask(dev, stream, is_captured, &what);
    return code ? acre__stream_fail(dev, stream, code, what) : ACRE_OK;
}

acre_status acre__stream_not_captured(acre_device *dev, acre_stream stream, const char *why) {
    const char *what;
    int is_captured = 0;
    CUresult code = captured_ask(dev, stream, &is_captured, &what);
    if (code)
        return acre__stream_fail(dev, stream, code, what);
    return is_captured ? acre__fail(ACRE_E_CAPTURING, "%s", why) : ACRE_OK;
}

/* A stream may wait for an event of another device of the same driver. */
static acre_status event_check(acre_device *dev, acre_event event, int is_for_waiting) {
    struct owner owner;
    if (!event)
        return acre__fail(ACRE_E_NULL, "the event is NULL");
    if (made_number(dev, &dev->events, event) || !made_elsewhere(dev, 1, event, &owner) ||
        (is_for_waiting && owner.drv == dev->drv))
        return ACRE_OK;
    return acre__fail(ACRE_E_HANDLE, "event %p belongs to %s, %s %s", (void *)event, owner.label,
                      is_for_waiting ? "which cannot be waited for by streams of" : "not to",
                      dev->label);
}

/* ---- around a driver call ---- */

/* As acre__device_call, for calls on a stream or an event; checks the handle first. */
static int stream_call(acre_device *dev, acre_stream stream, struct acre__current *call) {
    call->status = acre__device_enter(dev);
    if (call->status == ACRE_OK)
        call->status = acre__stream_check(dev, stream);
    return call->status == ACRE_OK && acre__device_call(dev, call);
}

static int event_call(acre_device *dev, acre_event event, struct acre__current *call) {
    call->status = acre__device_enter(dev);
    if (call->status == ACRE_OK)
        call->status = event_check(dev, event, 0);
    return call->status == ACRE_OK && acre__device_call(dev, call);
}

static void made_end(acre_device *dev, struct acre__tree *books) {
    for (;;) {
        acre__lock_take(&dev->lock);
        struct acre__node *node = acre__tree_first(books);
        if (node)
            acre__tree_remove(books, node);
        acre__lock_give(&dev->lock);
        if (!node)
            return;
        acre__limbo_let_go(dev, &acre__tree_entry(node, struct made, node)->item);
    }
}

void acre__streams_end(acre_device *dev) {
    acre__lock_take(&dev->lock);
    for (size_t i = 0; i < ACRE__PARKED_QUEUES; i++)
        dev->parked[i] = (struct acre__parked){0};
    dev->streams_parked = 0;
    acre__lock_give(&dev->lock);
    made_end(dev, &dev->events);
    made_end(dev, &dev->streams);
}

/* ---- parked streams in use again ---- */

/* acre_stream_create asks a few parked streams whether they are idle. The next 0, 1, 3, 7, ...
 * calls pass over one that is busy: so streams that stay busy cost few queries, and calls find the
 * idle ones behind them. */
enum { PARKED_TRIES = 8, PARKED_LOOKS = 1024, PARKED_BACKOFF_MOST = 1023 };

/* Returns how many streams of a queue a call may look at. */
static size_t parked_looks(acre_device *dev, uint32_t flags) {
    acre__lock_take(&dev->lock);
    size_t count = dev->parked[flags % ACRE__PARKED_QUEUES].count;
    acre__lock_give(&dev->lock);
    return count < PARKED_LOOKS ? count : PARKED_LOOKS;
}

/* Takes the first stream that is not passed over, of the next *looks of the queue; NULL if there is
 * none. The others go to its end. */
static struct made *parked_take_next(acre_device *dev, uint32_t flags, size_t *looks) {
    struct acre__parked *queue = &dev->parked[flags % ACRE__PARKED_QUEUES];
    struct made *made = NULL;
    acre__lock_take(&dev->lock);
    for (; *looks && queue->first && !made; --*looks) {
        made = (struct made *)queue->first; /* the item is the first member */
        parked_take(dev, made);
        if (made->passes) {
            made->passes--;
            parked_push(dev, made);
            made = NULL;
        }
    }
    acre__lock_give(&dev->lock);
    return made;
}

static void parked_back_off(struct made *made) {
    made->passes = made->backoff;
    made->backoff = made->backoff < PARKED_BACKOFF_MOST ? 2 * made->backoff + 1 : made->backoff;
}

/* Decides about a parked stream by the code of cuStreamQuery: it is live again, or parked, or gone.
 * Returns 1 if it is live. */
static int parked_decide(acre_device *dev, struct made *made, CUresult code) {
    int is_live = 0, is_gone = 1;
    acre__lock_take(&dev->lock);
    if (made->state == MADE_HELD && acre__driver_fate(code) == ACRE__FATE_UNKNOWN) {
        acre__tree_remove(&dev->streams, &made->node);
        dev->streams_parked--;
    } else if (made->state == MADE_HELD && code) {
        parked_back_off(made);
        parked_push(dev, made);
        is_gone = 0;
    } else if (made->state == MADE_HELD) {
        made->state = MADE_LIVE;
        made->number = acre__fetch_add(&made_count, 1, memory_order_relaxed) + 1;
        dev->streams_parked--;
        dev->streams_created++;
        is_live = 1;
        is_gone = 0;
    }
    acre__lock_give(&dev->lock);
    if (is_gone)
        free(made);
    return is_live;
}

/* Counts a refused call whose failure the program need not know. */
static void parked_note_refusal(acre_device *dev, CUresult code, const char *what) {
    struct acre__said said;
    acre__said_keep(&said);
    (void)acre__driver_fail(dev, code, what);
    (void)acre__said_fail(ACRE_OK, &said);
}

/* Takes the next parked stream into use again if it is idle; NULL if not. *is_known is 0 if there
 * is none, or if the driver refuses to say. */
static acre_stream parked_try(acre_device *dev, uint32_t flags, size_t *looks, int *is_known) {
    struct made *made = parked_take_next(dev, flags, looks);
    *is_known = made != NULL;
    if (!made)
        return NULL;
    acre_stream stream = (acre_stream)(uintptr_t)made->node.key;
    CUresult code = dev->drv->cuStreamQuery(stream);
    *is_known = code == CUDA_ERROR_NOT_READY || acre__driver_fate(code) != ACRE__FATE_REFUSED;
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_READY)
        parked_note_refusal(dev, code, "cuStreamQuery");
    return parked_decide(dev, made, code) ? stream : NULL;
}

/* Takes a parked stream into use again. NULL if no idle one was found: a new stream must not wait
 * for the work of another one. Sets no error detail, since the caller then creates a stream. */
static acre_stream parked_reuse(acre_device *dev, uint32_t flags) {
    struct acre__current current;
    const char *what;
    acre_stream stream = NULL;
    int is_known = 1;
    size_t looks = parked_looks(dev, flags);
    if (!looks)
        return NULL;
    CUresult code = acre__device_push_relaxed(dev, &current, &what);
    if (code) {
        parked_note_refusal(dev, code, what);
        return NULL;
    }
    for (int i = 0; i < PARKED_TRIES && is_known && !stream; i++)
        stream = parked_try(dev, flags, &looks, &is_known);
    acre__device_pop(dev, &current);
    return stream;
}

/* ---- streams ---- */

acre_status acre__stream_create_own(acre_device *device, uint32_t flags, acre_stream *stream) {
    *stream = NULL;
    acre_status status = acre__device_enter(device);
    if (status)
        return status;
    struct made *made = made_create(&stream_kind);
    if (!made)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a stream's record");
    made->flags = flags;

    struct acre__current call;
    CUstream handle = NULL;
    unsigned how = flags & ACRE_STREAM_NON_BLOCKING ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    if (acre__device_call(device, &call))
        call.code = device->drv->cuStreamCreate(&handle, how);
    status = acre__device_done(device, &call, "cuStreamCreate");
    *stream = status ? NULL : handle;
    return made_enter_books(device, &device->streams, &device->streams_created, made, handle,
                            status);
}

static acre_status stream_create(acre_device *device, uint32_t flags, acre_stream *stream) {
    if (stream)
        *stream = NULL;
    acre_status status = acre__device_enter(device);
    if (status || (status = acre__not_null(stream, "acre_stream_create: stream")))
        return status;
    if (flags & ~(ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE))
        return acre__fail(ACRE_E_INVALID, "acre_stream_create: unknown flags 0x%x", flags);
    *stream = parked_reuse(device, flags);
    return *stream ? ACRE_OK : acre__stream_create_own(device, flags, stream);
}

acre_status acre_stream_create(acre_device *device, uint32_t flags, acre_stream *stream) {
    return acre__in_call(stream_create(device, flags, stream), "acre_stream_create");
}

/* Holds the record of a stream that the program destroys, and tells the layers above. NULL and
 * *status if there is none. */
static struct made *stream_leave(acre_device *device, acre_stream stream, acre_status *status) {
    acre__lock_take(&device->lock);
    struct made *made = made_find_live(device, &device->streams, stream, "stream", status);
    if (made) {
        made->state = MADE_HELD;
        device->streams_parked++;
    }
    acre__lock_give(&device->lock);
    /* A failed hook is harmless. A parked stream keeps its order. Of others the layers know the id,
     * and a reused handle has another one. */
    if (made && !acre__device_is_lost(device))
        (void)acre__device_hooks_retire(device, stream);
    return made;
}

/* Whether a destroyed stream may be used again. */
static int stream_is_kept(acre_device *device, const struct made *made) {
    acre_stream stream = (acre_stream)(uintptr_t)made->node.key;
    struct acre__said said;
    int is_captured;
    if (made->is_attached || acre__device_is_lost(device))
        return 0;
    acre__said_keep(&said);
    acre_status status = acre__stream_ask_captured(device, stream, &is_captured);
    (void)acre__said_fail(ACRE_OK, &said);
    return status == ACRE_OK && !is_captured;
}

static acre_status stream_end(acre_device *device, struct made *made, int is_kept) {
    acre__lock_take(&device->lock);
    int is_ours = made->state == MADE_HELD;
    if (is_ours && is_kept) {
        made->passes = made->backoff = 0;
        parked_push(device, made);
    } else if (is_ours) {
        acre__tree_remove(&device->streams, &made->node);
        device->streams_parked--;
    }
    acre__lock_give(&device->lock);
    if (!is_ours)
        free(made);
    return is_ours && !is_kept ? acre__limbo_give_back(device, &made->item) : ACRE_OK;
}

acre_status acre__stream_destroy_own(acre_device *device, acre_stream stream) {
    acre_status status = acre__device_enter_books(device);
    if (status || !stream)
        return status;
    struct made *made = stream_leave(device, stream, &status);
    return made ? stream_end(device, made, 0) : status;
}

static acre_status stream_destroy(acre_device *device, acre_stream stream) {
    acre_status status = acre__device_enter_books(device);
    if (status || !stream)
        return status;
    struct made *made = stream_leave(device, stream, &status);
    return made ? stream_end(device, made, stream_is_kept(device, made)) : status;
}

acre_status acre_stream_destroy(acre_device *device, acre_stream stream) {
    return acre__in_call(stream_destroy(device, stream), "acre_stream_destroy");
}

static acre_status stream_retire(acre_device *device, acre_stream stream) {
    acre_status status = acre__device_enter(device);
    if (status == ACRE_OK)
        status = acre__stream_check(device, stream);
    return status ? status : acre__device_hooks_retire(device, stream);
}

acre_status acre_stream_retire(acre_device *device, acre_stream stream) {
    return acre__in_call(stream_retire(device, stream), "acre_stream_retire");
}

acre_status acre_stream_sync(acre_device *device, acre_stream stream) {
    struct acre__current call;
    if (stream_call(device, stream, &call))
        call.code = device->drv->cuStreamSynchronize(stream);
    return acre__in_call(acre__stream_done(device, stream, &call, "cuStreamSynchronize"),
                         "acre_stream_sync");
}

acre_status acre_stream_query(acre_device *device, acre_stream stream) {
    struct acre__current call;
    if (stream_call(device, stream, &call))
        call.code = device->drv->cuStreamQuery(stream);
    return acre__in_call(acre__stream_done(device, stream, &call, "cuStreamQuery"),
                         "acre_stream_query");
}

static acre_status stream_wait(acre_device *device, acre_stream stream, acre_event event) {
    acre_status status = acre__device_enter(device);
    if (status == ACRE_OK)
        status = event_check(device, event, 1);
    if (status)
        return status;
    struct acre__current call;
    if (stream_call(device, stream, &call))
        call.code = device->drv->cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT);
    return acre__device_done(device, &call, "cuStreamWaitEvent");
}

acre_status acre_stream_wait(acre_device *device, acre_stream stream, acre_event event) {
    return acre__in_call(stream_wait(device, stream, event), "acre_stream_wait");
}

/* Returns acre's number for streams that acre created, since a parked stream keeps the driver's id;
 * for others the driver's id. */
static acre_status stream_get_id(acre_device *device, acre_stream stream, uint64_t *id) {
    if (id)
        *id = 0;
    acre_status status = acre__device_enter(device);
    if (status || (status = acre__not_null(id, "acre_stream_get_id: id")))
        return status;
    struct facts facts = made_look(device, &device->streams, stream);
    if (facts.number && facts.state == MADE_LIVE) {
        *id = ID_OF_ACRE | facts.number;
        return ACRE_OK;
    }
    struct acre__current call;
    unsigned long long got = 0;
    if (stream_call(device, stream, &call))
        call.code = device->drv->cuStreamGetId(stream, &got);
    status = acre__device_done(device, &call, "cuStreamGetId");
    if (status == ACRE_OK)
        *id = device->drv->is_soft ? ID_OF_SOFT | got : got;
    return status;
}

acre_status acre_stream_get_id(acre_device *device, acre_stream stream, uint64_t *id) {
    return acre__in_call(stream_get_id(device, stream, id), "acre_stream_get_id");
}

/* ---- events ---- */

static acre_status event_create(acre_device *device, uint32_t flags, acre_event *event) {
    if (event)
        *event = NULL;
    acre_status status = acre__device_enter(device);
    if (status || (status = acre__not_null(event, "acre_event_create: event")))
        return status;
    if (flags & ~ACRE_EVENT_TIMING)
        return acre__fail(ACRE_E_INVALID, "acre_event_create: unknown flags 0x%x", flags);
    struct made *made = made_create(&event_kind);
    if (!made)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for an event's record");

    struct acre__current call;
    CUevent handle = NULL;
    unsigned how = flags & ACRE_EVENT_TIMING ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING;
    if (acre__device_call(device, &call))
        call.code = device->drv->cuEventCreate(&handle, how);
    status = acre__device_done(device, &call, "cuEventCreate");
    *event = status ? NULL : handle;
    return made_enter_books(device, &device->events, &device->events_created, made, handle, status);
}

acre_status acre_event_create(acre_device *device, uint32_t flags, acre_event *event) {
    return acre__in_call(event_create(device, flags, event), "acre_event_create");
}

static acre_status event_destroy(acre_device *device, acre_event event) {
    acre_status status = acre__device_enter_books(device);
    if (status || !event)
        return status;
    acre__lock_take(&device->lock);
    struct made *made = made_find_live(device, &device->events, event, "event", &status);
    if (made)
        acre__tree_remove(&device->events, &made->node);
    acre__lock_give(&device->lock);
    return made ? acre__limbo_give_back(device, &made->item) : status;
}

acre_status acre_event_destroy(acre_device *device, acre_event event) {
    return acre__in_call(event_destroy(device, event), "acre_event_destroy");
}

static acre_status event_record(acre_device *device, acre_event event, acre_stream stream) {
    acre_status status = acre__device_enter(device);
    if (status == ACRE_OK)
        status = event_check(device, event, 0);
    if (status)
        return status;
    struct acre__current call;
    if (stream_call(device, stream, &call))
        call.code = device->drv->cuEventRecord(event, stream);
    return acre__device_done(device, &call, "cuEventRecord");
}

acre_status acre_event_record(acre_device *device, acre_event event, acre_stream stream) {
    return acre__in_call(event_record(device, event, stream), "acre_event_record");
}

static acre_status event_query(acre_device *device, acre_event event) {
    struct acre__current call;
    if (event_call(device, event, &call))
        call.code = device->drv->cuEventQuery(event);
    return acre__device_done(device, &call, "cuEventQuery");
}

acre_status acre_event_query(acre_device *device, acre_event event) {
    acre_status status = event_query(device, event);
    return status == ACRE_E_NOT_READY ? status : acre__in_call(status, "acre_event_query");
}

static acre_status event_sync(acre_device *device, acre_event event) {
    struct acre__current call;
    if (event_call(device, event, &call))
        call.code = device->drv->cuEventSynchronize(event);
    return acre__device_done(device, &call, "cuEventSynchronize");
}

acre_status acre_event_sync(acre_device *device, acre_event event) {
    return acre__in_call(event_sync(device, event), "acre_event_sync");
}

static acre_status event_elapsed(acre_device *device, acre_event begin, acre_event end,
                                 float *milliseconds) {
    if (milliseconds)
        *milliseconds = 0;
    acre_status status = acre__device_enter(device);
    if (status || (status = acre__not_null(milliseconds, "acre_event_elapsed: milliseconds")))
        return status;
    status = event_check(device, begin, 0);
    if (status)
        return status;
    struct acre__current call;
    float got = 0;
    if (event_call(device, end, &call))
        call.code = device->drv->cuEventElapsedTime(&got, begin, end);
    status = acre__device_done(device, &call, "cuEventElapsedTime");
    if (status == ACRE_OK)
        *milliseconds = got;
    /* For a live event without a time the driver returns CUDA_ERROR_INVALID_HANDLE. */
    if (status == ACRE_E_HANDLE && made_number(device, &device->events, begin) &&
        made_number(device, &device->events, end))
        return acre__fail(ACRE_E_INVALID, "acre_event_elapsed: both events must be created with "
                                          "ACRE_EVENT_TIMING and be recorded");
    return status;
}

acre_status acre_event_elapsed(acre_device *device, acre_event begin, acre_event end,
                               float *milliseconds) {
    return acre__in_call(event_elapsed(device, begin, end, milliseconds), "acre_event_elapsed");
}
