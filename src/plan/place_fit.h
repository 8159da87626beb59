/* First and best fit: each item of an order goes into a gap between those placed before. */
#ifndef ACRE_PLAN_PLACE_FIT_H
#define ACRE_PLAN_PLACE_FIT_H

#include <stdint.h>

#include "plan/place_meter.h"
#include "plan/place_problem.h"

enum place_fit {
    PLACE_FIRST_FIT, /* the lowest gap that is large enough */
    PLACE_BEST_FIT   /* the smallest one, of those the lowest */
};

/* Places all items around the fixed ones, in the given order, and writes offsets by item. Looks at
 * every pair of items. When it is stopped items get PLACE_NOWHERE. 0 or -ENOMEM. */
int acre__place_fit(const struct place_part *part, const uint32_t *order, enum place_fit fit,
                    struct place_meter *meter, uint64_t *offsets);

#endif
