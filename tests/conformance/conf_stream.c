/*
 * Conformance: streams and events, one call at a time. Ordering is in conf_order.c.
 */
#include "conformance.h"

/* ---- streams --------------------------------------------------------------------------------- */

static void stream_say_flags(const char *label, CUstream stream) {
    unsigned int flags = 99;
    CUresult code = conf.drv->cuStreamGetFlags(stream, &flags);

    conf_value(label, code, flags);
}

static void stream_create(void) {
    CUstream stream = NULL;
    CUcontext ctx = NULL;

    conf_code("default", conf.drv->cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    stream_say_flags("flags", stream);
    conf_code("context", conf.drv->cuStreamGetCtx(stream, &ctx));
    conf_fact("ours", ctx == conf.ctx);
    conf_code("query", conf.drv->cuStreamQuery(stream));
    conf_code("sync", conf.drv->cuStreamSynchronize(stream));
    conf_code("destroy", conf.drv->cuStreamDestroy(stream));
    conf_code("non-blocking", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    stream_say_flags("flags", stream);
    conf_code("destroy", conf.drv->cuStreamDestroy(stream));
    conf_code("flags-2", conf.drv->cuStreamCreate(&stream, 2));
    conf_code("flags-big", conf.drv->cuStreamCreate(&stream, 0x8000));
}

static void stream_priorities(void) {
    static const int asked[] = {0, -1, -1000, 1000};
    static const char *const labels[] = {"0", "minus-1", "far-below", "far-above"};
    int least = 99, greatest = 99, i;
    CUstream stream = NULL;

    conf_code("range", conf.drv->cuCtxGetStreamPriorityRange(&least, &greatest));
    conf_fact("least", least);
    conf_fact("greatest-below", greatest < least);
    for (i = 0; i < 4; i++)
        if (conf_code(labels[i], conf.drv->cuStreamCreateWithPriority(
                                     &stream, CU_STREAM_NON_BLOCKING, asked[i])) == CUDA_SUCCESS)
            conf_need("destroy", conf.drv->cuStreamDestroy(stream));
    conf_code("bad-flags", conf.drv->cuStreamCreateWithPriority(&stream, 8, 0));
}

static void stream_say_priority(const char *label, CUstream stream) {
    int priority = 99;
    CUresult code = conf.drv->cuStreamGetPriority(stream, &priority);

    conf_value(label, code, priority);
}

static void stream_say_device(const char *label, CUstream stream) {
    CUdevice dev = 99;
    CUresult code = conf.drv->cuStreamGetDevice(stream, &dev);

    conf_value(label, code, dev);
}

/* A priority outside the range is clamped. */
static void stream_answers(void) {
    CUstream low = NULL, high = NULL;
    int least = 99, greatest = 99, priority = 99;

    conf.drv->cuCtxGetStreamPriorityRange(&least, &greatest);
    if (conf_need("stream", conf.drv->cuStreamCreateWithPriority(&low, 0, 1000)) != 0 ||
        conf_need("stream", conf.drv->cuStreamCreateWithPriority(&high, 0, -1000)) != 0)
        return;
    stream_say_priority("low", low);
    conf_code("high", conf.drv->cuStreamGetPriority(high, &priority));
    conf_fact("is-greatest", priority == greatest);
    stream_say_priority("null", NULL);
    stream_say_priority("legacy", CU_STREAM_LEGACY);
    stream_say_priority("per-thread", CU_STREAM_PER_THREAD);
    stream_say_device("device", low);
    stream_say_device("device-null", NULL);
    stream_say_device("device-per-thread", CU_STREAM_PER_THREAD);
    conf_need("destroy", conf.drv->cuStreamDestroy(low));
    conf_need("destroy", conf.drv->cuStreamDestroy(high));
}

static void stream_priority_null(void) {
    conf_code("priority", conf.drv->cuStreamGetPriority(NULL, NULL));
}

static void stream_device_null(void) {
    conf_code("device", conf.drv->cuStreamGetDevice(NULL, NULL));
}

struct stream_seen {
    CUstream stream;
    CUresult status, inside;
    int calls;
};

static void stream_called(CUstream stream, CUresult status, void *arg) {
    struct stream_seen *seen = arg;
    CUdeviceptr ptr = 0;

    seen->stream = stream;
    seen->status = status;
    seen->inside = conf.drv->cuMemAlloc(&ptr, 4096);
    seen->calls++;
}

static void stream_callback(void) {
    struct stream_seen seen = {NULL, CUDA_ERROR_UNKNOWN, CUDA_SUCCESS, 0};
    CUstream stream = NULL;

    if (conf_need("stream", conf.drv->cuStreamCreate(&stream, 0)) != 0)
        return;
    conf_code("null-function", conf.drv->cuStreamAddCallback(stream, NULL, &seen, 0));
    conf_code("flags", conf.drv->cuStreamAddCallback(stream, stream_called, &seen, 1));
    conf_code("add", conf.drv->cuStreamAddCallback(stream, stream_called, &seen, 0));
    conf_code("sync", conf.drv->cuStreamSynchronize(stream));
    conf_fact("calls", seen.calls);
    conf_fact("same-stream", seen.stream == stream);
    conf_code("status", seen.status);
    conf_code("inside", seen.inside);
    conf_code("legacy", conf.drv->cuStreamAddCallback(NULL, stream_called, &seen, 0));
    conf_code("sync", conf.drv->cuStreamSynchronize(NULL));
    conf_fact("calls", seen.calls);
    conf_fact("null-stream", seen.stream == NULL);
    conf_need("destroy", conf.drv->cuStreamDestroy(stream));
}

/* The default streams have no created handle but support the same queries. */
static void stream_default(void) {
    CUcontext ctx = NULL;

    conf_code("query", conf.drv->cuStreamQuery(NULL));
    conf_code("query-legacy", conf.drv->cuStreamQuery(CU_STREAM_LEGACY));
    conf_code("query-per-thread", conf.drv->cuStreamQuery(CU_STREAM_PER_THREAD));
    conf_code("sync", conf.drv->cuStreamSynchronize(NULL));
    conf_code("sync-legacy", conf.drv->cuStreamSynchronize(CU_STREAM_LEGACY));
    conf_code("sync-per-thread", conf.drv->cuStreamSynchronize(CU_STREAM_PER_THREAD));
    stream_say_flags("flags", NULL);
    stream_say_flags("flags-legacy", CU_STREAM_LEGACY);
    stream_say_flags("flags-per-thread", CU_STREAM_PER_THREAD);
    conf_code("context", conf.drv->cuStreamGetCtx(NULL, &ctx));
    conf_fact("ours", ctx == conf.ctx);
    conf_code("destroy", conf.drv->cuStreamDestroy(NULL));
}

static unsigned long long stream_id(CUstream stream) {
    unsigned long long id = 0;

    conf_need("id", conf.drv->cuStreamGetId(stream, &id));
    return id;
}

static void stream_ids(void) {
    CUstream first = NULL, second = NULL;
    unsigned long long id;

    if (conf_need("stream", conf.drv->cuStreamCreate(&first, 0)) != 0 ||
        conf_need("stream", conf.drv->cuStreamCreate(&second, 0)) != 0)
        return;
    conf_fact("stable", stream_id(first) == stream_id(first));
    conf_fact("differ", stream_id(first) != stream_id(second));
    conf_fact("null-is-legacy", stream_id(NULL) == stream_id(CU_STREAM_LEGACY));
    conf_fact("per-thread-differs", stream_id(CU_STREAM_PER_THREAD) != stream_id(NULL));
    conf_fact("others-differ", stream_id(first) != stream_id(NULL));
    id = stream_id(first);
    conf_need("destroy", conf.drv->cuStreamDestroy(first));
    conf_need("stream", conf.drv->cuStreamCreate(&first, 0));
    conf_fact("new-stream-new-id", stream_id(first) != id);
    conf_need("destroy", conf.drv->cuStreamDestroy(first));
    conf_need("destroy", conf.drv->cuStreamDestroy(second));
}

/* A stream destroyed with work in flight: the work completes, and a new stream has another id. */
static void stream_destroy_busy(void) {
    struct conf_gate gate;
    CUstream first = NULL, second = NULL;
    unsigned long long id;
    CUdeviceptr ptr = 0;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0 ||
        conf_need("stream", conf.drv->cuStreamCreate(&first, CU_STREAM_NON_BLOCKING)) != 0)
        return;
    conf_need("fill", conf.drv->cuMemsetD32(ptr, 1, 1));
    conf_need("sync", conf.drv->cuCtxSynchronize());
    id = stream_id(first);
    if (conf_gate_close(&gate, first) == 0) {
        conf_code("fill", conf.drv->cuMemsetD32Async(ptr, 2, 1, first));
        conf_code("destroy", conf.drv->cuStreamDestroy(first));
        conf_code("create", conf.drv->cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
        conf_fact("new-id", stream_id(second) != id);
        conf_code("query-new", conf.drv->cuStreamQuery(second));
        conf_fact("gate-holds", conf_gate_holds(&gate));
        conf_gate_open(&gate);
        conf_code("sync", conf.drv->cuCtxSynchronize());
        conf_fact("done", conf_peek(ptr));
        conf_need("destroy", conf.drv->cuStreamDestroy(second));
    }
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void stream_host_function_count(void *arg) {
    atomic_fetch_add((_Atomic int *)arg, 1);
}

static void stream_host_function(void) {
    CUstream stream = NULL;
    _Atomic int ran = 0;

    if (conf_need("stream", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) != 0)
        return;
    conf_code("null-function", conf.drv->cuLaunchHostFunc(stream, NULL, NULL));
    conf_code("launch", conf.drv->cuLaunchHostFunc(stream, stream_host_function_count, &ran));
    conf_code("launch", conf.drv->cuLaunchHostFunc(stream, stream_host_function_count, &ran));
    conf_code("sync", conf.drv->cuStreamSynchronize(stream));
    conf_fact("ran", ran);
    conf_code("legacy", conf.drv->cuLaunchHostFunc(NULL, stream_host_function_count, &ran));
    conf_code("sync", conf.drv->cuStreamSynchronize(NULL));
    conf_fact("ran", ran);
    conf_need("destroy", conf.drv->cuStreamDestroy(stream));
}

static const struct conf_case stream_cases[] = {
    {"create", stream_create, 0},
    {"priorities", stream_priorities, 0},
    {"default", stream_default, 0},
    {"ids", stream_ids, 0},
    {"destroy-busy", stream_destroy_busy, 0},
    {"host-function", stream_host_function, 0},
    {"answers", stream_answers, 0},
    {"priority-null", stream_priority_null, CONF_ALONE},
    {"device-null", stream_device_null, CONF_ALONE},
    {"callback", stream_callback, 0},
};
CONF_GROUP(stream, 0);

/* ---- events ---------------------------------------------------------------------------------- */

static void event_create(void) {
    static const unsigned int flags[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 64};
    static const char *const labels[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "64"};
    CUevent event = NULL;
    int i;

    for (i = 0; i < 10; i++)
        if (conf_code(labels[i], conf.drv->cuEventCreate(&event, flags[i])) == CUDA_SUCCESS)
            conf_need("destroy", conf.drv->cuEventDestroy(event));
}

static void event_unrecorded(void) {
    CUevent first = NULL, second = NULL;
    float ms = -1;

    if (conf_need("event", conf.drv->cuEventCreate(&first, 0)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&second, 0)) != 0)
        return;
    conf_code("query", conf.drv->cuEventQuery(first));
    conf_code("sync", conf.drv->cuEventSynchronize(first));
    conf_code("wait", conf.drv->cuStreamWaitEvent(NULL, first, 0));
    conf_code("elapsed", conf.drv->cuEventElapsedTime(&ms, first, second));
    conf_need("record", conf.drv->cuEventRecord(first, NULL));
    conf_code("elapsed-one", conf.drv->cuEventElapsedTime(&ms, first, second));
    conf_need("destroy", conf.drv->cuEventDestroy(first));
    conf_need("destroy", conf.drv->cuEventDestroy(second));
}

static void event_record(void) {
    CUstream stream = NULL;
    CUevent event = NULL;

    if (conf_need("event", conf.drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)) != 0 ||
        conf_need("stream", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) != 0)
        return;
    conf_code("null-stream", conf.drv->cuEventRecord(event, NULL));
    conf_code("sync", conf.drv->cuEventSynchronize(event));
    conf_code("query", conf.drv->cuEventQuery(event));
    conf_code("legacy", conf.drv->cuEventRecord(event, CU_STREAM_LEGACY));
    conf_code("per-thread", conf.drv->cuEventRecord(event, CU_STREAM_PER_THREAD));
    conf_code("stream", conf.drv->cuEventRecord(event, stream));
    conf_code("wait", conf.drv->cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT));
    conf_code("wait-flags", conf.drv->cuStreamWaitEvent(stream, event, 16));
    conf_code("sync", conf.drv->cuEventSynchronize(event));
    conf_need("destroy", conf.drv->cuStreamDestroy(stream));
    conf_code("query-stream-gone", conf.drv->cuEventQuery(event));
    conf_need("destroy", conf.drv->cuEventDestroy(event));
}

