/* Contexts of the soft driver: which objects a context destroys with it, stacks that still hold
 * destroyed contexts, threads that create and destroy contexts at once, and a reset of the primary
 * context in use. */
#include "driver/driver_fault.h"
#include "soft_fixture.h"
#include "support/rounds.h"

static CUcontext make_own(int device) {
    CUcontext ctx = NULL;
    assert_ok(drv->cuCtxCreate(&ctx, NULL, 0, device));
    return ctx;
}

static size_t living_count(void) {
    size_t count = 0;
    acre__lock_take(&acre__soft.lock);
    for (const struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        count++;
    acre__lock_give(&acre__soft.lock);
    return count;
}

/* ---- objects of a context ---- */

SOFT_TEST(contexts_end_takes_all_of_its_own_and_nothing_else) {
    CUdeviceptr kept = 0, at = 0, large = 0, managed = 0;
    void *host = NULL;
    static char registered[8192];
    unsigned type;
    CUevent event, kept_event;
    CUstream kept_stream = soft_stream(0);
    assert_ok(drv->cuMemAlloc(&kept, 4096));
    assert_ok(drv->cuMemsetD8(kept, 3, 4096));
    assert_ok(drv->cuEventCreate(&kept_event, 0));
    CUdeviceptr mapped = soft_map(soft_chunk(CHUNK, 0), CHUNK, 0);
    uint64_t before = soft_used_bytes(0);

    CUcontext ctx = make_own(0);
    CUstream stream = soft_stream(0);
    assert_ok(drv->cuEventCreate(&event, 0));
    assert_ok(drv->cuMemAlloc(&at, 100));
    assert_ok(drv->cuMemAlloc(&large, 8 * MIB));
    assert_ok(drv->cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
    assert_ok(drv->cuMemHostAlloc(&host, 100, 0));
    assert_ok(drv->cuMemHostRegister(registered, sizeof registered, 0));
    assert_ok(drv->cuMemsetD8Async(large, 1, 8 * MIB, stream));
    assert_ok(drv->cuCtxDestroy(ctx));

    assert_int_equal(soft_used_bytes(0), before);
    const CUdeviceptr gone[] = {at, large, managed, (uintptr_t)host, (uintptr_t)registered};
    for (int i = 0; i < 5; i++)
        assert_refused(
            drv->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, gone[i]));
    assert_refused(drv->cuStreamQuery(stream));
    assert_refused(drv->cuEventQuery(event));
    assert_true(soft_is_filled(kept, 4096, 3));
    assert_ok(drv->cuEventRecord(kept_event, kept_stream));
    assert_ok(drv->cuMemsetD8(mapped, 4, CHUNK));
    assert_true(soft_is_filled(mapped, CHUNK, 4));
    registered[0] = 1; /* still the caller's memory */
    assert_int_equal(living_count(), 1);
}

SOFT_TEST(contexts_end_does_the_work_first) {
    _Atomic int ran = 0;
    CUcontext ctx = make_own(0);
    for (int i = 0; i < 8; i++) {
        CUstream stream = soft_stream(i % 2 ? CU_STREAM_NON_BLOCKING : 0);
        for (int k = 0; k < 20; k++)
            assert_ok(drv->cuLaunchHostFunc(stream, soft_note, &ran));
    }
    assert_ok(drv->cuCtxDestroy(ctx));
    assert_int_equal(atomic_load(&ran), 160);
}

/* Contexts of one device do not wait for each other's work. */
SOFT_TEST(contexts_do_not_wait_for_each_other) {
    struct gate gate;
    CUdeviceptr at = 0;
    soft_gate_put(&gate, NULL); /* blocks the primary context's legacy stream */
    CUcontext ctx = make_own(0);
    assert_ok(drv->cuMemAlloc(&at, 4096));
    assert_ok(drv->cuMemsetD8(at, 1, 4096));
    assert_true(soft_is_filled(at, 4096, 1));
    assert_ok(drv->cuCtxSynchronize());
    assert_ok(drv->cuMemFree(at));
    assert_ok(drv->cuCtxDestroy(ctx));
    assert_int_equal(atomic_load(&gate.is_passed), 0);
    soft_gate_open(&gate);
}

SOFT_TEST(contexts_beside_a_lost_one_are_well) {
    struct gate gate;
    CUdeviceptr at = 0;
    CUdevice dev = 9;
    CUcontext ctx = make_own(0);
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr gone = soft_map(soft_chunk(CHUNK, 0), CHUNK, 0);
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuMemsetD8Async(gone, 1, 64, stream));
    assert_ok(drv->cuMemUnmap(gone, CHUNK));
    soft_gate_open(&gate);
    assert_true(soft_eventually(drv->cuMemAlloc(&at, 64) == CUDA_ERROR_ILLEGAL_ADDRESS));
    assert_ok(drv->cuCtxGetDevice(&dev));
    assert_ok(drv->cuCtxPushCurrent(soft_ctx[0]));
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuCtxPopCurrent(&soft_ctx[0]));
    assert_ok(drv->cuCtxDestroy(ctx));
    ctx = make_own(0); /* as programs do to recover from such an error */
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuCtxDestroy(ctx));
}

