/* The device memory that acre has taken from the driver, and its limits (acre_device_set_limits).
 *
 * Whoever takes device memory adds it here before the call of the driver, and removes it after the
 * memory has gone back. So the limit holds with several threads. A refusal is ACRE_E_DEVICE_MEMORY:
 * every layer does what it does on a smaller card. Threads: any; without locks. */
#ifndef ACRE_DEVICE_TAKEN_H
#define ACRE_DEVICE_TAKEN_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "device/device.h"

/* Adds `bytes` if the limits allow it, else returns ACRE_E_DEVICE_MEMORY with a detail. Memory that
 * comes back from a suspend is not new: the margin does not apply to it. */
acre_status acre__taken_add(acre_device *dev, uint64_t bytes, int is_new);
void acre__taken_remove(acre_device *dev, uint64_t bytes);

/* Returns how many of the card's free bytes acre may take. */
uint64_t acre__taken_room(acre_device *dev, uint64_t free_bytes);

/* Queries how many bytes of the card are free. Returns 0 if the query fails. acre__taken_ask: and
 * how many of these acre may take. */
int acre__taken_free(acre_device *dev, size_t *free_bytes);
int acre__taken_ask(acre_device *dev, size_t *room);

/* Returns the most that acre may ever take: the limit, or all memory of the card. */
static inline uint64_t acre__taken_most(acre_device *dev) {
    uint64_t limit = atomic_load_explicit(&dev->limit_bytes, memory_order_relaxed);
    return limit && limit < dev->info.total_bytes ? limit : dev->info.total_bytes;
}

/* Returns ACRE_E_DEVICE_MEMORY, with a detail, for a request that acre can never serve. */
acre_status acre__taken_check(acre_device *dev, uint64_t bytes);

/* Fails with ACRE_E_DEVICE_MEMORY. The detail has the request and what is left for it, if the card
 * has `free_bytes`. */
acre_status acre__taken_refuse(acre_device *dev, uint64_t bytes, uint64_t free_bytes);

#endif
