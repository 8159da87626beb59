/* Shared pools of the soft driver, as far as one process can test them: one block at two addresses,
 * forged export data, descriptors of other objects. */
#include "soft_fixture.h"

#include <fcntl.h>

#include "soft/soft_pool_types.h"

#define BLOCK (64 * KIB)

static const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

static CUmemoryPool make_shared(size_t max_bytes) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = type,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                            .maxSize = max_bytes};
    CUmemoryPool pool = NULL;
    assert_ok(drv->cuMemPoolCreate(&pool, &props));
    return pool;
}

static CUmemoryPool import_pool(CUmemoryPool pool) {
    CUmemoryPool imported = NULL;
    int fd = -1;
    assert_ok(drv->cuMemPoolExportToShareableHandle(&fd, pool, type, 0));
    assert_ok(drv->cuMemPoolImportFromShareableHandle(&imported, (void *)(intptr_t)fd, type, 0));
    close(fd);
    return imported;
}

static CUdeviceptr take(CUmemoryPool pool, size_t bytes) {
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAllocFromPoolAsync(&at, bytes, pool, NULL));
    return at;
}

static uint64_t get(CUmemoryPool pool, CUmemPool_attribute attribute) {
    uint64_t value = 0;
    assert_ok(drv->cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

SOFT_TEST(share_pointers_of_memory_that_came_later) {
    CUmemoryPool pool = make_shared(0), imported = import_pool(pool);
    CUdeviceptr at[3], there[3];
    for (int i = 0; i < 3; i++) { /* each allocation makes the pool grow */
        CUmemPoolPtrExportData data;
        at[i] = take(pool, 2 * MIB);
        assert_ok(drv->cuMemPoolExportPointer(&data, at[i]));
        assert_ok(drv->cuMemPoolImportPointer(&there[i], imported, &data));
        assert_int_not_equal(there[i], at[i]);
        assert_ok(drv->cuMemsetD8Async(at[i], (unsigned char)(i + 1), 2 * MIB, NULL));
    }
    for (int i = 0; i < 3; i++)
        assert_true(soft_is_filled(there[i], 2 * MIB, (unsigned char)(i + 1)));
    assert_int_equal(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 6 * MIB);
    assert_int_equal(get(imported, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 6 * MIB);
    assert_int_equal(soft_used_bytes(0), 6 * MIB); /* charged once */
    for (int i = 0; i < 3; i++) {
        assert_ok(drv->cuMemFreeAsync(there[i], NULL));
        assert_ok(drv->cuMemFreeAsync(at[i], NULL));
    }
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(get(imported, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    /* A shared pool releases its memory only when it is destroyed, since another process may have
     * imported it. */
    assert_int_equal(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 6 * MIB);
    assert_ok(drv->cuMemPoolTrimTo(pool, 0));
    assert_int_equal(soft_used_bytes(0), 6 * MIB);
    assert_ok(drv->cuMemPoolDestroy(pool));
    assert_int_equal(soft_used_bytes(0), 0);
    assert_ok(drv->cuMemPoolDestroy(imported));
}

SOFT_TEST(share_outlives_its_pool) {
    CUmemoryPool pool = make_shared(0), imported = import_pool(pool);
    CUmemPoolPtrExportData data;
    CUdeviceptr at = take(pool, BLOCK), there = 0;
    assert_ok(drv->cuMemPoolExportPointer(&data, at));
    assert_ok(drv->cuMemPoolImportPointer(&there, imported, &data));
    assert_ok(drv->cuMemsetD8Async(at, 9, BLOCK, NULL));
    assert_ok(drv->cuMemFreeAsync(at, NULL));
    assert_ok(drv->cuCtxSynchronize());
    assert_ok(drv->cuMemPoolDestroy(pool));
    assert_ok(drv->cuMemPoolDestroy(imported)); /* the pool lives on until the pointer is freed */
    assert_true(soft_is_filled(there, BLOCK, 9));
    assert_ok(drv->cuMemFree(there));
    assert_refused(drv->cuMemFree(there));
}

SOFT_TEST(share_made_up_pointers_are_refused) {
    CUmemoryPool pool = make_shared(8 * MIB), imported = import_pool(pool);
    CUmemPoolPtrExportData good, data;
    CUdeviceptr at = take(pool, BLOCK), there = 0;
    uint64_t random = random_seed("share_made_up_pointers_are_refused");
    assert_ok(drv->cuMemPoolExportPointer(&good, at));
    memset(&data, 0, sizeof data);
    assert_refused(drv->cuMemPoolImportPointer(&there, imported, &data));
    memset(&data, 0xff, sizeof data);
    assert_refused(drv->cuMemPoolImportPointer(&there, imported, &data));
    assert_refused(drv->cuMemPoolImportPointer(&there, pool, &good)); /* not an imported pool */
    for (int i = 0; i < 2000; i++) {
        data = good;
        for (uint64_t n = 1 + random_draw(&random, 4); n; n--)
            data.reserved[random_draw(&random, 32)] = (unsigned char)random_draw(&random, 256);
        if (drv->cuMemPoolImportPointer(&there, imported, &data))
            continue;
        unsigned char byte; /* accepted: then the whole block is accessible */
        CUdeviceptr base = 0;
        size_t bytes = 0;
        assert_ok(drv->cuMemGetAddressRange(&base, &bytes, there));
        assert_ok(drv->cuMemcpyDtoH(&byte, base + bytes - 1, 1));
        assert_ok(drv->cuMemFree(there));
    }
    assert_ok(drv->cuMemPoolImportPointer(&there, imported, &good));
    assert_int_equal(drv->cuMemPoolImportPointer(&there, imported, &good),
                     CUDA_ERROR_ALREADY_MAPPED);
}

SOFT_TEST(share_descriptors_of_other_things_are_refused) {
    CUmemoryPool pool = make_shared(0), none = NULL;
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0), imported = 0;
    int pool_fd = -1, chunk_fd = -1, null_fd = open("/dev/null", O_RDWR);
    assert_ok(drv->cuMemPoolExportToShareableHandle(&pool_fd, pool, type, 0));
    assert_ok(drv->cuMemExportToShareableHandle(&chunk_fd, chunk, type, 0));
    assert_refused(
        drv->cuMemPoolImportFromShareableHandle(&none, (void *)(intptr_t)chunk_fd, type, 0));
    assert_refused(
        drv->cuMemPoolImportFromShareableHandle(&none, (void *)(intptr_t)null_fd, type, 0));
    assert_refused(drv->cuMemPoolImportFromShareableHandle(&none, (void *)(intptr_t)-1, type, 0));
    assert_refused(drv->cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)pool_fd, type));
    close(pool_fd);
    close(chunk_fd);
    close(null_fd);
    assert_ok(drv->cuMemRelease(chunk));
}

/* The vector clocks treat both addresses as the same memory. */
TEST(share_is_in_the_same_order) {
    for (int is_ordered = 0; is_ordered < 2; is_ordered++) {
        struct acre__soft_config config = soft_config(64 * MIB, 1);
        config.check = 1;
        soft_begin_with(&config);
        CUmemoryPool pool = make_shared(0), imported = import_pool(pool);
        CUstream one = soft_stream(CU_STREAM_NON_BLOCKING),
                 two = soft_stream(CU_STREAM_NON_BLOCKING);
        CUmemPoolPtrExportData data;
        CUdeviceptr at = take(pool, BLOCK), there = 0;
        assert_ok(drv->cuCtxSynchronize());
        assert_ok(drv->cuMemPoolExportPointer(&data, at));
        assert_ok(drv->cuMemPoolImportPointer(&there, imported, &data));
        assert_ok(drv->cuMemsetD8Async(at, 1, BLOCK, one));
        if (is_ordered)
            assert_ok(drv->cuStreamSynchronize(one));
        CUresult result = drv->cuMemsetD8Async(there, 2, BLOCK, two);
        assert_true(result == CUDA_SUCCESS || result == CUDA_ERROR_LAUNCH_FAILED);
        drv->cuCtxSynchronize();
        assert_int_equal(acre__soft_reports(NULL, 0), !is_ordered);
        soft_teardown(state);
    }
}

int main(void) {
    return tests_run("soft_pool_share");
}
