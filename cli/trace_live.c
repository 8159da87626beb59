/* Live blocks by address: see trace_live.h. A hash table with linear probing, at most half full.
 * Removing an entry moves later entries back, so there are no tombstones. */
#include "trace_live.h"

#include <stdlib.h>

static size_t live_slot(const struct trace_live *live, uint64_t address) {
    uint64_t mixed = (address >> 8 ^ address << 56) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 20) & (live->room - 1);
}

/* Returns the slot of an address, or the free slot where it belongs. */
static size_t live_place(const struct trace_live *live, uint64_t address) {
    size_t i = live_slot(live, address);
    while (live->table[i].address && live->table[i].address != address) {
        i = (i + 1) & (live->room - 1);
    }
    return i;
}

static int live_grow(struct trace_live *live) {
    if (2 * (live->count + 1) <= live->room) {
        return 1;
    }
    struct trace_live larger = {.room = live->room ? 2 * live->room : 1024};
    larger.table = calloc(larger.room, sizeof *larger.table);
    if (!larger.table) {
        return 0;
    }
    for (size_t i = 0; i < live->room; i++) {
        if (live->table[i].address) {
            larger.table[live_place(&larger, live->table[i].address)] = live->table[i];
        }
    }
    free(live->table);
    live->table = larger.table;
    live->room = larger.room;
    return 1;
}

const struct trace_block *trace_live_find(const struct trace_live *live, uint64_t address) {
    if (!live->room || !address) {
        return NULL;
    }
    const struct trace_block *block = &live->table[live_place(live, address)];
    return block->address ? block : NULL;
}

int trace_live_add(struct trace_live *live, struct trace_block *block) {
    if (!live_grow(live)) {
        return 0;
    }
    block->id = block->id ? block->id : ++live->ids;
    if (!block->address) {
        return 1; /* address 0 marks a free slot: the table cannot hold such a block */
    }
    live->table[live_place(live, block->address)] = *block;
    live->count++;
    live->bytes += block->bytes;
    live->real += block->real;
    live->peak_bytes = live->bytes > live->peak_bytes ? live->bytes : live->peak_bytes;
    live->peak_real = live->real > live->peak_real ? live->real : live->peak_real;
    return 1;
}

int trace_live_remove(struct trace_live *live, uint64_t address, struct trace_block *block) {
    if (!trace_live_find(live, address)) {
        return 0;
    }
    size_t hole = live_place(live, address), mask = live->room - 1;
    *block = live->table[hole];
    live->bytes -= block->bytes;
    live->real -= block->real;
    live->count--;
    for (size_t i = (hole + 1) & mask; live->table[i].address; i = (i + 1) & mask) {
        size_t wants = live_slot(live, live->table[i].address);
        if (((i - wants) & mask) >= ((i - hole) & mask)) {
            live->table[hole] = live->table[i];
            hole = i;
        }
    }
    live->table[hole].address = 0;
    return 1;
}

void trace_live_end(struct trace_live *live) {
    free(live->table);
    live->table = NULL;
    live->room = live->count = 0;
}
