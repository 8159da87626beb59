/* Declarations that the files of src/mem share. */
#ifndef ACRE_MEM_BLOCK_H
#define ACRE_MEM_BLOCK_H

#include "acre.h"
#include "device/device.h"
#include "space/book.h"

/* Checks the device and registers the device hooks of src/mem. */
acre_status acre__mem_enter(acre_device *dev);

/* acre_mem_alloc for callers that hold locks: does not make pools release memory. */
acre_status acre__mem_alloc(acre_device *device, acre_kind kind, size_t bytes, uint32_t flags,
                            void **p);

/* ACRE_E_HANDLE if the block belongs to a device of another driver. */
acre_status acre__mem_check_driver(const acre_device *dev, const void *p,
                                   const acre_mem_info *info);

/* Returns ACRE_E_DEVICE_MEMORY or ACRE_E_HOST_MEMORY for a size that no memory of the kind can
 * have. */
acre_status acre__mem_check_size(acre_device *dev, acre_kind kind, size_t bytes);

/* ---- blocks made of chunks (mem_space.c) ---- */

/* 1 if a block of device memory of that size is made of chunks. */
int acre__mem_space_serves(acre_device *dev, size_t bytes);

/* Allocates chunks for at least `bytes` at addresses with room to grow. */
acre_status acre__mem_space_make(acre_device *dev, size_t bytes, struct acre__extent **extent);

#endif
