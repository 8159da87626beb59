/* The driver's steps for virtual memory management (VMM), each a checked call: create, reserve,
 * map, set access, and their opposites. All VMM driver calls are here, except three kinds: limbo
 * releases chunks (chunk.c) and reservations (range.c), limbo retries unmaps (mapping.c), and
 * device.c queries the granularity.
 *
 * Every step makes the device's context current and leaves captures of the program alone. It
 * returns a status with a detail and counts a refusal of the driver. Out of physical memory is
 * ACRE_E_DEVICE_MEMORY, or ACRE_E_HOST_MEMORY for host chunks; out of addresses is
 * ACRE_E_ADDRESS_SPACE. */
#ifndef ACRE_SPACE_STEPS_H
#define ACRE_SPACE_STEPS_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "driver/driver.h"

/* Properties of a chunk. RDMA and FABRIC are optional: a chunk is created without them where they
 * are not permitted. */
enum {
    ACRE__CHUNK_HOST = 1,      /* host memory near the device; else device memory */
    ACRE__CHUNK_SHAREABLE = 2, /* can be exported as a file descriptor */
    ACRE__CHUNK_RDMA = 4,      /* other PCI devices can access it; optional */
    ACRE__CHUNK_FABRIC = 8     /* can be exported over the fabric; optional */
};

/* `recommended` is 0 (minimum) or 1. */
acre_status acre__step_granularity(acre_device *dev, uint32_t flags, int recommended,
                                   size_t *bytes);

/* Creates a chunk; `bytes` is a multiple of the granularity. Optional flags that are not permitted
 * are left out; *granted is what the chunk got. */
acre_status acre__step_create(acre_device *dev, size_t bytes, uint32_t flags,
                              CUmemGenericAllocationHandle *handle, uint32_t *granted);
acre_status acre__step_release(acre_device *dev, CUmemGenericAllocationHandle handle);

acre_status acre__step_export(acre_device *dev, CUmemGenericAllocationHandle handle, int *fd);
acre_status acre__step_import(acre_device *dev, int fd, CUmemGenericAllocationHandle *handle);

/* Reserves addresses. `hint` 0: anywhere. The driver may ignore the hint. */
acre_status acre__step_reserve(acre_device *dev, size_t bytes, size_t alignment, uint64_t hint,
                               uint64_t *address);
acre_status acre__step_address_free(acre_device *dev, uint64_t address, size_t bytes);

/* Maps a whole chunk. */
acre_status acre__step_map(acre_device *dev, uint64_t address, size_t bytes,
                           CUmemGenericAllocationHandle handle);
/* Unmaps whole mappings. The caller has waited for every use of them; strays
 * (device/strays.h) are waited for here. */
acre_status acre__step_unmap(acre_device *dev, uint64_t address, size_t bytes);

acre_status acre__step_access(acre_device *dev, uint64_t address, size_t bytes,
                              const CUmemAccessDesc *access, size_t count);
acre_status acre__step_access_get(acre_device *dev, uint64_t address, const CUmemLocation *location,
                                  unsigned long long *flags);

/* Location of chunks with these flags. */
CUmemLocation acre__step_location(const acre_device *dev, uint32_t flags);

/* Waits for all work queued on the device, as cudaFree does. Unlike cuCtxSynchronize it does not
 * invalidate captures in progress. */
acre_status acre__step_quiesce(acre_device *dev);
/* As acre__step_quiesce, and also waits for devices whose work may use this device's memory
 * (acre__device_note_user). */
acre_status acre__step_quiesce_users(acre_device *dev);

#endif
