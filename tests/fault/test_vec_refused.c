/* Vecs whose memory the driver refuses to unmap, and vecs that other devices use: addresses that
 * must not be reused, and memory that must not be released. */
#include "acre_soft.h"
#include "fault_device.h"
#include "support/rounds.h"

#define CHUNK ((size_t)2 << 20)

static acre_vec *vec_of(acre_device *device, size_t bytes) {
    acre_vec *vec;
    acre_vec_options options = {.struct_size = sizeof options, .address_bytes = 16 * CHUNK};
    api_ok(acre_vec_create(device, 1, &options, &vec));
    if (bytes)
        api_ok(acre_vec_grow(vec, bytes, NULL));
    return vec;
}

/* The memory stays mapped, so the vec must keep its address, whatever is trimmed and allocated
 * meanwhile. */
API_TEST(vec_that_cannot_be_emptied_keeps_its_address) {
    acre_vec *vec = vec_of(device, 3 * CHUNK);
    char *data = acre_vec_data(vec);
    fault_on("cuMemUnmap", 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
    api_ok(acre_vec_resize(vec, 0, NULL));
    fault_off();
    api_ok(acre_trim(device));
    assert_ptr_equal(acre_vec_data(vec), data);
    acre_vec *others[4];
    void *block;
    for (int i = 0; i < 4; i++) {
        others[i] = vec_of(device, CHUNK);
        char *other = acre_vec_data(others[i]);
        assert_true(other >= data + 16 * CHUNK || other + 16 * CHUNK <= data);
    }
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 3 * CHUNK, 0, &block));
    api_ok(acre_vec_grow(vec, 5 * CHUNK, NULL)); /* the vec can still grow */
    api_ok(acre_fill_sync(device, acre_vec_data(vec), 7, 5 * CHUNK));
    for (int i = 0; i < 4; i++)
        api_ok(acre_vec_destroy(others[i], NULL));
    api_ok(acre_mem_free(device, block));
    api_ok(acre_vec_destroy(vec, NULL));
    assert_int_equal(api_stats(device).limbo_count, 0);
}

/* Every place where the driver can refuse to undo a first growth: the vec loses the addresses, and
 * nothing else gets them. */
API_TEST(vec_whose_first_growth_cannot_be_undone_goes_elsewhere) {
    acre_vec *vec = vec_of(device, 0);
    fault_on("cuMemSetAccess", 1, ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN);
    api_expect(acre_vec_grow(vec, CHUNK, NULL), ACRE_E_DRIVER);
    fault_off();
    /* As above, with every undo refused. */
    setenv("ACRE_CHUNK_CACHE_BYTES", "0", 1);
    struct acre__fault_plan plan = {"cuMemUnmap", 1, CUDA_ERROR_UNKNOWN, ACRE__FAULT_FROM};
    api_ok(acre__fault_set(&plan));
    acre_vec *small;
    acre_vec_options options = {.struct_size = sizeof options, .address_bytes = CHUNK};
    api_ok(acre_vec_create(device, 1, &options, &small));
    acre_vec *behind = vec_of(device, 0);
    api_ok(acre_vec_grow(small, CHUNK, NULL));
    api_ok(acre_vec_grow(small, CHUNK, NULL)); /* moves; the old addresses cannot be unmapped */
    fault_off();
    unsetenv("ACRE_CHUNK_CACHE_BYTES");
    assert_int_equal(api_stats(device).limbo_count, 1);
    acre_vec *another = vec_of(device, CHUNK);
    assert_ptr_not_equal(acre_vec_data(another), acre_vec_data(small));
    api_ok(acre_trim(device));
    assert_int_equal(api_stats(device).limbo_count, 0);
    api_ok(acre_vec_grow(vec, CHUNK, NULL));
    api_ok(acre_vec_destroy(another, NULL));
    api_ok(acre_vec_destroy(behind, NULL));
    api_ok(acre_vec_destroy(small, NULL));
    api_ok(acre_vec_destroy(vec, NULL));
}

/* ---- other devices ---- */

static void queue_much(acre_device *device, void *to, const void *from, size_t bytes,
                       acre_stream stream) {
    for (int i = 0; i < 200; i++)
        api_ok(acre_copy(device, to, from, bytes, stream));
}

