/* The hooks; see shim.h. */
#include "shim_hooks.h"

#include "caller.h"
#include "shim_limit.h"
#include "shim_pause.h"
#include "shim_serve.h"

/* One for each function of the list. The linker drops those that shim.map does not export. They are
 * weak, so that the counting code of a function takes precedence (shim_count.c). */
#define HOOK(name, symbol, version, need, sticky, calls, moved, params, args)                      \
    __attribute__((weak)) CUresult symbol params {                                                 \
        struct acre_ledger_caller before;                                                          \
        acre_ledger_enter(&before, #name, __builtin_return_address(0));                            \
        return acre__ledger_end(&before, acre__shim_table()->name args);                           \
    }
ACRE__DRIVER_LIST(HOOK)

/* ---- a default stream per thread ---- */

/* Stream 0 is the thread's own here. The other form calls it by this handle. */
static CUstream hooks_own(CUstream stream) {
    return stream ? stream : CU_STREAM_PER_THREAD;
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ptr_out, size_t bytes, CUstream stream) {
    struct acre_ledger_caller before;
    acre_ledger_enter(&before, "cuMemAllocAsync", __builtin_return_address(0));
    return acre__ledger_end(&before,
                            acre__shim_table()->cuMemAllocAsync(ptr_out, bytes, hooks_own(stream)));
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *ptr_out, size_t bytes, CUmemoryPool pool,
                                      CUstream stream) {
    struct acre_ledger_caller before;
    acre_ledger_enter(&before, "cuMemAllocFromPoolAsync", __builtin_return_address(0));
    return acre__ledger_end(&before, acre__shim_table()->cuMemAllocFromPoolAsync(
                                         ptr_out, bytes, pool, hooks_own(stream)));
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream) {
    struct acre_ledger_caller before;
    acre_ledger_enter(&before, "cuMemFreeAsync", __builtin_return_address(0));
    return acre__ledger_end(&before, acre__shim_table()->cuMemFreeAsync(ptr, hooks_own(stream)));
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
    return acre__shim_table()->cuStreamBeginCapture(hooks_own(stream), mode);
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph_out) {
    return acre__shim_table()->cuStreamEndCapture(hooks_own(stream), graph_out);
}

/* ---- forms that the table does not have ---- */

/* The first form has the mode of a capture that is global. */
CUresult cuStreamBeginCapture(CUstream stream) {
    return acre__shim_table()->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream) {
    return cuStreamBeginCapture(hooks_own(stream));
}

CUresult cuStreamDestroy(CUstream stream) {
    return acre__shim_table()->cuStreamDestroy(stream);
}

static CUresult hooks_capture_to(enum shim_hook hook, CUstream stream, CUgraph graph,
                                 const CUgraphNode *dependencies, const void *edges, size_t count,
                                 CUstreamCaptureMode mode) {
    CUresult (*driver)(CUstream, CUgraph, const CUgraphNode *, const void *, size_t,
                       CUstreamCaptureMode);
    if (!acre__shim_find(hook, &driver))
        return CUDA_ERROR_NOT_FOUND;
    (void)acre__shim_table(); /* the capture is noted there */
    struct shim_user *user = acre__user_begin("cuStreamBeginCaptureToGraph");
    acre__serve_capturing(stream);
    CUresult result = driver(stream, graph, dependencies, edges, count, mode);
    if (result)
        acre__serve_not_capturing(stream);
    return acre__user_end(user, result);
}

CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                     const CUgraphNode *dependencies, const void *edges,
                                     size_t count, CUstreamCaptureMode mode) {
    return hooks_capture_to(SHIM_HOOK_cuStreamBeginCaptureToGraph, stream, graph, dependencies,
                            edges, count, mode);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                          const CUgraphNode *dependencies, const void *edges,
                                          size_t count, CUstreamCaptureMode mode) {
    return hooks_capture_to(SHIM_HOOK_cuStreamBeginCaptureToGraph, hooks_own(stream), graph,
                            dependencies, edges, count, mode);
}

static CUresult hooks_ipc_open(enum shim_hook hook, CUdeviceptr *ptr_out, CUipcMemHandle handle,
                               unsigned int flags) {
    CUresult (*driver)(CUdeviceptr *, CUipcMemHandle, unsigned int);
    (void)acre__shim_table();
    if (acre__ipc_is_token(&handle))
        return acre__ipc_open(ptr_out, &handle, flags);
    return acre__shim_find(hook, &driver) ? driver(ptr_out, handle, flags) : CUDA_ERROR_NOT_FOUND;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *ptr_out, CUipcMemHandle handle, unsigned int flags) {
    return hooks_ipc_open(SHIM_HOOK_cuIpcOpenMemHandle, ptr_out, handle, flags);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ptr_out, CUipcMemHandle handle, unsigned int flags) {
    return hooks_ipc_open(SHIM_HOOK_cuIpcOpenMemHandle_v2, ptr_out, handle, flags);
}

