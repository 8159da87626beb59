/* Several soft devices, their contexts, and start and reset of the soft driver: separate state,
 * peer access, and resets or releases while threads and queued work are active. */
#include "soft_fixture.h"

static void begin_two(void) {
    soft_begin(64 * MIB, 2);
}

static void use_device(int device) {
    assert_ok(drv->cuCtxSetCurrent(soft_ctx[device]));
}

/* ---- configuration ---- */

SOFT_TEST_BARE(devices_other_configuration_while_retained_is_busy) {
    soft_begin(64 * MIB, 1);
    struct acre__soft_config same = soft_config(64 * MIB, 1), other = soft_config(32 * MIB, 1);
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_int_equal(acre__soft_configure(&same), ACRE_OK);
    assert_int_equal(acre__soft_configure(&other), ACRE_E_BUSY);
    assert_int_equal(acre__soft_config_get().bytes, 64 * MIB);
    assert_ok(drv->cuMemFree(at)); /* the refused call changed nothing */
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_int_equal(acre__soft_configure(&other), ACRE_OK);
    assert_int_equal(acre__soft_config_get().bytes, 32 * MIB);
    assert_int_equal(drv->cuDevicePrimaryCtxRetain(&soft_ctx[0], 0), CUDA_ERROR_NOT_INITIALIZED);
    assert_ok(drv->cuInit(0));
    size_t bytes = 0;
    assert_ok(drv->cuDeviceTotalMem(&bytes, 0));
    assert_int_equal(bytes, 32 * MIB);
}

SOFT_TEST_BARE(devices_reset_drops_everything) {
    for (int round = 0; round < 5; round++) {
        begin_two();
        CUdeviceptr at = 0;
        void *pinned = NULL;
        CUevent event;
        CUstream stream = soft_stream(CU_STREAM_DEFAULT);
        assert_ok(drv->cuMemAlloc(&at, 64));
        assert_ok(drv->cuMemAlloc(&at, 4 * MIB));
        assert_ok(drv->cuMemHostAlloc(&pinned, 64, 0));
        assert_ok(drv->cuMemAllocManaged(&at, 64, CU_MEM_ATTACH_GLOBAL));
        assert_ok(drv->cuEventCreate(&event, 0));
        at = soft_map(soft_chunk(CHUNK, 1), CHUNK, 0);
        assert_ok(drv->cuMemsetD8Async(at, 1, CHUNK, stream));
        assert_ok(drv->cuEventRecord(event, stream));
        assert_ok(drv->cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_GLOBAL));
        acre__soft_reset();
        assert_int_equal(drv->cuMemAlloc(&at, 64), CUDA_ERROR_NOT_INITIALIZED);
        assert_int_equal(acre__soft.ranges.count + acre__soft.handles.count +
                             acre__soft.events.count + acre__soft.files.count +
                             acre__soft.windows.count + acre__soft.free_addresses.count +
                             acre__soft.worker_count + acre__soft.captures,
                         0);
        assert_int_equal(acre__soft.devices[0].fd, -1);
        assert_int_equal(acre__soft.devices[1].fd, -1);
        assert_ok(drv->cuInit(0));
        CUcontext current = NULL;
        assert_ok(drv->cuCtxGetCurrent(&current)); /* the old context stack is empty too */
        assert_null(current);
    }
}

/* A reset stops the workers although queued work is left that would start new ones. */
SOFT_TEST_BARE(devices_reset_with_queued_work_is_safe) {
    for (int round = 0; round < 30; round++) {
        begin_two();
        CUdeviceptr at = 0;
        assert_ok(drv->cuMemAlloc(&at, 24 * MIB));
        for (size_t i = 0; i < 6; i++) {
            CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
            for (int k = 0; k < 20; k++)
                assert_ok(drv->cuMemsetD8Async(at + i * 4 * MIB, 1, 4 * MIB, stream));
        }
        acre__soft_reset();
        assert_int_equal(acre__soft.worker_count, 0);
        assert_int_equal(acre__soft.running, 0);
    }
}

/* ---- attributes ---- */

static int attribute_of(CUdevice_attribute attribute, int device) {
    int value = -2;
    assert_ok(drv->cuDeviceGetAttribute(&value, attribute, device));
    return value;
}

