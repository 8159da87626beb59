/* The placer as a whole: splits the problem into parts, schedules attempts on them and collects the
 * result.
 *
 * The height of a plan is the height of its highest part. No part needs to be lower than the goal,
 * which is the requested capacity or the lower bound. First every part gets its greedy plans. Then
 * the highest part gets one attempt after another until another part is the highest. The sequence
 * of attempts does not depend on the budget, which only ends it. A larger budget can therefore only
 * improve the plan. */
#include "plan/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/place_meter.h"
#include "plan/place_problem.h"
#include "plan/place_solve.h"

/* Nodes, of about a microsecond each. A search for any plan that fits should not give up a little
 * too early, so its budget is larger. A search for the smallest plan mostly ends only when its
 * budget is spent. */
#define PLACE_BUDGET_FITTING (UINT64_C(1) << 21)
#define PLACE_BUDGET_LEAST (UINT64_C(1) << 20)

struct place_run {
    struct place_problem problem;
    struct place_solver **solvers; /* one per part */
    struct acre__place_options options;
    struct place_meter meter;
    uint64_t goal; /* a plan that ends here is good enough */
    int is_least;  /* 0: any plan that ends at the goal is good enough */
};

/* 1 if the capacity is below the lower bound: no plan exists. */
static int place_is_hopeless(const struct place_run *run) {
    return run->options.capacity && run->problem.bound > run->options.capacity;
}

/* Returns the standing of the highest part; among equals, one that is proven minimal. */
static struct place_standing place_highest(const struct place_run *run, uint32_t *highest) {
    struct place_standing most = {0};
    for (uint32_t p = 0; p < run->problem.part_count; p++) {
        struct place_standing standing = acre__place_solver_standing(run->solvers[p]);
        if (standing.height > most.height ||
            (standing.height == most.height && standing.is_proven)) {
            most = standing;
            *highest = p;
        }
    }
    return most;
}

static void place_sum_up(const struct place_run *run, struct acre__place_result *result) {
    uint64_t capacity = run->options.capacity, most = run->meter.budget;
    *result = (struct acre__place_result){.lower_bound = run->problem.bound,
                                          .bytes = run->problem.bound,
                                          .is_refused = place_is_hopeless(run)};
    result->work = run->meter.work;
    result->nodes = (result->work < most ? result->work : most) / PLACE_NODE;
    if (result->is_refused)
        return;
    uint32_t highest = 0;
    struct place_standing standing = place_highest(run, &highest);
    result->bytes = standing.height;
    result->is_optimal =
        result->bytes == result->lower_bound || (run->is_least && standing.is_proven);
    result->is_fitting = capacity == 0 || result->bytes <= capacity;
}

/* Reports progress, once every part has a plan. */
static void place_tell(const struct place_run *run) {
    struct acre__place_result so_far;
    uint32_t parts = run->problem.part_count;
    if (run->options.progress && (parts == 0 || run->solvers[parts - 1])) {
        place_sum_up(run, &so_far);
        if (so_far.bytes < PLACE_NOWHERE)
            run->options.progress(run->options.progress_arg, &so_far);
    }
}

/* ---- attempts ---- */

/* Creates a part's solver and makes its greedy plans. */
static int place_begin_part(struct place_run *run, uint32_t p) {
    run->solvers[p] =
        acre__place_solver_create(&run->problem.parts[p], run->goal, run->is_least, &run->meter);
    if (!run->solvers[p])
        return -ENOMEM;
    for (;;) {
        run->meter.work += PLACE_NODE;
        int rc = acre__place_solver_step(run->solvers[p]);
        struct place_standing standing = acre__place_solver_standing(run->solvers[p]);
        if (rc || standing.is_done || standing.is_begun)
            return rc;
        place_tell(run);
        if (place_is_spent(&run->meter))
            return 0;
    }
}

static int place_search(struct place_run *run) {
    int rc = 0;
    while (rc == 0 && !place_is_spent(&run->meter)) {
        uint32_t p = 0;
        struct place_standing standing = place_highest(run, &p);
        if (standing.height <= run->goal || standing.is_done)
            break;
        run->meter.work += PLACE_NODE + 8 * (uint64_t)run->problem.part_count;
        rc = acre__place_solver_step(run->solvers[p]);
        place_tell(run);
    }
    return rc;
}

/* ---- setup and result ---- */

/* Checks that fixed buffers do not overlap. */
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
    const struct acre__place_options *options = &run->options;
    struct place_problem *problem = &run->problem;
    run->is_least = options->capacity == 0;
    uint64_t nodes = run->is_least ? PLACE_BUDGET_LEAST : PLACE_BUDGET_FITTING;
    if (options->budget)
        nodes = options->budget;
    run->meter = (struct place_meter){.budget = nodes < UINT64_MAX / PLACE_NODE ? nodes * PLACE_NODE
                                                                                : UINT64_MAX,
                                      .stop = options->stop,
                                      .stop_after = options->stop_after};
    int rc = acre__place_problem_create(problem, buffers, count, options->capacity, &run->meter);
    if (rc == 0)
        rc = place_check_fixed(buffers, count);
    run->goal = problem->bound > options->capacity ? problem->bound : options->capacity;
    if (rc || problem->part_count == 0)
        return rc;
    run->solvers = calloc(problem->part_count, sizeof(struct place_solver *));
    return run->solvers ? 0 : -ENOMEM;
}

static void place_end(struct place_run *run) {
    for (uint32_t p = 0; run->solvers && p < run->problem.part_count; p++)
        acre__place_solver_destroy(run->solvers[p]);
    free(run->solvers);
    acre__place_problem_destroy(&run->problem);
}

/* Writes the plan into a copy, verifies it, and copies the offsets to the caller. */
static int place_hand_over(struct place_run *run, struct acre__place_buffer *buffers, size_t count,
                           struct acre__place_result *result) {
    struct acre__place_buffer *copy = malloc(count * sizeof *copy + 1);
    if (!copy)
        return -ENOMEM;
    if (count)
        memcpy(copy, buffers, count * sizeof *copy);
    for (uint32_t p = 0; p < run->problem.part_count; p++) {
        const struct place_part *part = &run->problem.parts[p];
        const uint64_t *offsets = acre__place_solver_standing(run->solvers[p]).offsets;
        for (uint32_t i = part->fixed_count; i < part->count; i++)
            copy[part->items[i].id].offset = offsets[i];
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
    if (rc == 0 && place_is_hopeless(&run)) {
        place_sum_up(&run, result);
        goto end;
    }
    for (uint32_t p = 0; rc == 0 && p < run.problem.part_count; p++)
        rc = place_begin_part(&run, p);
    if (rc == 0) {
        place_tell(&run);
        rc = place_search(&run);
    }
    if (rc == 0)
        rc = place_hand_over(&run, buffers, count, result);
end:
    place_end(&run);
    return rc;
}

uint64_t acre__place_lower_bound(const struct acre__place_buffer *buffers, size_t count) {
    struct place_problem problem;
    struct place_meter meter = {0};
    int rc = acre__place_problem_create(&problem, buffers, count, 0, &meter);
    uint64_t bound = rc ? 0 : problem.bound;
    acre__place_problem_destroy(&problem);
    return bound;
}
