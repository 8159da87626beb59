/* Plain, pinned, registered and managed memory of the soft driver: access, memory consumption,
 * addresses, and lifetime. */
#include "soft_fixture.h"
#include "support/rounds.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* ---- access ---- */

SOFT_TEST(memory_host_touch_of_plain_faults) {
    CUdeviceptr small = 0, large = 0;
    assert_ok(drv->cuMemAlloc(&small, 1000));
    assert_ok(drv->cuMemAlloc(&large, 4 * MIB));
    assert_ok(drv->cuMemsetD8(small, 1, 1000));
    assert_ok(drv->cuMemsetD8(large, 1, 4 * MIB));
    assert_ok(drv->cuCtxSynchronize());
    assert_true(soft_faults(small, 0));
    assert_true(soft_faults(small, 1));
    assert_true(soft_faults(large, 0));
    assert_true(soft_faults(large + 4 * MIB - 1, 0));
}

SOFT_TEST(memory_host_touch_of_plain_faults_after_free) {
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAlloc(&at, 4 * MIB));
    assert_ok(drv->cuMemFree(at));
    assert_true(soft_faults(at, 0));
}

/* Expects that the device sees the host's writes, and the host sees the device's writes. */
static void expect_shared(unsigned char *host, CUdeviceptr device, size_t bytes) {
    memset(host, 0x11, bytes);
    assert_true(soft_is_filled(device, bytes, 0x11));
    assert_ok(drv->cuMemsetD8(device, 0x22, bytes));
    assert_ok(drv->cuCtxSynchronize());
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(host[i], 0x22);
}

SOFT_TEST(memory_pinned_and_mapped_stay_open) {
    const unsigned flags[] = {0, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_WRITECOMBINED};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        void *host = NULL;
        CUdeviceptr device = 0;
        assert_ok(drv->cuMemHostAlloc(&host, 10000, flags[i]));
        assert_ok(drv->cuMemHostGetDevicePointer(&device, host, 0));
        expect_shared(host, device, 10000);
        assert_ok(drv->cuMemFreeHost(host));
    }
}

SOFT_TEST(memory_managed_stays_open) {
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAllocManaged(&at, 3 * MIB + 5, CU_MEM_ATTACH_GLOBAL));
    expect_shared((unsigned char *)(uintptr_t)at, at, 3 * MIB + 5);
    assert_ok(drv->cuMemFree(at));
}

