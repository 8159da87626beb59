/* Virtual memory management calls: reserve, create, map, set access, share.
 *
 * As strict as the real driver: 2 MiB granularity, a chunk maps whole, a new mapping has no access,
 * unmapping takes whole mappings. The host can access device memory at its addresses only while
 * kernels run (soft_view.c). It can access host chunks where the program has given the host
 * access. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "soft/soft_address.h"
#include "soft/soft_api.h"
#include "soft/soft_clock.h"
#include "soft/soft_enter.h"
#include "soft/soft_physical.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_range.h"
#include "soft/soft_run.h"
#include "soft/soft_state.h"
#include "soft/soft_view.h"

static int is_chunks(uint64_t n) {
    return n % SOFT_CHUNK_BYTES == 0;
}

static int location_is_host(CUmemLocationType type) {
    return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* ---- properties and creation ---- */

static CUresult prop_check(const CUmemAllocationProp *prop) {
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        return acre__soft_device_at(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    if (!location_is_host(prop->location.type))
        return CUDA_ERROR_INVALID_VALUE;
    return prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && prop->location.id != 0
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

CUresult acre__soft_cuMemGetAllocationGranularity(size_t *bytes_out,
                                                  const CUmemAllocationProp *prop,
                                                  CUmemAllocationGranularity_flags option) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    /* The properties are not read: one answer fits all. */
    if (!bytes_out || !prop || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *bytes_out = SOFT_CHUNK_BYTES;
    return acre__soft_leave(CUDA_SUCCESS);
}

static struct soft_handle *handle_find(CUmemGenericAllocationHandle handle) {
    return acre__tree_entry(acre__tree_find(&acre__soft.handles, handle), struct soft_handle, node);
}

/* Adds a handle for the chunk and takes over one reference. An import gets its own handle, even if
 * this process already has one for the same chunk. */
static CUresult handle_add(struct soft_backing *backing, uint64_t key,
                           const CUmemAllocationProp *prop, CUmemGenericAllocationHandle *out) {
    struct soft_handle *handle = calloc(1, sizeof *handle);
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    handle->node.key = key;
    handle->backing = backing;
    handle->count = 1;
    handle->prop = *prop;
    acre__tree_insert(&acre__soft.handles, &handle->node);
    *out = key;
    return CUDA_SUCCESS;
}

CUresult acre__soft_cuMemCreate(CUmemGenericAllocationHandle *handle_out, size_t bytes,
                                const CUmemAllocationProp *prop, unsigned long long flags) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!handle_out || flags || !bytes || !is_chunks(bytes))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = prop_check(prop)))
        return acre__soft_leave(result);
    if (prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC)
        return acre__soft_leave(CUDA_ERROR_NOT_PERMITTED);
    if (prop->requestedHandleTypes & (CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_backing *backing;
    int is_host = location_is_host(prop->location.type);
    struct soft_device *device = &acre__soft.devices[is_host ? 0 : prop->location.id];
    if (!is_host && device->fd < 0 && (result = acre__soft_device_start(device)))
        return acre__soft_leave(result);
    result = is_host ? acre__soft_backing_create_host(device, bytes, &backing)
                     : acre__soft_chunk_create(device, bytes, &backing);
    if (result)
        return acre__soft_leave(result);
    backing->prop = *prop;
    if ((result = handle_add(backing, backing->id, prop, handle_out)))
        acre__soft_backing_drop(backing);
    return acre__soft_leave(result);
}

CUresult acre__soft_cuMemRelease(CUmemGenericAllocationHandle handle) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct soft_handle *entry = handle_find(handle);
    if (!entry)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (--entry->count == 0) {
        acre__tree_remove(&acre__soft.handles, &entry->node);
        acre__soft_backing_drop(entry->backing);
        free(entry);
    }
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop_out,
                                                           CUmemGenericAllocationHandle handle) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    const struct soft_handle *entry = handle_find(handle);
    if (!prop_out || !entry)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *prop_out = entry->prop;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle_out,
                                                void *address) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    const struct soft_mapping *mapping = acre__soft_mapping_find((uint64_t)(uintptr_t)address);
    if (!handle_out || !mapping)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_handle *entry = handle_find(mapping->handle);
    if (entry) {
        entry->count++;
        *handle_out = mapping->handle;
        return acre__soft_leave(CUDA_SUCCESS);
    }
    acre__soft_backing_keep(mapping->backing);
    result = handle_add(mapping->backing, mapping->handle, &mapping->backing->prop, handle_out);
    if (result)
        acre__soft_backing_drop(mapping->backing);
    return acre__soft_leave(result);
}

/* ---- addresses ---- */

