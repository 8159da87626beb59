/* Pools through the public API, on every driver: the result of each call. Refused calls are in
 * test_pool_misuse.c. */
#include "api_pool.h"

/* ---- allocation ---- */

TEST(pool_blocks_are_aligned_large_enough_and_apart) {
    const size_t sizes[] = {1,        255,    256,         257,     4096,    5000,
                            64 * KIB, 100001, 2 * MIB - 1, 2 * MIB, 3 * MIB, 9 * MIB};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        char *blocks[SIZES];
        for (int i = 0; i < SIZES; i++) {
            blocks[i] = alloc(&t, sizes[i]);
            assert_int_equal((uintptr_t)blocks[i] % 256, 0);
            size_t has = acre_pool_usable_size(t.pool, blocks[i]);
            assert_in_range(has, sizes[i], sizes[i] + sizes[i] / 8 + 255);
            assert_int_equal(acre_pool_owns(t.pool, blocks[i]), 1);
            assert_int_equal(acre_pool_owns(t.pool, blocks[i] + has - 1), 1);
            for (int k = 0; k < i; k++)
                assert_true(blocks[k] + acre_pool_usable_size(t.pool, blocks[k]) <= blocks[i] ||
                            blocks[i] + has <= blocks[k]);
            api_ok(acre_fill(t.device, blocks[i], 1, has, t.stream));
        }
        assert_int_equal(stats_of(t.pool).live_blocks, SIZES);
        for (int i = 0; i < SIZES; i++)
            api_ok(acre_pool_free(t.pool, blocks[i], t.stream));
        assert_int_equal(stats_of(t.pool).live_blocks, 0);
        assert_int_equal(stats_of(t.pool).live_bytes, 0);
        end(&t);
    }
}

TEST(pool_block_freed_on_a_stream_is_used_there_again) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p = alloc(&t, 5000), *again;
        api_ok(acre_pool_free(t.pool, p, t.stream));
        again = alloc(&t, 5001);
        assert_ptr_equal(again, p);
        api_ok(acre_pool_free(t.pool, again, t.stream));
        acre_pool_stats before = stats_of(t.pool);
        for (int i = 0; i < 100; i++)
            api_ok(acre_pool_free(t.pool, alloc(&t, 5000), t.stream));
        acre_pool_stats after = stats_of(t.pool);
        assert_int_equal(after.refills, before.refills);
        assert_int_equal(after.spills, before.spills);
        assert_int_equal(after.events, 0);
        end(&t);
    }
}

TEST(pool_alignments_up_to_1_gib_are_kept) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        for (size_t alignment = 1; alignment <= 64 * MIB; alignment *= 2) {
            void *a = NULL, *b = NULL;
            acre_status status = acre_pool_alloc(t.pool, 300, alignment, t.stream, &a);
            api_ok(status);
            api_ok(acre_pool_alloc(t.pool, 70000, alignment, t.stream, &b));
            assert_int_equal((uintptr_t)a % (alignment < 256 ? 256 : alignment), 0);
            assert_int_equal((uintptr_t)b % (alignment < 256 ? 256 : alignment), 0);
            api_ok(acre_pool_free(t.pool, a, t.stream));
            api_ok(acre_pool_free(t.pool, b, t.stream));
        }
        void *far = NULL, *again = NULL;
        api_ok(acre_pool_alloc(t.pool, 1, GIB, t.stream, &far));
        assert_int_equal((uintptr_t)far % GIB, 0);
        api_ok(acre_pool_free(t.pool, far, t.stream));
        api_ok(acre_pool_alloc(t.pool, 1, GIB, t.stream, &again));
        assert_ptr_equal(again, far); /* reused at once on its stream */
        api_ok(acre_pool_free(t.pool, again, t.stream));
        end(&t);
    }
}

