/* Limits of pools through the public API, on every driver, with one thread and with several. */
#include <pthread.h>
#include <stdatomic.h>

#include "api_pool.h"

static acre_status try_alloc(struct things *t, size_t bytes) {
    void *p = t;
    acre_status status = acre_pool_alloc(t->pool, bytes, 0, t->stream, &p);
    if (status)
        assert_null(p);
    return status;
}

static acre_pool_options with_limits(uint64_t soft, uint64_t hard) {
    return (acre_pool_options){
        .struct_size = sizeof(acre_pool_options), .soft_limit_bytes = soft, .limit_bytes = hard};
}

/* ---- hard limit ---- */

TEST(limit_hard_is_exact_for_blocks_of_any_size) {
    const size_t sizes[] = {256, 64 * KIB, MIB, 4 * MIB};
    for (API_EACH(name)) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            acre_pool_options options = with_limits(0, 8 * MIB);
            struct things t = begin(name, &options);
            size_t count = 8 * MIB / sizes[i];
            for (size_t k = 0; k < count; k++)
                api_ok(try_alloc(&t, sizes[i]));
            api_expect(try_alloc(&t, 1), ACRE_E_LIMIT);
            assert_non_null(strstr(acre_last_detail(), "256 bytes requested"));
            assert_non_null(strstr(acre_last_detail(), "8388608"));
            acre_pool_stats stats = stats_of(t.pool);
            assert_int_equal(stats.live_bytes, 8 * MIB);
            assert_int_equal(stats.used_bytes, 8 * MIB);
            assert_int_equal(stats.limit_bytes, 8 * MIB);
            assert_int_equal(stats.refused, 1);
            end(&t);
        }
    }
}

/* Blocks that are in caches when the limit is set count from then on. */
TEST(limit_set_below_what_is_cached_is_exact) {
    void *p[25];
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        for (int i = 0; i < 25; i++)
            p[i] = alloc(&t, 256 * KIB);
        for (int i = 0; i < 25; i++)
            api_ok(acre_pool_free(t.pool, p[i], t.stream));
        api_ok(acre_pool_set_limits(t.pool, 0, MIB));
        for (int i = 0; i < 4; i++)
            api_ok(try_alloc(&t, 256 * KIB));
        api_expect(try_alloc(&t, 256 * KIB), ACRE_E_LIMIT);
        assert_int_equal(stats_of(t.pool).live_bytes, MIB);
        end(&t);
    }
}

/* The limit is exact also after threads returned long lists of blocks to the pool. */
TEST(limit_hard_is_exact_after_much_was_freed) {
    enum { BLOCKS = 1000, MOST = 300 };
    static void *p[BLOCKS];
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        for (int i = 0; i < 10; i++) {
            for (int k = 0; k < BLOCKS; k++)
                p[k] = alloc(&t, 4 * KIB);
            for (int k = 0; k < BLOCKS; k++)
                api_ok(acre_pool_free(t.pool, p[k], t.stream));
        }
        api_ok(acre_pool_set_limits(t.pool, 0, MOST * 4 * KIB));
        for (int k = 0; k < MOST; k++)
            api_ok(try_alloc(&t, 4 * KIB));
        api_expect(try_alloc(&t, 4 * KIB), ACRE_E_LIMIT);
        end(&t);
    }
}

/* The thread's own cache counts, and the pool empties it before it refuses a request. */
TEST(limit_hard_leaves_room_for_what_caches_have) {
    for (API_EACH(name)) {
        acre_pool_options options = with_limits(0, 16 * MIB);
        struct things t = begin(name, &options);
        void *blocks[8];
        api_ok(acre_pool_alloc_many(t.pool, 256 * KIB, 8, t.stream, blocks));
        api_ok(acre_pool_free_many(t.pool, blocks, 8, t.stream, NULL));
        assert_true(stats_of(t.pool).used_bytes > 0);
        assert_int_equal(stats_of(t.pool).live_bytes, 0);
        api_ok(try_alloc(&t, 16 * MIB));
        assert_int_equal(stats_of(t.pool).used_bytes, 16 * MIB);
        api_expect(try_alloc(&t, 16 * MIB), ACRE_E_LIMIT);
        end(&t);
    }
}

