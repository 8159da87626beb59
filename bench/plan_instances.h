/* Generates instances for the placer from a seed: the same on every machine. */
#ifndef ACRE_BENCH_PLAN_INSTANCES_H
#define ACRE_BENCH_PLAN_INSTANCES_H

#include <stddef.h>
#include <stdint.h>

#include "plan/place.h"

/* Generates tight instances: a capacity of 1 MiB is cut into `count` buffers that fill it. Some
 * buffers are then shortened in time. So a plan at the lower bound exists, and there are few such
 * plans. EVEN: sizes differ little, and there is slack except at a few times when memory is full.
 * WILD: sizes and lifetimes vary from a hundredth of the whole to all of it, with hardly any slack.
 * KNOTS: as WILD, but sometimes four buffers surround a fifth. The offsets are those of that
 * plan. */
enum plan_cut { PLAN_EVEN, PLAN_WILD, PLAN_KNOTS };
void plan_make_tight(struct acre__place_buffer *buffers, size_t count, enum plan_cut cut,
                     uint64_t seed);

/* Generates a training step: activations that live until the backward pass, short workspaces, and
 * gradients of weights that live to the end. Sizes are multiples of 512, up to about
 * `most_bytes`. */
void plan_make_training(struct acre__place_buffer *buffers, size_t count, uint64_t most_bytes,
                        uint64_t seed);

/* Generates the buffers of a large compiler graph. Most buffers live for a few steps, many of them
 * from the first step on. One in ten starts in the first half and lives long. Sizes range from
 * bytes to hundreds of MiB and are not aligned. */
void plan_make_graph(struct acre__place_buffer *buffers, size_t count, uint64_t seed);

#endif