TEST(pool_out_of_memory_says_so_and_works_again) {
    acre_device *devices[2];
    acre_pool *pool;
    void *p, *small;
    api_open_two(devices);
    api_ok(acre_pool_create(devices[0], NULL, &pool));
    api_expect(acre_pool_alloc(pool, 65 * MIB, 0, NULL, &p), ACRE_E_DEVICE_MEMORY);
    assert_null(p);
    api_ok(acre_pool_alloc(pool, 40 * MIB, 0, NULL, &p));
    api_expect(acre_pool_alloc(pool, 40 * MIB, 0, NULL, &small), ACRE_E_DEVICE_MEMORY);
    api_ok(acre_pool_alloc(pool, 64, 0, NULL, &small));
    api_ok(acre_pool_free(pool, p, NULL));
    api_ok(acre_pool_alloc(pool, 40 * MIB, 0, NULL, &p));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

/* ---- many ---- */

TEST(pool_many_are_handed_out_all_or_none) {
    enum { COUNT = 200 };
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *blocks[COUNT];
        size_t freed = 99;
        api_ok(acre_pool_alloc_many(t.pool, 700, COUNT, t.stream, blocks));
        assert_int_equal(stats_of(t.pool).live_blocks, COUNT);
        void *good = blocks[COUNT / 2];
        blocks[COUNT / 2] = (char *)good + 1;
        api_expect(acre_pool_free_many(t.pool, blocks, COUNT, t.stream, &freed), ACRE_E_INTERIOR);
        assert_int_equal(freed, COUNT / 2);
        assert_int_equal(stats_of(t.pool).live_blocks, COUNT - COUNT / 2);
        blocks[COUNT / 2] = good;
        api_ok(acre_pool_free_many(t.pool, blocks + COUNT / 2, COUNT / 2, t.stream, NULL));
        assert_int_equal(stats_of(t.pool).live_blocks, 0);
        api_ok(acre_pool_alloc_many(t.pool, 700, 0, t.stream, NULL));
        api_ok(acre_pool_free_many(t.pool, NULL, 0, t.stream, &freed));
        assert_int_equal(freed, 0);
        api_expect(acre_pool_alloc_many(t.pool, 700, 1, t.stream, NULL), ACRE_E_NULL);
        api_expect(acre_pool_free_many(t.pool, NULL, 1, t.stream, &freed), ACRE_E_NULL);
        for (int i = 0; i < COUNT; i++)
            blocks[i] = &t;
        api_expect(acre_pool_alloc_many(NULL, 700, COUNT, t.stream, blocks), ACRE_E_NULL);
        for (int i = 0; i < COUNT; i++)
            assert_null(blocks[i]);
        blocks[0] = &t;
        api_ok(acre_pool_alloc_many(t.pool, 0, COUNT, t.stream, blocks));
        assert_null(blocks[0]);
        assert_int_equal(stats_of(t.pool).live_blocks, 0);
        end(&t);
    }
}

