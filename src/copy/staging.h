/* Staging: copies of pageable memory through pinned buffers, by several threads, each with a stream
 * of its own, so that reading or writing the pageable side and the transfer go on at the same time
 * (on an H200 1 GiB goes at 50 GB/s instead of 8).
 *
 * A device has one staging set for each direction, made on first use, bounded (8 MiB for each of at
 * most 12 threads), one copy at a time; acre_trim gives it back. */
#ifndef ACRE_COPY_STAGING_H
#define ACRE_COPY_STAGING_H

#include <stddef.h>

#include "acre.h"

/* Rows of bytes; a plain copy is one row. One side is pageable, the other known to the driver. */
struct acre__rows {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch;
    size_t width, rows; /* both at least 1 */
};

/* In order with what was queued on `stream` before and after. To the device: returns when the
 * source has been read. From it: when the data is there. *is_done is 0 when no staging set could be
 * made, and then nothing was copied and the status is ACRE_OK: the driver's own copy is to be used.
 * After a failure the destination is undefined. */
acre_status acre__staging_copy(acre_device *dev, const struct acre__rows *rows, int to_device,
                               acre_stream stream, int *is_done);

/* Gives the sets of the device back; waits for copies that use them. */
void acre__staging_drop(acre_device *dev);

/* Pinned bytes that the device's sets hold. */
size_t acre__staging_bytes(acre_device *dev);

#endif
