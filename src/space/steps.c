/* The driver's steps for virtual memory management: one driver call each, with the device's context
 * current and captures of the program left alone.
 *
 * Relies on: the device for the context, driver_status for codes, limbo for the one block that
 * acre__step_quiesce allocates. No state, and no locks but the device's, inside limbo, and that of
 * the strays. */
#include "space/steps.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/status.h"
#include "device/device.h"
#include "device/driver_status.h"
#include "device/strays.h"
#include "watch/probes.h"
#include "watch/trace.h"

/* ---- physical memory ---- */

CUmemLocation acre__step_location(const acre_device *dev, uint32_t flags) {
    if (!(flags & ACRE__CHUNK_HOST))
        return (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, dev->device};
    /* Drivers and machines without NUMA nodes accept node 0. */
    int node = 0;
    CUresult code =
        dev->drv->cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, dev->device);
    return (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST_NUMA, code || node < 0 ? 0 : node};
}

static CUmemAllocationProp step_prop(const acre_device *dev, uint32_t flags) {
    CUmemAllocationProp prop;
    unsigned types = CU_MEM_HANDLE_TYPE_NONE;
    if (flags & ACRE__CHUNK_SHAREABLE)
        types |= CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (flags & ACRE__CHUNK_FABRIC)
        types |= CU_MEM_HANDLE_TYPE_FABRIC;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = (CUmemAllocationHandleType)types;
    prop.location = acre__step_location(dev, flags);
    prop.allocFlags.gpuDirectRDMACapable = flags & ACRE__CHUNK_RDMA ? 1 : 0;
    return prop;
}

/* The flags that the device reports as supported. Other PCI devices can access host memory anyway,
 * so RDMA is not requested for it. */
static uint32_t step_possible(const acre_device *dev, uint32_t flags) {
    uint32_t possible = flags & ACRE__CHUNK_HOST;
    if (dev->info.has_fd_sharing)
        possible |= ACRE__CHUNK_SHAREABLE;
    if (dev->info.has_fabric)
        possible |= ACRE__CHUNK_FABRIC;
    if (dev->info.has_rdma && !(flags & ACRE__CHUNK_HOST))
        possible |= ACRE__CHUNK_RDMA;
    return flags & possible;
}

acre_status acre__step_granularity(acre_device *dev, uint32_t flags, int recommended,
                                   size_t *bytes) {
    struct acre__current call;
    /* Optional flags are left out: where they are not permitted, the query could be refused too. */
    uint32_t asked = step_possible(dev, flags) & (ACRE__CHUNK_HOST | ACRE__CHUNK_SHAREABLE);
    CUmemAllocationProp prop = step_prop(dev, asked);
    *bytes = 0;
    if (acre__device_call_relaxed(dev, &call))
        call.code = dev->drv->cuMemGetAllocationGranularity(
            bytes, &prop,
            recommended ? CU_MEM_ALLOC_GRANULARITY_RECOMMENDED : CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    return acre__device_done(dev, &call, "cuMemGetAllocationGranularity");
}

/* 1 for codes with which the driver refuses an optional flag; out of memory is not one of them. */
static int is_wish_refused(CUresult code) {
    return code == CUDA_ERROR_NOT_PERMITTED || code == CUDA_ERROR_NOT_SUPPORTED ||
           code == CUDA_ERROR_INVALID_VALUE;
}

/* Tries with all optional flags, then without some of them, until the driver agrees. */
static CUresult step_create_try(const acre_device *dev, size_t bytes, uint32_t flags,
                                CUmemGenericAllocationHandle *handle, uint32_t *granted) {
    static const uint32_t without[] = {0, ACRE__CHUNK_FABRIC, ACRE__CHUNK_RDMA,
                                       ACRE__CHUNK_FABRIC | ACRE__CHUNK_RDMA};
    CUresult code = CUDA_SUCCESS;
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        if ((flags & without[i]) != without[i])
            continue;
        *granted = flags & ~without[i];
        CUmemAllocationProp prop = step_prop(dev, *granted);
        code = dev->drv->cuMemCreate(handle, bytes, &prop, 0);
        if (!is_wish_refused(code))
            break;
    }
    return code;
}

