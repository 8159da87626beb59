/* The text of a call stack in a trace of version 2: "MODULE:OFFSET ..." in hexadecimal, innermost
 * first. The text is untrusted: reading ends at the first malformed pair. */
#ifndef ACRE_CLI_TRACE_STACK_H
#define ACRE_CLI_TRACE_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* Reads the next frame and moves *at behind it. Returns false at the end. */
bool trace_stack_next(const char **at, const char *end, uint64_t *module, uint64_t *offset);

#endif
