/* Placement of pieces, frees, and release of memory: see arena.h.
 *
 * While the arena is joined, placement is best fit. The score of a hole is the sum of two
 * remainders: that of the hole, and that of the chunk in which the piece ends. The arena could not
 * move that chunk any more. The hole at the end of the newest region is used last. So placement
 * depends on the order of calls alone, and the same calls get the same places. While the arena is
 * apart, a large piece takes a hole only if it nearly fills it.
 *
 * A program that repeats its sizes finds holes that its pieces fill. If pieces rarely fill
 * theirs, for example because tensors grow by a little in every step, best fit would leave many
 * remainders too small for the next sizes. Then a piece that fills no hole takes the first one, by
 * address, of a few that are large enough. */
#include "arena/arena.h"

#include <stdlib.h>

#include "base/status.h"

enum {
    FIT_TRIES = 4,      /* best fit: holes compared for each owner */
    FIRST_TRIES = 16,   /* first fit: holes compared for each owner */
    CLOSE_PART = 20,    /* first fit: a hole comes first if at most a 20th of the piece is left */
    FILLED_PART = 64,   /* a piece fills its hole if at most a 64th of the piece is left */
    FILLED_TAKES = 512, /* pieces counted before the arena first decides for first fit */
    RARE_PART = 8,      /* pieces rarely fill their hole: less than one in eight */
    OWN_MISFIT = 20,    /* apart, at most a 20th of a large piece is wasted behind it */
    FALL_PERCENT = 70,
    RISE_PERCENT = 80
};

/* A score is the bytes that would be left, or, above all of these, BY_ADDRESS plus an address. */
#define BY_ADDRESS ((uint64_t)1 << 62)

/* ---- falls and rises of live memory ---- */

/* Called when live memory has fallen. The next cycle is compared with the sizes taken so far. */
static void arena_fall(struct acre__arena *arena) {
    arena->is_low = 1;
    arena->cycles++;
    arena->cycle_bytes = 0;
    arena->taken_before = arena->taken_now;
    arena->gathered_before = arena->gathered_now;
    arena->taken_now = arena->gathered_now = (struct acre__seen){{0}};
    if (!arena->is_joined)
        acre__arena_join(arena);
}

static void arena_note_taken(struct acre__arena *arena, uint64_t bytes) {
    acre__seen_add(&arena->taken_now, bytes);
    acre__arena_count_taken(arena, bytes);
    arena->cycle_bytes += bytes;
    if (arena->taken / RISE_PERCENT > arena->peak / 100)
        arena->is_low = 0;
}

static void arena_note_given(struct acre__arena *arena, uint64_t bytes) {
    acre__arena_count_given(arena, bytes);
    if (!arena->is_low && arena->taken / FALL_PERCENT < arena->peak / 100 &&
        arena->cycle_bytes >= arena->peak)
        arena_fall(arena);
}

/* ---- taking: allocation ---- */

struct fit {
    struct acre__piece *hole;
    uint64_t at, score;
    uint64_t most_stranded; /* most bytes of a chunk that may be stranded */
    uint64_t most_left;     /* with more bytes left, the address decides */
    unsigned most_tries;
};

/* Returns 1 if the hole is at the end of the newest region, where memory can be added behind it. */
static int hole_is_last(const struct acre__piece *hole) {
    const struct acre__region *region = hole->region;
    return region == region->arena->regions && acre__piece_end(hole) == region->end && !region->mem;
}

/* Returns the bytes left in the chunk in which a piece would end, if that whole chunk is in the
 * hole. */
static uint64_t hole_stranded(const struct acre__piece *hole, uint64_t end) {
    const struct acre__region_part *part =
        acre__part_of(acre__tree_floor(&hole->region->mappings, end - 1));
    uint64_t behind = part ? part->node.key + part->bytes : 0;
    return part && part->node.key >= hole->at && behind <= acre__piece_end(hole) ? behind - end : 0;
}

/* Counts a piece that took a hole, and decides between best fit and first fit when enough are
 * counted. */
