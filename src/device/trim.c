/* acre_trim, and the statistics of a device.
 *
 * This layer's statistics are read under the device's lock, so they are consistent with each other.
 * They can be read from a lost device too. */
#include "acre.h"
#include "base/atomic.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/device.h"
#include "device/driver_status.h"
#include "device/limbo.h"
#include "watch/stats_file.h"

static uint64_t limbo_count(acre_device *device) {
    acre__lock_take(&device->lock);
    uint64_t count = device->limbo.count;
    acre__lock_give(&device->lock);
    return count;
}

acre_status acre__device_trim(acre_device *device) {
    uint64_t retired = 0;
    /* Limbo is retried before the layer below the objects is trimmed: an item that leaves limbo
     * frees chunks and addresses, which that layer then releases. Releases that the driver refuses
     * there are retried once more and reported. */
    acre_status upper = acre__device_hooks_trim(device, 0);
    acre_status status = acre__limbo_retry(device, &retired);
    uint64_t waiting = limbo_count(device);
    acre_status below = acre__device_hooks_trim(device, 1);
    if (limbo_count(device) > waiting)
        status = acre__limbo_retry(device, &retired);
    status = status ? status : upper ? upper : below;
    if (!acre__device_is_lost(device)) {
        CUresult code = acre__orphan_retry(device->drv, &retired);
        if (code)
            status = acre__driver_fail(device, code, "cuDevicePrimaryCtxRelease");
    }
    acre__lock_take(&device->lock);
    device->limbo_retired += retired;
    acre__lock_give(&device->lock);
    return status;
}

static acre_status device_trim(acre_device *device) {
    acre_status status = acre__device_enter(device);
    if (status)
        return status;
    acre__lock_take(&device->lock);
    device->trims++;
    acre__lock_give(&device->lock);
    return acre__device_trim(device);
}

acre_status acre_trim(acre_device *device) {
    return acre__in_call(device_trim(device), "acre_trim");
}

static acre_status device_get_stats(acre_device *device, acre_device_stats *stats) {
    acre_status status = acre__enter();
    if (status)
        return status;
    acre_device_stats now = {0};
    status = acre__options_out(stats, sizeof now, &now, "acre_device_stats");
    if (status == ACRE_OK)
        status = acre__device_check(device);
    if (status)
        return status;

    uint64_t orphans = acre__orphan_count(device->drv->is_soft);
    acre__lock_take(&device->lock);
    now.streams_live = device->streams.count - device->streams_parked;
    now.streams_parked = device->streams_parked;
    now.events_live = device->events.count;
    now.streams_created = device->streams_created;
    now.events_created = device->events_created;
    now.driver_refusals = acre__load(&device->driver_refusals, memory_order_relaxed);
    now.copies_direct = acre__load(&device->copies_direct, memory_order_relaxed);
    now.copies_staged = acre__load(&device->copies_staged, memory_order_relaxed);
    now.vec_moves = acre__load(&device->grow_moves, memory_order_relaxed);
    now.grow_copied_bytes = acre__load(&device->grow_copied_bytes, memory_order_relaxed);
    now.held_bytes = acre__load(&device->held_bytes, memory_order_relaxed);
    now.limit_bytes = acre__load(&device->limit_bytes, memory_order_relaxed);
    now.margin_bytes = acre__load(&device->margin_bytes, memory_order_relaxed);
    now.limbo_count = device->limbo.count + orphans;
    now.limbo_retired = device->limbo_retired;
    now.trims = device->trims;
    acre__lock_give(&device->lock);
    now.driver_creates = acre__driver_call_count(device->drv, ACRE__ENTRY_cuMemCreate);
    now.driver_maps = acre__driver_call_count(device->drv, ACRE__ENTRY_cuMemMap);
    now.driver_accesses = acre__driver_call_count(device->drv, ACRE__ENTRY_cuMemSetAccess);
    now.driver_unmaps = acre__driver_call_count(device->drv, ACRE__ENTRY_cuMemUnmap);
    now.driver_releases = acre__driver_call_count(device->drv, ACRE__ENTRY_cuMemRelease);
    now.driver_allocs = acre__driver_call_count(device->drv, ACRE__ENTRY_cuMemAlloc);
    acre__device_hooks_stats(device, &now);
    return acre__options_out(stats, sizeof now, &now, "acre_device_stats");
}

acre_status acre_device_get_stats(acre_device *device, acre_device_stats *stats) {
    return acre__in_call(device_get_stats(device, stats), "acre_device_get_stats");
}

void acre__device_export(acre_device *dev) {
    acre_device_stats now = {.struct_size = sizeof now};
    if (!dev->row || acre_device_get_stats(dev, &now))
        return;
    uint64_t held = now.chunk_bytes + now.mem_bytes;
    uint64_t peak = acre__load(&dev->row_peak, memory_order_relaxed);
    while (held > peak &&
           !acre__cas_weak(&dev->row_peak, &peak, held, memory_order_relaxed, memory_order_relaxed))
        continue;
    const struct {
        uint64_t total_bytes, peak_bytes;
    } more = {dev->info.total_bytes, held > peak ? held : peak};
#define TRIM_VALUE(name, meaning) now.name,
#define TRIM_MORE(name, meaning) more.name,
    const uint64_t values[] = {ACRE_DEVICE_STATS_LIST(TRIM_VALUE)
                                   ACRE__STATS_DEVICE_MORE(TRIM_MORE)};
#undef TRIM_VALUE
#undef TRIM_MORE
    acre__stats_row_store(dev->row, values, sizeof values / sizeof *values);
}
