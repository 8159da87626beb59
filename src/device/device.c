/* Devices: slots, handles, attributes, hooks, and the context around driver calls.
 *
 * Invariants. A slot's bit in slots.open is set exactly while its handle is valid. The primary
 * context is retained exactly while the slot is open or its item waits with the orphans (limbo.h).
 * Slots are filled and released under the registry lock of open.c. */
#include "device/device.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic.h"
#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/driver_status.h"
#include "device/held.h"
#include "watch/stats_file.h"

static struct {
    _Atomic uint64_t open; /* bit i: slot i is an open device */
    unsigned last; /* slot assigned last; the next search starts behind it (registry lock) */
    acre_device at[ACRE__DEVICE_SLOTS];
} slots;

/* ---- handles ---- */

acre_status acre__device_check(const acre_device *dev) {
    if (!dev)
        return acre__fail(ACRE_E_NULL, "the device is NULL");
    uintptr_t offset = (uintptr_t)dev - (uintptr_t)slots.at;
    uint64_t open = acre__load(&slots.open, memory_order_acquire);
    if (offset >= sizeof slots.at || offset % sizeof slots.at[0] != 0)
        return acre__fail(ACRE_E_HANDLE, "%p is not a device", (const void *)dev);
    if (!(open >> (offset / sizeof slots.at[0]) & 1))
        return acre__fail(ACRE_E_HANDLE, "device %p is closed", (const void *)dev);
    return ACRE_OK;
}

int acre__device_is_lost(acre_device *dev) {
    return acre__load(&dev->lost, memory_order_acquire) != 0;
}

acre_status acre__device_enter_books(const acre_device *dev) {
    acre_status status = acre__enter();
    return status ? status : acre__device_check(dev);
}

acre_status acre__device_enter(acre_device *dev) {
    acre_status status = acre__device_enter_books(dev);
    if (status)
        return status;
    CUresult lost = (CUresult)acre__load(&dev->lost, memory_order_acquire);
    if (!lost)
        return ACRE_OK;
    char buffer[ACRE__DETAIL_BYTES];
    return acre__fail(ACRE_E_DEVICE_LOST, "%s was lost with %s (%d), %s; restart the process",
                      dev->label, acre__driver_error_name(lost), (int)lost,
                      acre__driver_why(dev, lost, buffer, sizeof buffer));
}

acre_device *acre__device_find(const struct acre__driver *drv, uint32_t ordinal) {
    acre_device *dev = NULL;
    while ((dev = acre__device_next(NULL, dev)) && (dev->drv != drv || dev->ordinal != ordinal))
        continue;
    return dev;
}

acre_device *acre__device_next(const acre_device *of, const acre_device *dev) {
    uint64_t open = acre__load(&slots.open, memory_order_acquire);
    for (unsigned i = dev ? (unsigned)(dev - slots.at) + 1 : 0; i < ACRE__DEVICE_SLOTS; i++)
        if (open >> i & 1 && (!of || slots.at[i].drv == of->drv))
            return &slots.at[i];
    return NULL;
}

unsigned acre__device_index(const acre_device *dev) {
    return (unsigned)(dev - slots.at);
}

/* ---- upper layers ---- */

enum { DEVICE_HOOKS = 16 };

static struct {
    struct acre__lock lock;
    const struct acre__device_hooks *at[DEVICE_HOOKS];
    _Atomic unsigned count;
} hooks = {.lock = ACRE__LOCK_INIT("device hooks", ACRE__RANK_LEAF)};

void acre__device_hooks_add(const struct acre__device_hooks *added) {
    acre__lock_take(&hooks.lock);
    unsigned count = acre__load(&hooks.count, memory_order_relaxed);
    unsigned i = 0;
    while (i < count && hooks.at[i] != added)
        i++;
    assert(i < DEVICE_HOOKS);
    if (i == count) {
        hooks.at[i] = added;
        acre__store(&hooks.count, count + 1, memory_order_release);
    }
    acre__lock_give(&hooks.lock);
}

