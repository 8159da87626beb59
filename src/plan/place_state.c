/* The state of a search: making it, laying an item down, taking it back. */
#include "plan/place_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

static void *state_array(size_t count, size_t bytes, int *ok) {
    void *array = calloc(count ? count : 1, bytes);
    *ok &= array != NULL;
    return array;
}

static int state_create_items(struct place_state *state) {
    int ok = 1;
    size_t n = state->count;
    state->item = state_array(n, sizeof *state->item, &ok);
    state->first = state_array(n, sizeof *state->first, &ok);
    state->end = state_array(n, sizeof *state->end, &ok);
    state->size = state_array(n, sizeof *state->size, &ok);
    state->room = state_array(n, sizeof *state->room, &ok);
    state->align = state_array(n, sizeof *state->align, &ok);
    state->at = state_array(n, sizeof *state->at, &ok);
    state->low = state_array(n, sizeof *state->low, &ok);
    state->at_by = state_array(n, sizeof *state->at_by, &ok);
    state->low_by = state_array(n, sizeof *state->low_by, &ok);
    state->watches = state_array(n, sizeof *state->watches, &ok);
    state->kin = state_array(n, sizeof *state->kin, &ok);
    state->meets = state_array(n * state->words, sizeof *state->meets, &ok);
    state->placed = state_array(n, sizeof *state->placed, &ok);
    state->open = state_array(state->words, sizeof *state->open, &ok);
    state->obstacle_begin = state_array(n + 1, sizeof *state->obstacle_begin, &ok);
    state->rows = state_array(2 * (size_t)state->part->count, sizeof *state->rows, &ok);
    return ok;
}

/* How many pairs there are of an item and a fixed one that it meets. */
static size_t state_obstacle_count(const struct place_part *part) {
    size_t pairs = 0;
    for (uint32_t i = 0; i < part->count && part->fixed_count; i++) {
        if (!part->items[i].is_fixed)
            continue;
        for (uint32_t k = 0; k < part->count; k++)
            pairs += !part->items[k].is_fixed && part->items[k].first < part->items[i].end &&
                     part->items[i].first < part->items[k].end;
    }
    return pairs;
}

static int state_create_sections(struct place_state *state) {
    int ok = 1;
    size_t sections = state->sections;
    state->floor = state_array(sections, sizeof *state->floor, &ok);
    state->rest = state_array(sections + 1, sizeof *state->rest, &ok);
    state->limit = state_array(sections, sizeof *state->limit, &ok);
    state->watch = state_array(sections, sizeof *state->watch, &ok);
    state->next = state_array(sections, sizeof *state->next, &ok);
    state->previous = state_array(sections, sizeof *state->previous, &ok);
    state->lives = state_array(sections * state->words, sizeof *state->lives, &ok);
    state->begun = state_array((sections + 1) * state->words, sizeof *state->begun, &ok);
    state->ended = state_array((sections + 1) * state->words, sizeof *state->ended, &ok);
    state->crossing = state_array(sections + 1, sizeof *state->crossing, &ok);
    state->dirty = state_array(sections, sizeof *state->dirty, &ok);
    state->forced = state_array(sections, sizeof *state->forced, &ok);
    return ok;
}

int acre__place_state_create(struct place_state *state, const struct place_part *part,
                             struct place_meter *meter) {
    int ok = 1;
    uint32_t n = part->count - part->fixed_count;
    *state = (struct place_state){.part = part,
                                  .meter = meter,
                                  .count = n,
                                  .sections = part->sections,
                                  .words = (n + 63) / 64};
    ok &= state_create_items(state);
    ok &= state_create_sections(state);
    state->obstacles = state_array(state_obstacle_count(part), sizeof *state->obstacles, &ok);
    state->trail_room = 4 * (n + state->sections);
    state->trail = state_array(state->trail_room, sizeof *state->trail, &ok);
    return ok ? 0 : -ENOMEM;
}