/* cuStreamAttachMemAsync runs in stream order; host and device can access the pages at any time. */
SOFT_TEST(memory_attach_is_in_stream_order) {
    struct gate gate;
    CUdeviceptr at = 0;
    CUevent event = NULL;
    CUgraph graph = NULL;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    const unsigned flags[] = {CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST, CU_MEM_ATTACH_SINGLE};
    assert_ok(drv->cuMemAllocManaged(&at, 3 * MIB + 5, CU_MEM_ATTACH_HOST));
    assert_ok(drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (size_t i = 0; i < 3; i++) {
        soft_gate_put(&gate, stream);
        assert_ok(drv->cuStreamAttachMemAsync(stream, at, i % 2 ? 3 * MIB + 5 : 0, flags[i]));
        assert_ok(drv->cuEventRecord(event, stream));
        assert_int_equal(drv->cuEventQuery(event), CUDA_ERROR_NOT_READY);
        soft_gate_open(&gate);
        assert_ok(drv->cuEventSynchronize(event));
    }
    /* In a capture the call becomes part of the graph. */
    assert_ok(drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(drv->cuStreamAttachMemAsync(stream, at, 0, CU_MEM_ATTACH_GLOBAL));
    assert_ok(drv->cuStreamEndCapture(stream, &graph));
    assert_ok(drv->cuGraphDestroy(graph));
    assert_ok(drv->cuEventDestroy(event));
    assert_ok(drv->cuStreamDestroy(stream));
    assert_ok(drv->cuMemFree(at));
}

SOFT_TEST(memory_attach_with_wrong_arguments_is_refused) {
    CUdeviceptr at = 0, plain = 0;
    void *host = NULL;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuMemAllocManaged(&at, 8192, CU_MEM_ATTACH_GLOBAL));
    assert_ok(drv->cuMemAlloc(&plain, 8192));
    assert_ok(drv->cuMemHostAlloc(&host, 8192, 0));
    const unsigned flags[] = {0, 3, 5, 6, 7, 8, 0x80000001u};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        assert_refused(drv->cuStreamAttachMemAsync(stream, at, 0, flags[i]));
    assert_refused(drv->cuStreamAttachMemAsync(NULL, at, 0, CU_MEM_ATTACH_SINGLE));
    assert_ok(drv->cuStreamAttachMemAsync(CU_STREAM_LEGACY, at, 0, CU_MEM_ATTACH_SINGLE));
    assert_refused(drv->cuStreamAttachMemAsync(stream, at, 4096, CU_MEM_ATTACH_GLOBAL));
    assert_refused(drv->cuStreamAttachMemAsync(stream, at, 8193, CU_MEM_ATTACH_GLOBAL));
    assert_refused(drv->cuStreamAttachMemAsync(stream, at, SIZE_MAX, CU_MEM_ATTACH_GLOBAL));
    assert_refused(drv->cuStreamAttachMemAsync(stream, 0, 0, CU_MEM_ATTACH_GLOBAL));
    assert_refused(drv->cuStreamAttachMemAsync(stream, plain, 0, CU_MEM_ATTACH_GLOBAL));
    assert_refused(
        drv->cuStreamAttachMemAsync(stream, (CUdeviceptr)(uintptr_t)host, 0, CU_MEM_ATTACH_GLOBAL));
    assert_ok(drv->cuStreamQuery(stream)); /* nothing was queued */
    assert_ok(drv->cuStreamDestroy(stream));
    assert_refused(drv->cuStreamAttachMemAsync(stream, at, 0, CU_MEM_ATTACH_GLOBAL));
    assert_ok(drv->cuMemFreeHost(host));
    assert_ok(drv->cuMemFree(plain));
    assert_ok(drv->cuMemFree(at));
    assert_refused(drv->cuStreamAttachMemAsync(NULL, at, 0, CU_MEM_ATTACH_GLOBAL));
}

SOFT_TEST(memory_registered_is_used_in_place) {
    unsigned char *host = malloc(100000);
    assert_non_null(host);
    assert_ok(drv->cuMemHostRegister(host, 100000, 0));
    assert_refused(drv->cuMemHostRegister(host + 500, 10, 0));
    expect_shared(host, (CUdeviceptr)(uintptr_t)host, 100000);
    assert_ok(drv->cuMemHostUnregister(host));
    assert_refused(drv->cuMemHostUnregister(host));
    free(host);
}

/* Zeros that the driver writes must not give pages of the program's own file back to the system. */
SOFT_TEST(memory_registered_of_a_file_keeps_its_pages) {
    CUdeviceptr fresh, mapped;
    struct stat before, after;
    int file = memfd_create("registered", MFD_CLOEXEC);
    assert_true(file >= 0 && posix_fallocate(file, 0, MIB) == 0);
    char *host = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(host != MAP_FAILED);
    memset(host, 7, MIB);
    assert_ok(drv->cuMemHostRegister(host, MIB, CU_MEMHOSTREGISTER_DEVICEMAP));
    assert_ok(drv->cuMemHostGetDevicePointer(&mapped, host, 0));
    assert_ok(drv->cuMemAlloc(&fresh, MIB));
    assert_int_equal(fstat(file, &before), 0);
    assert_ok(drv->cuMemsetD8Async(mapped, 0, MIB / 2, NULL));
    assert_ok(drv->cuMemcpyDtoHAsync(host + MIB / 2, fresh, MIB / 2, NULL)); /* never written */
    assert_ok(drv->cuStreamSynchronize(NULL));
    assert_int_equal(fstat(file, &after), 0);
    assert_int_equal(after.st_blocks, before.st_blocks);
    assert_true(host[0] == 0 && host[MIB / 2 - 1] == 0 && host[MIB / 2] == 0 && host[MIB - 1] == 0);
    assert_ok(drv->cuMemFree(fresh));
    assert_ok(drv->cuMemHostUnregister(host));
    munmap(host, MIB);
    close(file);
}

SOFT_TEST(memory_without_pages_is_not_registered) {
    char *pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true((void *)pages != MAP_FAILED);
    munmap(pages + MIB / 2, MIB / 2);
    assert_refused(drv->cuMemHostRegister(pages + MIB / 2, MIB / 2, 0));
    assert_refused(drv->cuMemHostRegister(pages + 1, MIB / 2, 0));
    assert_ok(drv->cuMemHostRegister(pages + 1, MIB / 2 - 1, 0));
    assert_ok(drv->cuMemHostUnregister(pages + 1));
    munmap(pages, MIB / 2);
}

/* A program unmaps memory that is still registered, and the system reuses the address for pinned
 * memory. */
SOFT_TEST(memory_pinned_where_stale_registration_lies_is_refused_cleanly) {
    void *pages = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_ok(drv->cuMemHostRegister(pages, MIB, 0));
    munmap(pages, MIB);
    void *pinned = NULL;
    CUresult result = drv->cuMemHostAlloc(&pinned, MIB, 0);
    if (result) { /* the system reused the address */
        assert_int_equal(result, CUDA_ERROR_OPERATING_SYSTEM);
        assert_null(pinned);
        assert_ok(drv->cuMemHostUnregister(pages));
        assert_ok(drv->cuMemHostAlloc(&pinned, MIB, 0));
    }
    assert_ok(drv->cuMemFreeHost(pinned));
}

/* ---- memory consumption ---- */

static size_t resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long total = 0, resident = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &total, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t file_bytes(int device) {
    struct stat info;
    assert_int_equal(fstat(acre__soft.devices[device].fd, &info), 0);
    return (size_t)info.st_blocks * 512;
}

SOFT_TEST_BARE(memory_large_device_costs_nothing_until_touched) {
    size_t before = resident_bytes();
#ifdef ACRE_SANITIZE_tsan
    const size_t bytes = 4 * GIB; /* tsan cannot map more than 16 GiB at once on aarch64 */
#else
    const size_t bytes = 64 * GIB;
#endif
    struct acre__soft_config config = soft_config(bytes, 1);
    config.address_bytes = bytes * 2;
    soft_begin_with(&config);
    size_t total = 0, room = 0;
    assert_ok(drv->cuMemGetInfo(&room, &total));
    assert_int_equal(total, bytes);
    assert_int_equal(room, bytes);
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAlloc(&at, bytes));
    assert_int_equal(file_bytes(0), 0);
    assert_true(resident_bytes() < before + 32 * MIB);
    assert_ok(drv->cuMemsetD8(at + bytes - 4 * MIB, 1, 4 * MIB));
    assert_ok(drv->cuCtxSynchronize());
    assert_true(file_bytes(0) >= 4 * MIB && file_bytes(0) < 8 * MIB);
    assert_ok(drv->cuMemFree(at));
    assert_int_equal(file_bytes(0), 0);
    assert_true(resident_bytes() < before + 32 * MIB);
}

