/* Stream-ordered memory, and pools. */
#include <stdint.h>

#include "runtime_expect.h"

enum { BYTES = 1 << 20 };

static struct cudaMemPoolProps pool_props(void) {
    struct cudaMemPoolProps props;
    memset(&props, 0, sizeof props);
    props.allocType = cudaMemAllocationTypePinned;
    props.location = on_device(0);
    return props;
}

static uint64_t pool_value(cudaMemPool_t pool, enum cudaMemPoolAttr attribute) {
    uint64_t value = 0;
    ok(cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

TEST(pool_memory_comes_and_goes_in_stream_order) {
    struct gate gate;
    cudaStream_t stream;
    unsigned char *pinned = NULL;
    char *p = NULL;
    ok(cudaMallocHost((void **)&pinned, 1));
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    gate_close(&gate, stream);
    ok(cudaMallocAsync((void **)&p, BYTES, stream));
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 256, 0);
    ok(cudaMemsetAsync(p, 7, BYTES, stream));
    ok(cudaMemcpyAsync(pinned, p + BYTES - 1, 1, cudaMemcpyDeviceToHost, stream));
    ok(cudaFreeAsync(p, stream));
    expect(cudaErrorNotReady, cudaStreamQuery(stream));
    gate_open(&gate);
    ok(cudaStreamSynchronize(stream));
    assert_int_equal(*pinned, 7);
    ok(cudaStreamDestroy(stream));
    ok(cudaFreeHost(pinned));
}

TEST(pool_memory_is_device_memory) {
    struct cudaPointerAttributes found;
    char *p = NULL;
    ok(cudaMallocAsync((void **)&p, BYTES, NULL));
    ok(cudaPointerGetAttributes(&found, p + 5));
    assert_int_equal(found.type, cudaMemoryTypeDevice);
    assert_int_equal(found.device, 0);
    assert_ptr_equal(found.devicePointer, p + 5);
    ok(cudaStreamSynchronize(NULL));
    ok(cudaFree(p)); /* cudaFree works too, and waits */
    expect(cudaErrorInvalidValue, cudaFree(p));
    expect(cudaErrorInvalidValue, cudaFreeAsync(p, NULL));
}

TEST(pool_bad_arguments_are_refused) {
    void *p = NULL;
    int own;
    expect(cudaErrorInvalidValue, cudaMallocAsync(NULL, BYTES, NULL));
    expect(cudaErrorMemoryAllocation, cudaMallocAsync(&p, (size_t)1 << 60, NULL));
    expect(cudaErrorInvalidValue, cudaMallocFromPoolAsync(&p, BYTES, NULL, NULL));
    expect(cudaErrorInvalidValue, cudaFreeAsync(&own, NULL));
    expect(cudaErrorInvalidValue, cudaMemPoolDestroy(NULL));
    expect(cudaErrorInvalidValue, cudaMemPoolTrimTo(NULL, 0));
    expect(cudaErrorInvalidDevice, cudaDeviceGetDefaultMemPool((cudaMemPool_t *)&p, 99));
    expect(cudaErrorInvalidValue, cudaDeviceGetDefaultMemPool(NULL, 0));
    expect(cudaErrorInvalidValue, cudaDeviceGetMemPool((cudaMemPool_t *)&p, 99));
    expect(cudaErrorInvalidValue, cudaDeviceGetMemPool(NULL, 0));
}

TEST(pool_of_a_device_can_be_changed) {
    struct cudaMemPoolProps props = pool_props();
    cudaMemPool_t first, own, now;
    void *p = NULL;
    ok(cudaDeviceGetDefaultMemPool(&first, 0));
    ok(cudaDeviceGetMemPool(&now, 0));
    assert_ptr_equal(first, now);
    ok(cudaMemPoolCreate(&own, &props));
    ok(cudaDeviceSetMemPool(0, own));
    ok(cudaDeviceGetMemPool(&now, 0));
    assert_ptr_equal(now, own);
    ok(cudaMallocAsync(&p, BYTES, NULL));
    assert_true(pool_value(own, cudaMemPoolAttrUsedMemCurrent) >= BYTES);
    ok(cudaFreeAsync(p, NULL));
    ok(cudaDeviceSetMemPool(0, first));
    ok(cudaStreamSynchronize(NULL));
    ok(cudaMemPoolDestroy(own));
}

TEST(pool_of_a_place_is_that_of_its_device) {
    const enum cudaMemAllocationType pinned = cudaMemAllocationTypePinned;
    struct cudaMemPoolProps props = pool_props();
    struct cudaMemLocation here = on_device(0), there = on_device(99), host = on_host();
    cudaMemPool_t first, own, now;
    ok(cudaDeviceGetDefaultMemPool(&first, 0));
    ok(cudaMemGetDefaultMemPool(&now, &here, pinned));
    assert_ptr_equal(now, first);
    ok(cudaMemPoolCreate(&own, &props));
    ok(cudaMemSetMemPool(&here, pinned, own));
    ok(cudaMemGetMemPool(&now, &here, pinned));
    assert_ptr_equal(now, own);
    ok(cudaDeviceGetMemPool(&now, 0));
    assert_ptr_equal(now, own);
    ok(cudaMemGetDefaultMemPool(&now, &here, pinned));
    assert_ptr_equal(now, first);
    ok(cudaMemSetMemPool(&here, pinned, first));
    ok(cudaMemPoolDestroy(own));
    expect(cudaErrorInvalidValue, cudaMemGetDefaultMemPool(&now, &there, pinned));
    expect(cudaErrorInvalidValue,
           cudaMemGetDefaultMemPool(&now, &here, cudaMemAllocationTypeInvalid));
    if (!on_standin())
        return; /* with a GPU the host and managed memory have pools */
    expect(cudaErrorNotSupported, cudaMemGetDefaultMemPool(&now, &host, pinned));
    expect(cudaErrorNotSupported, cudaMemGetMemPool(&now, &host, pinned));
    expect(cudaErrorNotSupported, cudaMemSetMemPool(&host, pinned, first));
    expect(cudaErrorNotSupported,
           cudaMemGetDefaultMemPool(&now, &here, cudaMemAllocationTypeManaged));
    expect(cudaErrorInvalidValue, cudaMemGetDefaultMemPool(NULL, &here, pinned));
    expect(cudaErrorInvalidValue, cudaMemGetMemPool(NULL, &here, pinned));
    expect(cudaErrorInvalidValue, cudaMemGetMemPool(&now, NULL, pinned));
    expect(cudaErrorInvalidValue, cudaMemSetMemPool(&here, pinned, NULL));
    expect(cudaErrorInvalidValue, cudaMemSetMemPool(&there, pinned, first));
}

TEST(pool_attributes_count_and_are_kept) {
    struct cudaMemPoolProps props = pool_props();
    uint64_t threshold = UINT64_MAX, zero = 0, one = 1;
    int off = 0, is_on = -1;
    cudaMemPool_t pool;
    void *p = NULL;
    ok(cudaMemPoolCreate(&pool, &props));
    ok(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &is_on));
    assert_int_equal(is_on, 1);
    ok(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &off));
    ok(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &is_on));
    assert_int_equal(is_on, 0);
    assert_int_equal(pool_value(pool, cudaMemPoolAttrReleaseThreshold), 0);
    ok(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    assert_true(pool_value(pool, cudaMemPoolAttrReleaseThreshold) == threshold);
    ok(cudaMallocFromPoolAsync(&p, BYTES, pool, NULL));
    assert_true(pool_value(pool, cudaMemPoolAttrUsedMemCurrent) >= BYTES);
    ok(cudaFreeAsync(p, NULL));
    ok(cudaStreamSynchronize(NULL));
    assert_int_equal(pool_value(pool, cudaMemPoolAttrUsedMemCurrent), 0);
    assert_true(pool_value(pool, cudaMemPoolAttrUsedMemHigh) >= BYTES);
    assert_true(pool_value(pool, cudaMemPoolAttrReservedMemCurrent) >= BYTES);
    ok(cudaMemPoolTrimTo(pool, 0));
    assert_int_equal(pool_value(pool, cudaMemPoolAttrReservedMemCurrent), 0);
    ok(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
    assert_int_equal(pool_value(pool, cudaMemPoolAttrUsedMemHigh), 0);
    expect(cudaErrorInvalidValue, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &one));
    expect(cudaErrorInvalidValue,
           cudaMemPoolGetAttribute(pool, (enum cudaMemPoolAttr)99, &threshold));
    ok(cudaMemPoolDestroy(pool));
}

