/* Files that the library writes for others to look at: traces and statistics. */
#ifndef ACRE_WATCH_WATCH_FILE_H
#define ACRE_WATCH_WATCH_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

enum { ACRE__WATCH_PATH_BYTES = 4096 };

/* `path` with %p replaced by the process's number and %% by %; 0 if it gets too long. */
int acre__watch_path(const char *path, char out[ACRE__WATCH_PATH_BYTES]);

/* Makes the file, or empties the one that is there, and locks it for as long as it is open. What
 * has other bytes than `magic` at its beginning is left alone: ACRE_E_INVALID; a file that another
 * program is writing: ACRE_E_BUSY; one that cannot be made: ACRE_E_SYSTEM. `path` as it stands. */
acre_status acre__watch_open(const char *path, const char magic[8], int *fd);

/* Makes the bytes up to `end` exist, of which `begin` do: 0, or errno. A mapped file needs them
 * before they are touched, since running out of space would be a signal then. */
int acre__watch_grow(int fd, uint64_t begin, uint64_t end);

#endif
