/* Streams of the soft driver: their calls, and how work is queued.
 *
 * A stream is an in-order queue. The legacy stream's rule (its work waits for all earlier work of
 * blocking streams, theirs for its) is made of the same two operations that events are made of: a
 * record on one stream and a wait on the other. Events are in soft_event.c, running the queues is
 * in soft_run.c. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/thread.h"
#include "soft/launch.h"
#include "soft/soft_state.h"

/* ---- operations and markers ---- */

struct soft_op *acre__soft_op_make(enum soft_op_kind kind) {
    struct soft_op *op = calloc(1, sizeof *op);
    if (op) {
        op->kind = kind;
        op->rows = 1;
    }
    return op;
}

void acre__soft_op_free(struct soft_op *op) {
    if (op->to.deliver)
        *op->to.deliver = op->to.raw;
    else if (op->to.is_owned)
        free(op->to.raw);
    if (op->from.is_owned)
        free(op->from.raw);
    acre__soft_clock_free(&op->known);
    acre__soft_marker_drop(op->marker);
    acre__soft_launch_free(op->launch);
    acre__soft_backing_drop(op->backing);
    acre__soft_work_drop(op->work);
    free(op);
}

struct soft_marker *acre__soft_marker_make(void) {
    struct soft_marker *marker = calloc(1, sizeof *marker);
    if (!marker)
        return NULL;
    marker->refs = 1;
    if (acre__soft_clock_snapshot(&acre__soft.host, &marker->clock)) {
        free(marker);
        return NULL;
    }
    return marker;
}

void acre__soft_marker_drop(struct soft_marker *marker) {
    if (!marker || --marker->refs)
        return;
    acre__soft_clock_free(&marker->clock);
    acre__soft_past_free(&marker->past);
    free(marker);
}

/* ---- making and finding streams ---- */

CUresult acre__soft_stream_make(struct CUctx_st *ctx, unsigned flags, struct soft_stream **out) {
    struct soft_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->ctx = ctx;
    stream->device = ctx->device;
    stream->flags = flags;
    stream->id = acre__soft_next_id();
    CUresult result = acre__soft_clock_slot_take(stream);
    if (result) {
        free(stream);
        return result;
    }
    stream->next = ctx->streams;
    ctx->streams = stream;
    *out = stream;
    return CUDA_SUCCESS;
}

void acre__soft_stream_free_if_over(struct soft_stream *stream) {
    if (stream->is_destroyed && !stream->head && !stream->waiters)
        acre__soft_stream_free(stream);
}

/* Ends the stream and drops what is still queued. An event whose recording is dropped counts as
 * done: streams of other devices may wait for it. */
void acre__soft_stream_free(struct soft_stream *stream) {
    struct soft_stream **link = &stream->ctx->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    while (stream->head) {
        struct soft_op *op = stream->head;
        stream->head = op->next;
        if (op->marker && op->kind != SOFT_WAIT)
            acre__soft_marker_finish(op->marker);
        acre__soft_op_free(op);
    }
    if (stream->capture)
        acre__soft_capture_leave(stream);
    if (stream->handle) {
        stream->handle->stream = NULL;
        stream->handle->next_free = acre__soft.free_streams;
        acre__soft.free_streams = stream->handle;
    }
    acre__soft_clock_slot_give(stream);
    acre__soft_past_free(&stream->past);
    free(stream);
}

struct stream_handle {
    struct acre__node node; /* key: address of the handle */
    struct CUstream_st handle;
};

/* The thread's default stream in the context; NULL: it has none yet. */
static struct soft_stream *stream_of_thread(const struct CUctx_st *ctx, uint64_t thread) {
    struct soft_stream *stream = ctx->streams;
    while (stream && (stream->thread != thread || stream->is_destroyed))
        stream = stream->next;
    return stream;
}

