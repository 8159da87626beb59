/* Stream capture (soft_capture.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_CAPTURE_H
#define ACRE_SOFT_CAPTURE_H

#include "soft/soft_types.h"

/* Checks a call that is not allowed during a capture. If a capture is under way that the calling
 * thread's mode respects, invalidates it and returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED. */
CUresult acre__soft_capture_refuse(void);
/* Checks an operation on this stream. *is_captured is 1 if the operation belongs to a capture. */
CUresult acre__soft_capture_submit(struct soft_stream *stream, int *is_captured);
/* Checks a wait for an event, as acre__soft_capture_submit does for an operation. The wait can make
 * the stream join a capture. */
CUresult acre__soft_capture_wait(struct soft_stream *stream, const struct soft_event *event,
                                 int *is_captured);
/* Marks the marker as recorded in the stream's capture. */
void acre__soft_capture_record(const struct soft_stream *stream, struct soft_marker *marker);
/* Checks a query or wait of the host for the event. Returns an error if the event was recorded in a
 * capture; a capture that is still under way becomes invalid. */
CUresult acre__soft_capture_event(const struct soft_event *event);
/* Invalidates the stream's capture, if it has one: the call is not allowed on a captured stream. */
CUresult acre__soft_capture_disturb(struct soft_stream *stream);
/* Invalidates every capture in the context, if there is one: the call concerns the whole
 * context. */
CUresult acre__soft_capture_break(struct CUctx_st *ctx);

#endif
