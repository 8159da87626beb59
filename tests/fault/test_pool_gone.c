/* Streams created with the driver and destroyed without acre_stream_retire, on the soft device. No
 * call uses a dead handle. The memory returns to the pool when the device is idle. The next stream
 * with the same handle does not get memory that the old one still uses.
 *
 * The test replaces the device's driver table with a copy that records calls with a dead handle. */
#include <pthread.h>

#include "api/api_pool.h"
#include "acre_soft.h"
#include "device/device.h"
#include "driver/driver.h"
#include "soft/soft.h"
#include "pool/pool.h"
#include "support/rounds.h"

enum { STREAMS_MOST = 400, LAG = 100000 };

/* ---- recording calls with dead handles ---- */

static struct {
    const struct acre__driver *raw;
    struct acre__driver table;
    CUstream dead[STREAMS_MOST];
    size_t dead_count;
    unsigned touched;
    const char *what; /* first call with a dead handle */
} watch;

static void watch_note(CUstream stream, const char *what) {
    for (size_t i = 0; i < watch.dead_count; i++)
        if (watch.dead[i] == stream && !watch.touched++)
            watch.what = what;
}

#define WATCH_LIST(X)                                                                              \
    X(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * out), (stream, out))          \
    X(cuStreamGetId, (CUstream stream, unsigned long long *out), (stream, out))                    \
    X(cuStreamQuery, (CUstream stream), (stream))                                                  \
    X(cuStreamSynchronize, (CUstream stream), (stream))                                            \
    X(cuStreamDestroy, (CUstream stream), (stream))                                                \
    X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags), (stream, event, flags)) \
    X(cuEventRecord, (CUevent event, CUstream stream), (event, stream))                            \
    X(cuMemsetD8Async, (CUdeviceptr p, unsigned char value, size_t bytes, CUstream stream),        \
      (p, value, bytes, stream))

#define WATCH_FUNCTION(name, parameters, arguments)                                                \
    static CUresult watch_##name parameters {                                                      \
        watch_note(stream, #name);                                                                 \
        return watch.raw->name arguments;                                                          \
    }
WATCH_LIST(WATCH_FUNCTION)

/* ---- fixture ---- */

static acre_device *opened; /* by the running test */

static struct things gone_begin(void) {
    struct things t = begin("soft", NULL);
    opened = t.device;
    memset(&watch, 0, sizeof watch);
    watch.raw = t.device->drv;
    watch.table = *watch.raw;
#define WATCH_ENTRY(name, parameters, arguments) watch.table.name = watch_##name;
    WATCH_LIST(WATCH_ENTRY)
    t.device->drv = &watch.table;
    assert_int_equal(watch.raw->cuCtxSetCurrent(t.device->context), 0);
    api_ok(acre_soft_set_lag(t.device, LAG, 0));
    return t;
}

static void expect_untouched(void) {
    char text[480] = "";
    if (watch.touched)
        fail_msg("%s was called with a dead handle, one of %u calls", watch.what, watch.touched);
    if (acre__soft_reports(text, sizeof text))
        fail_msg("%s", text);
}

static void gone_end(struct things *t) {
    api_ok(acre_soft_set_lag(t->device, 0, 0));
    if (t->pool)
        api_ok(acre_pool_destroy(t->pool, NULL, NULL));
    api_ok(acre_stream_destroy(t->device, t->stream));
    api_ok(acre_stream_destroy(t->device, t->other));
    assert_int_equal(watch.raw->cuCtxSetCurrent(NULL), 0);
    t->device->drv = watch.raw;
    api_ok(acre_close(t->device));
    opened = NULL;
    expect_untouched();
}

/* After a failed test, resets the device for the next one. */
static int gone_teardown(void **state) {
    (void)state;
    if (!opened)
        return 0;
    opened->drv = watch.raw;
    (void)acre_close(opened);
    opened = NULL;
    acre__soft_reset();
    return 0;
}

