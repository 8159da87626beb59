/*
 * Conformance: a context broken by a kernel, and the code of every call in it.
 *
 * On a GPU a kernel writes to address 8. On the soft driver the fault wrapper makes
 * cuCtxSynchronize and everything after it fail with the same code. Each case breaks its own
 * process.
 */
#include "conf_pool.h"
#include "driver/driver_fault.h"

static const char sticky_ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                                 ".visible .entry poke(.param .u64 where)\n"
                                 "{\n"
                                 "    .reg .b64 %a<2>;\n"
                                 "    .reg .b32 %v;\n"
                                 "    ld.param.u64 %a1, [where];\n"
                                 "    mov.u32 %v, 1;\n"
                                 "    st.global.u32 [%a1], %v;\n"
                                 "    ret;\n"
                                 "}\n";

/* Objects that existed before the context broke; the calls use these. */
static struct {
    CUmodule module;
    CUstream stream;
    CUevent event;
    CUdeviceptr ptr;
    void *host;
    struct conf_range range;
} sticky;

static int sticky_make(void) {
    return conf_need("load", conf.drv->cuModuleLoadData(&sticky.module, sticky_ptx)) != 0 ||
           conf_need("stream", conf.drv->cuStreamCreate(&sticky.stream, 0)) != 0 ||
           conf_need("event", conf.drv->cuEventCreate(&sticky.event, 0)) != 0 ||
           conf_need("record", conf.drv->cuEventRecord(sticky.event, sticky.stream)) != 0 ||
           conf_need("alloc", conf.drv->cuMemAlloc(&sticky.ptr, 4096)) != 0 ||
           conf_need("host", conf.drv->cuMemHostAlloc(&sticky.host, 4096, 0)) != 0 ||
           conf_range_make(&sticky.range, 2, 1, conf.chunk_bytes) != 0 ||
           conf_need("sync", conf.drv->cuCtxSynchronize()) != 0;
}

static int sticky_launch(void) {
    CUdeviceptr where = 8;
    void *params[] = {&where};
    CUfunction function = NULL;

    if (conf_need("function", conf.drv->cuModuleGetFunction(&function, sticky.module, "poke")) != 0)
        return -1;
    return conf_need("launch", conf.drv->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0,
                                                        sticky.stream, params, NULL));
}

/* Breaks the context. Returns 0 if a call has reported it. */
static int sticky_break(void) {
    struct acre__fault_plan plan = {"cuCtxSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS,
                                    ACRE__FAULT_STICKY};

    if (sticky_make() != 0)
        return -1;
    if (conf.drv->is_soft ? acre__fault_set(&plan) != ACRE_OK : sticky_launch() != 0)
        return -1;
    return conf_code("sync", conf.drv->cuCtxSynchronize()) == CUDA_SUCCESS;
}

static void sticky_queries(void) {
    CUcontext ctx = NULL;
    unsigned int flags;
    size_t bytes;
    int number;

    if (sticky_break() != 0)
        return;
    conf_code("cuInit", conf.drv->cuInit(0));
    conf_code("cuDriverGetVersion", conf.drv->cuDriverGetVersion(&number));
    conf_code("cuDeviceGetCount", conf.drv->cuDeviceGetCount(&number));
    conf_code("cuDeviceGet", conf.drv->cuDeviceGet(&number, 0));
    conf_code("cuDeviceGetAttribute",
              conf.drv->cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_INTEGRATED, conf.dev));
    conf_code("cuDeviceTotalMem", conf.drv->cuDeviceTotalMem(&bytes, conf.dev));
    conf_code("cuCtxGetCurrent", conf.drv->cuCtxGetCurrent(&ctx));
    conf_code("cuCtxGetDevice", conf.drv->cuCtxGetDevice(&number));
    conf_code("cuCtxPushCurrent", conf.drv->cuCtxPushCurrent(conf.ctx));
    conf_code("cuCtxPopCurrent", conf.drv->cuCtxPopCurrent(&ctx));
    conf_code("cuCtxSetCurrent", conf.drv->cuCtxSetCurrent(conf.ctx));
    conf_code("state", conf.drv->cuDevicePrimaryCtxGetState(conf.dev, &flags, &number));
    conf_code("cuCtxGetLimit", conf.drv->cuCtxGetLimit(&bytes, CU_LIMIT_STACK_SIZE));
    conf_code("priority-range", conf.drv->cuCtxGetStreamPriorityRange(&number, &number));
    conf_code("cuCtxSynchronize", conf.drv->cuCtxSynchronize());
}

