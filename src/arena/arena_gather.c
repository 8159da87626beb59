/* Gathering: maps free chunks side by side at other addresses, see arena.h.
 *
 * The piece begins with the hole that leaves the least to map, if there are bare addresses behind
 * it. Chunks of ready holes are unmapped at their old addresses. Chunks that only the stream may
 * use stay mapped there too, as ghosts, until the device has passed them.
 *
 * Gathering succeeds as a whole or changes nothing. It first creates the records and cuts the
 * chunks out of their holes, then maps everything, and only then removes the old mappings. */
#include <stdlib.h>

#include "arena/arena.h"
#include "base/status.h"

enum { BROKEN_PART = 8 }; /* an eighth of the chunks' bytes may be left at the ends of holes */

/* ---- candidates ---- */

static int picks_push(struct acre__picks *picks, struct acre__pick pick) {
    if (picks->count == picks->room) {
        size_t room = picks->room ? 2 * picks->room : 64;
        struct acre__pick *list = realloc(picks->list, room * sizeof *list);
        if (!list)
            return 0;
        picks->list = list;
        picks->room = room;
    }
    picks->list[picks->count++] = pick;
    picks->bytes += pick.part->bytes;
    return 1;
}

static int picks_add_hole(struct acre__picks *picks, struct acre__piece *hole, int is_ready) {
    const struct acre__tree *parts = &hole->region->mappings;
    struct acre__node *node = acre__tree_ceil(parts, hole->at);
    size_t first = picks->count;
    uint64_t before = picks->bytes;
    for (; node; node = acre__tree_next(parts, node)) {
        struct acre__region_part *part = acre__part_of(node);
        if (node->key + part->bytes > acre__piece_end(hole))
            break;
        if (!picks_push(picks,
                        (struct acre__pick){.part = part, .hole = hole, .is_ready = is_ready}))
            return 0;
    }
    uint64_t whole = picks->bytes - before;
    int is_clean = hole->bytes - whole <= whole / BROKEN_PART;
    while (first < picks->count)
        picks->list[first++].is_clean = is_clean;
    return 1;
}

int acre__picks_add(struct acre__picks *picks, const struct acre__holes *holes, int are_ready,
                    uint64_t least) {
    for (unsigned sort = 0; holes && sort < ACRE__FITS; sort++) {
        const struct acre__tree *tree = &holes->fit[sort];
        struct acre__node *node = acre__tree_ceil(tree, acre__fit_key(least, 0));
        for (; node; node = acre__tree_next(tree, node))
            if (!picks_add_hole(picks, acre__piece_fit(node), are_ready))
                return 0;
    }
    return 1;
}

/* Equal sizes are sorted by address, so that the same calls choose the same chunks. */
static int compare_size(const void *a, const void *b) {
    const struct acre__region_part *x = ((const struct acre__pick *)a)->part;
    const struct acre__region_part *y = ((const struct acre__pick *)b)->part;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->node.key > y->node.key) - (x->node.key < y->node.key);
}

static int compare_place(const void *a, const void *b) {
    uint64_t x = ((const struct acre__pick *)a)->part->node.key;
    uint64_t y = ((const struct acre__pick *)b)->part->node.key;
    return (x < y) - (x > y);
}

void acre__picks_by_size(struct acre__picks *picks) {
    if (picks->count)
        qsort(picks->list, picks->count, sizeof *picks->list, compare_size);
}

void acre__picks_by_place(struct acre__picks *picks) {
    if (picks->count)
        qsort(picks->list, picks->count, sizeof *picks->list, compare_place);
}

/* ---- choosing ---- */

struct gather {
    struct acre__arena *arena;
    const struct acre__reach *reach;
    uint64_t bytes, alignment;
    int spares_holes;
    struct acre__picks picks;
    struct acre__piece *base; /* the hole that the piece begins with, or NULL */
    uint64_t missing;         /* bytes to map behind `base`, or for the whole piece */
    uint64_t created;         /* bytes of `missing` to create */
};

/* Returns the bytes of bare addresses behind a hole. */
static uint64_t room_behind(const struct acre__piece *hole) {
    const struct acre__region *region = hole->region;
    uint64_t end = acre__piece_end(hole);
    if (hole->behind)
        return hole->behind->state == ACRE__PIECE_BARE ? hole->behind->bytes : 0;
    return region == region->arena->regions ? region->range.at + region->range.bytes - end : 0;
}

