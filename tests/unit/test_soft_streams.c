/* Streams of the soft driver: asynchronous and in order, independent or ordered by the legacy
 * stream's rule; their handles, their destruction, and the worker threads. */
#include "soft_fixture.h"

/* ---- asynchronous and in order ---- */

SOFT_TEST(streams_run_after_the_call_returned) {
    struct gate gate;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING), reader = soft_stream(1);
    unsigned char *pinned = NULL;
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuMemHostAlloc((void **)&pinned, 64, 0));
    assert_ok(drv->cuStreamQuery(stream));
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuMemsetD8Async(at, 5, 64, stream));
    assert_int_equal(drv->cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    memset(pinned, 1, 64);
    assert_ok(drv->cuMemcpyDtoHAsync(pinned, at, 64, reader));
    assert_ok(drv->cuStreamSynchronize(reader));
    assert_int_equal(pinned[0], 0); /* not filled yet */
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_ok(drv->cuStreamQuery(stream));
    assert_true(soft_is_filled(at, 64, 5));
}

enum { ORDERED = 200 };

static struct {
    int at[ORDERED];
    _Atomic int count;
} trail;

static void trail_add(void *user) {
    trail.at[atomic_fetch_add(&trail.count, 1)] = (int)(intptr_t)user;
}

SOFT_TEST(streams_keep_order) {
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    atomic_store(&trail.count, 0);
    for (int i = 0; i < ORDERED; i++)
        assert_ok(drv->cuLaunchHostFunc(stream, trail_add, (void *)(intptr_t)i));
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_int_equal(atomic_load(&trail.count), ORDERED);
    for (int i = 0; i < ORDERED; i++)
        assert_int_equal(trail.at[i], i);
}

SOFT_TEST(streams_blocked_function_holds_up_its_own_only) {
    enum { BUSY = 12 };
    struct gate gates[BUSY];
    CUstream streams[BUSY];
    for (int i = 0; i < BUSY; i++) {
        streams[i] = soft_stream(CU_STREAM_NON_BLOCKING);
        soft_gate_put(&gates[i], streams[i]); /* returns although the gates before it are closed */
    }
    for (int i = 0; i < BUSY; i++)
        assert_int_equal(drv->cuStreamQuery(streams[i]), CUDA_ERROR_NOT_READY);
    for (int i = BUSY; i-- > 0;) {
        soft_gate_open(&gates[i]);
        assert_ok(drv->cuStreamSynchronize(streams[i]));
    }
}

/* The driver starts workers per busy stream, not per operation. */
SOFT_TEST(streams_workers_are_as_many_as_busy_streams) {
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    _Atomic int ran = 0;
    for (int i = 0; i < 500; i++)
        assert_ok(drv->cuLaunchHostFunc(stream, soft_note, &ran));
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_int_equal(atomic_load(&ran), 500);
    acre__lock_take(&acre__soft.lock);
    size_t workers = acre__soft.worker_count;
    acre__lock_give(&acre__soft.lock);
    assert_in_range(workers, 1, 8); /* one is enough; a few more start when workers take turns */
}

/* ---- the legacy stream ---- */

/* Expects that work on `second` waits, or does not wait, for earlier work on `first`. */
static void expect_order(CUstream first, CUstream second, int waits) {
    struct gate gate;
    _Atomic int ran = 0;
    soft_gate_put(&gate, first);
    assert_ok(drv->cuLaunchHostFunc(second, soft_note, &ran));
    if (waits) {
        sleep_ms(30);
        assert_int_equal(atomic_load(&ran), 0);
    } else {
        assert_true(soft_eventually(atomic_load(&ran)));
    }
    soft_gate_open(&gate);
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(atomic_load(&ran), 1);
}

