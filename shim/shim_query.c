/* What a program can ask about a block that the shim serves; see shim_serve.h.
 *
 * The driver answers first. Where its answer describes acre's memory instead of the program's
 * block, it is replaced. For an address of acre's that no live block contains, the driver is asked
 * about an address that it does not know. While the memory is away, questions about blocks wait.
 *
 * Locks: none. */
#include <string.h>

#include "shim_pause.h"
#include "shim_serve.h"

static const size_t QUERY_PAGE = (size_t)2 << 20;
static const char query_foreign; /* memory that the driver does not know */

/* Finds the block at the address. If acre has the address but no block contains it, the address
 * becomes one that the driver does not know. */
static int query_block(CUdeviceptr *address, struct serve_block *block) {
    if (acre__blocks_find(*address, block))
        return 1;
    if (acre__blocks_owns(*address))
        *address = (CUdeviceptr)(uintptr_t)&query_foreign;
    return 0;
}

static void query_set(void *data, const void *value, size_t bytes) {
    memcpy(data, value, bytes);
}

/* Replaces the driver's answer for one attribute of a block. */
static void query_correct(void *data, CUpointer_attribute attribute,
                          const struct serve_block *block) {
    CUcontext ctx = atomic_load(&block->device->ctx);
    CUdeviceptr start = block->node.key;
    size_t mapped = (block->bytes + QUERY_PAGE - 1) / QUERY_PAGE * QUERY_PAGE;
    unsigned int is_capable = 1;
    unsigned long long no_types = 0;
    unsigned int is_sync = block->is_sync != 0;
    switch ((int)attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        query_set(data, &ctx, sizeof(void *));
        return;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        query_set(data, &is_sync, sizeof is_sync);
        return;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        query_set(data, &block->id, sizeof block->id);
        return;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        query_set(data, &is_capable, sizeof is_capable);
        return;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        query_set(data, &start, sizeof start);
        return;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        query_set(data, &block->bytes, sizeof block->bytes);
        return;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        query_set(data, &mapped, sizeof mapped);
        return;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        query_set(data, &no_types, sizeof no_types);
        return;
    default:
        return;
    }
}

static CUresult query_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr) {
    struct serve_block block;
    int is_served = query_block(&ptr, &block);
    struct shim_user *user = is_served ? acre__user_begin("cuPointerGetAttribute") : NULL;
    CUresult result = acre__serve.inner->cuPointerGetAttribute(data, attribute, ptr);
    if (!result && is_served && data)
        query_correct(data, attribute, &block);
    return acre__user_end(user, result);
}

static CUresult query_attributes(unsigned int count, CUpointer_attribute *attributes, void **data,
                                 CUdeviceptr ptr) {
    struct serve_block block;
    int is_served = query_block(&ptr, &block);
    struct shim_user *user = is_served ? acre__user_begin("cuPointerGetAttributes") : NULL;
    CUresult result = acre__serve.inner->cuPointerGetAttributes(count, attributes, data, ptr);
    for (unsigned int i = 0; !result && is_served && i < count; i++) {
        if (data[i])
            query_correct(data[i], attributes[i], &block);
    }
    return acre__user_end(user, result);
}

/* The driver keeps no attribute for mapped memory; shim_memops.c does what it asks for. */
static CUresult query_set_attribute(const void *value, CUpointer_attribute attribute,
                                    CUdeviceptr ptr) {
    struct serve_block block;
    unsigned int is_sync;
    if (!query_block(&ptr, &block))
        return acre__serve.inner->cuPointerSetAttribute(value, attribute, ptr);
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&is_sync, value, sizeof is_sync);
    acre__blocks_set_sync(ptr, is_sync != 0);
    return CUDA_SUCCESS;
}

static CUresult query_range(CUdeviceptr *base_out, size_t *bytes_out, CUdeviceptr ptr) {
    struct serve_block block;
    int is_served = query_block(&ptr, &block);
    struct shim_user *user = is_served ? acre__user_begin("cuMemGetAddressRange") : NULL;
    CUresult result = acre__serve.inner->cuMemGetAddressRange(base_out, bytes_out, ptr);
    if (!result && is_served) {
        if (base_out)
            *base_out = block.node.key;
        if (bytes_out)
            *bytes_out = block.bytes;
    }
    return acre__user_end(user, result);
}

uint64_t acre__query_held(const struct serve_device *device) {
    acre_pool_stats pool = {.struct_size = sizeof pool};
    acre_device_stats stats = {.struct_size = sizeof stats};
    if (acre_pool_get_stats(device->pool, &pool) || acre_device_get_stats(device->device, &stats))
        return 0;
    return pool.held_bytes + stats.chunk_cached_bytes;
}

/* Blocks that wait to be freed are free to the program. */
uint64_t acre__query_idle(void) {
    struct serve_device *device = acre__serve_current();
    acre_pool_stats pool = {.struct_size = sizeof pool};
    if (!device || acre_pool_get_stats(device->pool, &pool))
        return 0;
    uint64_t held = acre__query_held(device) + acre__captures_bytes();
    return held > pool.live_bytes ? held - pool.live_bytes : 0;
}

/* Free memory includes what acre holds for the next request. */
static CUresult query_info(size_t *free_out, size_t *total_out) {
    CUresult result = acre__serve.inner->cuMemGetInfo(free_out, total_out);
    if (result || !free_out)
        return result;
    acre__serve_enter();
    *free_out += acre__query_idle();
    acre__serve_leave();
    if (total_out && *free_out > *total_out)
        *free_out = *total_out;
    return result;
}

/* A handle of a block's memory would be one of acre's chunk. */
static CUresult query_retain(CUmemGenericAllocationHandle *handle_out, void *address) {
    if (acre__blocks_owns((CUdeviceptr)(uintptr_t)address))
        address = (void *)(uintptr_t)&query_foreign;
    return acre__serve.inner->cuMemRetainAllocationHandle(handle_out, address);
}

void acre__query_wrap(struct acre__driver *table) {
    table->cuPointerGetAttribute = query_attribute;
    table->cuPointerGetAttributes = query_attributes;
    table->cuPointerSetAttribute = query_set_attribute;
    table->cuMemGetAddressRange = query_range;
    table->cuMemGetInfo = query_info;
    table->cuMemRetainAllocationHandle = query_retain;
}
