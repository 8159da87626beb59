/* The driver calls for streams: creation and destruction, attributes, host functions, query and
 * sync. Stream objects are in soft_stream.c, queueing in soft_queue.c, events in soft_event.c. */
#include <stdlib.h>

#include "soft/soft_api.h"
#include "soft/soft_capture.h"
#include "soft/soft_clock.h"
#include "soft/soft_enter.h"
#include "soft/soft_lag.h"
#include "soft/soft_object.h"
#include "soft/soft_op.h"
#include "soft/soft_pool.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_queue.h"
#include "soft/soft_run.h"
#include "soft/soft_state.h"
#include "soft/soft_stream.h"
#include "soft/soft_thread.h"

/* Returns a handle for a new stream: the one that was released last, if there is one. */
static struct soft_stream_handle *stream_handle_take(void) {
    struct soft_stream_handle *handle = acre__soft.free_streams;
    if (handle) {
        acre__soft.free_streams = handle->next_free;
        return handle;
    }
    if (!(handle = calloc(1, sizeof *handle)))
        return NULL;
    handle->node.key = SOFT_STREAM_HANDLES + SOFT_HANDLE_STEP * acre__soft.stream_handles.count;
    acre__tree_insert(&acre__soft.stream_handles, &handle->node);
    return handle;
}

CUresult acre__soft_cuStreamCreateWithPriority(CUstream *stream_out, unsigned flags, int priority) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!stream_out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_stream_handle *handle = stream_handle_take();
    if (!handle)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    struct soft_stream *stream;
    if ((result = acre__soft_stream_make(acre__soft_ctx_now(), flags, &stream))) {
        acre__soft_stream_handle_give(handle);
        return acre__soft_leave(result);
    }
    stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    stream->handle = handle;
    handle->stream = stream;
    *stream_out = (CUstream)(uintptr_t)handle->node.key;
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
    acre__soft_stream_handle_give(stream->handle);
    stream->handle = NULL;
    acre__soft_stream_free_if_over(stream);
    acre__soft_graph_memory_settle();
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

/* ---- host functions ---- */

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

/* The older form of cuLaunchHostFunc: cannot be captured, and is called with the error when the
 * context is lost. */
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

/* Begins a query or sync of a stream. Both invalidate a capture. The legacy stream stands for the
 * blocking streams, too. */
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
