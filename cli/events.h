/* Allocations and frees read from a file, in one form for all trace formats.
 *
 * The contents of a file determine its format, not its name: RMM's CSV log, lifetimes as CSV,
 * acre's own trace, or a memory snapshot of PyTorch or acre, each optionally compressed with gzip.
 * Readers get the whole file in memory and trust no byte of it. They report errors as
 * "file:line:column: what". */
#ifndef ACRE_CLI_EVENTS_H
#define ACRE_CLI_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EVENT_ALLOC,
    EVENT_FREE,
    EVENT_REALLOC,
    EVENT_OTHER /* not replayed */
};

/* What an EVENT_OTHER is, where the reader says so. */
enum {
    EVENT_NOTE_NONE,
    EVENT_NOTE_MARK,       /* `text` is the program's mark */
    EVENT_NOTE_REFUSED,    /* an allocation of `bytes` failed */
    EVENT_NOTE_CREATE,     /* physical memory was created */
    EVENT_NOTE_RELEASE,    /* physical memory was released */
    EVENT_NOTE_MAP,        /* `bytes` at `address` were mapped */
    EVENT_NOTE_UNMAP,      /* `bytes` at `address` were unmapped */
    EVENT_NOTE_SEGMENT,    /* the allocator got `bytes` at `address` in one piece */
    EVENT_NOTE_SEGMENT_END /* and gave them back */
};

struct event {
    uint64_t id;      /* of the block: unique in the file, unlike its address */
    uint64_t bytes;   /* requested; for a free: the size of the block, or 0 */
    uint64_t stream;  /* any number that identifies the stream */
    uint64_t time_ns; /* since an arbitrary point in time; lifetimes: in the unit of the file */
    uint64_t address; /* of the block; 0 if the file has none */
    uint32_t thread;  /* any number that identifies the thread */
    uint32_t tag;     /* 0: none; else tag_names[tag - 1] */
    uint32_t stack;   /* 0: none; else stacks[stack - 1], of this call */
    uint32_t text;    /* 0: none; else texts[text - 1] */
    uint8_t kind;     /* EVENT_ALLOC, ... */
    uint8_t note;     /* EVENT_NOTE_* */
    uint8_t device;
    bool is_before; /* it happened before the recording: at the start the block was live */
};

struct event_frame {
    uint32_t name, file; /* 0: unknown; else texts[name - 1] */
    uint64_t line;       /* is_module: an offset in `file`, which is a program or library */
    bool is_module;
};

struct event_stack {
    uint32_t first, count; /* frames[stack_frames[first]], ...: the innermost frame first */
};

struct events {
    const char *format; /* "rmm", "lifetimes", "acre", "torch", "snapshot" */
    struct event *list; /* in the order in which they happened */
    size_t count, room;
    char **tag_names;
    size_t tag_count;
    uint64_t start_real_ns; /* time of day at time_ns 0, since 1970; 0 if unknown */
    /* Texts, and the call stacks of allocations: see events_stacks.c. */
    char **texts;
    struct event_frame *frames;
    struct event_stack *stacks;
    uint32_t *stack_frames;
    size_t text_count, text_room, frame_count, frame_room;
    size_t stack_count, stack_room, stack_frame_count, stack_frame_room;
    /* Valid after events_settle. */
    size_t blocks, streams, threads; /* numbers of ids, streams and threads */
    uint64_t *stream_ids;            /* the file's number of each stream */
    uint64_t ops;                    /* events that can be replayed */
    uint64_t peak_bytes;             /* peak of live bytes; UINT64_MAX if it overflows */
};

/* Limits of the readers. */
enum {
    EVENTS_BYTES = 1 << 30, /* unpacked size; 10^7 events of RMM. A small gzip file can be a bomb */
    EVENTS_COUNT = 1 << 26, /* 4 GiB of memory; traces and pickles can be dense */
    EVENTS_LINE_BYTES = 4096,
    EVENTS_TEXTS = 1 << 20,        /* texts, and the frames of all stacks */
    EVENTS_STACK_FRAMES = 1 << 24, /* of all stacks together */
    EVENTS_STACK_DEPTH = 256,      /* frames further out are dropped */
    EVENTS_STREAMS = 1024,         /* each becomes a stream of the device */
    EVENTS_WHAT_BYTES = 600        /* of a message, with the position */
};

/* Reads a file. Returns 0, or CLI_CANNOT after a message; then there is nothing to free. */
int events_read(const char *path, struct events *events);
/* Reads the bytes of a file. `path` is for messages. Returns as events_read. */
int events_parse(const char *path, const unsigned char *bytes, size_t count, struct events *events);
/* Reads a file as events_read does, but keeps the events before damage. *is_part: the file is
 * damaged, a message said where, and the events are those before. */
int events_read_part(const char *path, struct events *events, bool *is_part);
/* Reads bytes as events_parse does, but keeps the events before damage: then it returns
 * CLI_FINDING, and `what` gets the message. */
int events_parse_part(const char *path, const unsigned char *bytes, size_t count,
                      struct events *events, char what[EVENTS_WHAT_BYTES]);
void events_free(struct events *events);

/* Prepares events for a replay. Renumbers ids, streams and threads from 0; an EVENT_OTHER keeps its
 * stream. Events that cannot be replayed become EVENT_OTHER, for example the free of a block that
 * was allocated before the trace started. Fills the fields at the end of struct events. Returns as
 * events_read; on failure it also frees the events. */
int events_settle(const char *path, struct events *events);

/* Appends a zeroed event. */
struct event *events_add(struct events *events);

/* Add a text, a frame, or a stack whose frames were added; they return its number from 1, or 0
 * beyond the limits. A stack is built by adding frame numbers, the innermost first. */
uint32_t events_add_text(struct events *events, const char *text, size_t bytes);
uint32_t events_add_frame(struct events *events, const struct event_frame *frame);
uint32_t events_add_stack(struct events *events, const uint32_t *frames, size_t count);
/* Returns the number of the tag with this name, which it adds; 0 if there are too many tags. */
uint32_t events_add_tag(struct events *events, const char *name, size_t bytes);

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
int events_read_torch(const char *path, const unsigned char *bytes, size_t count,
                      struct events *events);
int events_read_snapshot(const char *path, const unsigned char *bytes, size_t count,
                         struct events *events);
bool events_is_snapshot(const unsigned char *bytes, size_t count);

#endif
