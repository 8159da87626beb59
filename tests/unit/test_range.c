/* Address ranges of a device: areas, ranges within them, and reuse of released ranges. */
#include <pthread.h>

#include "space_fixture.h"

static acre_device *dev;
static size_t unit;
static uint64_t whole;
static struct space_table other;

static int range_setup(void **state) {
    (void)state;
    setenv("ACRE_ADDRESS_BYTES", "32MiB", 1); /* 16 units */
    dev = space_open_soft(64 * MIB, 1, 0);
    unit = acre__chunk_unit(dev, 0);
    whole = space_free_bytes(dev);
    return 0;
}

static int range_teardown(void **state) {
    (void)state;
    unsetenv("ACRE_ADDRESS_BYTES");
    space_close_empty(dev, whole);
    return 0;
}

static void expect_counts(uint64_t reserved_units, uint64_t taken_units) {
    uint64_t reserved, taken;
    acre__range_count(dev, &reserved, &taken);
    assert_int_equal(reserved, reserved_units * unit);
    assert_int_equal(taken, taken_units * unit);
    assert_int_equal(api_stats(dev).address_bytes, reserved);
}

static struct acre__range take_aligned(size_t units, size_t alignment_units) {
    struct acre__range range;
    api_ok(acre__range_take(dev, units * unit, alignment_units * unit, &range));
    assert_int_equal(range.bytes, units * unit);
    assert_true(range.at != 0);
    assert_int_equal(range.at % (alignment_units * unit), 0);
    return range;
}

static struct acre__range take(size_t units) {
    return take_aligned(units, 1);
}

static void give(const struct acre__range *range) {
    acre__range_give(dev, range->at, range->bytes);
}

#define RANGE_TEST(name) TEST_WITH(name, range_setup, range_teardown)

/* ---- areas ---- */

RANGE_TEST(range_first_one_reserves_an_area) {
    expect_counts(0, 0);
    struct acre__range a = take(3), b = take(2);
    expect_counts(16, 5);
    assert_int_equal(b.at, a.at + 3 * unit); /* side by side */
    give(&a);
    expect_counts(16, 2);
    acre__range_trim(dev);
    expect_counts(16, 2); /* a range of it is still in use */
    give(&b);
    expect_counts(16, 0);
    acre__range_trim(dev);
    expect_counts(0, 0);
}

RANGE_TEST(range_by_default_is_eight_times_the_device) {
    unsetenv("ACRE_ADDRESS_BYTES");
    struct acre__range a = take(1);
    expect_counts(8 * 32, 1);
    give(&a);
}

RANGE_TEST(range_full_area_is_followed_by_another) {
    struct acre__range a = take(10), b = take(10), c = take(6), d = take(6), e = take(1);
    expect_counts(3 * 16, 33);
    /* Both ranges come from the ends of the first two areas. */
    assert_true(c.at == a.at + 10 * unit || c.at == b.at + 10 * unit);
    assert_true(d.at == a.at + 10 * unit || d.at == b.at + 10 * unit);
    assert_true(c.at != d.at);
    give(&b);
    give(&c);
    give(&d);
    acre__range_trim(dev);
    expect_counts(2 * 16, 11); /* one of the three areas is released */
    give(&a);
    give(&e);
}

RANGE_TEST(range_larger_than_an_area_gets_one_of_its_size) {
    struct acre__range a = take(40), b = take(1);
    expect_counts(40 + 16, 41);
    give(&a);
    give(&b);
}

/* Two areas may be adjacent, but a range never spans both. */
RANGE_TEST(range_does_not_cross_from_one_area_to_the_next) {
    struct acre__range a = take(16), b = take(12), c = take(16);
    assert_int_equal(acre__range_extend(dev, &a, 17 * unit), 0);
    assert_int_equal(a.bytes, 16 * unit);
    give(&b);
    assert_int_equal(acre__range_extend(dev, &a, 17 * unit), 0);
    give(&a);
    b = take(20); /* larger than an area, whatever lies beside it */
    expect_counts(3 * 16 + 20, 36);
    give(&b);
    give(&c);
}

static size_t reservable; /* most bytes of one reservation */

