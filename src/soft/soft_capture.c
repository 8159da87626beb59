/* The state of stream captures: begin, query, end, and the calls that are refused meanwhile, with
 * their codes. A refused call invalidates the capture, as with the real driver. An operation on a
 * captured stream is checked as usual and becomes a node of the capture's graph (soft_op.c).
 *
 * All streams of a capture have its id and point to its graph. They own the graph until the capture
 * ends without an error. */
#include "base/thread.h"
#include "soft/soft_api.h"
#include "soft/soft_capture.h"
#include "soft/soft_enter.h"
#include "soft/soft_object.h"
#include "soft/soft_op.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_state.h"
#include "soft/soft_stream.h"
#include "soft/soft_thread.h"

/* Calls fn for every captured stream; stops when fn returns 0. Returns 0 if it stopped. */
static int capture_each(int (*fn)(struct soft_stream *stream, void *user), void *user) {
    if (!acre__soft.captures)
        return 1;
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        for (struct soft_stream *stream = ctx->streams; stream; stream = stream->next)
            if (stream->capture && !fn(stream, user))
                return 0;
    return 1;
}

static void capture_invalidate(struct soft_stream *stream) {
    stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

struct refusal {
    CUstreamCaptureMode mode; /* of the calling thread */
    uint64_t thread;
    CUresult result;
};

static int refuse_one(struct soft_stream *stream, void *user) {
    struct refusal *refusal = user;
    if (stream->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return 1;
    int is_own = stream->capture_thread == refusal->thread;
    int is_global = stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                    refusal->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (is_own || is_global) {
        capture_invalidate(stream);
        refusal->result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return 1;
}

CUresult acre__soft_capture_refuse(void) {
    struct refusal refusal = {acre__soft_thread_self()->capture_mode, acre__thread_self()->id,
                              CUDA_SUCCESS};
    if (refusal.mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        capture_each(refuse_one, &refusal);
    return refusal.result;
}

static int break_one(struct soft_stream *stream, void *user) {
    if (stream->ctx == user)
        capture_invalidate(stream);
    return 1;
}

CUresult acre__soft_capture_break(struct CUctx_st *ctx) {
    unsigned captures = 0;
    for (const struct soft_stream *stream = ctx->streams; stream; stream = stream->next)
        captures += stream->capture != CU_STREAM_CAPTURE_STATUS_NONE;
    if (!captures)
        return CUDA_SUCCESS;
    capture_each(break_one, ctx);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Invalidates the capture of a blocking stream, because the legacy stream would wait for it. */
static int implicit_one(struct soft_stream *stream, void *user) {
    if (stream->ctx != user || stream->flags & CU_STREAM_NON_BLOCKING)
        return 1;
    capture_invalidate(stream);
    return 0;
}

CUresult acre__soft_capture_submit(struct soft_stream *stream, int *is_captured) {
    if (stream->capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *is_captured = stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    stream->capture_step += (uint64_t)*is_captured;
    if (stream == stream->ctx->legacy && !capture_each(implicit_one, stream->ctx))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return CUDA_SUCCESS;
}

CUresult acre__soft_capture_disturb(struct soft_stream *stream) {
    if (!stream->capture)
        return CUDA_SUCCESS;
    capture_invalidate(stream);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

void acre__soft_capture_record(const struct soft_stream *stream, struct soft_marker *marker) {
    marker->capture_id = stream->capture_id;
    marker->capture_stream = stream->id;
    marker->capture_step = stream->capture_step;
}

/* Returns the graph of the capture with that id; NULL: the capture is over. */
static struct CUgraph_st *capture_graph(uint64_t capture_id) {
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        for (const struct soft_stream *s = ctx->streams; s; s = s->next)
            if (s->capture && s->capture_id == capture_id)
                return s->capturing;
    return NULL;
}

static int invalidate_same(struct soft_stream *stream, void *user) {
    const uint64_t *capture_id = user;
    if (stream->capture_id == *capture_id)
        capture_invalidate(stream);
    return 1;
}

CUresult acre__soft_capture_event(const struct soft_event *event) {
    uint64_t capture_id = event->marker ? event->marker->capture_id : 0;
    if (!capture_id)
        return CUDA_SUCCESS;
    if (!capture_graph(capture_id))
        return CUDA_ERROR_INVALID_VALUE; /* the capture is over, so the event has no meaning */
    capture_each(invalidate_same, &capture_id);
    return CUDA_ERROR_CAPTURED_EVENT;
}

/* Joins the forked stream that recorded the event, if it has recorded nothing since. */
static int join_one(struct soft_stream *stream, void *user) {
    const struct soft_marker *marker = user;
    if (stream->id == marker->capture_stream && stream->capture_step == marker->capture_step)
        stream->capture_is_fork = 0;
    return 1;
}

CUresult acre__soft_capture_wait(struct soft_stream *stream, const struct soft_event *event,
                                 int *is_captured) {
    CUresult result = acre__soft_capture_submit(stream, is_captured);
    if (result || !event->marker)
        return result;
    uint64_t capture_id = event->marker->capture_id;
    if (*is_captured && !capture_id) { /* a captured stream must not wait for work outside */
        capture_invalidate(stream);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (*is_captured && capture_id != stream->capture_id)
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    if (!capture_id)
        return CUDA_SUCCESS;
    struct CUgraph_st *graph = capture_graph(capture_id);
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE; /* the capture is over */
    if (!*is_captured) {                 /* the wait makes this stream join the capture */
        stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
        stream->capture_id = capture_id;
        stream->capturing = graph;
        graph->capturing++;
        stream->capture_thread = 0;
        stream->capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        stream->capture_is_fork = 1;
        acre__soft.captures++;
        *is_captured = 1;
    }
    capture_each(join_one, event->marker);
    return CUDA_SUCCESS;
}

CUresult acre__soft_cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
    struct soft_stream *stream;
    CUresult result = acre__soft_stream_enter(handle, &mode, &stream);
    if (result)
        return result;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (stream == stream->ctx->legacy)
        return acre__soft_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (stream->capture)
        return acre__soft_leave(CUDA_ERROR_ILLEGAL_STATE);
    if (!(stream->capturing = acre__soft_graph_make()))
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    stream->capture_mode = mode;
    stream->capture_thread = acre__thread_self()->id;
    stream->capture_id = acre__soft_next_id();
    stream->capture_is_fork = 0;
    acre__soft.captures++;
    return acre__soft_leave(CUDA_SUCCESS);
}

struct ending {
    uint64_t capture_id;
    int was_broken, is_unjoined;
};

static int end_one(struct soft_stream *stream, void *user) {
    struct ending *ending = user;
    if (stream->capture_id != ending->capture_id)
        return 1;
    ending->was_broken |= stream->capture == CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    ending->is_unjoined |= stream->capture_is_fork;
    acre__soft_stream_uncapture(stream);
    return 1;
}

CUresult acre__soft_cuStreamEndCapture(CUstream handle, CUgraph *graph_out) {
    struct soft_stream *stream;
    CUresult result = acre__soft_stream_enter(handle, graph_out, &stream);
    if (result)
        return result;
    if (!stream->capture)
        return acre__soft_leave(CUDA_ERROR_ILLEGAL_STATE);
    struct ending ending = {stream->capture_id, 0, 0};
    int is_wrong_thread = stream->capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                          stream->capture_thread != acre__thread_self()->id;
    struct CUgraph_st *graph = stream->capturing;
    capture_each(end_one, &ending); /* the capture ends, also on failure */
    result = is_wrong_thread      ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
             : ending.was_broken  ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
             : ending.is_unjoined ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                  : CUDA_SUCCESS;
    *graph_out = result ? NULL : graph;
    acre__soft_graph_captured(graph);
    if (result)
        acre__soft_graph_free(graph);
    acre__soft_graph_memory_settle();
    acre__soft_objects_settle();
    return acre__soft_leave(result);
}

/* ---- queries ---- */

/* Begins a query about a capture. A query of the legacy stream fails while a stream is captured
 * that the legacy stream would wait for. */
static CUresult capture_ask(CUstream handle, const void *output, struct soft_stream **stream) {
    CUresult result = acre__soft_stream_enter(handle, output, stream);
    if (result)
        return result;
    const struct CUctx_st *ctx = (*stream)->ctx;
    if (*stream == ctx->legacy && acre__soft.captures) {
        for (const struct soft_stream *other = ctx->streams; other; other = other->next)
            if (other->capture && !(other->flags & CU_STREAM_NON_BLOCKING))
                return acre__soft_leave(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    return CUDA_SUCCESS;
}

CUresult acre__soft_cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status_out) {
    struct soft_stream *stream;
    CUresult result = capture_ask(handle, status_out, &stream);
    if (result)
        return result;
    *status_out = stream->capture;
    return acre__soft_leave(CUDA_SUCCESS);
}

/* For an invalidated capture only the status is returned. Dependencies of the stream's next node
 * are not supported, because the soft driver keeps no edges. */
CUresult acre__soft_cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus *status_out,
                                           cuuint64_t *id_out, CUgraph *graph_out,
                                           const CUgraphNode **dependencies_out,
                                           size_t *count_out) {
    struct soft_stream *stream;
    CUresult result = capture_ask(handle, status_out, &stream);
    if (result)
        return result;
    if (dependencies_out || count_out)
        return acre__soft_leave(CUDA_ERROR_NOT_SUPPORTED);
    *status_out = stream->capture;
    if (stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE && id_out)
        *id_out = stream->capture_id;
    if (stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE && graph_out)
        *graph_out = stream->capturing;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode_inout) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!mode_inout)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_thread *self = acre__soft_thread_self();
    CUstreamCaptureMode before = self->capture_mode;
    self->capture_mode = *mode_inout;
    *mode_inout = before;
    return acre__soft_leave(CUDA_SUCCESS);
}