static void note_filled(struct acre__filled *filled, int is_filled) {
    filled->filled += is_filled ? 1 : 0;
    if (++filled->takes < filled->most)
        return;
    int was_rare = filled->is_rare;
    filled->is_rare = filled->filled < filled->takes / RARE_PART;
    if (was_rare && !filled->is_rare)
        filled->most *= 2;
    filled->takes = filled->filled = 0;
}

/* Searches the holes of one owner, from the smallest that is large enough. Prefers small scores. */
static void fit_search(const struct acre__tree *tree, uint64_t bytes, uint64_t alignment,
                       struct fit *fit) {
    unsigned tries = 0;
    struct acre__node *node = acre__tree_ceil(tree, acre__fit_key(bytes, 0));
    for (; node && tries < fit->most_tries; node = acre__tree_next(tree, node)) {
        struct acre__piece *hole = acre__piece_fit(node);
        uint64_t at = acre__round_up(hole->at, alignment), left = hole->bytes - bytes;
        if (left >= fit->score)
            return;
        if (at + bytes > acre__piece_end(hole) || hole_is_last(hole))
            continue;
        tries++;
        if (left > fit->most_left && BY_ADDRESS + hole->at >= fit->score)
            continue;
        uint64_t stranded = hole_stranded(hole, at + bytes), score = left + stranded;
        if (score > fit->most_left)
            score = BY_ADDRESS + hole->at;
        if (stranded <= fit->most_stranded && score < fit->score) {
            fit->hole = hole;
            fit->at = at;
            fit->score = score;
        }
    }
}

/* Apart, for a large piece: tries the smallest hole in chunks of one piece. */
static void own_search(const struct acre__tree *tree, uint64_t bytes, uint64_t alignment,
                       struct fit *fit) {
    struct acre__node *node = acre__tree_ceil(tree, acre__fit_key(bytes, 0));
    struct acre__piece *hole = node ? acre__piece_fit(node) : NULL;
    if (!hole || hole->bytes - bytes > bytes / OWN_MISFIT || hole->bytes - bytes >= fit->score ||
        acre__round_up(hole->at, alignment) + bytes > acre__piece_end(hole))
        return;
    fit->hole = hole;
    fit->at = acre__round_up(hole->at, alignment);
    fit->score = hole->bytes - bytes;
}

static void owner_search(const struct acre__holes *holes, unsigned sort, uint64_t bytes,
                         uint64_t alignment, struct fit *fit) {
    if (!holes)
        return;
    if (sort == ACRE__FIT_OWN)
        own_search(&holes->fit[sort], bytes, alignment, fit);
    else
        fit_search(&holes->fit[sort], bytes, alignment, fit);
}

/* Tries the hole at the end of the newest region. */
static void last_search(const struct acre__arena *arena, const struct acre__reach *reach,
                        uint64_t bytes, uint64_t alignment, struct fit *fit) {
    struct acre__piece *last = acre__arena_tail(arena, reach);
    if (!last || acre__round_up(last->at, alignment) + bytes > acre__piece_end(last))
        return;
    fit->hole = last;
    fit->at = acre__round_up(last->at, alignment);
}

static acre_status hole_take(struct acre__piece *hole, uint64_t at, uint64_t bytes,
                             struct acre__piece **out) {
    struct acre__arena *arena = hole->region->arena;
    *out = acre__hole_take(hole, at, bytes);
    if (!*out)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a block's place");
    arena_note_taken(arena, bytes);
    return ACRE_OK;
}

