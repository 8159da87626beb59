/* Spillable blocks through the public API: contents, the order of leaving, limits, a full device,
 * frees while away, what acre_bring holds, misuse, and suspending. */
#include <pthread.h>

#include "api_pool.h"
#include "support/rounds.h"

static acre_pool_options with_limit(uint64_t bytes) {
    return (acre_pool_options){.struct_size = sizeof(acre_pool_options), .limit_bytes = bytes};
}

static acre_status try_spillable(struct things *t, size_t bytes, void **p) {
    *p = t;
    acre_status status = acre_pool_alloc_spillable(t->pool, bytes, t->stream, p);
    if (status)
        assert_null(*p);
    return status;
}

/* Allocates a block filled with a value. */
static void *spillable(struct things *t, size_t bytes, uint8_t value) {
    void *p;
    api_ok(try_spillable(t, bytes, &p));
    api_ok(acre_fill(t->device, p, value, bytes, t->stream));
    return p;
}

/* Checks a block that was brought back. */
static void check(struct things *t, const void *p, size_t bytes, uint8_t value) {
    unsigned char *host = malloc(bytes);
    assert_non_null(host);
    api_ok(acre_copy(t->device, host, p, bytes, t->stream));
    api_ok(acre_stream_sync(t->device, t->stream));
    for (size_t i = 0; i < bytes; i++)
        if (host[i] != value)
            fail_msg("byte %zu is %u, not %u", i, host[i], value);
    free(host);
}

static void bring_and_check(struct things *t, void *p, size_t bytes, uint8_t value) {
    api_ok(acre_bring(p, t->stream));
    check(t, p, bytes, value);
    api_ok(acre_bring_end(p, t->stream));
}

TEST(spill_a_pool_has_more_than_its_limit) {
    void *p[8];
    for (API_EACH(name)) {
        acre_pool_options options = with_limit(8 * MIB);
        struct things t = begin(name, &options);
        for (int i = 0; i < 8; i++)
            p[i] = spillable(&t, 2 * MIB, (uint8_t)(i + 1));
        acre_pool_stats stats = stats_of(t.pool);
        assert_int_equal(stats.spillable_bytes, 16 * MIB);
        assert_int_equal(stats.away_bytes, 8 * MIB);
        assert_int_equal(stats.left_blocks, 4);
        assert_int_equal(stats.left_bytes, 8 * MIB);
        assert_int_equal(stats.held_bytes, 8 * MIB);
        assert_int_equal(stats.used_bytes, 8 * MIB);
        for (int round = 0; round < 3; round++)
            for (int i = 0; i < 8; i++)
                bring_and_check(&t, p[i], 2 * MIB, (uint8_t)(i + 1));
        stats = stats_of(t.pool);
        assert_int_equal(stats.away_bytes, 8 * MIB);
        assert_int_equal(stats.brought_blocks, stats.left_blocks - 4);
        assert_true(stats.brought_blocks >= 8);
        for (int i = 0; i < 8; i++)
            api_ok(acre_free(p[i], t.stream)); /* some of them are away */
        stats = stats_of(t.pool);
        assert_int_equal(stats.spillable_bytes + stats.away_bytes + stats.used_bytes, 0);
        end(&t);
    }
}

TEST(spill_ordinary_blocks_make_spillable_ones_leave) {
    for (API_EACH(name)) {
        acre_pool_options options = with_limit(8 * MIB);
        struct things t = begin(name, &options);
        void *kept = spillable(&t, 4 * MIB, 7), *other = alloc(&t, 4 * MIB);
        assert_int_equal(stats_of(t.pool).away_bytes, 0);
        void *more = alloc(&t, 2 * MIB);
        acre_pool_stats stats = stats_of(t.pool);
        assert_int_equal(stats.away_bytes, 4 * MIB);
        assert_int_equal(stats.served_spill, 1);
        api_expect(acre_bring(kept, t.stream), ACRE_E_LIMIT);
        api_ok(acre_pool_free(t.pool, more, t.stream));
        api_ok(acre_pool_trim(t.pool, 0));
        bring_and_check(&t, kept, 4 * MIB, 7);
        api_ok(acre_pool_free(t.pool, other, t.stream));
        api_ok(acre_pool_free(t.pool, kept, t.stream));
        end(&t);
    }
}

