/* The placer's interface: invalid input, the guarantees of every plan, fixed buffers, alignment,
 * the lower bound, and acre__place_verify itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/cases.h"
#include "plan/place.h"
#include "plan/place_tree.h"
#include "support/rounds.h"
#include "support/random.h"

static uint64_t random_state;

static struct acre__place_buffer buffer(uint64_t size, int64_t lower, int64_t upper) {
    return (struct acre__place_buffer){.size = size, .lower = lower, .upper = upper};
}

static struct acre__place_buffer fixed(uint64_t size, int64_t lower, int64_t upper,
                                       uint64_t offset) {
    return (struct acre__place_buffer){
        .size = size, .lower = lower, .upper = upper, .offset = offset, .is_fixed = 1};
}

static struct acre__place_result place(struct acre__place_buffer *buffers, size_t count,
                                       uint64_t capacity) {
    /* This budget solves small problems; the larger ones here only check that plans are valid. */
    struct acre__place_options options = {.capacity = capacity, .budget = 5000};
    struct acre__place_result result;
    size_t first, second;
    assert_int_equal(acre__place(buffers, count, &options, &result), 0);
    assert_int_equal(result.is_refused, capacity && capacity < result.lower_bound);
    if (!result.is_refused)
        assert_int_equal(acre__place_verify(buffers, count, result.bytes, &first, &second), 0);
    assert_int_equal(result.lower_bound, acre__place_lower_bound(buffers, count));
    assert_true(result.bytes >= result.lower_bound);
    assert_int_equal(result.is_fitting, capacity == 0 || result.bytes <= capacity);
    if (result.bytes == result.lower_bound)
        assert_int_equal(result.is_optimal, !result.is_refused);
    return result;
}

/* ---- bad input ---- */

static void check_refused(struct acre__place_buffer bad, int rc) {
    struct acre__place_buffer buffers[] = {buffer(8, 0, 2), bad, buffer(8, 1, 3)};
    struct acre__place_result result = {.bytes = 77};
    buffers[0].offset = 111;
    buffers[2].offset = 222;
    assert_int_equal(acre__place(buffers, 3, NULL, &result), rc);
    assert_int_equal(buffers[0].offset, 111);
    assert_int_equal(buffers[1].offset, bad.offset);
    assert_int_equal(buffers[2].offset, 222);
    assert_int_equal(result.bytes, 77);
    assert_int_equal(acre__place_lower_bound(buffers, 3), 0);
}

TEST(place_bad_buffer_is_refused_and_nothing_changed) {
    check_refused(buffer(0, 0, 1), -EINVAL);
    check_refused(buffer(1, 1, 1), -EINVAL);
    check_refused(buffer(1, 2, 1), -EINVAL);
    check_refused(buffer(1, INT64_MAX, INT64_MIN), -EINVAL);
    struct acre__place_buffer bad = buffer(1, 0, 1);
    bad.align = 3;
    check_refused(bad, -EINVAL);
    bad = fixed(1, 0, 1, 4);
    bad.align = 8;
    check_refused(bad, -EINVAL);
    check_refused(buffer(UINT64_MAX, 0, 1), -EOVERFLOW);
    check_refused(buffer((UINT64_C(1) << 62) - 1, 0, 1), -EOVERFLOW);
    check_refused(fixed(1, 0, 1, UINT64_MAX), -EOVERFLOW);
    bad = buffer(1, 0, 1);
    bad.align = UINT64_C(1) << 63;
    check_refused(bad, -EOVERFLOW);
}

TEST(place_fixed_buffers_that_overlap_are_refused) {
    struct acre__place_result result;
    struct acre__place_buffer buffers[] = {fixed(8, 0, 2, 0), buffer(8, 0, 1), fixed(8, 1, 3, 7)};
    assert_int_equal(acre__place(buffers, 3, NULL, &result), -EINVAL);
    buffers[2].offset = 8;
    assert_int_equal(acre__place(buffers, 3, NULL, &result), 0);
    buffers[2] = fixed(8, 2, 3, 7); /* no overlap in time */
    assert_int_equal(acre__place(buffers, 3, NULL, &result), 0);
}

/* ---- small plans ---- */

TEST(place_nothing_needs_nothing) {
    struct acre__place_result result = {.bytes = 1};
    assert_int_equal(acre__place(NULL, 0, NULL, &result), 0);
    assert_int_equal(result.bytes, 0);
    assert_int_equal(result.lower_bound, 0);
    assert_true(result.is_optimal);
    assert_true(result.is_fitting);
    assert_int_equal(acre__place_lower_bound(NULL, 0), 0);
}

TEST(place_one_buffer_lies_at_the_bottom) {
    struct acre__place_buffer one = buffer(100, INT64_MIN, INT64_MAX);
    one.align = 4096;
    one.offset = 5;
    struct acre__place_result result = place(&one, 1, 0);
    assert_int_equal(one.offset, 0);
    assert_int_equal(result.bytes, 100);
    assert_true(result.is_optimal);
}