static acre_status arena_take(struct acre__arena *arena, const struct acre__reach *reach,
                              size_t size, size_t alignment, uint64_t most_stranded,
                              struct acre__piece **out) {
    uint64_t bytes = acre__round_up(size, ACRE__PIECE_GRAIN);
    int is_first = arena->filled.is_rare;
    struct fit fit = {.score = UINT64_MAX,
                      .most_stranded = most_stranded,
                      .most_left = is_first ? bytes / CLOSE_PART : BY_ADDRESS,
                      .most_tries = is_first ? FIRST_TRIES : FIT_TRIES};
    unsigned sort = acre__arena_is_own(arena, bytes) ? ACRE__FIT_OWN : ACRE__FIT_SHARED;
    *out = NULL;
    owner_search(reach ? reach->recent : NULL, sort, bytes, alignment, &fit);
    owner_search(reach ? reach->marked : NULL, sort, bytes, alignment, &fit);
    owner_search(&arena->ready, sort, bytes, alignment, &fit);
    if (!fit.hole && sort == ACRE__FIT_OWN && arena->is_ahead)
        owner_search(&arena->ready, ACRE__FIT_SHARED, bytes, alignment, &fit);
    if (fit.hole && arena->unit && !arena->setup.is_simple)
        note_filled(&arena->filled, fit.hole->bytes - bytes <= bytes / FILLED_PART);
    if (!fit.hole && (sort == ACRE__FIT_SHARED || arena->is_ahead))
        last_search(arena, reach, bytes, alignment, &fit);
    return fit.hole ? hole_take(fit.hole, fit.at, bytes, out) : ACRE_OK;
}

acre_status acre__arena_take(struct acre__arena *arena, const struct acre__reach *reach,
                             size_t bytes, size_t alignment, struct acre__piece **out) {
    uint64_t most = arena->is_joined ? arena->setup.chunk_most : UINT64_MAX;
    return arena_take(arena, reach, bytes, alignment, most, out);
}

acre_status acre__arena_take_any(struct acre__arena *arena, const struct acre__reach *reach,
                                 size_t bytes, size_t alignment, struct acre__piece **out) {
    return arena_take(arena, reach, bytes, alignment, UINT64_MAX, out);
}

acre_status acre__arena_take_at(struct acre__piece *hole, uint64_t bytes, uint64_t alignment,
                                struct acre__piece **out) {
    return hole_take(hole, acre__round_up(hole->at, alignment), bytes, out);
}

/* Returns the bytes of a hole from the first aligned address on. */
static uint64_t hole_room(const struct acre__piece *hole, uint64_t alignment) {
    uint64_t at = acre__round_up(hole->at, alignment), end = acre__piece_end(hole);
    return at < end ? end - at : 0;
}

acre_status acre__arena_take_fit(struct acre__arena *arena, const struct acre__reach *reach,
                                 size_t size, size_t alignment, struct acre__piece **out) {
    const struct acre__holes *owners[] = {reach ? reach->recent : NULL,
                                          reach ? reach->marked : NULL, &arena->ready};
    uint64_t bytes = acre__round_up(size, ACRE__PIECE_GRAIN);
    *out = NULL;
    for (int i = 0; i < 3 * ACRE__FITS; i++) {
        const struct acre__holes *holes = owners[i / ACRE__FITS];
        const struct acre__tree *tree = holes ? &holes->fit[i % ACRE__FITS] : NULL;
        struct acre__node *node = tree ? acre__tree_ceil(tree, acre__fit_key(bytes, 0)) : NULL;
        while (node && hole_room(acre__piece_fit(node), alignment) < bytes)
            node = acre__tree_next(tree, node);
        if (node)
            return acre__arena_take_at(acre__piece_fit(node), bytes, alignment, out);
    }
    return ACRE_OK;
}

uint64_t acre__arena_room(const struct acre__arena *arena, const struct acre__reach *reach,
                          size_t alignment) {
    uint64_t most = 0;
    for (const struct acre__region *region = arena->regions; region; region = region->next)
        for (const struct acre__piece *piece = region->first; piece; piece = piece->behind)
            if (acre__hole_is_usable(piece, reach, &arena->ready)) {
                uint64_t room = hole_room(piece, alignment);
                most = room > most ? room : most;
            }
    return most;
}

int acre__arena_extend(struct acre__piece *piece, const struct acre__reach *reach, size_t bytes) {
    uint64_t wanted = acre__round_up(bytes, ACRE__PIECE_GRAIN);
    if (wanted <= piece->bytes)
        return 1;
    uint64_t more = wanted - piece->bytes;
    struct acre__piece *behind = acre__hole_behind(piece, reach);
    if (!behind || behind->bytes < more)
        return 0;
    behind = acre__hole_take(behind, behind->at, more);
    if (!behind)
        return 0;
    acre__piece_absorb(piece, behind);
    acre__arena_count_taken(piece->region->arena, more);
    return 1;
}

