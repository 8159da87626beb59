/* The steps that call the driver's virtual memory management, on every driver present: optional
 * properties, out-of-memory statuses, descriptors, the program's captures, and waiting for all
 * work. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "api/api_memory.h"
#include "device/device.h"
#include "fault/fault_device.h"
#include "space/steps.h"

static uint64_t refusals(acre_device *dev) {
    return api_stats(dev).driver_refusals;
}

static size_t unit_of(acre_device *dev) {
    size_t unit = 0;
    api_ok(acre__step_granularity(dev, 0, 0, &unit));
    return unit;
}

/* ---- creating chunks ---- */

/* Creates and releases a chunk. Returns the flags that the driver granted. */
static uint32_t granted(acre_device *dev, uint32_t flags) {
    CUmemGenericAllocationHandle handle = 0;
    uint32_t given = ~0u;
    api_ok(acre__step_create(dev, unit_of(dev), flags, &handle, &given));
    api_ok(acre__step_release(dev, handle));
    return given;
}

TEST(step_create_grants_what_the_device_can_do) {
    const uint32_t all = ACRE__CHUNK_SHAREABLE | ACRE__CHUNK_RDMA;
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        acre_device_info info = dev->info;
        assert_int_equal(granted(dev, 0), 0);
        assert_int_equal(granted(dev, ACRE__CHUNK_SHAREABLE), ACRE__CHUNK_SHAREABLE);
        dev->info.has_rdma = 1;
        assert_int_equal(granted(dev, ACRE__CHUNK_HOST | all) & ~(uint32_t)ACRE__CHUNK_SHAREABLE,
                         ACRE__CHUNK_HOST); /* RDMA is for device memory only */
        dev->info.has_fd_sharing = 0;
        assert_int_equal(granted(dev, all) & ACRE__CHUNK_SHAREABLE, 0);
        dev->info = info;
        dev->info.has_rdma = 0;
        assert_int_equal(granted(dev, all), ACRE__CHUNK_SHAREABLE);
        dev->info = info;
        assert_int_equal(refusals(dev), 0);
        api_ok(acre_close(dev));
    }
}

/* If the driver refuses optional properties, the step retries without some of them. It counts a
 * refusal only if the last attempt fails. Other codes cause no retry. */
TEST(step_create_leaves_out_what_is_not_permitted) {
    const uint32_t both = ACRE__CHUNK_FABRIC | ACRE__CHUNK_RDMA, fd = ACRE__CHUNK_SHAREABLE;
    const uint32_t left[] = {both | fd, ACRE__CHUNK_RDMA | fd, ACRE__CHUNK_FABRIC | fd, fd};
    const CUresult codes[] = {CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED,
                              CUDA_ERROR_INVALID_VALUE};
    acre_device *dev = api_open("soft");
    CUmemGenericAllocationHandle handle = 1;
    uint32_t given = 1;
    dev->info.has_fabric = dev->info.has_rdma = 1;
    /* The soft driver does not permit fabric handles. */
    assert_int_equal(granted(dev, both | fd), left[1]);
    assert_int_equal(granted(dev, ACRE__CHUNK_FABRIC), 0);
    assert_int_equal(refusals(dev), 0);
    for (size_t i = 0; i < 3; i++) {
        fault_on("cuMemCreate", 1, ACRE__FAULT_ONCE, codes[i]);
        assert_int_equal(granted(dev, ACRE__CHUNK_RDMA | fd), fd);
        assert_int_equal(fault_off(), 1);
        fault_on("cuMemCreate", 2, ACRE__FAULT_ONCE, codes[i]); /* the first fails anyway */
        assert_int_equal(granted(dev, both | fd), left[3]);
        assert_int_equal(fault_off(), 1);
        assert_int_equal(refusals(dev), i);
        fault_on("cuMemCreate", 1, ACRE__FAULT_FROM, codes[i]);
        acre_status status = acre__step_create(dev, unit_of(dev), both | fd, &handle, &given);
        assert_int_equal(status, i < 2 ? ACRE_E_UNSUPPORTED : ACRE_E_DRIVER);
        assert_int_equal(handle + given, 0);
        assert_int_equal(fault_off(), 4);
        assert_int_equal(refusals(dev), i + 1);
    }
    fault_on("cuMemCreate", 1, ACRE__FAULT_FROM, CUDA_ERROR_OUT_OF_MEMORY);
    api_expect(acre__step_create(dev, unit_of(dev), both, &handle, &given), ACRE_E_DEVICE_MEMORY);
    assert_int_equal(fault_off(), 1);
    api_ok(acre_close(dev));
}

