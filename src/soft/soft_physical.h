/* Physical memory (soft_physical.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_PHYSICAL_H
#define ACRE_SOFT_PHYSICAL_H

#include "soft/soft_types.h"

/* Makes the device's file, once. */
CUresult acre__soft_device_start(struct soft_device *device);
/* Drops the device's file, which nothing may use any more. */
void acre__soft_device_forget(struct soft_device *device);

/* A new chunk of device memory, refs = 1. CUDA_ERROR_OUT_OF_MEMORY when it does not fit. */
CUresult acre__soft_backing_create(struct soft_device *device, size_t bytes,
                                   struct soft_backing **out);
/* A new host chunk with a memfd of its own. */
CUresult acre__soft_backing_create_host(struct soft_device *device, size_t bytes,
                                        struct soft_backing **out);
/* The memory of a pool that other processes may import from: a file of its own, of all the bytes
 * that it may ever have. What of it counts against the device is the pool's business. */
CUresult acre__soft_backing_create_shared(struct soft_device *device, size_t bytes,
                                          struct soft_backing **out);
/* Bytes that are there already. */
CUresult acre__soft_backing_wrap(int device, void *bytes_at, size_t bytes,
                                 struct soft_backing **out);
/* Gives the chunk a memfd of its own, once. No operation may run: the bytes move. */
CUresult acre__soft_backing_to_fd(struct soft_backing *backing);
/* The chunk behind a descriptor that a soft driver exported, with one more reference; the
 * descriptor stays the caller's. A chunk of this process is recognised, so that it has one set of
 * clocks. */
CUresult acre__soft_backing_from_fd(int fd, struct soft_backing **out);
/* acre__soft_backing_from_fd for the memory of a pool. */
CUresult acre__soft_backing_from_pool_fd(int fd, struct soft_backing **out);
void acre__soft_backing_keep(struct soft_backing *backing);
void acre__soft_backing_drop(struct soft_backing *backing);

#endif
