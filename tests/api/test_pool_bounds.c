/* A pool holds little more memory than is in use, also with several streams. A block keeps its
 * contents while other streams use it. */
#include "api_pool.h"
#include "support/rounds.h"

enum { BLOCKS = 16, CALLS = ROUNDS(4000, 700) };

static uint32_t draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Frees and allocates blocks of 1 to 5 MiB, or resizes them, each time on another stream; events
 * order the streams. Returns the high-water mark of requested bytes. */
static size_t play(struct things *t, int resize, int sync_every) {
    acre_stream streams[3] = {t->stream, t->other, NULL};
    acre_event events[BLOCKS];
    void *blocks[BLOCKS] = {0};
    size_t bytes[BLOCKS] = {0}, live = 0, most = 0;
    uint32_t state = 1;
    for (int i = 0; i < BLOCKS; i++)
        api_ok(acre_event_create(t->device, 0, &events[i]));
    for (int i = 1; i <= CALLS; i++) {
        uint32_t k = draw(&state) % BLOCKS;
        acre_stream stream = streams[draw(&state) % 3];
        size_t want = 1200000 + draw(&state) % 4000000;
        if (i % sync_every == 0)
            api_ok(acre_device_sync(t->device));
        if (blocks[k])
            api_ok(acre_stream_wait(t->device, stream, events[k]));
        if (blocks[k] && !resize)
            api_ok(acre_pool_free(t->pool, blocks[k], stream));
        if (blocks[k] && resize)
            api_ok(acre_pool_realloc(t->pool, blocks[k], want, stream, &blocks[k]));
        else
            api_ok(acre_pool_alloc(t->pool, want, 0, stream, &blocks[k]));
        api_ok(acre_fill(t->device, blocks[k], 1, 256, stream));
        api_ok(acre_event_record(t->device, events[k], stream));
        live += want - bytes[k];
        bytes[k] = want;
        most = live > most ? live : most;
    }
    api_ok(acre_device_sync(t->device));
    for (int i = 0; i < BLOCKS; i++) {
        api_ok(acre_pool_free(t->pool, blocks[i], t->stream));
        api_ok(acre_event_destroy(t->device, events[i]));
    }
    return most;
}

TEST(pool_on_several_streams_stays_small) {
    for (API_EACH(name)) {
        for (int i = 0; i < 4; i++) {
            struct things t = begin(name, NULL);
            size_t most = play(&t, i % 2, i < 2 ? 64 : CALLS);
            assert_in_range(stats_of(t.pool).held_bytes, most / 2, 4 * most);
            end(&t);
        }
    }
}

TEST(pool_memory_ahead_is_not_one_stream_s) {
    for (API_EACH(name)) {
        acre_pool_options options = {.struct_size = sizeof options, .initial_bytes = 300 * MIB};
        struct things t = begin(name, &options);
        void *p = alloc(&t, 80 * MIB), *q;
        api_ok(acre_fill(t.device, p, 1, 80 * MIB, t.stream));
        api_ok(acre_pool_free(t.pool, p, t.stream));
        uint64_t creates = api_stats(t.device).driver_creates;
        api_ok(acre_pool_alloc(t.pool, 80 * MIB, 0, t.other, &q));
        assert_int_equal(api_stats(t.device).driver_creates, creates);
        end(&t);
    }
}

/* A block shrinks while another stream reads it: the bytes cut off must not be overwritten before
 * that read. */
TEST(pool_realloc_keeps_what_other_streams_use) {
    enum { LARGE = 8 };
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *slow, *copy, *p, *q, *n;
        /* A GPU fills in a millisecond as much as the soft device in a second. */
        size_t slow_bytes = strcmp(name, "soft") == 0 ? 32 * MIB : 256 * MIB;
        unsigned char *host = malloc(LARGE * MIB);
        assert_non_null(host);
        api_ok(acre_mem_alloc(t.device, ACRE_KIND_DEVICE, slow_bytes, 0, &slow));
        api_ok(acre_mem_alloc(t.device, ACRE_KIND_DEVICE, LARGE * MIB, 0, &copy));
        p = alloc(&t, LARGE * MIB);
        api_ok(acre_fill(t.device, p, 0x11, LARGE * MIB, t.stream));
        api_ok(acre_stream_sync(t.device, t.stream));
        for (uint8_t i = 0; i < 4; i++)
            api_ok(acre_fill(t.device, slow, i, slow_bytes, t.other));
        api_ok(acre_copy(t.device, copy, p, LARGE * MIB, t.other));
        api_ok(acre_pool_record_use(t.pool, p, t.other));
        api_ok(acre_pool_realloc(t.pool, p, 2 * MIB, t.stream, &n));
        q = alloc(&t, 6 * MIB);
        api_ok(acre_fill(t.device, q, 0x22, 6 * MIB, t.stream));
        api_ok(acre_device_sync(t.device));
        api_ok(acre_copy_sync(t.device, host, copy, LARGE * MIB));
        for (size_t i = 0; i < LARGE * MIB; i++)
            if (host[i] != 0x11)
                fail_msg("byte %zu that another stream read is %u, expected 17", i, host[i]);
        free(host);
        api_ok(acre_mem_free(t.device, slow));
        api_ok(acre_mem_free(t.device, copy));
        end(&t);
    }
}

