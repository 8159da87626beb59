/* Lanes of kernels, one warp at a time (launch_warp.c). */
#ifndef ACRE_SOFT_LAUNCH_WARP_H
#define ACRE_SOFT_LAUNCH_WARP_H

#include "soft/launch_types.h"

enum soft_pass {
    PASS_NOTHING, /* every lane has ended or stands at the barrier */
    PASS_YIELDED, /* all that could run has yielded */
    PASS_MOVED,
};

/* Runs every lane of the warp that can run, once, and lets those that wait together go on. */
enum soft_pass acre__soft_warp_pass(struct soft_lane *first);
/* With a seed: how many things can happen next in the warp, and the one with that number. */
uint32_t acre__soft_warp_choices(struct soft_lane *first);
void acre__soft_warp_choose(struct soft_lane *first, uint32_t choice);
void acre__soft_lane_point(void); /* others may run first */

#endif
