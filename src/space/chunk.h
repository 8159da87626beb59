/* The chunk store: physical memory of a device, allocated in chunks.
 *
 * A chunk is any multiple of the granularity and cannot be split, so memory is covered with few
 * chunks. The store caches unmapped chunks, up to ACRE_CHUNK_CACHE_BYTES, and reuses them for
 * requests of exactly the same size and flags. It releases cached chunks when memory runs short, at
 * trim and at close. All chunks of a device together stay within ACRE_CHUNK_LIMIT_BYTES; imported
 * chunks count but are not limited. Chunks of device memory also stay within the limits of the
 * device (device/held.h).
 *
 * Threads: any; one lock per device, held for the lists only. */
#ifndef ACRE_SPACE_CHUNK_H
#define ACRE_SPACE_CHUNK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "device/device.h"
#include "device/held.h"
#include "device/limbo.h"
#include "space/steps.h"

struct acre__chunk {
    struct acre__limbo_item item; /* for limbo, if the driver refuses to release it */
    struct acre__chunk *next;     /* link in the cache, or in a list of its holder */
    acre_device *dev;
    CUmemGenericAllocationHandle handle;
    uint64_t id; /* unique in the process, never reused */
    size_t bytes;
    uint32_t flags;             /* ACRE__CHUNK_* that the driver granted */
    uint32_t wanted;            /* ACRE__CHUNK_* requested; the cache matches these */
    _Atomic uint32_t users;     /* holders and mappings */
    _Atomic uint32_t is_alone;  /* 1: never cached: exported, imported, or kept long enough */
    _Atomic uint32_t is_shared; /* 1: exported or imported: other processes use it */
    int is_held;                /* 1: counted by acre__held_add */
    int is_staying;             /* for suspend_choose.c, inside a move */
    uint32_t is_waited;         /* while away: calls wait for it; changed in moves (mapped.h) */
    _Atomic uint32_t is_away;   /* 1: without a handle, see acre__chunk_leave */
};

/* Size unit of a device's chunks: the granularity; 0 if the device has no VMM or ACRE_VMM=off. With
 * ACRE__CHUNK_HOST: unit of host chunks, 0 while none can be created (retried on each call until
 * one could). */
size_t acre__chunk_unit(acre_device *dev, uint32_t flags);

/* Returns a chunk of exactly `bytes` (a multiple of the unit) with one user: from the cache, else
 * created. Out of memory, it releases the cache and retries once. Returns ACRE_E_DEVICE_MEMORY,
 * ACRE_E_HOST_MEMORY or ACRE_E_LIMIT, with the requested bytes in the detail, and for device memory
 * and the limit also the available bytes. */
acre_status acre__chunk_take(acre_device *dev, size_t bytes, uint32_t flags,
                             struct acre__chunk **chunk);

/* Returns chunks of `bytes` together: as few as possible, none but the last smaller than `least`.
 * They are linked by `next` in mapping order, the largest first. All or none: if the device does
 * not have that much free, it creates none. */
acre_status acre__chunk_cover(acre_device *dev, size_t bytes, size_t least, uint32_t flags,
                              struct acre__chunk **list);

/* For callers that serve memory which they hold: releases the cache if acre holds more than the
 * limit of the device, and then returns ACRE_E_DEVICE_MEMORY for a request of `bytes` if it still
 * does. */
acre_status acre__chunk_within_limit(acre_device *dev, uint64_t bytes);

/* For several chunks that are about to be created: returns ACRE_E_DEVICE_MEMORY if the device does
 * not have `bytes` for them all, so that none is created in vain. */
acre_status acre__chunk_check_room(acre_device *dev, uint64_t bytes);

/* Imports a chunk of another process, of `bytes` bytes. The caller keeps the descriptor. */
acre_status acre__chunk_import(acre_device *dev, int fd, size_t bytes, uint32_t flags,
                               struct acre__chunk **chunk);

/* Exports a chunk as a file descriptor, which the caller closes. The chunk is never cached
 * again. */
acre_status acre__chunk_export(struct acre__chunk *chunk, int *fd);

/* Add and remove a user. A chunk without users is cached or released; if the driver refuses the
 * release, the chunk goes to limbo. */
void acre__chunk_keep(struct acre__chunk *chunk);
void acre__chunk_drop(struct acre__chunk *chunk);
/* acre__chunk_drop for all chunks linked by `next`. */
void acre__chunk_drop_list(struct acre__chunk *list);

/* For suspending, inside a move (mapped.h). acre__chunk_leave releases the physical memory of a
 * chunk that is mapped nowhere, and keeps its record. If the driver refuses, the memory stays; this
 * is no failure. Returns the bytes released. acre__chunk_return gets physical memory again, if the
 * chunk has none. */
size_t acre__chunk_leave(struct acre__chunk *chunk);
acre_status acre__chunk_return(struct acre__chunk *chunk, enum acre__held_for why);
static inline int acre__chunk_is_away(struct acre__chunk *chunk) {
    return atomic_load_explicit(&chunk->is_away, memory_order_acquire) != 0;
}

/* Releases all cached chunks of the device. Returns 1 if there were any. */
int acre__chunk_trim(acre_device *dev);

/* For a device that is closing: releases the cache and caches nothing from now on. */
void acre__chunk_end(acre_device *dev);

/* For invariants in tests: number of existing chunks, cached ones included, and their bytes. */
void acre__chunk_count(acre_device *dev, uint64_t *count, uint64_t *bytes, uint64_t *cached_bytes);

#endif
