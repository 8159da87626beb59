/* Blocks of kernels: a place for them, their barrier, and mistakes of kernels (launch_block.c). */
#ifndef ACRE_SOFT_LAUNCH_BLOCK_H
#define ACRE_SOFT_LAUNCH_BLOCK_H

#include "soft/launch_types.h"

int acre__soft_block_make(struct soft_launch *launch, struct soft_block *block, uint32_t sm);
void acre__soft_block_free(struct soft_block *block);
/* Takes the next block of the grid; 0: there is none. */
int acre__soft_block_begin(struct soft_block *block);
/* A lane has come to the barrier, or has ended. */
void acre__soft_block_arrive(struct soft_lane *lane);
void acre__soft_block_lane_ended(struct soft_lane *lane);
/* Notes a mistake of the kernel, found in this lane, and ends the launch. */
void acre__soft_launch_mistake(const struct soft_lane *lane, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
