/* Lanes: a thread's cache for one pool and one stream (pool_cache.h).
 *
 * The budget of a pool limits what all thread caches together may hold of it: 64 MiB, or 3 % of the
 * high-water mark of taken memory if that is more. One thread may have all of it. When grants are
 * denied often, every stack is cut to an equal share (caches_age in pool_cache.c). The budget
 * counts what stacks may hold, not what they hold at the moment, so that hits update no counter.
 *
 * A stack is an array of addresses and states. The lane looks up the slots' records when it turns
 * them into a list. To the pool a slot in a stack is in use, so its slab is in the table. */
#include <stdlib.h>

#include "pool/pool.h"

enum {
    STACK_SLOTS = 128,     /* most slots of a stack */
    STACK_BYTES = 8 << 20, /* most bytes of a stack; one slot in any case */
    FOREIGN_CALLS = 8,     /* misses before the lane of a foreign stream holds anything */
    LANES_LEAST = 16,      /* entries of the smallest hash table */
    BUDGET_LEAST = 64 << 20,
    BUDGET_PERCENT = 3
};

/* ---- grants ---- */

uint64_t acre__lane_budget(const acre_pool *pool) {
    uint64_t budget = pool->account.peak / 100 * BUDGET_PERCENT;
    return budget > BUDGET_LEAST ? budget : BUDGET_LEAST;
}

/* Grants `bytes` more. Returns 0 if the budget does not allow it. */
static int grant(acre_pool *pool, uint64_t bytes) {
    if (acre__load(&pool->is_suspended, memory_order_relaxed) || acre__pool_over(pool))
        return 0; /* hits must miss */
    if (pool->granted + bytes > acre__lane_budget(pool)) {
        pool->denied++;
        return 0;
    }
    pool->granted += bytes;
    return 1;
}

static void grant_end(acre_pool *pool, uint64_t bytes) {
    pool->granted -= bytes;
}

static void granted_note(struct acre__lane *lane, uint32_t size_class) {
    const struct acre__stack *stack = &lane->stacks[size_class];
    acre__class_put(&lane->granted, size_class, stack->most || stack->count);
}

/* ---- stacks ---- */

static uint32_t stack_most(uint32_t size_class) {
    size_t count = STACK_BYTES / acre__class_bytes(size_class);
    return (uint32_t)(count < 1 ? 1 : count > STACK_SLOTS ? STACK_SLOTS : count);
}

/* Makes room for `count` entries. Returns 0 if out of host memory. */
static int stack_resize(struct acre__lane *lane, uint32_t size_class, uint32_t count) {
    struct acre__stack *stack = &lane->stacks[size_class];
    const uint32_t line = ACRE__LINE / sizeof(struct acre__entry);
    if (count <= lane->room[size_class])
        return 1;
    uint32_t room = (count + line - 1) / line * line;
    struct acre__entry *entries = acre__pool_lines(room * sizeof *entries);
    if (!entries)
        return 0;
    if (stack->count)
        memcpy(entries, stack->entries, stack->count * sizeof *entries);
    free(stack->entries);
    stack->entries = entries;
    lane->room[size_class] = room;
    return 1;
}

/* Returns 1 for the lane of a rarely used foreign stream, which holds nothing. A foreign stream may
 * be destroyed at any time. Slots in its lane then become ready only when the device is idle. */
static int lane_is_new(const struct acre__lane *lane) {
    return lane->is_foreign && lane->slow_calls < FOREIGN_CALLS;
}

void acre__lane_grow(struct acre__lane *lane, uint32_t size_class) {
    struct acre__stack *stack = &lane->stacks[size_class];
    uint32_t least = 16u >> acre__class_state_shift(size_class), end = stack_most(size_class);
    uint32_t most = stack->most ? 2u * stack->most : least;
    most = most > end ? end : most;
    uint64_t bytes = (most - stack->most) * (uint64_t)acre__class_bytes(size_class);
    lane->slow_calls += lane->slow_calls < UINT8_MAX;
    if (!bytes || lane_is_new(lane) || !grant(lane->pool, bytes))
        return;
    if (!stack_resize(lane, size_class, most)) {
        grant_end(lane->pool, bytes);
        return;
    }
    stack->most = (uint16_t)most;
    stack->used = 1;
    granted_note(lane, size_class);
}

