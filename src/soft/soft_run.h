/* Running the queues, and waiting for them (soft_run.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_RUN_H
#define ACRE_SOFT_RUN_H

#include "soft/soft_types.h"

/* Runs what has become due, where the device lags by operations; 1 if there was something. */
int acre__soft_lag_run(void);

/* Waiting, with the lock held before and after. */
CUresult acre__soft_wait_stream(struct soft_stream *stream, uint64_t step);
CUresult acre__soft_wait_marker(const struct CUctx_st *ctx, struct soft_marker *marker);
CUresult acre__soft_wait_ctx(struct CUctx_st *ctx);

/* A stream that can go on now, by the mode's choice; NULL if none. */
struct soft_stream *acre__soft_ready_pick(void);
/* Runs the first operation of a ready stream. The lock is given up meanwhile. */
void acre__soft_run_step(struct soft_stream *stream);
size_t acre__soft_ready_count(void);

/* Something may have become ready: wakes workers, or makes more. */
void acre__soft_workers_wake(void);
/* Where the system gives no more threads: runs a step that no worker is free for. 0 if there is
 * none. */
int acre__soft_help(void);
/* From the first to the second no worker runs: for the end of streams. Stop takes and gives the
 * lock itself and waits for the workers; start is called with the lock held. */
void acre__soft_workers_stop(void);
void acre__soft_workers_start(void);
int acre__soft_ctx_is_running(const struct CUctx_st *ctx); /* any operation, right now */

/* Does work queued after the operation of that serial use addresses in [address, address + bytes)?
 * Then it is reported. */
void acre__soft_report_pending(uint64_t address, size_t bytes, uint64_t since, const char *what);

#endif
