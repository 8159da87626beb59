/* Uses of a piece of memory by streams. Each stream has an event recorded after its work so far, so
 * that an unmap waits for just that work and never for the whole device.
 *
 * A stream is identified by its handle and its id, since the driver reuses the handle of a
 * destroyed stream. Events are created when needed and reused. Threads: the owner guards it. */
#ifndef ACRE_SPACE_USES_H
#define ACRE_SPACE_USES_H

#include <stddef.h>

#include "acre.h"

struct acre__use;

struct acre__uses {
    acre_device *dev;
    struct acre__use *first;
};

void acre__uses_open(struct acre__uses *uses, acre_device *dev);

/* Records that the work queued on the stream so far uses the memory. Returns ACRE_E_CAPTURING while
 * the stream is being captured, ACRE_E_HANDLE if acre created the stream on another device; nothing
 * is changed then. */
acre_status acre__uses_record(struct acre__uses *uses, acre_stream stream);

/* As acre__uses_record, for a stream of another device of the same driver. */
acre_status acre__uses_record_peer(struct acre__uses *uses, acre_device *dev, acre_stream stream);

/* Waits until all recorded uses are done. Does not invalidate captures in progress in other
 * threads. */
acre_status acre__uses_wait(struct acre__uses *uses);

/* Waits for all recorded uses and for the work queued on the stream so far. */
acre_status acre__uses_settle(struct acre__uses *uses, acre_stream stream);
/* Waits for the work queued on one stream so far; does not invalidate captures. */
acre_status acre__uses_wait_stream(acre_device *dev, acre_stream stream);

/* 1 if all uses are done; 0 if not, or if the query fails. */
int acre__uses_are_done(struct acre__uses *uses);

/* Makes work queued on `stream` from now on wait for all recorded uses. */
acre_status acre__uses_join(struct acre__uses *uses, acre_stream stream);

/* Moves all uses of `other` to `uses`. */
void acre__uses_append(struct acre__uses *uses, struct acre__uses *other);

/* Moves one idle event to `other`, if there is one. */
void acre__uses_lend(struct acre__uses *uses, struct acre__uses *other);

/* Marks all uses as done, when another object waits for them. The events can be reused. */
void acre__uses_forget(struct acre__uses *uses);

/* Destroys the events; does not wait. */
void acre__uses_close(struct acre__uses *uses);

#endif
