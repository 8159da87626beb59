/* Lanes: what a thread has of one pool for one stream (pool_cache.h).
 *
 * The budget of a pool is what threads' caches may hold of it together: 64 MiB, or 3 % of the most
 * memory that was ever in use if that is more. One thread gets at most half of it where others have
 * some as well. What counts is what stacks may hold, not what they hold just now, so that hits
 * count nothing.
 *
 * A stack is an array of addresses and states; the slots' records are looked up when a list is made
 * of them. A slot in a stack is in use as far as the pool is concerned, so its slab is in the
 * table. */
#include <stdlib.h>

#include "pool/pool.h"

enum {
    STACK_SLOTS = 128,     /* that a stack holds at most, and */
    STACK_BYTES = 8 << 20, /* so many bytes; one slot in any case */
    FOREIGN_CALLS = 8,     /* misses before a foreign stream's lane holds anything */
    LANES_LEAST = 16,      /* places of the smallest hash table */
    BUDGET_LEAST = 64 << 20,
    BUDGET_PERCENT = 3
};

/* ---- grants ---- */

uint64_t acre__lane_budget(const acre_pool *pool) {
    uint64_t budget = pool->account.peak / 100 * BUDGET_PERCENT;
    return budget > BUDGET_LEAST ? budget : BUDGET_LEAST;
}

/* 1 if so many bytes more were granted. */
static int grant(struct acre__pool_cache *cache, acre_pool *pool, uint64_t bytes) {
    uint64_t budget = acre__lane_budget(pool);
    uint64_t most = pool->granted > cache->granted ? budget / 2 : budget; /* others have some */
    if (pool->granted + bytes > budget || cache->granted + bytes > most) {
        pool->denied++;
        return 0;
    }
    pool->granted += bytes;
    cache->granted += bytes;
    return 1;
}

static void grant_end(struct acre__pool_cache *cache, acre_pool *pool, uint64_t bytes) {
    pool->granted -= bytes;
    cache->granted -= bytes;
}

static void granted_note(struct acre__lane *lane, uint32_t size_class) {
    const struct acre__stack *stack = &lane->stacks[size_class];
    uint64_t bit = (uint64_t)1 << size_class % 64;
    if (stack->most || stack->count)
        lane->granted[size_class / 64] |= bit;
    else
        lane->granted[size_class / 64] &= ~bit;
}

/* ---- stacks ---- */

static uint32_t stack_most(uint32_t size_class) {
    size_t count = STACK_BYTES / acre__class_bytes(size_class);
    return (uint32_t)(count < 1 ? 1 : count > STACK_SLOTS ? STACK_SLOTS : count);
}

/* Makes room for `count` entries; 0 without memory. */
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

/* A foreign stream may be destroyed at any time, and what the lane holds of it is found again only
 * when the device is idle: so nothing is held for one that is hardly used. */
static int lane_is_new(const struct acre__lane *lane) {
    return lane->is_foreign && lane->slow_calls < FOREIGN_CALLS;
}

void acre__lane_grow(struct acre__pool_cache *cache, struct acre__lane *lane, uint32_t size_class) {
    struct acre__stack *stack = &lane->stacks[size_class];
    uint32_t least = 16u >> acre__class_state_shift(size_class), end = stack_most(size_class);
    uint32_t most = stack->most ? 2u * stack->most : least;
    most = most > end ? end : most;
    uint64_t bytes = (most - stack->most) * (uint64_t)acre__class_bytes(size_class);
    lane->slow_calls += lane->slow_calls < UINT8_MAX;
    if (!bytes || lane_is_new(lane) || !grant(cache, lane->pool, bytes))
        return;
    if (!stack_resize(lane, size_class, most)) {
        grant_end(cache, lane->pool, bytes);
        return;
    }
    stack->most = (uint16_t)most;
    stack->used = 1;
    granted_note(lane, size_class);
}

