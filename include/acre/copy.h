/* Copies and fills. Part of acre.h. */
#ifndef ACRE_COPY_H
#define ACRE_COPY_H

#include "stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies between any two addresses in stream order. Either side may be device, pinned, mapped,
 * managed or pageable memory, and may belong to another device of the same driver. acre finds the
 * direction from the addresses. A copy of 0 bytes is a no-op. When the call returns, a pageable
 * source has been read, a pageable destination has been written, and a copy between host memory and
 * another device's memory has completed. Any other copy is queued: the program must not change the
 * source or use the destination before the stream has completed it.
 * Returns ACRE_E_POINTER (memory of acre that was freed, unless the program got its address again
 * from elsewhere), ACRE_E_RANGE (past the end of a known block), ACRE_E_OVERLAP, ACRE_E_CAPTURING
 * (the stream is captured, and the copy cannot be queued), ACRE_E_NULL, ACRE_E_HANDLE (stream of
 * another device).
 * Sync: a copy that is queued does not wait. Other copies may wait for the work queued on
 * `stream`. */
ACRE_API acre_status acre_copy(acre_device *device, void *to, const void *from, size_t bytes,
                               acre_stream stream);

/* The direction of a copy. */
typedef enum acre_direction {
    ACRE_HOST_TO_HOST = 1,
    ACRE_HOST_TO_DEVICE = 2,
    ACRE_DEVICE_TO_HOST = 3,
    ACRE_DEVICE_TO_DEVICE = 4
} acre_direction;

/* Copies as acre_copy does, but first checks the direction. Managed memory counts as host and as
 * device memory.
 * Returns ACRE_E_DIRECTION if the copy goes in a direction other than `direction`. */
ACRE_API acre_status acre_copy_as(acre_device *device, acre_direction direction, void *to,
                                  const void *from, size_t bytes, acre_stream stream);

/* Copies as acre_copy does on the legacy stream, and waits until the copy is done. */
ACRE_API acre_status acre_copy_sync(acre_device *device, void *to, const void *from, size_t bytes);

/* Copies `rows` rows of `width` bytes each. A pitch is the distance in bytes between the starts of
 * two successive rows. Otherwise like acre_copy. */
ACRE_API acre_status acre_copy_2d(acre_device *device, void *to, size_t to_pitch, const void *from,
                                  size_t from_pitch, size_t width, size_t rows, acre_stream stream);

/* Sets `bytes` bytes of any memory to `value`, in stream order. For pageable memory, and for memory
 * of another device, the bytes are set when the call returns. Returns the errors of acre_copy. */
ACRE_API acre_status acre_fill(acre_device *device, void *to, uint8_t value, size_t bytes,
                               acre_stream stream);

/* Fills as acre_fill does on the legacy stream, and waits until the fill is done. */
ACRE_API acre_status acre_fill_sync(acre_device *device, void *to, uint8_t value, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