TEST(limit_hard_may_be_changed_at_any_time) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p = alloc(&t, 8 * MIB), *q = alloc(&t, 8 * MIB);
        api_ok(acre_pool_set_limits(t.pool, 0, 8 * MIB)); /* below the bytes in use */
        api_expect(try_alloc(&t, 256), ACRE_E_LIMIT);
        api_ok(acre_pool_free(t.pool, p, t.stream));
        api_expect(try_alloc(&t, 256), ACRE_E_LIMIT);
        api_ok(acre_pool_free(t.pool, q, t.stream));
        api_ok(try_alloc(&t, 8 * MIB));
        api_expect(try_alloc(&t, 256), ACRE_E_LIMIT);
        api_ok(acre_pool_set_limits(t.pool, 0, 0));
        api_ok(try_alloc(&t, 8 * MIB));
        api_expect(acre_pool_set_limits(t.pool, 2, 1), ACRE_E_INVALID);
        assert_int_equal(stats_of(t.pool).limit_bytes, 0);
        api_expect(acre_pool_set_limits(NULL, 0, 0), ACRE_E_NULL);
        api_expect(acre_pool_set_limits((acre_pool *)&t, 0, 0), ACRE_E_HANDLE);
        acre_pool_options options = with_limits(2, 1);
        acre_pool *bad = (acre_pool *)&t;
        api_expect(acre_pool_create(t.device, &options, &bad), ACRE_E_INVALID);
        assert_null(bad);
        end(&t);
    }
}

/* Every way to free a block lowers the count. */
TEST(limit_counts_every_way_back) {
    for (API_EACH(name)) {
        for (int flags = 0; flags < 3; flags++) {
            acre_pool_options options = with_limits(0, 64 * MIB);
            options.flags = (uint32_t)flags; /* plain, zeroed, debug */
            struct things t = begin(name, &options);
            acre_event event;
            void *p, *q;
            api_ok(acre_event_create(t.device, 0, &event));
            for (size_t bytes = 1000; bytes < 8 * MIB; bytes *= 200) {
                api_ok(acre_pool_free(t.pool, alloc(&t, bytes), t.stream));
                p = alloc(&t, bytes);
                api_ok(acre_event_record(t.device, event, t.stream)); /* zeroing is work, too */
                api_ok(acre_stream_wait(t.device, t.other, event));
                api_ok(acre_pool_free(t.pool, p, t.other));
                p = alloc(&t, bytes);
                api_ok(acre_pool_record_use(t.pool, p, t.other));
                api_ok(acre_pool_free(t.pool, p, t.stream));
                p = alloc(&t, bytes);
                api_ok(acre_event_record(t.device, event, t.stream));
                api_ok(acre_pool_free_after(t.pool, p, event));
                p = alloc(&t, bytes);
                api_ok(acre_pool_realloc(t.pool, p, 3 * bytes, t.stream, &q));
                api_ok(acre_pool_realloc(t.pool, q, 2 * bytes, t.stream, &p));
                assert_true(stats_of(t.pool).used_bytes >= stats_of(t.pool).live_bytes);
                api_ok(acre_pool_free(t.pool, p, t.stream));
            }
            api_ok(acre_device_sync(t.device));
            api_ok(acre_pool_trim(t.pool, 0));
            assert_int_equal(stats_of(t.pool).used_bytes, 0);
            api_ok(acre_event_destroy(t.device, event));
            end(&t);
        }
    }
}

/* The limit holds for realloc in place and with a copy, for which both blocks must fit. */
TEST(limit_holds_for_realloc) {
    for (API_EACH(name)) {
        acre_pool_options options = with_limits(0, 12 * MIB);
        struct things t = begin(name, &options);
        void *p = alloc(&t, 4 * MIB), *q;
        api_ok(acre_pool_realloc(t.pool, p, 8 * MIB, t.stream, &q));
        assert_in_range(stats_of(t.pool).used_bytes, 8 * MIB, 12 * MIB);
        p = q;
        api_expect(acre_pool_realloc(t.pool, p, 13 * MIB, t.stream, &q), ACRE_E_LIMIT);
        assert_null(q);
        assert_int_equal(acre_pool_owns(t.pool, p), 1);
        api_ok(acre_pool_realloc(t.pool, p, 2 * MIB, t.stream, &q));
        api_ok(acre_pool_free(t.pool, q, t.stream));
        api_ok(try_alloc(&t, 12 * MIB));
        end(&t);
    }
}

TEST(limit_many_are_all_or_none) {
    for (API_EACH(name)) {
        acre_pool_options options = with_limits(0, 10 * MIB);
        struct things t = begin(name, &options);
        void *blocks[20];
        api_expect(acre_pool_alloc_many(t.pool, MIB, 20, t.stream, blocks), ACRE_E_LIMIT);
        assert_int_equal(stats_of(t.pool).live_bytes, 0);
        api_ok(acre_pool_alloc_many(t.pool, MIB, 10, t.stream, blocks));
        end(&t);
    }
}

/* ---- soft limit ---- */