/* The handle is for devices other than GPUs, which keep using the physical memory. */
CUresult cuMemGetHandleForAddressRange(void *handle_out, CUdeviceptr ptr, size_t bytes, int type,
                                       unsigned long long flags) {
    CUresult (*driver)(void *, CUdeviceptr, size_t, int, unsigned long long);
    if (!acre__shim_find(SHIM_HOOK_cuMemGetHandleForAddressRange, &driver))
        return CUDA_ERROR_NOT_FOUND;
    struct shim_user *user = acre__user_begin("cuMemGetHandleForAddressRange");
    CUresult result = driver(handle_out, ptr, bytes, type, flags);
    if (!result)
        acre__blocks_set_exported(ptr);
    return acre__user_end(user, result);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr ptr) {
    CUresult (*driver)(CUdeviceptr), result;
    if (acre__ipc_close(ptr, &result))
        return result;
    return acre__shim_find(SHIM_HOOK_cuIpcCloseMemHandle, &driver) ? driver(ptr)
                                                                   : CUDA_ERROR_NOT_FOUND;
}

/* ---- older forms, which the driver itself must see ----
 *
 * A program that was linked with another driver may call one that this driver lacks. */

CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags) {
    CUresult (*driver)(void *, size_t, unsigned int);
    struct acre_ledger_caller before;
    if (!acre__shim_find(SHIM_HOOK_cuMemHostRegister, &driver))
        return CUDA_ERROR_NOT_FOUND;
    acre_ledger_enter(&before, "cuMemHostRegister", __builtin_return_address(0));
    CUresult result = driver(p, bytes, flags);
    if (result)
        acre__ledger_refuse(RUN_REGISTERED);
    else
        acre__ledger_add(RUN_REGISTERED, (uintptr_t)p, bytes);
    return acre__ledger_end(&before, result);
}

/* Ends a call that may have destroyed a context: the primary one of `dev`, or `ctx`. */
static CUresult hooks_ended(CUresult result, CUdevice dev, CUcontext ctx) {
    (void)acre__shim_table(); /* fills the table below */
    if (!result && acre__limit_is_on())
        acre__limit_ended(dev, ctx);
    acre__ledger_ended(acre__ledger_driver(), result);
    return result;
}

CUresult cuCtxDestroy(CUcontext ctx) {
    CUresult (*driver)(CUcontext);
    struct acre_ledger_caller before;
    if (!acre__shim_find(SHIM_HOOK_cuCtxDestroy, &driver))
        return CUDA_ERROR_NOT_FOUND;
    acre_ledger_enter(&before, "cuCtxDestroy", __builtin_return_address(0));
    acre__ledger_ending();
    CUresult result = driver(ctx);
    if (!result)
        acre__serve_context_gone(ctx);
    return acre__ledger_end(&before, hooks_ended(result, -1, ctx));
}

/* The two older forms for primary contexts. */
static CUresult hooks_primary(const char *name, enum shim_hook hook, CUdevice dev,
                              const void *caller) {
    CUresult (*driver)(CUdevice);
    struct acre_ledger_caller before;
    if (!acre__shim_find(hook, &driver))
        return CUDA_ERROR_NOT_FOUND;
    acre_ledger_enter(&before, name, caller);
    acre__ledger_ending();
    (void)acre__shim_table();
    acre__serve_hold();
    CUcontext ctx = acre__serve_primary(dev);
    CUresult result = driver(dev);
    if (!result)
        acre__serve_context_ended(dev, ctx, hook == SHIM_HOOK_cuDevicePrimaryCtxReset);
    acre__serve_release();
    return acre__ledger_end(&before, hooks_ended(result, dev, NULL));
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
    return hooks_primary("cuDevicePrimaryCtxRelease", SHIM_HOOK_cuDevicePrimaryCtxRelease, dev,
                         __builtin_return_address(0));
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
    return hooks_primary("cuDevicePrimaryCtxReset", SHIM_HOOK_cuDevicePrimaryCtxReset, dev,
                         __builtin_return_address(0));
}

/* ---- look-ups ---- */

/* The driver finds the right form of the function for the version and flags. Its address, not its
 * name, says whether it has a hook. */
CUresult cuGetProcAddress_v2(const char *name, void **function_out, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult *status_out) {
    CUresult (*driver)(const char *, void **, int, uint64_t, CUdriverProcAddressQueryResult *);
    if (!acre__shim_find(SHIM_HOOK_cuGetProcAddress_v2, &driver))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver(name, function_out, version, flags, status_out);
    if (!result && function_out)
        *function_out = acre_shim_swap(*function_out);
    return result;
}

CUresult cuGetProcAddress(const char *name, void **function_out, int version, uint64_t flags) {
    CUresult (*driver)(const char *, void **, int, uint64_t);
    if (!acre__shim_find(SHIM_HOOK_cuGetProcAddress, &driver))
        return CUDA_ERROR_NOT_FOUND;
    CUresult result = driver(name, function_out, version, flags);
    if (!result && function_out)
        *function_out = acre_shim_swap(*function_out);
    return result;
}