acre_status acre__step_create(acre_device *dev, size_t bytes, uint32_t flags,
                              CUmemGenericAllocationHandle *handle, uint32_t *granted) {
    struct acre__current call;
    *handle = 0;
    *granted = 0;
    if (acre__device_call_relaxed(dev, &call))
        call.code = step_create_try(dev, bytes, step_possible(dev, flags), handle, granted);
    acre_status status = acre__device_done(dev, &call, "cuMemCreate");
    if (call.code == CUDA_ERROR_OUT_OF_MEMORY && flags & ACRE__CHUNK_HOST)
        status = ACRE_E_HOST_MEMORY;
    if (status) {
        *granted = 0;
        return acre__fail(status, "%zu bytes requested: %s", bytes, acre_last_detail());
    }
    acre__probe_chunk_create(bytes);
    if (acre__trace_is_on())
        acre__trace_chunk(ACRE__TRACE_CHUNK_CREATE, *handle, bytes);
    return ACRE_OK;
}

acre_status acre__step_release(acre_device *dev, CUmemGenericAllocationHandle handle) {
    struct acre__current call;
    if (acre__device_call_relaxed(dev, &call))
        call.code = dev->drv->cuMemRelease(handle);
    acre_status status = acre__device_done(dev, &call, "cuMemRelease");
    if (status == ACRE_OK && acre__trace_is_on())
        acre__trace_chunk(ACRE__TRACE_CHUNK_RELEASE, handle, 0);
    return status;
}

/* ---- sharing ---- */

