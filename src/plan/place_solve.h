/* Everything that is tried on one part, one attempt after the other. */
#ifndef ACRE_PLAN_PLACE_SOLVE_H
#define ACRE_PLAN_PLACE_SOLVE_H

#include <stdint.h>

#include "plan/place_meter.h"
#include "plan/place_problem.h"

struct place_solver;

/* `goal`: where the part may end for all to be well; with `is_least` plans above it
 * are of interest as well, the lower the better. NULL without memory. */
struct place_solver *acre__place_solver_create(const struct place_part *part, uint64_t goal,
                                               int is_least, struct place_meter *meter);
void acre__place_solver_destroy(struct place_solver *solver);

/* The next attempt. The first one gives a plan also when it is stopped. What comes next never
 * depends on the budget. 0 or -ENOMEM. */
int acre__place_solver_step(struct place_solver *solver);

struct place_standing {
    uint64_t height;         /* of the best plan; 2^63: none yet */
    const uint64_t *offsets; /* of it, by item */
    int is_begun;            /* all greedy attempts have been made */
    int is_done;             /* at the goal, or there is nothing more to try */
    int is_proven;           /* there is no lower one; not is_least: none that meets the goal */
};
struct place_standing acre__place_solver_standing(const struct place_solver *solver);

#endif
