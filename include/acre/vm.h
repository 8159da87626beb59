/* Memory by hand. Part of acre.h. */
#ifndef ACRE_VM_H
#define ACRE_VM_H

#include "mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The driver's own steps, checked: addresses are reserved, chunks of physical memory created and
 * mapped there, and access is given. The rest of acre is made of the same steps; take these when it
 * does not have what you need.
 *
 * Nothing waits for queued work: memory is pulled from under work that still uses it. What is
 * refused changes nothing and may be tried again. A device that is closed undoes what is left. */
typedef struct acre_vm_chunk acre_vm_chunk;

#define ACRE_VM_HOST 1u      /* of the host's memory instead of the device's */
#define ACRE_VM_SHAREABLE 2u /* can be exported as a file descriptor */
#define ACRE_VM_RDMA 4u      /* other PCI devices should reach it */

/* What sizes and addresses are multiples of; `recommended` may be NULL. ACRE_E_UNSUPPORTED where
 * the device has no memory by hand, or not of that sort. */
ACRE_API acre_status acre_vm_granularity(acre_device *device, uint32_t flags, size_t *minimum,
                                         size_t *recommended);

/* Physical memory of at least `bytes`, rounded up; *real_bytes (may be NULL) is what it became. */
ACRE_API acre_status acre_vm_create(acre_device *device, size_t bytes, uint32_t flags,
                                    acre_vm_chunk **chunk, size_t *real_bytes);

/* A file descriptor for a chunk made with ACRE_VM_SHAREABLE, the caller's to close, and a chunk
 * from another process's descriptor, which stays the caller's. The driver does not tell the size:
 * `bytes` is what the owner said. ACRE_E_KIND for a chunk that was not made to be shared. */
ACRE_API acre_status acre_vm_export(acre_device *device, acre_vm_chunk *chunk, int *fd);
ACRE_API acre_status acre_vm_import(acre_device *device, int fd, size_t bytes,
                                    acre_vm_chunk **chunk);

/* Ends the handle; the memory goes when it is mapped nowhere any more. NULL is a no-op. */
ACRE_API acre_status acre_vm_release(acre_device *device, acre_vm_chunk *chunk);

/* Addresses without memory. `bytes` is rounded up to the granularity; `alignment` is 0 or a power
 * of two; `hint` (may be NULL) is where they should begin, and they may begin elsewhere.
 * *real_bytes (may be NULL) is how many there are. */
ACRE_API acre_status acre_vm_reserve(acre_device *device, size_t bytes, size_t alignment,
                                     void *hint, void **address, size_t *real_bytes);

/* Frees a whole reservation by its first address. NULL is a no-op. ACRE_E_BUSY while something
 * is mapped, ACRE_E_INTERIOR, ACRE_E_POINTER (not reserved). */
ACRE_API acre_status acre_vm_address_free(acre_device *device, void *address);

/* Maps a whole chunk inside a reservation; one chunk may be mapped at several places. Nobody has
 * access yet. ACRE_E_RANGE (not wholly inside a reservation), ACRE_E_BUSY (something is mapped
 * there), ACRE_E_INVALID (no multiple of the granularity). */
ACRE_API acre_status acre_vm_map(acre_device *device, void *address, acre_vm_chunk *chunk);

/* Unmaps whole mappings, one behind the other from `address` on. ACRE_E_INTERIOR when one would be
 * cut, ACRE_E_POINTER where there is none. */
ACRE_API acre_status acre_vm_unmap(acre_device *device, void *address, size_t bytes);

/* Gives `peer` (NULL: the host, which reaches host chunks alone) access to mappings, or takes it
 * away, and tells what it has. Whole mappings, as acre_vm_unmap; ACRE_E_KIND for the host and
 * device memory. */
ACRE_API acre_status acre_vm_set_access(acre_device *device, void *address, size_t bytes,
                                        acre_device *peer, acre_access access);
ACRE_API acre_status acre_vm_get_access(acre_device *device, const void *address, acre_device *peer,
                                        acre_access *access);

#ifdef __cplusplus
}
#endif

#endif
