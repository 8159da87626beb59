/*
 * Conformance: graphs from captures, effects of launches, and lifetimes of user objects.
 *
 * A case waits up to GRAPH_PATIENCE_MS for a destructor that must run, and GRAPH_PAUSE_MS for one
 * that must not. Which calls a capture allows is in conf_capture.c.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "conformance.h"

enum { GRAPH_PATIENCE_MS = CONF_GATE_SECONDS * 1000, GRAPH_PAUSE_MS = 50 };

static struct {
    CUstream stream, other;
    CUevent event;
    CUdeviceptr ptr;
    CUgraph graph;     /* NULL: none */
    CUgraphExec exec;  /* NULL: none */
    _Atomic int ended; /* destructors called since the case began, or since it set this to 0 */
    int objects;       /* objects created in this case */
    _Atomic int gone;  /* of those */
    CUresult inside;   /* code of a driver call inside a destructor */
    pthread_t thread;  /* that ran the destructor */
} graph;

static int graph_make(void) {
    graph.graph = NULL;
    graph.exec = NULL;
    atomic_store(&graph.ended, 0);
    graph.objects = 0;
    atomic_store(&graph.gone, 0);
    if (conf_need("stream", conf.drv->cuStreamCreate(&graph.stream, CU_STREAM_NON_BLOCKING)) != 0 ||
        conf_need("stream", conf.drv->cuStreamCreate(&graph.other, CU_STREAM_NON_BLOCKING)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&graph.event, CU_EVENT_DISABLE_TIMING)) != 0 ||
        conf_need("alloc", conf.drv->cuMemAlloc(&graph.ptr, 4096)) != 0)
        return -1;
    return conf_need("poke", conf_poke(graph.ptr, 0));
}

static void graph_drop(void) {
    _Atomic int never = 0;

    if (graph.exec != NULL)
        conf_need("exec-destroy", conf.drv->cuGraphExecDestroy(graph.exec));
    if (graph.graph != NULL)
        conf_need("graph-destroy", conf.drv->cuGraphDestroy(graph.graph));
    if (graph.stream != NULL)
        conf_need("destroy", conf.drv->cuStreamDestroy(graph.stream));
    conf_need("destroy", conf.drv->cuStreamDestroy(graph.other));
    conf_need("destroy", conf.drv->cuEventDestroy(graph.event));
    conf_need("free", conf.drv->cuMemFree(graph.ptr));
    /* The driver calls destructors late, from a thread of its own: not in the next case. */
    for (int i = 0; i < GRAPH_PATIENCE_MS && atomic_load(&graph.gone) < graph.objects; i++)
        conf_wait_flag(&never, 1);
}

static void graph_ended(void *arg);

