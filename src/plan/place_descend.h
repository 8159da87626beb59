/* Descents: place a part's items from the bottom up, always one that can lie lowest. */
#ifndef ACRE_PLAN_PLACE_DESCEND_H
#define ACRE_PLAN_PLACE_DESCEND_H

#include <stdint.h>

#include "plan/place_meter.h"
#include "plan/place_problem.h"

struct place_descent;

/* NULL when out of memory. A descent that was stopped during creation may only be destroyed, or run
 * and thereby stopped at once. */
struct place_descent *acre__place_descent_create(const struct place_part *part,
                                                 struct place_meter *meter);
void acre__place_descent_destroy(struct place_descent *descent);

/* Places all items around the fixed ones and writes offsets by item; the offsets of fixed items
 * must be there already. Among the items that could lie lowest it takes the first in the given
 * order. When it is stopped, it stacks the remaining items on top. */
void acre__place_descent_run(struct place_descent *descent, const uint32_t *order,
                             uint64_t *offsets);

#endif
