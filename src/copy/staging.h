/* Staging: copies pageable memory through pinned buffers with several threads. Each thread has its
 * own stream, so that host copies and transfers overlap. On an H200 a copy of 1 GiB runs at 50 GB/s
 * instead of 8.
 *
 * A device has one staging set for each direction, created on first use. A set holds 8 MiB for each
 * of at most 12 threads and does one copy at a time; acre_trim frees it. */
#ifndef ACRE_COPY_STAGING_H
#define ACRE_COPY_STAGING_H

#include <stddef.h>

#include "acre.h"

/* Rows of bytes; a plain copy is one row. One side is pageable, the driver knows the other. */
struct acre__rows {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch;
    size_t width, rows; /* both at least 1 */
};

/* Copies in stream order. To the device, it returns when the source has been read; from the device,
 * when the data has arrived. *is_done is 0 with status ACRE_OK when no staging set could be
 * created: nothing was copied, and the caller must use the driver's copy. After a failure the
 * destination is undefined. */
acre_status acre__staging_copy(acre_device *dev, const struct acre__rows *rows, int to_device,
                               acre_stream stream, int *is_done);

/* Frees the device's sets; waits for copies that use them. A set whose transfers acre cannot wait
 * for (device/strays.h) stays, unless the device is closing. */
void acre__staging_drop(acre_device *dev, int is_closing);

/* Pinned bytes that the device's sets hold. */
size_t acre__staging_bytes(acre_device *dev);

#endif