static uint64_t picks_inside(const struct acre__picks *picks, const struct acre__piece *hole) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < picks->count; i++)
        bytes += picks->list[i].hole == hole ? picks->list[i].part->bytes : 0;
    return bytes;
}

/* Makes the hole the base, if it leaves less to map than the current one. */
static void base_consider(struct gather *gather, struct acre__piece *hole) {
    uint64_t at = acre__round_up(hole->at, gather->alignment), end = acre__piece_end(hole);
    if (at >= end || end % gather->arena->unit || at + gather->bytes <= end)
        return;
    uint64_t missing = acre__round_up(at + gather->bytes - end, gather->arena->unit);
    if (missing >= gather->missing || room_behind(hole) < missing ||
        gather->picks.bytes - picks_inside(&gather->picks, hole) < missing)
        return;
    gather->base = hole;
    gather->missing = missing;
}

static void base_search(struct gather *gather, const struct acre__holes *holes) {
    if (!holes)
        return;
    const struct acre__tree *tree = &holes->fit[ACRE__FIT_SHARED];
    for (struct acre__node *node = acre__tree_first(tree); node; node = acre__tree_next(tree, node))
        base_consider(gather, acre__piece_fit(node));
}

/* Finds the smallest unchosen chunk of at least `left` bytes. */
static struct acre__pick *pick_around(struct gather *gather, uint64_t left) {
    struct acre__pick *best = NULL;
    for (size_t i = 0; i < gather->picks.count; i++) {
        struct acre__pick *pick = &gather->picks.list[i];
        if (pick->part->bytes < left)
            break;
        if (!pick->is_chosen && (!gather->base || pick->hole != gather->base))
            best = pick;
    }
    return best;
}

enum pick_from { FROM_CLEAN, FROM_OTHERS, FROM_ALL };

/* Chooses the largest chunks that fit. Returns what is left. */
static uint64_t picks_choose_some(struct gather *gather, uint64_t left, enum pick_from from) {
    for (size_t i = 0; i < gather->picks.count && left; i++) {
        struct acre__pick *pick = &gather->picks.list[i];
        if (pick->part->bytes > left ||
            (from != FROM_ALL && pick->is_clean != (from == FROM_CLEAN)) ||
            (gather->base && pick->hole == gather->base))
            continue;
        pick->is_chosen = 1;
        left -= pick->part->bytes;
    }
    return left;
}

/* Chooses a larger chunk for the rest, if there are addresses for it. */
static int picks_choose_around(struct gather *gather, uint64_t left) {
    struct acre__pick *around = pick_around(gather, left);
    uint64_t room = gather->base ? room_behind(gather->base) : UINT64_MAX;
    if (!around || gather->missing - left + around->part->bytes > room)
        return 0;
    around->is_chosen = 1;
    gather->missing += around->part->bytes - left;
    return 1;
}

static uint64_t picks_choose_clean(struct gather *gather) {
    uint64_t left = picks_choose_some(gather, gather->missing, FROM_CLEAN);
    return picks_choose_some(gather, left, FROM_OTHERS);
}

static void picks_clear(struct gather *gather) {
    for (size_t i = 0; i < gather->picks.count; i++)
        gather->picks.list[i].is_chosen = 0;
}

static int may_create(const struct gather *gather, uint64_t bytes) {
    return acre__arena_may_hold(gather->arena, bytes, gather->bytes) &&
           !acre__account_is_refused(gather->arena->setup.account, bytes);
}

/* Chooses chunks, those first whose holes are used up. The arena creates the rest. If it may not,
 * it uses a larger chunk instead, or chooses by size alone if that leaves less. */
static void picks_choose(struct gather *gather) {
    uint64_t left = picks_choose_clean(gather);
    if (left && !may_create(gather, left) && picks_choose_around(gather, left))
        left = 0;
    if (left && !may_create(gather, left) && !gather->spares_holes) {
        picks_clear(gather);
        uint64_t again = picks_choose_some(gather, gather->missing, FROM_ALL);
        if (again && picks_choose_around(gather, again))
            again = 0;
        if (again >= left) {
            picks_clear(gather);
            again = picks_choose_clean(gather);
        }
        left = again;
    }
    gather->created = left;
}

/* The chunks are sorted by place. Returns 1 if more than an eighth of the gathered bytes would be
 * left at the ends of their holes, in chunks that are partly taken. Few pieces fit into such ends,
 * and they cannot merge across the gap. */