static CUresult reserve_little(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr hint,
                               unsigned long long flags) {
    if (bytes > reservable)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return other.real->cuMemAddressReserve(at, bytes, alignment, hint, flags);
}

RANGE_TEST(range_area_is_halved_while_it_cannot_be_had) {
    space_table_begin(&other, dev);
    other.table.cuMemAddressReserve = reserve_little;
    reservable = 5 * unit;
    struct acre__range a = take(3), b, none = {1, 1};
    expect_counts(4, 3); /* tried: 16, 8, 4 */
    b = take(5);         /* tried: 16, 8, then exactly the request */
    expect_counts(9, 8);
    api_expect(acre__range_take(dev, 6 * unit, unit, &none), ACRE_E_ADDRESS_SPACE);
    assert_int_equal(none.at + none.bytes, 0);
    char wanted[32];
    snprintf(wanted, sizeof wanted, "%zu bytes", 6 * unit);
    assert_non_null(strstr(acre_last_detail(), wanted));
    expect_counts(9, 8);
    give(&a);
    give(&b);
    space_table_end(&other, dev);
}

RANGE_TEST(range_with_a_wrong_setting_is_refused) {
    struct acre__range range = {1, 1};
    setenv("ACRE_ADDRESS_BYTES", "lots", 1);
    api_expect(acre__range_take(dev, unit, unit, &range), ACRE_E_CONFIG);
    assert_int_equal(range.at + range.bytes, 0);
    setenv("ACRE_ADDRESS_BYTES", "1", 1); /* a setting below the request is valid */
    range = take(1);
    expect_counts(1, 1);
    give(&range);
}

static CUresult free_refused(CUdeviceptr at, size_t bytes) {
    (void)at, (void)bytes;
    return CUDA_ERROR_UNKNOWN;
}

RANGE_TEST(range_area_that_the_driver_keeps_waits_in_limbo) {
    struct acre__range range = take(1);
    give(&range);
    space_table_begin(&other, dev);
    other.table.cuMemAddressFree = free_refused;
    api_expect(acre_trim(dev), ACRE_E_DRIVER);
    space_table_end(&other, dev);
    expect_counts(0, 0);
    assert_int_equal(api_stats(dev).limbo_count, 1);
    api_ok(acre_trim(dev));
    assert_int_equal(api_stats(dev).limbo_count, 0);
}

/* ---- parts ---- */

RANGE_TEST(range_alignment_leaves_the_gap_to_others) {
    setenv("ACRE_ADDRESS_BYTES", "128MiB", 1);
    struct acre__range a = take_aligned(1, 8), b = take_aligned(2, 8), c = take(7);
    assert_int_equal(b.at, a.at + 8 * unit);
    assert_int_equal(c.at, a.at + unit); /* in between */
    struct acre__range d = take_aligned(1, 32);
    expect_counts(64, 11);
    give(&a);
    give(&b);
    give(&c);
    give(&d);
}

RANGE_TEST(range_parts_given_back_in_any_order_are_one_again) {
    for (unsigned order = 0; order < 24; order++) {
        struct acre__range parts[4];
        for (size_t i = 0; i < 4; i++)
            parts[i] = take(4);
        expect_counts(16, 16);
        unsigned left = 4, code = order;
        for (; left > 0; left--) { /* the order-th permutation */
            unsigned i = code % left;
            code /= left;
            give(&parts[i]);
            parts[i] = parts[left - 1];
        }
        struct acre__range all = take(16);
        expect_counts(16, 16); /* and no second area */
        give(&all);
    }
}

RANGE_TEST(range_part_of_what_was_taken_can_be_given_back) {
    struct acre__range a = take(16), b, c;
    acre__range_give(dev, a.at + 12 * unit, 4 * unit);
    acre__range_give(dev, a.at + 5 * unit, 2 * unit);
    acre__range_give(dev, a.at, 0); /* a no-op */
    expect_counts(16, 10);
    b = take(2);
    c = take(4);
    assert_int_equal(b.at, a.at + 5 * unit);
    assert_int_equal(c.at, a.at + 12 * unit);
    expect_counts(16, 16);
    acre__range_give(dev, a.at, 16 * unit);
    expect_counts(16, 0);
}

