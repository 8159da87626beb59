/* Queueing work on streams (soft_queue.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_QUEUE_H
#define ACRE_SOFT_QUEUE_H

#include "soft/soft_types.h"

/* Queues the operation, behind what the legacy stream's rules ask for, or records it if the stream
 * is captured. Takes the operation in any case. */
CUresult acre__soft_submit(struct soft_stream *stream, struct soft_op *op);
/* Queues the operation without the legacy stream's rules. Takes it in any case. */
CUresult acre__soft_submit_bare(struct soft_stream *stream, struct soft_op *op);
CUresult acre__soft_record(struct soft_stream *stream, struct soft_marker *marker);
/* The stream's next operation waits for the marker. */
CUresult acre__soft_wait_for(struct soft_stream *stream, struct soft_marker *marker);
/* Work queued on `after` from now on waits for what is queued on `before` now. */
CUresult acre__soft_order(struct soft_stream *before, struct soft_stream *after);
/* The legacy stream's rule, before an operation is queued on `stream`. */
CUresult acre__soft_follow_legacy(struct soft_stream *stream);

#endif
