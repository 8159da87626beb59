/* Call stacks of a trace of version 2. */
#ifndef ACRE_CLI_SHOW_STACK_H
#define ACRE_CLI_SHOW_STACK_H

#include "trace_decode.h"

enum { SHOW_STACK_FRAMES = 64 };

/* Writes the frames of a stack, innermost first, as "main at main.c:14", "main in program+0x11d8"
 * if the program has no debug information, or "program+0x11d8" if it is missing. Returns the number
 * of frames; the caller frees each. */
size_t show_stack_frames(const struct trace_reader *reader, uint64_t stack,
                         char *frames[SHOW_STACK_FRAMES]);

/* Returns the frames that tell a stack from others of the trace, shortened: the innermost one that
 * not all stacks have, and its caller or the first one that differs; the caller frees it. */
char *show_stack_name(const struct trace_reader *reader, uint64_t stack);

#endif
