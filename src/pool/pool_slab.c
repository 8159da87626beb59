/* Slabs of small blocks: pieces of an arena that are cut into slots of one class. */
#include <stdlib.h>

#include "base/status.h"
#include "pool/pool.h"
#include "pool/pool_tag.h"

enum { SLAB_LEAST = 1 << 16, SLAB_MOST = 2 << 20 }; /* bytes; multiples of the table's unit */

static size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

struct acre__slab *acre__slab_record(uint64_t at, size_t bytes, size_t slot_bytes, size_t count) {
    struct acre__slab *slab;
    size_t states_bytes = round_up(count * sizeof slab->states[0], ACRE__LINE);
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
    for (size_t i = 0; i < count; i++) /* now: who asks about an address has no lock */
        slab->slots[i].state = &slab->states[i];
    return slab;
}

void acre__slab_drop(struct acre__slab *slab) {
    _Atomic uint16_t *tags = slab ? acre__load(&slab->tags, memory_order_relaxed) : NULL;
    if (tags && tags != &slab->one_tag)
        free((void *)tags);
    free(slab);
}

struct acre__slot *acre__slab_fresh(struct acre__slab *slab) {
    uint32_t index = slab->fresh++;
    struct acre__slot *slot = &slab->slots[index];
    slot->p = (void *)(uintptr_t)(slab->at + index * slab->slot_bytes);
    return slot;
}

/* How many slots the next slab of a class gets: as many as the class has, so that one with few
 * blocks takes little memory. */
static size_t slab_slots(const acre_pool *pool, uint32_t size_class) {
    size_t slot_bytes = acre__class_bytes(size_class), count = pool->slots[size_class];
    size_t least = SLAB_LEAST / slot_bytes, most = SLAB_MOST / slot_bytes;
    count = count < least ? least : count > most ? most : count;
    return count < 1 ? 1 : count;
}

/* Memory for a slab. What was taken ahead lies with the large blocks; otherwise they are asked only
 * when there is no other memory. */
static acre_status slab_place(acre_pool *pool, size_t bytes, struct acre__piece **piece) {
    acre_status status = acre__arena_take(&pool->slabs_in, NULL, bytes, SLAB_LEAST, piece);
    if (status == ACRE_OK && !*piece && pool->is_reserved)
        status = acre__arena_take(&pool->blocks_in, NULL, bytes, SLAB_LEAST, piece);
    if (status || *piece)
        return status;
    status = acre__arena_take_new(&pool->slabs_in, NULL, bytes, SLAB_LEAST, piece);
    if (status == ACRE_OK)
        return ACRE_OK;
    struct acre__said said;
    acre__said_keep(&said);
    (void)acre__arena_take(&pool->blocks_in, NULL, bytes, SLAB_LEAST, piece);
    return *piece ? ACRE_OK : acre__said_fail(status, &said);
}

/* Nobody has the piece any more. */
static void slab_unplace(struct acre__piece *piece) {
    acre__arena_give(piece, NULL);
}

acre_status acre__slab_make(acre_pool *pool, uint32_t size_class, struct acre__slab **out) {
    size_t slot_bytes = acre__class_bytes(size_class);
    size_t bytes = round_up(slab_slots(pool, size_class) * slot_bytes, SLAB_LEAST);
    struct acre__slab *slab = acre__slab_record(0, bytes, slot_bytes, bytes / slot_bytes);
    if (!slab)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a slab");
    acre_status status = slab_place(pool, bytes, &slab->piece);
    if (status) {
        free(slab);
        return status;
    }
    slab->at = slab->piece->at;
    slab->size_class = size_class;
    slab->pool = pool;
    slab->piece->user = slab;
    if (!acre__pool_table_add(slab)) {
        slab_unplace(slab->piece);
        free(slab);
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the table of addresses");
    }
    pool->slots[size_class] += slab->count;
    slab->next = pool->slabs;
    pool->slabs = slab;
    *out = slab;
    return ACRE_OK;
}