static void event_null(void) {
    float ms = -1;

    conf_code("record", conf.drv->cuEventRecord(NULL, NULL));
    conf_code("query", conf.drv->cuEventQuery(NULL));
    conf_code("sync", conf.drv->cuEventSynchronize(NULL));
    conf_code("wait", conf.drv->cuStreamWaitEvent(NULL, NULL, 0));
    conf_code("elapsed", conf.drv->cuEventElapsedTime(&ms, NULL, NULL));
    conf_code("destroy", conf.drv->cuEventDestroy(NULL));
    conf_code("context-record", conf.drv->cuCtxRecordEvent(conf.ctx, NULL));
}

static void event_elapsed(void) {
    CUevent begin = NULL, end = NULL, mute = NULL;
    float ms = -1;

    if (conf_need("event", conf.drv->cuEventCreate(&begin, 0)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&end, 0)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&mute, CU_EVENT_DISABLE_TIMING)) != 0)
        return;
    conf_need("record", conf.drv->cuEventRecord(begin, NULL));
    conf_need("record", conf.drv->cuEventRecord(end, NULL));
    conf_need("record", conf.drv->cuEventRecord(mute, NULL));
    conf_need("sync", conf.drv->cuCtxSynchronize());
    conf_code("elapsed", conf.drv->cuEventElapsedTime(&ms, begin, end));
    conf_fact("not-negative", ms >= 0);
    conf_code("backwards", conf.drv->cuEventElapsedTime(&ms, end, begin));
    conf_fact("not-positive", ms <= 0);
    conf_code("same", conf.drv->cuEventElapsedTime(&ms, end, end));
    conf_fact("zero", ms == 0);
    conf_code("mute-begin", conf.drv->cuEventElapsedTime(&ms, mute, end));
    conf_code("mute-end", conf.drv->cuEventElapsedTime(&ms, begin, mute));
    conf_code("null-output", conf.drv->cuEventElapsedTime(NULL, begin, end));
    conf_need("destroy", conf.drv->cuEventDestroy(begin));
    conf_need("destroy", conf.drv->cuEventDestroy(end));
    conf_need("destroy", conf.drv->cuEventDestroy(mute));
}

