/* Placed items by offset, so that gaps between those of a time can be found. */
#ifndef ACRE_PLAN_PLACE_LISTS_H
#define ACRE_PLAN_PLACE_LISTS_H

#include <stdint.h>

#include "plan/place_problem.h"

struct place_lists;

/* The offset of an item that has none. With a size added it is above every limit. */
#define PLACE_NOWHERE (UINT64_C(1) << 63)

enum place_fit {
    PLACE_FIRST_FIT, /* the lowest gap that is large enough */
    PLACE_BEST_FIT   /* the smallest one, of those the lowest */
};

/* Empty ones, for items of the part. NULL without memory. */
struct place_lists *acre__place_lists_create(const struct place_part *part);
void acre__place_lists_destroy(struct place_lists *lists);

void acre__place_lists_clear(struct place_lists *lists);
void acre__place_lists_insert(struct place_lists *lists, uint32_t item, uint64_t offset);
/* At the end: no item in the lists lies higher. Faster than insert. */
void acre__place_lists_append(struct place_lists *lists, uint32_t item, uint64_t offset);
void acre__place_lists_remove(struct place_lists *lists, uint32_t item, uint64_t offset);

/* Where the item would go among those that are in the lists. */
uint64_t acre__place_lists_find(struct place_lists *lists, uint32_t item, enum place_fit fit);

/* Writes the items in the lists that live together with this one, the lowest first, to `found`,
 * which has room for all. Returns how many. */
uint32_t acre__place_lists_meet(const struct place_lists *lists, uint32_t item, uint32_t *found);

/* Places all items in the given order (fixed ones first, whatever their place in it) and writes
 * offsets, by item, from the part's base. One that would end above `limit` gets PLACE_NOWHERE, and
 * the others go on; or, with `is_strict`, it is the end. Returns how many there were. */
uint32_t acre__place_lists_fill(struct place_lists *lists, const uint32_t *order,
                                enum place_fit fit, uint64_t limit, int is_strict,
                                uint64_t *offsets);

/* How many entries were looked at since the last call. */
uint64_t acre__place_lists_work(struct place_lists *lists);

#endif
