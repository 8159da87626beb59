/* Streams that the program destroyed and acre keeps: what their successors inherit, and what they
 * must not. */
#include "api/api_pool.h"
#include "fault_ladder.h"

enum { PAIRS = 50 };

/* Destroys a stream while it owns a block, frees the block, and creates the successor. */
static acre_stream successor_of_one_that_freed(struct things *t, uint32_t flags) {
    acre_stream old, next;
    void *p;
    api_ok(acre_stream_create(t->device, flags, &old));
    api_ok(acre_pool_alloc(t->pool, MIB, 0, old, &p));
    api_ok(acre_stream_destroy(t->device, old));
    assert_int_equal(api_stats(t->device).streams_parked, 1);
    api_ok(acre_pool_free(t->pool, p, old));
    api_ok(acre_stream_create(t->device, flags, &next));
    assert_ptr_equal(next, old);
    assert_int_equal(api_stats(t->device).streams_parked, 0);
    return next;
}

static uint64_t events_of_pairs(struct things *t, acre_stream stream) {
    uint64_t before = stats_of(t->pool).events;
    for (int i = 0; i < PAIRS; i++) {
        void *p, *q;
        api_ok(acre_pool_alloc(t->pool, 1000, 0, stream, &p));
        api_ok(acre_pool_alloc(t->pool, 3 * MIB, 0, stream, &q));
        api_ok(acre_pool_free(t->pool, p, stream));
        api_ok(acre_pool_free(t->pool, q, stream));
    }
    return stats_of(t->pool).events - before;
}

/* The pool records events in frees on streams of others, which may end at any time, but not in
 * frees on acre's own. */
TEST(parked_stream_is_acres_own_for_its_successor) {
    const uint32_t flags[] = {ACRE_STREAM_NON_BLOCKING,
                              ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE};
    for (size_t i = 0; i < 2; i++) {
        struct things t = begin("soft", NULL);
        acre_stream next = successor_of_one_that_freed(&t, flags[i]);
        assert_true(events_of_pairs(&t, next) < PAIRS / 2);
        api_ok(acre_stream_destroy(t.device, next));
        end(&t);
    }
}

/* However often memory is freed on it: nothing may be allocated on a destroyed stream. */
TEST(parked_stream_serves_no_allocation) {
    struct things t = begin("soft", NULL);
    acre_stream old;
    void *blocks[PAIRS], *p;
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &old));
    for (int i = 0; i < PAIRS; i++)
        api_ok(acre_pool_alloc(t.pool, 1000, 0, old, &blocks[i]));
    api_ok(acre_stream_destroy(t.device, old));
    for (int i = 0; i < PAIRS; i++)
        api_ok(acre_pool_free(t.pool, blocks[i], old));
    api_expect(acre_pool_alloc(t.pool, 1000, 0, old, &p), ACRE_E_HANDLE);
    end(&t);
}

/* A stream with a flag less is another one: with ACRE_STREAM_NO_CAPTURE the pool does not ask
 * whether the stream is captured. */
TEST(parked_stream_is_used_again_with_the_same_flags_only) {
    acre_device *device = api_open("soft");
    acre_stream streams[4], next;
    for (uint32_t flags = 0; flags < 4; flags++)
        api_ok(acre_stream_create(device, flags, &streams[flags]));
    for (uint32_t flags = 0; flags < 4; flags++)
        api_ok(acre_stream_destroy(device, streams[flags]));
    assert_int_equal(api_stats(device).streams_parked, 4);
    for (uint32_t flags = 4; flags-- > 0;) {
        api_ok(acre_stream_create(device, flags, &next));
        assert_ptr_equal(next, streams[flags]);
    }
    api_ok(acre_close(device));
}

/* A capture that allocates from the pool. */
static CUgraph captured(struct things *t, acre_stream stream, void **p) {
    CUgraph graph = NULL;
    fault_push("soft");
    assert_int_equal(
        fault_raw("soft")->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    api_ok(acre_pool_alloc(t->pool, 4 * MIB, 0, stream, p));
    api_ok(acre_fill(t->device, *p, 1, 4 * MIB, stream));
    api_ok(acre_pool_free(t->pool, *p, stream));
    assert_int_equal(fault_raw("soft")->cuStreamEndCapture(stream, &graph), 0);
    fault_pop("soft");
    return graph;
}

/* acre_pool_graph_share of the old stream ends with it. */
TEST(parked_stream_shares_no_graph_memory_with_its_successor) {
    struct things t = begin("soft", NULL);
    acre_stream old, next;
    CUgraph graphs[2];
    void *first, *second;
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &old));
    api_ok(acre_pool_graph_share(t.pool, old, 77));
    graphs[0] = captured(&t, old, &first);
    api_ok(acre_stream_destroy(t.device, old));
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &next));
    assert_ptr_equal(next, old);
    graphs[1] = captured(&t, next, &second);
    assert_ptr_not_equal(first, second);
    fault_push("soft");
    for (int i = 0; i < 2; i++)
        assert_int_equal(fault_raw("soft")->cuGraphDestroy(graphs[i]), 0);
    fault_pop("soft");
    api_ok(acre_pool_graph_end(t.pool, 77));
    api_ok(acre_stream_destroy(t.device, next));
    end(&t);
}

