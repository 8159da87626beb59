/* The problem inside the placer: items, sections, parts.
 *
 * A section is a set of items that live together and that no other such set contains: time cut
 * where something begins after something has ended. Two items overlap in time if and only if they
 * share a section, so that times are only needed to make sections and to order items. */
#ifndef ACRE_PLAN_PLACE_PROBLEM_H
#define ACRE_PLAN_PLACE_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#include "plan/place.h"
#include "plan/place_meter.h"

/* The height of a part that has no plan yet: above every limit, also with a size added. */
#define PLACE_NOWHERE (UINT64_C(1) << 63)

struct place_item {
    uint64_t size; /* bytes */
    uint64_t room; /* size rounded up to the problem's unit: what it takes from all others */
    uint64_t align;
    uint64_t offset; /* fixed items; in a part that has a base: from there */
    int64_t lower, upper;
    uint32_t first, end; /* sections [first, end) */
    uint32_t id;         /* index of the buffer */
    uint32_t is_fixed;
};

/* Items whose lives are connected, with nothing below `base` in their way. */
struct place_part {
    struct place_item *items; /* not owned */
    uint64_t *total;          /* of each section: sum of rooms */
    uint64_t *slack;          /* of each section: largest room - size, what the topmost may spare */
    uint64_t base;            /* bytes below it that belong to items of its whole span */
    uint64_t bound;           /* no placement of the part ends lower, from base */
    uint64_t loose_bound;     /* the same in rooms: bound <= loose_bound < bound + unit */
    uint64_t unit;            /* every offset is a multiple of it */
    uint32_t count;
    uint32_t sections;
    uint32_t fixed_count;
    uint32_t is_exact; /* solving it well solves its share of the whole well, to the byte */
};

struct place_problem {
    struct place_item *items; /* permuted, so that each part has a range */
    struct place_part *parts;
    uint64_t *offsets; /* of each buffer that is in no part, by id; room for all */
    uint32_t count, part_count;
    uint64_t bound;      /* of the whole */
    uint64_t peeled_end; /* highest end of an item that is in no part */
};

/* Checks the buffers and makes parts of them. A capacity below the bound (0: none) is the end:
 * there are no parts then. When it is stopped, parts may be larger than need be. 0 or a negative
 * errno; destroy in any case. */
int acre__place_problem_create(struct place_problem *problem,
                               const struct acre__place_buffer *buffers, size_t count,
                               uint64_t capacity, struct place_meter *meter);
void acre__place_problem_destroy(struct place_problem *problem);

static inline uint64_t place_align_up(uint64_t offset, uint64_t align) {
    return (offset + align - 1) & ~(align - 1);
}

#endif
