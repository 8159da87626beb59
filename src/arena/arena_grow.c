/* How an arena gets more memory, and how a piece grows: see arena.h. */
#include <stdlib.h>

#include "arena/arena.h"
#include "base/status.h"

#define MIB ((uint64_t)1 << 20)

enum {
    BUDGET_PART = 100,     /* the budget is the peak, 1/100 more, and as much again up to `slack` */
    TAKEN_PERCENT = 4,     /* beyond the peak, for sizes that a program takes repeatedly */
    GATHERED_PERCENT = 10, /* beyond the peak, for sizes that were also gathered last time */
    SPARE_PERCENT = 1,     /* beyond the budget, rather than break up holes; or, while the peak */
    RISE_PART = 8,         /* rises, an eighth of its recent rise ... */
    RISE_PERCENT = 8,      /* ... and at most this much of the peak, ... */
    RISE_PIECES = 2,       /* ... or twice the piece */
    CHUNK_PART = 32        /* part of the peak: size of chunks that pieces share */
};
#define CHUNK_LEAST (8 * MIB)
#define OWN_CHUNK_MOST (512 * MIB)

/* ---- the budget ---- */

static uint64_t most_taken(const struct acre__arena *arena, uint64_t more) {
    const struct acre__account *account = arena->setup.account;
    uint64_t most = account->taken + more > account->peak ? account->taken + more : account->peak;
    return most > account->ahead ? most : account->ahead;
}

uint64_t acre__arena_over(const struct acre__arena *arena, uint64_t bytes, uint64_t more) {
    uint64_t most = most_taken(arena, more), part = most / BUDGET_PART;
    uint64_t budget = most + part + acre__least(part, arena->slack),
             held = arena->setup.account->held;
    return held + bytes > budget ? held + bytes - budget : 0;
}

int acre__arena_may_hold(const struct acre__arena *arena, uint64_t bytes, uint64_t more) {
    return acre__arena_over(arena, bytes, more) == 0;
}

