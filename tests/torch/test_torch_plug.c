/* The functions that PyTorch calls: allocation, free, recorded streams, limits, failures,
 * statistics, regions. */
#include <sys/wait.h>
#include <unistd.h>

#include "torch_fixture.h"

/* ---- allocation and statistics ---- */

TEST(plug_counts_as_pytorch_does) {
    CUstream stream = stream_make();
    struct acre_torch_stats before = stats_now();
    void *a = take(1000, stream), *b = take(3 * MIB + 1, stream);
    struct acre_torch_stats stats = stats_now();
    assert_int_equal(stats.allocated.current - before.allocated.current, 1024 + 3 * MIB + 512);
    assert_int_equal(stats.requested.current - before.requested.current, 1000 + 3 * MIB + 1);
    assert_int_equal(stats.blocks.current - before.blocks.current, 2);
    assert_true(stats.held.current >= 3 * MIB);
    assert_int_equal((uintptr_t)a % 512, 0);
    acre_torch_free(b, 3 * MIB + 1, 0, stream);
    stats = stats_now();
    assert_int_equal(stats.allocated.current - before.allocated.current, 1024);
    assert_true(stats.allocated.peak >= before.allocated.current + 3 * MIB + 512 + 1024);
    assert_int_equal(stats.allocated.freed - before.allocated.freed, 3 * MIB + 512);
    acre_torch_reset_peaks(0);
    acre_torch_reset_totals(0);
    stats = stats_now();
    assert_int_equal(stats.allocated.peak, stats.allocated.current);
    assert_int_equal(stats.held.peak, stats.held.current);
    assert_int_equal(stats.allocated.total, 0);
    assert_int_equal(stats.blocks.freed, 0);
    acre_torch_free(a, 1000, 0, stream);
    assert_int_equal(stats_now().allocated.current, before.allocated.current);
}

TEST(plug_of_zero_bytes_returns_null_without_a_failure) {
    uint64_t failures = stats_now().failures;
    assert_null(acre_torch_alloc(0, 0, NULL));
    assert_int_equal(stats_now().failures, failures);
    acre_torch_free(NULL, 0, 0, NULL);
}

TEST(plug_refuses_devices_that_do_not_exist) {
    char text[256];
    assert_null(acre_torch_alloc(100, -1, NULL));
    assert_null(acre_torch_alloc(100, 1000, NULL));
    assert_null(acre_torch_alloc(100, 7, NULL));
    assert_int_equal(acre_torch_failure(text, sizeof text), 2);
    assert_non_null(strstr(text, "on device 7"));
    acre_torch_free((void *)512, 100, 7, NULL);
    assert_null(acre_torch_device(7));
}

TEST(plug_counts_wrong_frees) {
    CUstream stream = stream_make();
    uint64_t wrong = stats_now().wrong_frees;
    void *p = take(4096, stream);
    struct acre_torch_stats stats = stats_now();
    acre_torch_free((char *)p + 512, 4096, 0, stream);
    assert_int_equal(stats_now().wrong_frees, wrong + 1);
    assert_int_equal(stats_now().allocated.current, stats.allocated.current);
    acre_torch_free(p, 4096, 0, stream);
    assert_int_equal(stats_now().wrong_frees, wrong + 1);
}

TEST(plug_releases_memory_on_reset) {
    CUstream stream = stream_make();
    void *p = take(64 * MIB, stream);
    acre_torch_free(p, 64 * MIB, 0, stream);
    cu_ok(cuStreamSynchronize(stream));
    uint64_t held = stats_now().held.current;
    assert_true(held >= 64 * MIB);
    acre_torch_reset_peaks(0);
    acre_torch_reset();
    assert_true(stats_now().held.current <= held - 64 * MIB);
    assert_true(stats_now().held.peak >= held);
}

/* Memory that the pool took and released again between two calls. */
TEST(plug_sees_a_new_high_water_mark_of_the_pool) {
    acre_pool *pool;
    CUstream stream = stream_make();
    acre_ok(acre_torch_pool_of(-1, 0, &pool));
    acre_torch_reset_peaks(0);
    uint64_t before = stats_now().held.peak;
    void *p = take(100 * MIB, stream);
    acre_torch_free(p, 100 * MIB, 0, stream);
    cu_ok(cuStreamSynchronize(stream));
    acre_ok(acre_pool_trim(pool, 0));
    struct acre_torch_stats stats = stats_now();
    assert_true(stats.held.current < 100 * MIB);
    assert_true(stats.held.peak >= 100 * MIB && stats.held.peak > before);
}

