/* Virtual memory by hand. Part of acre.h. */
#ifndef ACRE_VM_H
#define ACRE_VM_H

#include "mem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The driver's virtual memory calls, with checks: reserve addresses, create chunks of physical
 * memory, map chunks to the addresses, and set access. The rest of acre uses the same calls. Use
 * these if the rest of acre does not offer what you need.
 *
 * Only acre_vm_unmap_sync waits for queued work: do not unmap memory that work still uses. A call
 * that the driver refuses changes nothing and can be repeated. The last close of a device undoes
 * everything that is left. */
typedef struct acre_vm_chunk acre_vm_chunk;

#define ACRE_VM_HOST 1u      /* host memory instead of device memory */
#define ACRE_VM_SHAREABLE 2u /* can be exported as a file descriptor */
#define ACRE_VM_RDMA 4u      /* other PCI devices can access it, if the device supports that */

/* Gets the granularity: sizes of chunks and addresses of mappings are multiples of it.
 * `recommended` may be NULL.
 * Returns ACRE_E_UNSUPPORTED if the device has no virtual memory management, or none with these
 * flags. */
ACRE_API acre_status acre_vm_granularity(acre_device *device, uint32_t flags, size_t *minimum,
                                         size_t *recommended);

/* Creates a chunk of physical memory of `bytes`, rounded up to the granularity. *real_bytes, which
 * may be NULL, is the rounded size. acre_vm_release releases the chunk. */
ACRE_API acre_status acre_vm_create(acre_device *device, size_t bytes, uint32_t flags,
                                    acre_vm_chunk **chunk, size_t *real_bytes);

/* Exports a chunk as a file descriptor, which the caller closes. After a failure *fd is -1.
 * Returns ACRE_E_KIND if the chunk was not created with ACRE_VM_SHAREABLE. */
ACRE_API acre_status acre_vm_export(acre_device *device, acre_vm_chunk *chunk, int *fd);

/* Creates a chunk from a file descriptor that another process exported. The caller still owns the
 * descriptor. The driver does not report the size of a chunk: `bytes` must be the rounded size,
 * which acre_vm_create returned in *real_bytes to the exporting process. */
ACRE_API acre_status acre_vm_import(acre_device *device, int fd, size_t bytes,
                                    acre_vm_chunk **chunk);

/* Releases a chunk's handle. NULL is a no-op. The driver frees the memory when it is mapped
 * nowhere. */
ACRE_API acre_status acre_vm_release(acre_device *device, acre_vm_chunk *chunk);

/* Reserves addresses without memory. `bytes` is rounded up to the granularity; *real_bytes, which
 * may be NULL, is the rounded size. `alignment` is 0 or a power of two. `hint`, which may be NULL,
 * is the preferred first address; the driver may choose another one. */
ACRE_API acre_status acre_vm_reserve(acre_device *device, size_t bytes, size_t alignment,
                                     void *hint, void **address, size_t *real_bytes);

/* Frees a whole reservation by its first address. NULL is a no-op.
 * Returns ACRE_E_BUSY while something is mapped there, ACRE_E_INTERIOR, ACRE_E_POINTER (not
 * reserved). */
ACRE_API acre_status acre_vm_address_free(acre_device *device, void *address);

/* Maps a whole chunk inside a reservation. A chunk can be mapped at several addresses. No device
 * has access to the mapping before acre_vm_set_access.
 * Returns ACRE_E_RANGE (not entirely inside a reservation), ACRE_E_BUSY (something is mapped
 * there), ACRE_E_INVALID (the address is not a multiple of the granularity). */
ACRE_API acre_status acre_vm_map(acre_device *device, void *address, acre_vm_chunk *chunk);

/* Unmaps one or more whole mappings that follow each other from `address` on.
 * Returns ACRE_E_INTERIOR if the range contains only a part of a mapping, ACRE_E_POINTER where
 * nothing is mapped. */
ACRE_API acre_status acre_vm_unmap(acre_device *device, void *address, size_t bytes);

/* As acre_vm_unmap, after a wait for all work queued on the device and on devices that have access
 * to its memory. Captures are not disturbed; a captured graph that uses the memory must not run
 * afterwards. */
ACRE_API acre_status acre_vm_unmap_sync(acre_device *device, void *address, size_t bytes);

/* Gives `peer`, or the host if `peer` is NULL, access to one or more whole mappings, or takes it
 * away.
 * Returns the errors of acre_vm_unmap; ACRE_E_KIND if `peer` is NULL and the mapping is device
 * memory. */
ACRE_API acre_status acre_vm_set_access(acre_device *device, void *address, size_t bytes,
                                        acre_device *peer, acre_access access);

/* Gets the access that `peer`, or the host if `peer` is NULL, has to the mapping at `address`. */
ACRE_API acre_status acre_vm_get_access(acre_device *device, const void *address, acre_device *peer,
                                        acre_access *access);

#ifdef __cplusplus
}
#endif

#endif
