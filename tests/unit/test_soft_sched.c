/* Virtual host threads on the soft driver under the seeded scheduler: they wait without blocking
 * each other, have separate context stacks and default streams, and the seed determines the
 * order. */
#include "soft_fixture.h"

#include "base/atomic.h"
#include "soft/sched.h"

static void begin_seeded(uint64_t seed) {
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.seeded = config.check = 1;
    config.seed = seed;
    soft_begin_with(&config);
}

static void end_seeded(void) {
    void *state = NULL;
    soft_teardown(&state);
}

/* ---- waiting ---- */

static struct {
    struct acre__lock lock;
    struct acre__cond cond;
    unsigned turn;
    unsigned served[3];
} table = {.lock = ACRE__LOCK_INIT("table", ACRE__RANK_DEVICE), .cond = ACRE__COND_INIT};

enum { TURNS = 50 };

static void take_turns(void *user) {
    unsigned me = (unsigned)(uintptr_t)user;
    acre__lock_take(&table.lock);
    for (int i = 0; i < TURNS; i++) {
        while (table.turn != me)
            acre__cond_wait(&table.cond, &table.lock);
        table.served[me]++;
        table.turn = (me + 1) % 3;
        acre__cond_wake(&table.cond);
    }
    acre__lock_give(&table.lock);
}

/* Each thread passes the turn on and waits: at times all threads wait, but one of them is
 * runnable. */
TEST(sched_threads_that_hand_turns_around_are_not_stuck) {
    struct acre__vthread threads[3];
    for (uintptr_t i = 0; i < 3; i++)
        threads[i] = (struct acre__vthread){take_turns, (void *)i};
    for (uint64_t seed = 0; seed < 20; seed++) {
        memset(table.served, 0, sizeof table.served);
        table.turn = 0;
        assert_int_equal(acre__sched_run(seed, threads, 3), ACRE__SCHED_DONE);
        for (int i = 0; i < 3; i++)
            assert_int_equal(table.served[i], TURNS);
    }
}

static void wait_for_nothing(void *unused) {
    (void)unused;
    acre__lock_take(&acre__soft.lock);
    for (;;)
        acre__cond_wait(&acre__soft.done, &acre__soft.lock);
}

static void do_nothing(void *unused) {
    (void)unused;
}

/* The scheduler abandons the stuck threads, and their lock is free afterwards. */
TEST(sched_threads_that_wait_for_ever_are_stuck) {
    const struct acre__vthread threads[] = {
        {wait_for_nothing, NULL}, {do_nothing, NULL}, {wait_for_nothing, NULL}};
    begin_seeded(1);
    assert_int_equal(acre__sched_run(1, threads, 3), ACRE__SCHED_STUCK);
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAlloc(&at, 64));
    end_seeded();
    drv = acre__driver_soft();
}

/* ---- the driver ---- */

enum { WORKERS = 3, STEPS = 6 };

static struct {
    const char *wrong;
    unsigned long long ids[WORKERS];
    unsigned trail[WORKERS * STEPS];
    unsigned count;
} work;

static const char *work_step(unsigned me, unsigned step, CUdeviceptr at, CUstream stream) {
    unsigned char seen[100], value = (unsigned char)(me * 16 + step);
    if (drv->cuMemsetD8Async(at, value, 100, stream))
        return "the fill failed";
    if (step % 2 ? drv->cuStreamSynchronize(stream) : drv->cuMemsetD8Async(at, value, 50, stream))
        return "the second fill or the sync failed";
    if (drv->cuMemcpyDtoHAsync(seen, at, 100, stream)) /* blocks until the copy is done */
        return "the copy failed";
    for (int i = 0; i < 100; i++)
        if (seen[i] != value)
            return "wrong bytes";
    return NULL;
}

static void work_run(void *user) {
    unsigned me = (unsigned)(uintptr_t)user;
    CUdeviceptr at = 0;
    CUcontext before = NULL;
    if (drv->cuCtxGetCurrent(&before) || before) /* an empty context stack per thread */
        work.wrong = "the thread began with a current context";
    if (drv->cuCtxPushCurrent(soft_ctx[0]) || drv->cuMemAlloc(&at, 100) ||
        drv->cuStreamGetId(CU_STREAM_PER_THREAD, &work.ids[me]))
        work.wrong = "the first driver calls failed";
    for (unsigned step = 0; step < STEPS && !work.wrong; step++) {
        work.wrong = work_step(me, step, at, CU_STREAM_PER_THREAD);
        work.trail[work.count++] = me;
    }
    if (drv->cuMemFree(at))
        work.wrong = "cuMemFree failed";
    /* Leaves work queued when the thread ends. */
    if (drv->cuMemAlloc(&at, 100) || drv->cuMemsetD8Async(at, 1, 100, CU_STREAM_PER_THREAD))
        work.wrong = "the last driver calls failed";
}