/* ---- failures ---- */

TEST(plug_reports_why_memory_ran_out) {
    static char text[1 << 16];
    CUstream stream = stream_make();
    uint64_t failures = stats_now().failures;
    void *p = take(200 * MIB, stream);
    assert_null(acre_torch_alloc(100 * MIB, 0, stream));
    assert_int_equal(stats_now().failures, failures + 1);
    assert_int_equal(acre_torch_failure(text, sizeof text), 1);
    assert_ptr_equal(strstr(text, "CUDA out of memory. Tried to allocate 100.00 MiB"), text);
    assert_non_null(strstr(text, "Memory of cuda:0"));
    assert_non_null(strstr(text, "What to do"));
    assert_int_equal(acre_torch_failure(text, 10), 1);
    assert_int_equal(strlen(text), 9);
    assert_null(acre_torch_alloc(SIZE_MAX, 0, stream));
    assert_int_equal(acre_torch_failure(text, sizeof text), 1);
    acre_torch_free(p, 200 * MIB, 0, stream);
    acre_torch_free(take(150 * MIB, stream), 150 * MIB, 0, stream);
}

/* Memory that was freed, but is still in use by the stream, does not exceed the limit either. */
TEST(plug_limits_a_fraction_of_the_card) {
    static struct barrier barrier;
    char text[1024];
    CUstream stream = stream_make();
    void *p = take(150 * MIB, stream);
    barrier_put(&barrier, stream);
    acre_torch_free(p, 150 * MIB, 0, stream);
    acre_torch_memory_fraction(0.25, 0);
    assert_true(stats_now().held.current >= 150 * MIB);
    barrier_open(&barrier);
    p = take(40 * MIB, stream);
    assert_null(acre_torch_alloc(40 * MIB, 0, stream));
    assert_int_equal(acre_torch_failure(text, sizeof text), 1);
    acre_torch_memory_fraction(1.0, 0);
    void *q = take(40 * MIB, stream);
    acre_torch_memory_fraction(0.0, 0);
    assert_null(acre_torch_alloc(40 * MIB, 0, stream));
    acre_torch_memory_fraction(1.0, 0);
    acre_torch_free(p, 40 * MIB, 0, stream);
    acre_torch_free(q, 40 * MIB, 0, stream);
}

/* ---- recorded streams ---- */

/* PyTorch's own allocator waits for work that was queued after record_stream, too. */
TEST(plug_waits_for_work_queued_after_record_stream) {
    enum { BYTES = 1 << 16 };
    static struct barrier barrier;
    CUstream own = stream_make(), other = stream_make();
    void *p = take(BYTES, own);
    acre_torch_record_stream(p, other);
    barrier_put(&barrier, other); /* the work that uses p */
    acre_torch_free(p, BYTES, 0, own);
    void *q[64];
    for (int i = 0; i < 64; i++) {
        q[i] = take(BYTES, own);
        assert_ptr_not_equal(q[i], p);
    }
    barrier_open(&barrier);
    for (int i = 0; i < 64; i++)
        acre_torch_free(q[i], BYTES, 0, own);
    cu_ok(cuCtxSynchronize());
}

TEST(plug_reuses_at_once_without_recorded_streams) {
    enum { BYTES = 1 << 16 };
    static struct barrier barrier;
    CUstream own = stream_make(), other = stream_make();
    void *p = take(BYTES, own);
    acre_torch_record_stream(p, own); /* needs no waiting */
    barrier_put(&barrier, other);
    acre_torch_free(p, BYTES, 0, own);
    void *q = take(BYTES, own);
    assert_ptr_equal(q, p);
    acre_torch_free(q, BYTES, 0, own);
    barrier_open(&barrier);
    cu_ok(cuCtxSynchronize());
}

TEST(plug_ignores_recorded_streams_of_unknown_memory) {
    uint64_t recorded = stats_now().recorded;
    acre_torch_record_stream((void *)0x1000, NULL);
    acre_torch_record_stream(NULL, NULL);
    assert_int_equal(stats_now().recorded, recorded);
}

/* ---- streams that were destroyed ---- */

TEST(plug_frees_blocks_of_a_destroyed_stream) {
    CUstream stream = stream_make();
    struct acre_torch_stats before = stats_now();
    void *p = take(3 * MIB, stream);
    cu_ok(cuStreamDestroy(stream));
    acre_torch_free(p, 3 * MIB, 0, stream);
    struct acre_torch_stats after = stats_now();
    assert_int_equal(after.wrong_frees, before.wrong_frees);
    assert_int_equal(after.late_frees, before.late_frees + 1);
    assert_int_equal(after.allocated.current, before.allocated.current);
}

