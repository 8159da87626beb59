/* Replays events on a pool and measures time and memory. */
#ifndef ACRE_CLI_REPLAY_H
#define ACRE_CLI_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "cli.h"
#include "events.h"

enum replay_pool { REPLAY_ACRE, REPLAY_DRIVER /* cuMemAllocAsync, cuMemFreeAsync */ };

enum { REPLAY_THREADS = 256 }; /* limit for a trace with `threads` */

/* Options of a replay. */
struct replay_how {
    enum replay_pool pool;
    unsigned passes;
    bool threads;            /* one thread for each thread of the trace; they take turns */
    uint64_t lag_operations; /* how far the device lags behind the host: one of the two, or none */
    uint64_t lag_ns;
    uint64_t warmup; /* operations of a pass whose driver calls and bytes are not counted */
};

/* The result of one pass over a file. */
struct replay_result {
    const char *path, *format;
    unsigned pass; /* from 1 */
    size_t streams, threads;
    uint64_t ops, allocs, frees, reallocs;
    uint64_t skipped; /* events that are not replayed */
    uint64_t ns_p50, ns_p99;
    uint64_t peak_live_bytes;     /* requested */
    uint64_t peak_reserved_bytes; /* the largest drop of the device's free memory */
    uint64_t lower_bound_bytes;   /* the peak of live bytes in whole chunks */
    /* For acre's pool only, since the driver's pool hides its calls. Counted after the warm-up. */
    bool has_calls;
    uint64_t creates, maps, accesses, unmaps, releases, allocs_plain;
    uint64_t created_bytes, released_bytes; /* physical memory */
    uint64_t waits;                         /* inserted into streams */
    uint64_t chunks_moved; /* to other addresses, or released so that others could be mapped */
    char *failed;          /* the operation that failed, or NULL; then times, reserved bytes and
                              driver calls are not valid */
};

struct replay_results {
    struct replay_result *list;
    size_t count;
};

/* Replays settled events on a new pool, how->passes times. Frees the blocks that are live at the
 * end of a pass before the next one. Adds a result for each pass. Returns CLI_OK, CLI_FINDING if
 * the device ran out of memory, or CLI_CANNOT; the last two after a message. */
int replay_run(acre_device *device, const struct replay_how *how, const char *path,
               const struct events *events, struct replay_results *results);

/* Returns 1 if the device has this pool. */
int replay_has(acre_device *device, enum replay_pool which);

void replay_print(const struct replay_results *results);
void replay_print_json(const struct replay_results *results, const acre_device_info *info,
                       const struct replay_how *how);

#endif