/* The one used longest ago leaves first; one that is held does not. */
TEST(spill_leaves_in_order_of_use_and_not_while_held) {
    for (API_EACH(name)) {
        acre_pool_options options = with_limit(6 * MIB);
        struct things t = begin(name, &options);
        void *a = spillable(&t, 2 * MIB, 1), *b = spillable(&t, 2 * MIB, 2);
        void *c = spillable(&t, 2 * MIB, 3), *p;
        api_ok(acre_bring(a, t.stream));
        api_ok(acre_bring(a, t.stream)); /* nests */
        api_ok(acre_bring_end(a, t.stream));
        void *d = spillable(&t, 2 * MIB, 4); /* b leaves */
        check(&t, a, 2 * MIB, 1);
        check(&t, c, 2 * MIB, 3);
        unsigned char byte;
        api_expect(acre_copy(t.device, &byte, b, 1, t.stream), ACRE_E_SUSPENDED);
        api_ok(acre_bring(c, t.stream));
        api_ok(acre_bring(d, t.stream));
        api_expect(try_spillable(&t, 2 * MIB, &p), ACRE_E_LIMIT); /* all are held */
        api_expect(acre_bring(b, t.stream), ACRE_E_LIMIT);
        api_expect(acre_free(a, t.stream), ACRE_E_BUSY);
        api_ok(acre_bring_end(a, t.stream));
        api_ok(acre_bring_end(d, t.stream));
        api_ok(acre_bring_end(c, t.stream));
        bring_and_check(&t, b, 2 * MIB, 2); /* a leaves */
        api_expect(acre_fill(t.device, a, 0, 1, t.stream), ACRE_E_SUSPENDED);
        void *all[] = {a, b, c, d};
        for (uint8_t i = 0; i < 4; i++) {
            bring_and_check(&t, all[i], 2 * MIB, (uint8_t)(i + 1));
            api_ok(acre_free(all[i], t.stream));
        }
        end(&t);
    }
}

TEST(spill_small_and_ordinary_blocks_are_always_there) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *small, *ordinary = alloc(&t, 4 * MIB);
        api_ok(acre_pool_alloc_spillable(t.pool, 1000, t.stream, &small));
        api_ok(acre_bring(small, t.stream));
        api_ok(acre_bring_end(small, t.stream));
        api_ok(acre_bring(ordinary, t.stream));
        api_expect(acre_bring((char *)ordinary + 256, t.stream), ACRE_E_POINTER);
        api_expect(acre_bring(NULL, t.stream), ACRE_E_NULL);
        api_expect(acre_bring_end(&t, t.stream), ACRE_E_POINTER);
        api_ok(acre_free(small, t.stream));
        api_ok(acre_free(ordinary, t.stream));
        end(&t);
    }
}

TEST(spill_misuse_is_refused) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        acre_pool_options options = {.struct_size = sizeof options, .kind = ACRE_KIND_PINNED};
        acre_pool *pinned;
        void *p = &t, *q;
        api_ok(acre_pool_create(t.device, &options, &pinned));
        api_expect(acre_pool_alloc_spillable(pinned, 4 * MIB, t.stream, &p), ACRE_E_KIND);
        assert_null(p);
        api_expect(acre_pool_alloc_spillable(t.pool, 4 * MIB, t.stream, NULL), ACRE_E_NULL);
        api_expect(acre_pool_alloc_spillable(t.pool, SIZE_MAX, t.stream, &p), ACRE_E_DEVICE_MEMORY);
        p = spillable(&t, 3 * MIB, 1);
        api_expect(acre_bring_end(p, t.stream), ACRE_E_INVALID);
        api_expect(acre_pool_free(pinned, p, t.stream), ACRE_E_KIND);
        api_expect(acre_mem_free(t.device, p), ACRE_E_KIND);
        api_expect(acre_pool_realloc(t.pool, p, 8 * MIB, t.stream, &q), ACRE_E_KIND);
        acre_mem_info info = {.struct_size = sizeof info};
        api_ok(acre_mem_query(t.device, p, &info));
        assert_ptr_equal(info.pool, t.pool);
        assert_int_equal(info.bytes, 3 * MIB);
        api_ok(acre_pool_free(t.pool, p, t.stream));
        api_expect(acre_pool_free(t.pool, p, t.stream), ACRE_E_POINTER);
        api_ok(acre_pool_destroy(pinned, NULL, NULL));
        end(&t);
    }
}

