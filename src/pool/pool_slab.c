/* Slabs of small blocks: pieces of an arena, divided into slots of one class.
 *
 * A slab that is fully free is *idle*. Idle slabs are kept for their class until memory is needed.
 * Then they end, and their memory becomes a hole again, for the stream that freed it or for all. A
 * double free may read a slab that ends meanwhile, so the record stays until every thread has left
 * its cache (acre__slabs_reap). */
#include <stdlib.h>

#include "base/status.h"
#include "pool/pool.h"
#include "pool/pool_tag.h"

enum { SLAB_LEAST = 1 << 16, SLAB_MOST = 2 << 20 }; /* bytes; multiples of the table's unit */
enum {
    END_MOST = 32 << 20,   /* bytes of idle slabs that end at a time: neighbours merge */
    RETIRED_MOST = 4 << 20 /* bytes of records before they are reaped */
};

static size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* ---- records ---- */

struct acre__slab *acre__slab_record(uint64_t at, size_t bytes, size_t slot_bytes, size_t count) {
    struct acre__slab *slab;
    uint32_t shift = count > 1 ? acre__class_state_shift(acre__class_of(slot_bytes)) : 0;
    size_t states_bytes = round_up((count << shift) * sizeof slab->states[0], ACRE__LINE);
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
    for (uint32_t i = 0; i < count; i++) /* now: lookups by address take no lock */
        slab->slots[i].state = acre__slab_state_at(slab, i);
    return slab;
}

void acre__slab_drop(struct acre__slab *slab) {
    _Atomic uint16_t *tags = slab ? acre__load(&slab->tags, memory_order_relaxed) : NULL;
    if (tags && tags != &slab->one_tag)
        free((void *)tags);
    free(slab);
}

