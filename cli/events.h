/* Allocations and frees read from a file, in one form for all trace formats.
 *
 * The contents of a file determine its format, not its name: RMM's CSV log, lifetimes as CSV, or
 * acre's own trace, each optionally compressed with gzip. Readers get the whole file in memory and
 * trust no byte of it. They report errors as "file:line:column: what". */
#ifndef ACRE_CLI_EVENTS_H
#define ACRE_CLI_EVENTS_H

#include <stddef.h>
#include <stdint.h>

enum {
    EVENT_ALLOC,
    EVENT_FREE,
    EVENT_REALLOC,
    EVENT_OTHER /* not replayed */
};

struct event {
    uint64_t id;      /* of the block: unique in the file, unlike its address */
    uint64_t bytes;   /* requested; for a free: the size of the block, or 0 */
    uint64_t stream;  /* any number that identifies the stream */
    uint64_t address; /* 0: unknown */
    uint64_t time_ns; /* since an arbitrary point in time; lifetimes: in the unit of the file */
    uint32_t thread;  /* any number that identifies the thread */
    uint32_t tag;     /* 0: none; else tag_names[tag - 1] */
    uint8_t kind;     /* EVENT_* */
};

struct events {
    const char *format; /* "rmm", "lifetimes", "acre" */
    struct event *list; /* in the order in which they happened */
    size_t count, room;
    char **tag_names;
    size_t tag_count;
    /* Valid after events_settle. */
    size_t blocks, streams, threads; /* numbers of ids, streams and threads */
    uint64_t ops;                    /* events that can be replayed */
    uint64_t peak_bytes;             /* peak of live bytes; UINT64_MAX if it overflows */
};

/* Limits of the readers. */
enum {
    EVENTS_BYTES = 1 << 30, /* unpacked size; 10^7 events of RMM. A small gzip file can be a bomb */
    EVENTS_LINE_BYTES = 4096,
    EVENTS_STREAMS = 1024,  /* each becomes a stream of the device */
    EVENTS_WHAT_BYTES = 600 /* of a message, with the position */
};

/* Reads a file. Returns 0, or CLI_CANNOT after a message; then there is nothing to free. */
int events_read(const char *path, struct events *events);
/* Reads the bytes of a file. `path` is for messages. Returns as events_read. */
int events_parse(const char *path, const unsigned char *bytes, size_t count, struct events *events);
/* Reads as events_parse, but keeps the events before a damage. `what` gets the message, empty if
 * there is none; the caller frees the events in any case. */
int events_parse_some(const char *path, const unsigned char *bytes, size_t count,
                      struct events *events, char what[EVENTS_WHAT_BYTES]);
void events_free(struct events *events);

/* Prepares events for a replay. Renumbers ids, streams and threads from 0. Events that cannot be
 * replayed become EVENT_OTHER, for example the free of a block that was allocated before the trace
 * started. Fills the fields at the end of struct events. Returns as events_read; on failure it also
 * frees the events. */
int events_settle(const char *path, struct events *events);

/* Appends a zeroed event. */
struct event *events_add(struct events *events);

/* Prints "file:line:column: what", or with line 0 "file: byte column: what" for binary files.
 * Returns CLI_CANNOT. */
int events_refuse(const char *path, size_t line, size_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- readers of one format: as events_parse, but the caller frees the events on failure ---- */

int events_read_rmm(const char *path, const unsigned char *bytes, size_t count,
                    struct events *events);
int events_read_lifetimes(const char *path, const unsigned char *bytes, size_t count,
                          struct events *events);
int events_read_acre(const char *path, const unsigned char *bytes, size_t count,
                     struct events *events);

#endif
