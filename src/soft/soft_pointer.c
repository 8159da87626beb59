/* Pointer attributes, and legacy IPC handles. A handle exists for the memory for which
 * CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE is 1, as on a GPU. No call opens one: the soft
 * driver shares memory by file descriptors alone. */
#include <string.h>

#include "base/round.h"
#include "soft/soft_api.h"
#include "soft/soft_enter.h"
#include "soft/soft_pool_types.h"
#include "soft/soft_range.h"
#include "soft/soft_state.h"

/* The target of a pointer: a range and, in a reservation, the mapping at the address. */
struct pointee {
    uint64_t address;
    const struct soft_range *range;
    const struct soft_mapping *mapping;
    const struct soft_segment *segment; /* of a pool's memory */
    const struct soft_backing *backing;
};

static int pointee_find(CUdeviceptr ptr, struct pointee *out) {
    memset(out, 0, sizeof *out);
    out->address = ptr;
    out->range = acre__soft_range_find(ptr);
    if (!out->range)
        return 0;
    if (out->range->kind != SOFT_RESERVED) {
        out->segment = acre__soft_segment_find(ptr);
        out->backing = out->range->backing;
        return 1;
    }
    out->mapping = acre__soft_mapping_find(ptr);
    out->backing = out->mapping ? out->mapping->backing : NULL;
    return out->mapping != NULL;
}

static int is_host_reachable(const struct pointee *p) {
    return p->range->kind == SOFT_HOST || p->range->kind == SOFT_REGISTERED ||
           p->range->kind == SOFT_MANAGED || (p->mapping && p->mapping->backing->is_host);
}

/* The one rule for legacy IPC: plain memory has handles. */
static int range_has_handles(const struct soft_range *range) {
    return range->kind == SOFT_PLAIN;
}

static void put(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
}

static void put_int(void *to, int value) {
    put(to, &value, sizeof value);
}

/* The documentation calls these attributes booleans, but the real driver writes 4 bytes. */
static void put_flag(void *to, int value) {
    put_int(to, value != 0);
}

static void put_word(void *to, unsigned long long value) {
    put(to, &value, sizeof value);
}

static CUresult attribute_where(void *out, CUpointer_attribute attribute, const struct pointee *p) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
        CUcontext ctx = p->mapping ? NULL : p->range->ctx;
        put_word(out, (uintptr_t)ctx);
        return CUDA_SUCCESS;
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: {
        int is_host = p->range->kind == SOFT_HOST || p->range->kind == SOFT_REGISTERED ||
                      (p->mapping && p->backing->is_host);
        put_int(out, is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        return CUDA_SUCCESS;
    }
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        if (p->mapping && !acre__soft_mapping_is_open(p->mapping))
            return CUDA_ERROR_INVALID_VALUE;
        put_word(out, p->address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!is_host_reachable(p))
            return CUDA_ERROR_INVALID_VALUE;
        put_word(out, p->address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put_int(out, p->mapping ? p->backing->device : p->range->device);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        put_word(out, p->range->node.key);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        put_word(out, p->range->bytes);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        put_word(out, p->segment   ? p->segment->node.key
                      : p->mapping ? p->mapping->node.key
                                   : p->range->node.key);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE: {
        size_t bytes = p->segment   ? p->segment->bytes
                       : p->mapping ? p->mapping->bytes
                                    : p->range->bytes;
        int is_ours = p->range->kind != SOFT_REGISTERED; /* the driver allocates whole chunks */
        put_word(out, is_ours ? acre__round_up(bytes, SOFT_CHUNK_BYTES) : bytes);
        return CUDA_SUCCESS;
    }
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult attribute_what(void *out, CUpointer_attribute attribute, const struct pointee *p) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        put_word(out, p->mapping ? p->backing->id : p->range->id);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        put_flag(out, p->range->sync_memops);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        put_flag(out, p->range->kind == SOFT_MANAGED);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        put_flag(out, range_has_handles(p->range));
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put_flag(out, 1);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        put_word(out, p->range->pool ? (unsigned)p->range->pool->props.handleTypes
                      : p->mapping   ? (unsigned)p->backing->prop.requestedHandleTypes
                                     : 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        put_flag(out, p->mapping ? p->backing->prop.allocFlags.gpuDirectRDMACapable
                                 : p->range->kind == SOFT_PLAIN);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS: {
        int device = p->mapping ? p->backing->device : p->range->device;
        put_int(out, p->mapping       ? p->mapping->access[device]
                     : p->range->pool ? p->range->pool->access[device]
                                      : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        return CUDA_SUCCESS;
    }
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        put_word(out, (uintptr_t)p->range->pool);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        put_flag(out, 0);
        return CUDA_SUCCESS;
    default:
        return attribute_where(out, attribute, p);
    }
}

CUresult acre__soft_cuPointerGetAttribute(void *data_out, CUpointer_attribute attribute,
                                          CUdeviceptr ptr) {
    CUresult result = acre__soft_enter_bare(); /* needs no context */
    if (result)
        return result;
    struct pointee p;
    if (!data_out || !pointee_find(ptr, &p))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    return acre__soft_leave(attribute_what(data_out, attribute, &p));
}

/* Returns how many bytes cuPointerGetAttributes clears for an unknown address. */
static size_t attribute_bytes(CUpointer_attribute attribute) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return sizeof(int);
    default:
        return sizeof(unsigned long long);
    }
}

CUresult acre__soft_cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes,
                                           void **data_out, CUdeviceptr ptr) {
    CUresult result = acre__soft_enter_bare(); /* needs no context */
    if (result)
        return result;
    if (!count || !attributes || !data_out)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct pointee p;
    int is_known = pointee_find(ptr, &p);
    for (unsigned i = 0; i < count; i++) {
        if (!data_out[i])
            return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
        if (is_known && attribute_what(data_out[i], attributes[i], &p) == CUDA_SUCCESS)
            continue;
        if ((int)attributes[i] <= 0 ||
            attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
            return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
        if (attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE)
            continue; /* the real driver does not write this attribute */
        memset(data_out[i], 0, attribute_bytes(attributes[i]));
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            put_int(data_out[i], -2); /* the real driver's value for "no device" */
    }
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                          CUdeviceptr ptr) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    struct soft_range *range = acre__soft_range_find(ptr);
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !range)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (range->kind == SOFT_RESERVED)
        return acre__soft_leave(CUDA_ERROR_NOT_SUPPORTED);
    int flag;
    memcpy(&flag, value, sizeof flag);
    range->sync_memops = flag != 0;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuIpcGetMemHandle(CUipcMemHandle *handle_out, CUdeviceptr ptr) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    const struct soft_range *range = acre__soft_range_find(ptr);
    if (!handle_out || !range || !range_has_handles(range))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    memset(handle_out, 0, sizeof *handle_out);
    memcpy(handle_out->reserved, &range->id, sizeof range->id);
    return acre__soft_leave(CUDA_SUCCESS);
}
