/* Out-of-memory reports. Part of acre.h. */
#ifndef ACRE_OOM_H
#define ACRE_OOM_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum acre_oom_format { ACRE_OOM_TEXT = 0, ACRE_OOM_JSON = 1 } acre_oom_format;

/* Writes a report of the calling thread's last failed pool allocation (ACRE_E_DEVICE_MEMORY,
 * ACRE_E_HOST_MEMORY, ACRE_E_ADDRESS_SPACE or ACRE_E_LIMIT). The report describes the state at that
 * time: the request; what uses the card's memory; the pool's live memory by tag, by size and, with
 * ACRE_STACKS, by the call that allocated it; its free memory, and why that could not serve the
 * request; and the smallest change that would have helped. With ACRE_DEBUG the log has the report,
 * too. JSON has the schema "acre-oom/1". The
 * call writes at most `size` bytes, with a terminating zero. `buffer` may be NULL if `size` is 0.
 * *needed is the size of the whole report; if it is more than `size`, the end is missing. The
 * report stays available until the thread's next failed allocation.
 * Returns ACRE_E_NOT_READY if no allocation of the thread has failed yet. */
ACRE_API acre_status acre_oom_report(acre_oom_format format, char *buffer, size_t size,
                                     size_t *needed);

#ifdef __cplusplus
}
#endif

#endif
