/* Ranges of addresses from a list of paints: each paint maps or unmaps a range. */
#ifndef ACRE_CLI_RANGES_H
#define ACRE_CLI_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range_paint {
    uint64_t begin, end; /* half open */
    bool is_mapped;
};

struct range {
    uint64_t begin, end;
    size_t owner; /* the paint that decided */
};

/* Finds the mapped ranges, where the first paint that covers an address decides. The ranges are
 * sorted and disjoint, and each has one owner: neighbours of different owners are not joined.
 * Returns their number; the caller frees *ranges. At most 2^30 paints. */
size_t ranges_paint(const struct range_paint *paints, size_t count, struct range **ranges);

#endif
