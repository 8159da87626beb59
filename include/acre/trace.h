/* Traces, and statistics for other programs. Part of acre.h. */
#ifndef ACRE_TRACE_H
#define ACRE_TRACE_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A trace is a file with everything that pools did: blocks allocated and freed, with sizes, stream
 * and time; physical memory created, mapped, moved and released; waits that were inserted;
 * allocations that failed and why. `acre trace` shows it, `acre replay` plays it again.
 *
 * ACRE_TRACE=file does the same without a line of code, from the first acre_open on. Threads write
 * into a mapped file, so a program that crashes or is killed loses nothing that it has told. */

#define ACRE_TRACE_RING 1u /* at the limit the oldest part is overwritten; else the trace ends */

/* Zero in any field means the default. */
typedef struct acre_trace_options {
    size_t struct_size;
    uint64_t limit_bytes; /* of the file, 1 MiB at least; ACRE_TRACE_BYTES, else 1 GiB */
    uint32_t flags;       /* ACRE_TRACE_* */
    uint32_t reserved;
} acre_trace_options;

/* Begins a trace; `options` may be NULL. In `path`, %p becomes the process's number and %% a %. A
 * trace that is there is replaced; another file is not (ACRE_E_INVALID), nor a trace that another
 * program is writing (ACRE_E_BUSY). ACRE_E_BUSY also while this process has one; ACRE_E_SYSTEM.
 * When the file cannot grow any more the trace ends with a warning in the log, and the program goes
 * on.
 */
ACRE_API acre_status acre_trace_start(const char *path, const acre_trace_options *options);

/* Ends the trace; a no-op if there is none. Waits for threads that are writing an event. */
ACRE_API acre_status acre_trace_stop(void);

/* Has the trace written to its disk, so that it also survives the machine; a no-op without one. */
ACRE_API acre_status acre_trace_flush(void);

/* Puts a text, of which 200 bytes are kept, into the trace; a no-op without one. */
ACRE_API acre_status acre_trace_mark(const char *text);

/* With ACRE_STATS=file, read by the first acre_open, the statistics of all devices and pools are
 * kept in that file, for `acre stats` to show while the program runs. They are written when a
 * thread's cache meets its pool and when a device is opened; this call writes all of them at once.
 * A no-op without ACRE_STATS. */
ACRE_API acre_status acre_stats_export(void);

#ifdef __cplusplus
}
#endif

#endif