/* Creates an object. */
static CUresult graph_object(CUuserObject *object, void *arg) {
    CUresult code = conf.drv->cuUserObjectCreate(object, arg, graph_ended, 1,
                                                 CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    graph.objects += code == CUDA_SUCCESS;
    return code;
}

static void graph_ended(void *arg) {
    CUcontext ctx;

    if (arg != NULL)
        graph.inside = conf.drv->cuCtxGetCurrent(&ctx);
    graph.thread = pthread_self();
    atomic_fetch_add(&graph.ended, 1);
    atomic_fetch_add(&graph.gone, 1);
}

static int graph_begin(CUstreamCaptureMode mode) {
    return conf_need("begin", conf.drv->cuStreamBeginCapture(graph.stream, mode));
}

static CUgraph graph_captured(void) {
    CUstreamCaptureStatus state;
    CUgraph made = NULL;

    conf_need("info",
              conf.drv->cuStreamGetCaptureInfo(graph.stream, &state, NULL, &made, NULL, NULL));
    return made;
}

/* Creates an object whose only reference belongs to the graph. */
static void graph_hold(CUgraph holder) {
    CUuserObject object = NULL;

    if (conf_need("object", graph_object(&object, NULL)) == 0)
        conf_need("retain",
                  conf.drv->cuGraphRetainUserObject(holder, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
}

static void graph_fork(CUstream from, CUstream to) {
    conf_need("record", conf.drv->cuEventRecord(graph.event, from));
    conf_need("wait", conf.drv->cuStreamWaitEvent(to, graph.event, 0));
}

static int graph_end(void) {
    if (conf_need("end", conf.drv->cuStreamEndCapture(graph.stream, &graph.graph)) != 0)
        return -1;
    return conf_need("instantiate",
                     conf.drv->cuGraphInstantiateWithFlags(&graph.exec, graph.graph, 0));
}

/* Creates a graph and an executable with one fill and an object that only they reference. */
static int graph_with_object(void) {
    if (graph_make() != 0 || graph_begin(CU_STREAM_CAPTURE_MODE_RELAXED) != 0)
        return -1;
    graph_hold(graph_captured());
    conf_need("fill", conf.drv->cuMemsetD32Async(graph.ptr, 1, 16, graph.stream));
    return graph_end();
}

static void graph_destroy(void) {
    conf_code("graph-destroy", conf.drv->cuGraphDestroy(graph.graph));
    graph.graph = NULL;
}

static void graph_exec_destroy(void) {
    conf_code("exec-destroy", conf.drv->cuGraphExecDestroy(graph.exec));
    graph.exec = NULL;
}

static void graph_say_ended(const char *label) {
    conf_wait_flag(&graph.ended, GRAPH_PATIENCE_MS);
    conf_fact(label, atomic_load(&graph.ended));
}

/* ---- capture info ---------------------------------------------------------------------------- */

static CUresult graph_info(CUstream stream, CUstreamCaptureStatus *state, cuuint64_t *id,
                           CUgraph *made) {
    return conf.drv->cuStreamGetCaptureInfo(stream, state, id, made, NULL, NULL);
}

static void graph_capture_info(void) {
    CUstreamCaptureStatus state = (CUstreamCaptureStatus)9;
    cuuint64_t id = 0, forked = 0;
    CUgraph made = NULL, same = NULL;

    if (graph_make() != 0)
        return;
    conf_code("before", graph_info(graph.stream, &state, &id, &made));
    conf_fact("state", state);
    conf_code("no-state", graph_info(graph.stream, NULL, &id, &made));
    if (graph_begin(CU_STREAM_CAPTURE_MODE_GLOBAL) != 0)
        return;
    conf_code("during", graph_info(graph.stream, &state, &id, &made));
    conf_fact("state", state);
    conf_fact("id", id != 0);
    conf_fact("graph", made != NULL);
    graph_fork(graph.stream, graph.other);
    conf_code("fork", graph_info(graph.other, &state, &forked, &same));
    conf_fact("state", state);
    conf_fact("same", forked == id && same == made);
    conf_code("null", graph_info(NULL, &state, NULL, NULL));
    conf_fact("state", state);
    conf_code("query", conf.drv->cuStreamQuery(graph.stream));
    forked = 7;
    same = NULL;
    conf_code("broken", graph_info(graph.stream, &state, &forked, &same));
    conf_fact("state", state);
    conf_fact("told", forked != 7 || same != NULL);
    conf_code("end", conf.drv->cuStreamEndCapture(graph.stream, &same));
    graph_begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    conf_code("next", graph_info(graph.stream, &state, &forked, NULL));
    conf_fact("differs", forked != id);
    conf_code("end", conf.drv->cuStreamEndCapture(graph.stream, &graph.graph));
    graph_drop();
}

static void graph_info_legacy(void) {
    CUstreamCaptureStatus state = (CUstreamCaptureStatus)9;
    CUstream blocking = NULL;
    CUgraph made = NULL;

    if (conf_need("stream", conf.drv->cuStreamCreate(&blocking, CU_STREAM_DEFAULT)) != 0)
        return;
    conf_code("begin", conf.drv->cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    conf_code("legacy", graph_info(NULL, &state, NULL, NULL));
    conf_need("end", conf.drv->cuStreamEndCapture(blocking, &made));
    conf_need("graph-destroy", conf.drv->cuGraphDestroy(made));
    conf_need("destroy", conf.drv->cuStreamDestroy(blocking));
}

/* ---- launches -------------------------------------------------------------------------------- */

static void graph_launch(void) {
    uint32_t *pinned = NULL;
    int i;

    if (graph_make() != 0 ||
        conf_need("host", conf.drv->cuMemHostAlloc((void **)&pinned, 4096, 0)) != 0 ||
        graph_begin(CU_STREAM_CAPTURE_MODE_GLOBAL) != 0)
        return;
    conf_code("copy", conf.drv->cuMemcpyHtoDAsync(graph.ptr, pinned, 8, graph.stream));
    graph_fork(graph.stream, graph.other);
    conf_code("copy", conf.drv->cuMemcpyDtoDAsync(graph.ptr + 8, graph.ptr, 8, graph.other));
    graph_fork(graph.other, graph.stream);
    conf_code("fill", conf.drv->cuMemsetD32Async(graph.ptr, 9, 1, graph.stream));
    if (graph_end() != 0)
        return;
    graph_destroy();
    conf_fact("before", conf_peek(graph.ptr));
    for (i = 1; i < 3; i++) {
        pinned[0] = pinned[1] = (uint32_t)i;
        conf_code("launch", conf.drv->cuGraphLaunch(graph.exec, graph.other));
        conf_code("sync", conf.drv->cuStreamSynchronize(graph.other));
        conf_fact("filled", conf_peek(graph.ptr));
        conf_fact("copied", conf_peek(graph.ptr + 4));
        conf_fact("forked", conf_peek(graph.ptr + 8));
    }
    graph_drop();
    conf_need("free", conf.drv->cuMemFreeHost(pinned));
}

/* The launch reads and writes pageable memory, not the capture. */
static void graph_pageable(void) {
    static uint32_t from, to;

    from = 1;
    if (graph_make() != 0 || graph_begin(CU_STREAM_CAPTURE_MODE_RELAXED) != 0)
        return;
    conf_code("copy", conf.drv->cuMemcpyHtoDAsync(graph.ptr, &from, 4, graph.stream));
    conf_code("back", conf.drv->cuMemcpyDtoHAsync(&to, graph.ptr, 4, graph.stream));
    if (graph_end() != 0)
        return;
    from = 2;
    conf_code("launch", conf.drv->cuGraphLaunch(graph.exec, graph.stream));
    conf_code("sync", conf.drv->cuStreamSynchronize(graph.stream));
    conf_fact("there", conf_peek(graph.ptr));
    conf_fact("back", to);
    graph_drop();
}

/* The second launch waits for the first, which is blocked by a gate on another stream. */
static void graph_serial(void) {
    struct conf_gate gate;

    if (graph_with_object() != 0 || conf_gate_close(&gate, graph.stream) != 0)
        return;
    conf_code("launch", conf.drv->cuGraphLaunch(graph.exec, graph.stream));
    conf_code("other", conf.drv->cuGraphLaunch(graph.exec, graph.other));
    conf_code("query", conf.drv->cuStreamQuery(graph.other));
    conf_fact("gate-holds", conf_gate_holds(&gate));
    conf_gate_open(&gate);
    conf_code("sync", conf.drv->cuStreamSynchronize(graph.other));
    conf_code("first", conf.drv->cuStreamQuery(graph.stream));
    graph_drop();
}

static void graph_flags(void) {
    static const struct {
        const char *name;
        unsigned long long flags;
    } tries[] = {{"auto-free", CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH},
                 {"upload", CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD},
                 {"device", CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH},
                 {"priority", CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY},
                 {"16", 16}};
    CUgraphExec exec;
    size_t i;

    if (graph_make() != 0 || graph_begin(CU_STREAM_CAPTURE_MODE_RELAXED) != 0 || graph_end() != 0)
        return;
    for (i = 0; i < sizeof tries / sizeof tries[0]; i++)
        if (conf_code(tries[i].name, conf.drv->cuGraphInstantiateWithFlags(
                                         &exec, graph.graph, tries[i].flags)) == CUDA_SUCCESS)
            conf_need("exec-destroy", conf.drv->cuGraphExecDestroy(exec));
    graph_drop();
}

/* ---- objects --------------------------------------------------------------------------------- */

static void graph_object_counts(void) {
    const unsigned sync = CU_USER_OBJECT_NO_DESTRUCTOR_SYNC;
    CUuserObject object = NULL;

    if (graph_make() != 0 || graph_begin(CU_STREAM_CAPTURE_MODE_RELAXED) != 0 || graph_end() != 0)
        return;
    conf_code("no-destructor", conf.drv->cuUserObjectCreate(&object, NULL, NULL, 1, sync));
    conf_code("none", conf.drv->cuUserObjectCreate(&object, NULL, graph_ended, 0, sync));
    conf_code("no-flag", conf.drv->cuUserObjectCreate(&object, NULL, graph_ended, 1, 0));
    conf_code("create", graph_object(&object, NULL));
    conf_code("retain-0", conf.drv->cuUserObjectRetain(object, 0));
    conf_code("retain-most", conf.drv->cuUserObjectRetain(object, 1u << 31));
    conf_code("release-0", conf.drv->cuUserObjectRelease(object, 0));
    conf_code("graph-0", conf.drv->cuGraphRetainUserObject(graph.graph, object, 0, 0));
    conf_code("graph-flag", conf.drv->cuGraphRetainUserObject(graph.graph, object, 1, 2));
    conf_code("release", conf.drv->cuUserObjectRelease(object, 1));
    graph_say_ended("ended");
    graph_drop();
}

static void graph_object_life(void) {
    if (graph_with_object() != 0)
        return;
    graph_destroy();
    conf_wait_flag(&graph.ended, GRAPH_PAUSE_MS);
    conf_fact("ended", atomic_load(&graph.ended));
    graph_exec_destroy();
    conf_fact("at-once", atomic_load(&graph.ended));
    graph_say_ended("ended");
    conf_fact("own-thread", pthread_equal(graph.thread, pthread_self()) != 0);
    graph_drop();
}

static void graph_object_in_flight(void) {
    struct conf_gate gate;

    if (graph_with_object() != 0 || conf_gate_close(&gate, graph.other) != 0)
        return;
    graph_destroy();
    conf_code("launch", conf.drv->cuGraphLaunch(graph.exec, graph.other));
    graph_exec_destroy();
    conf_wait_flag(&graph.ended, GRAPH_PAUSE_MS);
    conf_fact("ended", atomic_load(&graph.ended));
    conf_fact("gate-holds", conf_gate_holds(&gate));
    conf_gate_open(&gate);
    conf_code("sync", conf.drv->cuStreamSynchronize(graph.other));
    graph_say_ended("ended");
    conf_fact("filled", conf_peek(graph.ptr));
    graph_drop();
}

static void graph_object_failed(void) {
    CUgraph none = NULL;

    if (graph_make() != 0 || graph_begin(CU_STREAM_CAPTURE_MODE_GLOBAL) != 0)
        return;
    graph_hold(graph_captured());
    conf_code("break", conf.drv->cuCtxSynchronize());
    conf_fact("ended", atomic_load(&graph.ended));
    conf_code("end", conf.drv->cuStreamEndCapture(graph.stream, &none));
    graph_say_ended("ended");
    atomic_store(&graph.ended, 0);
    if (graph_begin(CU_STREAM_CAPTURE_MODE_GLOBAL) != 0)
        return;
    graph_hold(graph_captured());
    graph_fork(graph.stream, graph.other);
    conf_need("fill", conf.drv->cuMemsetD32Async(graph.ptr, 1, 1, graph.other));
    conf_code("unjoined", conf.drv->cuStreamEndCapture(graph.stream, &none));
    graph_say_ended("ended");
    atomic_store(&graph.ended, 0);
    if (graph_begin(CU_STREAM_CAPTURE_MODE_RELAXED) != 0)
        return;
    graph_hold(graph_captured());
    conf_code("stream-destroy", conf.drv->cuStreamDestroy(graph.stream));
    graph.stream = NULL;
    graph_say_ended("ended");
    graph_drop();
}

/* Runs alone: a driver that does not refuse calls inside a destructor may do anything. */
static void graph_object_calls(void) {
    CUuserObject object = NULL;

    conf_code("create", graph_object(&object, &graph));
    conf_code("release", conf.drv->cuUserObjectRelease(object, 1));
    graph_say_ended("ended");
    conf_code("inside", graph.inside);
}

static void graph_null(void) {
    CUuserObject object = NULL;

    if (graph_with_object() != 0)
        return;
    conf_need("object", graph_object(&object, NULL));
    conf_code("launch", conf.drv->cuGraphLaunch(NULL, graph.stream));
    conf_code("exec-destroy", conf.drv->cuGraphExecDestroy(NULL));
    conf_code("instantiate", conf.drv->cuGraphInstantiateWithFlags(&graph.exec, NULL, 0));
    conf_code("retain-object", conf.drv->cuGraphRetainUserObject(graph.graph, NULL, 1, 0));
    conf_code("retain-graph", conf.drv->cuGraphRetainUserObject(NULL, object, 1, 0));
    conf_code("release", conf.drv->cuUserObjectRelease(NULL, 1));
}

static const struct conf_case graph_cases[] = {
    {"info", graph_capture_info, 0},
    {"info-legacy", graph_info_legacy, 0},
    {"launch", graph_launch, 0},
    {"pageable", graph_pageable, 0},
    {"serial", graph_serial, 0},
    {"flags", graph_flags, 0},
    {"object-counts", graph_object_counts, 0},
    {"object-life", graph_object_life, 0},
    {"object-in-flight", graph_object_in_flight, 0},
    {"object-failed", graph_object_failed, 0},
    {"object-calls", graph_object_calls, CONF_ALONE},
    {"null", graph_null, CONF_ALONE},
};
CONF_GROUP(graph, 0);