/* ---- separate state ---- */

SOFT_TEST(contexts_have_streams_and_limits_of_their_own) {
    CUcontext whose;
    CUstream primary = soft_stream(0);
    unsigned long long ids[4];
    size_t stack;
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuStreamGetId(NULL, &ids[0]));
    assert_ok(drv->cuStreamGetId(CU_STREAM_PER_THREAD, &ids[1]));
    CUcontext ctx = make_own(0);
    assert_ok(drv->cuStreamGetId(NULL, &ids[2]));
    assert_ok(drv->cuStreamGetId(CU_STREAM_PER_THREAD, &ids[3]));
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(ids[i], ids[k]);
    assert_ok(drv->cuStreamGetCtx(CU_STREAM_PER_THREAD, &whose));
    assert_ptr_equal(whose, ctx);
    assert_ok(drv->cuStreamGetCtx(primary, &whose));
    assert_ptr_equal(whose, soft_ctx[0]);
    /* A stream can be used from another context. */
    assert_ok(drv->cuMemsetD8Async(at, 1, 64, primary));
    assert_ok(drv->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    assert_ok(drv->cuCtxPopCurrent(&ctx));
    assert_ok(drv->cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE));
    assert_int_equal(stack, 1024);
    assert_ok(drv->cuCtxDestroy(ctx));
    assert_true(soft_is_filled(at, 64, 1));
}

/* A context-wide call in one context does not invalidate a capture in another. */
SOFT_TEST(contexts_capture_is_of_its_own) {
    CUgraph graph = NULL;
    CUstream stream = soft_stream(0);
    assert_ok(drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUcontext ctx = make_own(0);
    CUdeviceptr at = 0;
    assert_ok(drv->cuCtxSynchronize());
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuMemsetD8(at, 1, 64)); /* on its own legacy stream */
    assert_ok(drv->cuCtxDestroy(ctx));
    assert_ok(drv->cuStreamEndCapture(stream, &graph));
    assert_ok(drv->cuGraphDestroy(graph));
}

/* ---- destroyed contexts ---- */

SOFT_TEST(contexts_dead_on_a_stack_is_not_the_next_one) {
    CUdeviceptr at = 0;
    CUcontext low = make_own(0), high = make_own(0), top;
    assert_ok(drv->cuCtxDestroy(low)); /* it is below the other one on the stack */
    CUcontext again = make_own(0);
    assert_ptr_equal(again, low); /* its record is reused, */
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuCtxPopCurrent(&top));
    assert_ok(drv->cuCtxDestroy(high));
    /* The stack still holds the destroyed context. */
    assert_int_equal(drv->cuMemAlloc(&at, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_ok(drv->cuCtxPopCurrent(&top));
    assert_ptr_equal(top, low);
    assert_ok(drv->cuCtxPushCurrent(again));
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuCtxDestroy(again));
    assert_ok(drv->cuMemAlloc(&at, 64)); /* the primary context is current again */
}

