/* */
#include "driver/soft/soft_state.h"

CUresult acre__soft_cuDeviceGetByPCIBusId(CUdevice *device_out, const char *text) {
    (void)device_out;
    (void)text;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
    (void)dev;
    (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuDevicePrimaryCtxReset(CUdevice dev) {
    (void)dev;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuCtxCreate(CUcontext *ctx_out, CUctxCreateParams *params, unsigned int flags,
                                CUdevice dev) {
    (void)ctx_out;
    (void)params;
    (void)flags;
    (void)dev;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuCtxDestroy(CUcontext ctx) {
    (void)ctx;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuCtxGetFlags(unsigned int *flags_out) {
    (void)flags_out;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version_out) {
    (void)ctx;
    (void)version_out;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuCtxGetId(CUcontext ctx, unsigned long long *id_out) {
    (void)ctx;
    (void)id_out;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemAllocPitch(CUdeviceptr *ptr_out, size_t *pitch_out, size_t width_bytes,
                                    size_t rows, unsigned int element_bytes) {
    (void)ptr_out;
    (void)pitch_out;
    (void)width_bytes;
    (void)rows;
    (void)element_bytes;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemAllocHost(void **ptr_out, size_t bytes) {
    (void)ptr_out;
    (void)bytes;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemRangeGetAttribute(void *data_out, size_t data_bytes,
                                           CUmem_range_attribute attribute, CUdeviceptr ptr,
                                           size_t bytes) {
    (void)data_out;
    (void)data_bytes;
    (void)attribute;
    (void)ptr;
    (void)bytes;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
                                 CUcontext src_ctx, size_t bytes) {
    (void)dst;
    (void)dst_ctx;
    (void)src;
    (void)src_ctx;
    (void)bytes;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *copy) {
    (void)copy;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemsetD16(CUdeviceptr dst, unsigned short value, size_t count) {
    (void)dst;
    (void)value;
    (void)count;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count,
                                     CUstream stream) {
    (void)dst;
    (void)value;
    (void)count;
    (void)stream;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemsetD2D8(CUdeviceptr dst, size_t pitch_bytes, unsigned char value,
                                 size_t width, size_t rows) {
    (void)dst;
    (void)pitch_bytes;
    (void)value;
    (void)width;
    (void)rows;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemsetD2D16(CUdeviceptr dst, size_t pitch_bytes, unsigned short value,
                                  size_t width, size_t rows) {
    (void)dst;
    (void)pitch_bytes;
    (void)value;
    (void)width;
    (void)rows;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch_bytes, unsigned short value,
                                       size_t width, size_t rows, CUstream stream) {
    (void)dst;
    (void)pitch_bytes;
    (void)value;
    (void)width;
    (void)rows;
    (void)stream;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemsetD2D32(CUdeviceptr dst, size_t pitch_bytes, unsigned int value,
                                  size_t width, size_t rows) {
    (void)dst;
    (void)pitch_bytes;
    (void)value;
    (void)width;
    (void)rows;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch_bytes, unsigned int value,
                                       size_t width, size_t rows, CUstream stream) {
    (void)dst;
    (void)pitch_bytes;
    (void)value;
    (void)width;
    (void)rows;
    (void)stream;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuStreamGetPriority(CUstream stream, int *priority_out) {
    (void)stream;
    (void)priority_out;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuStreamGetDevice(CUstream stream, CUdevice *device_out) {
    (void)stream;
    (void)device_out;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *arg,
                                        unsigned int flags) {
    (void)stream;
    (void)callback;
    (void)arg;
    (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
    (void)event;
    (void)stream;
    (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED;
}