RANGE_TEST(range_extends_while_the_next_addresses_are_free) {
    struct acre__range a = take(2), b = take(2);
    assert_int_equal(acre__range_extend(dev, &a, 3 * unit), 0);
    assert_int_equal(a.bytes, 2 * unit);
    assert_int_equal(acre__range_extend(dev, &a, 2 * unit), 1); /* a no-op: it has them */
    assert_int_equal(acre__range_extend(dev, &a, unit), 1);
    assert_int_equal(a.bytes, 2 * unit);
    expect_counts(16, 4);
    assert_int_equal(acre__range_extend(dev, &b, 14 * unit), 1);
    assert_int_equal(b.bytes, 14 * unit);
    expect_counts(16, 16);
    assert_int_equal(acre__range_extend(dev, &b, 15 * unit), 0); /* the area ends */
    acre__range_give(dev, b.at, 4 * unit);
    assert_int_equal(acre__range_extend(dev, &a, 7 * unit), 0);
    assert_int_equal(acre__range_extend(dev, &a, 6 * unit), 1);
    expect_counts(16, 16);
    give(&a);
    acre__range_give(dev, b.at + 4 * unit, 10 * unit);
}

/* ---- at random, and by threads ---- */

enum { HELD = 40, STEPS = 20000 };

/* Held ranges never overlap, the counter equals the sum of their bytes, and extending a range does
 * not move it. */
RANGE_TEST(range_random_parts_are_apart) {
    uint64_t random = random_seed("random");
    struct acre__range held[HELD] = {{0}};
    uint64_t sum = 0;
    for (int step = 0; step < STEPS; step++) {
        struct acre__range *r = &held[random_draw(&random, HELD)];
        uint64_t units = 1 + random_draw(&random, 6), what = random_draw(&random, 8);
        if (!r->bytes) {
            *r = take_aligned(units, (size_t)1 << random_draw(&random, 4));
            sum += r->bytes;
        } else if (what < 3) {
            give(r);
            sum -= r->bytes;
            *r = (struct acre__range){0};
        } else if (what < 5 && r->bytes > unit) {
            size_t cut = unit * random_draw(&random, r->bytes / unit);
            acre__range_give(dev, r->at + r->bytes - cut, cut);
            r->bytes -= cut;
            sum -= cut;
        } else if (what < 7) {
            size_t before = r->bytes;
            uint64_t at = r->at;
            int is_longer = acre__range_extend(dev, r, before + units * unit);
            assert_int_equal(r->at, at);
            assert_int_equal(r->bytes, is_longer ? before + units * unit : before);
            sum += r->bytes - before;
        } else {
            acre__range_trim(dev);
        }
        for (int i = 0; r->bytes && i < HELD; i++)
            if (&held[i] != r && held[i].bytes && held[i].at < r->at + r->bytes &&
                r->at < held[i].at + held[i].bytes)
                fail_msg("two ranges share addresses after step %d", step);
        uint64_t reserved, taken;
        acre__range_count(dev, &reserved, &taken);
        assert_int_equal(taken, sum);
        assert_true(reserved >= taken);
    }
    for (int i = 0; i < HELD; i++)
        give(&held[i]);
    expect_counts(api_stats(dev).address_bytes / unit, 0);
}

enum { THREADS = 4 };

struct walker {
    uint64_t random;
    int is_wrong;
};

static void *take_and_give(void *argument) {
    struct walker *me = argument;
    for (int i = 0; i < 500; i++) {
        struct acre__range range;
        size_t bytes = (1 + random_draw(&me->random, 10)) * unit;
        if (acre__range_take(dev, bytes, unit, &range) != ACRE_OK) {
            me->is_wrong = 1;
            return NULL;
        }
        (void)acre__range_extend(dev, &range, bytes + unit);
        if (i % 16 == 0)
            acre__range_trim(dev);
        give(&range);
    }
    return NULL;
}

RANGE_TEST(range_threads_together_take_and_give) {
    uint64_t seed = random_seed("threads");
    pthread_t threads[THREADS];
    struct walker walkers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        walkers[i] = (struct walker){.random = random_draw(&seed, UINT64_MAX)};
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &walkers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(walkers[i].is_wrong, 0);
    acre__range_trim(dev);
    expect_counts(0, 0);
}

int main(void) {
    return tests_run("range");
}
