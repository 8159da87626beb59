/* Reads a trace that the library wrote (src/watch/trace_format.h): its events one by one, in the
 * order in which they happened over all threads. Every memory block gets a unique number.
 *
 * The order is that of the timestamps, with small corrections. A processor may read its clock
 * early, so a free may have an earlier time than the alloc of the same block by another thread. An
 * event that contradicts the live blocks waits up to 100 microseconds of trace time for the event
 * that it depends on.
 *
 * The caller loads the whole file into memory. The reader trusts no byte of it. It skips blocks
 * that the program had not used when it was killed. Everything else that is invalid is damage,
 * reported with its offset in the file. The events before the damage are read: those in earlier
 * blocks of the file that happened before the first event that cannot be decoded. */
#ifndef ACRE_CLI_TRACE_DECODE_H
#define ACRE_CLI_TRACE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_live.h"
#include "watch/trace_format.h"

struct trace_record {
    enum acre__trace_kind kind; /* never the short form */
    uint32_t thread;            /* from 0, in the order of the file's thread numbers */
    uint64_t time_ns;           /* since the trace began */
    uint64_t address;           /* of a block or a mapping; of a move: the new address */
    uint64_t before;            /* realloc, move: the old address */
    uint64_t bytes, real;       /* requested, allocated */
    uint64_t stream, number;    /* number: of a chunk, a user's event, a name */
    uint32_t pool, tag, stack;
    int status;               /* of a refused allocation or free, else 0 */
    bool is_refused;          /* a free that failed; the next event of its block says so */
    bool is_made_up;          /* a free that the trace lacks: its address was allocated again */
    uint64_t id;              /* of the block, from 1; 0: a free of an unknown block */
    struct trace_block freed; /* free, realloc: the block as it was; its `id` is 0 if unknown */
    const char *text;
    size_t text_bytes;
    size_t offset, size; /* in the file */
};

struct trace_name {
    enum acre__trace_kind kind; /* TAG_NAME, POOL_NAME, STACK or MODULE_NAME */
    uint64_t number;
    const char *text; /* not terminated by NUL */
    size_t bytes;
};

/* Damage of a file. */
struct trace_fault {
    size_t offset;
    const char *what;
};

struct trace_reader {
    const unsigned char *bytes;
    size_t count;
    struct acre__trace_header header;
    struct trace_thread *threads;
    size_t thread_count, name_threads; /* name_threads: entries that hold names; 0 or 1 */
    struct trace_thread **heap;        /* threads with events left, the earliest first */
    size_t heap_count;
    size_t held;            /* threads whose head waits for another event */
    size_t *offsets;        /* of blocks in the file, by thread */
    struct trace_live live; /* after the last event that was read */
    uint64_t unknown_frees; /* of blocks allocated before the trace or in overwritten parts */
    uint64_t made_up_frees;
    uint64_t hold_units;      /* how long an event waits for another */
    struct trace_name *names; /* in the order of the file */
    size_t *name_order;       /* indices of `names`, by kind, number and place in the file */
    size_t name_count;
    uint64_t event_bytes; /* of all events in the file */
    size_t blocks;
    struct trace_fault fault;
    /* Damage that was found ahead of the events that come before it. It becomes the fault when
     * those are read. damage_units: the time of the last event before it in its thread. */
    struct trace_fault damage;
    uint64_t damage_units;
    const unsigned char *cut; /* the end of the bytes, if the last block ends too early; or NULL */
};

/* Returns 1 if the bytes begin with the magic number of a trace. */
int trace_is(const unsigned char *bytes, size_t count);

/* Starts reading. The bytes must stay valid until trace_close, which the caller calls in any case.
 * Returns 0 if the header is damaged or memory runs out; reader->fault says which. */
int trace_open(struct trace_reader *reader, const unsigned char *bytes, size_t count);
/* Reads the next event. Returns 0 at the end, or on damage (reader->fault.what is set). */
int trace_next(struct trace_reader *reader, struct trace_record *record);
void trace_close(struct trace_reader *reader);

/* Returns the last name that the trace has for a number, or NULL. */
const struct trace_name *trace_name_find(const struct trace_reader *reader,
                                         enum acre__trace_kind kind, uint64_t number);

/* Returns the operating system's number of a thread. */
uint32_t trace_os_thread(const struct trace_reader *reader, uint32_t thread);

/* Returns the name of a kind of event. */
const char *trace_kind_name(enum acre__trace_kind kind);

#endif