SOFT_TEST(streams_legacy_rule_holds_in_both_directions) {
    CUstream blocking = soft_stream(CU_STREAM_DEFAULT), other = soft_stream(CU_STREAM_DEFAULT);
    for (int round = 0; round < 2; round++) {
        expect_order(NULL, blocking, 1);
        expect_order(blocking, NULL, 1);
        expect_order(other, CU_STREAM_LEGACY, 1);
        expect_order(CU_STREAM_LEGACY, other, 1);
        expect_order(CU_STREAM_PER_THREAD, NULL, 1);
        expect_order(NULL, CU_STREAM_PER_THREAD, 1);
        expect_order(blocking, other, 0);
        expect_order(CU_STREAM_PER_THREAD, other, 0);
    }
}

SOFT_TEST(streams_non_blocking_is_independent) {
    CUstream free_one = soft_stream(CU_STREAM_NON_BLOCKING);
    CUstream blocking = soft_stream(CU_STREAM_DEFAULT);
    for (int round = 0; round < 2; round++) {
        expect_order(NULL, free_one, 0);
        expect_order(free_one, NULL, 0);
        expect_order(free_one, blocking, 0);
        expect_order(blocking, free_one, 0);
    }
}

/* Work on the legacy stream between two blocking streams orders them. */
SOFT_TEST(streams_legacy_work_between_two_orders_them) {
    struct gate gate;
    _Atomic int ran = 0, middle = 0;
    CUstream one = soft_stream(CU_STREAM_DEFAULT), two = soft_stream(CU_STREAM_DEFAULT);
    soft_gate_put(&gate, one);
    assert_ok(drv->cuLaunchHostFunc(NULL, soft_note, &middle));
    assert_ok(drv->cuLaunchHostFunc(two, soft_note, &ran));
    sleep_ms(30);
    assert_int_equal(atomic_load(&middle) + atomic_load(&ran), 0);
    assert_int_equal(drv->cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(two));
    assert_int_equal(atomic_load(&middle) + atomic_load(&ran), 2);
    assert_true(soft_eventually(drv->cuStreamQuery(NULL) == CUDA_SUCCESS));
}

/* cuStreamSynchronize of the legacy stream also waits for blocking streams. */
SOFT_TEST(streams_legacy_synchronize_waits_for_blocking) {
    _Atomic int ran = 0;
    CUstream blocking = soft_stream(CU_STREAM_DEFAULT);
    for (int i = 0; i < 50; i++) {
        assert_ok(drv->cuLaunchHostFunc(blocking, soft_note, &ran));
        assert_ok(drv->cuStreamSynchronize(NULL));
        assert_int_equal(atomic_load(&ran), i + 1);
    }
}

/* ---- the per-thread stream ---- */

struct per_thread {
    unsigned long long id;
    CUresult result;
    struct gate *gate;
    _Atomic int *ran;
};

static void *use_per_thread(void *argument) {
    struct per_thread *use = argument;
    use->result = drv->cuCtxPushCurrent(soft_ctx[0]);
    if (!use->result)
        use->result = drv->cuStreamGetId(CU_STREAM_PER_THREAD, &use->id);
    if (!use->result && use->gate)
        use->result = drv->cuLaunchHostFunc(CU_STREAM_PER_THREAD, gate_run, use->gate);
    if (!use->result && use->ran)
        use->result = drv->cuLaunchHostFunc(CU_STREAM_PER_THREAD, soft_note, use->ran);
    return NULL;
}

static void per_thread_run(struct per_thread *use) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, use_per_thread, use), 0);
    pthread_join(thread, NULL);
    assert_ok(use->result);
}

