/* Ordering between streams that is known when an operation is queued.
 *
 * The clocks (soft_clock.c) learn the order while operations run, and only if uses of memory are
 * checked. A pool has to choose memory when the call is made, and without checks, too. So each
 * stream keeps the steps of other streams that its waits have named, and each marker has a copy.
 * Nothing is recorded before the first pool allocates. When out of memory, or with more than
 * SOFT_PAST_MOST streams, steps are forgotten; a pool then takes other memory. Guarded by
 * acre__soft.lock. */
#include <stdlib.h>
#include <string.h>

#include "soft/soft_past.h"
#include "soft/soft_state.h"

enum { SOFT_PAST_MOST = 128 }; /* steps that a stream or marker remembers */

void acre__soft_past_free(struct soft_past *past) {
    free(past->at);
    *past = (struct soft_past){0};
}

/* Makes room for one more step and drops the oldest one if there are too many. Returns 0 when out
 * of memory. */
static int past_make_room(struct soft_past *past) {
    if (past->count == SOFT_PAST_MOST) {
        memmove(past->at, past->at + 1, --past->count * sizeof *past->at);
        return 1;
    }
    struct soft_step *at = realloc(past->at, (past->count + 1) * sizeof *at);
    if (!at)
        return 0;
    past->at = at;
    return 1;
}

static void past_learn(struct soft_past *past, const struct soft_step *step) {
    for (size_t i = 0; i < past->count; i++)
        if (past->at[i].stream == step->stream) {
            if (past->at[i].step < step->step)
                past->at[i].step = step->step;
            return;
        }
    if (past_make_room(past))
        past->at[past->count++] = *step;
}

static void past_join(struct soft_past *to, const struct soft_past *from) {
    for (size_t i = 0; i < from->count; i++)
        past_learn(to, &from->at[i]);
}

void acre__soft_past_copy(struct soft_past *to, const struct soft_past *from) {
    *to = (struct soft_past){0};
    if (!acre__soft.is_past_kept || !from->count)
        return;
    to->at = malloc(from->count * sizeof *to->at);
    if (!to->at)
        return;
    memcpy(to->at, from->at, from->count * sizeof *to->at);
    to->count = from->count;
}

void acre__soft_past_record(const struct soft_stream *stream, struct soft_marker *marker) {
    marker->ctx_id = stream->ctx->id;
    marker->place = (struct soft_step){stream->id, stream->submitted};
    marker->serial = acre__soft.last_serial;
    acre__soft_past_copy(&marker->past, &stream->past);
}

void acre__soft_past_wait(struct soft_stream *stream, const struct soft_marker *marker) {
    if (!acre__soft.is_past_kept)
        return;
    past_join(&stream->past, &marker->past);
    past_learn(&stream->past, &marker->place);
}

int acre__soft_past_knows(const struct soft_stream *stream, const struct soft_marker *marker) {
    if (stream->id == marker->place.stream)
        return 1;
    for (size_t i = 0; i < stream->past.count; i++)
        if (stream->past.at[i].stream == marker->place.stream)
            return stream->past.at[i].step >= marker->place.step;
    return 0;
}

/* ---- what the host has waited for ---- */

void acre__soft_past_observe_step(const struct soft_step *step) {
    struct soft_stream *stream =
        acre__soft.is_past_kept ? acre__soft_stream_by_id(step->stream) : NULL;
    if (stream && stream->observed < step->step)
        stream->observed = step->step;
}

void acre__soft_past_observe(const struct soft_past *past) {
    for (size_t i = 0; i < past->count; i++)
        acre__soft_past_observe_step(&past->at[i]);
}

int acre__soft_past_is_observed(const struct soft_marker *marker, const struct CUctx_st *ctx) {
    const struct soft_stream *stream = acre__soft_stream_by_id(marker->place.stream);
    if (stream)
        return stream->observed >= marker->place.step;
    return marker->done && ctx && ctx->id == marker->ctx_id;
}
