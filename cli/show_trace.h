/* Printing a trace, for `acre trace`. */
#ifndef ACRE_CLI_SHOW_TRACE_H
#define ACRE_CLI_SHOW_TRACE_H

#include <stdbool.h>

#include "trace_decode.h"

/* Both read the trace to its end and print it. On damage they stop and leave reader->fault to the
 * caller, who reports it. */
void trace_list(struct trace_reader *reader);
void trace_summary(struct trace_reader *reader, const char *path, bool is_written, bool json);

#endif