CUresult acre__soft_cuMemAddressReserve(CUdeviceptr *ptr_out, size_t bytes, size_t alignment,
                                        CUdeviceptr hint, unsigned long long flags) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!ptr_out || flags || !bytes || !is_chunks(bytes) || alignment & (alignment - 1) ||
        !is_chunks(hint))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (alignment < SOFT_CHUNK_BYTES)
        alignment = SOFT_CHUNK_BYTES;
    uint64_t address = acre__soft_address_take(bytes, alignment, hint);
    if (!address)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    result = acre__soft_range_add(SOFT_RESERVED, address, bytes, -1, NULL, 0, NULL);
    if (result)
        acre__soft_address_give(address, bytes);
    else
        *ptr_out = address;
    return acre__soft_leave(result);
}

/* Returns 1 if all addresses [ptr, ptr + bytes) are reserved, by one reservation or by adjacent
 * ones. */
static int is_reserved(CUdeviceptr ptr, size_t bytes) {
    if (ptr + bytes < ptr)
        return 0;
    for (uint64_t at = ptr, end = ptr + bytes; at < end || at == ptr;) {
        const struct soft_range *range = acre__soft_range_find(at);
        if (!range || range->kind != SOFT_RESERVED)
            return 0;
        at = range->node.key + range->bytes;
    }
    return 1;
}

/* Returns 1 if a mapping overlaps [ptr, ptr + bytes). */
static int is_mapped_somewhere(CUdeviceptr ptr, size_t bytes) {
    const struct acre__node *next = acre__tree_ceil(&acre__soft.mappings, ptr);
    return acre__soft_mapping_find(ptr) || (next && next->key < ptr + bytes);
}

CUresult acre__soft_cuMemAddressFree(CUdeviceptr ptr, size_t bytes) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    struct soft_range *range = acre__soft_range_find(ptr);
    if (!range || range->kind != SOFT_RESERVED || range->node.key != ptr || range->bytes != bytes ||
        is_mapped_somewhere(ptr, bytes))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    acre__soft_range_remove(range);
    return acre__soft_leave(CUDA_SUCCESS);
}

/* ---- mapping ---- */

CUresult acre__soft_cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset,
                             CUmemGenericAllocationHandle handle, unsigned long long flags) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    const struct soft_handle *entry = handle_find(handle);
    if (flags || !ptr || !bytes || !is_chunks(ptr) || !entry)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (offset || bytes != entry->backing->bytes) /* a chunk can only be mapped as a whole */
        return acre__soft_leave(CUDA_ERROR_NOT_SUPPORTED);
    if (!is_reserved(ptr, bytes) || is_mapped_somewhere(ptr, bytes))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    mapping->node.key = ptr;
    mapping->id = acre__soft_next_id();
    mapping->bytes = bytes;
    mapping->backing = entry->backing;
    mapping->handle = handle;
    acre__soft_backing_keep(entry->backing);
    acre__tree_insert(&acre__soft.mappings, &mapping->node);
    return acre__soft_leave(CUDA_SUCCESS);
}

/* Returns 1 if whole mappings without gaps cover exactly [ptr, ptr + bytes). */
static int is_covered(CUdeviceptr ptr, size_t bytes) {
    uint64_t at = ptr, end = ptr + bytes;
    while (at < end) {
        const struct acre__node *node = acre__tree_find(&acre__soft.mappings, at);
        if (!node)
            return 0;
        at += acre__tree_entry(node, struct soft_mapping, node)->bytes;
    }
    return at == end;
}

/* Returns 1 if unmapping [ptr, ptr + bytes) would split a mapping. */
static int is_cut(CUdeviceptr ptr, size_t bytes) {
    const struct soft_mapping *first = acre__soft_mapping_find(ptr);
    const struct soft_mapping *last = acre__soft_mapping_find(ptr + bytes - 1);
    return (first && first->node.key != ptr) ||
           (last && last->node.key + last->bytes != ptr + bytes);
}

/* The range may have gaps or no mapping at all, but must not split a mapping. */
CUresult acre__soft_cuMemUnmap(CUdeviceptr ptr, size_t bytes) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!bytes || !is_chunks(ptr) || !is_chunks(bytes) || !is_reserved(ptr, bytes) ||
        is_cut(ptr, bytes))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct acre__node *node = acre__tree_ceil(&acre__soft.mappings, ptr);
    for (; node && node->key < ptr + bytes; node = acre__tree_next(&acre__soft.mappings, node)) {
        struct soft_mapping *mapping = acre__tree_entry(node, struct soft_mapping, node);
        if (!acre__soft_view_end(&mapping->view, node->key, mapping->bytes))
            return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
        mapping->host_access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
    acre__soft_report_pending(ptr, bytes, 0, "unmapped");
    while ((node = acre__tree_ceil(&acre__soft.mappings, ptr)) && node->key < ptr + bytes) {
        struct soft_mapping *mapping = acre__tree_entry(node, struct soft_mapping, node);
        acre__soft_clock_check_unmap(mapping, "unmapped");
        acre__soft_mapping_remove(mapping);
    }
    return acre__soft_leave(CUDA_SUCCESS);
}

