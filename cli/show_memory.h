/* Live memory in the summary of a trace: over time, by tag and pool, at its peak and at the end. */
#ifndef ACRE_CLI_SHOW_MEMORY_H
#define ACRE_CLI_SHOW_MEMORY_H

#include "cli.h"
#include "show_text.h"
#include "trace_decode.h"

struct show_memory;

struct show_memory *memory_begin(void);
/* Counts an event that trace_next has returned. */
void memory_event(struct show_memory *memory, const struct trace_reader *reader,
                  const struct trace_record *record);
/* Returns the time of the peak since the trace began. */
uint64_t memory_peak_ns(const struct show_memory *memory);

/* Print the figures, or add them to a JSON object, after the last event. Both read the trace once
 * more, up to its peak. */
void memory_print(struct show_memory *memory, const struct trace_reader *reader);
void memory_json(struct show_memory *memory, const struct trace_reader *reader, json_t *root);
void memory_end(struct show_memory *memory);

#endif
