/* Hooks of copies and memsets that are synchronous by name. Many of them return before their work
 * is done. CU_POINTER_ATTRIBUTE_SYNC_MEMOPS makes them wait, for libraries that let other devices
 * read the memory. The driver does not keep it for mapped memory, so acre waits for served blocks.
 *
 * A call that takes a description of a copy in two or three dimensions waits while any served block
 * has the attribute.
 *
 * And hooks of copies, memsets and waits on memory in stream order. All of these calls use device
 * memory, and wait while it is away (shim_pause.h). Only forms from before CUDA 3.2 have no hook:
 * their addresses have 32 bits, and are never served. */
#ifndef ACRE_SHIM_SHIM_MEMOPS_H
#define ACRE_SHIM_SHIM_MEMOPS_H

#include "shim.h"

enum { SHIM_NOTHING, SHIM_ANYTHING };

/* X(symbol, params, args, whether it uses such a block); every one has a form symbol_ptds for the
 * thread's own default stream. */
#define SHIM_MEMOPS(X)                                                                             \
    X(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), (dst, src, bytes),               \
      memops_touch(dst, src))                                                                      \
    X(cuMemcpyPeer,                                                                                \
      (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes),      \
      (dst, dst_ctx, src, src_ctx, bytes), memops_touch(dst, src))                                 \
    X(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t bytes), (dst, src, bytes),        \
      memops_touch(dst, 0))                                                                        \
    X(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t bytes), (dst, src, bytes),              \
      memops_touch(src, 0))                                                                        \
    X(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), (dst, src, bytes),        \
      memops_touch(dst, src))                                                                      \
    X(cuMemcpyDtoA_v2, (void *dst, size_t offset, CUdeviceptr src, size_t bytes),                  \
      (dst, offset, src, bytes), memops_touch(src, 0))                                             \
    X(cuMemcpyAtoD_v2, (CUdeviceptr dst, void *src, size_t offset, size_t bytes),                  \
      (dst, src, offset, bytes), memops_touch(dst, 0))                                             \
    X(cuMemcpyHtoA_v2, (void *dst, size_t offset, const void *src, size_t bytes),                  \
      (dst, offset, src, bytes), SHIM_NOTHING)                                                     \
    X(cuMemcpyAtoH_v2, (void *dst, void *src, size_t offset, size_t bytes),                        \
      (dst, src, offset, bytes), SHIM_NOTHING)                                                     \
    X(cuMemcpyAtoA_v2, (void *dst, size_t dst_offset, void *src, size_t offset, size_t bytes),     \
      (dst, dst_offset, src, offset, bytes), SHIM_NOTHING)                                         \
    X(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy), (copy), SHIM_ANYTHING)                           \
    X(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), (copy), SHIM_ANYTHING)                  \
    X(cuMemcpy3D_v2, (const void *copy), (copy), SHIM_ANYTHING)                                    \
    X(cuMemcpy3DPeer, (const void *copy), (copy), SHIM_ANYTHING)                                   \
    X(cuMemsetD8_v2, (CUdeviceptr dst, unsigned char value, size_t count), (dst, value, count),    \
      memops_touch(dst, 0))                                                                        \
    X(cuMemsetD16_v2, (CUdeviceptr dst, unsigned short value, size_t count), (dst, value, count),  \
      memops_touch(dst, 0))                                                                        \
    X(cuMemsetD32_v2, (CUdeviceptr dst, unsigned int value, size_t count), (dst, value, count),    \
      memops_touch(dst, 0))                                                                        \
    X(cuMemsetD2D8_v2,                                                                             \
      (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t rows),             \
      (dst, pitch, value, width, rows), memops_touch(dst, 0))                                      \
    X(cuMemsetD2D16_v2,                                                                            \
      (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t rows),            \
      (dst, pitch, value, width, rows), memops_touch(dst, 0))                                      \
    X(cuMemsetD2D32_v2,                                                                            \
      (CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t rows),              \
      (dst, pitch, value, width, rows), memops_touch(dst, 0))

