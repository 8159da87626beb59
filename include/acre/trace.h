/* Traces, and statistics for other programs. Part of acre.h. */
#ifndef ACRE_TRACE_H
#define ACRE_TRACE_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A trace is a file that records everything pools do: blocks allocated and freed, with size, stream
 * and time; physical memory created, mapped, moved and released; waits inserted into streams;
 * failed allocations and why they failed. `acre trace` shows a trace, `acre replay` runs it again.
 *
 * ACRE_TRACE=file starts a trace at the first acre_open, without a change to the program. Threads
 * write to a mapped file, so the trace keeps all events if the program crashes or is killed. */

#define ACRE_TRACE_RING 1u /* at the limit, overwrite the oldest part instead of ending */

/* Zero in any field means the default. */
typedef struct acre_trace_options {
    size_t struct_size;
    uint64_t limit_bytes; /* of the file, at least 1 MiB; default ACRE_TRACE_BYTES, else 1 GiB */
    uint32_t flags;       /* ACRE_TRACE_* */
    uint32_t reserved;
} acre_trace_options;

/* Starts a trace. In `path`, %p stands for the process id and %% for a %. An existing trace file is
 * replaced. If the file cannot grow any more, the trace ends with a warning in the log, and the
 * program continues.
 * Returns ACRE_E_INVALID if the file exists and is not a trace, ACRE_E_BUSY if another program
 * writes the file or this process already writes a trace, ACRE_E_SYSTEM. */
ACRE_API acre_status acre_trace_start(const char *path, const acre_trace_options *options);

/* Ends the trace. Without a trace it is a no-op.
 * Sync: waits for threads that are writing an event. */
ACRE_API acre_status acre_trace_stop(void);

/* Writes the trace to disk, so that it survives a crash of the machine. Without a trace it is a
 * no-op. */
ACRE_API acre_status acre_trace_flush(void);

/* Writes a text into the trace; the first 200 bytes are kept. Without a trace it is a no-op. */
ACRE_API acre_status acre_trace_mark(const char *text);

/* Writes the statistics of all devices, pools and tags to the file of ACRE_STATS. `acre stats` and
 * `acre top` show them while the program runs. The first acre_open reads ACRE_STATS; without it the
 * call is a no-op. acre also writes a pool's statistics when a thread's cache takes memory from the
 * pool or returns it, and a device's when it is opened. */
ACRE_API acre_status acre_stats_export(void);

/* Writes what acre has at this moment to a file, as JSON (schema "acre-snapshot/1"): every live
 * block of every pool with address, size and tag; the pools' addresses, physical memory, and free
 * memory with what it waits for; and all other memory of acre. With ACRE_STACKS a block has its
 * call stack, stream and age, too. `acre report` shows a snapshot as a map of addresses. The file
 * is replaced at once when it is complete. NULL as device: all devices. The call makes no driver
 * call; other threads may change a pool before or after it was visited. ACRE_SNAPSHOT_ON_OOM=folder
 * writes one into the folder when a pool cannot serve a request, at most eight per process. Returns
 * ACRE_E_SYSTEM if the file cannot be written, ACRE_E_HOST_MEMORY. */
ACRE_API acre_status acre_snapshot(acre_device *device, const char *path);

#ifdef __cplusplus
}
#endif

#endif