static void *destroyed_free(void *user) {
    acre_torch_free(user, MIB, 0, NULL);
    return NULL;
}

/* The work of a destroyed stream goes on, and no event can be recorded after it. */
TEST(plug_waits_for_the_device_if_a_recorded_stream_was_destroyed) {
    static struct barrier barrier;
    pthread_t thread;
    CUstream other = stream_make();
    struct acre_torch_stats before = stats_now();
    void *p = take(MIB, NULL);
    acre_torch_record_stream(p, other);
    barrier_put(&barrier, other);
    cu_ok(cuStreamDestroy(other));
    assert_int_equal(pthread_create(&thread, NULL, destroyed_free, p), 0);
    barrier_open(&barrier);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(stats_now().late_frees, before.late_frees + 1);
    assert_int_equal(stats_now().wrong_frees, before.wrong_frees);
    assert_int_equal(stats_now().allocated.current, before.allocated.current);
}

/* ---- regions ---- */

TEST(plug_serves_a_region_under_its_tag) {
    CUstream stream = stream_make();
    int kv = acre_torch_region("model/kv", 0);
    assert_true(kv >= 0);
    assert_int_equal(acre_torch_region("model/kv", 0), kv);
    acre_ok(acre_torch_enter(kv));
    void *p = take(3 * MIB, stream);
    acre_torch_leave();
    void *q = take(3 * MIB, stream);
    assert_true(tag_bytes("model/kv") >= 3 * MIB && tag_bytes("model/kv") < 4 * MIB);
    acre_torch_free(p, 3 * MIB, 0, stream);
    assert_int_equal(tag_bytes("model/kv"), 0);
    acre_torch_free(q, 3 * MIB, 0, stream);
    acre_torch_leave(); /* without enter: a no-op */
}

TEST(plug_serves_a_region_from_its_own_pool) {
    acre_pool *own, *usual;
    CUstream stream = stream_make();
    int region = acre_torch_region("weights", ACRE_TORCH_OWN_POOL);
    assert_true(region >= 0);
    assert_int_not_equal(acre_torch_region("weights", 0), region);
    acre_ok(acre_torch_pool_of(region, 0, &own));
    acre_ok(acre_torch_pool_of(-1, 0, &usual));
    assert_ptr_not_equal(own, usual);
    acre_ok(acre_torch_enter(region));
    void *p = take(5 * MIB, stream);
    acre_ok(acre_torch_enter(-1));
    void *q = take(5 * MIB, stream);
    acre_torch_leave();
    void *r = take(600, stream);
    acre_torch_leave();
    assert_true(acre_pool_owns(own, p) && acre_pool_owns(own, r));
    assert_true(acre_pool_owns(usual, q));
    void *s = acre_torch_alloc_of(region)(700, 0, stream);
    assert_true(acre_pool_owns(own, s));
    acre_torch_free(p, 5 * MIB, 0, stream);
    acre_torch_free(q, 5 * MIB, 0, stream);
    acre_torch_free(r, 600, 0, stream);
    acre_torch_free(s, 700, 0, stream);
}

struct job {
    CUstream stream;
    void *p;
};

static void *job_alloc(void *user) {
    struct job *job = user;
    job->p = acre_torch_alloc(2 * MIB, 0, job->stream);
    return NULL;
}

static void *alloc_elsewhere(CUstream stream) {
    struct job job = {.stream = stream};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, job_alloc, &job), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_non_null(job.p);
    return job.p;
}

/* As backward does: another thread allocates for the stream of forward. */
TEST(plug_serves_other_threads_by_their_stream) {
    acre_pool *own;
    CUstream stream = stream_make(), other = stream_make();
    int region = acre_torch_region("grad", ACRE_TORCH_OWN_POOL);
    acre_ok(acre_torch_pool_of(region, 0, &own));
    acre_ok(acre_torch_enter(region));
    void *before = alloc_elsewhere(stream); /* entering follows the calling thread only */
    acre_torch_leave();
    acre_ok(acre_torch_enter_stream(region, 0, stream));
    void *p = alloc_elsewhere(stream), *q = alloc_elsewhere(other);
    acre_torch_leave_stream(region, 0, stream);
    void *after = alloc_elsewhere(stream);
    assert_true(acre_pool_owns(own, p));
    assert_false(acre_pool_owns(own, before));
    assert_false(acre_pool_owns(own, q));
    assert_false(acre_pool_owns(own, after));
    assert_true(tag_bytes("grad") >= 2 * MIB && tag_bytes("grad") < 3 * MIB);
    acre_torch_free(p, 2 * MIB, 0, stream);
    acre_torch_free(before, 2 * MIB, 0, stream);
    acre_torch_free(after, 2 * MIB, 0, stream);
    acre_torch_free(q, 2 * MIB, 0, other);
}

