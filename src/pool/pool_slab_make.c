/* Creates and destroys slabs: where their memory comes from, and where it goes. The pool's lock is
 * held. */

#include "base/round.h"
#include "base/status.h"
#include "pool/pool.h"
#include "pool/pool_freed.h"
#include "pool/pool_slab_make.h"
#include "pool/pool_tag.h"

enum {
    SLAB_LEAST = 1 << 16, /* bytes; multiples of the table's unit */
    SLAB_MOST = 2 << 20,
    END_MOST = 32 << 20 /* bytes of idle slabs destroyed at a time: neighbours merge */
};

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

static void slab_retire(acre_pool *pool, struct acre__slab *slab) {
    slab->next = pool->retired;
    pool->retired = slab;
    pool->retired_bytes += sizeof *slab + slab->count * (sizeof *slab->slots + 4);
}

/* Frees a piece: it becomes a hole that waits for the generation; NULL: for nothing. */
static void piece_give(acre_pool *pool, struct acre__piece *piece,
                       const struct acre__generation *generation) {
    struct acre__reach to = {0};
    if (generation)
        to.recent = &generation->freed->holes[piece->region->arena == &pool->blocks_in];
    acre__arena_give(piece, generation ? &to : NULL);
}

static void slab_end(acre_pool *pool, struct acre__slab *slab,
                     const struct acre__generation *generation) {
    for (int i = 0; i < ACRE__SHARES; i++)
        share_end(&slab->shares[i], slab->size_class);
    if (slab->is_open)
        acre__tree_remove(&pool->open[slab->size_class], &slab->node);
    acre__slab_unidle(pool, slab);
    pool->slots[slab->size_class] -= slab->count;
    acre__pool_table_remove(slab);
    piece_give(pool, slab->piece, generation);
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

/* Returns how many slots the next slab of a class gets: as many as the class has. So a class with
 * few blocks takes little memory. */
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
    size_t slot_bytes, wanted; /* of a slot; requested for the slab */
    size_t bytes;              /* size of the slab */
    struct acre__piece *piece;
};

/* Takes a piece of existing memory, of the wanted size. If the largest hole is smaller, but not by
 * much, takes all of it: otherwise slabs of one size leave holes that fit no other size. Memory
 * reserved in advance is in the arena of large blocks. */
static acre_status place_old(struct placing *placing) {
    acre_pool *pool = placing->pool;
    const struct acre__reach *reach = &placing->own->reach[ACRE__ARENA_SLABS];
    size_t slots = acre__arena_largest(&pool->slabs_in, reach) / placing->slot_bytes;
    size_t hole = acre__round_up(slots * placing->slot_bytes, SLAB_LEAST);
    int is_near = slots && hole < placing->wanted && hole >= placing->wanted / 4;
    placing->bytes = is_near ? hole : placing->wanted;
    acre_status status =
        acre__arena_take(&pool->slabs_in, reach, placing->bytes, SLAB_LEAST, &placing->piece);
    if (status == ACRE_OK && !placing->piece && pool->is_reserved)
        status =
            acre__arena_take(&pool->blocks_in, NULL, placing->bytes, SLAB_LEAST, &placing->piece);
    return status;
}

/* As place_old, but destroys idle slabs, END_MOST bytes at a time, until a piece fits. */
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
                                ACRE__GIVE_GENTLY); /* one cached slot keeps a slab in use */
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
    while (slab->fresh < slab->count)
        (void)acre__slab_fresh(slab);
    for (uint32_t i = slab->count; i-- > 0;) /* the lowest address first */
        acre__slots_push(&share->slots, &slab->slots[i]);
    share->owner = freed;
    acre__freed_count(freed, slab->count);
    acre__class_put(&freed->used, slab->size_class, 1);
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

