#include "gpu_fixture.h"
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef ACRE_HAVE_KERNELS
extern const unsigned char acre__ground_kernels_fatbin[];
static const unsigned char *const gpu_kernels = acre__ground_kernels_fatbin;
#else
static const unsigned char *const gpu_kernels = NULL;
#endif

static struct gpu gpu_one;

static void gpu_missing(const char *what) {
    fprintf(stderr, "skipped: %s (%s)\n", what, acre_last_detail());
    exit(getenv("ACRE_REQUIRE_CUDA") ? 1 : 77);
}

int gpu_setup(void **state) {
    struct gpu *gpu = &gpu_one;
    CUcontext ctx;
    CUdevice device;
    void *mailbox;
    if (acre_open("cuda", NULL, &gpu->dev))
        gpu_missing("no GPU found");
    if (!gpu_kernels)
        gpu_missing("built without nvcc, so there are no kernels");
    gpu->drv = gpu->dev->drv;
    assert_int_equal(gpu->drv->cuDeviceGet(&device, 0), CUDA_SUCCESS);
    assert_int_equal(gpu->drv->cuDevicePrimaryCtxRetain(&ctx, device), CUDA_SUCCESS);
    assert_int_equal(gpu->drv->cuCtxSetCurrent(ctx), CUDA_SUCCESS);
    assert_int_equal(gpu->drv->cuModuleLoadData(&gpu->module, gpu_kernels), CUDA_SUCCESS);
    assert_int_equal(gpu->drv->cuMemHostAlloc(&mailbox, 4096, CU_MEMHOSTALLOC_DEVICEMAP),
                     CUDA_SUCCESS);
    memset(mailbox, 0, 4096);
    gpu->mailbox = mailbox;
    assert_int_equal(gpu->drv->cuMemHostGetDevicePointer(&gpu->mailbox_device, mailbox, 0),
                     CUDA_SUCCESS);
    *state = gpu;
    return 0;
}

int gpu_teardown(void **state) {
    struct gpu *gpu = *state;
    gpu->drv->cuMemFreeHost((void *)(uintptr_t)gpu->mailbox);
    gpu->drv->cuModuleUnload(gpu->module);
    gpu->drv->cuCtxSetCurrent(NULL);
    gpu->drv->cuDevicePrimaryCtxRelease(0);
    return acre_close(gpu->dev) == ACRE_OK ? 0 : -1;
}

void gpu_launch(struct gpu *gpu, const char *kernel, unsigned blocks, unsigned threads,
                acre_stream stream, void **params) {
    CUfunction function;
    assert_int_equal(gpu->drv->cuModuleGetFunction(&function, gpu->module, kernel), CUDA_SUCCESS);
    assert_int_equal(
        gpu->drv->cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, params, NULL),
        CUDA_SUCCESS);
}