TEST(pool_many_that_do_not_fit_leave_nothing) {
    acre_device *devices[2];
    acre_pool *pool;
    void *blocks[40];
    api_open_two(devices);
    api_ok(acre_pool_create(devices[0], NULL, &pool));
    for (int i = 0; i < 40; i++)
        blocks[i] = devices;
    api_expect(acre_pool_alloc_many(pool, 2 * MIB, 40, NULL, blocks), ACRE_E_DEVICE_MEMORY);
    for (int i = 0; i < 40; i++)
        assert_null(blocks[i]);
    assert_int_equal(stats_of(pool).live_blocks, 0);
    api_ok(acre_pool_alloc_many(pool, 2 * MIB, 20, NULL, blocks));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

/* ---- contents ---- */

static void expect_bytes(struct things *t, const void *p, unsigned char value, size_t bytes) {
    unsigned char *found = malloc(bytes);
    assert_non_null(found);
    api_ok(acre_stream_sync(t->device, t->stream));
    api_ok(acre_copy_sync(t->device, found, p, bytes));
    assert_int_equal(found[0], value);
    assert_int_equal(memcmp(found, found + 1, bytes - 1), 0);
    free(found);
}

TEST(pool_zeroed_memory_is_zero_when_used_again) {
    for (API_EACH(name)) {
        acre_pool_options options = {.struct_size = sizeof options, .flags = ACRE_POOL_ZERO};
        for (int is_flag = 0; is_flag < 2; is_flag++) {
            struct things t = begin(name, is_flag ? &options : NULL);
            void *p = NULL, *first = NULL;
            for (int i = 0; i < 5; i++) {
                api_ok(is_flag ? acre_pool_alloc(t.pool, 5000, 0, t.stream, &p)
                               : acre_pool_alloc_zeroed(t.pool, 5000, 0, t.stream, &p));
                first = first ? first : p;
                assert_ptr_equal(p, first);
                expect_bytes(&t, p, 0, acre_pool_usable_size(t.pool, p));
                api_ok(acre_fill(t.device, p, 0x5a, acre_pool_usable_size(t.pool, p), t.stream));
                api_ok(acre_pool_free(t.pool, p, t.stream));
            }
            void *many[4];
            api_ok(acre_pool_alloc_many(t.pool, 5000, 4, t.stream, many));
            if (is_flag)
                expect_bytes(&t, many[0], 0, 5000);
            end(&t);
        }
    }
}

TEST(pool_realloc_keeps_the_contents) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p = NULL, *q = NULL;
        api_ok(acre_pool_realloc(t.pool, NULL, 1000, t.stream, &p));
        assert_int_equal(acre_pool_usable_size(t.pool, p), 1024);
        api_ok(acre_fill(t.device, p, 7, 1000, t.stream));
        api_ok(acre_pool_realloc(t.pool, p, 1024, t.stream, &q));
        assert_ptr_equal(q, p);
        api_ok(acre_pool_realloc(t.pool, p, 3 * MIB, t.stream, &q));
        assert_ptr_not_equal(q, p);
        assert_int_equal(acre_pool_owns(t.pool, p), 0);
        expect_bytes(&t, q, 7, 1000);
        api_ok(acre_pool_realloc(t.pool, q, 500, t.stream, &p));
        expect_bytes(&t, p, 7, 500);
        assert_int_equal(stats_of(t.pool).live_blocks, 1);
        q = &t;
        api_expect(acre_pool_realloc(t.pool, p, SIZE_MAX, t.stream, &q), ACRE_E_DEVICE_MEMORY);
        assert_null(q);
        api_expect(acre_pool_realloc(t.pool, (char *)p + 1, 500, t.stream, &q), ACRE_E_INTERIOR);
        api_expect(acre_pool_realloc(t.pool, &t, 500, t.stream, &q), ACRE_E_POINTER);
        api_expect(acre_pool_realloc(t.pool, p, 500, t.stream, NULL), ACRE_E_NULL);
        expect_bytes(&t, p, 7, 500);
        q = &t;
        api_ok(acre_pool_realloc(t.pool, p, 0, t.stream, &q)); /* frees it */
        assert_null(q);
        assert_int_equal(stats_of(t.pool).live_blocks, 0);
        api_expect(acre_pool_realloc(t.pool, p, 500, t.stream, &q), ACRE_E_POINTER);
        end(&t);
    }
}

/* Large blocks shrink and grow in place, or move if the memory behind them is taken. The contents
 * stay, in stream order. */
TEST(pool_realloc_of_large_blocks_keeps_the_contents) {
    const size_t sizes[] = {40, 30, 60, 61, 100, 99, 150, 3, 70};
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p = alloc(&t, 50 * MIB), *blockers[9], *q;
        size_t has = 50 * MIB;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            size_t bytes = sizes[i] * MIB + 256 * i, both = bytes < has ? bytes : has;
            api_ok(acre_fill(t.device, p, (uint8_t)(i + 1), has, t.stream));
            blockers[i] = i % 2 ? alloc(&t, 2 * MIB) : NULL; /* takes the memory behind the block */
            api_ok(acre_pool_realloc(t.pool, p, bytes, t.stream, &q));
            expect_bytes(&t, q, (unsigned char)(i + 1), 256);
            expect_bytes(&t, (char *)q + both - 256, (unsigned char)(i + 1), 256);
            assert_true(acre_pool_usable_size(t.pool, q) >= bytes);
            assert_int_equal(acre_pool_owns(t.pool, (char *)q + bytes - 1), 1);
            p = q;
            has = bytes;
        }
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            if (blockers[i])
                api_ok(acre_pool_free(t.pool, blockers[i], t.stream));
        api_ok(acre_pool_free(t.pool, p, t.stream));
        assert_int_equal(stats_of(t.pool).live_blocks, 0);
        api_ok(acre_device_sync(t.device));
        api_ok(acre_pool_trim(t.pool, 0));
        assert_int_equal(stats_of(t.pool).held_bytes, 0);
        end(&t);
    }
}

