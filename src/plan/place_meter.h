/* Counts the placer's work and tells it when to stop.
 *
 * Work is counted in units of about a nanosecond: items, sections and words that were read. The
 * same buffers give the same count everywhere, so the budget ends a search at the same point on
 * every machine. Every loop whose length depends on the input counts. Between two checks of the
 * stop flag lie at most a few passes over the items of a part. */
#ifndef ACRE_PLAN_PLACE_METER_H
#define ACRE_PLAN_PLACE_METER_H

#include <stdatomic.h>
#include <stdint.h>

enum { PLACE_NODE = 1024 }; /* units per node; budgets are in nodes */

struct place_meter {
    uint64_t work;          /* units so far */
    uint64_t budget;        /* units; beyond it no attempt begins, and searches end */
    uint64_t stop_after;    /* units after which `stop` counts as set; 0: never */
    const atomic_int *stop; /* may be NULL */
    int is_stopped;         /* sticky: the flag was seen */
};

static inline int place_is_stopped(struct place_meter *meter) {
    if (meter->stop && atomic_load_explicit(meter->stop, memory_order_relaxed))
        meter->is_stopped = 1;
    if (meter->stop_after && meter->work >= meter->stop_after)
        meter->is_stopped = 1;
    return meter->is_stopped;
}

/* 1 if the search must end. */
static inline int place_is_spent(struct place_meter *meter) {
    return meter->work >= meter->budget || place_is_stopped(meter);
}

#endif
