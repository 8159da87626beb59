/* Placing a part's items from the bottom up: always one that comes to lie lowest. */
#ifndef ACRE_PLAN_PLACE_DESCEND_H
#define ACRE_PLAN_PLACE_DESCEND_H

#include <stdint.h>

#include "plan/place_problem.h"

struct place_descent;

/* NULL without memory. */
struct place_descent *acre__place_descent_create(const struct place_part *part);
void acre__place_descent_destroy(struct place_descent *descent);

/* Places all items around the fixed ones, of those that could lie lowest the first one in the given
 * order, and writes offsets by item. Returns the highest end. */
uint64_t acre__place_descent_run(struct place_descent *descent, const uint32_t *order,
                                 uint64_t *offsets);

#endif