TEST(plug_refuses_wrong_regions) {
    acre_pool *pool;
    char longer[400];
    memset(longer, 'a', sizeof longer);
    longer[399] = 0;
    assert_int_equal(acre_torch_region(NULL, 0), ACRE_E_INVALID);
    assert_int_equal(acre_torch_region("a\"b", 0), ACRE_E_INVALID);
    assert_int_equal(acre_torch_region("a//b", 0), ACRE_E_INVALID);
    assert_int_equal(acre_torch_region(longer, 0), ACRE_E_INVALID);
    assert_int_equal(acre_torch_region("a/", 0), ACRE_E_INVALID);
    assert_int_equal(acre_torch_region("1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", 0),
                     ACRE_E_INVALID);
    assert_int_equal(acre_torch_region("a", 6), ACRE_E_INVALID);
    assert_int_equal(acre_torch_enter(31), ACRE_E_INVALID);
    assert_int_equal(acre_torch_enter_stream(31, 0, NULL), ACRE_E_INVALID);
    assert_int_equal(acre_torch_pool_of(31, 0, &pool), ACRE_E_INVALID);
    assert_null(acre_torch_alloc_of(-1));
    assert_null(acre_torch_alloc_of(ACRE_TORCH_REGIONS));
}

/* ---- watching ---- */

static int watched_allocs, watched_frees;

static void count_calls(void *p, size_t bytes, int is_free) {
    assert_non_null(p);
    assert_int_equal(bytes, 777);
    watched_allocs += !is_free;
    watched_frees += is_free;
}

TEST(plug_calls_a_watch_for_each_block) {
    acre_torch_set_watch(count_calls);
    void *p = take(777, NULL);
    assert_int_equal(watched_allocs, 1);
    acre_torch_free(p, 777, 0, NULL);
    assert_int_equal(watched_frees, 1);
    acre_torch_set_watch(NULL);
    acre_torch_free(take(777, NULL), 777, 0, NULL);
    assert_int_equal(watched_allocs, 1);
}

/* ---- threads and processes ---- */

enum { THREADS = 4, STEPS = 2000 };

static void *thread_work(void *user) {
    CUstream stream = user;
    void *blocks[8] = {0};
    size_t bytes[8] = {0};
    for (int i = 0; i < STEPS; i++) {
        int k = i % 8;
        acre_torch_free(blocks[k], bytes[k], 0, stream);
        bytes[k] = (size_t)(i * 37 % 5000 + 1) * (size_t)(i % 16 ? 1 : 300);
        blocks[k] = acre_torch_alloc(bytes[k], 0, stream);
        if (i % 5 == 0)
            acre_torch_record_stream(blocks[k], NULL);
    }
    for (int k = 0; k < 8; k++)
        acre_torch_free(blocks[k], bytes[k], 0, stream);
    return NULL;
}

TEST(plug_serves_many_threads) {
    pthread_t threads[THREADS];
    struct acre_torch_stats before = stats_now();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_work, stream_make()), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    struct acre_torch_stats after = stats_now();
    assert_int_equal(after.allocated.current, before.allocated.current);
    assert_int_equal(after.blocks.current, before.blocks.current);
    assert_int_equal(after.blocks.total - before.blocks.total, THREADS * STEPS);
    assert_int_equal(after.failures, before.failures);
    assert_int_equal(after.wrong_frees, before.wrong_frees);
}

/* Workers of a DataLoader inherit tensors, and collect them as garbage. */
TEST(plug_does_nothing_in_a_forked_child) {
    void *p = take(5000, NULL);
    acre_torch_record_stream(p, stream_make());
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        acre_torch_free(p, 5000, 0, NULL);
        acre_torch_record_stream(p, NULL);
        acre_torch_reset();
        _exit(acre_torch_alloc(100, 0, NULL) ? 1 : stats_now().held.current ? 2 : 0);
    }
    int how = -1;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    acre_torch_free(p, 5000, 0, NULL);
}

int main(void) {
    card_begin();
    return tests_run("torch_plug");
}
