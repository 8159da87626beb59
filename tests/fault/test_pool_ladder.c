/* Pools out of memory, on a device of 64 MiB: each rung serves where those below it cannot, and is
 * counted. The callback may do anything except destroy the pool. Limits are refused only after the
 * caches are emptied. */
#include "fault_ladder.h"

static acre_status try_alloc(struct small *s, size_t bytes) {
    void *p = s;
    acre_status status = acre_pool_alloc(s->pool, bytes, 0, s->stream, &p);
    if (status)
        assert_null(p);
    return status;
}

/* Allocates until a rung serves or the pool refuses. */
static acre_pool_stats fill(struct small *s, size_t bytes) {
    acre_pool_stats stats = small_stats(s->pool);
    while (!small_served(&stats)) {
        (void)try_alloc(s, bytes);
        stats = small_stats(s->pool);
    }
    return stats;
}

/* ---- rungs ---- */

static void ladder_caches_of_other_threads_serve(void **state) {
    (void)state;
    struct small s = small_begin(NULL);
    struct sleeper sleeper = {.s = &s, .stream = s.stream, .bytes = 128 * KIB, .count = 64};
    sleeper_begin(&sleeper);
    acre_pool_stats stats = fill(&s, 128 * KIB);
    assert_int_equal(small_served(&stats), 1);
    assert_int_equal(stats.served_caches, 1);
    sleeper_end(&sleeper);
    small_end(&s);
}

static void ladder_completed_memory_of_other_streams_serves(void **state) {
    (void)state;
    struct small s = small_begin(NULL);
    struct sleeper sleeper = {.s = &s, .stream = s.other, .bytes = 128 * KIB, .count = 64};
    sleeper_begin(&sleeper);
    acre_pool_stats stats = fill(&s, 128 * KIB);
    assert_int_equal(small_served(&stats), 1);
    assert_int_equal(stats.served_done, 1);
    sleeper_end(&sleeper);
    small_end(&s);
}

/* A large block gets memory of small blocks. */
static void ladder_chunks_that_are_free_are_moved(void **state) {
    (void)state;
    struct small s = small_begin(NULL);
    void *blocks[800];
    api_ok(acre_pool_alloc_many(s.pool, 64 * KIB, 800, s.stream, blocks));
    api_ok(acre_pool_free_many(s.pool, blocks, 800, s.stream, NULL));
    api_ok(acre_stream_sync(s.device, s.stream));
    api_ok(try_alloc(&s, 40 * MIB));
    acre_pool_stats stats = small_stats(s.pool);
    assert_int_equal(stats.refused, 0);
    assert_in_range(stats.held_bytes, 40 * MIB, 64 * MIB);
    small_end(&s);
}

/* The stream waits, not the host. */
static void ladder_memory_behind_another_streams_work_serves(void **state) {
    (void)state;
    for (int is_small = 0; is_small < 2; is_small++) {
        struct small s = small_begin(NULL);
        struct gate gate;
        void *blocks[60];
        size_t bytes = is_small ? MIB : 40 * MIB, count = is_small ? 60 : 1;
        api_ok(acre_pool_alloc_many(s.pool, bytes, count, s.other, blocks));
        gate_put(s.other, &gate);
        api_ok(acre_pool_free_many(s.pool, blocks, count, s.other, NULL));
        acre_pool_stats stats = fill(&s, bytes);
        assert_int_equal(atomic_load(&gate.is_passed), 0);
        assert_int_equal(small_served(&stats), 1);
        assert_int_equal(stats.served_behind, 1);
        assert_int_equal(stats.waits, 1);
        api_expect(acre_stream_query(s.device, s.stream), ACRE_E_NOT_READY);
        atomic_store(&gate.is_open, 1);
        api_ok(acre_stream_sync(s.device, s.stream));
        assert_int_equal(atomic_load(&gate.is_passed), 1);
        small_end(&s);
    }
}

static void ladder_free_memory_of_other_pools_serves(void **state) {
    (void)state;
    struct small s = small_begin(NULL);
    void *small[16];
    api_ok(acre_pool_free(s.second, small_alloc(s.second, 30 * MIB, s.stream), s.stream));
    api_ok(acre_pool_alloc_many(s.second, MIB, 16, s.stream, small));
    api_ok(acre_pool_free_many(s.second, small, 16, s.stream, NULL));
    api_ok(acre_stream_sync(s.device, s.stream));
    api_ok(try_alloc(&s, 60 * MIB));
    acre_pool_stats stats = small_stats(s.pool);
    assert_int_equal(small_served(&stats), 1);
    assert_int_equal(stats.served_pools, 1);
    assert_int_equal(small_stats(s.second).held_bytes, 0);
    small_end(&s);
}