TEST(spill_leaks_are_counted_and_freed) {
    for (API_EACH(name)) {
        acre_pool_options options = with_limit(4 * MIB);
        struct things t = begin(name, &options);
        uint64_t blocks, bytes;
        for (int i = 0; i < 3; i++)
            (void)spillable(&t, 2 * MIB, 1);
        api_ok(acre_pool_destroy(t.pool, &blocks, &bytes));
        assert_int_equal(blocks, 3);
        assert_int_equal(bytes, 6 * MIB);
        api_ok(acre_pool_create(t.device, NULL, &t.pool));
        end(&t);
    }
}

/* Everything that allocates device memory makes spillable blocks leave. */
TEST(spill_makes_room_on_a_full_soft_device) {
    setenv("ACRE_SOFT_BYTES", "64MiB", 1);
    struct things t = begin("soft:0", NULL);
    void *p[12], *mem, *q;
    for (int i = 0; i < 12; i++)
        p[i] = spillable(&t, 8 * MIB, (uint8_t)(i + 1));
    uint64_t away = stats_of(t.pool).away_bytes;
    assert_true(away >= 32 * MIB);
    api_ok(acre_mem_alloc(t.device, ACRE_KIND_DEVICE, 16 * MIB, 0, &mem));
    assert_true(stats_of(t.pool).away_bytes >= away + 8 * MIB);
    for (int i = 0; i < 12; i++)
        bring_and_check(&t, p[i], 8 * MIB, (uint8_t)(i + 1));
    uint64_t left = stats_of(t.pool).left_blocks;
    api_expect(acre_pool_alloc_spillable(t.pool, 60 * MIB, t.stream, &q), ACRE_E_DEVICE_MEMORY);
    assert_int_equal(stats_of(t.pool).left_blocks, left); /* nothing leaves in vain */
    api_ok(acre_mem_free(t.device, mem));
    for (int i = 0; i < 12; i++)
        api_ok(acre_free(p[i], t.stream));
    end(&t);
    unsetenv("ACRE_SOFT_BYTES");
}

TEST(spill_and_suspend_leave_each_other_alone) {
    for (API_EACH(name)) {
        acre_pool_options options = with_limit(4 * MIB);
        struct things t = begin(name, &options);
        void *p[3], *q;
        acre_suspended *suspended;
        for (int i = 0; i < 3; i++)
            p[i] = spillable(&t, 2 * MIB, (uint8_t)(i + 1));
        api_ok(acre_suspend(t.device, NULL, &suspended));
        acre_device_stats stats = {.struct_size = sizeof stats};
        api_ok(acre_device_get_stats(t.device, &stats));
        assert_int_equal(stats.suspended_bytes, 4 * MIB);
        for (int i = 0; i < 3; i++)
            api_expect(acre_bring(p[i], t.stream), ACRE_E_SUSPENDED);
        api_ok(acre_free(p[2], t.stream));
        api_expect(try_spillable(&t, 2 * MIB, &q), ACRE_E_SUSPENDED);
        api_ok(acre_resume(suspended));
        for (int i = 0; i < 2; i++) {
            bring_and_check(&t, p[i], 2 * MIB, (uint8_t)(i + 1));
            api_ok(acre_free(p[i], t.stream));
        }
        end(&t);
    }
}

