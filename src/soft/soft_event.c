/* Events of the soft driver. An event refers to the marker of its last recording. A marker outlives
 * its event while a stream waits for it. */
#include <stdlib.h>

#include "soft/soft_api.h"
#include "soft/soft_capture.h"
#include "soft/soft_clock.h"
#include "soft/soft_enter.h"
#include "soft/soft_event.h"
#include "soft/soft_lag.h"
#include "soft/soft_op.h"
#include "soft/soft_pool.h"
#include "soft/soft_queue.h"
#include "soft/soft_run.h"
#include "soft/soft_state.h"
#include "soft/soft_stream.h"
#include "soft/soft_thread.h"

/* Returns a new event: the one that was destroyed last, if there is one. */
static struct soft_event *event_take(void) {
    struct soft_event *event = acre__soft.free_events;
    if (event)
        acre__soft.free_events = event->next_free;
    else if ((event = calloc(1, sizeof *event)))
        event->node.key = SOFT_EVENT_HANDLES + SOFT_HANDLE_STEP * acre__soft.event_handles++;
    return event;
}

static struct soft_event *event_find(CUevent handle) {
    return acre__tree_entry(acre__tree_find(&acre__soft.events, (uintptr_t)handle),
                            struct soft_event, node);
}

void acre__soft_event_free(struct soft_event *event) {
    acre__tree_remove(&acre__soft.events, &event->node);
    acre__soft_marker_drop(event->marker);
    event->marker = NULL;
    event->next_free = acre__soft.free_events;
    acre__soft.free_events = event;
}

CUresult acre__soft_cuEventCreate(CUevent *event_out, unsigned flags) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (!event_out || flags & ~known ||
        (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_event *event = event_take();
    if (!event)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    event->ctx = acre__soft_ctx_now();
    event->flags = flags;
    acre__tree_insert(&acre__soft.events, &event->node);
    *event_out = (CUevent)(uintptr_t)event->node.key;
    return acre__soft_leave(CUDA_SUCCESS);
}

/* Enters and checks that the event exists. Needs no current context. */
static CUresult event_enter(CUevent handle, struct soft_event **out) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    const struct soft_event *event = *out = event_find(handle);
    if (!event)
        return acre__soft_leave(CUDA_ERROR_INVALID_HANDLE);
    CUresult lost = event->ctx->is_ending ? CUDA_ERROR_CONTEXT_IS_DESTROYED : event->ctx->lost;
    return lost ? acre__soft_leave(lost) : CUDA_SUCCESS;
}

CUresult acre__soft_cuEventDestroy(CUevent handle) {
    struct soft_event *event;
    CUresult result = event_enter(handle, &event);
    if (result)
        return result;
    acre__soft_event_free(event);
    return acre__soft_leave(CUDA_SUCCESS);
}

/* Makes the event refer to `marker`. */
static void event_set(struct soft_event *event, struct soft_marker *marker) {
    acre__soft_marker_drop(event->marker);
    event->marker = marker;
}

/* Records a node of the captured graph: launches record the event, or wait for it. */
static CUresult event_later(CUevent event, enum soft_op_kind kind, struct soft_stream *stream) {
    struct soft_op *op = acre__soft_op_make(kind);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->event = event;
    acre__soft_graph_record(stream->capturing, op);
    return CUDA_SUCCESS;
}

CUresult acre__soft_event_launch(const struct soft_op *node, struct soft_stream *stream) {
    struct soft_event *event = event_find(node->event);
    if (!event)
        return CUDA_ERROR_INVALID_VALUE;
    if (node->kind == SOFT_WAIT) {
        if (event->marker && event->marker->capture_id)
            return CUDA_ERROR_INVALID_VALUE; /* recorded in a capture, so it never completes */
        return event->marker ? acre__soft_wait_for(stream, event->marker) : CUDA_SUCCESS;
    }
    struct soft_marker *marker = acre__soft_marker_make();
    if (!marker)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = acre__soft_record(stream, marker);
    if (result)
        acre__soft_marker_drop(marker);
    else
        event_set(event, marker);
    return result;
}

