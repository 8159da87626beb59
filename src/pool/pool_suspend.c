/* Pools while memory is suspended: see pool_suspend.h. */
#include "pool/pool_suspend.h"

#include "base/atomic.h"
#include "pool/pool_list.h"
#include "pool/pool_tag.h"
#include "space/mapped.h"

/* Visits all pools of a device. */
struct visit {
    const acre_device *dev;
    void (*fn)(void *user, const struct acre__pool_live *);
    void *user;
};

static int visit_has(const struct visit *visit, const acre_pool *pool) {
    return pool->dev == visit->dev && pool->kind == ACRE_KIND_DEVICE;
}

/* ---- allocations ---- */

/* Hits would not see the flag, so the caches must be empty: without grants they stay so. */
static void pool_suspend(acre_pool *pool, void *user) {
    if (!visit_has(user, pool))
        return;
    /* Until it is known what leaves. */
    acre__store(&pool->is_suspended, ACRE__SUSPEND_WAITS, memory_order_seq_cst);
    acre__account_idle_in(&pool->account, NULL); /* what is away is not held */
    (void)acre__cache_drain(pool, NULL, 1, ACRE__GIVE_ALL);
}

void acre__pools_suspend(acre_device *dev) {
    struct visit visit = {.dev = dev};
    acre__store(&dev->is_suspending, 1, memory_order_seq_cst);
    acre__pools_visit(NULL, pool_suspend, &visit);
}

/* Adds to *how what calls do about the memory of an arena that is away. Memory that
 * nobody waits for decides. */
static void arena_how(const struct acre__arena *arena, uint32_t *how) {
    for (const struct acre__region *region = arena->regions; region; region = region->next) {
        struct acre__node *node = acre__tree_first(&region->mappings);
        for (; node; node = acre__tree_next(&region->mappings, node)) {
            const struct acre__mapping *mapping =
                acre__tree_entry(node, struct acre__region_part, node)->mapping;
            if (mapping->is_away && !mapping->chunk->is_waited)
                *how = ACRE__SUSPEND_REFUSES;
            else if (mapping->is_away && !*how)
                *how = ACRE__SUSPEND_WAITS;
        }
    }
}

static void pool_resume(acre_pool *pool, void *user) {
    const struct visit *visit = user;
    if (!visit_has(visit, pool))
        return;
    uint32_t how = acre__load(&visit->dev->is_suspended, memory_order_acquire);
    arena_how(&pool->slabs_in, &how);
    arena_how(&pool->blocks_in, &how);
    acre__store(&pool->is_suspended, how, memory_order_seq_cst);
    if (!how)
        acre__account_idle_in(&pool->account, &pool->dev->pool_idle_bytes);
}

void acre__pools_resume(acre_device *dev) {
    struct visit visit = {.dev = dev};
    acre__store(&dev->is_suspending, 0, memory_order_seq_cst);
    acre__pools_visit(NULL, pool_resume, &visit);
}

/* ---- live blocks ---- */

static void slab_visit(const struct visit *visit, struct acre__slab *slab) {
    struct acre__pool_live live = {.pool = slab->pool, .bytes = slab->slot_bytes};
    for (uint32_t i = 0; i < slab->fresh; i++) {
        uint32_t state = acre__load(slab->slots[i].state, memory_order_seq_cst);
        if (!(state & ACRE__SLOT_LIVE))
            continue;
        live.at = (uintptr_t)slab->slots[i].p;
        live.tag = acre__tag_of(slab, slab->slots[i].state, state);
        visit->fn(visit->user, &live);
    }
}

static void arena_visit(const struct visit *visit, const acre_pool *pool,
                        const struct acre__arena *arena) {
    for (const struct acre__region *region = arena->regions; region; region = region->next) {
        if (pool->flags & ACRE_POOL_DEBUG && region->first) {
            struct acre__pool_live whole = {
                .pool = pool, .at = region->first->at, .bytes = region->end - region->first->at};
            visit->fn(visit->user, &whole);
            continue;
        }
        for (const struct acre__piece *piece = region->first; piece; piece = piece->behind)
            if (piece->state == ACRE__PIECE_TAKEN && piece->user)
                slab_visit(visit, piece->user);
    }
}

static void pool_visit(acre_pool *pool, void *user) {
    const struct visit *visit = user;
    if (!visit_has(visit, pool))
        return;
    arena_visit(visit, pool, &pool->slabs_in);
    arena_visit(visit, pool, &pool->blocks_in);
}

void acre__pools_visit_live(acre_device *dev,
                            void (*fn)(void *user, const struct acre__pool_live *), void *user) {
    struct visit visit = {dev, fn, user};
    acre__pools_visit(NULL, pool_visit, &visit);
}