SOFT_TEST(streams_per_thread_differs_and_ends_with_its_thread) {
    unsigned long long mine = 0, again = 0;
    assert_ok(drv->cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
    size_t streams = soft_stream_count(0);
    struct per_thread one = {0}, two = {0};
    per_thread_run(&one);
    per_thread_run(&two);
    assert_true(one.id != mine && two.id != mine && one.id != two.id);
    assert_int_equal(soft_stream_count(0), streams);
    assert_ok(drv->cuStreamGetId(CU_STREAM_PER_THREAD, &again));
    assert_int_equal(again, mine);
}

SOFT_TEST(streams_per_thread_of_ended_thread_finishes_its_work) {
    struct gate gate = {0};
    _Atomic int ran = 0;
    struct per_thread use = {.gate = &gate, .ran = &ran};
    per_thread_run(&use); /* the thread has ended, its work waits at the gate */
    assert_int_equal(atomic_load(&ran), 0);
    assert_int_equal(soft_stream_count(0), 1);
    soft_gate_open(&gate);
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(atomic_load(&ran), 1);
    assert_true(soft_eventually(soft_stream_count(0) == 0));
}

/* The stream is destroyed with the context; the thread must not use its stale record of the
 * stream. */
SOFT_TEST(streams_per_thread_after_context_restart_is_new) {
    unsigned long long before = 0, after = 0;
    _Atomic int ran = 0;
    assert_ok(drv->cuStreamGetId(CU_STREAM_PER_THREAD, &before));
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_ok(drv->cuDevicePrimaryCtxRetain(&soft_ctx[0], 0));
    assert_ok(drv->cuLaunchHostFunc(CU_STREAM_PER_THREAD, soft_note, &ran));
    assert_ok(drv->cuStreamSynchronize(CU_STREAM_PER_THREAD));
    assert_int_equal(atomic_load(&ran), 1);
    assert_ok(drv->cuStreamGetId(CU_STREAM_PER_THREAD, &after));
    assert_true(before != after);
}

static void *use_across_restart(void *argument) {
    _Atomic int *turn = argument;
    unsigned long long id;
    if (drv->cuCtxPushCurrent(soft_ctx[0]) || drv->cuStreamGetId(CU_STREAM_PER_THREAD, &id))
        return argument;
    atomic_store(turn, 1);
    (void)soft_eventually(atomic_load(turn) == 2);
    return NULL; /* the thread's exit looks up its stream */
}

SOFT_TEST(streams_thread_that_outlives_the_context_ends_well) {
    _Atomic int turn = 0;
    pthread_t thread;
    void *failed = NULL;
    assert_int_equal(pthread_create(&thread, NULL, use_across_restart, &turn), 0);
    assert_true(soft_eventually(atomic_load(&turn) == 1));
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_ok(drv->cuDevicePrimaryCtxRetain(&soft_ctx[0], 0));
    size_t streams = soft_stream_count(0);
    CUstream other = soft_stream(CU_STREAM_DEFAULT);
    atomic_store(&turn, 2);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(soft_stream_count(0), streams + 1);
    assert_ok(drv->cuStreamDestroy(other));
}

/* ---- handles and destruction ---- */

SOFT_TEST(streams_destroyed_finishes_its_work) {
    struct gate gate;
    _Atomic int ran = 0;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuLaunchHostFunc(stream, soft_note, &ran));
    assert_ok(drv->cuStreamDestroy(stream));
    assert_int_equal(drv->cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(atomic_load(&ran), 0);
    soft_gate_open(&gate);
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(atomic_load(&ran), 1);
    assert_true(soft_eventually(soft_stream_count(0) == 0));
}

SOFT_TEST(streams_handle_comes_back_with_another_id) {
    struct gate gate;
    unsigned long long first = 0, second = 0;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuStreamGetId(stream, &first));
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuStreamDestroy(stream)); /* while its work still runs */
    CUstream again = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ptr_equal(stream, again);
    assert_ok(drv->cuStreamGetId(again, &second));
    assert_true(first != second);
    assert_ok(drv->cuStreamQuery(again)); /* the old work does not belong to the new stream */
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamDestroy(again));
}

