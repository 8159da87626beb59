/* Memory of every kind except pools: device, pinned, registered and managed, and pointer
 * attributes.
 *
 * Outputs are written only on success. No state, no locks. */
#include "runtime_state.h"

static CUmemLocation memory_location(struct cudaMemLocation location) {
    return (CUmemLocation){.type = (CUmemLocationType)location.type, .id = location.id};
}

/* ---- device memory ---- */

cudaError_t acre__runtime_cudaMalloc(void **ptr, size_t bytes) {
    CUdeviceptr address = 0;
    if (!ptr)
        return cudaErrorInvalidValue;
    cudaError_t error = acre__runtime_context();
    /* 0 bytes give NULL; the driver would refuse them. */
    if (!error && bytes > 0)
        error = acre__runtime_error(cuMemAlloc_v2(&address, bytes));
    if (!error)
        *ptr = runtime_pointer(address);
    return error;
}

cudaError_t acre__runtime_cudaMallocPitch(void **ptr, size_t *pitch, size_t width, size_t height) {
    /* The driver chooses the pitch by the widest element that a kernel reads at once. The runtime
     * does not know the element size and assumes 4 bytes. */
    enum { ELEMENT_BYTES = 4 };
    CUdeviceptr address = 0;
    size_t row_bytes = 0;
    if (!ptr || !pitch)
        return cudaErrorInvalidValue;
    cudaError_t error = acre__runtime_context();
    if (!error && width > 0 && height > 0)
        error = acre__runtime_error(
            cuMemAllocPitch_v2(&address, &row_bytes, width, height, ELEMENT_BYTES));
    if (error)
        return error;
    *ptr = runtime_pointer(address);
    *pitch = row_bytes;
    return cudaSuccess;
}

cudaError_t acre__runtime_cudaFree(void *ptr) {
    /* Also for NULL: programs call cudaFree(0) to create the context. */
    cudaError_t error = acre__runtime_context();
    return error || !ptr ? error : acre__runtime_error(cuMemFree_v2(runtime_address(ptr)));
}

cudaError_t acre__runtime_cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuMemGetInfo_v2(free_bytes, total_bytes));
}

/* ---- host memory ---- */

cudaError_t acre__runtime_cudaHostAlloc(void **ptr, size_t bytes, unsigned int flags) {
    void *p = NULL;
    if (!ptr)
        return cudaErrorInvalidValue;
    cudaError_t error = acre__runtime_context();
    if (!error)
        error = acre__runtime_error(cuMemHostAlloc(&p, bytes, flags));
    if (!error)
        *ptr = p;
    return error;
}

cudaError_t acre__runtime_cudaMallocHost(void **ptr, size_t bytes) {
    return acre__runtime_cudaHostAlloc(ptr, bytes, cudaHostAllocDefault);
}

cudaError_t acre__runtime_cudaFreeHost(void *ptr) {
    cudaError_t error = acre__runtime_context();
    return error || !ptr ? error : acre__runtime_error(cuMemFreeHost(ptr));
}

cudaError_t acre__runtime_cudaHostGetDevicePointer(void **device_ptr, void *host_ptr,
                                                   unsigned int flags) {
    CUdeviceptr address = 0;
    if (!device_ptr)
        return cudaErrorInvalidValue;
    cudaError_t error = acre__runtime_context();
    if (!error)
        error = acre__runtime_error(cuMemHostGetDevicePointer_v2(&address, host_ptr, flags));
    if (!error)
        *device_ptr = runtime_pointer(address);
    return error;
}

cudaError_t acre__runtime_cudaHostGetFlags(unsigned int *flags, void *host_ptr) {
    cudaError_t error = flags ? acre__runtime_context() : cudaErrorInvalidValue;
    return error ? error : acre__runtime_error(cuMemHostGetFlags(flags, host_ptr));
}

cudaError_t acre__runtime_cudaHostRegister(void *ptr, size_t bytes, unsigned int flags) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuMemHostRegister_v2(ptr, bytes, flags));
}

cudaError_t acre__runtime_cudaHostUnregister(void *ptr) {
    cudaError_t error = acre__runtime_context();
    return error ? error : acre__runtime_error(cuMemHostUnregister(ptr));
}

/* ---- managed memory ---- */