SOFT_TEST(memory_freed_comes_back_zeroed) {
    CUdeviceptr at = 0, again = 0;
    assert_ok(drv->cuMemAlloc(&at, 4 * MIB));
    assert_ok(drv->cuMemsetD8(at, 0xff, 4 * MIB));
    assert_ok(drv->cuMemFree(at));
    assert_ok(drv->cuMemAlloc(&again, 4 * MIB));
    assert_true(soft_is_filled(again, 4 * MIB, 0));
}

SOFT_TEST(memory_plain_out_of_memory_is_exact) {
    CUdeviceptr all = 0, more = 77;
    assert_ok(drv->cuMemAlloc(&all, 64 * MIB));
    assert_int_equal(drv->cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(more, 77);
    assert_ok(drv->cuMemFree(all));
    assert_int_equal(drv->cuMemAlloc(&all, 64 * MIB + 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(drv->cuMemAlloc(&all, 62 * MIB));
    for (int i = 0; i < 4096; i++) /* one slab is left: 4096 units of 512 bytes */
        assert_ok(drv->cuMemAlloc(&more, 512));
    assert_int_equal(drv->cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
}

SOFT_TEST(memory_impossible_sizes_are_refused) {
    CUdeviceptr at = 5;
    void *host = &at;
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2, (size_t)1 << 60};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(drv->cuMemAlloc(&at, sizes[i]), CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(drv->cuMemHostAlloc(&host, sizes[i], 0), CUDA_ERROR_OUT_OF_MEMORY);
        assert_int_equal(drv->cuMemAllocManaged(&at, sizes[i], CU_MEM_ATTACH_GLOBAL),
                         CUDA_ERROR_OUT_OF_MEMORY);
        assert_refused(drv->cuMemHostRegister(&host, sizes[i], 0));
    }
    assert_int_equal(at, 5);
    assert_ptr_equal(host, &at);
    assert_int_equal(soft_used_bytes(0), 0);
}

#if !defined(ACRE_SANITIZE_asan) && !defined(ACRE_SANITIZE_tsan)
/* Sanitizers end the program if a mapping fails, so only builds without them can test this. */
SOFT_TEST_BARE(memory_without_addresses_for_slab_changes_nothing) {
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.address_bytes = CHUNK;
    soft_begin_with(&config);
    CUdeviceptr last = soft_reserve(CHUNK), at = 0;
    struct rlimit before, tight = {0, 0};
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    tight = before;
    tight.rlim_cur = 0; /* existing mappings stay, new ones fail */
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    CUresult small = drv->cuMemAlloc(&at, 512), large = drv->cuMemAlloc(&at, 4 * MIB);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(small, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(large, CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(soft_used_bytes(0), 0);
    assert_null(acre__soft.devices[0].ctx.slabs);
    assert_null(acre__tree_find(&acre__soft.free_addresses, 0));
    assert_ok(drv->cuMemAlloc(&at, 512));
    assert_true(at != 0);
    assert_ok(drv->cuMemAddressFree(last, CHUNK));
}
#endif

/* ---- addresses ---- */

enum { LIVE_MAX = 300, STEPS = ROUNDS(4000, 1500) };

struct live {
    CUdeviceptr at;
    size_t bytes;
    unsigned char tag;
};

static int live_overlaps(const struct live *list, size_t count, CUdeviceptr at, size_t bytes) {
    for (size_t i = 0; i < count; i++)
        if (at < list[i].at + list[i].bytes && list[i].at < at + bytes)
            return 1;
    return 0;
}

SOFT_TEST(memory_random_small_blocks_are_aligned_and_disjoint) {
    uint64_t random = random_seed("small blocks");
    struct live list[LIVE_MAX];
    size_t count = 0;
    for (int step = 0; step < STEPS; step++) {
        if (count < LIVE_MAX && random_draw(&random, 100) < 55) {
            struct live *new = &list[count];
            size_t limit = random_draw(&random, 8) ? 20000 : 3 * MIB;
            new->bytes = 1 + random_draw(&random, limit);
            new->tag = (unsigned char)random_draw(&random, 256);
            CUresult result = drv->cuMemAlloc(&new->at, new->bytes);
            if (result == CUDA_ERROR_OUT_OF_MEMORY)
                continue;
            assert_ok(result);
            assert_int_equal(new->at % 512, 0);
            assert_false(live_overlaps(list, count, new->at, new->bytes));
            assert_ok(drv->cuMemsetD8(new->at, new->tag, new->bytes));
            count++;
        } else if (count) {
            size_t i = random_draw(&random, count);
            assert_true(soft_is_filled(list[i].at, list[i].bytes, list[i].tag));
            assert_ok(drv->cuMemFree(list[i].at));
            list[i] = list[--count];
        }
    }
    while (count--)
        assert_ok(drv->cuMemFree(list[count].at));
    assert_int_equal(soft_used_bytes(0), 0);
    assert_null(acre__soft.devices[0].ctx.slabs);
    assert_int_equal(file_bytes(0), 0);
}

SOFT_TEST(memory_slabs_are_given_back) {
    enum { BLOCKS = 4096 * 3 };
    static CUdeviceptr at[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(drv->cuMemAlloc(&at[i], 512));
    assert_int_equal(soft_used_bytes(0), 3 * CHUNK);
    for (int i = 0; i < BLOCKS; i += 2)
        assert_ok(drv->cuMemFree(at[i]));
    assert_int_equal(soft_used_bytes(0), 3 * CHUNK);
    for (int i = 0; i < BLOCKS; i += 2) /* the holes are reused */
        assert_ok(drv->cuMemAlloc(&at[i], 300));
    assert_int_equal(soft_used_bytes(0), 3 * CHUNK);
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(drv->cuMemFree(at[i]));
    assert_int_equal(soft_used_bytes(0), 0);
}

/* ---- lifetime ---- */

SOFT_TEST(memory_wrong_frees_are_refused) {
    CUdeviceptr at = 0;
    void *pinned = NULL;
    int stack = 0;
    assert_ok(drv->cuMemAlloc(&at, 4096));
    assert_ok(drv->cuMemHostAlloc(&pinned, 4096, 0));
    assert_refused(drv->cuMemFree(at + 512));
    assert_refused(drv->cuMemFree((CUdeviceptr)(uintptr_t)&stack));
    assert_refused(drv->cuMemFree((CUdeviceptr)(uintptr_t)pinned));
    assert_refused(drv->cuMemFreeHost((void *)(uintptr_t)at));
    assert_refused(drv->cuMemFreeHost((char *)pinned + 64));
    assert_refused(drv->cuMemHostUnregister(pinned));
    assert_true(soft_is_filled(at, 4096, 0)); /* still there */
    assert_ok(drv->cuMemFree(at));
    assert_refused(drv->cuMemFree(at));
    assert_ok(drv->cuMemFreeHost(pinned));
    assert_refused(drv->cuMemFreeHost(pinned));
}

struct freeing {
    CUdeviceptr at;
    CUresult result;
    _Atomic int is_over;
};

static void *free_in_thread(void *argument) {
    struct freeing *freeing = argument;
    freeing->result = drv->cuCtxPushCurrent(soft_ctx[0]);
    if (!freeing->result)
        freeing->result = drv->cuMemFree(freeing->at);
    atomic_store(&freeing->is_over, 1);
    return NULL;
}

SOFT_TEST(memory_free_waits_for_queued_work) {
    struct gate gate;
    struct freeing freeing = {0};
    pthread_t thread;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuMemAlloc(&freeing.at, 4096));
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuMemsetD8Async(freeing.at, 1, 4096, stream));
    assert_int_equal(pthread_create(&thread, NULL, free_in_thread, &freeing), 0);
    sleep_ms(50);
    assert_false(atomic_load(&freeing.is_over));
    soft_gate_open(&gate);
    pthread_join(thread, NULL);
    assert_ok(freeing.result);
    assert_ok(drv->cuStreamSynchronize(stream)); /* the fill found its memory */
}

/* Both threads wait for the same work; only one of them may free the block. */
SOFT_TEST(memory_free_by_two_threads_succeeds_once) {
    struct gate gate;
    struct freeing freeing[2] = {{0}, {0}};
    pthread_t threads[2];
    CUdeviceptr at = 0;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuMemAlloc(&at, 4096));
    soft_gate_put(&gate, stream);
    for (int i = 0; i < 2; i++) {
        freeing[i].at = at;
        assert_int_equal(pthread_create(&threads[i], NULL, free_in_thread, &freeing[i]), 0);
    }
    sleep_ms(20);
    soft_gate_open(&gate);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(freeing[0].result + freeing[1].result, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(soft_used_bytes(0), 0);
}

SOFT_TEST(memory_goes_with_its_context_and_chunks_stay) {
    CUdeviceptr small = 0, large = 0, managed = 0;
    void *pinned = NULL;
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    assert_ok(drv->cuMemAlloc(&small, 100));
    assert_ok(drv->cuMemAlloc(&large, 6 * MIB));
    assert_ok(drv->cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
    assert_ok(drv->cuMemHostAlloc(&pinned, 100, 0));
    assert_int_equal(soft_used_bytes(0), CHUNK + 6 * MIB + CHUNK);
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_refused(drv->cuMemFree(small)); /* freed with its context */
    assert_int_equal(soft_used_bytes(0), CHUNK);
    assert_ok(drv->cuDevicePrimaryCtxRetain(&soft_ctx[0], 0));
    assert_refused(drv->cuMemFree(large));
    assert_refused(drv->cuMemFree(managed));
    assert_refused(drv->cuMemFreeHost(pinned));
    assert_ok(drv->cuMemRelease(chunk));
    assert_int_equal(soft_used_bytes(0), 0);
}

int main(void) {
    return tests_run("soft_memory");
}
