/* Loads whole files into memory and unpacks gzip, for all readers of the tool. A file has at most
 * EVENTS_BYTES, before and after unpacking. */
#ifndef ACRE_CLI_EVENTS_FILE_H
#define ACRE_CLI_EVENTS_FILE_H

#include <stddef.h>

struct file_bytes {
    unsigned char *at; /* the caller frees it */
    size_t count, room;
};

/* Both return 0, or CLI_CANNOT after a message. The caller frees `at` in either case. */

/* Loads a file; "-" is standard input. */
int file_load(const char *path, struct file_bytes *bytes);

/* Returns the name of a path in messages: "standard input" for "-". */
const char *file_name(const char *path);

/* Unpacks gzip data into `text` and sets *bytes and *count to the result; leaves other data as it
 * is. Skips a UTF-8 byte order mark. Reports errors with the line and column that were unpacked
 * last. */
int file_unpack(const char *path, const unsigned char **bytes, size_t *count,
                struct file_bytes *text);

#endif
