/* Problems for the placer. A seed determines the problem, on every machine. */
#ifndef ACRE_TESTS_PLACE_PROBLEMS_H
#define ACRE_TESTS_PLACE_PROBLEMS_H

#include <stddef.h>
#include <stdint.h>

#include "plan/place.h"

/* Makes buffers with random lifetimes and sizes and one alignment. */
void place_problem_random(struct acre__place_buffer *buffers, size_t count, uint64_t align,
                          uint64_t seed);

/* Cuts a rectangle of PLACE_PACKED_BYTES into buffers, so that a plan without gaps exists. */
#define PLACE_PACKED_BYTES UINT64_C(1048576)
void place_problem_packed(struct acre__place_buffer *buffers, size_t count, uint64_t seed);

/* Problems that take a placer long: each kind defeats a data structure or shortcut of it. */
enum place_worst {
    PLACE_WORST_TOGETHER,   /* all live at once; many alignments */
    PLACE_WORST_ALIGNMENTS, /* lives of all lengths; many alignments, sizes just above a multiple */
    PLACE_WORST_CHAIN,      /* each overlaps only the next in time */
    PLACE_WORST_STAIRS,     /* lives of half the time, each starts a step later; sizes grow */
    PLACE_WORST_PYRAMID,    /* each lives within the one before */
    PLACE_WORST_HALVES,     /* lives form a binary tree, which peeling and splitting decompose */
    PLACE_WORST_EQUAL,      /* equal sizes, random lives */
    PLACE_WORST_LONG,       /* random lives of all lengths and random sizes */
    PLACE_WORST_PARTS,      /* many parts that do not overlap; none is the highest for long */
    PLACE_WORST_COMB,       /* few long lives over many short ones */
    PLACE_WORST_FIXED,      /* every second one is fixed, with gaps too small for the others */
    PLACE_WORST_SLABS, /* one in sixteen is fixed and always live; the others live for a while */
    PLACE_WORST_KINDS
};
const char *place_problem_worst_name(enum place_worst kind);
void place_problem_worst(struct acre__place_buffer *buffers, size_t count, enum place_worst kind,
                         uint64_t seed);

uint64_t place_problem_random_number(uint64_t *state);

#endif