/* A slab that the table has may be another pool's, which ends it as it likes: only what lies in
 * this pool's regions is looked at. A large block is entered with its first unit alone, which the
 * one before it may reach into: so the last one that begins before the address is looked for. */
struct acre__slab *acre__slab_of(const acre_pool *pool, const void *p) {
    uint64_t at = (uintptr_t)p, unit = (uint64_t)1 << ACRE__TABLE_UNIT_BITS;
    while (acre__arena_has(&pool->slabs_in, at) || acre__arena_has(&pool->blocks_in, at)) {
        struct acre__slab *slab = acre__pool_table_find((void *)(uintptr_t)at);
        if (slab && slab->at <= (uintptr_t)p)
            return (uintptr_t)p - slab->at < slab->bytes ? slab : NULL;
        at -= unit;
    }
    return NULL;
}

struct acre__slot *acre__slab_around(struct acre__slab *slab, const void *p) {
    uint64_t index = ((uintptr_t)p - slab->at) / slab->slot_bytes;
    return index < slab->count ? &slab->slots[index] : NULL;
}

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

/* ---- giving back ---- */

/* Takes the slots of slabs that end out of the list of those that wait for nothing. */
static void ready_filter(acre_pool *pool, uint32_t size_class) {
    struct acre__slots kept = {0};
    struct acre__slot *slot = pool->ready[size_class].first;
    while (slot) {
        struct acre__slot *next = slot->next;
        if (acre__pool_table_find(slot->p))
            acre__slots_push(&kept, slot);
        slot = next;
    }
    pool->ready[size_class] = kept;
}

static void slab_end(acre_pool *pool, struct acre__slab *slab) {
    pool->slots[slab->size_class] -= slab->count;
    slab_unplace(slab->piece);
    acre__slab_drop(slab);
}

/* Slabs none of whose slots is used. */
static void slabs_end_idle(acre_pool *pool, uint64_t most) {
    struct acre__slab *ended = NULL;
    uint64_t bytes = 0;
    for (struct acre__slab **link = &pool->slabs; *link;) {
        struct acre__slab *slab = *link;
        if (slab->idle + (slab->count - slab->fresh) < slab->count || bytes + slab->bytes > most) {
            link = &slab->next;
            continue;
        }
        *link = slab->next;
        bytes += slab->bytes;
        acre__pool_table_remove(slab);
        if (pool->fresh[slab->size_class] == slab)
            pool->fresh[slab->size_class] = NULL;
        slab->next = ended;
        ended = slab;
    }
    for (struct acre__slab *slab = ended; slab; slab = slab->next)
        if (slab->idle)
            ready_filter(pool, slab->size_class);
    while (ended) {
        struct acre__slab *next = ended->next;
        slab_end(pool, ended);
        ended = next;
    }
}

void acre__slab_trim(acre_pool *pool, uint64_t keep) {
    uint64_t held = acre__pool_held(pool);
    if (held <= keep)
        return;
    slabs_end_idle(pool, held - keep);
    uint64_t went = acre__arena_trim(&pool->blocks_in, held - keep);
    (void)acre__arena_trim(&pool->slabs_in, held - keep - went);
    pool->is_reserved &= acre__pool_held(pool) > 0;
}

static void spare_end(acre_pool *pool) {
    while (pool->spare) {
        struct acre__slab *next = pool->spare->next;
        free(pool->spare);
        pool->spare = next;
    }
}

static void slab_forget(void *user, struct acre__piece *piece) {
    struct acre__slab *slab = piece->user;
    (void)user;
    acre__tag_forget(slab);
    acre__pool_table_remove(slab);
    acre__slab_drop(slab);
}

void acre__slab_end_all(acre_pool *pool) {
    acre__arena_walk(&pool->slabs_in, slab_forget, NULL);
    acre__arena_walk(&pool->blocks_in, slab_forget, NULL);
    acre__arena_end(&pool->slabs_in);
    acre__arena_end(&pool->blocks_in);
    pool->slabs = NULL;
    spare_end(pool);
}
