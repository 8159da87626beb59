/* The search for a placement of a part that ends at a given capacity or below. */
#ifndef ACRE_PLAN_PLACE_SEARCH_H
#define ACRE_PLAN_PLACE_SEARCH_H

#include <stdint.h>

#include "plan/place_meter.h"
#include "plan/place_problem.h"

enum place_answer {
    PLACE_SOLVED,
    PLACE_IMPOSSIBLE, /* nothing is left to try: without jumps a proof */
    PLACE_GAVE_UP     /* steps or the budget ran out, or it was stopped */
};

struct place_attempt {
    const uint32_t *order; /* items, which of those that stand equally low is tried first */
    uint64_t capacity;
    /* A failure goes back to the last choice that it seems to hang on, not just to the last one.
     * That leads out of places where a search would otherwise try all orders of what has nothing to
     * do with the failure, and may miss a solution. */
    int has_jumps;
    uint64_t steps; /* items laid down, also in vain, at most */
};

struct place_search;

/* Memory grows with the square of the number of items. NULL without memory. */
struct place_search *acre__place_search_create(const struct place_part *part,
                                               struct place_meter *meter);
void acre__place_search_destroy(struct place_search *search);

/* Writes offsets, by item, when it is solved; those of fixed ones are left alone. Returns an answer
 * or -ENOMEM. */
int acre__place_search_run(struct place_search *search, struct place_attempt *attempt,
                           uint64_t *offsets);

/* How often each item, by its index in the part, was to come in a section that overflowed, in the
 * last search. */
const uint32_t *acre__place_search_heat(const struct place_search *search);

#endif
