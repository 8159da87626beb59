/* How calls begin and end (soft_enter.c). A call that has entered holds acre__soft.lock until it
 * leaves. */
#ifndef ACRE_SOFT_ENTER_H
#define ACRE_SOFT_ENTER_H

#include "soft/soft_run.h"
#include "soft/soft_state.h"

/* Every call but a few begins so: a border of the scheduler, then the lock, then: is the driver
 * initialised, is a context current (*device is its device), is the device well. On failure the
 * lock is not held. */
CUresult acre__soft_enter(struct soft_device **device);
/* Enters as acre__soft_enter does, without a context. */
CUresult acre__soft_enter_bare(void);
/* Enters without a context and looks a device up by its number; `output`, the caller's result, must
 * not be NULL. */
CUresult acre__soft_enter_device(CUdevice dev, const void *output, struct soft_device **device);
/* Enters and locates the stream; `output`, the caller's result, must not be NULL. */
CUresult acre__soft_stream_enter(CUstream handle, const void *output, struct soft_stream **stream);

/* Gives the lock back and returns `result`. */
static inline CUresult acre__soft_leave(CUresult result) {
    if (acre__soft.lag.operations)
        (void)acre__soft_lag_run();
    acre__lock_give(&acre__soft.lock);
    return result;
}

#endif
