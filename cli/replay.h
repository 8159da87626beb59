/* Replaying events on a pool, and what that measured. */
#ifndef ACRE_CLI_REPLAY_H
#define ACRE_CLI_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "cli.h"
#include "events.h"

enum replay_pool { REPLAY_ACRE, REPLAY_DRIVER /* cuMemAllocAsync, cuMemFreeAsync */ };

enum { REPLAY_THREADS = 256 }; /* that a trace may have with `threads` */

/* How files are replayed. */
struct replay_how {
    enum replay_pool pool;
    unsigned passes;
    bool threads;            /* each thread of the trace by a thread of its own, one at a time */
    uint64_t lag_operations; /* how far the device is behind the host: one of them, or neither */
    uint64_t lag_ns;
    uint64_t warmup; /* operations of a pass whose driver calls and bytes are not counted */
};

/* What one pass over a file showed. */
struct replay_result {
    const char *path, *format;
    unsigned pass; /* from 1 */
    size_t streams, threads;
    uint64_t ops, allocs, frees, reallocs;
    uint64_t skipped; /* events that are not replayed */
    uint64_t ns_p50, ns_p99;
    uint64_t peak_live_bytes;     /* requested */
    uint64_t peak_reserved_bytes; /* by which the device's free memory fell */
    uint64_t lower_bound_bytes;   /* the peak in whole chunks: nobody can do with less */
    /* A pool of acre's alone: the driver's does its calls inside. After the warm-up. */
    bool has_calls;
    uint64_t creates, maps, accesses, unmaps, releases, allocs_plain;
    uint64_t created_bytes, released_bytes; /* physical memory */
    uint64_t waits;                         /* inserted into streams */
    uint64_t chunks_moved; /* to other addresses, or given back so that others could be mapped */
    char *failed;          /* what could not be done; then only what is above `ns_p50` is known */
};

struct replay_results {
    struct replay_result *list;
    size_t count;
};

/* Replays settled events on a fresh pool, as often as `how` says; what is live at the end of a pass
 * is freed before the next. Adds a result for each. Returns CLI_OK, CLI_FINDING when the device had
 * no memory for something, or CLI_CANNOT; the last two have said why. */
int replay_run(acre_device *device, const struct replay_how *how, const char *path,
               const struct events *events, struct replay_results *results);

/* 1 if the device can replay on this pool. */
int replay_has(acre_device *device, enum replay_pool which);

void replay_print(const struct replay_results *results);
void replay_print_json(const struct replay_results *results, const acre_device_info *info,
                       const struct replay_how *how);

#endif
