/* Prototypes of the hooks, and the driver's functions that they replace. */
#ifndef ACRE_SHIM_SHIM_HOOKS_H
#define ACRE_SHIM_SHIM_HOOKS_H

#include <stdint.h>

#include "shim.h"

/* One number for each hook: SHIM_HOOK_cuInit, ... */
enum shim_hook {
#define SHIM_NUMBER(symbol) SHIM_HOOK_##symbol,
    SHIM_HOOKS(SHIM_NUMBER)
#undef SHIM_NUMBER
        SHIM_HOOK_COUNT /* counted functions follow, in the order of their list */
};

/* Returns the driver's function that a hook replaces; NULL if the driver has none. */
void *acre__shim_driver(enum shim_hook hook);
/* Copies it to a pointer of the function's type. Returns 0 if the driver has none. */
int acre__shim_find(enum shim_hook hook, void *function_out);

#define SHIM_PROTOTYPE(name, symbol, version, need, sticky, calls, moved, params, args)            \
    SHIM_EXPORT CUresult symbol params;
ACRE__DRIVER_LIST(SHIM_PROTOTYPE)
#undef SHIM_PROTOTYPE

/* Forms that the list of the driver's functions does not have: those with a default stream per
 * thread, and older ones. */
SHIM_EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ptr_out, size_t bytes, CUstream stream);
SHIM_EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *ptr_out, size_t bytes,
                                                  CUmemoryPool pool, CUstream stream);
SHIM_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream);
SHIM_EXPORT CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags);
SHIM_EXPORT CUresult cuStreamBeginCapture(CUstream stream);
SHIM_EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream stream);
SHIM_EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode);
SHIM_EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                                 const CUgraphNode *dependencies, const void *edges,
                                                 size_t count, CUstreamCaptureMode mode);
SHIM_EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                      const CUgraphNode *dependencies,
                                                      const void *edges, size_t count,
                                                      CUstreamCaptureMode mode);
SHIM_EXPORT CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph_out);
SHIM_EXPORT CUresult cuStreamDestroy(CUstream stream);
SHIM_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr *ptr_out, CUipcMemHandle handle,
                                        unsigned int flags);
SHIM_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ptr_out, CUipcMemHandle handle,
                                           unsigned int flags);
SHIM_EXPORT CUresult cuMemGetHandleForAddressRange(void *handle_out, CUdeviceptr ptr, size_t bytes,
                                                   int type, unsigned long long flags);
SHIM_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr ptr);
SHIM_EXPORT CUresult cuCtxDestroy(CUcontext ctx);
SHIM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice dev);
SHIM_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice dev);

/* Arrays (shim_arrays.c). Their handles are opaque. */
struct shim_array;
struct shim_array3d;
SHIM_EXPORT CUresult cuArrayCreate_v2(void **handle_out, const struct shim_array *array);
SHIM_EXPORT CUresult cuArray3DCreate_v2(void **handle_out, const struct shim_array3d *array);
SHIM_EXPORT CUresult cuArrayDestroy(void *handle);
SHIM_EXPORT CUresult cuMipmappedArrayCreate(void **handle_out, const struct shim_array3d *array,
                                            unsigned int levels);
SHIM_EXPORT CUresult cuMipmappedArrayDestroy(void *handle);

SHIM_EXPORT CUresult cuGetProcAddress(const char *name, void **function_out, int version,
                                      uint64_t flags);
SHIM_EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function_out, int version,
                                         uint64_t flags,
                                         CUdriverProcAddressQueryResult *status_out);

#endif
