/* Devices: the current device of a thread, when its context is created, properties, limits and
 * flags, and a program that also uses the driver. */
#include <pthread.h>

#include <cuda.h>

#include "runtime_expect.h"

/* Runs the function in a thread that has not called CUDA. */
static void in_thread(void *(*function)(void *), void *argument) {
    pthread_t thread;
    void *done = NULL;
    assert_int_equal(pthread_create(&thread, NULL, function, argument), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    assert_ptr_equal(done, argument);
}

static CUcontext current(void) {
    CUcontext ctx = NULL;
    assert_int_equal(cuCtxGetCurrent(&ctx), CUDA_SUCCESS);
    return ctx;
}

/* ---- contexts ---- */

/* The first test: the process has made no call yet. */
static void *device_begins(void *argument) {
    unsigned flags = 0;
    int count = 0, device = -1, active = -1;
    struct cudaDeviceProp prop;
    ok(cudaGetDeviceCount(&count));
    assert_true(count >= 1);
    ok(cudaGetDevice(&device));
    assert_int_equal(device, 0);
    ok(cudaGetDeviceProperties(&prop, 0));
    assert_null(current());
    assert_int_equal(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    assert_int_equal(active, 0);
    ok(cudaFree(NULL));
    assert_non_null(current());
    assert_int_equal(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    assert_int_equal(active, 1);
    return argument;
}

static void device_context_is_made_by_the_first_call_that_needs_it(void **state) {
    int argument;
    (void)state;
    in_thread(device_begins, &argument);
}

/* All threads share the primary context and its memory. */
static void *device_uses(void *argument) {
    assert_null(current());
    ok(cudaMemset(argument, 5, 64));
    assert_int_equal(device_byte(argument), 5);
    return argument;
}

static void device_context_is_shared_by_threads(void **state) {
    void *p = device_block(64);
    (void)state;
    in_thread(device_uses, p);
    ok(cudaFree(p));
}

static void *device_chooses(void *argument) {
    int device = -1;
    CUcontext ctx;
    ok(cudaGetDevice(&device));
    assert_int_equal(device, 0);
    ok(cudaSetDevice(1));
    ctx = current();
    assert_non_null(ctx);
    ok(cudaGetDevice(&device));
    assert_int_equal(device, 1);
    expect(cudaErrorInvalidDevice, cudaSetDevice(99));
    expect(cudaErrorInvalidDevice, cudaSetDevice(-1));
    ok(cudaGetDevice(&device));
    assert_int_equal(device, 1);
    ok(cudaSetDevice(0));
    assert_ptr_not_equal(current(), ctx);
    ok(cudaSetDevice(1));
    assert_ptr_equal(current(), ctx);
    return argument;
}

static void device_is_the_threads_own(void **state) {
    struct cudaPointerAttributes found;
    int count = 0, device = -1;
    void *p;
    (void)state;
    ok(cudaGetDeviceCount(&count));
    if (count < 2)
        skip();
    in_thread(device_chooses, &count);
    ok(cudaGetDevice(&device));
    assert_int_equal(device, 0);
    ok(cudaSetDevice(1));
    p = device_block(64);
    ok(cudaSetDevice(0));
    ok(cudaPointerGetAttributes(&found, p));
    assert_int_equal(found.device, 1);
    ok(cudaFree(p)); /* from the other device: all devices share one address space */
    expect(cudaErrorInvalidValue, cudaGetDevice(NULL));
}

static void device_init_makes_a_context_that_is_not_current(void **state) {
    int count = 0, device = -1;
    (void)state;
    ok(cudaGetDeviceCount(&count));
    ok(cudaInitDevice(count - 1, 0, 0));
    ok(cudaGetDevice(&device));
    assert_int_equal(device, 0);
    expect(cudaErrorInvalidDevice, cudaInitDevice(99, 0, 0));
    ok(cudaInitDevice(0, 0, 2)); /* only the first bit, which marks the flags as valid, is read */
    expect(cudaErrorInvalidValue, cudaInitDevice(0, 3, cudaInitDeviceFlagsAreValid));
    ok(cudaInitDevice(0, cudaDeviceScheduleYield, cudaInitDeviceFlagsAreValid));
}

static void *device_of_valid_ones(void *argument) {
    int device = -1;
    ok(cudaGetDevice(&device));
    assert_int_equal(device, *(int *)argument);
    return argument;
}

static void device_valid_ones_are_tried_in_their_order(void **state) {
    int order[] = {1, 0}, bad[] = {99}, count = 0, first = 1;
    (void)state;
    ok(cudaGetDeviceCount(&count));
    if (count < 2)
        skip();
    ok(cudaSetValidDevices(order, 2));
    in_thread(device_of_valid_ones, &first);
    ok(cudaSetValidDevices(NULL, 0));
    first = 0;
    in_thread(device_of_valid_ones, &first);
    expect(cudaErrorInvalidDevice, cudaSetValidDevices(bad, 1));
    expect(cudaErrorInvalidValue, cudaSetValidDevices(NULL, 1));
    expect(cudaErrorInvalidValue, cudaSetValidDevices(order, count + 1));
}

/* ---- reset ---- */

struct reset {
    char *p;
    _Atomic int is_ready, is_reset;
};

/* Another thread resets the context while it is current here. */
static void *reset_other_thread(void *argument) {
    struct reset *reset = argument;
    void *p = NULL;
    ok(cudaMemset(reset->p, 1, 64));
    atomic_store(&reset->is_ready, 1);
    assert_true(gate_wait(&reset->is_reset));
    expect(cudaErrorInvalidValue, cudaMemset(reset->p, 1, 64));
    ok(cudaMalloc(&p, 64));
    ok(cudaMemset(p, 1, 64));
    ok(cudaFree(p));
    return argument;
}

static void device_reset_ends_everything_and_begins_again(void **state) {
    struct reset reset = {.p = device_block(64)};
    size_t free_before, free_after, total;
    unsigned char byte = 0;
    pthread_t thread;
    void *pinned = NULL, *more = NULL;
    (void)state;
    ok(cudaMemGetInfo(&free_before, &total));
    more = device_block((size_t)8 << 20);
    ok(cudaMallocHost(&pinned, 64));
    assert_int_equal(pthread_create(&thread, NULL, reset_other_thread, &reset), 0);
    assert_true(gate_wait(&reset.is_ready));
    ok(cudaDeviceReset());
    atomic_store(&reset.is_reset, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect(cudaErrorInvalidValue, cudaFree(reset.p));
    expect(cudaErrorInvalidValue, cudaFree(more));
    expect(cudaErrorInvalidValue, cudaFreeHost(pinned));
    expect(cudaErrorInvalidValue, cudaMemcpy(&byte, reset.p, 1, cudaMemcpyDeviceToHost));
    ok(cudaMemGetInfo(&free_after, &total));
    assert_true(free_after >= free_before);
    more = device_block(64);
    ok(cudaFree(more));
    ok(cudaDeviceReset());
    ok(cudaDeviceReset()); /* no context exists */
    ok(cudaDeviceSynchronize());
}

/* ---- properties ---- */

static void device_properties_agree_with_attributes(void **state) {
    struct cudaDeviceProp prop, wish;
    size_t free_bytes, total;
    int value = -1, device = -1, count;
    (void)state;
    ok(cudaGetDeviceProperties(&prop, 0));
    assert_true(prop.name[0] != '\0');
    ok(cudaMemGetInfo(&free_bytes, &total));
    assert_int_equal(prop.totalGlobalMem, total);
    ok(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    assert_int_equal(prop.multiProcessorCount, value);
    assert_true(value > 0);
    ok(cudaDeviceGetAttribute(&value, cudaDevAttrMaxPitch, 0));
    assert_int_equal(prop.memPitch, value);
    ok(cudaDeviceGetAttribute(&value, cudaDevAttrUnifiedAddressing, 0));
    assert_int_equal(prop.unifiedAddressing, value);
    assert_int_equal(value, 1);
    assert_int_equal(prop.managedMemory, 1);
    assert_int_equal(prop.canMapHostMemory, 1);
    ok(cudaGetDeviceCount(&count));
    expect(cudaErrorInvalidDevice, cudaGetDeviceProperties(&prop, count));
    expect(cudaErrorInvalidDevice, cudaGetDeviceProperties(&prop, -1));
    expect(cudaErrorInvalidValue, cudaGetDeviceProperties(NULL, 0));
    expect(cudaErrorInvalidDevice, cudaDeviceGetAttribute(&value, cudaDevAttrMaxPitch, count));
    expect(cudaErrorInvalidValue, cudaDeviceGetAttribute(NULL, cudaDevAttrMaxPitch, 0));
    expect(cudaErrorInvalidValue, cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)0, 0));
    memset(&wish, 0, sizeof wish);
    wish.totalGlobalMem = 1;
    ok(cudaChooseDevice(&device, &wish));
    assert_int_equal(device, 0);
    expect(cudaErrorInvalidValue, cudaChooseDevice(NULL, &wish));
    expect(cudaErrorInvalidValue, cudaChooseDevice(&device, NULL));
}

/* Programs divide by these, or compare them with each other. */
static void device_properties_are_those_of_a_gpu(void **state) {
    static const enum cudaDeviceAttr positive[] = {
        cudaDevAttrClockRate,
        cudaDevAttrMemoryClockRate,
        cudaDevAttrGlobalMemoryBusWidth,
        cudaDevAttrL2CacheSize,
        cudaDevAttrMaxRegistersPerMultiprocessor,
        cudaDevAttrMaxBlocksPerMultiprocessor,
        cudaDevAttrSurfaceAlignment,
        cudaDevAttrTexturePitchAlignment,
        cudaDevAttrSingleToDoublePrecisionPerfRatio,
        cudaDevAttrCooperativeLaunch,
        cudaDevAttrComputePreemptionSupported,
        cudaDevAttrMaxTexture1DLinearWidth,
    };
    struct cudaDeviceProp prop;
    int value;
    (void)state;
    for (size_t i = 0; i < sizeof positive / sizeof positive[0]; i++) {
        ok(cudaDeviceGetAttribute(&value, positive[i], 0));
        if (value <= 0)
            fail_msg("attribute %d is %d", (int)positive[i], value);
    }
    ok(cudaGetDeviceProperties(&prop, 0));
    assert_true(prop.sharedMemPerBlock > 0);
    assert_true(prop.sharedMemPerBlockOptin >= prop.sharedMemPerBlock);
    assert_true(prop.sharedMemPerMultiprocessor >= prop.sharedMemPerBlockOptin);
    assert_true(prop.maxThreadsPerMultiProcessor >= prop.maxThreadsPerBlock);
    assert_true(prop.maxTexture1D > 0 && prop.maxTexture2D[1] > 0 && prop.maxTexture3D[2] > 0);
    assert_true(prop.maxSurface1D > 0 && prop.maxSurface2D[1] > 0 && prop.maxSurface3D[2] > 0);
    ok(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSurfaceCubemapLayeredLayers, 0));
    assert_int_equal(prop.maxSurfaceCubemapLayered[1], value);
}

static void device_versions(void **state) {
    int driver = 0, runtime = 0;
    (void)state;
    ok(cudaDriverGetVersion(&driver));
    ok(cudaRuntimeGetVersion(&runtime));
    assert_int_equal(runtime / 1000, 13);
    assert_true(driver >= runtime);
    expect(cudaErrorInvalidValue, cudaDriverGetVersion(NULL));
    expect(cudaErrorInvalidValue, cudaRuntimeGetVersion(NULL));
    expect(cudaErrorInvalidValue, cudaGetDeviceCount(NULL));
}

static void device_bus_place_leads_back(void **state) {
    char text[32];
    int device = -1;
    (void)state;
    ok(cudaDeviceGetPCIBusId(text, sizeof text, 0));
    ok(cudaDeviceGetByPCIBusId(&device, text));
    assert_int_equal(device, 0);
    expect(cudaErrorInvalidDevice, cudaDeviceGetPCIBusId(text, sizeof text, 99));
    expect(cudaErrorInvalidValue, cudaDeviceGetPCIBusId(NULL, sizeof text, 0));
    expect(cudaErrorInvalidValue, cudaDeviceGetPCIBusId(text, 0, 0));
    expect(cudaErrorInvalidValue, cudaDeviceGetByPCIBusId(NULL, text));
    expect(cudaErrorInvalidValue, cudaDeviceGetByPCIBusId(&device, NULL));
}

static void device_limits_are_kept(void **state) {
    size_t before = 0, value = 0;
    (void)state;
    ok(cudaDeviceGetLimit(&before, cudaLimitStackSize));
    ok(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    ok(cudaDeviceGetLimit(&value, cudaLimitStackSize));
    assert_int_equal(value, 4096);
    ok(cudaDeviceSetLimit(cudaLimitStackSize, before));
    ok(cudaDeviceSetLimit(cudaLimitMallocHeapSize, (size_t)16 << 20));
    ok(cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize));
    assert_int_equal(value, (size_t)16 << 20);
    expect(cudaErrorInvalidValue, cudaDeviceGetLimit(NULL, cudaLimitStackSize));
    expect(cudaErrorInvalidValue, cudaDeviceGetLimit(&value, (enum cudaLimit)99));
    expect(cudaErrorInvalidValue, cudaDeviceSetLimit((enum cudaLimit)99, 1));
}

static void device_flags_are_kept(void **state) {
    unsigned flags = 0;
    (void)state;
    ok(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    ok(cudaGetDeviceFlags(&flags));
    assert_int_equal(flags, cudaDeviceScheduleBlockingSync | cudaDeviceMapHost);
    ok(cudaSetDeviceFlags(cudaDeviceScheduleAuto));
    ok(cudaGetDeviceFlags(&flags));
    assert_int_equal(flags, cudaDeviceMapHost);
    expect(cudaErrorInvalidValue, cudaSetDeviceFlags(cudaDeviceScheduleSpin | 2));
    expect(cudaErrorInvalidValue, cudaSetDeviceFlags(0x1000));
    expect(cudaErrorInvalidValue, cudaGetDeviceFlags(NULL));
}

static void device_neighbours(void **state) {
    int can = -1, value = -1, count = 0;
    (void)state;
    ok(cudaGetDeviceCount(&count));
    ok(cudaDeviceCanAccessPeer(&can, 0, 0));
    assert_int_equal(can, 0);
    expect(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&can, 0, count));
    expect(cudaErrorInvalidValue, cudaDeviceCanAccessPeer(NULL, 0, 0));
    expect(cudaErrorInvalidDevice,
           cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 0));
    expect(cudaErrorInvalidDevice,
           cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 99));
    expect(cudaErrorInvalidDevice,
           cudaDeviceGetP2PAttribute(&value, (enum cudaDeviceP2PAttr)99, 0, 0));
    if (count < 2)
        skip();
    ok(cudaDeviceCanAccessPeer(&can, 0, 1));
    ok(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 1));
    assert_int_equal(value, can);
    expect(cudaErrorInvalidValue,
           cudaDeviceGetP2PAttribute(&value, (enum cudaDeviceP2PAttr)99, 0, 1));
    expect(cudaErrorInvalidValue,
           cudaDeviceGetP2PAttribute(NULL, cudaDevP2PAttrAccessSupported, 0, 1));
}

