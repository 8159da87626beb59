/* The sequence of attempts on one part. */
#ifndef ACRE_PLAN_PLACE_SOLVE_H
#define ACRE_PLAN_PLACE_SOLVE_H

#include <stdint.h>

#include "plan/place_meter.h"
#include "plan/place_problem.h"

struct place_solver;

/* The part may end at `goal`. With `is_least`, plans above the goal count as well, the lower the
 * better. NULL when out of memory. */
struct place_solver *acre__place_solver_create(const struct place_part *part, uint64_t goal,
                                               int is_least, struct place_meter *meter);
void acre__place_solver_destroy(struct place_solver *solver);

/* Makes the next attempt. The first attempt gives a plan even if it is stopped. The sequence never
 * depends on the budget. Returns 0 or -ENOMEM. */
int acre__place_solver_step(struct place_solver *solver);

struct place_standing {
    uint64_t height;         /* of the best plan; 2^63: none yet */
    const uint64_t *offsets; /* of the best plan, by item */
    int is_begun;            /* all greedy attempts are done */
    int is_done;             /* at the goal, or nothing is left to try */
    int is_proven;           /* no lower plan exists; without is_least: none that meets the goal */
};
struct place_standing acre__place_solver_standing(const struct place_solver *solver);

#endif