CUresult acre__soft_cuEventRecordWithFlags(CUevent handle, CUstream on, unsigned flags) {
    struct soft_event *event;
    struct soft_stream *stream;
    CUresult result = event_enter(handle, &event);
    if (result)
        return result;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_stream_locate(on, &stream)))
        return acre__soft_leave(result);
    if (stream->ctx != event->ctx)
        return acre__soft_leave(CUDA_ERROR_INVALID_HANDLE);
    int is_captured = 0;
    if ((result = acre__soft_capture_submit(stream, &is_captured)))
        return acre__soft_leave(result);
    if (flags) /* the event changes only when the graph is launched */
        return acre__soft_leave(is_captured ? event_later(handle, SOFT_RECORD, stream)
                                            : CUDA_ERROR_ILLEGAL_STATE);
    struct soft_marker *marker = acre__soft_marker_make();
    if (!marker)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if (is_captured)
        acre__soft_capture_record(stream, marker);
    if (!is_captured && ((result = acre__soft_follow_legacy(stream)) ||
                         (result = acre__soft_record(stream, marker)))) {
        acre__soft_marker_drop(marker);
        return acre__soft_leave(result);
    }
    event_set(event, marker);
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuEventRecord(CUevent event, CUstream handle) {
    return acre__soft_cuEventRecordWithFlags(event, handle, CU_EVENT_RECORD_DEFAULT);
}

CUresult acre__soft_cuCtxRecordEvent(CUcontext ctx, CUevent handle) {
    struct soft_event *event;
    CUresult result = event_enter(handle, &event);
    if (result)
        return result;
    if (ctx && ctx != event->ctx)
        return acre__soft_leave(CUDA_ERROR_INVALID_CONTEXT);
    ctx = event->ctx;
    if ((result = acre__soft_capture_break(ctx)))
        return acre__soft_leave(result);
    if (!ctx->gather &&
        (result = acre__soft_stream_make(ctx, CU_STREAM_NON_BLOCKING, &ctx->gather)))
        return acre__soft_leave(result);
    for (struct soft_stream *stream = ctx->streams; stream; stream = stream->next)
        if (stream != ctx->gather && stream->submitted &&
            (result = acre__soft_order(stream, ctx->gather)))
            return acre__soft_leave(result);
    struct soft_marker *marker = acre__soft_marker_make();
    if (!marker)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    if ((result = acre__soft_record(ctx->gather, marker))) {
        acre__soft_marker_drop(marker);
    } else {
        acre__soft_clock_join_ended(&ctx->gather->tail->known, ctx);
        event_set(event, marker);
    }
    return acre__soft_leave(result);
}

CUresult acre__soft_cuEventQuery(CUevent handle) {
    struct soft_event *event;
    CUresult result = event_enter(handle, &event);
    if (result)
        return result;
    if ((result = acre__soft_capture_event(event)) || (result = acre__soft_capture_refuse()))
        return acre__soft_leave(result);
    if (event->marker && !event->marker->done) {
        acre__soft_lag_asked();
        return acre__soft_leave(CUDA_ERROR_NOT_READY);
    }
    if (event->marker)
        acre__soft_clock_join(&acre__soft.host, &event->marker->clock);
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuEventSynchronize(CUevent handle) {
    struct soft_event *event;
    CUresult result = event_enter(handle, &event);
    if (result)
        return result;
    if ((result = acre__soft_capture_event(event)) || (result = acre__soft_capture_refuse()))
        return acre__soft_leave(result);
    if (event->marker && !(result = acre__soft_wait_marker(event->ctx, event->marker)))
        acre__soft_pools_synced(NULL);
    return acre__soft_leave(result);
}

CUresult acre__soft_cuStreamWaitEvent(CUstream waiter, CUevent handle, unsigned flags) {
    struct soft_event *event;
    struct soft_stream *stream;
    CUresult result = event_enter(handle, &event);
    if (result)
        return result;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_stream_locate(waiter, &stream)))
        return acre__soft_leave(result);
    int is_captured = 0;
    if (flags && stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        result = acre__soft_capture_submit(stream, &is_captured);
        return acre__soft_leave(result ? result : event_later(handle, SOFT_WAIT, stream));
    }
    if ((result = acre__soft_capture_wait(stream, event, &is_captured)))
        return acre__soft_leave(result);
    if (is_captured || !event->marker)
        return acre__soft_leave(CUDA_SUCCESS);
    if ((result = acre__soft_follow_legacy(stream)))
        return acre__soft_leave(result);
    return acre__soft_leave(acre__soft_wait_for(stream, event->marker));
}

CUresult acre__soft_cuEventElapsedTime(float *ms_out, CUevent from, CUevent to) {
    struct soft_event *start;
    CUresult result = event_enter(from, &start);
    if (result)
        return result;
    const struct soft_event *end = event_find(to);
    if (!end || !ms_out || !start->marker || !end->marker ||
        (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return acre__soft_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!start->marker->done || !end->marker->done)
        return acre__soft_leave(CUDA_ERROR_NOT_READY);
    int64_t ns = (int64_t)(end->marker->time_ns - start->marker->time_ns);
    *ms_out = (float)((double)ns / 1e6);
    return acre__soft_leave(CUDA_SUCCESS);
}
