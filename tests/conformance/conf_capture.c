/*
 * Conformance: stream capture as a state, and the result of each call during a capture.
 *
 * Most calls have one line with three words, one per capture mode: "mode=code of the call/state of
 * the capture after it/code of ending it/graph or none".
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "conformance.h"

static const char *const capture_modes[] = {"global", "thread-local", "relaxed"};
static const char *const capture_states[] = {"none", "active", "invalidated"};

/* Created again for each try, since a call may destroy one of them. */
static struct {
    CUstream captured, other;
    CUevent done;     /* recorded outside and complete */
    CUevent fresh;    /* not recorded */
    CUdeviceptr ptr;  /* device memory, 0 once freed */
    void *host;       /* pinned memory, NULL once freed */
    CUdeviceptr made; /* allocated by the call, freed after the capture */
    CUgraph graph;    /* another graph, empty; NULL once destroyed */
    CUgraphExec exec; /* of that graph; NULL once destroyed */
    struct conf_range range;
} capture;

static int capture_make(unsigned stream_flags) {
    memset(&capture, 0, sizeof capture);
    if (conf_need("stream", conf.drv->cuStreamCreate(&capture.captured, stream_flags)) != 0 ||
        conf_need("stream", conf.drv->cuStreamCreate(&capture.other, CU_STREAM_NON_BLOCKING)) !=
            0 ||
        conf_need("event", conf.drv->cuEventCreate(&capture.done, CU_EVENT_DISABLE_TIMING)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&capture.fresh, CU_EVENT_DISABLE_TIMING)) != 0 ||
        conf_need("alloc", conf.drv->cuMemAlloc(&capture.ptr, 4096)) != 0 ||
        conf_need("host", conf.drv->cuMemHostAlloc(&capture.host, 4096, 0)) != 0 ||
        conf_need("record", conf.drv->cuEventRecord(capture.done, capture.other)) != 0 ||
        conf_range_make(&capture.range, 2, 1, conf.chunk_bytes) != 0 ||
        conf_need("begin", conf.drv->cuStreamBeginCapture(capture.other,
                                                          CU_STREAM_CAPTURE_MODE_RELAXED)) != 0 ||
        conf_need("end", conf.drv->cuStreamEndCapture(capture.other, &capture.graph)) != 0 ||
        conf_need("exec", conf.drv->cuGraphInstantiateWithFlags(&capture.exec, capture.graph, 0)))
        return -1;
    return conf_need("sync", conf.drv->cuCtxSynchronize());
}

static void capture_drop(void) {
    if (capture.made != 0)
        conf_need("free-made", conf.drv->cuMemFree(capture.made));
    if (capture.ptr != 0)
        conf_need("free", conf.drv->cuMemFree(capture.ptr));
    if (capture.host != NULL)
        conf_need("free-host", conf.drv->cuMemFreeHost(capture.host));
    if (capture.graph != NULL)
        conf_need("graph-destroy", conf.drv->cuGraphDestroy(capture.graph));
    if (capture.exec != NULL)
        conf_need("exec-destroy", conf.drv->cuGraphExecDestroy(capture.exec));
    conf_range_drop(&capture.range);
    conf_need("destroy", conf.drv->cuEventDestroy(capture.done));
    conf_need("destroy", conf.drv->cuEventDestroy(capture.fresh));
    conf_need("destroy", conf.drv->cuStreamDestroy(capture.captured));
    if (capture.other != NULL)
        conf_need("destroy", conf.drv->cuStreamDestroy(capture.other));
}

/* Ends the capture and destroys the graph. Writes the state before, the code and whether there was
 * a graph. */
static void capture_end(char *text, size_t bytes) {
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = NULL;
    const char *word = "?";
    CUresult code = conf.drv->cuStreamIsCapturing(capture.captured, &state);

    if (code == CUDA_SUCCESS && (unsigned)state < 3)
        word = capture_states[state];
    code = conf.drv->cuStreamEndCapture(capture.captured, &graph);
    snprintf(text, bytes, "%s/%s/%s", word, conf_code_word(code), graph != NULL ? "graph" : "none");
    if (graph != NULL)
        conf_need("graph-destroy", conf.drv->cuGraphDestroy(graph));
}