static int gather_breaks_holes(const struct gather *gather) {
    const struct acre__picks *picks = &gather->picks;
    uint64_t gathered = 0, left = 0;
    for (size_t i = 0; i < picks->count;) {
        const struct acre__piece *hole = picks->list[i].hole;
        uint64_t whole = 0, chosen = 0;
        for (; i < picks->count && picks->list[i].hole == hole; i++) {
            whole += picks->list[i].part->bytes;
            chosen += picks->list[i].is_chosen ? picks->list[i].part->bytes : 0;
        }
        gathered += chosen;
        left += chosen ? hole->bytes - whole : 0;
    }
    return left > gathered / BROKEN_PART;
}

/* Chooses the chunks. Returns 0 if there is no free chunk, if out of host memory, if `instead`
 * bytes or more would still have to be created, or if holes are spared and it breaks them up. */
static int gather_plan(struct gather *gather, uint64_t instead) {
    const struct acre__reach *reach = gather->reach;
    struct acre__arena *arena = gather->arena;
    uint64_t unit = arena->unit;
    if ((reach && (!acre__picks_add(&gather->picks, reach->recent, 0, unit) ||
                   !acre__picks_add(&gather->picks, reach->marked, 0, unit))) ||
        !acre__picks_add(&gather->picks, &arena->ready, 1, unit) || !gather->picks.count)
        return 0;
    acre__picks_by_size(&gather->picks);
    gather->missing = acre__round_up(gather->bytes, unit);
    base_search(gather, reach ? reach->recent : NULL);
    base_search(gather, reach ? reach->marked : NULL);
    base_search(gather, &arena->ready);
    picks_choose(gather);
    if (gather->created >= instead)
        return 0;
    acre__picks_by_place(&gather->picks);
    return !(gather->spares_holes && gather_breaks_holes(gather));
}

/* ---- mapping ---- */

/* Unmaps all chunks from `from` up to `end`. Returns 0 if the driver refused one. */
static int parts_end(struct acre__region *region, uint64_t from, uint64_t end) {
    struct acre__node *node;
    int is_done = 1;
    while ((node = acre__tree_ceil(&region->mappings, from)) && node->key < end) {
        struct acre__region_part *part = acre__part_of(node);
        from = node->key + part->bytes;
        is_done &= acre__region_unmap(region, part);
    }
    return is_done;
}

static acre_status fill_chosen(const struct acre__piece *piece, const struct acre__picks *picks,
                               unsigned sort, uint64_t *filled) {
    acre_status status = ACRE_OK;
    for (size_t i = 0; picks && i < picks->count && status == ACRE_OK; i++) {
        const struct acre__pick *pick = &picks->list[i];
        if (!pick->is_chosen)
            continue;
        status = acre__region_alias(piece->region, piece->at + *filled, sort, pick->part);
        *filled += status ? 0 : pick->part->bytes;
    }
    if (status == ACRE_OK && *filled)
        status = acre__region_access(piece->region, piece->at, (size_t)*filled);
    return status;
}

acre_status acre__piece_fill(struct acre__piece *piece, const struct acre__picks *picks,
                             unsigned sort, uint64_t chunk) {
    struct acre__region *region = piece->region;
    uint64_t filled = 0;
    int is_lost = 0;
    acre_status status = fill_chosen(piece, picks, sort, &filled);
    if (status == ACRE_OK)
        status = acre__region_room(region, piece->bytes - filled, chunk);
    while (status == ACRE_OK && filled < piece->bytes) {
        uint64_t left = piece->bytes - filled;
        size_t bytes = (size_t)(left < chunk ? left : chunk);
        status = acre__region_map(region, piece->at + filled, bytes, sort, &is_lost);
        filled += bytes;
    }
    if (status == ACRE_OK) {
        piece->sort = region->arena->is_joined ? ACRE__FIT_SHARED : sort;
        return ACRE_OK;
    }
    struct acre__said said;
    acre__said_keep(&said);
    piece->state = ACRE__PIECE_LOST;
    if (parts_end(region, piece->at, acre__piece_end(piece)) && !is_lost)
        acre__bare_make(piece);
    acre__region_settle(region);
    return acre__said_fail(status, &said);
}

/* ---- the old addresses ---- */

/* Cuts the chosen chunks out of their holes and sets `hole` to the piece of each. They are sorted
 * by place. Returns 0 if out of host memory for the records. */
