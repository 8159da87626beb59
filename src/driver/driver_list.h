/*
 * The one list of driver functions that acre may call:
 * X(name, symbol, version, need, sticky, calls, moved, params, args).
 *
 *   name     the CUDA name without a version; also the member's name in struct acre__driver
 *   symbol   the exact exported name; tests compare its prototype with cuda.h, and the loader
 *            falls back to it when cuGetProcAddress does not know the name
 *   version  the CUDA version of the function's form, passed to cuGetProcAddress; pinned, so that
 *            a newer driver cannot return a form with other parameters
 *   need     REQUIRED: without the function the driver is too old. OPTIONAL: the table gets a
 *            function that returns CUDA_ERROR_NOT_SUPPORTED, and acre__driver_has() returns 0
 *   sticky   SURVIVES: the function still works in a context that a kernel has broken. FAILS: it
 *            returns the sticky error. Functions survive that query devices and versions, only
 *            change the current context, or work on VMM memory or the driver's pools, which
 *            belong to no context: observed on an H200 (lines sticky.* of the conformance suite)
 *   calls    COUNTED: calls are counted, since they allocate, map or release physical memory.
 *            PLAIN: calls are not counted
 *   moved    the number of bytes copied, in terms of the parameters; 0: not a copy
 *   params   typed parameters in parentheses; args: their names in parentheses
 *
 * Every function returns CUresult. The struct, the loader, the counters, the fault wrapper and the
 * check against cuda.h are all generated from this list. The types are those of cuda_abi.h, or of
 * cuda.h in the check, so this file includes neither. The newest REQUIRED entry is from CUDA 11.4.
 */
#ifndef ACRE_DRIVER_LIST_H
#define ACRE_DRIVER_LIST_H

