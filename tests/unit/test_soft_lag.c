/* A soft device that lags behind the host: work becomes due after a number of operations or after a
 * time. A host that waits, or keeps querying, lets the device catch up. */
#include "soft_fixture.h"

#include "acre_soft.h"
#include "device/device.h"

static CUdeviceptr memory;

static void lag_begin(uint64_t operations, uint64_t ns, int seeded) {
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.lag_operations = operations;
    config.lag_ns = ns;
    config.seeded = seeded;
    config.check = seeded;
    soft_begin_with(&config);
    assert_ok(drv->cuMemAlloc(&memory, 64));
}

static CUevent lag_event(void) {
    CUevent event = NULL;
    assert_ok(drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static void fill_times(CUstream stream, int count) {
    for (int i = 0; i < count; i++)
        assert_ok(drv->cuMemsetD8Async(memory, 7, 64, stream));
}

SOFT_TEST_BARE(lag_work_is_done_so_many_operations_later) {
    lag_begin(10, 0, 0);
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = lag_event();
    fill_times(stream, 1);
    assert_ok(drv->cuEventRecord(event, stream));
    fill_times(stream, 9);
    assert_int_equal(drv->cuEventQuery(event), CUDA_ERROR_NOT_READY);
    fill_times(stream, 1);
    assert_ok(drv->cuEventQuery(event));
    assert_int_equal(drv->cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
}

SOFT_TEST_BARE(lag_counts_operations_of_all_streams) {
    lag_begin(4, 0, 0);
    CUstream one = soft_stream(CU_STREAM_NON_BLOCKING), other = soft_stream(CU_STREAM_NON_BLOCKING);
    fill_times(one, 1);
    fill_times(other, 3);
    assert_int_equal(drv->cuStreamQuery(one), CUDA_ERROR_NOT_READY);
    fill_times(other, 1);
    assert_ok(drv->cuStreamQuery(one));
}

SOFT_TEST_BARE(lag_ends_for_what_the_host_waits_for) {
    lag_begin(1000, 0, 0);
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = lag_event();
    fill_times(stream, 3);
    assert_ok(drv->cuEventRecord(event, stream));
    assert_ok(drv->cuEventSynchronize(event));
    assert_true(soft_is_filled(memory, 64, 7));
    assert_ok(drv->cuStreamQuery(stream));
    fill_times(stream, 1); /* the device lags again */
    assert_int_equal(drv->cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    assert_ok(drv->cuCtxSynchronize());
    assert_ok(drv->cuStreamQuery(stream));
}

SOFT_TEST_BARE(lag_ends_for_a_host_that_only_asks) {
    lag_begin(1000, 0, 0);
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    fill_times(stream, 3);
    int asked = 0;
    while (drv->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        assert_true(asked++ < 100000);
    assert_true(asked > 100); /* a few queries do not end the lag */
}

SOFT_TEST_BARE(lag_leaves_host_functions_to_workers) {
    lag_begin(2, 0, 0);
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    _Atomic int ran = 0;
    assert_ok(drv->cuLaunchHostFunc(stream, soft_note, &ran));
    fill_times(stream, 1);
    assert_int_equal(atomic_load(&ran), 0);
    fill_times(stream, 3);
    assert_true(soft_eventually(atomic_load(&ran) == 1));
    assert_ok(drv->cuStreamSynchronize(stream));
}

SOFT_TEST_BARE(lag_holds_for_a_stream_that_waits_for_another) {
    lag_begin(5, 0, 0);
    CUstream one = soft_stream(CU_STREAM_NON_BLOCKING), other = soft_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = lag_event();
    fill_times(one, 1);
    assert_ok(drv->cuEventRecord(event, one));
    assert_ok(drv->cuStreamWaitEvent(other, event, 0));
    fill_times(other, 1);
    assert_int_equal(drv->cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    assert_ok(drv->cuStreamSynchronize(other));
    assert_ok(drv->cuEventQuery(event));
}

SOFT_TEST_BARE(lag_work_of_a_destroyed_stream_is_done_too) {
    lag_begin(5, 0, 0);
    CUstream one = soft_stream(CU_STREAM_NON_BLOCKING), other = soft_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = lag_event();
    size_t before = soft_stream_count(0);
    fill_times(one, 1);
    assert_ok(drv->cuEventRecord(event, one));
    assert_ok(drv->cuStreamDestroy(one));
    assert_int_equal(soft_stream_count(0), before);
    fill_times(other, 5);
    assert_ok(drv->cuEventQuery(event));
    assert_int_equal(soft_stream_count(0), before - 1);
}

SOFT_TEST_BARE(lag_in_time_is_over_when_the_time_is) {
    lag_begin(0, 50000000, 0);
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    fill_times(stream, 3);
    assert_true(soft_eventually(drv->cuStreamQuery(stream) == CUDA_SUCCESS)); /* no thread waits */
    clock_gettime(CLOCK_MONOTONIC, &after);
    int64_t took =
        (after.tv_sec - before.tv_sec) * INT64_C(1000000000) + (after.tv_nsec - before.tv_nsec);
    assert_true(took >= 50000000);
    fill_times(stream, 1);
    assert_ok(drv->cuStreamSynchronize(stream));
}

SOFT_TEST_BARE(lag_holds_under_a_seed) {
    lag_begin(6, 0, 1);
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUevent event = lag_event();
    fill_times(stream, 1);
    assert_ok(drv->cuEventRecord(event, stream));
    for (int i = 0; i < 50; i++) /* the scheduler could run work in each call */
        assert_int_equal(drv->cuEventQuery(event), CUDA_ERROR_NOT_READY);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_ok(drv->cuEventQuery(event));
}

SOFT_TEST_BARE(lag_can_be_set_on_an_open_device) {
    acre_device *device;
    acre_stream stream;
    void *p;
    acre_open_options options = {
        .struct_size = sizeof options, .soft_bytes = 64 * MIB, .soft_devices = 1};
    acre__soft_reset();
    assert_int_equal(acre_open("soft", &options, &device), ACRE_OK);
    drv = device->drv;
    assert_int_equal(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream), ACRE_OK);
    assert_int_equal(acre_mem_alloc(device, ACRE_KIND_DEVICE, 4096, 0, &p), ACRE_OK);
    assert_int_equal(acre_soft_set_lag(device, 100, 0), ACRE_OK);
    assert_int_equal(acre_fill(device, p, 1, 64, stream), ACRE_OK);
    assert_int_equal(acre_stream_query(device, stream), ACRE_E_NOT_READY);
    assert_int_equal(acre_soft_set_lag(device, 0, 0), ACRE_OK);
    assert_int_equal(acre_stream_query(device, stream), ACRE_OK);
    assert_int_equal(acre_soft_set_lag(device, 1, 1), ACRE_E_INVALID);
    assert_int_equal(acre_soft_set_lag(NULL, 1, 0), ACRE_E_NULL);
    assert_int_equal(acre_close(device), ACRE_OK);
}

TEST(lag_variable_is_read) {
    struct acre__soft_config config;
    setenv("ACRE_SOFT_LAG", "1000", 1);
    assert_int_equal(acre__soft_config_default(&config), ACRE_OK);
    assert_true(config.lag_operations == 1000 && config.lag_ns == 0);
    setenv("ACRE_SOFT_LAG", "5ms", 1);
    assert_int_equal(acre__soft_config_default(&config), ACRE_OK);
    assert_true(config.lag_operations == 0 && config.lag_ns == 5000000);
    const char *const wrong[] = {"x", "5s", "-1", "18446744073709551615ms", "5 ms"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("ACRE_SOFT_LAG", wrong[i], 1);
        assert_int_equal(acre__soft_config_default(&config), ACRE_E_CONFIG);
    }
    setenv("ACRE_SOFT_LAG", "5ms", 1);
    setenv("ACRE_SOFT_SEED", "1", 1);
    assert_int_equal(acre__soft_config_default(&config), ACRE_E_CONFIG);
    unsetenv("ACRE_SOFT_SEED");
    unsetenv("ACRE_SOFT_LAG");
}

int main(void) {
    return tests_run("soft_lag");
}
