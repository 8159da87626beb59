/* Addresses of a device: few large reservations, and ranges allocated from them.
 *
 * The first reservation has ACRE_ADDRESS_BYTES (by default 8 times the device's memory), halved
 * while the driver refuses it. When a reservation is full, another one follows, with the end of the
 * newest as hint. A range never spans two reservations. Reservations without ranges are released at
 * trim and at close.
 *
 * Threads: any; one lock per device. */
#ifndef ACRE_SPACE_RANGE_H
#define ACRE_SPACE_RANGE_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

struct acre__range {
    uint64_t at;
    size_t bytes; /* a multiple of the chunks' unit */
};

/* Allocates `bytes` (a multiple of the unit) of addresses, aligned to a power of two that is at
 * least the unit. Returns ACRE_E_ADDRESS_SPACE with the requested bytes in the detail; how much is
 * available is unknown. */
acre_status acre__range_take(acre_device *dev, size_t bytes, size_t alignment,
                             struct acre__range *range);

/* Extends the range in place to at least `bytes`. Returns 1, or 0 if the addresses behind it are
 * not free. */
int acre__range_extend(acre_device *dev, struct acre__range *range, size_t bytes);

/* Releases addresses, any part of an allocated range. Nothing may be mapped there. */
void acre__range_give(acre_device *dev, uint64_t at, size_t bytes);

/* Releases reservations without ranges. */
void acre__range_trim(acre_device *dev);

/* Bytes reserved with the driver, and how many of them are allocated. */
void acre__range_count(acre_device *dev, uint64_t *reserved_bytes, uint64_t *taken_bytes);

#endif