TEST(pool_of_zeroed_memory_has_it_where_a_block_grew) {
    for (API_EACH(name)) {
        acre_pool_options options = {.struct_size = sizeof options, .flags = ACRE_POOL_ZERO};
        struct things t = begin(name, &options);
        void *p = alloc(&t, 2 * MIB), *behind = alloc(&t, 66 * MIB), *n;
        unsigned char byte = 1;
        api_ok(acre_fill(t.device, behind, 0x77, 66 * MIB, t.stream));
        api_ok(acre_pool_free(t.pool, behind, t.stream));
        api_ok(acre_pool_realloc(t.pool, p, 4 * MIB, t.stream, &n));
        api_ok(acre_stream_sync(t.device, t.stream));
        api_ok(acre_copy_sync(t.device, &byte, (char *)n + 3 * MIB, 1));
        assert_int_equal(byte, 0);
        /* A NULL pool is refused although the thread has a lane. */
        api_expect(acre_pool_alloc(NULL, 100, 0, t.stream, &n), ACRE_E_NULL);
        end(&t);
    }
}

/* Memory added in advance serves large blocks, also once each large block has separate chunks. */
TEST(pool_memory_ahead_serves_blocks_that_are_apart) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void *p[40];
        for (int i = 0; i < 40; i++)
            p[i] = alloc(&t, 10 * MIB);
        for (int i = 0; i < 40; i += 2)
            api_ok(acre_pool_free(t.pool, p[i], t.stream));
        for (int i = 0; i < 3; i++)
            (void)alloc(&t, 70 * MIB);
        api_ok(acre_device_sync(t.device));
        api_ok(acre_pool_reserve(t.pool, stats_of(t.pool).held_bytes + 300 * MIB));
        uint64_t creates = api_stats(t.device).driver_creates;
        (void)alloc(&t, 100 * MIB);
        (void)alloc(&t, 100 * MIB);
        assert_int_equal(api_stats(t.device).driver_creates, creates);
        end(&t);
    }
}

/* At the limit of chunks the pool gathers its own free memory, and releases nothing. */
TEST(pool_gathers_at_the_limit_of_chunks) {
    enum { COUNT = 24 };
    setenv("ACRE_CHUNK_LIMIT_BYTES", "300MiB", 1);
    acre_device *device = api_open("soft");
    acre_pool *pool;
    acre_pool_stats stats = {.struct_size = sizeof stats};
    void *p[COUNT], *last;
    api_ok(acre_pool_create(device, NULL, &pool));
    for (int i = 0; i < 16; i++)
        api_ok(acre_pool_alloc(pool, 8 * MIB, 0, NULL, &p[i]));
    for (int i = 0; i < 16; i++)
        api_ok(acre_pool_free(pool, p[i], NULL));
    for (int i = 0; i < COUNT; i++)
        api_ok(acre_pool_alloc(pool, 12 * MIB, 0, NULL, &p[i]));
    for (int i = 0; i < COUNT; i += 2)
        api_ok(acre_pool_free(pool, p[i], NULL));
    api_ok(acre_pool_get_stats(pool, &stats));
    uint64_t held = stats.held_bytes;
    api_ok(acre_pool_alloc(pool, 20 * MIB, 0, NULL, &last));
    api_ok(acre_pool_get_stats(pool, &stats));
    assert_true(stats.held_bytes >= held);
    assert_int_equal(stats.served_moved, 0);
    api_ok(acre_pool_free(pool, last, NULL));
    for (int i = 1; i < COUNT; i += 2)
        api_ok(acre_pool_free(pool, p[i], NULL));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    api_ok(acre_close(device));
    unsetenv("ACRE_CHUNK_LIMIT_BYTES");
}

int main(void) {
    return tests_run("pool_bounds");
}
