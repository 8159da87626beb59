/* Printing a trace, for `acre trace`. */
#ifndef ACRE_CLI_SHOW_TRACE_H
#define ACRE_CLI_SHOW_TRACE_H

#include <stdbool.h>

#include "trace_decode.h"

/* Both read the trace to its end, or up to its damage, and print what they read. They leave
 * reader->fault to the caller, who reports it. They return the number of events. The summary prints
 * nothing if damage comes before the first event. */
uint64_t trace_list(struct trace_reader *reader);
uint64_t trace_summary(struct trace_reader *reader, const char *path, bool is_written, bool json);

#endif
