/* Strands: the stacks that lanes of kernels run on (launch_strand.c). */
#ifndef ACRE_SOFT_LAUNCH_STRAND_H
#define ACRE_SOFT_LAUNCH_STRAND_H

#include "soft/launch_types.h"

/* The lane that the calling thread runs; NULL outside of kernels. */
extern _Thread_local struct soft_lane *acre__soft_lane_now
    __attribute__((tls_model("initial-exec")));

/* Assigns stacks to `count` lanes until acre__soft_strands_give. Returns 0 when out of memory. */
int acre__soft_strands_take(struct soft_lane *lanes, size_t count);
/* Releases the stacks of the lanes. The stack of a lane that has not ended is unmapped, not
 * cached. */
void acre__soft_strands_give(struct soft_lane *lanes, size_t count);
/* Runs the lane until it leaves its strand or ends. */
void acre__soft_lane_enter(struct soft_lane *lane);
/* Switches from the lane back to its caller; the lane can continue later. Called on the lane's
 * stack. */
void acre__soft_lane_leave(struct soft_lane *lane, enum soft_lane_state state);

/* Returns 1 if the caller is a lane of a seeded kernel. For the scheduler's hooks. */
static inline int acre__soft_lane_is_seeded(void) {
    const struct soft_lane *lane = acre__soft_lane_now;
    return lane && lane->block->launch->is_seeded;
}

#endif
