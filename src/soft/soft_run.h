/* Runs the queues of streams, and waits for them (soft_run.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_RUN_H
#define ACRE_SOFT_RUN_H

#include "soft/soft_types.h"

/* Runs operations that have become due, where the device lags by operations. Returns 1 if there
 * were any. */
int acre__soft_lag_run(void);

/* Wait for work. The lock is held before and after. */
CUresult acre__soft_wait_stream(struct soft_stream *stream, uint64_t step);
CUresult acre__soft_wait_marker(const struct CUctx_st *ctx, struct soft_marker *marker);
CUresult acre__soft_wait_ctx(struct CUctx_st *ctx);

/* Returns a ready stream, drawn from the seed if there is one; NULL if none is ready. */
struct soft_stream *acre__soft_ready_pick(void);
/* Runs the first operation of a ready stream. Releases the lock meanwhile. */
void acre__soft_run_step(struct soft_stream *stream);
size_t acre__soft_ready_count(void);

/* Wakes workers, or creates more, because a stream may have become ready. */
void acre__soft_workers_wake(void);
/* Runs a step for which no worker is free, if the system refused to create more threads. Returns 0
 * if there is none. */
int acre__soft_help(void);
/* Between stop and start no worker runs, so that streams can be destroyed. Stop takes and releases
 * the lock itself and waits for the workers. Start is called with the lock held. */
void acre__soft_workers_stop(void);
void acre__soft_workers_start(void);
int acre__soft_ctx_is_running(const struct CUctx_st *ctx); /* runs any operation right now */

/* Reports queued work that uses addresses in [address, address + bytes) and was queued after the
 * operation with the serial `since`. */
void acre__soft_report_pending(uint64_t address, size_t bytes, uint64_t since, const char *what);

#endif