acre_status acre__step_export(acre_device *dev, CUmemGenericAllocationHandle handle, int *fd) {
    struct acre__current call;
    int made = -1;
    *fd = -1;
    if (acre__device_call_relaxed(dev, &call))
        call.code = dev->drv->cuMemExportToShareableHandle(
            &made, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    acre_status status = acre__device_done(dev, &call, "cuMemExportToShareableHandle");
    if (status)
        return status;
    /* Programs that this one executes must not inherit the descriptor; the driver does not
     * guarantee that. */
    (void)fcntl(made, F_SETFD, FD_CLOEXEC);
    *fd = made;
    return ACRE_OK;
}

acre_status acre__step_import(acre_device *dev, int fd, CUmemGenericAllocationHandle *handle) {
    struct acre__current call;
    *handle = 0;
    if (acre__device_call_relaxed(dev, &call))
        call.code = dev->drv->cuMemImportFromShareableHandle(
            handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    return acre__device_done(dev, &call, "cuMemImportFromShareableHandle");
}

/* ---- addresses ---- */

acre_status acre__step_reserve(acre_device *dev, size_t bytes, size_t alignment, uint64_t hint,
                               uint64_t *address) {
    struct acre__current call;
    CUdeviceptr at = 0;
    if (acre__device_call_relaxed(dev, &call))
        call.code = dev->drv->cuMemAddressReserve(&at, bytes, alignment, hint, 0);
    acre_status status = acre__device_done(dev, &call, "cuMemAddressReserve");
    *address = at;
    if (call.code == CUDA_ERROR_OUT_OF_MEMORY)
        return acre__fail(ACRE_E_ADDRESS_SPACE, "%zu bytes of addresses requested: %s", bytes,
                          acre_last_detail());
    return status;
}

acre_status acre__step_address_free(acre_device *dev, uint64_t address, size_t bytes) {
    struct acre__current call;
    if (acre__device_call_relaxed(dev, &call))
        call.code = dev->drv->cuMemAddressFree(address, bytes);
    return acre__device_done(dev, &call, "cuMemAddressFree");
}

/* ---- mappings ---- */

acre_status acre__step_map(acre_device *dev, uint64_t address, size_t bytes,
                           CUmemGenericAllocationHandle handle) {
    struct acre__current call;
    if (acre__device_call_relaxed(dev, &call))
        call.code = dev->drv->cuMemMap(address, bytes, 0, handle, 0);
    acre_status status = acre__device_done(dev, &call, "cuMemMap");
    if (status == ACRE_OK && acre__trace_is_on())
        acre__trace_chunk(ACRE__TRACE_CHUNK_MAP, address, bytes);
    return status;
}

acre_status acre__step_unmap(acre_device *dev, uint64_t address, size_t bytes) {
    struct acre__current call;
    const char *what = "waiting for transfers of a failed copy";
    if (acre__device_call_relaxed(dev, &call) && !(call.code = acre__strays_wait())) {
        what = "cuMemUnmap";
        call.code = dev->drv->cuMemUnmap(address, bytes);
    }
    acre_status status = acre__device_done(dev, &call, what);
    if (status == ACRE_OK && acre__trace_is_on())
        acre__trace_chunk(ACRE__TRACE_CHUNK_UNMAP, address, bytes);
    return status;
}

acre_status acre__step_access(acre_device *dev, uint64_t address, size_t bytes,
                              const CUmemAccessDesc *access, size_t count) {
    struct acre__current call;
    for (size_t i = 0; i < count; i++)
        if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
            acre__device_note_user(dev, access[i].location.id);
    if (acre__device_call_relaxed(dev, &call))
        call.code = dev->drv->cuMemSetAccess(address, bytes, access, count);
    return acre__device_done(dev, &call, "cuMemSetAccess");
}

acre_status acre__step_access_get(acre_device *dev, uint64_t address, const CUmemLocation *location,
                                  unsigned long long *flags) {
    struct acre__current call;
    *flags = 0;
    if (acre__device_call_relaxed(dev, &call))
        call.code = dev->drv->cuMemGetAccess(flags, location, address);
    return acre__device_done(dev, &call, "cuMemGetAccess");
}

/* ---- waiting for the device ---- */

/* A block that is allocated only to be freed. */
struct step_block {
    struct acre__limbo_item item; /* first, so that the item's address is the block's */
    CUdeviceptr address;
    void *host; /* NULL: device memory */
};

static CUresult block_free(const struct acre__driver *drv, struct acre__limbo_item *item) {
    const struct step_block *block = (const struct step_block *)item;
    return block->host ? drv->cuMemFreeHost(block->host) : drv->cuMemFree(block->address);
}

static void block_forget(struct acre__limbo_item *item) {
    free(item);
}

static const struct acre__limbo_kind kind_device = {"cuMemFree", block_free, block_forget};
static const struct acre__limbo_kind kind_host = {"cuMemFreeHost", block_free, block_forget};

static CUresult block_make_on(acre_device *dev, struct step_block *block, int is_host,
                              const char **what) {
    enum { BLOCK_BYTES = 256 };
    *what = is_host ? "cuMemHostAlloc" : "cuMemAlloc";
    block->item.kind = is_host ? &kind_host : &kind_device;
    return is_host ? dev->drv->cuMemHostAlloc(&block->host, BLOCK_BYTES, 0)
                   : dev->drv->cuMemAlloc(&block->address, BLOCK_BYTES);
}

/* Allocates device memory, or host memory if the device does not have even that little left. Under
 * a limit of the device it is the other way round: the driver may take a whole unit for a block. */
static CUresult block_make(acre_device *dev, struct step_block *block, const char **what) {
    int is_host = acre__load(&dev->limit_bytes, memory_order_relaxed) != 0;
    CUresult code = block_make_on(dev, block, is_host, what);
    return code == CUDA_ERROR_OUT_OF_MEMORY ? block_make_on(dev, block, !is_host, what) : code;
}

/* Freeing memory waits for all running and queued work of the device. It does not invalidate
 * captures when the thread's capture mode is relaxed (measured on an H200). cuCtxSynchronize
 * invalidates every capture in progress in the context, whatever the mode. */
acre_status acre__step_quiesce(acre_device *dev) {
    struct step_block *block = calloc(1, sizeof *block);
    if (!block)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a block's record");
    struct acre__current call;
    const char *what = NULL;
    enum acre__fate fate = ACRE__FATE_TAKEN;
    int is_called = acre__device_call_relaxed(dev, &call);
    if (is_called)
        call.code = block_make(dev, block, &what);
    if (is_called && call.code == CUDA_SUCCESS) {
        what = block->item.kind->call;
        call.code = block_free(dev->drv, &block->item);
        fate = acre__driver_fate(call.code);
        if (fate == ACRE__FATE_TAKEN)
            call.code = CUDA_SUCCESS;
    }
    acre_status status = acre__device_done(dev, &call, what);
    if (fate == ACRE__FATE_REFUSED)
        acre__limbo_let_go(dev, &block->item);
    else
        free(block);
    return status;
}

acre_status acre__step_quiesce_users(acre_device *dev) {
    acre_status status = acre__step_quiesce(dev);
    acre_device *other = NULL;
    while (status == ACRE_OK && (other = acre__device_next(dev, other)))
        if (other != dev && acre__device_is_user(dev, other->device) &&
            !acre__device_is_lost(other))
            status = acre__step_quiesce(other);
    return status;
}
