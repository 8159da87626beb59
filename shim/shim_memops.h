/* Hooks of copies and memsets that are synchronous by name. Many of them return before their work
 * is done. CU_POINTER_ATTRIBUTE_SYNC_MEMOPS makes them wait, for libraries that let other devices
 * read the memory. The driver does not keep it for mapped memory, so acre waits for served blocks.
 *
 * While a program has set it for some served block, every such call waits, whatever memory it uses:
 * this is rare, and waiting is always correct. */
#ifndef ACRE_SHIM_SHIM_MEMOPS_H
#define ACRE_SHIM_SHIM_MEMOPS_H

#include "shim.h"

/* X(symbol, params, args); every one has a form symbol_ptds for the thread's own default stream. */
#define SHIM_MEMOPS(X)                                                                             \
    X(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), (dst, src, bytes))               \
    X(cuMemcpyPeer,                                                                                \
      (CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx, size_t bytes),      \
      (dst, dst_ctx, src, src_ctx, bytes))                                                         \
    X(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t bytes), (dst, src, bytes))        \
    X(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t bytes), (dst, src, bytes))              \
    X(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes), (dst, src, bytes))        \
    X(cuMemcpyDtoA_v2, (void *dst, size_t offset, CUdeviceptr src, size_t bytes),                  \
      (dst, offset, src, bytes))                                                                   \
    X(cuMemcpyAtoD_v2, (CUdeviceptr dst, void *src, size_t offset, size_t bytes),                  \
      (dst, src, offset, bytes))                                                                   \
    X(cuMemcpyHtoA_v2, (void *dst, size_t offset, const void *src, size_t bytes),                  \
      (dst, offset, src, bytes))                                                                   \
    X(cuMemcpyAtoH_v2, (void *dst, void *src, size_t offset, size_t bytes),                        \
      (dst, src, offset, bytes))                                                                   \
    X(cuMemcpyAtoA_v2, (void *dst, size_t dst_offset, void *src, size_t offset, size_t bytes),     \
      (dst, dst_offset, src, offset, bytes))                                                       \
    X(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy), (copy))                                          \
    X(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), (copy))                                 \
    X(cuMemcpy3D_v2, (const void *copy), (copy))                                                   \
    X(cuMemcpy3DPeer, (const void *copy), (copy))                                                  \
    X(cuMemsetD8_v2, (CUdeviceptr dst, unsigned char value, size_t count), (dst, value, count))    \
    X(cuMemsetD16_v2, (CUdeviceptr dst, unsigned short value, size_t count), (dst, value, count))  \
    X(cuMemsetD32_v2, (CUdeviceptr dst, unsigned int value, size_t count), (dst, value, count))    \
    X(cuMemsetD2D8_v2,                                                                             \
      (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t rows),             \
      (dst, pitch, value, width, rows))                                                            \
    X(cuMemsetD2D16_v2,                                                                            \
      (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width, size_t rows),            \
      (dst, pitch, value, width, rows))                                                            \
    X(cuMemsetD2D32_v2,                                                                            \
      (CUdeviceptr dst, size_t pitch, unsigned int value, size_t width, size_t rows),              \
      (dst, pitch, value, width, rows))

#define SHIM_MEMOP_PROTOTYPES(symbol, params, args)                                                \
    SHIM_EXPORT CUresult symbol params;                                                            \
    SHIM_EXPORT CUresult symbol##_ptds params;
SHIM_MEMOPS(SHIM_MEMOP_PROTOTYPES)
#undef SHIM_MEMOP_PROTOTYPES

#endif
