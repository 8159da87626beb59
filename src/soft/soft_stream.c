/* Stream objects: creation, destruction, and lookup of handles.
 *
 * A stream belongs to a context. A destroyed stream is freed when its work is done and nobody waits
 * for it. soft_queue.c queues work, soft_run.c runs it, and soft_stream_api.c has the driver calls.
 * Guarded by acre__soft.lock. */
#include <stdlib.h>

#include "base/thread.h"
#include "soft/soft_clock.h"
#include "soft/soft_op.h"
#include "soft/soft_past.h"
#include "soft/soft_state.h"
#include "soft/soft_stream.h"
#include "soft/soft_thread.h"

/* ---- creation and destruction ---- */

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

void acre__soft_stream_uncapture(struct soft_stream *stream) {
    stream->capturing->capturing--;
    stream->capturing = NULL;
    stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
    stream->capture_id = 0;
    acre__soft.captures--;
}

/* Removes the stream from its capture. The capture continues without it and ends with its last
 * stream. */
static void stream_leave_capture(struct soft_stream *stream) {
    struct CUgraph_st *graph = stream->capturing;
    acre__soft_stream_uncapture(stream);
    if (!graph->capturing)
        acre__soft_graph_free(graph);
}

void acre__soft_stream_handle_give(struct soft_stream_handle *handle) {
    handle->stream = NULL;
    handle->next_free = acre__soft.free_streams;
    acre__soft.free_streams = handle;
}

/* Frees the stream and drops its queued operations. An event whose recording is dropped counts as
 * done, because streams of other devices may wait for it. */
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
        stream_leave_capture(stream);
    if (stream->handle)
        acre__soft_stream_handle_give(stream->handle);
    acre__soft_clock_slot_give(stream);
    acre__soft_past_free(&stream->past);
    free(stream);
}

/* ---- lookups ---- */

/* Returns the thread's default stream in the context; NULL: it has none yet. */
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
    const struct soft_stream_handle *found =
        acre__tree_entry(acre__tree_find(&acre__soft.stream_handles, (uintptr_t)handle),
                         struct soft_stream_handle, node);
    if (!found || !found->stream)
        return CUDA_ERROR_INVALID_HANDLE; /* the real driver may crash here */
    *out = found->stream;
    const struct CUctx_st *ctx = (*out)->ctx;
    return ctx->is_ending ? CUDA_ERROR_CONTEXT_IS_DESTROYED : ctx->lost;
}

CUresult acre__soft_stream_find(CUstream handle, struct soft_stream **out) {
    CUresult result = acre__soft_stream_locate(handle, out);
    if (result)
        return result;
    return (*out)->ctx == acre__soft_ctx_now() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
