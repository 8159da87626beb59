/* The file of a memory limit (report/limit_file.h) in the tool: `acre run --limit` creates it, and
 * `acre limit` finds that of a running program. */
#ifndef ACRE_CLI_RUN_LIMIT_H
#define ACRE_CLI_RUN_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "limit_file.h"

/* Creates the file, with LIMIT_* flags. Returns its descriptor, or -1 after a message. The file
 * stays mapped. */
int run_limit_create(uint64_t bytes, uint32_t flags, struct limit_file **file_out);

/* Maps the file of the `acre run` that a process is, or that it runs under. Returns NULL after a
 * message. *tool_out is the process of `acre run`. */
struct limit_file *run_limit_find(pid_t pid, pid_t *tool_out);

#endif
