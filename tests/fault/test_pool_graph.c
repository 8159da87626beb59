/* Pools on captured streams, on every driver: a block allocated there belongs to the graph until
 * the block is freed and the graph destroyed. The pool never breaks a capture. */
#include "api/api_pool.h"
#include "driver/driver.h"
#include "fault_device.h"

enum { MANY = 200, GRAPHS = 16 };

struct capture {
    const char *name;
    const struct acre__driver *raw;
    struct things t;
};

static struct capture capture_open(const char *name, const acre_pool_options *options) {
    struct capture c = {.name = name, .raw = fault_raw(name)};
    c.t = begin(name, options);
    fault_push(name);
    return c;
}

static void capture_close(struct capture *c) {
    fault_pop(c->name);
    end(&c->t);
}

static void capture_begin(struct capture *c, CUstreamCaptureMode mode) {
    assert_int_equal(c->raw->cuStreamBeginCapture(c->t.stream, mode), 0);
}

static CUgraph capture_end(struct capture *c) {
    CUgraph graph = NULL;
    assert_int_equal(c->raw->cuStreamEndCapture(c->t.stream, &graph), 0);
    assert_non_null(graph);
    return graph;
}

static CUgraphExec make_exec(struct capture *c, CUgraph graph) {
    CUgraphExec exec = NULL;
    assert_int_equal(c->raw->cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    return exec;
}

static void graph_destroy(struct capture *c, CUgraph graph) {
    assert_int_equal(c->raw->cuGraphDestroy(graph), 0);
}

/* All memory is released. The driver of a GPU reports a destroyed graph from its own thread. */
static void expect_all_goes(struct capture *c) {
    for (int i = 0; i < PATIENCE_MS && stats_of(c->t.pool).held_bytes; i++) {
        if (i)
            usleep(1000);
        api_ok(acre_device_sync(c->t.device));
        api_ok(acre_pool_trim(c->t.pool, 0));
    }
    assert_int_equal(stats_of(c->t.pool).live_blocks, 0);
    assert_int_equal(stats_of(c->t.pool).held_bytes, 0);
}

static int overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    return (uintptr_t)a < (uintptr_t)b + b_bytes && (uintptr_t)b < (uintptr_t)a + a_bytes;
}

/* Allocates on ordinary streams. No block overlaps memory of the graph. */
static void expect_nobody_gets(struct capture *c, const void *p, size_t bytes) {
    void *blocks[32];
    for (int i = 0; i < 32; i++) {
        api_ok(acre_pool_alloc(c->t.pool, bytes, 0, c->t.other, &blocks[i]));
        assert_false(overlap(p, bytes, blocks[i], bytes));
    }
    api_ok(acre_pool_free_many(c->t.pool, blocks, 32, c->t.other, NULL));
    for (int i = 0; i < 32; i++) {
        api_ok(acre_pool_alloc(c->t.pool, bytes, 0, c->t.stream, &blocks[i]));
        assert_false(overlap(p, bytes, blocks[i], bytes));
    }
    api_ok(acre_pool_free_many(c->t.pool, blocks, 32, c->t.stream, NULL));
}

/* ---- allocation ---- */

