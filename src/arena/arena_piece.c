/* Pieces and holes: see arena.h.
 *
 * The pieces of a region are contiguous: each ends where the next begins, and the last ends where
 * the region does. A hole is in one tree by size, its owner's; a bare piece in the arena's; other
 * pieces are in none. A hole must be out of its tree while its size changes. */
#include <stdlib.h>

#include "arena/arena.h"

/* ---- trees by size ---- */

void acre__hole_insert(struct acre__piece *piece, struct acre__holes *holes) {
    int is_bare = holes == &piece->region->arena->bare;
    piece->state = is_bare ? ACRE__PIECE_BARE : ACRE__PIECE_HOLE;
    piece->holes = holes;
    piece->user = NULL;
    piece->fit.key = acre__fit_key(piece->bytes, piece->at);
    while (!acre__tree_insert(&holes->fit[piece->sort], &piece->fit))
        piece->fit.key++;
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

void acre__piece_absorb(struct acre__piece *piece, struct acre__piece *behind) {
    piece->bytes += behind->bytes;
    piece_drop(behind);
}

/* ---- holes ---- */

/* Returns 1 if the neighbour can merge into the piece's hole: it waits for the same stream, or for
 * nothing. A ready hole that merges then waits for that stream. If several streams take memory,
 * only smaller ready holes merge, so that the merge does not force other streams to take new
 * memory. */
static int hole_joins(const struct acre__piece *piece, const struct acre__piece *other,
                      const struct acre__reach *to) {
    const struct acre__arena *arena = piece->region->arena;
    if (!other || other->sort != piece->sort || !acre__hole_is_usable(other, to, &arena->ready))
        return 0;
    return !to || other->holes != &arena->ready || !arena->is_common ||
           other->bytes <= piece->bytes;
}

struct acre__piece *acre__hole_merge(struct acre__piece *hole, struct acre__piece *piece) {
    acre__hole_remove(hole);
    struct acre__piece *front = hole == piece->before ? hole : piece;
    acre__piece_absorb(front, front->behind);
    return front;
}

void acre__hole_make(struct acre__piece *piece, const struct acre__reach *to) {
    struct acre__holes *holes = to ? to->recent : &piece->region->arena->ready;
    if (hole_joins(piece, piece->behind, to))
        piece = acre__hole_merge(piece->behind, piece);
    if (hole_joins(piece, piece->before, to))
        piece = acre__hole_merge(piece->before, piece);
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
    hole->was_ready = holes == &hole->region->arena->ready;
    return hole;
}

struct acre__piece *acre__hole_behind(const struct acre__piece *piece,
                                      const struct acre__reach *reach) {
    struct acre__piece *behind = piece->behind;
    const struct acre__holes *ready = &piece->region->arena->ready;
    return behind && acre__hole_is_usable(behind, reach, ready) ? behind : NULL;
}

/* ---- sorts of chunks ---- */

static struct acre__region_part *part_around(const struct acre__region *region, uint64_t at) {
    return acre__part_of(acre__tree_floor(&region->mappings, at));
}

/* Sets the sort of a piece to that of its first chunk and splits the piece where the sort changes.
 * Returns the rest, or NULL. If out of host memory for the record, the piece stays whole. */
static struct acre__piece *piece_cut_sort(struct acre__piece *piece) {
    const struct acre__region_part *part = part_around(piece->region, piece->at);
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

void acre__hole_make_sorted(struct acre__piece *piece, const struct acre__reach *to) {
    const struct acre__arena *arena = piece->region->arena;
    struct acre__piece *rest = NULL;
    do {
        piece->sort = ACRE__FIT_SHARED;
        rest = arena->unit && !arena->is_joined ? piece_cut_sort(piece) : NULL;
        acre__hole_make(piece, to);
        piece = rest;
    } while (rest);
}

/* Merges neighbours with the same owner. Other neighbours merge at a later free, which knows the
 * stream. */
void acre__arena_join(struct acre__arena *arena) {
    arena->is_joined = 1;
    for (struct acre__region *region = arena->regions; region; region = region->next) {
        for (struct acre__piece *piece = region->first; piece; piece = piece->behind) {
            if (piece->state != ACRE__PIECE_HOLE)
                continue;
            struct acre__holes *holes = piece->holes;
            acre__hole_remove(piece);
            piece->sort = ACRE__FIT_SHARED;
            if (piece->before && piece->before->holes == holes)
                piece = acre__hole_merge(piece->before, piece);
            acre__hole_insert(piece, holes);
        }
    }
}

/* ---- bare addresses ---- */

void acre__region_shorten(struct acre__region *region) {
    while (region->end > region->range.at) {
        struct acre__piece *last = region->last;
        if (last->state != ACRE__PIECE_BARE)
            return;
        region->end = last->at;
        acre__hole_remove(last);
        piece_drop(last);
    }
}

static int is_bare(const struct acre__piece *piece) {
    return piece && piece->state == ACRE__PIECE_BARE;
}

void acre__bare_make(struct acre__piece *piece) {
    piece->sort = ACRE__FIT_SHARED;
    if (is_bare(piece->behind))
        piece = acre__hole_merge(piece->behind, piece);
    if (is_bare(piece->before))
        piece = acre__hole_merge(piece->before, piece);
    acre__hole_insert(piece, &piece->region->arena->bare);
}

struct acre__piece *acre__bare_cut(struct acre__piece *bare, uint64_t at, uint64_t bytes) {
    struct acre__piece *piece = acre__hole_take(bare, at, bytes);
    if (piece)
        piece->state = ACRE__PIECE_LOST;
    return piece;
}

struct acre__piece *acre__bare_take(struct acre__arena *arena, uint64_t bytes, uint64_t alignment) {
    const struct acre__tree *bare = &arena->bare.fit[ACRE__FIT_SHARED];
    struct acre__node *node = acre__tree_ceil(bare, acre__fit_key(bytes, 0));
    for (; node; node = acre__tree_next(bare, node)) {
        struct acre__piece *piece = acre__piece_fit(node);
        uint64_t at = acre__round_up(piece->at, alignment);
        if (at + bytes <= acre__piece_end(piece))
            return acre__bare_cut(piece, at, bytes);
    }
    return NULL;
}
