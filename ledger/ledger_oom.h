/* The report at an out-of-memory error, for programs on a GPU (`acre run --watch`): who holds the
 * memory of the card, in lines that add up to all of it.
 *
 * It is printed to stderr once for each site, at most OOM_REPORTS times in a process. Threads: any.
 * Locks: one mutex around the list of sites, and those of the ledger, one after the other. */
#ifndef ACRE_LEDGER_LEDGER_OOM_H
#define ACRE_LEDGER_LEDGER_OOM_H

#include <stddef.h>

#include "caller.h"
#include "run_report.h"

/* What the thread's call has asked for. */
struct ledger_request {
    enum run_kind kind; /* RUN_KIND_COUNT: not an allocation, or unknown */
    size_t bytes;       /* 0: unknown */
};

/* Switches the reports on. */
void acre__oom_begin(void);
/* Prints the report for a call that the driver has refused with CUDA_ERROR_OUT_OF_MEMORY. Makes
 * driver calls that only query. Call it without a lock. */
void acre__oom_report(const struct acre_ledger_caller *caller,
                      const struct ledger_request *request);
/* In a forked child. */
void acre__oom_in_child(void);

#endif
