/* Copies the contents of memory that is about to leave the device, or has come back (acre_suspend).
 *
 * Both sides are known, no work runs on the device, and the caller keeps the memory in place (a
 * move, space/mapped.h): so these copies check nothing and do not enter the gate. */
#ifndef ACRE_COPY_CONTENTS_H
#define ACRE_COPY_CONTENTS_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

/* Copies between device memory and pageable memory, without waiting for small copies. */
acre_status acre__contents_copy(acre_device *dev, uint64_t device, void *host, size_t bytes,
                                int to_device);
/* Waits for all copies. */
acre_status acre__contents_settle(acre_device *dev);

#endif