static uint64_t most_of(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Returns 1 if the arena may exceed the budget to spare its holes. Little is enough if live memory
 * stays the same. While it rises, what is created now is probably needed soon. What the card or a
 * limit refused is not asked for again, because a refused call is slow and may be counted. */
static int may_spare(const struct acre__arena *arena, uint64_t bytes, uint64_t more) {
    const struct acre__account *account = arena->setup.account;
    if (acre__account_is_refused(account, bytes))
        return 0;
    uint64_t percent = most_taken(arena, more) / 100;
    uint64_t rise = account->peak - account->window_peak + account->window_rise;
    uint64_t allowed =
        acre__least(rise / RISE_PART, most_of(percent * RISE_PERCENT, RISE_PIECES * more));
    return acre__arena_over(arena, bytes, more) <= most_of(allowed, percent * SPARE_PERCENT);
}

/* Returns the bytes over the budget, after the owner has released unused memory of its other
 * arenas. */
static uint64_t over_after_reclaim(const struct acre__arena *arena, uint64_t bytes, uint64_t more) {
    struct acre__account *account = arena->setup.account;
    uint64_t over = acre__arena_over(arena, bytes, more);
    if (!over || !account->reclaim)
        return over;
    account->reclaim(account, arena, over);
    return acre__arena_over(arena, bytes, more);
}

int acre__arena_is_own(const struct acre__arena *arena, uint64_t bytes) {
    return arena->unit && !arena->is_joined && bytes >= arena->own_bytes;
}

uint64_t acre__arena_chunk(const struct acre__arena *arena) {
    uint64_t bytes = acre__least(CHUNK_LEAST, arena->setup.chunk_most);
    while (2 * bytes <= arena->setup.chunk_most && 2 * bytes <= arena->peak / CHUNK_PART)
        bytes *= 2;
    return acre__round_up(bytes, arena->unit);
}

/* Returns 1 if the program took the same size before live memory last fell, and the allowance for
 * such sizes has room. Such a program repeats itself, so the memory created now is enough for the
 * next cycles. */
static int size_is_repeated(const struct acre__arena *arena, uint64_t bytes, uint64_t missing) {
    uint64_t percent = acre__seen_has(&arena->gathered_before, bytes) ? GATHERED_PERCENT
                       : acre__seen_has(&arena->taken_before, bytes)  ? TAKEN_PERCENT
                                                                      : 0;
    uint64_t most = most_taken(arena, bytes);
    return percent && arena->setup.account->held + missing <= most + most / 100 * percent;
}

/* ---- memory for pieces ---- */

static acre_status no_record(void) {
    return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a block's place");
}

/* Maps a new chunk for a piece that is in no tree by size, and turns the piece into a hole. */
static acre_status piece_add(struct acre__piece *piece, unsigned sort,
                             const struct acre__reach *to) {
    acre_status status = acre__piece_fill(piece, NULL, sort, piece->bytes);
    if (status == ACRE_OK)
        acre__hole_make(piece, to);
    return status;
}

/* Returns 1 if the region has addresses for `bytes` from `at` on. */
static int region_reaches(const struct acre__region *region, uint64_t at, uint64_t bytes) {
    return region && at + bytes <= region->range.at + region->range.bytes;
}

/* Returns the newest region, or a new one if too few addresses are left from `*at` on. */
static acre_status region_for(struct acre__arena *arena, uint64_t *at, uint64_t bytes,
                              uint64_t alignment, struct acre__region **region) {
    *region = arena->regions;
    if (region_reaches(*region, *at, bytes))
        return ACRE_OK;
    acre_status status = acre__region_make(arena, bytes, alignment, region);
    *at = status ? 0 : (*region)->end;
    return status;
}

acre_status acre__region_append(struct acre__region *region, uint64_t bytes,
                                struct acre__piece **out) {
    *out = acre__piece_new(region, region->last, region->end, bytes);
    if (!*out)
        return no_record();
    region->end += bytes;
    (*out)->state = ACRE__PIECE_LOST;
    acre_status status = acre__region_note(region);
    if (status) {
        acre__bare_make(*out);
        acre__region_shorten(region);
    }
    return status;
}

/* Appends bare addresses up to `to`, so that the next piece begins there. */
static acre_status region_skip(struct acre__region *region, uint64_t to) {
    struct acre__piece *piece;
    if (to <= region->end)
        return ACRE_OK;
    acre_status status = acre__region_append(region, to - region->end, &piece);
    if (status == ACRE_OK)
        acre__bare_make(piece);
    return status;
}

/* Appends a chunk to the region, as a hole. */
static acre_status region_append_hole(struct acre__region *region, uint64_t bytes, unsigned sort,
                                      const struct acre__reach *to) {
    struct acre__piece *piece;
    acre_status status = acre__region_append(region, bytes, &piece);
    return status ? status : piece_add(piece, sort, to);
}

struct acre__piece *acre__arena_tail(const struct acre__arena *arena,
                                     const struct acre__reach *reach) {
    const struct acre__region *region = arena->regions;
    if (!region || region->end == region->range.at || region->mem)
        return NULL;
    struct acre__piece *last = region->last;
    int is_usable = acre__hole_is_usable(last, reach, &arena->ready) &&
                    (arena->is_joined || last->sort == ACRE__FIT_SHARED);
    return is_usable ? last : NULL;
}

/* Releases the last chunk, if it is part of the hole at the end. */
static int region_drop_last(struct acre__region *region, const struct acre__reach *reach) {
    struct acre__piece *last = acre__arena_tail(region->arena, reach);
    struct acre__region_part *part =
        acre__part_of(acre__tree_floor(&region->mappings, region->end));
    if (!last || !part || part->node.key < last->at)
        return 0;
    struct acre__piece *piece = acre__hole_take(last, part->node.key, part->bytes);
    if (!piece)
        return 0;
    acre__piece_unmap(piece);
    acre__region_settle(region);
    return 1;
}

/* Appends `bytes` to the newest region, in chunks; all of them or none. */
static acre_status append_chunks(struct acre__arena *arena, struct acre__region *region,
                                 const struct acre__reach *to, uint64_t bytes, uint64_t chunk) {
    uint64_t before = arena->held;
    acre_status status = acre__region_room(region, bytes, chunk);
    for (uint64_t left = bytes; left && status == ACRE_OK; left -= acre__least(left, chunk))
        status = region_append_hole(region, acre__least(left, chunk), ACRE__FIT_SHARED, to);
    if (status == ACRE_OK)
        return ACRE_OK;
    struct acre__said said;
    acre__said_keep(&said);
    while (arena->held > before && arena->regions && region_drop_last(arena->regions, to))
        continue;
    return acre__said_fail(status, &said);
}

/* Returns the bytes to add for a piece at the end. */
static uint64_t missing_behind(const struct acre__arena *arena, const struct acre__reach *reach,
                               uint64_t bytes) {
    const struct acre__piece *tail = acre__arena_tail(arena, reach);
    return acre__round_up(bytes - (tail ? acre__least(tail->bytes, bytes) : 0), arena->unit);
}

/* Returns how much to add when `missing` bytes are missing. A program that repeats itself gets
 * slightly different places each time. So at its peak it gets one chunk more, and need not grow
 * again. */
static uint64_t grow_bytes(const struct acre__arena *arena, uint64_t missing, uint64_t chunk) {
    uint64_t step = acre__round_up(acre__least(arena->setup.step, chunk), arena->unit);
    if (!arena->cycles)
        return missing > step ? missing : step;
    if (arena->held + missing >= arena->peak)
        return missing + chunk;
    return missing > chunk ? missing : chunk;
}

/* Adds at least the memory that is missing for a piece at the end, and with `*is_more` more than
 * that if the budget allows it. Sets `*is_more` to 1 if it asked for more. */
static acre_status append_behind(struct acre__arena *arena, const struct acre__reach *reach,
                                 uint64_t bytes, uint64_t alignment, int *is_more) {
    struct acre__region *region = arena->regions;
    const struct acre__piece *tail = acre__arena_tail(arena, reach);
    const struct acre__reach *to = tail && tail->holes != &arena->ready ? reach : NULL;
    uint64_t at = acre__round_up(tail ? tail->at : region ? region->end : 0, alignment);
    uint64_t chunk = acre__arena_chunk(arena);
    int may_more = *is_more;
    *is_more = 0;
    acre_status status = region_for(arena, &at, acre__round_up(bytes, arena->unit) + arena->unit,
                                    alignment, &region);
    if (status == ACRE_OK)
        status = region_skip(region, at / arena->unit * arena->unit);
    if (status)
        return status;
    if (at + bytes <= region->end)
        return ACRE_OK;
    uint64_t missing = acre__round_up(at + bytes - region->end, arena->unit);
    uint64_t wanted = may_more ? grow_bytes(arena, missing, chunk) : missing;
    if (wanted > missing && region_reaches(region, region->end, wanted) &&
        acre__arena_may_hold(arena, wanted, bytes)) {
        *is_more = 1;
        missing = wanted;
    }
    return append_chunks(arena, region, to, missing, chunk);
}

/* Adds memory for a piece at the end. If the card does not have the bytes in advance, it may still
 * have those of the piece. */
static acre_status grow_behind(struct acre__arena *arena, const struct acre__reach *reach,
                               uint64_t bytes, uint64_t alignment) {
    int is_more = 1;
    acre_status status = append_behind(arena, reach, bytes, alignment, &is_more);
    if (is_more && acre__is_too_much(status)) {
        is_more = 0;
        status = append_behind(arena, reach, bytes, alignment, &is_more);
    }
    return status;
}

acre_status acre__arena_addresses(struct acre__arena *arena, uint64_t bytes, uint64_t alignment,
                                  uint64_t gap, struct acre__piece **out) {
    struct acre__region *region = arena->regions;
    uint64_t all = bytes + 2 * gap;
    *out = alignment <= arena->unit ? acre__bare_take(arena, all, arena->unit) : NULL;
    if (!*out) {
        uint64_t at = region ? region->end : 0;
        acre_status status = region_for(arena, &at, all + alignment, alignment, &region);
        if (status == ACRE_OK)
            status = region_skip(region, acre__round_up(at + gap, alignment) - gap);
        if (status == ACRE_OK)
            status = acre__region_append(region, all, out);
        if (status)
            return status;
    }
    if (!gap)
        return ACRE_OK;
    struct acre__piece *front = *out;
    struct acre__piece *piece = acre__piece_split(front, front->at + gap);
    struct acre__piece *rest = piece ? acre__piece_split(piece, piece->at + bytes) : NULL;
    if (!rest && piece)
        acre__piece_absorb(front, piece);
    acre__bare_make(front);
    if (rest)
        acre__bare_make(rest);
    *out = rest ? piece : NULL;
    return rest ? ACRE_OK : no_record();
}

/* ---- apart ---- */

/* Creates chunks for one piece and takes the piece at once. */
static acre_status grow_own(struct acre__arena *arena, uint64_t bytes, uint64_t alignment,
                            uint64_t chunk, struct acre__piece **out) {
    uint64_t aligned = alignment > arena->unit ? alignment : arena->unit;
    struct acre__piece *piece;
    acre_status status = acre__arena_addresses(arena, acre__round_up(bytes, arena->unit), aligned,
                                               arena->unit, &piece);
    if (status == ACRE_OK)
        status = acre__piece_fill(piece, NULL, ACRE__FIT_OWN, chunk);
    if (status)
        return status;
    acre__hole_insert(piece, &arena->ready);
    return acre__arena_take_at(piece, bytes, alignment, out);
}

static acre_status take_joined(struct acre__arena *arena, const struct acre__reach *reach,
                               uint64_t bytes, uint64_t alignment, struct acre__piece **out);

/* Beyond the budget, the arena releases free chunks to create new ones. It cannot release chunks
 * that work in flight uses; then it becomes joined. */
static acre_status take_apart(struct acre__arena *arena, const struct acre__reach *reach,
                              uint64_t bytes, uint64_t alignment, struct acre__piece **out) {
    int is_own = acre__arena_is_own(arena, bytes), is_behind = reach && reach->is_behind;
    uint64_t missing =
        is_own ? acre__round_up(bytes, arena->unit) : missing_behind(arena, reach, bytes);
    uint64_t over = over_after_reclaim(arena, missing, bytes), ended = arena->ended;
    if (arena->is_joined || (over && is_behind)) { /* the reclaim may have joined the arena */
        if (!arena->is_joined)
            acre__arena_join(arena);
        acre_status status = acre__arena_take(arena, reach, bytes, alignment, out);
        return status || *out ? status : take_joined(arena, reach, bytes, alignment, out);
    }
    if (over)
        (void)acre__arena_release(arena, over);
    arena->moved += arena->ended - ended;
    if (is_own) /* large chunks are cheap to release, but hard to reuse */
        return grow_own(arena, bytes, alignment,
                        is_behind ? arena->setup.chunk_most : OWN_CHUNK_MOST, out);
    acre_status status = grow_behind(arena, reach, bytes, alignment);
    return status ? status : acre__arena_take(arena, reach, bytes, alignment, out);
}

/* ---- joined ---- */

/* Gathers chunks. If they are too few, takes any hole. */
static acre_status take_gathered(struct acre__arena *arena, const struct acre__reach *reach,
                                 uint64_t bytes, uint64_t alignment, int spares_holes,
                                 struct acre__piece **out) {
    acre_status status = ACRE_OK;
    if (alignment <= arena->unit)
        status = acre__arena_gather(arena, reach, bytes, alignment,
                                    missing_behind(arena, reach, bytes), spares_holes, out);
    if (*out)
        acre__seen_add(&arena->gathered_now, bytes);
    int is_done = status || *out || spares_holes;
    return is_done ? status : acre__arena_take_any(arena, reach, bytes, alignment, out);
}

/* Releases chunks that were created for one large piece each: they are hard to reuse. */
static void release_large(struct acre__arena *arena) {
    struct acre__picks picks = {0};
    if (acre__picks_add(&picks, &arena->ready, 1, arena->setup.chunk_most + arena->unit))
        for (size_t i = 0; i < picks.count; i++)
            picks.list[i].is_chosen = picks.list[i].part->bytes > arena->setup.chunk_most;
    (void)acre__picks_release(&picks);
    free(picks.list);
}

/* Creates memory within the budget, or a little beyond it for a program that repeats itself, or
 * where gathering would break up holes. Otherwise gathers free chunks, and creates more only if
 * there are too few of them. */
static acre_status take_joined(struct acre__arena *arena, const struct acre__reach *reach,
                               uint64_t bytes, uint64_t alignment, struct acre__piece **out) {
    int is_all_gathered = 0;
    acre_status status = ACRE_OK;
    if (!acre__arena_may_hold(arena, missing_behind(arena, reach, bytes), bytes))
        release_large(arena); /* perhaps of the hole at the end */
    uint64_t missing = missing_behind(arena, reach, bytes);
    if (!acre__arena_may_hold(arena, missing, bytes) && !size_is_repeated(arena, bytes, missing) &&
        over_after_reclaim(arena, missing, bytes)) {
        int spares_holes = may_spare(arena, missing, bytes);
        is_all_gathered = !spares_holes;
        status = take_gathered(arena, reach, bytes, alignment, spares_holes, out);
        if (status || *out)
            return status;
    }
    status = grow_behind(arena, reach, bytes, alignment);
    if (status == ACRE_OK)
        return acre__arena_take(arena, reach, bytes, alignment, out);
    if (is_all_gathered || !acre__is_too_much(status))
        return status;
    struct acre__said said;
    acre__said_keep(&said);
    acre_status gathered = take_gathered(arena, reach, bytes, alignment, 0, out);
    return *out ? ACRE_OK : gathered ? gathered : acre__said_fail(status, &said);
}

/* ---- other kinds of memory ---- */

/* Adds a block of acre_mem_alloc, as a hole. */
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
    acre__hole_make(piece, NULL);
    return ACRE_OK;
}