/* Revokes the grant of an empty stack. */
static void stack_shrink(struct acre__lane *lane, uint32_t size_class) {
    struct acre__stack *stack = &lane->stacks[size_class];
    grant_end(lane->pool, stack->most * (uint64_t)acre__class_bytes(size_class));
    free(stack->entries);
    *stack = (struct acre__stack){0};
    lane->room[size_class] = 0;
    granted_note(lane, size_class);
}

int acre__lane_put(struct acre__lane *lane, uint32_t size_class, struct acre__slots *slots) {
    struct acre__stack *stack = &lane->stacks[size_class];
    uint32_t count = stack->count + slots->count;
    if (!stack_resize(lane, size_class, count))
        return 0;
    struct acre__slot *slot = slots->first; /* ends up on top */
    for (uint32_t i = count; i > stack->count; slot = slot->next)
        stack->entries[--i] = (struct acre__entry){slot->p, slot->state};
    stack->count = count;
    stack->used = 1;
    granted_note(lane, size_class);
    *slots = (struct acre__slots){0};
    return 1;
}

void acre__lane_take(struct acre__lane *lane, uint32_t size_class, uint32_t left,
                     struct acre__slots *slots) {
    struct acre__stack *stack = &lane->stacks[size_class];
    while (stack->count > left) {
        void *p = stack->entries[--stack->count].p;
        acre__slots_push(slots, acre__slab_slot(acre__pool_table_find(p), p));
    }
}

void acre__lane_prefetch(const struct acre__lane *lane, uint32_t size_class, uint32_t left) {
    const struct acre__stack *stack = &lane->stacks[size_class];
    for (uint32_t i = stack->count; i > left; i--) {
        const void *p = stack->entries[i - 1].p;
        __builtin_prefetch(acre__slab_slot(acre__pool_table_find(p), p), 1);
    }
}

/* ---- large blocks ---- */

void acre__lane_grow_kept(struct acre__lane *lane, size_t bytes) {
    uint64_t room = lane->kept_bytes + bytes;
    lane->slow_calls += lane->slow_calls < UINT8_MAX;
    if (room <= lane->kept_room || lane->kept_count == ACRE__KEPT || lane_is_new(lane) ||
        !grant(lane->pool, room - lane->kept_room))
        return;
    lane->kept_room = room;
    lane->kept_used = 1;
}

struct acre__slab *acre__lane_kept(struct acre__lane *lane, size_t bytes) {
    for (uint32_t i = lane->kept_count; i-- > 0;) {
        struct acre__kept *kept = &lane->kept[i];
        if (kept->bytes < bytes || kept->bytes - bytes > bytes / 64)
            continue;
        struct acre__slab *slab = kept->slab;
        lane->kept_bytes -= kept->bytes;
        *kept = lane->kept[--lane->kept_count];
        lane->kept_used = 1;
        lane->large_live++;
        return slab;
    }
    return NULL;
}

static void kept_push(struct acre__lane *lane, struct acre__slab *slab) {
    lane->kept[lane->kept_count++] = (struct acre__kept){slab, slab->bytes};
    lane->kept_bytes += slab->bytes;
}

int acre__lane_keep(struct acre__lane *lane, struct acre__slab *slab, int *is_last) {
    *is_last = lane->large_live <= 1 && lane->kept_count;
    if (*is_last || lane->kept_count == ACRE__KEPT ||
        lane->kept_bytes + slab->bytes > lane->kept_room)
        return 0;
    kept_push(lane, slab);
    lane->kept_used = 1;
    lane->large_live--;
    return 1;
}

void acre__lane_take_kept(struct acre__lane *lane, struct acre__slots *slots) {
    while (lane->kept_count)
        acre__slots_push(slots, &lane->kept[--lane->kept_count].slab->slots[0]);
    lane->kept_bytes = 0;
}

void acre__lane_put_back(struct acre__lane *lane, uint32_t size_class, struct acre__slots *slots) {
    struct acre__slot *slot;
    if (size_class < ACRE__CLASSES)
        (void)acre__lane_put(lane, size_class, slots);
    else
        while ((slot = acre__slots_pop(slots)))
            kept_push(lane, acre__pool_table_find(slot->p));
}

