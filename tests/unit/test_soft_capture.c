/* Stream capture as a state of the soft driver: which calls begin, end and invalidate it, and which
 * calls fail during it. test_soft_graph.c tests what a capture records. */
#include "soft_fixture.h"

static CUstreamCaptureStatus status_of(CUstream stream) {
    CUstreamCaptureStatus status = (CUstreamCaptureStatus)9;
    assert_ok(drv->cuStreamIsCapturing(stream, &status));
    return status;
}

static void begin(CUstream stream, CUstreamCaptureMode mode) {
    assert_ok(drv->cuStreamBeginCapture(stream, mode));
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

static unsigned captures(void) {
    acre__lock_take(&acre__soft.lock);
    unsigned count = acre__soft.captures;
    acre__lock_give(&acre__soft.lock);
    return count;
}

/* Ends a valid capture. */
static void end_well(CUstream stream) {
    CUgraph graph = NULL;
    assert_ok(drv->cuStreamEndCapture(stream, &graph));
    assert_non_null(graph);
    assert_ok(drv->cuGraphDestroy(graph));
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
}

/* Ends an invalidated capture. */
static void end_broken(CUstream stream) {
    CUgraph graph = (CUgraph)(void *)&graph;
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    assert_int_equal(drv->cuStreamEndCapture(stream, &graph),
                     CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(graph);
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_int_equal(captures(), 0);
}

SOFT_TEST(capture_work_is_not_done) {
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = 0;
    void *pinned = NULL;
    _Atomic int ran = 0;
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuMemHostAlloc(&pinned, 64, 0));
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_ok(drv->cuMemsetD8Async(at, 1, 64, stream));
    assert_ok(drv->cuMemcpyHtoDAsync(at, pinned, 64, stream));
    assert_ok(drv->cuLaunchHostFunc(stream, soft_note, &ran));
    end_well(stream);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_int_equal(atomic_load(&ran), 0);
    assert_true(soft_is_filled(at, 64, 0));
    /* After the capture, work runs again. */
    assert_ok(drv->cuLaunchHostFunc(stream, soft_note, &ran));
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_int_equal(atomic_load(&ran), 1);
}

SOFT_TEST(capture_wrong_begin_and_end_are_refused) {
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph;
    assert_refused(drv->cuStreamEndCapture(stream, &graph));
    assert_refused(drv->cuStreamBeginCapture(stream, (CUstreamCaptureMode)7));
    assert_refused(drv->cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_int_equal(captures(), 0);
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_refused(drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_refused(drv->cuStreamEndCapture(stream, NULL));
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(drv->cuStreamEndCapture(stream, &graph));
    assert_ok(drv->cuGraphDestroy(graph));
    assert_refused(drv->cuGraphDestroy(graph));
}

SOFT_TEST(capture_allocation_breaks_it_unless_relaxed) {
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = 0;
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_int_equal(drv->cuMemAlloc(&at, 64), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(soft_used_bytes(0), 0);
    end_broken(stream);
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_ok(drv->cuMemAlloc(&at, 64));
    end_well(stream);
    CUstreamCaptureMode mode =
        CU_STREAM_CAPTURE_MODE_RELAXED; /* the calling thread's mode, as an allocator sets it */
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_ok(drv->cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    end_well(stream);
}

struct elsewhere {
    CUstream stream;
    CUresult alloc, end;
};

static void *call_elsewhere(void *argument) {
    struct elsewhere *e = argument;
    CUdeviceptr at;
    CUgraph graph;
    if (drv->cuCtxPushCurrent(soft_ctx[0]))
        return NULL;
    e->alloc = drv->cuMemAlloc(&at, 64);
    e->end = drv->cuStreamEndCapture(e->stream, &graph);
    return NULL;
}

static struct elsewhere from_another_thread(CUstream stream) {
    struct elsewhere e = {stream, (CUresult)-1, (CUresult)-1};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, call_elsewhere, &e), 0);
    pthread_join(thread, NULL);
    return e;
}

SOFT_TEST(capture_of_one_thread_concerns_others_by_its_mode) {
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                         CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                         CU_STREAM_CAPTURE_MODE_RELAXED};
    for (int i = 0; i < 3; i++) {
        begin(stream, modes[i]);
        struct elsewhere e = from_another_thread(stream);
        assert_int_equal(e.alloc, i == 0 ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
        assert_int_equal(e.end, i == 2 ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        assert_int_equal(captures(), 0); /* the capture ended in each case */
        assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    }
}

SOFT_TEST(capture_query_and_sync_of_it_break_it) {
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_refused(drv->cuStreamQuery(stream));
    end_broken(stream);
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_refused(drv->cuStreamSynchronize(stream));
    assert_int_equal(drv->cuMemsetD8Async(0, 0, 0, stream), CUDA_SUCCESS); /* queues nothing */
    end_broken(stream);
}

SOFT_TEST(capture_query_and_sync_of_its_events_break_it) {
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUevent event;
    assert_ok(drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_ok(drv->cuEventRecord(event, stream));
    assert_int_equal(drv->cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    end_broken(stream);
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_ok(drv->cuEventRecord(event, stream));
    assert_int_equal(drv->cuEventSynchronize(event), CUDA_ERROR_CAPTURED_EVENT);
    end_broken(stream);
}

SOFT_TEST(capture_context_event_breaks_it) {
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUevent event;
    assert_ok(drv->cuEventCreate(&event, 0));
    begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_refused(drv->cuCtxRecordEvent(NULL, event));
    end_broken(stream);
    assert_ok(drv->cuCtxRecordEvent(NULL, event));
}

SOFT_TEST(capture_spreads_by_events) {
    CUstream one = soft_stream(CU_STREAM_NON_BLOCKING), two = soft_stream(CU_STREAM_NON_BLOCKING);
    CUevent fork_event, join_event;
    _Atomic int ran = 0;
    assert_ok(drv->cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    assert_ok(drv->cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    begin(one, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_ok(drv->cuEventRecord(fork_event, one));
    assert_ok(drv->cuStreamWaitEvent(two, fork_event, 0));
    assert_int_equal(status_of(two), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(captures(), 2);
    assert_ok(drv->cuLaunchHostFunc(two, soft_note, &ran));
    assert_ok(drv->cuEventRecord(join_event, two));
    assert_ok(drv->cuStreamWaitEvent(one, join_event, 0));
    CUgraph graph = NULL;
    assert_ok(drv->cuStreamEndCapture(one, &graph));
    assert_int_equal(status_of(two), CU_STREAM_CAPTURE_STATUS_NONE); /* joined, so it ended too */
    assert_int_equal(captures(), 0);
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(atomic_load(&ran), 0);
}

/* A wait for an event of an ended capture does not make the waiting stream capture. */
SOFT_TEST(capture_that_has_ended_draws_in_nobody) {
    CUstream one = soft_stream(CU_STREAM_NON_BLOCKING), two = soft_stream(CU_STREAM_NON_BLOCKING);
    CUevent event;
    assert_ok(drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    begin(one, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_ok(drv->cuEventRecord(event, one));
    end_well(one);
    drv->cuStreamWaitEvent(two, event, 0);
    assert_int_equal(status_of(two), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_int_equal(captures(), 0);
    assert_ok(drv->cuStreamSynchronize(two));
    /* Recorded outside a capture, the event works again. */
    assert_ok(drv->cuEventRecord(event, one));
    assert_ok(drv->cuEventSynchronize(event));
}

SOFT_TEST(capture_may_not_wait_for_work_outside) {
    CUstream one = soft_stream(CU_STREAM_NON_BLOCKING), two = soft_stream(CU_STREAM_NON_BLOCKING);
    CUevent event;
    assert_ok(drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(drv->cuEventRecord(event, two));
    begin(one, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_int_equal(drv->cuStreamWaitEvent(one, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    end_broken(one);
}

SOFT_TEST(capture_of_blocking_stream_keeps_legacy_away) {
    CUstream blocking = soft_stream(CU_STREAM_DEFAULT);
    CUstream free_one = soft_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAlloc(&at, 64));
    begin(free_one, CU_STREAM_CAPTURE_MODE_RELAXED);
    /* The legacy stream does not wait for a non-blocking stream. */
    assert_ok(drv->cuMemsetD8Async(at, 1, 64, NULL));
    end_well(free_one);
    begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_int_equal(drv->cuMemsetD8Async(at, 2, 64, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    end_broken(blocking);
    assert_true(soft_is_filled(at, 64, 1));
}

SOFT_TEST(capture_ends_with_its_stream) {
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = 0;
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    drv->cuStreamDestroy(stream);
    assert_int_equal(captures(), 0);
    assert_ok(drv->cuMemAlloc(&at, 64));
    stream = soft_stream(CU_STREAM_NON_BLOCKING);
    begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_int_equal(captures(), 0);
    assert_ok(drv->cuDevicePrimaryCtxRetain(&soft_ctx[0], 0));
    assert_ok(drv->cuMemAlloc(&at, 64));
}

int main(void) {
    return tests_run("soft_capture");
}
