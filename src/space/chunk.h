/* The chunk store: physical memory of a device, by the chunk.
 *
 * A chunk is any multiple of the granularity and cannot be split, so memory is covered with few of
 * them. Chunks that nobody maps any more are kept, up to ACRE_CHUNK_CACHE_BYTES, for who wants one
 * of exactly that size and sort; they go when memory runs short, at trim and at close. All chunks
 * of a device together stay within ACRE_CHUNK_LIMIT_BYTES.
 *
 * Threads: any; one lock per device, held for the lists only. */
#ifndef ACRE_SPACE_CHUNK_H
#define ACRE_SPACE_CHUNK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "device/device.h"
#include "device/limbo.h"
#include "space/steps.h"

struct acre__chunk {
    struct acre__limbo_item item; /* waits for its release */
    struct acre__chunk *next;     /* in the list that has it: the cache's, or its holder's */
    acre_device *dev;
    CUmemGenericAllocationHandle handle;
    uint64_t id; /* no other chunk of the process has or had it */
    size_t bytes;
    uint32_t flags;            /* ACRE__CHUNK_*, as granted */
    uint32_t wanted;           /* ACRE__CHUNK_*, as asked for: what the cache goes by */
    _Atomic uint32_t users;    /* holders and mappings */
    _Atomic uint32_t is_alone; /* exported or imported: never cached */
};

/* Bytes of a device's chunks: the granularity, 0 where the device has no memory by hand or
 * ACRE_VMM=off. With ACRE__CHUNK_HOST: of host chunks, 0 where they cannot be had (tried until one
 * could). */
size_t acre__chunk_unit(acre_device *dev, uint32_t flags);

/* One chunk of exactly `bytes` (a multiple of the unit), with one user: cached, else created. When
 * the device has no memory left the cache is given back first. ACRE_E_DEVICE_MEMORY,
 * ACRE_E_HOST_MEMORY, ACRE_E_LIMIT, each with the wanted and the available bytes in the detail. */
acre_status acre__chunk_take(acre_device *dev, size_t bytes, uint32_t flags,
                             struct acre__chunk **chunk);

/* Chunks of `bytes` together, as few as possible and none but the last smaller than `least`, linked
 * by `next` in the order in which they are to be mapped, the largest first. All of them or none;
 * where the device does not have that much, none is created in between. */
acre_status acre__chunk_cover(acre_device *dev, size_t bytes, size_t least, uint32_t flags,
                              struct acre__chunk **list);

/* Another process's chunk, of which `bytes` are expected; the descriptor stays the caller's. */
acre_status acre__chunk_import(acre_device *dev, int fd, size_t bytes, uint32_t flags,
                               struct acre__chunk **chunk);

/* A descriptor for another process, the caller's to close; the chunk is never cached again. */
acre_status acre__chunk_export(struct acre__chunk *chunk, int *fd);

/* One user more, one less. Without users it is cached or released; what the driver refuses to take
 * goes to limbo. */
void acre__chunk_keep(struct acre__chunk *chunk);
void acre__chunk_drop(struct acre__chunk *chunk);
/* The same for all chunks linked by `next`. */
void acre__chunk_drop_list(struct acre__chunk *list);

/* Gives all cached chunks of the device back. 1 if there were any. */
int acre__chunk_trim(acre_device *dev);

/* The device ends: nothing is cached any more. */
void acre__chunk_end(acre_device *dev);

/* For invariants in tests: chunks that exist, cached ones included, and their bytes. */
void acre__chunk_count(acre_device *dev, uint64_t *count, uint64_t *bytes, uint64_t *cached_bytes);

#endif