/* ---- kinds ---- */

TEST(pool_of_each_kind_hands_out_that_kind) {
    for (API_EACH(name)) {
        for (int kind = ACRE_KIND_DEVICE; kind <= ACRE_KIND_MANAGED; kind++) {
            acre_pool_options options = {.struct_size = sizeof options, .kind = (acre_kind)kind};
            struct things t = begin(name, &options);
            acre_mem_info info = {.struct_size = sizeof info};
            char *p = alloc(&t, 3 * MIB), *q = alloc(&t, 10);
            api_ok(acre_mem_query(t.device, p + 5, &info));
            assert_int_equal(info.kind, kind);
            api_ok(acre_fill(t.device, p, 9, 3 * MIB, t.stream));
            api_ok(acre_copy(t.device, q, p, 10, t.stream));
            expect_bytes(&t, q, 9, 10);
            if (kind != ACRE_KIND_DEVICE)
                assert_int_equal(p[3 * MIB - 1], 9);
            api_ok(acre_pool_free(t.pool, p, t.stream));
            api_ok(acre_pool_free(t.pool, q, t.stream));
            api_ok(acre_device_sync(t.device));
            api_ok(acre_pool_trim(t.pool, 0));
            assert_int_equal(stats_of(t.pool).held_bytes, 0);
            end(&t);
        }
    }
}

TEST(pool_default_is_one_for_each_kind_and_ends_with_its_device) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_pool *pools[5], *again;
        void *p;
        for (int kind = ACRE_KIND_DEVICE; kind <= ACRE_KIND_MANAGED; kind++) {
            api_ok(acre_pool_default(device, (acre_kind)kind, &pools[kind]));
            api_ok(acre_pool_default(device, (acre_kind)kind, &again));
            assert_ptr_equal(again, pools[kind]);
            api_expect(acre_pool_destroy(again, NULL, NULL), ACRE_E_BUSY);
            for (int other = ACRE_KIND_DEVICE; other < kind; other++)
                assert_ptr_not_equal(pools[kind], pools[other]);
        }
        api_ok(acre_alloc(device, 100, NULL, &p));
        assert_int_equal(acre_pool_owns(pools[ACRE_KIND_DEVICE], p), 1);
        api_ok(acre_free(p, NULL));
        api_ok(acre_pool_alloc(pools[ACRE_KIND_PINNED], 100, 0, NULL, &p));
        memset(p, 1, 100);
        api_ok(acre_free(p, NULL));
        api_ok(acre_close(device));
        api_expect(acre_pool_alloc(pools[ACRE_KIND_DEVICE], 100, 0, NULL, &p), ACRE_E_HANDLE);
        api_expect(acre_alloc(device, 100, NULL, &p), ACRE_E_HANDLE);
        assert_null(p);
    }
}

/* ---- reserve and trim ---- */