TEST(limit_soft_gives_back_and_never_refuses) {
    for (API_EACH(name)) {
        acre_pool_options options = with_limits(16 * MIB, 0);
        struct things t = begin(name, &options);
        void *blocks[300];
        api_ok(acre_pool_alloc_many(t.pool, 64 * KIB, 200, t.stream, blocks));
        api_ok(acre_pool_free_many(t.pool, blocks, 200, t.stream, NULL));
        api_ok(acre_stream_sync(t.device, t.stream));
        acre_pool_stats stats = stats_of(t.pool);
        assert_true(stats.held_bytes >= 12 * MIB);
        assert_int_equal(stats.over_soft, 0);
        void *large = alloc(&t, 40 * MIB);
        stats = stats_of(t.pool);
        assert_int_equal(stats.over_soft, 1);
        /* The pool released the memory of the small blocks. */
        assert_in_range(stats.held_bytes, 40 * MIB, 42 * MIB);
        assert_int_equal(stats.soft_limit_bytes, 16 * MIB);
        assert_int_equal(stats.refused, 0);
        void *more = alloc(&t, 2 * MIB);
        assert_int_equal(stats_of(t.pool).over_soft, 1); /* counted once, not with every call */
        api_ok(acre_pool_free(t.pool, more, t.stream));
        api_ok(acre_pool_free(t.pool, large, t.stream));
        api_ok(acre_pool_trim(t.pool, 0));
        large = alloc(&t, 40 * MIB); /* below the limit, and beyond it again */
        assert_int_equal(stats_of(t.pool).over_soft, 2);
        end(&t);
    }
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 2000, MOST = 12 << 20 };

struct world {
    acre_device *device;
    acre_pool *pool;
    _Atomic uint64_t live;
    _Atomic int bad, refused;
};

struct worker {
    struct world *world;
    uint64_t random;
};

static void give(struct world *world, void **at, acre_stream stream) {
    atomic_fetch_sub(&world->live, acre_pool_usable_size(world->pool, *at));
    atomic_fetch_add(&world->bad, acre_pool_free(world->pool, *at, stream) != ACRE_OK);
    *at = NULL;
}

/* Allocates blocks of all sizes and frees them in random order. The live bytes never exceed the
 * limit. */
static void *press(void *argument) {
    struct worker *self = argument;
    struct world *world = self->world;
    void *blocks[64] = {NULL};
    acre_stream stream;
    atomic_fetch_add(&world->bad, acre_stream_create(world->device, 1, &stream) != ACRE_OK);
    for (int i = 0; i < ROUNDS; i++) {
        void **at = &blocks[random_draw(&self->random, 64)];
        if (*at) {
            give(world, at, stream);
            continue;
        }
        size_t bytes = 1 + random_draw(&self->random, i % 8 ? 256 * KIB : 6 * MIB);
        acre_status status = acre_pool_alloc(world->pool, bytes, 0, stream, at);
        atomic_fetch_add(&world->refused, status == ACRE_E_LIMIT);
        atomic_fetch_add(&world->bad, status != ACRE_OK && status != ACRE_E_LIMIT);
        if (status == ACRE_OK &&
            atomic_fetch_add(&world->live, acre_pool_usable_size(world->pool, *at)) > MOST)
            atomic_fetch_add(&world->bad, 1);
    }
    for (int i = 0; i < 64; i++)
        if (blocks[i])
            give(world, &blocks[i], stream);
    atomic_fetch_add(&world->bad, acre_stream_destroy(world->device, stream) != ACRE_OK);
    return NULL;
}

TEST(limit_holds_for_threads_together) {
    uint64_t random = random_seed("pool_limits");
    for (API_EACH(name)) {
        struct world world = {.device = api_open(name)};
        acre_pool_options options = with_limits(MOST / 2, MOST);
        struct worker workers[THREADS];
        pthread_t threads[THREADS];
        api_ok(acre_pool_create(world.device, &options, &world.pool));
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (struct worker){&world, random_draw(&random, UINT64_MAX)};
            assert_int_equal(pthread_create(&threads[i], NULL, press, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        acre_pool_stats stats = stats_of(world.pool);
        assert_int_equal(atomic_load(&world.bad), 0);
        assert_int_equal(stats.live_bytes, 0);
        assert_int_equal(stats.used_bytes, 0); /* a thread that exits returns its cache */
        assert_int_equal(stats.refused, atomic_load(&world.refused));
        assert_true(stats.refused > 0);
        assert_true(stats.over_soft > 0);
        api_ok(acre_pool_destroy(world.pool, NULL, NULL));
        api_ok(acre_close(world.device));
    }
}

int main(void) {
    return tests_run("pool_limits");
}
