/* Whole files in memory, unpacked where gzip packed them: what all readers of the tool begin with.
 * At most EVENTS_BYTES of either. */
#ifndef ACRE_CLI_EVENTS_FILE_H
#define ACRE_CLI_EVENTS_FILE_H

#include <stddef.h>

struct file_bytes {
    unsigned char *at; /* to be freed */
    size_t count, room;
};

/* Both return 0, or CLI_CANNOT having said what is wrong; `at` is to be freed in either case. */

int file_load(const char *path, struct file_bytes *bytes);

/* If the bytes are gzip's, `text` gets what is in them and *bytes and *count become those of
 * `text`; a UTF-8 mark in front is skipped. What is wrong is said with the line and column that the
 * text got to. */
int file_unpack(const char *path, const unsigned char **bytes, size_t *count,
                struct file_bytes *text);

#endif