/* ---- with the driver ---- */

/* The runtime uses a context that the program created with the driver. */
static void *device_own_context(void *argument) {
    CUcontext own = NULL, found = NULL;
    CUstream stream;
    unsigned flags = 0;
    int device = -1;
    void *p;
    assert_int_equal(cuCtxCreate(&own, NULL, CU_CTX_SCHED_SPIN, 0), CUDA_SUCCESS);
    p = device_block(64);
    ok(cudaStreamCreate(&stream));
    assert_int_equal(cuStreamGetCtx(stream, &found), CUDA_SUCCESS);
    assert_ptr_equal(found, own);
    ok(cudaGetDevice(&device));
    assert_int_equal(device, 0);
    ok(cudaGetDeviceFlags(&flags));
    assert_int_equal(flags & cudaDeviceScheduleMask, cudaDeviceScheduleSpin);
    ok(cudaMemset(p, 1, 64));
    assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
    ok(cudaFree(p));
    assert_int_equal(cuCtxDestroy(own), CUDA_SUCCESS);
    return argument;
}

static void device_context_of_the_program_is_used(void **state) {
    int argument;
    (void)state;
    in_thread(device_own_context, &argument);
}

static void device_driver_functions_are_found(void **state) {
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointVersionNotSufficent;
    CUresult (*alloc)(CUdeviceptr *, size_t) = NULL;
    void *other = NULL;
    CUdeviceptr ptr = 0;
    (void)state;
    ok(cudaFree(NULL));
    ok(cudaGetDriverEntryPoint("cuMemAlloc", (void **)&alloc, cudaEnableDefault, &found));
    assert_int_equal(found, cudaDriverEntryPointSuccess);
    assert_non_null(alloc);
    assert_int_equal(alloc(&ptr, 64), CUDA_SUCCESS);
    ok(cudaFree((void *)(uintptr_t)ptr));
    ok(cudaGetDriverEntryPointByVersion("cuMemAlloc", &other, 12000, cudaEnableDefault, &found));
    assert_ptr_equal(other, *(void **)&alloc);
    if (on_standin())
        ok(cudaGetDriverEntryPointByVersion("cuMemAlloc", &other, 12000, cudaEnableDefault, NULL));
    ok(cudaGetDriverEntryPoint("cuNoSuchThing", &other, cudaEnableDefault, &found));
    assert_null(other);
    assert_int_equal(found, cudaDriverEntryPointSymbolNotFound);
    ok(cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &other, 10000, cudaEnableDefault,
                                        &found));
    assert_null(other);
    assert_int_equal(found, cudaDriverEntryPointVersionNotSufficent);
    expect(cudaErrorInvalidValue, cudaGetDriverEntryPoint("cuMemAlloc", &other, 16, &found));
    if (!on_standin())
        return;
    expect(cudaErrorInvalidValue, cudaGetDriverEntryPoint(NULL, &other, 0, &found));
    expect(cudaErrorInvalidValue, cudaGetDriverEntryPoint("cuMemAlloc", NULL, 0, &found));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_context_is_made_by_the_first_call_that_needs_it),
        cmocka_unit_test(device_context_is_shared_by_threads),
        cmocka_unit_test(device_is_the_threads_own),
        cmocka_unit_test(device_init_makes_a_context_that_is_not_current),
        cmocka_unit_test(device_valid_ones_are_tried_in_their_order),
        cmocka_unit_test(device_properties_agree_with_attributes),
        cmocka_unit_test(device_properties_are_those_of_a_gpu),
        cmocka_unit_test(device_versions),
        cmocka_unit_test(device_bus_place_leads_back),
        cmocka_unit_test(device_limits_are_kept),
        cmocka_unit_test(device_flags_are_kept),
        cmocka_unit_test(device_neighbours),
        cmocka_unit_test(device_context_of_the_program_is_used),
        cmocka_unit_test(device_driver_functions_are_found),
        cmocka_unit_test(device_reset_ends_everything_and_begins_again),
    };
    setenv("ACRE_SOFT_DEVICES", "2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
