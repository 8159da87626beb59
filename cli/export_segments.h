/* The memory of an allocator at the end of a trace: ranges of addresses, and their live blocks. */
#ifndef ACRE_CLI_EXPORT_SEGMENTS_H
#define ACRE_CLI_EXPORT_SEGMENTS_H

#include "export.h"

struct export_segment {
    uint64_t address, bytes;
    uint64_t stream;
    uint8_t device;
    bool is_pages;       /* it consists of pages that were mapped, and can grow */
    size_t first, count; /* of its blocks */
    uint64_t live_bytes;
};

struct export_segments {
    struct export_segment *list; /* by device and address, disjoint */
    size_t count;
    struct export_block *blocks; /* live at the end; in the order of the segments, disjoint */
    size_t block_count;
};

/* Finds the segments at the end. Memory that held a block, and that no event maps, is taken as
 * mapped all the time: a trace may begin after that, and other formats have no such events. */
void export_segments_find(const struct events *events, struct export_segments *segments);
void export_segments_free(struct export_segments *segments);

#endif