/* ---- entry points ---- */

acre_status acre__arena_take_new(struct acre__arena *arena, const struct acre__reach *reach,
                                 size_t size, size_t alignment, struct acre__piece **out) {
    uint64_t bytes = acre__round_up(size, ACRE__PIECE_GRAIN);
    *out = NULL;
    if (arena->unit && !arena->setup.is_simple)
        return arena->is_joined ? take_joined(arena, reach, bytes, alignment, out)
                                : take_apart(arena, reach, bytes, alignment, out);
    (void)over_after_reclaim(arena, bytes, bytes);
    acre_status status = arena->unit ? grow_behind(arena, reach, bytes, alignment)
                                     : grow_block(arena, bytes, alignment);
    return status ? status : acre__arena_take(arena, reach, bytes, alignment, out);
}

acre_status acre__arena_grow_ahead(struct acre__arena *arena, uint64_t bytes) {
    const uint64_t chunk = (uint64_t)1 << 30;
    struct acre__region *region;
    if (!arena->unit)
        return grow_block(arena, acre__round_up(bytes, 2 * MIB), arena->setup.alignment);
    uint64_t wanted = acre__round_up(bytes, arena->unit);
    uint64_t at = arena->regions ? arena->regions->end : 0;
    acre_status status = region_for(arena, &at, wanted, arena->unit, &region);
    if (status == ACRE_OK)
        status = append_chunks(arena, region, NULL, wanted, chunk);
    if (status == ACRE_OK) {
        arena->is_ahead = 1;
        arena->setup.account->ahead = arena->setup.account->held;
    }
    return status;
}

