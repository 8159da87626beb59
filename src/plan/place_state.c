/* The state of a search: creating it, placing an item, undoing. */
#include "plan/place_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- creating ---- */

int acre__place_state_create(struct place_state *state, const struct place_part *part,
                             struct place_meter *meter) {
    size_t n = part->count - part->fixed_count, words = (n + 63) / 64, sections = part->sections;
    *state = (struct place_state){
        .part = part, .meter = meter, .count = (uint32_t)n, .words = (uint32_t)words};
    state->trail_room = 4 * (uint32_t)(n + sections);
    state->entries = calloc(n + 1, sizeof *state->entries);
    state->sections = calloc(sections + 1, sizeof *state->sections);
    state->meets = calloc((n + 2 * sections + 2) * words + 1, sizeof *state->meets);
    state->dirty = calloc(sections, sizeof *state->dirty);
    state->trail = calloc(state->trail_room, sizeof *state->trail);
    if (!state->entries || !state->sections || !state->meets || !state->dirty || !state->trail)
        return -ENOMEM;
    state->lives = state->meets + n * words;
    state->begun = state->lives + sections * words;
    state->open = state->begun + (sections + 1) * words;
    return 0;
}

void acre__place_state_destroy(struct place_state *state) {
    free(state->entries);
    free(state->sections);
    free(state->meets);
    free(state->dirty);
    free(state->trail);
    *state = (struct place_state){0};
}

/* ---- resetting ---- */

/* Returns the lowest level at or above `level` where the item overlaps no fixed item. */
static uint64_t state_settle(struct place_state *state, const struct place_entry *entry,
                             uint64_t level) {
    const struct place_item *fixed = state->part->items;
    uint64_t at = place_align_up(level, entry->align);
    uint32_t k = 0;
    for (; k < state->part->fixed_count && at + entry->size > fixed[k].offset; k++) {
        uint64_t end = fixed[k].offset + fixed[k].size;
        if (at < end && fixed[k].first < entry->end && entry->first < fixed[k].end)
            at = place_align_up(end, entry->align);
    }
    state->work += k;
    return at;
}

static void state_reset_entries(struct place_state *state, const uint32_t *order) {
    for (uint32_t r = 0; r < state->count; r++) {
        const struct place_item *item = &state->part->items[order[r]];
        struct place_entry *entry = &state->entries[r];
        *entry = (struct place_entry){.size = item->size,
                                      .room = item->room,
                                      .align = item->align,
                                      .at_by = PLACE_NONE,
                                      .low_by = PLACE_NONE,
                                      .item = order[r],
                                      .first = item->first,
                                      .end = item->end,
                                      .watches = PLACE_NONE};
        entry->at = entry->low = state_settle(state, entry, 0);
    }
}

static void state_reset_sets(struct place_state *state) {
    uint32_t words = state->words, sections = state->part->sections;
    size_t all = ((size_t)sections + 1) * words;
    memset(state->lives, 0, (size_t)sections * words * sizeof *state->lives);
    memset(state->begun, 0, all * sizeof *state->begun);
    memset(state->open, 0, words * sizeof *state->open);
    for (uint32_t r = 0; r < state->count; r++) {
        const struct place_entry *entry = &state->entries[r];
        place_set_add(state->open, r);
        place_set_add(state->begun + (entry->first + (size_t)1) * words, r);
        for (uint32_t s = entry->first; s < entry->end; s++)
            place_set_add(state->lives + (size_t)s * words, r);
        state->work += entry->end - entry->first;
    }
    for (size_t k = words; k < all; k++)
        state->begun[k] |= state->begun[k - words];
    /* An item overlaps the items that live when it begins, and those that begin later in its
     * lifetime. */
    for (uint32_t r = 0; r < state->count; r++) {
        uint64_t *meets = state->meets + (size_t)r * words;
        const uint64_t *lives = state->lives + (size_t)state->entries[r].first * words;
        const uint64_t *begun = state->begun + (size_t)state->entries[r].end * words;
        const uint64_t *before = state->begun + (size_t)state->entries[r].first * words;
        for (uint32_t w = 0; w < words; w++)
            meets[w] = lives[w] | (begun[w] & ~before[w]);
        place_set_drop(meets, r);
    }
    state->work += 4 * all + (uint64_t)state->count * (words + 64);
}

/* Computes the unplaced items of each section, from differences modulo 2^64 and 2^32. */
static void state_reset_sections(struct place_state *state) {
    struct place_section *sections = state->sections;
    uint32_t count = state->part->sections;
    memset(sections, 0, (count + (size_t)1) * sizeof *sections);
    for (uint32_t r = 0; r < state->count; r++) {
        const struct place_entry *entry = &state->entries[r];
        sections[entry->first].rest += entry->room;
        sections[entry->end].rest -= entry->room;
        sections[entry->first + 1].crossing++;
        sections[entry->end].crossing--;
    }
    for (uint32_t s = 0; s < count; s++) {
        sections[s].rest += s ? sections[s - 1].rest : 0;
        sections[s].crossing += s ? sections[s - 1].crossing : 0;
        sections[s].limit = state->capacity + state->part->slack[s];
        sections[s].watch = PLACE_NONE;
        state->dirty[s] = s;
    }
    state->dirty_begin = 0;
    state->dirty_count = count;
}