/* Takes the grant of an empty stack back. */
static void stack_shrink(struct acre__pool_cache *cache, struct acre__lane *lane,
                         uint32_t size_class) {
    struct acre__stack *stack = &lane->stacks[size_class];
    grant_end(cache, lane->pool, stack->most * (uint64_t)acre__class_bytes(size_class));
    free(stack->entries);
    *stack = (struct acre__stack){0};
    lane->room[size_class] = 0;
    granted_note(lane, size_class);
}

int acre__lane_put(struct acre__pool_cache *cache, struct acre__lane *lane, uint32_t size_class,
                   struct acre__slots *slots) {
    struct acre__stack *stack = &lane->stacks[size_class];
    uint32_t count = stack->count + slots->count;
    (void)cache;
    if (!stack_resize(lane, size_class, count))
        return 0;
    struct acre__slot *slot = slots->first; /* on top in the end */
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

/* ---- large blocks ---- */

void acre__lane_grow_kept(struct acre__pool_cache *cache, struct acre__lane *lane, size_t bytes) {
    uint64_t room = lane->kept_bytes + bytes;
    lane->slow_calls += lane->slow_calls < UINT8_MAX;
    if (room <= lane->kept_room || lane->kept_count == ACRE__KEPT || lane_is_new(lane) ||
        !grant(cache, lane->pool, room - lane->kept_room))
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

int acre__lane_keep(struct acre__lane *lane, struct acre__slab *slab, int *is_last) {
    *is_last = lane->large_live <= 1 && lane->kept_count;
    if (*is_last || lane->kept_count == ACRE__KEPT ||
        lane->kept_bytes + slab->bytes > lane->kept_room)
        return 0;
    acre__lane_put_kept(lane, slab);
    lane->kept_used = 1;
    lane->large_live--;
    return 1;
}

void acre__lane_put_kept(struct acre__lane *lane, struct acre__slab *slab) {
    lane->kept[lane->kept_count++] = (struct acre__kept){slab, slab->bytes};
    lane->kept_bytes += slab->bytes;
}

void acre__lane_take_kept(struct acre__lane *lane, struct acre__slots *slots) {
    while (lane->kept_count)
        acre__slots_push(slots, &lane->kept[--lane->kept_count].slab->slots[0]);
    lane->kept_bytes = 0;
}

/* ---- age ---- */

/* The pool has no memory to note them: they stay. There is room. */
static void lane_put_back(struct acre__pool_cache *cache, struct acre__lane *lane,
                          uint32_t size_class, struct acre__slots *slots) {
    struct acre__slot *slot;
    if (size_class < ACRE__CLASSES)
        (void)acre__lane_put(cache, lane, size_class, slots);
    else
        while ((slot = acre__slots_pop(slots)))
            acre__lane_put_kept(lane, acre__pool_table_find(slot->p));
}

/* Gives what is above the first `left` slots of a stack. */
static int stack_give(struct acre__pool_cache *cache, struct acre__lane *lane, uint32_t size_class,
                      uint32_t left, int must) {
    struct acre__slots slots = {0};
    if (size_class == ACRE__CLASSES)
        acre__lane_take_kept(lane, &slots);
    else
        acre__lane_take(lane, size_class, left, &slots);
    if (!slots.count ||
        acre__central_give_old(lane->pool, size_class, lane->stream, lane->thread, lane->id,
                               lane->is_foreign, &slots) ||
        (must && acre__central_give_after_all(lane->pool, size_class, &slots)))
        return 1;
    lane_put_back(cache, lane, size_class, &slots);
    return 0;
}

int acre__lane_give(struct acre__pool_cache *cache, struct acre__lane *lane, uint32_t size_class,
                    int must) {
    return stack_give(cache, lane, size_class, 0, must);
}

int acre__lane_next(const struct acre__lane *lane, uint32_t *size_class) {
    for (uint32_t i = *size_class; i < ACRE__CLASSES; i = (i / 64 + 1) * 64) {
        uint64_t bits = lane->granted[i / 64] >> i % 64;
        if (bits) {
            *size_class = i + (uint32_t)__builtin_ctzll(bits);
            return 1;
        }
    }
    return 0;
}

uint32_t acre__lane_stacks(const struct acre__lane *lane) {
    uint32_t count = lane->kept_room != 0;
    for (size_t i = 0; i < sizeof lane->granted / sizeof *lane->granted; i++)
        count += (uint32_t)__builtin_popcountll(lane->granted[i]);
    return count;
}

/* A stack that has more than its share makes room for others. */
static void stack_limit(struct acre__pool_cache *cache, struct acre__lane *lane,
                        uint32_t size_class, uint64_t share) {
    struct acre__stack *stack = &lane->stacks[size_class];
    uint64_t each = acre__class_bytes(size_class), most = share / each ? share / each : 1;
    if (stack->most <= most || !stack_give(cache, lane, size_class, (uint32_t)most, 0))
        return;
    grant_end(cache, lane->pool, (stack->most - most) * each);
    stack->most = (uint16_t)most;
}

int acre__lane_age(struct acre__pool_cache *cache, struct acre__lane *lane, uint64_t share) {
    int is_empty = 1;
    for (uint32_t i = 0; acre__lane_next(lane, &i); i++) {
        struct acre__stack *stack = &lane->stacks[i];
        int was_used = stack->used;
        stack->used = 0;
        if (!was_used && acre__lane_give(cache, lane, i, 0)) {
            stack_shrink(cache, lane, i);
            continue;
        }
        stack_limit(cache, lane, i, share);
        is_empty = 0;
    }
    int was_used = lane->kept_used;
    lane->kept_used = 0;
    if (!was_used && acre__lane_give(cache, lane, ACRE__CLASSES, 0)) {
        grant_end(cache, lane->pool, lane->kept_room);
        lane->kept_room = 0;
    }
    return is_empty && !lane->kept_room && !lane->kept_count && lane->large_live <= 0;
}

void acre__lane_reset(struct acre__pool_cache *cache, struct acre__lane *lane) {
    for (uint32_t i = 0; acre__lane_next(lane, &i); i++)
        stack_shrink(cache, lane, i);
    grant_end(cache, lane->pool, lane->kept_room);
    lane->kept_room = 0;
    lane->slow_calls = 0;
}

uint64_t acre__lane_bytes(const struct acre__lane *lane, uint64_t *blocks) {
    uint64_t bytes = lane->kept_bytes;
    *blocks += lane->kept_count;
    for (uint32_t i = 0; acre__lane_next(lane, &i); i++) {
        bytes += lane->stacks[i].count * (uint64_t)acre__class_bytes(i);
        *blocks += lane->stacks[i].count;
    }
    return bytes;
}

/* ---- the hash table ---- */

static uint64_t lane_hash(const acre_pool *pool, acre_stream stream) {
    uint64_t mixed = (uintptr_t)pool * 0x9e3779b97f4a7c15u ^ (uintptr_t)stream;
    mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
    return mixed ^ mixed >> 29;
}

/* The near path of a hit takes this lane without looking further. */
static void lane_note(struct acre__pool_cache *cache, struct acre__lane *lane) {
    if (lane && !acre__load(&cache->is_strong, memory_order_relaxed) && !lane->is_debugged &&
        !lane->is_checked && !cache->tag)
        cache->last = lane;
}

struct acre__lane *acre__cache_lane(struct acre__pool_cache *cache, const acre_pool *pool,
                                    acre_stream stream) {
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

/* One more lane shall fit, and a quarter of the places stay empty. */
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
    lane->fast = pool->flags ? (acre_pool *)(void *)lane : pool; /* never another pool, nor NULL */
    lane->simple =
        lane->fast == pool && pool->is_default && pool->kind == ACRE_KIND_DEVICE ? pool->dev : NULL;
    place_set(cache->lanes, cache->lane_mask, lane_hash(pool, stream), lane);
    cache->lane_count++;
    lane_note(cache, lane);
    return lane;
}

/* Empties a place, and moves those behind it that would not be found any more. */
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
    acre__lane_reset(cache, lane);
    free(lane);
}
