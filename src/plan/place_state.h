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
#include "plan/place_sort.h"

#define PLACE_NONE UINT32_MAX

/* Old values on the trail: of an item `at`, `low` and who set them, or of a section floor and
 * watched item. */
struct place_change {
    uint64_t one, two;
    uint32_t first, second;
    uint32_t index;
    uint32_t is_section;
};

/* A fixed item in the way of another one. */
struct place_obstacle {
    uint64_t begin, end;
};

/* An item that has to lie at `high` or below. */
struct place_forced {
    uint64_t high;
    uint32_t rank;
};

struct place_state {
    const struct place_part *part;
    struct place_meter *meter;
    uint32_t count;    /* items that are not fixed */
    uint32_t sections; /* of the part */
    uint32_t words;    /* 64 items each, in a set of items */
    int is_broken;     /* out of memory */
    uint64_t capacity;

    /* Of each item, by rank. */
    uint32_t *item; /* its index in the part */
    uint32_t *first, *end;
    uint64_t *size, *room, *align;
    uint64_t *at, *low;
    uint32_t *at_by, *low_by; /* the placed item that made it so, or PLACE_NONE */
    uint32_t *watches;        /* the first section that watches it, or PLACE_NONE */
    uint32_t *kin;   /* the item of the next lower rank that is the same in all, or PLACE_NONE */
    uint64_t *meets; /* a set of items for each: what it shares a section with */

    /* Of each section. */
    uint64_t *floor, *rest, *limit;
    uint32_t *watch, *next, *previous;
    uint64_t *lives;    /* a set of items for each */
    uint32_t *crossing; /* items to come that live in this section and the one before */

    uint64_t *open; /* the set of items to come */

    /* For beginning anew. */
    uint64_t *begun, *ended; /* sets for each section: items that have by its beginning */
    struct place_row *rows;

    struct place_obstacle *obstacles; /* of all items, by offset */
    uint32_t *obstacle_begin;         /* of each item, and the end of the last */

    struct place_change *trail;
    uint32_t trail_count, trail_room;
    uint32_t *placed; /* ranks, in the order of placement */
    uint32_t placed_count;
    uint32_t *dirty; /* sections whose watched item was raised */
    uint32_t dirty_count;
    struct place_forced *forced; /* one a section at most */
    uint32_t forced_count;

    uint64_t work; /* that the meter does not know yet */

    /* What did not fit, after a failure: an item, or else what is to come in a section. */
    uint32_t bad_item, bad_section;
};

/* 0 or -ENOMEM; destroy in any case. */
int acre__place_state_create(struct place_state *state, const struct place_part *part,
                             struct place_meter *meter);
void acre__place_state_destroy(struct place_state *state);

/* Begins anew: ranks by `order` (fixed items in it are left out), nothing placed. Returns 0 when it
 * is plain that nothing fits the capacity. */
int acre__place_state_reset(struct place_state *state, const uint32_t *order, uint64_t capacity);

/* Lays the item down where it stands. Returns 0 when something does not fit any more; the caller
 * then goes back to a mark. */
int acre__place_state_put(struct place_state *state, uint32_t rank);
/* The item, which is to come, will not be below `low`, since `by` is placed next. Returns as above.
 */
int acre__place_state_raise(struct place_state *state, uint32_t rank, uint64_t low, uint32_t by);

struct place_mark {
    uint32_t trail, placed;
};
void acre__place_state_back(struct place_state *state, struct place_mark mark);

static inline struct place_mark place_state_mark(const struct place_state *state) {
    return (struct place_mark){state->trail_count, state->placed_count};
}

static inline int place_set_has(const uint64_t *set, uint32_t member) {
    return (int)(set[member / 64] >> (member % 64) & 1);
}

static inline void place_set_add(uint64_t *set, uint32_t member) {
    set[member / 64] |= UINT64_C(1) << (member % 64);
}

static inline void place_set_drop(uint64_t *set, uint32_t member) {
    set[member / 64] &= ~(UINT64_C(1) << (member % 64));
}

#endif
