/* A device that is behind the host (soft_lag.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_LAG_H
#define ACRE_SOFT_LAG_H

#include "soft/soft_types.h"

/* An operation is queued: notes when it may begin. */
void acre__soft_lag_queued(struct soft_op *op);
/* 1 if it may begin now, as far as the lag goes. */
int acre__soft_lag_is_due(const struct soft_op *op);
/* When the next operation becomes due; 0 without a lag in time, or when nothing is queued. */
uint64_t acre__soft_lag_next_ns(void);
/* The host waits, or was told "not ready". */
void acre__soft_lag_wait(void);
void acre__soft_lag_asked(void);
/* 1 if callers run the stream's next operation and workers leave it alone. */
int acre__soft_lag_is_inline(const struct soft_stream *stream);
/* What ACRE_SOFT_LAG says. */
acre_status acre__soft_lag_config(struct acre__soft_config *config);
void acre__soft_lag_start(void);

#endif
