/* Makes a device lag behind the host while something is measured, as it does under a real program.
 *
 * On a soft device the driver itself lags (acre_soft.h). On a GPU gates are queued into the
 * streams: host functions that return only when the host has made so many more operations, or when
 * the time is over. About 1000 operations fit in front of a gate before the driver makes the host
 * wait. */
#ifndef ACRE_CLI_REPLAY_LAG_H
#define ACRE_CLI_REPLAY_LAG_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

enum { LAG_GPU_OPERATIONS = 1000 }; /* that a GPU can be behind at most */

struct lag;

/* A lag of `operations` or of `ns`; both 0: none, and lag_work queues nothing. What acre refuses,
 * or ACRE_E_UNSUPPORTED on a GPU for more than LAG_GPU_OPERATIONS. */
acre_status lag_begin(acre_device *device, uint64_t operations, uint64_t ns, struct lag **lag);

/* One more operation of the host, on a stream: queues work that uses a block, which must be live.
 * To be called after a block was allocated and before it is freed. */
acre_status lag_work(struct lag *lag, acre_stream stream, void *block, size_t bytes);

/* Ends the lag: what is queued runs. NULL is a no-op. */
void lag_end(struct lag *lag);

#endif
