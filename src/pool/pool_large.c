/* Large blocks: each a piece of the pool's arena, of just its size.
 *
 * Its slab has one slot and is made when the piece is taken; it stays while a thread keeps the
 * block, and goes when the piece becomes a hole. */
#include <stdlib.h>

#include "base/status.h"
#include "pool/pool.h"

#define KEPT_MORE_BYTES ((size_t)16 << 20)

/* Blocks with far alignments may be small; no two may begin in one unit of the table. */
static size_t large_bytes(size_t bytes) {
    size_t least = (size_t)1 << ACRE__TABLE_UNIT_BITS;
    bytes = bytes < least ? least : bytes;
    return (bytes + ACRE__GRAIN - 1) / ACRE__GRAIN * ACRE__GRAIN;
}

/* A slab of one slot, of records that are used again: large blocks come and go. */
static struct acre__slab *large_record(acre_pool *pool, const struct acre__piece *piece) {
    struct acre__slab *slab = pool->spare;
    if (slab)
        pool->spare = slab->next;
    else
        slab = acre__slab_record(0, 0, ACRE__GRAIN, 1);
    if (!slab)
        return NULL;
    slab->at = piece->at;
    slab->bytes = (size_t)piece->bytes;
    slab->slot_bytes = (size_t)piece->bytes;
    slab->fresh = 0;
    return slab;
}

static void large_unrecord(acre_pool *pool, struct acre__slab *slab) {
    slab->next = pool->spare;
    pool->spare = slab;
}

/* The slot of a piece that was taken. */
static acre_status large_make(acre_pool *pool, struct acre__piece *piece,
                              struct acre__slot **slot) {
    struct acre__slab *slab = large_record(pool, piece);
    if (slab) {
        slab->size_class = ACRE__CLASSES;
        slab->pool = pool;
        slab->piece = piece;
        piece->user = slab;
        if (acre__pool_table_add(slab)) {
            *slot = acre__slab_fresh(slab);
            return ACRE_OK;
        }
    }
    if (slab)
        large_unrecord(pool, slab);
    acre__arena_give(piece, &pool->blocks_in.ready);
    return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a block");
}

void acre__large_give(acre_pool *pool, struct acre__slab *slab, struct acre__holes *to) {
    acre__pool_table_remove(slab);
    acre__arena_give(slab->piece, to);
    large_unrecord(pool, slab);
}

/* The oldest batch that has a hole for it: the stream waits for the work behind it. */
static acre_status take_behind(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream,
                               struct acre__piece **piece) {
    struct acre__pool_batch *found = NULL;
    for (struct acre__pool_batch *at = pool->batches; at; at = at->next) {
        acre_status status =
            acre__arena_take(&pool->blocks_in, &at->freed->holes, bytes, alignment, piece);
        if (status)
            return status;
        if (*piece) {
            acre__arena_give(*piece, &at->freed->holes);
            *piece = NULL;
            found = at;
        }
    }
    if (!found)
        return ACRE_OK;
    acre_status status = acre__uses_join(&found->uses, stream);
    if (status)
        return status;
    pool->waits++;
    if (acre__trace_is_on())
        acre__trace_wait(&pool->trace, stream);
    return acre__arena_take(&pool->blocks_in, &found->freed->holes, bytes, alignment, piece);
}

static int is_no_memory(acre_status status) {
    return status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_HOST_MEMORY ||
           status == ACRE_E_ADDRESS_SPACE || status == ACRE_E_LIMIT;
}

/* Memory is short: what threads have, what is done by now, what lies in no block. */
static acre_status take_scarce(acre_pool *pool, struct acre__freed *own, size_t bytes,
                               size_t alignment, acre_stream stream, struct acre__piece **piece) {
    acre__cache_drain(pool, NULL, 1, 0);
    acre__central_settle(pool, own);
    acre_status status = acre__arena_take(&pool->blocks_in, &own->holes, bytes, alignment, piece);
    if (status || *piece)
        return status;
    acre__slab_trim(pool, 0);
    status = acre__arena_take_new(&pool->blocks_in, &own->holes, bytes, alignment, piece);
    if (!is_no_memory(status))
        return status;
    struct acre__said said;
    acre__said_keep(&said);
    acre_status behind = take_behind(pool, bytes, alignment, stream, piece);
    if (*piece || behind)
        return behind;
    return acre__said_fail(status, &said);
}

acre_status acre__large_take(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream,
                             uint64_t id, int is_movable, struct acre__slot **slot) {
    struct acre__arena *arena = &pool->blocks_in;
    struct acre__piece *piece = NULL;
    acre_status status;
    struct acre__freed *own = acre__central_freed(pool, stream, id, &status);
    if (!own)
        return status;
    pool->refills++;
    bytes = large_bytes(bytes);
    alignment = alignment < ACRE__GRAIN ? ACRE__GRAIN : alignment;
    if (is_movable)
        (void)acre__arena_take_own(arena, bytes, &piece);
    if (!piece)
        status = acre__arena_take(arena, &own->holes, bytes, alignment, &piece);
    if (status == ACRE_OK && !piece) {
        acre__central_settle(pool, own);
        status = acre__arena_take(arena, &own->holes, bytes, alignment, &piece);
    }
    if (status == ACRE_OK && !piece)
        status = acre__arena_take_new(arena, &own->holes, bytes, alignment, &piece);
    if (is_no_memory(status))
        status = take_scarce(pool, own, bytes, alignment, stream, &piece);
    return status ? status : large_make(pool, piece, slot);
}

/* ---- what threads keep ---- */

/* Where a lane keeps blocks of so many bytes; ACRE__KEPT or more: nowhere. */
static uint32_t kept_index(size_t bytes) {
    uint32_t size_class = acre__class_of(bytes);
    return size_class < ACRE__CLASSES ? 0 : size_class - ACRE__CLASSES;
}

struct acre__slab *acre__lane_kept(struct acre__lane *lane, size_t bytes) {
    uint32_t index = kept_index(bytes);
    struct acre__slab *slab = index < ACRE__KEPT ? lane->kept[index] : NULL;
    if (!slab || slab->bytes < bytes || slab->bytes - bytes > bytes / 64)
        return NULL;
    lane->kept[index] = NULL;
    lane->kept_count--;
    lane->large_live++;
    return slab;
}

int acre__lane_keep(struct acre__lane *lane, struct acre__slab *slab, int *is_last) {
    uint32_t index = kept_index(slab->bytes);
    *is_last = lane->large_live <= 1 && lane->kept_count;
    if (index >= ACRE__KEPT || *is_last)
        return 0;
    if (!lane->kept[index])
        lane->kept[index] = slab;
    else if (lane->more_count < ACRE__KEPT_MORE && slab->bytes <= KEPT_MORE_BYTES)
        lane->more[lane->more_count++] = slab;
    else
        return 0;
    lane->kept_count++;
    lane->large_live--;
    return 1;
}

void acre__lane_take_kept(struct acre__lane *lane, struct acre__slots *slots) {
    lane->kept_count -= lane->more_count;
    while (lane->more_count)
        acre__slots_push(slots, &lane->more[--lane->more_count]->slots[0]);
    for (uint32_t i = 0; i < ACRE__KEPT && lane->kept_count; i++) {
        if (!lane->kept[i])
            continue;
        acre__slots_push(slots, &lane->kept[i]->slots[0]);
        lane->kept[i] = NULL;
        lane->kept_count--;
    }
}
