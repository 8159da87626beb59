/* A GPU opened through acre's API, and kernels on it, for the tests in this folder. */
#ifndef ACRE_TESTS_GPU_FIXTURE_H
#define ACRE_TESTS_GPU_FIXTURE_H

#include "acre.h"
#include "driver/driver.h"

struct gpu {
    acre_device *dev;
    const struct acre__driver *drv;
    CUmodule module;
    /* Mapped host memory, 4 KiB, zeroed: kernels and the host communicate through it. */
    volatile unsigned long long *mailbox;
    CUdeviceptr mailbox_device;
};

/* cmocka's group setup and teardown: *state is a struct gpu *. Without a GPU, or without kernels,
 * the program exits with 77 (skipped), or with 1 if ACRE_REQUIRE_CUDA is set. The device's context
 * is current during the tests. */
int gpu_setup(void **state);
int gpu_teardown(void **state);

/* Launches a kernel; fails the test if the launch fails. */
void gpu_launch(struct gpu *gpu, const char *kernel, unsigned blocks, unsigned threads,
                acre_stream stream, void **params);

#endif
