/* The device memory that acre holds, and its limits (acre_device_set_limits).
 *
 * Callers count device memory here before they allocate it, and uncount it after the driver has
 * freed it, so the limit holds with several threads. A refusal is ACRE_E_DEVICE_MEMORY, and is
 * handled as when the card is full. Threads: any; without locks. */
#ifndef ACRE_DEVICE_HELD_H
#define ACRE_DEVICE_HELD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "device/device.h"

/* What needs the memory. The margin does not apply to memory that a resume restores. */
enum acre__held_for { ACRE__HELD_NEW, ACRE__HELD_RESUMED };

/* Counts `bytes`, or returns ACRE_E_DEVICE_MEMORY with a detail if that would exceed a limit. */
acre_status acre__held_add(acre_device *dev, uint64_t bytes, enum acre__held_for why);
void acre__held_remove(acre_device *dev, uint64_t bytes);

/* Queries how many bytes of the card are free. Returns 0 if the query fails. */
int acre__held_ask_free(acre_device *dev, size_t *free_bytes);

/* Returns how much acre may still allocate if the card has `free_bytes`. */
uint64_t acre__held_room(acre_device *dev, uint64_t free_bytes, enum acre__held_for why);

/* Returns how much must be released before `bytes` more are within all limits, if the card has
 * `free_bytes`. */
uint64_t acre__held_missing(acre_device *dev, uint64_t bytes, uint64_t free_bytes,
                            enum acre__held_for why);

/* Returns by how many bytes acre holds more than the limit: not 0 only after the limit was lowered.
 * Until it is 0, callers serve no memory that acre holds but is not in use, except as
 * acre__held_reserve allows. So memory in use never grows beyond the limit. */
static inline uint64_t acre__held_over(const acre_device *dev) {
    uint64_t limit = atomic_load_explicit(&dev->limit_bytes, memory_order_relaxed);
    uint64_t held = atomic_load_explicit(&dev->held_bytes, memory_order_relaxed);
    return limit && held > limit ? held - limit : 0;
}

/* Returns how much of the limit is in use while acre holds more than the limit: all that it holds,
 * without what is idle in pools. */
static inline uint64_t acre__held_in_use(const acre_device *dev) {
    uint64_t held = atomic_load_explicit(&dev->held_bytes, memory_order_acquire);
    uint64_t idle = atomic_load_explicit(&dev->pool_idle_bytes, memory_order_seq_cst);
    return (int64_t)idle < 0 ? held : held > idle ? held - idle : 0;
}

/* For a pool that serves `bytes` of what it holds: takes them off the idle bytes of the pools.
 * Returns 0 if acre holds more than the limit, and more than the limit would then be in use. The
 * caller adds them again once it has counted what it serves. */
int acre__held_reserve(acre_device *dev, uint64_t bytes);

/* Returns the size of the largest request that can ever succeed: the limit, or the card. */
static inline uint64_t acre__held_most(const acre_device *dev) {
    uint64_t limit = atomic_load_explicit(&dev->limit_bytes, memory_order_relaxed);
    return limit && limit < dev->info.total_bytes ? limit : dev->info.total_bytes;
}

/* Returns ACRE_E_DEVICE_MEMORY, with a detail, for a request that can never succeed. */
acre_status acre__held_check(acre_device *dev, uint64_t bytes);

/* Returns ACRE_E_DEVICE_MEMORY. The detail has the request of `asked` bytes, which takes `bytes` in
 * whole chunks, and what is left for it, if the card has `free_bytes`; ACRE__HELD_ASK: asks the
 * driver. */
#define ACRE__HELD_ASK UINT64_MAX
acre_status acre__held_refuse(acre_device *dev, uint64_t asked, uint64_t bytes,
                              uint64_t free_bytes);

#endif