SOFT_TEST(contexts_dead_or_foreign_handle_is_refused) {
    unsigned number;
    unsigned long long id;
    CUdeviceptr at = 0;
    struct CUctx_st *foreign = calloc(1, sizeof *foreign);
    assert_non_null(foreign);
    assert_ok(drv->cuMemAlloc(&at, 4096));
    CUcontext dead = make_own(0);
    assert_ok(drv->cuCtxDestroy(dead));
    const CUcontext bad[] = {dead, foreign};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(drv->cuCtxPushCurrent(bad[i]), CUDA_ERROR_INVALID_CONTEXT);
        assert_int_equal(drv->cuCtxSetCurrent(bad[i]), CUDA_ERROR_INVALID_CONTEXT);
        assert_int_equal(drv->cuCtxDestroy(bad[i]), CUDA_ERROR_INVALID_CONTEXT);
        assert_int_equal(drv->cuCtxGetApiVersion(bad[i], &number), CUDA_ERROR_INVALID_CONTEXT);
        assert_int_equal(drv->cuCtxGetId(bad[i], &id), CUDA_ERROR_INVALID_CONTEXT);
        assert_int_equal(drv->cuMemcpyPeer(at, bad[i], at + 64, NULL, 16),
                         CUDA_ERROR_INVALID_CONTEXT);
    }
    assert_ok(drv->cuMemAlloc(&at, 64));
    free(foreign);
}

