/* Updates of the table of slabs (pool_table.h). Pools add their slabs concurrently, each under its
 * own lock. The first thread that needs a leaf creates it. */
#include "pool/pool_table.h"

#include <stdlib.h>

#include "pool/pool.h"

_Atomic(struct acre__table_leaf *) acre__pool_table_root[1 << ACRE__TABLE_ROOT_BITS];

/* Finds or creates the leaf of a unit; NULL if out of host memory. */
static struct acre__table_leaf *table_leaf(uint64_t unit) {
    _Atomic(struct acre__table_leaf *) *at = &acre__pool_table_root[unit >> ACRE__TABLE_LEAF_BITS];
    struct acre__table_leaf *leaf = atomic_load_explicit(at, memory_order_acquire), *none = NULL;
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

/* No two blocks begin in one unit, so a large block needs only its first unit. */
static void table_set(const struct acre__slab *slab, struct acre__slab *value) {
    uint64_t first = slab->at >> ACRE__TABLE_UNIT_BITS;
    uint64_t count = acre__slab_is_large(slab) ? 1 : slab->bytes >> ACRE__TABLE_UNIT_BITS;
    for (uint64_t unit = first; unit < first + count; unit++)
        atomic_store_explicit(&table_leaf(unit)->slabs[unit & ((1 << ACRE__TABLE_LEAF_BITS) - 1)],
                              value, memory_order_release);
}

int acre__pool_table_prepare(uint64_t at, uint64_t end) {
    uint64_t first = at >> ACRE__TABLE_UNIT_BITS, last = (end - 1) >> ACRE__TABLE_UNIT_BITS;
    if (last >> (ACRE__TABLE_ROOT_BITS + ACRE__TABLE_LEAF_BITS))
        return 0;
    for (uint64_t unit = first; unit <= last; unit += (uint64_t)1 << ACRE__TABLE_LEAF_BITS)
        if (!table_leaf(unit))
            return 0;
    return table_leaf(last) != NULL;
}

void acre__pool_table_add(struct acre__slab *slab) {
    table_set(slab, slab);
}

void acre__pool_table_remove(struct acre__slab *slab) {
    table_set(slab, NULL);
}