/* clang-format off */
#define ACRE__DRIVER_LIST(X)                                                                       \
    /* start and errors */                                                                         \
    X(cuInit, cuInit, 2000, REQUIRED, SURVIVES, PLAIN, 0, (unsigned int flags), (flags))           \
    X(cuDriverGetVersion, cuDriverGetVersion, 2020, REQUIRED, SURVIVES, PLAIN, 0,                  \
      (int *version_out), (version_out))                                                           \
    X(cuGetErrorName, cuGetErrorName, 6000, REQUIRED, FAILS, PLAIN, 0,                             \
      (CUresult error, const char **text_out), (error, text_out))                                  \
    X(cuGetErrorString, cuGetErrorString, 6000, REQUIRED, FAILS, PLAIN, 0,                         \
      (CUresult error, const char **text_out), (error, text_out))                                  \
    /* devices */                                                                                  \
    X(cuDeviceGet, cuDeviceGet, 2000, REQUIRED, SURVIVES, PLAIN, 0,                                \
      (CUdevice *device_out, int ordinal), (device_out, ordinal))                                  \
    X(cuDeviceGetCount, cuDeviceGetCount, 2000, REQUIRED, SURVIVES, PLAIN, 0,                      \
      (int *count_out), (count_out))                                                               \
    X(cuDeviceGetName, cuDeviceGetName, 2000, REQUIRED, SURVIVES, PLAIN, 0,                        \
      (char *text, int text_bytes, CUdevice dev), (text, text_bytes, dev))                         \
    X(cuDeviceGetUuid, cuDeviceGetUuid_v2, 11040, REQUIRED, SURVIVES, PLAIN, 0,                    \
      (CUuuid *uuid_out, CUdevice dev), (uuid_out, dev))                                           \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000, REQUIRED, SURVIVES, PLAIN, 0,              \
      (int *value_out, CUdevice_attribute attribute, CUdevice dev), (value_out, attribute, dev))   \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, 3020, REQUIRED, SURVIVES, PLAIN, 0,                   \
      (size_t *bytes_out, CUdevice dev), (bytes_out, dev))                                         \
    X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000, REQUIRED, SURVIVES, PLAIN, 0,            \
      (int *can, CUdevice dev, CUdevice peer), (can, dev, peer))                                   \
    X(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010, REQUIRED, SURVIVES, PLAIN, 0,                \
      (char *text, int text_bytes, CUdevice dev), (text, text_bytes, dev))                         \
    X(cuDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, 4010, OPTIONAL, SURVIVES, PLAIN, 0,            \
      (CUdevice *device_out, const char *text), (device_out, text))                                \
    /* contexts */                                                                                 \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, REQUIRED, SURVIVES, PLAIN, 0,      \
      (CUcontext *ctx_out, CUdevice dev), (ctx_out, dev))                                          \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2,                                     \
      11000, REQUIRED, SURVIVES, PLAIN, 0,                                                         \
      (CUdevice dev), (dev))                                                                       \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, 7000, REQUIRED, SURVIVES, PLAIN, 0,  \
      (CUdevice dev, unsigned int *flags_out, int *active_out), (dev, flags_out, active_out))      \
    X(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2,                                   \
      11000, OPTIONAL, SURVIVES, PLAIN, 0,                                                         \
      (CUdevice dev, unsigned int flags), (dev, flags))                                            \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, 11000, OPTIONAL, SURVIVES, PLAIN, 0,    \
      (CUdevice dev), (dev))                                                                       \
    X(cuCtxCreate, cuCtxCreate_v4, 12050, OPTIONAL, FAILS, PLAIN, 0,                               \
      (CUcontext *ctx_out, CUctxCreateParams *params, unsigned int flags, CUdevice dev),           \
      (ctx_out, params, flags, dev))                                                               \
    X(cuCtxDestroy, cuCtxDestroy_v2, 4000, OPTIONAL, SURVIVES, PLAIN, 0, (CUcontext ctx), (ctx))   \
    X(cuCtxGetFlags, cuCtxGetFlags, 7000, OPTIONAL, SURVIVES, PLAIN, 0,                            \
      (unsigned int *flags_out), (flags_out))                                                      \
    X(cuCtxSetFlags, cuCtxSetFlags, 12010, OPTIONAL, SURVIVES, PLAIN, 0,                           \
      (unsigned int flags), (flags))                                                               \
    X(cuCtxGetApiVersion, cuCtxGetApiVersion, 3020, OPTIONAL, SURVIVES, PLAIN, 0,                  \
      (CUcontext ctx, unsigned int *version_out), (ctx, version_out))                              \
    X(cuCtxGetId, cuCtxGetId, 12000, OPTIONAL, SURVIVES, PLAIN, 0,                                 \
      (CUcontext ctx, unsigned long long *id_out), (ctx, id_out))                                  \
    X(cuCtxPushCurrent, cuCtxPushCurrent_v2, 4000, REQUIRED, SURVIVES, PLAIN, 0,                   \
      (CUcontext ctx), (ctx))                                                                      \
    X(cuCtxPopCurrent, cuCtxPopCurrent_v2, 4000, REQUIRED, SURVIVES, PLAIN, 0,                     \
      (CUcontext *ctx_out), (ctx_out))                                                             \
    X(cuCtxGetCurrent, cuCtxGetCurrent, 4000, REQUIRED, SURVIVES, PLAIN, 0,                        \
      (CUcontext *ctx_out), (ctx_out))                                                             \
    X(cuCtxSetCurrent, cuCtxSetCurrent, 4000, REQUIRED, SURVIVES, PLAIN, 0,                        \
      (CUcontext ctx), (ctx))                                                                      \
    X(cuCtxGetDevice, cuCtxGetDevice, 2000, REQUIRED, SURVIVES, PLAIN, 0,                          \
      (CUdevice *device_out), (device_out))                                                        \
    X(cuCtxSynchronize, cuCtxSynchronize, 2000, REQUIRED, FAILS, PLAIN, 0, (void), ())             \
    X(cuCtxGetLimit, cuCtxGetLimit, 3010, REQUIRED, FAILS, PLAIN, 0,                               \
      (size_t *value_out, CUlimit limit), (value_out, limit))                                      \
    X(cuCtxSetLimit, cuCtxSetLimit, 3010, REQUIRED, FAILS, PLAIN, 0,                               \
      (CUlimit limit, size_t value), (limit, value))                                               \
    X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000, REQUIRED, FAILS, PLAIN, 0,               \
      (CUcontext peer, unsigned int flags), (peer, flags))                                         \
    X(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000, REQUIRED, FAILS, PLAIN, 0,             \
      (CUcontext peer), (peer))                                                                    \
    X(cuCtxRecordEvent, cuCtxRecordEvent, 12050, OPTIONAL, FAILS, PLAIN, 0,                        \
      (CUcontext ctx, CUevent event), (ctx, event))                                                \
    X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050, REQUIRED, FAILS, PLAIN, 0,   \
      (int *least_out, int *greatest_out), (least_out, greatest_out))                              \
    /* plain, host and managed memory */                                                           \
    X(cuMemGetInfo, cuMemGetInfo_v2, 3020, REQUIRED, FAILS, PLAIN, 0,                              \
      (size_t *free_out, size_t *total_out), (free_out, total_out))                                \
    X(cuMemAlloc, cuMemAlloc_v2, 3020, REQUIRED, FAILS, COUNTED, 0,                                \
      (CUdeviceptr *ptr_out, size_t bytes), (ptr_out, bytes))                                      \
    X(cuMemAllocPitch, cuMemAllocPitch_v2, 3020, OPTIONAL, FAILS, PLAIN, 0,                        \
      (CUdeviceptr *ptr_out, size_t *pitch_out, size_t width_bytes, size_t rows, unsigned          \
       int element_bytes), (ptr_out, pitch_out, width_bytes, rows, element_bytes))                 \
    X(cuMemFree, cuMemFree_v2, 3020, REQUIRED, FAILS, PLAIN, 0, (CUdeviceptr ptr), (ptr))          \
    X(cuMemAllocAsync, cuMemAllocAsync, 11020, OPTIONAL, FAILS, PLAIN, 0,                          \
      (CUdeviceptr *ptr_out, size_t bytes, CUstream stream), (ptr_out, bytes, stream))             \
    X(cuMemFreeAsync, cuMemFreeAsync, 11020, OPTIONAL, FAILS, PLAIN, 0,                            \
      (CUdeviceptr ptr, CUstream stream), (ptr, stream))                                           \
    /* the driver's own pools */                                                                   \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020, OPTIONAL, FAILS, PLAIN, 0,          \
      (CUdeviceptr *ptr_out, size_t bytes, CUmemoryPool pool, CUstream stream),                    \
      (ptr_out, bytes, pool, stream))                                                              \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020, OPTIONAL, SURVIVES, PLAIN, 0,   \
      (CUmemoryPool *pool_out, CUdevice dev), (pool_out, dev))                                     \
    X(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020, OPTIONAL, SURVIVES, PLAIN, 0,                 \
      (CUmemoryPool *pool_out, CUdevice dev), (pool_out, dev))                                     \
    X(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020, OPTIONAL, SURVIVES, PLAIN, 0,                 \
      (CUdevice dev, CUmemoryPool pool), (dev, pool))                                              \
    X(cuMemPoolCreate, cuMemPoolCreate, 11020, OPTIONAL, SURVIVES, PLAIN, 0,                       \
      (CUmemoryPool *pool_out, const CUmemPoolProps *props), (pool_out, props))                    \
    X(cuMemPoolDestroy, cuMemPoolDestroy, 11020, OPTIONAL, SURVIVES, PLAIN, 0,                     \
      (CUmemoryPool pool), (pool))                                                                 \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, OPTIONAL, SURVIVES, PLAIN, 0,                       \
      (CUmemoryPool pool, size_t keep_bytes), (pool, keep_bytes))                                  \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, OPTIONAL, SURVIVES, PLAIN, 0,           \
      (CUmemoryPool pool, CUmemPool_attribute attribute, void *value), (pool, attribute, value))   \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, OPTIONAL, SURVIVES, PLAIN, 0,           \
      (CUmemoryPool pool, CUmemPool_attribute attribute, void *value_out),                         \
      (pool, attribute, value_out))                                                                \
    X(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020, OPTIONAL, SURVIVES, PLAIN, 0,                 \
      (CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count), (pool, desc, count))         \
    X(cuMemPoolGetAccess, cuMemPoolGetAccess, 11020, OPTIONAL, SURVIVES, PLAIN, 0,                 \
      (CUmemAccess_flags *flags_out, CUmemoryPool pool, CUmemLocation *location),                  \
      (flags_out, pool, location))                                                                 \
    X(cuMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle,                          \
      11020, OPTIONAL, SURVIVES, PLAIN, 0,                                                         \
      (void *shareable_out, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned            \
       long long flags), (shareable_out, pool, type, flags))                                       \
    X(cuMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle,                      \
      11020, OPTIONAL, FAILS, PLAIN, 0,                                                            \
      (CUmemoryPool *pool_out, void *shareable, CUmemAllocationHandleType type, unsigned           \
       long long flags), (pool_out, shareable, type, flags))                                       \
    X(cuMemPoolExportPointer, cuMemPoolExportPointer, 11020, OPTIONAL, SURVIVES, PLAIN, 0,         \
      (CUmemPoolPtrExportData *data_out, CUdeviceptr ptr), (data_out, ptr))                        \
    X(cuMemPoolImportPointer, cuMemPoolImportPointer, 11020, OPTIONAL, FAILS, PLAIN, 0,            \
      (CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *data),                     \
      (ptr_out, pool, data))                                                                       \
    /* memory of every kind */                                                                     \
    X(cuMemGetAddressRange, cuMemGetAddressRange_v2, 3020, REQUIRED, FAILS, PLAIN, 0,              \
      (CUdeviceptr *base_out, size_t *bytes_out, CUdeviceptr ptr), (base_out, bytes_out, ptr))     \
    X(cuMemHostAlloc, cuMemHostAlloc, 2020, REQUIRED, FAILS, PLAIN, 0,                             \
      (void **ptr_out, size_t bytes, unsigned int flags), (ptr_out, bytes, flags))                 \
    X(cuMemAllocHost, cuMemAllocHost_v2, 3020, OPTIONAL, FAILS, PLAIN, 0,                          \
      (void **ptr_out, size_t bytes), (ptr_out, bytes))                                            \
    X(cuMemFreeHost, cuMemFreeHost, 2000, REQUIRED, FAILS, PLAIN, 0, (void *p), (p))               \
    X(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, 3020, REQUIRED, FAILS, PLAIN, 0,    \
      (CUdeviceptr *ptr_out, void *p, unsigned int flags), (ptr_out, p, flags))                    \
    X(cuMemHostGetFlags, cuMemHostGetFlags, 2030, REQUIRED, FAILS, PLAIN, 0,                       \
      (unsigned int *flags_out, void *p), (flags_out, p))                                          \
    X(cuMemHostRegister, cuMemHostRegister_v2, 6050, REQUIRED, FAILS, PLAIN, 0,                    \
      (void *p, size_t bytes, unsigned int flags), (p, bytes, flags))                              \
    X(cuMemHostUnregister, cuMemHostUnregister, 4000, REQUIRED, FAILS, PLAIN, 0, (void *p), (p))   \
    X(cuMemAllocManaged, cuMemAllocManaged, 6000, REQUIRED, FAILS, PLAIN, 0,                       \
      (CUdeviceptr *ptr_out, size_t bytes, unsigned int flags), (ptr_out, bytes, flags))           \
    X(cuMemPrefetchAsync, cuMemPrefetchAsync_v2, 12020, OPTIONAL, FAILS, PLAIN, 0,                 \
      (CUdeviceptr ptr, size_t bytes, CUmemLocation location, unsigned int flags, CUstream         \
       stream), (ptr, bytes, location, flags, stream))                                             \
    X(cuMemAdvise, cuMemAdvise_v2, 12020, OPTIONAL, FAILS, PLAIN, 0,                               \
      (CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUmemLocation location),                \
      (ptr, bytes, advice, location))                                                              \
    X(cuMemRangeGetAttribute, cuMemRangeGetAttribute, 8000, OPTIONAL, FAILS, PLAIN, 0,             \
      (void *data_out, size_t data_bytes, CUmem_range_attribute attribute, CUdeviceptr ptr,        \
       size_t bytes), (data_out, data_bytes, attribute, ptr, bytes))                               \
    X(cuStreamAttachMemAsync, cuStreamAttachMemAsync, 6000, REQUIRED, FAILS, PLAIN, 0,             \
      (CUstream stream, CUdeviceptr ptr, size_t bytes, unsigned int flags),                        \
      (stream, ptr, bytes, flags))                                                                 \
    /* copies and fills */                                                                         \
    X(cuMemcpy, cuMemcpy, 4000, REQUIRED, FAILS, PLAIN, bytes,                                     \
      (CUdeviceptr dst, CUdeviceptr src, size_t bytes), (dst, src, bytes))                         \
    X(cuMemcpyAsync, cuMemcpyAsync, 4000, REQUIRED, FAILS, PLAIN, bytes,                           \
      (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),                           \
      (dst, src, bytes, stream))                                                                   \
    X(cuMemcpyHtoD, cuMemcpyHtoD_v2, 3020, REQUIRED, FAILS, PLAIN, bytes,                          \
      (CUdeviceptr dst, const void *src, size_t bytes), (dst, src, bytes))                         \
    X(cuMemcpyDtoH, cuMemcpyDtoH_v2, 3020, REQUIRED, FAILS, PLAIN, bytes,                          \
      (void *dst, CUdeviceptr src, size_t bytes), (dst, src, bytes))                               \
    X(cuMemcpyDtoD, cuMemcpyDtoD_v2, 3020, REQUIRED, FAILS, PLAIN, bytes,                          \
      (CUdeviceptr dst, CUdeviceptr src, size_t bytes), (dst, src, bytes))                         \
    X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, 3020, REQUIRED, FAILS, PLAIN, bytes,                \
      (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream),                           \
      (dst, src, bytes, stream))                                                                   \
    X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, 3020, REQUIRED, FAILS, PLAIN, bytes,                \
      (void *dst, CUdeviceptr src, size_t bytes, CUstream stream), (dst, src, bytes, stream))      \
    X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, 3020, REQUIRED, FAILS, PLAIN, bytes,                \
      (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),                           \
      (dst, src, bytes, stream))                                                                   \
    X(cuMemcpyPeer, cuMemcpyPeer, 4000, OPTIONAL, FAILS, PLAIN, bytes,                             \
      (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t              \
       bytes), (dst, dst_ctx, src, src_ctx, bytes))                                                \
    X(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, REQUIRED, FAILS, PLAIN, bytes,                   \
      (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t              \
       bytes, CUstream stream), (dst, dst_ctx, src, src_ctx, bytes, stream))                       \
    X(cuMemcpy2D, cuMemcpy2D_v2, 3020, REQUIRED, FAILS, PLAIN, copy->WidthInBytes * copy->Height,  \
      (const CUDA_MEMCPY2D *copy), (copy))                                                         \
    X(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2,                                                 \
      3020, OPTIONAL, FAILS, PLAIN, copy->WidthInBytes * copy->Height,                             \
      (const CUDA_MEMCPY2D *copy), (copy))                                                         \
    X(cuMemcpy2DAsync, cuMemcpy2DAsync_v2,                                                         \
      3020, REQUIRED, FAILS, PLAIN, copy->WidthInBytes * copy->Height,                             \
      (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream))                                \
    X(cuMemsetD8, cuMemsetD8_v2, 3020, REQUIRED, FAILS, PLAIN, 0,                                  \
      (CUdeviceptr dst, unsigned char value, size_t count), (dst, value, count))                   \
    X(cuMemsetD8Async, cuMemsetD8Async, 3020, REQUIRED, FAILS, PLAIN, 0,                           \
      (CUdeviceptr dst, unsigned char value, size_t count, CUstream stream),                       \
      (dst, value, count, stream))                                                                 \
    X(cuMemsetD16, cuMemsetD16_v2, 3020, OPTIONAL, FAILS, PLAIN, 0,                                \
      (CUdeviceptr dst, unsigned short value, size_t count), (dst, value, count))                  \
    X(cuMemsetD16Async, cuMemsetD16Async, 3020, OPTIONAL, FAILS, PLAIN, 0,                         \
      (CUdeviceptr dst, unsigned short value, size_t count, CUstream stream),                      \
      (dst, value, count, stream))                                                                 \
    X(cuMemsetD32, cuMemsetD32_v2, 3020, REQUIRED, FAILS, PLAIN, 0,                                \
      (CUdeviceptr dst, unsigned int value, size_t count), (dst, value, count))                    \
    X(cuMemsetD32Async, cuMemsetD32Async, 3020, REQUIRED, FAILS, PLAIN, 0,                         \
      (CUdeviceptr dst, unsigned int value, size_t count, CUstream stream),                        \
      (dst, value, count, stream))                                                                 \
    X(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, REQUIRED, FAILS, PLAIN, 0,                       \
      (CUdeviceptr dst, size_t pitch_bytes, unsigned char value, size_t width_bytes, size_t        \
       rows, CUstream stream), (dst, pitch_bytes, value, width_bytes, rows, stream))               \
    X(cuMemsetD2D8, cuMemsetD2D8_v2, 3020, OPTIONAL, FAILS, PLAIN, 0,                              \
      (CUdeviceptr dst, size_t pitch_bytes, unsigned char value, size_t width, size_t rows),       \
      (dst, pitch_bytes, value, width, rows))                                                      \
    X(cuMemsetD2D16, cuMemsetD2D16_v2, 3020, OPTIONAL, FAILS, PLAIN, 0,                            \
      (CUdeviceptr dst, size_t pitch_bytes, unsigned short value, size_t width, size_t             \
       rows), (dst, pitch_bytes, value, width, rows))                                              \
    X(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, OPTIONAL, FAILS, PLAIN, 0,                     \
      (CUdeviceptr dst, size_t pitch_bytes, unsigned short value, size_t width, size_t             \
       rows, CUstream stream), (dst, pitch_bytes, value, width, rows, stream))                     \
    X(cuMemsetD2D32, cuMemsetD2D32_v2, 3020, OPTIONAL, FAILS, PLAIN, 0,                            \
      (CUdeviceptr dst, size_t pitch_bytes, unsigned int value, size_t width, size_t rows),        \
      (dst, pitch_bytes, value, width, rows))                                                      \
    X(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, OPTIONAL, FAILS, PLAIN, 0,                     \
      (CUdeviceptr dst, size_t pitch_bytes, unsigned int value, size_t width, size_t rows,         \
       CUstream stream), (dst, pitch_bytes, value, width, rows, stream))                           \
    /* virtual memory management; drivers before CUDA 10.2 and some virtual GPUs lack it */        \
    X(cuMemAddressReserve, cuMemAddressReserve, 10020, OPTIONAL, SURVIVES, PLAIN, 0,               \
      (CUdeviceptr *ptr_out, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned            \
       long long flags), (ptr_out, bytes, alignment, hint, flags))                                 \
    X(cuMemAddressFree, cuMemAddressFree, 10020, OPTIONAL, SURVIVES, PLAIN, 0,                     \
      (CUdeviceptr ptr, size_t bytes), (ptr, bytes))                                               \
    X(cuMemCreate, cuMemCreate, 10020, OPTIONAL, SURVIVES, COUNTED, 0,                             \
      (CUmemGenericAllocationHandle *handle_out, size_t bytes, const CUmemAllocationProp           \
       *prop, unsigned long long flags), (handle_out, bytes, prop, flags))                         \
    X(cuMemRelease, cuMemRelease, 10020, OPTIONAL, SURVIVES, COUNTED, 0,                           \
      (CUmemGenericAllocationHandle handle), (handle))                                             \
    X(cuMemMap, cuMemMap, 10020, OPTIONAL, SURVIVES, COUNTED, 0,                                   \
      (CUdeviceptr ptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,          \
       unsigned long long flags), (ptr, bytes, offset, handle, flags))                             \
    X(cuMemUnmap, cuMemUnmap, 10020, OPTIONAL, SURVIVES, COUNTED, 0,                               \
      (CUdeviceptr ptr, size_t bytes), (ptr, bytes))                                               \
    X(cuMemSetAccess, cuMemSetAccess, 10020, OPTIONAL, SURVIVES, COUNTED, 0,                       \
      (CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc, size_t count),                  \
      (ptr, bytes, desc, count))                                                                   \
    X(cuMemGetAccess, cuMemGetAccess, 10020, OPTIONAL, SURVIVES, PLAIN, 0,                         \
      (unsigned long long *flags_out, const CUmemLocation *location, CUdeviceptr ptr),             \
      (flags_out, location, ptr))                                                                  \
    X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity,                                \
      10020, OPTIONAL, SURVIVES, PLAIN, 0,                                                         \
      (size_t *bytes_out, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags        \
       option), (bytes_out, prop, option))                                                         \
    X(cuMemExportToShareableHandle, cuMemExportToShareableHandle,                                  \
      10020, OPTIONAL, FAILS, PLAIN, 0,                                                            \
      (void *shareable_out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType         \
       type, unsigned long long flags), (shareable_out, handle, type, flags))                      \
    X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle,                              \
      10020, OPTIONAL, FAILS, PLAIN, 0,                                                            \
      (CUmemGenericAllocationHandle *handle_out, void *os_handle, CUmemAllocationHandleType        \
       type), (handle_out, os_handle, type))                                                       \
    X(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle,              \
      10020, OPTIONAL, SURVIVES, PLAIN, 0,                                                         \
      (CUmemAllocationProp *prop_out, CUmemGenericAllocationHandle handle), (prop_out, handle))    \
    X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle,                                    \
      11000, OPTIONAL, SURVIVES, PLAIN, 0,                                                         \
      (CUmemGenericAllocationHandle *handle_out, void *address), (handle_out, address))            \
    /* pointer attributes */                                                                       \
    X(cuPointerGetAttribute, cuPointerGetAttribute, 4000, REQUIRED, SURVIVES, PLAIN, 0,            \
      (void *data_out, CUpointer_attribute attribute, CUdeviceptr ptr),                            \
      (data_out, attribute, ptr))                                                                  \
    X(cuPointerGetAttributes, cuPointerGetAttributes, 7000, REQUIRED, SURVIVES, PLAIN, 0,          \
      (unsigned int count, CUpointer_attribute *attributes, void **data_out, CUdeviceptr           \
       ptr), (count, attributes, data_out, ptr))                                                   \
    X(cuPointerSetAttribute, cuPointerSetAttribute, 6000, REQUIRED, FAILS, PLAIN, 0,               \
      (const void *value, CUpointer_attribute attribute, CUdeviceptr ptr),                         \
      (value, attribute, ptr))                                                                     \
    /* streams, capture */                                                                         \
    X(cuStreamCreate, cuStreamCreate, 2000, REQUIRED, FAILS, PLAIN, 0,                             \
      (CUstream *stream_out, unsigned int flags), (stream_out, flags))                             \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050, REQUIRED, FAILS, PLAIN, 0,     \
      (CUstream *stream_out, unsigned int flags, int priority), (stream_out, flags, priority))     \
    X(cuStreamDestroy, cuStreamDestroy_v2, 4000, REQUIRED, FAILS, PLAIN, 0,                        \
      (CUstream stream), (stream))                                                                 \
    X(cuStreamSynchronize, cuStreamSynchronize, 2000, REQUIRED, FAILS, PLAIN, 0,                   \
      (CUstream stream), (stream))                                                                 \
    X(cuStreamQuery, cuStreamQuery, 2000, REQUIRED, FAILS, PLAIN, 0, (CUstream stream), (stream))  \
    X(cuStreamWaitEvent, cuStreamWaitEvent, 3020, REQUIRED, FAILS, PLAIN, 0,                       \
      (CUstream stream, CUevent event, unsigned int flags), (stream, event, flags))                \
    X(cuStreamGetFlags, cuStreamGetFlags, 5050, REQUIRED, FAILS, PLAIN, 0,                         \
      (CUstream stream, unsigned int *flags_out), (stream, flags_out))                             \
    X(cuStreamGetPriority, cuStreamGetPriority, 5050, OPTIONAL, FAILS, PLAIN, 0,                   \
      (CUstream stream, int *priority_out), (stream, priority_out))                                \
    X(cuStreamGetId, cuStreamGetId, 12000, OPTIONAL, FAILS, PLAIN, 0,                              \
      (CUstream stream, unsigned long long *id_out), (stream, id_out))                             \
    X(cuStreamGetCtx, cuStreamGetCtx, 9020, REQUIRED, FAILS, PLAIN, 0,                             \
      (CUstream stream, CUcontext *ctx_out), (stream, ctx_out))                                    \
    X(cuStreamGetDevice, cuStreamGetDevice, 12080, OPTIONAL, FAILS, PLAIN, 0,                      \
      (CUstream stream, CUdevice *device_out), (stream, device_out))                               \
    X(cuStreamIsCapturing, cuStreamIsCapturing, 10000, REQUIRED, FAILS, PLAIN, 0,                  \
      (CUstream stream, CUstreamCaptureStatus *status_out), (stream, status_out))                  \
    X(cuStreamBeginCapture, cuStreamBeginCapture_v2, 10010, REQUIRED, FAILS, PLAIN, 0,             \
      (CUstream stream, CUstreamCaptureMode mode), (stream, mode))                                 \
    X(cuStreamEndCapture, cuStreamEndCapture, 10000, REQUIRED, FAILS, PLAIN, 0,                    \
      (CUstream stream, CUgraph *graph_out), (stream, graph_out))                                  \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode,                        \
      10010, REQUIRED, SURVIVES, PLAIN, 0,                                                         \
      (CUstreamCaptureMode *mode_inout), (mode_inout))                                             \
    X(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2, 11030, OPTIONAL, FAILS, PLAIN, 0,         \
      (CUstream stream, CUstreamCaptureStatus *status_out, cuuint64_t *id_out, CUgraph             \
       *graph_out, const CUgraphNode **dependencies_out, size_t *count_out),                       \
      (stream, status_out, id_out, graph_out, dependencies_out, count_out))                        \
    /* graphs, and objects that they keep alive */                                                 \
    X(cuGraphDestroy, cuGraphDestroy, 10000, REQUIRED, FAILS, PLAIN, 0, (CUgraph graph), (graph))  \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040, OPTIONAL, FAILS, PLAIN, 0,  \
      (CUgraphExec *exec_out, CUgraph graph, unsigned long long flags), (exec_out, graph, flags))  \
    X(cuGraphLaunch, cuGraphLaunch, 10000, OPTIONAL, FAILS, PLAIN, 0,                              \
      (CUgraphExec exec, CUstream stream), (exec, stream))                                         \
    X(cuGraphExecDestroy, cuGraphExecDestroy, 10000, OPTIONAL, FAILS, PLAIN, 0,                    \
      (CUgraphExec exec), (exec))                                                                  \
    X(cuUserObjectCreate, cuUserObjectCreate, 11030, OPTIONAL, FAILS, PLAIN, 0,                    \
      (CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int count, unsigned         \
       int flags), (object_out, ptr, destroy, count, flags))                                       \
    X(cuUserObjectRetain, cuUserObjectRetain, 11030, OPTIONAL, FAILS, PLAIN, 0,                    \
      (CUuserObject object, unsigned int count), (object, count))                                  \
    X(cuUserObjectRelease, cuUserObjectRelease, 11030, OPTIONAL, FAILS, PLAIN, 0,                  \
      (CUuserObject object, unsigned int count), (object, count))                                  \
    X(cuGraphRetainUserObject, cuGraphRetainUserObject, 11030, OPTIONAL, FAILS, PLAIN, 0,          \
      (CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags),                \
      (graph, object, count, flags))                                                               \
    X(cuGraphReleaseUserObject, cuGraphReleaseUserObject, 11030, OPTIONAL, FAILS, PLAIN, 0,        \
      (CUgraph graph, CUuserObject object, unsigned int count), (graph, object, count))            \
    X(cuLaunchHostFunc, cuLaunchHostFunc, 10000, REQUIRED, FAILS, PLAIN, 0,                        \
      (CUstream stream, CUhostFn fn, void *arg), (stream, fn, arg))                                \
    X(cuStreamAddCallback, cuStreamAddCallback, 5000, OPTIONAL, FAILS, PLAIN, 0,                   \
      (CUstream stream, CUstreamCallback callback, void *arg, unsigned int flags),                 \
      (stream, callback, arg, flags))                                                              \
    /* events */                                                                                   \
    X(cuEventCreate, cuEventCreate, 2000, REQUIRED, FAILS, PLAIN, 0,                               \
      (CUevent *event_out, unsigned int flags), (event_out, flags))                                \
    X(cuEventDestroy, cuEventDestroy_v2, 4000, REQUIRED, FAILS, PLAIN, 0,                          \
      (CUevent event), (event))                                                                    \
    X(cuEventRecord, cuEventRecord, 2000, REQUIRED, FAILS, PLAIN, 0,                               \
      (CUevent event, CUstream stream), (event, stream))                                           \
    X(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010, OPTIONAL, FAILS, PLAIN, 0,            \
      (CUevent event, CUstream stream, unsigned int flags), (event, stream, flags))                \
    X(cuEventQuery, cuEventQuery, 2000, REQUIRED, FAILS, PLAIN, 0, (CUevent event), (event))       \
    X(cuEventSynchronize, cuEventSynchronize, 2000, REQUIRED, FAILS, PLAIN, 0,                     \
      (CUevent event), (event))                                                                    \
    X(cuEventElapsedTime, cuEventElapsedTime, 2000, REQUIRED, FAILS, PLAIN, 0,                     \
      (float *ms_out, CUevent start, CUevent end), (ms_out, start, end))                           \
    /* sharing, modules, launches */                                                               \
    X(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, REQUIRED, FAILS, PLAIN, 0,                       \
      (CUipcMemHandle *handle_out, CUdeviceptr ptr), (handle_out, ptr))                            \
    X(cuModuleLoadData, cuModuleLoadData, 2000, REQUIRED, FAILS, PLAIN, 0,                         \
      (CUmodule *module_out, const void *image), (module_out, image))                              \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, 2010, OPTIONAL, FAILS, PLAIN, 0,                     \
      (CUmodule *module_out, const void *image, unsigned int count, CUjit_option *options,         \
       void **values), (module_out, image, count, options, values))                                \
    X(cuModuleUnload, cuModuleUnload, 2000, REQUIRED, FAILS, PLAIN, 0,                             \
      (CUmodule module), (module))                                                                 \
    X(cuModuleGetFunction, cuModuleGetFunction, 2000, REQUIRED, FAILS, PLAIN, 0,                   \
      (CUfunction *function_out, CUmodule module, const char *name), (function_out, module, name)) \
    X(cuLaunchKernel, cuLaunchKernel, 4000, REQUIRED, FAILS, PLAIN, 0,                             \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,         \
       unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int              \
       shared_bytes, CUstream stream, void **params, void **extra),                                \
      (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,          \
       params, extra))
/* clang-format on */

#endif
