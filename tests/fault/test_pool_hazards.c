/* Cases in which a pool could reuse memory too early, or never: streams that other streams order, a
 * per-thread default stream, memory freed while the pool searches for more, broken captures, graphs
 * that use each other's memory. */
#include "api/api_pool.h"
#include "soft/soft.h"
#include "fault_ladder.h"
#include "pool/pool.h"

/* An idle blocking stream is ordered behind work of the legacy stream, but cuStreamQuery does not
 * report that. */
TEST(hazard_of_a_blocking_stream_behind_the_legacy_one) {
    struct things t = begin("soft", NULL);
    struct gate gate;
    acre_stream blocking;
    void *p, *q;
    api_ok(acre_stream_create(t.device, ACRE_STREAM_DEFAULT, &blocking));
    api_ok(acre_pool_alloc(t.pool, 64 * MIB, 0, NULL, &p));
    gate_put(NULL, &gate);
    api_ok(acre_fill(t.device, p, 1, MIB, NULL));
    api_ok(acre_pool_free(t.pool, p, blocking));
    api_ok(acre_pool_alloc(t.pool, 64 * MIB, 0, t.other, &q));
    assert_ptr_not_equal(p, q);
    assert_int_equal(atomic_load(&gate.is_passed), 0);
    atomic_store(&gate.is_open, 1);
    api_ok(acre_device_sync(t.device));
    api_ok(acre_pool_free(t.pool, q, t.other));
    api_ok(acre_stream_destroy(t.device, blocking));
    end(&t);
}

struct sleeping {
    struct things *t;
    pthread_barrier_t barrier;
};

static void *free_and_sleep(void *user) {
    struct sleeping *sleeping = user;
    acre_stream own = (acre_stream)(uintptr_t)2; /* cudaStreamPerThread */
    void *p;
    assert_int_equal(acre_pool_alloc(sleeping->t->pool, 48 * MIB, 0, own, &p), ACRE_OK);
    assert_int_equal(acre_pool_free(sleeping->t->pool, p, own), ACRE_OK);
    pthread_barrier_wait(&sleeping->barrier);
    pthread_barrier_wait(&sleeping->barrier);
    return NULL;
}

/* Memory freed on a per-thread default stream is reusable once the device has passed it, even while
 * the thread sleeps. */
TEST(hazard_of_a_sleeping_threads_own_stream) {
    struct things t = begin("soft", NULL);
    struct sleeping sleeping = {.t = &t};
    pthread_t thread;
    assert_int_equal(pthread_barrier_init(&sleeping.barrier, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, free_and_sleep, &sleeping), 0);
    pthread_barrier_wait(&sleeping.barrier);
    for (int i = 0; i < 2; i++) {
        api_ok(acre_pool_trim(t.pool, 0));
        api_ok(acre_device_sync(t.device));
    }
    api_ok(acre_pool_trim(t.pool, 0));
    assert_int_equal(stats_of(t.pool).held_bytes, 0);
    pthread_barrier_wait(&sleeping.barrier);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&sleeping.barrier);
    end(&t);
}

