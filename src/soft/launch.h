/* Kernels of the soft device: making, running and freeing a launch (launch.c). */
#ifndef ACRE_SOFT_LAUNCH_H
#define ACRE_SOFT_LAUNCH_H

#include "soft/launch_types.h"
#include "soft/soft_types.h"

/* *is_over is 0 when the kernel has more steps: with a seed it runs a little at a time. */
CUresult acre__soft_run_kernel(struct soft_stream *stream, struct soft_op *op, int *is_over);
/* A kernel that is not queued yet, with warps of 0 lanes. NULL without memory. */
struct soft_launch *acre__soft_launch_make(acre_soft_kernel fn, const uint32_t grid[3],
                                           const uint32_t block[3], size_t shared_bytes, void *arg);
void acre__soft_launch_free(struct soft_launch *launch);
/* The same kernel, not begun: for a graph that is launched. NULL without memory. */
struct soft_launch *acre__soft_launch_copy(const struct soft_launch *from);

#endif
