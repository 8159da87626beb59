/* Ordering between operations, as far as it is known when work is queued (soft_past.c). Guarded by
 * acre__soft.lock. */
#ifndef ACRE_SOFT_PAST_H
#define ACRE_SOFT_PAST_H

#include "soft/soft_types.h"

/* Records that the marker was queued as the stream's last operation. */
void acre__soft_past_record(const struct soft_stream *stream, struct soft_marker *marker);
/* Records that a wait for the marker was queued on the stream. */
void acre__soft_past_wait(struct soft_stream *stream, const struct soft_marker *marker);
/* Returns 1 if work queued on the stream from now on is known to come after the marker. */
int acre__soft_past_knows(const struct soft_stream *stream, const struct soft_marker *marker);
/* Records that the host has waited for these steps. */
void acre__soft_past_observe(const struct soft_past *past);
void acre__soft_past_observe_step(const struct soft_step *step);
/* Returns 1 if the host has waited for the marker. With a context: the host has waited for all of
 * its work, including that of ended streams. */
int acre__soft_past_is_observed(const struct soft_marker *marker, const struct CUctx_st *ctx);
void acre__soft_past_copy(struct soft_past *to, const struct soft_past *from);
void acre__soft_past_free(struct soft_past *past);

#endif