TEST(pool_reserve_and_trim_keep_to_their_bytes) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        api_ok(acre_pool_reserve(t.pool, 20 * MIB));
        acre_pool_stats stats = stats_of(t.pool);
        assert_in_range(stats.held_bytes, 20 * MIB, 22 * MIB);
        api_ok(acre_pool_reserve(t.pool, 10 * MIB));
        assert_int_equal(stats_of(t.pool).held_bytes, stats.held_bytes);
        uint64_t created = api_stats(t.device).chunks_created;
        void *p = alloc(&t, 64 * KIB);
        assert_int_equal(api_stats(t.device).chunks_created, created);
        api_ok(acre_pool_trim(t.pool, 0));
        assert_int_equal(stats_of(t.pool).held_bytes, stats.held_bytes); /* it is one chunk */
        api_ok(acre_pool_free(t.pool, p, t.stream));
        api_ok(acre_device_sync(t.device));
        api_ok(acre_pool_trim(t.pool, 20 * MIB));
        assert_int_equal(stats_of(t.pool).held_bytes, stats.held_bytes);
        api_ok(acre_pool_trim(t.pool, 1));
        assert_true(stats_of(t.pool).held_bytes >= 1);
        api_ok(acre_pool_trim(t.pool, 0));
        assert_int_equal(stats_of(t.pool).held_bytes, 0);
        api_ok(acre_trim(t.device));
        assert_int_equal(api_stats(t.device).chunks, 0);
        api_expect(acre_pool_reserve(NULL, 1), ACRE_E_NULL);
        api_expect(acre_pool_trim(NULL, 1), ACRE_E_NULL);
        end(&t);
    }
}

TEST(pool_reserve_that_fails_takes_nothing) {
    acre_device *devices[2];
    acre_pool *pool;
    api_open_two(devices);
    api_ok(acre_pool_create(devices[0], NULL, &pool));
    api_ok(acre_pool_reserve(pool, 4 * MIB));
    api_expect(acre_pool_reserve(pool, 200 * MIB), ACRE_E_DEVICE_MEMORY);
    assert_int_equal(stats_of(pool).held_bytes, 4 * MIB);
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

TEST(pool_trim_of_the_device_trims_its_pools) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        api_ok(acre_pool_free(t.pool, alloc(&t, 5 * MIB), t.stream));
        api_ok(acre_device_sync(t.device));
        api_ok(acre_trim(t.device));
        assert_int_equal(stats_of(t.pool).held_bytes, 0);
        assert_int_equal(api_stats(t.device).chunks, 0);
        end(&t);
    }
}

/* ---- streams ---- */

TEST(pool_uses_of_other_streams_are_waited_for) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        acre_event event;
        void *p = alloc(&t, 4096);
        api_ok(acre_event_create(t.device, 0, &event));
        api_ok(acre_pool_record_use(t.pool, p, t.other));
        api_ok(acre_pool_record_use(t.pool, p, t.other));
        api_ok(acre_pool_free(t.pool, p, t.stream));
        api_expect(acre_pool_record_use(t.pool, p, t.other), ACRE_E_POINTER);
        api_expect(acre_pool_free(t.pool, p, t.stream), ACRE_E_POINTER);
        p = alloc(&t, 4096);
        api_expect(acre_pool_record_use(t.pool, (char *)p + 1, t.other), ACRE_E_INTERIOR);
        api_expect(acre_pool_record_use(NULL, p, t.other), ACRE_E_NULL);
        api_expect(acre_pool_free_after(t.pool, p, NULL), ACRE_E_NULL);
        api_expect(acre_pool_free_after(t.pool, (char *)p + 1, event), ACRE_E_INTERIOR);
        api_ok(acre_pool_free_after(t.pool, NULL, event));
        api_ok(acre_event_record(t.device, event, t.stream));
        api_ok(acre_pool_free_after(t.pool, p, event));
        api_expect(acre_pool_free_after(t.pool, p, event), ACRE_E_POINTER);
        assert_int_equal(stats_of(t.pool).live_blocks, 0);
        api_ok(acre_device_sync(t.device));
        api_ok(acre_pool_trim(t.pool, 0));
        assert_int_equal(stats_of(t.pool).held_bytes, 0);
        api_ok(acre_event_destroy(t.device, event));
        end(&t);
    }
}