cudaError_t acre__runtime_cudaMallocManaged(void **ptr, size_t bytes, unsigned int flags) {
    CUdeviceptr address = 0;
    if (!ptr)
        return cudaErrorInvalidValue;
    cudaError_t error = acre__runtime_context();
    /* 0 bytes give NULL, as in cudaMalloc. */
    if (!error && bytes > 0)
        error = acre__runtime_error(cuMemAllocManaged(&address, bytes, flags));
    if (!error)
        *ptr = runtime_pointer(address);
    return error;
}

cudaError_t acre__runtime_cudaMemPrefetchAsync(const void *ptr, size_t bytes,
                                               struct cudaMemLocation location, unsigned int flags,
                                               cudaStream_t stream) {
    cudaError_t error = acre__runtime_context();
    return error ? error
                 : acre__runtime_error(cuMemPrefetchAsync_v2(runtime_address(ptr), bytes,
                                                             memory_location(location), flags,
                                                             runtime_stream(stream)));
}

cudaError_t acre__runtime_cudaMemAdvise(const void *ptr, size_t bytes, enum cudaMemoryAdvise advice,
                                        struct cudaMemLocation location) {
    cudaError_t error = acre__runtime_context();
    return error
               ? error
               : acre__runtime_error(cuMemAdvise_v2(
                     runtime_address(ptr), bytes, (CUmem_advise)advice, memory_location(location)));
}

cudaError_t acre__runtime_cudaMemRangeGetAttribute(void *data, size_t data_bytes,
                                                   enum cudaMemRangeAttribute attribute,
                                                   const void *ptr, size_t bytes) {
    cudaError_t error = acre__runtime_context();
    return error ? error
                 : acre__runtime_error(cuMemRangeGetAttribute(data, data_bytes,
                                                              (CUmem_range_attribute)attribute,
                                                              runtime_address(ptr), bytes));
}

cudaError_t acre__runtime_cudaMemRangeGetAttributes(void **data, size_t *data_bytes,
                                                    enum cudaMemRangeAttribute *attributes,
                                                    size_t count, const void *ptr, size_t bytes) {
    cudaError_t error = acre__runtime_context();
    return error ? error
                 : acre__runtime_error(cuMemRangeGetAttributes(
                       data, data_bytes, (CUmem_range_attribute *)(void *)attributes, count,
                       runtime_address(ptr), bytes));
}

cudaError_t acre__runtime_cudaStreamAttachMemAsync(cudaStream_t stream, void *ptr, size_t bytes,
                                                   unsigned int flags) {
    cudaError_t error = acre__runtime_context();
    return error ? error
                 : acre__runtime_error(cuStreamAttachMemAsync(runtime_stream(stream),
                                                              runtime_address(ptr), bytes, flags));
}

/* ---- pointer attributes ---- */

/* Memory that the driver does not know is not an error: it is reported as unregistered host
 * memory. */
cudaError_t acre__runtime_cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                                   const void *ptr) {
    CUmemorytype type = (CUmemorytype)0;
    CUdeviceptr device_address = 0;
    void *host = NULL;
    unsigned managed = 0;
    int device = cudaInvalidDeviceId;
    CUpointer_attribute asked[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *answers[] = {&type, &device_address, &host, &managed, &device};
    if (!attributes)
        return cudaErrorInvalidValue;
    cudaError_t error = acre__runtime_context();
    if (!error)
        error = acre__runtime_error(cuPointerGetAttributes(sizeof asked / sizeof asked[0], asked,
                                                           answers, runtime_address(ptr)));
    if (error)
        return error;
    *attributes = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered,
                                                 .device = cudaInvalidDeviceId,
                                                 .hostPointer = (void *)(uintptr_t)ptr};
    if ((int)type == 0)
        return cudaSuccess;
    attributes->type = managed                      ? cudaMemoryTypeManaged
                       : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                    : cudaMemoryTypeDevice;
    attributes->device = device;
    attributes->devicePointer = runtime_pointer(device_address);
    attributes->hostPointer = host;
    return cudaSuccess;
}

/* ---- other processes ---- */

_Static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(CUipcMemHandle), "the driver's handle");

cudaError_t acre__runtime_cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *ptr) {
    cudaError_t error = handle ? acre__runtime_context() : cudaErrorInvalidValue;
    return error ? error
                 : acre__runtime_error(
                       cuIpcGetMemHandle((CUipcMemHandle *)(void *)handle, runtime_address(ptr)));
}