static CUstream stream_make(void) {
    CUstream stream = NULL;
    assert_int_equal(watch.raw->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
    return stream;
}

static void stream_kill(CUstream stream) {
    assert_int_equal(watch.raw->cuStreamDestroy(stream), 0);
    watch.dead[watch.dead_count++] = stream;
}

static void stream_born(CUstream stream) {
    for (size_t i = 0; i < watch.dead_count; i++)
        if (watch.dead[i] == stream)
            watch.dead[i] = watch.dead[--watch.dead_count];
}

static void *alloc_filled(const struct things *t, size_t bytes, acre_stream stream) {
    void *p = NULL;
    api_ok(acre_pool_alloc(t->pool, bytes, 0, stream, &p));
    api_ok(acre_fill(t->device, p, 1, bytes, stream));
    return p;
}

/* Uses the stream often enough that the thread caches blocks for it. */
static void stream_use(const struct things *t, acre_stream stream, size_t bytes) {
    enum { TIMES = 10, AT_ONCE = 2 };
    for (int i = 0; i < TIMES; i++) {
        void *p[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++)
            p[k] = alloc_filled(t, bytes, stream);
        for (int k = 0; k < AT_ONCE; k++)
            api_ok(acre_pool_free(t->pool, p[k], stream));
    }
}

/* ---- a call with a dead handle is recorded ---- */

TEST_WITH(gone_handle_in_use_is_seen, NULL, gone_teardown) {
    struct things t = gone_begin();
    CUstream stream = stream_make();
    stream_kill(stream);
    api_expect(acre_stream_query(t.device, stream), ACRE_E_HANDLE);
    assert_true(watch.touched > 0);
    assert_int_equal(watch.raw->cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    watch.touched = 0;
    gone_end(&t);
}

/* ---- many ---- */

static void many_make(const struct things *t, size_t count, CUstream *streams) {
    static const size_t sizes[] = {1000, 20 * KIB, 300 * KIB};
    for (size_t i = 0; i < count; i++)
        streams[i] = stream_make();
    for (size_t i = 0; i < count; i++)
        stream_use(t, streams[i], i % 50 ? sizes[i % 3] : MIB);
}

TEST_WITH(pool_streams_gone_are_not_touched_and_their_memory_comes_back, NULL, gone_teardown) {
    static CUstream streams[STREAMS_MOST];
    size_t count = ROUNDS(STREAMS_MOST, STREAMS_MOST / 4);
    struct things t = gone_begin();
    many_make(&t, count, streams);
    for (size_t i = 0; i < count; i++)
        stream_kill(streams[i]);
    api_ok(acre_trim(t.device));
    api_ok(acre_pool_trim(t.pool, 0));
    for (int i = 0; i < 50; i++)
        stream_use(&t, t.other, i % 2 ? 20 * KIB : MIB);
    expect_untouched();
    assert_int_equal(stats_of(t.pool).live_bytes, 0);
    api_ok(acre_device_sync(t.device));
    api_ok(acre_pool_trim(t.pool, 0));
    expect_untouched();
    assert_int_equal(stats_of(t.pool).used_bytes, 0);
    assert_int_equal(stats_of(t.pool).held_bytes, 0);
    gone_end(&t);
}

TEST_WITH(pool_ends_with_streams_gone, NULL, gone_teardown) {
    CUstream streams[20];
    for (int is_closed = 0; is_closed < 2; is_closed++) {
        struct things t = gone_begin();
        many_make(&t, 20, streams);
        for (size_t i = 0; i < 20; i++)
            stream_kill(streams[i]);
        if (!is_closed)
            api_ok(acre_pool_destroy(t.pool, NULL, NULL));
        t.pool = NULL; /* otherwise acre_close destroys it */
        gone_end(&t);
    }
}

TEST_WITH(pool_block_of_a_stream_gone_is_freed_on_another, NULL, gone_teardown) {
    enum { COUNT = 100 };
    static CUstream streams[COUNT];
    static void *blocks[COUNT];
    struct things t = gone_begin();
    for (size_t i = 0; i < COUNT; i++) {
        streams[i] = stream_make();
        stream_use(&t, streams[i], 20 * KIB);
        blocks[i] = alloc_filled(&t, i % 10 ? 20 * KIB : MIB, streams[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        CUevent done;
        assert_int_equal(watch.raw->cuEventCreate(&done, CU_EVENT_DISABLE_TIMING), 0);
        assert_int_equal(watch.raw->cuEventRecord(done, streams[i]), 0);
        assert_int_equal(watch.raw->cuStreamWaitEvent(t.stream, done, 0), 0);
        assert_int_equal(watch.raw->cuEventDestroy(done), 0);
        stream_kill(streams[i]);
        api_ok(acre_pool_free(t.pool, blocks[i], t.stream));
    }
    for (int i = 0; i < 20; i++)
        stream_use(&t, t.other, i % 2 ? 20 * KIB : MIB);
    expect_untouched();
    api_ok(acre_pool_trim(t.pool, 0));
    api_ok(acre_device_sync(t.device));
    api_ok(acre_pool_trim(t.pool, 0));
    assert_int_equal(stats_of(t.pool).live_bytes, 0);
    assert_int_equal(stats_of(t.pool).held_bytes, 0);
    gone_end(&t);
}

/* ---- the next stream with the same handle ---- */

/* The old stream's work is in flight. `flags` is for a stream created by acre, or UINT32_MAX for
 * the driver. */
static void handle_comes_back(size_t bytes, uint32_t flags) {
    struct things t = gone_begin();
    CUstream first = stream_make(), next = NULL;
    /* A lane without a live large block caches no large blocks. */
    void *live = alloc_filled(&t, bytes, first);
    stream_use(&t, first, bytes);
    stream_kill(first);
    if (flags == UINT32_MAX)
        next = stream_make();
    else
        api_ok(acre_stream_create(t.device, flags, &next));
    stream_born(next);
    assert_ptr_equal(next, first); /* the driver reuses the handle, as on a GPU */
    stream_use(&t, next, bytes);
    acre_status status = acre_device_sync(t.device);
    expect_untouched(); /* says more than the status */
    api_ok(status);
    api_ok(acre_pool_free(t.pool, live, t.stream));
    if (flags == UINT32_MAX)
        stream_kill(next);
    else
        api_ok(acre_stream_destroy(t.device, next));
    gone_end(&t);
}

TEST_WITH(pool_small_blocks_of_a_stream_gone_do_not_go_to_the_next_with_its_handle, NULL,
          gone_teardown) {
    handle_comes_back(4 * KIB, UINT32_MAX);
}

TEST_WITH(pool_large_blocks_of_a_stream_gone_do_not_go_to_the_next_with_its_handle, NULL,
          gone_teardown) {
    handle_comes_back(MIB, UINT32_MAX);
}

TEST_WITH(pool_blocks_of_a_stream_gone_do_not_go_to_one_of_acre_with_its_handle, NULL,
          gone_teardown) {
    handle_comes_back(4 * KIB, ACRE_STREAM_NON_BLOCKING);
    handle_comes_back(4 * KIB, ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE);
}

/* Another thread's lane for this handle is older than the stream on which it frees. */
struct freer {
    struct things *t;
    CUstream stream;
    size_t bytes;
    pthread_barrier_t turn;
};

static void *freer_run(void *user) {
    struct freer *freer = user;
    stream_use(freer->t, freer->stream, freer->bytes);
    pthread_barrier_wait(&freer->turn); /* the stream is destroyed and its handle reused */
    pthread_barrier_wait(&freer->turn);
    stream_use(freer->t, freer->stream, freer->bytes);
    return NULL;
}

TEST_WITH(pool_threads_learn_that_a_handle_is_another_stream, NULL, gone_teardown) {
    static const size_t sizes[] = {4 * KIB, MIB};
    for (int i = 0; i < 2; i++) {
        struct things t = gone_begin();
        struct freer freer = {.t = &t, .stream = stream_make(), .bytes = sizes[i]};
        pthread_t thread;
        pthread_barrier_init(&freer.turn, NULL, 2);
        assert_int_equal(pthread_create(&thread, NULL, freer_run, &freer), 0);
        pthread_barrier_wait(&freer.turn);
        stream_kill(freer.stream);
        CUstream next = stream_make();
        stream_born(next);
        assert_ptr_equal(next, freer.stream);
        stream_use(&t, next, freer.bytes); /* the pool's record is of the new stream now */
        pthread_barrier_wait(&freer.turn);
        pthread_join(thread, NULL);
        expect_untouched();
        stream_kill(next);
        pthread_barrier_destroy(&freer.turn);
        gone_end(&t);
    }
}

/* ---- live streams ---- */

/* Blocks that threads cache for a stream in use stay with the stream, however many misses other
 * streams have. Its memory must not wait for an idle device. */
TEST_WITH(pool_memory_of_a_stream_in_use_is_not_lost, NULL, gone_teardown) {
    struct things t = gone_begin();
    CUstream stream = stream_make();
    void *p[300];
    stream_use(&t, stream, 20000);
    for (size_t bytes = 20000; bytes <= 40000; bytes += 20000) {
        for (int i = 0; i < 300; i++)
            p[i] = alloc_filled(&t, bytes, stream);
        for (int i = 0; i < 300; i++) /* some spill to the pool, with an event that does not pass */
            api_ok(acre_pool_free(t.pool, p[i], stream));
        (void)alloc_filled(&t, 3 * MIB, stream);
    }
    for (int i = 0; i < 400; i++)
        (void)alloc(&t, 600 * KIB); /* a miss; after some misses caches age */
    assert_true(!t.pool->lost || !acre__freed_has(t.pool->lost->recent->freed));
    api_ok(acre_stream_retire(t.device, stream));
    stream_kill(stream);
    gone_end(&t);
}

int main(void) {
    setenv("ACRE_SOFT_BYTES", "2GiB", 1);
    setenv("ACRE_SOFT_CHECK", "1", 1);
    return tests_run("pool_gone");
}