acre_status acre__arena_extend_new(struct acre__piece *piece, const struct acre__reach *reach,
                                   size_t bytes) {
    struct acre__region *region = piece->region;
    struct acre__arena *arena = region->arena;
    struct acre__piece *hole = acre__hole_behind(piece, reach);
    struct acre__piece *next = (hole ? hole : piece)->behind;
    const struct acre__reach *to = hole && hole->holes != &arena->ready ? reach : NULL;
    uint64_t from = acre__piece_end(hole ? hole : piece);
    uint64_t end = piece->at + acre__round_up(bytes, ACRE__PIECE_GRAIN);
    acre_status status = ACRE_E_INTERIOR;
    if (!arena->unit || end <= from)
        return ACRE_E_INTERIOR;
    uint64_t missing = acre__round_up(end - from, arena->unit);
    if (!acre__arena_may_hold(arena, missing, bytes - piece->bytes))
        return ACRE_E_INTERIOR;
    unsigned sort = acre__arena_is_own(arena, bytes) ? ACRE__FIT_OWN : ACRE__FIT_SHARED;
    if (hole)
        sort = hole->sort;
    if (!next && from == region->end && region_reaches(region, from, missing)) {
        status = region_append_hole(region, missing, sort, to);
    } else if (next && next->state == ACRE__PIECE_BARE && next->bytes >= missing) {
        next = acre__bare_cut(next, next->at, missing);
        status = next ? piece_add(next, sort, to) : no_record();
    }
    if (status)
        return status;
    return acre__arena_extend(piece, reach, bytes) ? ACRE_OK : no_record();
}
