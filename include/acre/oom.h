/* What is known when memory runs out. Part of acre.h. */
#ifndef ACRE_OOM_H
#define ACRE_OOM_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum acre_oom_format { ACRE_OOM_TEXT = 0, ACRE_OOM_JSON = 1 } acre_oom_format;

/* Tells why the calling thread was last refused memory of a pool (ACRE_E_DEVICE_MEMORY,
 * ACRE_E_HOST_MEMORY, ACRE_E_ADDRESS_SPACE, ACRE_E_LIMIT): what was wanted, where all memory of the
 * card is, what the pool has allocated by tag and by size, what it has free and why that could not
 * serve, and the smallest step that would have helped; all as it was then. JSON has the schema
 * "acre-oom/1". Writes at most `size` bytes, ended by a zero (buffer may be NULL with size 0), and
 * gives how many all of it needs: if that is more than `size`, the end is missing. Stays until the
 * thread's next refusal. ACRE_E_NOT_READY when it was refused nothing yet. */
ACRE_API acre_status acre_oom_report(acre_oom_format format, char *buffer, size_t size,
                                     size_t *needed);

#ifdef __cplusplus
}
#endif

#endif
