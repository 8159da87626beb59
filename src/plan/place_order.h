/* Orders of a part's items, named by letters. Each letter is a sort key; the first is the primary.
 *
 *   W  duration, long first         T  largest total of its sections, large first
 *   A  area, large first            Z  size, large first
 *   L  beginning, early first       U  end, late first
 *
 * Equal items stay in the order of their buffers, so that an order is the same on every machine. */
#ifndef ACRE_PLAN_PLACE_ORDER_H
#define ACRE_PLAN_PLACE_ORDER_H

#include <stdint.h>

#include "plan/place_meter.h"
#include "plan/place_problem.h"

/* Writes the indices of all items that are not fixed, in order; in some order if it is stopped.
 * Returns 0 or -ENOMEM. */
int acre__place_order(const struct place_part *part, const char *letters, struct place_meter *meter,
                      uint32_t *order);

/* Moves items of an order towards its beginning: the item with the most heat (by item) by `reach`
 * places, others by less. Returns 0 or -ENOMEM. */
int acre__place_order_promote(uint32_t *order, uint32_t count, uint32_t reach, const uint32_t *heat,
                              struct place_meter *meter);

#endif