/* Short-lived streams, each with one block of each size, do not accumulate memory. */
TEST(hazard_of_streams_that_come_and_go) {
    struct things t = begin("soft", NULL);
    const struct acre__driver *raw = fault_raw("soft");
    fault_push("soft");
    for (int i = 0; i < 2000; i++) {
        CUstream stream;
        void *small, *large;
        assert_int_equal(raw->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
        api_ok(acre_pool_alloc(t.pool, 5000, 0, stream, &small));
        api_ok(acre_pool_alloc(t.pool, 600000, 0, stream, &large));
        api_ok(acre_pool_free(t.pool, small, stream));
        api_ok(acre_pool_free(t.pool, large, stream));
        assert_int_equal(raw->cuStreamDestroy(stream), 0);
    }
    assert_in_range(stats_of(t.pool).held_bytes, 0, 256 * MIB); /* of 1.2 GiB in all */
    fault_pop("soft");
    end(&t);
}

/* ---- while the pool searches for more ---- */

/* The callback of a pool over its budget: it empties another thread's cache after the device has
 * passed the stream's first event. */
static struct {
    acre_pool *pool;
    CUstream stream;
    struct gate *gate;
    void *cached; /* block in a cache, freed on the stream; NULL afterwards */
} emptied;

static void reclaim_emptied(struct acre__account *account, const struct acre__arena *asking,
                            uint64_t bytes) {
    struct acre__slots slots = {0};
    uint64_t id = 0;
    (void)account, (void)asking, (void)bytes;
    if (!emptied.cached)
        return;
    atomic_store(&emptied.gate->is_open, 1);
    while (!atomic_load(&emptied.gate->is_passed))
        sleep_ms(1);
    struct acre__slab *slab = acre__pool_table_find(emptied.cached);
    acre__slots_push(&slots, &slab->slots[0]);
    acre__store(&slab->states[0], 0, memory_order_relaxed);
    assert_int_equal(acre__pool_stream_id(emptied.pool->dev, emptied.stream, &id), ACRE_OK);
    assert_int_equal(
        acre__central_give_old(emptied.pool, ACRE__CLASSES, emptied.stream, 0, id, 1, &slots), 1);
    emptied.cached = NULL;
}

/* A stream's two lists of freed memory are swapped while a block is taken out of them. */
TEST(hazard_of_lists_that_change_places_in_a_call) {
    struct things t = begin("soft", NULL);
    const struct acre__driver *raw = fault_raw("soft");
    struct gate gates[3];
    CUstream stream;
    char text[480] = "";
    void *p[4], *large;
    fault_push("soft");
    assert_int_equal(raw->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
    t.pool->blocks_in.is_joined = 1;
    t.pool->blocks_in.slack = 0;
    t.pool->blocks_in.setup.chunk_most = (size_t)2 << 20;
    for (int i = 0; i < 4; i++)
        api_ok(acre_pool_alloc(t.pool, 8 * MIB, 0, stream, &p[i]));
    gate_put(stream, &gates[0]);
    api_ok(acre_pool_free(t.pool, p[0], stream));
    acre__lock_take(&t.pool->lock); /* an event marks the first free */
    acre__streams_settle(t.pool, NULL, 1);
    acre__lock_give(&t.pool->lock);
    gate_put(stream, &gates[1]);
    api_ok(acre_pool_free(t.pool, p[2], stream));
    gate_put(stream, &gates[2]);
    assert_int_equal(raw->cuMemsetD8Async((CUdeviceptr)(uintptr_t)p[1], 1, 8 * MIB, stream), 0);
    emptied.pool = t.pool;
    emptied.stream = stream;
    emptied.gate = &gates[0];
    emptied.cached = p[1];
    t.pool->account.reclaim = reclaim_emptied;
    api_ok(acre_pool_alloc(t.pool, 14 * MIB, 0, stream, &large));
    assert_null(emptied.cached);
    atomic_store(&gates[1].is_open, 1);
    while (!atomic_load(&gates[1].is_passed))
        sleep_ms(1);
    acre__lock_take(&t.pool->lock); /* frees before the second gate are ready */
    acre__streams_settle(t.pool, NULL, 1);
    acre__lock_give(&t.pool->lock);
    if (acre__soft_reports(text, sizeof text))
        fail_msg("%s", text);
    atomic_store(&gates[2].is_open, 1);
    api_ok(acre_pool_free(t.pool, p[3], stream));
    api_ok(acre_pool_free(t.pool, large, stream));
    api_ok(acre_device_sync(t.device));
    assert_int_equal(raw->cuStreamDestroy(stream), 0);
    fault_pop("soft");
    end(&t);
}

/* ---- streams that the program destroyed ---- */

/* A new stream does not get the handle of a destroyed one while that one's work runs, so that its
 * own work does not wait. Frees on the old handle wait for the old work. */
TEST(hazard_of_a_destroyed_streams_handle) {
    struct things t = begin("soft", NULL);
    acre_stream old, fresh, again;
    struct gate gate;
    void *p, *q;
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &old));
    api_ok(acre_pool_alloc(t.pool, 3 * MIB, 0, old, &p));
    gate_put(old, &gate);
    api_ok(acre_fill(t.device, p, 1, MIB, old));
    api_ok(acre_stream_destroy(t.device, old));
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &fresh));
    assert_ptr_not_equal(fresh, old);
    api_ok(acre_stream_query(t.device, fresh));
    api_ok(acre_pool_free(t.pool, p, old));
    api_ok(acre_pool_alloc(t.pool, 3 * MIB, 0, fresh, &q));
    assert_ptr_not_equal(p, q); /* the fill may still write the block */
    assert_int_equal(atomic_load(&gate.is_passed), 0);
    api_expect(acre_stream_query(t.device, old), ACRE_E_HANDLE);
    api_expect(acre_fill(t.device, q, 1, MIB, old), ACRE_E_HANDLE);
    api_expect(acre_pool_alloc(t.pool, 3 * MIB, 0, old, &p), ACRE_E_HANDLE);
    api_expect(acre_stream_destroy(t.device, old), ACRE_E_HANDLE);
    atomic_store(&gate.is_open, 1);
    api_ok(acre_device_sync(t.device));
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &again));
    assert_ptr_equal(again, old);
    api_ok(acre_stream_query(t.device, again));
    api_ok(acre_pool_free(t.pool, q, fresh));
    api_ok(acre_stream_destroy(t.device, fresh));
    api_ok(acre_stream_destroy(t.device, again));
    end(&t);
}

