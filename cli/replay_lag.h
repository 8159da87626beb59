/* Makes a device lag behind the host during a measurement, as it does under a real program.
 *
 * A soft device lags by itself (acre_soft.h). On a GPU this file queues gates into the streams:
 * host functions that return when the host has made a given number of further operations, or after
 * a given time. About 1000 operations fit behind a gate before the driver blocks the host. */
#ifndef ACRE_CLI_REPLAY_LAG_H
#define ACRE_CLI_REPLAY_LAG_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

enum { LAG_GPU_OPERATIONS = 1000 }; /* largest lag of a GPU */

struct lag;

/* Starts a lag of `operations` or of `ns`. If both are 0 there is no lag, and lag_work is a no-op.
 * Returns ACRE_E_UNSUPPORTED, after a message, on a GPU for more than LAG_GPU_OPERATIONS. */
acre_status lag_begin(acre_device *device, uint64_t operations, uint64_t ns, struct lag **lag);

/* Counts one operation of the host and queues work on a live block. Call it after a block was
 * allocated and before it is freed. */
acre_status lag_work(struct lag *lag, acre_stream stream, void *block, size_t bytes);

/* Ends the lag and runs all queued work. NULL is a no-op. */
void lag_end(struct lag *lag);

#endif
