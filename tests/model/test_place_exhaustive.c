/* The placer compared with brute force, on every tiny problem of some kinds. Also properties of all
 * problems: budgets, stopping, and the same plan on every machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cases.h"
#include "place_problems.h"
#include "plan/place.h"
#include "support/rounds.h"

/* ---- brute force ---- */

enum { TINY = 6 };

struct brute {
    const struct acre__place_buffer *buffers;
    size_t count;
    uint64_t offsets[TINY];
    uint64_t best;
};

static int brute_meet(const struct acre__place_buffer *a, const struct acre__place_buffer *b) {
    return a->lower < b->upper && b->lower < a->upper;
}

/* Returns the lowest offset for buffer i above the placed buffers that it overlaps in time, and
 * clear of fixed ones. */
static uint64_t brute_lowest(const struct brute *brute, unsigned placed, size_t i) {
    const struct acre__place_buffer *all = brute->buffers;
    uint64_t offset = 0;
    for (size_t k = 0; k < brute->count; k++) {
        if (placed >> k & 1 && !all[k].is_fixed && brute_meet(&all[k], &all[i]) &&
            brute->offsets[k] + all[k].size > offset)
            offset = brute->offsets[k] + all[k].size;
    }
    for (;; offset++) {
        int is_free = offset % all[i].align == 0;
        for (size_t k = 0; k < brute->count; k++) {
            is_free &=
                !(all[k].is_fixed && brute_meet(&all[k], &all[i]) &&
                  offset < all[k].offset + all[k].size && all[k].offset < offset + all[i].size);
        }
        if (is_free)
            return offset;
    }
}

/* Tries all orders. Each buffer goes on top of the placed buffers that it overlaps in time. The
 * best plan's order from the bottom up yields a plan of the same height. */
static void brute_place(struct brute *brute, unsigned placed, uint64_t height) {
    const struct acre__place_buffer *all = brute->buffers;
    if (height >= brute->best)
        return;
    if (placed == (1u << brute->count) - 1) {
        brute->best = height;
        return;
    }
    for (size_t i = 0; i < brute->count; i++) {
        if (placed >> i & 1)
            continue;
        uint64_t offset = brute_lowest(brute, placed, i), end = offset + all[i].size;
        brute->offsets[i] = offset;
        brute_place(brute, placed | 1u << i, end > height ? end : height);
    }
}

static uint64_t brute_force(const struct acre__place_buffer *buffers, size_t count) {
    struct brute brute = {.buffers = buffers, .count = count, .best = UINT64_MAX};
    unsigned fixed = 0;
    uint64_t height = 0;
    for (size_t i = 0; i < count; i++) {
        if (buffers[i].is_fixed) {
            fixed |= 1u << i;
            uint64_t end = buffers[i].offset + buffers[i].size;
            height = end > height ? end : height;
        }
    }
    brute_place(&brute, fixed, height);
    return brute.best;
}

static void check_against_brute_force(struct acre__place_buffer *buffers, size_t count) {
    struct acre__place_result result;
    uint64_t best = brute_force(buffers, count);
    assert_int_equal(acre__place(buffers, count, NULL, &result), 0);
    assert_int_equal(acre__place_verify(buffers, count, result.bytes, NULL, NULL), 0);
    if (result.bytes != best || !result.is_optimal) {
        for (size_t i = 0; i < count; i++)
            printf("size %llu align %llu [%lld, %lld) at %llu\n",
                   (unsigned long long)buffers[i].size, (unsigned long long)buffers[i].align,
                   (long long)buffers[i].lower, (long long)buffers[i].upper,
                   (unsigned long long)buffers[i].offset);
    }
    assert_int_equal(result.bytes, best);
    assert_true(result.is_optimal);
    assert_true(result.lower_bound <= best);

    struct acre__place_options fits = {.capacity = best}, misses = {.capacity = best - 1};
    assert_int_equal(acre__place(buffers, count, &fits, &result), 0);
    assert_true(result.is_fitting);
    if (best > 1) {
        assert_int_equal(acre__place(buffers, count, &misses, &result), 0);
        assert_false(result.is_fitting);
    }
}