/* A free on a destroyed stream leaves a capture of another one intact. */
TEST(hazard_of_a_destroyed_stream_during_a_capture) {
    struct things t = begin("soft", NULL);
    const struct acre__driver *raw = fault_raw("soft");
    CUgraph graph = NULL;
    acre_stream gone;
    void *p;
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &gone));
    api_ok(acre_pool_alloc(t.pool, 3 * MIB, 0, gone, &p));
    api_ok(acre_stream_destroy(t.device, gone));
    fault_push("soft");
    assert_int_equal(raw->cuStreamBeginCapture(t.stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    api_ok(acre_pool_record_use(t.pool, p, gone));
    api_ok(acre_pool_free(t.pool, p, gone));
    assert_int_equal(raw->cuStreamEndCapture(t.stream, &graph), 0);
    assert_int_equal(raw->cuGraphDestroy(graph), 0);
    fault_pop("soft");
    end(&t);
}

/* CUDA ends the capture of a stream that is destroyed. */
TEST(hazard_of_a_stream_destroyed_while_captured) {
    struct things t = begin("soft", NULL);
    const struct acre__driver *raw = fault_raw("soft");
    acre_stream captured, next;
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &captured));
    fault_push("soft");
    assert_int_equal(raw->cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    fault_pop("soft");
    api_ok(acre_stream_destroy(t.device, captured));
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &next));
    api_ok(acre_stream_sync(t.device, next)); /* refused for a captured one */
    api_ok(acre_stream_destroy(t.device, next));
    end(&t);
}

/* ---- captures ---- */