TEST(pool_memory_of_a_stream_that_ended_goes_to_others) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        for (int i = 0; i < 20; i++) {
            acre_stream brief;
            void *p;
            api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &brief));
            api_ok(acre_pool_alloc(t.pool, 6 * MIB, 0, brief, &p));
            api_ok(acre_fill(t.device, p, 1, 6 * MIB, brief));
            api_ok(acre_pool_free(t.pool, p, brief));
            if (i % 2)
                api_ok(acre_stream_retire(t.device, brief));
            api_ok(acre_stream_destroy(t.device, brief));
            api_ok(acre_device_sync(t.device));
        }
        assert_in_range(stats_of(t.pool).held_bytes, 6 * MIB, 12 * MIB);
        end(&t);
    }
}

/* ---- walk and destroy ---- */

struct walk {
    size_t count, bytes, most;
};

static int walk_block(void *user, void *p, size_t bytes) {
    struct walk *walk = user;
    assert_non_null(p);
    walk->count++;
    walk->bytes += bytes;
    return walk->count == walk->most;
}

TEST(pool_walk_and_leak_list_have_what_is_handed_out) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        struct walk walk = {0}, first = {.most = 1};
        uint64_t leaked_blocks = 99, leaked_bytes = 99;
        void *p = alloc(&t, 256), *q = alloc(&t, 4096);
        (void)alloc(&t, 3 * MIB);
        (void)q;
        api_ok(acre_pool_free(t.pool, p, t.stream));
        api_ok(acre_pool_walk(t.pool, walk_block, &walk));
        assert_int_equal(walk.count, 2);
        assert_int_equal(walk.bytes, stats_of(t.pool).live_bytes);
        api_expect(acre_pool_walk(t.pool, NULL, NULL), ACRE_E_NULL);
        api_expect(acre_pool_walk(NULL, walk_block, &walk), ACRE_E_NULL);
        api_ok(acre_pool_walk(t.pool, walk_block, &first));
        assert_int_equal(first.count, 1);
        api_ok(acre_pool_destroy(t.pool, &leaked_blocks, &leaked_bytes));
        assert_int_equal(leaked_blocks, 2);
        assert_int_equal(leaked_bytes, walk.bytes);
        api_expect(acre_pool_destroy(t.pool, NULL, NULL), ACRE_E_HANDLE);
        api_expect(acre_pool_free(t.pool, q, t.stream), ACRE_E_HANDLE);
        api_expect(acre_free(q, t.stream), ACRE_E_POINTER);
        api_expect(acre_pool_alloc(t.pool, 1, 0, t.stream, &p), ACRE_E_HANDLE);
        assert_int_equal(acre_pool_owns(t.pool, q), 0);
        acre_pool_stats stats = {.struct_size = sizeof stats};
        api_expect(acre_pool_get_stats(t.pool, &stats), ACRE_E_HANDLE);
        api_expect(acre_pool_get_stats(NULL, &stats), ACRE_E_NULL);
        acre_pool_info info = {.struct_size = sizeof info};
        api_expect(acre_pool_get_info(t.pool, &info), ACRE_E_HANDLE);
        api_expect(acre_pool_get_info(NULL, &info), ACRE_E_NULL);
        api_ok(acre_pool_destroy(NULL, NULL, NULL));
        api_ok(acre_trim(t.device));
        assert_int_equal(api_stats(t.device).chunks, 0);
        api_ok(acre_close(t.device));
    }
}

static char log_line[256];

static void log_keep(void *user, acre_log_level level, const char *area, const char *line) {
    (void)user;
    if (level == ACRE_LOG_WARN && strcmp(area, "pool") == 0)
        snprintf(log_line, sizeof log_line, "%s", line);
}

TEST(pool_of_a_closed_device_ends_with_a_line_about_what_is_left) {
    for (API_EACH(name)) {
        for (int kind = ACRE_KIND_DEVICE; kind <= ACRE_KIND_MANAGED; kind++) {
            acre_device *device = api_open(name);
            acre_pool_options options = {.struct_size = sizeof options, .kind = (acre_kind)kind};
            acre_pool *pool;
            void *p, *q;
            api_ok(acre_pool_create(device, &options, &pool));
            api_ok(acre_pool_alloc(pool, 256, 0, NULL, &p));
            api_ok(acre_pool_alloc(pool, 512, 0, NULL, &q));
            log_line[0] = '\0';
            api_ok(acre_log_set(log_keep, NULL, ACRE_LOG_WARN));
            api_ok(acre_close(device));
            api_ok(acre_log_set(NULL, NULL, ACRE_LOG_WARN));
            assert_non_null(strstr(log_line, "2 blocks"));
            assert_non_null(strstr(log_line, "768 bytes"));
            api_expect(acre_free(p, NULL), ACRE_E_POINTER);
            api_expect(acre_pool_free(pool, q, NULL), ACRE_E_HANDLE);
        }
    }
}