static void capture_try_mode(CUresult (*call)(void), unsigned mode, unsigned stream_flags) {
    char text[200], end[120];
    CUresult code;

    if (capture_make(stream_flags) != 0)
        return;
    if (conf_need("begin", conf.drv->cuStreamBeginCapture(capture.captured,
                                                          (CUstreamCaptureMode)mode)) == 0) {
        code = call();
        capture_end(end, sizeof end);
        snprintf(text, sizeof text, "%s/%s", conf_code_word(code), end);
        conf_word(capture_modes[mode], text);
    }
    capture_drop();
}

static void capture_try(CUresult (*call)(void)) {
    unsigned mode;

    for (mode = 0; mode < 3; mode++)
        capture_try_mode(call, mode, CU_STREAM_NON_BLOCKING);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static CUresult capture_call_alloc(void) {
    CUresult code = conf.drv->cuMemAlloc(&capture.made, 4096);

    if (code != CUDA_SUCCESS)
        capture.made = 0;
    return code;
}

static CUresult capture_call_alloc_exchanged(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult code = conf.drv->cuThreadExchangeStreamCaptureMode(&mode);

    if (code != CUDA_SUCCESS)
        return code;
    code = capture_call_alloc();
    conf_need("exchange-back", conf.drv->cuThreadExchangeStreamCaptureMode(&mode));
    return code;
}

/* On the captured stream both calls become nodes. */
static CUresult capture_call_alloc_async(void) {
    CUdeviceptr ptr = 0;
    CUresult code = conf.drv->cuMemAllocAsync(&ptr, 4096, capture.captured);

    return code != CUDA_SUCCESS ? code : conf.drv->cuMemFreeAsync(ptr, capture.captured);
}

static CUresult capture_call_alloc_async_other(void) {
    CUdeviceptr ptr = 0;
    CUresult code = conf.drv->cuMemAllocAsync(&ptr, 4096, capture.other);

    if (code == CUDA_SUCCESS)
        conf_need("free", conf.drv->cuMemFreeAsync(ptr, capture.other));
    return code;
}

static CUresult capture_call_free(void) {
    CUresult code = conf.drv->cuMemFree(capture.ptr);

    if (code == CUDA_SUCCESS)
        capture.ptr = 0;
    return code;
}

static CUresult capture_call_host_alloc(void) {
    void *host = NULL;
    CUresult code = conf.drv->cuMemHostAlloc(&host, 4096, 0);

    if (code == CUDA_SUCCESS) {
        conf_need("free", conf.drv->cuMemFreeHost(capture.host));
        capture.host = host;
    }
    return code;
}

static CUresult capture_call_host_free(void) {
    CUresult code = conf.drv->cuMemFreeHost(capture.host);

    if (code == CUDA_SUCCESS)
        capture.host = NULL;
    return code;
}

static CUresult capture_call_managed(void) {
    CUresult code = conf.drv->cuMemAllocManaged(&capture.made, 4096, CU_MEM_ATTACH_GLOBAL);

    if (code != CUDA_SUCCESS)
        capture.made = 0;
    return code;
}

/* Returns the first error among the four steps of mapping a chunk and their reverse. */
static CUresult capture_call_by_hand(void) {
    CUmemAllocationProp prop = conf_prop();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = capture.range.base + conf.chunk_bytes;
    CUresult code = conf.drv->cuMemCreate(&handle, conf.chunk_bytes, &prop, 0), last;

    if (code != CUDA_SUCCESS)
        return code;
    code = conf.drv->cuMemMap(at, conf.chunk_bytes, 0, handle, 0);
    if (code == CUDA_SUCCESS) {
        code = conf_allow(at, conf.chunk_bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        last = conf.drv->cuMemUnmap(at, conf.chunk_bytes);
        if (code == CUDA_SUCCESS)
            code = last;
    }
    last = conf.drv->cuMemRelease(handle);
    return code != CUDA_SUCCESS ? code : last;
}

static CUresult capture_call_reserve(void) {
    CUdeviceptr base = 0;
    CUresult code = conf.drv->cuMemAddressReserve(&base, conf.chunk_bytes, 0, 0, 0);

    return code != CUDA_SUCCESS ? code : conf.drv->cuMemAddressFree(base, conf.chunk_bytes);
}

static CUresult capture_call_info(void) {
    size_t bytes;

    return conf.drv->cuMemGetInfo(&bytes, &bytes);
}
static CUresult capture_call_event_query(void) {
    return conf.drv->cuEventQuery(capture.done);
}
static CUresult capture_call_event_sync(void) {
    return conf.drv->cuEventSynchronize(capture.done);
}
static CUresult capture_call_query_fresh(void) {
    return conf.drv->cuEventQuery(capture.fresh);
}
static CUresult capture_call_query_captured(void) {
    conf_need("record", conf.drv->cuEventRecord(capture.fresh, capture.captured));
    return conf.drv->cuEventQuery(capture.fresh);
}
static CUresult capture_call_sync_captured(void) {
    conf_need("record", conf.drv->cuEventRecord(capture.fresh, capture.captured));
    return conf.drv->cuEventSynchronize(capture.fresh);
}
static CUresult capture_call_stream_query(void) {
    return conf.drv->cuStreamQuery(capture.captured);
}
static CUresult capture_call_stream_sync(void) {
    return conf.drv->cuStreamSynchronize(capture.captured);
}
static CUresult capture_call_other_query(void) {
    return conf.drv->cuStreamQuery(capture.other);
}
static CUresult capture_call_other_sync(void) {
    return conf.drv->cuStreamSynchronize(capture.other);
}
static CUresult capture_call_legacy_query(void) {
    return conf.drv->cuStreamQuery(NULL);
}
static CUresult capture_call_context_sync(void) {
    return conf.drv->cuCtxSynchronize();
}
static CUresult capture_call_context_record(void) {
    return conf.drv->cuCtxRecordEvent(conf.ctx, capture.fresh);
}
static CUresult capture_call_fill(void) {
    return conf.drv->cuMemsetD8Async(capture.ptr, 1, 64, capture.captured);
}
static CUresult capture_call_fill_other(void) {
    return conf.drv->cuMemsetD8Async(capture.ptr, 1, 64, capture.other);
}
static CUresult capture_call_fill_legacy(void) {
    return conf.drv->cuMemsetD8Async(capture.ptr, 1, 64, NULL);
}
static CUresult capture_call_copy_sync(void) {
    return conf.drv->cuMemcpyHtoD(capture.ptr, &(uint32_t){1}, 4);
}
static CUresult capture_call_copy(void) {
    return conf.drv->cuMemcpyHtoDAsync(capture.ptr, capture.host, 64, capture.captured);
}
static CUresult capture_call_wait_outside(void) {
    return conf.drv->cuStreamWaitEvent(capture.captured, capture.done, 0);
}
static CUresult capture_call_wait_fresh(void) {
    return conf.drv->cuStreamWaitEvent(capture.captured, capture.fresh, 0);
}
static CUresult capture_call_begin_again(void) {
    return conf.drv->cuStreamBeginCapture(capture.captured, CU_STREAM_CAPTURE_MODE_RELAXED);
}
static CUresult capture_call_flags(void) {
    unsigned int flags;

    return conf.drv->cuStreamGetFlags(capture.captured, &flags);
}
static CUresult capture_call_id(void) {
    unsigned long long id;

    return conf.drv->cuStreamGetId(capture.captured, &id);
}
static CUresult capture_call_pointer(void) {
    unsigned int type;

    return conf.drv->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, capture.ptr);
}

static CUresult capture_call_stream_create(void) {
    CUstream stream = NULL;
    CUresult code = conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);

    return code != CUDA_SUCCESS ? code : conf.drv->cuStreamDestroy(stream);
}

