/* A trace of what a watched program allocates and frees (watch/trace.h), for `acre run --trace`.
 *
 * Each kind of memory is a pool of the trace, and each caller a tag. Locks: none of its own. */
#ifndef ACRE_LEDGER_LEDGER_TRACE_H
#define ACRE_LEDGER_LEDGER_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "caller.h"
#include "run_file.h"

/* Starts the trace that the word `trace=` of ACRE_RUN names, if there is one; see ledger_run.c.
 * `is_recorded`: the ledger records its entries. Else acre's pools record what they serve. */
void acre__ledger_trace_begin(int is_recorded);

/* The trace belongs to the parent, in a forked child. */
void acre__ledger_trace_forget(void);

/* An allocation; call it after the driver's. `site` is its caller's number, 0 without a report. */
void acre__ledger_trace_alloc(enum run_kind kind, uint64_t key, size_t bytes, uint32_t site,
                              const struct acre_ledger_caller *caller);
/* A free; call it before the driver's. And a free that the driver refused afterwards. */
void acre__ledger_trace_free(enum run_kind kind, uint64_t key);
void acre__ledger_trace_kept(enum run_kind kind, uint64_t key);

#endif