void acre__place_state_destroy(struct place_state *state) {
    free(state->item);
    free(state->first);
    free(state->end);
    free(state->size);
    free(state->room);
    free(state->align);
    free(state->at);
    free(state->low);
    free(state->at_by);
    free(state->low_by);
    free(state->watches);
    free(state->kin);
    free(state->meets);
    free(state->placed);
    free(state->open);
    free(state->obstacle_begin);
    free(state->floor);
    free(state->rest);
    free(state->limit);
    free(state->watch);
    free(state->next);
    free(state->previous);
    free(state->lives);
    free(state->crossing);
    free(state->dirty);
    free(state->forced);
    free(state->begun);
    free(state->ended);
    free(state->rows);
    free(state->obstacles);
    free(state->trail);
    *state = (struct place_state){0};
}

/* ---- beginning anew ---- */

static void state_reset_obstacles(struct place_state *state) {
    const struct place_part *part = state->part;
    uint32_t fixed_count = 0, next = 0;
    for (uint32_t i = 0; part->fixed_count && i < part->count; i++) {
        if (part->items[i].is_fixed)
            state->rows[fixed_count++] = (struct place_row){part->items[i].offset, i};
    }
    acre__place_sort(state->rows, state->rows + fixed_count, fixed_count, state->meter);
    for (uint32_t r = 0; r < state->count; r++) {
        state->obstacle_begin[r] = next;
        for (uint32_t k = 0; k < fixed_count; k++) {
            const struct place_item *item = &part->items[state->rows[k].item];
            if (item->first < state->end[r] && state->first[r] < item->end)
                state->obstacles[next++] =
                    (struct place_obstacle){item->offset, item->offset + item->size};
        }
    }
    state->obstacle_begin[state->count] = next;
    state->work += 2 * (uint64_t)fixed_count * state->count;
}

/* The lowest place at or above `level` where the item is in nobody's way who is fixed. */
static uint64_t state_settle(struct place_state *state, uint32_t rank, uint64_t level) {
    uint64_t at = place_align_up(level, state->align[rank]);
    uint32_t begin = state->obstacle_begin[rank], end = state->obstacle_begin[rank + 1];
    for (uint32_t k = begin; k < end; k++) {
        if (at + state->size[rank] <= state->obstacles[k].begin)
            break;
        if (at < state->obstacles[k].end)
            at = place_align_up(state->obstacles[k].end, state->align[rank]);
    }
    state->work += end - begin;
    return at;
}

static int state_are_kin(const struct place_item *a, const struct place_item *b) {
    return a->first == b->first && a->end == b->end && a->size == b->size && a->align == b->align;
}

/* Links each item with the one of the next lower rank that is the same in all. Items with the same
 * hash that differ break a chain, which only costs time. */
static void state_reset_kin(struct place_state *state) {
    const struct place_item *items = state->part->items;
    struct place_row *rows = state->rows;
    for (uint32_t r = 0; r < state->count; r++) {
        uint64_t hash = ((uint64_t)state->first[r] << 32 | state->end[r]) * 0x9e3779b97f4a7c15u;
        hash = (hash ^ hash >> 29 ^ state->size[r]) * 0xbf58476d1ce4e5b9u;
        rows[r] = (struct place_row){(hash ^ state->align[r]) >> 32, r};
        state->kin[r] = PLACE_NONE;
    }
    acre__place_sort(rows, rows + state->count, state->count, state->meter);
    for (uint32_t k = 1; k < state->count; k++) {
        uint32_t r = rows[k].item, q = rows[k - 1].item;
        if (rows[k].key == rows[k - 1].key &&
            state_are_kin(&items[state->item[r]], &items[state->item[q]]))
            state->kin[r] = q;
    }
}