/* X(symbol, params, args); every one has a form symbol_ptsz for the thread's own default stream. */
#define SHIM_STREAM_MEMOPS(X)                                                                      \
    X(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),            \
      (dst, src, bytes, stream))                                                                   \
    X(cuMemcpyPeerAsync,                                                                           \
      (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes,       \
       CUstream stream),                                                                           \
      (dst, dst_ctx, src, src_ctx, bytes, stream))                                                 \
    X(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t bytes, CUstream stream),     \
      (dst, src, bytes, stream))                                                                   \
    X(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t bytes, CUstream stream),           \
      (dst, src, bytes, stream))                                                                   \
    X(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),     \
      (dst, src, bytes, stream))                                                                   \
    X(cuMemcpyHtoAAsync_v2,                                                                        \
      (void *dst, size_t offset, const void *src, size_t bytes, CUstream stream),                  \
      (dst, offset, src, bytes, stream))                                                           \
    X(cuMemcpyAtoHAsync_v2, (void *dst, void *src, size_t offset, size_t bytes, CUstream stream),  \
      (dst, src, offset, bytes, stream))                                                           \
    X(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream), (copy, stream))            \
    X(cuMemcpy3DAsync_v2, (const void *copy, CUstream stream), (copy, stream))                     \
    X(cuMemcpy3DPeerAsync, (const void *copy, CUstream stream), (copy, stream))                    \
    X(cuMemcpyBatchAsync,                                                                          \
      (CUdeviceptr * dsts, CUdeviceptr * srcs, size_t * sizes, size_t count, void *attributes,     \
       size_t *indices, size_t attribute_count, size_t *failed_out, CUstream stream),              \
      (dsts, srcs, sizes, count, attributes, indices, attribute_count, failed_out, stream))        \
    X(cuMemcpyBatchAsync_v2,                                                                       \
      (CUdeviceptr * dsts, CUdeviceptr * srcs, size_t * sizes, size_t count, void *attributes,     \
       size_t *indices, size_t attribute_count, CUstream stream),                                  \
      (dsts, srcs, sizes, count, attributes, indices, attribute_count, stream))                    \
    X(cuMemcpy3DBatchAsync,                                                                        \
      (size_t count, void *copies, size_t *failed_out, unsigned long long flags, CUstream stream), \
      (count, copies, failed_out, flags, stream))                                                  \
    X(cuMemcpy3DBatchAsync_v2,                                                                     \
      (size_t count, void *copies, unsigned long long flags, CUstream stream),                     \
      (count, copies, flags, stream))                                                              \
    X(cuMemBatchDecompressAsync,                                                                   \
      (void *params, size_t count, unsigned int flags, size_t *failed_out, CUstream stream),       \
      (params, count, flags, failed_out, stream))                                                  \
    X(cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t count, CUstream stream),      \
      (dst, value, count, stream))                                                                 \
    X(cuMemsetD16Async, (CUdeviceptr dst, unsigned short value, size_t count, CUstream stream),    \
      (dst, value, count, stream))                                                                 \
    X(cuMemsetD32Async, (CUdeviceptr dst, unsigned int value, size_t count, CUstream stream),      \
      (dst, value, count, stream))                                                                 \
    X(cuMemsetD2D8Async,                                                                           \
      (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t rows,              \
       CUstream stream),                                                                           \
      (dst, pitch, value, width, rows, stream))                                                    \
    X(cuMemsetD2D16Async,                                                                          \
      (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t rows,             \
       CUstream stream),                                                                           \
      (dst, pitch, value, width, rows, stream))                                                    \
    X(cuMemsetD2D32Async,                                                                          \
      (CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t rows,               \
       CUstream stream),                                                                           \
      (dst, pitch, value, width, rows, stream))                                                    \
    X(cuStreamBatchMemOp,                                                                          \
      (CUstream stream, unsigned int count, void *operations, unsigned int flags),                 \
      (stream, count, operations, flags))                                                          \
    X(cuStreamWaitValue32,                                                                         \
      (CUstream stream, CUdeviceptr address, uint32_t value, unsigned int flags),                  \
      (stream, address, value, flags))                                                             \
    X(cuStreamWaitValue64,                                                                         \
      (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),                \
      (stream, address, value, flags))                                                             \
    X(cuStreamWriteValue32,                                                                        \
      (CUstream stream, CUdeviceptr address, uint32_t value, unsigned int flags),                  \
      (stream, address, value, flags))                                                             \
    X(cuStreamWriteValue64,                                                                        \
      (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),                \
      (stream, address, value, flags))                                                             \
    X(cuStreamBatchMemOp_v2,                                                                       \
      (CUstream stream, unsigned int count, void *operations, unsigned int flags),                 \
      (stream, count, operations, flags))                                                          \
    X(cuStreamWaitValue32_v2,                                                                      \
      (CUstream stream, CUdeviceptr address, uint32_t value, unsigned int flags),                  \
      (stream, address, value, flags))                                                             \
    X(cuStreamWaitValue64_v2,                                                                      \
      (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),                \
      (stream, address, value, flags))                                                             \
    X(cuStreamWriteValue32_v2,                                                                     \
      (CUstream stream, CUdeviceptr address, uint32_t value, unsigned int flags),                  \
      (stream, address, value, flags))                                                             \
    X(cuStreamWriteValue64_v2,                                                                     \
      (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags),                \
      (stream, address, value, flags))

#define SHIM_MEMOP_PROTOTYPES(symbol, params, args, touches)                                       \
    SHIM_EXPORT CUresult symbol params;                                                            \
    SHIM_EXPORT CUresult symbol##_ptds params;
SHIM_MEMOPS(SHIM_MEMOP_PROTOTYPES)
#undef SHIM_MEMOP_PROTOTYPES

#define SHIM_STREAM_MEMOP_PROTOTYPES(symbol, params, args)                                         \
    SHIM_EXPORT CUresult symbol params;                                                            \
    SHIM_EXPORT CUresult symbol##_ptsz params;
SHIM_STREAM_MEMOPS(SHIM_STREAM_MEMOP_PROTOTYPES)
#undef SHIM_STREAM_MEMOP_PROTOTYPES

#endif
