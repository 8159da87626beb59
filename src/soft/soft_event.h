/* Events (soft_event.c). Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_EVENT_H
#define ACRE_SOFT_EVENT_H

#include "soft/soft_types.h"

/* Records the node's event, or waits for it, for a launched graph. Returns INVALID_VALUE if the
 * event was destroyed. */
CUresult acre__soft_event_launch(const struct soft_op *node, struct soft_stream *stream);
/* Destroys an event. */
void acre__soft_event_free(struct soft_event *event);

#endif