TEST(graph_capture_gets_memory_in_every_mode) {
    for (API_EACH(name))
        for (int mode = 0; mode <= CU_STREAM_CAPTURE_MODE_RELAXED; mode++) {
            struct capture c = capture_open(name, NULL);
            void *small[MANY], *large[4], *warm = alloc(&c.t, 5000);
            api_ok(acre_pool_free(c.t.pool, warm, c.t.stream));
            capture_begin(&c, (CUstreamCaptureMode)mode);
            api_ok(acre_pool_alloc_many(c.t.pool, 5000, MANY, c.t.stream, small));
            api_ok(acre_pool_alloc_many(c.t.pool, 9 * MIB, 4, c.t.stream, large));
            for (int i = 0; i < MANY; i++)
                api_ok(acre_fill(c.t.device, small[i], 1, 5000, c.t.stream));
            api_ok(acre_pool_trim(c.t.pool, 0));
            CUgraph graph = capture_end(&c); /* the capture was not broken */
            assert_int_equal(stats_of(c.t.pool).live_blocks, MANY + 4);
            api_ok(acre_pool_free_many(c.t.pool, small, MANY, c.t.stream, NULL));
            api_ok(acre_pool_free_many(c.t.pool, large, 4, c.t.stream, NULL));
            api_ok(acre_device_sync(c.t.device));
            api_ok(acre_pool_trim(c.t.pool, 0));
            /* The graph still holds its memory. */
            assert_true(stats_of(c.t.pool).held_bytes >= 36 * MIB);
            graph_destroy(&c, graph);
            expect_all_goes(&c);
            capture_close(&c);
        }
}

TEST(graph_capture_uses_again_what_it_freed) {
    for (API_EACH(name)) {
        struct capture c = capture_open(name, NULL);
        capture_begin(&c, CU_STREAM_CAPTURE_MODE_GLOBAL);
        for (int i = 0; i < 100; i++) {
            void *large = alloc(&c.t, 8 * MIB), *small = alloc(&c.t, 100 * KIB);
            api_ok(acre_pool_free(c.t.pool, large, c.t.stream));
            api_ok(acre_pool_free(c.t.pool, small, c.t.stream));
        }
        CUgraph graph = capture_end(&c);
        assert_in_range(stats_of(c.t.pool).held_bytes, 8 * MIB, 40 * MIB);
        graph_destroy(&c, graph);
        expect_all_goes(&c);
        capture_close(&c);
    }
}

/* ---- memory of a graph is exclusive ---- */

TEST(graph_memory_is_nobody_elses) {
    const size_t sizes[] = {300, 70 * KIB, 3 * MIB};
    for (API_EACH(name))
        for (int i = 0; i < 3; i++) {
            struct capture c = capture_open(name, NULL);
            capture_begin(&c, CU_STREAM_CAPTURE_MODE_GLOBAL);
            void *inside = alloc(&c.t, sizes[i]), *kept = alloc(&c.t, sizes[i]);
            api_ok(acre_pool_free(c.t.pool, inside, c.t.stream));
            CUgraph graph = capture_end(&c);
            expect_nobody_gets(&c, inside, sizes[i]);
            api_ok(acre_pool_free(c.t.pool, kept, c.t.stream));
            expect_nobody_gets(&c, kept, sizes[i]);
            CUgraphExec exec = make_exec(&c, graph);
            graph_destroy(&c, graph);
            expect_nobody_gets(&c, inside, sizes[i]); /* the executable graph holds it */
            assert_int_equal(c.raw->cuGraphExecDestroy(exec), 0);
            expect_all_goes(&c);
            capture_close(&c);
        }
}

