/* Files that the library writes for other programs to read: traces and statistics. */
#ifndef ACRE_WATCH_WATCH_FILE_H
#define ACRE_WATCH_WATCH_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

/* Creates the file, or truncates an existing one, and locks it while it is open. `path` is used
 * unchanged. An existing file that does not begin with `magic` is left alone. Returns
 * ACRE_E_INVALID for such a file, ACRE_E_BUSY for a file that another program is writing,
 * ACRE_E_SYSTEM for one that cannot be created. */
acre_status acre__watch_open(const char *path, const char magic[8], int *fd);

/* Allocates the bytes of the file from `begin` to `end`. Returns 0 or errno. Call it before a
 * mapped byte is touched: otherwise running out of disk space raises a signal. */
int acre__watch_grow(int fd, uint64_t begin, uint64_t end);

#endif
