/* One event of one thread, for trace_decode.c: the part that knows how events are coded. */
#ifndef ACRE_CLI_TRACE_DECODE_BLOCK_H
#define ACRE_CLI_TRACE_DECODE_BLOCK_H

#include "trace_decode.h"

struct trace_context {
    uint64_t stream;
    uint32_t pool, tag;
};

struct trace_thread {
    uint64_t id;
    uint32_t index, os_thread;
    const size_t *blocks; /* where they are in the file */
    size_t block_count, block_next;
    const unsigned char *at, *end; /* in the block */
    uint64_t units, address, bytes;
    uint8_t context;
    uint16_t epoch;
    struct trace_context contexts[ACRE__TRACE_CONTEXTS];
    bool has_context[ACRE__TRACE_CONTEXTS];
    struct acre__trace_place *places; /* ACRE__TRACE_PLACES; NULL when the thread is done */
    struct trace_record head;         /* read ahead */
    uint64_t head_units;              /* its time, or until when it waits */
    bool is_held;                     /* it waits for another event */
    bool was_held;
};

/* The file is damaged there; returns 0. */
int trace_fault(struct trace_reader *reader, size_t offset, const char *what);

/* Reads the thread's next event into its head, contexts not counted: 1, 0 at the end or when it is
 * damaged. */
int trace_head_read(struct trace_reader *reader, struct trace_thread *thread);

#endif