/* The index-th hooks to run, or NULL past the last. Order: by layer, and within a layer the newest
 * first, since a later registration builds on earlier ones. */
static const struct acre__device_hooks *hooks_at(unsigned index) {
    static const enum acre__hook_layer order[] = {ACRE__HOOK_ABOVE, ACRE__HOOK_OBJECT,
                                                  ACRE__HOOK_BELOW};
    unsigned count = acre__load(&hooks.count, memory_order_acquire);
    for (unsigned k = 0; k < sizeof order / sizeof order[0]; k++)
        for (unsigned i = count; i > 0; i--)
            if (hooks.at[i - 1]->layer == order[k] && index-- == 0)
                return hooks.at[i - 1];
    return NULL;
}

acre_status acre__device_hooks_trim(acre_device *dev, int is_below) {
    acre_status status = ACRE_OK;
    const struct acre__device_hooks *at;
    for (unsigned i = 0; (at = hooks_at(i)); i++) {
        if (!at->trim || (at->layer == ACRE__HOOK_BELOW) != is_below)
            continue;
        acre_status one = at->trim(dev);
        status = one ? one : status;
    }
    return status;
}

acre_status acre__device_hooks_retire(acre_device *dev, acre_stream stream) {
    acre_status status = ACRE_OK;
    const struct acre__device_hooks *at;
    for (unsigned i = 0; (at = hooks_at(i)); i++) {
        acre_status one = at->retire ? at->retire(dev, stream) : ACRE_OK;
        status = one ? one : status;
    }
    return status;
}

/* Two passes: the first releases memory without waiting, the second waits for work in flight. */
int acre__device_reclaim(acre_device *dev, acre_kind kind, uint64_t bytes, acre_status status,
                         int tries) {
    struct acre__said said;
    uint64_t went = 0;
    const struct acre__device_hooks *at;
    int is_short = acre__is_no_memory(status);
    int is_host = kind == ACRE_KIND_PINNED || kind == ACRE_KIND_MAPPED;
    if (!is_short || tries > 1) /* `dev` may be invalid with another status */
        return 0;
    uint64_t most = kind == ACRE_KIND_DEVICE ? acre__held_most(dev) : dev->info.total_bytes;
    if (!is_host && bytes > most)
        return 0;
    acre__said_keep(&said);
    for (int wait = tries; wait < 2 && !went; wait++)
        for (unsigned i = 0; (at = hooks_at(i)); i++)
            went += at->reclaim ? at->reclaim(dev, kind, wait) : 0;
    for (unsigned i = 0; !went && kind == ACRE_KIND_DEVICE && (at = hooks_at(i)); i++)
        went += at->spill ? at->spill(dev, bytes) : 0;
    (void)acre__said_fail(status, &said);
    return went != 0;
}

uint64_t acre__device_reclaim_objects(acre_device *dev, acre_kind kind, int wait) {
    uint64_t went = 0;
    const struct acre__device_hooks *at;
    for (unsigned i = 0; (at = hooks_at(i)); i++)
        if (at->layer == ACRE__HOOK_OBJECT && at->reclaim)
            went += at->reclaim(dev, kind, wait);
    return went;
}

static void hooks_synced(acre_device *dev) {
    const struct acre__device_hooks *at;
    for (unsigned i = 0; (at = hooks_at(i)); i++)
        if (at->synced)
            at->synced(dev);
}

void acre__device_hooks_stats(acre_device *dev, acre_device_stats *stats) {
    const struct acre__device_hooks *at;
    for (unsigned i = 0; (at = hooks_at(i)); i++)
        if (at->stats)
            at->stats(dev, stats);
}

static void hooks_close(acre_device *dev) {
    const struct acre__device_hooks *at;
    for (unsigned i = 0; (at = hooks_at(i)); i++)
        if (at->close)
            at->close(dev);
}

/* ---- devices that use each other's memory ---- */

static uint64_t user_bits(CUdevice user) {
    return user >= 0 && user < 64 ? (uint64_t)1 << user : UINT64_MAX;
}

