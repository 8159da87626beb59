/* Large blocks: each is a piece of the pool's arena, of exactly its size.
 *
 * A large block's slab has one slot. It is in use while the block is live or kept by a thread. When
 * the piece becomes a hole, the pool keeps the slab's record for reuse. */

#include "base/round.h"
#include "base/status.h"
#include "pool/pool.h"
#include "pool/pool_large.h"
#include "pool/pool_slab_make.h"

/* Rounds up to at least one unit of the table: blocks with large alignments may be small, and no
 * two blocks may begin in one unit. */
size_t acre__large_bytes(size_t bytes) {
    size_t least = (size_t)1 << ACRE__TABLE_UNIT_BITS;
    bytes = bytes < least ? least : bytes;
    return acre__round_up(bytes, ACRE__GRAIN);
}

/* Creates a slab of one slot, or reuses a record. The caller gets the slab before it takes the
 * piece, so that nothing fails after that. */
static struct acre__slab *large_record(acre_pool *pool) {
    struct acre__slab *slab = pool->spare;
    if (slab) {
        pool->spare = slab->next;
        return slab;
    }
    slab = acre__slab_record(0, 0, ACRE__GRAIN, 1);
    if (slab) { /* constant: a stale pointer may be looked up at any time */
        slab->size_class = ACRE__CLASSES;
        slab->pool = pool;
    }
    return slab;
}

/* Sets up the slab of a taken piece, and adds its slot to the request. */
static void large_make(struct acre__want *want, struct acre__slab *slab,
                       struct acre__piece *piece) {
    slab->at = piece->at;
    slab->bytes = (size_t)piece->bytes;
    slab->slot_bytes = (size_t)piece->bytes;
    slab->fresh = 0;
    slab->piece = piece;
    piece->user = slab;
    slab->node.key = slab->at;
    acre__tree_insert(&want->pool->large, &slab->node);
    acre__pool_table_add(slab);
    acre__slots_push(&want->slots, acre__slab_fresh(slab));
}

static acre_status take_from(struct acre__want *want, const struct acre__reach *reach,
                             struct acre__piece **piece) {
    return acre__arena_take(&want->pool->blocks_in, reach, want->bytes, want->alignment, piece);
}

/* Takes a hole of another stream. The calling stream waits for the work before the free. */
static acre_status take_behind(struct acre__want *want, const struct acre__pool_stream *own,
                               struct acre__piece **piece) {
    acre_pool *pool = want->pool;
    for (struct acre__pool_stream *at = pool->streams; at; at = at->next) {
        for (int i = 0; i < 2 && at != own; i++) {
            struct acre__generation *from = i ? at->recent : at->marked;
            if (from->freed->holes[ACRE__ARENA_BLOCKS].bytes < want->bytes)
                continue;
            acre_status status = acre__stream_join(pool, at, from, want->stream);
            if (status == ACRE_E_NOT_READY)
                continue;
            if (status)
                return status;
            const struct acre__reach reach = {.recent = &from->freed->holes[ACRE__ARENA_BLOCKS]};
            status = take_from(want, &reach, piece);
            if (*piece) {
                pool->waits++;
                if (acre__trace_is_on())
                    acre__trace_wait(&pool->trace, want->stream);
            }
            if (status || *piece)
                return status;
        }
    }
    return ACRE_OK;
}

/* Used if no single stream has a large enough hole: holes of several streams may merge. The calling
 * stream waits for all of these streams, and inherits their holes. */
static acre_status take_behind_all(struct acre__want *want, struct acre__pool_stream *own,
                                   struct acre__piece **piece) {
    const struct acre__reach *reach = &own->reach[ACRE__ARENA_BLOCKS];
    for (struct acre__pool_stream *at = want->pool->streams; at; at = at->next) {
        for (int i = 0; i < 2 && at != own; i++) {
            struct acre__generation *from = i ? at->recent : at->marked;
            if (!from->freed->holes[ACRE__ARENA_BLOCKS].bytes)
                continue;
            acre_status status = acre__stream_join(want->pool, at, from, want->stream);
            if (status == ACRE_E_NOT_READY)
                continue;
            if (status)
                return status;
            want->pool->waits++;
            acre__arena_inherit(&from->freed->holes[ACRE__ARENA_BLOCKS], reach->recent);
            own->recent->is_covered = 0;
        }
    }
    return take_from(want, reach, piece);
}

