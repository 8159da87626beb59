/* Allocations and frees read from a file: the one form that all trace formats become.
 *
 * Files are read by what is in them, not by their names: RMM's CSV log, lifetimes as CSV, acre's
 * own trace, each of them packed with gzip or not. Readers get the whole file in memory, do not
 * trust a byte of it, and say what is wrong as "file:line:column: what". */
#ifndef ACRE_CLI_EVENTS_H
#define ACRE_CLI_EVENTS_H

#include <stddef.h>
#include <stdint.h>

enum {
    EVENT_ALLOC,
    EVENT_FREE,
    EVENT_REALLOC,
    EVENT_OTHER /* something that is not replayed */
};

struct event {
    uint64_t id;      /* of the block, whatever its address was; ended by its free */
    uint64_t bytes;   /* requested; of a free: those of the block, or 0 */
    uint64_t stream;  /* any number that tells streams apart */
    uint64_t time_ns; /* since some moment; lifetimes: their own unit */
    uint32_t thread;  /* any number that tells threads apart */
    uint32_t tag;     /* 0: none; else tag_names[tag - 1] */
    uint8_t kind;     /* EVENT_* */
};

struct events {
    const char *format; /* "rmm", "lifetimes", "acre" */
    struct event *list; /* in the order in which they happened */
    size_t count, room;
    char **tag_names;
    size_t tag_count;
    /* After events_settle. */
    size_t blocks, streams, threads; /* ids, streams and threads are below these */
    uint64_t ops;                    /* events that can be replayed */
    uint64_t peak_bytes;             /* most that was live at a time; UINT64_MAX for more */
};

/* What a reader takes: unpacked, and in lines of the text formats. */
enum {
    EVENTS_BYTES = 1 << 30, /* 10^7 events of RMM's; a small file can unpack to endless bytes */
    EVENTS_LINE_BYTES = 4096,
    EVENTS_STREAMS = 1024 /* each becomes a stream of the device */
};

/* Reads a file. Returns 0, or CLI_CANNOT after it has said what is wrong; there is nothing to be
 * freed then. */
int events_read(const char *path, struct events *events);
/* The same for the bytes of a file; `path` is for messages. */
int events_parse(const char *path, const unsigned char *bytes, size_t count, struct events *events);
void events_free(struct events *events);

/* Makes events ready to be replayed: ids, streams and threads become numbers from 0 on, what cannot
 * be replayed (a free of a block that is not live, which a trace begun late has) becomes
 * EVENT_OTHER, and the fields at the end are filled. Returns as events_read, and frees as well. */
int events_settle(const char *path, struct events *events);

/* One more event, zeroed. */
struct event *events_add(struct events *events);

/* Says "file:line:column: what", or with line 0 "file: byte column: what", for files that have no
 * lines; returns CLI_CANNOT. */
int events_refuse(const char *path, size_t line, size_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- readers of one format: as events_parse, but what was added is freed by the caller ---- */

int events_read_rmm(const char *path, const unsigned char *bytes, size_t count,
                    struct events *events);
int events_read_lifetimes(const char *path, const unsigned char *bytes, size_t count,
                          struct events *events);
int events_read_acre(const char *path, const unsigned char *bytes, size_t count,
                     struct events *events);

#endif
