/* Pieces and holes: see pool_arena.h.
 *
 * The pieces of a region touch: each ends where the next begins, and the last ends where the region
 * does. A hole is in one tree by size, its owner's; a bare piece in the arena's; others are in
 * none. Whoever changes a hole's size takes it out of its tree first. */
#include <stdlib.h>

#include "pool/pool_arena.h"

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/* ---- trees by size ---- */

static void fit_insert(struct acre__tree *tree, struct acre__piece *piece) {
    piece->fit.key = acre__fit_key(piece->bytes, piece->at);
    while (!acre__tree_insert(tree, &piece->fit))
        piece->fit.key++;
}

void acre__hole_insert(struct acre__piece *piece, struct acre__holes *holes) {
    piece->state = ACRE__PIECE_HOLE;
    piece->holes = holes;
    piece->user = NULL;
    fit_insert(&holes->fit[piece->sort], piece);
    holes->bytes += piece->bytes;
}

void acre__hole_remove(struct acre__piece *piece) {
    acre__tree_remove(&piece->holes->fit[piece->sort], &piece->fit);
    piece->holes->bytes -= piece->bytes;
    piece->holes = NULL;
}

/* ---- pieces ---- */

struct acre__piece *acre__piece_new(struct acre__region *region, struct acre__piece *before,
                                    uint64_t at, uint64_t bytes) {
    struct acre__arena *arena = region->arena;
    struct acre__piece *piece = arena->spare;
    if (piece)
        arena->spare = piece->behind;
    else
        piece = malloc(sizeof *piece);
    if (!piece)
        return NULL;
    struct acre__piece *behind = before ? before->behind : region->first;
    *piece = (struct acre__piece){
        .at = at, .bytes = bytes, .region = region, .before = before, .behind = behind};
    *(before ? &before->behind : &region->first) = piece;
    *(behind ? &behind->before : &region->last) = piece;
    return piece;
}

static void piece_drop(struct acre__piece *piece) {
    struct acre__region *region = piece->region;
    *(piece->before ? &piece->before->behind : &region->first) = piece->behind;
    *(piece->behind ? &piece->behind->before : &region->last) = piece->before;
    piece->behind = region->arena->spare;
    region->arena->spare = piece;
}

/* The piece is cut at `at`: returns the second part, which is of the same state but in no tree by
 * size; NULL without memory. The piece itself must be in none. */
struct acre__piece *acre__piece_split(struct acre__piece *piece, uint64_t at) {
    struct acre__piece *rest =
        acre__piece_new(piece->region, piece, at, acre__piece_end(piece) - at);
    if (!rest)
        return NULL;
    rest->state = piece->state;
    rest->sort = piece->sort;
    piece->bytes = at - piece->at;
    return rest;
}

/* Two neighbours become one; both are in no tree by size. */
void acre__piece_absorb(struct acre__piece *piece, struct acre__piece *behind) {
    piece->bytes += behind->bytes;
    piece_drop(behind);
}

/* 1 if the second can be part of a hole of the first's: it waits for the same, or for nothing.
 * Where several streams take memory, of the latter only small ones: it waits for one stream's work
 * then, and the others must not have to take new memory for that. */
static int hole_joins(const struct acre__piece *piece, const struct acre__piece *other,
                      const struct acre__holes *holes) {
    if (!other || other->state != ACRE__PIECE_HOLE || other->sort != piece->sort)
        return 0;
    const struct acre__arena *arena = piece->region->arena;
    return other->holes == holes ||
           (other->holes == &arena->ready && (!arena->is_common || other->bytes <= piece->bytes));
}

/* Makes a piece that is in no tree by size a hole, one with its neighbours. */
void acre__hole_make(struct acre__piece *piece, struct acre__holes *holes) {
    struct acre__piece *before = piece->before, *behind = piece->behind;
    if (hole_joins(piece, behind, holes)) {
        acre__hole_remove(behind);
        acre__piece_absorb(piece, behind);
    }
    if (hole_joins(piece, before, holes)) {
        acre__hole_remove(before);
        acre__piece_absorb(before, piece);
        piece = before;
    }
    acre__hole_insert(piece, holes);
}