TEST(hazard_of_a_use_in_a_broken_capture) {
    struct things t = begin("soft", NULL);
    const struct acre__driver *raw = fault_raw("soft");
    CUgraph graph = NULL;
    void *p = alloc(&t, 5000);
    fault_push("soft");
    assert_int_equal(raw->cuStreamBeginCapture(t.stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    assert_int_not_equal(raw->cuCtxSynchronize(), 0);
    api_ok(acre_pool_record_use(t.pool, p, t.stream));
    api_ok(acre_pool_record_use(t.pool, p, t.other)); /* as for any block */
    assert_int_not_equal(raw->cuStreamEndCapture(t.stream, &graph), 0);
    api_ok(acre_pool_free(t.pool, p, t.stream));
    fault_pop("soft");
    end(&t);
}

/* A block in use on an ordinary stream can be freed in a capture. */
TEST(hazard_of_a_used_block_freed_in_a_capture) {
    struct things t = begin("soft", NULL);
    const struct acre__driver *raw = fault_raw("soft");
    CUgraph graph = NULL;
    void *p = alloc(&t, 3 * MIB), *q;
    fault_push("soft");
    api_ok(acre_pool_record_use(t.pool, p, t.other));
    assert_int_equal(raw->cuStreamBeginCapture(t.stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    api_ok(acre_pool_free(t.pool, p, t.stream));
    api_ok(acre_pool_alloc(t.pool, 3 * MIB, 0, t.stream, &q));
    assert_ptr_not_equal(p, q);
    api_ok(acre_pool_free(t.pool, q, t.stream));
    assert_int_equal(raw->cuStreamEndCapture(t.stream, &graph), 0);
    assert_int_equal(raw->cuGraphDestroy(graph), 0);
    api_ok(acre_device_sync(t.device));
    api_ok(acre_pool_trim(t.pool, 0));
    assert_int_equal(stats_of(t.pool).held_bytes, 0);
    fault_pop("soft");
    end(&t);
}

static CUgraph capture_of(struct things *t, uint64_t key, void (*work)(struct things *, void **),
                          void **p) {
    const struct acre__driver *raw = fault_raw("soft");
    CUgraph graph = NULL;
    api_ok(acre_pool_graph_share(t->pool, t->stream, key));
    assert_int_equal(raw->cuStreamBeginCapture(t->stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    work(t, p);
    assert_int_equal(raw->cuStreamEndCapture(t->stream, &graph), 0);
    return graph;
}

static void work_alloc(struct things *t, void **p) {
    *p = alloc(t, 3 * MIB);
}
static void work_free(struct things *t, void **p) {
    api_ok(acre_fill(t->device, *p, 1, MIB, t->stream));
    api_ok(acre_pool_free(t->pool, *p, t->stream));
}

/* A graph without a key that uses memory of a key: the key's next capture must not reuse that
 * memory. */
TEST(hazard_of_graphs_that_use_each_others_memory) {
    struct things t = begin("soft", NULL);
    void *p = NULL, *q = NULL;
    fault_push("soft");
    CUgraph first = capture_of(&t, 1, work_alloc, &p);
    CUgraph other = capture_of(&t, 0, work_free, &p);
    CUgraph next = capture_of(&t, 1, work_alloc, &q);
    assert_ptr_not_equal(p, q);
    api_ok(acre_pool_free(t.pool, q, t.stream));
    assert_int_equal(fault_raw("soft")->cuGraphDestroy(first), 0);
    assert_int_equal(fault_raw("soft")->cuGraphDestroy(other), 0);
    assert_int_equal(fault_raw("soft")->cuGraphDestroy(next), 0);
    api_ok(acre_device_sync(t.device));
    api_ok(acre_pool_trim(t.pool, 0));
    assert_int_equal(stats_of(t.pool).held_bytes, 0);
    fault_pop("soft");
    end(&t);
}

/* ---- acre_mem_query ---- */

static acre_mem_info info_of(struct things *t, const void *p) {
    acre_mem_info info = {.struct_size = sizeof info};
    api_ok(acre_mem_query(t->device, p, &info));
    return info;
}

static void expect_info(struct things *t, char *p, size_t bytes) {
    acre_mem_info info = info_of(t, p + bytes / 2);
    assert_ptr_equal(info.base, p);
    assert_ptr_equal(info.pool, t->pool);
    assert_int_equal(info.bytes, bytes);
    assert_int_equal(info.usable_bytes, acre_pool_usable_size(t->pool, p));
    api_expect(acre_fill(t->device, p, 1, (size_t)info.usable_bytes + 1, t->stream), ACRE_E_RANGE);
    api_ok(acre_fill(t->device, p, 1, (size_t)info.usable_bytes, t->stream));
}

TEST(query_describes_the_block_of_a_pool) {
    for (API_EACH(name)) {
        struct things t = begin(name, NULL);
        const size_t sizes[] = {1, 300, 5000, 70 * KIB, 600 * KIB, 9 * MIB};
        for (size_t i = 0; i < 6; i++) {
            void *p = alloc(&t, sizes[i]), *q;
            expect_info(&t, p, sizes[i]);
            if (sizes[i] > 512)
                assert_int_equal((uintptr_t)p % 512, 0);
            api_ok(acre_pool_realloc(t.pool, p, sizes[i] + sizes[i] / 3, t.stream, &q));
            expect_info(&t, q, sizes[i] + sizes[i] / 3);
            api_ok(acre_pool_realloc(t.pool, q, sizes[i], t.stream, &p));
            expect_info(&t, p, sizes[i]);
            api_ok(acre_pool_free(t.pool, p, t.stream));
            assert_null(info_of(&t, p).pool);
        }
        end(&t);
    }
}

int main(void) {
    fault_begin();
    return tests_run("pool_hazards");
}
