/* Statistics that other programs can read while this one runs (ACRE_STATS): see stats_format.h.
 *
 * The layers above own the numbers: they take a row for each object and store into it. Without
 * ACRE_STATS there are no rows, and the check costs one branch. */
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

/* Takes a row for an object. Returns NULL without ACRE_STATS, and when all rows are in use, which
 * the header counts (rows_missing). */
struct acre__stats_row *acre__stats_row_take(enum acre__stats_kind kind, uint64_t id,
                                             const char *name);
/* Sets the address of a device on the PCI bus. NULL is a no-op. */
void acre__stats_row_card(struct acre__stats_row *row, const char *card);
/* Releases the row of an object that was destroyed. NULL is a no-op. */
void acre__stats_row_give(struct acre__stats_row *row);

/* Stores the first `count` counters of a row, in the order of its list. Does nothing while another
 * thread stores to the row. NULL is a no-op. */
void acre__stats_row_store(struct acre__stats_row *row, const uint64_t *values, unsigned count);

/* Adds to a counter that acre__stats_row_store does not store. */
static inline void acre__stats_row_add(struct acre__stats_row *row, unsigned counter,
                                       uint64_t more) {
    __atomic_fetch_add(&row->values[counter], more, __ATOMIC_RELAXED);
}

/* Registers `fn`, which stores the rows of a layer, for acre_stats_export. `fn` is called without a
 * lock. At most 4; registering a function twice is a no-op. */
void acre__stats_source_add(void (*fn)(void));

/* Opens the file that ACRE_STATS names, if it is set. Fails as acre__trace_begin does. If it is a
 * flag, yes publishes the file for `acre top` (publish_folder.h), which never fails. */
acre_status acre__stats_begin(void);

#endif