static void slab_retire(acre_pool *pool, struct acre__slab *slab) {
    slab->next = pool->retired;
    pool->retired = slab;
    pool->retired_bytes += sizeof *slab + slab->count * (sizeof *slab->slots + 4);
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

static void idle_remove(acre_pool *pool, struct acre__slab *slab) {
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
        idle_remove(pool, slab);
}

struct acre__slot *acre__slab_fresh(struct acre__slab *slab) {
    uint32_t index = slab->fresh++;
    struct acre__slot *slot = &slab->slots[index];
    slot->p = (void *)(uintptr_t)(slab->at + index * slab->slot_bytes);
    return slot;
}

/* ---- ending ---- */

static void share_end(struct acre__share *share, uint32_t size_class) {
    if (!share->owner)
        return;
    acre__tree_remove(&share->owner->classes[size_class].shares, &share->node);
    acre__freed_count(share->owner, -(int64_t)share->slots.count);
    share->owner = NULL;
    share->slots = (struct acre__slots){0};
}

/* Sets the generation that an idle slab's memory waits for, NULL for none. Returns 0 if the stream
 * may not use the memory. */
static int slab_waits_for(const struct acre__slab *slab, const struct acre__pool_stream *own,
                          struct acre__generation **generation) {
    *generation = NULL;
    for (int i = 0; i < ACRE__SHARES; i++) {
        const struct acre__freed *owner = slab->shares[i].owner;
        if (!owner)
            continue;
        if (!own || (owner != own->recent->freed && owner != own->marked->freed))
            return 0;
        if (!*generation || owner == own->recent->freed)
            *generation = owner == own->recent->freed ? own->recent : own->marked;
    }
    return 1;
}

static void slab_end(acre_pool *pool, struct acre__slab *slab,
                     const struct acre__generation *generation) {
    struct acre__reach to = {0};
    if (generation)
        to.recent = &generation->freed->holes[slab->piece->region->arena == &pool->blocks_in];
    for (int i = 0; i < ACRE__SHARES; i++)
        share_end(&slab->shares[i], slab->size_class);
    if (slab->is_open)
        acre__tree_remove(&pool->open[slab->size_class], &slab->node);
    idle_remove(pool, slab);
    pool->slots[slab->size_class] -= slab->count;
    acre__pool_table_remove(slab);
    acre__arena_give(slab->piece, generation ? &to : NULL);
    slab_retire(pool, slab);
}

uint64_t acre__slabs_end_idle(acre_pool *pool, const struct acre__pool_stream *own, uint64_t most) {
    uint64_t bytes = 0;
    struct acre__generation *generation;
    for (struct acre__slab *slab = pool->idle, *older; slab; slab = older) {
        older = slab->older;
        if (bytes + slab->bytes > most || !slab_waits_for(slab, own, &generation))
            continue;
        bytes += slab->bytes;
        slab_end(pool, slab, generation);
    }
    return bytes;
}

/* ---- making ---- */

/* How many slots the next slab of a class gets: as many as the class has. So a class with few
 * blocks takes little memory. */
static size_t slab_slots(const acre_pool *pool, uint32_t size_class) {
    size_t slot_bytes = acre__class_bytes(size_class), count = pool->slots[size_class];
    size_t least = SLAB_LEAST / slot_bytes, most = SLAB_MOST / slot_bytes;
    count = count < least ? least : count > most ? most : count;
    return count < 1 ? 1 : count;
}

/* A slab that is being placed. */
struct placing {
    acre_pool *pool;
    const struct acre__pool_stream *own;
    size_t slot_bytes, wanted; /* of a slot; wanted for the slab */
    size_t bytes;              /* that the slab gets */
    struct acre__piece *piece;
};

/* Takes a piece of existing memory, of the wanted size. If the largest hole is smaller, but not by
 * much, takes all of it: otherwise slabs of one size leave holes that fit no other size. Memory
 * reserved ahead is in the arena of large blocks. */
static acre_status place_old(struct placing *placing) {
    acre_pool *pool = placing->pool;
    const struct acre__reach *reach = &placing->own->reach[ACRE__ARENA_SLABS];
    size_t slots = acre__arena_largest(&pool->slabs_in, reach) / placing->slot_bytes;
    size_t hole = round_up(slots * placing->slot_bytes, SLAB_LEAST);
    int is_near = slots && hole < placing->wanted && hole >= placing->wanted / 4;
    placing->bytes = is_near ? hole : placing->wanted;
    acre_status status =
        acre__arena_take(&pool->slabs_in, reach, placing->bytes, SLAB_LEAST, &placing->piece);
    if (status == ACRE_OK && !placing->piece && pool->is_reserved)
        status =
            acre__arena_take(&pool->blocks_in, NULL, placing->bytes, SLAB_LEAST, &placing->piece);
    return status;
}

/* As place_old, but ends idle slabs, END_MOST bytes at a time, until a piece fits. */
static acre_status place_ended(struct placing *placing) {
    acre_status status = place_old(placing);
    while (status == ACRE_OK && !placing->piece &&
           acre__slabs_end_idle(placing->pool, placing->own, END_MOST))
        status = place_old(placing);
    return status;
}

/* Finds memory for a slab: reused, else created. If that fails, tries the arena of large blocks. */
static acre_status slab_place(struct placing *placing) {
    acre_pool *pool = placing->pool;
    acre_status status = place_ended(placing);
    if (status == ACRE_OK && !placing->piece &&
        !acre__arena_may_hold(&pool->slabs_in, placing->wanted, placing->wanted)) {
        (void)acre__cache_drain(pool, NULL, 1,
                                ACRE__GIVE_GENTLY); /* one cached slot keeps a slab */
        acre__freed_sort(placing->own->recent->freed);
        status = place_ended(placing);
    }
    if (status || placing->piece)
        return status;
    const struct acre__reach *reach = &placing->own->reach[ACRE__ARENA_SLABS];
    status =
        acre__arena_take_new(&pool->slabs_in, reach, placing->bytes, SLAB_LEAST, &placing->piece);
    if (status == ACRE_OK)
        return ACRE_OK;
    struct acre__said said;
    acre__said_keep(&said);
    (void)acre__arena_take(&pool->blocks_in, NULL, placing->bytes, SLAB_LEAST, &placing->piece);
    return placing->piece ? ACRE_OK : acre__said_fail(status, &said);
}

/* The memory was a hole of the stream, so its slots are free for that stream only. */
static void slab_fill_share(struct acre__slab *slab, struct acre__freed *freed) {
    struct acre__share *share = &slab->shares[0];
    struct acre__slot *slot = NULL;
    while (slab->fresh < slab->count) {
        struct acre__slot *next = acre__slab_fresh(slab);
        next->next = NULL;
        if (slot)
            slot->next = next;
        else
            share->slots.first = next;
        slot = next;
    }
    share->slots.last = slot;
    share->slots.count = slab->count;
    share->owner = freed;
    acre__freed_count(freed, slab->count);
    acre__freed_use(freed, slab->size_class);
    acre__tree_insert(&freed->classes[slab->size_class].shares, &share->node);
}

static void slab_enter(acre_pool *pool, struct acre__slab *slab,
                       const struct acre__pool_stream *own) {
    for (int i = 0; i < ACRE__SHARES; i++) {
        slab->shares[i].slab = slab;
        slab->shares[i].node.key = slab->at;
    }
    slab->node.key = slab->at;
    slab->piece->user = slab;
    pool->slots[slab->size_class] += slab->count;
    if (!slab->piece->was_ready)
        slab_fill_share(slab, own->recent->freed);
    acre__slab_note(slab);
}

acre_status acre__slab_make(acre_pool *pool, uint32_t size_class,
                            const struct acre__pool_stream *own) {
    struct placing placing = {.pool = pool, .own = own};
    placing.slot_bytes = acre__class_bytes(size_class);
    placing.wanted = round_up(slab_slots(pool, size_class) * placing.slot_bytes, SLAB_LEAST);
    acre_status status = slab_place(&placing);
    if (status)
        return status;
    struct acre__slab *slab = acre__slab_record(
        placing.piece->at, placing.bytes, placing.slot_bytes, placing.bytes / placing.slot_bytes);
    if (slab) {
        slab->size_class = size_class;
        slab->pool = pool; /* before it is in the table: a stale pointer may find it */
        slab->piece = placing.piece;
    }
    if (!slab || !acre__pool_table_add(slab)) {
        struct acre__holes *recent = own->recent->freed->holes;
        const struct acre__reach to = {
            .recent = &recent[placing.piece->region->arena == &pool->blocks_in]};
        acre__arena_give(placing.piece, placing.piece->was_ready ? NULL : &to);
        acre__slab_drop(slab);
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a slab");
    }
    slab_enter(pool, slab, own);
    return ACRE_OK;
}

/* ---- finding ---- */

/* The table may return a slab of another pool, which can end at any time. So only slabs in this
 * pool's regions are read. The table has a large block only by its first unit. */
struct acre__slab *acre__slab_of(const acre_pool *pool, const void *p) {
    uint64_t at = (uintptr_t)p;
    if (!acre__arena_has(&pool->slabs_in, at) && !acre__arena_has(&pool->blocks_in, at))
        return NULL;
    struct acre__slab *slab = acre__pool_table_find(p);
    if (!slab || at < slab->at || acre__slab_is_large(slab))
        slab = acre__tree_entry(acre__tree_floor(&pool->large, at), struct acre__slab, node);
    return slab && at - slab->at < slab->bytes ? slab : NULL;
}

/* ---- reserving ---- */

acre_status acre__slab_reserve(acre_pool *pool, uint64_t bytes) {
    uint64_t held = acre__pool_held(pool);
    if (held >= bytes)
        return ACRE_OK;
    if (bytes > ACRE__BYTES_MOST)
        return acre__fail(
            pool->kind == ACRE_KIND_DEVICE ? ACRE_E_DEVICE_MEMORY : ACRE_E_HOST_MEMORY,
            "%llu bytes wanted ahead, no pool has so much", (unsigned long long)bytes);
    acre_status status = acre__arena_grow_ahead(&pool->blocks_in, bytes - held);
    pool->is_reserved |= status == ACRE_OK;
    return status;
}

/* ---- releasing ---- */

void acre__slab_trim(acre_pool *pool, uint64_t keep) {
    uint64_t held = acre__pool_held(pool);
    if (held <= keep)
        return;
    (void)acre__slabs_end_idle(pool, NULL, held - keep);
    uint64_t went = acre__arena_trim(&pool->blocks_in, held - keep);
    (void)acre__arena_trim(&pool->slabs_in, held - keep - went);
    pool->is_reserved &= acre__pool_held(pool) > 0;
    if (pool->retired_bytes > RETIRED_MOST) {
        if (acre__caches_claim())
            acre__slabs_reap(pool);
        acre__caches_unclaim();
    }
}

static void slab_leave(void *user, struct acre__piece *piece) {
    struct acre__slab *slab = piece->user;
    (void)user;
    acre__tag_forget(slab);
    acre__pool_table_remove(slab);
}

static void slab_retire_piece(void *user, struct acre__piece *piece) {
    slab_retire(user, piece->user);
}

/* A stale lookup may still read a record, until its thread has left its cache. */
void acre__slab_end_all(acre_pool *pool) {
    acre__arena_walk(&pool->slabs_in, slab_leave, NULL);
    acre__arena_walk(&pool->blocks_in, slab_leave, NULL);
    acre__arena_walk(&pool->slabs_in, slab_retire_piece, pool);
    acre__arena_walk(&pool->blocks_in, slab_retire_piece, pool);
    acre__arena_end(&pool->slabs_in);
    acre__arena_end(&pool->blocks_in);
    while (pool->spare) {
        struct acre__slab *next = pool->spare->next;
        slab_retire(pool, pool->spare);
        pool->spare = next;
    }
    if (!pool->retired)
        return;
    if (acre__caches_claim())
        acre__slabs_reap(pool);
    acre__caches_unclaim();
}