static CUresult capture_call_event_create(void) {
    CUevent event = NULL;
    CUresult code = conf.drv->cuEventCreate(&event, 0);

    return code != CUDA_SUCCESS ? code : conf.drv->cuEventDestroy(event);
}

static void capture_nothing(void *arg) {
    (void)arg;
}

static CUresult capture_call_host_function(void) {
    return conf.drv->cuLaunchHostFunc(capture.captured, capture_nothing, NULL);
}

/* Another stream joins the capture by waiting for its event, and is then joined back, or not. */
static CUresult capture_call_fork_join(void) {
    CUresult code = conf.drv->cuEventRecord(capture.fresh, capture.captured);

    if (code == CUDA_SUCCESS)
        code = conf.drv->cuStreamWaitEvent(capture.other, capture.fresh, 0);
    if (code == CUDA_SUCCESS)
        code = conf.drv->cuMemsetD8Async(capture.ptr, 1, 64, capture.other);
    if (code == CUDA_SUCCESS)
        code = conf.drv->cuEventRecord(capture.done, capture.other);
    if (code == CUDA_SUCCESS)
        code = conf.drv->cuStreamWaitEvent(capture.captured, capture.done, 0);
    return code;
}

static CUresult capture_call_fork(void) {
    CUresult code = conf.drv->cuEventRecord(capture.fresh, capture.captured);

    if (code == CUDA_SUCCESS)
        code = conf.drv->cuStreamWaitEvent(capture.other, capture.fresh, 0);
    if (code == CUDA_SUCCESS)
        code = conf.drv->cuMemsetD8Async(capture.ptr, 1, 64, capture.other);
    return code;
}

