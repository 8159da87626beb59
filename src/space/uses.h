/* Who uses a piece of memory: streams, each with an event behind its work so far, so that unmapping
 * can wait for just that work and never for the device.
 *
 * A stream is known by its handle and its id, since the driver hands a dead stream's handle out
 * again. Events are made when needed and used again. Threads: the owner guards it. */
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

/* Work queued on the stream so far uses the memory. ACRE_E_CAPTURING while the stream is captured,
 * ACRE_E_HANDLE for another device's stream of acre's; nothing is changed then. */
acre_status acre__uses_record(struct acre__uses *uses, acre_stream stream);

/* The same for a stream of another device of the same driver. */
acre_status acre__uses_record_peer(struct acre__uses *uses, acre_device *dev, acre_stream stream);

/* Waits until all of it is done; captures that other threads have under way are left alone. */
acre_status acre__uses_wait(struct acre__uses *uses);

/* Both: waits for all of it, and for what the stream has queued so far. */
acre_status acre__uses_settle(struct acre__uses *uses, acre_stream stream);
/* Waits for what one stream has queued so far, in the same way. */
acre_status acre__uses_wait_stream(acre_device *dev, acre_stream stream);

/* 1 if all of it is done, 0 if not or if the driver does not say. */
int acre__uses_are_done(struct acre__uses *uses);

/* Makes work queued on `stream` from now on wait for all of it. */
acre_status acre__uses_join(struct acre__uses *uses, acre_stream stream);

/* Adds the uses of another, which is empty then. */
void acre__uses_append(struct acre__uses *uses, struct acre__uses *other);

/* Moves one event that nothing waits for to another, if there is one. */
void acre__uses_lend(struct acre__uses *uses, struct acre__uses *other);

/* Nothing of it is waited for any more: somebody else does. The events can be used again. */
void acre__uses_forget(struct acre__uses *uses);

/* Gives the events back; does not wait. */
void acre__uses_close(struct acre__uses *uses);

#endif
