/* Where pieces are placed: see pool_arena.h.
 *
 * The rule is best fit, but for holes of which too little to be used would be left while another
 * one leaves more; the hole at the end of the newest region is taken last. So the order of calls
 * alone decides, and the same calls find the same places.
 *
 * The constants were found by replaying traces of language models and a long-tailed mix of sizes:
 * docs/measurements.md has what else was tried. */
#include "pool/pool_arena.h"

#include <stdlib.h>

#include "base/status.h"
#include "driver/device.h"

/* What is left of a hole should be at least so much, or nothing. */
#define ARENA_REST ((uint64_t)4 << 20)
/* Pieces of this size get chunks of their own once they are kept apart, */
#define ARENA_OWN ((uint64_t)48 << 20)
/* and others share chunks of so much. */
#define ARENA_SHARED ((uint64_t)32 << 20)

/* How much memory an arena may hold: 2 % and 64 MiB more than the most that was in use. */
static uint64_t arena_budget(const struct acre__arena *arena, uint64_t more) {
    uint64_t most = arena->taken + more;
    most = most > arena->peak ? most : arena->peak;
    return most + most / 50 + ((uint64_t)64 << 20);
}

static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* From now on large pieces are kept apart. */
static void arena_part(struct acre__arena *arena) {
    arena->is_apart = 1;
    for (struct acre__region *region = arena->regions; region; region = region->next) {
        struct acre__node *node = acre__tree_first(&region->pieces);
        for (; node; node = acre__tree_next(&region->pieces, node)) {
            struct acre__piece *piece = acre__piece_at(node), *rest;
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

/* ---- taking ---- */

struct fit {
    struct acre__piece *hole;
    struct acre__piece *last; /* the one at the end of the newest region, if it would do */
    uint64_t at;
    int is_good; /* nothing is left of the hole, or enough */
};

/* A hole at the very end, behind which memory can be added. */
static int hole_is_last(const struct acre__piece *hole) {
    const struct acre__region *region = hole->region;
    return region == region->arena->regions && acre__piece_end(hole) == region->end && !region->mem;
}

/* Looks through the holes of one owner. */
static void fit_search(const struct acre__holes *holes, unsigned sort, uint64_t most,
                       uint64_t bytes, uint64_t alignment, struct fit *fit) {
    struct acre__node *node = acre__tree_ceil(&holes->fit[sort], acre__fit_key(bytes, 0));
    for (; node; node = acre__tree_next(&holes->fit[sort], node)) {
        struct acre__piece *hole = acre__piece_fit(node);
        uint64_t at = round_up(hole->node.key, alignment), left = hole->bytes - bytes;
        if (left > most || (fit->is_good && fit->hole->bytes <= hole->bytes))
            return;
        if (hole->bytes < bytes || at + bytes > acre__piece_end(hole))
            continue;
        if (most == UINT64_MAX && hole_is_last(hole)) {
            fit->last = hole;
            continue;
        }
        int is_good = !left || left >= ARENA_REST;
        if (!fit->hole || is_good || hole->bytes < fit->hole->bytes) {
            fit->hole = hole;
            fit->at = at;
            fit->is_good = is_good;
        }
        if (is_good)
            return;
    }
}

static int is_own(const struct acre__arena *arena, uint64_t bytes) {
    return arena->is_apart && bytes >= ARENA_OWN;
}

/* Cuts what is wanted out of a hole. */
static struct acre__piece *hole_take(struct acre__piece *hole, uint64_t at, uint64_t bytes) {
    struct acre__holes *holes = hole->holes;
    struct acre__piece *front = hole, *rest = NULL;
    acre__hole_remove(hole);
    if (at > hole->node.key) {
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

static void arena_count(struct acre__arena *arena, uint64_t more) {
    arena->taken += more;
    arena->peak = arena->taken > arena->peak ? arena->taken : arena->peak;
}

acre_status acre__arena_take(struct acre__arena *arena, struct acre__holes *own, size_t bytes,
                             size_t alignment, struct acre__piece **out) {
    struct fit fit = {0};
    unsigned sort = is_own(arena, bytes) ? ACRE__FIT_OWN : ACRE__FIT_SHARED;
    uint64_t most = sort == ACRE__FIT_OWN ? bytes / 10 : UINT64_MAX; /* a chunk's misfit */
    bytes = round_up(bytes, ACRE__PIECE_GRAIN);
    *out = NULL;
    if (own)
        fit_search(own, sort, most, bytes, alignment, &fit);
    fit_search(&arena->ready, sort, most, bytes, alignment, &fit);
    if (!fit.hole && fit.last) {
        fit.hole = fit.last;
        fit.at = round_up(fit.last->node.key, alignment);
    }
    if (!fit.hole)
        return ACRE_OK;
    *out = hole_take(fit.hole, fit.at, bytes);
    if (!*out)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a block's place");
    arena_count(arena, bytes);
    return ACRE_OK;
}

int acre__arena_extend(struct acre__piece *piece, struct acre__holes *own, size_t bytes) {
    struct acre__arena *arena = piece->region->arena;
    struct acre__piece *behind = acre__piece_behind(piece);
    uint64_t more = round_up(bytes, ACRE__PIECE_GRAIN) - piece->bytes;
    if (!behind || behind->state != ACRE__PIECE_HOLE || behind->bytes < more ||
        (behind->holes != own && behind->holes != &arena->ready))
        return 0;
    behind = hole_take(behind, behind->node.key, more);
    if (!behind)
        return 0;
    acre__piece_absorb(piece, behind);
    arena_count(arena, more);
    return 1;
}

/* ---- giving ---- */

void acre__arena_give(struct acre__piece *piece, struct acre__holes *to) {
    struct acre__arena *arena = piece->region->arena;
    arena->taken -= piece->bytes;
    if (arena->is_apart)
        acre__hole_make_apart(piece, to);
    else
        acre__hole_make(piece, to);
}

void acre__arena_cut(struct acre__piece *piece, struct acre__holes *to, size_t bytes) {
    uint64_t keep = round_up(bytes, ACRE__PIECE_GRAIN);
    if (keep >= piece->bytes)
        return;
    struct acre__piece *rest = acre__piece_split(piece, piece->node.key + keep);
    if (rest)
        acre__arena_give(rest, to);
}

void acre__arena_ready(struct acre__arena *arena, struct acre__holes *holes) {
    for (unsigned sort = 0; sort < ACRE__FITS; sort++) {
        struct acre__node *node;
        while ((node = acre__tree_first(&holes->fit[sort]))) {
            struct acre__piece *piece = acre__piece_fit(node);
            acre__hole_remove(piece);
            acre__hole_make(piece, &arena->ready);
        }
    }
}

/* ---- releasing ---- */

/* How much to give back: at least so much if possible, or at most. */
struct release {
    uint64_t bytes;
    int is_most;
};

/* Of at least: the smallest that is enough, or else the largest. Of at most: the largest. */
static int part_is_better(const struct release *release, uint64_t bytes, uint64_t had) {
    if (release->is_most)
        return bytes <= release->bytes && bytes > had;
    return had < release->bytes ? bytes > had : bytes >= release->bytes && bytes < had;
}

/* The best chunk in a hole, if it is better than the one before. */
static void part_choose(const struct acre__piece *hole, const struct release *release,
                        struct acre__region_part **best) {
    const struct acre__tree *parts = &hole->region->mappings;
    struct acre__node *node = acre__tree_ceil(parts, hole->node.key);
    for (; node; node = acre__tree_next(parts, node)) {
        struct acre__region_part *part = acre__tree_entry(node, struct acre__region_part, node);
        if (node->key + part->bytes > acre__piece_end(hole))
            return;
        if (part_is_better(release, part->bytes, *best ? (*best)->bytes : 0))
            *best = part;
    }
}

/* The hole and the chunk in it to give back next; NULL if there is none. */
static struct acre__piece *release_choose(const struct acre__arena *arena,
                                          const struct release *release,
                                          struct acre__region_part **best) {
    struct acre__piece *found = NULL;
    *best = NULL;
    for (unsigned sort = ACRE__FITS; sort-- > 0;) {
        const struct acre__tree *holes = &arena->ready.fit[sort];
        struct acre__node *node = acre__tree_ceil(holes, acre__fit_key(arena->unit, 0));
        for (; node; node = acre__tree_next(holes, node)) {
            const struct acre__region_part *before = *best;
            part_choose(acre__piece_fit(node), release, best);
            if (*best != before)
                found = acre__piece_fit(node);
            if (*best && release->bytes >= arena->ready.bytes) /* all go, in whatever order */
                return found;
        }
    }
    return found;
}

/* Gives a region back that nothing is left of. */
static void region_drop_empty(struct acre__region *region) {
    if (region->end == region->range.at)
        acre__region_end(region);
}

/* Gives one chunk in a hole back; 0 when that cannot be done. */
static uint64_t part_release(struct acre__piece *hole, struct acre__region_part *part) {
    struct acre__region *region = hole->region;
    uint64_t bytes = part->bytes;
    struct acre__piece *piece = hole_take(hole, part->node.key, bytes);
    if (!piece)
        return 0;
    piece->state = ACRE__PIECE_LOST;
    if (acre__region_unmap(region, part))
        acre__bare_make(piece);
    acre__region_shorten(region);
    (void)acre__region_note(region);
    region_drop_empty(region);
    return bytes;
}

/* The same for a block of acre_mem_alloc that is one hole. */
static uint64_t block_release(struct acre__arena *arena, const struct release *release) {
    for (struct acre__region *region = arena->regions; region; region = region->next) {
        struct acre__piece *piece = acre__piece_at(acre__tree_first(&region->pieces));
        uint64_t bytes = piece->bytes;
        if (piece->holes != &arena->ready || bytes != region->range.bytes ||
            !part_is_better(release, bytes, 0))
            continue;
        acre__hole_remove(piece);
        acre__region_end(region);
        return bytes;
    }
    return 0;
}

static uint64_t release_next(struct acre__arena *arena, const struct release *release) {
    struct acre__region_part *part;
    if (!arena->unit)
        return block_release(arena, release);
    struct acre__piece *hole = release_choose(arena, release, &part);
    return hole ? part_release(hole, part) : 0;
}

static uint64_t arena_release(struct acre__arena *arena, struct release release) {
    uint64_t went = 0, step = 1;
    while (release.bytes && step) {
        step = release_next(arena, &release);
        went += step;
        release.bytes -= less(step, release.bytes);
    }
    if (!arena->held) /* all may begin anew */
        arena->is_apart = 0;
    return went;
}

uint64_t acre__arena_release(struct acre__arena *arena, uint64_t bytes) {
    return arena_release(arena, (struct release){bytes, 0});
}

uint64_t acre__arena_trim(struct acre__arena *arena, uint64_t most) {
    uint64_t went = arena_release(arena, (struct release){most, 1});
    arena->peak = arena->taken;
    return went;
}

/* ---- growing ---- */

static acre_status no_record(void) {
    return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a block's place");
}

/* Gives a piece that is in no tree by size the memory of a new chunk. After a failure it is bare,
 * or lost. */
static acre_status piece_map(struct acre__piece *piece, unsigned sort) {
    struct acre__region *region = piece->region;
    int is_lost;
    acre_status status = acre__region_map(region, piece->node.key, piece->bytes, sort, &is_lost);
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

/* Another piece behind the last one of a region: without memory, for now. */
static acre_status region_append(struct acre__region *region, uint64_t bytes,
                                 struct acre__piece **out) {
    *out = acre__piece_new(region, region->end, bytes);
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
    struct acre__piece *last = acre__piece_at(acre__tree_floor(&region->pieces, region->end - 1));
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
    return last && part && part->node.key >= last->node.key && part_release(last, part) > 0;
}

/* How much is added for a small piece: a little of what there is, so that chunks are few. */
static uint64_t arena_step(const struct acre__arena *arena, uint64_t bytes) {
    uint64_t step = less(arena->peak / 256, arena->step) / arena->unit * arena->unit;
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
    uint64_t at = tail ? tail->node.key : region ? region->end : 0;
    at = round_up(at, alignment);
    acre_status status =
        region_for(arena, &at, round_up(bytes, arena->unit) + arena->unit, alignment, &region);
    if (status == ACRE_OK)
        status = region_skip(region, at / arena->unit * arena->unit);
    if (status)
        return status;
    uint64_t end = at + bytes, whole = end / arena->unit * arena->unit;
    if (bytes < ARENA_OWN) {
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

/* A chunk by itself for a piece, which is taken at once. */
static acre_status grow_apart(struct acre__arena *arena, uint64_t bytes, uint64_t alignment,
                              struct acre__piece **out) {
    struct acre__region *region;
    unsigned sort = bytes >= ARENA_OWN ? ACRE__FIT_OWN : ACRE__FIT_SHARED;
    uint64_t wanted = round_up(bytes, arena->unit), at;
    alignment = alignment > arena->unit ? alignment : arena->unit;
    if (sort == ACRE__FIT_SHARED && wanted < ARENA_SHARED &&
        arena->held + ARENA_SHARED <= arena_budget(arena, bytes))
        wanted = round_up(ARENA_SHARED, arena->unit);
    struct acre__piece *piece = acre__bare_take(arena, wanted, alignment), *rest = NULL;
    acre_status status = ACRE_OK;
    if (!piece) {
        at = arena->regions ? round_up(arena->regions->end, alignment) : 0;
        status = region_for(arena, &at, wanted, alignment, &region);
        if (status == ACRE_OK)
            status = region_skip(region, at);
        if (status == ACRE_OK)
            status = region_append(region, wanted, &piece);
    }
    if (status == ACRE_OK)
        status = piece_map(piece, sort);
    if (status)
        return status;
    if (piece->bytes > bytes && (rest = acre__piece_split(piece, piece->node.key + bytes)))
        acre__hole_make(rest, &arena->ready);
    piece->state = ACRE__PIECE_TAKEN;
    arena_count(arena, piece->bytes);
    *out = piece;
    return ACRE_OK;
}

/* A block of acre_mem_alloc, as a hole. */
static acre_status grow_block(struct acre__arena *arena, uint64_t bytes, uint64_t alignment) {
    struct acre__region *region;
    acre_status status = acre__region_make(arena, bytes, alignment, &region);
    if (status)
        return status;
    struct acre__piece *piece = acre__piece_new(region, region->range.at, region->range.bytes);
    if (!piece) {
        acre__region_end(region);
        return no_record();
    }
    region->end = acre__piece_end(piece);
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
    if (arena->is_apart) {
        if (arena_is_full(arena, own, wanted))
            (void)acre__arena_release(arena, arena->held + round_up(wanted, arena->unit) -
                                                 arena_budget(arena, wanted));
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
        return grow_block(arena, round_up(bytes, arena->step), arena->alignment);
    uint64_t wanted = round_up(bytes, arena->unit), most = (uint64_t)1 << 30, before = arena->held;
    uint64_t at = arena->regions ? arena->regions->end : 0;
    acre_status status = region_for(arena, &at, wanted, arena->unit, &region);
    for (uint64_t left = wanted; left && status == ACRE_OK; left -= less(left, most))
        status = region_append_hole(region, less(left, most), ACRE__FIT_SHARED, &arena->ready);
    if (status == ACRE_OK)
        return ACRE_OK;
    struct acre__said said;
    acre__said_keep(&said);
    while (arena->held > before && arena->regions && region_drop_last(arena->regions))
        continue;
    return acre__said_fail(status, &said);
}

/* ---- opening, looking, ending ---- */

void acre__arena_open(struct acre__arena *arena, acre_device *dev, acre_kind kind, size_t step,
                      size_t region_bytes, size_t alignment) {
    *arena = (struct acre__arena){.dev = dev, .kind = kind, .step = step, .alignment = alignment};
    arena->unit = kind == ACRE_KIND_DEVICE ? acre__chunk_unit(dev, 0) : 0;
    arena->region_bytes = arena->unit ? region_bytes : 4 * step;
}

struct acre__piece *acre__arena_find(const struct acre__arena *arena, uint64_t address) {
    for (const struct acre__region *region = arena->regions; region; region = region->next)
        if (address >= region->range.at && address < region->end)
            return acre__piece_at(acre__tree_floor(&region->pieces, address));
    return NULL;
}

void acre__arena_walk(const struct acre__arena *arena,
                      void (*fn)(void *user, struct acre__piece *piece), void *user) {
    for (const struct acre__region *region = arena->regions; region; region = region->next) {
        struct acre__node *node = acre__tree_first(&region->pieces);
        for (; node; node = acre__tree_next(&region->pieces, node))
            if (acre__piece_at(node)->state == ACRE__PIECE_TAKEN)
                fn(user, acre__piece_at(node));
    }
}

void acre__arena_end(struct acre__arena *arena) {
    while (arena->regions)
        acre__region_end(arena->regions);
    arena->ready = (struct acre__holes){0};
    arena->bare = (struct acre__tree){0};
    arena->taken = 0;
}

/* ---- invariants ---- */

static const char *piece_fault(const struct acre__piece *piece) {
    const struct acre__region_part *part;
    if (piece->state == ACRE__PIECE_LOST || piece->region->mem)
        return NULL;
    struct acre__node *node = acre__tree_floor(&piece->region->mappings, piece->node.key);
    uint64_t covered = piece->node.key;
    for (; node && covered < acre__piece_end(piece);
         node = acre__tree_next(&piece->region->mappings, node)) {
        part = acre__tree_entry(node, struct acre__region_part, node);
        if (node->key > covered || node->key + part->bytes <= covered)
            break;
        covered = node->key + part->bytes;
    }
    if (piece->state == ACRE__PIECE_BARE)
        return covered > piece->node.key ? "a bare piece has memory" : NULL;
    return covered < acre__piece_end(piece) ? "a piece without memory" : NULL;
}

const char *acre__arena_fault(const struct acre__arena *arena) {
    uint64_t taken = 0, held = 0;
    for (const struct acre__region *region = arena->regions; region; region = region->next) {
        uint64_t at = region->range.at;
        struct acre__node *node = acre__tree_first(&region->pieces);
        for (; node; node = acre__tree_next(&region->pieces, node)) {
            const struct acre__piece *piece = acre__piece_at(node);
            const char *fault = piece_fault(piece);
            if (fault || node->key != at)
                return fault ? fault : "a piece does not begin where the one before it ends";
            if (piece->state == ACRE__PIECE_HOLE &&
                acre__tree_find(&piece->holes->fit[piece->sort], piece->fit.key) != &piece->fit)
                return "a hole is not in its owner's tree";
            at = acre__piece_end(piece);
            taken += piece->state == ACRE__PIECE_TAKEN ? piece->bytes : 0;
            held += region->mem ? piece->bytes : 0;
        }
        if (at != region->end)
            return "the last piece does not end where the region does";
        for (node = acre__tree_first(&region->mappings); node;
             node = acre__tree_next(&region->mappings, node))
            held += acre__tree_entry(node, struct acre__region_part, node)->bytes;
    }
    if (taken != arena->taken)
        return "the pieces that are taken are not as many bytes as counted";
    return held != arena->held ? "the memory is not as many bytes as counted" : NULL;
}