TEST(place_lives_that_only_touch_share_their_bytes) {
    struct acre__place_buffer buffers[] = {buffer(5, 0, 1), buffer(7, 1, 2), buffer(6, 2, 9),
                                           buffer(3, -4, 0)};
    assert_int_equal(place(buffers, 4, 0).bytes, 7);
}

TEST(place_alignment_is_honoured_and_counted) {
    struct acre__place_buffer buffers[] = {buffer(100, 0, 2), buffer(300, 0, 2), buffer(1, 0, 2)};
    for (int i = 0; i < 3; i++)
        buffers[i].align = 256;
    /* 256 + 512 + 1: the buffer with the most padding lies on top. */
    assert_int_equal(acre__place_lower_bound(buffers, 3), 256 + 512 + 256 - 255);
    struct acre__place_result result = place(buffers, 3, 0);
    assert_true(result.bytes <= 256 + 512 + 256);
}

/* Three live buffers at multiples of 256 take 256 bytes each, except the topmost, even though an
 * unaligned buffer fits between them. */
TEST(place_bound_knows_mixed_alignments) {
    struct acre__place_buffer buffers[] = {buffer(10, 0, 3), buffer(20, 1, 3), buffer(30, 2, 5),
                                           buffer(100, 0, 3), buffer(300, 4, 5)};
    for (int i = 0; i < 3; i++)
        buffers[i].align = 256;
    assert_int_equal(acre__place_lower_bound(buffers, 5), 512 + 10);
    struct acre__place_result result = place(buffers, 5, 0);
    assert_int_equal(result.bytes, 512 + 10);
    assert_true(result.is_optimal);
    /* A fixed buffer at a multiple of 256 counts too. */
    buffers[1] = fixed(20, 1, 3, 256);
    assert_int_equal(acre__place_lower_bound(buffers, 5), 512 + 10);
    buffers[1].offset = 128;
    assert_int_equal(acre__place_lower_bound(buffers, 5), 330);
}

TEST(place_fixed_buffers_stay_and_the_others_go_around) {
    struct acre__place_buffer buffers[] = {fixed(10, 0, 9, 0),  buffer(10, 0, 5),
                                           buffer(10, 4, 9),    fixed(5, 2, 3, 30),
                                           fixed(10, 5, 7, 15), buffer(3, 0, 9)};
    struct acre__place_result result = place(buffers, 6, 0);
    assert_int_equal(buffers[0].offset, 0);
    assert_int_equal(buffers[3].offset, 30);
    assert_int_equal(buffers[4].offset, 15);
    assert_int_equal(result.bytes, 35);
    assert_true(result.is_optimal);
}

TEST(place_capacity_says_whether_it_fits) {
    struct acre__place_buffer buffers[] = {buffer(10, 0, 2), buffer(10, 1, 3)};
    assert_true(place(buffers, 2, 20).is_fitting);
    assert_false(place(buffers, 2, 19).is_fitting);
    assert_true(place(buffers, 2, 1000).is_fitting);
}

/* ---- acre__place_verify ---- */

TEST(place_tree_agrees_with_an_array) {
    enum { SECTIONS = 37 };
    random_state = random_seed("tree");
    for (int round = 0; round < ROUNDS(300, 30); round++) {
        struct place_tree tree;
        uint64_t array[SECTIONS] = {0};
        assert_int_equal(acre__place_tree_create(&tree, SECTIONS), 0);
        for (int step = 0; step < 60; step++) {
            size_t first = random_next(&random_state) % SECTIONS;
            size_t end = first + 1 + random_next(&random_state) % (SECTIONS - first);
            uint64_t value = random_next(&random_state) % 100, most = 0;
            for (size_t i = first; i < end; i++)
                most = array[i] > most ? array[i] : most;
            assert_int_equal(acre__place_tree_most(&tree, first, end), most);
            acre__place_tree_raise(&tree, first, end, value);
            for (size_t i = first; i < end; i++)
                array[i] = array[i] > value ? array[i] : value;
        }
        acre__place_tree_destroy(&tree);
    }
}

static void check_wrong(const struct acre__place_buffer *buffers, size_t count, uint64_t capacity,
                        size_t first, size_t second) {
    size_t one = 99, two = 99;
    assert_int_equal(acre__place_verify(buffers, count, capacity, &one, &two), -1);
    assert_int_equal(one, first);
    assert_int_equal(two, second);
    assert_int_equal(acre__place_verify(buffers, count, capacity, NULL, NULL), -1);
}

