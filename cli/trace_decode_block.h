/* Decodes the events of one thread, for trace_decode.c. */
#ifndef ACRE_CLI_TRACE_DECODE_BLOCK_H
#define ACRE_CLI_TRACE_DECODE_BLOCK_H

#include "trace_decode.h"

struct trace_context {
    uint64_t stream;
    uint32_t pool, tag, stack;
};

struct trace_thread {
    uint64_t id;
    uint32_t index, os_thread;
    const size_t *blocks; /* their offsets in the file */
    size_t block_count, block_next;
    const unsigned char *at, *end; /* in the block */
    uint64_t units, address, bytes;
    uint8_t context;
    bool has_stacks; /* the trace is of version 2 */
    uint16_t epoch;
    struct trace_context contexts[ACRE__TRACE_CONTEXTS];
    bool has_context[ACRE__TRACE_CONTEXTS];
    struct acre__trace_place *places; /* ACRE__TRACE_PLACES; NULL when the thread is finished */
    struct trace_record head;         /* the next event, already decoded */
    uint64_t head_units;              /* time of the head; if held: when the wait ends */
    bool is_held;                     /* the head waits for an event of another thread */
    bool was_held;                    /* the head has waited long enough */
};

#define TRACE_CUT "the file ends in the middle of a block"

/* Ends reading with a fault at an offset of the file. Returns 0. */
int trace_fault(struct trace_reader *reader, size_t offset, const char *what);
/* Records damage at an offset of the file, after the events until `units`. trace_next reads those
 * first. The earliest damage counts. Returns 0. */
int trace_damage(struct trace_reader *reader, uint64_t units, size_t offset, const char *what);

/* Decodes the thread's next event into its head and skips context definitions. Returns 1, or 0 at
 * the end or on damage. */
int trace_head_read(struct trace_reader *reader, struct trace_thread *thread);

#endif