/* The set of buffers to try: all lives within `steps`, sizes from 1 to `sizes`. */
struct kinds {
    int steps;
    uint64_t sizes;
    uint64_t aligns; /* 1, 2, 4 ... */
};

static uint64_t kind_count(const struct kinds *kinds) {
    return (uint64_t)(kinds->steps * (kinds->steps + 1) / 2) * kinds->sizes * kinds->aligns;
}

static struct acre__place_buffer kind_make(const struct kinds *kinds, uint64_t kind) {
    struct acre__place_buffer buffer = {.size = 1 + kind % kinds->sizes};
    kind /= kinds->sizes;
    buffer.align = UINT64_C(1) << kind % kinds->aligns;
    kind /= kinds->aligns;
    for (int lower = 0; lower < kinds->steps; lower++) {
        for (int upper = lower + 1; upper <= kinds->steps; upper++) {
            if (kind-- == 0) {
                buffer.lower = lower;
                buffer.upper = upper;
                return buffer;
            }
        }
    }
    return buffer;
}

/* Checks every choice of `count` buffers, regardless of their order. Returns the number of
 * problems. */
static uint64_t check_all(const struct kinds *kinds, size_t count) {
    uint64_t chosen[TINY] = {0}, problems = 0, most = kind_count(kinds);
    for (;;) {
        struct acre__place_buffer buffers[TINY];
        for (size_t i = 0; i < count; i++)
            buffers[i] = kind_make(kinds, chosen[i]);
        check_against_brute_force(buffers, count);
        problems++;
        size_t i = count;
        while (i > 0 && chosen[i - 1] == most - 1)
            i--;
        if (i == 0)
            return problems;
        uint64_t next = chosen[i - 1] + 1;
        for (; i <= count; i++)
            chosen[i - 1] = next;
    }
}

TEST(place_every_tiny_problem_is_solved_as_by_brute_force) {
    uint64_t problems = 0;
    for (size_t count = 1; count <= (size_t)ROUNDS(4, 3); count++)
        problems += check_all(&(struct kinds){3, 3, 1}, count);
    problems += check_all(&(struct kinds){4, 2, 1}, (size_t)ROUNDS(4, 3));
    problems += check_all(&(struct kinds){2, 2, 1}, (size_t)ROUNDS(6, 4));
    for (size_t count = 1; count <= 3; count++)
        problems += check_all(&(struct kinds){2, 5, 3}, count);
    printf("%llu problems\n", (unsigned long long)problems);
}

TEST(place_small_random_problems_are_solved_as_by_brute_force) {
    uint64_t seed = 20;
    for (int round = 0; round < ROUNDS(20000, 1000); round++) {
        struct acre__place_buffer buffers[TINY];
        size_t count = 2 + place_problem_random_number(&seed) % (TINY - 1);
        uint64_t kind = place_problem_random_number(&seed) % 3;
        for (size_t i = 0; i < count; i++) {
            uint64_t lower = place_problem_random_number(&seed) % 6;
            buffers[i] = (struct acre__place_buffer){
                .size = 1 + place_problem_random_number(&seed) % 12,
                .align = kind == 0   ? 1
                         : kind == 1 ? 4
                                     : UINT64_C(1) << place_problem_random_number(&seed) % 4,
                .lower = (int64_t)lower,
                .upper = (int64_t)(lower + 1 + place_problem_random_number(&seed) % 4),
            };
        }
        check_against_brute_force(buffers, count);
    }
}

