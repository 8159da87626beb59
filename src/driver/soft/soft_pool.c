/* */
#include "driver/soft/soft_state.h"

CUresult acre__soft_cuMemAllocAsync(CUdeviceptr *ptr_out, size_t bytes, CUstream stream) {
    (void)ptr_out;
    (void)bytes;
    (void)stream;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemFreeAsync(CUdeviceptr ptr, CUstream stream) {
    (void)ptr;
    (void)stream;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemAllocFromPoolAsync(CUdeviceptr *ptr_out, size_t bytes, CUmemoryPool pool,
                                            CUstream stream) {
    (void)ptr_out;
    (void)bytes;
    (void)pool;
    (void)stream;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    (void)pool_out;
    (void)dev;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuDeviceGetMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    (void)pool_out;
    (void)dev;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
    (void)dev;
    (void)pool;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemPoolCreate(CUmemoryPool *pool_out, const CUmemPoolProps *props) {
    (void)pool_out;
    (void)props;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemPoolDestroy(CUmemoryPool pool) {
    (void)pool;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes) {
    (void)pool;
    (void)keep_bytes;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                          void *value) {
    (void)pool;
    (void)attribute;
    (void)value;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                          void *value_out) {
    (void)pool;
    (void)attribute;
    (void)value_out;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *desc,
                                       size_t count) {
    (void)pool;
    (void)desc;
    (void)count;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemPoolGetAccess(CUmemAccess_flags *flags_out, CUmemoryPool pool,
                                       CUmemLocation *location) {
    (void)flags_out;
    (void)pool;
    (void)location;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemPoolExportToShareableHandle(void *shareable_out, CUmemoryPool pool,
                                                     CUmemAllocationHandleType type,
                                                     unsigned long long flags) {
    (void)shareable_out;
    (void)pool;
    (void)type;
    (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *shareable,
                                                       CUmemAllocationHandleType type,
                                                       unsigned long long flags) {
    (void)pool_out;
    (void)shareable;
    (void)type;
    (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemPoolExportPointer(CUmemPoolPtrExportData *data_out, CUdeviceptr ptr) {
    (void)data_out;
    (void)ptr;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult acre__soft_cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
                                           CUmemPoolPtrExportData *data) {
    (void)ptr_out;
    (void)pool;
    (void)data;
    return CUDA_ERROR_NOT_SUPPORTED;
}