/* A capability is reported only if the calls that need it work. The conformance suite checks all
 * values that a GPU has, too. */
SOFT_TEST_BARE(devices_attributes_are_what_calls_accept) {
    begin_two();
    CUmemPoolProps host = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                           .location = {CU_MEM_LOCATION_TYPE_HOST, 0}};
    CUmemAllocationProp chunk = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_HOST, 0}};
    CUmemGenericAllocationHandle handle;
    CUmemoryPool pool;
    assert_int_equal(attribute_of(CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, 0), 0);
    assert_int_equal(drv->cuMemPoolCreate(&pool, &host), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(attribute_of(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0),
                     1);
    assert_ok(drv->cuMemCreate(&handle, CHUNK, &chunk, 0));
    assert_ok(drv->cuMemRelease(handle));
    assert_int_equal(attribute_of(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0), 0);
    assert_int_equal(attribute_of(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0),
                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    assert_int_equal(attribute_of(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 0), 0);
    assert_int_equal(attribute_of(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0),
                     sysconf(_SC_NPROCESSORS_ONLN));
    assert_int_equal(attribute_of(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1),
                     attribute_of(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0) + 1);
    for (int i = 1; i <= CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED; i++)
        assert_true(attribute_of((CUdevice_attribute)i, 1) >= -1);
}

/* ---- separate ---- */

SOFT_TEST_BARE(devices_memory_runs_out_for_each_alone) {
    begin_two();
    CUdeviceptr first = 0, second = 0, more = 0;
    size_t room = 0;
    assert_ok(drv->cuMemAlloc(&first, 64 * MIB));
    assert_int_equal(drv->cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    use_device(1);
    assert_ok(drv->cuMemGetInfo(&room, NULL));
    assert_int_equal(room, 64 * MIB);
    assert_ok(drv->cuMemAlloc(&second, 64 * MIB));
    assert_int_equal(drv->cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(drv->cuMemFree(first)); /* memory of the other device */
    assert_int_equal(drv->cuMemAlloc(&more, 1), CUDA_ERROR_OUT_OF_MEMORY);
    use_device(0);
    assert_ok(drv->cuMemAlloc(&more, 64 * MIB));
}

SOFT_TEST_BARE(devices_streams_belong_to_one) {
    begin_two();
    CUstream first = soft_stream(CU_STREAM_DEFAULT);
    CUdeviceptr at = 0;
    _Atomic int ran = 0;
    use_device(1);
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_refused(drv->cuMemsetD8Async(at, 1, 64, first));
    assert_ok(drv->cuMemcpyAsync(at, at + 32, 32, first)); /* copies may use any device's stream */
    /* The legacy streams of two devices do not order each other. */
    struct gate gate;
    soft_gate_put(&gate, NULL);
    use_device(0);
    assert_ok(drv->cuLaunchHostFunc(NULL, soft_note, &ran));
    assert_ok(drv->cuLaunchHostFunc(first, soft_note, &ran));
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(atomic_load(&ran), 2);
    soft_gate_open(&gate);
}

SOFT_TEST_BARE(devices_lost_one_leaves_the_other_well) {
    begin_two();
    struct gate gate;
    CUdeviceptr at = soft_map(soft_chunk(CHUNK, 0), CHUNK, 0), other = 0;
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuMemsetD8Async(at, 1, 64, stream));
    assert_ok(drv->cuMemUnmap(at, CHUNK));
    soft_gate_open(&gate);
    assert_int_equal(drv->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    use_device(1);
    assert_ok(drv->cuMemAlloc(&other, 64));
    assert_ok(drv->cuMemsetD8(other, 1, 64));
    assert_true(soft_is_filled(other, 64, 1));
}

/* ---- peer access ---- */

SOFT_TEST_BARE(devices_peer_access_is_per_mapping) {
    begin_two();
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr here = soft_map(chunk, CHUNK, 0), there = soft_map(chunk, CHUNK, 1);
    use_device(1);
    assert_ok(drv->cuCtxEnablePeerAccess(soft_ctx[0], 0)); /* does not cover mapped chunks */
    assert_refused(drv->cuMemsetD8(here, 1, 64));
    assert_ok(drv->cuMemsetD8(there, 2, 64));
    assert_ok(drv->cuCtxSynchronize());
    use_device(0);
    assert_true(soft_is_filled(here, 64, 2));
    assert_refused(drv->cuMemsetD8(there, 1, 64));
    CUmemAccessDesc both[2] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READ}};
    assert_ok(drv->cuMemSetAccess(here, CHUNK, both, 2));
    use_device(1);
    assert_true(soft_is_filled(here, 64, 2));
    assert_refused(drv->cuMemsetD8(here, 1, 64));
    assert_int_equal(soft_used_bytes(0), CHUNK);
    assert_int_equal(soft_used_bytes(1), 0);
}

SOFT_TEST_BARE(devices_copy_between_plain_memory) {
    begin_two();
    CUdeviceptr first = 0, second = 0;
    assert_ok(drv->cuMemAlloc(&first, 3 * MIB));
    assert_ok(drv->cuMemsetD8(first, 0x41, 3 * MIB));
    assert_ok(drv->cuCtxSynchronize());
    use_device(1);
    assert_ok(drv->cuMemAlloc(&second, 3 * MIB));
    assert_ok(drv->cuMemcpyDtoD(second, first, 3 * MIB));
    assert_true(soft_is_filled(second, 3 * MIB, 0x41));
    assert_ok(drv->cuMemsetD8(second, 0x42, 3 * MIB));
    assert_ok(drv->cuMemcpyPeerAsync(first, soft_ctx[0], second, soft_ctx[1], 3 * MIB, NULL));
    assert_ok(drv->cuCtxSynchronize());
    assert_true(soft_is_filled(first, 3 * MIB, 0x42));
}

/* Each side of a peer copy needs access for its own device only. */
SOFT_TEST_BARE(devices_peer_copy_goes_by_each_sides_access) {
    begin_two();
    int junk = 0;
    CUdeviceptr first = soft_map(soft_chunk(CHUNK, 0), CHUNK, 0);
    CUdeviceptr second = soft_map(soft_chunk(CHUNK, 1), CHUNK, 1);
    CUcontext one = soft_ctx[0], two = soft_ctx[1];
    assert_ok(drv->cuMemsetD8(first, 0x51, CHUNK));
    assert_ok(drv->cuMemcpyPeerAsync(second, two, first, one, CHUNK, NULL));
    assert_ok(drv->cuCtxSynchronize());
    assert_refused(drv->cuMemcpyDtoD(second, first, CHUNK)); /* device 0 may not write there */
    assert_refused(drv->cuMemcpyPeerAsync(second, one, first, two, CHUNK, NULL));
    assert_refused(drv->cuMemcpyPeerAsync(second, NULL, first, one, CHUNK, NULL));
    assert_refused(drv->cuMemcpyPeerAsync(second, (CUcontext)(void *)&junk, first, one, 64, NULL));
    assert_ok(drv->cuCtxSynchronize());
    use_device(1);
    assert_true(soft_is_filled(second, CHUNK, 0x51));
}

SOFT_TEST_BARE(devices_events_order_across) {
    begin_two();
    struct gate gate;
    _Atomic int ran = 0;
    CUevent event;
    CUstream first = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    soft_gate_put(&gate, first);
    assert_ok(drv->cuEventRecord(event, first));
    use_device(1);
    CUstream second = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuStreamWaitEvent(second, event, 0));
    assert_ok(drv->cuLaunchHostFunc(second, soft_note, &ran));
    sleep_ms(20);
    assert_int_equal(atomic_load(&ran), 0);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(second));
    assert_int_equal(atomic_load(&ran), 1);
}