TEST(place_fixed_buffers_cost_what_they_must) {
    uint64_t seed = 21;
    for (int round = 0; round < ROUNDS(10000, 500); round++) {
        struct acre__place_buffer buffers[TINY];
        size_t count = 2 + place_problem_random_number(&seed) % (TINY - 1), kept = 0;
        for (size_t i = 0; i < count; i++) {
            uint64_t lower = place_problem_random_number(&seed) % 5, align = round % 2 ? 1 : 4;
            struct acre__place_buffer buffer = {
                .size = 1 + place_problem_random_number(&seed) % 8,
                .align = align,
                .lower = (int64_t)lower,
                .upper = (int64_t)(lower + 1 + place_problem_random_number(&seed) % 4),
                .is_fixed = place_problem_random_number(&seed) % 3 == 0,
            };
            if (buffer.is_fixed)
                buffer.offset = align * (place_problem_random_number(&seed) % 12);
            int is_free = 1;
            for (size_t k = 0; k < kept; k++) {
                is_free &=
                    !(buffer.is_fixed && buffers[k].is_fixed && brute_meet(&buffer, &buffers[k]) &&
                      buffer.offset < buffers[k].offset + buffers[k].size &&
                      buffers[k].offset < buffer.offset + buffer.size);
            }
            if (is_free)
                buffers[kept++] = buffer;
        }
        check_against_brute_force(buffers, kept);
    }
}

/* ---- properties of all problems ---- */

enum { COUNT = 120 };

static uint64_t plan(struct acre__place_buffer *buffers, size_t count,
                     const struct acre__place_options *options) {
    struct acre__place_result result;
    assert_int_equal(acre__place(buffers, count, options, &result), 0);
    assert_int_equal(acre__place_verify(buffers, count, result.bytes, NULL, NULL), 0);
    if (options && options->budget)
        assert_true(result.nodes <= options->budget);
    return result.bytes;
}

TEST(place_larger_budgets_never_give_larger_plans) {
    static struct acre__place_buffer buffers[COUNT];
    for (uint64_t seed = 1; seed <= (uint64_t)ROUNDS(12, 3); seed++) {
        uint64_t last = UINT64_MAX;
        for (uint64_t budget = 1; budget <= UINT64_C(1) << ROUNDS(17, 12); budget *= 2) {
            struct acre__place_options options = {.budget = budget};
            if (seed % 2)
                place_problem_packed(buffers, COUNT, seed);
            else
                place_problem_random(buffers, COUNT, 64, seed);
            uint64_t bytes = plan(buffers, COUNT, &options);
            assert_true(bytes <= last);
            last = bytes;
        }
    }
}

struct stopper {
    atomic_int stop;
    uint64_t calls, bytes, nodes;
};

static void stop_at_the_third(void *arg, const struct acre__place_result *so_far) {
    struct stopper *stopper = arg;
    assert_true(so_far->bytes <= stopper->bytes || stopper->calls == 0);
    assert_true(so_far->nodes >= stopper->nodes);
    stopper->bytes = so_far->bytes;
    stopper->nodes = so_far->nodes;
    if (++stopper->calls == 3)
        atomic_store_explicit(&stopper->stop, 1, memory_order_relaxed);
}

TEST(place_stopped_by_progress_gives_what_was_told) {
    static struct acre__place_buffer buffers[COUNT];
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct stopper stopper = {0};
        struct acre__place_options options = {
            .stop = &stopper.stop, .progress = stop_at_the_third, .progress_arg = &stopper};
        place_problem_random(buffers, COUNT, 1, seed);
        uint64_t bytes = plan(buffers, COUNT, &options);
        assert_true(stopper.calls >= 1);
        assert_true(stopper.calls <= 4);
        assert_true(bytes <= stopper.bytes);
    }
}

/* Finds a small capacity by bisection; each step gets an eighth of the budget. */
static uint64_t bisect(struct acre__place_buffer *buffers, size_t count, uint64_t budget) {
    struct acre__place_result result;
    uint64_t low = acre__place_lower_bound(buffers, count), high = low;
    for (size_t i = 0; i < count; i++)
        high += buffers[i].size;
    for (int run = 0; run < 8 && low < high; run++) {
        struct acre__place_options options = {.capacity = low + (high - low) / 2,
                                              .budget = budget / 8};
        assert_int_equal(acre__place(buffers, count, &options, &result), 0);
        high = result.bytes < high ? result.bytes : high;
        low = result.is_fitting ? low : options.capacity + 1;
    }
    return high;
}