/* A rule for a pool is one for its spillable blocks, too. */
TEST(spill_blocks_follow_the_rule_of_their_pool) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        acre_pool *other;
        api_ok(acre_pool_create(t.device, NULL, &other));
        void *p = spillable(&t, 4 * MIB, 5), *q;
        api_ok(acre_pool_alloc_spillable(other, 4 * MIB, t.stream, &q));
        acre_suspend_rule rule = {.struct_size = sizeof rule, .pool = t.pool};
        acre_suspend_options options = {.struct_size = sizeof options,
                                        .how = ACRE_SUSPEND_STAY,
                                        .rules = &rule,
                                        .rule_count = 1};
        acre_suspended *suspended;
        acre_suspend_info info = {.struct_size = sizeof info};
        api_ok(acre_suspend(t.device, &options, &suspended));
        api_ok(acre_suspend_get_info(suspended, &info));
        assert_int_equal(info.released_bytes, 4 * MIB);
        assert_int_equal(info.stayed_bytes, 4 * MIB);
        api_expect(acre_bring(p, t.stream), ACRE_E_SUSPENDED);
        api_ok(acre_bring(q, t.stream));
        api_ok(acre_bring_end(q, t.stream));
        api_ok(acre_resume(suspended));
        bring_and_check(&t, p, 4 * MIB, 5);
        api_ok(acre_free(p, t.stream));
        api_ok(acre_free(q, t.stream));
        api_ok(acre_pool_destroy(other, NULL, NULL));
        end(&t);
    }
}

/* At the limit only what is missing leaves, and nothing for a request that cannot be served. */
TEST(spill_nothing_leaves_in_vain_at_a_limit) {
    for (API_EACH(name)) {
        acre_pool_options options = with_limit(16 * MIB);
        struct things t = begin(name, &options);
        void *p[4], *q;
        for (int i = 0; i < 4; i++)
            p[i] = spillable(&t, 4 * MIB, 1);
        api_expect(try_spillable(&t, 32 * MIB, &q), ACRE_E_LIMIT);
        api_expect(acre_pool_alloc(t.pool, 32 * MIB, 0, t.stream, &q), ACRE_E_LIMIT);
        assert_int_equal(stats_of(t.pool).left_blocks, 0);
        api_ok(acre_free(p[3], t.stream));
        api_ok(try_spillable(&t, 6 * MIB, &q)); /* 2 MiB are missing */
        assert_int_equal(stats_of(t.pool).left_blocks, 1);
        api_ok(acre_free(q, t.stream));
        for (int i = 0; i < 3; i++)
            api_ok(acre_free(p[i], t.stream));
        end(&t);
    }
}

/* ---- threads ---- */

enum { THREADS = 4, EACH = 3 };

struct worker {
    struct things things;
    unsigned number;
};

/* Uses its blocks in turn; more exist than fit. */
static void *worker_main(void *argument) {
    struct worker *worker = argument;
    struct things *t = &worker->things;
    void *p[EACH];
    uint8_t value[EACH];
    for (unsigned i = 0; i < EACH; i++) {
        value[i] = (uint8_t)(1 + worker->number * EACH + i);
        api_ok(try_spillable(t, 2 * MIB, &p[i]));
        api_ok(acre_bring(p[i], t->stream)); /* it may have left already */
        api_ok(acre_fill(t->device, p[i], value[i], 2 * MIB, t->stream));
        api_ok(acre_bring_end(p[i], t->stream));
    }
    for (unsigned round = 0; round < ROUNDS(40, 8); round++) {
        unsigned i = round % EACH;
        api_ok(acre_bring(p[i], t->stream));
        check(t, p[i], 2 * MIB, value[i]);
        value[i] = (uint8_t)(value[i] + 12);
        api_ok(acre_fill(t->device, p[i], value[i], 2 * MIB, t->stream));
        api_ok(acre_bring_end(p[i], t->stream));
    }
    for (unsigned i = 0; i < EACH; i++)
        api_ok(acre_free(p[i], t->stream));
    return NULL;
}

TEST(spill_threads_share_a_pool_that_is_too_small) {
    for (API_EACH(name)) {
        /* Each thread holds one block at a time and fills another one in its allocation. */
        acre_pool_options options = with_limit(2 * THREADS * 2 * MIB);
        struct things t = begin(name, &options);
        struct worker workers[THREADS];
        pthread_t threads[THREADS];
        for (unsigned i = 0; i < THREADS; i++) {
            workers[i] = (struct worker){t, i};
            api_ok(
                acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &workers[i].things.stream));
        }
        for (unsigned i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &workers[i]), 0);
        for (unsigned i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            api_ok(acre_stream_destroy(t.device, workers[i].things.stream));
        }
        assert_true(stats_of(t.pool).left_blocks > 0);
        end(&t);
    }
}

int main(void) {
    return tests_run("spill");
}