TEST(pool_access_is_the_devices_own) {
    struct cudaMemPoolProps props = pool_props();
    struct cudaMemLocation here = on_device(0);
    struct cudaMemAccessDesc other = {.location = on_device(1),
                                      .flags = cudaMemAccessFlagsProtReadWrite};
    enum cudaMemAccessFlags flags = cudaMemAccessFlagsProtNone;
    cudaMemPool_t pool;
    int count = 0;
    ok(cudaMemPoolCreate(&pool, &props));
    ok(cudaMemPoolGetAccess(&flags, pool, &here));
    assert_int_equal(flags, cudaMemAccessFlagsProtReadWrite);
    ok(cudaGetDeviceCount(&count));
    if (count > 1) {
        ok(cudaMemPoolGetAccess(&flags, pool, &other.location));
        assert_int_equal(flags, cudaMemAccessFlagsProtNone);
        ok(cudaMemPoolSetAccess(pool, &other, 1));
        ok(cudaMemPoolGetAccess(&flags, pool, &other.location));
        assert_int_equal(flags, cudaMemAccessFlagsProtReadWrite);
    }
    expect(cudaErrorInvalidValue, cudaMemPoolGetAccess(&flags, pool, NULL));
    if (on_standin())
        expect(cudaErrorInvalidValue, cudaMemPoolGetAccess(NULL, pool, &here));
    ok(cudaMemPoolDestroy(pool));
}

