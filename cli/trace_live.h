/* The live blocks while a trace is read, by address. Each block of the file has a unique number. */
#ifndef ACRE_CLI_TRACE_LIVE_H
#define ACRE_CLI_TRACE_LIVE_H

#include <stddef.h>
#include <stdint.h>

/* What blocks are grouped by. A further key needs a line here, its value in block_keys of
 * trace_decode.c, and its title in show_memory.c. */
enum trace_key { TRACE_BY_TAG, TRACE_BY_POOL, TRACE_BY_STACK, TRACE_KEYS };

struct trace_block {
    uint64_t address; /* 0: free slot */
    uint64_t id;      /* from 1 */
    uint64_t bytes, real;
    uint64_t time_ns; /* of the event that allocated it */
    uint64_t stream;  /* of that event */
    uint64_t keys[TRACE_KEYS];
};

struct trace_live {
    struct trace_block *table;
    size_t room, count; /* room: a power of two, or 0 */
    uint64_t ids;       /* assigned so far */
    uint64_t bytes, real, peak_bytes, peak_real;
};

/* Returns the block that begins at the address, or NULL. */
const struct trace_block *trace_live_find(const struct trace_live *live, uint64_t address);
/* Adds a block. There must be none at its address. A block with `id` 0 gets a new number. Returns 0
 * if out of memory. */
int trace_live_add(struct trace_live *live, struct trace_block *block);
/* Removes the block at the address and copies it to *block. Returns 0 if there is none. */
int trace_live_remove(struct trace_live *live, uint64_t address, struct trace_block *block);
void trace_live_end(struct trace_live *live);

#endif
