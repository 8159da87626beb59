/* Making a plan lower by moving a few of its items. */
#ifndef ACRE_PLAN_PLACE_REPAIR_H
#define ACRE_PLAN_PLACE_REPAIR_H

#include <stdatomic.h>
#include <stdint.h>

#include "plan/place_lists.h"

struct place_repair;

/* Uses the lists, whatever is in them. NULL without memory. */
struct place_repair *acre__place_repair_create(const struct place_part *part,
                                               struct place_lists *lists);
void acre__place_repair_destroy(struct place_repair *repair);

/* Tries to get every item of the plan below `capacity`, for at most `nodes` nodes, of which those
 * that it used are taken. Returns 1 and has changed the offsets, or 0, when they mean nothing any
 * more. */
int acre__place_repair_run(struct place_repair *repair, uint64_t capacity, uint64_t *nodes,
                           const atomic_int *stop, uint64_t *offsets);

#endif
