/* Buffers with lifetimes ("wishes"), as `acre plan` reads, places and draws them.
 *
 * They come from a file of lifetimes (id,lower,upper,size[,alignment][,offset]; half-open
 * intervals) or from an allocation trace. Files are untrusted. Readers return 0, or CLI_CANNOT
 * after a message "file:line:column: what". */
#ifndef ACRE_CLI_WISHES_H
#define ACRE_CLI_WISHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "events.h"
#include "plan/place.h"

struct wish_name {
    const char *at; /* not terminated by NUL */
    size_t length;
    size_t line, column; /* position in the file; 0 if the name is not from a file */
};

struct wishes {
    const char *format; /* "lifetimes", "rmm", "acre" */
    struct acre__place_buffer *list;
    struct wish_name *names; /* by the index of `list` */
    size_t count, room;
    char *text; /* owned storage of the names; NULL if they point into the bytes of the file */
};

/* Returns true if the first line is that of a file of lifetimes. */
bool wishes_are(const unsigned char *bytes, size_t count);

/* Reads lifetimes, with columns in any order. A buffer with a number in the column `offset` is
 * fixed there. Names point into `bytes`. After a failure there is nothing to free. */
int wishes_read(const char *path, const unsigned char *bytes, size_t count, struct wishes *wishes);

/* Converts settled events to lifetimes, with events as the unit of time. A block is live from its
 * allocation to before its free, or to the end. A realloc starts a new buffer, and both are live
 * during that event, since the contents may have to be copied. Names are numbers. */
void wishes_from_events(const struct events *events, struct wishes *wishes);

/* Reads id,offset into the offsets and ignores other columns. Every id must be a known one and must
 * occur once. *missing gets the first wish without an offset, or wishes->count. */
int wishes_read_offsets(const char *path, const unsigned char *bytes, size_t count,
                        struct wishes *wishes, size_t *missing);

/* Writes id,offset as CSV, in the order of the wishes. Errors stay in the stream. */
void wishes_write_offsets(FILE *out, const struct wishes *wishes);

void wishes_free(struct wishes *wishes);

enum { WISH_NAME_BYTES = 48 };

/* Formats a name for messages: truncated if it is long, without control characters. Returns
 * `text`. */
const char *wishes_name(const struct wishes *wishes, size_t index, char text[WISH_NAME_BYTES]);

#endif