/* From the sets of items that have begun before each section, and of those that have ended. */
static void state_reset_sets(struct place_state *state) {
    uint32_t words = state->words;
    size_t all = ((size_t)state->sections + 1) * words;
    memset(state->begun, 0, all * sizeof *state->begun);
    memset(state->ended, 0, all * sizeof *state->ended);
    memset(state->open, 0, words * sizeof *state->open);
    for (uint32_t r = 0; r < state->count; r++) {
        place_set_add(state->open, r);
        place_set_add(state->begun + (state->first[r] + (size_t)1) * words, r);
        place_set_add(state->ended + (size_t)state->end[r] * words, r);
    }
    for (size_t k = words; k < all; k++) {
        state->begun[k] |= state->begun[k - words];
        state->ended[k] |= state->ended[k - words];
    }
    for (size_t k = 0; k < (size_t)state->sections * words; k++)
        state->lives[k] = state->begun[k + words] & ~state->ended[k];
    for (uint32_t r = 0; r < state->count; r++) {
        uint64_t *meets = state->meets + (size_t)r * words;
        const uint64_t *begun = state->begun + (size_t)state->end[r] * words;
        const uint64_t *ended = state->ended + (size_t)state->first[r] * words;
        for (uint32_t w = 0; w < words; w++)
            meets[w] = begun[w] & ~ended[w];
        place_set_drop(meets, r);
    }
    state->work += 4 * all + (uint64_t)state->count * (words + 64);
}

/* What is to come in each section, from differences modulo 2^64 and 2^32. */
static void state_reset_sums(struct place_state *state) {
    memset(state->rest, 0, (state->sections + (size_t)1) * sizeof *state->rest);
    memset(state->crossing, 0, (state->sections + (size_t)1) * sizeof *state->crossing);
    for (uint32_t r = 0; r < state->count; r++) {
        state->rest[state->first[r]] += state->room[r];
        state->rest[state->end[r]] -= state->room[r];
        state->crossing[state->first[r] + 1]++;
        state->crossing[state->end[r]]--;
    }
    for (uint32_t s = 1; s < state->sections; s++) {
        state->rest[s] += state->rest[s - 1];
        state->crossing[s] += state->crossing[s - 1];
    }
}

static void state_reset_items(struct place_state *state, const uint32_t *order) {
    const struct place_part *part = state->part;
    uint32_t r = 0;
    for (uint32_t k = 0; k < part->count; k++) {
        const struct place_item *item = &part->items[order[k]];
        if (item->is_fixed)
            continue;
        state->item[r] = order[k];
        state->first[r] = item->first;
        state->end[r] = item->end;
        state->size[r] = item->size;
        state->room[r] = item->room;
        state->align[r] = item->align;
        state->at_by[r] = state->low_by[r] = PLACE_NONE;
        state->watches[r] = PLACE_NONE;
        r++;
    }
}

static int state_follow(struct place_state *state, uint32_t first, uint32_t end, uint64_t known);

int acre__place_state_reset(struct place_state *state, const uint32_t *order, uint64_t capacity) {
    const struct place_part *part = state->part;
    state->capacity = capacity;
    state->work = 0;
    state->trail_count = state->placed_count = 0;
    state->dirty_count = state->forced_count = 0;
    state->bad_item = PLACE_NONE;
    state_reset_items(state, order);
    state_reset_kin(state);
    state_reset_sets(state);
    state_reset_obstacles(state);
    state_reset_sums(state);
    for (uint32_t r = 0; r < state->count; r++)
        state->at[r] = state->low[r] = state_settle(state, r, 0);
    for (uint32_t s = 0; s < state->sections; s++) {
        state->floor[s] = 0;
        state->limit[s] = capacity + part->slack[s];
        state->watch[s] = PLACE_NONE;
        state->dirty[state->dirty_count++] = s;
    }
    int fits = state_follow(state, 0, 0, 0);
    for (uint32_t r = 0; r < state->count; r++)
        fits &= state->at[r] + state->size[r] <= capacity;
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
    state->work += 2; /* going back takes as long */
}

static void state_record_item(struct place_state *state, uint32_t rank) {
    state_record(state, (struct place_change){state->at[rank], state->low[rank], state->at_by[rank],
                                              state->low_by[rank], rank, 0});
}

/* ---- watching ---- */

static void state_watch(struct place_state *state, uint32_t s, uint32_t rank) {
    state->watch[s] = rank;
    if (rank == PLACE_NONE)
        return;
    uint32_t head = state->watches[rank];
    state->previous[s] = PLACE_NONE;
    state->next[s] = head;
    if (head != PLACE_NONE)
        state->previous[head] = s;
    state->watches[rank] = s;
}