TEST(place_verify_names_the_buffers_that_are_wrong) {
    struct acre__place_buffer good[] = {buffer(8, 0, 4), buffer(8, 2, 6), buffer(8, 4, 8)};
    good[1].offset = 8;
    assert_int_equal(acre__place_verify(good, 3, 16, NULL, NULL), 0);
    assert_int_equal(acre__place_verify(good, 3, 0, NULL, NULL), 0);
    assert_int_equal(acre__place_verify(NULL, 0, 0, NULL, NULL), 0);
    check_wrong(good, 3, 15, 1, 1);

    struct acre__place_buffer bad[3];
    memcpy(bad, good, sizeof bad);
    bad[1].offset = 7;
    check_wrong(bad, 3, 0, 0, 1);
    bad[0].upper = 2;
    check_wrong(bad, 3, 0, 1, 2);
    bad[2].align = 16;
    bad[2].offset = 24;
    check_wrong(bad, 3, 0, 2, 2);
    bad[2].offset = UINT64_MAX & ~UINT64_C(15);
    bad[2].size = 32;
    check_wrong(bad, 3, 0, 2, 2);
    memcpy(bad, good, sizeof bad);
    bad[1].size = 0;
    check_wrong(bad, 3, 0, 1, 1);
    bad[1] = bad[0]; /* the same offset */
    check_wrong(bad, 3, 0, 0, 1);
}

TEST(place_verify_agrees_with_a_look_at_every_pair) {
    random_state = random_seed("place");
    enum { COUNT = 12 };
    for (int round = 0; round < ROUNDS(20000, 2000); round++) {
        struct acre__place_buffer buffers[COUNT];
        int is_wrong = 0;
        for (int i = 0; i < COUNT; i++) {
            int64_t lower = (int64_t)(random_next(&random_state) % 20);
            buffers[i] = buffer(1 + random_next(&random_state) % 4, lower,
                                lower + 1 + (int64_t)(random_next(&random_state) % 6));
            buffers[i].offset = random_next(&random_state) % 40;
            for (int k = 0; k < i; k++) {
                const struct acre__place_buffer *a = &buffers[i], *b = &buffers[k];
                is_wrong |= a->lower < b->upper && b->lower < a->upper &&
                            a->offset < b->offset + b->size && b->offset < a->offset + a->size;
            }
        }
        assert_int_equal(acre__place_verify(buffers, COUNT, 0, NULL, NULL), is_wrong ? -1 : 0);
    }
}

/* ---- random plans ---- */

enum { MOST = 300 };

static size_t random_problem(struct acre__place_buffer *buffers) {
    static const uint64_t aligns[] = {0, 1, 2, 8, 256, 4096};
    size_t count = 1 + random_next(&random_state) % MOST;
    int64_t span = 1 + (int64_t)(random_next(&random_state) % 200),
            life = 1 + (int64_t)(random_next(&random_state) % 60);
    uint64_t kinds = random_next(&random_state) % 3, most = 1 + random_next(&random_state) % 5000;
    for (size_t i = 0; i < count; i++) {
        int64_t lower = (int64_t)(random_next(&random_state) % (uint64_t)span);
        buffers[i] = buffer(1 + random_next(&random_state) % most, lower,
                            lower + 1 + (int64_t)(random_next(&random_state) % (uint64_t)life));
        if (random_next(&random_state) % 16 == 0) {
            buffers[i].lower = 0;
            buffers[i].upper = span + life;
        }
        buffers[i].align = kinds == 0   ? 1
                           : kinds == 1 ? 256
                                        : aligns[random_next(&random_state) % 6];
    }
    return count;
}

/* Fixes some buffers of a plan at their offsets and places all of them again. */
static void check_with_fixed(struct acre__place_buffer *buffers, size_t count) {
    uint64_t kept[MOST];
    for (size_t i = 0; i < count; i++) {
        buffers[i].is_fixed = random_next(&random_state) % 8 == 0;
        kept[i] = buffers[i].offset;
    }
    place(buffers, count, 0);
    for (size_t i = 0; i < count; i++)
        assert_true(!buffers[i].is_fixed || buffers[i].offset == kept[i]);
}

TEST(place_random_plans_are_right) {
    random_state = random_seed("place");
    static struct acre__place_buffer buffers[MOST], again[MOST];
    for (int round = 0; round < ROUNDS(300, 30); round++) {
        size_t count = random_problem(buffers);
        memcpy(again, buffers, sizeof again);
        place(buffers, count, 0);
        place(again, count, 0);
        assert_memory_equal(buffers, again, count * sizeof *buffers);
        check_with_fixed(buffers, count);
    }
}

TEST(place_stopped_before_it_began_still_gives_a_plan) {
    random_state = random_seed("place");
    static struct acre__place_buffer buffers[MOST];
    atomic_int stop = 1;
    struct acre__place_options options = {.stop = &stop};
    for (int round = 0; round < ROUNDS(50, 5); round++) {
        size_t count = random_problem(buffers);
        struct acre__place_result result;
        assert_int_equal(acre__place(buffers, count, &options, &result), 0);
        assert_int_equal(acre__place_verify(buffers, count, result.bytes, NULL, NULL), 0);
    }
}

int main(void) {
    return tests_run("place");
}
