/* Graphs of the soft driver: what a capture records, how launches are ordered with other work, and
 * the lifetime of user objects. */
#include "soft_fixture.h"

enum { BYTES = 256 };

static CUstream one, two;
static CUdeviceptr at, other;

static void graph_begin(const struct acre__soft_config *config) {
    soft_begin_with(config);
    one = soft_stream(CU_STREAM_NON_BLOCKING);
    two = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuMemAlloc(&at, BYTES));
    assert_ok(drv->cuMemAlloc(&other, BYTES));
    assert_ok(drv->cuMemsetD8(at, 0, BYTES));
    assert_ok(drv->cuMemsetD8(other, 0, BYTES));
    assert_ok(drv->cuCtxSynchronize());
}

static int graph_setup(void **state) {
    (void)state;
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    graph_begin(&config);
    return 0;
}

static int graph_setup_checked(void **state) {
    (void)state;
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.check = 1;
    graph_begin(&config);
    return 0;
}

static int graph_setup_lag(void **state) {
    (void)state;
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.lag_operations = 1000;
    graph_begin(&config);
    return 0;
}

static int graph_setup_seeded(void **state) {
    (void)state;
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.seeded = config.check = 1;
    config.seed = 7;
    graph_begin(&config);
    return 0;
}

#define GRAPH_TEST(test, setup) cmocka_unit_test_setup_teardown(test, setup, soft_teardown)

