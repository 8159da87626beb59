/* Instances for the placer, made from a seed: the same on every machine. */
#ifndef ACRE_BENCH_PLAN_INSTANCES_H
#define ACRE_BENCH_PLAN_INSTANCES_H

#include <stddef.h>
#include <stdint.h>

#include "plan/place.h"

/* A capacity of 1 MiB, cut into `count` buffers that fill it, of which some then begin later or end
 * earlier. So there is a plan that needs no more than the lower bound, and few others do. EVEN:
 * sizes differ little, and there is slack between a few moments that are full. WILD: sizes and
 * lifetimes from a hundredth to all, and hardly any slack. KNOTS: the same, and now and then four
 * lie around a fifth. The offsets are those of that plan. */
enum plan_cut { PLAN_EVEN, PLAN_WILD, PLAN_KNOTS };
void plan_make_tight(struct acre__place_buffer *buffers, size_t count, enum plan_cut cut,
                     uint64_t seed);

/* A step of training: activations that live until the way back, short workspaces, gradients of
 * weights that live to the end. Sizes are multiples of 512, up to `most_bytes`. */
void plan_make_training(struct acre__place_buffer *buffers, size_t count, uint64_t most_bytes,
                        uint64_t seed);

/* What a compiler has for a large graph: most buffers live for a few moments, many of them at the
 * very first; one in ten lives for a good part of all, from the first half on; sizes from bytes to
 * hundreds of MiB, and none of them aligned. */
void plan_make_graph(struct acre__place_buffer *buffers, size_t count, uint64_t seed);

#endif
