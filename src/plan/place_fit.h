/* First fit and best fit: each item of an order goes into a gap between the items placed before. */
#ifndef ACRE_PLAN_PLACE_FIT_H
#define ACRE_PLAN_PLACE_FIT_H

#include <stdint.h>

#include "plan/place_meter.h"
#include "plan/place_problem.h"

enum place_fit {
    PLACE_FIRST_FIT, /* the lowest gap that is large enough */
    PLACE_BEST_FIT   /* the smallest such gap, the lowest among equals */
};

/* Places all items around the fixed ones, in the given order, and writes offsets by item. Compares
 * every pair of items. Items that are left when it is stopped get PLACE_NOWHERE. Returns 0 or
 * -ENOMEM. */
int acre__place_fit(const struct place_part *part, const uint32_t *order, enum place_fit fit,
                    struct place_meter *meter, uint64_t *offsets);

#endif
