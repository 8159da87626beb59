/* Pools with ACRE_POOL_DEBUG: the misuse that they find, and no false report for correct use. */
#include "api_pool.h"

static acre_pool *debug_pool(acre_device *device, uint32_t more_flags) {
    acre_pool *pool;
    acre_pool_options options = {.struct_size = sizeof options,
                                 .flags = ACRE_POOL_DEBUG | more_flags};
    api_ok(acre_pool_create(device, &options, &pool));
    return pool;
}

/* A pool of memory that the host can write to: acre_fill would refuse what these tests write. */
static acre_pool *host_pool(acre_device *device) {
    acre_pool *pool;
    acre_pool_options options = {
        .struct_size = sizeof options, .kind = ACRE_KIND_PINNED, .flags = ACRE_POOL_DEBUG};
    api_ok(acre_pool_create(device, &options, &pool));
    return pool;
}

static struct {
    int count;
    char line[256];
} heard;

static void hear(void *user, acre_log_level level, const char *area, const char *line) {
    (void)user;
    if (level == ACRE_LOG_ERROR && strcmp(area, "pool") == 0) {
        heard.count++;
        snprintf(heard.line, sizeof heard.line, "%s", line);
    }
}

API_TEST(debug_write_past_the_end_is_found_when_the_block_is_freed) {
    acre_pool *pool = host_pool(device);
    acre_stream stream;
    void *p;
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
    heard.count = 0;
    api_ok(acre_log_set(hear, NULL, ACRE_LOG_ERROR));
    for (size_t behind = 0; behind < 256; behind += 85) {
        api_ok(acre_pool_alloc(pool, 1000, 0, stream, &p));
        api_ok(acre_stream_sync(device, stream)); /* the red zone is filled in stream order */
        ((char *)p)[1000 + behind] = 1;
        api_ok(acre_pool_free(pool, p, stream));
    }
    assert_int_equal(stats_of(pool).overruns, 4);
    assert_int_equal(heard.count, 4);
    assert_non_null(strstr(heard.line, "at byte 1255, past its end"));
    api_ok(acre_log_set(NULL, NULL, ACRE_LOG_ERROR));
    api_ok(acre_stream_destroy(device, stream));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
}

API_TEST(debug_write_past_the_end_is_found_when_the_stream_is_gone) {
    acre_pool *pool = host_pool(device);
    acre_stream stream;
    void *p;
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
    api_ok(acre_pool_alloc(pool, 1000, 0, stream, &p));
    api_ok(acre_stream_sync(device, stream));
    ((char *)p)[1000] = 1;
    api_ok(acre_stream_destroy(device, stream));
    api_ok(acre_pool_free(pool, p, stream));
    assert_int_equal(stats_of(pool).overruns, 1);
    api_ok(acre_pool_destroy(pool, NULL, NULL));
}

API_TEST(debug_write_after_free_is_found_when_the_block_leaves_quarantine) {
    acre_pool *pool = host_pool(device);
    void *p;
    heard.count = 0;
    api_ok(acre_log_set(hear, NULL, ACRE_LOG_ERROR));
    api_ok(acre_pool_alloc(pool, 1000, 0, NULL, &p));
    api_ok(acre_pool_free(pool, p, NULL));
    api_expect(acre_fill_sync(device, (char *)p + 17, 1, 1), ACRE_E_POINTER);
    ((char *)p)[17] = 1;
    api_ok(acre_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).late_writes, 1);
    assert_int_equal(heard.count, 1);
    assert_non_null(strstr(heard.line, "at byte 17 after it was freed"));
    api_ok(acre_log_set(NULL, NULL, ACRE_LOG_ERROR));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
}

TEST(debug_right_uses_are_not_reported) {
    uint64_t random = random_seed("right uses");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_pool *pool = debug_pool(device, 0);
        acre_stream streams[2];
        void *live[16] = {NULL};
        size_t sizes[16];
        for (int i = 0; i < 2; i++)
            api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &streams[i]));
        for (int i = 0; i < 600; i++) {
            unsigned k = (unsigned)random_draw(&random, 16);
            acre_stream stream = streams[k % 2];
            if (live[k]) {
                assert_int_equal(acre_pool_usable_size(pool, live[k]), sizes[k]);
                api_ok(acre_pool_free(pool, live[k], stream));
            }
            sizes[k] = 1 + (size_t)random_draw(&random, 100000);
            api_ok(acre_pool_alloc(pool, sizes[k], 0, stream, &live[k]));
            api_ok(acre_fill(device, live[k], (uint8_t)i, sizes[k], stream));
        }
        for (unsigned k = 0; k < 16; k++)
            if (live[k])
                api_ok(acre_pool_free(pool, live[k], streams[k % 2]));
        api_ok(acre_pool_trim(pool, 0));
        acre_pool_stats stats = stats_of(pool);
        assert_int_equal(stats.overruns + stats.late_writes + stats.live_blocks, 0);
        assert_int_equal(stats.held_bytes, 0);
        for (int i = 0; i < 2; i++)
            api_ok(acre_stream_destroy(device, streams[i]));
        api_ok(acre_pool_destroy(pool, NULL, NULL));
        api_ok(acre_close(device));
    }
}

static void expect_bytes(acre_device *device, const void *p, size_t bytes, unsigned char value) {
    unsigned char *found = malloc(bytes);
    assert_non_null(found);
    api_ok(acre_copy_sync(device, found, p, bytes));
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(found[i], value);
    free(found);
}

API_TEST(debug_blocks_are_poisoned_kept_apart_and_grow) {
    acre_pool *pool = debug_pool(device, 0), *zeroed = debug_pool(device, ACRE_POOL_ZERO);
    void *p, *q, *first;
    api_ok(acre_pool_alloc(pool, 5000, 0, NULL, &first));
    expect_bytes(device, first, 5000, 0xa5);
    api_ok(acre_pool_free(pool, first, NULL));
    api_expect(acre_pool_free(pool, first, NULL), ACRE_E_POINTER);
    for (int i = 0; i < 10; i++) { /* not reused so soon */
        api_ok(acre_pool_alloc(pool, 5000, 0, NULL, &p));
        assert_ptr_not_equal(p, first);
        api_ok(acre_pool_free(pool, p, NULL));
    }
    api_ok(acre_pool_alloc(zeroed, 5000, 0, NULL, &p));
    expect_bytes(device, p, 5000, 0);
    api_ok(acre_pool_free(zeroed, p, NULL));
    api_ok(acre_pool_alloc(pool, 300, 0, NULL, &p));
    api_ok(acre_fill_sync(device, p, 7, 300));
    api_ok(acre_pool_realloc(pool, p, 301, NULL, &q));
    expect_bytes(device, q, 300, 7);
    assert_int_equal(acre_pool_usable_size(pool, q), 301);
    api_ok(acre_pool_record_use(pool, q, NULL));
    api_ok(acre_pool_free(pool, q, NULL));
    assert_int_equal(stats_of(pool).overruns, 0);
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    api_ok(acre_pool_destroy(zeroed, NULL, NULL));
}

int main(void) {
    return tests_run("pool_debug");
}
