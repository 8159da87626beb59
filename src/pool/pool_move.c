/* Chunks that move to other addresses: see pool_arena.h.
 *
 * A chunk can be mapped at two addresses at a time, so that work that was queued goes on with the
 * old one. */
#include <stdlib.h>

#include "base/status.h"
#include "driver/device.h"
#include "pool/pool_arena.h"
#include "watch/trace.h"

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* ---- pieces that move ---- */

/* 1 if the piece begins with a chunk, and nothing but a hole of the caller's shares the last one:
 * *hole, or NULL. *bytes is of its chunks. */
static int piece_is_whole(const struct acre__piece *piece, const struct acre__holes *own,
                          uint64_t *bytes, struct acre__piece **hole) {
    const struct acre__tree *parts = &piece->region->mappings;
    struct acre__node *node = acre__tree_find(parts, piece->at);
    uint64_t end = piece->at;
    for (; node && end < acre__piece_end(piece); node = acre__tree_next(parts, node))
        end = node->key + acre__tree_entry(node, struct acre__region_part, node)->bytes;
    *bytes = end - piece->at;
    *hole = NULL;
    if (end <= acre__piece_end(piece))
        return end == acre__piece_end(piece);
    *hole = acre__hole_behind(piece, own);
    return *hole && acre__piece_end(*hole) >= end;
}

/* Unmaps everything from there on: 0 if the driver refused some of it. */
static int parts_end(struct acre__region *region, uint64_t from, uint64_t end) {
    struct acre__node *node;
    int is_done = 1;
    while ((node = acre__tree_ceil(&region->mappings, from)) && node->key < end) {
        struct acre__region_part *part = acre__tree_entry(node, struct acre__region_part, node);
        from = node->key + part->bytes;
        is_done &= acre__region_unmap(region, part);
    }
    return is_done;
}

/* Maps the chunks of one piece at the beginning of another as well. */
static acre_status parts_alias(const struct acre__piece *from, struct acre__piece *to,
                               uint64_t bytes) {
    const struct acre__tree *parts = &from->region->mappings;
    struct acre__node *node = acre__tree_find(parts, from->at);
    acre_status status = ACRE_OK;
    for (uint64_t done = 0; done < bytes && status == ACRE_OK;
         node = acre__tree_next(parts, node)) {
        const struct acre__region_part *part =
            acre__tree_entry(node, struct acre__region_part, node);
        status = acre__region_alias(to->region, to->at + done, part);
        done += part->bytes;
    }
    return status ? status : acre__region_access(to->region, to->at, (size_t)bytes);
}

/* The old place: its chunks are counted where they are now. */
static void ghost_make(struct acre__piece *piece, uint64_t bytes, struct acre__holes *own) {
    struct acre__arena *arena = piece->region->arena;
    const struct acre__tree *parts = &piece->region->mappings;
    struct acre__node *node = acre__tree_find(parts, piece->at);
    for (uint64_t done = 0; done < bytes; node = acre__tree_next(parts, node)) {
        struct acre__region_part *part = acre__tree_entry(node, struct acre__region_part, node);
        part->is_ghost = 1;
        arena->held -= part->bytes;
        arena->moved++;
        done += part->bytes;
    }
    arena->taken -= piece->bytes;
    piece->state = ACRE__PIECE_GHOST;
    piece->user = own->ghosts;
    own->ghosts = piece;
}

/* Maps the chunks of a piece at new addresses, and what is missing behind them: all or nothing. */
static acre_status move_map(const struct acre__piece *piece, uint64_t has,
                            struct acre__piece *fresh) {
    struct acre__region *region = fresh->region;
    uint64_t at = fresh->at, end = acre__piece_end(fresh);
    int is_lost = 0;
    acre_status status =
        acre__region_map(region, at + has, (size_t)(end - at - has), ACRE__FIT_OWN, &is_lost);
    if (status == ACRE_OK)
        status = parts_alias(piece, fresh, has);
    if (status == ACRE_OK)
        return ACRE_OK;
    struct acre__said said;
    acre__said_keep(&said);
    fresh->state = ACRE__PIECE_LOST;
    if (parts_end(region, at, end) && !is_lost)
        acre__bare_make(fresh);
    acre__region_shorten(region);
    return acre__said_fail(status, &said);
}

acre_status acre__arena_move(struct acre__piece *piece, struct acre__holes *own, size_t bytes,
                             struct acre__piece **out) {
    struct acre__arena *arena = piece->region->arena;
    struct acre__piece *fresh, *hole, *rest = NULL;
    uint64_t has, wanted = round_up(bytes, arena->unit ? arena->unit : 1);
    *out = NULL;
    if (!arena->unit || !piece_is_whole(piece, own, &has, &hole) || wanted <= has ||
        !acre__arena_may_hold(arena, wanted - has, wanted - piece->bytes))
        return ACRE_OK;
    struct acre__holes *holes = hole ? hole->holes : NULL;
    if (hole && !(rest = acre__hole_take(hole, hole->at, has - piece->bytes)))
        return ACRE_OK;
    acre_status status = acre__arena_addresses(arena, wanted, arena->unit, ACRE__ARENA_GAP, &fresh);
    if (status == ACRE_OK)
        status = move_map(piece, has, fresh);
    if (rest && status) {
        arena->taken += rest->bytes; /* which giving takes off */
        acre__arena_give(rest, holes);
    }
    if (status)
        return status;
    if (rest) {
        arena->taken += rest->bytes;
        acre__piece_absorb(piece, rest);
    }
    ghost_make(piece, has, own);
    fresh->sort = arena->is_apart ? ACRE__FIT_OWN : ACRE__FIT_SHARED;
    fresh->state = ACRE__PIECE_TAKEN;
    acre__arena_count(arena, fresh->bytes);
    *out = fresh;
    return ACRE_OK;
}
