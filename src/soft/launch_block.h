/* Blocks of kernels: slots that run blocks, their barrier, and errors in kernels
 * (launch_block.c). */
#ifndef ACRE_SOFT_LAUNCH_BLOCK_H
#define ACRE_SOFT_LAUNCH_BLOCK_H

#include "soft/launch_types.h"

int acre__soft_block_make(struct soft_launch *launch, struct soft_block *block, uint32_t sm);
void acre__soft_block_free(struct soft_block *block);
/* Starts the next block of the grid in this slot. Returns 0 if no block is left. */
int acre__soft_block_begin(struct soft_block *block);
/* Reports that a lane has arrived at the barrier, or that it has ended. */
void acre__soft_block_arrive(struct soft_lane *lane);
void acre__soft_block_lane_ended(struct soft_lane *lane);
/* Records an error of the kernel, found in this lane, and aborts the launch. */
void acre__soft_launch_mistake(const struct soft_lane *lane, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