static void sticky_memory(void) {
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    CUdeviceptr ptr = 0;
    void *host = NULL;
    unsigned int type;
    void *outputs[] = {&type};
    size_t bytes;

    if (sticky_break() != 0)
        return;
    conf_code("cuMemGetInfo", conf.drv->cuMemGetInfo(&bytes, &bytes));
    conf_code("cuMemAlloc", conf.drv->cuMemAlloc(&ptr, 4096));
    conf_code("cuMemHostAlloc", conf.drv->cuMemHostAlloc(&host, 4096, 0));
    conf_code("cuMemAllocManaged", conf.drv->cuMemAllocManaged(&ptr, 4096, CU_MEM_ATTACH_GLOBAL));
    conf_code("cuMemcpyDtoH", conf.drv->cuMemcpyDtoH(&type, sticky.ptr, 4));
    conf_code("cuMemcpyHtoDAsync",
              conf.drv->cuMemcpyHtoDAsync(sticky.ptr, sticky.host, 4, sticky.stream));
    conf_code("cuMemsetD8", conf.drv->cuMemsetD8(sticky.ptr, 0, 4));
    conf_code("cuPointerGetAttribute",
              conf.drv->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, sticky.ptr));
    conf_code("cuPointerGetAttributes",
              conf.drv->cuPointerGetAttributes(1, &attribute, outputs, sticky.ptr));
    conf_code("cuMemGetAddressRange", conf.drv->cuMemGetAddressRange(&ptr, &bytes, sticky.ptr));
    conf_code("cuMemHostGetDevicePointer",
              conf.drv->cuMemHostGetDevicePointer(&ptr, sticky.host, 0));
    conf_code("cuMemFreeHost", conf.drv->cuMemFreeHost(sticky.host));
    conf_code("cuMemFree", conf.drv->cuMemFree(sticky.ptr));
}

