/* Objects that live longer than the streams whose work uses their memory. */
#include "acre_soft.h"
#include "api_devices.h"

enum { BYTES = 1 << 20, LAG = 1000 };

/* A stream that has filled a block of the pool, and no longer exists. */
static acre_stream gone_after_fill(acre_device *device, acre_pool *pool, void **p) {
    acre_stream stream;
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
    api_ok(acre_pool_alloc(pool, BYTES, 0, stream, p));
    api_ok(acre_fill(device, *p, 1, BYTES, stream));
    api_ok(acre_stream_destroy(device, stream));
    return stream;
}

static void expect_frees(acre_device *device, uint32_t flags) {
    acre_pool *pool;
    acre_pool_stats stats = {.struct_size = sizeof stats};
    acre_pool_options options = {.struct_size = sizeof options, .flags = flags};
    api_ok(acre_pool_create(device, &options, &pool));
    for (int i = 0; i < 3; i++) {
        void *p, *q;
        acre_stream stream = gone_after_fill(device, pool, &p);
        api_ok(acre_pool_alloc(pool, 16 * BYTES, 0, NULL, &q)); /* a large one */
        api_ok(acre_pool_record_use(pool, q, stream));
        api_ok(acre_pool_free(pool, q, stream));
        api_ok(i ? acre_pool_free(pool, p, stream) : acre_free(p, stream));
        api_expect(acre_pool_free(pool, p, stream), ACRE_E_POINTER);
    }
    api_ok(acre_pool_get_stats(pool, &stats));
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.overruns + stats.late_writes, 0);
    api_ok(acre_pool_destroy(pool, NULL, NULL));
}

API_TEST(gone_stream_frees_blocks) {
    expect_frees(device, 0);
}

API_TEST(gone_stream_frees_blocks_of_a_debug_pool) {
    expect_frees(device, ACRE_POOL_DEBUG);
}

/* Calls that announce new work refuse the handle. */
API_TEST(gone_stream_gets_no_new_work) {
    acre_stream stream;
    acre_pool *pool;
    acre_vec *vec;
    void *p, *spillable;
    api_ok(acre_pool_create(device, NULL, &pool));
    api_ok(acre_vec_create(device, 1, NULL, &vec));
    api_ok(acre_pool_alloc_spillable(pool, 4 * BYTES, NULL, &spillable));
    api_ok(acre_stream_create(device, ACRE_STREAM_DEFAULT, &stream));
    api_ok(acre_stream_destroy(device, stream));
    api_expect(acre_pool_alloc(pool, 1000, 0, stream, &p), ACRE_E_HANDLE);
    api_expect(acre_vec_grow(vec, BYTES, stream), ACRE_E_HANDLE);
    api_expect(acre_vec_reserve(vec, (size_t)1 << 40, stream), ACRE_E_HANDLE);
    api_expect(acre_vec_append(vec, "x", 1, stream), ACRE_E_HANDLE);
    api_expect(acre_bring(spillable, stream), ACRE_E_HANDLE);
    api_expect(acre_bring_end(spillable, NULL), ACRE_E_INVALID);
    assert_int_equal(acre_vec_size(vec), 0);
    api_ok(acre_pool_free(pool, spillable, NULL));
    api_ok(acre_vec_destroy(vec, NULL));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
}

API_TEST(gone_stream_destroys_objects) {
    acre_stream stream;
    acre_vec *vec;
    acre_range *range;
    for (int i = 0; i < 2; i++) {
        api_ok(acre_stream_create(device, ACRE_STREAM_DEFAULT, &stream));
        api_ok(acre_vec_create(device, 1, NULL, &vec));
        api_ok(acre_range_create(device, (size_t)64 << 20, NULL, &range));
        api_ok(acre_vec_grow(vec, BYTES, stream));
        api_ok(acre_fill(device, acre_vec_data(vec), 1, BYTES, stream));
        api_ok(acre_range_commit(range, 0, (size_t)2 << 20, stream));
        api_ok(acre_stream_destroy(device, stream));
        api_ok(acre_vec_record_use(vec, stream));
        api_ok(acre_vec_destroy(vec, stream));
        api_ok(acre_range_destroy(range, stream));
    }
    assert_int_equal(api_stats(device).vecs, 0);
    assert_int_equal(api_stats(device).ranges, 0);
}

/* Without the wait the block would be reused while the fill still runs. */
TEST(gone_stream_work_is_done_when_its_memory_is_reused) {
    acre_device *device = api_open("soft");
    acre_stream other;
    acre_pool *pool;
    void *p, *q;
    unsigned char *host;
    api_ok(acre_pool_create(device, NULL, &pool));
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &other));
    api_ok(acre_mem_alloc(device, ACRE_KIND_PINNED, BYTES, 0, (void **)&host));
    api_ok(acre_soft_set_lag(device, LAG, 0));
    acre_stream stream = gone_after_fill(device, pool, &p);
    api_ok(acre_pool_free(pool, p, stream));
    api_ok(acre_pool_alloc(pool, BYTES, 0, other, &q));
    api_ok(acre_fill(device, q, 2, BYTES, other));
    api_ok(acre_soft_set_lag(device, 0, 0));
    api_ok(acre_copy(device, host, q, BYTES, other));
    api_ok(acre_device_sync(device));
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(host[i], 2);
    api_ok(acre_pool_free(pool, q, other));
    api_ok(acre_mem_free(device, host));
    api_ok(acre_stream_destroy(device, other));
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    api_ok(acre_close(device));
}

/* The next stream gets the handle of an idle destroyed one, but another id. */
API_TEST(gone_stream_handle_comes_back_with_another_id) {
    acre_stream stream, next;
    uint64_t id, next_id;
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
    api_ok(acre_stream_get_id(device, stream, &id));
    api_ok(acre_stream_destroy(device, stream));
    api_expect(acre_stream_sync(device, stream), ACRE_E_HANDLE);
    api_expect(acre_stream_destroy(device, stream), ACRE_E_HANDLE);
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &next));
    assert_ptr_equal(next, stream);
    api_ok(acre_stream_get_id(device, next, &next_id));
    assert_true(next_id != id);
    api_ok(acre_stream_sync(device, next));
    assert_int_equal(api_stats(device).streams_live, 1);
    api_ok(acre_stream_destroy(device, next));
    api_ok(acre_stream_create(device, ACRE_STREAM_DEFAULT, &next)); /* of another kind */
    assert_ptr_not_equal(next, stream);
    api_ok(acre_stream_destroy(device, next));
    assert_int_equal(api_stats(device).streams_live, 0);
}

int main(void) {
    /* Work on a block without order loses the device. */
    setenv("ACRE_SOFT_CHECK", "1", 1);
    return tests_run("gone streams");
}
