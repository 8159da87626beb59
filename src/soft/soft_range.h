/* Ranges and mappings, and lookup of the bytes at an address (soft_range.c). Guarded by
 * acre__soft.lock. */
#ifndef ACRE_SOFT_RANGE_H
#define ACRE_SOFT_RANGE_H

#include "soft/soft_types.h"

/* Adds a range of that kind and takes over the reference to its backing; on failure the caller
 * keeps the reference. */
CUresult acre__soft_range_add(enum soft_range_kind kind, uint64_t address, size_t bytes, int device,
                              struct soft_backing *backing, size_t offset, struct soft_range **out);
/* Removes the range and releases its backing and its addresses. */
void acre__soft_range_remove(struct soft_range *range);
void acre__soft_mapping_remove(struct soft_mapping *mapping);
/* Returns 1 if any device or the host has access to the mapping. */
int acre__soft_mapping_is_open(const struct soft_mapping *mapping);

/* Appends the pieces at [address, address + bytes). Returns INVALID_VALUE unless one range contains
 * all of the addresses, or mappings cover all of them, with the access that `device` needs. */
CUresult acre__soft_range_resolve(uint64_t address, size_t bytes, int device, int is_write,
                                  struct soft_pieces *pieces);
/* Does what acre__soft_range_resolve does when the operation runs. Memory of a pool may have been
 * freed since the call, by a later call in the same order, so this accepts any part of a
 * segment. */
CUresult acre__soft_range_resolve_late(uint64_t address, size_t bytes, int device, int is_write,
                                       struct soft_pieces *pieces);
void acre__soft_pieces_free(struct soft_pieces *pieces);

#endif
