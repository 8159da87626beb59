/* The placer as a whole: parts, a portfolio of greedy orders, the result.
 *
 * A plan's height is that of its highest part, and no part needs to be lower than what the whole
 * needs anyway: the goal is the capacity asked for, or the lower bound. */
#include "plan/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/place_greedy.h"
#include "plan/place_order.h"
#include "plan/place_problem.h"

/* What was found for a part. */
struct place_found {
    uint64_t *offsets; /* by item, from the part's base */
    uint64_t height;   /* from 0, UINT64_MAX: nothing yet */
};

struct place_run {
    struct place_problem problem;
    struct place_found *found; /* of each part */
    struct acre__place_options options;
    uint64_t goal; /* a plan that ends here is good enough */
    uint64_t nodes;
};

/* Which order is best differs from family to family; the first of these are the best ones most
 * often. */
static const struct place_try {
    const char *letters;
    enum place_fit fit;
} place_tries[] = {
    {"TWA", PLACE_BEST_FIT}, {"TWA", PLACE_FIRST_FIT}, {"Z", PLACE_BEST_FIT},
    {"Z", PLACE_FIRST_FIT},  {"TAW", PLACE_BEST_FIT},  {"L", PLACE_BEST_FIT},
};

enum { PLACE_TRIES = sizeof place_tries / sizeof place_tries[0] };

static int place_is_stopped(const struct place_run *run) {
    return run->options.stop && atomic_load_explicit(run->options.stop, memory_order_relaxed);
}

static uint64_t place_height(const struct place_run *run) {
    uint64_t height = run->problem.peeled_end;
    for (uint32_t p = 0; p < run->problem.part_count; p++)
        height = run->found[p].height > height ? run->found[p].height : height;
    return height;
}

static void place_sum_up(const struct place_run *run, struct acre__place_result *result) {
    uint64_t capacity = run->options.capacity;
    result->bytes = place_height(run);
    result->lower_bound = run->problem.bound;
    result->nodes = run->nodes;
    result->is_optimal = result->bytes == result->lower_bound;
    result->is_fitting = capacity == 0 || result->bytes <= capacity;
}

static void place_tell(const struct place_run *run) {
    struct acre__place_result so_far;
    if (run->options.progress) {
        place_sum_up(run, &so_far);
        if (so_far.bytes != UINT64_MAX)
            run->options.progress(run->options.progress_arg, &so_far);
    }
}

/* ---- greedy ---- */

/* Tries one order after the other until one is good enough. */
static int place_try_orders(struct place_run *run, uint32_t p, struct place_greedy *greedy,
                            uint32_t *order, uint64_t *offsets) {
    const struct place_part *part = &run->problem.parts[p];
    struct place_found *found = &run->found[p];
    for (int k = 0; k < PLACE_TRIES && found->height > run->goal; k++) {
        if (k > 0 && place_is_stopped(run))
            break;
        int rc = acre__place_order(part, place_tries[k].letters, order);
        if (rc)
            return rc;
        uint64_t limit = found->height == UINT64_MAX ? UINT64_MAX : found->height - part->base - 1;
        uint64_t height = acre__place_greedy_run(greedy, order, place_tries[k].fit, limit, offsets);
        if (height <= limit && height != UINT64_MAX) {
            found->height = part->base + height;
            memcpy(found->offsets, offsets, part->count * sizeof *offsets);
            place_tell(run);
        }
    }
    return 0;
}

static int place_greedily(struct place_run *run, uint32_t p) {
    const struct place_part *part = &run->problem.parts[p];
    struct place_greedy *greedy = acre__place_greedy_create(part);
    uint32_t *order = malloc(part->count * sizeof *order);
    uint64_t *offsets = malloc(part->count * sizeof *offsets);
    int rc =
        greedy && order && offsets ? place_try_orders(run, p, greedy, order, offsets) : -ENOMEM;
    free(offsets);
    free(order);
    acre__place_greedy_destroy(greedy);
    return rc;
}