static void event_pending(void) {
    struct conf_gate gate;
    CUstream stream = NULL;
    CUevent begin = NULL, end = NULL;
    float ms = -1;

    if (conf_need("stream", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&begin, 0)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&end, 0)) != 0)
        return;
    conf_need("record", conf.drv->cuEventRecord(begin, stream));
    if (conf_gate_close(&gate, stream) == 0) {
        conf_code("begin", conf.drv->cuEventQuery(begin));
        conf_code("record", conf.drv->cuEventRecord(end, stream));
        conf_code("query", conf.drv->cuEventQuery(end));
        conf_code("stream-query", conf.drv->cuStreamQuery(stream));
        conf_code("elapsed", conf.drv->cuEventElapsedTime(&ms, begin, end));
        conf_code("destroy", conf.drv->cuEventDestroy(end));
        conf_fact("gate-holds", conf_gate_holds(&gate));
        conf_gate_open(&gate);
    }
    conf_code("sync", conf.drv->cuStreamSynchronize(stream));
    conf_need("destroy", conf.drv->cuEventDestroy(begin));
    conf_need("destroy", conf.drv->cuStreamDestroy(stream));
}

/* An event for all streams of the context, including non-blocking ones. */
static void event_context(void) {
    struct conf_gate gate;
    CUstream stream = NULL;
    CUevent event = NULL;

    if (conf_need("stream", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)) != 0)
        return;
    conf_code("idle", conf.drv->cuCtxRecordEvent(conf.ctx, event));
    conf_code("sync", conf.drv->cuEventSynchronize(event));
    if (conf_gate_close(&gate, stream) == 0) {
        conf_code("busy", conf.drv->cuCtxRecordEvent(conf.ctx, event));
        conf_code("query", conf.drv->cuEventQuery(event));
        conf_need("destroy", conf.drv->cuStreamDestroy(stream));
        conf_code("stream-destroyed", conf.drv->cuCtxRecordEvent(conf.ctx, event));
        conf_code("query", conf.drv->cuEventQuery(event));
        conf_fact("gate-holds", conf_gate_holds(&gate));
        conf_gate_open(&gate);
    }
    conf_code("sync", conf.drv->cuEventSynchronize(event));
    conf_code("query", conf.drv->cuEventQuery(event));
    conf_need("destroy", conf.drv->cuEventDestroy(event));
}

