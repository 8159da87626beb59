/* Kernels of the soft device: creating, running and freeing a launch (launch.c). */
#ifndef ACRE_SOFT_LAUNCH_H
#define ACRE_SOFT_LAUNCH_H

#include "soft/launch_types.h"
#include "soft/soft_types.h"

/* Runs a kernel. With a seed a call runs one step only, and *is_over is 0 while steps are left. */
CUresult acre__soft_run_kernel(struct soft_stream *stream, struct soft_op *op, int *is_over);
/* Creates a launch that is not queued. The caller sets warp_lanes, which is 0 at first. Returns
 * NULL when out of memory. */
struct soft_launch *acre__soft_launch_make(acre_soft_kernel fn, const uint32_t grid[3],
                                           const uint32_t block[3], size_t shared_bytes, void *arg);
void acre__soft_launch_free(struct soft_launch *launch);
/* Copies a launch as if it had not started, for the launch of a graph. Returns NULL when out of
 * memory. */
struct soft_launch *acre__soft_launch_copy(const struct soft_launch *from);

#endif
