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

/* What is left of a hole should be at least so much, or nothing, unless pieces are kept apart. */
#define ARENA_REST ((uint64_t)4 << 20)
static uint64_t round_up(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- taking ---- */

struct fit {
    struct acre__piece *hole;
    struct acre__piece *last; /* the one at the end of the newest region, if it would do */
    uint64_t at;
    int is_good;   /* nothing is left of the hole, or enough, */
    uint64_t rest; /* which is so much */
};

/* A hole at the very end, behind which memory can be added. */
static int hole_is_last(const struct acre__piece *hole) {
    const struct acre__region *region = hole->region;
    return region == region->arena->regions && acre__piece_end(hole) == region->end && !region->mem;
}

/* Looks through the holes of one owner. Those that would leave too little are alike, so only the
 * smallest of them is looked at. */
static void fit_search(const struct acre__holes *holes, unsigned sort, uint64_t most,
                       uint64_t bytes, uint64_t alignment, struct fit *fit) {
    const struct acre__tree *tree = &holes->fit[sort];
    uint64_t enough = acre__fit_key(bytes + fit->rest, 0);
    struct acre__node *node = acre__tree_ceil(tree, acre__fit_key(bytes, 0));
    while (node) {
        struct acre__piece *hole = acre__piece_fit(node);
        uint64_t at = round_up(hole->at, alignment), left = hole->bytes - bytes;
        int is_good = !left || left >= fit->rest;
        int is_last = most == UINT64_MAX && hole_is_last(hole);
        if (left > most || (fit->is_good && fit->hole->bytes <= hole->bytes))
            return;
        if (at + bytes > acre__piece_end(hole) || is_last) {
            fit->last = is_last ? hole : fit->last;
            node = acre__tree_next(tree, node);
            continue;
        }
        if (!fit->hole || is_good || hole->bytes < fit->hole->bytes) {
            fit->hole = hole;
            fit->at = at;
            fit->is_good = is_good;
        }
        if (is_good)
            return;
        node = acre__tree_ceil(tree, node->key < enough ? enough : node->key + 1);
    }
}

acre_status acre__arena_take(struct acre__arena *arena, struct acre__holes *own, size_t bytes,
                             size_t alignment, struct acre__piece **out) {
    struct fit fit = {.rest = arena->is_apart ? 1 : ARENA_REST};
    unsigned sort = acre__arena_is_own(arena, bytes) ? ACRE__FIT_OWN : ACRE__FIT_SHARED;
    uint64_t most = sort == ACRE__FIT_OWN ? bytes / 20 : UINT64_MAX; /* a chunk's misfit */
    bytes = round_up(bytes, ACRE__PIECE_GRAIN);
    *out = NULL;
    if (own)
        fit_search(own, sort, most, bytes, alignment, &fit);
    fit_search(&arena->ready, sort, most, bytes, alignment, &fit);
    if (!fit.hole && sort == ACRE__FIT_OWN && arena->is_ahead)
        fit_search(&arena->ready, ACRE__FIT_SHARED, UINT64_MAX, bytes, alignment, &fit);
    if (!fit.hole && fit.last &&
        round_up(fit.last->at, alignment) + bytes <= acre__piece_end(fit.last)) {
        fit.hole = fit.last;
        fit.at = round_up(fit.last->at, alignment);
    }
    if (!fit.hole)
        return ACRE_OK;
    *out = acre__hole_take(fit.hole, fit.at, bytes);
    if (!*out)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a block's place");
    acre__arena_count(arena, bytes);
    return ACRE_OK;
}

int acre__arena_extend(struct acre__piece *piece, struct acre__holes *own, size_t bytes) {
    struct acre__arena *arena = piece->region->arena;
    struct acre__piece *behind = piece->behind;
    uint64_t wanted = round_up(bytes, ACRE__PIECE_GRAIN), more = wanted - piece->bytes;
    if (wanted <= piece->bytes)
        return 1;
    if (!behind || behind->state != ACRE__PIECE_HOLE || behind->bytes < more ||
        (behind->holes != own && behind->holes != &arena->ready))
        return 0;
    behind = acre__hole_take(behind, behind->at, more);
    if (!behind)
        return 0;
    acre__piece_absorb(piece, behind);
    acre__arena_count(arena, more);
    return 1;
}

/* ---- giving ---- */

/* Gives a region back that nothing is left of. */
static void region_drop_empty(struct acre__region *region) {
    if (region->end == region->range.at)
        acre__region_end(region);
}

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
    struct acre__piece *rest = acre__piece_split(piece, piece->at + keep);
    if (rest)
        acre__arena_give(rest, to);
}

/* The old addresses of chunks that moved: one piece for each, since each may be refused. */
static void ghost_end(struct acre__piece *ghost) {
    struct acre__region *region = ghost->region;
    while (ghost) {
        struct acre__node *node = acre__tree_find(&region->mappings, ghost->at);
        struct acre__region_part *part = acre__tree_entry(node, struct acre__region_part, node);
        struct acre__piece *rest = NULL;
        if (part->bytes < ghost->bytes)
            rest = acre__piece_split(ghost, node->key + part->bytes);
        int is_whole = part->bytes == ghost->bytes;
        ghost->state = ACRE__PIECE_LOST;
        if (acre__region_unmap(region, part) && is_whole)
            acre__bare_make(ghost);
        ghost = rest;
    }
    acre__region_shorten(region);
    (void)acre__region_note(region);
    region_drop_empty(region);
}