void acre__device_note_user(acre_device *owner, CUdevice user) {
    uint64_t bits = user_bits(user);
    if (user != owner->device && (acre__load(&owner->users, memory_order_relaxed) & bits) != bits)
        atomic_fetch_or_explicit(&owner->users, bits, memory_order_relaxed);
}

int acre__device_is_user(const acre_device *owner, CUdevice user) {
    return (acre__load(&owner->users, memory_order_relaxed) & user_bits(user)) != 0;
}

/* ---- the current context ---- */

CUresult acre__device_push(acre_device *dev, struct acre__current *current, const char **what) {
    *what = "cuCtxGetCurrent";
    *current = (struct acre__current){0};
    CUresult code = dev->drv->cuCtxGetCurrent(&current->before);
    if (code || current->before == dev->context)
        return code;
    *what = "cuCtxPushCurrent";
    code = dev->drv->cuCtxPushCurrent(dev->context);
    current->pushed = code == CUDA_SUCCESS;
    return code;
}

CUresult acre__device_push_relaxed(acre_device *dev, struct acre__current *current,
                                   const char **what) {
    CUresult code = acre__device_push(dev, current, what);
    if (code)
        return code;
    *what = "cuThreadExchangeStreamCaptureMode";
    current->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    code = dev->drv->cuThreadExchangeStreamCaptureMode(&current->mode);
    current->is_relaxed = code == CUDA_SUCCESS;
    if (code)
        acre__device_pop(dev, current);
    return code;
}

/* Restores the thread's capture mode. Tried twice, since no caller could do more. */
static void device_pop_mode(acre_device *dev, CUstreamCaptureMode mode) {
    for (int i = 0; i < 2; i++) {
        CUstreamCaptureMode given = mode;
        CUresult code = dev->drv->cuThreadExchangeStreamCaptureMode(&given);
        if (code == CUDA_SUCCESS || code == CUDA_ERROR_DEINITIALIZED)
            return;
        acre__fetch_add(&dev->driver_refusals, 1, memory_order_relaxed);
    }
    acre__log(ACRE_LOG_ERROR, "device", "%s: this thread's capture mode stays relaxed", dev->label);
}

void acre__device_pop(acre_device *dev, const struct acre__current *current) {
    if (current->is_relaxed)
        device_pop_mode(dev, current->mode);
    if (!current->pushed)
        return;
    CUcontext popped;
    CUresult code = dev->drv->cuCtxPopCurrent(&popped);
    if (code == CUDA_SUCCESS || code == CUDA_ERROR_DEINITIALIZED)
        return;
    /* The caller's driver call is done and its result stands: only the counter shows this
     * failure. */
    acre__fetch_add(&dev->driver_refusals, 1, memory_order_relaxed);
    if (dev->drv->cuCtxPopCurrent(&popped) == CUDA_SUCCESS)
        return;
    if (dev->drv->cuCtxSetCurrent(current->before) == CUDA_SUCCESS)
        return;
    acre__log(ACRE_LOG_ERROR, "device",
              "%s: cuCtxPopCurrent: %s (%d): its context stays current in this thread", dev->label,
              acre__driver_error_name(code), (int)code);
}

int acre__device_call(acre_device *dev, struct acre__current *current) {
    return acre__device_begin(dev, current) == ACRE_OK;
}

int acre__device_call_relaxed(acre_device *dev, struct acre__current *current) {
    return acre__device_begin_relaxed(dev, current) == ACRE_OK;
}

acre_status acre__device_done(acre_device *dev, const struct acre__current *current,
                              const char *what) {
    if (current->status)
        return current->status;
    if (current->pushed || current->is_relaxed)
        acre__device_pop(dev, current);
    return current->code ? acre__driver_fail(dev, current->code, what) : ACRE_OK;
}

acre_status acre__device_begin(acre_device *dev, struct acre__current *current) {
    const char *what;
    CUresult code = acre__device_push(dev, current, &what);
    current->status = code ? acre__driver_fail(dev, code, what) : ACRE_OK;
    return current->status;
}