/* ---- age ---- */

int acre__lane_give(struct acre__lane *lane, uint32_t size_class, uint32_t left,
                    enum acre__give how) {
    struct acre__slots slots = {0};
    int is_kept = size_class == ACRE__CLASSES;
    if (is_kept ? !lane->kept_count : lane->stacks[size_class].count <= left)
        return 1;
    if (how == ACRE__GIVE_GENTLY && lane->is_foreign &&
        !acre__stream_has_place(lane->pool, lane->stream, lane->thread, lane->id))
        return 0;
    if (is_kept)
        acre__lane_take_kept(lane, &slots);
    else
        acre__lane_take(lane, size_class, left, &slots);
    if (acre__central_give_old(lane->pool, size_class, lane->stream, lane->thread, lane->id,
                               lane->is_foreign, &slots) ||
        (how == ACRE__GIVE_ALL && acre__central_give_after_all(lane->pool, size_class, &slots)))
        return 1;
    acre__lane_put_back(lane, size_class, &slots);
    return 0;
}

uint32_t acre__lane_stacks(const struct acre__lane *lane) {
    uint32_t count = lane->kept_room != 0;
    for (uint32_t i = 0; acre__class_next(&lane->granted, &i); i++)
        count++;
    return count;
}

/* Trims a stack to its share of the budget, to make room for others. */
static void stack_limit(struct acre__lane *lane, uint32_t size_class, uint64_t share) {
    struct acre__stack *stack = &lane->stacks[size_class];
    uint64_t each = acre__class_bytes(size_class), most = share / each ? share / each : 1;
    if (stack->most <= most ||
        !acre__lane_give(lane, size_class, (uint32_t)most, ACRE__GIVE_GENTLY))
        return;
    grant_end(lane->pool, (stack->most - most) * each);
    stack->most = (uint16_t)most;
}

int acre__lane_age(struct acre__lane *lane, uint64_t share) {
    int is_empty = 1;
    for (uint32_t i = 0; acre__class_next(&lane->granted, &i); i++) {
        struct acre__stack *stack = &lane->stacks[i];
        int was_used = stack->used;
        stack->used = 0;
        if (!was_used && acre__lane_give(lane, i, 0, ACRE__GIVE_GENTLY)) {
            stack_shrink(lane, i);
            continue;
        }
        stack_limit(lane, i, share);
        is_empty = 0;
    }
    int was_used = lane->kept_used;
    lane->kept_used = 0;
    if (!was_used && acre__lane_give(lane, ACRE__CLASSES, 0, ACRE__GIVE_GENTLY)) {
        grant_end(lane->pool, lane->kept_room);
        lane->kept_room = 0;
    }
    return is_empty && !lane->kept_room && !lane->kept_count && lane->large_live <= 0;
}

void acre__lane_reset(struct acre__lane *lane) {
    for (uint32_t i = 0; acre__class_next(&lane->granted, &i); i++)
        stack_shrink(lane, i);
    grant_end(lane->pool, lane->kept_room);
    lane->kept_room = 0;
    lane->slow_calls = 0;
}

void acre__lane_count(struct acre__lane *lane, void *user) {
    struct acre__cached *cached = user;
    cached->bytes += lane->kept_bytes;
    cached->blocks += lane->kept_count;
    for (uint32_t i = 0; acre__class_next(&lane->granted, &i); i++) {
        cached->bytes += lane->stacks[i].count * (uint64_t)acre__class_bytes(i);
        cached->blocks += lane->stacks[i].count;
    }
}

/* ---- the hash table ---- */

static uint64_t lane_hash(const acre_pool *pool, acre_stream stream) {
#ifdef ACRE_TEST_POINTS
    pool = NULL; /* lanes age in the order of their hashes, and a seed gives the same order at any
                    address */
#endif
    uint64_t mixed = (uintptr_t)pool * 0x9e3779b97f4a7c15u ^ (uintptr_t)stream;
    mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
    return mixed ^ mixed >> 29;
}

/* Lets the near path use this lane, if its hits need no checks. */
static void lane_note(struct acre__pool_cache *cache, struct acre__lane *lane) {
    if (lane && !acre__load(&cache->is_strong, memory_order_relaxed) && !lane->is_debugged &&
        !lane->is_checked && !cache->tag)
        cache->last = lane;
}

