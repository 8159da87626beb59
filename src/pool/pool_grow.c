/* How an arena gets more memory, and a piece more room: see pool_arena.h.
 *
 * As long as an arena holds little more than what was in use at most, memory is added behind the
 * last piece and holes are used as they are. Beyond that large pieces are kept apart. */
#include <stdlib.h>

#include "base/status.h"
#include "driver/device.h"
#include "pool/pool_arena.h"

/* How much memory an arena may hold: a little more than the most that was in use. Apart, less: each
 * block that does not fit costs a chunk anyway. */
static uint64_t arena_budget(const struct acre__arena *arena, uint64_t more) {
    uint64_t most = arena->taken + more;
    most = most > arena->peak ? most : arena->peak;
    return most + (arena->is_apart ? most / 64 : most / 40) + arena->slack;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

int acre__arena_may_hold(const struct acre__arena *arena, uint64_t bytes, uint64_t more) {
    return arena->held + bytes <= arena_budget(arena, more);
}

int acre__arena_is_own(const struct acre__arena *arena, uint64_t bytes) {
    return arena->is_apart && bytes >= arena->own_bytes;
}

/* From now on large pieces are kept apart. */
static void arena_part(struct acre__arena *arena) {
    arena->is_apart = 1;
    for (struct acre__region *region = arena->regions; region; region = region->next) {
        struct acre__piece *rest;
        for (struct acre__piece *piece = region->first; piece; piece = piece->behind) {
            if (piece->state != ACRE__PIECE_HOLE)
                continue;
            struct acre__holes *holes = piece->holes;
            acre__hole_remove(piece);
            rest = acre__piece_cut_sort(piece);
            acre__hole_insert(piece, holes);
            if (rest) /* looked at in its turn */
                acre__hole_insert(rest, holes);
        }
    }
}

/* ---- memory for pieces ---- */

static acre_status no_record(void) {
    return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a block's place");
}

/* Gives a piece that is in no tree by size the memory of a new chunk. After a failure it is bare,
 * or lost. */
static acre_status piece_map(struct acre__piece *piece, unsigned sort) {
    struct acre__region *region = piece->region;
    int is_lost;
    acre_status status = acre__region_map(region, piece->at, piece->bytes, sort, &is_lost);
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        piece->state = ACRE__PIECE_LOST;
        if (!is_lost)
            acre__bare_make(piece);
        acre__region_shorten(region);
        return acre__said_fail(status, &said);
    }
    piece->sort = region->arena->is_apart ? sort : ACRE__FIT_SHARED;
    return ACRE_OK;
}

static int region_reaches(const struct acre__region *region, uint64_t at, uint64_t bytes) {
    return region && at + bytes <= region->range.at + region->range.bytes;
}

/* The newest region, or another one if its addresses do not reach from `*at` on. */
static acre_status region_for(struct acre__arena *arena, uint64_t *at, uint64_t bytes,
                              uint64_t alignment, struct acre__region **region) {
    *region = arena->regions;
    if (region_reaches(*region, *at, bytes))
        return ACRE_OK;
    acre_status status = acre__region_make(arena, bytes, alignment, region);
    *at = status ? 0 : (*region)->end;
    return status;
}

/* Another piece behind the last one of a region; it has no memory yet. */
static acre_status region_append(struct acre__region *region, uint64_t bytes,
                                 struct acre__piece **out) {
    *out = acre__piece_new(region, region->last, region->end, bytes);
    if (!*out)
        return no_record();
    region->end += bytes;
    (*out)->state = ACRE__PIECE_LOST; /* in no tree by size */
    acre_status status = acre__region_note(region);
    if (status) {
        acre__bare_make(*out);
        acre__region_shorten(region);
    }
    return status;
}

/* Addresses without memory up to there, so that what follows begins where it should. */
static acre_status region_skip(struct acre__region *region, uint64_t to) {
    struct acre__piece *piece;
    if (to <= region->end)
        return ACRE_OK;
    acre_status status = region_append(region, to - region->end, &piece);
    if (status == ACRE_OK)
        acre__bare_make(piece);
    return status;
}

