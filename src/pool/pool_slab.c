/* Slabs of small blocks: pieces of an arena, divided into slots of one class.
 *
 * A slab that is fully free is *idle*. The pool keeps idle slabs for their class until it needs
 * memory. Then it destroys them, and their memory becomes a hole again, for the stream that freed
 * it or for all. A double free may read a slab that is being destroyed, so the record stays until
 * every thread has left its cache (acre__slabs_reap). */
#include <stdlib.h>

#include "base/round.h"
#include "pool/pool.h"

/* ---- records ---- */

struct acre__slab *acre__slab_record(uint64_t at, size_t bytes, size_t slot_bytes, size_t count) {
    struct acre__slab *slab;
    uint32_t shift = count > 1 ? acre__class_state_shift(acre__class_of(slot_bytes)) : 0;
    size_t states_bytes = acre__round_up((count << shift) * sizeof slab->states[0], ACRE__LINE);
    slab = acre__pool_lines(sizeof *slab + states_bytes + count * sizeof *slab->slots);
    if (!slab)
        return NULL;
    uint64_t slot_grains = slot_bytes / ACRE__GRAIN;
    slab->at = at;
    slab->magic = count > 1 ? (((uint64_t)1 << 32) + slot_grains - 1) / slot_grains : 0;
    slab->slot_bytes = slot_bytes;
    slab->count = (uint32_t)count;
    slab->slots = (struct acre__slot *)((char *)slab->states + states_bytes);
    slab->bytes = bytes;
    slab->state_shift = shift;
    for (uint32_t i = 0; i < count; i++) /* set here, because lookups by address take no lock */
        slab->slots[i].state = acre__slab_state_at(slab, i);
    return slab;
}

void acre__slab_drop(struct acre__slab *slab) {
    _Atomic uint16_t *tags = slab ? acre__load(&slab->tags, memory_order_relaxed) : NULL;
    if (tags && tags != &slab->one_tag)
        free((void *)tags);
    free(slab);
}

void acre__slabs_reap(acre_pool *pool) {
    while (pool->retired) {
        struct acre__slab *next = pool->retired->next;
        acre__slab_drop(pool->retired);
        pool->retired = next;
    }
    pool->retired_bytes = 0;
}

/* ---- free slots ---- */

static uint32_t slab_free_count(const struct acre__slab *slab) {
    uint32_t count = slab->count - slab->fresh + slab->ready.count;
    for (int i = 0; i < ACRE__SHARES; i++)
        count += slab->shares[i].slots.count;
    return count;
}

void acre__slab_unidle(acre_pool *pool, struct acre__slab *slab) {
    if (slab->newer)
        slab->newer->older = slab->older;
    else
        pool->idle = slab->older;
    if (slab->older)
        slab->older->newer = slab->newer;
    slab->is_idle = 0;
}

static void idle_add(acre_pool *pool, struct acre__slab *slab) {
    slab->newer = NULL;
    slab->older = pool->idle;
    if (pool->idle)
        pool->idle->newer = slab;
    pool->idle = slab;
    slab->is_idle = 1;
}

void acre__slab_note(struct acre__slab *slab) {
    acre_pool *pool = slab->pool;
    int is_open = slab->ready.count || slab->fresh < slab->count;
    int is_idle = slab_free_count(slab) == slab->count;
    if (is_open && !slab->is_open)
        acre__tree_insert(&pool->open[slab->size_class], &slab->node);
    else if (!is_open && slab->is_open)
        acre__tree_remove(&pool->open[slab->size_class], &slab->node);
    slab->is_open = is_open;
    if (is_idle && !slab->is_idle)
        idle_add(pool, slab);
    else if (!is_idle && slab->is_idle)
        acre__slab_unidle(pool, slab);
}

struct acre__slot *acre__slab_fresh(struct acre__slab *slab) {
    uint32_t index = slab->fresh++;
    struct acre__slot *slot = &slab->slots[index];
    slot->p = (void *)(uintptr_t)(slab->at + index * slab->slot_bytes);
    return slot;
}

/* ---- finding ---- */

/* The table may return a slab of another pool, which can be destroyed at any time. So this reads
 * only slabs in this pool's regions. The table finds a large block only by its first unit, hence
 * the tree. */
struct acre__slab *acre__slab_of(const acre_pool *pool, const void *p) {
    uint64_t at = (uintptr_t)p;
    if (!acre__arena_has(&pool->slabs_in, at) && !acre__arena_has(&pool->blocks_in, at))
        return NULL;
    struct acre__slab *slab = acre__pool_table_find(p);
    if (!slab || at < slab->at || acre__slab_is_large(slab))
        slab = acre__tree_entry(acre__tree_floor(&pool->large, at), struct acre__slab, node);
    return slab && at - slab->at < slab->bytes ? slab : NULL;
}

void acre__slabs_walk(const acre_pool *pool, void (*fn)(void *user, struct acre__piece *piece),
                      void *user) {
    acre__arena_walk(&pool->slabs_in, fn, user);
    acre__arena_walk(&pool->blocks_in, fn, user);
}

/* ---- large blocks ---- */

void acre__large_unrecord(acre_pool *pool, struct acre__slab *slab) {
    slab->next = pool->spare;
    pool->spare = slab;
}

void acre__large_give(acre_pool *pool, struct acre__slab *slab, const struct acre__reach *to) {
    acre__pool_table_remove(slab);
    acre__tree_remove(&pool->large, &slab->node);
    acre__arena_give(slab->piece, to);
    acre__large_unrecord(pool, slab);
}
