/*
 * Conformance: calls before cuInit, devices, contexts, and NULL outputs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

/* ---- before cuInit --------------------------------------------------------------------------- */

static void before_queries(void) {
    const char *text = NULL;
    int number = 0;
    CUdevice dev;

    conf_code("cuDriverGetVersion", conf.drv->cuDriverGetVersion(&number));
    conf_fact("version-known", number >= 11040);
    conf_code("cuGetErrorName", conf.drv->cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
    conf_word("name", text != NULL ? text : "NULL");
    conf_code("cuGetErrorName-unknown", conf.drv->cuGetErrorName((CUresult)12345, &text));
    conf_fact("unknown-is-null", text == NULL);
    conf_code("cuGetErrorString", conf.drv->cuGetErrorString(CUDA_ERROR_NOT_READY, &text));
    conf_fact("has-text", text != NULL && text[0] != '\0');
    conf_code("cuDeviceGetCount", conf.drv->cuDeviceGetCount(&number));
    conf_code("cuDeviceGet", conf.drv->cuDeviceGet(&dev, 0));
    conf_code("cuDeviceGetAttribute",
              conf.drv->cuDeviceGetAttribute(
                  &number, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
}

static void before_contexts(void) {
    CUcontext ctx = NULL;
    unsigned int flags;
    int active;

    conf_code("cuCtxGetCurrent", conf.drv->cuCtxGetCurrent(&ctx));
    conf_code("cuCtxSetCurrent", conf.drv->cuCtxSetCurrent(NULL));
    conf_code("cuCtxSynchronize", conf.drv->cuCtxSynchronize());
    conf_code("cuCtxPopCurrent", conf.drv->cuCtxPopCurrent(&ctx));
    conf_code("cuDevicePrimaryCtxRetain", conf.drv->cuDevicePrimaryCtxRetain(&ctx, 0));
    conf_code("cuDevicePrimaryCtxGetState",
              conf.drv->cuDevicePrimaryCtxGetState(0, &flags, &active));
}

static void before_memory(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();
    CUdeviceptr ptr = 0;
    void *host = NULL;
    size_t bytes;

    conf_code("cuMemAlloc", conf.drv->cuMemAlloc(&ptr, 4096));
    conf_code("cuMemFree", conf.drv->cuMemFree(0));
    conf_code("cuMemGetInfo", conf.drv->cuMemGetInfo(&bytes, &bytes));
    conf_code("cuMemHostAlloc", conf.drv->cuMemHostAlloc(&host, 4096, 0));
    conf_code("cuMemAddressReserve", conf.drv->cuMemAddressReserve(&ptr, 2 << 20, 0, 0, 0));
    conf_code("cuMemCreate", conf.drv->cuMemCreate(&handle, 2 << 20, &prop, 0));
    conf_code(
        "cuMemGetAllocationGranularity",
        conf.drv->cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static void before_streams(void) {
    CUstream stream = NULL;
    CUevent event = NULL;

    conf_code("cuStreamCreate", conf.drv->cuStreamCreate(&stream, 0));
    conf_code("cuEventCreate", conf.drv->cuEventCreate(&event, 0));
    conf_code("cuStreamQuery", conf.drv->cuStreamQuery(NULL));
}

static void before_init(void) {
    int count = -1;

    conf_code("flags-1", conf.drv->cuInit(1));
    conf_code("flags-0", conf.drv->cuInit(0));
    conf_code("again", conf.drv->cuInit(0));
    conf_code("cuDeviceGetCount", conf.drv->cuDeviceGetCount(&count));
    conf_fact("some", count > 0);
}

static const struct conf_case before_cases[] = {
    {"queries", before_queries, 0}, {"contexts", before_contexts, 0},  {"memory", before_memory, 0},
    {"streams", before_streams, 0}, {"init", before_init, CONF_ALONE},
};
CONF_GROUP(before, CONF_BARE);

/* ---- devices --------------------------------------------------------------------------------- */

static void device_ordinals(void) {
    CUdevice dev = 99;
    int count = 0;

    conf_code("count", conf.drv->cuDeviceGetCount(&count));
    conf_code("first", conf.drv->cuDeviceGet(&dev, 0));
    conf_fact("ordinal", dev);
    conf_code("minus-one", conf.drv->cuDeviceGet(&dev, -1));
    conf_code("past-last", conf.drv->cuDeviceGet(&dev, count));
    conf_code("total-bad", conf.drv->cuDeviceTotalMem(&(size_t){0}, 4711));
    conf_code("retain-bad", conf.drv->cuDevicePrimaryCtxRetain(&(CUcontext){NULL}, 4711));
    conf_code("release-bad", conf.drv->cuDevicePrimaryCtxRelease(4711));
}

static void device_names(void) {
    char name[128], bus[32];
    CUuuid uuid, zero;

    memset(name, 'x', sizeof name);
    memset(&zero, 0, sizeof zero);
    memset(&uuid, 0, sizeof uuid);
    conf_code("name", conf.drv->cuDeviceGetName(name, sizeof name, conf.dev));
    conf_fact("ends", memchr(name, '\0', sizeof name) != NULL);
    memset(name, 'x', sizeof name);
    conf_code("name-short", conf.drv->cuDeviceGetName(name, 4, conf.dev));
    conf_fact("cut-ends", name[3] == '\0');
    conf_fact("beyond-kept", name[4] == 'x');
    conf_code("uuid", conf.drv->cuDeviceGetUuid(&uuid, conf.dev));
    conf_fact("uuid-set", memcmp(&uuid, &zero, sizeof uuid) != 0);
    conf_code("bus", conf.drv->cuDeviceGetPCIBusId(bus, sizeof bus, conf.dev));
}

/* The PCI address finds the device again, in all forms that are allowed. */
static void device_bus(void) {
    char bus[32] = "", text[40];
    int domain = -1, number = -1, slot = -1;
    CUdevice dev = 99;

    conf_code("bus", conf.drv->cuDeviceGetPCIBusId(bus, sizeof bus, conf.dev));
    conf_fact("length", (long long)strlen(bus));
    conf_code("find", conf.drv->cuDeviceGetByPCIBusId(&dev, bus));
    conf_fact("ordinal", dev);
    conf.drv->cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, conf.dev);
    conf.drv->cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, conf.dev);
    conf.drv->cuDeviceGetAttribute(&slot, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, conf.dev);
    snprintf(text, sizeof text, "%x:%x:%x.0", domain, number, slot);
    conf_code("by-numbers", conf.drv->cuDeviceGetByPCIBusId(&dev, text));
    snprintf(text, sizeof text, "%x:%x:%x", domain, number, slot);
    conf_code("no-function", conf.drv->cuDeviceGetByPCIBusId(&dev, text));
    conf_code("unknown", conf.drv->cuDeviceGetByPCIBusId(&dev, "fffe:fe:1e.0"));
    conf_code("empty", conf.drv->cuDeviceGetByPCIBusId(&dev, ""));
    conf_code("word", conf.drv->cuDeviceGetByPCIBusId(&dev, "nonsense"));
}

static void device_name_bad(void) {
    char name[128];

    conf_code("name", conf.drv->cuDeviceGetName(name, sizeof name, 4711));
}

static void device_uuid_bad(void) {
    CUuuid uuid;

    conf_code("uuid", conf.drv->cuDeviceGetUuid(&uuid, 4711));
}

static void device_bus_bad(void) {
    char bus[32];

    conf_code("bus", conf.drv->cuDeviceGetPCIBusId(bus, sizeof bus, 4711));
}

static void device_attribute(const char *label, CUdevice_attribute attribute) {
    int value = -1;
    CUresult code = conf.drv->cuDeviceGetAttribute(&value, attribute, conf.dev);

    conf_value(label, code, value);
}

static void device_attributes(void) {
    device_attribute("unified", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
    device_attribute("vmm", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
    device_attribute("fd", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
    device_attribute("managed", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY);
    device_attribute("map-host", CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY);
    device_attribute("host-pointer", CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
    device_attribute("host-vmm", CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
    device_attribute("register", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
    device_attribute("integrated", CU_DEVICE_ATTRIBUTE_INTEGRATED);
    device_attribute("priorities", CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED);
    device_attribute("zero", (CUdevice_attribute)0);
    device_attribute("huge", (CUdevice_attribute)9999);
    conf_code("bad-device",
              conf.drv->cuDeviceGetAttribute(&(int){0}, CU_DEVICE_ATTRIBUTE_INTEGRATED, 4711));
}

/* Attributes in which a soft device differs from a GPU: where the device is in the machine, how
 * many multiprocessors it has, and features that it does not have. */
static int device_is_own(int attribute) {
    static const int own[] = {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                              CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                              CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
                              CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
                              CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED,
                              CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE,
                              CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE,
                              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                              CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
                              CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
                              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
                              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
                              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
                              CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
                              CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
                              CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
                              CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR,
                              CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
                              CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
                              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
                              CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID,
                              CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID,
                              CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID,
                              CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
                              CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED};
    size_t i;

    for (i = 0; i < sizeof own / sizeof own[0]; i++)
        if (own[i] == attribute)
            return 1;
    return 0;
}

/* The soft device answers as an H200 does for all other attributes of CUDA 13.0. */
static void device_model(void) {
    const int last = CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED;
    char label[12];
    int i;

    for (i = 1; i <= last; i++) {
        if (device_is_own(i))
            continue;
        snprintf(label, sizeof label, "%d", i);
        device_attribute(label, (CUdevice_attribute)i);
    }
}

static void device_peers(void) {
    int can = -1;

    conf_code("self", conf.drv->cuDeviceCanAccessPeer(&can, conf.dev, conf.dev));
    conf_fact("can", can);
    conf_code("bad", conf.drv->cuDeviceCanAccessPeer(&can, conf.dev, 4711));
    conf_code("enable-self", conf.drv->cuCtxEnablePeerAccess(conf.ctx, 0));
    conf_code("disable-self", conf.drv->cuCtxDisablePeerAccess(conf.ctx));
    conf_code("enable-null", conf.drv->cuCtxEnablePeerAccess(NULL, 0));
}

static const struct conf_case device_cases[] = {
    {"ordinals", device_ordinals, 0},
    {"names", device_names, 0},
    {"bus", device_bus, 0},
    {"name-bad", device_name_bad, CONF_ALONE},
    {"uuid-bad", device_uuid_bad, CONF_ALONE},
    {"bus-bad", device_bus_bad, CONF_ALONE},
    {"attributes", device_attributes, 0},
    {"model", device_model, 0},
    {"peers", device_peers, 0},
};
CONF_GROUP(device, 0);

/* ---- contexts -------------------------------------------------------------------------------- */

static void context_stack(void) {
    CUcontext ctx = NULL;
    CUdevice dev = -1;

    conf_code("push", conf.drv->cuCtxPushCurrent(conf.ctx));
    conf_code("push-null", conf.drv->cuCtxPushCurrent(NULL));
    conf_code("current", conf.drv->cuCtxGetCurrent(&ctx));
    conf_fact("is-ours", ctx == conf.ctx);
    conf_code("device", conf.drv->cuCtxGetDevice(&dev));
    conf_fact("ordinal", dev);
    ctx = NULL;
    conf_code("pop", conf.drv->cuCtxPopCurrent(&ctx));
    conf_fact("was-ours", ctx == conf.ctx);
    conf_code("pop-null-output", conf.drv->cuCtxPopCurrent(NULL));
    conf_code("now", conf.drv->cuCtxGetCurrent(&ctx));
    conf_fact("is-null", ctx == NULL);
    conf_code("pop-empty", conf.drv->cuCtxPopCurrent(&ctx));
    conf_code("set", conf.drv->cuCtxSetCurrent(conf.ctx));
}

/* cuCtxSetCurrent replaces the top of the stack; with NULL it pops it. */
static void context_set(void) {
    CUcontext ctx = NULL;

    conf_code("push", conf.drv->cuCtxPushCurrent(conf.ctx));
    conf_code("set-null", conf.drv->cuCtxSetCurrent(NULL));
    conf_code("current", conf.drv->cuCtxGetCurrent(&ctx));
    conf_fact("is-ours", ctx == conf.ctx);
    conf_code("set-null-again", conf.drv->cuCtxSetCurrent(NULL));
    conf_code("current", conf.drv->cuCtxGetCurrent(&ctx));
    conf_fact("is-null", ctx == NULL);
    conf_code("set-null-empty", conf.drv->cuCtxSetCurrent(NULL));
    conf_code("set", conf.drv->cuCtxSetCurrent(conf.ctx));
    conf_code("set-again", conf.drv->cuCtxSetCurrent(conf.ctx));
}

static void context_none_memory(void) {
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = conf_prop();
    CUdeviceptr plain = 0, other = 0;
    uint32_t word = 0;
    void *host = NULL;
    size_t bytes;

    if (conf_need("alloc", conf.drv->cuMemAlloc(&plain, 4096)) != 0)
        return;
    conf.drv->cuCtxSetCurrent(NULL);
    conf_code("cuMemAlloc", conf.drv->cuMemAlloc(&other, 4096));
    conf_code("cuMemGetInfo", conf.drv->cuMemGetInfo(&bytes, &bytes));
    conf_code("cuMemGetAddressRange", conf.drv->cuMemGetAddressRange(&other, &bytes, plain));
    conf_code("cuMemHostAlloc", conf.drv->cuMemHostAlloc(&host, 4096, 0));
    conf_code("cuMemAllocManaged", conf.drv->cuMemAllocManaged(&other, 4096, CU_MEM_ATTACH_GLOBAL));
    conf_code("cuMemcpyDtoH", conf.drv->cuMemcpyDtoH(&word, plain, sizeof word));
    conf_code("cuMemsetD8", conf.drv->cuMemsetD8(plain, 0, 16));
    conf_code("cuPointerGetAttribute",
              conf.drv->cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, plain));
    if (conf_code("cuMemAddressReserve",
                  conf.drv->cuMemAddressReserve(&other, conf.chunk_bytes, 0, 0, 0)) == CUDA_SUCCESS)
        conf_code("cuMemAddressFree", conf.drv->cuMemAddressFree(other, conf.chunk_bytes));
    if (conf_code("cuMemCreate", conf.drv->cuMemCreate(&handle, conf.chunk_bytes, &prop, 0)) ==
        CUDA_SUCCESS)
        conf_code("cuMemRelease", conf.drv->cuMemRelease(handle));
    conf_code("cuMemFree", conf.drv->cuMemFree(plain));
    conf_code("cuMemFree-0", conf.drv->cuMemFree(0));
    conf.drv->cuCtxSetCurrent(conf.ctx);
    conf_code("cuMemFree-current", conf.drv->cuMemFree(plain));
}

/* Host memory belongs to a context, so these calls need no current one. */
static void context_none_host(void) {
    const size_t bytes = 64 << 10;
    void *pinned = NULL, *own = NULL;

    if (posix_memalign(&own, 4096, bytes) != 0)
        return;
    memset(own, 1, bytes);
    if (conf_need("alloc", conf.drv->cuMemHostAlloc(&pinned, bytes, 0)) == 0 &&
        conf_need("register", conf.drv->cuMemHostRegister(own, bytes, 0)) == 0) {
        conf.drv->cuCtxSetCurrent(NULL);
        conf_code("cuMemFreeHost", conf.drv->cuMemFreeHost(pinned));
        conf_code("cuMemHostUnregister", conf.drv->cuMemHostUnregister(own));
        conf.drv->cuCtxSetCurrent(conf.ctx);
        conf_code("cuMemFreeHost-current", conf.drv->cuMemFreeHost(pinned));
        conf_code("cuMemHostUnregister-current", conf.drv->cuMemHostUnregister(own));
    }
    free(own);
}

static void context_none_streams(void) {
    CUstreamCaptureStatus capturing;
    CUstream stream = NULL, other = NULL;
    CUevent event = NULL, made = NULL;
    unsigned long long id;
    unsigned int flags;

    if (conf_need("stream", conf.drv->cuStreamCreate(&stream, 0)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&event, 0)) != 0)
        return;
    conf.drv->cuCtxSetCurrent(NULL);
    conf_code("cuCtxSynchronize", conf.drv->cuCtxSynchronize());
    conf_code("cuCtxGetDevice", conf.drv->cuCtxGetDevice(&(CUdevice){0}));
    conf_code("cuCtxGetLimit", conf.drv->cuCtxGetLimit(&(size_t){0}, CU_LIMIT_MALLOC_HEAP_SIZE));
    conf_code("cuStreamCreate", conf.drv->cuStreamCreate(&other, 0));
    conf_code("cuEventCreate", conf.drv->cuEventCreate(&made, 0));
    conf_code("cuStreamQuery-null", conf.drv->cuStreamQuery(NULL));
    conf_code("cuStreamQuery", conf.drv->cuStreamQuery(stream));
    conf_code("cuStreamGetFlags", conf.drv->cuStreamGetFlags(stream, &flags));
    conf_code("cuStreamGetId", conf.drv->cuStreamGetId(stream, &id));
    conf_code("cuStreamIsCapturing", conf.drv->cuStreamIsCapturing(stream, &capturing));
    conf_code("cuEventRecord", conf.drv->cuEventRecord(event, stream));
    conf_code("cuEventSynchronize", conf.drv->cuEventSynchronize(event));
    conf_code("cuEventQuery", conf.drv->cuEventQuery(event));
    conf_code("cuStreamWaitEvent", conf.drv->cuStreamWaitEvent(stream, event, 0));
    conf_code("cuStreamSynchronize", conf.drv->cuStreamSynchronize(stream));
    conf_code("cuEventDestroy", conf.drv->cuEventDestroy(event));
    conf_code("cuStreamDestroy", conf.drv->cuStreamDestroy(stream));
    conf.drv->cuCtxSetCurrent(conf.ctx);
}

static void context_state(const char *label) {
    unsigned int flags = 99;
    int active = -1;
    CUresult code = conf.drv->cuDevicePrimaryCtxGetState(conf.dev, &flags, &active);

    conf_value(label, code, active);
}

/* Runs in a separate process, since the last release destroys the context. */
static void context_counts(void) {
    CUcontext again = NULL;

    context_state("active");
    conf_code("retain", conf.drv->cuDevicePrimaryCtxRetain(&again, conf.dev));
    conf_fact("same", again == conf.ctx);
    conf_code("release", conf.drv->cuDevicePrimaryCtxRelease(conf.dev));
    context_state("active");
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf.drv->cuCtxSetCurrent(NULL);
    conf_code("release-last", conf.drv->cuDevicePrimaryCtxRelease(conf.dev));
    context_state("active");
    conf_code("release-more", conf.drv->cuDevicePrimaryCtxRelease(conf.dev));
    conf_code("retain", conf.drv->cuDevicePrimaryCtxRetain(&again, conf.dev));
    context_state("active");
    conf_code("set", conf.drv->cuCtxSetCurrent(again));
    conf_code("sync", conf.drv->cuCtxSynchronize());
    conf.drv->cuCtxSetCurrent(NULL);
    conf_code("release", conf.drv->cuDevicePrimaryCtxRelease(conf.dev));
}

static const struct conf_case context_cases[] = {
    {"stack", context_stack, 0},
    {"set", context_set, 0},
    {"none-memory", context_none_memory, 0},
    {"none-host", context_none_host, 0},
    {"none-streams", context_none_streams, 0},
    {"counts", context_counts, CONF_ALONE},
};
CONF_GROUP(context, 0);

/* ---- NULL outputs ---------------------------------------------------------------------------- */

static void null_queries(void) {
    conf_code("cuDriverGetVersion", conf.drv->cuDriverGetVersion(NULL));
    conf_code("cuDeviceGetCount", conf.drv->cuDeviceGetCount(NULL));
    conf_code("cuDeviceGet", conf.drv->cuDeviceGet(NULL, 0));
    conf_code("cuDeviceGetAttribute",
              conf.drv->cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_INTEGRATED, conf.dev));
    conf_code("cuDeviceTotalMem", conf.drv->cuDeviceTotalMem(NULL, conf.dev));
    conf_code("cuCtxGetCurrent", conf.drv->cuCtxGetCurrent(NULL));
    conf_code("cuCtxGetDevice", conf.drv->cuCtxGetDevice(NULL));
    conf_code("cuCtxGetLimit", conf.drv->cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE));
}

static void null_memory(void) {
    CUmemAllocationProp prop = conf_prop();
    CUdeviceptr ptr = 0, base = 0;
    size_t bytes = 0;

    conf_code("cuMemGetInfo", conf.drv->cuMemGetInfo(NULL, NULL));
    conf_code("cuMemAlloc", conf.drv->cuMemAlloc(NULL, 4096));
    conf_code("cuMemHostAlloc", conf.drv->cuMemHostAlloc(NULL, 4096, 0));
    conf_code("cuMemAllocManaged", conf.drv->cuMemAllocManaged(NULL, 4096, CU_MEM_ATTACH_GLOBAL));
    conf_code("cuMemAddressReserve",
              conf.drv->cuMemAddressReserve(NULL, conf.chunk_bytes, 0, 0, 0));
    conf_code("cuMemCreate", conf.drv->cuMemCreate(NULL, conf.chunk_bytes, &prop, 0));
    conf_code("granularity", conf.drv->cuMemGetAllocationGranularity(
                                 NULL, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (conf_need("alloc", conf.drv->cuMemAlloc(&ptr, 4096)) != 0)
        return;
    conf_code("range-base-only", conf.drv->cuMemGetAddressRange(&base, NULL, ptr));
    conf_code("range-size-only", conf.drv->cuMemGetAddressRange(NULL, &bytes, ptr));
    conf_code("range-none", conf.drv->cuMemGetAddressRange(NULL, NULL, ptr));
    conf_code("cuPointerGetAttribute",
              conf.drv->cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr));
    conf_need("free", conf.drv->cuMemFree(ptr));
}

static void null_streams(void) {
    conf_code("cuStreamCreate", conf.drv->cuStreamCreate(NULL, 0));
    conf_code("cuEventCreate", conf.drv->cuEventCreate(NULL, 0));
    conf_code("priority-range", conf.drv->cuCtxGetStreamPriorityRange(NULL, NULL));
}

static void null_module(void) {
    conf_code("cuModuleLoadData", conf.drv->cuModuleLoadData(NULL, ".version 6.0\n"));
}

static void null_stream_queries(void) {
    CUstream stream = NULL;

    if (conf_need("stream", conf.drv->cuStreamCreate(&stream, 0)) != 0)
        return;
    conf_code("cuStreamGetFlags", conf.drv->cuStreamGetFlags(stream, NULL));
    conf_code("cuStreamGetId", conf.drv->cuStreamGetId(stream, NULL));
    conf_code("cuStreamGetCtx", conf.drv->cuStreamGetCtx(stream, NULL));
    conf_code("cuStreamIsCapturing", conf.drv->cuStreamIsCapturing(stream, NULL));
    conf_need("destroy", conf.drv->cuStreamDestroy(stream));
}

static const struct conf_case null_cases[] = {
    {"queries", null_queries, CONF_ALONE}, {"memory", null_memory, CONF_ALONE},
    {"streams", null_streams, CONF_ALONE}, {"stream-queries", null_stream_queries, CONF_ALONE},
    {"module", null_module, CONF_ALONE},
};
CONF_GROUP(null, 0);
