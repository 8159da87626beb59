/* Finds the slab of an address: a two-level table by units of 64 KiB, read without a lock. A large
 * block is found by its first unit only.
 *
 * A leaf exists until the process exits. The thread that frees a live block owns it, so its slab
 * cannot be destroyed meanwhile. An address where no live block begins finds NULL, or a slab in
 * which no live slot begins there. */
#ifndef ACRE_POOL_TABLE_H
#define ACRE_POOL_TABLE_H

#include <stdint.h>

#include "base/atomic.h"

struct acre__slab;

enum { /* 48 bits of address */
       ACRE__TABLE_ROOT_BITS = 17,
       ACRE__TABLE_LEAF_BITS = 15,
       ACRE__TABLE_UNIT_BITS = 16
};

struct acre__table_leaf {
    _Atomic(struct acre__slab *) slabs[1 << ACRE__TABLE_LEAF_BITS];
};

/* Hidden visibility saves one load in every free. */
extern _Atomic(struct acre__table_leaf *) acre__pool_table_root[1 << ACRE__TABLE_ROOT_BITS]
    __attribute__((visibility("hidden")));

/* Returns the slab of an address; NULL if there is none. Any value is safe. */
static inline struct acre__slab *acre__pool_table_find(const void *p) {
    uint64_t unit = (uintptr_t)p >> ACRE__TABLE_UNIT_BITS;
    if (unit >> (ACRE__TABLE_ROOT_BITS + ACRE__TABLE_LEAF_BITS))
        return NULL;
    struct acre__table_leaf *leaf =
        acre__load_dependent(&acre__pool_table_root[unit >> ACRE__TABLE_LEAF_BITS]);
    if (!leaf)
        return NULL;
    return acre__load_dependent(&leaf->slabs[unit & ((1 << ACRE__TABLE_LEAF_BITS) - 1)]);
}

/* Allocates the leaves for slabs at these addresses. Returns 0 if out of host memory, or if an
 * address has more than 48 bits. */
int acre__pool_table_prepare(uint64_t at, uint64_t end);
/* Add or remove a slab for all its units, or a large block for its first unit. The caller has
 * prepared the addresses with acre__pool_table_prepare. */
void acre__pool_table_add(struct acre__slab *slab);
void acre__pool_table_remove(struct acre__slab *slab);

#endif
