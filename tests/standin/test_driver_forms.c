/* Older versions of the driver's functions, and versions for the per-thread default stream: each
 * behaves as documented. */
#include "driver_expect.h"

enum { BYTES = 1 << 16 };

static CUdeviceptr block(void) {
    CUdeviceptr p = 0;
    ok(cuMemAlloc(&p, BYTES));
    return p;
}

static unsigned char byte_at(CUdeviceptr p) {
    unsigned char byte = 0;
    ok(cuMemcpyDtoH(&byte, p, 1));
    return byte;
}

/* ---- devices and contexts ---- */

TEST(forms_devices_agree) {
    CUresult (*uuid)(CUuuid *, CUdevice), (*capability)(int *, int *, CUdevice);
    CUuuid one, other;
    int major, minor, value;
    take(uuid, "cuDeviceGetUuid");
    take(capability, "cuDeviceComputeCapability");
    ok(uuid(&one, 0));
    ok(cuDeviceGetUuid(&other, 0));
    assert_memory_equal(&one, &other, sizeof one);
    ok(capability(&major, &minor, 0));
    ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    assert_int_equal(major, value);
    ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    assert_int_equal(minor, value);
    expect(CUDA_ERROR_INVALID_DEVICE, capability(&major, &minor, 99));
    expect(CUDA_ERROR_INVALID_VALUE, capability(NULL, &minor, 0));
}

/* Devices are checked first, then the attribute. */
TEST(forms_neighbours) {
    const CUdevice_P2PAttribute supported = CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    CUdevice_P2PAttribute none = (CUdevice_P2PAttribute)99;
    int value = -1, can = -1, count = 0;
    ok(cuDeviceGetCount(&count));
    expect(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&value, supported, 0, 0));
    expect(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&value, supported, 0, count));
    expect(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&value, supported, count, 0));
    expect(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetP2PAttribute(&value, none, 0, 0));
    if (count < 2)
        skip();
    expect(CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAttribute(&value, none, 0, 1));
    ok(cuDeviceCanAccessPeer(&can, 0, 1));
    ok(cuDeviceGetP2PAttribute(&value, supported, 0, 1));
    assert_int_equal(value, can);
    ok(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 1));
    assert_true(value >= 0);
    if (on_standin())
        expect(CUDA_ERROR_INVALID_VALUE, cuDeviceGetP2PAttribute(NULL, supported, 0, 1));
}

TEST(forms_contexts_of_every_version) {
    CUresult (*v1)(CUcontext *, unsigned, CUdevice), (*v2)(CUcontext *, unsigned, CUdevice);
    CUresult (*v3)(CUcontext *, void *, int, unsigned, CUdevice), (*destroy)(CUcontext);
    CUresult (*push)(CUcontext), (*pop)(CUcontext *);
    CUcontext ctx[4], now, before;
    int affinity[4] = {0};
    take(v1, "cuCtxCreate");
    take(v2, "cuCtxCreate_v2");
    take(v3, "cuCtxCreate_v3");
    take(destroy, "cuCtxDestroy");
    /* The first versions have 32-bit addresses, which large GPUs do not support. The first versions
     * of push and pop accept only contexts of those. */
    take(push, on_standin() ? "cuCtxPushCurrent" : "cuCtxPushCurrent_v2");
    take(pop, on_standin() ? "cuCtxPopCurrent" : "cuCtxPopCurrent_v2");
    ok(cuCtxGetCurrent(&before));
    ok((on_standin() ? v1 : v2)(&ctx[0], 0, 0));
    ok(v2(&ctx[1], CU_CTX_SCHED_SPIN, 0));
    ok(v3(&ctx[2], NULL, 0, 0, 0));
    ok(cuCtxCreate(&ctx[3], NULL, 0, 0));
    ok(cuCtxGetCurrent(&now));
    assert_ptr_equal(now, ctx[3]);
    expect(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, v3(&now, affinity, 1, 0, 0));
    expect(CUDA_ERROR_INVALID_VALUE, v3(&now, NULL, 1, 0, 0));
    ok(v3(&now, affinity, -1, 0, 0)); /* a negative count means none */
    ok(destroy(now));
    ok(push(ctx[0]));
    ok(pop(&now));
    assert_ptr_equal(now, ctx[0]);
    for (int i = 3; i >= 0; i--)
        ok(destroy(ctx[i]));
    ok(cuCtxGetCurrent(&now));
    assert_ptr_equal(now, before);
}

