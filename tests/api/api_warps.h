/* For tests that run kernels of the soft device: each test runs with warps of 32 lanes and with
 * warps of one lane. */
#ifndef ACRE_TESTS_API_WARPS_H
#define ACRE_TESTS_API_WARPS_H

#include "api_devices.h"

static acre_device *device;

static int begin_with(const char *warp) {
    setenv("ACRE_SOFT_WARP", warp, 1);
    return acre_open("soft", NULL, &device) != ACRE_OK;
}
static int begin_32(void **state) {
    (void)state;
    return begin_with("32");
}
static int begin_1(void **state) {
    (void)state;
    return begin_with("1");
}
static int end(void **state) {
    (void)state;
    return acre_close(device) != ACRE_OK;
}

#define BOTH(test)                                                                                 \
    cmocka_unit_test_setup_teardown(test, begin_32, end),                                          \
        cmocka_unit_test_setup_teardown(test, begin_1, end)

#endif