SOFT_TEST(streams_dead_handle_is_refused) {
    CUstream stream = soft_stream(CU_STREAM_DEFAULT);
    CUevent event;
    CUdeviceptr at = 0;
    CUstreamCaptureStatus capture;
    unsigned flags;
    unsigned long long id;
    CUcontext ctx;
    _Atomic int ran = 0;
    int junk = 0;
    const CUresult dead = CUDA_ERROR_INVALID_HANDLE;
    assert_ok(drv->cuEventCreate(&event, 0));
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuStreamDestroy(stream));
    const CUstream handles[] = {stream, (CUstream)(void *)&junk, (CUstream)(uintptr_t)3};
    for (size_t i = 0; i < sizeof handles / sizeof *handles; i++) {
        assert_int_equal(drv->cuStreamDestroy(handles[i]), dead);
        assert_int_equal(drv->cuStreamSynchronize(handles[i]), dead);
        assert_int_equal(drv->cuStreamQuery(handles[i]), dead);
        assert_int_equal(drv->cuStreamGetFlags(handles[i], &flags), dead);
        assert_int_equal(drv->cuStreamGetId(handles[i], &id), dead);
        assert_int_equal(drv->cuStreamGetCtx(handles[i], &ctx), dead);
        assert_int_equal(drv->cuStreamIsCapturing(handles[i], &capture), dead);
        assert_int_equal(drv->cuStreamBeginCapture(handles[i], 0), dead);
        assert_int_equal(drv->cuStreamWaitEvent(handles[i], event, 0), dead);
        assert_int_equal(drv->cuEventRecord(event, handles[i]), dead);
        assert_int_equal(drv->cuMemsetD8Async(at, 1, 64, handles[i]), dead);
        assert_int_equal(drv->cuMemcpyDtoHAsync(&junk, at, 4, handles[i]), dead);
        assert_int_equal(drv->cuLaunchHostFunc(handles[i], soft_note, &ran), dead);
    }
    assert_int_equal(drv->cuStreamDestroy(NULL), dead);
    assert_int_equal(drv->cuStreamDestroy(CU_STREAM_LEGACY), dead);
    assert_int_equal(drv->cuStreamDestroy(CU_STREAM_PER_THREAD), dead);
    assert_int_equal(atomic_load(&ran), 0);
}

struct waiting {
    CUstream stream;
    CUresult result;
    _Atomic int is_over;
};

static void *wait_in_thread(void *argument) {
    struct waiting *waiting = argument;
    waiting->result = drv->cuCtxPushCurrent(soft_ctx[0]);
    if (!waiting->result)
        waiting->result = drv->cuStreamSynchronize(waiting->stream);
    atomic_store(&waiting->is_over, 1);
    return NULL;
}

SOFT_TEST(streams_destroyed_under_waiting_threads_wakes_them) {
    enum { WAITERS = 3 };
    struct gate gate;
    struct waiting waiting[WAITERS];
    pthread_t threads[WAITERS];
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    soft_gate_put(&gate, stream);
    for (int i = 0; i < WAITERS; i++) {
        waiting[i] = (struct waiting){stream, CUDA_SUCCESS, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, wait_in_thread, &waiting[i]), 0);
    }
    assert_true(soft_eventually(soft_waiters() == WAITERS));
    assert_ok(drv->cuStreamDestroy(stream));
    sleep_ms(10);
    for (int i = 0; i < WAITERS; i++)
        assert_false(atomic_load(&waiting[i].is_over));
    soft_gate_open(&gate);
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(threads[i], NULL);
        assert_ok(waiting[i].result);
    }
    assert_true(soft_eventually(soft_stream_count(0) == 0));
}

/* ---- host functions ---- */

struct from_function {
    CUdeviceptr at;
    CUresult alloc, sync, query, launch, current;
};

static void call_from_function(void *user) {
    struct from_function *f = user;
    CUcontext ctx;
    f->alloc = drv->cuMemAlloc(&f->at, 512);
    f->sync = drv->cuCtxSynchronize();
    f->query = drv->cuStreamQuery(NULL);
    f->launch = drv->cuLaunchHostFunc(NULL, soft_note, f);
    f->current = drv->cuCtxGetCurrent(&ctx);
}