static int state_follow(struct place_state *state);

int acre__place_state_reset(struct place_state *state, const uint32_t *order, uint64_t capacity) {
    state->capacity = capacity;
    state->work = 0;
    state->last = state->bad_item = PLACE_NONE;
    state_reset_entries(state, order);
    state_reset_sets(state);
    state_reset_sections(state);
    int fits = state_follow(state);
    for (uint32_t r = 0; r < state->count; r++)
        fits &= state->entries[r].at + state->entries[r].size <= capacity;
    state->trail_count = 0;
    return fits;
}

/* ---- the trail ---- */

static void state_record(struct place_state *state, struct place_change change) {
    if (state->trail_count == state->trail_room) {
        uint32_t room = 2 * state->trail_room + 64;
        struct place_change *longer = NULL;
        if (room > state->trail_room)
            longer = realloc(state->trail, room * sizeof *longer);
        if (!longer) {
            state->is_broken = 1;
            return;
        }
        state->trail = longer;
        state->trail_room = room;
    }
    state->trail[state->trail_count++] = change;
    state->work += 2; /* undoing takes as long */
}

static void state_record_item(struct place_state *state, uint32_t rank) {
    const struct place_entry *entry = &state->entries[rank];
    state_record(state, (struct place_change){entry->at, entry->low, entry->at_by, entry->low_by,
                                              rank, PLACE_RAISED});
}

/* ---- watching ---- */

static void state_watch(struct place_state *state, uint32_t s, uint32_t rank) {
    struct place_section *section = &state->sections[s];
    section->watch = rank;
    if (rank == PLACE_NONE)
        return;
    section->previous = PLACE_NONE;
    section->next = state->entries[rank].watches;
    if (section->next != PLACE_NONE)
        state->sections[section->next].previous = s;
    state->entries[rank].watches = s;
}

static void state_unwatch(struct place_state *state, uint32_t s) {
    const struct place_section *section = &state->sections[s];
    if (section->watch == PLACE_NONE)
        return;
    if (section->previous == PLACE_NONE)
        state->entries[section->watch].watches = section->next;
    else
        state->sections[section->previous].next = section->next;
    if (section->next != PLACE_NONE)
        state->sections[section->next].previous = section->previous;
}

/* Queues all sections that watch the item: they must find another one. */
static void state_call(struct place_state *state, uint32_t rank) {
    for (uint32_t s = state->entries[rank].watches; s != PLACE_NONE; s = state->sections[s].next)
        state->dirty[(state->dirty_begin + state->dirty_count++) % state->part->sections] = s;
    state->entries[rank].watches = PLACE_NONE;
}

/* Returns the lowest unplaced item of a section; none is below `known`. Counts those at `high` or
 * below, up to two of them. */
static uint32_t state_lowest(struct place_state *state, const uint64_t *lives, uint64_t known,
                             uint64_t high, uint32_t *low_count) {
    uint32_t lowest = PLACE_NONE;
    uint64_t least = UINT64_MAX;
    for (uint32_t w = 0; w < state->words; w++) {
        state->work++;
        for (uint64_t bits = lives[w] & state->open[w]; bits; bits &= bits - 1) {
            uint32_t r = w * 64 + (uint32_t)__builtin_ctzll(bits);
            state->work++;
            *low_count += state->entries[r].low <= high;
            if (state->entries[r].low < least) {
                least = state->entries[r].low;
                lowest = r;
            }
            if (least <= known && *low_count >= 2)
                return lowest;
        }
    }
    return lowest;
}

/* An item is forced to be at `high` or below: raises the items that overlap it in time and cannot
 * lie below it. */
static int state_press(struct place_state *state, uint32_t rank, uint64_t high) {
    const uint64_t *meets = state->meets + (size_t)rank * state->words;
    uint64_t top = state->entries[rank].low + state->entries[rank].size;
    state->work += state->words;
    for (uint32_t q = place_next(state, meets, 0); q != PLACE_NONE;
         q = place_next(state, meets, q + 1)) {
        struct place_entry *other = &state->entries[q];
        state->work++;
        if (other->low >= top || other->low + other->size <= high)
            continue;
        state_record_item(state, q);
        other->low = state_settle(state, other, top);
        other->low_by = state->last;
        state_call(state, q);
        if (other->low + other->size > state->capacity) {
            state->bad_item = q;
            return 0;
        }
    }
    return 1;
}

