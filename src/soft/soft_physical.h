/* Physical memory (soft_physical.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_PHYSICAL_H
#define ACRE_SOFT_PHYSICAL_H

#include "soft/soft_types.h"

enum { SOFT_RUN_BYTES = 64 << 10 }; /* a multiple of every page size */

/* Creates the device's file, once. */
CUresult acre__soft_device_start(struct soft_device *device);
/* Frees the device's file. Nothing may use it any more. */
void acre__soft_device_forget(struct soft_device *device);

/* Allocates a chunk of device memory, refs = 1. Returns CUDA_ERROR_OUT_OF_MEMORY if it does not
 * fit. */
CUresult acre__soft_backing_create(struct soft_device *device, size_t bytes,
                                   struct soft_backing **out);
/* Allocates a host chunk with its own memfd. */
CUresult acre__soft_backing_create_host(struct soft_device *device, size_t bytes,
                                        struct soft_backing **out);
/* Creates the memory of a pool that other processes may import from: its own file with the pool's
 * maximum size. The pool counts the bytes that are charged to the device. */
CUresult acre__soft_backing_create_shared(struct soft_device *device, size_t bytes,
                                          struct soft_backing **out);
/* Creates a backing for existing host bytes. */
CUresult acre__soft_backing_wrap(int device, void *bytes_at, size_t bytes,
                                 struct soft_backing **out);
/* Moves the chunk to its own memfd, once. No operation may run meanwhile, because the bytes
 * move. */
CUresult acre__soft_backing_to_fd(struct soft_backing *backing);
/* Returns the chunk behind a descriptor that a soft driver exported, with one more reference. The
 * caller keeps the descriptor. Recognises a chunk of this process, so that it has one set of
 * clocks. */
CUresult acre__soft_backing_from_fd(int fd, struct soft_backing **out);
/* Does what acre__soft_backing_from_fd does, for the memory of a pool. */
CUresult acre__soft_backing_from_pool_fd(int fd, struct soft_backing **out);
/* Returns 1 if the bytes are in a file of the soft driver's, not in pages of the program. */
int acre__soft_backing_has_file(const struct soft_backing *backing);
/* Looks at the bytes from `offset` on. *is_zero is 1 if the first have no memory and read as zeros;
 * returns how many, at most `bytes`. Else returns how many to copy before the next look. Needs a
 * reference, not the lock. */
size_t acre__soft_backing_run(const struct soft_backing *backing, size_t offset, size_t bytes,
                              int *is_zero);
/* Writes to a chunk, also from its own bytes. Needs a reference, not the lock. */
void acre__soft_backing_write(const struct soft_backing *backing, size_t offset, const char *from,
                              size_t bytes);
void acre__soft_backing_keep(struct soft_backing *backing);
void acre__soft_backing_drop(struct soft_backing *backing);

#endif