/* Moves holes to another owner, where they become one with their neighbours. */
static void holes_move(struct acre__holes *from, struct acre__holes *to) {
    for (unsigned sort = 0; sort < ACRE__FITS; sort++) {
        struct acre__node *node;
        while ((node = acre__tree_first(&from->fit[sort]))) {
            struct acre__piece *piece = acre__piece_fit(node);
            acre__hole_remove(piece);
            acre__hole_make(piece, to);
        }
    }
}

void acre__arena_ready(struct acre__arena *arena, struct acre__holes *holes) {
    while (holes->ghosts) {
        struct acre__piece *ghost = holes->ghosts;
        holes->ghosts = ghost->user;
        ghost->user = NULL;
        ghost_end(ghost);
    }
    holes_move(holes, &arena->ready);
}

void acre__arena_inherit(struct acre__holes *from, struct acre__holes *to) {
    holes_move(from, to);
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
    struct acre__node *node = acre__tree_ceil(parts, hole->at);
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

/* Gives one chunk in a hole back; 0 when that cannot be done. */
uint64_t acre__part_release(struct acre__piece *hole, struct acre__region_part *part) {
    struct acre__region *region = hole->region;
    uint64_t bytes = part->bytes;
    struct acre__piece *piece = acre__hole_take(hole, part->node.key, bytes);
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
        struct acre__piece *piece = region->first;
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
    return hole ? acre__part_release(hole, part) : 0;
}

static uint64_t arena_release(struct acre__arena *arena, struct release release) {
    uint64_t went = 0, step = 1;
    while (release.bytes && step) {
        step = release_next(arena, &release);
        went += step;
        release.bytes -= less(step, release.bytes);
    }
    if (!arena->held) /* all may begin anew */
        arena->is_apart = arena->is_ahead = 0;
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

/* ---- opening, looking, ending ---- */

void acre__arena_open(struct acre__arena *arena, acre_device *dev, acre_kind kind, size_t step,
                      unsigned step_part, size_t region_bytes, size_t alignment) {
    *arena = (struct acre__arena){.dev = dev, .kind = kind, .step = step, .alignment = alignment};
    arena->unit = kind == ACRE_KIND_DEVICE ? acre__chunk_unit(dev, 0) : 0;
    arena->region_bytes = arena->unit ? region_bytes : (size_t)8 << 20;
    arena->step_part = step_part;
    arena->slack = (uint64_t)64 << 20;
    arena->own_bytes = (uint64_t)64 << 20;
    arena->shared_bytes = (uint64_t)16 << 20;
}

int acre__arena_has(const struct acre__arena *arena, uint64_t address) {
    for (const struct acre__region *region = arena->regions; region; region = region->next)
        if (address >= region->range.at && address < region->end)
            return 1;
    return 0;
}

void acre__arena_walk(const struct acre__arena *arena,
                      void (*fn)(void *user, struct acre__piece *piece), void *user) {
    for (const struct acre__region *region = arena->regions; region; region = region->next) {
        for (struct acre__piece *piece = region->first; piece; piece = piece->behind)
            if (piece->state == ACRE__PIECE_TAKEN)
                fn(user, piece);
    }
}

void acre__arena_end(struct acre__arena *arena) {
    while (arena->regions)
        acre__region_end(arena->regions);
    arena->ready = (struct acre__holes){0};
    arena->bare = (struct acre__tree){0};
    arena->taken = 0;
    while (arena->spare) {
        struct acre__piece *next = arena->spare->behind;
        free(arena->spare);
        arena->spare = next;
    }
}

/* ---- invariants ---- */

static const char *piece_fault(const struct acre__piece *piece) {
    const struct acre__region_part *part;
    if (piece->state == ACRE__PIECE_LOST || piece->region->mem)
        return NULL;
    struct acre__node *node = acre__tree_floor(&piece->region->mappings, piece->at);
    uint64_t covered = piece->at;
    for (; node && covered < acre__piece_end(piece);
         node = acre__tree_next(&piece->region->mappings, node)) {
        part = acre__tree_entry(node, struct acre__region_part, node);
        if (node->key > covered || node->key + part->bytes <= covered)
            break;
        covered = node->key + part->bytes;
    }
    if (piece->state == ACRE__PIECE_BARE)
        return covered > piece->at ? "a bare piece has memory" : NULL;
    return covered < acre__piece_end(piece) ? "a piece without memory" : NULL;
}

static uint64_t part_held(const struct acre__region_part *part) {
    return part->is_ghost ? 0 : part->bytes;
}

const char *acre__arena_fault(const struct acre__arena *arena) {
    uint64_t taken = 0, held = 0;
    for (const struct acre__region *region = arena->regions; region; region = region->next) {
        uint64_t at = region->range.at;
        const struct acre__piece *before = NULL;
        struct acre__node *node;
        for (const struct acre__piece *piece = region->first; piece; piece = piece->behind) {
            const char *fault = piece_fault(piece);
            if (fault || piece->at != at || piece->before != before)
                return fault ? fault : "a piece does not begin where the one before it ends";
            if (piece->state == ACRE__PIECE_HOLE &&
                acre__tree_find(&piece->holes->fit[piece->sort], piece->fit.key) != &piece->fit)
                return "a hole is not in its owner's tree";
            before = piece;
            at = acre__piece_end(piece);
            taken += piece->state == ACRE__PIECE_TAKEN ? piece->bytes : 0;
        }
        held += region->mem ? region->mem_bytes : 0;
        if (at != region->end || region->last != before)
            return "the last piece does not end where the region does";
        for (node = acre__tree_first(&region->mappings); node;
             node = acre__tree_next(&region->mappings, node))
            held += part_held(acre__tree_entry(node, struct acre__region_part, node));
    }
    if (taken != arena->taken)
        return "the pieces that are taken are not as many bytes as counted";
    return held != arena->held ? "the memory is not as many bytes as counted" : NULL;
}
