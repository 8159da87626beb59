/* The driver calls for plain device memory (soft_plain.c) and for pinned and registered host
 * memory.
 *
 * Host memory, like managed memory (soft_managed.c), is pages of this process. The host and the
 * devices access them at the same address. Freeing waits for all work of the context that the
 * memory belongs to, as the real calls do. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/round.h"
#include "soft/soft_address.h"
#include "soft/soft_api.h"
#include "soft/soft_capture.h"
#include "soft/soft_enter.h"
#include "soft/soft_memory.h"
#include "soft/soft_physical.h"
#include "soft/soft_plain.h"
#include "soft/soft_pool_async.h"
#include "soft/soft_range.h"
#include "soft/soft_run.h"
#include "soft/soft_state.h"
#include "soft/soft_thread.h"

/* ---- plain ---- */

/* Allocates plain memory for a call that has entered and checked its arguments. Leaves the call. */
static CUresult plain_make(size_t bytes, CUdeviceptr *out) {
    struct CUctx_st *ctx = acre__soft_ctx_now();
    CUresult result = acre__soft_capture_refuse();
    if (result)
        return acre__soft_leave(result);
    CUdeviceptr address = 0;
    result = acre__soft_plain_alloc(ctx, bytes, &address);
    if (!result)
        *out = address;
    return acre__soft_leave(result);
}

CUresult acre__soft_cuMemAlloc(CUdeviceptr *ptr_out, size_t bytes) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!ptr_out || !bytes)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    return plain_make(bytes, ptr_out);
}

CUresult acre__soft_cuMemAllocPitch(CUdeviceptr *ptr_out, size_t *pitch_out, size_t width_bytes,
                                    size_t rows, unsigned int element_bytes) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    int is_element = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
    if (!ptr_out || !pitch_out || !width_bytes || !rows || !is_element ||
        width_bytes > SIZE_MAX - SOFT_PLAIN_UNIT)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    size_t pitch = acre__round_up(width_bytes, SOFT_PLAIN_UNIT);
    if (rows > SIZE_MAX / pitch)
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    result = plain_make(pitch * rows, ptr_out);
    if (!result)
        *pitch_out = pitch;
    return result;
}

CUresult acre__soft_cuMemFree(CUdeviceptr ptr) {
    CUresult result = acre__soft_enter_bare(); /* needs no current context: the memory has one */
    if (result)
        return result;
    if (!ptr)
        return acre__soft_leave(CUDA_SUCCESS);
    struct soft_device *device; /* unused: only the context's error matters */
    if ((result = acre__soft_current(&device)) == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
        (result = acre__soft_capture_refuse()))
        return acre__soft_leave(result);
    struct soft_range *range = acre__soft_range_find(ptr);
    if (!range || range->node.key != ptr || range->is_going ||
        (range->kind != SOFT_PLAIN && range->kind != SOFT_MANAGED && range->kind != SOFT_POOLED))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (range->kind == SOFT_POOLED) /* does not wait for work: the caller has to */
        return acre__soft_leave(acre__soft_pool_free_now(range));
    uint64_t id = range->id;
    if ((result = acre__soft_wait_ctx(range->ctx)))
        return acre__soft_leave(result);
    range = acre__soft_range_find(ptr); /* another thread may have freed it while this one waited */
    if (!range || range->id != id || range->is_going)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (range->kind == SOFT_MANAGED)
        acre__soft_range_remove(range);
    else
        acre__soft_plain_free(range);
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuMemGetInfo(size_t *free_out, size_t *total_out) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (free_out)
        *free_out = acre__soft.config.bytes - device->used_bytes;
    if (total_out)
        *total_out = acre__soft.config.bytes;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuMemGetAddressRange(CUdeviceptr *base_out, size_t *bytes_out,
                                         CUdeviceptr ptr) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    const struct soft_range *range = acre__soft_range_find(ptr);
    if (!range)
        return acre__soft_leave(CUDA_ERROR_NOT_FOUND);
    uint64_t base = range->node.key;
    size_t bytes = range->bytes;
    if (range->kind == SOFT_RESERVED) {
        const struct soft_mapping *mapping = acre__soft_mapping_find(ptr);
        if (!mapping || !acre__soft_mapping_is_open(mapping))
            return acre__soft_leave(CUDA_ERROR_NOT_FOUND);
        base = mapping->node.key;
        bytes = mapping->bytes;
    }
    if (base_out)
        *base_out = base;
    if (bytes_out)
        *bytes_out = bytes;
    return acre__soft_leave(CUDA_SUCCESS);
}

/* ---- pinned ---- */

CUresult acre__soft_pages_make(struct CUctx_st *ctx, enum soft_range_kind kind, size_t bytes,
                               unsigned flags, uint64_t *out) {
    if (bytes > (size_t)1 << 46)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t whole = acre__round_up(bytes, 4096);
    void *pages =
        mmap(NULL, whole, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | (kind == SOFT_MANAGED ? MAP_NORESERVE : 0), -1, 0);
    if (pages == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct soft_backing *backing;
    CUresult result = acre__soft_backing_wrap(ctx->device, pages, whole, &backing);
    if (result) {
        munmap(pages, whole);
        return result;
    }
    /* From here on the last reference unmaps the pages. Freeing does not wait for operations of
     * other devices, which may still use them. */
    backing->alias_bytes = whole;
    struct soft_range *range;
    result = acre__soft_range_add(kind, (uint64_t)(uintptr_t)pages, bytes, ctx->device, backing, 0,
                                  &range);
    if (result) {
        acre__soft_backing_drop(backing);
        return result;
    }
    range->ctx = ctx;
    range->flags = flags;
    *out = range->node.key;
    return CUDA_SUCCESS;
}

CUresult acre__soft_cuMemHostAlloc(void **ptr_out, size_t bytes, unsigned flags) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    const unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (!ptr_out || flags & ~known)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_capture_refuse()))
        return acre__soft_leave(result);
    if (!bytes) { /* the real driver accepts 0 bytes */
        *ptr_out = NULL;
        return acre__soft_leave(CUDA_SUCCESS);
    }
    uint64_t address;
    /* Always mapped into the device, because addresses are unified. */
    result = acre__soft_pages_make(acre__soft_ctx_now(), SOFT_HOST, bytes,
                                   flags | CU_MEMHOSTALLOC_DEVICEMAP, &address);
    if (!result)
        *ptr_out = (void *)(uintptr_t)address;
    return acre__soft_leave(result);
}