struct acre__lane *acre__cache_lane(struct acre__pool_cache *cache, const acre_pool *pool,
                                    acre_stream stream) {
    struct acre__lane *last = cache->last;
    if (last && last->pool == pool && last->stream == stream)
        return last;
    uint64_t hash = lane_hash(pool, stream);
    if (!cache->lane_mask)
        return NULL;
    for (uint32_t i = (uint32_t)hash & cache->lane_mask;; i = (i + 1) & cache->lane_mask) {
        struct acre__lane *lane = cache->lanes[i].lane;
        if (!lane)
            return NULL;
        if (cache->lanes[i].hash == hash && lane->pool == pool && lane->stream == stream) {
            lane_note(cache, lane);
            return lane;
        }
    }
}

static void place_set(struct acre__lane_place *lanes, uint32_t mask, uint64_t hash,
                      struct acre__lane *lane) {
    uint32_t i = (uint32_t)hash & mask;
    while (lanes[i].lane)
        i = (i + 1) & mask;
    lanes[i] = (struct acre__lane_place){hash, lane};
}

/* Makes room for one more lane; a quarter of the entries stay empty. */
static int lanes_reserve(struct acre__pool_cache *cache) {
    uint32_t places = cache->lane_mask ? cache->lane_mask + 1 : 0;
    if ((cache->lane_count + 1) * 4 <= places * 3)
        return 1;
    uint32_t more = places ? 2 * places : LANES_LEAST;
    struct acre__lane_place *lanes = calloc(more, sizeof *lanes);
    if (!lanes)
        return 0;
    for (uint32_t i = 0; i < places; i++)
        if (cache->lanes[i].lane)
            place_set(lanes, more - 1, cache->lanes[i].hash, cache->lanes[i].lane);
    free(cache->lanes);
    cache->lanes = lanes;
    cache->lane_mask = more - 1;
    return 1;
}

struct acre__lane *acre__cache_lane_make(struct acre__pool_cache *cache, acre_pool *pool,
                                         acre_stream stream, uint64_t id) {
    struct acre__lane *lane = lanes_reserve(cache) ? acre__pool_lines(sizeof *lane) : NULL;
    if (!lane)
        return NULL;
    lane->pool = pool;
    lane->stream = stream;
    lane->id = id;
    lane->thread = acre__stream_thread(stream);
    lane->is_debugged = (pool->flags & ACRE_POOL_DEBUG) != 0;
    lane->is_foreign = (uint8_t)acre__stream_is_foreign(pool->dev, stream);
    lane->is_checked = (uint8_t)acre__stream_is_capturable(pool->dev, stream);
    lane->fast = pool->flags ? (acre_pool *)(void *)lane : pool; /* an address of no pool */
    lane->simple =
        lane->fast == pool && pool->is_default && pool->kind == ACRE_KIND_DEVICE ? pool->dev : NULL;
    place_set(cache->lanes, cache->lane_mask, lane_hash(pool, stream), lane);
    cache->lane_count++;
    lane_note(cache, lane);
    return lane;
}

/* Empties an entry, and moves later entries that lookups would no longer find. */
static void place_clear(struct acre__pool_cache *cache, uint32_t hole) {
    uint32_t mask = cache->lane_mask;
    for (uint32_t i = (hole + 1) & mask; cache->lanes[i].lane; i = (i + 1) & mask) {
        uint32_t home = (uint32_t)cache->lanes[i].hash & mask;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        cache->lanes[hole] = cache->lanes[i];
        hole = i;
    }
    cache->lanes[hole] = (struct acre__lane_place){0};
}

void acre__cache_lane_end(struct acre__pool_cache *cache, struct acre__lane *lane) {
    uint32_t i = (uint32_t)lane_hash(lane->pool, lane->stream) & cache->lane_mask;
    while (cache->lanes[i].lane != lane)
        i = (i + 1) & cache->lane_mask;
    place_clear(cache, i);
    cache->lane_count--;
    if (cache->last == lane)
        cache->last = NULL;
    acre__lane_reset(lane);
    free(lane);
}