/* Takes any hole that is large enough, also one of the slabs' arena. There, pieces have multiples
 * of the table's unit. A graph keeps to the arena of large blocks. */
static acre_status take_any(struct acre__want *want, const struct acre__pool_stream *own,
                            struct acre__piece **piece) {
    acre_pool *pool = want->pool;
    size_t unit = (size_t)1 << ACRE__TABLE_UNIT_BITS;
    acre_status status = acre__arena_take_fit(&pool->blocks_in, &own->reach[ACRE__ARENA_BLOCKS],
                                              want->bytes, want->alignment, piece);
    if (status || *piece || own->graph)
        return status;
    return acre__arena_take_fit(&pool->slabs_in, &own->reach[ACRE__ARENA_SLABS],
                                acre__round_up(want->bytes, unit),
                                want->alignment < unit ? unit : want->alignment, piece);
}

/* Returns 1 if the pool would hold more than 64 MiB plus twice the high-water mark. Streams then
 * wait for each other before they take new memory. */
static int has_plenty(const struct acre__want *want) {
    const struct acre__arena *arena = &want->pool->blocks_in;
    uint64_t most = arena->taken + want->bytes;
    most = most > arena->peak ? most : arena->peak;
    return arena->held + want->bytes > 2 * most + ((uint64_t)64 << 20);
}

/* Finds memory for a capture. The arena may not gather memory that the graph freed, because kernels
 * of the graph contain addresses. */
static acre_status graph_find(struct acre__want *want, enum acre__effort effort,
                              const struct acre__pool_stream *own, struct acre__piece **piece) {
    acre_pool *pool = want->pool;
    if (effort == ACRE__TAKE_BEHIND)
        return ACRE_OK;
    acre_status status = take_from(want, &own->reach[ACRE__ARENA_BLOCKS], piece);
    if (status || *piece || effort == ACRE__TAKE_FREE)
        return status;
    acre__streams_settle(pool, NULL, 0);
    (void)acre__slabs_end_idle(pool, NULL, UINT64_MAX);
    status = take_from(want, NULL, piece);
    if (status || *piece)
        return status;
    return acre__arena_take_new(&pool->blocks_in, NULL, want->bytes, want->alignment, piece);
}

static acre_status large_find(struct acre__want *want, enum acre__effort effort,
                              struct acre__pool_stream *own, struct acre__piece **out) {
    struct acre__arena *arena = &want->pool->blocks_in;
    struct acre__reach *reach = &own->reach[ACRE__ARENA_BLOCKS];
    struct acre__piece *piece = NULL;
    acre_status status = effort == ACRE__TAKE_BEHIND ? take_behind(want, own, &piece)
                                                     : take_from(want, reach, &piece);
    if (status == ACRE_OK && !piece && effort == ACRE__TAKE_NEW) {
        acre__stream_settle(want->pool, own, 1);
        acre__streams_settle(want->pool, own, 0);
        status = take_from(want, reach, &piece);
        if (status == ACRE_OK && !piece && has_plenty(want)) {
            status = take_behind(want, own, &piece);
            if (status == ACRE_OK && !piece)
                status = take_behind_all(want, own, &piece);
        }
        /* Idle slabs are not in use, and must not count as taken. */
        if (status == ACRE_OK && !piece)
            (void)acre__slabs_end_idle(want->pool, own, UINT64_MAX);
        reach->is_behind = !piece && acre__stream_is_behind(want->pool, own);
        if (status == ACRE_OK && !piece)
            status = acre__arena_take_new(arena, reach, want->bytes, want->alignment, &piece);
        reach->is_behind = 0;
    }
    *out = piece;
    return status;
}

acre_status acre__large_take(struct acre__want *want, enum acre__effort effort) {
    struct acre__piece *piece = NULL;
    struct acre__pool_stream *own = acre__central_stream(want);
    if (!own)
        return ACRE_E_HOST_MEMORY;
    struct acre__slab *slab = large_record(want->pool);
    if (!slab)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a block");
    acre_status status = effort == ACRE__TAKE_ANY ? take_any(want, own, &piece)
                         : own->graph             ? graph_find(want, effort, own, &piece)
                                                  : large_find(want, effort, own, &piece);
    if (status || !piece)
        acre__large_unrecord(want->pool, slab);
    else
        large_make(want, slab, piece);
    return status;
}