CUresult acre__soft_cuMemAllocHost(void **ptr_out, size_t bytes) {
    return acre__soft_cuMemHostAlloc(ptr_out, bytes, 0);
}

/* Frees or unregisters host memory of that kind after all work of its context is done. The memory
 * has a context, so none needs to be current; but one that is destroyed or lost is an error. */
static CUresult host_end(void *p, enum soft_range_kind kind, CUresult unknown) {
    struct soft_device *device;
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    result = acre__soft_current(&device);
    if ((result && result != CUDA_ERROR_INVALID_CONTEXT) || (result = acre__soft_capture_refuse()))
        return acre__soft_leave(result);
    uint64_t address = (uint64_t)(uintptr_t)p;
    struct soft_range *range = acre__soft_range_find(address);
    if (!p && kind == SOFT_HOST)
        return acre__soft_leave(CUDA_SUCCESS);
    if (!range && p)
        return acre__soft_leave(unknown);
    if (!range || range->node.key != address || range->kind != kind)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    uint64_t id = range->id;
    if ((result = acre__soft_wait_ctx(range->ctx)))
        return acre__soft_leave(result);
    range = acre__soft_range_find(address);
    if (!range || range->id != id)
        return acre__soft_leave(unknown);
    struct soft_backing *backing = range->backing;
    acre__soft_backing_keep(backing);
    acre__soft_range_remove(range);
    /* The caller owns registered pages again, so no operation of another device may use them. */
    while (backing->refs > 1)
        acre__cond_wait(&acre__soft.done, &acre__soft.lock);
    acre__soft_backing_drop(backing);
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuMemFreeHost(void *p) {
    return host_end(p, SOFT_HOST, CUDA_ERROR_INVALID_VALUE);
}

CUresult acre__soft_cuMemHostUnregister(void *p) {
    return host_end(p, SOFT_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

/* Returns 1 if pages back the whole range. msync with MS_ASYNC tests this and has no other
 * effect. */
static int is_backed(uint64_t address, size_t bytes) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t begin = address - address % page;
    return msync((void *)(uintptr_t)begin, address - begin + bytes, MS_ASYNC) == 0;
}

CUresult acre__soft_cuMemHostRegister(void *p, size_t bytes, unsigned flags) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                           CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    uint64_t address = (uint64_t)(uintptr_t)p;
    if (!p || !bytes || flags & ~known || address + bytes < address)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if ((result = acre__soft_capture_refuse()))
        return acre__soft_leave(result);
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
        return acre__soft_leave(CUDA_ERROR_NOT_SUPPORTED);
    const struct soft_range *next =
        acre__tree_entry(acre__tree_ceil(&acre__soft.ranges, address), struct soft_range, node);
    const struct soft_range *here = acre__soft_range_find(address);
    if (here && here->kind != SOFT_REGISTERED) /* memory that the driver allocated */
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    if (here || (next && next->node.key < address + bytes))
        return acre__soft_leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    if (acre__soft_address_is_device(address) || !is_backed(address, bytes))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    struct soft_backing *backing;
    if ((result = acre__soft_backing_wrap(soft_ordinal(device), p, bytes, &backing)))
        return acre__soft_leave(result);
    struct soft_range *range;
    result = acre__soft_range_add(SOFT_REGISTERED, address, bytes, soft_ordinal(device), backing, 0,
                                  &range);
    if (result) {
        acre__soft_backing_drop(backing);
        return acre__soft_leave(result);
    }
    range->ctx = acre__soft_ctx_now();
    range->flags = flags | CU_MEMHOSTREGISTER_DEVICEMAP;
    return acre__soft_leave(CUDA_SUCCESS);
}

/* Returns the pinned or registered range that contains the address, or NULL. */
static struct soft_range *host_range(const void *p) {
    struct soft_range *range = acre__soft_range_find((uint64_t)(uintptr_t)p);
    return range && (range->kind == SOFT_HOST || range->kind == SOFT_REGISTERED) ? range : NULL;
}

CUresult acre__soft_cuMemHostGetDevicePointer(CUdeviceptr *ptr_out, void *p, unsigned flags) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    if (!ptr_out || flags || !p || !host_range(p))
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *ptr_out = (CUdeviceptr)(uintptr_t)p;
    return acre__soft_leave(CUDA_SUCCESS);
}

CUresult acre__soft_cuMemHostGetFlags(unsigned *flags_out, void *p) {
    struct soft_device *device;
    CUresult result = acre__soft_enter(&device);
    if (result)
        return result;
    const struct soft_range *range = p ? host_range(p) : NULL;
    if (!flags_out || !range)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *flags_out = range->flags;
    return acre__soft_leave(CUDA_SUCCESS);
}
