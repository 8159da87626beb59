/* The state of a search: which items lie where, and what that says about the rest.
 *
 * Items have ranks here, their places in the order of this search. An item that is not placed yet
 * has a level where it would come to lie (`at`, on top of all placed items that it meets) and a
 * lower bound of where it will (`low` >= `at`; above it the item has been passed over and waits for
 * something to lie down below it). A section has a floor, the least `low` of what is still to come
 * in it, and what is still to come must fit between the floor and the capacity.
 *
 * All of it is updated along an item's own neighbours and sections, with old values on a trail. To
 * know a section's floor without asking all of its items, each section watches one of them that
 * stands on the floor; only when that one is raised or placed does it look for another. And where
 * only one item is left that can lie low enough for all others of its section to fit above it, that
 * one is forced: whatever meets it and cannot lie below it is raised above it. */
#ifndef ACRE_PLAN_PLACE_STATE_H
#define ACRE_PLAN_PLACE_STATE_H

#include <stdint.h>

#include "plan/place_problem.h"

#define PLACE_NONE UINT32_MAX

/* An item that is not fixed. */
struct place_entry {
    uint64_t size, room, align;
    uint64_t at, low;
    uint32_t at_by, low_by; /* the placed item that made it so, or PLACE_NONE */
    uint32_t item;          /* its index in the part */
    uint32_t first, end;    /* sections [first, end) */
    uint32_t watches;       /* the first section that watches it, or PLACE_NONE */
};

struct place_section {
    uint64_t floor;
    uint64_t rest;           /* sum of rooms of what is to come */
    uint64_t limit;          /* where floor and rest may lead to */
    uint32_t watch;          /* the item that is watched, or PLACE_NONE */
    uint32_t next, previous; /* others that watch the same item, or PLACE_NONE */
    uint32_t crossing;       /* items to come that live in this section and the one before */
};

/* Old values on the trail: of an item `at`, `low` and who set them, of a section floor and watched
 * item; of an item that was placed which one was so before. */
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
    uint32_t words; /* 64 items each, in a set of items */
    int is_broken;  /* out of memory */
    uint64_t capacity;

    struct place_entry *entries; /* by rank */
    struct place_section *sections;

    /* Sets of items. */
    uint64_t *meets; /* for each item: what it shares a section with */
    uint64_t *lives; /* for each section */
    uint64_t *begun; /* for each section: items that begin before it */
    uint64_t *open;  /* items to come */

    struct place_change *trail;
    uint32_t trail_count, trail_room;
    uint32_t last;   /* the item that was placed last, or PLACE_NONE */
    uint32_t *dirty; /* sections whose watched item was raised: a ring, each once at most */
    uint32_t dirty_begin, dirty_count;

    uint64_t work; /* that the meter does not know yet */

    /* What did not fit, after a failure: an item, or else what is to come in a section. */
    uint32_t bad_item, bad_section;
};

/* 0 or -ENOMEM; destroy in any case. */
int acre__place_state_create(struct place_state *state, const struct place_part *part,
                             struct place_meter *meter);
void acre__place_state_destroy(struct place_state *state);

/* Begins anew: ranks by `order`, nothing placed. Returns 0 when it is plain that nothing fits the
 * capacity. */
int acre__place_state_reset(struct place_state *state, const uint32_t *order, uint64_t capacity);

/* Lays the item down where it stands. Returns 0 when something does not fit any more; the caller
 * then goes back. */
int acre__place_state_put(struct place_state *state, uint32_t rank);
/* The item, which is to come, will not be below `low`, since `by` is placed next. Returns as above.
 */
int acre__place_state_raise(struct place_state *state, uint32_t rank, uint64_t low, uint32_t by);

/* Takes back all that was done since the trail had this length. */
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

/* The first item to come of a set, from this rank on, or PLACE_NONE. */
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
