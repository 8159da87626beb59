/* Managed memory: pages that both sides reach at any time. Moving them is nothing here, but what
 * was asked for is remembered. */
#include <stdlib.h>

#include "driver/soft/soft_state.h"

CUresult acre__soft_cuMemAllocManaged(CUdeviceptr *ptr_out, size_t bytes, unsigned flags) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!ptr_out || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_capture_refuse()))
        return acre__soft_leave(result);
    uint64_t address;
    result = acre__soft_pages_make(device, SOFT_MANAGED, bytes, flags, &address);
    if (!result)
        *ptr_out = address;
    return acre__soft_leave(result);
}

/* A managed range that holds all of [ptr, ptr + bytes). */
static struct soft_range *managed_range(CUdeviceptr ptr, size_t bytes) {
    struct soft_range *range = acre__soft_range_find(ptr);
    if (!range || range->kind != SOFT_MANAGED || bytes > range->bytes - (ptr - range->node.key))
        return NULL;
    return range;
}

/* Is it a place that managed memory can be told to be at? */
static CUresult location_check(CUmemLocation location) {
    switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return acre__soft_device_at(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return location.id >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult acre__soft_cuMemPrefetchAsync(CUdeviceptr ptr, size_t bytes, CUmemLocation location,
                                       unsigned flags, CUstream stream) {
    struct soft_device *device;
    struct soft_stream *queue;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (flags || !bytes || !managed_range(ptr, bytes))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = location_check(location)) ||
        (result = acre__soft_stream_find(device, stream, &queue)))
        return acre__soft_leave(result);
    struct soft_op *op = acre__soft_op_make(SOFT_NOTHING); /* both sides share the pages already */
    if (!op)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    return acre__soft_leave(acre__soft_submit(device, queue, op));
}

CUresult acre__soft_cuStreamAttachMemAsync(CUstream handle, CUdeviceptr ptr, size_t bytes,
                                           unsigned flags) {
    struct soft_device *device;
    struct soft_stream *stream;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    const struct soft_range *range = managed_range(ptr, bytes);
    int is_known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
                   flags == CU_MEM_ATTACH_SINGLE;
    if (!is_known || !range || (bytes && bytes != range->bytes) ||
        (flags == CU_MEM_ATTACH_SINGLE && !handle)) /* by its other name the real driver takes it */
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_stream_find(device, handle, &stream)))
        return acre__soft_leave(result);
    struct soft_op *op = acre__soft_op_make(SOFT_NOTHING); /* both sides reach it at any time */
    if (!op)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    return acre__soft_leave(acre__soft_submit(device, stream, op));
}

CUresult acre__soft_cuMemAdvise(CUdeviceptr ptr, size_t bytes, CUmem_advise advice,
                                CUmemLocation location) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!bytes || !managed_range(ptr, bytes) || advice < CU_MEM_ADVISE_SET_READ_MOSTLY ||
        advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    int is_placed = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                    advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                    advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    return acre__soft_leave(is_placed && location_check(location) ? CUDA_ERROR_INVALID_VALUE
                                                                  : CUDA_SUCCESS);
}