/* Small blocks that another stream may still use cannot become a large block before that work is
 * done. */
static void ladder_pending_frees_are_waited_for(void **state) {
    (void)state;
    for (int is_other_pool = 0; is_other_pool < 2; is_other_pool++) {
        struct small s = small_begin(NULL);
        acre_pool *pool = is_other_pool ? s.second : s.pool;
        struct gate gate;
        pthread_t thread;
        void *blocks[120];
        api_ok(acre_pool_alloc_many(pool, 512 * KIB, 120, s.other, blocks));
        gate_put(s.other, &gate);
        api_ok(acre_pool_free_many(pool, blocks, 120, s.other, NULL));
        assert_int_equal(pthread_create(&thread, NULL, gate_open_late, &gate), 0);
        api_ok(try_alloc(&s, 40 * MIB));
        assert_int_equal(atomic_load(&gate.is_passed), 1);
        pthread_join(thread, NULL);
        acre_pool_stats stats = small_stats(s.pool);
        assert_int_equal(small_served(&stats), 1);
        assert_int_equal(stats.served_waiting, 1);
        small_end(&s);
    }
}

/* The pool also waits for blocks freed on the stream itself: stream order alone does not help
 * here. */
static void ladder_own_pending_frees_are_waited_for(void **state) {
    (void)state;
    struct small s = small_begin(NULL);
    struct gate gate;
    pthread_t thread;
    void *blocks[120];
    api_ok(acre_pool_alloc_many(s.pool, 512 * KIB, 120, s.stream, blocks));
    gate_put(s.stream, &gate);
    api_ok(acre_pool_free_many(s.pool, blocks, 120, s.stream, NULL));
    assert_int_equal(pthread_create(&thread, NULL, gate_open_late, &gate), 0);
    api_ok(try_alloc(&s, 40 * MIB));
    assert_int_equal(atomic_load(&gate.is_passed), 1);
    pthread_join(thread, NULL);
    assert_int_equal(small_stats(s.pool).served_waiting, 1);
    small_end(&s);
}