/* Within one process; examples/cuda has a version with two. */
TEST(pool_is_shared_by_its_handle) {
    const enum cudaMemAllocationHandleType type = cudaMemHandleTypePosixFileDescriptor;
    struct cudaMemPoolProps props = pool_props();
    struct cudaMemPoolPtrExportData data;
    cudaMemPool_t pool, plain, imported;
    void *block, *again, *none;
    int fd = -1;
    ok(cudaMemPoolCreate(&plain, &props));
    props.handleTypes = type;
    ok(cudaMemPoolCreate(&pool, &props));
    expect(cudaErrorInvalidValue, cudaMemPoolExportToShareableHandle(&fd, plain, type, 0));
    ok(cudaMemPoolExportToShareableHandle(&fd, pool, type, 0));
    assert_true(fd >= 0);
    ok(cudaMemPoolImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, type, 0));
    ok(cudaMallocFromPoolAsync(&block, 4096, pool, NULL));
    ok(cudaMemset(block, 7, 4096));
    ok(cudaDeviceSynchronize());
    ok(cudaMemPoolExportPointer(&data, block));
    ok(cudaMemPoolImportPointer(&again, imported, &data));
    assert_int_equal(device_byte(again), 7);
    expect(cudaErrorInvalidValue, cudaMallocFromPoolAsync(&none, 4096, imported, NULL));
    ok(cudaFreeAsync(again, NULL));
    assert_int_equal(device_byte(block), 7); /* the exporter's block is unchanged */
    ok(cudaFreeAsync(block, NULL));
    ok(cudaDeviceSynchronize());
    ok(cudaMemPoolDestroy(imported));
    ok(cudaMemPoolDestroy(pool));
    ok(cudaMemPoolDestroy(plain));
    assert_int_equal(close(fd), 0);
}

/* In a capture both calls become nodes of the graph. */
TEST(pool_memory_can_be_captured) {
    cudaStream_t stream;
    cudaGraph_t graph = NULL;
    void *p = NULL;
    ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    ok(cudaMallocAsync(&p, 4096, stream));
    assert_non_null(p);
    ok(cudaMemsetAsync(p, 1, 4096, stream));
    ok(cudaFreeAsync(p, stream));
    ok(cudaStreamEndCapture(stream, &graph));
    assert_non_null(graph);
    ok(cudaGraphDestroy(graph));
    ok(cudaStreamDestroy(stream));
}

/* A pool for decompression (RMM's default asks for one) is a pool like others. */
TEST(pool_takes_every_usage) {
    for (unsigned short usage = 0; usage < 4; usage++) {
        struct cudaMemPoolProps props = pool_props();
        cudaMemPool_t pool = NULL;
        void *p = NULL;
        props.usage = usage;
        ok(cudaMemPoolCreate(&pool, &props));
        ok(cudaMallocFromPoolAsync(&p, 4096, pool, NULL));
        ok(cudaFreeAsync(p, NULL));
        ok(cudaDeviceSynchronize());
        ok(cudaMemPoolDestroy(pool));
    }
}

TEST(pool_bad_properties_are_refused) {
    struct cudaMemPoolProps props = pool_props();
    cudaMemPool_t pool;
    expect(cudaErrorInvalidValue, cudaMemPoolCreate(NULL, &props));
    expect(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, NULL));
    props.allocType = cudaMemAllocationTypeInvalid;
    expect(cudaErrorInvalidValue, cudaMemPoolCreate(&pool, &props));
}

int main(void) {
    setenv("ACRE_SOFT_DEVICES", "2", 1);
    return tests_run("runtime_pool");
}