/* ---- giving: frees ---- */

uint64_t acre__arena_largest(const struct acre__arena *arena, const struct acre__reach *reach) {
    const struct acre__holes *owners[] = {&arena->ready, reach ? reach->recent : NULL,
                                          reach ? reach->marked : NULL};
    uint64_t bytes = 0;
    for (int i = 0; i < 3 * ACRE__FITS; i++) {
        const struct acre__holes *holes = owners[i / ACRE__FITS];
        const struct acre__piece *last =
            holes ? acre__piece_fit(acre__tree_floor(&holes->fit[i % ACRE__FITS], UINT64_MAX))
                  : NULL;
        bytes = last && last->bytes > bytes ? last->bytes : bytes;
    }
    return bytes;
}

void acre__arena_give(struct acre__piece *piece, const struct acre__reach *to) {
    struct acre__arena *arena = piece->region->arena;
    uint64_t bytes = piece->bytes;
    acre__hole_make_sorted(piece, to);
    arena_note_given(arena, bytes);
}

void acre__arena_cut(struct acre__piece *piece, const struct acre__reach *to, size_t bytes) {
    uint64_t keep = acre__round_up(bytes, ACRE__PIECE_GRAIN);
    if (keep >= piece->bytes)
        return;
    struct acre__piece *rest = acre__piece_split(piece, piece->at + keep);
    if (rest)
        acre__arena_give(rest, to);
}

/* ---- changes of owner ---- */

/* Moves holes to another owner, where they merge with their neighbours. */
static void holes_move(struct acre__holes *from, const struct acre__reach *to) {
    for (unsigned sort = 0; sort < ACRE__FITS; sort++) {
        struct acre__node *node;
        while ((node = acre__tree_first(&from->fit[sort]))) {
            struct acre__piece *piece = acre__piece_fit(node);
            acre__hole_remove(piece);
            acre__hole_make(piece, to);
        }
    }
}

static struct acre__piece *ghost_next(struct acre__holes *holes) {
    struct acre__piece *ghost = holes->ghosts;
    if (ghost) {
        holes->ghosts = ghost->user;
        ghost->user = NULL;
    }
    return ghost;
}

uint64_t acre__arena_waiting(const struct acre__holes *holes) {
    uint64_t bytes = holes->bytes;
    for (const struct acre__piece *ghost = holes->ghosts; ghost; ghost = ghost->user) {
        const struct acre__region_part *part =
            acre__part_of(acre__tree_find(&ghost->region->mappings, ghost->at));
        bytes += part->is_counted ? part->bytes : 0;
    }
    return bytes;
}

void acre__arena_ready(struct acre__holes *holes) {
    struct acre__piece *ghost;
    while ((ghost = ghost_next(holes))) {
        struct acre__region *region = ghost->region;
        acre__piece_unmap(ghost);
        acre__region_settle(region);
    }
    holes_move(holes, NULL);
}

void acre__arena_inherit(struct acre__holes *from, struct acre__holes *to) {
    const struct acre__reach reach = {.recent = to};
    struct acre__piece *ghost;
    while ((ghost = ghost_next(from))) {
        ghost->user = to->ghosts;
        to->ghosts = ghost;
    }
    holes_move(from, &reach);
}

/* ---- releasing ---- */

/* Chooses chunks of at least `want` bytes in total if there are that many; with `is_most`, of at
 * most `want`. Candidates are sorted by size, largest first. Takes large chunks while each is
 * needed in full, and last the smallest chunk that is enough. */
static void release_choose(struct acre__picks *picks, uint64_t want, int is_most) {
    for (size_t i = 0; i < picks->count && want; i++) {
        struct acre__pick *pick = &picks->list[i];
        int is_too_large = pick->part->bytes > want;
        int is_smaller_next = i + 1 < picks->count && picks->list[i + 1].part->bytes >= want;
        if (is_too_large && (is_most || is_smaller_next))
            continue;
        pick->is_chosen = 1;
        want -= acre__least(want, pick->part->bytes);
    }
}

