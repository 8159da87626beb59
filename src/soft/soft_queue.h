/* Queueing work on streams (soft_queue.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_QUEUE_H
#define ACRE_SOFT_QUEUE_H

#include "soft/soft_types.h"

/* Queues the operation after the waits that the legacy stream's rules require, or records it if the
 * stream is captured. Takes ownership of the operation, also on failure. */
CUresult acre__soft_submit(struct soft_stream *stream, struct soft_op *op);
/* Queues the operation without the legacy stream's rules. Takes ownership of it, also on
 * failure. */
CUresult acre__soft_submit_bare(struct soft_stream *stream, struct soft_op *op);
/* Does what acre__soft_submit_bare does for an operation with a marker. On success the caller gets
 * a reference to the marker. */
CUresult acre__soft_submit_marked(struct soft_stream *stream, struct soft_op *op,
                                  struct soft_marker **marker);
CUresult acre__soft_record(struct soft_stream *stream, struct soft_marker *marker);
/* Makes later work of the stream wait for the marker. */
CUresult acre__soft_wait_for(struct soft_stream *stream, struct soft_marker *marker);
/* Makes work that is queued on `after` from now on wait for work that is queued on `before` now. */
CUresult acre__soft_order(struct soft_stream *before, struct soft_stream *after);
/* Applies the legacy stream's rules before an operation is queued on `stream`. */
CUresult acre__soft_follow_legacy(struct soft_stream *stream);

#endif