/* ---- beginning and end ---- */

/* The fixed buffers must leave each other alone. */
static int place_check_fixed(const struct acre__place_buffer *buffers, size_t count) {
    size_t fixed_count = 0;
    for (size_t i = 0; i < count; i++)
        fixed_count += buffers[i].is_fixed != 0;
    if (fixed_count == 0)
        return 0;
    struct acre__place_buffer *fixed = malloc(fixed_count * sizeof *fixed);
    if (!fixed)
        return -ENOMEM;
    fixed_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (buffers[i].is_fixed)
            fixed[fixed_count++] = buffers[i];
    }
    int rc = acre__place_verify(fixed, fixed_count, 0, NULL, NULL) ? -EINVAL : 0;
    free(fixed);
    return rc;
}

static int place_begin(struct place_run *run, const struct acre__place_buffer *buffers,
                       size_t count) {
    struct place_problem *problem = &run->problem;
    int rc = acre__place_problem_create(problem, buffers, count);
    if (rc == 0)
        rc = place_check_fixed(buffers, count);
    if (rc || problem->part_count == 0)
        return rc;
    run->found = calloc(problem->part_count, sizeof *run->found);
    if (!run->found)
        return -ENOMEM;
    for (uint32_t p = 0; p < problem->part_count; p++) {
        run->found[p].height = UINT64_MAX;
        run->found[p].offsets = malloc(problem->parts[p].count * sizeof(uint64_t));
        if (!run->found[p].offsets)
            return -ENOMEM;
    }
    run->goal = problem->bound > run->options.capacity ? problem->bound : run->options.capacity;
    return 0;
}

static void place_end(struct place_run *run) {
    for (uint32_t p = 0; run->found && p < run->problem.part_count; p++)
        free(run->found[p].offsets);
    free(run->found);
    acre__place_problem_destroy(&run->problem);
}

/* Writes the plan into a copy, has that verified, and hands it over. */
static int place_hand_over(struct place_run *run, struct acre__place_buffer *buffers, size_t count,
                           struct acre__place_result *result) {
    struct acre__place_buffer *copy = malloc(count * sizeof *copy + 1);
    if (!copy)
        return -ENOMEM;
    if (count)
        memcpy(copy, buffers, count * sizeof *copy);
    for (size_t i = 0; i < count; i++) {
        if (!copy[i].is_fixed)
            copy[i].offset = run->problem.offsets[i];
    }
    for (uint32_t p = 0; p < run->problem.part_count; p++) {
        const struct place_part *part = &run->problem.parts[p];
        for (uint32_t i = 0; i < part->count; i++) {
            if (!part->items[i].is_fixed)
                copy[part->items[i].id].offset = part->base + run->found[p].offsets[i];
        }
    }
    struct acre__place_result sum;
    place_sum_up(run, &sum);
    int rc = acre__place_verify(copy, count, sum.bytes, NULL, NULL) ? -ENOTRECOVERABLE : 0;
    if (rc == 0) {
        for (size_t i = 0; i < count; i++)
            buffers[i].offset = copy[i].offset;
        *result = sum;
    }
    free(copy);
    return rc;
}

int acre__place(struct acre__place_buffer *buffers, size_t count,
                const struct acre__place_options *options, struct acre__place_result *result) {
    struct place_run run = {0};
    if (options)
        run.options = *options;
    int rc = place_begin(&run, buffers, count);
    for (uint32_t p = 0; rc == 0 && p < run.problem.part_count; p++)
        rc = place_greedily(&run, p);
    if (rc == 0)
        rc = place_hand_over(&run, buffers, count, result);
    place_end(&run);
    return rc;
}

uint64_t acre__place_lower_bound(const struct acre__place_buffer *buffers, size_t count) {
    struct place_problem problem;
    int rc = acre__place_problem_create(&problem, buffers, count);
    uint64_t bound = rc ? 0 : problem.bound;
    acre__place_problem_destroy(&problem);
    return bound;
}
