/* Pools through the public API: every misuse gets its own status and changes nothing. */
#include "api_pool.h"
#include "support/leave.h"

TEST(pool_refuses_bad_sizes_alignments_and_outputs) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p = &t;
        api_ok(acre_pool_alloc(t.pool, 0, 0, t.stream, &p));
        assert_null(p);
        p = &t;
        api_expect(acre_pool_alloc(t.pool, SIZE_MAX, 0, t.stream, &p), ACRE_E_DEVICE_MEMORY);
        api_expect(acre_pool_alloc(t.pool, (size_t)4096 << 30, 0, t.stream, &p),
                   ACRE_E_DEVICE_MEMORY);
        assert_null(p);
        p = &t;
        api_expect(acre_pool_alloc(t.pool, 64, 384, t.stream, &p), ACRE_E_INVALID);
        api_expect(acre_pool_alloc(t.pool, 64, 2 * GIB, t.stream, &p), ACRE_E_INVALID);
        assert_null(p);
        api_expect(acre_pool_alloc(t.pool, 64, 0, t.stream, NULL), ACRE_E_NULL);
        api_expect(acre_pool_alloc(NULL, 64, 0, t.stream, &p), ACRE_E_NULL);
        api_expect(acre_pool_alloc((acre_pool *)&t, 64, 0, t.stream, &p), ACRE_E_HANDLE);
        api_expect(acre_alloc(NULL, 64, t.stream, &p), ACRE_E_NULL);
        api_expect(acre_alloc(t.device, 64, t.stream, NULL), ACRE_E_NULL);
        api_ok(acre_alloc(t.device, 0, t.stream, &p));
        assert_int_equal(stats_of(t.pool).live_blocks, 0);
        end(&t);
    }
}

TEST(pool_refuses_wrong_frees_and_changes_nothing) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        acre_pool *second;
        void *mem = NULL;
        int local = 0;
        api_ok(acre_pool_create(t.device, NULL, &second));
        api_ok(acre_mem_alloc(t.device, ACRE_KIND_DEVICE, 4 * MIB, 0, &mem));
        char *p = alloc(&t, 1000), *gone = alloc(&t, 1000);
        api_ok(acre_pool_free(t.pool, gone, t.stream));
        acre_pool_stats before = stats_of(t.pool);
        api_expect(acre_pool_free(t.pool, gone, t.stream), ACRE_E_POINTER);
        api_expect(acre_free(gone, t.stream), ACRE_E_POINTER);
        api_expect(acre_pool_free(t.pool, gone + 1, t.stream), ACRE_E_POINTER);
        api_expect(acre_pool_free(t.pool, p + 1, t.stream), ACRE_E_INTERIOR);
        api_expect(acre_pool_free(t.pool, p + 256, t.stream), ACRE_E_INTERIOR);
        api_expect(acre_free(p + 999, t.stream), ACRE_E_INTERIOR);
        api_expect(acre_pool_free(second, p, t.stream), ACRE_E_HANDLE);
        api_expect(acre_pool_free(t.pool, mem, t.stream), ACRE_E_KIND);
        api_expect(acre_pool_free(t.pool, &local, t.stream), ACRE_E_POINTER);
        api_expect(acre_free(&local, t.stream), ACRE_E_POINTER);
        api_expect(acre_free((void *)UINTPTR_MAX, t.stream), ACRE_E_POINTER);
        api_expect(acre_free((void *)8, t.stream), ACRE_E_POINTER);
        api_expect(acre_pool_free(NULL, p, t.stream), ACRE_E_NULL);
        api_expect(acre_pool_free((acre_pool *)&local, p, t.stream), ACRE_E_HANDLE);
        acre_pool_stats after = stats_of(t.pool);
        assert_memory_equal(&before, &after, sizeof after);
        assert_int_equal(acre_pool_owns(t.pool, p), 1);
        assert_int_equal(acre_pool_owns(t.pool, gone), 0);
        assert_int_equal(acre_pool_owns(second, p), 0);
        assert_int_equal(acre_pool_owns(NULL, p), 0);
        assert_int_equal(acre_pool_usable_size(t.pool, p + 1), 0);
        assert_int_equal(acre_pool_usable_size(second, p), 0);
        api_ok(acre_pool_free(t.pool, NULL, t.stream));
        api_ok(acre_free(NULL, t.stream));
        api_ok(acre_free(p, t.stream));
        api_ok(acre_mem_free(t.device, mem));
        api_ok(acre_pool_destroy(second, NULL, NULL));
        end(&t);
    }
}

static void expect_named(acre_status status, const char *call) {
    assert_int_equal(status, ACRE_E_KIND);
    assert_non_null(strstr(acre_last_detail(), call));
}

