/* Reading a trace of the library's (src/watch/trace_format.h): its events one by one, in the order
 * in which they happened over all threads, with a number for each block.
 *
 * That order is the one of their times, but for moments: processors read their clocks ahead of
 * what they wait for, so a free of one thread may bear an earlier time than the alloc of another
 * that it is the end of. An event that does not fit waits for a few microseconds for one that makes
 * it fit.
 *
 * The reader gets the whole file in memory and does not trust a byte of it. Blocks that a program
 * was killed before it began are skipped; everything else that is not as it should be is damage,
 * told with the place in the file. */
#ifndef ACRE_CLI_TRACE_DECODE_H
#define ACRE_CLI_TRACE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace_live.h"
#include "watch/trace_format.h"

struct trace_record {
    enum acre__trace_kind kind; /* never of the short form */
    uint32_t thread;            /* from 0 on, in the order in which they began */
    uint64_t time_ns;           /* since the trace began */
    uint64_t address;           /* of a block or a mapping; of a move: the one after */
    uint64_t before;            /* realloc, move: the address before */
    uint64_t bytes, real;
    uint64_t stream, number; /* number: of a chunk, a user's event, a name */
    uint32_t pool, tag;
    int status;      /* of what was refused, else 0 */
    bool is_refused; /* a free that was none, by the event behind it */
    bool is_made_up; /* a free that the trace lacks: its address was handed out again */
    uint64_t id;     /* of the block, from 1 on; 0: a free of one that is not known */
    const char *text;
    size_t text_bytes;
    size_t offset, size; /* in the file */
};

struct trace_name {
    bool is_tag; /* else of a pool */
    uint64_t number;
    const char *text; /* not ended by 0 */
    size_t bytes;
};

/* What is wrong with a file. */
struct trace_fault {
    size_t offset;
    const char *what;
};

struct trace_reader {
    const unsigned char *bytes;
    size_t count;
    struct acre__trace_header header;
    struct trace_thread *threads;
    size_t thread_count, name_threads; /* name_threads: of these not threads, but names; 0 or 1 */
    struct trace_thread **heap;        /* those with events left, the earliest first */
    size_t heap_count;
    size_t held;            /* of those, that wait for another event */
    size_t *offsets;        /* of blocks in the file, by thread */
    struct trace_live live; /* after the event that was read last */
    uint64_t unknown_frees; /* of blocks from before the trace, or from a part that is gone */
    uint64_t made_up_frees;
    uint64_t hold_units; /* that an event waits for others */
    struct trace_name *names;
    size_t name_count;
    uint64_t event_bytes; /* of all events, in the file */
    size_t blocks;
    struct trace_fault fault;
};

/* 1 if the bytes begin as a trace does. */
int trace_is(const unsigned char *bytes, size_t count);

/* Begins; the bytes must stay. 0 when it is damaged, or there is no memory; reader->fault says so.
 * trace_close in any case. */
int trace_open(struct trace_reader *reader, const unsigned char *bytes, size_t count);
/* 1: the next event; 0: there is none, or the file is damaged (reader->fault.what is set). */
int trace_next(struct trace_reader *reader, struct trace_record *record);
void trace_close(struct trace_reader *reader);

/* The system's number of a thread. */
uint32_t trace_os_thread(const struct trace_reader *reader, uint32_t thread);

/* The word for a kind of event. */
const char *trace_kind_name(enum acre__trace_kind kind);

#endif
