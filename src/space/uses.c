/* Uses of memory by streams: see uses.h. */
#include "space/uses.h"

#include <stdlib.h>

#include "base/status.h"
#include "device/device.h"
#include "device/limbo.h"

enum { USES_MANY = 8 }; /* number of pending events from which on querying them pays off */

struct acre__use {
    struct acre__limbo_item item; /* for limbo, if the driver refuses to destroy the event */
    struct acre__use *next;
    CUevent event;
    acre_device *dev; /* device of the stream */
    acre_stream stream;
    unsigned long long id; /* id of the stream; 0: the driver has no ids */
    int is_pending;        /* 1: recorded and not known to be done */
};

static CUresult use_give_back(const struct acre__driver *drv, struct acre__limbo_item *item) {
    return drv->cuEventDestroy(((struct acre__use *)item)->event);
}

static void use_forget(struct acre__limbo_item *item) {
    free(item);
}

static const struct acre__limbo_kind use_kind = {"cuEventDestroy", use_give_back, use_forget};

void acre__uses_open(struct acre__uses *uses, acre_device *dev) {
    *uses = (struct acre__uses){.dev = dev};
}

/* The first pending use, or NULL. */
static struct acre__use *uses_pending(const struct acre__uses *uses) {
    struct acre__use *use = uses->first;
    while (use && !use->is_pending)
        use = use->next;
    return use;
}

/* ---- with the context current ---- */

/* Queries which uses are done, when many are pending. If a query fails, the use stays pending. */
static void uses_look(struct acre__uses *uses) {
    unsigned pending = 0;
    for (struct acre__use *use = uses->first; use; use = use->next)
        pending += (unsigned)use->is_pending;
    if (pending < USES_MANY)
        return;
    for (struct acre__use *use = uses->first; use; use = use->next)
        if (use->is_pending && uses->dev->drv->cuEventQuery(use->event) == CUDA_SUCCESS)
            use->is_pending = 0;
}

/* The record for work of this stream: its own pending one, since a later record covers the earlier
 * work, or an idle one of the same device. */
static struct acre__use *uses_find(const struct acre__uses *uses, const acre_device *dev,
                                   acre_stream stream, unsigned long long id) {
    struct acre__use *unused = NULL;
    for (struct acre__use *use = uses->first; use; use = use->next) {
        if (use->dev != dev)
            continue;
        if (use->is_pending && use->stream == stream && use->id == id)
            return use;
        if (!use->is_pending)
            unused = use;
    }
    return unused;
}