void acre__soft_stream_end_of_thread(struct CUctx_st *ctx, uint64_t thread) {
    struct soft_stream *own = stream_of_thread(ctx, thread);
    if (own) {
        own->is_destroyed = 1;
        acre__soft_stream_free_if_over(own);
    }
}

static CUresult stream_of_current(CUstream handle, struct soft_stream **out) {
    struct soft_device *device;
    CUresult result = acre__soft_current(&device);
    if (result)
        return result;
    struct CUctx_st *ctx = acre__soft_ctx_now();
    int is_own = handle == CU_STREAM_PER_THREAD;
    uint64_t thread = acre__thread_self()->id;
    *out = is_own ? stream_of_thread(ctx, thread) : ctx->legacy;
    if (*out)
        return CUDA_SUCCESS;
    if ((result = acre__soft_stream_make(ctx, CU_STREAM_DEFAULT, out)))
        return result;
    if (is_own)
        (*out)->thread = thread;
    else
        ctx->legacy = *out;
    return CUDA_SUCCESS;
}

CUresult acre__soft_stream_locate(CUstream handle, struct soft_stream **out) {
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return stream_of_current(handle, out);
    if (!acre__tree_find(&acre__soft.stream_handles, (uint64_t)(uintptr_t)handle) ||
        !handle->stream)
        return CUDA_ERROR_INVALID_HANDLE; /* the real driver may crash here */
    *out = handle->stream;
    const struct CUctx_st *ctx = handle->stream->ctx;
    return ctx->is_ending ? CUDA_ERROR_CONTEXT_IS_DESTROYED : ctx->lost;
}