/* The same with memory, as a hole. */
static acre_status region_append_hole(struct acre__region *region, uint64_t bytes, unsigned sort,
                                      struct acre__holes *holes) {
    struct acre__piece *piece;
    acre_status status = region_append(region, bytes, &piece);
    if (status == ACRE_OK)
        status = piece_map(piece, sort);
    if (status == ACRE_OK)
        acre__hole_make(piece, holes);
    return status;
}

/* The last piece of the newest region, if it is a hole that can be used. */
static struct acre__piece *arena_tail(const struct acre__arena *arena,
                                      const struct acre__holes *own) {
    const struct acre__region *region = arena->regions;
    if (!region || region->end == region->range.at)
        return NULL;
    struct acre__piece *last = region->last;
    int is_usable =
        last->state == ACRE__PIECE_HOLE && (last->holes == own || last->holes == &arena->ready);
    return is_usable ? last : NULL;
}

/* Takes the last chunk away, if it is part of a hole that waits for nothing. */
static int region_drop_last(struct acre__region *region) {
    struct acre__piece *last =
        region->end > region->range.at ? arena_tail(region->arena, NULL) : NULL;
    struct acre__node *node = acre__tree_floor(&region->mappings, region->end);
    struct acre__region_part *part = acre__tree_entry(node, struct acre__region_part, node);
    return last && part && part->node.key >= last->at && acre__part_release(last, part) > 0;
}

/* How much is added for a small piece: a little of what there is, so that chunks are few. */
static uint64_t arena_step(const struct acre__arena *arena, uint64_t bytes) {
    uint64_t step = less(arena->peak / arena->step_part, arena->step) / arena->unit * arena->unit;
    return arena->held + step <= arena_budget(arena, bytes) ? step : 0;
}

/* Adds memory behind the last piece, as much as is missing. A large piece begins in the chunk of
 * the one before it and ends in one of a single unit: what is between is a chunk that it does not
 * share, and that can be given back when pieces are kept apart. */
static acre_status grow_behind(struct acre__arena *arena, struct acre__holes *own, uint64_t bytes,
                               uint64_t alignment) {
    struct acre__region *region = arena->regions;
    struct acre__piece *tail = arena_tail(arena, own);
    struct acre__holes *holes = tail ? tail->holes : &arena->ready;
    uint64_t at = tail ? tail->at : region ? region->end : 0;
    at = round_up(at, alignment);
    acre_status status =
        region_for(arena, &at, round_up(bytes, arena->unit) + arena->unit, alignment, &region);
    if (status == ACRE_OK)
        status = region_skip(region, at / arena->unit * arena->unit);
    if (status)
        return status;
    uint64_t end = at + bytes, whole = end / arena->unit * arena->unit;
    if (bytes < arena->own_bytes) {
        uint64_t missing = round_up(end - region->end, arena->unit);
        uint64_t step = arena_step(arena, bytes);
        missing = missing < step && region_reaches(region, region->end, step) ? step : missing;
        return region_append_hole(region, missing, ACRE__FIT_SHARED, holes);
    }
    uint64_t before = arena->held;
    if (whole > region->end)
        status = region_append_hole(region, whole - region->end, ACRE__FIT_OWN, holes);
    if (status == ACRE_OK && whole < end)
        status = region_append_hole(region, arena->unit, ACRE__FIT_SHARED, holes);
    if (status && arena->held > before) { /* not half of it */
        struct acre__said said;
        acre__said_keep(&said);
        (void)region_drop_last(region);
        return acre__said_fail(status, &said);
    }
    return status;
}

acre_status acre__arena_addresses(struct acre__arena *arena, uint64_t bytes, uint64_t alignment,
                                  uint64_t gap, struct acre__piece **out) {
    struct acre__region *region = arena->regions;
    *out = acre__bare_take(arena, bytes + gap, alignment);
    if (*out && gap) {
        struct acre__piece *rest = acre__piece_split(*out, (*out)->at + bytes);
        (*out)->state = ACRE__PIECE_LOST; /* in no tree by size */
        acre__bare_make(rest ? rest : *out);
        if (!rest)
            return no_record();
    }
    if (*out)
        return ACRE_OK;
    uint64_t at = region ? round_up(region->end + gap, alignment) : 0;
    acre_status status = region_for(arena, &at, bytes, alignment, &region);
    if (status == ACRE_OK)
        status = region_skip(region, at);
    return status ? status : region_append(region, bytes, out);
}

