/* Problems for the placer, made by a seed: the same ones on every machine. */
#ifndef ACRE_TESTS_PLACE_PROBLEMS_H
#define ACRE_TESTS_PLACE_PROBLEMS_H

#include <stddef.h>
#include <stdint.h>

#include "plan/place.h"

/* Random lifetimes and sizes, all of one alignment. */
void place_problem_random(struct acre__place_buffer *buffers, size_t count, uint64_t align,
                          uint64_t seed);

/* A rectangle of PLACE_PACKED_BYTES cut into pieces, so that a plan without any gap exists. */
#define PLACE_PACKED_BYTES UINT64_C(1048576)
void place_problem_packed(struct acre__place_buffer *buffers, size_t count, uint64_t seed);

uint64_t place_problem_random_number(uint64_t *state);

#endif
