/* The list of runtime calls that libcudart.so.13 supports: X(name, form, params, args).
 *
 *   name     the call, as programs write it
 *   form     PLAIN: one exported function. PTSZ, PTDS: also one with that suffix, which programs
 *            compiled for a default stream per thread call; in it the NULL stream is the calling
 *            thread's own
 *   params   typed parameters in parentheses; args their names in parentheses
 *
 * Every call returns cudaError_t. This list generates the exported functions (runtime_doors.c) and
 * the prototypes of their implementations (runtime_state.h). The compiler checks that the list
 * agrees with the header that programs include. The four calls about errors, which must not change
 * the last error, are written by hand. */
#ifndef ACRE_STANDIN_RUNTIME_LIST_H
#define ACRE_STANDIN_RUNTIME_LIST_H

/* clang-format off */
#define ACRE__RUNTIME_LIST(X)                                                                      \
    /* versions, driver entry points */                                                            \
    X(cudaDriverGetVersion, PLAIN, (int *version), (version))                                      \
    X(cudaRuntimeGetVersion, PLAIN, (int *version), (version))                                     \
    X(cudaGetDriverEntryPoint, PTSZ, (const char *symbol, void **function,                         \
      unsigned long long flags, enum cudaDriverEntryPointQueryResult *found),                      \
      (symbol, function, flags, found))                                                            \
    X(cudaGetDriverEntryPointByVersion, PTSZ, (const char *symbol, void **function,                \
      unsigned int version, unsigned long long flags,                                              \
      enum cudaDriverEntryPointQueryResult *found), (symbol, function, version, flags, found))     \
    /* devices */                                                                                  \
    X(cudaGetDeviceCount, PLAIN, (int *count), (count))                                            \
    X(cudaGetDevice, PLAIN, (int *device), (device))                                               \
    X(cudaSetDevice, PLAIN, (int device), (device))                                                \
    X(cudaInitDevice, PLAIN, (int device, unsigned int device_flags, unsigned int flags),          \
      (device, device_flags, flags))                                                               \
    X(cudaChooseDevice, PLAIN, (int *device, const struct cudaDeviceProp *prop), (device, prop))   \
    X(cudaSetValidDevices, PLAIN, (int *devices, int count), (devices, count))                     \
    X(cudaSetDeviceFlags, PLAIN, (unsigned int flags), (flags))                                    \
    X(cudaGetDeviceFlags, PLAIN, (unsigned int *flags), (flags))                                   \
    X(cudaGetDeviceProperties, PLAIN, (struct cudaDeviceProp *prop, int device), (prop, device))   \
    X(cudaDeviceGetAttribute, PLAIN, (int *value, enum cudaDeviceAttr attribute, int device),      \
      (value, attribute, device))                                                                  \
    X(cudaDeviceGetP2PAttribute, PLAIN,                                                            \
      (int *value, enum cudaDeviceP2PAttr attribute, int device, int peer),                        \
      (value, attribute, device, peer))                                                            \
    X(cudaDeviceReset, PLAIN, (void), ())                                                          \
    X(cudaDeviceSynchronize, PLAIN, (void), ())                                                    \
    X(cudaDeviceGetLimit, PLAIN, (size_t *value, enum cudaLimit limit), (value, limit))            \
    X(cudaDeviceSetLimit, PLAIN, (enum cudaLimit limit, size_t value), (limit, value))             \
    X(cudaDeviceGetPCIBusId, PLAIN, (char *text, int bytes, int device), (text, bytes, device))    \
    X(cudaDeviceGetByPCIBusId, PLAIN, (int *device, const char *text), (device, text))             \
    X(cudaDeviceGetStreamPriorityRange, PLAIN, (int *least, int *greatest), (least, greatest))     \
    X(cudaDeviceCanAccessPeer, PLAIN, (int *can, int device, int peer), (can, device, peer))       \
    X(cudaDeviceEnablePeerAccess, PLAIN, (int peer, unsigned int flags), (peer, flags))            \
    X(cudaDeviceDisablePeerAccess, PLAIN, (int peer), (peer))                                      \
    X(cudaDeviceGetDefaultMemPool, PLAIN, (cudaMemPool_t *pool, int device), (pool, device))       \
    X(cudaDeviceGetMemPool, PLAIN, (cudaMemPool_t *pool, int device), (pool, device))              \
    X(cudaDeviceSetMemPool, PLAIN, (int device, cudaMemPool_t pool), (device, pool))               \
    /* memory */                                                                                   \
    X(cudaMalloc, PLAIN, (void **ptr, size_t bytes), (ptr, bytes))                                 \
    X(cudaMallocPitch, PLAIN, (void **ptr, size_t *pitch, size_t width, size_t height),            \
      (ptr, pitch, width, height))                                                                 \
    X(cudaFree, PLAIN, (void *ptr), (ptr))                                                         \
    X(cudaMallocHost, PLAIN, (void **ptr, size_t bytes), (ptr, bytes))                             \
    X(cudaHostAlloc, PLAIN, (void **ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags))   \
    X(cudaFreeHost, PLAIN, (void *ptr), (ptr))                                                     \
    X(cudaHostGetDevicePointer, PLAIN, (void **device_ptr, void *host_ptr, unsigned int flags),    \
      (device_ptr, host_ptr, flags))                                                               \
    X(cudaHostGetFlags, PLAIN, (unsigned int *flags, void *host_ptr), (flags, host_ptr))           \
    X(cudaHostRegister, PLAIN, (void *ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags)) \
    X(cudaHostUnregister, PLAIN, (void *ptr), (ptr))                                               \
    X(cudaMemGetInfo, PLAIN, (size_t *free_bytes, size_t *total_bytes), (free_bytes, total_bytes)) \
    X(cudaPointerGetAttributes, PLAIN,                                                             \
      (struct cudaPointerAttributes *attributes, const void *ptr), (attributes, ptr))              \
    X(cudaIpcGetMemHandle, PLAIN, (cudaIpcMemHandle_t *handle, void *ptr), (handle, ptr))          \
    /* managed memory */                                                                           \
    X(cudaMallocManaged, PLAIN, (void **ptr, size_t bytes, unsigned int flags),                    \
      (ptr, bytes, flags))                                                                         \
    X(cudaMemPrefetchAsync, PTSZ, (const void *ptr, size_t bytes, struct cudaMemLocation location, \
      unsigned int flags, cudaStream_t stream), (ptr, bytes, location, flags, stream))             \
    X(cudaMemAdvise, PLAIN, (const void *ptr, size_t bytes, enum cudaMemoryAdvise advice,          \
      struct cudaMemLocation location), (ptr, bytes, advice, location))                            \
    X(cudaMemRangeGetAttribute, PLAIN, (void *data, size_t data_bytes,                             \
      enum cudaMemRangeAttribute attribute, const void *ptr, size_t bytes),                        \
      (data, data_bytes, attribute, ptr, bytes))                                                   \
    X(cudaMemRangeGetAttributes, PLAIN, (void **data, size_t *data_bytes,                          \
      enum cudaMemRangeAttribute *attributes, size_t count, const void *ptr, size_t bytes),        \
      (data, data_bytes, attributes, count, ptr, bytes))                                           \
    X(cudaStreamAttachMemAsync, PTSZ,                                                              \
      (cudaStream_t stream, void *ptr, size_t bytes, unsigned int flags),                          \
      (stream, ptr, bytes, flags))                                                                 \
    /* copies and fills */                                                                         \
    X(cudaMemcpy, PTDS, (void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind),      \
      (dst, src, bytes, kind))                                                                     \
    X(cudaMemcpyAsync, PTSZ, (void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,  \
      cudaStream_t stream), (dst, src, bytes, kind, stream))                                       \
    X(cudaMemcpy2D, PTDS, (void *dst, size_t dst_pitch, const void *src, size_t src_pitch,         \
      size_t width, size_t height, enum cudaMemcpyKind kind),                                      \
      (dst, dst_pitch, src, src_pitch, width, height, kind))                                       \
    X(cudaMemcpy2DAsync, PTSZ, (void *dst, size_t dst_pitch, const void *src, size_t src_pitch,    \
      size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),                 \
      (dst, dst_pitch, src, src_pitch, width, height, kind, stream))                               \
    X(cudaMemcpyPeer, PLAIN,                                                                       \
      (void *dst, int dst_device, const void *src, int src_device, size_t bytes),                  \
      (dst, dst_device, src, src_device, bytes))                                                   \
    X(cudaMemcpyPeerAsync, PLAIN, (void *dst, int dst_device, const void *src, int src_device,     \
      size_t bytes, cudaStream_t stream), (dst, dst_device, src, src_device, bytes, stream))       \
    X(cudaMemset, PTDS, (void *ptr, int value, size_t bytes), (ptr, value, bytes))                 \
    X(cudaMemsetAsync, PTSZ, (void *ptr, int value, size_t bytes, cudaStream_t stream),            \
      (ptr, value, bytes, stream))                                                                 \
    X(cudaMemset2D, PTDS, (void *ptr, size_t pitch, int value, size_t width, size_t height),       \
      (ptr, pitch, value, width, height))                                                          \
    X(cudaMemset2DAsync, PTSZ,                                                                     \
      (void *ptr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),      \
      (ptr, pitch, value, width, height, stream))                                                  \
    /* memory in stream order, pools */                                                            \
    X(cudaMallocAsync, PTSZ, (void **ptr, size_t bytes, cudaStream_t stream),                      \
      (ptr, bytes, stream))                                                                        \
    X(cudaFreeAsync, PTSZ, (void *ptr, cudaStream_t stream), (ptr, stream))                        \
    X(cudaMallocFromPoolAsync, PTSZ,                                                               \
      (void **ptr, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),                         \
      (ptr, bytes, pool, stream))                                                                  \
    X(cudaMemGetDefaultMemPool, PLAIN, (cudaMemPool_t *pool,                                       \
      struct cudaMemLocation *location, enum cudaMemAllocationType type),                          \
      (pool, location, type))                                                                      \
    X(cudaMemGetMemPool, PLAIN, (cudaMemPool_t *pool, struct cudaMemLocation *location,            \
      enum cudaMemAllocationType type), (pool, location, type))                                    \
    X(cudaMemSetMemPool, PLAIN, (struct cudaMemLocation *location,                                 \
      enum cudaMemAllocationType type, cudaMemPool_t pool), (location, type, pool))                \
    X(cudaMemPoolCreate, PLAIN, (cudaMemPool_t *pool, const struct cudaMemPoolProps *props),       \
      (pool, props))                                                                               \
    X(cudaMemPoolDestroy, PLAIN, (cudaMemPool_t pool), (pool))                                     \
    X(cudaMemPoolTrimTo, PLAIN, (cudaMemPool_t pool, size_t keep_bytes), (pool, keep_bytes))       \
    X(cudaMemPoolSetAttribute, PLAIN,                                                              \
      (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value), (pool, attribute, value)) \
    X(cudaMemPoolGetAttribute, PLAIN,                                                              \
      (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value), (pool, attribute, value)) \
    X(cudaMemPoolSetAccess, PLAIN,                                                                 \
      (cudaMemPool_t pool, const struct cudaMemAccessDesc *desc, size_t count),                    \
      (pool, desc, count))                                                                         \
    X(cudaMemPoolGetAccess, PLAIN,                                                                 \
      (enum cudaMemAccessFlags *flags, cudaMemPool_t pool, struct cudaMemLocation *location),      \
      (flags, pool, location))                                                                     \
    X(cudaMemPoolExportToShareableHandle, PLAIN, (void *shareable, cudaMemPool_t pool,             \
      enum cudaMemAllocationHandleType type, unsigned int flags), (shareable, pool, type, flags))  \
    X(cudaMemPoolImportFromShareableHandle, PLAIN, (cudaMemPool_t *pool, void *shareable,          \
      enum cudaMemAllocationHandleType type, unsigned int flags), (pool, shareable, type, flags))  \
    X(cudaMemPoolExportPointer, PLAIN, (struct cudaMemPoolPtrExportData *data, void *ptr),         \
      (data, ptr))                                                                                 \
    X(cudaMemPoolImportPointer, PLAIN,                                                             \
      (void **ptr, cudaMemPool_t pool, struct cudaMemPoolPtrExportData *data), (ptr, pool, data))  \
    /* streams */                                                                                  \
    X(cudaStreamCreate, PLAIN, (cudaStream_t *stream), (stream))                                   \
    X(cudaStreamCreateWithFlags, PLAIN, (cudaStream_t *stream, unsigned int flags),                \
      (stream, flags))                                                                             \
    X(cudaStreamCreateWithPriority, PLAIN,                                                         \
      (cudaStream_t *stream, unsigned int flags, int priority), (stream, flags, priority))         \
    X(cudaStreamDestroy, PLAIN, (cudaStream_t stream), (stream))                                   \
    X(cudaStreamSynchronize, PTSZ, (cudaStream_t stream), (stream))                                \
    X(cudaStreamQuery, PTSZ, (cudaStream_t stream), (stream))                                      \
    X(cudaStreamWaitEvent, PTSZ, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),     \
      (stream, event, flags))                                                                      \
    X(cudaStreamGetFlags, PTSZ, (cudaStream_t stream, unsigned int *flags), (stream, flags))       \
    X(cudaStreamGetPriority, PTSZ, (cudaStream_t stream, int *priority), (stream, priority))       \
    X(cudaStreamGetId, PTSZ, (cudaStream_t stream, unsigned long long *id), (stream, id))          \
    X(cudaStreamGetDevice, PTSZ, (cudaStream_t stream, int *device), (stream, device))             \
    X(cudaStreamAddCallback, PTSZ, (cudaStream_t stream, cudaStreamCallback_t callback,            \
      void *user_data, unsigned int flags), (stream, callback, user_data, flags))                  \
    X(cudaLaunchHostFunc, PTSZ, (cudaStream_t stream, cudaHostFn_t function, void *user_data),     \
      (stream, function, user_data))                                                               \
    X(cudaStreamBeginCapture, PTSZ, (cudaStream_t stream, enum cudaStreamCaptureMode mode),        \
      (stream, mode))                                                                              \
    X(cudaStreamEndCapture, PTSZ, (cudaStream_t stream, cudaGraph_t *graph), (stream, graph))      \
    X(cudaStreamIsCapturing, PTSZ, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),    \
      (stream, status))                                                                            \
    X(cudaThreadExchangeStreamCaptureMode, PLAIN, (enum cudaStreamCaptureMode *mode), (mode))      \
    X(cudaGraphDestroy, PLAIN, (cudaGraph_t graph), (graph))                                       \
    /* events */                                                                                   \
    X(cudaEventCreate, PLAIN, (cudaEvent_t *event), (event))                                       \
    X(cudaEventCreateWithFlags, PLAIN, (cudaEvent_t *event, unsigned int flags), (event, flags))   \
    X(cudaEventDestroy, PLAIN, (cudaEvent_t event), (event))                                       \
    X(cudaEventRecord, PTSZ, (cudaEvent_t event, cudaStream_t stream), (event, stream))            \
    X(cudaEventRecordWithFlags, PTSZ,                                                              \
      (cudaEvent_t event, cudaStream_t stream, unsigned int flags), (event, stream, flags))        \
    X(cudaEventQuery, PLAIN, (cudaEvent_t event), (event))                                         \
    X(cudaEventSynchronize, PLAIN, (cudaEvent_t event), (event))                                   \
    X(cudaEventElapsedTime, PLAIN, (float *ms, cudaEvent_t start, cudaEvent_t end),                \
      (ms, start, end))
/* clang-format on */

#endif
