/* Lag of devices behind the host (soft_lag.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_LAG_H
#define ACRE_SOFT_LAG_H

#include "soft/soft_types.h"

/* Records when a queued operation becomes due. */
void acre__soft_lag_queued(struct soft_op *op);
/* Returns 1 if the lag allows the operation to begin now. */
int acre__soft_lag_is_due(const struct soft_op *op);
/* Returns when the next operation becomes due; 0 without a lag in time or if nothing is queued. */
uint64_t acre__soft_lag_next_ns(void);
/* acre__soft_lag_wait: the host waits for work. acre__soft_lag_asked: a query returned "not
 * ready". */
void acre__soft_lag_wait(void);
void acre__soft_lag_asked(void);
/* Returns 1 if callers run the stream's next operation and workers skip it. */
int acre__soft_lag_is_inline(const struct soft_stream *stream);
/* Reads ACRE_SOFT_LAG. */
acre_status acre__soft_lag_config(struct acre__soft_config *config);
void acre__soft_lag_start(void);

#endif
