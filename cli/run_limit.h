/* The file of a memory limit (report/limit_file.h) in the tool: `acre run --limit` creates it, and
 * `acre limit` finds that of a running program. */
#ifndef ACRE_CLI_RUN_LIMIT_H
#define ACRE_CLI_RUN_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "limit_file.h"

/* What --limit of acre run and SIZE of acre limit accept, and what they say of another text. */
#define LIMIT_LEAST ((uint64_t)2 << 20)
#define LIMIT_MOST ((uint64_t)1 << 44)
#define LIMIT_SIZES "%s a size from 2MiB to 16TiB, in whole numbers such as 20GiB, not '%s'"

/* Creates the file, with LIMIT_* flags. Returns its descriptor, or -1 after a message. The file
 * stays mapped. */
int run_limit_create(uint64_t bytes, uint32_t flags, struct limit_file **file_out);

/* Maps the file of the `acre run` that a process is, or that it runs under. Returns NULL after a
 * message. *tool_out is the process of `acre run`. */
struct limit_file *run_limit_find(pid_t pid, pid_t *tool_out);

#endif
