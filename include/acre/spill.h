/* Spillable blocks: more memory than the device has. Part of acre.h. */
#ifndef ACRE_SPILL_H
#define ACRE_SPILL_H

#include "pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A spillable block of a pool may leave the device when an allocation would otherwise fail: its
 * contents move to host memory, its physical memory serves the allocation, and its address stays.
 * acre_bring brings it back. Nothing happens on a page fault: a kernel that touches a block that is
 * away fails, and acre_copy returns ACRE_E_SUSPENDED.
 *
 * So a program calls acre_bring before the work that uses a block, and acre_bring_end after it has
 * queued that work. Between the two calls, the block does not leave. Both are cheap if the block is
 * on the device.
 *
 * Blocks leave in the order of their last acre_bring_end or allocation, as many as are needed. The
 * allocation that makes them leave waits for all work of the device, and for the copies. The pool's
 * statistics count both. */

/* Allocates a spillable block. Sizes are rounded up to the device's granularity, usually 2 MiB;
 * smaller blocks are ordinary blocks, which do not leave. acre_free and acre_pool_free free it,
 * also while it is away. acre_pool_realloc does not accept it. Tags do not apply to it. Returns as
 * acre_pool_alloc; ACRE_E_KIND if the pool does not have device memory, ACRE_E_UNSUPPORTED on
 * devices that cannot map memory, ACRE_E_CAPTURING while `stream` is captured. */
ACRE_API acre_status acre_pool_alloc_spillable(acre_pool *pool, size_t bytes, acre_stream stream,
                                               void **p);

/* Brings a block back, if it is away: work queued on `stream` from now on may use it. It then stays
 * until acre_bring_end; calls nest. A block that is not spillable is always there. If the device is
 * full, other spillable blocks leave.
 * Returns ACRE_E_DEVICE_MEMORY or ACRE_E_LIMIT if not enough of them can; the block is away then.
 * ACRE_E_POINTER, ACRE_E_SUSPENDED, ACRE_E_CAPTURING while `stream` is captured. */
ACRE_API acre_status acre_bring(void *p, acre_stream stream);

/* Ends an acre_bring: the block may leave again when the work queued on `stream` so far is done.
 * Returns ACRE_E_INVALID without acre_bring, ACRE_E_POINTER. */
ACRE_API acre_status acre_bring_end(void *p, acre_stream stream);

#ifdef __cplusplus
}
#endif

#endif