/* Finds another item to watch for a queued section. Returns 0 if its unplaced items no longer fit,
 * or if a forced item makes that so. */
static int state_look(struct place_state *state, uint32_t s) {
    struct place_section *section = &state->sections[s];
    const uint64_t *lives = state->lives + (size_t)s * state->words;
    uint64_t known = section->floor, high = section->limit - section->rest;
    uint32_t low_count = 0;
    if (state->last != PLACE_NONE) {
        const struct place_entry *last = &state->entries[state->last];
        uint64_t top = place_align_up(last->at + last->size, state->part->unit);
        known = last->first <= s && s < last->end && top > known ? top : known;
    }
    uint32_t rank = state_lowest(state, lives, known, high, &low_count);
    uint64_t floor = rank == PLACE_NONE ? UINT64_MAX : state->entries[rank].low;
    if (floor != section->floor)
        state_record(state,
                     (struct place_change){section->floor, 0, section->watch, 0, s, PLACE_FLOOR});
    section->floor = floor;
    state_watch(state, s, rank);
    if (rank == PLACE_NONE)
        return 1;
    if (floor + section->rest > section->limit) {
        state->bad_section = s;
        return 0;
    }
    /* Only one item can be low enough for the others to fit above it. */
    return low_count > 1 || state_press(state, rank, high);
}

/* Processes queued sections, and raises what they force, until nothing changes. After a failure the
 * remaining sections keep their watched item, which is right again once the caller has undone the
 * changes. */
static int state_follow(struct place_state *state) {
    int fits = state->bad_item == PLACE_NONE;
    while (state->dirty_count) {
        uint32_t s = state->dirty[state->dirty_begin];
        state->dirty_begin = (state->dirty_begin + 1) % state->part->sections;
        state->dirty_count--;
        fits = fits && !place_is_stopped(state->meter);
        if (fits)
            fits = state_look(state, s);
        else
            state_watch(state, s, state->sections[s].watch);
    }
    return fits && !state->is_broken;
}

/* ---- placing and raising ---- */

int acre__place_state_put(struct place_state *state, uint32_t rank) {
    const struct place_entry *entry = &state->entries[rank];
    const uint64_t *meets = state->meets + (size_t)rank * state->words;
    uint64_t top = entry->at + entry->size;
    state->bad_item = PLACE_NONE;
    state_record(state, (struct place_change){0, 0, state->last, 0, rank, PLACE_PLACED});
    state->last = rank;
    place_set_drop(state->open, rank);
    state->work += state->words + (entry->end - entry->first);
    for (uint32_t s = entry->first; s < entry->end; s++) {
        state->sections[s].rest -= entry->room;
        state->sections[s].crossing -= s > entry->first;
    }
    state_call(state, rank);
    for (uint32_t q = place_next(state, meets, 0); q != PLACE_NONE;
         q = place_next(state, meets, q + 1)) {
        struct place_entry *other = &state->entries[q];
        state->work++;
        if (other->at >= top)
            continue;
        state_record_item(state, q);
        other->at = state_settle(state, other, top);
        other->at_by = rank;
        if (other->low < other->at) {
            other->low = other->at;
            other->low_by = rank;
            state_call(state, q);
        }
        if (other->at + other->size > state->capacity)
            state->bad_item = q;
    }
    return state_follow(state);
}

int acre__place_state_raise(struct place_state *state, uint32_t rank, uint64_t low, uint32_t by) {
    struct place_entry *entry = &state->entries[rank];
    if (entry->low >= low)
        return 1;
    state_record_item(state, rank);
    entry->low = low;
    entry->low_by = by;
    state->bad_item = low + entry->size > state->capacity ? rank : PLACE_NONE;
    state_call(state, rank);
    return state_follow(state);
}

static void state_pick_up(struct place_state *state, uint32_t rank) {
    const struct place_entry *entry = &state->entries[rank];
    place_set_add(state->open, rank);
    for (uint32_t s = entry->first; s < entry->end; s++) {
        state->sections[s].rest += entry->room;
        state->sections[s].crossing += s > entry->first;
    }
}

void acre__place_state_back(struct place_state *state, uint32_t trail_count) {
    while (state->trail_count > trail_count) {
        const struct place_change *change = &state->trail[--state->trail_count];
        uint32_t index = change->index;
        if (change->kind == PLACE_RAISED) {
            state->entries[index].at = change->one;
            state->entries[index].low = change->two;
            state->entries[index].at_by = change->first;
            state->entries[index].low_by = change->second;
        } else if (change->kind == PLACE_FLOOR) {
            state_unwatch(state, index);
            state->sections[index].floor = change->one;
            state_watch(state, index, change->first);
        } else {
            state_pick_up(state, index);
            state->last = change->first;
        }
    }
}
