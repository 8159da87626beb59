/* Limits on device memory: see taken.h. */
#include "device/taken.h"

#include "base/atomic.h"
#include "base/status.h"
#include "base/thread.h"

typedef unsigned long long ull;

static uint64_t limit_of(acre_device *dev) {
    return acre__load(&dev->limit_bytes, memory_order_relaxed);
}

static uint64_t margin_of(acre_device *dev) {
    return acre__load(&dev->margin_bytes, memory_order_relaxed);
}

/* Returns the bytes left of the limit. */
static uint64_t left_of(acre_device *dev) {
    uint64_t limit = limit_of(dev), taken = acre__load(&dev->taken_bytes, memory_order_relaxed);
    return !limit ? UINT64_MAX : taken < limit ? limit - taken : 0;
}

/* ---- taking ---- */

/* Adds `bytes` as far as the limit goes. */
static int limit_allows(acre_device *dev, uint64_t bytes) {
    uint64_t limit = limit_of(dev), has = acre__load(&dev->taken_bytes, memory_order_relaxed);
    do {
        if (limit && (bytes > limit || has > limit - bytes))
            return 0;
    } while (!acre__cas_weak(&dev->taken_bytes, &has, has + bytes, memory_order_relaxed,
                             memory_order_relaxed));
    return 1;
}

int acre__taken_free(acre_device *dev, size_t *free_bytes) {
    struct acre__current current;
    const char *what;
    size_t total = 0;
    *free_bytes = 0;
    if (acre__device_push_relaxed(dev, &current, &what) != CUDA_SUCCESS)
        return 0;
    CUresult code = dev->drv->cuMemGetInfo(free_bytes, &total);
    acre__device_pop(dev, &current);
    return code == CUDA_SUCCESS;
}

acre_status acre__taken_add(acre_device *dev, uint64_t bytes, int is_new) {
    size_t free_bytes = 0;
    if (!limit_allows(dev, bytes))
        return acre__taken_refuse(dev, bytes, 0);
    uint64_t margin = is_new ? margin_of(dev) : 0;
    if (!margin || !acre__taken_free(dev, &free_bytes) ||
        (free_bytes >= margin && free_bytes - margin >= bytes))
        return ACRE_OK;
    acre__taken_remove(dev, bytes);
    return acre__taken_refuse(dev, bytes, free_bytes);
}

void acre__taken_remove(acre_device *dev, uint64_t bytes) {
    acre__fetch_sub(&dev->taken_bytes, bytes, memory_order_relaxed);
}

/* ---- what is left ---- */

uint64_t acre__taken_room(acre_device *dev, uint64_t free_bytes) {
    uint64_t margin = margin_of(dev), left = left_of(dev);
    uint64_t room = free_bytes > margin ? free_bytes - margin : 0;
    return room < left ? room : left;
}

int acre__taken_ask(acre_device *dev, size_t *room) {
    int is_known = acre__taken_free(dev, room);
    *room = (size_t)acre__taken_room(dev, *room);
    return is_known;
}

acre_status acre__taken_check(acre_device *dev, uint64_t bytes) {
    if (bytes <= acre__taken_most(dev))
        return ACRE_OK;
    if (bytes <= dev->info.total_bytes)
        return acre__taken_refuse(dev, bytes, 0);
    return acre__fail(ACRE_E_DEVICE_MEMORY, "%llu bytes requested, %s has %llu bytes in all",
                      (ull)bytes, dev->label, (ull)dev->info.total_bytes);
}

acre_status acre__taken_refuse(acre_device *dev, uint64_t bytes, uint64_t free_bytes) {
    uint64_t limit = limit_of(dev), left = left_of(dev), margin = margin_of(dev);
    if (bytes > left)
        return acre__fail(ACRE_E_DEVICE_MEMORY,
                          "%llu bytes requested, %llu bytes are left of the limit of %llu bytes "
                          "on %s",
                          (ull)bytes, (ull)left, (ull)limit, dev->label);
    if (margin && bytes > acre__taken_room(dev, free_bytes))
        return acre__fail(ACRE_E_DEVICE_MEMORY,
                          "%llu bytes requested, %llu bytes of %s are free, but %llu bytes must "
                          "stay free",
                          (ull)bytes, (ull)free_bytes, dev->label, (ull)margin);
    return acre__fail(ACRE_E_DEVICE_MEMORY, "%llu bytes requested, %llu bytes of %s are free",
                      (ull)bytes, (ull)free_bytes, dev->label);
}

/* ---- public ---- */

static acre_status set_limits(acre_device *device, uint64_t limit_bytes, uint64_t margin_bytes) {
    acre_status status = acre__device_enter(device);
    if (status)
        return status;
    acre__store(&device->limit_bytes, limit_bytes, memory_order_relaxed);
    acre__store(&device->margin_bytes, margin_bytes, memory_order_relaxed);
    return ACRE_OK;
}

acre_status acre_device_set_limits(acre_device *device, uint64_t limit_bytes,
                                   uint64_t margin_bytes) {
    return acre__in_call(set_limits(device, limit_bytes, margin_bytes), "acre_device_set_limits");
}
