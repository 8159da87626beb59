/* Streams, events, host functions in stream order, and captures. */
#include "runtime_expect.h"

/* ---- streams ---- */

TEST(stream_is_made_with_its_flags) {
    cudaStream_t stream;
    unsigned flags = 9;
    unsigned long long id = 0, other = 0;
    int device = -1, priority = 9, least = 9, greatest = 9;
    ok(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    assert_true(greatest < least);
    ok(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    ok(cudaStreamGetFlags(stream, &flags));
    assert_int_equal(flags, cudaStreamNonBlocking);
    ok(cudaStreamGetPriority(stream, &priority));
    assert_int_equal(priority, greatest);
    ok(cudaStreamGetDevice(stream, &device));
    assert_int_equal(device, 0);
    ok(cudaStreamGetId(stream, &id));
    ok(cudaStreamGetId(NULL, &other));
    assert_int_not_equal(id, other);
    ok(cudaStreamQuery(stream));
    ok(cudaStreamSynchronize(stream));
    ok(cudaStreamDestroy(stream));
    ok(cudaStreamCreate(&stream));
    ok(cudaStreamGetFlags(stream, &flags));
    assert_int_equal(flags, cudaStreamDefault);
    ok(cudaStreamDestroy(stream));
}

TEST(stream_bad_arguments_are_refused) {
    cudaStream_t stream;
    expect(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 2));
    expect(cudaErrorInvalidValue, cudaStreamCreateWithPriority(&stream, 4, 0));
    expect(cudaErrorInvalidResourceHandle, cudaStreamDestroy(NULL));
    expect(cudaErrorInvalidValue, cudaStreamCreate(NULL));
    expect(cudaErrorInvalidValue, cudaStreamCreateWithFlags(NULL, 0));
    expect(cudaErrorInvalidValue, cudaStreamCreateWithPriority(NULL, 0, 0));
    expect(cudaErrorInvalidValue, cudaStreamGetFlags(NULL, NULL));
    expect(cudaErrorInvalidValue, cudaStreamGetPriority(NULL, NULL));
    expect(cudaErrorInvalidValue, cudaStreamGetId(NULL, NULL));
    if (on_standin())
        expect(cudaErrorInvalidValue, cudaStreamGetDevice(NULL, NULL));
}

TEST(stream_default_ones_have_names) {
    unsigned long long null = 0, legacy = 0, per_thread = 0;
    ok(cudaStreamGetId(NULL, &null));
    ok(cudaStreamGetId(cudaStreamLegacy, &legacy));
    ok(cudaStreamGetId(cudaStreamPerThread, &per_thread));
    assert_int_equal(null, legacy);
    assert_int_not_equal(null, per_thread);
    ok(cudaStreamSynchronize(NULL));
    ok(cudaStreamSynchronize(cudaStreamLegacy));
    ok(cudaStreamSynchronize(cudaStreamPerThread));
    ok(cudaStreamQuery(NULL));
}

TEST(stream_legacy_waits_for_blocking_ones) {
    struct gate gate;
    cudaStream_t blocking, apart;
    char *p = device_block(64);
    ok(cudaStreamCreate(&blocking));
    ok(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    gate_close(&gate, blocking);
    ok(cudaMemsetAsync(p, 1, 64, NULL));
    expect(cudaErrorNotReady, cudaStreamQuery(NULL));
    ok(cudaMemsetAsync(p, 2, 64, apart));
    ok(cudaStreamSynchronize(apart));
    gate_open(&gate);
    ok(cudaStreamSynchronize(NULL));
    assert_int_equal(device_byte(p), 1);
    ok(cudaStreamDestroy(blocking));
    ok(cudaStreamDestroy(apart));
    ok(cudaFree(p));
}

TEST(stream_waits_for_an_event) {
    struct gate gate;
    cudaStream_t first, second;
    cudaEvent_t event;
    char *p = device_block(64);
    ok(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    ok(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    gate_close(&gate, first);
    ok(cudaMemsetAsync(p, 1, 64, first));
    ok(cudaEventRecord(event, first));
    ok(cudaStreamWaitEvent(second, event, cudaEventWaitDefault));
    ok(cudaMemsetAsync(p, 2, 64, second));
    expect(cudaErrorNotReady, cudaStreamQuery(second));
    expect(cudaErrorNotReady, cudaEventQuery(event));
    gate_open(&gate);
    ok(cudaStreamSynchronize(second));
    ok(cudaEventSynchronize(event));
    ok(cudaEventQuery(event));
    assert_int_equal(device_byte(p), 2);
    expect(cudaErrorInvalidValue, cudaStreamWaitEvent(second, event, 8));
    expect(cudaErrorInvalidResourceHandle, cudaStreamWaitEvent(second, NULL, 0));
    ok(cudaEventDestroy(event));
    ok(cudaStreamDestroy(first));
    ok(cudaStreamDestroy(second));
    ok(cudaFree(p));
}

/* ---- events ---- */

TEST(event_flags) {
    cudaEvent_t event;
    for (unsigned flags = 0; flags < 9; flags++) {
        /* An event for other processes must not have timing. */
        int is_good = flags < 4 || flags == 6 || flags == 7;
        if (!is_good) {
            expect(cudaErrorInvalidValue, cudaEventCreateWithFlags(&event, flags));
            continue;
        }
        ok(cudaEventCreateWithFlags(&event, flags));
        ok(cudaEventDestroy(event));
    }
    expect(cudaErrorInvalidValue, cudaEventCreate(NULL));
    expect(cudaErrorInvalidValue, cudaEventCreateWithFlags(NULL, 0));
}

TEST(event_keeps_times) {
    cudaEvent_t start, end, mute;
    float ms = -1;
    ok(cudaEventCreate(&start));
    ok(cudaEventCreate(&end));
    ok(cudaEventCreateWithFlags(&mute, cudaEventDisableTiming));
    expect(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, end));
    ok(cudaEventRecord(start, NULL));
    ok(cudaEventRecordWithFlags(end, NULL, cudaEventRecordDefault));
    ok(cudaEventRecord(mute, NULL));
    ok(cudaEventSynchronize(mute));
    ok(cudaEventElapsedTime(&ms, start, end));
    assert_true(ms >= 0);
    expect(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, mute));
    ok(cudaEventDestroy(start));
    ok(cudaEventDestroy(end));
    ok(cudaEventDestroy(mute));
}

TEST(event_pending_is_not_ready) {
    struct gate gate;
    cudaStream_t stream;
    cudaEvent_t start, end;
    float ms;
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ok(cudaEventCreate(&start));
    ok(cudaEventCreate(&end));
    ok(cudaEventQuery(end)); /* never recorded: nothing is outstanding */
    ok(cudaEventRecord(start, stream));
    gate_close(&gate, stream);
    ok(cudaEventRecord(end, stream));
    expect(cudaErrorNotReady, cudaEventQuery(end));
    expect(cudaErrorNotReady, cudaEventElapsedTime(&ms, start, end));
    gate_open(&gate);
    ok(cudaEventSynchronize(end));
    ok(cudaEventElapsedTime(&ms, start, end));
    ok(cudaEventDestroy(start));
    ok(cudaEventDestroy(end));
    ok(cudaStreamDestroy(stream));
}

TEST(event_none_is_refused) {
    float ms;
    expect(cudaErrorInvalidResourceHandle, cudaEventRecord(NULL, NULL));
    expect(cudaErrorInvalidResourceHandle, cudaEventQuery(NULL));
    expect(cudaErrorInvalidResourceHandle, cudaEventSynchronize(NULL));
    expect(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, NULL, NULL));
    expect(cudaErrorInvalidResourceHandle, cudaEventDestroy(NULL));
}

/* ---- host functions ---- */

struct ran {
    _Atomic int count;
    cudaError_t inside, status;
    cudaStream_t stream;
};

/* A host function must not call the runtime, which returns an error. */
static void ran_host(void *argument) {
    struct ran *ran = argument;
    void *p = NULL;
    ran->inside = cudaMalloc(&p, 16);
    atomic_fetch_add(&ran->count, 1);
}

static void CUDART_CB ran_callback(cudaStream_t stream, cudaError_t status, void *argument) {
    struct ran *ran = argument;
    ran->stream = stream;
    ran->status = status;
    atomic_fetch_add(&ran->count, 1);
}

TEST(stream_runs_functions_of_the_program) {
    struct ran ran = {.inside = cudaSuccess, .status = cudaErrorUnknown};
    cudaStream_t stream;
    ok(cudaStreamCreate(&stream));
    ok(cudaLaunchHostFunc(stream, ran_host, &ran));
    ok(cudaStreamSynchronize(stream));
    assert_int_equal(ran.count, 1);
    assert_int_equal(ran.inside, cudaErrorNotPermitted);
    ok(cudaStreamAddCallback(stream, ran_callback, &ran, 0));
    ok(cudaStreamSynchronize(stream));
    assert_int_equal(ran.count, 2);
    assert_int_equal(ran.status, cudaSuccess);
    assert_ptr_equal(ran.stream, stream);
    expect(cudaErrorInvalidValue, cudaLaunchHostFunc(stream, NULL, &ran));
    expect(cudaErrorInvalidValue, cudaStreamAddCallback(stream, NULL, &ran, 0));
    expect(cudaErrorInvalidValue, cudaStreamAddCallback(stream, ran_callback, &ran, 1));
    ok(cudaStreamSynchronize(stream));
    assert_int_equal(ran.count, 2);
    ok(cudaStreamDestroy(stream));
}

/* ---- captures ---- */

TEST(capture_takes_work_and_refuses_waiting) {
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    char *p = device_block(64);
    void *more = NULL;
    ok(cudaMemset(p, 1, 64));
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ok(cudaStreamIsCapturing(stream, &status));
    assert_int_equal(status, cudaStreamCaptureStatusNone);
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    ok(cudaStreamIsCapturing(stream, &status));
    assert_int_equal(status, cudaStreamCaptureStatusActive);
    ok(cudaMemsetAsync(p, 2, 64, stream));
    ok(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, cudaStreamCaptureModeGlobal);
    ok(cudaMalloc(&more, 64));
    ok(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, cudaStreamCaptureModeRelaxed);
    ok(cudaStreamEndCapture(stream, &graph));
    assert_non_null(graph);
    ok(cudaGraphDestroy(graph));
    assert_int_equal(device_byte(p), 1);
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    expect(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
    expect(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    expect(cudaErrorStreamCaptureUnsupported,
           cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal));
    expect(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
    expect(cudaErrorIllegalState, cudaStreamEndCapture(stream, NULL));
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    ok(cudaStreamEndCapture(stream, NULL)); /* the caller need not want the graph */
    expect(cudaErrorInvalidValue, cudaStreamIsCapturing(stream, NULL));
    if (on_standin())
        expect(cudaErrorInvalidValue, cudaThreadExchangeStreamCaptureMode(NULL));
    ok(cudaFree(more));
    ok(cudaFree(p));
    ok(cudaStreamDestroy(stream));
}

int main(void) {
    return tests_run("runtime_stream");
}
