/* The driver's steps for memory by hand, each a checked call: create, reserve, map, set access, and
 * their undoing. The only callers of these driver functions.
 *
 * Every step makes the device's context current itself and leaves captures of the program's alone.
 * It returns a status with a detail, and has counted the driver's refusal. Out of physical memory
 * is ACRE_E_DEVICE_MEMORY, or ACRE_E_HOST_MEMORY for host chunks; out of addresses is
 * ACRE_E_ADDRESS_SPACE. */
#ifndef ACRE_SPACE_STEPS_H
#define ACRE_SPACE_STEPS_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "driver/driver.h"

/* What a chunk is made of and can do. */
enum {
    ACRE__CHUNK_HOST = 1,      /* of the host's memory, near the device; else of the device's */
    ACRE__CHUNK_SHAREABLE = 2, /* can be exported as a file descriptor */
    ACRE__CHUNK_RDMA = 4,      /* other PCI devices can reach it; a wish */
    ACRE__CHUNK_FABRIC = 8     /* can be exported over the fabric, where permitted; a wish */
};

/* `recommended` is 0 (minimum) or 1. */
acre_status acre__step_granularity(acre_device *dev, uint32_t flags, int recommended,
                                   size_t *bytes);

/* `bytes` is a multiple of the granularity. What only is a wish and is not permitted is left out;
 * *granted is what it became. */
acre_status acre__step_create(acre_device *dev, size_t bytes, uint32_t flags,
                              CUmemGenericAllocationHandle *handle, uint32_t *granted);
acre_status acre__step_release(acre_device *dev, CUmemGenericAllocationHandle handle);

acre_status acre__step_export(acre_device *dev, CUmemGenericAllocationHandle handle, int *fd);
acre_status acre__step_import(acre_device *dev, int fd, CUmemGenericAllocationHandle *handle);

/* `hint` 0: anywhere. The address may be another than the hint. */
acre_status acre__step_reserve(acre_device *dev, size_t bytes, size_t alignment, uint64_t hint,
                               uint64_t *address);
acre_status acre__step_address_free(acre_device *dev, uint64_t address, size_t bytes);

/* The whole chunk. */
acre_status acre__step_map(acre_device *dev, uint64_t address, size_t bytes,
                           CUmemGenericAllocationHandle handle);
/* Whole mappings. The caller has waited for every use of them. */
acre_status acre__step_unmap(acre_device *dev, uint64_t address, size_t bytes);

acre_status acre__step_access(acre_device *dev, uint64_t address, size_t bytes,
                              const CUmemAccessDesc *access, size_t count);
acre_status acre__step_access_get(acre_device *dev, uint64_t address, const CUmemLocation *location,
                                  unsigned long long *flags);

/* Where chunks of these flags live. */
CUmemLocation acre__step_location(const acre_device *dev, uint32_t flags);

/* Waits for all work queued on the device, as cudaFree does, and unlike cuCtxSynchronize without
 * breaking a capture that is under way. */
acre_status acre__step_quiesce(acre_device *dev);
/* The same, and for devices whose work may use this one's memory (acre__device_note_user). */
acre_status acre__step_quiesce_users(acre_device *dev);

#endif