/* The step's status says which memory ran out, but only for the call that allocates it. */
TEST(step_says_what_ran_out) {
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        size_t unit = unit_of(dev);
        CUmemGenericAllocationHandle handle;
        uint32_t given;
        uint64_t address = 1;
        const char *const calls[] = {"cuMemCreate", "cuMemAddressReserve", "cuCtxPushCurrent"};
        const acre_status wanted[3][3] = {
            {ACRE_E_DEVICE_MEMORY, ACRE_E_HOST_MEMORY, ACRE_OK},
            {ACRE_OK, ACRE_OK, ACRE_E_ADDRESS_SPACE},
            {ACRE_E_DEVICE_MEMORY, ACRE_E_DEVICE_MEMORY, ACRE_E_DEVICE_MEMORY}};
        for (size_t i = 0; i < 3; i++) {
            fault_on(calls[i], 1, ACRE__FAULT_FROM, CUDA_ERROR_OUT_OF_MEMORY);
            acre_status got[3];
            for (uint32_t host = 0; host < 2; host++) {
                got[host] = acre__step_create(dev, unit, host * ACRE__CHUNK_HOST, &handle, &given);
                if (got[host] == ACRE_OK)
                    api_ok(acre__step_release(dev, handle));
            }
            got[2] = acre__step_reserve(dev, unit, 0, 0, &address);
            if (got[2] == ACRE_OK)
                api_ok(acre__step_address_free(dev, address, unit));
            else
                assert_int_equal(address, 0);
            (void)fault_off();
            for (size_t k = 0; k < 3; k++)
                assert_int_equal(got[k], wanted[i][k]);
        }
        api_ok(acre_close(dev));
    }
}

TEST(step_location_is_the_device_or_a_node_of_the_host) {
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        CUmemLocation here = acre__step_location(dev, 0);
        assert_int_equal(here.type, CU_MEM_LOCATION_TYPE_DEVICE);
        assert_int_equal(here.id, dev->device);
        CUmemLocation host = acre__step_location(dev, ACRE__CHUNK_HOST | ACRE__CHUNK_SHAREABLE);
        assert_int_equal(host.type, CU_MEM_LOCATION_TYPE_HOST_NUMA);
        assert_true(host.id >= 0);
        fault_on("cuDeviceGetAttribute", 1, ACRE__FAULT_FROM, CUDA_ERROR_INVALID_VALUE);
        host = acre__step_location(dev, ACRE__CHUNK_HOST); /* an older driver */
        (void)fault_off();
        assert_int_equal(host.id, 0);
        assert_int_equal(refusals(dev), 0);
        api_ok(acre_close(dev));
    }
}

/* ---- a chunk and its address range ---- */

struct place {
    CUmemGenericAllocationHandle handle;
    uint64_t at;
    size_t bytes;
};

