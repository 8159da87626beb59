/* Placing a part's items one by one in a given order, each into a gap between those before it. */
#ifndef ACRE_PLAN_PLACE_GREEDY_H
#define ACRE_PLAN_PLACE_GREEDY_H

#include <stdint.h>

#include "plan/place_problem.h"

struct place_greedy;

enum place_fit {
    PLACE_FIRST_FIT, /* the lowest gap that is large enough */
    PLACE_BEST_FIT   /* the smallest one, of those the lowest */
};

/* NULL without memory. */
struct place_greedy *acre__place_greedy_create(const struct place_part *part);
void acre__place_greedy_destroy(struct place_greedy *greedy);

/* Places the items in the given order (fixed ones first, whatever their place in it) and writes
 * offsets, by item, from the part's base. Returns the highest end, or UINT64_MAX as soon as one is
 * above `limit`. */
uint64_t acre__place_greedy_run(struct place_greedy *greedy, const uint32_t *order,
                                enum place_fit fit, uint64_t limit, uint64_t *offsets);

#endif