TEST(forms_context_by_argument) {
    CUresult (*device)(CUdevice *, CUcontext), (*synchronize)(CUcontext);
    CUcontext ctx, now;
    CUdevice dev = -1;
    take(device, "cuCtxGetDevice_v2");
    take(synchronize, "cuCtxSynchronize_v2");
    ok(cuCtxGetCurrent(&ctx));
    ok(device(&dev, NULL));
    assert_int_equal(dev, 0);
    ok(synchronize(NULL));
    ok(cuCtxSetCurrent(NULL));
    expect(CUDA_ERROR_INVALID_CONTEXT, device(&dev, NULL));
    expect(CUDA_ERROR_INVALID_CONTEXT, synchronize(NULL));
    dev = -1;
    ok(device(&dev, ctx));
    assert_int_equal(dev, 0);
    ok(synchronize(ctx));
    ok(cuCtxGetCurrent(&now));
    assert_null(now);
    ok(cuCtxSetCurrent(ctx));
}

TEST(forms_primary_context) {
    CUresult (*release)(CUdevice), (*set_flags)(CUdevice, unsigned);
    CUcontext ctx;
    take(release, "cuDevicePrimaryCtxRelease");
    take(set_flags, "cuDevicePrimaryCtxSetFlags");
    ok(cuDevicePrimaryCtxRetain(&ctx, 0));
    ok(release(0));
    expect(CUDA_ERROR_INVALID_DEVICE, release(99));
    expect(CUDA_ERROR_INVALID_DEVICE, set_flags(99, 0));
}

/* ---- streams and events ---- */

TEST(forms_streams_and_events_end) {
    CUresult (*end_stream)(CUstream), (*end_event)(CUevent);
    CUresult (*elapsed)(float *, CUevent, CUevent);
    CUstream stream;
    CUevent start, end;
    float ms = -1;
    take(end_stream, "cuStreamDestroy");
    take(end_event, "cuEventDestroy");
    take(elapsed, "cuEventElapsedTime");
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuEventCreate(&start, 0));
    ok(cuEventCreate(&end, 0));
    ok(cuEventRecord(start, stream));
    ok(cuEventRecord(end, stream));
    ok(cuStreamSynchronize(stream));
    ok(elapsed(&ms, start, end));
    assert_true(ms >= 0);
    ok(cuEventElapsedTime(&ms, start, end)); /* the header maps this name to the second version */
    ok(end_event(start));
    ok(end_event(end));
    ok(end_stream(stream));
}

TEST(forms_stream_has_no_green_context) {
    CUresult (*get)(CUstream, CUcontext *, void **);
    CUcontext ctx, now;
    void *green = &ctx;
    take(get, "cuStreamGetCtx_v2");
    ok(cuCtxGetCurrent(&now));
    ok(get(NULL, &ctx, &green));
    assert_ptr_equal(ctx, now);
    assert_null(green);
    ctx = NULL;
    ok(get(NULL, &ctx, NULL)); /* a NULL output is allowed */
    assert_ptr_equal(ctx, now);
}

TEST(forms_capture_without_a_mode) {
    CUresult (*begin)(CUstream);
    CUstreamCaptureStatus status;
    CUstream stream;
    CUgraph graph;
    take(begin, "cuStreamBeginCapture");
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(begin(stream));
    ok(cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphDestroy(graph));
    ok(cuStreamDestroy(stream));
}

static void forms_note(void *arg) {
    atomic_fetch_add((_Atomic int *)arg, 1);
}

