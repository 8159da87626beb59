/* Hooks of copies and memsets that are synchronous by name. Many of them return before their work
 * is done. CU_POINTER_ATTRIBUTE_SYNC_MEMOPS makes them wait, for libraries that let other devices
 * read the memory. The driver does not keep it for mapped memory, so acre waits for served blocks.
 *
 * A call that takes a description of a copy in two or three dimensions waits while any served block
 * has the attribute. */
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

#define SHIM_MEMOP_PROTOTYPES(symbol, params, args, touches)                                       \
    SHIM_EXPORT CUresult symbol params;                                                            \
    SHIM_EXPORT CUresult symbol##_ptds params;
SHIM_MEMOPS(SHIM_MEMOP_PROTOTYPES)
#undef SHIM_MEMOP_PROTOTYPES

#endif
