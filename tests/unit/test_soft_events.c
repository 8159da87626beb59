/* Events of the soft driver: which work a recorded event covers, waits by streams and by the host,
 * and events that cover a whole context. */
#include "soft_fixture.h"

static CUevent make_event(void) {
    CUevent event = NULL;
    assert_ok(drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* Returns 1 if the function has not run after 30 ms, in which it could have run. */
static int is_held_up(_Atomic int *ran) {
    for (int i = 0; i < 30 && !atomic_load(ran); i++)
        sleep_ms(1);
    return !atomic_load(ran);
}

SOFT_TEST(events_never_recorded_count_as_done) {
    CUevent event = make_event();
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuEventQuery(event));
    assert_ok(drv->cuEventSynchronize(event));
    assert_ok(drv->cuStreamWaitEvent(stream, event, 0));
    assert_ok(drv->cuStreamSynchronize(stream));
}

SOFT_TEST(events_recorded_behind_work_wait_for_it) {
    struct gate gate;
    _Atomic int ran = 0;
    CUevent event = make_event();
    CUstream one = soft_stream(CU_STREAM_NON_BLOCKING), two = soft_stream(CU_STREAM_NON_BLOCKING);
    soft_gate_put(&gate, one);
    assert_ok(drv->cuEventRecord(event, one));
    assert_int_equal(drv->cuEventQuery(event), CUDA_ERROR_NOT_READY);
    assert_ok(drv->cuStreamWaitEvent(two, event, 0));
    assert_ok(drv->cuLaunchHostFunc(two, soft_note, &ran));
    assert_true(is_held_up(&ran));
    soft_gate_open(&gate);
    assert_ok(drv->cuEventSynchronize(event));
    assert_ok(drv->cuEventQuery(event));
    assert_ok(drv->cuStreamSynchronize(two));
    assert_int_equal(atomic_load(&ran), 1);
}

/* Later work on the recorded stream is not part of the event. */
SOFT_TEST(events_do_not_cover_later_work) {
    struct gate gate;
    CUevent event = make_event();
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuEventRecord(event, stream));
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuEventSynchronize(event));
    assert_int_equal(drv->cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    soft_gate_open(&gate);
}

SOFT_TEST(events_recorded_again_stand_for_the_new_recording) {
    struct gate gate;
    CUevent event = make_event();
    CUstream late = soft_stream(CU_STREAM_NON_BLOCKING), idle = soft_stream(CU_STREAM_NON_BLOCKING);
    soft_gate_put(&gate, late);
    assert_ok(drv->cuEventRecord(event, late));
    assert_ok(drv->cuEventRecord(event, idle));
    /* The event no longer stands for the recording behind the gate. */
    assert_ok(drv->cuEventSynchronize(event));
    assert_ok(drv->cuEventRecord(event, late));
    assert_int_equal(drv->cuEventQuery(event), CUDA_ERROR_NOT_READY);
    soft_gate_open(&gate);
    assert_ok(drv->cuEventSynchronize(event));
}

/* A wait refers to the recording at the time it was queued. */
SOFT_TEST(events_waited_for_and_recorded_again_keep_the_first) {
    struct gate first, second;
    _Atomic int ran = 0;
    CUevent event = make_event();
    CUstream one = soft_stream(CU_STREAM_NON_BLOCKING), two = soft_stream(CU_STREAM_NON_BLOCKING);
    CUstream waiter = soft_stream(CU_STREAM_NON_BLOCKING);
    soft_gate_put(&first, one);
    soft_gate_put(&second, two);
    assert_ok(drv->cuEventRecord(event, one));
    assert_ok(drv->cuStreamWaitEvent(waiter, event, 0));
    assert_ok(drv->cuEventRecord(event, two));
    assert_ok(drv->cuLaunchHostFunc(waiter, soft_note, &ran));
    assert_true(is_held_up(&ran));
    soft_gate_open(&first);
    assert_ok(drv->cuStreamSynchronize(waiter)); /* the second gate is still closed */
    assert_int_equal(atomic_load(&ran), 1);
    assert_int_equal(drv->cuEventQuery(event), CUDA_ERROR_NOT_READY);
    soft_gate_open(&second);
}

SOFT_TEST(events_destroyed_while_waited_for_still_hold) {
    struct gate gate;
    _Atomic int ran = 0;
    CUevent event = make_event();
    CUstream one = soft_stream(CU_STREAM_NON_BLOCKING), two = soft_stream(CU_STREAM_NON_BLOCKING);
    soft_gate_put(&gate, one);
    assert_ok(drv->cuEventRecord(event, one));
    assert_ok(drv->cuStreamWaitEvent(two, event, 0));
    assert_ok(drv->cuEventDestroy(event));
    assert_ok(drv->cuLaunchHostFunc(two, soft_note, &ran));
    assert_true(is_held_up(&ran));
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(two));
    assert_int_equal(atomic_load(&ran), 1);
}

struct waiting {
    CUevent event;
    CUresult result;
    _Atomic int is_over;
};

static void *wait_in_thread(void *argument) {
    struct waiting *waiting = argument;
    waiting->result = drv->cuCtxPushCurrent(soft_ctx[0]);
    if (!waiting->result)
        waiting->result = drv->cuEventSynchronize(waiting->event);
    atomic_store(&waiting->is_over, 1);
    return NULL;
}