/* A chunk by itself for a piece, which is taken at once. */
static acre_status grow_apart(struct acre__arena *arena, uint64_t bytes, uint64_t alignment,
                              struct acre__piece **out) {
    unsigned sort = bytes >= arena->own_bytes ? ACRE__FIT_OWN : ACRE__FIT_SHARED;
    uint64_t wanted = round_up(bytes, arena->unit);
    alignment = alignment > arena->unit ? alignment : arena->unit;
    if (sort == ACRE__FIT_SHARED && wanted < arena->shared_bytes &&
        arena->held + arena->shared_bytes <= arena_budget(arena, bytes))
        wanted = round_up(arena->shared_bytes, arena->unit);
    struct acre__piece *piece, *rest = NULL;
    acre_status status = acre__arena_addresses(arena, wanted, alignment, 0, &piece);
    if (status == ACRE_OK)
        status = piece_map(piece, sort);
    if (status)
        return status;
    if (piece->bytes > bytes && (rest = acre__piece_split(piece, piece->at + bytes)))
        acre__hole_make(rest, &arena->ready);
    piece->state = ACRE__PIECE_TAKEN;
    acre__arena_count(arena, piece->bytes);
    *out = piece;
    return ACRE_OK;
}

/* A block of acre_mem_alloc, as a hole. */
static acre_status grow_block(struct acre__arena *arena, uint64_t bytes, uint64_t alignment) {
    struct acre__region *region;
    acre_status status = acre__region_make(arena, bytes, alignment, &region);
    if (status)
        return status;
    struct acre__piece *piece =
        acre__piece_new(region, NULL, region->range.at, region->range.bytes);
    region->end = region->range.at + region->range.bytes;
    status = piece ? acre__region_note(region) : no_record();
    if (status) {
        acre__region_end(region);
        return status;
    }
    acre__hole_make(piece, &arena->ready);
    return ACRE_OK;
}

/* 1 if so much more would be more than the arena should hold. */
static int arena_is_full(const struct acre__arena *arena, const struct acre__holes *own,
                         uint64_t bytes) {
    const struct acre__piece *tail = arena->is_apart ? NULL : arena_tail(arena, own);
    uint64_t missing = round_up(bytes - (tail ? less(tail->bytes, bytes) : 0), arena->unit);
    return arena->held + missing > arena_budget(arena, bytes);
}

acre_status acre__arena_take_new(struct acre__arena *arena, struct acre__holes *own, size_t bytes,
                                 size_t alignment, struct acre__piece **out) {
    uint64_t wanted = round_up(bytes, ACRE__PIECE_GRAIN);
    acre_status status = ACRE_OK;
    *out = NULL;
    if (arena->unit && !arena->is_apart && arena_is_full(arena, own, wanted)) {
        arena_part(arena);
        status = acre__arena_take(arena, own, bytes, alignment, out);
        if (status || *out)
            return status;
    }
    if (arena->unit && arena->is_apart) {
        uint64_t ended = arena->ended;
        if (arena_is_full(arena, own, wanted))
            (void)acre__arena_release(arena, arena->held + round_up(wanted, arena->unit) -
                                                 arena_budget(arena, wanted));
        arena->moved += arena->ended - ended;
        return grow_apart(arena, wanted, alignment, out);
    }
    if (arena->unit && arena->bare.count) {
        struct acre__piece *piece =
            acre__bare_take(arena, round_up(wanted, arena->unit),
                            alignment > arena->unit ? alignment : arena->unit);
        status = piece ? piece_map(piece, ACRE__FIT_SHARED) : ACRE_OK;
        if (piece && status == ACRE_OK) {
            acre__hole_make(piece, &arena->ready);
            return acre__arena_take(arena, own, bytes, alignment, out);
        }
    }
    if (status == ACRE_OK)
        status = arena->unit ? grow_behind(arena, own, wanted, alignment)
                             : grow_block(arena, wanted, alignment);
    return status ? status : acre__arena_take(arena, own, bytes, alignment, out);
}

