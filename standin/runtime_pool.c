/* Stream-ordered memory, and the driver's pools.
 *
 * The structs about pools are the driver's under other names. The asserts below check that their
 * layouts agree, so pointers to them are passed on. No state, no locks. */
#include "runtime_state.h"

#define POOL_ALIKE(type, member, driver_type, driver_member)                                       \
    _Static_assert(offsetof(struct type, member) == offsetof(driver_type, driver_member) &&        \
                       sizeof(struct type) == sizeof(driver_type),                                 \
                   #type " is not laid out as " #driver_type)
POOL_ALIKE(cudaMemPoolProps, allocType, CUmemPoolProps, allocType);
POOL_ALIKE(cudaMemPoolProps, handleTypes, CUmemPoolProps, handleTypes);
POOL_ALIKE(cudaMemPoolProps, location, CUmemPoolProps, location);
POOL_ALIKE(cudaMemPoolProps, win32SecurityAttributes, CUmemPoolProps, win32SecurityAttributes);
POOL_ALIKE(cudaMemPoolProps, maxSize, CUmemPoolProps, maxSize);
POOL_ALIKE(cudaMemPoolProps, usage, CUmemPoolProps, usage);
POOL_ALIKE(cudaMemPoolProps, reserved, CUmemPoolProps, reserved);
POOL_ALIKE(cudaMemAccessDesc, location, CUmemAccessDesc, location);
POOL_ALIKE(cudaMemAccessDesc, flags, CUmemAccessDesc, flags);
POOL_ALIKE(cudaMemLocation, type, CUmemLocation, type);
POOL_ALIKE(cudaMemLocation, id, CUmemLocation, id);
POOL_ALIKE(cudaMemPoolPtrExportData, reserved, CUmemPoolPtrExportData, reserved);

/* ---- stream-ordered memory ---- */

cudaError_t acre__runtime_cudaMallocAsync(void **ptr, size_t bytes, cudaStream_t stream) {
    CUdeviceptr address = 0;
    cudaError_t error = ptr ? acre__runtime_context() : cudaErrorInvalidValue;
    if (!error)
        error = acre__runtime_error(cuMemAllocAsync(&address, bytes, runtime_stream(stream)));
    if (!error)
        *ptr = runtime_pointer(address);
    return error;
}

cudaError_t acre__runtime_cudaMallocFromPoolAsync(void **ptr, size_t bytes, cudaMemPool_t pool,
                                                  cudaStream_t stream) {
    CUdeviceptr address = 0;
    cudaError_t error = ptr ? acre__runtime_context() : cudaErrorInvalidValue;
    if (!error)
        error = acre__runtime_error(
            cuMemAllocFromPoolAsync(&address, bytes, pool, runtime_stream(stream)));
    if (!error)
        *ptr = runtime_pointer(address);
    return error;
}

cudaError_t acre__runtime_cudaFreeAsync(void *ptr, cudaStream_t stream) {
    cudaError_t error = acre__runtime_context();
    return error
               ? error
               : acre__runtime_error(cuMemFreeAsync(runtime_address(ptr), runtime_stream(stream)));
}

/* ---- the pool of a device ---- */

cudaError_t acre__runtime_cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    cudaError_t error = pool ? acre__runtime_check_device(device) : cudaErrorInvalidValue;
    return error ? error : acre__runtime_error(cuDeviceGetDefaultMemPool(pool, device));
}

/* These two calls do not check the device: the driver returns an invalid value for an unknown
 * device, not an invalid device. */
cudaError_t acre__runtime_cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    cudaError_t error = pool ? acre__runtime_start() : cudaErrorInvalidValue;
    return error ? error : acre__runtime_error(cuDeviceGetMemPool(pool, device));
}

cudaError_t acre__runtime_cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    cudaError_t error = acre__runtime_start();
    return error ? error : acre__runtime_error(cuDeviceSetMemPool(device, pool));
}

/* ---- the pool of a location ---- */

cudaError_t acre__runtime_cudaMemGetDefaultMemPool(cudaMemPool_t *pool,
                                                   struct cudaMemLocation *location,
                                                   enum cudaMemAllocationType type) {
    cudaError_t error = pool ? acre__runtime_start() : cudaErrorInvalidValue;
    return error ? error
                 : acre__runtime_error(cuMemGetDefaultMemPool(
                       pool, (CUmemLocation *)(void *)location, (CUmemAllocationType)type));
}

cudaError_t acre__runtime_cudaMemGetMemPool(cudaMemPool_t *pool, struct cudaMemLocation *location,
                                            enum cudaMemAllocationType type) {
    cudaError_t error = pool ? acre__runtime_start() : cudaErrorInvalidValue;
    return error ? error
                 : acre__runtime_error(cuMemGetMemPool(pool, (CUmemLocation *)(void *)location,
                                                       (CUmemAllocationType)type));
}

