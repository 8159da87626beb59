/* Searches for a placement of a part that ends at a given capacity or below. */
#ifndef ACRE_PLAN_PLACE_SEARCH_H
#define ACRE_PLAN_PLACE_SEARCH_H

#include <stdint.h>

#include "plan/place_meter.h"
#include "plan/place_problem.h"

enum place_answer {
    PLACE_SOLVED,
    PLACE_IMPOSSIBLE, /* nothing is left to try; a proof if jumps are off */
    PLACE_GAVE_UP     /* steps or the budget ran out, or the search was stopped */
};

struct place_attempt {
    const uint32_t *order; /* items; decides which of the equally low items is tried first */
    uint64_t capacity;
    /* Back-jumping: a failure returns to the last choice that it seems to depend on, instead of the
     * last choice. That avoids trying all orders of items that have nothing to do with the failure,
     * but may miss a solution. */
    int has_jumps;
    uint64_t steps; /* limit of items placed, failed attempts included */
};

struct place_search;

/* Uses memory quadratic in the number of items. NULL when out of memory. */
struct place_search *acre__place_search_create(const struct place_part *part,
                                               struct place_meter *meter);
void acre__place_search_destroy(struct place_search *search);

/* Writes offsets by item when it is solved; does not change those of fixed items. Returns an answer
 * or -ENOMEM. */
int acre__place_search_run(struct place_search *search, struct place_attempt *attempt,
                           uint64_t *offsets);

/* How often each item, by its index in the part, was unplaced in a section that overflowed during
 * the last search. */
const uint32_t *acre__place_search_heat(const struct place_search *search);

#endif