static void work_under(uint64_t seed) {
    struct acre__vthread threads[WORKERS];
    memset(&work, 0, sizeof work);
    for (uintptr_t i = 0; i < WORKERS; i++)
        threads[i] = (struct acre__vthread){work_run, (void *)i};
    begin_seeded(seed);
    assert_int_equal(acre__sched_run(seed, threads, WORKERS), ACRE__SCHED_DONE);
    if (work.wrong)
        fail_msg("seed %llu: %s", (unsigned long long)seed, work.wrong);
    assert_true(work.ids[0] != work.ids[1] && work.ids[1] != work.ids[2] &&
                work.ids[0] != work.ids[2]);
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(soft_stream_count(0), 0); /* destroyed with their threads and work */
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
    end_seeded();
}

TEST(sched_seed_says_the_order) {
    unsigned first[WORKERS * STEPS], differing = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        work_under(seed);
        unsigned once[WORKERS * STEPS];
        memcpy(once, work.trail, sizeof once);
        work_under(seed);
        assert_memory_equal(once, work.trail, sizeof once);
        if (seed == 1)
            memcpy(first, once, sizeof first);
        differing += memcmp(first, once, sizeof first) != 0;
    }
    assert_true(differing > 20);
}

/* ---- moving memory while others work ---- */

static CUmemGenericAllocationHandle moved_chunk;
static CUdeviceptr moved_at;

static void export_it(void *unused) {
    (void)unused;
    int fd = -1;
    if (drv->cuMemExportToShareableHandle(&fd, moved_chunk,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
        work.wrong = "the export failed";
    close(fd);
}

static void write_it(void *unused) {
    (void)unused;
    unsigned char seen[64];
    if (drv->cuCtxPushCurrent(soft_ctx[0]))
        work.wrong = "cuCtxPushCurrent failed";
    for (unsigned char i = 1; i < 10; i++)
        if (drv->cuMemsetD8Async(moved_at, i, 64, CU_STREAM_PER_THREAD) ||
            drv->cuMemcpyDtoHAsync(seen, moved_at, 64, CU_STREAM_PER_THREAD) || seen[63] != i)
            work.wrong = "wrong bytes";
}

TEST(sched_export_between_steps_keeps_bytes) {
    const struct acre__vthread threads[] = {{write_it, NULL}, {export_it, NULL}};
    for (uint64_t seed = 1; seed <= 40; seed++) {
        work.wrong = NULL;
        begin_seeded(seed);
        moved_chunk = soft_chunk(CHUNK, 0);
        moved_at = soft_map(moved_chunk, CHUNK, 0);
        assert_int_equal(acre__sched_run(seed, threads, 2), ACRE__SCHED_DONE);
        if (work.wrong)
            fail_msg("seed %llu: %s", (unsigned long long)seed, work.wrong);
        assert_true(soft_is_filled(moved_at, 64, 9));
        end_seeded();
    }
}

/* The scheduler runs a host function while threads make calls: driver calls of the function fail,
 * those of the threads do not. */
static CUresult from_function;

static void call_from_function(void *unused) {
    (void)unused;
    CUdeviceptr at;
    from_function = drv->cuMemAlloc(&at, 64);
}

static void launch_and_call(void *unused) {
    (void)unused;
    CUdeviceptr at;
    if (drv->cuCtxPushCurrent(soft_ctx[0]))
        work.wrong = "cuCtxPushCurrent failed";
    for (int i = 0; i < 5; i++)
        if (drv->cuLaunchHostFunc(CU_STREAM_PER_THREAD, call_from_function, NULL) ||
            drv->cuMemAlloc(&at, 64) || drv->cuStreamSynchronize(CU_STREAM_PER_THREAD) ||
            drv->cuMemFree(at))
            work.wrong = "a driver call of a thread failed";
}

TEST(sched_host_function_is_refused_alone) {
    const struct acre__vthread threads[] = {{launch_and_call, NULL}, {launch_and_call, NULL}};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        work.wrong = NULL;
        from_function = CUDA_SUCCESS;
        begin_seeded(seed);
        assert_int_equal(acre__sched_run(seed, threads, 2), ACRE__SCHED_DONE);
        assert_null(work.wrong);
        assert_int_equal(from_function, CUDA_ERROR_NOT_PERMITTED);
        end_seeded();
    }
}

int main(void) {
    return tests_run("soft_sched");
}
