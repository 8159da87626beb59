/* Loads the file of a trace, which may be larger than other inputs, still be written, or be cut. */
#ifndef ACRE_CLI_TRACE_FILE_H
#define ACRE_CLI_TRACE_FILE_H

#include <stdbool.h>

#include "events_file.h"

/* Opens a trace; "-" is standard input. *is_written: a program holds the lock of the file, so it is
 * still writing. Returns CLI_OK, or CLI_CANNOT after a message. */
int trace_file_open(const char *path, int *fd, bool *is_written);

/* Reads a whole file and closes it. Unpacks it if it is compressed with gzip. Returns CLI_FINDING
 * after a message if the rest of the file cannot be read, CLI_CANNOT if nothing can. */
int trace_file_read(const char *path, int fd, struct file_bytes *bytes);

#endif