cudaError_t acre__runtime_cudaMemSetMemPool(struct cudaMemLocation *location,
                                            enum cudaMemAllocationType type, cudaMemPool_t pool) {
    cudaError_t error = acre__runtime_start();
    return error ? error
                 : acre__runtime_error(cuMemSetMemPool((CUmemLocation *)(void *)location,
                                                       (CUmemAllocationType)type, pool));
}

/* ---- pools ---- */

cudaError_t acre__runtime_cudaMemPoolCreate(cudaMemPool_t *pool,
                                            const struct cudaMemPoolProps *props) {
    cudaError_t error = pool && props ? acre__runtime_start() : cudaErrorInvalidValue;
    return error ? error
                 : acre__runtime_error(
                       cuMemPoolCreate(pool, (const CUmemPoolProps *)(const void *)props));
}

cudaError_t acre__runtime_cudaMemPoolDestroy(cudaMemPool_t pool) {
    cudaError_t error = acre__runtime_start();
    return error ? error : acre__runtime_error(cuMemPoolDestroy(pool));
}

cudaError_t acre__runtime_cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep_bytes) {
    cudaError_t error = acre__runtime_start();
    return error ? error : acre__runtime_error(cuMemPoolTrimTo(pool, keep_bytes));
}

cudaError_t acre__runtime_cudaMemPoolSetAttribute(cudaMemPool_t pool,
                                                  enum cudaMemPoolAttr attribute, void *value) {
    cudaError_t error = acre__runtime_start();
    return error ? error
                 : acre__runtime_error(
                       cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t acre__runtime_cudaMemPoolGetAttribute(cudaMemPool_t pool,
                                                  enum cudaMemPoolAttr attribute, void *value) {
    cudaError_t error = acre__runtime_start();
    return error ? error
                 : acre__runtime_error(
                       cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

cudaError_t acre__runtime_cudaMemPoolSetAccess(cudaMemPool_t pool,
                                               const struct cudaMemAccessDesc *desc, size_t count) {
    cudaError_t error = acre__runtime_start();
    return error ? error
                 : acre__runtime_error(cuMemPoolSetAccess(
                       pool, (const CUmemAccessDesc *)(const void *)desc, count));
}

cudaError_t acre__runtime_cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool,
                                               struct cudaMemLocation *location) {
    CUmemAccess_flags found = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    cudaError_t error = flags && location ? acre__runtime_start() : cudaErrorInvalidValue;
    if (!error)
        error = acre__runtime_error(
            cuMemPoolGetAccess(&found, pool, (CUmemLocation *)(void *)location));
    if (!error)
        *flags = (enum cudaMemAccessFlags)found;
    return error;
}

/* ---- other processes ---- */

cudaError_t acre__runtime_cudaMemPoolExportToShareableHandle(void *shareable, cudaMemPool_t pool,
                                                             enum cudaMemAllocationHandleType type,
                                                             unsigned int flags) {
    cudaError_t error = acre__runtime_start();
    return error ? error
                 : acre__runtime_error(cuMemPoolExportToShareableHandle(
                       shareable, pool, (CUmemAllocationHandleType)type, flags));
}

cudaError_t
acre__runtime_cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *shareable,
                                                   enum cudaMemAllocationHandleType type,
                                                   unsigned int flags) {
    /* The importing process uses the memory, which needs a context. */
    cudaError_t error = pool ? acre__runtime_context() : cudaErrorInvalidValue;
    return error ? error
                 : acre__runtime_error(cuMemPoolImportFromShareableHandle(
                       pool, shareable, (CUmemAllocationHandleType)type, flags));
}

cudaError_t acre__runtime_cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *data,
                                                   void *ptr) {
    cudaError_t error = acre__runtime_context();
    return error ? error
                 : acre__runtime_error(cuMemPoolExportPointer(
                       (CUmemPoolPtrExportData *)(void *)data, runtime_address(ptr)));
}

cudaError_t acre__runtime_cudaMemPoolImportPointer(void **ptr, cudaMemPool_t pool,
                                                   struct cudaMemPoolPtrExportData *data) {
    CUdeviceptr address = 0;
    cudaError_t error = ptr ? acre__runtime_context() : cudaErrorInvalidValue;
    if (!error)
        error = acre__runtime_error(
            cuMemPoolImportPointer(&address, pool, (CUmemPoolPtrExportData *)(void *)data));
    if (!error)
        *ptr = runtime_pointer(address);
    return error;
}