static void sticky_by_hand(void) {
    CUmemGenericAllocationHandle handle = 0, more = 0;
    CUmemAllocationProp prop = conf_prop();
    CUmemLocation here = conf_here();
    struct conf_range *range = &sticky.range;
    unsigned long long flags;
    CUdeviceptr base = 0;
    size_t bytes;

    if (sticky_break() != 0)
        return;
    conf_code("granularity", conf.drv->cuMemGetAllocationGranularity(
                                 &bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    conf_code("cuMemAddressReserve",
              conf.drv->cuMemAddressReserve(&base, conf.chunk_bytes, 0, 0, 0));
    conf_code("cuMemCreate", conf.drv->cuMemCreate(&handle, conf.chunk_bytes, &prop, 0));
    conf_code("cuMemMap", conf.drv->cuMemMap(range->base + conf.chunk_bytes, conf.chunk_bytes, 0,
                                             range->handle[0], 0));
    conf_code("cuMemSetAccess",
              conf_allow(range->base, conf.chunk_bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    conf_code("cuMemGetAccess", conf.drv->cuMemGetAccess(&flags, &here, range->base));
    conf_code("properties",
              conf.drv->cuMemGetAllocationPropertiesFromHandle(&prop, range->handle[0]));
    conf_code("retain",
              conf.drv->cuMemRetainAllocationHandle(&more, (void *)(uintptr_t)range->base));
    conf_code("cuMemUnmap", conf.drv->cuMemUnmap(range->base, conf.chunk_bytes));
    conf_code("cuMemRelease", conf.drv->cuMemRelease(range->handle[0]));
    if (base != 0)
        conf_code("cuMemAddressFree", conf.drv->cuMemAddressFree(base, conf.chunk_bytes));
}

static void sticky_streams(void) {
    CUstreamCaptureStatus state;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstream stream = NULL;
    CUevent event = NULL;
    unsigned long long id;
    unsigned int flags;

    if (sticky_break() != 0)
        return;
    conf_code("cuStreamQuery", conf.drv->cuStreamQuery(sticky.stream));
    conf_code("cuStreamSynchronize", conf.drv->cuStreamSynchronize(sticky.stream));
    conf_code("cuStreamCreate", conf.drv->cuStreamCreate(&stream, 0));
    conf_code("cuStreamGetFlags", conf.drv->cuStreamGetFlags(sticky.stream, &flags));
    conf_code("cuStreamGetId", conf.drv->cuStreamGetId(sticky.stream, &id));
    conf_code("cuStreamIsCapturing", conf.drv->cuStreamIsCapturing(sticky.stream, &state));
    conf_code("exchange-mode", conf.drv->cuThreadExchangeStreamCaptureMode(&mode));
    conf_code("cuEventCreate", conf.drv->cuEventCreate(&event, 0));
    conf_code("cuEventRecord", conf.drv->cuEventRecord(sticky.event, sticky.stream));
    conf_code("cuCtxRecordEvent", conf.drv->cuCtxRecordEvent(conf.ctx, sticky.event));
    conf_code("cuStreamWaitEvent", conf.drv->cuStreamWaitEvent(sticky.stream, sticky.event, 0));
    conf_code("cuEventQuery", conf.drv->cuEventQuery(sticky.event));
    conf_code("cuEventSynchronize", conf.drv->cuEventSynchronize(sticky.event));
    conf_code("cuEventDestroy", conf.drv->cuEventDestroy(sticky.event));
    conf_code("cuStreamDestroy", conf.drv->cuStreamDestroy(sticky.stream));
}

static void sticky_modules(void) {
    CUmodule module = NULL;
    CUcontext ctx = NULL;

    if (sticky_break() != 0)
        return;
    conf_code("cuModuleLoadData", conf.drv->cuModuleLoadData(&module, sticky_ptx));
    conf_code("cuModuleUnload", conf.drv->cuModuleUnload(sticky.module));
    conf_code("cuDevicePrimaryCtxRetain", conf.drv->cuDevicePrimaryCtxRetain(&ctx, conf.dev));
    conf_code("cuDevicePrimaryCtxRelease", conf.drv->cuDevicePrimaryCtxRelease(conf.dev));
}

/* The driver's pools belong to no context; stream-ordered calls do. */
static void sticky_pools(void) {
    CUmemPoolProps props = pool_props();
    CUmemAccessDesc desc = {conf_here(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemLocation here = conf_here();
    CUmemAccess_flags access;
    CUmemoryPool pool = NULL, other = NULL;
    CUmemPoolPtrExportData data;
    CUdeviceptr ptr = 0, more = 0;
    unsigned long long bytes = 0;
    int fd = -1;

    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (conf_need("create", conf.drv->cuMemPoolCreate(&pool, &props)) != 0 ||
        conf_need("alloc", conf.drv->cuMemAllocFromPoolAsync(&ptr, 4096, pool, NULL)) != 0 ||
        sticky_break() != 0)
        return;
    conf_code("default", conf.drv->cuDeviceGetDefaultMemPool(&other, conf.dev));
    conf_code("current", conf.drv->cuDeviceGetMemPool(&other, conf.dev));
    conf_code("set-current", conf.drv->cuDeviceSetMemPool(conf.dev, pool));
    conf_code("get",
              conf.drv->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
    conf_code("set", pool_set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0));
    conf_code("get-access", conf.drv->cuMemPoolGetAccess(&access, pool, &here));
    conf_code("set-access", conf.drv->cuMemPoolSetAccess(pool, &desc, 1));
    conf_code("trim", conf.drv->cuMemPoolTrimTo(pool, 0));
    conf_code("export", conf.drv->cuMemPoolExportToShareableHandle(
                            &fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    conf_code("export-pointer", conf.drv->cuMemPoolExportPointer(&data, ptr));
    conf_code("cuMemPoolCreate", conf.drv->cuMemPoolCreate(&other, &props));
    conf_code("cuMemAllocAsync", conf.drv->cuMemAllocAsync(&more, 4096, NULL));
    conf_code("cuMemAllocFromPoolAsync",
              conf.drv->cuMemAllocFromPoolAsync(&more, 4096, pool, NULL));
    conf_code("cuMemFreeAsync", conf.drv->cuMemFreeAsync(ptr, NULL));
    conf_code("cuMemPoolDestroy", conf.drv->cuMemPoolDestroy(pool));
}

/* Contexts, and other calls that CUDA programs use. */
static void sticky_contexts(void) {
    unsigned long long id;
    unsigned int number;
    CUcontext ctx = NULL, own = NULL;
    CUdevice dev;
    CUdeviceptr ptr = 0;
    CUuuid uuid;
    size_t pitch;
    char text[64] = "";
    int can;

    if (conf_need("own", conf.drv->cuCtxCreate(&own, NULL, 0, conf.dev)) != 0 ||
        conf_need("pop", conf.drv->cuCtxPopCurrent(NULL)) != 0 || sticky_break() != 0)
        return;
    conf_code("cuCtxGetApiVersion", conf.drv->cuCtxGetApiVersion(conf.ctx, &number));
    conf_code("cuCtxGetId", conf.drv->cuCtxGetId(conf.ctx, &id));
    conf_code("cuCtxGetFlags", conf.drv->cuCtxGetFlags(&number));
    conf_code("cuCtxSetFlags", conf.drv->cuCtxSetFlags(0));
    conf_code("cuDeviceGetName", conf.drv->cuDeviceGetName(text, sizeof text, conf.dev));
    conf_code("cuDeviceGetUuid", conf.drv->cuDeviceGetUuid(&uuid, conf.dev));
    conf_code("cuDeviceCanAccessPeer", conf.drv->cuDeviceCanAccessPeer(&can, conf.dev, conf.dev));
    conf_code("cuStreamGetCtx", conf.drv->cuStreamGetCtx(sticky.stream, &ctx));
    conf_code("cuStreamGetDevice", conf.drv->cuStreamGetDevice(sticky.stream, &dev));
    conf_code("cuMemAllocPitch", conf.drv->cuMemAllocPitch(&ptr, &pitch, 100, 3, 4));
    conf_code("cuMemsetD16", conf.drv->cuMemsetD16(sticky.ptr, 0, 2));
    conf_code("cuMemcpyPeer", conf.drv->cuMemcpyPeer(sticky.ptr, NULL, sticky.ptr, NULL, 4));
    conf_code("cuDeviceGetPCIBusId", conf.drv->cuDeviceGetPCIBusId(text, sizeof text, conf.dev));
    conf_code("cuDeviceGetByPCIBusId", conf.drv->cuDeviceGetByPCIBusId(&dev, text));
    conf_code("cuCtxEnablePeerAccess", conf.drv->cuCtxEnablePeerAccess(conf.ctx, 0));
    conf_code("primary-flags", conf.drv->cuDevicePrimaryCtxSetFlags(conf.dev, 0));
    conf_code("cuCtxCreate", conf.drv->cuCtxCreate(&ctx, NULL, 0, conf.dev));
    conf_code("cuCtxDestroy", conf.drv->cuCtxDestroy(own));
    conf_code("reset", conf.drv->cuDevicePrimaryCtxReset(conf.dev));
}

static const struct conf_case sticky_cases[] = {
    {"queries", sticky_queries, CONF_ALONE},   {"memory", sticky_memory, CONF_ALONE},
    {"by-hand", sticky_by_hand, CONF_ALONE},   {"streams", sticky_streams, CONF_ALONE},
    {"modules", sticky_modules, CONF_ALONE},   {"pools", sticky_pools, CONF_ALONE},
    {"contexts", sticky_contexts, CONF_ALONE},
};
CONF_GROUP(sticky, CONF_FAULT);