/* The pool does not wait for captured work, which never runs. */
static void ladder_leaves_captured_streams_out(void **state) {
    (void)state;
    struct small s = small_begin(NULL);
    const struct acre__driver *raw = fault_raw("soft");
    CUgraph graph = NULL;
    void *p = small_alloc(s.pool, 40 * MIB, s.other);
    assert_int_equal(raw->cuStreamBeginCapture(s.other, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    api_ok(acre_pool_free(s.pool, p, s.other));
    api_expect(try_alloc(&s, 40 * MIB), ACRE_E_DEVICE_MEMORY);
    assert_int_equal(small_stats(s.pool).refused, 1);
    assert_int_equal(raw->cuStreamEndCapture(s.other, &graph), 0); /* the capture was not broken */
    api_ok(try_alloc(&s, 40 * MIB));
    small_end(&s);
}

/* The driver has more than cuMemGetInfo says: it releases idle memory of its own pools first. A
 * block of many chunks gets that, too. */
static void ladder_gets_what_only_the_driver_can_release(void **state) {
    (void)state;
    const struct acre__driver *drv = acre__driver_soft();
    acre_open_options options = {.struct_size = sizeof options, .soft_bytes = (size_t)4 << 30};
    acre_device *device;
    acre_pool *pool;
    CUcontext context;
    CUmemoryPool idle;
    CUdeviceptr in_idle;
    uint64_t most = UINT64_MAX;
    void *p;
    api_ok(acre_open("soft", &options, &device));
    assert_int_equal(drv->cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(drv->cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(drv->cuDeviceGetDefaultMemPool(&idle, 0), CUDA_SUCCESS);
    assert_int_equal(drv->cuMemPoolSetAttribute(idle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most),
                     CUDA_SUCCESS);
    assert_int_equal(drv->cuMemAllocAsync(&in_idle, (size_t)3 << 30, NULL), CUDA_SUCCESS);
    assert_int_equal(drv->cuMemFreeAsync(in_idle, NULL), CUDA_SUCCESS);
    assert_int_equal(drv->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_true(api_free_bytes(device) <= (uint64_t)1 << 30);
    api_ok(acre_pool_create(device, NULL, &pool));
    api_ok(acre_pool_alloc(pool, (size_t)2 << 30, 0, NULL, &p));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    assert_int_equal(drv->cuCtxPopCurrent(&context), CUDA_SUCCESS);
    assert_int_equal(drv->cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    api_ok(acre_close(device));
}

static void ladder_that_serves_nobody_changes_nothing(void **state) {
    (void)state;
    struct small s = small_begin(NULL);
    void *p = small_alloc(s.pool, 40 * MIB, s.stream);
    for (int i = 1; i < 4; i++) {
        api_expect(try_alloc(&s, i == 3 ? 65 * MIB : 40 * MIB), ACRE_E_DEVICE_MEMORY);
        acre_pool_stats stats = small_stats(s.pool);
        assert_int_equal(stats.refused, i);
        assert_int_equal(stats.live_bytes, 40 * MIB);
        assert_int_equal(stats.used_bytes, 40 * MIB);
    }
    api_ok(acre_pool_free(s.pool, p, s.stream));
    api_ok(try_alloc(&s, 40 * MIB));
    small_end(&s);
}

/* ---- the callback ---- */

struct asked {
    struct small *s;
    void *give[3]; /* freed one at a time */
    uint32_t calls;
    uint64_t bytes;
    acre_status inner, destroyed;
    int again;
};

static int give_one(void *user, acre_pool *pool, uint64_t wanted_bytes, uint32_t attempt) {
    struct asked *asked = user;
    assert_ptr_equal(pool, asked->s->pool);
    assert_int_equal(attempt, asked->calls);
    asked->bytes = wanted_bytes;
    asked->calls++;
    if (attempt > 2 || !asked->give[attempt])
        return 0;
    api_ok(acre_pool_free(pool, asked->give[attempt], asked->s->stream));
    api_ok(acre_pool_trim(pool, 0));
    return 1;
}

static void ladder_callback_is_asked_until_it_is_enough(void **state) {
    (void)state;
    struct small s = small_begin(NULL);
    struct asked asked = {.s = &s};
    for (int i = 0; i < 3; i++)
        asked.give[i] = small_alloc(s.pool, 20 * MIB, s.stream);
    api_ok(acre_pool_set_callback(s.pool, give_one, &asked));
    api_ok(try_alloc(&s, 40 * MIB - 1));
    assert_int_equal(asked.calls, 2);
    assert_int_equal(asked.bytes, 40 * MIB);
    acre_pool_stats stats = small_stats(s.pool);
    assert_int_equal(stats.served_callback, 1);
    assert_int_equal(small_served(&stats), 1);
    asked.calls = 0;
    asked.give[0] = NULL;
    /* The callback has nothing to free. */
    api_expect(try_alloc(&s, 40 * MIB), ACRE_E_DEVICE_MEMORY);
    assert_int_equal(asked.calls, 1);
    api_ok(acre_pool_set_callback(s.pool, NULL, NULL));
    api_expect(try_alloc(&s, 40 * MIB), ACRE_E_DEVICE_MEMORY);
    assert_int_equal(asked.calls, 1);
    api_expect(try_alloc(&s, 65 * MIB), ACRE_E_DEVICE_MEMORY);
    small_end(&s);
}

/* A callback that allocates and tries to destroy the pool. */
static int misuse(void *user, acre_pool *pool, uint64_t wanted_bytes, uint32_t attempt) {
    struct asked *asked = user;
    void *p;
    (void)wanted_bytes;
    asked->calls++;
    asked->inner = acre_pool_alloc(pool, 40 * MIB, 0, asked->s->stream, &p);
    asked->destroyed = acre_pool_destroy(pool, NULL, NULL);
    return asked->again && attempt < 5;
}

static void ladder_callback_is_not_called_within_itself(void **state) {
    (void)state;
    struct small s = small_begin(NULL);
    for (int again = 0; again < 2; again++) {
        struct asked asked = {.s = &s, .again = again};
        void *p = small_alloc(s.pool, 40 * MIB, s.stream);
        api_ok(acre_pool_set_callback(s.pool, misuse, &asked));
        api_expect(try_alloc(&s, 40 * MIB), ACRE_E_DEVICE_MEMORY);
        assert_int_equal(asked.calls, again ? 6 : 1);
        assert_int_equal(asked.inner, ACRE_E_DEVICE_MEMORY);
        assert_int_equal(asked.destroyed, ACRE_E_BUSY);
        api_ok(acre_pool_free(s.pool, p, s.stream));
    }
    api_expect(acre_pool_set_callback(NULL, misuse, NULL), ACRE_E_NULL);
    api_expect(acre_pool_set_callback((acre_pool *)&s, misuse, NULL), ACRE_E_HANDLE);
    small_end(&s);
}

static void ladder_callback_helps_limits(void **state) {
    (void)state;
    acre_pool_options options = {.struct_size = sizeof options, .limit_bytes = 30 * MIB};
    struct small s = small_begin(&options);
    struct asked asked = {.s = &s};
    asked.give[0] = small_alloc(s.pool, 20 * MIB, s.stream);
    api_ok(acre_pool_set_callback(s.pool, give_one, &asked));
    api_ok(try_alloc(&s, 20 * MIB));
    assert_int_equal(asked.calls, 1);
    assert_int_equal(small_stats(s.pool).served_callback, 1);
    /* Above the limit: the callback is not called. */
    api_expect(try_alloc(&s, 31 * MIB), ACRE_E_LIMIT);
    assert_int_equal(asked.calls, 1);
    small_end(&s);
}

/* ---- limits ---- */

static void limit_is_refused_after_other_threads_caches_were_emptied(void **state) {
    (void)state;
    acre_pool_options options = {.struct_size = sizeof options, .limit_bytes = 16 * MIB};
    struct small s = small_begin(&options);
    struct sleeper sleeper = {.s = &s, .stream = s.other, .bytes = 128 * KIB, .count = 64};
    sleeper_begin(&sleeper);
    assert_in_range(small_stats(s.pool).used_bytes, 4 * MIB, 8 * MIB);
    for (int i = 0; i < 16; i++)
        api_ok(try_alloc(&s, MIB));
    acre_pool_stats stats = small_stats(s.pool);
    assert_int_equal(stats.live_bytes, 16 * MIB);
    assert_int_equal(stats.used_bytes, 16 * MIB);
    assert_int_equal(stats.refused, 0);
    api_expect(try_alloc(&s, 1), ACRE_E_LIMIT);
    assert_non_null(strstr(acre_last_detail(), "16777216"));
    assert_int_equal(small_stats(s.pool).refused, 1);
    sleeper_end(&sleeper);
    small_end(&s);
}

/* Memory behind work in flight is held when the limit of the device is lowered. It is not served
 * beyond the limit once the work is done, to whatever pool. */
static void limit_of_the_device_holds_for_memory_in_flight(void **state) {
    (void)state;
    for (int is_other_pool = 0; is_other_pool < 2; is_other_pool++) {
        struct small s = small_begin(NULL);
        acre_pool *pool = is_other_pool ? s.second : s.pool;
        struct gate gate;
        void *p = small_alloc(pool, 50 * MIB, s.other);
        gate_put(s.other, &gate);
        api_ok(acre_pool_free(pool, p, s.other));
        api_ok(acre_device_set_limits(s.device, 24 * MIB, 0)); /* does not wait */
        assert_int_equal(atomic_load(&gate.is_passed), 0);
        assert_true(api_stats(s.device).held_bytes >= 50 * MIB);
        atomic_store(&gate.is_open, 1);
        api_ok(try_alloc(&s, 16 * MIB)); /* waits */
        assert_int_equal(atomic_load(&gate.is_passed), 1);
        assert_true(api_stats(s.device).held_bytes <= 24 * MIB);
        api_expect(try_alloc(&s, 16 * MIB), ACRE_E_DEVICE_MEMORY);
        small_end(&s);
    }
}

static void limit_of_the_device_holds_at_once_after_a_sync(void **state) {
    (void)state;
    struct small s = small_begin(NULL);
    struct gate gate;
    pthread_t thread;
    void *p = small_alloc(s.pool, 50 * MIB, s.stream);
    gate_put(s.stream, &gate);
    api_ok(acre_pool_free(s.pool, p, s.stream));
    assert_int_equal(pthread_create(&thread, NULL, gate_open_late, &gate), 0);
    api_ok(acre_device_sync(s.device));
    api_ok(acre_device_set_limits(s.device, 24 * MIB, 0));
    assert_int_equal(api_stats(s.device).held_bytes, 0);
    pthread_join(thread, NULL);
    small_end(&s);
}

/* The thread sleeps, and its cache has more than the limit. */
static void limit_of_the_device_empties_other_threads_caches(void **state) {
    (void)state;
    struct small s = small_begin(NULL);
    struct sleeper sleeper = {.s = &s, .stream = s.other, .bytes = 128 * KIB, .count = 64};
    sleeper_begin(&sleeper);
    assert_in_range(small_stats(s.pool).used_bytes, 4 * MIB, 8 * MIB);
    api_ok(acre_stream_sync(s.device, s.other));
    api_ok(acre_device_set_limits(s.device, 2 * MIB, 0));
    assert_int_equal(small_stats(s.pool).used_bytes, 0);
    assert_true(api_stats(s.device).held_bytes <= 2 * MIB);
    sleeper_end(&sleeper);
    small_end(&s);
}

/* The limit is set even if the driver refuses to release anything. */
static void limit_of_the_device_is_set_whatever_the_driver_refuses(void **state) {
    (void)state;
    uint64_t fired = 1;
    for (uint32_t nth = 1; fired; nth++) {
        struct small s = small_begin(NULL);
        void *kept = small_alloc(s.pool, 10 * MIB, s.stream);
        api_ok(acre_pool_free(s.pool, small_alloc(s.pool, 30 * MIB, s.stream), s.stream));
        api_ok(acre_pool_free(s.second, small_alloc(s.second, 10 * MIB, s.stream), s.stream));
        api_ok(acre_stream_sync(s.device, s.stream));
        fault_on(NULL, nth, ACRE__FAULT_ONCE, CUDA_ERROR_NOT_PERMITTED);
        api_ok(acre_device_set_limits(s.device, 24 * MIB, 0));
        fired = fault_off();
        assert_int_equal(api_stats(s.device).limit_bytes, 24 * MIB);
        api_expect(try_alloc(&s, 20 * MIB), ACRE_E_DEVICE_MEMORY);
        api_ok(try_alloc(&s, 10 * MIB));
        assert_true(api_stats(s.device).held_bytes <= 24 * MIB);
        api_ok(acre_pool_free(s.pool, kept, s.stream));
        small_end(&s);
        assert_true(nth > 4 || fired);
    }
}

/* ---- threads ---- */

enum { THREADS = 4, BLOCKS = 12, ROUNDS = 300 };

struct worker {
    struct small *s;
    uint64_t random;
    pthread_t thread;
    int bad, refused;
};

static int trim_other(void *user, acre_pool *pool, uint64_t wanted_bytes, uint32_t attempt) {
    struct small *s = user;
    (void)wanted_bytes;
    return !attempt && acre_pool_trim(pool == s->pool ? s->second : s->pool, 0) == ACRE_OK;
}

/* All threads together request much more than the device has. A thread that is refused frees all
 * its blocks. */
static void *press(void *argument) {
    struct worker *self = argument;
    acre_stream stream;
    void *blocks[BLOCKS] = {NULL};
    self->bad += acre_stream_create(self->s->device, ACRE_STREAM_NON_BLOCKING, &stream) != ACRE_OK;
    for (int i = 0; i < ROUNDS; i++) {
        void **at = &blocks[random_draw(&self->random, BLOCKS)];
        acre_pool *pool = random_draw(&self->random, 4) ? self->s->pool : self->s->second;
        size_t bytes = 1 + random_draw(&self->random, i % 2 ? 128 * KIB : 8 * MIB);
        self->bad += acre_free(*at, stream) != ACRE_OK;
        acre_status status = acre_pool_alloc(pool, bytes, 0, stream, at);
        if (status == ACRE_OK)
            self->bad += acre_fill(self->s->device, *at, 1, bytes, stream) != ACRE_OK;
        if (status != ACRE_E_DEVICE_MEMORY) {
            self->bad += status != ACRE_OK;
            continue;
        }
        size_t needed = 0;
        self->refused++;
        self->bad += acre_oom_report(ACRE_OOM_JSON, NULL, 0, &needed) != ACRE_OK || needed < 100;
        for (int k = 0; k < BLOCKS; k++) {
            self->bad += acre_free(blocks[k], stream) != ACRE_OK;
            blocks[k] = NULL;
        }
    }
    for (int k = 0; k < BLOCKS; k++)
        self->bad += acre_free(blocks[k], stream) != ACRE_OK;
    self->bad += acre_stream_destroy(self->s->device, stream) != ACRE_OK;
    return NULL;
}

static void ladder_is_climbed_by_many_threads_at_once(void **state) {
    (void)state;
    uint64_t random = random_seed("pool_ladder");
    struct small s = small_begin(NULL);
    struct worker workers[THREADS] = {0};
    uint64_t refused = 0;
    api_ok(acre_pool_set_callback(s.pool, trim_other, &s));
    api_ok(acre_pool_set_callback(s.second, trim_other, &s));
    for (int i = 0; i < THREADS; i++) {
        workers[i].s = &s;
        workers[i].random = random_draw(&random, UINT64_MAX);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, press, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].bad, 0);
        refused += (uint64_t)workers[i].refused;
    }
    acre_pool_stats one = small_stats(s.pool), two = small_stats(s.second);
    assert_int_equal(one.refused + two.refused, refused);
    assert_int_equal(one.live_blocks + two.live_blocks + one.used_bytes + two.used_bytes, 0);
    assert_true(small_served(&one) > one.refused);
    small_end(&s);
}

/* ---- how much one refill takes ---- */

enum { FEW = 400, MANY = 20000 };
static void *many[MANY];

/* Another thread frees most of the device's memory behind work in flight. */
static void *free_many(void *user) {
    struct small *s = user;
    int count = 0;
    while (count < MANY && acre_pool_alloc(s->pool, 8 * KIB, 0, s->other, &many[count]) == ACRE_OK)
        count++;
    for (int i = 0; i < count; i++)
        (void)acre_pool_free(s->pool, many[i], s->other);
    return NULL;
}

static void ladder_call_takes_no_more_than_its_cache_may_hold(void **state) {
    (void)state;
    struct small s = small_begin(NULL);
    struct gate gate;
    pthread_t thread;
    void *p[FEW], *one;
    for (int round = 0; round < 12; round++) { /* the thread's cache grows */
        for (int i = 0; i < FEW; i++)
            p[i] = small_alloc(s.pool, 8 * KIB, s.stream);
        for (int i = 0; i < FEW; i++)
            api_ok(acre_pool_free(s.pool, p[i], s.stream));
    }
    for (int i = 0; i < FEW; i++)
        p[i] = small_alloc(s.pool, 8 * KIB, s.stream);
    gate_put(s.other, &gate);
    assert_int_equal(pthread_create(&thread, NULL, free_many, &s), 0);
    pthread_join(thread, NULL);
    uint64_t before = small_stats(s.pool).used_bytes;
    one = small_alloc(s.pool, 8 * KIB, s.stream);
    assert_int_equal(small_stats(s.pool).served_behind, 1);
    assert_in_range(small_stats(s.pool).used_bytes - before, 1, 128 * 8 * KIB);
    atomic_store(&gate.is_open, 1);
    api_ok(acre_pool_free(s.pool, one, s.stream));
    for (int i = 0; i < FEW; i++)
        api_ok(acre_pool_free(s.pool, p[i], s.stream));
    small_end(&s);
}

int main(void) {
    fault_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ladder_call_takes_no_more_than_its_cache_may_hold),
        cmocka_unit_test(ladder_caches_of_other_threads_serve),
        cmocka_unit_test(ladder_completed_memory_of_other_streams_serves),
        cmocka_unit_test(ladder_chunks_that_are_free_are_moved),
        cmocka_unit_test(ladder_memory_behind_another_streams_work_serves),
        cmocka_unit_test(ladder_free_memory_of_other_pools_serves),
        cmocka_unit_test(ladder_pending_frees_are_waited_for),
        cmocka_unit_test(ladder_own_pending_frees_are_waited_for),
        cmocka_unit_test(ladder_leaves_captured_streams_out),
        cmocka_unit_test(ladder_that_serves_nobody_changes_nothing),
        cmocka_unit_test(ladder_gets_what_only_the_driver_can_release),
        cmocka_unit_test(ladder_callback_is_asked_until_it_is_enough),
        cmocka_unit_test(ladder_callback_is_not_called_within_itself),
        cmocka_unit_test(ladder_callback_helps_limits),
        cmocka_unit_test(limit_is_refused_after_other_threads_caches_were_emptied),
        cmocka_unit_test(limit_of_the_device_holds_for_memory_in_flight),
        cmocka_unit_test(limit_of_the_device_holds_at_once_after_a_sync),
        cmocka_unit_test(limit_of_the_device_empties_other_threads_caches),
        cmocka_unit_test(limit_of_the_device_is_set_whatever_the_driver_refuses),
        cmocka_unit_test(ladder_is_climbed_by_many_threads_at_once),
    };
    return cmocka_run_group_tests_name("pool_ladder", tests, NULL, NULL);
}
