/* An extent: a range of addresses of which the first part has memory.
 *
 * What a vec, a large block and an import are made of. Memory is added and taken away at the end,
 * by whole chunks; when the addresses do not reach, all chunks are mapped at another range and then
 * unmapped at the old one. Every change happens whole or not at all, and the record always equals
 * the truth: what the driver refuses to undo leaves the extent together with its addresses and
 * waits in limbo.
 *
 * The extent does not know who uses its memory: who unmaps or moves waits for that first.
 *
 * Threads: a change is the caller's to guard; `lock` is held while the record changes, so that
 * others (share) may read it under the lock. */
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

enum { ACRE__EXTENT_DEVICES = 16 }; /* whose access can be set: the owner and its peers */

struct acre__extent {
    acre_device *dev;
    uint32_t flags; /* ACRE__CHUNK_* of its chunks */
    size_t unit;    /* of chunks */
    size_t least;   /* bytes of its chunks at least */
    struct acre__lock lock;
    struct acre__range range; /* both 0: no addresses, not yet or not any more */
    size_t mapped;            /* bytes that have memory, from the beginning on */
    struct acre__mapping **mappings;
    size_t count, room; /* of mappings */
    CUmemAccessDesc access[ACRE__EXTENT_DEVICES];
    size_t access_count;
    /* For who shares it: how much of it is in use, and in units of what; set by its owner. */
    _Atomic uint64_t used_bytes;
    _Atomic uint64_t element_bytes;
};

/* An empty extent that takes `reserve` bytes of addresses (rounded up; 0: none yet).
 * ACRE_E_UNSUPPORTED where acre__chunk_unit is 0. `flags` are ACRE__CHUNK_*; `least` is rounded up
 * to the unit. */
acre_status acre__extent_open(struct acre__extent *extent, acre_device *dev, uint32_t flags,
                              size_t reserve, size_t alignment, size_t least);

/* Adds memory until `bytes` (rounded up to the unit, and not below what `least` asks) have it. The
 * addresses must reach that far. Never waits. */
acre_status acre__extent_grow(struct acre__extent *extent, size_t bytes);

/* Adds these chunks, linked by `next`, at the end; takes over one user of each. After a failure
 * they have been dropped. */
acre_status acre__extent_add(struct acre__extent *extent, struct acre__chunk *list);

/* Takes chunks of `bytes`, a multiple of the unit, and adds them. */
acre_status acre__extent_more(struct acre__extent *extent, size_t bytes);

/* The chunks of the mappings `first` .. `end` - 1, each with one user more, linked in front of
 * `rest`. A mapped chunk is in no other list. */
struct acre__chunk *acre__extent_chunks(const struct acre__extent *extent, size_t first, size_t end,
                                        struct acre__chunk *rest);

/* Takes away all memory that lies wholly behind `bytes`, but for what the driver refuses to unmap
 * and what lies before that. The caller has waited for its uses. Returns the bytes that went. */
size_t acre__extent_shrink(struct acre__extent *extent, size_t bytes);

/* Makes the addresses reach `bytes` in place: 1, or 0 when those behind it are not free. */
int acre__extent_extend(struct acre__extent *extent, size_t bytes);

/* Gives the addresses behind `bytes` (rounded up), and behind the memory, back. */
void acre__extent_trim_addresses(struct acre__extent *extent, size_t bytes);

/* What is left at the old place of an extent that moved. */
struct acre__moved {
    acre_device *dev;
    struct acre__range range;
    struct acre__mapping **mappings;
    size_t count;
};

/* Maps all chunks at a range of `reserve` bytes of addresses as well, and makes that the extent's.
 * Both places are good until `end`, before which the caller waits for the uses of the old one. */
acre_status acre__extent_move_begin(struct acre__extent *extent, size_t reserve,
                                    struct acre__moved *moved);
void acre__extent_move_end(struct acre__moved *moved);

/* Access of a device (the owner or a peer of the same driver) to all of it, now and as it grows.
 * ACRE_E_UNSUPPORTED where the driver does not allow it, ACRE_E_LIMIT for more than 16 devices. */
acre_status acre__extent_set_access(struct acre__extent *extent, const acre_device *peer,
                                    unsigned access);

/* 1 if the device may read it at least. */
int acre__extent_has_access(struct acre__extent *extent, const acre_device *dev);

/* Gives all of it back. The caller has waited for its uses. Never fails. */
void acre__extent_close(struct acre__extent *extent);

/* The same with a record of its own, without wishes for alignment and size of chunks. NULL after a
 * failure, and to destroy it is a no-op. */
acre_status acre__extent_create(acre_device *dev, uint32_t flags, size_t reserve,
                                struct acre__extent **extent);
void acre__extent_destroy(struct acre__extent *extent);

#endif