uint64_t acre__picks_release(struct acre__picks *picks) {
    uint64_t went = 0;
    acre__picks_by_place(picks);
    for (size_t i = 0; i < picks->count; i++) {
        const struct acre__pick *pick = &picks->list[i];
        size_t bytes = pick->part->bytes;
        struct acre__region *region = pick->hole->region;
        if (!pick->is_chosen)
            continue;
        struct acre__piece *piece = acre__hole_take(pick->hole, pick->part->node.key, bytes);
        if (!piece)
            continue;
        acre__piece_unmap(piece);
        acre__region_settle(region);
        went += bytes;
    }
    return went;
}

static uint64_t chunks_release(struct acre__arena *arena, uint64_t want, int is_most) {
    struct acre__picks picks = {0};
    uint64_t went = 0;
    if (acre__picks_add(&picks, &arena->ready, 1, arena->unit)) {
        acre__picks_by_size(&picks);
        if (want >= picks.bytes)
            for (size_t i = 0; i < picks.count; i++)
                picks.list[i].is_chosen = 1;
        else
            release_choose(&picks, want, is_most);
        went = acre__picks_release(&picks);
    }
    free(picks.list);
    return went;
}

/* As chunks_release, where each region is a block of acre_mem_alloc: releases regions that are one
 * hole. */
static uint64_t blocks_release(struct acre__arena *arena, uint64_t want, int is_most) {
    uint64_t went = 0;
    for (struct acre__region *region = arena->regions, *next; region && went < want;
         region = next) {
        struct acre__piece *piece = region->first;
        uint64_t bytes = piece->bytes;
        next = region->next;
        if (piece->holes != &arena->ready || bytes != region->range.bytes ||
            (is_most && bytes > want - went))
            continue;
        acre__hole_remove(piece);
        acre__region_end(region);
        went += bytes;
    }
    return went;
}

static uint64_t arena_release(struct acre__arena *arena, uint64_t want, int is_most) {
    uint64_t went = !want         ? 0
                    : arena->unit ? chunks_release(arena, want, is_most)
                                  : blocks_release(arena, want, is_most);
    if (!arena->held) { /* empty: start over */
        arena->is_joined = arena->is_ahead = arena->is_low = 0;
        arena->cycles = 0;
        arena->filled = (struct acre__filled){.most = FILLED_TAKES};
        arena->taken_now = arena->taken_before = (struct acre__seen){{0}};
        arena->gathered_now = arena->gathered_before = (struct acre__seen){{0}};
    }
    return went;
}

uint64_t acre__arena_release(struct acre__arena *arena, uint64_t bytes) {
    return arena_release(arena, bytes, 0);
}

uint64_t acre__arena_trim(struct acre__arena *arena, uint64_t most) {
    struct acre__account *account = arena->setup.account;
    uint64_t went = arena_release(arena, most, 1);
    arena->peak = arena->taken;
    account->peak = account->taken;
    acre__account_window(account, 0);
    account->ahead = 0;
    return went;
}

/* ---- opening, lookup, ending ---- */

void acre__arena_open(struct acre__arena *arena, const struct acre__arena_setup *setup) {
    *arena = (struct acre__arena){.setup = *setup, .filled.most = FILLED_TAKES};
    arena->unit = setup->kind == ACRE_KIND_DEVICE ? acre__chunk_unit(setup->dev, 0) : 0;
    arena->block_bytes = (size_t)8 << 20;
    arena->own_bytes = (uint64_t)64 << 20;
    arena->slack = (uint64_t)32 << 20;
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
    arena->ready = arena->bare = (struct acre__holes){0};
    acre__arena_count_given(arena, arena->taken);
    while (arena->spare) {
        struct acre__piece *next = arena->spare->behind;
        free(arena->spare);
        arena->spare = next;
    }
}