static int picks_cut(struct acre__picks *picks) {
    for (size_t i = 0; i < picks->count; i++) {
        struct acre__pick *pick = &picks->list[i];
        if (!pick->is_chosen)
            continue;
        struct acre__piece *hole = pick->hole;
        struct acre__holes *holes = hole->holes;
        struct acre__piece *piece = acre__hole_take(hole, pick->part->node.key, pick->part->bytes);
        if (!piece) {
            pick->is_chosen = 0;
            return 0;
        }
        piece->holes = holes;
        pick->hole = piece;
    }
    return 1;
}

/* Undoes picks_cut. */
static void picks_uncut(struct acre__picks *picks) {
    for (size_t i = 0; i < picks->count; i++) {
        struct acre__pick *pick = &picks->list[i];
        if (!pick->is_chosen || pick->hole->state != ACRE__PIECE_TAKEN)
            continue;
        struct acre__piece *piece = pick->hole;
        const struct acre__reach to = {.recent = piece->holes};
        int is_ready = piece->holes == &piece->region->arena->ready;
        piece->holes = NULL;
        acre__hole_make(piece, is_ready ? NULL : &to);
    }
}

/* Counts the new mappings of the chunks in place of the old ones. Unmaps the old ones, or makes
 * them ghosts. Returns 1 if work in flight may use an old one. */
static int picks_commit(struct gather *gather, struct acre__region *region, uint64_t at) {
    int is_in_flight = 0;
    for (size_t i = 0; i < gather->picks.count; i++) {
        const struct acre__pick *pick = &gather->picks.list[i];
        struct acre__piece *piece = pick->hole;
        struct acre__region *old = piece->region;
        if (!pick->is_chosen)
            continue;
        acre__part_of(acre__tree_find(&region->mappings, at))->is_counted = 1;
        at += pick->part->bytes;
        pick->part->is_counted = 0;
        pick->part->is_ghost = 1;
        gather->arena->moved++;
        piece->holes = NULL;
        if (pick->is_ready) {
            acre__piece_unmap(piece);
            if (old != region)
                acre__region_settle(old);
            continue;
        }
        is_in_flight = 1;
        piece->state = ACRE__PIECE_GHOST;
        piece->user = gather->reach->recent->ghosts;
        gather->reach->recent->ghosts = piece;
    }
    return is_in_flight;
}

/* ---- the whole gathering ---- */

/* Finds addresses for the chunks. */
static acre_status gather_addresses(struct gather *gather, struct acre__piece **out) {
    struct acre__piece *base = gather->base;
    if (!base)
        return acre__arena_addresses(gather->arena, gather->missing, gather->arena->unit, 0, out);
    if (!base->behind)
        return acre__region_append(base->region, gather->missing, out);
    *out = acre__bare_cut(base->behind, base->behind->at, gather->missing);
    return *out ? ACRE_OK
                : acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a block's place");
}

/* Turns the mapped memory into a hole, merged with the base. */
static struct acre__piece *gather_hole(struct gather *gather, struct acre__piece *piece,
                                       int is_in_flight) {
    struct acre__holes *ready = &gather->arena->ready, *holes = ready;
    if (gather->base) {
        is_in_flight |= gather->base->holes != ready;
        piece = acre__hole_merge(gather->base, piece);
    }
    if (is_in_flight)
        holes = gather->reach->recent;
    acre__hole_insert(piece, holes);
    return piece;
}

acre_status acre__arena_gather(struct acre__arena *arena, const struct acre__reach *reach,
                               uint64_t bytes, uint64_t alignment, uint64_t instead,
                               int spares_holes, struct acre__piece **out) {
    struct gather gather = {.arena = arena, .reach = reach, .bytes = bytes, .alignment = alignment};
    gather.spares_holes = spares_holes;
    struct acre__piece *piece = NULL;
    *out = NULL;
    int is_cut = gather_plan(&gather, instead) && picks_cut(&gather.picks);
    acre_status status = is_cut ? gather_addresses(&gather, &piece) : ACRE_OK;
    if (is_cut && status == ACRE_OK)
        status = acre__piece_fill(piece, &gather.picks, ACRE__FIT_SHARED, acre__arena_chunk(arena));
    if (!is_cut || status) {
        picks_uncut(&gather.picks);
        free(gather.picks.list);
        return status;
    }
    int is_in_flight = picks_commit(&gather, piece->region, piece->at);
    free(gather.picks.list);
    piece = gather_hole(&gather, piece, is_in_flight);
    return acre__arena_take_at(piece, bytes, alignment, out);
}