SOFT_TEST(contexts_stack_full_leaves_none_behind) {
    CUcontext ctx, top;
    for (int i = 1; i < SOFT_STACK; i++)
        assert_ok(drv->cuCtxPushCurrent(soft_ctx[0]));
    assert_int_equal(drv->cuCtxCreate(&ctx, NULL, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(living_count(), 1);
    assert_ok(drv->cuCtxPopCurrent(&top));
    ctx = make_own(0);
    assert_ok(drv->cuCtxDestroy(ctx));
}

SOFT_TEST(contexts_ids_are_never_the_same) {
    unsigned long long last = 0, id;
    for (int i = 0; i < 100; i++) {
        CUcontext ctx = make_own(0);
        assert_ok(drv->cuCtxGetId(ctx, &id));
        assert_true(id > last);
        last = id;
        assert_ok(drv->cuCtxDestroy(ctx));
    }
}

/* Creates thousands of contexts with streams: neither the records nor the clocks' slots run out. */
SOFT_TEST_BARE(contexts_many_in_turn_use_no_more) {
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.check = 1;
    soft_begin_with(&config);
    CUdeviceptr chunk = soft_map(soft_chunk(CHUNK, 0), CHUNK, 0);
    for (int i = 0; i < ROUNDS(SOFT_SLOTS, 300); i++) {
        CUcontext ctx = make_own(0);
        CUstream one = soft_stream(CU_STREAM_NON_BLOCKING), two = soft_stream(0);
        assert_ok(drv->cuMemsetD8Async(chunk, 1, 64, one));
        assert_ok(drv->cuMemsetD8Async(chunk + 64, 1, 64, two));
        assert_ok(drv->cuCtxDestroy(ctx));
    }
    assert_true(acre__soft.slot_high < 16);
    assert_ok(drv->cuMemUnmap(chunk, CHUNK));
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
}

/* ---- the primary context ---- */

SOFT_TEST(contexts_reset_frees_and_lives_again_when_retained) {
    CUcontext again, top;
    CUdeviceptr at = 0, more = 0;
    CUstream stream = soft_stream(0);
    unsigned long long before, after;
    assert_ok(drv->cuDevicePrimaryCtxRetain(&again, 0)); /* retained twice */
    assert_ok(drv->cuCtxGetId(NULL, &before));
    assert_ok(drv->cuMemAlloc(&at, 8 * MIB));
    assert_ok(drv->cuMemsetD8Async(at, 1, 8 * MIB, stream));
    assert_ok(drv->cuDevicePrimaryCtxReset(0));
    assert_int_equal(soft_used_bytes(0), 0);
    assert_int_equal(acre__soft.worker_count, 0);
    assert_int_equal(drv->cuMemAlloc(&more, 64), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_refused(drv->cuStreamQuery(stream));
    assert_ok(drv->cuCtxGetCurrent(&top));
    assert_ptr_equal(top, soft_ctx[0]);
    assert_ok(drv->cuDevicePrimaryCtxRetain(&again, 0));
    assert_ptr_equal(again, soft_ctx[0]);
    assert_int_equal(drv->cuMemFree(at), CUDA_ERROR_INVALID_VALUE);
    assert_ok(drv->cuMemAlloc(&more, 64)); /* it is still current */
    assert_ok(drv->cuCtxGetId(NULL, &after));
    assert_int_not_equal(before, after);
    for (int i = 0; i < 3; i++)
        assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_refused(drv->cuDevicePrimaryCtxRelease(0));
    assert_int_equal(soft_used_bytes(0), 0);
}

static void *wait_for_stream(void *user) {
    CUstream stream = user;
    CUcontext ctx = soft_ctx[0];
    if (drv->cuCtxPushCurrent(ctx))
        return user;
    CUresult result = drv->cuStreamSynchronize(stream);
    return result == CUDA_SUCCESS || result == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
                   result == CUDA_ERROR_INVALID_HANDLE
               ? NULL
               : user;
}

SOFT_TEST(contexts_reset_wakes_who_waits) {
    for (int round = 0; round < 20; round++) {
        struct gate gate;
        CUcontext again;
        CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
        pthread_t threads[3];
        void *failed = NULL;
        soft_gate_put(&gate, stream);
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, wait_for_stream, stream), 0);
        soft_gate_open(&gate);
        assert_ok(drv->cuDevicePrimaryCtxReset(0));
        for (int i = 0; i < 3; i++) {
            pthread_join(threads[i], &failed);
            assert_null(failed);
        }
        assert_ok(drv->cuDevicePrimaryCtxRetain(&again, 0));
        assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    }
}

SOFT_TEST(contexts_own_one_keeps_the_driver_configured) {
    struct acre__soft_config other = soft_config(32 * MIB, 1);
    CUcontext ctx = make_own(0), top;
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_int_equal(acre__soft_configure(&other), ACRE_E_BUSY);
    assert_ok(drv->cuCtxDestroy(ctx));
    assert_ok(drv->cuCtxPopCurrent(&top));
    assert_int_equal(acre__soft_configure(&other), ACRE_OK);
}

/* ---- many threads ---- */

enum { STORM_THREADS = 6, STORM_ROUNDS = 80 };

static _Atomic(CUcontext) storm_shared;

/* Returns 1 for codes that are valid when another thread destroys the context in use. */
static int storm_is_fair(CUresult result) {
    return result == CUDA_SUCCESS || result == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
           result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_INVALID_HANDLE ||
           result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_OUT_OF_MEMORY;
}

/* Each thread creates its own contexts, retains and resets the primary one, and uses and destroys
 * contexts that other threads created. */
static void *storm(void *user) {
    uint64_t random = (uint64_t)(uintptr_t)user;
    for (int i = 0; i < ROUNDS(STORM_ROUNDS, 20); i++) {
        CUcontext ctx = NULL, primary = NULL, top;
        CUdeviceptr at = 0;
        CUstream stream = NULL;
        if (drv->cuCtxCreate(&ctx, NULL, 0, (int)random_draw(&random, 2)))
            return user;
        if (drv->cuMemAlloc(&at, 4096) || drv->cuStreamCreate(&stream, 0) ||
            drv->cuMemsetD8Async(at, 1, 4096, stream) || drv->cuMemsetD8(at, 2, 4096) ||
            drv->cuMemsetD8Async(at, 3, 4096, CU_STREAM_PER_THREAD))
            return user;
        CUcontext shared = atomic_exchange(&storm_shared, ctx);
        if (shared && drv->cuCtxPushCurrent(shared) == CUDA_SUCCESS) {
            int is_fair = storm_is_fair(drv->cuMemAlloc(&at, 64)) &&
                          storm_is_fair(drv->cuMemsetD8(at, 1, 64)) &&
                          storm_is_fair(drv->cuCtxSynchronize());
            if (!is_fair || drv->cuCtxPopCurrent(&top))
                return user;
        }
        if (shared && !storm_is_fair(drv->cuCtxDestroy(shared)))
            return user;
        if (drv->cuCtxPopCurrent(&top) || drv->cuDevicePrimaryCtxRetain(&primary, 0) ||
            drv->cuCtxPushCurrent(primary))
            return user;
        if (!storm_is_fair(drv->cuMemAlloc(&at, 4096)) ||
            !storm_is_fair(drv->cuMemsetD8(at, 1, 4096)) ||
            (random_draw(&random, 4) == 0 && drv->cuDevicePrimaryCtxReset(0)) ||
            drv->cuCtxPopCurrent(&top) || drv->cuDevicePrimaryCtxRelease(0))
            return user;
    }
    return NULL;
}

SOFT_TEST_BARE(contexts_made_and_ended_by_many_threads) {
    soft_begin(256 * MIB, 2);
    pthread_t threads[STORM_THREADS];
    void *failed = NULL;
    atomic_store(&storm_shared, NULL);
    for (int i = 0; i < STORM_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, storm, (void *)(uintptr_t)(i + 1)), 0);
    for (int i = 0; i < STORM_THREADS; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    CUcontext shared = atomic_load(&storm_shared);
    if (shared)
        assert_ok(drv->cuCtxDestroy(shared));
}

/* The per-thread default stream of a created context ends with the thread, not with the context. */
static void *use_own_stream(void *user) {
    CUdeviceptr at = 0;
    return drv->cuCtxPushCurrent(user) || drv->cuMemAlloc(&at, 64) ||
                   drv->cuMemsetD8Async(at, 1, 64, CU_STREAM_PER_THREAD) ||
                   drv->cuStreamSynchronize(CU_STREAM_PER_THREAD)
               ? user
               : NULL;
}

SOFT_TEST(contexts_thread_streams_end_with_their_threads) {
    CUcontext ctx = make_own(0);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        void *failed = NULL;
        assert_int_equal(pthread_create(&thread, NULL, use_own_stream, ctx), 0);
        pthread_join(thread, &failed);
        assert_null(failed);
    }
    acre__lock_take(&acre__soft.lock);
    assert_null(ctx->streams);
    acre__lock_give(&acre__soft.lock);
    assert_ok(drv->cuCtxDestroy(ctx));
}

