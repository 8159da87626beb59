/* Records for the report of `acre run`, in the file that all its processes share
 * (report/run_file.h): live allocations, refused calls, findings of the soft driver.
 *
 * The records are what a report needs if this process ends without exit handlers. They repeat a
 * part of the ledger, which also has what frees and faults need.
 *
 * Threads: any. One mutex, which is the last that a thread takes: it is never held during a call of
 * the driver or of the ledger. Without a report every function is a no-op. */
#ifndef ACRE_LEDGER_LEDGER_RECORD_H
#define ACRE_LEDGER_LEDGER_RECORD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "caller.h"
#include "run_report.h"

/* Opens the file `path` of `acre run`. If that fails, the records are in memory of this process:
 * its report at exit still works. `has_lines`: callers become function and line, which loads
 * libraries into the program. Returns 0 without memory for records. */
int acre__record_begin(const char *path, int has_lines);

/* Records a caller and returns its number, 0 without a report. The only place where the stand-ins
 * record one. Call it without a lock: it may take the dynamic loader's. */
uint32_t acre__record_site(const struct acre_ledger_caller *caller);

/* Records a live allocation, and changes such a record. NULL is a no-op. */
struct run_block *acre__record_block(enum run_kind kind, uint64_t key, size_t bytes,
                                     uint64_t number, uint32_t site);
void acre__record_block_end(struct run_block *block);
void acre__record_block_lose(struct run_block *block);
/* Hides a live allocation from the report, or shows it again. */
void acre__record_block_show(struct run_block *block, int is_shown);
/* Records `blocks` blocks of libacre that were not freed. */
void acre__record_acre(uint64_t blocks, uint64_t bytes, uint32_t site);

/* Copies the counts of a kind; RUN_KIND_COUNT: of all memory. */
void acre__record_count(enum run_kind kind, const struct run_count *count);

/* Records a call that returned an error. `why` may be empty. */
void acre__record_refusal(uint32_t site, uint32_t code, const char *error, const char *why);
/* Returns 1 if this process has recorded such a call. */
int acre__record_has_refusals(void);
/* Records a finding of the soft driver. */
void acre__record_wrong(const char *text);
/* Returns 1 if this process has recorded such a finding. */
int acre__record_has_wrongs(void);
/* Returns the counter of calls of a function whose memory is not recorded, in the file; NULL
 * without a report. */
_Atomic uint64_t *acre__record_counter(const char *call);
/* Sets the number of bytes that the process has copied. */
void acre__record_copied(uint64_t copied_bytes);
/* Sets bits of enum run_process_state. */
void acre__record_state(uint32_t state);

/* Returns 1 if no thread holds the lock of the records, or none for long. */
int acre__record_is_free(void);
/* Leaves the report of this process to the tool. */
void acre__record_leave(void);

/* Notes that this process needs no report. */
void acre__record_end(void);
/* Prints the report of this process to `out`, or as JSON if `wants` has RUN_WANT_JSON. Returns the
 * number of findings. */
uint64_t acre__record_report(FILE *out, unsigned wants);

/* Formats the call that returns to `address` as "program+0x11d8" into `text`. The only place where
 * the stand-ins turn a caller into text. */
const char *acre__record_place(const void *address, char *text, size_t text_bytes);
/* As acre__record_place, with the line: "program+0x11d8 (main at program.c:14)". Not for signal
 * handlers, and not with a lock held. */
const char *acre__record_line(const void *address, char *text, size_t text_bytes);

#endif