acre_status acre__arena_grow_ahead(struct acre__arena *arena, uint64_t bytes) {
    struct acre__region *region;
    if (!arena->unit)
        return grow_block(arena, round_up(bytes, (uint64_t)2 << 20), arena->alignment);
    uint64_t wanted = round_up(bytes, arena->unit), most = (uint64_t)1 << 30, before = arena->held;
    uint64_t at = arena->regions ? arena->regions->end : 0;
    acre_status status = region_for(arena, &at, wanted, arena->unit, &region);
    for (uint64_t left = wanted; left && status == ACRE_OK; left -= less(left, most))
        status = region_append_hole(region, less(left, most), ACRE__FIT_SHARED, &arena->ready);
    if (status == ACRE_OK) {
        arena->is_ahead = 1;
        return ACRE_OK;
    }
    struct acre__said said;
    acre__said_keep(&said);
    while (arena->held > before && arena->regions && region_drop_last(arena->regions))
        continue;
    return acre__said_fail(status, &said);
}

/* ---- pieces that get longer ---- */

struct acre__piece *acre__hole_behind(const struct acre__piece *piece,
                                      const struct acre__holes *own) {
    struct acre__piece *behind = piece->behind;
    int is_usable = behind && behind->state == ACRE__PIECE_HOLE &&
                    (behind->holes == own || behind->holes == &piece->region->arena->ready);
    return is_usable ? behind : NULL;
}

/* Gives the first `bytes` of a bare piece memory, as a hole. */
static acre_status bare_fill(struct acre__piece *bare, uint64_t bytes, unsigned sort,
                             struct acre__holes *holes) {
    struct acre__tree *tree = &bare->region->arena->bare;
    acre__tree_remove(tree, &bare->fit);
    bare->state = ACRE__PIECE_LOST; /* in no tree by size */
    if (bare->bytes > bytes) {
        struct acre__piece *rest = acre__piece_split(bare, bare->at + bytes);
        if (!rest) {
            acre__bare_make(bare);
            return no_record();
        }
        acre__bare_make(rest);
    }
    acre_status status = piece_map(bare, sort);
    if (status == ACRE_OK)
        acre__hole_make(bare, holes);
    return status;
}

acre_status acre__arena_extend_new(struct acre__piece *piece, struct acre__holes *own,
                                   size_t bytes) {
    struct acre__region *region = piece->region;
    struct acre__arena *arena = region->arena;
    struct acre__piece *hole = acre__hole_behind(piece, own);
    struct acre__piece *next = (hole ? hole : piece)->behind;
    struct acre__holes *holes = hole ? hole->holes : &arena->ready;
    uint64_t from = acre__piece_end(hole ? hole : piece);
    uint64_t end = piece->at + round_up(bytes, ACRE__PIECE_GRAIN);
    unsigned sort = bytes >= arena->own_bytes ? ACRE__FIT_OWN : ACRE__FIT_SHARED;
    acre_status status = ACRE_E_INTERIOR;
    if (!arena->unit || end <= from)
        return ACRE_E_INTERIOR;
    uint64_t missing = round_up(end - from, arena->unit);
    if (arena->held + missing > arena_budget(arena, bytes - piece->bytes))
        return ACRE_E_INTERIOR;
    if (!next && from == region->end && region_reaches(region, from, missing))
        status = region_append_hole(region, missing, sort, holes);
    else if (next && next->state == ACRE__PIECE_BARE && next->bytes >= missing)
        status = bare_fill(next, missing, sort, holes);
    if (status)
        return status;
    return acre__arena_extend(piece, own, bytes) ? ACRE_OK : no_record();
}

acre_status acre__arena_take_own(struct acre__arena *arena, size_t bytes,
                                 struct acre__piece **out) {
    *out = NULL;
    uint64_t wanted = round_up(bytes, arena->unit ? arena->unit : 1);
    if (!arena->unit || bytes < arena->own_bytes ||
        arena->held + wanted > arena_budget(arena, wanted) + wanted / 2)
        return ACRE_OK;
    return grow_apart(arena, wanted, arena->unit, out);
}
