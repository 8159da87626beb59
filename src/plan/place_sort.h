/* Stable sort by 64-bit keys, in linear time; its work is counted. */
#ifndef ACRE_PLAN_PLACE_SORT_H
#define ACRE_PLAN_PLACE_SORT_H

#include <stdint.h>

#include "plan/place_meter.h"

struct place_row {
    uint64_t key;
    uint32_t item;
};

/* Maps signed times to unsigned keys in the same order. */
static inline uint64_t place_time_key(int64_t time) {
    return (uint64_t)time ^ UINT64_C(1) << 63;
}

/* Sorts by key, ascending; rows with equal keys keep their order. `spare` has room for `count`
 * rows. */
void acre__place_sort(struct place_row *rows, struct place_row *spare, uint32_t count,
                      struct place_meter *meter);

#endif
