/* Which blocks are live while a trace is read: by address, with a number for each block that no
 * other of the file has. */
#ifndef ACRE_CLI_TRACE_LIVE_H
#define ACRE_CLI_TRACE_LIVE_H

#include <stddef.h>
#include <stdint.h>

struct trace_block {
    uint64_t address; /* 0: none */
    uint64_t id;      /* from 1 on */
    uint64_t bytes, real;
};

struct trace_live {
    struct trace_block *table;
    size_t room, count; /* room: a power of two, or 0 */
    uint64_t ids;       /* given out */
    uint64_t bytes, real, peak_bytes, peak_real;
};

/* The block that begins at the address, or NULL. */
const struct trace_block *trace_live_find(const struct trace_live *live, uint64_t address);
/* Adds a block where there is none; with `id` 0 it gets a new number. 0 without memory. */
int trace_live_add(struct trace_live *live, struct trace_block *block);
/* Ends the block at the address: 1, or 0 when there is none. */
int trace_live_remove(struct trace_live *live, uint64_t address, struct trace_block *block);
void trace_live_end(struct trace_live *live);

#endif