CUresult acre__soft_stream_find(CUstream handle, struct soft_stream **out) {
    CUresult result = acre__soft_stream_locate(handle, out);
    if (result)
        return result;
    return (*out)->ctx == acre__soft_ctx_now() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* A handle for a new stream: the one given back last, if there is one. */
static struct CUstream_st *stream_handle_take(void) {
    struct CUstream_st *handle = acre__soft.free_streams;
    if (handle) {
        acre__soft.free_streams = handle->next_free;
        return handle;
    }
    struct stream_handle *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->node.key = (uint64_t)(uintptr_t)&made->handle;
    acre__tree_insert(&acre__soft.stream_handles, &made->node);
    return &made->handle;
}

CUresult acre__soft_cuStreamCreateWithPriority(CUstream *stream_out, unsigned flags, int priority) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!stream_out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct CUstream_st *handle = stream_handle_take();
    if (!handle)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    struct soft_stream *stream;
    if ((result = acre__soft_stream_make(acre__soft_ctx_now(), flags, &stream))) {
        handle->next_free = acre__soft.free_streams;
        acre__soft.free_streams = handle;
        return acre__soft_leave(result);
    }
    stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    stream->handle = handle;
    handle->stream = stream;
    *stream_out = handle;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuStreamCreate(CUstream *stream_out, unsigned flags) {
    return acre__soft_cuStreamCreateWithPriority(stream_out, flags, 0);
}

CUresult acre__soft_cuStreamDestroy(CUstream handle) {
    struct soft_device *device;
    struct soft_stream *stream;
    if (!handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        CUresult result = acre__soft_enter(&device);
        return result ? result : acre__soft_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    CUresult result = acre__soft_stream_enter(handle, handle, &stream);
    if (result)
        return result;
    stream->is_destroyed = 1;
    handle->stream = NULL;
    handle->next_free = acre__soft.free_streams;
    acre__soft.free_streams = handle;
    stream->handle = NULL;
    acre__soft_stream_free_if_over(stream);
    acre__soft_objects_settle();
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuStreamGetFlags(CUstream handle, unsigned *flags_out) {
    struct soft_stream *stream;
    CUresult result = acre__soft_stream_enter(handle, flags_out, &stream);
    if (result)
        return result;
    if ((result = acre__soft_capture_disturb(stream)))
        return acre__soft_leave(result);
    *flags_out = stream->flags;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuStreamGetPriority(CUstream handle, int *priority_out) {
    struct soft_stream *stream;
    CUresult result = acre__soft_stream_enter(handle, priority_out, &stream);
    if (result)
        return result;
    if ((result = acre__soft_capture_disturb(stream)))
        return acre__soft_leave(result);
    *priority_out = stream->priority;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuStreamGetId(CUstream handle, unsigned long long *id_out) {
    struct soft_stream *stream;
    CUresult result = acre__soft_stream_enter(handle, id_out, &stream);
    if (result)
        return result;
    if ((result = acre__soft_capture_disturb(stream)))
        return acre__soft_leave(result);
    *id_out = stream->id;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuStreamGetCtx(CUstream handle, CUcontext *ctx_out) {
    struct soft_stream *stream;
    CUresult result = acre__soft_stream_enter(handle, ctx_out, &stream);
    if (result)
        return result;
    *ctx_out = stream->ctx;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuStreamGetDevice(CUstream handle, CUdevice *device_out) {
    struct soft_stream *stream;
    CUresult result = acre__soft_stream_enter(handle, device_out, &stream);
    if (result)
        return result;
    *device_out = stream->device;
    return acre__soft_leave(CUDA_SUCCESS);
}

/* ---- queueing ---- */

CUresult acre__soft_submit_bare(struct soft_stream *stream, struct soft_op *op) {
    CUresult result = acre__soft_clock_snapshot(&acre__soft.host, &op->known);
    if (result) {
        acre__soft_op_free(op);
        return result;
    }
    op->step = ++stream->submitted;
    op->serial = ++acre__soft.last_serial;
    acre__soft_lag_queued(op);
    if (stream->tail)
        stream->tail->next = op;
    else
        stream->head = op;
    stream->tail = op;
    acre__soft_workers_wake();
    return CUDA_SUCCESS;
}

CUresult acre__soft_record(struct soft_stream *stream, struct soft_marker *marker) {
    struct soft_op *op = acre__soft_op_make(SOFT_RECORD);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->marker = marker;
    marker->refs++;
    CUresult result = acre__soft_submit_bare(stream, op);
    if (!result)
        acre__soft_past_record(stream, marker);
    return result;
}

CUresult acre__soft_wait_for(struct soft_stream *stream, struct soft_marker *marker) {
    struct soft_op *op = acre__soft_op_make(SOFT_WAIT);
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->marker = marker;
    marker->refs++;
    CUresult result = acre__soft_submit_bare(stream, op);
    if (!result)
        acre__soft_past_wait(stream, marker);
    return result;
}

CUresult acre__soft_order(struct soft_stream *before, struct soft_stream *after) {
    struct soft_marker *marker = acre__soft_marker_make();
    if (!marker)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = acre__soft_record(before, marker);
    if (!result)
        result = acre__soft_wait_for(after, marker);
    acre__soft_marker_drop(marker);
    return result;
}

static int stream_is_blocking(const struct soft_stream *stream) {
    return stream != stream->ctx->legacy && !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* Steps that a stream has been ordered behind once are remembered, so idle streams cost nothing. */
CUresult acre__soft_follow_legacy(struct soft_stream *stream) {
    struct CUctx_st *ctx = stream->ctx;
    struct soft_stream *legacy = ctx->legacy;
    if (legacy && stream_is_blocking(stream)) {
        if (stream->legacy_seen == legacy->submitted)
            return CUDA_SUCCESS;
        CUresult result = acre__soft_order(legacy, stream);
        if (!result)
            stream->legacy_seen = legacy->submitted;
        return result;
    }
    if (stream != legacy)
        return CUDA_SUCCESS;
    if (acre__soft_clock_legacy_joins_ended(NULL, ctx)) {
        struct soft_op *op = acre__soft_op_make(SOFT_NOTHING);
        CUresult result = op ? acre__soft_submit_bare(legacy, op) : CUDA_ERROR_OUT_OF_MEMORY;
        if (result)
            return result;
        acre__soft_clock_legacy_joins_ended(&op->known, ctx);
    }
    for (struct soft_stream *other = ctx->streams; other; other = other->next) {
        if (!stream_is_blocking(other) || other->seen_by_legacy == other->submitted)
            continue;
        CUresult result = acre__soft_order(other, legacy);
        if (result)
            return result;
        other->seen_by_legacy = other->submitted;
    }
    return CUDA_SUCCESS;
}

CUresult acre__soft_submit(struct soft_stream *stream, struct soft_op *op) {
    int is_captured = 0;
    CUresult result = acre__soft_capture_submit(stream, &is_captured);
    if (!result && is_captured) {
        acre__soft_graph_record(stream->capturing, op);
        return CUDA_SUCCESS;
    }
    if (!result)
        result = acre__soft_follow_legacy(stream);
    if (result) {
        acre__soft_op_free(op);
        return result;
    }
    return acre__soft_submit_bare(stream, op);
}

CUresult acre__soft_cuLaunchHostFunc(CUstream handle, CUhostFn fn, void *arg) {
    struct soft_stream *stream;
    CUresult result = acre__soft_stream_enter(handle, &fn, &stream);
    if (result)
        return result;
    if (!fn)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_op *op = acre__soft_op_make(SOFT_CALL);
    if (!op)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    op->call = fn;
    op->argument = arg;
    return acre__soft_leave(acre__soft_submit(stream, op));
}

/* The older form: no part of a capture, and called with the error when the device is lost. */
CUresult acre__soft_cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void *arg,
                                        unsigned flags) {
    struct soft_stream *stream;
    CUresult result = acre__soft_stream_enter(handle, &callback, &stream);
    if (result)
        return result;
    if (!callback || flags)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_capture_disturb(stream)))
        return acre__soft_leave(result);
    struct soft_op *op = acre__soft_op_make(SOFT_CALL);
    if (!op)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    op->callback = callback;
    op->caller = handle;
    op->argument = arg;
    return acre__soft_leave(acre__soft_submit(stream, op));
}

/* ---- query and sync ---- */

/* How the host's questions to a stream begin: captures do not bear them, and the legacy stream
 * stands for the blocking ones, too. */
static CUresult stream_ask(CUstream handle, struct soft_stream **stream) {
    CUresult result = acre__soft_stream_enter(handle, &handle, stream);
    if (result)
        return result;
    int is_captured = 0;
    if ((result = acre__soft_capture_submit(*stream, &is_captured)) ||
        (result = acre__soft_capture_disturb(*stream)) || (result = acre__soft_capture_refuse()) ||
        (*stream == (*stream)->ctx->legacy && (result = acre__soft_follow_legacy(*stream))))
        return acre__soft_leave(result);
    return CUDA_SUCCESS;
}

CUresult acre__soft_cuStreamQuery(CUstream handle) {
    struct soft_stream *stream;
    CUresult result = stream_ask(handle, &stream);
    if (result)
        return result;
    if (stream->completed < stream->submitted) {
        acre__soft_lag_asked();
        return acre__soft_leave(CUDA_ERROR_NOT_READY);
    }
    acre__soft_clock_join(&acre__soft.host, &stream->clock);
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuStreamSynchronize(CUstream handle) {
    struct soft_stream *stream;
    CUresult result = stream_ask(handle, &stream);
    if (result)
        return result;
    if (!(result = acre__soft_wait_stream(stream, stream->submitted)))
        acre__soft_pools_synced(NULL);
    return acre__soft_leave(result);
}

CUresult acre__soft_cuCtxSynchronize(void) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    struct CUctx_st *ctx = acre__soft_ctx_now();
    if ((result = acre__soft_capture_break(ctx)))
        return acre__soft_leave(result);
    if (!(result = acre__soft_wait_ctx(ctx)))
        acre__soft_pools_synced(ctx);
    return acre__soft_leave(result);
}