/* ---- other processes ---- */

/* In a started program with ACRE_VMM=off: the pool takes blocks of the driver instead of chunks. */
static int without_vmm(void) {
    acre_device *device;
    acre_pool *pool;
    void *p, *far, *many[50];
    acre_device_stats totals = {.struct_size = sizeof totals};
    acre_pool_stats stats = {.struct_size = sizeof stats};
    api_must(acre_open("soft", NULL, &device) == ACRE_OK);
    api_must(acre_pool_create(device, NULL, &pool) == ACRE_OK);
    api_must(acre_pool_alloc(pool, 3 * MIB, 0, NULL, &p) == ACRE_OK);
    api_must(acre_pool_alloc(pool, 1, 16 * MIB, NULL, &far) == ACRE_OK);
    api_must((uintptr_t)far % (16 * MIB) == 0 && (uintptr_t)p % 256 == 0);
    api_must(acre_device_get_stats(device, &totals) == ACRE_OK && totals.chunks == 0);
    api_must(acre_fill(device, p, 3, 3 * MIB, NULL) == ACRE_OK);
    api_must(acre_pool_alloc_many(pool, 70000, 50, NULL, many) == ACRE_OK);
    api_must(acre_mem_free(device, many[0]) != ACRE_OK);
    api_must(acre_pool_free_many(pool, many, 50, NULL, NULL) == ACRE_OK);
    api_must(acre_free(p, NULL) == ACRE_OK && acre_free(far, NULL) == ACRE_OK);
    api_must(acre_device_sync(device) == ACRE_OK);
    api_must(acre_pool_trim(pool, 0) == ACRE_OK);
    api_must(acre_pool_get_stats(pool, &stats) == ACRE_OK && stats.held_bytes == 0);
    api_must(acre_pool_alloc(pool, 100, 0, NULL, &p) == ACRE_OK);
    api_must(acre_close(device) == ACRE_OK); /* with a live block */
    return 0;
}

TEST(pool_without_memory_by_hand_works_alike) {
    api_started_ok("without-vmm", "ACRE_VMM=off");
}

TEST(pool_get_info_every_kind_says_device_kind_and_flags) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        for (unsigned kind = ACRE_KIND_DEVICE; kind <= ACRE_KIND_MANAGED; kind++) {
            acre_pool_info info = {.struct_size = sizeof info};
            acre_pool_options options = {
                .struct_size = sizeof options, .kind = (acre_kind)kind, .flags = ACRE_POOL_ZERO};
            acre_pool *pool = NULL;
            api_ok(acre_pool_create(device, &options, &pool));
            api_ok(acre_pool_get_info(pool, &info));
            assert_ptr_equal(info.device, device);
            assert_int_equal(info.kind, kind);
            assert_int_equal(info.flags, ACRE_POOL_ZERO);
            assert_int_equal(info.is_default, 0);
            api_ok(acre_pool_destroy(pool, NULL, NULL));
            api_ok(acre_pool_default(device, (acre_kind)kind, &pool));
            api_ok(acre_pool_get_info(pool, &info));
            assert_int_equal(info.kind, kind);
            assert_int_equal(info.flags, 0);
            assert_int_equal(info.is_default, 1);
            info.struct_size = 1;
            api_expect(acre_pool_get_info(pool, &info), ACRE_E_OPTIONS);
            api_expect(acre_pool_get_info(pool, NULL), ACRE_E_NULL);
        }
        api_ok(acre_close(device));
    }
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "without-vmm") == 0)
        return without_vmm();
    return tests_run("pool");
}
