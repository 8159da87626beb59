/* Ranges and mappings, and which bytes an address means (soft_range.c). Guarded by acre__soft.lock.
 */
#ifndef ACRE_SOFT_RANGE_H
#define ACRE_SOFT_RANGE_H

#include "soft/soft_types.h"

/* A range of that kind, with the reference to its backing; on failure the caller still has that. */
CUresult acre__soft_range_add(enum soft_range_kind kind, uint64_t address, size_t bytes, int device,
                              struct soft_backing *backing, size_t offset, struct soft_range **out);
/* Gives back what stands behind it, too. */
void acre__soft_range_remove(struct soft_range *range);
void acre__soft_mapping_remove(struct soft_mapping *mapping);
/* Was access to it given to anyone? */
int acre__soft_mapping_is_open(const struct soft_mapping *mapping);

/* Appends where [address, address + bytes) lies. INVALID_VALUE when it is not all inside one
 * range and mapped with the access that `device` needs. */
CUresult acre__soft_range_resolve(uint64_t address, size_t bytes, int device, int is_write,
                                  struct soft_pieces *pieces);
/* acre__soft_range_resolve when the operation runs: memory of a pool may have been freed meanwhile,
 * on another place in the same order. */
CUresult acre__soft_range_resolve_late(uint64_t address, size_t bytes, int device, int is_write,
                                       struct soft_pieces *pieces);
void acre__soft_pieces_free(struct soft_pieces *pieces);

#endif