/* In the header, cuStreamGetCaptureInfo is the version of CUDA 12.3. */
TEST(forms_capture_info_and_graphs) {
    CUresult (*info)(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,
                     const CUgraphNode **, size_t *);
    CUstreamCaptureStatus status;
    cuuint64_t id = 0, same = 0;
    CUuserObject object;
    CUgraphExec exec;
    CUgraph graph, made;
    CUstream stream;
    static _Atomic int ran, ended;
    take(info, "cuStreamGetCaptureInfo_v2");
    ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(info(stream, &status, &id, &graph, NULL, NULL));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ok(cuStreamGetCaptureInfo(stream, &status, &same, &made, NULL, NULL, NULL));
    assert_true(id == same && graph == made);
    ok(cuUserObjectCreate(&object, &ended, forms_note, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    ok(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    ok(cuLaunchHostFunc(stream, forms_note, &ran));
    ok(cuStreamEndCapture(stream, &made));
    assert_ptr_equal(made, graph);
    ok(cuGraphInstantiate(&exec, graph, 0));
    ok(cuGraphDestroy(graph));
    ok(cuGraphLaunch(exec, CU_STREAM_PER_THREAD));
    ok(cuGraphLaunch(exec, stream));
    ok(cuStreamSynchronize(stream));
    assert_int_equal(ran, 2);
    assert_int_equal(ended, 0);
    ok(cuGraphExecDestroy(exec));
    for (int i = 0; i < 200000 && !ended; i++)
        usleep(1000);
    assert_int_equal(ended, 1);
    ok(cuStreamDestroy(stream));
}

/* ---- memory ---- */

TEST(forms_places_before_they_had_types) {
    CUresult (*prefetch)(CUdeviceptr, size_t, CUdevice, CUstream);
    CUresult (*advise)(CUdeviceptr, size_t, CUmem_advise, CUdevice);
    CUdeviceptr p;
    int place = 0;
    take(prefetch, "cuMemPrefetchAsync");
    take(advise, "cuMemAdvise");
    ok(cuMemAllocManaged(&p, BYTES, CU_MEM_ATTACH_GLOBAL));
    ok(prefetch(p, BYTES, 0, NULL));
    ok(cuMemRangeGetAttribute(&place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                              p, BYTES));
    assert_int_equal(place, 0);
    ok(prefetch(p, BYTES, CU_DEVICE_CPU, NULL));
    ok(cuMemRangeGetAttribute(&place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                              p, BYTES));
    assert_int_equal(place, CU_DEVICE_CPU);
    ok(advise(p, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    ok(cuMemRangeGetAttribute(&place, sizeof place, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p,
                              BYTES));
    assert_int_equal(place, CU_DEVICE_CPU);
    expect(CUDA_ERROR_INVALID_DEVICE, prefetch(p, BYTES, 99, NULL));
    ok(cuMemFree(p));
}

TEST(forms_range_attributes_together) {
    CUresult (*get)(void **, size_t *, CUmem_range_attribute *, size_t, CUdeviceptr, size_t);
    CUmem_range_attribute which[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                     CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    int values[2] = {-7, -7};
    void *data[] = {&values[0], &values[1]};
    size_t sizes[] = {sizeof(int), sizeof(int)};
    CUdeviceptr p;
    take(get, "cuMemRangeGetAttributes");
    ok(cuMemAllocManaged(&p, BYTES, CU_MEM_ATTACH_GLOBAL));
    ok(cuMemAdvise(p, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    ok(get(data, sizes, which, 2, p, BYTES));
    assert_int_equal(values[0], 1);
    assert_int_equal(values[1], CU_DEVICE_INVALID);
    expect(CUDA_ERROR_INVALID_VALUE, get(data, sizes, which, 0, p, BYTES));
    expect(CUDA_ERROR_INVALID_VALUE, get(NULL, sizes, which, 2, p, BYTES));
    ok(cuMemFree(p));
}

TEST(forms_register_of_cuda_4) {
    CUresult (*pin)(void *, size_t, unsigned);
    void *pages = aligned_alloc(4096, BYTES);
    take(pin, "cuMemHostRegister");
    assert_non_null(pages);
    ok(pin(pages, BYTES, 0));
    expect(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, pin(pages, BYTES, 0));
    ok(cuMemHostUnregister(pages));
    free(pages);
}

TEST(forms_pools_by_place) {
    typedef CUresult (*get_pool)(CUmemoryPool *, CUmemLocation *, CUmemAllocationType);
    get_pool get_default, get;
    CUresult (*set)(CUmemLocation *, CUmemAllocationType, CUmemoryPool);
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                  host = {.type = CU_MEM_LOCATION_TYPE_HOST},
                  nowhere = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 99};
    CUmemoryPool one, other;
    take(get_default, "cuMemGetDefaultMemPool");
    take(get, "cuMemGetMemPool");
    take(set, "cuMemSetMemPool");
    ok(cuDeviceGetDefaultMemPool(&one, 0));
    ok(get_default(&other, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
    assert_ptr_equal(one, other);
    ok(set(&here, CU_MEM_ALLOCATION_TYPE_PINNED, one));
    ok(get(&other, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
    assert_ptr_equal(one, other);
    expect(CUDA_ERROR_INVALID_VALUE, get(&other, NULL, CU_MEM_ALLOCATION_TYPE_PINNED));
    expect(CUDA_ERROR_INVALID_VALUE, get(&other, &nowhere, CU_MEM_ALLOCATION_TYPE_PINNED));
    expect(CUDA_ERROR_INVALID_VALUE, get_default(&other, &here, CU_MEM_ALLOCATION_TYPE_INVALID));
    if (on_standin()) /* with a GPU the host supports pools, too */
        expect(CUDA_ERROR_NOT_SUPPORTED, get(&other, &host, CU_MEM_ALLOCATION_TYPE_PINNED));
}

/* ---- the per-thread default stream ---- */

TEST(own_null_stream_is_the_threads) {
    CUresult (*get)(CUstream, unsigned long long *);
    unsigned long long own, per_thread, legacy, made, made_own;
    CUstream stream;
    take(get, "cuStreamGetId_ptsz");
    ok(get(NULL, &own));
    ok(cuStreamGetId(CU_STREAM_PER_THREAD, &per_thread));
    ok(cuStreamGetId(NULL, &legacy));
    assert_int_equal(own, per_thread);
    assert_int_not_equal(own, legacy);
    ok(cuStreamCreate(&stream, 0));
    ok(cuStreamGetId(stream, &made));
    ok(get(stream, &made_own));
    assert_int_equal(made, made_own);
    ok(cuStreamDestroy(stream));
}

/* The fill is ordered behind the gate on the thread's stream. */
TEST(own_fill_is_behind_the_threads_work) {
    CUresult (*host)(CUstream, CUhostFn, void *), (*query)(CUstream), (*synchronize)(CUstream);
    CUresult (*fill)(CUdeviceptr, unsigned char, size_t);
    struct driver_gate gate = {0};
    CUdeviceptr p = block();
    take(host, "cuLaunchHostFunc_ptsz");
    take(query, "cuStreamQuery_ptsz");
    take(synchronize, "cuStreamSynchronize_ptsz");
    take(fill, "cuMemsetD8_v2_ptds");
    ok(host(NULL, driver_gate_stand, &gate));
    ok(fill(p, 7, BYTES));
    expect(CUDA_ERROR_NOT_READY, query(NULL));
    atomic_store(&gate.is_open, 1);
    ok(synchronize(NULL));
    assert_int_equal(byte_at(p + BYTES - 1), 7);
    ok(cuMemFree(p));
}

TEST(own_copies_arrive) {
    CUresult (*any)(CUdeviceptr, CUdeviceptr, size_t), (*inside)(CUdeviceptr, CUdeviceptr, size_t);
    CUresult (*in)(CUdeviceptr, const void *, size_t), (*out)(void *, CUdeviceptr, size_t);
    CUresult (*synchronize)(CUstream);
    unsigned char bytes[256], back[256] = {0};
    CUdeviceptr p = block(), q = block();
    take(any, "cuMemcpy_ptds");
    take(in, "cuMemcpyHtoD_v2_ptds");
    take(out, "cuMemcpyDtoH_v2_ptds");
    take(inside, "cuMemcpyDtoD_v2_ptds");
    take(synchronize, "cuStreamSynchronize_ptsz");
    for (int i = 0; i < 256; i++)
        bytes[i] = (unsigned char)(i * 3);
    ok(in(p, bytes, 256));
    ok(inside(q, p, 256));
    ok(out(back, q, 256));
    assert_memory_equal(back, bytes, 256);
    memset(back, 0, sizeof back);
    ok(any((CUdeviceptr)(uintptr_t)back, q, 256));
    assert_memory_equal(back, bytes, 256);
    ok(synchronize(NULL));
    expect(CUDA_ERROR_INVALID_VALUE, in(0, bytes, 256));
    ok(cuMemFree(p));
    ok(cuMemFree(q));
}

static void stand_a_moment(void *nothing) {
    (void)nothing;
    usleep(20000);
}

/* The asynchronous copy to pinned memory does not wait, so this form must synchronise. */
TEST(own_copy_to_the_host_is_over) {
    CUresult (*host)(CUstream, CUhostFn, void *), (*out)(void *, CUdeviceptr, size_t);
    CUresult (*fill)(CUdeviceptr, unsigned char, size_t);
    CUdeviceptr p = block();
    unsigned char *pinned;
    take(host, "cuLaunchHostFunc_ptsz");
    take(fill, "cuMemsetD8_v2_ptds");
    take(out, "cuMemcpyDtoH_v2_ptds");
    ok(cuMemAllocHost((void **)&pinned, BYTES));
    memset(pinned, 0, BYTES);
    ok(host(NULL, stand_a_moment, NULL));
    ok(fill(p, 9, BYTES));
    ok(out(pinned, p, BYTES));
    assert_int_equal(pinned[BYTES - 1], 9);
    ok(cuMemFreeHost(pinned));
    ok(cuMemFree(p));
}

/* The asynchronous fill does not wait, so the synchronous forms must: but only for memory that the
 * host can read. */
TEST(own_fill_of_host_memory_is_over) {
    CUresult (*host)(CUstream, CUhostFn, void *), (*synchronize)(CUstream);
    CUresult (*fill)(CUdeviceptr, unsigned char, size_t);
    CUresult (*plane)(CUdeviceptr, size_t, unsigned, size_t, size_t);
    CUdeviceptr managed = 0;
    unsigned char *pinned;
    take(host, "cuLaunchHostFunc_ptsz");
    take(fill, "cuMemsetD8_v2_ptds");
    take(plane, "cuMemsetD2D32_v2_ptds");
    take(synchronize, "cuStreamSynchronize_ptsz");
    ok(cuMemAllocHost((void **)&pinned, BYTES));
    ok(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    memset(pinned, 0, BYTES);
    ok(host(NULL, stand_a_moment, NULL));
    ok(fill((CUdeviceptr)(uintptr_t)pinned, 9, BYTES));
    assert_int_equal(pinned[BYTES - 1], 9);
    ok(host(NULL, stand_a_moment, NULL));
    ok(plane((CUdeviceptr)(uintptr_t)pinned, 256, 0x01010101, 64, BYTES / 256));
    assert_int_equal(pinned[BYTES - 1], 1);
    ok(host(NULL, stand_a_moment, NULL));
    ok(fill(managed, 8, BYTES));
    assert_int_equal(((unsigned char *)(uintptr_t)managed)[BYTES - 1], 8);
    ok(synchronize(NULL));
    ok(cuMemFreeHost(pinned));
    ok(cuMemFree(managed));
}

/* A captured fill becomes a node, and nothing waits. */
TEST(own_fill_of_host_memory_can_be_captured) {
    CUresult (*begin)(CUstream, CUstreamCaptureMode), (*end)(CUstream, CUgraph *);
    CUresult (*fill)(CUdeviceptr, unsigned char, size_t);
    unsigned char *pinned;
    CUgraph graph = NULL;
    take(begin, "cuStreamBeginCapture_v2_ptsz");
    take(end, "cuStreamEndCapture_ptsz");
    take(fill, "cuMemsetD8_v2_ptds");
    if (!on_standin())
        skip(); /* a GPU need not accept a synchronous call in a capture */
    ok(cuMemAllocHost((void **)&pinned, BYTES));
    memset(pinned, 0, BYTES);
    ok(begin(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(fill((CUdeviceptr)(uintptr_t)pinned, 9, BYTES));
    ok(end(NULL, &graph));
    assert_int_equal(pinned[0], 0);
    ok(cuGraphDestroy(graph));
    ok(cuMemFreeHost(pinned));
}

TEST(own_fills_of_every_width) {
    CUresult (*d16)(CUdeviceptr, unsigned short, size_t), (*d32)(CUdeviceptr, unsigned, size_t);
    CUresult (*plane8)(CUdeviceptr, size_t, unsigned char, size_t, size_t);
    CUresult (*plane16)(CUdeviceptr, size_t, unsigned short, size_t, size_t);
    CUresult (*plane32)(CUdeviceptr, size_t, unsigned, size_t, size_t);
    CUresult (*out)(void *, CUdeviceptr, size_t);
    uint32_t words[4];
    CUdeviceptr p = block();
    take(d16, "cuMemsetD16_v2_ptds");
    take(d32, "cuMemsetD32_v2_ptds");
    take(plane8, "cuMemsetD2D8_v2_ptds");
    take(plane16, "cuMemsetD2D16_v2_ptds");
    take(plane32, "cuMemsetD2D32_v2_ptds");
    take(out, "cuMemcpyDtoH_v2_ptds");
    ok(d32(p, 0xaabbccdd, 4));
    ok(d16(p, 0x1234, 2));
    ok(plane8(p + 4, 4, 0x55, 1, 2));
    ok(out(words, p, sizeof words));
    assert_int_equal(words[0], 0x12341234);
    assert_int_equal(words[1], 0xaabbcc55);
    assert_int_equal(words[2], 0xaabbcc55);
    assert_int_equal(words[3], 0xaabbccdd);
    ok(plane16(p, 8, 0x7777, 1, 2));
    ok(plane32(p + 4, 8, 1, 1, 2));
    ok(out(words, p, sizeof words));
    assert_int_equal(words[0], 0x12347777);
    assert_int_equal(words[1], 1);
    assert_int_equal(words[2], 0xaabb7777);
    assert_int_equal(words[3], 1);
    ok(cuMemFree(p));
}

int main(void) {
    setenv("ACRE_SOFT_DEVICES", "2", 1);
    return tests_run_with("driver_forms", driver_begin, NULL);
}