TEST(pool_free_and_mem_free_name_each_other) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        acre_vec *vec;
        void *small = NULL, *large = NULL;
        char *first = alloc(&t, 1000), *second = alloc(&t, 1000);
        api_ok(acre_mem_alloc(t.device, ACRE_KIND_PINNED, 1000, 0, &small));
        api_ok(acre_mem_alloc(t.device, ACRE_KIND_DEVICE, 4 * MIB, 0, &large));
        api_ok(acre_vec_create(t.device, 4, NULL, &vec));
        api_ok(acre_vec_grow(vec, 100, t.stream));
        expect_named(acre_free(small, t.stream), "acre_mem_free");
        expect_named(acre_free((char *)large + MIB, t.stream), "acre_mem_free");
        expect_named(acre_pool_free(t.pool, large, t.stream), "acre_mem_free");
        expect_named(acre_free(acre_vec_data(vec), t.stream), "acre_vec_destroy");
        expect_named(acre_mem_free(t.device, first), "acre_free");
        expect_named(acre_mem_free(t.device, second + 1), "acre_free");
        api_ok(acre_mem_free(t.device, small));
        api_ok(acre_mem_free(t.device, large));
        api_expect(acre_free(small, t.stream), ACRE_E_POINTER);
        api_expect(acre_mem_free(t.device, small), ACRE_E_POINTER);
        api_ok(acre_vec_destroy(vec, t.stream));
        api_ok(acre_free(first, t.stream));
        api_ok(acre_free(second, t.stream));
        end(&t);
    }
}

/* A second free is refused, whichever list holds the free slot. */
TEST(pool_refuses_double_frees_from_every_list) {
    enum { COUNT = 300 };
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *blocks[COUNT];
        for (int i = 0; i < COUNT; i++)
            blocks[i] = alloc(&t, 512);
        for (int i = 0; i < COUNT; i++)
            api_ok(acre_pool_free(t.pool, blocks[i], t.stream)); /* some are spilled */
        for (int i = 0; i < COUNT; i++)
            api_expect(acre_pool_free(t.pool, blocks[i], t.other), ACRE_E_POINTER);
        api_ok(acre_device_sync(t.device));
        api_ok(acre_pool_trim(t.pool, UINT64_MAX));
        for (int i = 0; i < COUNT; i++)
            api_expect(acre_free(blocks[i], t.stream), ACRE_E_POINTER);
        api_ok(acre_pool_trim(t.pool, 0));
        assert_int_equal(stats_of(t.pool).held_bytes, 0);
        for (int i = 0; i < COUNT; i++)
            api_expect(acre_free(blocks[i], t.stream), ACRE_E_POINTER);
        end(&t);
    }
}

TEST(pool_blocks_are_not_for_other_calls) {
    for (API_EACH(name)) {
        acre_pool_options kinds[] = {{.struct_size = sizeof kinds[0], .kind = ACRE_KIND_DEVICE},
                                     {.struct_size = sizeof kinds[0], .kind = ACRE_KIND_PINNED}};
        for (int i = 0; i < 2; i++) {
            struct things t = begin(name, &kinds[i]);
            char *first = NULL;
            void *p = NULL, *q = NULL;
            for (int k = 0; k < 8; k++) {
                api_ok(acre_pool_alloc(t.pool, 2 * MIB, 0, t.stream, &p));
                assert_int_not_equal(acre_mem_free(t.device, p), ACRE_OK);
                assert_int_not_equal(acre_mem_realloc(t.device, p, 4 * MIB, t.stream, &q), ACRE_OK);
                first = first ? first : p;
            }
            assert_int_equal(stats_of(t.pool).live_blocks, 8);
            api_ok(acre_fill(t.device, first, 1, 2 * MIB, t.stream));
            end(&t);
        }
    }
}

TEST(pool_options_that_make_no_sense_are_refused) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_pool *pool = (acre_pool *)device;
        acre_pool_options options = {.struct_size = sizeof options, .kind = ACRE_KIND_PAGEABLE};
        api_expect(acre_pool_create(device, &options, &pool), ACRE_E_INVALID);
        assert_null(pool);
        options.kind = (acre_kind)-1;
        api_expect(acre_pool_create(device, &options, &pool), ACRE_E_INVALID);
        options.kind = ACRE_KIND_DEVICE;
        options.flags = 4;
        api_expect(acre_pool_create(device, &options, &pool), ACRE_E_OPTIONS);
        options.flags = 0;
        options.struct_size = 4;
        api_expect(acre_pool_create(device, &options, &pool), ACRE_E_OPTIONS);
        api_expect(acre_pool_create(device, NULL, NULL), ACRE_E_NULL);
        api_expect(acre_pool_create(NULL, NULL, &pool), ACRE_E_NULL);
        api_expect(acre_pool_default(device, ACRE_KIND_PAGEABLE, &pool), ACRE_E_INVALID);
        api_expect(acre_pool_default(device, (acre_kind)0, &pool), ACRE_E_INVALID);
        api_expect(acre_pool_default(device, ACRE_KIND_DEVICE, NULL), ACRE_E_NULL);
        options = (acre_pool_options){.struct_size = sizeof options, .initial_bytes = UINT64_MAX};
        if (strcmp(name, "soft") == 0) { /* a GPU may be shared: do not take all of its memory */
            api_expect(acre_pool_create(device, &options, &pool), ACRE_E_DEVICE_MEMORY);
            assert_null(pool);
            api_ok(acre_trim(device));
            assert_int_equal(api_stats(device).chunks, 0);
        }
        api_ok(acre_close(device));
    }
}