static void *capture_thread(void *arg) {
    CUresult (**call)(void) = arg;

    conf.drv->cuCtxSetCurrent(conf.ctx);
    return (void *)(uintptr_t)(*call)();
}

/* Makes the call on a thread other than the capturing one. */
static CUresult capture_elsewhere(CUresult (*call)(void)) {
    pthread_t thread;
    void *result = (void *)(uintptr_t)CUDA_ERROR_UNKNOWN;

    if (pthread_create(&thread, NULL, capture_thread, &call) != 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    pthread_join(thread, &result);
    return (CUresult)(uintptr_t)result;
}

static CUresult capture_call_alloc_elsewhere(void) {
    return capture_elsewhere(capture_call_alloc);
}
static CUresult capture_call_event_query_elsewhere(void) {
    return capture_elsewhere(capture_call_event_query);
}

static CUresult capture_end_now(void) {
    CUgraph graph = NULL;
    CUresult code = conf.drv->cuStreamEndCapture(capture.captured, &graph);

    if (graph != NULL)
        conf_need("graph-destroy", conf.drv->cuGraphDestroy(graph));
    return code;
}

static CUresult capture_call_end_elsewhere(void) {
    return capture_elsewhere(capture_end_now);
}

/* Returns the graph of the current capture. */
static CUgraph capture_graph(void) {
    CUstreamCaptureStatus state;
    CUgraph graph = NULL;

    conf_need("info",
              conf.drv->cuStreamGetCaptureInfo(capture.captured, &state, NULL, &graph, NULL, NULL));
    return graph;
}

static CUresult capture_call_capture_info(void) {
    CUstreamCaptureStatus state;

    return conf.drv->cuStreamGetCaptureInfo(capture.captured, &state, NULL, NULL, NULL, NULL);
}

static CUresult capture_call_object(void) {
    CUuserObject object = NULL;
    CUresult code = conf.drv->cuUserObjectCreate(&object, NULL, capture_nothing, 1,
                                                 CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);

    if (code == CUDA_SUCCESS)
        code = conf.drv->cuGraphRetainUserObject(capture_graph(), object, 1, 0);
    if (code == CUDA_SUCCESS)
        code = conf.drv->cuUserObjectRelease(object, 1);
    return code;
}

static CUresult capture_make_exec(CUgraph graph) {
    CUgraphExec exec = NULL;
    CUresult code = conf.drv->cuGraphInstantiateWithFlags(&exec, graph, 0);

    return code != CUDA_SUCCESS ? code : conf.drv->cuGraphExecDestroy(exec);
}
static CUresult capture_call_instantiate(void) {
    return capture_make_exec(capture.graph);
}
static CUresult capture_call_instantiate_own(void) {
    return capture_make_exec(capture_graph());
}

static CUresult capture_call_exec_destroy(void) {
    CUresult code = conf.drv->cuGraphExecDestroy(capture.exec);

    if (code == CUDA_SUCCESS)
        capture.exec = NULL;
    return code;
}

static CUresult capture_call_graph_destroy(void) {
    CUresult code = conf.drv->cuGraphDestroy(capture.graph);

    if (code == CUDA_SUCCESS)
        capture.graph = NULL;
    return code;
}

static CUresult capture_call_graph_destroy_own(void) {
    return conf.drv->cuGraphDestroy(capture_graph());
}
static CUresult capture_call_graph_launch(void) {
    return conf.drv->cuGraphLaunch(capture.exec, capture.captured);
}
static CUresult capture_call_graph_launch_other(void) {
    return conf.drv->cuGraphLaunch(capture.exec, capture.other);
}
static CUresult capture_call_wait_external(void) {
    return conf.drv->cuStreamWaitEvent(capture.captured, capture.done, CU_EVENT_WAIT_EXTERNAL);
}

#define CAPTURE_CASE(word)                                                                         \
    static void capture_##word(void) {                                                             \
        capture_try(capture_call_##word);                                                          \
    }
CAPTURE_CASE(alloc)
CAPTURE_CASE(alloc_exchanged)
CAPTURE_CASE(alloc_elsewhere)
CAPTURE_CASE(alloc_async)
CAPTURE_CASE(alloc_async_other)
CAPTURE_CASE(free)
CAPTURE_CASE(host_alloc)
CAPTURE_CASE(host_free)
CAPTURE_CASE(managed)
CAPTURE_CASE(by_hand)
CAPTURE_CASE(reserve)
CAPTURE_CASE(info)
CAPTURE_CASE(event_query)
CAPTURE_CASE(event_query_elsewhere)
CAPTURE_CASE(event_sync)
CAPTURE_CASE(query_fresh)
CAPTURE_CASE(query_captured)
CAPTURE_CASE(sync_captured)
CAPTURE_CASE(stream_query)
CAPTURE_CASE(stream_sync)
CAPTURE_CASE(other_query)
CAPTURE_CASE(other_sync)
CAPTURE_CASE(legacy_query)
CAPTURE_CASE(context_sync)
CAPTURE_CASE(context_record)
CAPTURE_CASE(fill)
CAPTURE_CASE(fill_other)
CAPTURE_CASE(fill_legacy)
CAPTURE_CASE(copy)
CAPTURE_CASE(copy_sync)
CAPTURE_CASE(wait_outside)
CAPTURE_CASE(wait_fresh)
CAPTURE_CASE(begin_again)
CAPTURE_CASE(end_elsewhere)
CAPTURE_CASE(flags)
CAPTURE_CASE(id)
CAPTURE_CASE(pointer)
CAPTURE_CASE(stream_create)
CAPTURE_CASE(event_create)
CAPTURE_CASE(host_function)
CAPTURE_CASE(fork_join)
CAPTURE_CASE(fork)
CAPTURE_CASE(capture_info)
CAPTURE_CASE(object)
CAPTURE_CASE(instantiate)
CAPTURE_CASE(instantiate_own)
CAPTURE_CASE(exec_destroy)
CAPTURE_CASE(graph_destroy)
CAPTURE_CASE(graph_destroy_own)
CAPTURE_CASE(graph_launch)
CAPTURE_CASE(graph_launch_other)
CAPTURE_CASE(wait_external)

/* ---- blocking streams and the legacy stream -------------------------------------------------- */

static void capture_blocking_stream(void) {
    capture_try_mode(capture_call_fill_legacy, 0, CU_STREAM_DEFAULT);
    capture_try_mode(capture_call_fill_legacy, 2, CU_STREAM_DEFAULT);
    capture_try_mode(capture_call_copy_sync, 2, CU_STREAM_DEFAULT);
    capture_try_mode(capture_call_legacy_query, 2, CU_STREAM_DEFAULT);
}

static void capture_say_state(const char *label, CUstream stream) {
    CUstreamCaptureStatus state = (CUstreamCaptureStatus)99;
    CUresult code = conf.drv->cuStreamIsCapturing(stream, &state);

    conf_value(label, code, state);
}

static void capture_states_of_one(void) {
    CUgraph graph = NULL;
    CUstream stream = NULL;

    if (conf_need("stream", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) != 0)
        return;
    capture_say_state("before", stream);
    conf_code("end-without-begin", conf.drv->cuStreamEndCapture(stream, &graph));
    conf_code("bad-mode", conf.drv->cuStreamBeginCapture(stream, (CUstreamCaptureMode)7));
    conf_code("begin", conf.drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    capture_say_state("during", stream);
    capture_say_state("null-during", NULL);
    conf_code("end", conf.drv->cuStreamEndCapture(stream, &graph));
    conf_fact("graph", graph != NULL);
    capture_say_state("after", stream);
    conf_code("end-again", conf.drv->cuStreamEndCapture(stream, &(CUgraph){NULL}));
    conf_code("graph-destroy", conf.drv->cuGraphDestroy(graph));
    conf_code("begin-again",
              conf.drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    graph = NULL;
    conf_code("end", conf.drv->cuStreamEndCapture(stream, &graph));
    conf_code("graph-destroy", conf.drv->cuGraphDestroy(graph));
    conf_need("destroy", conf.drv->cuStreamDestroy(stream));
}

static void capture_legacy(void) {
    CUgraph graph = NULL;

    conf_code("null", conf.drv->cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    conf_code("legacy",
              conf.drv->cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL));
    if (conf_code("per-thread", conf.drv->cuStreamBeginCapture(CU_STREAM_PER_THREAD,
                                                               CU_STREAM_CAPTURE_MODE_GLOBAL)) ==
        CUDA_SUCCESS) {
        conf_code("end", conf.drv->cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
        conf_code("graph-destroy", conf.drv->cuGraphDestroy(graph));
    }
    conf_code("end-null", conf.drv->cuStreamEndCapture(NULL, &graph));
}

static void capture_busy_stream(void) {
    struct conf_gate gate;
    CUstream stream = NULL;
    CUgraph graph = NULL;

    if (conf_need("stream", conf.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) != 0 ||
        conf_gate_close(&gate, stream) != 0)
        return;
    conf_code("begin", conf.drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    conf_code("end", conf.drv->cuStreamEndCapture(stream, &graph));
    conf_fact("gate-holds", conf_gate_holds(&gate));
    conf_gate_open(&gate);
    if (graph != NULL)
        conf_code("graph-destroy", conf.drv->cuGraphDestroy(graph));
    conf_code("sync", conf.drv->cuStreamSynchronize(stream));
    conf_need("destroy", conf.drv->cuStreamDestroy(stream));
}

static void capture_exchange(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

    conf_code("to-relaxed", conf.drv->cuThreadExchangeStreamCaptureMode(&mode));
    conf_fact("was", mode);
    mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    conf_code("to-thread-local", conf.drv->cuThreadExchangeStreamCaptureMode(&mode));
    conf_fact("was", mode);
    mode = (CUstreamCaptureMode)7;
    conf_code("to-bad", conf.drv->cuThreadExchangeStreamCaptureMode(&mode));
    mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    conf_code("to-global", conf.drv->cuThreadExchangeStreamCaptureMode(&mode));
    conf_fact("was", mode);
}

/* An event recorded in a capture, after the capture has ended. */
static void capture_event_after(void) {
    CUgraph graph = NULL;

    if (capture_make(CU_STREAM_NON_BLOCKING) != 0)
        return;
    conf_code("begin",
              conf.drv->cuStreamBeginCapture(capture.captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    conf_code("record", conf.drv->cuEventRecord(capture.fresh, capture.captured));
    conf_code("end", conf.drv->cuStreamEndCapture(capture.captured, &graph));
    conf_code("query", conf.drv->cuEventQuery(capture.fresh));
    conf_code("sync", conf.drv->cuEventSynchronize(capture.fresh));
    conf_code("wait", conf.drv->cuStreamWaitEvent(capture.other, capture.fresh, 0));
    conf_code("record", conf.drv->cuEventRecord(capture.fresh, capture.other));
    conf_code("sync", conf.drv->cuEventSynchronize(capture.fresh));
    conf_code("query", conf.drv->cuEventQuery(capture.fresh));
    if (graph != NULL)
        conf_need("graph-destroy", conf.drv->cuGraphDestroy(graph));
    capture_drop();
}

static void capture_graph_null(void) {
    conf_code("destroy", conf.drv->cuGraphDestroy(NULL));
}

static const struct conf_case capture_cases[] = {
    {"states", capture_states_of_one, 0},
    {"legacy", capture_legacy, 0},
    {"exchange", capture_exchange, 0},
    {"busy-stream", capture_busy_stream, 0},
    {"blocking-stream", capture_blocking_stream, 0},
    {"alloc", capture_alloc, 0},
    {"alloc-exchanged", capture_alloc_exchanged, 0},
    {"alloc-elsewhere", capture_alloc_elsewhere, 0},
    {"alloc-async", capture_alloc_async, 0},
    {"alloc-async-other", capture_alloc_async_other, 0},
    {"free", capture_free, 0},
    {"host-alloc", capture_host_alloc, 0},
    {"host-free", capture_host_free, 0},
    {"managed", capture_managed, 0},
    {"by-hand", capture_by_hand, 0},
    {"reserve", capture_reserve, 0},
    {"info", capture_info, 0},
    {"event-query", capture_event_query, 0},
    {"event-query-elsewhere", capture_event_query_elsewhere, 0},
    {"event-sync", capture_event_sync, 0},
    {"query-fresh", capture_query_fresh, 0},
    {"query-captured", capture_query_captured, 0},
    {"sync-captured", capture_sync_captured, 0},
    {"stream-query", capture_stream_query, 0},
    {"stream-sync", capture_stream_sync, 0},
    {"other-query", capture_other_query, 0},
    {"other-sync", capture_other_sync, 0},
    {"legacy-query", capture_legacy_query, 0},
    {"context-sync", capture_context_sync, 0},
    {"context-record", capture_context_record, 0},
    {"fill", capture_fill, 0},
    {"fill-other", capture_fill_other, 0},
    {"fill-legacy", capture_fill_legacy, 0},
    {"copy", capture_copy, 0},
    {"copy-sync", capture_copy_sync, 0},
    {"wait-outside", capture_wait_outside, 0},
    {"wait-fresh", capture_wait_fresh, 0},
    {"begin-again", capture_begin_again, 0},
    {"end-elsewhere", capture_end_elsewhere, 0},
    {"flags", capture_flags, 0},
    {"id", capture_id, 0},
    {"pointer", capture_pointer, 0},
    {"stream-create", capture_stream_create, 0},
    {"event-create", capture_event_create, 0},
    {"host-function", capture_host_function, 0},
    {"fork-join", capture_fork_join, 0},
    {"fork", capture_fork, 0},
    {"capture-info", capture_capture_info, 0},
    {"object", capture_object, 0},
    {"instantiate", capture_instantiate, 0},
    {"instantiate-own", capture_instantiate_own, 0},
    {"exec-destroy", capture_exec_destroy, 0},
    {"graph-destroy", capture_graph_destroy, 0},
    {"graph-destroy-own", capture_graph_destroy_own, 0},
    {"graph-launch", capture_graph_launch, 0},
    {"graph-launch-other", capture_graph_launch_other, 0},
    {"wait-external", capture_wait_external, 0},
    {"event-after", capture_event_after, 0},
    {"graph-null", capture_graph_null, CONF_ALONE},
};
CONF_GROUP(capture, 0);
