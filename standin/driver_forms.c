/* Older and newer forms of functions in the driver's list; see driver_forms.h. Each form calls
 * doors of the list, which do the work and record the call. */
#include "driver_forms.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "caller.h"

enum { FORM_PADDING = 32 }; /* zero bytes after a file: more than the driver compares */

/* ---- forms that equal their successors ---- */

CUresult cuDeviceGetUuid(CUuuid *uuid_out, CUdevice dev) {
    return cuDeviceGetUuid_v2(uuid_out, dev);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
    return cuDevicePrimaryCtxRelease_v2(dev);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
    return cuDevicePrimaryCtxReset_v2(dev);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
    return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

CUresult cuCtxDestroy(CUcontext ctx) {
    return cuCtxDestroy_v2(ctx);
}

CUresult cuCtxPushCurrent(CUcontext ctx) {
    return cuCtxPushCurrent_v2(ctx);
}

CUresult cuCtxPopCurrent(CUcontext *ctx_out) {
    return cuCtxPopCurrent_v2(ctx_out);
}

CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags) {
    struct acre_ledger_caller before;
    acre_ledger_enter(&before, "cuMemHostRegister", __builtin_return_address(0));
    return acre__ledger_end(&before, cuMemHostRegister_v2(p, bytes, flags));
}

CUresult cuStreamDestroy(CUstream stream) {
    return cuStreamDestroy_v2(stream);
}

CUresult cuEventDestroy(CUevent event) {
    return cuEventDestroy_v2(event);
}

CUresult cuEventElapsedTime_v2(float *ms_out, CUevent start, CUevent end) {
    return cuEventElapsedTime(ms_out, start, end);
}

/* ---- devices and contexts ---- */

CUresult cuDeviceComputeCapability(int *major_out, int *minor_out, CUdevice dev) {
    CUresult result =
        cuDeviceGetAttribute(major_out, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev);
    return result
               ? result
               : cuDeviceGetAttribute(minor_out, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, dev);
}

/* Soft devices are alike: all have performance rank 0, and none supports native atomics or arrays
 * between devices. */
CUresult cuDeviceGetP2PAttribute(int *value_out, CUdevice_P2PAttribute attribute, CUdevice dev,
                                 CUdevice peer) {
    int can = 0;
    if (!value_out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cuDeviceCanAccessPeer(&can, dev, peer);
    if (!result && dev == peer)
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result && (attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
                    attribute > CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *value_out = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED && can;
    return result;
}

CUresult cuCtxCreate(CUcontext *ctx_out, unsigned int flags, CUdevice dev) {
    return cuCtxCreate_v4(ctx_out, NULL, flags, dev);
}

CUresult cuCtxCreate_v2(CUcontext *ctx_out, unsigned int flags, CUdevice dev) {
    return cuCtxCreate_v4(ctx_out, NULL, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *ctx_out, CUexecAffinityParam *affinities, int count,
                        unsigned int flags, CUdevice dev) {
    /* Execution affinity is a share of the multiprocessors, which only a GPU under MPS supports. A
     * count below 0 means none. */
    if (count > 0)
        return affinities ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : CUDA_ERROR_INVALID_VALUE;
    return cuCtxCreate_v4(ctx_out, NULL, flags, dev);
}

/* Calls `call` with the context current; NULL: the context that already is. */
static CUresult form_in_context(CUcontext ctx, CUresult (*call)(void *argument), void *argument) {
    if (!ctx)
        return call(argument);
    CUresult result = cuCtxPushCurrent_v2(ctx);
    if (result)
        return result;
    result = call(argument);
    CUresult after = cuCtxPopCurrent_v2(&ctx);
    return result ? result : after;
}

static CUresult form_get_device(void *device_out) {
    return cuCtxGetDevice(device_out);
}

CUresult cuCtxGetDevice_v2(CUdevice *device_out, CUcontext ctx) {
    return form_in_context(ctx, form_get_device, device_out);
}

static CUresult form_synchronize(void *nothing) {
    (void)nothing;
    return cuCtxSynchronize();
}

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
    return form_in_context(ctx, form_synchronize, NULL);
}

CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *ctx_out, CUgreenCtx *green_out) {
    CUresult result = cuStreamGetCtx(stream, ctx_out);
    if (!result && green_out)
        *green_out = NULL; /* green contexts are not supported */
    return result;
}

/* Edges have no data, and the soft driver does not support queries of dependencies. */
CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status_out,
                                   cuuint64_t *id_out, CUgraph *graph_out,
                                   const CUgraphNode **dependencies_out,
                                   const CUgraphEdgeData **edges_out, size_t *count_out) {
    if (edges_out && !dependencies_out)
        return CUDA_ERROR_INVALID_VALUE;
    return cuStreamGetCaptureInfo_v2(stream, status_out, id_out, graph_out, dependencies_out,
                                     count_out);
}