static void state_unwatch(struct place_state *state, uint32_t s) {
    uint32_t rank = state->watch[s];
    if (rank == PLACE_NONE)
        return;
    if (state->previous[s] == PLACE_NONE)
        state->watches[rank] = state->next[s];
    else
        state->next[state->previous[s]] = state->next[s];
    if (state->next[s] != PLACE_NONE)
        state->previous[state->next[s]] = state->previous[s];
}

/* All sections that watch the item have to look for another one. */
static void state_call(struct place_state *state, uint32_t rank) {
    for (uint32_t s = state->watches[rank]; s != PLACE_NONE; s = state->next[s])
        state->dirty[state->dirty_count++] = s;
    state->watches[rank] = PLACE_NONE;
}

/* After a failure, those called from `begin` on watch what they did: that is right again when the
 * caller has gone back. */
static void state_call_off(struct place_state *state, uint32_t begin) {
    for (uint32_t k = begin; k < state->dirty_count; k++)
        state_watch(state, state->dirty[k], state->watch[state->dirty[k]]);
    state->dirty_count = state->forced_count = 0;
}

/* The item of the section that is lowest; one at `known` or below is low enough. */
static uint32_t state_lowest(struct place_state *state, uint32_t s, uint64_t known) {
    const uint64_t *lives = state->lives + (size_t)s * state->words;
    uint32_t lowest = PLACE_NONE;
    uint64_t least = UINT64_MAX;
    for (uint32_t w = 0; w < state->words; w++) {
        state->work += 1 + (uint64_t)__builtin_popcountll(lives[w] & state->open[w]);
        for (uint64_t set = lives[w] & state->open[w]; set; set &= set - 1) {
            uint32_t rank = w * 64 + (uint32_t)__builtin_ctzll(set);
            if (state->low[rank] < least) {
                least = state->low[rank];
                lowest = rank;
                if (least <= known)
                    return lowest;
            }
        }
    }
    return lowest;
}

/* If all items of the section but the lowest are above `high`, it is forced to be there. */
static void state_force(struct place_state *state, uint32_t s, uint32_t lowest, uint64_t high) {
    const uint64_t *lives = state->lives + (size_t)s * state->words;
    for (uint32_t w = 0; w < state->words; w++) {
        state->work++;
        for (uint64_t set = lives[w] & state->open[w]; set; set &= set - 1) {
            uint32_t rank = w * 64 + (uint32_t)__builtin_ctzll(set);
            if (rank != lowest && state->low[rank] <= high)
                return;
        }
    }
    state->forced[state->forced_count++] = (struct place_forced){high, lowest};
}

/* Gives each section that was called another item to watch, and looks whether what is to come in it
 * still fits. In sections [first, end) nothing is below `known`. */
static int state_look(struct place_state *state, uint32_t first, uint32_t end, uint64_t known) {
    for (uint32_t k = 0; k < state->dirty_count; k++) {
        uint32_t s = state->dirty[k];
        uint64_t old = state->floor[s];
        uint32_t rank = state_lowest(state, s, s >= first && s < end && known > old ? known : old);
        uint64_t floor = rank == PLACE_NONE ? UINT64_MAX : state->low[rank];
        if (floor != old)
            state_record(state, (struct place_change){old, 0, state->watch[s], 0, s, 1});
        state->floor[s] = floor;
        state_watch(state, s, rank);
        if (rank == PLACE_NONE)
            continue;
        if (floor + state->rest[s] > state->limit[s]) {
            state->bad_section = s;
            state_call_off(state, k + 1);
            return 0;
        }
        state_force(state, s, rank, state->limit[s] - state->rest[s]);
    }
    state->dirty_count = 0;
    return 1;
}

/* Raises what meets a forced item and cannot lie below it. */
static int state_press(struct place_state *state, struct place_forced forced) {
    const uint64_t *meets = state->meets + (size_t)forced.rank * state->words;
    uint64_t top = state->low[forced.rank] + state->size[forced.rank];
    uint32_t by = state->placed_count ? state->placed[state->placed_count - 1] : PLACE_NONE;
    if (state->low[forced.rank] > forced.high) {
        state->bad_item = forced.rank;
        return 0;
    }
    for (uint32_t w = 0; w < state->words; w++) {
        state->work += 1 + (uint64_t)__builtin_popcountll(meets[w] & state->open[w]);
        for (uint64_t set = meets[w] & state->open[w]; set; set &= set - 1) {
            uint32_t q = w * 64 + (uint32_t)__builtin_ctzll(set);
            if (state->low[q] >= top || state->low[q] + state->size[q] <= forced.high)
                continue;
            state_record_item(state, q);
            state->low[q] = state_settle(state, q, top);
            state->low_by[q] = by;
            state_call(state, q);
            if (state->low[q] + state->size[q] > state->capacity) {
                state->bad_item = q;
                return 0;
            }
        }
    }
    return 1;
}