/* Makes a slab of the memory that was placed for it. */
static acre_status slab_build(const struct placing *placing, uint32_t size_class) {
    acre_pool *pool = placing->pool;
    struct acre__piece *piece = placing->piece;
    struct acre__slab *slab = acre__slab_record(piece->at, placing->bytes, placing->slot_bytes,
                                                placing->bytes / placing->slot_bytes);
    if (!slab) {
        piece_give(pool, piece, piece->was_ready ? NULL : placing->own->recent);
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a slab");
    }
    slab->size_class = size_class;
    slab->pool = pool; /* set before the slab is in the table: a stale pointer may find it */
    slab->piece = piece;
    acre__pool_table_add(slab);
    slab_enter(pool, slab, placing->own);
    return ACRE_OK;
}

acre_status acre__slab_make(acre_pool *pool, uint32_t size_class,
                            const struct acre__pool_stream *own) {
    struct placing placing = {.pool = pool, .own = own};
    placing.slot_bytes = acre__class_bytes(size_class);
    placing.wanted = acre__round_up(slab_slots(pool, size_class) * placing.slot_bytes, SLAB_LEAST);
    acre_status status = slab_place(&placing);
    return status ? status : slab_build(&placing, size_class);
}

acre_status acre__slab_make_any(acre_pool *pool, uint32_t size_class,
                                const struct acre__pool_stream *own, int *is_made) {
    struct placing placing = {.pool = pool, .own = own};
    placing.slot_bytes = acre__class_bytes(size_class);
    placing.bytes = acre__round_up(placing.slot_bytes, SLAB_LEAST);
    acre_status status = acre__arena_take_fit(&pool->slabs_in, &own->reach[ACRE__ARENA_SLABS],
                                              placing.bytes, SLAB_LEAST, &placing.piece);
    if (status == ACRE_OK && !placing.piece)
        status =
            acre__arena_take_fit(&pool->blocks_in, NULL, placing.bytes, SLAB_LEAST, &placing.piece);
    *is_made = status == ACRE_OK && placing.piece;
    return *is_made ? slab_build(&placing, size_class) : status;
}

/* As acre__slab_make_any and acre__large_take search. */
uint64_t acre__slab_room(const acre_pool *pool, const struct acre__pool_stream *own, int is_large,
                         size_t alignment) {
    const struct acre__reach *slabs = own ? &own->reach[ACRE__ARENA_SLABS] : NULL;
    const struct acre__reach *blocks = own && is_large ? &own->reach[ACRE__ARENA_BLOCKS] : NULL;
    size_t most = alignment > SLAB_LEAST ? alignment : SLAB_LEAST;
    uint64_t room = acre__arena_room(&pool->blocks_in, blocks, is_large ? alignment : most);
    room -= room % (is_large ? ACRE__PIECE_GRAIN : SLAB_LEAST);
    if (own && own->graph && is_large)
        return room;
    uint64_t other = acre__arena_room(&pool->slabs_in, slabs, most);
    other -= other % SLAB_LEAST;
    return other > room ? other : room;
}

acre_status acre__slab_reserve(acre_pool *pool, uint64_t bytes) {
    uint64_t held = pool->account.held;
    if (held >= bytes)
        return ACRE_OK;
    if (bytes > ACRE__BYTES_MOST)
        return acre__fail(pool->kind == ACRE_KIND_DEVICE ? ACRE_E_DEVICE_MEMORY
                                                         : ACRE_E_HOST_MEMORY,
                          "%llu bytes to reserve exceed the 2 TiB that a pool can have",
                          (unsigned long long)bytes);
    acre_status status = acre__arena_grow_ahead(&pool->blocks_in, bytes - held);
    pool->is_reserved |= status == ACRE_OK;
    return status;
}

static void slab_leave(void *pool, struct acre__piece *piece) {
    struct acre__slab *slab = piece->user;
    acre__tag_forget(slab);
    acre__pool_table_remove(slab);
    slab_retire(pool, slab);
}

/* A stale lookup may still read a record, until its thread has left its cache. */
void acre__slab_end_all(acre_pool *pool) {
    acre__slabs_walk(pool, slab_leave, pool);
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