acre_status acre__device_begin_relaxed(acre_device *dev, struct acre__current *current) {
    const char *what;
    CUresult code = acre__device_push_relaxed(dev, current, &what);
    current->status = code ? acre__driver_fail(dev, code, what) : ACRE_OK;
    return current->status;
}

acre_status acre__device_end(acre_device *dev, struct acre__current *current, CUresult code,
                             const char *what) {
    current->code = code;
    return acre__device_done(dev, current, what);
}

/* ---- attributes ---- */

/* Queries one attribute; 0 if the driver does not know it. */
static acre_status device_attribute(acre_device *dev, CUdevice_attribute attribute,
                                    uint32_t *value) {
    int got = 0;
    CUresult code = dev->drv->cuDeviceGetAttribute(&got, attribute, dev->device);
    *value = 0;
    if (code == CUDA_ERROR_INVALID_VALUE)
        return ACRE_OK;
    if (code)
        return acre__driver_fail(dev, code, "cuDeviceGetAttribute");
    *value = got > 0 ? (uint32_t)got : 0;
    return ACRE_OK;
}

static acre_status device_attributes(acre_device *dev) {
    acre_device_info *info = &dev->info;
    uint32_t managed, concurrent, rdma, rdma_vmm;
    const struct {
        CUdevice_attribute attribute;
        uint32_t *value;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &info->compute_major},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &info->compute_minor},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &info->multiprocessors},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, &info->copy_engines},
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &info->has_vmm},
        {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &info->has_host_vmm},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, &info->has_fd_sharing},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, &info->has_fabric},
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, &rdma},
        {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, &rdma_vmm},
        {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, &managed},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, &concurrent},
        {CU_DEVICE_ATTRIBUTE_INTEGRATED, &info->is_integrated},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        acre_status status = device_attribute(dev, wanted[i].attribute, wanted[i].value);
        if (status)
            return status;
    }
    if (!ACRE__DRIVER_HAS(dev->drv, cuMemCreate) || !ACRE__DRIVER_HAS(dev->drv, cuMemMap))
        info->has_vmm = 0;
    /* Without VMM there are no chunks, so they cannot be shared or be host memory. */
    if (!info->has_vmm)
        info->has_host_vmm = info->has_fd_sharing = info->has_fabric = 0;
    info->has_rdma = info->has_vmm ? rdma_vmm : rdma;
    info->has_managed = managed && concurrent;
    return ACRE_OK;
}