/* Sections look, and what they force is raised, until nothing changes any more. */
static int state_follow(struct place_state *state, uint32_t first, uint32_t end, uint64_t known) {
    while (state_look(state, first, end, known)) {
        if (place_is_stopped(state->meter)) {
            state_call_off(state, 0);
            return 0;
        }
        for (uint32_t k = 0; k < state->forced_count; k++) {
            if (!state_press(state, state->forced[k])) {
                state_call_off(state, 0);
                return 0;
            }
        }
        state->forced_count = 0;
        if (state->dirty_count == 0)
            return !state->is_broken;
    }
    return 0;
}

/* ---- putting and raising ---- */

int acre__place_state_put(struct place_state *state, uint32_t rank) {
    uint32_t first = state->first[rank], end = state->end[rank];
    uint64_t top = state->at[rank] + state->size[rank], room = state->room[rank];
    const uint64_t *meets = state->meets + (size_t)rank * state->words;
    state->bad_item = PLACE_NONE;
    state->placed[state->placed_count++] = rank;
    place_set_drop(state->open, rank);
    state->work += state->words + (end - first);
    for (uint32_t s = first; s < end; s++)
        state->rest[s] -= room;
    for (uint32_t s = first + 1; s < end; s++)
        state->crossing[s]--;
    state_call(state, rank);
    for (uint32_t w = 0; w < state->words; w++) {
        state->work += (uint64_t)__builtin_popcountll(meets[w] & state->open[w]);
        for (uint64_t set = meets[w] & state->open[w]; set; set &= set - 1) {
            uint32_t q = w * 64 + (uint32_t)__builtin_ctzll(set);
            if (state->at[q] >= top)
                continue;
            uint64_t at = state_settle(state, q, top);
            state_record_item(state, q);
            state->at[q] = at;
            state->at_by[q] = rank;
            if (state->low[q] < at) {
                state->low[q] = at;
                state->low_by[q] = rank;
                state_call(state, q);
            }
            if (at + state->size[q] > state->capacity)
                state->bad_item = q;
        }
    }
    if (state->bad_item != PLACE_NONE) {
        state_call_off(state, 0);
        return 0;
    }
    return state_follow(state, first, end, place_align_up(top, state->part->unit));
}

int acre__place_state_raise(struct place_state *state, uint32_t rank, uint64_t low, uint32_t by) {
    if (state->low[rank] >= low)
        return 1;
    state_record_item(state, rank);
    state->low[rank] = low;
    state->low_by[rank] = by;
    state->bad_item = low + state->size[rank] > state->capacity ? rank : PLACE_NONE;
    if (state->bad_item != PLACE_NONE)
        return 0;
    state_call(state, rank);
    return state_follow(state, 0, 0, 0);
}

void acre__place_state_back(struct place_state *state, struct place_mark mark) {
    while (state->trail_count > mark.trail) {
        const struct place_change *change = &state->trail[--state->trail_count];
        if (change->is_section) {
            state_unwatch(state, change->index);
            state->floor[change->index] = change->one;
            state_watch(state, change->index, change->first);
        } else {
            state->at[change->index] = change->one;
            state->low[change->index] = change->two;
            state->at_by[change->index] = change->first;
            state->low_by[change->index] = change->second;
        }
    }
    while (state->placed_count > mark.placed) {
        uint32_t rank = state->placed[--state->placed_count];
        place_set_add(state->open, rank);
        for (uint32_t s = state->first[rank]; s < state->end[rank]; s++)
            state->rest[s] += state->room[rank];
        for (uint32_t s = state->first[rank] + 1; s < state->end[rank]; s++)
            state->crossing[s]++;
    }
}
