/* Which slab an address is in: a table by units of 2 MiB, in two levels, read without a lock.
 *
 * A leaf stays for the process's life. Whoever frees a block has it, so its slab cannot go
 * meanwhile; an address that is nobody's finds NULL or a slab in which no slot is live. */
#include <stdlib.h>

#include "base/atomic.h"
#include "pool/pool.h"

enum { TABLE_ROOT_BITS = 15, TABLE_LEAF_BITS = 12, TABLE_UNIT_BITS = 21 }; /* 48 bits of address */

struct table_leaf {
    _Atomic(struct acre__slab *) slabs[1 << TABLE_LEAF_BITS];
};

static _Atomic(struct table_leaf *) root[1 << TABLE_ROOT_BITS];

struct acre__slab *acre__pool_table_find(const void *p) {
    uint64_t unit = (uintptr_t)p >> TABLE_UNIT_BITS;
    if (unit >> (TABLE_ROOT_BITS + TABLE_LEAF_BITS))
        return NULL;
    struct table_leaf *leaf =
        atomic_load_explicit(&root[unit >> TABLE_LEAF_BITS], memory_order_acquire);
    if (!leaf)
        return NULL;
    return atomic_load_explicit(&leaf->slabs[unit & ((1 << TABLE_LEAF_BITS) - 1)],
                                memory_order_acquire);
}

/* The leaf of a unit, made now if there is none. */
static struct table_leaf *table_leaf(uint64_t unit) {
    _Atomic(struct table_leaf *) *at = &root[unit >> TABLE_LEAF_BITS];
    struct table_leaf *leaf = atomic_load_explicit(at, memory_order_acquire), *none = NULL;
    if (leaf)
        return leaf;
    leaf = calloc(1, sizeof *leaf);
    if (!leaf)
        return NULL;
    if (atomic_compare_exchange_strong_explicit(at, &none, leaf, memory_order_acq_rel,
                                                memory_order_acquire))
        return leaf;
    free(leaf);
    return none;
}

static void table_set(struct acre__slab *slab, struct acre__slab *value) {
    uint64_t first = slab->at >> TABLE_UNIT_BITS, count = slab->bytes >> TABLE_UNIT_BITS;
    for (uint64_t unit = first; unit < first + count; unit++)
        atomic_store_explicit(&table_leaf(unit)->slabs[unit & ((1 << TABLE_LEAF_BITS) - 1)], value,
                              memory_order_release);
}

int acre__pool_table_add(struct acre__slab *slab) {
    uint64_t first = slab->at >> TABLE_UNIT_BITS, count = slab->bytes >> TABLE_UNIT_BITS;
    if ((first + count - 1) >> (TABLE_ROOT_BITS + TABLE_LEAF_BITS))
        return 0;
    for (uint64_t unit = first; unit < first + count; unit++)
        if (!table_leaf(unit))
            return 0;
    table_set(slab, slab);
    return 1;
}

void acre__pool_table_remove(struct acre__slab *slab) {
    table_set(slab, NULL);
}
