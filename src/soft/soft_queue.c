/* Queues work on streams.
 *
 * A stream is an in-order queue. The legacy stream's rule says that its work waits for all earlier
 * work of blocking streams, and their work waits for its earlier work. The rule uses the same two
 * operations as events: a record on one stream and a wait on the other. soft_run.c runs the queues.
 * Guarded by acre__soft.lock. */
#include "soft/soft_capture.h"
#include "soft/soft_clock.h"
#include "soft/soft_lag.h"
#include "soft/soft_op.h"
#include "soft/soft_past.h"
#include "soft/soft_queue.h"
#include "soft/soft_run.h"
#include "soft/soft_state.h"

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

CUresult acre__soft_submit_marked(struct soft_stream *stream, struct soft_op *op,
                                  struct soft_marker **marker) {
    *marker = op->marker;
    op->marker->refs++;
    CUresult result = acre__soft_submit_bare(stream, op);
    if (result)
        acre__soft_marker_drop(*marker);
    else
        acre__soft_past_record(stream, *marker);
    return result;
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

/* A stream remembers which steps it already follows, so idle streams cost nothing. */
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
