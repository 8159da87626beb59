/* How much memory a pool holds while little of it is in use, on every driver: many idle threads and
 * streams, streams that share the cache limit, sizes that drift, and few survivors among many small
 * blocks. */
#include <pthread.h>

#include "api_pool.h"
#include "support/random.h"

/* ---- idle threads and streams ---- */

enum { IDLE_THREADS = 64, IDLE_STREAMS = 16 };

struct idle {
    struct things *t;
    acre_stream *streams;
    pthread_barrier_t done, end;
};

/* Allocates and frees once for each stream and size, then idles. */
static void *idle_run(void *user) {
    struct idle *idle = user;
    for (int i = 0; i < IDLE_STREAMS; i++) {
        for (size_t bytes = 64 * KIB; bytes <= MIB; bytes += bytes / 8) {
            void *p;
            assert_int_equal(acre_pool_alloc(idle->t->pool, bytes, 0, idle->streams[i], &p),
                             ACRE_OK);
            assert_int_equal(acre_pool_free(idle->t->pool, p, idle->streams[i]), ACRE_OK);
        }
    }
    pthread_barrier_wait(&idle->done);
    pthread_barrier_wait(&idle->end);
    return NULL;
}

TEST(pool_idle_threads_and_streams_hold_little) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        acre_stream streams[IDLE_STREAMS];
        pthread_t threads[IDLE_THREADS];
        struct idle idle = {.t = &t, .streams = streams};
        pthread_barrier_init(&idle.done, NULL, IDLE_THREADS + 1);
        pthread_barrier_init(&idle.end, NULL, IDLE_THREADS + 1);
        for (int i = 0; i < IDLE_STREAMS; i++)
            api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &streams[i]));
        for (int i = 0; i < IDLE_THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, idle_run, &idle), 0);
        pthread_barrier_wait(&idle.done);
        acre_pool_stats stats = stats_of(t.pool);
        assert_int_equal(stats.live_bytes, 0);
        assert_in_range(stats.used_bytes, 0, 64 * MIB); /* in thread caches */
        assert_in_range(stats.held_bytes, 0, 256 * MIB);
        pthread_barrier_wait(&idle.end);
        for (int i = 0; i < IDLE_THREADS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < IDLE_STREAMS; i++)
            api_ok(acre_stream_destroy(t.device, streams[i]));
        pthread_barrier_destroy(&idle.done);
        pthread_barrier_destroy(&idle.end);
        end(&t);
    }
}

/* ---- streams with equal demand ---- */

enum { EVEN_STREAMS = 16, EVEN_BLOCKS = 128 };

/* Uses the streams in turn, so that none is idle. */
static void even_pass(struct things *t, const acre_stream *streams) {
    static void *p[EVEN_BLOCKS * EVEN_STREAMS];
    for (int i = 0; i < EVEN_BLOCKS * EVEN_STREAMS; i++)
        api_ok(acre_pool_alloc(t->pool, 64 * KIB, 0, streams[i % EVEN_STREAMS], &p[i]));
    for (int i = 0; i < EVEN_BLOCKS * EVEN_STREAMS; i++)
        api_ok(acre_pool_free(t->pool, p[i], streams[i % EVEN_STREAMS]));
}

/* The streams together want more than the cache limit. Each must keep some blocks, since a stream
 * without any makes a slow call for each block. */
TEST(pool_streams_share_what_caches_may_hold) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        acre_stream streams[EVEN_STREAMS];
        for (int i = 0; i < EVEN_STREAMS; i++)
            api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &streams[i]));
        for (int pass = 0; pass < 8; pass++)
            even_pass(&t, streams);
        uint64_t before = stats_of(t.pool).refills;
        even_pass(&t, streams);
        assert_in_range(stats_of(t.pool).refills - before, 0, EVEN_STREAMS * EVEN_BLOCKS / 16);
        for (int i = 0; i < EVEN_STREAMS; i++)
            api_ok(acre_stream_destroy(t.device, streams[i]));
        end(&t);
    }
}

/* ---- sizes that drift ---- */

TEST(pool_sizes_that_drift_use_the_memory_of_earlier_ones) {
    enum { LIVE = 512 << 20 };
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        void **blocks = calloc(LIVE / (4 * KIB), sizeof *blocks);
        assert_non_null(blocks);
        for (size_t bytes = 8 * KIB; bytes <= 2 * MIB; bytes += bytes / 9) {
            size_t count = LIVE / bytes;
            for (size_t i = 0; i < count; i++)
                blocks[i] = alloc(&t, bytes);
            for (size_t i = 0; i < count; i++)
                api_ok(acre_pool_free(t.pool, blocks[i], t.stream));
            api_ok(acre_stream_sync(t.device, t.stream));
        }
        assert_in_range(stats_of(t.pool).held_peak_bytes, 0, 640 * MIB);
        free(blocks);
        end(&t);
    }
}

/* ---- survivors ---- */

TEST(pool_survivors_move_together) {
    enum { BLOCKS = 200000, SURVIVORS = BLOCKS / 50, TURNOVERS = 80 };
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        uint64_t seed = 1;
        void **blocks = calloc(BLOCKS, sizeof *blocks);
        assert_non_null(blocks);
        for (size_t i = 0; i < BLOCKS; i++)
            blocks[i] = alloc(&t, 4 * KIB);
        for (size_t left = BLOCKS; left > SURVIVORS; left--) {
            size_t at = random_next(&seed) % left;
            api_ok(acre_pool_free(t.pool, blocks[at], t.stream));
            blocks[at] = blocks[left - 1];
        }
        for (int turn = 0; turn < TURNOVERS; turn++) {
            api_ok(acre_stream_sync(t.device, t.stream));
            api_ok(acre_pool_trim(t.pool, 0));
            for (size_t left = SURVIVORS; left > SURVIVORS / 2; left--) {
                size_t at = random_next(&seed) % left;
                void *p = blocks[at];
                blocks[at] = blocks[left - 1];
                blocks[left - 1] = p;
                api_ok(acre_pool_free(t.pool, p, t.stream));
            }
            for (size_t i = SURVIVORS / 2; i < SURVIVORS; i++)
                blocks[i] = alloc(&t, 4 * KIB);
        }
        api_ok(acre_pool_trim(t.pool, 0));
        assert_in_range(stats_of(t.pool).held_bytes, 0, 2 * (uint64_t)SURVIVORS * 4 * KIB);
        free(blocks);
        end(&t);
    }
}

int main(void) {
    return tests_run("pool_idle");
}