TEST(place_least_plans_are_no_larger_than_by_bisecting) {
    enum { BUDGET = 100000 };
    static struct acre__place_buffer buffers[COUNT];
    /* With seed 11, searching all heights in turn gives worse plans. */
    for (uint64_t seed = 11; seed < 11 + (uint64_t)ROUNDS(3, 1); seed++) {
        struct acre__place_options quick = {.budget = 2000}, options = {.budget = BUDGET};
        uint64_t random = seed;
        place_problem_packed(buffers, COUNT, seed);
        for (size_t i = 0; i < COUNT; i++) {
            uint64_t size = buffers[i].size;
            buffers[i].size = size + place_problem_random_number(&random) % (size / 16 + 1);
            buffers[i].align = 1;
        }
        plan(buffers, COUNT, &quick);
        for (size_t i = 0; i < COUNT; i++)
            buffers[i].is_fixed = place_problem_random_number(&random) % 10 == 0;
        assert_true(plan(buffers, COUNT, &options) <= bisect(buffers, COUNT, BUDGET));
    }
}

TEST(place_cut_rectangles_are_put_together_again) {
    enum { MOST = 400 };
    static struct acre__place_buffer buffers[MOST];
    for (size_t count = 10; count <= (size_t)ROUNDS(MOST, 100); count += 30) {
        struct acre__place_options options = {.capacity = PLACE_PACKED_BYTES};
        place_problem_packed(buffers, count, count);
        assert_int_equal(acre__place_lower_bound(buffers, count), PLACE_PACKED_BYTES);
        assert_int_equal(plan(buffers, count, &options), PLACE_PACKED_BYTES);
    }
}

/* Returns the FNV-1a hash of all offsets. */
static uint64_t checksum(const struct acre__place_buffer *buffers, size_t count) {
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < 64; k += 8)
            sum = (sum ^ (buffers[i].offset >> k & 0xff)) * 0x100000001b3u;
    }
    return sum;
}

/* Compares plans with recorded checksums. A compiler, optimisation or machine that yields another
 * plan fails here. An intended change of the placer must update the checksums. */
TEST(place_plans_are_the_same_everywhere) {
    enum { MOST = 6000 };
    static const struct {
        size_t count;
        uint64_t align, seed, budget, sum;
    } known[] = {
        {20, 1, 1, 0, 0x9ebee73115c511bc},       {60, 256, 2, 20000, 0x8eaf4707b09cab31},
        {150, 1, 3, 20000, 0x1508174daf4d58e1},  {150, 512, 4, 20000, 0xceb99d915ea7452f},
        {700, 64, 5, 30000, 0xadc649e4fddb5e4c}, {6000, 256, 6, 30000, 0xf6debdb3b5f62f09},
    };
    static struct acre__place_buffer buffers[MOST];
    int is_same = 1;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct acre__place_options options = {.budget = known[i].budget};
        place_problem_random(buffers, known[i].count, known[i].align, known[i].seed);
        plan(buffers, known[i].count, &options);
        uint64_t sum = checksum(buffers, known[i].count);
        printf("random %zu: 0x%016llx\n", known[i].count, (unsigned long long)sum);
        is_same &= sum == known[i].sum;
    }
    static const uint64_t packed[] = {0x6bf0cf9cf58588a9, 0x62b36a3e97614060, 0xd445d62eb51f2d42};
    for (uint64_t i = 0; i < 3; i++) {
        struct acre__place_options options = {.capacity = PLACE_PACKED_BYTES};
        place_problem_packed(buffers, 100 + 50 * i, i);
        plan(buffers, 100 + 50 * i, &options);
        uint64_t sum = checksum(buffers, 100 + 50 * i);
        printf("packed %llu: 0x%016llx\n", (unsigned long long)i, (unsigned long long)sum);
        is_same &= sum == packed[i];
    }
    assert_true(is_same);
}

int main(void) {
    return tests_run("place_exhaustive");
}
