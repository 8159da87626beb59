/* The problem inside the placer: items, sections, parts.
 *
 * A section is a set of items that live together and that no other such set contains: time cut
 * where something begins after something has ended. Two items overlap in time if and only if they
 * share a section, so that times are only needed to make sections. */
#ifndef ACRE_PLAN_PLACE_PROBLEM_H
#define ACRE_PLAN_PLACE_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#include "plan/place.h"
#include "plan/place_meter.h"

/* The height of a part that has no plan yet: above every limit, also with a size added. */
#define PLACE_NOWHERE (UINT64_C(1) << 63)

struct place_life {
    uint32_t first, end; /* sections [first, end) */
};

struct place_item {
    uint64_t size; /* bytes */
    uint64_t room; /* size rounded up to the problem's unit: what it takes from all others */
    uint64_t align;
    uint64_t grain;      /* its offset is a multiple of that, whatever it will be */
    uint64_t offset;     /* fixed items */
    uint64_t duration;   /* in the buffers' time */
    uint64_t peak;       /* largest total of a section that it lives in */
    uint32_t first, end; /* sections [first, end) of its part */
    uint32_t id;         /* index of the buffer */
    uint32_t is_fixed;
};

/* Items whose lives are connected: fixed ones first, by offset, then the others as given. */
struct place_part {
    struct place_item *items; /* not owned */
    const uint64_t *total;    /* of each section: sum of rooms; not owned */
    const uint64_t *slack;    /* of each section: largest room - size, what the topmost may spare */
    uint64_t loose_bound;     /* no placement ends lower, counted in rooms */
    uint64_t unit;            /* every offset is a multiple of it */
    uint32_t count, fixed_count;
    uint32_t sections;
};

struct place_problem {
    struct place_item *items; /* permuted, so that each part has a range */
    struct place_part *parts;
    uint64_t *total, *slack; /* of all sections */
    uint32_t count, part_count, sections;
    uint64_t unit;
    uint64_t bound; /* no plan is smaller */
};

/* Numbers the sections of all buffers. Returns how many there are, 0 without memory. */
uint32_t acre__place_sections(const struct acre__place_buffer *buffers, uint32_t count,
                              struct place_life *lives, struct place_meter *meter);

/* Checks the buffers and makes parts of them. A capacity below the bound (0: none) is the end:
 * there are no parts then. 0 or a negative errno; destroy in any case. */
int acre__place_problem_create(struct place_problem *problem,
                               const struct acre__place_buffer *buffers, size_t count,
                               uint64_t capacity, struct place_meter *meter);
void acre__place_problem_destroy(struct place_problem *problem);

static inline uint64_t place_align_up(uint64_t offset, uint64_t align) {
    return (offset + align - 1) & ~(align - 1);
}

#endif
