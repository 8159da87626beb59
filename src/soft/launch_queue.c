/* Queues kernels on streams, as one operation each. launch.c runs them. */
#include "soft/launch.h"
#include "soft/launch_types.h"
#include "soft/soft.h"
#include "soft/soft_enter.h"
#include "soft/soft_op.h"
#include "soft/soft_queue.h"
#include "soft/soft_state.h"

/* Queues the launch. Takes ownership of it, also on failure. */
static CUresult launch_submit(struct soft_launch *launch, CUstream handle) {
    struct soft_stream *stream;
    CUresult result = acre__soft_stream_enter(handle, launch, &stream);
    if (result) {
        acre__soft_launch_free(launch);
        return result;
    }
    struct soft_op *op = acre__soft_op_make(SOFT_KERNEL);
    if (!op) {
        acre__soft_launch_free(launch);
        return acre__soft_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    launch->is_seeded = acre__soft.config.seeded;
    launch->ordinal = stream->device;
    op->launch = launch;
    return acre__soft_leave(acre__soft_submit(stream, op));
}

CUresult acre__soft_kernel_queue(CUstream stream, const struct acre__soft_kernel *kernel) {
    struct soft_launch *launch = acre__soft_launch_make(kernel->fn, kernel->grid, kernel->block,
                                                        kernel->shared_bytes, kernel->arg);
    if (!launch)
        return CUDA_ERROR_OUT_OF_MEMORY;
    launch->warp_lanes = kernel->warp_lanes;
    return launch_submit(launch, stream);
}
