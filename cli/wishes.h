/* Buffers with lifetimes, as `acre plan` reads, places and draws them.
 *
 * They come from a file of lifetimes (id,lower,upper,size[,alignment][,offset]; half open) or from
 * a trace of allocations. Files are hostile until they are read: readers say what is wrong as
 * "file:line:column: what" and return CLI_CANNOT, or 0. */
#ifndef ACRE_CLI_WISHES_H
#define ACRE_CLI_WISHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "events.h"
#include "plan/place.h"

struct wish_name {
    const char *at; /* not ended by a NUL */
    size_t length;
    size_t line, column; /* where it stands; 0 if it was made up */
};

struct wishes {
    const char *format; /* "lifetimes", "rmm", "acre" */
    struct acre__place_buffer *list;
    struct wish_name *names; /* of the same places */
    size_t count, room;
    char *text; /* that names point into, or NULL: then they point into what was read */
};

/* Whether this is a file of lifetimes, by its first line. */
bool wishes_are(const unsigned char *bytes, size_t count);

/* Reads lifetimes; columns may stand in any order. A buffer with something in the column `offset`
 * is fixed there. Names point into `bytes`. After a failure there is nothing to be freed. */
int wishes_read(const char *path, const unsigned char *bytes, size_t count, struct wishes *wishes);

/* Lifetimes from settled events, counted in events: a block is live from its allocation to before
 * its free, or the end. A block that changes its size becomes another one, and both are live while
 * that is done, since the plan cannot know where it will be. Numbers are names. */
void wishes_from_events(const struct events *events, struct wishes *wishes);

/* Reads id,offset, and whatever other columns, into the offsets. Every id must be one of the wishes
 * and stand there once. *missing gets a wish that has no offset, or wishes->count. */
int wishes_read_offsets(const char *path, const unsigned char *bytes, size_t count,
                        struct wishes *wishes, size_t *missing);

/* id,offset as CSV, in the order of the wishes. Errors stay in the stream. */
void wishes_write_offsets(FILE *out, const struct wishes *wishes);

void wishes_free(struct wishes *wishes);

enum { WISH_NAME_BYTES = 48 };

/* A name for messages: cut if it is long, without what would steer a terminal. Returns `text`. */
const char *wishes_name(const struct wishes *wishes, size_t index, char text[WISH_NAME_BYTES]);

#endif
