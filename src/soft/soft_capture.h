/* Stream capture (soft_capture.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_CAPTURE_H
#define ACRE_SOFT_CAPTURE_H

#include "soft/soft_types.h"

/* The result of a call that is not allowed while a capture is under way that the calling thread's
 * mode respects; such a call also breaks the capture. */
CUresult acre__soft_capture_refuse(void);
/* For an operation on this stream: *is_captured is 1 when it belongs to the capture. */
CUresult acre__soft_capture_submit(struct soft_stream *stream, int *is_captured);
/* The same for a wait, by which a stream can join a capture. */
CUresult acre__soft_capture_wait(struct soft_stream *stream, const struct CUevent_st *event,
                                 int *is_captured);
/* A captured stream gets an event. */
void acre__soft_capture_record(const struct soft_stream *stream, struct soft_marker *marker);
/* For a host's question about the event: an error when it was recorded in a capture. */
CUresult acre__soft_capture_event(const struct CUevent_st *event);
/* A call that a captured stream does not bear: breaks the capture. */
CUresult acre__soft_capture_disturb(struct soft_stream *stream);
/* A call on the whole context: breaks every capture in it, if there is one. */
CUresult acre__soft_capture_break(struct CUctx_st *ctx);

#endif