/* ---- injected failures ---- */

/* Runs a program with a created context and frees everything, whatever fails. Returns the first
 * failure. */
static CUresult run_program(const struct acre__driver *d) {
    CUcontext ctx = NULL;
    CUdeviceptr at = 0;
    CUstream stream = NULL;
    size_t pitch = 0;
    CUresult result = d->cuCtxCreate(&ctx, NULL, 0, 0);
    if (!result && !(result = d->cuMemAllocPitch(&at, &pitch, 100, 4, 4)) &&
        !(result = d->cuStreamCreate(&stream, 0)) &&
        !(result = d->cuMemsetD2D16Async(at, pitch, 1, 50, 4, stream)))
        result = d->cuStreamSynchronize(stream);
    while (ctx && d->cuCtxDestroy(ctx) != CUDA_SUCCESS)
        ;
    return result;
}

SOFT_TEST(contexts_any_call_may_fail) {
    const struct acre__driver *failing = acre__fault_wrap(drv);
    uint64_t fired;
    uint32_t nth = 0;
    CUcontext top;
    do {
        struct acre__fault_plan plan = {.nth = ++nth, .code = CUDA_ERROR_OUT_OF_MEMORY};
        assert_int_equal(acre__fault_set(&plan), ACRE_OK);
        CUresult result = run_program(failing);
        fired = acre__fault_fired();
        assert_int_equal(acre__fault_set(NULL), ACRE_OK);
        assert_true(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(living_count(), 1);
        assert_int_equal(soft_used_bytes(0), 0);
        assert_ok(drv->cuCtxGetCurrent(&top));
        assert_ptr_equal(top, soft_ctx[0]);
        assert_ok(run_program(drv));
    } while (fired);
    assert_true(nth > 5);
}

int main(void) {
    return tests_run("soft_contexts");
}