struct acre__piece *acre__hole_take(struct acre__piece *hole, uint64_t at, uint64_t bytes) {
    struct acre__holes *holes = hole->holes;
    struct acre__piece *front = hole, *rest = NULL;
    acre__hole_remove(hole);
    if (at > hole->at) {
        hole = acre__piece_split(front, at);
        if (!hole) {
            acre__hole_insert(front, holes);
            return NULL;
        }
    }
    if (hole->bytes > bytes && !(rest = acre__piece_split(hole, at + bytes))) {
        if (hole != front)
            acre__piece_absorb(front, hole);
        acre__hole_insert(front, holes);
        return NULL;
    }
    if (hole != front)
        acre__hole_insert(front, holes);
    if (rest)
        acre__hole_insert(rest, holes);
    hole->state = ACRE__PIECE_TAKEN;
    return hole;
}

/* ---- sorts of chunks ---- */

static struct acre__region_part *part_around(const struct acre__region *region, uint64_t at) {
    struct acre__node *node = acre__tree_floor(&region->mappings, at);
    return acre__tree_entry(node, struct acre__region_part, node);
}

/* Apart, a hole is of one sort: cuts a piece where the sort of its chunks changes. Returns what is
 * behind the cut, or NULL. Without memory for the record it stays whole. */
struct acre__piece *acre__piece_cut_sort(struct acre__piece *piece) {
    const struct acre__region_part *part = part_around(piece->region, piece->at);
    if (!part || !piece->region->arena->is_apart)
        return NULL;
    piece->sort = part->sort;
    uint64_t end = part->node.key + part->bytes;
    while (end < acre__piece_end(piece)) {
        part = part_around(piece->region, end);
        if (part->sort != piece->sort)
            return acre__piece_split(piece, end);
        end = part->node.key + part->bytes;
    }
    return NULL;
}

/* The same for holes, before and after. */
void acre__hole_make_apart(struct acre__piece *piece, struct acre__holes *holes) {
    struct acre__piece *rest;
    do {
        piece->sort = ACRE__FIT_SHARED;
        rest = acre__piece_cut_sort(piece);
        acre__hole_make(piece, holes);
        piece = rest;
    } while (rest);
}

/* ---- bare addresses ---- */

/* Bare pieces at the end of a region are no pieces. */
void acre__region_shorten(struct acre__region *region) {
    while (region->end > region->range.at) {
        struct acre__piece *last = region->last;
        if (last->state != ACRE__PIECE_BARE)
            return;
        region->end = last->at;
        acre__tree_remove(&region->arena->bare, &last->fit);
        piece_drop(last);
    }
}

/* A piece that is in no tree by size has no memory from now on. */
void acre__bare_make(struct acre__piece *piece) {
    struct acre__piece *before = piece->before, *behind = piece->behind;
    struct acre__tree *bare = &piece->region->arena->bare;
    piece->state = ACRE__PIECE_BARE;
    if (behind && behind->state == ACRE__PIECE_BARE) {
        acre__tree_remove(bare, &behind->fit);
        acre__piece_absorb(piece, behind);
    }
    if (before && before->state == ACRE__PIECE_BARE) {
        acre__tree_remove(bare, &before->fit);
        acre__piece_absorb(before, piece);
        piece = before;
    }
    fit_insert(bare, piece);
}

/* Bare addresses that have room, cut to size and in no tree by size; NULL if there are none, or no
 * memory for the records. */
struct acre__piece *acre__bare_take(struct acre__arena *arena, uint64_t bytes, uint64_t alignment) {
    struct acre__tree *bare = &arena->bare;
    struct acre__node *node = acre__tree_ceil(bare, acre__fit_key(bytes, 0));
    struct acre__piece *piece = NULL, *rest = NULL;
    uint64_t at = 0;
    for (; node; node = acre__tree_next(bare, node)) {
        piece = acre__piece_fit(node);
        at = round_up(piece->at, alignment);
        if (at + bytes <= acre__piece_end(piece))
            break;
    }
    if (!node)
        return NULL;
    acre__tree_remove(bare, node);
    if (at + bytes < acre__piece_end(piece)) {
        rest = acre__piece_split(piece, at + bytes);
        fit_insert(bare, rest ? rest : piece);
        if (!rest)
            return NULL;
    }
    if (at > piece->at) {
        struct acre__piece *front = piece;
        piece = acre__piece_split(front, at);
        fit_insert(bare, front);
    }
    return piece;
}
