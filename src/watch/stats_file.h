/* Statistics for others to look at while the program runs (ACRE_STATS): see stats_format.h.
 *
 * The layers above have the numbers; they take a row for each thing and store into it. Without
 * ACRE_STATS there are no rows, and asking costs one branch. */
#ifndef ACRE_WATCH_STATS_FILE_H
#define ACRE_WATCH_STATS_FILE_H

#include <stdatomic.h>
#include <stdint.h>

#include "acre.h"
#include "watch/stats_format.h"

extern _Atomic uint32_t acre__stats_on;

static inline int acre__stats_is_on(void) {
    return (int)__builtin_expect(atomic_load_explicit(&acre__stats_on, memory_order_acquire) != 0,
                                 0);
}

/* A row for something; NULL without ACRE_STATS, and when all are taken, which the file says. */
struct acre__stats_row *acre__stats_row_take(enum acre__stats_kind kind, uint64_t id,
                                             const char *name);
/* It is gone. NULL is a no-op. */
void acre__stats_row_give(struct acre__stats_row *row);

/* Stores all counters of a row, in the order of its list. Leaves it when another thread is doing
 * so. NULL is a no-op. */
void acre__stats_row_store(struct acre__stats_row *row, const uint64_t *values, unsigned count);

/* `fn` stores the rows that a layer has, for acre_stats_export; called without locks. At most 4;
 * one that is there already is not added again. */
void acre__stats_source_add(void (*fn)(void));

/* Begins, if ACRE_STATS says so: as acre__trace_begin. */
acre_status acre__stats_begin(void);

#endif