SOFT_TEST(streams_calls_from_host_function_are_refused) {
    struct from_function f = {0};
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuLaunchHostFunc(stream, call_from_function, &f));
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_int_equal(f.alloc, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(f.sync, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(f.query, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(f.launch, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(f.current, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(soft_used_bytes(0), 0);
    assert_int_equal(drv->cuLaunchHostFunc(stream, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* With a seed, the calling thread runs the host function. It may call the driver again
 * afterwards. */
SOFT_TEST_BARE(streams_calls_after_seeded_host_function_are_allowed) {
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.seeded = 1;
    config.seed = 5;
    soft_begin_with(&config);
    struct from_function f = {0};
    for (int i = 0; i < 20; i++)
        assert_ok(drv->cuLaunchHostFunc(NULL, call_from_function, &f));
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(f.alloc, CUDA_ERROR_NOT_PERMITTED);
    assert_int_equal(f.sync, CUDA_ERROR_NOT_PERMITTED);
    assert_ok(drv->cuMemAlloc(&f.at, 512));
}

/* With a seed and real threads, each waiting thread runs steps of all streams. */
static void *sync_seeded(void *argument) {
    _Atomic int *failures = argument;
    CUstream stream = NULL;
    CUdeviceptr at = 0;
    if (drv->cuCtxPushCurrent(soft_ctx[0]) || drv->cuMemAlloc(&at, MIB) ||
        drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
        atomic_fetch_add(failures, 1);
    for (int i = 0; i < 40 && stream; i++)
        if (drv->cuMemsetD8Async(at, 1, MIB, stream) || drv->cuStreamSynchronize(stream))
            atomic_fetch_add(failures, 1);
    return NULL;
}

SOFT_TEST_BARE(streams_seeded_with_real_threads_are_never_stuck) {
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.seeded = config.check = 1;
    config.seed = 7;
    soft_begin_with(&config);
    _Atomic int failures = 0;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sync_seeded, &failures), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&failures), 0);
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
}

/* ---- callbacks ---- */

struct heard {
    CUstream stream;
    CUresult status, inside;
    _Atomic int calls;
};

static void hear(CUstream stream, CUresult status, void *user) {
    struct heard *heard = user;
    CUdeviceptr at = 0;
    heard->stream = stream;
    heard->status = status;
    heard->inside = drv->cuMemAlloc(&at, 64);
    atomic_fetch_add(&heard->calls, 1);
}

SOFT_TEST(streams_callback_comes_in_order) {
    struct heard heard = {0};
    struct gate gate;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuStreamAddCallback(stream, hear, &heard, 0));
    assert_int_equal(atomic_load(&heard.calls), 0);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_int_equal(atomic_load(&heard.calls), 1);
    assert_ptr_equal(heard.stream, stream);
    assert_int_equal(heard.status, CUDA_SUCCESS);
    assert_int_equal(heard.inside, CUDA_ERROR_NOT_PERMITTED);
}

/* Unlike a host function, a callback runs on a lost device and receives the error. */
SOFT_TEST(streams_callback_hears_of_a_lost_device) {
    struct heard heard = {0};
    struct gate gate;
    _Atomic int noted = 0;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at = soft_map(soft_chunk(CHUNK, 0), CHUNK, 0);
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuMemsetD8Async(at, 1, CHUNK, stream));
    assert_ok(drv->cuLaunchHostFunc(stream, soft_note, &noted));
    assert_ok(drv->cuStreamAddCallback(stream, hear, &heard, 0));
    assert_ok(drv->cuMemUnmap(at, CHUNK)); /* under the queued fill */
    soft_gate_open(&gate);
    assert_true(soft_eventually(atomic_load(&heard.calls) == 1));
    assert_int_equal(heard.status, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(atomic_load(&noted), 0);
}

SOFT_TEST(streams_callback_breaks_a_capture) {
    struct heard heard = {0};
    CUgraph graph = NULL;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_refused(drv->cuStreamAddCallback(stream, hear, &heard, 0));
    assert_refused(drv->cuStreamEndCapture(stream, &graph));
    assert_int_equal(atomic_load(&heard.calls), 0);
}

int main(void) {
    return tests_run("soft_streams");
}