/* The event's device is lost, and its context is released while the record is still queued. */
SOFT_TEST_BARE(devices_event_of_ended_context_holds_up_nobody) {
    begin_two();
    struct gate gate, loser;
    CUevent event;
    CUdeviceptr at = soft_map(soft_chunk(CHUNK, 0), CHUNK, 0);
    CUstream first = soft_stream(CU_STREAM_NON_BLOCKING), losing = soft_stream(1);
    _Atomic int ran = 0;
    assert_ok(drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    soft_gate_put(&gate, first);
    soft_gate_put(&loser, losing);
    assert_ok(drv->cuEventRecord(event, first));
    assert_ok(drv->cuMemsetD8Async(at, 1, 64, losing));
    assert_ok(drv->cuMemUnmap(at, CHUNK));
    use_device(1);
    CUstream second = soft_stream(CU_STREAM_NON_BLOCKING);
    assert_ok(drv->cuStreamWaitEvent(second, event, 0));
    assert_ok(drv->cuLaunchHostFunc(second, soft_note, &ran));
    soft_gate_open(&loser);
    assert_true(soft_eventually(acre__soft_reports(NULL, 0) == 2));
    soft_gate_open(&gate);
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_ok(drv->cuStreamSynchronize(second));
    assert_int_equal(atomic_load(&ran), 1);
}

/* Frees pinned memory of one device while a stream of the other uses it. The free waits only for
 * its own device: a running copy must keep its pages, queued copies find the memory freed. */
SOFT_TEST_BARE(devices_pinned_freed_under_work_of_other_is_safe) {
    for (int round = 0; round < 10; round++) {
        begin_two();
        void *pinned = NULL;
        CUdeviceptr at = 0;
        assert_ok(drv->cuMemHostAlloc(&pinned, 32 * MIB, 0));
        use_device(1);
        assert_ok(drv->cuMemAlloc(&at, 32 * MIB));
        CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
        for (int i = 0; i < 4; i++)
            assert_ok(drv->cuMemcpyHtoDAsync(at, pinned, 32 * MIB, stream));
        sleep_ms(round % 4);
        use_device(0);
        assert_ok(drv->cuMemFreeHost(pinned));
        use_device(1);
        CUresult result = drv->cuStreamSynchronize(stream);
        assert_true(result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_int_equal(result == CUDA_SUCCESS, acre__soft_reports(NULL, 0) == 0);
        soft_teardown(state);
    }
    begin_two();
}

/* Unregisters the program's memory while a stream of the other device uses it: when the call
 * returns, no copy reads it any more. */
SOFT_TEST_BARE(devices_unregistered_under_work_of_other_is_the_programs_again) {
    begin_two();
    for (int round = 0; round < 5; round++) {
        char *own = malloc(16 * MIB);
        CUdeviceptr at = 0;
        assert_non_null(own);
        use_device(0);
        assert_ok(drv->cuMemHostRegister(own, 16 * MIB, 0));
        use_device(1);
        assert_ok(drv->cuMemAlloc(&at, 16 * MIB));
        CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
        assert_ok(drv->cuMemcpyHtoDAsync(at, own, 16 * MIB, stream));
        sleep_ms(1); /* the copy usually runs by now */
        use_device(0);
        assert_ok(drv->cuMemHostUnregister(own));
        free(own);
        use_device(1);
        if (drv->cuStreamSynchronize(stream)) /* the copy had not begun */
            break;
        assert_ok(drv->cuMemFree(at));
    }
}

/* ---- contexts ---- */

SOFT_TEST_BARE(devices_context_stack_is_per_thread) {
    begin_two();
    CUcontext ctx = NULL;
    CUdevice device = -1;
    assert_ok(drv->cuCtxPushCurrent(soft_ctx[1]));
    assert_ok(drv->cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    assert_ok(drv->cuCtxPopCurrent(&ctx));
    assert_ptr_equal(ctx, soft_ctx[1]);
    assert_ok(drv->cuCtxGetCurrent(&ctx));
    assert_ptr_equal(ctx, soft_ctx[0]);
    for (int i = 1; i < SOFT_STACK; i++)
        assert_ok(drv->cuCtxPushCurrent(soft_ctx[i % 2]));
    assert_refused(drv->cuCtxPushCurrent(soft_ctx[0]));
    for (int i = 0; i < SOFT_STACK; i++)
        assert_ok(drv->cuCtxPopCurrent(&ctx));
    assert_refused(drv->cuCtxPopCurrent(&ctx));
}

SOFT_TEST_BARE(devices_counted_release_ends_with_the_last) {
    soft_begin(64 * MIB, 1);
    CUdeviceptr at = 0;
    CUcontext again;
    assert_ok(drv->cuDevicePrimaryCtxRetain(&again, 0));
    assert_ptr_equal(again, soft_ctx[0]);
    assert_ok(drv->cuMemAlloc(&at, 64));
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_true(soft_is_filled(at, 64, 0));
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_refused(drv->cuMemAlloc(&at, 64));
    assert_refused(drv->cuDevicePrimaryCtxRelease(0));
    assert_int_equal(acre__soft.worker_count, 0);
}

SOFT_TEST_BARE(devices_release_waits_for_work) {
    soft_begin(64 * MIB, 1);
    CUdeviceptr at = 0;
    _Atomic int ran = 0;
    assert_ok(drv->cuMemAlloc(&at, 32 * MIB));
    for (size_t i = 0; i < 8; i++) {
        CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
        assert_ok(drv->cuMemsetD8Async(at + i * 4 * MIB, 1, 4 * MIB, stream));
        assert_ok(drv->cuLaunchHostFunc(stream, soft_note, &ran));
    }
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_int_equal(atomic_load(&ran), 8);
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
}

/* The other device always has work that is ready: releasing this device must not wait for it. */
static _Atomic int busy_is_over;

static void *keep_busy(void *unused) {
    (void)unused;
    CUdeviceptr at = 0;
    if (drv->cuCtxPushCurrent(soft_ctx[1]) || drv->cuMemAlloc(&at, MIB))
        return &busy_is_over;
    while (!atomic_load(&busy_is_over))
        for (int i = 0; i < 10; i++)
            if (drv->cuMemsetD8Async(at, 1, MIB, CU_STREAM_PER_THREAD))
                return &busy_is_over;
    return drv->cuCtxSynchronize() ? &busy_is_over : NULL;
}

SOFT_TEST_BARE(devices_release_beside_busy_device_returns) {
    begin_two();
    pthread_t thread;
    void *failed = NULL;
    atomic_store(&busy_is_over, 0);
    assert_int_equal(pthread_create(&thread, NULL, keep_busy, NULL), 0);
    for (int round = 0; round < 20; round++) {
        CUdeviceptr at = 0;
        assert_ok(drv->cuMemAlloc(&at, MIB));
        assert_ok(drv->cuMemsetD8Async(at, 1, MIB, CU_STREAM_PER_THREAD));
        assert_ok(drv->cuDevicePrimaryCtxRelease(0));
        assert_ok(drv->cuDevicePrimaryCtxRetain(&soft_ctx[0], 0));
    }
    atomic_store(&busy_is_over, 1);
    pthread_join(thread, &failed);
    assert_null(failed);
}

/* A release does not wait for a lost device, but one of its operations may still run when the
 * context ends. */
SOFT_TEST_BARE(devices_release_of_lost_device_with_running_work_is_safe) {
    for (int round = 0; round < 5; round++) {
        begin_two();
        struct gate gate;
        CUdeviceptr gone = soft_map(soft_chunk(CHUNK, 0), CHUNK, 0), at = 0;
        CUstream losing = soft_stream(1), working = soft_stream(1);
        assert_ok(drv->cuMemAlloc(&at, 48 * MIB));
        soft_gate_put(&gate, losing);
        assert_ok(drv->cuMemsetD8Async(gone, 1, 64, losing));
        assert_ok(drv->cuMemUnmap(gone, CHUNK));
        for (int i = 0; i < 3; i++)
            assert_ok(drv->cuMemsetD8Async(at, 1, 48 * MIB, working));
        soft_gate_open(&gate);
        assert_true(soft_eventually(acre__soft_reports(NULL, 0) == 2));
        assert_ok(drv->cuDevicePrimaryCtxRelease(0));
        assert_int_equal(soft_used_bytes(0), CHUNK); /* the test still holds the chunk's handle */
        soft_teardown(state);
    }
    begin_two();
}

/* ---- many threads ---- */

enum { STORM_THREADS = 6, STORM_ROUNDS = 60 };

struct storm {
    unsigned number;
    const char *wrong;
};

/* Writes a value that is unique to the thread and round, and expects to read it back. */
static const char *storm_round(struct storm *storm, unsigned round, CUstream stream) {
    CUdeviceptr from = 0, to = 0;
    CUevent event = NULL;
    unsigned char seen[1000], value = (unsigned char)(storm->number * 31 + round);
    size_t large = round % 8 ? 0 : MIB;
    const char *wrong = NULL;
    if (drv->cuMemAlloc(&from, 1000 + large) || drv->cuMemAlloc(&to, 1000 + large) ||
        drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING))
        return "allocation or event creation failed";
    if (drv->cuMemsetD8Async(from, value, 1000 + large, stream) ||
        drv->cuEventRecord(event, stream) ||
        drv->cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0) ||
        drv->cuMemcpyDtoDAsync(to, from, 1000 + large, CU_STREAM_PER_THREAD) ||
        drv->cuMemcpyDtoHAsync(seen, to + large, 1000, CU_STREAM_PER_THREAD))
        wrong = "queueing work failed";
    for (size_t i = 0; i < sizeof seen && !wrong; i++)
        if (seen[i] != value)
            wrong = "wrong bytes";
    CUresult query = drv->cuEventQuery(event);
    if (query != CUDA_SUCCESS && query != CUDA_ERROR_NOT_READY)
        wrong = "query failed";
    if (drv->cuEventDestroy(event) || drv->cuMemFree(from) || drv->cuMemFree(to))
        wrong = "freeing memory or event failed";
    return wrong;
}

static void *storm_run(void *argument) {
    struct storm *storm = argument;
    for (unsigned round = 0; round < STORM_ROUNDS && !storm->wrong; round++) {
        CUstream stream = NULL;
        if (drv->cuCtxPushCurrent(soft_ctx[(storm->number + round) % 2]) ||
            drv->cuStreamCreate(&stream, round % 3 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT))
            return storm->wrong = "creating the stream failed", NULL;
        storm->wrong = storm_round(storm, round, stream);
        CUcontext top;
        if (round % 7 == 0 && drv->cuCtxSynchronize())
            storm->wrong = "cuCtxSynchronize failed";
        if (drv->cuStreamDestroy(stream) || drv->cuCtxPopCurrent(&top))
            storm->wrong = "destroying the stream failed";
    }
    return NULL;
}

static void storm(int check) {
    struct acre__soft_config config = soft_config(64 * MIB, 2);
    config.check = check;
    soft_begin_with(&config);
    struct storm storms[STORM_THREADS];
    pthread_t threads[STORM_THREADS];
    for (unsigned i = 0; i < STORM_THREADS; i++) {
        storms[i] = (struct storm){i, NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, storm_run, &storms[i]), 0);
    }
    for (unsigned i = 0; i < STORM_THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (storms[i].wrong)
            fail_msg("thread %u: %s", i, storms[i].wrong);
    }
    char text[512] = "";
    if (acre__soft_reports(text, sizeof text))
        fail_msg("%s", text);
    assert_int_equal(soft_used_bytes(0) + soft_used_bytes(1), 0);
}

