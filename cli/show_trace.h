/* What `acre trace` shows of a trace. */
#ifndef ACRE_CLI_SHOW_TRACE_H
#define ACRE_CLI_SHOW_TRACE_H

#include <stdbool.h>

#include "trace_decode.h"

/* Both read the trace to its end and return an exit code; damage is said by the caller, who finds
 * it in the reader. */
void trace_list(struct trace_reader *reader);
void trace_summary(struct trace_reader *reader, const char *path, bool is_written, bool json);

#endif
