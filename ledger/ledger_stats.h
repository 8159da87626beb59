/* The memory of a program under `acre run` as statistics, for `acre top` (watch/stats_file.h).
 *
 * Each kind of memory is a row. A program whose memory comes from acre's pools has the rows of the
 * pools instead. */
#ifndef ACRE_LEDGER_LEDGER_STATS_H
#define ACRE_LEDGER_LEDGER_STATS_H

#include "run_file.h"

/* Stores the counts of a kind, with the ledger's lock held. The first call begins the statistics,
 * if ACRE_STATS is set: a program that uses no memory publishes nothing. */
void acre__ledger_stats_store(enum run_kind kind, const struct run_count *count);

/* The statistics belong to the parent, in a forked child. */
void acre__ledger_stats_forget(void);

#endif