/* Returns who holds the last recording of an event; a thread that waits for it does. */
static unsigned marker_refs(CUevent event) {
    acre__lock_take(&acre__soft.lock);
    const struct soft_event *found = acre__tree_entry(
        acre__tree_find(&acre__soft.events, (uintptr_t)event), struct soft_event, node);
    unsigned refs = (unsigned)found->marker->refs;
    acre__lock_give(&acre__soft.lock);
    return refs;
}

SOFT_TEST(events_destroyed_under_waiting_thread_wake_it_in_time) {
    struct gate gate;
    struct waiting waiting = {.event = make_event()};
    pthread_t thread;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuEventRecord(waiting.event, stream));
    unsigned refs = marker_refs(waiting.event);
    assert_int_equal(pthread_create(&thread, NULL, wait_in_thread, &waiting), 0);
    assert_true(soft_eventually(marker_refs(waiting.event) > refs));
    assert_ok(drv->cuEventDestroy(waiting.event));
    sleep_ms(20);
    assert_false(atomic_load(&waiting.is_over));
    soft_gate_open(&gate);
    pthread_join(thread, NULL);
    assert_ok(waiting.result);
}

/* ---- the context's event ---- */

SOFT_TEST(events_of_context_cover_all_streams) {
    enum { STREAMS = 4 };
    struct gate gates[STREAMS];
    _Atomic int ran = 0;
    CUevent event = make_event();
    CUstream waiter = soft_stream(CU_STREAM_NON_BLOCKING);
    const CUstream streams[STREAMS] = {soft_stream(CU_STREAM_NON_BLOCKING),
                                       soft_stream(CU_STREAM_DEFAULT), CU_STREAM_PER_THREAD,
                                       soft_stream(CU_STREAM_NON_BLOCKING)};
    for (int i = 0; i < STREAMS; i++)
        soft_gate_put(&gates[i], streams[i]);
    assert_ok(drv->cuStreamDestroy(streams[3])); /* its work goes on */
    assert_ok(drv->cuCtxRecordEvent(soft_ctx[0], event));
    assert_ok(drv->cuStreamWaitEvent(waiter, event, 0));
    assert_ok(drv->cuLaunchHostFunc(waiter, soft_note, &ran));
    for (int i = 0; i < STREAMS; i++) {
        sleep_ms(10);
        assert_int_equal(drv->cuEventQuery(event), CUDA_ERROR_NOT_READY);
        assert_int_equal(atomic_load(&ran), 0);
        soft_gate_open(&gates[i]);
    }
    assert_ok(drv->cuEventSynchronize(event));
    assert_ok(drv->cuStreamSynchronize(waiter));
    assert_int_equal(atomic_load(&ran), 1);
}

SOFT_TEST(events_of_context_do_not_cover_later_work) {
    struct gate gate;
    CUevent event = make_event();
    CUstream one = soft_stream(CU_STREAM_NON_BLOCKING), two = soft_stream(CU_STREAM_NON_BLOCKING);
    _Atomic int ran = 0;
    assert_ok(drv->cuLaunchHostFunc(one, soft_note, &ran));
    assert_ok(drv->cuCtxRecordEvent(NULL, event));
    soft_gate_put(&gate, two);
    assert_ok(drv->cuEventSynchronize(event));
    assert_int_equal(atomic_load(&ran), 1);
    soft_gate_open(&gate);
}

/* ---- other properties ---- */

static void nap(void *user) {
    sleep_ms(*(const int *)user);
}

SOFT_TEST(events_measure_time_between_them) {
    struct gate gate;
    CUevent begin, end, untimed = make_event();
    int ms = 20;
    float measured = -1;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuEventCreate(&begin, CU_EVENT_DEFAULT));
    assert_ok(drv->cuEventCreate(&end, CU_EVENT_DEFAULT));
    assert_int_equal(drv->cuEventElapsedTime(&measured, begin, end), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(drv->cuEventRecord(begin, stream));
    assert_ok(drv->cuLaunchHostFunc(stream, nap, &ms));
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuEventRecord(end, stream));
    assert_int_equal(drv->cuEventElapsedTime(&measured, begin, end), CUDA_ERROR_NOT_READY);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_ok(drv->cuEventElapsedTime(&measured, begin, end));
    assert_true(measured >= 20.0f && measured < 1000.0f * PATIENCE_MS);
    float back = 0;
    assert_ok(drv->cuEventElapsedTime(&back, end, begin));
    assert_true(back == -measured);
    assert_ok(drv->cuEventRecord(untimed, stream));
    assert_int_equal(drv->cuEventElapsedTime(&measured, begin, untimed), CUDA_ERROR_INVALID_HANDLE);
}

SOFT_TEST(events_dead_handle_is_refused) {
    CUevent event = make_event();
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    int junk = 0;
    float ms;
    assert_ok(drv->cuEventDestroy(event));
    const CUevent handles[] = {event, NULL, (CUevent)(void *)&junk};
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
        const CUresult dead = CUDA_ERROR_INVALID_HANDLE;
        assert_int_equal(drv->cuEventDestroy(handles[i]), dead);
        assert_int_equal(drv->cuEventQuery(handles[i]), dead);
        assert_int_equal(drv->cuEventSynchronize(handles[i]), dead);
        assert_int_equal(drv->cuEventRecord(handles[i], stream), dead);
        assert_int_equal(drv->cuCtxRecordEvent(NULL, handles[i]), dead);
        assert_int_equal(drv->cuStreamWaitEvent(stream, handles[i], 0), dead);
        assert_int_equal(drv->cuEventElapsedTime(&ms, handles[i], handles[i]), dead);
    }
}

int main(void) {
    return tests_run("soft_events");
}
