/* What comes before what, as far as is known when work is queued (soft_past.c). Guarded by
 * acre__soft.lock. */
#ifndef ACRE_SOFT_PAST_H
#define ACRE_SOFT_PAST_H

#include "soft/soft_types.h"

/* The marker was queued on the stream, as its last operation. */
void acre__soft_past_record(const struct soft_stream *stream, struct soft_marker *marker);
/* A wait for the marker was queued. */
void acre__soft_past_wait(struct soft_stream *stream, const struct soft_marker *marker);
/* Does what is queued on the stream from now on come after the marker? */
int acre__soft_past_knows(const struct soft_stream *stream, const struct soft_marker *marker);
/* The host has waited for all of this. */
void acre__soft_past_observe(const struct soft_past *past);
void acre__soft_past_observe_step(const struct soft_step *step);
/* Has it waited for the marker? With a context, all of that was waited for, ended streams too. */
int acre__soft_past_is_observed(const struct soft_marker *marker, const struct CUctx_st *ctx);
void acre__soft_past_copy(struct soft_past *to, const struct soft_past *from);
void acre__soft_past_free(struct soft_past *past);

#endif