static CUresult uses_add(struct acre__uses *uses, acre_device *dev, struct acre__use **out,
                         const char **what) {
    struct acre__use *use = calloc(1, sizeof *use);
    if (!use) {
        *what = "the record of an event";
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *what = "cuEventCreate";
    CUresult code = dev->drv->cuEventCreate(&use->event, CU_EVENT_DISABLE_TIMING);
    if (code) {
        free(use);
        return code;
    }
    use->item.kind = &use_kind;
    use->dev = dev;
    use->next = uses->first;
    uses->first = use;
    *out = use;
    return CUDA_SUCCESS;
}

/* Records the event on the stream. Without ids, the handle may belong to another stream than
 * before. The new stream then waits for the old event first, so that the new record covers both. */
static CUresult uses_record(struct acre__use *use, acre_stream stream, unsigned long long id,
                            const char **what) {
    const struct acre__driver *drv = use->dev->drv;
    CUresult code = CUDA_SUCCESS;
    *what = "cuStreamWaitEvent";
    if (use->is_pending && !id && (code = drv->cuStreamWaitEvent(stream, use->event, 0)))
        return code;
    *what = "cuEventRecord";
    if ((code = drv->cuEventRecord(use->event, stream)))
        return code;
    use->stream = stream;
    use->id = id;
    use->is_pending = 1;
    return CUDA_SUCCESS;
}

static CUresult uses_mark(struct acre__uses *uses, acre_device *dev, acre_stream stream,
                          int *is_captured, const char **what) {
    const struct acre__driver *drv = dev->drv;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    unsigned long long id = 0;
    *what = "cuStreamIsCapturing";
    CUresult code = drv->cuStreamIsCapturing(stream, &state);
    *is_captured = !code && state != CU_STREAM_CAPTURE_STATUS_NONE;
    if (code || *is_captured)
        return code;
    if (ACRE__DRIVER_HAS(drv, cuStreamGetId)) {
        *what = "cuStreamGetId";
        if ((code = drv->cuStreamGetId(stream, &id)))
            return code;
    }
    uses_look(uses);
    struct acre__use *use = uses_find(uses, dev, stream, id);
    if (!use && (code = uses_add(uses, dev, &use, what)))
        return code;
    return uses_record(use, stream, id, what);
}

/* ---- interface ---- */

acre_status acre__uses_record_peer(struct acre__uses *uses, acre_device *dev, acre_stream stream) {
    struct acre__current call;
    const char *what = NULL;
    int is_captured = 0;
    acre_status status = acre__stream_check_past(dev, stream);
    if (status)
        return status;
    if (acre__device_call_relaxed(dev, &call))
        call.code = uses_mark(uses, dev, stream, &is_captured, &what);
    status = acre__stream_done(dev, stream, &call, what);
    return is_captured ? acre__fail(ACRE_E_CAPTURING, "the stream is being captured") : status;
}

acre_status acre__uses_record(struct acre__uses *uses, acre_stream stream) {
    return acre__uses_record_peer(uses, uses->dev, stream);
}

acre_status acre__uses_wait(struct acre__uses *uses) {
    struct acre__current call;
    struct acre__use *use = uses_pending(uses);
    if (!use)
        return ACRE_OK;
    if (acre__device_call_relaxed(uses->dev, &call))
        for (; use && !call.code; use = use->next) {
            if (use->is_pending)
                call.code = uses->dev->drv->cuEventSynchronize(use->event);
            use->is_pending = use->is_pending && call.code;
        }
    return acre__device_done(uses->dev, &call, "cuEventSynchronize");
}

acre_status acre__uses_settle(struct acre__uses *uses, acre_stream stream) {
    acre_status status = acre__uses_record(uses, stream);
    return status ? status : acre__uses_wait(uses);
}

acre_status acre__uses_wait_stream(acre_device *dev, acre_stream stream) {
    struct acre__uses uses = {.dev = dev};
    acre_status status = acre__uses_settle(&uses, stream);
    acre__uses_close(&uses);
    return status;
}

int acre__uses_are_done(struct acre__uses *uses) {
    struct acre__current current;
    const char *what;
    struct acre__use *use = uses_pending(uses);
    if (!use)
        return 1;
    if (acre__device_push_relaxed(uses->dev, &current, &what) != CUDA_SUCCESS)
        return 0;
    int are_done = 1;
    for (; use; use = use->next) {
        if (use->is_pending && uses->dev->drv->cuEventQuery(use->event) == CUDA_SUCCESS)
            use->is_pending = 0;
        are_done &= !use->is_pending;
    }
    acre__device_pop(uses->dev, &current);
    return are_done;
}

acre_status acre__uses_join(struct acre__uses *uses, acre_stream stream) {
    struct acre__current call;
    if (acre__device_call_relaxed(uses->dev, &call))
        for (struct acre__use *use = uses->first; use && !call.code; use = use->next)
            if (use->is_pending)
                call.code = uses->dev->drv->cuStreamWaitEvent(stream, use->event, 0);
    return acre__stream_done(uses->dev, stream, &call, "cuStreamWaitEvent");
}

void acre__uses_append(struct acre__uses *uses, struct acre__uses *other) {
    struct acre__use **end = &uses->first;
    while (*end)
        end = &(*end)->next;
    *end = other->first;
    other->first = NULL;
}

void acre__uses_lend(struct acre__uses *uses, struct acre__uses *other) {
    struct acre__use **link = &uses->first;
    while (*link && (*link)->is_pending)
        link = &(*link)->next;
    struct acre__use *use = *link;
    if (!use)
        return;
    *link = use->next;
    use->next = other->first;
    other->first = use;
}

void acre__uses_forget(struct acre__uses *uses) {
    for (struct acre__use *use = uses->first; use; use = use->next)
        use->is_pending = 0;
}

void acre__uses_close(struct acre__uses *uses) {
    while (uses->first) {
        struct acre__use *use = uses->first;
        uses->first = use->next;
        acre__limbo_let_go(uses->dev, &use->item);
    }
}