static struct place place_make(acre_device *dev, CUmemGenericAllocationHandle handle) {
    struct place place = {.handle = handle, .bytes = unit_of(dev)};
    uint32_t given;
    CUmemAccessDesc access = {acre__step_location(dev, 0), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    unsigned long long flags = 0;
    if (!handle)
        api_ok(acre__step_create(dev, place.bytes, ACRE__CHUNK_SHAREABLE, &place.handle, &given));
    api_ok(acre__step_reserve(dev, place.bytes, 0, 0, &place.at));
    api_ok(acre__step_map(dev, place.at, place.bytes, place.handle));
    api_ok(acre__step_access_get(dev, place.at, &access.location, &flags));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    api_ok(acre__step_access(dev, place.at, place.bytes, &access, 1));
    api_ok(acre__step_access_get(dev, place.at, &access.location, &flags));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return place;
}

static void place_end(acre_device *dev, const struct place *place) {
    api_ok(acre__step_unmap(dev, place->at, place->bytes));
    api_ok(acre__step_address_free(dev, place->at, place->bytes));
    api_ok(acre__step_release(dev, place->handle));
}

TEST(step_export_and_import_give_the_same_memory) {
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        struct place first = place_make(dev, 0);
        CUmemGenericAllocationHandle handle = 0;
        uint32_t word = 4711, seen = 0;
        int fd = 0;
        api_ok(acre__step_export(dev, first.handle, &fd));
        assert_true(fd > 2);
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        api_ok(acre__step_import(dev, fd, &handle));
        close(fd);
        struct place second = place_make(dev, handle);
        api_ok(acre_copy_sync(dev, (void *)(uintptr_t)first.at, &word, 4));
        api_ok(acre_copy_sync(dev, &seen, (void *)(uintptr_t)second.at, 4));
        assert_int_equal(seen, 4711);
        place_end(dev, &first);
        place_end(dev, &second);
        /* A failed export or import sets its output to -1 or 0. */
        CUmemGenericAllocationHandle plain;
        uint32_t given;
        api_ok(acre__step_create(dev, second.bytes, 0, &plain, &given));
        assert_int_not_equal(acre__step_export(dev, plain, &fd), ACRE_OK);
        assert_int_equal(fd, -1);
        api_ok(acre__step_release(dev, plain));
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        handle = 1;
        assert_int_not_equal(acre__step_import(dev, fd, &handle), ACRE_OK);
        assert_int_equal(handle, 0);
        close(fd);
        api_ok(acre_close(dev));
    }
}

/* ---- captures and waiting ---- */

/* Creates a stream of the device and makes its context current in this thread. */
static CUstream stream_begin(acre_device *dev) {
    CUstream stream = NULL;
    assert_int_equal(dev->drv->cuCtxPushCurrent(dev->context), 0);
    assert_int_equal(dev->drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
    return stream;
}

static void stream_end(acre_device *dev, CUstream stream) {
    CUcontext popped;
    assert_int_equal(dev->drv->cuStreamDestroy(stream), 0);
    assert_int_equal(dev->drv->cuCtxPopCurrent(&popped), 0);
}

static void *quiesce(void *user) {
    return acre__step_quiesce(user) == ACRE_OK ? user : NULL;
}

/* Steps in the capturing thread and in another one do not invalidate the capture. */
TEST(steps_leave_a_capture_alone) {
    const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                         CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                         CU_STREAM_CAPTURE_MODE_RELAXED};
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        CUstream stream = stream_begin(dev);
        for (size_t i = 0; i < 3; i++) {
            CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
            CUgraph graph = NULL;
            pthread_t thread;
            void *result = NULL;
            assert_int_equal(dev->drv->cuStreamBeginCapture(stream, modes[i]), 0);
            struct place place = place_make(dev, 0);
            place_end(dev, &place);
            api_ok(acre__step_quiesce(dev));
            assert_int_equal(pthread_create(&thread, NULL, quiesce, dev), 0);
            assert_int_equal(pthread_join(thread, &result), 0);
            assert_ptr_equal(result, dev);
            fault_on("cuMemAlloc", 1, ACRE__FAULT_ONCE, CUDA_ERROR_OUT_OF_MEMORY);
            api_ok(acre__step_quiesce(dev)); /* the fallback without an allocation */
            assert_int_equal(fault_off(), 1);
            assert_int_equal(dev->drv->cuStreamIsCapturing(stream, &status), 0);
            assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
            assert_int_equal(dev->drv->cuStreamEndCapture(stream, &graph), 0);
            assert_non_null(graph);
            assert_int_equal(dev->drv->cuGraphDestroy(graph), 0);
        }
        assert_int_equal(refusals(dev), 0);
        stream_end(dev, stream);
        api_ok(acre_close(dev));
    }
}