CUresult cuStreamBeginCapture(CUstream stream) {
    return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* ---- modules ---- */

CUresult cuModuleLoadFatBinary(CUmodule *module_out, const void *image) {
    return cuModuleLoadData(module_out, image);
}

/* Reads the whole file, with a zero byte after it: PTX is text. Returns NULL on failure. */
static char *form_read(const char *path, CUresult *result) {
    struct stat status;
    char *bytes = NULL;
    FILE *file = fopen(path, "rbe");
    *result = CUDA_ERROR_FILE_NOT_FOUND;
    if (!file)
        return NULL;
    if (fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode)) {
        size_t size = (size_t)status.st_size;
        bytes = malloc(size + FORM_PADDING);
        *result = bytes ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (bytes)
            memset(bytes + fread(bytes, 1, size, file), 0, FORM_PADDING);
    }
    fclose(file);
    return bytes;
}

CUresult cuModuleLoad(CUmodule *module_out, const char *path) {
    CUresult result;
    if (!module_out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    char *bytes = form_read(path, &result);
    if (bytes)
        result = cuModuleLoadData(module_out, bytes);
    free(bytes);
    return result;
}

/* ---- memory locations ---- */

/* Converts the older form of a location: a device, or -1 for the host. */
static CUmemLocation form_place(CUdevice dev) {
    if (dev == CU_DEVICE_CPU)
        return (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST, 0};
    return (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, dev};
}

CUresult cuMemPrefetchAsync(CUdeviceptr ptr, size_t bytes, CUdevice dev, CUstream stream) {
    return cuMemPrefetchAsync_v2(ptr, bytes, form_place(dev), 0, stream);
}

CUresult cuMemAdvise(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUdevice dev) {
    return cuMemAdvise_v2(ptr, bytes, advice, form_place(dev));
}

CUresult cuMemRangeGetAttributes(void **data_out, size_t *data_bytes,
                                 CUmem_range_attribute *attributes, size_t count, CUdeviceptr ptr,
                                 size_t bytes) {
    if (!data_out || !data_bytes || !attributes || !count)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && !result; i++)
        result = cuMemRangeGetAttribute(data_out[i], data_bytes[i], attributes[i], ptr, bytes);
    return result;
}

/* ---- pools by location ---- */

/* Finds the device of the pools. Only a GPU has host pools and managed pools. */
static CUresult form_pool_device(const CUmemLocation *location, CUmemAllocationType type,
                                 CUdevice *dev) {
    int count = 0;
    if (!location || location->type == CU_MEM_LOCATION_TYPE_INVALID ||
        type == CU_MEM_ALLOCATION_TYPE_INVALID)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = cuDeviceGetCount(&count);
    if (!result && (location->id < 0 || location->id >= count))
        result = CUDA_ERROR_INVALID_VALUE;
    *dev = location->id;
    return result;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                CUmemAllocationType type) {
    CUdevice dev;
    CUresult result = form_pool_device(location, type, &dev);
    return result ? result : cuDeviceGetDefaultMemPool(pool_out, dev);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                         CUmemAllocationType type) {
    CUdevice dev;
    CUresult result = form_pool_device(location, type, &dev);
    return result ? result : cuDeviceGetMemPool(pool_out, dev);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
    CUdevice dev;
    CUresult result = form_pool_device(location, type, &dev);
    return result ? result : cuDeviceSetMemPool(dev, pool);
}

/* ---- rows for cuGetProcAddress ---- */

#define FORM_ROW(name, symbol, version, params) {#name, #symbol, version, (standin_function)symbol},

const struct standin_row acre__standin_form_rows[] = {STANDIN_FORMS(FORM_ROW){NULL, NULL, 0, NULL}};
