/* Placing a part's items from the bottom up: always one that comes to lie lowest. */
#ifndef ACRE_PLAN_PLACE_DESCEND_H
#define ACRE_PLAN_PLACE_DESCEND_H

#include <stdint.h>

#include "plan/place_meter.h"
#include "plan/place_problem.h"

struct place_descent;

/* NULL without memory. When it is stopped the descent is only good for being destroyed, or run and
 * stopped at once. */
struct place_descent *acre__place_descent_create(const struct place_part *part,
                                                 struct place_meter *meter);
void acre__place_descent_destroy(struct place_descent *descent);

/* Places all items around the fixed ones, of those that could lie lowest the first one in the given
 * order, and writes offsets by item, where those of fixed ones are already. When it is stopped the
 * rest is stacked on top. */
void acre__place_descent_run(struct place_descent *descent, const uint32_t *order,
                             uint64_t *offsets);

#endif