TEST(vec_that_a_peer_uses_waits_for_it) {
    acre_device *devices[2];
    acre_stream stream;
    void *memory;
    api_open_two(devices);
    acre_vec *vec = vec_of(devices[0], 4 * CHUNK);
    api_ok(acre_stream_create(devices[1], ACRE_STREAM_NON_BLOCKING, &stream));
    api_ok(acre_mem_alloc(devices[1], ACRE_KIND_DEVICE, 4 * CHUNK, 0, &memory));
    api_expect(acre_vec_record_use(vec, stream), ACRE_E_HANDLE); /* the device has no access */
    api_ok(acre_vec_set_access(vec, devices[1], ACRE_ACCESS_READ));
    queue_much(devices[1], memory, acre_vec_data(vec), 4 * CHUNK, stream);
    api_ok(acre_vec_record_use(vec, stream));
    api_ok(acre_vec_resize(vec, 0, NULL));
    /* The memory was not released during the copies. */
    api_ok(acre_stream_sync(devices[1], stream));
    api_ok(acre_vec_destroy(vec, NULL));
    api_ok(acre_mem_free(devices[1], memory));
    api_ok(acre_stream_destroy(devices[1], stream));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

TEST(mem_free_waits_for_copies_of_other_devices) {
    acre_device *devices[2];
    acre_stream stream;
    void *memory, *block;
    api_open_two(devices);
    api_ok(acre_stream_create(devices[1], ACRE_STREAM_NON_BLOCKING, &stream));
    api_ok(acre_mem_alloc(devices[1], ACRE_KIND_DEVICE, 4 * CHUNK, 0, &memory));
    api_ok(acre_mem_alloc(devices[0], ACRE_KIND_DEVICE, 4 * CHUNK, 0, &block));
    queue_much(devices[1], memory, block, 4 * CHUNK, stream);
    api_ok(acre_mem_free(devices[0], block));
    api_ok(acre_stream_sync(devices[1], stream));
    api_ok(acre_mem_free(devices[1], memory));
    api_ok(acre_stream_destroy(devices[1], stream));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

/* ---- copies that the driver does not confirm ---- */

/* Copies pageable memory while the driver fails from call `nth` on. Transfers that were queued may
 * still run when the copy fails, since no wait succeeds. Returns how many calls failed. */
static uint64_t copies_fail_from(acre_device *device, acre_stream stream, acre_pool *pool,
                                 const char *from, uint32_t nth) {
    acre_vec *vec = vec_of(device, 0);
    char *block;
    api_ok(acre_pool_alloc(pool, 4 * CHUNK, 0, stream, (void **)&block));
    fault_on(NULL, nth, ACRE__FAULT_FROM, CUDA_ERROR_OUT_OF_MEMORY);
    (void)acre_vec_append(vec, from, 4 * CHUNK, stream);
    (void)acre_copy(device, block, from, 4 * CHUNK, stream);
    (void)acre_vec_resize(vec, 0, stream);
    (void)acre_pool_trim(pool, 0);
    uint64_t fired = fault_off();
    api_ok(acre_pool_free(pool, block, stream));
    api_ok(acre_stream_sync(device, stream));
    api_ok(acre_pool_trim(pool, 0));
    api_ok(acre_vec_destroy(vec, stream));
    api_ok(acre_trim(device));
    api_ok(acre_device_sync(device)); /* nothing wrote to memory that was unmapped */
    return fired;
}

/* The device lags, so that transfers of a failed copy run as late as they can. */
TEST(memory_of_failed_copies_stays_mapped_while_transfers_run) {
    acre_device *device;
    acre_stream stream;
    acre_pool *pool;
    char *from = calloc(4, CHUNK);
    assert_non_null(from);
    api_ok(acre_open("soft", NULL, &device));
    api_ok(acre_soft_set_lag(device, 1000, 0));
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
    api_ok(acre_pool_create(device, NULL, &pool));
    uint32_t nth = 1;
    while (copies_fail_from(device, stream, pool, from, nth))
        nth += ROUNDS(1, 3);
    assert_true(nth > 100);
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    api_ok(acre_stream_destroy(device, stream));
    api_ok(acre_close(device));
    free(from);
}

/* ---- growing ahead by little ---- */

API_TEST(vec_with_one_byte_ahead_takes_little) {
    acre_vec *vec;
    acre_vec_options options = {.struct_size = sizeof options, .ahead_bytes = 1};
    api_ok(acre_vec_create(device, 1, &options, &vec));
    for (int i = 0; i < 8; i++)
        api_ok(acre_vec_grow(vec, CHUNK, NULL));
    assert_true(acre_vec_mapped_bytes(vec) <= 16 * CHUNK);
    api_ok(acre_vec_destroy(vec, NULL));
}

int main(void) {
    fault_begin();
    return tests_run("vec_refused");
}
