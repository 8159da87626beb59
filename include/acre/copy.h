/* Copies and fills. Part of acre.h. */
#ifndef ACRE_COPY_H
#define ACRE_COPY_H

#include "stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies between any two addresses, in stream order: device, pinned, mapped, managed and pageable
 * memory on either side, the way found from the addresses. Memory of another device of the same
 * driver may be either side.
 * When it returns: pageable source: it has been read. Pageable destination: the data is there.
 * Otherwise the copy is queued, and both sides must stay as they are until the stream has passed
 * it. Returns ACRE_E_RANGE (past the end of a block that is known), ACRE_E_OVERLAP,
 * ACRE_E_CAPTURING (pageable memory while the stream is captured), ACRE_E_NULL, ACRE_E_HANDLE
 * (stream of another device); nothing was copied then. 0 bytes are fine. */
ACRE_API acre_status acre_copy(acre_device *device, void *to, const void *from, size_t bytes,
                               acre_stream stream);

/* Which way a copy goes. */
typedef enum acre_direction {
    ACRE_HOST_TO_HOST = 1,
    ACRE_HOST_TO_DEVICE = 2,
    ACRE_DEVICE_TO_HOST = 3,
    ACRE_DEVICE_TO_DEVICE = 4
} acre_direction;

/* As acre_copy, and checks that it goes the way that is expected: ACRE_E_DIRECTION otherwise.
 * Managed memory may be either. */
ACRE_API acre_status acre_copy_as(acre_device *device, acre_direction direction, void *to,
                                  const void *from, size_t bytes, acre_stream stream);

/* As acre_copy on the legacy stream, and waits until the data is there. */
ACRE_API acre_status acre_copy_sync(acre_device *device, void *to, const void *from, size_t bytes);

/* Copies `rows` rows of `width` bytes; the first bytes of two rows are a pitch apart. Otherwise as
 * acre_copy. */
ACRE_API acre_status acre_copy_2d(acre_device *device, void *to, size_t to_pitch, const void *from,
                                  size_t from_pitch, size_t width, size_t rows, acre_stream stream);

/* Sets bytes of any memory, in stream order; for pageable memory it returns when they are set. */
ACRE_API acre_status acre_fill(acre_device *device, void *to, uint8_t value, size_t bytes,
                               acre_stream stream);

/* As acre_fill on the legacy stream, and waits until it is done. */
ACRE_API acre_status acre_fill_sync(acre_device *device, void *to, uint8_t value, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
