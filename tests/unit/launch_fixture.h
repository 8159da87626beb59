/* Fixture for tests of soft-device kernels: a soft device with warps of 1 or 32 lanes, scheduled by
 * threads or by a seed, and launches that wait for their kernel. */
#ifndef ACRE_TESTS_UNIT_LAUNCH_FIXTURE_H
#define ACRE_TESTS_UNIT_LAUNCH_FIXTURE_H

#include "unit/soft_fixture.h"

#include "acre_soft.h"

static acre_device *launch_device;
static const char *launch_seed, *launch_warp; /* ACRE_SOFT_SEED or NULL, ACRE_SOFT_WARP */

static inline void launch_begin(const char *seed, const char *warp) {
    launch_seed = seed;
    launch_warp = warp;
    setenv("ACRE_SOFT_BYTES", "64MiB", 1);
    setenv("ACRE_SOFT_DEVICES", "2", 1);
    setenv("ACRE_SOFT_WARP", warp, 1);
    if (seed)
        setenv("ACRE_SOFT_SEED", seed, 1);
    else
        unsetenv("ACRE_SOFT_SEED");
    acre__soft_reset();
    assert_int_equal(acre_open("soft", NULL, &launch_device), ACRE_OK);
}

static inline void launch_end(void) {
    assert_int_equal(acre_close(launch_device), ACRE_OK);
    acre__soft_reset();
}

static inline void launch_reopen(void) {
    launch_end();
    launch_begin(launch_seed, launch_warp);
}

static inline int launch_is_seeded(void) {
    return launch_seed != NULL;
}

static inline uint32_t launch_lanes(void) {
    return launch_warp[0] == '1' ? 1 : 32;
}

/* Runs the kernel on a new stream and waits for it. */
static inline void launch_run3(const uint32_t grid[3], const uint32_t block[3], size_t shared_bytes,
                               acre_soft_kernel kernel, void *arg) {
    acre_stream stream;
    assert_int_equal(acre_stream_create(launch_device, 0, &stream), ACRE_OK);
    assert_int_equal(
        acre_soft_launch(launch_device, stream, kernel, grid, block, shared_bytes, arg), ACRE_OK);
    assert_int_equal(acre_stream_sync(launch_device, stream), ACRE_OK);
    assert_int_equal(acre_stream_destroy(launch_device, stream), ACRE_OK);
}

static inline void launch_run(uint32_t blocks, uint32_t threads, size_t shared_bytes,
                              acre_soft_kernel kernel, void *arg) {
    launch_run3((uint32_t[]){blocks, 1, 1}, (uint32_t[]){threads, 1, 1}, shared_bytes, kernel, arg);
}

/* Makes the device's context current for raw driver calls, until launch_driver_end. */
static inline void launch_driver_begin(void) {
    drv = acre__driver_soft();
    assert_ok(drv->cuDevicePrimaryCtxRetain(&soft_ctx[0], 0));
    assert_ok(drv->cuCtxPushCurrent(soft_ctx[0]));
}

static inline void launch_driver_end(void) {
    assert_ok(drv->cuCtxPopCurrent(NULL));
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
}

static inline int launch_setup_32(void **state) {
    (void)state;
    launch_begin(NULL, "32");
    return 0;
}

static inline int launch_setup_1(void **state) {
    (void)state;
    launch_begin(NULL, "1");
    return 0;
}

static inline int launch_setup_seed_32(void **state) {
    (void)state;
    launch_begin("20", "32");
    return 0;
}

static inline int launch_setup_seed_1(void **state) {
    (void)state;
    launch_begin("21", "1");
    return 0;
}

static inline int launch_teardown(void **state) {
    (void)state;
    launch_end();
    return 0;
}

#define LAUNCH_TEST(test, setup, teardown) cmocka_unit_test_setup_teardown(test, setup, teardown)

#endif