TEST(pool_refuses_streams_and_events_of_another_device) {
    acre_device *devices[2];
    acre_stream stream;
    acre_pool *pool;
    void *p, *q;
    api_open_two(devices);
    api_ok(acre_stream_create(devices[1], 0, &stream));
    api_ok(acre_pool_create(devices[0], NULL, &pool));
    api_expect(acre_pool_alloc(pool, 100, 0, stream, &p), ACRE_E_HANDLE);
    api_ok(acre_pool_alloc(pool, 100, 0, NULL, &p));
    api_expect(acre_pool_free(pool, p, stream), ACRE_E_HANDLE);
    api_expect(acre_pool_record_use(pool, p, stream), ACRE_E_HANDLE);
    api_expect(acre_pool_realloc(pool, p, 100000, stream, &q), ACRE_E_HANDLE);
    api_expect(acre_stream_retire(devices[0], stream), ACRE_E_HANDLE);
    api_ok(acre_pool_free(pool, p, NULL));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

static int ignore_block(void *user, void *p, size_t bytes) {
    (void)user;
    (void)p;
    (void)bytes;
    return 0;
}

TEST(pool_in_a_forked_child_says_so) {
    struct things t = begin("soft", NULL);
    void *p = alloc(&t, 1024), *q;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        acre_pool *pool;
        acre_pool_stats stats = {.struct_size = sizeof stats};
        acre_pool_info info = {.struct_size = sizeof info};
        int bad = acre_pool_alloc(t.pool, 1024, 0, t.stream, &q) != ACRE_E_FORKED ||
                  acre_pool_free(t.pool, p, t.stream) != ACRE_E_FORKED ||
                  acre_free(p, t.stream) != ACRE_E_FORKED ||
                  acre_alloc(t.device, 64, t.stream, &q) != ACRE_E_FORKED ||
                  acre_pool_alloc_many(t.pool, 8, 1, t.stream, &q) != ACRE_E_FORKED ||
                  acre_pool_free_many(t.pool, &p, 1, t.stream, NULL) != ACRE_E_FORKED ||
                  acre_pool_realloc(t.pool, p, 9999, t.stream, &q) != ACRE_E_FORKED ||
                  acre_pool_record_use(t.pool, p, t.stream) != ACRE_E_FORKED ||
                  acre_pool_default(t.device, ACRE_KIND_DEVICE, &pool) != ACRE_E_FORKED ||
                  acre_pool_create(t.device, NULL, &pool) != ACRE_E_FORKED ||
                  acre_pool_trim(t.pool, 0) != ACRE_E_FORKED ||
                  acre_pool_reserve(t.pool, 1) != ACRE_E_FORKED ||
                  acre_pool_walk(t.pool, ignore_block, NULL) != ACRE_E_FORKED ||
                  acre_pool_get_stats(t.pool, &stats) != ACRE_E_FORKED ||
                  acre_pool_get_info(t.pool, &info) != ACRE_E_FORKED ||
                  acre_stream_retire(t.device, t.stream) != ACRE_E_FORKED ||
                  acre_pool_destroy(t.pool, NULL, NULL) != ACRE_E_FORKED ||
                  acre_pool_owns(t.pool, p) || acre_pool_usable_size(t.pool, p);
        leave(bad);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    api_ok(acre_pool_free(t.pool, p, t.stream));
    end(&t);
}

/* A block that outlives its pool, at an address that the next pool gives to a block of its own. */
API_TEST(misuse_of_a_destroyed_pool_does_not_reach_the_next_one) {
    acre_pool *old, *pool;
    void *p, *q;
    for (int i = 0; i < 5; i++) {
        api_ok(acre_pool_create(device, NULL, &old));
        api_ok(acre_pool_alloc(old, 1000, 0, NULL, &p));
        api_ok(acre_pool_destroy(old, NULL, NULL));
        api_ok(acre_pool_create(device, NULL, &pool));
        assert_ptr_not_equal(pool, old);
        api_ok(acre_pool_alloc(pool, 1000, 0, NULL, &q));
        api_expect(acre_pool_free(old, p, NULL), ACRE_E_HANDLE);
        assert_int_equal(stats_of(pool).live_blocks, 1);
        api_ok(acre_pool_free(pool, q, NULL));
        api_ok(acre_pool_destroy(pool, NULL, NULL));
    }
}

int main(void) {
    return tests_run("pool_misuse");
}