static CUresult access_check(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc,
                             size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
        if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
            if (!acre__soft_device_at(desc[i].location.id))
                return CUDA_ERROR_INVALID_VALUE;
        } else if (!location_is_host(desc[i].location.type)) {
            return CUDA_ERROR_INVALID_VALUE;
        } else {
            for (uint64_t at = ptr; at < ptr + bytes;) {
                const struct soft_mapping *mapping = acre__soft_mapping_find(at);
                if (!mapping->backing->is_host) /* the host can never access device memory */
                    return CUDA_ERROR_NOT_SUPPORTED;
                at += mapping->bytes;
            }
        }
    }
    return CUDA_SUCCESS;
}

/* Computes the mapping's access after the call. The last entry for a location counts. */
static void access_after(const struct soft_mapping *mapping, const CUmemAccessDesc *desc,
                         size_t count, unsigned char *access, unsigned char *host_access) {
    memmove(access, mapping->access, sizeof mapping->access); /* `access` may be mapping->access */
    *host_access = mapping->host_access;
    for (size_t i = 0; i < count; i++)
        *(desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE ? &access[desc[i].location.id]
                                                               : host_access) =
            (unsigned char)desc[i].flags;
}

/* Updates the views of the range for the new access. On failure returns 0 and restores them. */
static int access_show(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc, size_t count) {
    unsigned char access[ACRE__SOFT_DEVICES_MAX], host_access;
    for (uint64_t at = ptr; at < ptr + bytes;) {
        struct soft_mapping *mapping = acre__soft_mapping_find(at);
        access_after(mapping, desc, count, access, &host_access);
        if (acre__soft_view_mapping(mapping, access, host_access)) {
            at += mapping->bytes;
            continue;
        }
        for (uint64_t back = ptr; back < at;) {
            mapping = acre__soft_mapping_find(back);
            (void)acre__soft_view_mapping(mapping, mapping->access, mapping->host_access);
            back += mapping->bytes;
        }
        return 0;
    }
    return 1;
}

CUresult acre__soft_cuMemSetAccess(CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *desc,
                                   size_t count) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!desc || !count || !bytes || !is_covered(ptr, bytes))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = access_check(ptr, bytes, desc, count)))
        return acre__soft_leave(result);
    if (!access_show(ptr, bytes, desc, count)) /* the step that can fail comes first */
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    for (uint64_t at = ptr; at < ptr + bytes;) {
        struct soft_mapping *mapping = acre__soft_mapping_find(at);
        at += mapping->bytes;
        access_after(mapping, desc, count, mapping->access, &mapping->host_access);
    }
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuMemGetAccess(unsigned long long *flags_out, const CUmemLocation *location,
                                   CUdeviceptr ptr) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    const struct soft_mapping *mapping = acre__soft_mapping_find(ptr);
    if (!flags_out || !location || !mapping)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
        if (!acre__soft_device_at(location->id))
            return acre__soft_leave(CUDA_ERROR_INVALID_DEVICE);
        *flags_out = mapping->access[location->id];
    } else if (location_is_host(location->type)) {
        *flags_out = mapping->host_access;
    } else {
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return acre__soft_leave(CUDA_SUCCESS);
}

/* ---- sharing ---- */

/* Moves the chunk to its own memfd, once, while no operation runs. */
static CUresult chunk_to_fd(struct soft_backing *backing) {
    if (backing->fd >= 0)
        return CUDA_SUCCESS;
    acre__soft.quiescing++;
    while (acre__soft.running)
        acre__cond_wait(&acre__soft.done, &acre__soft.lock);
    CUresult result = acre__soft_backing_to_fd(backing); /* no-op if another thread moved it */
    acre__soft.quiescing--;
    acre__soft_workers_wake();
    return result;
}

CUresult acre__soft_cuMemExportToShareableHandle(void *shareable_out,
                                                 CUmemGenericAllocationHandle handle,
                                                 CUmemAllocationHandleType type,
                                                 unsigned long long flags) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    const struct soft_handle *entry = handle_find(handle);
    if (!shareable_out || flags || !entry || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !(entry->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_backing *backing = entry->backing;
    acre__soft_backing_keep(backing); /* the handle may be released while the move waits */
    result = chunk_to_fd(backing);
    if (!result) {
        int fd = fcntl(backing->fd, F_DUPFD_CLOEXEC, 0);
        if (fd >= 0)
            memcpy(shareable_out, &fd, sizeof fd);
        else
            result = CUDA_ERROR_OPERATING_SYSTEM;
    }
    acre__soft_backing_drop(backing);
    return acre__soft_leave(result);
}

CUresult acre__soft_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle_out,
                                                   void *os_handle,
                                                   CUmemAllocationHandleType type) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!handle_out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_backing *backing;
    if ((result = acre__soft_backing_from_fd((int)(intptr_t)os_handle, &backing)))
        return acre__soft_leave(result);
    CUmemAllocationProp prop = backing->prop;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    if ((result = handle_add(backing, acre__soft_next_id(), &prop, handle_out)))
        acre__soft_backing_drop(backing);
    return acre__soft_leave(result);
}
