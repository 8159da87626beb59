/* Sorting by 64-bit keys: stable, in linear time, and counted. */
#ifndef ACRE_PLAN_PLACE_SORT_H
#define ACRE_PLAN_PLACE_SORT_H

#include <stdint.h>

#include "plan/place_meter.h"

struct place_row {
    uint64_t key;
    uint32_t item;
};

/* Moments as keys: the order of signed numbers as that of unsigned ones. */
static inline uint64_t place_time_key(int64_t time) {
    return (uint64_t)time ^ UINT64_C(1) << 63;
}

/* Sorts by key, the least first; rows with equal keys keep their order. `spare` has room for as
 * many rows. */
void acre__place_sort(struct place_row *rows, struct place_row *spare, uint32_t count,
                      struct place_meter *meter);

#endif
