/* Counts the placer's work, and says when it has to end.
 *
 * Work is counted in units of about a nanosecond: items, sections and words that were looked at.
 * The same buffers give the same count everywhere, so the budget ends a search at the same point on
 * every machine. Every loop whose length depends on the input counts. Between two looks at the stop
 * flag lie a few passes over the items of a part at most. */
#ifndef ACRE_PLAN_PLACE_METER_H
#define ACRE_PLAN_PLACE_METER_H

#include <stdatomic.h>
#include <stdint.h>

enum { PLACE_NODE = 1024 }; /* units in a node, of which budgets are made */

struct place_meter {
    uint64_t work;          /* units so far */
    uint64_t budget;        /* units: beyond it no attempt begins, and searches end */
    uint64_t stop_after;    /* units, as if `stop` was set then; 0: never */
    const atomic_int *stop; /* may be NULL */
    int is_stopped;         /* the flag was seen; it stays so */
};

static inline int place_is_stopped(struct place_meter *meter) {
    if (meter->stop && atomic_load_explicit(meter->stop, memory_order_relaxed))
        meter->is_stopped = 1;
    if (meter->stop_after && meter->work >= meter->stop_after)
        meter->is_stopped = 1;
    return meter->is_stopped;
}

/* Whether nothing more may be searched. */
static inline int place_is_spent(struct place_meter *meter) {
    return meter->work >= meter->budget || place_is_stopped(meter);
}

#endif