TEST(graph_launches_find_their_memory_as_it_was) {
    for (API_EACH(name)) {
        struct capture c = capture_open(name, NULL);
        const size_t bytes = 2 * MIB;
        unsigned char *seen = malloc(bytes);
        void *out = alloc(&c.t, bytes), *junk[8];
        capture_begin(&c, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        void *between = alloc(&c.t, bytes);
        api_ok(acre_fill(c.t.device, between, 7, bytes, c.t.stream));
        api_ok(acre_copy(c.t.device, out, between, bytes, c.t.stream));
        api_ok(acre_pool_free(c.t.pool, between, c.t.stream));
        CUgraph graph = capture_end(&c);
        CUgraphExec exec = make_exec(&c, graph);
        for (int round = 0; round < 3; round++) {
            api_ok(acre_pool_alloc_many(c.t.pool, bytes, 8, c.t.other, junk));
            for (int i = 0; i < 8; i++)
                api_ok(acre_fill(c.t.device, junk[i], 9, bytes, c.t.other));
            api_ok(acre_fill(c.t.device, out, 1, bytes, c.t.stream));
            assert_int_equal(c.raw->cuGraphLaunch(exec, c.t.stream), 0);
            api_ok(acre_copy(c.t.device, seen, out, bytes, c.t.stream));
            api_ok(acre_stream_sync(c.t.device, c.t.stream));
            for (size_t i = 0; i < bytes; i++)
                assert_int_equal(seen[i], 7);
            for (int i = 0; i < 8; i++) {
                api_ok(acre_copy(c.t.device, seen, junk[i], bytes, c.t.other));
                api_ok(acre_stream_sync(c.t.device, c.t.other));
                assert_int_equal(seen[0] + seen[bytes - 1], 18);
            }
            api_ok(acre_pool_free_many(c.t.pool, junk, 8, c.t.other, NULL));
        }
        graph_destroy(&c, graph);
        assert_int_equal(c.raw->cuGraphExecDestroy(exec), 0);
        api_ok(acre_pool_free(c.t.pool, out, c.t.stream));
        expect_all_goes(&c);
        free(seen);
        capture_close(&c);
    }
}

/* ---- blocks that outlive a graph or a capture ---- */

TEST(graph_blocks_outlive_the_graph) {
    for (API_EACH(name)) {
        struct capture c = capture_open(name, NULL);
        capture_begin(&c, CU_STREAM_CAPTURE_MODE_GLOBAL);
        void *small = alloc(&c.t, 1000), *large = alloc(&c.t, 5 * MIB);
        graph_destroy(&c, capture_end(&c));
        usleep(20000); /* the driver of a GPU reports the destroyed graph a little later */
        api_ok(acre_pool_trim(c.t.pool, 0));
        api_ok(acre_fill(c.t.device, small, 1, 1000, c.t.stream));
        api_ok(acre_fill(c.t.device, large, 1, 5 * MIB, c.t.stream));
        assert_int_equal(acre_pool_owns(c.t.pool, small) & acre_pool_owns(c.t.pool, large), 1);
        api_ok(acre_pool_free(c.t.pool, small, c.t.stream));
        api_ok(acre_pool_free(c.t.pool, large, c.t.stream));
        api_expect(acre_pool_free(c.t.pool, small, c.t.stream), ACRE_E_POINTER);
        expect_all_goes(&c);
        capture_close(&c);
    }
}

TEST(graph_capture_frees_what_was_there_before) {
    for (API_EACH(name)) {
        struct capture c = capture_open(name, NULL);
        void *small[MANY], *large[4];
        api_ok(acre_pool_alloc_many(c.t.pool, 5000, MANY, c.t.stream, small));
        api_ok(acre_pool_alloc_many(c.t.pool, 9 * MIB, 4, c.t.stream, large));
        capture_begin(&c, CU_STREAM_CAPTURE_MODE_GLOBAL);
        api_ok(acre_fill(c.t.device, large[0], 1, MIB, c.t.stream));
        api_ok(acre_pool_free_many(c.t.pool, small, MANY, c.t.stream, NULL));
        api_ok(acre_pool_free_many(c.t.pool, large, 4, c.t.stream, NULL));
        void *other;
        api_ok(acre_pool_alloc(c.t.pool, 9 * MIB, 0, c.t.other, &other));
        for (int i = 0; i < 4; i++) /* the freed blocks are parked */
            assert_false(overlap(other, 9 * MIB, large[i], 9 * MIB));
        void *mine = alloc(&c.t, 9 * MIB);
        for (int i = 0; i < 4; i++)
            assert_false(overlap(mine, 9 * MIB, large[i], 9 * MIB));
        api_ok(acre_pool_free(c.t.pool, mine, c.t.stream));
        CUgraph graph = capture_end(&c);
        api_ok(acre_pool_free(c.t.pool, other, c.t.other));
        api_ok(acre_device_sync(c.t.device));
        uint64_t before = stats_of(c.t.pool).held_bytes;
        api_ok(acre_pool_trim(c.t.pool, 0));
        assert_in_range(stats_of(c.t.pool).held_bytes, 9 * MIB, before - 36 * MIB);
        graph_destroy(&c, graph);
        expect_all_goes(&c);
        capture_close(&c);
    }
}

/* While more is in use than the limit of the device allows, neither the capture nor the stream
 * after it gets what was freed in the capture. */
TEST(graph_capture_stays_within_the_limit_of_the_device) {
    for (API_EACH(name)) {
        struct capture c = capture_open(name, NULL);
        void *blocks[MANY], *p;
        api_ok(acre_pool_alloc_many(c.t.pool, 64 * KIB, MANY, c.t.stream, blocks));
        api_ok(acre_device_set_limits(c.t.device, 4 * MIB, 0));
        capture_begin(&c, CU_STREAM_CAPTURE_MODE_GLOBAL);
        api_ok(acre_pool_free(c.t.pool, blocks[0], c.t.stream));
        api_expect(acre_pool_alloc(c.t.pool, 64 * KIB, 0, c.t.stream, &p), ACRE_E_DEVICE_MEMORY);
        api_ok(acre_pool_free(c.t.pool, blocks[1], c.t.stream));
        CUgraph graph = capture_end(&c); /* the capture was not broken */
        api_expect(acre_pool_alloc(c.t.pool, 64 * KIB, 0, c.t.stream, &p), ACRE_E_DEVICE_MEMORY);
        api_ok(acre_pool_free_many(c.t.pool, &blocks[2], MANY - 2, c.t.stream, NULL));
        p = alloc(&c.t, 64 * KIB);
        assert_true(stats_of(c.t.pool).live_bytes <= 4 * MIB);
        api_ok(acre_pool_free(c.t.pool, p, c.t.stream));
        graph_destroy(&c, graph);
        expect_all_goes(&c);
        capture_close(&c);
    }
}

/* ---- failures ---- */

TEST(graph_capture_that_fails_leaves_nothing) {
    for (API_EACH(name)) {
        struct capture c = capture_open(name, NULL);
        CUgraph graph = NULL;
        void *none = &c;
        capture_begin(&c, CU_STREAM_CAPTURE_MODE_GLOBAL);
        void *inside = alloc(&c.t, 3 * MIB), *later = alloc(&c.t, 3 * MIB);
        api_ok(acre_pool_free(c.t.pool, inside, c.t.stream));
        inside = alloc(&c.t, 700);
        assert_int_not_equal(c.raw->cuCtxSynchronize(), 0); /* breaks the capture */
        api_ok(acre_pool_free(c.t.pool, inside, c.t.stream));
        api_expect(acre_pool_alloc(c.t.pool, 700, 0, c.t.stream, &none), ACRE_E_CAPTURING);
        assert_null(none);
        assert_int_not_equal(c.raw->cuStreamEndCapture(c.t.stream, &graph), 0);
        api_ok(acre_pool_free(c.t.pool, later, c.t.stream));
        expect_all_goes(&c);
        capture_close(&c);
    }
}

TEST(graph_capture_without_memory_is_not_broken) {
    const acre_pool_options options = {.struct_size = sizeof options, .limit_bytes = 20 * MIB};
    for (API_EACH(name)) {
        struct capture c = capture_open(name, &options);
        void *none = &c;
        capture_begin(&c, CU_STREAM_CAPTURE_MODE_GLOBAL);
        void *first = alloc(&c.t, 15 * MIB);
        api_expect(acre_pool_alloc(c.t.pool, 15 * MIB, 0, c.t.stream, &none), ACRE_E_LIMIT);
        assert_null(none);
        api_ok(acre_pool_free(c.t.pool, first, c.t.stream));
        api_ok(acre_pool_free(c.t.pool, alloc(&c.t, 15 * MIB), c.t.stream));
        graph_destroy(&c, capture_end(&c));
        expect_all_goes(&c);
        capture_close(&c);
    }
}

/* ---- several streams ---- */

TEST(graph_capture_on_two_streams_keeps_them_apart) {
    for (API_EACH(name)) {
        struct capture c = capture_open(name, NULL);
        acre_event fork, join;
        api_ok(acre_event_create(c.t.device, 0, &fork));
        api_ok(acre_event_create(c.t.device, 0, &join));
        capture_begin(&c, CU_STREAM_CAPTURE_MODE_GLOBAL);
        assert_int_equal(c.raw->cuEventRecord((CUevent)fork, c.t.stream), 0);
        assert_int_equal(c.raw->cuStreamWaitEvent(c.t.other, (CUevent)fork, 0), 0);
        void *mine = alloc(&c.t, 3 * MIB), *used = alloc(&c.t, 3 * MIB), *other, *again;
        api_ok(acre_pool_free(c.t.pool, mine, c.t.stream));
        api_ok(acre_pool_alloc(c.t.pool, 3 * MIB, 0, c.t.other, &other));
        assert_ptr_not_equal(other, mine); /* freed on a stream that `other` does not wait for */
        api_ok(acre_pool_record_use(c.t.pool, used, c.t.other));
        api_ok(acre_pool_free(c.t.pool, used, c.t.stream));
        api_ok(acre_pool_alloc(c.t.pool, 3 * MIB, 0, c.t.stream, &again));
        assert_ptr_equal(again, mine);
        api_ok(acre_pool_free(c.t.pool, again, c.t.stream));
        api_ok(acre_pool_free(c.t.pool, other, c.t.other));
        assert_int_equal(c.raw->cuEventRecord((CUevent)join, c.t.other), 0);
        assert_int_equal(c.raw->cuStreamWaitEvent(c.t.stream, (CUevent)join, 0), 0);
        graph_destroy(&c, capture_end(&c));
        api_ok(acre_event_destroy(c.t.device, fork));
        api_ok(acre_event_destroy(c.t.device, join));
        expect_all_goes(&c);
        capture_close(&c);
    }
}

TEST(graph_blocks_are_resized_by_copying) {
    for (API_EACH(name)) {
        struct capture c = capture_open(name, NULL);
        void *before = alloc(&c.t, 3 * MIB), *grown;
        capture_begin(&c, CU_STREAM_CAPTURE_MODE_GLOBAL);
        api_ok(acre_pool_realloc(c.t.pool, before, 6 * MIB, c.t.stream, &grown));
        assert_ptr_not_equal(before, grown);
        void *graphs = grown;
        CUgraph graph = capture_end(&c);
        api_ok(acre_pool_realloc(c.t.pool, graphs, 9 * MIB, c.t.stream, &grown));
        assert_ptr_not_equal(graphs, grown);
        expect_nobody_gets(&c, graphs, 6 * MIB);
        api_ok(acre_pool_free(c.t.pool, grown, c.t.stream));
        graph_destroy(&c, graph);
        expect_all_goes(&c);
        capture_close(&c);
    }
}

TEST(graph_blocks_wait_for_work_outside) {
    for (API_EACH(name)) {
        struct capture c = capture_open(name, NULL);
        acre_event event;
        api_ok(acre_event_create(c.t.device, 0, &event));
        capture_begin(&c, CU_STREAM_CAPTURE_MODE_GLOBAL);
        void *a = alloc(&c.t, 3 * MIB), *b = alloc(&c.t, 3 * MIB);
        graph_destroy(&c, capture_end(&c));
        api_ok(acre_fill(c.t.device, a, 1, 3 * MIB, c.t.other));
        api_ok(acre_event_record(c.t.device, event, c.t.other));
        api_ok(acre_pool_record_use(c.t.pool, b, c.t.other));
        api_ok(acre_pool_free_after(c.t.pool, a, event));
        api_ok(acre_pool_free(c.t.pool, b, c.t.stream));
        expect_all_goes(&c);
        api_ok(acre_event_destroy(c.t.device, event));
        capture_close(&c);
    }
}

/* ---- shared memory ---- */

/* Captures four steps that work on `bytes`. */
static CUgraph capture_steps(struct capture *c, size_t bytes) {
    void *before = NULL;
    capture_begin(c, CU_STREAM_CAPTURE_MODE_GLOBAL);
    for (int i = 0; i < 4; i++) {
        void *now = alloc(&c->t, bytes / 2);
        api_ok(acre_fill(c->t.device, now, 1, 64, c->t.stream));
        api_ok(acre_pool_free(c->t.pool, before, c->t.stream));
        before = now;
    }
    api_ok(acre_pool_free(c->t.pool, before, c->t.stream));
    return capture_end(c);
}

TEST(graph_captures_with_a_key_share_memory) {
    for (API_EACH(name)) {
        struct capture c = capture_open(name, NULL);
        CUgraph graphs[GRAPHS];
        const uint64_t largest = 64 * MIB;
        api_ok(acre_pool_graph_share(c.t.pool, c.t.stream, 77));
        for (size_t i = 0; i < GRAPHS; i++)
            graphs[i] = capture_steps(&c, largest - i * 3 * MIB);
        assert_in_range(stats_of(c.t.pool).held_bytes, largest, largest + largest / 5);
        for (size_t i = 0; i < GRAPHS - 1; i++)
            graph_destroy(&c, graphs[i]);
        usleep(20000);
        api_ok(acre_pool_trim(c.t.pool, 0));
        assert_true(stats_of(c.t.pool).held_bytes >= largest); /* one graph is left */
        api_ok(acre_pool_graph_share(c.t.pool, c.t.stream, 0));
        graph_destroy(&c, graphs[GRAPHS - 1]);
        expect_all_goes(&c);
        capture_close(&c);
    }
}

TEST(graph_memory_of_a_key_can_be_ended) {
    for (API_EACH(name)) {
        struct capture c = capture_open(name, NULL);
        api_ok(acre_pool_graph_share(c.t.pool, c.t.stream, 5));
        CUgraph graph = capture_steps(&c, 16 * MIB);
        CUgraphExec exec = make_exec(&c, graph);
        assert_int_equal(c.raw->cuGraphLaunch(exec, c.t.stream), 0);
        api_expect(acre_pool_graph_end(c.t.pool, 0), ACRE_E_INVALID);
        api_ok(acre_pool_graph_end(c.t.pool, 6)); /* no graph uses this key */
        api_ok(acre_pool_graph_end(c.t.pool, 5)); /* although the graph still exists */
        expect_all_goes(&c);
        CUgraph second = capture_steps(&c, 16 * MIB); /* has separate memory */
        graph_destroy(&c, graph);
        assert_int_equal(c.raw->cuGraphExecDestroy(exec), 0);
        usleep(20000);
        api_ok(acre_pool_trim(c.t.pool, 0));
        assert_true(stats_of(c.t.pool).held_bytes >= 16 * MIB);
        graph_destroy(&c, second);
        expect_all_goes(&c);
        capture_close(&c);
    }
}

/* ---- destroying the pool ---- */

TEST(graph_may_outlive_the_pool) {
    for (API_EACH(name)) {
        struct capture c = capture_open(name, NULL);
        capture_begin(&c, CU_STREAM_CAPTURE_MODE_GLOBAL);
        void *left = alloc(&c.t, 3 * MIB);
        CUgraph graph = capture_end(&c);
        assert_non_null(left);
        capture_close(&c);
        /* The pool is gone, so nothing is notified. */
        assert_int_equal(fault_raw(name)->cuGraphDestroy(graph), 0);
        usleep(20000);
    }
}

int main(void) {
    fault_begin();
    return tests_run("pool_graph");
}