struct waiter {
    acre_device *dev;
    struct gate *gate;
    _Atomic int is_done;
    int was_passed; /* at the return of acre__step_quiesce */
    acre_status status;
};

static void *wait_for_all(void *user) {
    struct waiter *waiter = user;
    waiter->status = acre__step_quiesce(waiter->dev);
    waiter->was_passed = atomic_load(&waiter->gate->is_passed);
    atomic_store(&waiter->is_done, 1);
    return NULL;
}

TEST(step_quiesce_waits_for_all_queued_work) {
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        CUstream stream = stream_begin(dev);
        api_ok(acre__step_quiesce(dev));
        uint64_t before = api_free_bytes(dev);
        for (int is_full = 0; is_full < 2; is_full++) {
            struct gate gate = {0};
            struct waiter waiter = {.dev = dev, .gate = &gate};
            pthread_t thread;
            assert_int_equal(dev->drv->cuLaunchHostFunc(stream, gate_run, &gate), 0);
            while (!atomic_load(&gate.is_reached))
                sleep_ms(1);
            if (is_full)
                fault_on("cuMemAlloc", 1, ACRE__FAULT_ONCE, CUDA_ERROR_OUT_OF_MEMORY);
            assert_int_equal(pthread_create(&thread, NULL, wait_for_all, &waiter), 0);
            sleep_ms(50);
            assert_int_equal(atomic_load(&waiter.is_done), 0);
            atomic_store(&gate.is_open, 1);
            assert_int_equal(pthread_join(thread, NULL), 0);
            api_ok(waiter.status);
            assert_int_equal(waiter.was_passed, 1);
            assert_int_equal(fault_off(), is_full);
        }
        api_expect_free(dev, before);
        assert_int_equal(refusals(dev), 0);
        stream_end(dev, stream);
        api_ok(acre_close(dev));
    }
}

/* The device has no free memory. */
TEST(step_quiesce_works_on_a_full_device) {
    acre_open_options options = {.struct_size = sizeof options, .soft_bytes = 16 * MIB};
    acre_device *dev = NULL;
    CUmemGenericAllocationHandle handle;
    uint32_t given;
    void *p;
    api_ok(acre_open("soft", &options, &dev));
    api_ok(acre__step_create(dev, api_free_bytes(dev), 0, &handle, &given));
    api_expect(acre_mem_alloc(dev, ACRE_KIND_DEVICE, 1, 0, &p), ACRE_E_DEVICE_MEMORY);
    uint64_t before = refusals(dev);
    api_ok(acre__step_quiesce(dev));
    assert_int_equal(refusals(dev), before);
    api_ok(acre__step_release(dev, handle));
    api_ok(acre_close(dev));
}

/* Whichever driver call fails, the step returns a status. acre_trim frees its small block at the
 * latest. */
TEST(step_quiesce_bears_every_refusal) {
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        api_ok(acre__step_quiesce(dev));
        uint64_t before = api_free_bytes(dev), fired = 1;
        unsigned failures = 0;
        for (uint32_t nth = 1; fired; nth++) {
            fault_on(NULL, nth, ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN);
            acre_status status = acre__step_quiesce(dev);
            fired = fault_off();
            assert_true(status == ACRE_OK || (fired && status == ACRE_E_DRIVER));
            failures += status != ACRE_OK;
            assert_int_equal(api_stats(dev).limbo_count, 0); /* a retry succeeded */
        }
        assert_int_equal(failures, 5); /* current, push, mode, alloc, free */
        fault_on("cuMemFree", 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
        api_expect(acre__step_quiesce(dev), ACRE_E_DRIVER);
        assert_true(fault_off() >= 2);
        assert_int_equal(api_stats(dev).limbo_count, 1);
        api_ok(acre_trim(dev));
        assert_int_equal(api_stats(dev).limbo_count, 0);
        api_expect_free(dev, before);
        api_ok(acre_close(dev));
    }
}

int main(void) {
    fault_begin();
    return tests_run("steps");
}