/* The program destroys streams once more, without acre. */
TEST(parked_stream_that_the_driver_lost_is_dropped) {
    acre_device *device = api_open("soft");
    acre_stream streams[3], next;
    for (int i = 0; i < 3; i++)
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &streams[i]));
    for (int i = 0; i < 3; i++)
        api_ok(acre_stream_destroy(device, streams[i]));
    fault_push("soft");
    for (int i = 0; i < 2; i++)
        assert_int_equal(fault_raw("soft")->cuStreamDestroy(streams[i]), 0);
    fault_pop("soft");
    for (int i = 0; i < 5; i++) {
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &next));
        api_ok(acre_stream_sync(device, next));
    }
    assert_int_equal(api_stats(device).streams_live, 5);
    assert_int_equal(api_stats(device).streams_parked, 0);
    api_ok(acre_close(device));
}

/* The driver returns a parked handle again, which the program has destroyed without acre. */
TEST(parked_handle_that_the_driver_returns_is_a_new_stream) {
    acre_device *device = api_open("soft");
    acre_stream old, next, blocking;
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &old));
    api_ok(acre_stream_destroy(device, old));
    fault_push("soft");
    assert_int_equal(fault_raw("soft")->cuStreamDestroy(old), 0);
    fault_pop("soft");
    api_ok(acre_stream_create(device, ACRE_STREAM_DEFAULT, &blocking)); /* of another queue */
    assert_ptr_equal(blocking, old);
    assert_int_equal(api_stats(device).streams_parked, 0);
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &next));
    assert_ptr_not_equal(next, old);
    assert_int_equal(api_stats(device).streams_live, 2);
    api_ok(acre_close(device));
}

/* CUDA ends the attachment of managed memory with the stream. */
TEST(parked_are_no_streams_with_attached_memory) {
    acre_device *device = api_open("soft");
    acre_stream stream;
    void *p;
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
    api_ok(acre_mem_alloc(device, ACRE_KIND_MANAGED, MIB, 0, &p));
    api_ok(acre_mem_attach(device, p, ACRE_ATTACH_SINGLE, stream));
    api_ok(acre_stream_destroy(device, stream));
    assert_int_equal(api_stats(device).streams_parked, 0);
    api_ok(acre_mem_free(device, p));
    api_ok(acre_close(device));
}

struct use {
    acre_vec *vec;
    acre_stream stream;
    _Atomic int is_over;
    int failed;
};

static void *record_uses(void *user) {
    struct use *use = user;
    while (!atomic_load(&use->is_over))
        use->failed += acre_vec_record_use(use->vec, use->stream) != ACRE_OK;
    return NULL;
}

/* Another device knows a destroyed stream also while acre_stream_create tries it. */
TEST(parked_stream_of_a_peer_is_known_while_it_is_tried) {
    acre_device *devices[2];
    pthread_t thread;
    struct use use = {.failed = 0};
    api_open_two(devices);
    api_ok(acre_vec_create(devices[0], 1, NULL, &use.vec));
    api_ok(acre_vec_grow(use.vec, MIB, NULL));
    api_ok(acre_vec_set_access(use.vec, devices[1], ACRE_ACCESS_READ_WRITE));
    api_ok(acre_stream_create(devices[1], ACRE_STREAM_NON_BLOCKING, &use.stream));
    api_ok(acre_stream_destroy(devices[1], use.stream));
    assert_int_equal(pthread_create(&thread, NULL, record_uses, &use), 0);
    for (int i = 0; i < 20000; i++) {
        acre_stream stream;
        api_ok(acre_stream_create(devices[1], ACRE_STREAM_NON_BLOCKING, &stream));
        api_ok(acre_stream_destroy(devices[1], stream));
    }
    atomic_store(&use.is_over, 1);
    pthread_join(thread, NULL);
    assert_int_equal(use.failed, 0);
    api_ok(acre_vec_destroy(use.vec, NULL));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

int main(void) {
    fault_begin();
    return tests_run("parked_streams");
}
