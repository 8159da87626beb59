/* The state of a search: placed items, and what follows for the others.
 *
 * An item is identified by its rank, its position in the order of this search. An unplaced item has
 * a level where it would lie now (`at`, on top of all placed items that it overlaps in time). It
 * also has a lower bound of its final level (`low` >= `at`). If `low` is above `at`, the item has
 * been passed over and waits for another item below it. A section has a floor, the lowest `low` of
 * its unplaced items; these must fit between the floor and the capacity.
 *
 * Updates touch only an item's own neighbours and sections, with old values on a trail. Each
 * section watches one unplaced item that stands on its floor, so that it need not check all of
 * them. It looks for another only when that item is raised or placed. If only one item can still
 * lie low enough for all others of its section to fit above it, that item is forced: every item
 * that overlaps it in time and cannot lie below it is raised above it. */
#ifndef ACRE_PLAN_PLACE_STATE_H
#define ACRE_PLAN_PLACE_STATE_H

#include <stdint.h>

#include "plan/place_problem.h"

#define PLACE_NONE UINT32_MAX

/* An item that is not fixed. */
struct place_entry {
    uint64_t size, room, align;
    uint64_t at, low;
    uint32_t at_by, low_by; /* the placed item that set it, or PLACE_NONE */
    uint32_t item;          /* index in the part */
    uint32_t first, end;    /* sections [first, end) */
    uint32_t watches;       /* the first section that watches it, or PLACE_NONE */
};

struct place_section {
    uint64_t floor;
    uint64_t rest;           /* sum of rooms of its unplaced items */
    uint64_t limit;          /* upper limit of floor + rest */
    uint32_t watch;          /* the watched item, or PLACE_NONE */
    uint32_t next, previous; /* other sections that watch the same item, or PLACE_NONE */
    uint32_t crossing;       /* unplaced items that live in this section and the one before */
};

/* Old values on the trail. PLACE_RAISED: an item's `at`, `low` and who set them. PLACE_FLOOR: a
 * section's floor and watched item. PLACE_PLACED: the item that was placed before this one. */
struct place_change {
    uint64_t one, two;
    uint32_t first, second;
    uint32_t index;
    enum { PLACE_RAISED, PLACE_FLOOR, PLACE_PLACED } kind;
};

struct place_state {
    const struct place_part *part;
    struct place_meter *meter;
    uint32_t count; /* items that are not fixed */
    uint32_t words; /* of a set of items, 64 items each */
    int is_broken;  /* out of memory */
    uint64_t capacity;

    struct place_entry *entries; /* by rank */
    struct place_section *sections;

    /* Sets of items. */
    uint64_t *meets; /* by item: items that share a section with it */
    uint64_t *lives; /* by section: items that live in it */
    uint64_t *begun; /* by section: items that begin before it */
    uint64_t *open;  /* unplaced items */

    struct place_change *trail;
    uint32_t trail_count, trail_room;
    uint32_t last;   /* the last placed item, or PLACE_NONE */
    uint32_t *dirty; /* sections whose watched item was raised: a ring, each at most once */
    uint32_t dirty_begin, dirty_count;

    uint64_t work; /* not yet added to the meter */

    /* After a failure: the item that did not fit, or else the section whose unplaced items did
     * not. */
    uint32_t bad_item, bad_section;
};

/* Returns 0 or -ENOMEM; destroy the state in any case. */
int acre__place_state_create(struct place_state *state, const struct place_part *part,
                             struct place_meter *meter);
void acre__place_state_destroy(struct place_state *state);

/* Resets the state: ranks by `order`, nothing placed. Returns 0 if it is obvious that the items do
 * not fit the capacity. */
int acre__place_state_reset(struct place_state *state, const uint32_t *order, uint64_t capacity);

/* Places the item where it stands. Returns 0 if something no longer fits; the caller then calls
 * acre__place_state_back. */
int acre__place_state_put(struct place_state *state, uint32_t rank);
/* Raises the lower bound of an unplaced item to `low`, because `by` is placed next. Returns as
 * acre__place_state_put. */
int acre__place_state_raise(struct place_state *state, uint32_t rank, uint64_t low, uint32_t by);

/* Undoes all changes since the trail had this length. */
void acre__place_state_back(struct place_state *state, uint32_t trail_count);

static inline int place_set_has(const uint64_t *set, uint32_t member) {
    return (int)(set[member / 64] >> (member % 64) & 1);
}

static inline void place_set_add(uint64_t *set, uint32_t member) {
    set[member / 64] |= UINT64_C(1) << (member % 64);
}

static inline void place_set_drop(uint64_t *set, uint32_t member) {
    set[member / 64] &= ~(UINT64_C(1) << (member % 64));
}

/* Returns the first unplaced item of a set, from this rank on, or PLACE_NONE. */
static inline uint32_t place_next(const struct place_state *state, const uint64_t *set,
                                  uint32_t rank) {
    uint64_t mask = UINT64_MAX << (rank % 64);
    for (uint32_t w = rank / 64; w < state->words; w++, mask = UINT64_MAX) {
        uint64_t bits = set[w] & state->open[w] & mask;
        if (bits)
            return w * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return PLACE_NONE;
}

#endif