static CUgraph begin(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = NULL;
    assert_ok(drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(drv->cuStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_non_null(graph);
    return graph;
}

static CUgraph end(CUstream stream) {
    CUgraph graph = NULL;
    assert_ok(drv->cuStreamEndCapture(stream, &graph));
    assert_non_null(graph);
    return graph;
}

/* Ends the capture, instantiates the graph and destroys it. */
static CUgraphExec end_exec(CUstream stream) {
    CUgraphExec exec = NULL;
    CUgraph graph = end(stream);
    assert_ok(drv->cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_non_null(exec);
    assert_ok(drv->cuGraphDestroy(graph));
    return exec;
}

static CUevent event_make(void) {
    CUevent event = NULL;
    assert_ok(drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static void fork_to(CUstream from, CUstream to) {
    CUevent event = event_make();
    assert_ok(drv->cuEventRecord(event, from));
    assert_ok(drv->cuStreamWaitEvent(to, event, 0));
    assert_ok(drv->cuEventDestroy(event));
}

static cuuint64_t capture_id(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    assert_ok(drv->cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_not_equal(id, 0);
    return id;
}

/* ---- queries ---- */

static void graph_ids_differ_per_capture_and_agree_on_forks(void **state) {
    (void)state;
    CUgraph graph = begin(one), forked = NULL;
    cuuint64_t first = capture_id(one);
    CUstreamCaptureStatus status;
    fork_to(one, two);
    assert_int_equal(capture_id(two), first);
    assert_ok(drv->cuStreamGetCaptureInfo(two, &status, NULL, &forked, NULL, NULL));
    assert_ptr_equal(forked, graph);
    fork_to(two, one);
    assert_ptr_equal(end(one), graph);
    assert_ok(drv->cuGraphDestroy(graph));
    (void)begin(one);
    assert_int_not_equal(capture_id(one), first);
    assert_ok(drv->cuGraphDestroy(end(one)));
}

static void graph_info_is_valid_in_captures_alone(void **state) {
    (void)state;
    CUstreamCaptureStatus status = (CUstreamCaptureStatus)9;
    cuuint64_t id = 77;
    CUgraph graph = (CUgraph)(void *)&graph, before = graph;
    const CUgraphNode *nodes;
    size_t count;
    assert_ok(drv->cuStreamGetCaptureInfo(one, &status, &id, &graph, NULL, NULL));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    assert_refused(drv->cuStreamGetCaptureInfo(one, NULL, &id, &graph, NULL, NULL));
    (void)begin(one);
    assert_int_equal(drv->cuStreamGetCaptureInfo(one, &status, NULL, NULL, &nodes, &count),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_refused(drv->cuStreamQuery(one)); /* invalidates the capture */
    assert_ok(drv->cuStreamGetCaptureInfo(one, &status, &id, &graph, NULL, NULL));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_int_equal(id, 77);
    assert_ptr_equal(graph, before);
    assert_refused(drv->cuStreamEndCapture(one, &graph));
}

static void graph_of_a_capture_cannot_be_destroyed(void **state) {
    (void)state;
    CUgraph graph = begin(one);
    CUgraphExec exec;
    assert_int_equal(drv->cuGraphDestroy(graph), CUDA_ERROR_ILLEGAL_STATE);
    assert_ptr_equal(end(one), graph);
    assert_ok(drv->cuGraphDestroy(graph));
    assert_refused(drv->cuGraphInstantiateWithFlags(&exec, graph, 0));
}

static void graph_wrong_handles_and_flags_are_refused(void **state) {
    (void)state;
    CUgraphExec exec = NULL;
    (void)begin(one);
    CUgraph graph = end(one);
    assert_refused(drv->cuGraphInstantiateWithFlags(NULL, graph, 0));
    assert_refused(drv->cuGraphInstantiateWithFlags(&exec, NULL, 0));
    assert_refused(
        drv->cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
    assert_refused(drv->cuGraphInstantiateWithFlags(&exec, graph, 1 << 10));
    assert_ok(drv->cuGraphInstantiateWithFlags(&exec, graph,
                                               CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    assert_refused(drv->cuGraphLaunch(NULL, one));
    assert_refused(drv->cuGraphLaunch((CUgraphExec)(void *)graph, one));
    assert_refused(drv->cuGraphLaunch(exec, (CUstream)(void *)&exec));
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_ok(drv->cuGraphExecDestroy(exec));
    assert_refused(drv->cuGraphExecDestroy(exec));
    assert_refused(drv->cuGraphExecDestroy(NULL));
    assert_ok(drv->cuGraphDestroy(graph));
}

/* ---- launches ---- */

static void graph_launched_twice_does_its_work_twice(void **state) {
    (void)state;
    unsigned char *pinned = NULL;
    _Atomic int ran = 0;
    assert_ok(drv->cuMemHostAlloc((void **)&pinned, BYTES, 0));
    (void)begin(one);
    assert_ok(drv->cuMemcpyHtoDAsync(at, pinned, BYTES, one));
    assert_ok(drv->cuMemcpyDtoDAsync(other, at, BYTES / 2, one));
    assert_ok(drv->cuMemsetD8Async(at, 9, BYTES / 4, one));
    assert_ok(drv->cuLaunchHostFunc(one, soft_note, &ran));
    CUgraphExec exec = end_exec(one);
    for (int i = 1; i <= 2; i++) {
        memset(pinned, i, BYTES);
        assert_ok(drv->cuGraphLaunch(exec, two));
        assert_ok(drv->cuStreamSynchronize(two));
        assert_int_equal(atomic_load(&ran), i);
        assert_true(soft_is_filled(at, BYTES / 4, 9));
        assert_true(soft_is_filled(at + BYTES / 4, BYTES * 3 / 4, (unsigned char)i));
        assert_true(soft_is_filled(other, BYTES / 2, (unsigned char)i));
        assert_true(soft_is_filled(other + BYTES / 2, BYTES / 2, 0));
    }
    assert_ok(drv->cuGraphExecDestroy(exec));
}

/* Launches read and write the program's pageable memory in place. */
static void graph_pageable_memory_is_used_by_launches(void **state) {
    (void)state;
    static unsigned char from[2][BYTES], to[BYTES];
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = from[0],
                          .srcPitch = BYTES,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = at,
                          .dstPitch = 16,
                          .WidthInBytes = 16,
                          .Height = 2};
    (void)begin(one);
    assert_ok(drv->cuMemcpy2DAsync(&rows, one));
    assert_ok(drv->cuMemcpyDtoHAsync(to, at, 32, one));
    CUgraphExec exec = end_exec(one);
    assert_int_equal(to[0], 0);
    for (int i = 1; i <= 2; i++) {
        memset(from[0], i, BYTES);
        memset(from[1], i + 10, BYTES);
        assert_ok(drv->cuGraphLaunch(exec, one));
        assert_ok(drv->cuStreamSynchronize(one));
        assert_int_equal(to[0], i);
        assert_int_equal(to[15], i);
        assert_int_equal(to[16], i + 10);
        assert_int_equal(to[31], i + 10);
        assert_int_equal(to[32], 0);
    }
    assert_ok(drv->cuGraphExecDestroy(exec));
}

static void graph_forked_work_keeps_its_order(void **state) {
    (void)state;
    (void)begin(one);
    assert_ok(drv->cuMemsetD8Async(at, 1, BYTES, one));
    fork_to(one, two);
    assert_ok(drv->cuMemcpyDtoDAsync(other, at, BYTES, two));
    fork_to(two, one);
    assert_ok(drv->cuMemsetD8Async(at, 2, BYTES, one));
    CUgraphExec exec = end_exec(one);
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_ok(drv->cuStreamSynchronize(one));
    assert_true(soft_is_filled(other, BYTES, 1));
    assert_true(soft_is_filled(at, BYTES, 2));
    assert_ok(drv->cuGraphExecDestroy(exec));
}

static void graph_launch_into_a_capture_breaks_it(void **state) {
    (void)state;
    (void)begin(one);
    assert_ok(drv->cuMemsetD8Async(at, 3, BYTES, one));
    CUgraphExec exec = end_exec(one);
    CUgraph graph = NULL;
    (void)begin(two);
    assert_int_equal(drv->cuGraphLaunch(exec, two), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(drv->cuStreamEndCapture(two, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    (void)begin(two);
    assert_ok(drv->cuGraphLaunch(exec, one)); /* a launch on another stream is allowed */
    assert_ok(drv->cuGraphDestroy(end(two)));
    assert_ok(drv->cuStreamSynchronize(one));
    assert_true(soft_is_filled(at, BYTES, 3));
    assert_ok(drv->cuGraphExecDestroy(exec));
}

static void graph_executables_begin_and_end_outside_of_strict_captures(void **state) {
    (void)state;
    CUgraphExec exec, second;
    (void)begin(two);
    CUgraph graph = end(two), broken = NULL;
    assert_ok(drv->cuGraphInstantiateWithFlags(&exec, graph, 0));
    (void)begin(one);
    assert_int_equal(drv->cuGraphInstantiateWithFlags(&second, graph, 0),
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_refused(drv->cuStreamEndCapture(one, &broken));
    (void)begin(one);
    assert_int_equal(drv->cuGraphExecDestroy(exec), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_refused(drv->cuStreamEndCapture(one, &broken));
    assert_ok(drv->cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(drv->cuGraphInstantiateWithFlags(&second, graph, 0));
    assert_ok(drv->cuGraphExecDestroy(second));
    assert_ok(drv->cuGraphDestroy(end(one)));
    assert_ok(drv->cuGraphExecDestroy(exec));
    assert_ok(drv->cuGraphDestroy(graph));
}

static void graph_launch_records_external_events(void **state) {
    (void)state;
    struct gate gate;
    CUevent event = event_make();
    (void)begin(one);
    assert_ok(drv->cuMemsetD8Async(at, 1, BYTES, one));
    assert_ok(drv->cuEventRecordWithFlags(event, one, CU_EVENT_RECORD_EXTERNAL));
    CUgraphExec exec = end_exec(one);
    soft_gate_put(&gate, two);
    assert_ok(drv->cuEventQuery(event)); /* not recorded yet */
    assert_ok(drv->cuGraphLaunch(exec, two));
    assert_int_equal(drv->cuEventQuery(event), CUDA_ERROR_NOT_READY);
    soft_gate_open(&gate);
    assert_ok(drv->cuEventSynchronize(event));
    assert_ok(drv->cuEventDestroy(event));
    assert_ok(drv->cuStreamSynchronize(two));
    assert_refused(drv->cuGraphLaunch(exec, two));
    assert_ok(drv->cuGraphExecDestroy(exec));
}

static void graph_launch_waits_for_external_events(void **state) {
    (void)state;
    CUevent event = event_make();
    (void)begin(one);
    assert_ok(drv->cuStreamWaitEvent(one, event, CU_EVENT_WAIT_EXTERNAL));
    assert_ok(drv->cuMemcpyDtoDAsync(other, at, BYTES, one));
    CUgraphExec exec = end_exec(one);
    assert_ok(drv->cuGraphLaunch(exec, one)); /* the event is not recorded yet: no wait */
    assert_ok(drv->cuStreamSynchronize(one));
    assert_ok(drv->cuMemsetD8Async(at, 5, BYTES, two));
    assert_ok(drv->cuEventRecord(event, two));
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_ok(drv->cuStreamSynchronize(one));
    assert_true(soft_is_filled(other, BYTES, 5));
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
    assert_ok(drv->cuGraphExecDestroy(exec));
    assert_ok(drv->cuEventDestroy(event));
}

static void graph_launches_of_one_executable_come_one_after_the_other(void **state) {
    (void)state;
    struct gate gate;
    _Atomic int ran = 0;
    (void)begin(one);
    assert_ok(drv->cuMemsetD8Async(at, 1, BYTES, one));
    assert_ok(drv->cuLaunchHostFunc(one, soft_note, &ran));
    CUgraphExec exec = end_exec(one);
    soft_gate_put(&gate, one);
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_ok(drv->cuGraphLaunch(exec, two)); /* after the first launch, which the gate blocks */
    sleep_ms(20);
    assert_int_equal(drv->cuStreamQuery(two), CUDA_ERROR_NOT_READY);
    assert_int_equal(atomic_load(&ran), 0);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(two));
    assert_int_equal(atomic_load(&ran), 2);
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
    assert_ok(drv->cuGraphExecDestroy(exec));
}

/* ---- order and memory ---- */

static void graph_launch_without_order_is_reported(void **state) {
    (void)state;
    (void)begin(one);
    assert_ok(drv->cuMemsetD8Async(at, 1, BYTES, one));
    CUgraphExec exec = end_exec(one);
    assert_ok(drv->cuMemsetD8Async(at, 2, BYTES, two));
    fork_to(two, one);
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_ok(drv->cuStreamSynchronize(one));
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
    assert_ok(drv->cuMemsetD8Async(at, 3, BYTES, one));
    assert_ok(drv->cuGraphLaunch(exec, two)); /* ordered after the launch, but not after the fill */
    assert_refused(drv->cuStreamSynchronize(two));
    assert_true(acre__soft_reports(NULL, 0) > 0);
}

static void graph_launch_with_unmapped_memory_loses_the_device(void **state) {
    (void)state;
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr mapped = soft_map(chunk, CHUNK, 0);
    (void)begin(one);
    assert_ok(drv->cuMemsetD8Async(mapped, 1, BYTES, one));
    CUgraphExec exec = end_exec(one);
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_ok(drv->cuStreamSynchronize(one));
    assert_ok(drv->cuMemUnmap(mapped, CHUNK));
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_int_equal(drv->cuStreamSynchronize(one), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(acre__soft_reports(NULL, 0), 1);
}

static void graph_launch_with_freed_memory_of_a_pool_loses_the_device(void **state) {
    (void)state;
    CUdeviceptr pooled = 0, again = 0;
    assert_ok(drv->cuMemAllocAsync(&pooled, BYTES, two));
    fork_to(two, one);
    assert_ok(drv->cuStreamSynchronize(two));
    (void)begin(one);
    assert_ok(drv->cuMemsetD8Async(pooled, 1, BYTES, one));
    CUgraphExec exec = end_exec(one);
    assert_ok(drv->cuMemFreeAsync(pooled, one));
    assert_ok(drv->cuMemAllocAsync(&again, BYTES, one));
    assert_int_equal(again, pooled);
    assert_ok(drv->cuGraphLaunch(exec, one)); /* the memory is allocated again, in stream order */
    assert_ok(drv->cuStreamSynchronize(one));
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
    assert_ok(drv->cuMemFreeAsync(pooled, one));
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_int_equal(drv->cuStreamSynchronize(one), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(acre__soft_reports(NULL, 0), 1);
}

/* ---- user objects ---- */

/* Counts destructor calls, and records the result of a driver call in the destructor. */
struct ending {
    _Atomic int count;
    CUresult call;
    pthread_t thread;
    pthread_mutex_t *lock; /* taken by the destructor */
};

static void ending_note(void *user) {
    struct ending *ending = user;
    CUcontext ctx;
    ending->call = drv->cuCtxGetCurrent(&ctx);
    ending->thread = pthread_self();
    if (ending->lock) {
        pthread_mutex_lock(ending->lock);
        pthread_mutex_unlock(ending->lock);
    }
    atomic_fetch_add(&ending->count, 1);
}

static CUuserObject object_make(struct ending *ending, unsigned count) {
    CUuserObject object = NULL;
    assert_ok(drv->cuUserObjectCreate(&object, ending, ending_note, count,
                                      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    return object;
}

/* Creates a graph that fills memory and holds the only reference to an object. */
static CUgraph graph_with_object(struct ending *ending) {
    CUgraph graph = begin(one);
    CUuserObject object = object_make(ending, 1);
    assert_ok(drv->cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    /* The program holds no reference any more. */
    assert_refused(drv->cuUserObjectRelease(object, 1));
    assert_ok(drv->cuMemsetD8Async(at, 1, BYTES, one));
    assert_ptr_equal(end(one), graph);
    return graph;
}

static int is_over(struct ending *ending) {
    return soft_eventually(atomic_load(&ending->count)) && atomic_load(&ending->count) == 1;
}

static void object_references_are_counted(void **state) {
    (void)state;
    struct ending ending = {0};
    CUuserObject object = object_make(&ending, 2), wrong;
    CUgraph graph = begin(one);
    const unsigned sync = CU_USER_OBJECT_NO_DESTRUCTOR_SYNC;
    assert_refused(drv->cuUserObjectCreate(NULL, &ending, ending_note, 1, sync));
    assert_refused(drv->cuUserObjectCreate(&wrong, &ending, NULL, 1, sync));
    assert_refused(drv->cuUserObjectCreate(&wrong, &ending, ending_note, 0, sync));
    assert_refused(drv->cuUserObjectCreate(&wrong, &ending, ending_note, 1, 0));
    assert_refused(drv->cuUserObjectRetain(object, 0));
    assert_refused(drv->cuUserObjectRelease(object, 3));
    assert_refused(drv->cuGraphRetainUserObject(graph, object, 3, CU_GRAPH_USER_OBJECT_MOVE));
    assert_refused(drv->cuGraphRetainUserObject(graph, object, 1, 2));
    assert_refused(drv->cuGraphRetainUserObject(NULL, object, 1, 0));
    assert_refused(drv->cuGraphRetainUserObject(graph, (CUuserObject)(void *)graph, 1, 0));
    assert_refused(drv->cuGraphReleaseUserObject(graph, object, 1));
    assert_ok(drv->cuGraphRetainUserObject(graph, object, 2, 0));
    assert_ok(drv->cuUserObjectRetain(object, 1));
    assert_ok(drv->cuUserObjectRelease(object, 3)); /* now the graph holds the only references */
    assert_refused(drv->cuGraphReleaseUserObject(graph, object, 3));
    assert_ok(drv->cuGraphReleaseUserObject(graph, object, 1));
    assert_int_equal(atomic_load(&ending.count), 0);
    assert_ok(drv->cuGraphReleaseUserObject(graph, object, 1));
    assert_true(is_over(&ending));
    assert_int_equal(ending.call, CUDA_ERROR_NOT_PERMITTED);
    assert_refused(drv->cuUserObjectRetain(object, 1));
    assert_ok(drv->cuGraphDestroy(end(one)));
}

static void object_lives_as_long_as_graph_and_executables(void **state) {
    (void)state;
    struct ending ending = {0};
    CUgraph graph = graph_with_object(&ending);
    CUgraphExec execs[2];
    for (int i = 0; i < 2; i++)
        assert_ok(drv->cuGraphInstantiateWithFlags(&execs[i], graph, 0));
    assert_ok(drv->cuGraphExecDestroy(execs[0]));
    assert_ok(drv->cuGraphDestroy(graph));
    sleep_ms(20);
    assert_int_equal(atomic_load(&ending.count), 0);
    assert_ok(drv->cuGraphExecDestroy(execs[1]));
    /* CuGraphExecDestroy called the destructor on this thread. */
    assert_int_equal(atomic_load(&ending.count), 1);
    assert_true(pthread_equal(ending.thread, pthread_self()));
}

/* If finishing work drops the last reference, a thread of the driver calls the destructor. The
 * thread that calls the driver at that time may hold a lock that the destructor takes. */
static void object_of_finished_work_ends_on_another_thread(void **state) {
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct ending ending = {.lock = &lock};
    CUgraphExec exec;
    CUgraph graph = graph_with_object(&ending);
    assert_ok(drv->cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_ok(drv->cuGraphDestroy(graph));
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_ok(drv->cuGraphExecDestroy(exec));
    pthread_mutex_lock(&lock);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(atomic_load(&ending.count), 0);
    pthread_mutex_unlock(&lock);
    assert_true(is_over(&ending));
    assert_false(pthread_equal(ending.thread, pthread_self()));
}

static void object_lives_while_a_launch_runs(void **state) {
    (void)state;
    struct gate gate;
    struct ending ending = {0};
    CUgraphExec exec;
    CUgraph graph = graph_with_object(&ending);
    assert_ok(drv->cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_ok(drv->cuGraphDestroy(graph));
    soft_gate_put(&gate, two);
    assert_ok(drv->cuGraphLaunch(exec, two));
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_ok(drv->cuGraphExecDestroy(exec));
    assert_refused(drv->cuGraphLaunch(exec, one));
    sleep_ms(20);
    assert_int_equal(atomic_load(&ending.count), 0);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_true(is_over(&ending));
    assert_true(soft_is_filled(at, BYTES, 1));
}

static void object_lives_while_a_launch_lags(void **state) {
    (void)state;
    struct ending ending = {0};
    CUgraphExec exec;
    CUgraph graph = graph_with_object(&ending);
    assert_ok(drv->cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_ok(drv->cuGraphDestroy(graph));
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_ok(drv->cuGraphExecDestroy(exec));
    for (int i = 0; i < 500; i++) /* too few for the launch to become due */
        assert_ok(drv->cuMemsetD8Async(other, 1, BYTES, two));
    sleep_ms(20);
    assert_int_equal(atomic_load(&ending.count), 0);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_true(is_over(&ending));
}

/* With a seed there are no workers: the thread that drops the last reference calls the
 * destructor. */
static void object_destructor_is_called_at_once_with_a_seed(void **state) {
    (void)state;
    struct ending ending = {0};
    CUgraphExec exec;
    CUgraph graph = graph_with_object(&ending);
    assert_ok(drv->cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_ok(drv->cuGraphDestroy(graph));
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_ok(drv->cuGraphExecDestroy(exec));
    assert_ok(drv->cuStreamSynchronize(one));
    assert_int_equal(atomic_load(&ending.count), 1);
    assert_int_equal(ending.call, CUDA_ERROR_NOT_PERMITTED);
    struct ending second = {0};
    assert_ok(drv->cuUserObjectRelease(object_make(&second, 1), 1));
    assert_int_equal(atomic_load(&second.count), 1);
}

/* ---- captures that fail ---- */

static void hold(CUgraph graph, struct ending *ending) {
    assert_ok(
        drv->cuGraphRetainUserObject(graph, object_make(ending, 1), 1, CU_GRAPH_USER_OBJECT_MOVE));
}

static void *end_elsewhere(void *user) {
    CUgraph graph = NULL;
    CUresult *result = user;
    if (drv->cuCtxPushCurrent(soft_ctx[0]))
        return NULL;
    *result = drv->cuStreamEndCapture(one, &graph);
    return graph;
}

static void capture_that_fails_lets_its_objects_go(void **state) {
    (void)state;
    struct ending broken = {0}, unjoined = {0}, elsewhere = {0};
    CUgraph graph = NULL;
    hold(begin(one), &broken);
    assert_refused(drv->cuCtxSynchronize());
    assert_int_equal(atomic_load(&broken.count), 0);
    assert_int_equal(drv->cuStreamEndCapture(one, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(graph);
    assert_true(is_over(&broken));

    hold(begin(one), &unjoined);
    fork_to(one, two);
    assert_ok(drv->cuMemsetD8Async(at, 1, BYTES, two));
    assert_int_equal(drv->cuStreamEndCapture(one, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_true(is_over(&unjoined));

    hold(begin(one), &elsewhere);
    pthread_t thread;
    CUresult result = CUDA_SUCCESS;
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, &result), 0);
    pthread_join(thread, NULL);
    assert_int_equal(result, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    assert_true(is_over(&elsewhere));
}

static void capture_whose_streams_end_lets_its_objects_go(void **state) {
    (void)state;
    struct ending destroyed = {0}, ended = {0};
    hold(begin(one), &destroyed);
    fork_to(one, two);
    assert_ok(drv->cuStreamDestroy(one));
    assert_ok(drv->cuMemsetD8Async(at, 1, BYTES, two)); /* the capture continues in its fork */
    assert_int_equal(atomic_load(&destroyed.count), 0);
    assert_ok(drv->cuStreamDestroy(two));
    assert_true(is_over(&destroyed));

    one = soft_stream(CU_STREAM_NON_BLOCKING);
    hold(begin(one), &ended);
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    /* This was the last context, so no other thread could call the destructor. */
    assert_int_equal(atomic_load(&ended.count), 1);
    assert_ok(drv->cuDevicePrimaryCtxRetain(&soft_ctx[0], 0));
}

static void context_that_ends_takes_its_executables_along(void **state) {
    (void)state;
    struct ending ending = {0}, left = {0};
    CUgraphExec exec;
    CUgraph graph = graph_with_object(&ending);
    assert_ok(drv->cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_ok(drv->cuGraphDestroy(graph));
    graph = graph_with_object(&left);
    assert_ok(drv->cuGraphLaunch(exec, one));
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_int_equal(atomic_load(&ending.count), 1);
    assert_int_equal(atomic_load(&left.count), 0); /* graphs belong to no context */
    assert_ok(drv->cuDevicePrimaryCtxRetain(&soft_ctx[0], 0));
    assert_refused(drv->cuGraphExecDestroy(exec));
    assert_ok(drv->cuGraphDestroy(graph));
    assert_true(is_over(&left));
}

/* A reset calls no destructor, but frees everything; a sanitizer would report leaks. */
static void reset_frees_graphs_executables_and_objects(void **state) {
    (void)state;
    static struct ending ending;
    CUgraphExec exec;
    CUgraph graph = graph_with_object(&ending);
    assert_ok(drv->cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_ok(drv->cuGraphLaunch(exec, one));
    hold(begin(two), &ending);
    (void)object_make(&ending, 3);
    acre__soft_reset();
    assert_int_equal(atomic_load(&ending.count), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        GRAPH_TEST(graph_ids_differ_per_capture_and_agree_on_forks, graph_setup),
        GRAPH_TEST(graph_info_is_valid_in_captures_alone, graph_setup),
        GRAPH_TEST(graph_of_a_capture_cannot_be_destroyed, graph_setup),
        GRAPH_TEST(graph_wrong_handles_and_flags_are_refused, graph_setup),
        GRAPH_TEST(graph_launched_twice_does_its_work_twice, graph_setup),
        GRAPH_TEST(graph_launched_twice_does_its_work_twice, graph_setup_checked),
        GRAPH_TEST(graph_launched_twice_does_its_work_twice, graph_setup_lag),
        GRAPH_TEST(graph_launched_twice_does_its_work_twice, graph_setup_seeded),
        GRAPH_TEST(graph_pageable_memory_is_used_by_launches, graph_setup_checked),
        GRAPH_TEST(graph_forked_work_keeps_its_order, graph_setup_checked),
        GRAPH_TEST(graph_launch_into_a_capture_breaks_it, graph_setup_checked),
        GRAPH_TEST(graph_executables_begin_and_end_outside_of_strict_captures, graph_setup),
        GRAPH_TEST(graph_launch_records_external_events, graph_setup),
        GRAPH_TEST(graph_launch_waits_for_external_events, graph_setup_checked),
        GRAPH_TEST(graph_launches_of_one_executable_come_one_after_the_other, graph_setup_checked),
        GRAPH_TEST(graph_launch_without_order_is_reported, graph_setup_checked),
        GRAPH_TEST(graph_launch_with_unmapped_memory_loses_the_device, graph_setup_checked),
        GRAPH_TEST(graph_launch_with_freed_memory_of_a_pool_loses_the_device, graph_setup_checked),
        GRAPH_TEST(object_references_are_counted, graph_setup),
        GRAPH_TEST(object_lives_as_long_as_graph_and_executables, graph_setup),
        GRAPH_TEST(object_of_finished_work_ends_on_another_thread, graph_setup_lag),
        GRAPH_TEST(object_lives_while_a_launch_runs, graph_setup),
        GRAPH_TEST(object_lives_while_a_launch_lags, graph_setup_lag),
        GRAPH_TEST(object_destructor_is_called_at_once_with_a_seed, graph_setup_seeded),
        GRAPH_TEST(capture_that_fails_lets_its_objects_go, graph_setup),
        GRAPH_TEST(capture_whose_streams_end_lets_its_objects_go, graph_setup),
        GRAPH_TEST(context_that_ends_takes_its_executables_along, graph_setup),
        GRAPH_TEST(reset_frees_graphs_executables_and_objects, graph_setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
