/* Streams, their callbacks and captures, and events.
 *
 * Handles are the driver's, so a program may use both APIs. No state, no locks. */
#include <stdlib.h>

#include "runtime_state.h"

/* ---- streams ---- */

cudaError_t acre__runtime_cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags,
                                                       int priority) {
    cudaError_t error = stream ? acre__runtime_context() : cudaErrorInvalidValue;
    return error ? error : acre__runtime_error(cuStreamCreateWithPriority(stream, flags, priority));
}

cudaError_t acre__runtime_cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags) {
    cudaError_t error = stream ? acre__runtime_context() : cudaErrorInvalidValue;
    return error ? error : acre__runtime_error(cuStreamCreate(stream, flags));
}

cudaError_t acre__runtime_cudaStreamCreate(cudaStream_t *stream) {
    return acre__runtime_cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t acre__runtime_cudaStreamDestroy(cudaStream_t stream) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuStreamDestroy_v2(stream));
}

cudaError_t acre__runtime_cudaStreamSynchronize(cudaStream_t stream) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuStreamSynchronize(runtime_stream(stream)));
}

cudaError_t acre__runtime_cudaStreamQuery(cudaStream_t stream) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuStreamQuery(runtime_stream(stream)));
}

cudaError_t acre__runtime_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                              unsigned int flags) {
    cudaError_t error = acre__runtime_context();
    return error ? error
                 : acre__runtime_error(cuStreamWaitEvent(runtime_stream(stream), event, flags));
}

cudaError_t acre__runtime_cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags) {
    cudaError_t error = flags ? acre__runtime_context() : cudaErrorInvalidValue;
    return error ? error : acre__runtime_error(cuStreamGetFlags(runtime_stream(stream), flags));
}

cudaError_t acre__runtime_cudaStreamGetPriority(cudaStream_t stream, int *priority) {
    cudaError_t error = priority ? acre__runtime_context() : cudaErrorInvalidValue;
    return error ? error
                 : acre__runtime_error(cuStreamGetPriority(runtime_stream(stream), priority));
}

cudaError_t acre__runtime_cudaStreamGetId(cudaStream_t stream, unsigned long long *id) {
    cudaError_t error = id ? acre__runtime_context() : cudaErrorInvalidValue;
    return error ? error : acre__runtime_error(cuStreamGetId(runtime_stream(stream), id));
}

cudaError_t acre__runtime_cudaStreamGetDevice(cudaStream_t stream, int *device) {
    cudaError_t error = device ? acre__runtime_context() : cudaErrorInvalidValue;
    return error ? error : acre__runtime_error(cuStreamGetDevice(runtime_stream(stream), device));
}

/* ---- host functions and callbacks ---- */

cudaError_t acre__runtime_cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                             void *user_data) {
    cudaError_t error = acre__runtime_context();
    return error
               ? error
               : acre__runtime_error(cuLaunchHostFunc(runtime_stream(stream), function, user_data));
}

/* The driver passes a driver code to a callback, the runtime a runtime code. */
struct stream_callback {
    cudaStreamCallback_t function;
    void *user_data;
};

static void stream_call_back(CUstream stream, CUresult status, void *argument) {
    struct stream_callback callback = *(struct stream_callback *)argument;
    free(argument);
    callback.function(stream, acre__runtime_error(status), callback.user_data);
}

cudaError_t acre__runtime_cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                                void *user_data, unsigned int flags) {
    cudaError_t error = callback ? acre__runtime_context() : cudaErrorInvalidValue;
    if (error)
        return error;
    struct stream_callback *kept = malloc(sizeof *kept);
    if (!kept)
        return cudaErrorMemoryAllocation;
    *kept = (struct stream_callback){callback, user_data};
    error = acre__runtime_error(
        cuStreamAddCallback(runtime_stream(stream), stream_call_back, kept, flags));
    if (error)
        free(kept);
    return error;
}

/* ---- captures ---- */

cudaError_t acre__runtime_cudaStreamBeginCapture(cudaStream_t stream,
                                                 enum cudaStreamCaptureMode mode) {
    cudaError_t error = acre__runtime_context();
    return error ? error
                 : acre__runtime_error(
                       cuStreamBeginCapture_v2(runtime_stream(stream), (CUstreamCaptureMode)mode));
}

cudaError_t acre__runtime_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    cudaError_t error = acre__runtime_context();
    CUgraph made = NULL;
    if (error)
        return error;
    error = acre__runtime_error(cuStreamEndCapture(runtime_stream(stream), graph ? graph : &made));
    if (made) /* the caller passed no output */
        (void)cuGraphDestroy(made);
    return error;
}

cudaError_t acre__runtime_cudaStreamIsCapturing(cudaStream_t stream,
                                                enum cudaStreamCaptureStatus *status) {
    CUstreamCaptureStatus found = CU_STREAM_CAPTURE_STATUS_NONE;
    cudaError_t error = status ? acre__runtime_context() : cudaErrorInvalidValue;
    if (!error)
        error = acre__runtime_error(cuStreamIsCapturing(runtime_stream(stream), &found));
    if (!error)
        *status = (enum cudaStreamCaptureStatus)found;
    return error;
}

cudaError_t acre__runtime_cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    cudaError_t error = mode ? acre__runtime_start() : cudaErrorInvalidValue;
    if (error)
        return error;
    CUstreamCaptureMode exchanged = (CUstreamCaptureMode)*mode;
    error = acre__runtime_error(cuThreadExchangeStreamCaptureMode(&exchanged));
    if (!error)
        *mode = (enum cudaStreamCaptureMode)exchanged;
    return error;
}

cudaError_t acre__runtime_cudaGraphDestroy(cudaGraph_t graph) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuGraphDestroy(graph));
}

/* ---- events ---- */

cudaError_t acre__runtime_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
    cudaError_t error = event ? acre__runtime_context() : cudaErrorInvalidValue;
    return error ? error : acre__runtime_error(cuEventCreate(event, flags));
}

cudaError_t acre__runtime_cudaEventCreate(cudaEvent_t *event) {
    return acre__runtime_cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t acre__runtime_cudaEventDestroy(cudaEvent_t event) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuEventDestroy_v2(event));
}

cudaError_t acre__runtime_cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuEventRecord(event, runtime_stream(stream)));
}

cudaError_t acre__runtime_cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                   unsigned int flags) {
    cudaError_t error = acre__runtime_context();
    return error
               ? error
               : acre__runtime_error(cuEventRecordWithFlags(event, runtime_stream(stream), flags));
}

cudaError_t acre__runtime_cudaEventQuery(cudaEvent_t event) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuEventQuery(event));
}

cudaError_t acre__runtime_cudaEventSynchronize(cudaEvent_t event) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuEventSynchronize(event));
}

cudaError_t acre__runtime_cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuEventElapsedTime(ms, start, end));
}