SOFT_TEST_BARE(devices_many_threads_at_once_keep_apart) {
    storm(0);
}

SOFT_TEST_BARE(devices_many_threads_at_once_are_ordered) {
    storm(1);
}

/* Threads retain and release concurrently: the count is right at the end, and a retained context is
 * usable. */
static void *retain_and_release(void *unused) {
    (void)unused;
    for (int i = 0; i < 150; i++) {
        CUcontext ctx, top;
        CUdeviceptr at = 0;
        if (drv->cuDevicePrimaryCtxRetain(&ctx, 0) || drv->cuCtxPushCurrent(ctx) ||
            drv->cuMemAlloc(&at, 512) || drv->cuMemsetD8Async(at, 1, 512, CU_STREAM_PER_THREAD) ||
            drv->cuCtxPopCurrent(&top) || drv->cuDevicePrimaryCtxRelease(0))
            return &busy_is_over;
    }
    return NULL;
}

SOFT_TEST_BARE(devices_retain_and_release_by_many_threads_count) {
    soft_begin(64 * MIB, 1);
    CUcontext top;
    pthread_t threads[4];
    assert_ok(drv->cuCtxPopCurrent(&top));
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, retain_and_release, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_refused(drv->cuDevicePrimaryCtxRelease(0));
    assert_int_equal(soft_used_bytes(0), 0);
    assert_int_equal(acre__soft.worker_count, 0);
}

int main(void) {
    return tests_run("soft_devices");
}
