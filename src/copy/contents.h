/* Copies the contents of memory that is about to leave the device, or has come back (acre_suspend).
 *
 * Both sides are known, no work runs on the device, and the caller keeps the memory in place (a
 * move, space/mapped.h): so these copies check nothing and do not enter the gate. */
#ifndef ACRE_COPY_CONTENTS_H
#define ACRE_COPY_CONTENTS_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

/* Copies between device memory and pageable memory on a stream of the caller's own, which is not
 * captured; does not wait for small copies. The legacy stream would disturb captures. */
acre_status acre__contents_copy(acre_device *dev, uint64_t device, void *host, size_t bytes,
                                int to_device, acre_stream stream);

#endif