static acre_status device_granularity(acre_device *dev) {
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = dev->device;
    size_t bytes = 0;
    CUresult code =
        dev->drv->cuMemGetAllocationGranularity(&bytes, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (code)
        return acre__driver_fail(dev, code, "cuMemGetAllocationGranularity");
    dev->info.granularity_bytes = bytes;
    return ACRE_OK;
}

/* Queries all constant properties of the device. */
static acre_status device_facts(acre_device *dev) {
    const struct acre__driver *drv = dev->drv;
    acre_device_info *info = &dev->info;
    memset(info, 0, sizeof *info);
    info->struct_size = sizeof *info;
    info->ordinal = dev->ordinal;
    snprintf(info->driver, sizeof info->driver, "%s", drv->name);

    CUresult code;
    int version = 0;
    if ((code = drv->cuDriverGetVersion(&version)))
        return acre__driver_fail(dev, code, "cuDriverGetVersion");
    info->driver_version = version > 0 ? (uint32_t)version : 0;
    if ((code = drv->cuDeviceGetName(info->name, (int)sizeof info->name, dev->device)))
        return acre__driver_fail(dev, code, "cuDeviceGetName");
    info->name[sizeof info->name - 1] = '\0';
    size_t total = 0;
    if ((code = drv->cuDeviceTotalMem(&total, dev->device)))
        return acre__driver_fail(dev, code, "cuDeviceTotalMem");
    info->total_bytes = total;
    CUuuid uuid;
    if ((code = drv->cuDeviceGetUuid(&uuid, dev->device)))
        return acre__driver_fail(dev, code, "cuDeviceGetUuid");
    memcpy(info->uuid, uuid.bytes, sizeof info->uuid);
    code = drv->cuDeviceGetPCIBusId(info->bus_id, (int)sizeof info->bus_id, dev->device);
    if (code == CUDA_ERROR_NOT_SUPPORTED || code == CUDA_ERROR_INVALID_VALUE)
        info->bus_id[0] = '\0'; /* not on a PCI bus */
    else if (code)
        return acre__driver_fail(dev, code, "cuDeviceGetPCIBusId");
    info->bus_id[sizeof info->bus_id - 1] = '\0';

    acre_status status = device_attributes(dev);
    if (status == ACRE_OK && info->has_vmm)
        status = device_granularity(dev);
    return status;
}

/* Checks that the context works. The driver returns a context that an earlier error has poisoned
 * without an error: it fails only when it is used. */
static acre_status device_probe(acre_device *dev) {
    struct acre__current current;
    const char *what;
    size_t free_bytes, total_bytes;
    acre_status status = acre__device_begin(dev, &current);
    if (status)
        return status;
    what = "cuMemGetInfo";
    CUresult code = dev->drv->cuMemGetInfo(&free_bytes, &total_bytes);
    if (code == CUDA_SUCCESS && current.pushed) {
        /* The device is not open yet, so a refused pop can still be returned as a failure. */
        CUcontext popped;
        what = "cuCtxPopCurrent";
        code = dev->drv->cuCtxPopCurrent(&popped);
        current.pushed = code != CUDA_SUCCESS;
    }
    return acre__device_end(dev, &current, code, what);
}

/* ---- create and destroy (registry lock) ---- */

static acre_device *device_slot(void) {
    uint64_t open = acre__load(&slots.open, memory_order_relaxed);
    for (unsigned i = 1; i <= ACRE__DEVICE_SLOTS; i++) {
        unsigned slot = (slots.last + i) % ACRE__DEVICE_SLOTS;
        if (open >> slot & 1)
            continue;
        slots.last = slot;
        return &slots.at[slot];
    }
    return NULL;
}

/* Resets the records of a device. */
static void device_begin(acre_device *dev, const struct acre__driver *drv, uint32_t ordinal) {
    if (!dev->lock_ready) {
        acre__lock_init(&dev->lock, "device", ACRE__RANK_DEVICE);
        dev->lock_ready = 1;
    }
    /* Other threads may still read the records of the device that had this slot before. */
    acre__lock_take(&dev->lock);
    dev->drv = drv;
    dev->ordinal = ordinal;
    dev->context = NULL;
    snprintf(dev->label, sizeof dev->label, "%s:%u", drv->name, ordinal);
    acre__store(&dev->lost, 0, memory_order_relaxed);
    acre__store(&dev->driver_refusals, 0, memory_order_relaxed);
    acre__store(&dev->row_peak, 0, memory_order_relaxed);
    acre__store(&dev->limit_bytes, 0, memory_order_relaxed);
    acre__store(&dev->margin_bytes, 0, memory_order_relaxed);
    acre__store(&dev->held_bytes, 0, memory_order_relaxed);
    acre__store(&dev->pool_idle_bytes, 0, memory_order_relaxed);
    acre__store(&dev->users, 0, memory_order_relaxed);
    acre__store(&dev->copies_direct, 0, memory_order_relaxed);
    acre__store(&dev->copies_staged, 0, memory_order_relaxed);
    acre__store(&dev->grow_moves, 0, memory_order_relaxed);
    acre__store(&dev->grow_copied_bytes, 0, memory_order_relaxed);
    acre__store(&dev->open_count, 1, memory_order_relaxed);
    dev->streams = dev->events = (struct acre__tree){0};
    dev->limbo = (struct acre__limbo){0};
    dev->streams_created = dev->events_created = dev->limbo_retired = dev->trims = 0;
    acre__lock_give(&dev->lock);
}

/* Takes a row of ACRE_STATS. The card's address tells `acre top` which card it is: ordinals differ
 * between processes. */
static void device_row(acre_device *dev) {
    char card[32];
    dev->row = acre__stats_row_take(ACRE__STATS_DEVICE, acre__device_index(dev), dev->label);
    if (dev->row && !dev->drv->is_soft &&
        !dev->drv->cuDeviceGetPCIBusId(card, (int)sizeof card, dev->device))
        acre__stats_row_card(dev->row, card);
}

acre_status acre__device_create(const struct acre__driver *drv, uint32_t ordinal,
                                acre_device **out) {
    acre_device *dev = device_slot();
    if (!dev)
        return acre__fail(ACRE_E_UNSUPPORTED, "%d devices are open, which is the limit; close one",
                          (int)ACRE__DEVICE_SLOTS);
    device_begin(dev, drv, ordinal);

    CUresult code = drv->cuDeviceGet(&dev->device, (int)ordinal);
    if (code)
        return acre__driver_fail(dev, code, "cuDeviceGet");
    dev->context_item = acre__orphan_create(dev->device);
    if (!dev->context_item)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a context");
    acre_status status;
    code = drv->cuDevicePrimaryCtxRetain(&dev->context, dev->device);
    if (code) {
        status = acre__driver_fail(dev, code, "cuDevicePrimaryCtxRetain");
        dev->context_item->kind->forget(dev->context_item);
        return status;
    }
    status = device_facts(dev);
    if (status == ACRE_OK)
        status = device_probe(dev);
    if (status) {
        acre__orphan_release(drv, dev->context_item, acre__device_is_lost(dev));
        return status;
    }
    device_row(dev);
    uint64_t bit = (uint64_t)1 << (dev - slots.at);
    atomic_fetch_or_explicit(&slots.open, bit, memory_order_release);
    *out = dev;
    return ACRE_OK;
}

void acre__device_destroy(acre_device *dev) {
    uint64_t retired = 0;
    hooks_close(dev);
    if (!acre__device_is_lost(dev))
        (void)acre__limbo_retry(dev, &retired);
    acre__streams_end(dev);
    uint64_t dropped = acre__limbo_drop(dev);
    if (dropped)
        acre__log(ACRE_LOG_WARN, "device",
                  "%s: closed with %llu resources that the driver refused to release", dev->label,
                  (unsigned long long)dropped);
    uint64_t bit = (uint64_t)1 << (dev - slots.at);
    atomic_fetch_and_explicit(&slots.open, ~bit, memory_order_acq_rel);
    acre__stats_row_give(dev->row);
    dev->row = NULL;
    acre__orphan_release(dev->drv, dev->context_item, acre__device_is_lost(dev));
    dev->context_item = NULL;
}

/* ---- public ---- */

static acre_status device_get_info(acre_device *device, acre_device_info *info) {
    acre_status status = acre__enter();
    if (status)
        return status;
    static const acre_device_info nothing;
    status = acre__options_out(info, sizeof nothing, &nothing, "acre_device_info");
    if (status == ACRE_OK)
        status = acre__device_enter(device);
    if (status)
        return status;

    struct acre__current call;
    size_t free_bytes = 0, total_bytes = 0;
    if (acre__device_call(device, &call))
        call.code = device->drv->cuMemGetInfo(&free_bytes, &total_bytes);
    status = acre__device_done(device, &call, "cuMemGetInfo");
    if (status)
        return status;

    acre_device_info now = device->info;
    now.free_bytes = free_bytes;
    now.open_count = acre__load(&device->open_count, memory_order_relaxed);
    return acre__options_out(info, sizeof now, &now, "acre_device_info");
}

acre_status acre_device_get_info(acre_device *device, acre_device_info *info) {
    return acre__in_call(device_get_info(device, info), "acre_device_get_info");
}

static acre_status device_sync(acre_device *device) {
    acre_status status = acre__device_enter(device);
    if (status)
        return status;
    struct acre__current call;
    if (acre__device_call(device, &call))
        call.code = device->drv->cuCtxSynchronize();
    status = acre__device_done(device, &call, "cuCtxSynchronize");
    if (status == ACRE_OK)
        hooks_synced(device);
    return status;
}

acre_status acre_device_sync(acre_device *device) {
    return acre__in_call(device_sync(device), "acre_device_sync");
}
