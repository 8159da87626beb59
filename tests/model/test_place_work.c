/* Bounds on the placer's run time, in units of work instead of seconds: for worst-case problems,
 * for a stop at any moment, and for capacities that are too small. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "place_problems.h"
#include "plan/place.h"
#include "support/rounds.h"

enum { NODE = 1024 };

static struct acre__place_result place(struct acre__place_buffer *buffers, size_t count,
                                       const struct acre__place_options *options) {
    struct acre__place_result result;
    assert_int_equal(acre__place(buffers, count, options, &result), 0);
    if (!result.is_refused)
        assert_int_equal(acre__place_verify(buffers, count, result.bytes, NULL, NULL), 0);
    return result;
}

static struct acre__place_buffer *make(size_t count, enum place_worst kind) {
    struct acre__place_buffer *buffers = calloc(count, sizeof *buffers);
    assert_non_null(buffers);
    place_problem_worst(buffers, count, kind, 7);
    return buffers;
}

/* Returns the work limit. An attempt may start just before the budget is spent, and the first plan
 * always runs: a few thousand units per buffer. */
static uint64_t most_work(size_t count, uint64_t budget) {
    return budget * NODE + (uint64_t)count * 6000 + 5000000;
}

static void place_work_ends_soon_after_the_budget(void **state) {
    (void)state;
    static const size_t counts[] = {300, 3000, 6000};
    static const uint64_t budgets[] = {1, 1000, 30000};
    for (enum place_worst kind = 0; kind < PLACE_WORST_KINDS; kind++) {
        for (int i = 0; i < ROUNDS(3, 2); i++) {
            struct acre__place_buffer *buffers = make(counts[i], kind);
            for (int b = 0; b < 3; b++) {
                struct acre__place_options options = {.budget = budgets[b]};
                struct acre__place_result least = place(buffers, counts[i], &options);
                assert_true(least.nodes <= budgets[b]);
                assert_true(least.work <= most_work(counts[i], budgets[b]));
                options.capacity = least.lower_bound;
                struct acre__place_result fitting = place(buffers, counts[i], &options);
                assert_true(fitting.work <= most_work(counts[i], budgets[b]));
            }
            free(buffers);
        }
    }
}

static void place_first_plan_takes_little_more_than_a_sort(void **state) {
    (void)state;
    const size_t count = (size_t)ROUNDS(30000, 5000);
    for (enum place_worst kind = 0; kind < PLACE_WORST_KINDS; kind++) {
        struct acre__place_options options = {.budget = 1};
        struct acre__place_buffer *buffers = make(count, kind);
        struct acre__place_result result = place(buffers, count, &options);
        printf("%s: %" PRIu64 " units per buffer, %.4f of the lower bound\n",
               place_problem_worst_name(kind), result.work / count,
               (double)result.bytes / (double)result.lower_bound);
        assert_true(result.work <= most_work(count, 1));
        free(buffers);
    }
}

/* After a stop the placer makes at most a few passes over the buffers. */
static void check_stop(size_t count, enum place_worst kind, uint64_t capacity, int points) {
    struct acre__place_buffer *buffers = make(count, kind);
    struct acre__place_options options = {.budget = 10000, .capacity = capacity};
    uint64_t whole = place(buffers, count, &options).work;
    for (int i = 0; i < points; i++) {
        options.stop_after = 1 + whole / (uint64_t)points * (uint64_t)i;
        struct acre__place_result result = place(buffers, count, &options);
        if (result.work > options.stop_after + 2000 * (uint64_t)count + 100000)
            printf("%s, %zu buffers: stop after %" PRIu64 " units, ended at %" PRIu64 "\n",
                   place_problem_worst_name(kind), count, options.stop_after, result.work);
        assert_true(result.work <= options.stop_after + 2000 * (uint64_t)count + 100000);
    }
    free(buffers);
}

static void place_stopped_at_any_point_ends_soon_with_a_plan(void **state) {
    (void)state;
    for (enum place_worst kind = 0; kind < PLACE_WORST_KINDS; kind++) {
        check_stop(200, kind, 0, ROUNDS(20, 4));
        check_stop(3000, kind, 0, ROUNDS(5, 2));
        check_stop(3000, kind, UINT64_C(1) << 61, ROUNDS(2, 1));
        check_stop(20000, kind, 0, ROUNDS(3, 1));
    }
}

static void place_capacity_below_the_bound_is_refused_by_one_sweep(void **state) {
    (void)state;
    const size_t count = (size_t)ROUNDS(20000, 5000);
    for (enum place_worst kind = 0; kind < PLACE_WORST_KINDS; kind++) {
        struct acre__place_buffer *buffers = make(count, kind);
        uint64_t bound = acre__place_lower_bound(buffers, count);
        struct acre__place_options options = {.capacity = bound / 2};
        for (size_t i = 0; i < count; i++)
            buffers[i].offset = buffers[i].is_fixed ? buffers[i].offset : 77;
        struct acre__place_result result = place(buffers, count, &options);
        assert_true(result.is_refused);
        assert_false(result.is_fitting);
        assert_true(result.lower_bound > options.capacity);
        assert_int_equal(result.bytes, result.lower_bound);
        /* One sort by start, one by end, and a pass per alignment. */
        assert_true(result.work <= (uint64_t)count * 1500 + 100000);
        for (size_t i = 0; i < count; i++)
            assert_true(buffers[i].is_fixed || buffers[i].offset == 77);
        free(buffers);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_work_ends_soon_after_the_budget),
        cmocka_unit_test(place_first_plan_takes_little_more_than_a_sort),
        cmocka_unit_test(place_stopped_at_any_point_ends_soon_with_a_plan),
        cmocka_unit_test(place_capacity_below_the_bound_is_refused_by_one_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
