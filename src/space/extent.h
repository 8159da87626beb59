/* An extent: an address range whose first part has memory.
 *
 * Vecs, large blocks and imports consist of extents. Memory is added and removed at the end, in
 * whole chunks. When the address range is too small, all chunks are mapped at another range and
 * then unmapped at the old one. Growing and moving happen entirely or not at all; shrinking stops
 * at the first chunk that the driver refuses to unmap. The record always matches the actual state:
 * a mapping that the driver refuses to undo leaves the extent together with its addresses and waits
 * in limbo.
 *
 * An extent does not track uses of its memory: the caller waits for them before it unmaps or moves
 * memory.
 *
 * Threads: the caller serialises changes. `lock` is held while the record changes, so that other
 * threads (share) may read the record under the lock. */
#ifndef ACRE_SPACE_EXTENT_H
#define ACRE_SPACE_EXTENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "base/lock.h"
#include "space/chunk.h"
#include "space/mapping.h"
#include "space/range.h"

enum { ACRE__EXTENT_DEVICES = 16 }; /* devices whose access can be set: the owner and its peers */

struct acre__extent {
    acre_device *dev;
    uint32_t flags; /* ACRE__CHUNK_* of its chunks */
    size_t unit;    /* size unit of its chunks */
    size_t least;   /* smallest chunk, in bytes */
    struct acre__lock lock;
    struct acre__range range; /* both 0: no addresses */
    size_t mapped;            /* bytes that have memory, from the start of the range */
    struct acre__mapping **mappings;
    size_t count, room; /* mappings in use, and room for them */
    CUmemAccessDesc access[ACRE__EXTENT_DEVICES];
    size_t access_count;
    /* For shares, set by the owner: bytes in use, and the size of an element. */
    _Atomic uint64_t used_bytes;
    _Atomic uint64_t element_bytes;
};

/* Opens an empty extent with `reserve` bytes of addresses (rounded up; 0: none yet). `flags` are
 * ACRE__CHUNK_*; `least` is rounded up to the unit. Returns ACRE_E_UNSUPPORTED where
 * acre__chunk_unit is 0. */
acre_status acre__extent_open(struct acre__extent *extent, acre_device *dev, uint32_t flags,
                              size_t reserve, size_t alignment, size_t least);

/* Adds memory until `bytes` have it, rounded up to the unit and adding at least `least`. The
 * addresses must reach that far. Never waits. */
acre_status acre__extent_grow(struct acre__extent *extent, size_t bytes);

/* Adds chunks, linked by `next`, at the end and takes over one user of each. After a failure the
 * chunks have been dropped. */
acre_status acre__extent_add(struct acre__extent *extent, struct acre__chunk *list);

/* Allocates chunks of `bytes` together, a multiple of the unit, and adds them. */
acre_status acre__extent_more(struct acre__extent *extent, size_t bytes);

/* Returns the chunks of the mappings `first` .. `end` - 1, each with one more user, linked in front
 * of `rest`. A mapped chunk is in no other list. */
struct acre__chunk *acre__extent_chunks(const struct acre__extent *extent, size_t first, size_t end,
                                        struct acre__chunk *rest);

/* Removes the chunks that lie entirely behind `bytes`, the last first. Stops at a chunk that the
 * driver refuses to unmap. The caller has waited for their uses. Returns the number of bytes
 * removed. */
size_t acre__extent_shrink(struct acre__extent *extent, size_t bytes);

/* Extends the addresses in place to `bytes`. Returns 1, or 0 if the addresses behind are not
 * free. */
int acre__extent_extend(struct acre__extent *extent, size_t bytes);

/* Releases the addresses behind `bytes` (rounded up) and behind the memory. */
void acre__extent_trim_addresses(struct acre__extent *extent, size_t bytes);

/* The mappings at the old address of an extent that moved. */
struct acre__moved {
    acre_device *dev;
    struct acre__range range;
    struct acre__mapping **mappings;
    size_t count;
};

/* Maps all chunks at a second range of `reserve` bytes of addresses, which becomes the extent's
 * range. Both ranges are valid until acre__extent_move_end; the caller waits for the uses of the
 * old one before it. */
acre_status acre__extent_move_begin(struct acre__extent *extent, size_t reserve,
                                    struct acre__moved *moved);
void acre__extent_move_end(struct acre__moved *moved);

/* Sets the access of a device (the owner or a peer of the same driver) to all memory of the extent,
 * present and future. Returns ACRE_E_UNSUPPORTED if the device cannot access it, ACRE_E_LIMIT for
 * more than 16 devices. */
acre_status acre__extent_set_access(struct acre__extent *extent, const acre_device *peer,
                                    unsigned access);

/* 1 if the device has at least read access. */
int acre__extent_has_access(struct acre__extent *extent, const acre_device *dev);

/* Releases all memory and addresses. The caller has waited for the uses. Never fails. */
void acre__extent_close(struct acre__extent *extent);

/* Allocate and open, close and free an extent, with default alignment and chunk size. *extent is
 * NULL after a failure. Destroying NULL is a no-op. */
acre_status acre__extent_create(acre_device *dev, uint32_t flags, size_t reserve,
                                struct acre__extent **extent);
void acre__extent_destroy(struct acre__extent *extent);

#endif
