/* How driver calls begin and end (soft_enter.c). A call that has entered holds acre__soft.lock
 * until it leaves. */
#ifndef ACRE_SOFT_ENTER_H
#define ACRE_SOFT_ENTER_H

#include "soft/soft_pool_memory.h"
#include "soft/soft_run.h"
#include "soft/soft_state.h"

/* Begins a driver call. Passes the scheduler's scheduling point and takes the lock. Then checks
 * that the driver is initialised, that a context is current (*device is its device), and that the
 * context has no sticky error. On failure the lock is not held. */
CUresult acre__soft_enter(struct soft_device **device);
/* Enters as acre__soft_enter does, but needs no current context. */
CUresult acre__soft_enter_bare(void);
/* Enters without a context and looks up a device by its number. `output` is the caller's result
 * pointer; returns CUDA_ERROR_INVALID_VALUE if it is NULL. */
CUresult acre__soft_enter_device(CUdevice dev, const void *output, struct soft_device **device);
/* Enters without a context and locates the stream. `output` is the caller's result pointer; returns
 * CUDA_ERROR_INVALID_VALUE if it is NULL. */
CUresult acre__soft_stream_enter(CUstream handle, const void *output, struct soft_stream **stream);

/* Returns memory of destroyed graphs, runs work that has become due, releases the lock and returns
 * `result`. */
static inline CUresult acre__soft_leave(CUresult result) {
    if (acre__soft.graph_memory_over)
        acre__soft_graph_memory_settle();
    if (acre__soft.lag.operations)
        (void)acre__soft_lag_run();
    acre__lock_give(&acre__soft.lock);
    return result;
}

#endif
