/* Limits on device memory: see held.h. */
#include "device/held.h"

#include <stdio.h>

#include "base/atomic.h"
#include "base/status.h"
#include "base/thread.h"

typedef unsigned long long ull;

static uint64_t limit_of(acre_device *dev) {
    return acre__load(&dev->limit_bytes, memory_order_relaxed);
}

static uint64_t margin_of(acre_device *dev, enum acre__held_for why) {
    return why == ACRE__HELD_NEW ? acre__load(&dev->margin_bytes, memory_order_relaxed) : 0;
}

static uint64_t minus(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

/* ---- details ---- */

/* Writes the requested size, and the size in whole chunks if only that is too large. */
static const char *request(char buffer[64], uint64_t asked, uint64_t bytes, uint64_t left) {
    int length = snprintf(buffer, 64, "%llu bytes requested", (ull)asked);
    if (asked <= left && bytes > asked)
        snprintf(buffer + length, 64 - (size_t)length, " (%llu in whole chunks)", (ull)bytes);
    return buffer;
}

static acre_status refuse_limit(acre_device *dev, uint64_t asked, uint64_t bytes, uint64_t left,
                                uint64_t limit) {
    char buffer[64];
    return acre__fail(ACRE_E_DEVICE_MEMORY,
                      "%s, %llu bytes are left of the limit of %llu bytes on %s",
                      request(buffer, asked, bytes, left), (ull)left, (ull)limit, dev->label);
}

static acre_status refuse_margin(acre_device *dev, uint64_t asked, uint64_t bytes,
                                 uint64_t free_bytes, uint64_t margin) {
    char buffer[64];
    return acre__fail(ACRE_E_DEVICE_MEMORY,
                      "%s, %llu bytes of %s are free, but %llu bytes must stay free",
                      request(buffer, asked, bytes, minus(free_bytes, margin)), (ull)free_bytes,
                      dev->label, (ull)margin);
}

acre_status acre__held_refuse(acre_device *dev, uint64_t asked, uint64_t bytes,
                              uint64_t free_bytes) {
    uint64_t limit = limit_of(dev), margin = margin_of(dev, ACRE__HELD_NEW);
    uint64_t left = minus(limit, acre__load(&dev->held_bytes, memory_order_relaxed));
    size_t now = 0;
    char buffer[64];
    if (limit && bytes > left)
        return refuse_limit(dev, asked, bytes, left, limit);
    if (free_bytes == ACRE__HELD_ASK) {
        (void)acre__held_ask_free(dev, &now);
        free_bytes = now;
    }
    if (margin && bytes > minus(free_bytes, margin))
        return refuse_margin(dev, asked, bytes, free_bytes, margin);
    return acre__fail(ACRE_E_DEVICE_MEMORY, "%s, %llu bytes of %s are free",
                      request(buffer, asked, bytes, bytes > free_bytes ? free_bytes : 0),
                      (ull)free_bytes, dev->label);
}

acre_status acre__held_check(acre_device *dev, uint64_t bytes) {
    uint64_t limit = limit_of(dev);
    if (bytes <= acre__held_most(dev))
        return ACRE_OK;
    if (limit && bytes <= dev->info.total_bytes)
        return refuse_limit(dev, bytes, bytes,
                            minus(limit, acre__load(&dev->held_bytes, memory_order_relaxed)),
                            limit);
    return acre__fail(ACRE_E_DEVICE_MEMORY, "%llu bytes requested, %s has %llu bytes in all",
                      (ull)bytes, dev->label, (ull)dev->info.total_bytes);
}

/* ---- counting ---- */

int acre__held_ask_free(acre_device *dev, size_t *free_bytes) {
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

/* Counts `bytes` within the limit. If the limit changes meanwhile, either this call notices, or
 * set_limits sees the bytes (both sequentially consistent). */
static acre_status add_within_limit(acre_device *dev, uint64_t bytes) {
    for (;;) {
        uint64_t limit = limit_of(dev), held = acre__load(&dev->held_bytes, memory_order_relaxed);
        do {
            if (limit && bytes > minus(limit, held))
                return refuse_limit(dev, bytes, bytes, minus(limit, held), limit);
        } while (!acre__cas_weak(&dev->held_bytes, &held, held + bytes, memory_order_seq_cst,
                                 memory_order_relaxed));
        if (acre__load(&dev->limit_bytes, memory_order_seq_cst) == limit)
            return ACRE_OK;
        acre__held_remove(dev, bytes);
    }
}

acre_status acre__held_add(acre_device *dev, uint64_t bytes, enum acre__held_for why) {
    uint64_t margin = margin_of(dev, why);
    size_t free_bytes = 0;
    acre_status status = add_within_limit(dev, bytes);
    if (status)
        return status;
    if (!margin || !acre__held_ask_free(dev, &free_bytes) || bytes <= minus(free_bytes, margin))
        return ACRE_OK;
    acre__held_remove(dev, bytes);
    return refuse_margin(dev, bytes, bytes, free_bytes, margin);
}

void acre__held_remove(acre_device *dev, uint64_t bytes) {
    acre__fetch_sub(&dev->held_bytes, bytes, memory_order_release);
}

/* The idle bytes are negative for a moment while other threads both reserve and count. Memory is
 * idle after it counts as held, and no longer idle before it is released. So what this call sees in
 * use is too little only if acre held no more than the limit meanwhile. */
int acre__held_reserve(acre_device *dev, uint64_t bytes) {
    uint64_t idle = acre__load(&dev->pool_idle_bytes, memory_order_seq_cst);
    do {
        uint64_t held = acre__load(&dev->held_bytes, memory_order_acquire), limit = limit_of(dev);
        if (limit && held > limit && (int64_t)(held - limit + bytes) > (int64_t)idle)
            return 0;
    } while (!acre__cas_weak(&dev->pool_idle_bytes, &idle, idle - bytes, memory_order_seq_cst,
                             memory_order_seq_cst));
    return 1;
}

/* ---- what is left ---- */

uint64_t acre__held_room(acre_device *dev, uint64_t free_bytes, enum acre__held_for why) {
    uint64_t limit = limit_of(dev), room = minus(free_bytes, margin_of(dev, why));
    uint64_t left = minus(limit, acre__load(&dev->held_bytes, memory_order_relaxed));
    return limit && left < room ? left : room;
}

uint64_t acre__held_missing(acre_device *dev, uint64_t bytes, uint64_t free_bytes,
                            enum acre__held_for why) {
    uint64_t limit = limit_of(dev), held = acre__load(&dev->held_bytes, memory_order_relaxed);
    uint64_t by_card = minus(bytes, minus(free_bytes, margin_of(dev, why)));
    uint64_t by_limit = limit ? minus(held + bytes, limit) : 0;
    return by_limit > by_card ? by_limit : by_card;
}

/* ---- public ---- */

static acre_status set_limits(acre_device *device, uint64_t limit_bytes, uint64_t margin_bytes) {
    struct acre__said said;
    acre_status status = acre__device_enter(device);
    if (status)
        return status;
    acre__said_keep(&said);
    acre__store(&device->margin_bytes, margin_bytes, memory_order_relaxed);
    acre__store(&device->limit_bytes, limit_bytes, memory_order_seq_cst);
    if (limit_bytes && acre__load(&device->held_bytes, memory_order_seq_cst) > limit_bytes)
        (void)acre__device_trim(device); /* memory that the driver refuses to release stays held */
    return acre__said_fail(ACRE_OK, &said);
}

acre_status acre_device_set_limits(acre_device *device, uint64_t limit_bytes,
                                   uint64_t margin_bytes) {
    return acre__in_call(set_limits(device, limit_bytes, margin_bytes), "acre_device_set_limits");
}
