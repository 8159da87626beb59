/* Addresses of a device: few large reservations, and who has which part of them.
 *
 * A device's addresses are reserved in one piece (ACRE_ADDRESS_BYTES, 8 times its memory by
 * default, halved while that cannot be had); when it is full another one follows, hinted at its
 * end. Parts are handed out from them and never reach over the border of two reservations.
 * Reservations are given back when nobody has any part of them, at trim and at close.
 *
 * Threads: any; one lock per device. */
#ifndef ACRE_SPACE_RANGE_H
#define ACRE_SPACE_RANGE_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

struct acre__range {
    uint64_t at;
    size_t bytes; /* a multiple of the unit of chunks */
};

/* `bytes` (a multiple of the unit) of addresses, aligned to a power of two that is at least the
 * unit. ACRE_E_ADDRESS_SPACE, with the wanted bytes in the detail: what there is nobody knows. */
acre_status acre__range_take(acre_device *dev, size_t bytes, size_t alignment,
                             struct acre__range *range);

/* Makes the range at least `bytes` long in place: 1, or 0 when the addresses behind it are not
 * free. */
int acre__range_extend(acre_device *dev, struct acre__range *range, size_t bytes);

/* Gives addresses back, any part of what was taken; nothing may be mapped there. */
void acre__range_give(acre_device *dev, uint64_t at, size_t bytes);

/* Gives reservations back that nobody has a part of. */
void acre__range_trim(acre_device *dev);

/* Bytes reserved of the driver, and of those handed out. */
void acre__range_count(acre_device *dev, uint64_t *reserved_bytes, uint64_t *taken_bytes);

#endif