static void event_record_flags(void) {
    CUstream stream = NULL;
    CUevent event = NULL;
    CUgraph graph = NULL;

    if (conf_need("stream", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&event, 0)) != 0)
        return;
    conf_code("none", conf.drv->cuEventRecordWithFlags(event, stream, 0));
    conf_code("sync", conf.drv->cuEventSynchronize(event));
    conf_code("2", conf.drv->cuEventRecordWithFlags(event, stream, 2));
    conf_code("null-event", conf.drv->cuEventRecordWithFlags(NULL, stream, 0));
    conf_code("external",
              conf.drv->cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL));
    conf_code("begin", conf.drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    conf_code("external",
              conf.drv->cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL));
    conf_code("end", conf.drv->cuStreamEndCapture(stream, &graph));
    conf_code("query", conf.drv->cuEventQuery(event));
    if (graph != NULL)
        conf_need("graph", conf.drv->cuGraphDestroy(graph));
    conf_need("destroy", conf.drv->cuEventDestroy(event));
    conf_need("destroy", conf.drv->cuStreamDestroy(stream));
}

static const struct conf_case event_cases[] = {
    {"create", event_create, 0},      {"unrecorded", event_unrecorded, 0},
    {"record", event_record, 0},      {"elapsed", event_elapsed, 0},
    {"pending", event_pending, 0},    {"context", event_context, 0},
    {"null", event_null, CONF_ALONE}, {"record-flags", event_record_flags, 0},
};
CONF_GROUP(event, 0);
