/* Lanes of kernels, one warp at a time (launch_warp.c). */
#ifndef ACRE_SOFT_LAUNCH_WARP_H
#define ACRE_SOFT_LAUNCH_WARP_H

#include "soft/launch_types.h"

enum soft_pass {
    PASS_NOTHING, /* every lane has ended or waits at the barrier */
    PASS_YIELDED, /* every lane that can run has yielded */
    PASS_MOVED,
};

/* Runs each lane of the warp that can run, once. Then releases the lanes that wait in activemask,
 * if no lane is ready or the warp has made enough passes. */
enum soft_pass acre__soft_warp_pass(struct soft_lane *first);
/* With a seed: counts the possible next steps of the warp, and runs the step with that number. */
uint32_t acre__soft_warp_choices(struct soft_lane *first);
void acre__soft_warp_choose(struct soft_lane *first, uint32_t choice);
void acre__soft_lane_point(void); /* a scheduling point: other lanes may run first */

#endif
