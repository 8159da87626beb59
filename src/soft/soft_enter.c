/* How driver calls begin, and how threads end.
 *
 * A call passes the scheduler's scheduling point and takes acre__soft.lock. It then checks that the
 * driver is initialised and that the caller is neither a host function nor a kernel, and finds the
 * device, context or stream that it needs. acre__soft_leave (soft_enter.h) ends the call.
 *
 * A thread's first call creates its record. The end of the thread frees the record and destroys its
 * default streams. */
#include <stdlib.h>

#include "base/thread.h"
#include "soft/launch_strand.h"
#include "soft/sched.h"
#include "soft/soft_enter.h"
#include "soft/soft_object.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_run.h"
#include "soft/soft_state.h"
#include "soft/soft_stream.h"
#include "soft/soft_thread.h"

/* ---- the end of a thread ---- */

static void soft_thread_exit(struct acre__thread *thread) {
    struct soft_thread *self = thread->soft;
    if (!self)
        return;
    acre__lock_take(&acre__soft.lock);
    for (struct CUctx_st *ctx = acre__soft.contexts; ctx; ctx = ctx->next)
        acre__soft_stream_end_of_thread(ctx, thread->id);
    acre__soft_graph_memory_settle();
    acre__soft_objects_settle();
    acre__lock_give(&acre__soft.lock);
    thread->soft = NULL;
    free(self);
}

/* ---- how calls begin ---- */

CUresult acre__soft_enter_bare(void) {
    static int is_registered;
    if (acre__soft_lane_now) /* kernels must not call the driver; its lock may be held */
        return CUDA_ERROR_NOT_PERMITTED;
    acre__soft_sched_border();
    acre__lock_take(&acre__soft.lock);
    if (!is_registered) /* before any thread has a record */
        acre__thread_at_exit(soft_thread_exit);
    is_registered = 1;
    struct soft_thread *self = acre__soft_thread_self();
    CUresult result = !acre__soft.is_initialized ? CUDA_ERROR_NOT_INITIALIZED
                      : !self                    ? CUDA_ERROR_OUT_OF_MEMORY
                      : self->in_host_function   ? CUDA_ERROR_NOT_PERMITTED
                                                 : CUDA_SUCCESS;
    if (result)
        acre__lock_give(&acre__soft.lock);
    else if (acre__soft.is_short_of_threads)
        (void)acre__soft_help();
    return result;
}

CUresult acre__soft_enter_device(CUdevice dev, const void *output, struct soft_device **device) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!output)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    *device = acre__soft_device_at(dev);
    return *device ? CUDA_SUCCESS : acre__soft_leave(CUDA_ERROR_INVALID_DEVICE);
}

CUresult acre__soft_enter(struct soft_device **device) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    result = acre__soft_current(device);
    return result ? acre__soft_leave(result) : CUDA_SUCCESS;
}

CUresult acre__soft_stream_enter(CUstream handle, const void *output, struct soft_stream **stream) {
    CUresult result = acre__soft_enter_bare();
    if (result)
        return result;
    if (!output)
        return acre__soft_leave(CUDA_ERROR_INVALID_VALUE);
    result = acre__soft_stream_locate(handle, stream);
    return result ? acre__soft_leave(result) : CUDA_SUCCESS;
}
