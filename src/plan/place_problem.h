/* The problem inside the placer: items, sections, parts.
 *
 * A section is a maximal set of items that live at the same time. A new section begins where an
 * item begins after another has ended. Two items overlap in time if and only if they share a
 * section, so times are only needed to compute sections. */
#ifndef ACRE_PLAN_PLACE_PROBLEM_H
#define ACRE_PLAN_PLACE_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#include "plan/place.h"
#include "plan/place_meter.h"

/* The height of a part without a plan: above every limit, even with a size added. */
#define PLACE_NOWHERE (UINT64_C(1) << 63)

struct place_life {
    uint32_t first, end; /* sections [first, end) */
};

struct place_item {
    uint64_t size; /* bytes */
    uint64_t room; /* size rounded up to the problem's unit: the space that other items lose */
    uint64_t align;
    uint64_t grain;      /* its offset is always a multiple of this */
    uint64_t offset;     /* fixed items */
    uint64_t duration;   /* in the time unit of the buffers */
    uint64_t peak;       /* largest total of its sections */
    uint32_t first, end; /* sections [first, end) of its part */
    uint32_t id;         /* index of the buffer */
    uint32_t is_fixed;
};

/* Items whose lifetimes are connected: first the fixed ones by offset, then the others in the given
 * order. */
struct place_part {
    struct place_item *items; /* not owned */
    const uint64_t *total;    /* by section: sum of rooms; not owned */
    const uint64_t *slack; /* by section: largest room - size; the topmost item may save as much */
    uint64_t loose_bound;  /* lower bound of every placement, counted in rooms */
    uint64_t unit;         /* every offset is a multiple of this */
    uint32_t count, fixed_count;
    uint32_t sections;
};

struct place_problem {
    struct place_item *items; /* permuted, so that each part is a range */
    struct place_part *parts;
    uint64_t *total, *slack; /* of all sections */
    uint32_t count, part_count, sections;
    uint64_t unit;
    uint64_t bound; /* lower bound of every plan */
};

/* Numbers the sections of all buffers. Returns their number, or 0 when out of memory. */
uint32_t acre__place_sections(const struct acre__place_buffer *buffers, uint32_t count,
                              struct place_life *lives, struct place_meter *meter);

/* Checks the buffers and splits them into parts. There are no parts if the lower bound exceeds the
 * capacity (0: none). Returns 0 or a negative errno; destroy the problem in any case. */
int acre__place_problem_create(struct place_problem *problem,
                               const struct acre__place_buffer *buffers, size_t count,
                               uint64_t capacity, struct place_meter *meter);
void acre__place_problem_destroy(struct place_problem *problem);

static inline uint64_t place_align_up(uint64_t offset, uint64_t align) {
    return (offset + align - 1) & ~(align - 1);
}

#endif
