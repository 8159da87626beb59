/* The arena that a pool places its blocks in: pieces tile their regions, holes belong to what they
 * wait for, the same calls find the same places, and pieces apart can be given back. Random
 * operations are checked against the records' invariants (the seed is printed; ACRE_TEST_SEED takes
 * one back). */
#include "pool/pool_arena.h"
#include "space_fixture.h"

enum { OWNERS = 3, PIECES = 400 };

#define DEVICE_BYTES ((uint64_t)8 << 30)

static acre_device *dev;
static uint64_t whole;
static struct acre__arena arena;
static struct acre__holes owners[OWNERS];

static int arena_setup(void **state) {
    (void)state;
    setenv("ACRE_CHUNK_CACHE_BYTES", "0", 1); /* what is given back is free */
    dev = space_open_soft(DEVICE_BYTES, 1, 0);
    whole = space_free_bytes(dev);
    memset(owners, 0, sizeof owners);
    acre__arena_open(&arena, dev, ACRE_KIND_DEVICE, 4 * MIB, 256, DEVICE_BYTES, 1 << 16);
    return 0;
}

static int arena_teardown(void **state) {
    (void)state;
    acre__arena_end(&arena);
    unsetenv("ACRE_CHUNK_CACHE_BYTES");
    space_close_empty(dev, whole);
    return 0;
}

static void expect_truth(void) {
    const char *fault = acre__arena_fault(&arena);
    if (fault)
        fail_msg("%s", fault);
    for (unsigned i = 0; i < OWNERS; i++)
        if (owners[i].ghosts) /* chunks may be held by the old place alone */
            return;
    assert_int_equal(whole - space_free_bytes(dev), arena.held);
}

/* A piece out of what is there, or new. */
static struct acre__piece *take(struct acre__holes *own, size_t bytes, size_t alignment) {
    struct acre__piece *piece;
    api_ok(acre__arena_take(&arena, own, bytes, alignment, &piece));
    if (!piece)
        api_ok(acre__arena_take_new(&arena, own, bytes, alignment, &piece));
    assert_non_null(piece);
    assert_int_equal(piece->at % alignment, 0);
    assert_true(piece->bytes >= bytes);
    return piece;
}

static void pieces_of_any_size_touch(void **state) {
    (void)state;
    struct acre__piece *a = take(NULL, 3 * MIB + 1, 256), *b = take(NULL, 5 * MIB, 256);
    assert_int_equal(a->bytes, 3 * MIB + 256);
    assert_int_equal(b->at, acre__piece_end(a));
    assert_int_equal(arena.taken, 8 * MIB + 256);
    expect_truth();
    acre__arena_give(a, &arena.ready);
    acre__arena_give(b, &arena.ready);
    expect_truth();
    assert_int_equal(arena.taken, 0);
    assert_int_equal(arena.ready.bytes, arena.held);
}

static void holes_are_their_owners(void **state) {
    (void)state;
    struct acre__piece *a = take(&owners[0], 3 * MIB, 256), *b;
    take(NULL, 2 * MIB, 256); /* so that the hole is not the last one */
    uint64_t at = a->at;
    acre__arena_give(a, &owners[0]);
    api_ok(acre__arena_take(&arena, &owners[1], 3 * MIB, 256, &b));
    assert_true(!b || b->at != at); /* it may fit at the end */
    api_ok(acre__arena_take(&arena, &owners[0], 3 * MIB, 256, &a));
    assert_int_equal(a->at, at);
    acre__arena_give(a, &owners[0]);
    acre__arena_ready(&arena, &owners[0]);
    api_ok(acre__arena_take(&arena, &owners[1], 3 * MIB, 256, &b));
    assert_int_equal(b->at, at);
    expect_truth();
}

static void neighbours_that_wait_for_others_stay_apart(void **state) {
    (void)state;
    struct acre__piece *a = take(NULL, 2 * MIB, 256), *b = take(NULL, 2 * MIB, 256), *c;
    take(NULL, 2 * MIB, 256);
    uint64_t at = a->at;
    acre__arena_give(a, &owners[0]);
    acre__arena_give(b, &owners[1]);
    api_ok(acre__arena_take(&arena, &owners[0], 4 * MIB, 256, &c));
    assert_true(!c || c->at != at);
    acre__arena_ready(&arena, &owners[1]); /* nobody's now: the first owner's hole may reach over */
    api_ok(acre__arena_take(&arena, &owners[0], 2 * MIB, 256, &c));
    assert_int_equal(c->at, at);
    acre__arena_give(c, &owners[0]);
    api_ok(acre__arena_take(&arena, &owners[0], 4 * MIB, 256, &c));
    assert_int_equal(c->at, at);
    expect_truth();
}

static void far_alignments_are_kept(void **state) {
    (void)state;
    for (size_t alignment = 512; alignment <= ((size_t)1 << 30); alignment *= 4) {
        take(NULL, MIB + 256, 256);
        take(NULL, 1 << 16, alignment);
        expect_truth();
    }
}

static void pieces_grow_and_shrink_in_place(void **state) {
    (void)state;
    struct acre__piece *a = take(&owners[0], 2 * MIB, 256), *b = take(&owners[0], 4 * MIB, 256);
    assert_int_equal(acre__arena_extend(a, &owners[0], 3 * MIB), 0);
    acre__arena_give(b, &owners[0]);
    assert_int_equal(acre__arena_extend(a, &owners[1], 3 * MIB), 0); /* another's hole */
    assert_int_equal(acre__arena_extend(a, &owners[0], 3 * MIB), 1);
    assert_int_equal(a->bytes, 3 * MIB);
    expect_truth();
    acre__arena_cut(a, &owners[0], 1 * MIB);
    assert_int_equal(a->bytes, 1 * MIB);
    assert_int_equal(arena.taken, 1 * MIB);
    expect_truth();
}

static void pieces_grow_by_new_memory_behind_them(void **state) {
    (void)state;
    struct acre__piece *a = take(&owners[0], 3 * MIB, 256);
    uint64_t at = a->at;
    api_ok(acre__arena_extend_new(a, &owners[0], 200 * MIB));
    assert_int_equal(a->at, at);
    assert_int_equal(a->bytes, 200 * MIB);
    expect_truth();
    take(&owners[0], 3 * MIB, 256);
    assert_int_equal(acre__arena_extend_new(a, &owners[0], 300 * MIB), ACRE_E_INTERIOR);
    expect_truth();
}

/* The contents come along, nothing is copied, and the old place is good until its owner is done. */
static void pieces_with_their_own_chunks_move(void **state) {
    (void)state;
    struct acre__piece *a, *b;
    api_ok(acre__arena_take_own(&arena, 79 * MIB, &a));
    assert_int_equal(a->bytes, 80 * MIB);
    take(NULL, 3 * MIB, 256); /* in the way */
    uint64_t before = a->at, made = arena.made;
    space_write(dev, before, 111);
    space_write(dev, before + 80 * MIB - 8, 222);
    api_ok(acre__arena_move(a, &owners[0], 120 * MIB, &b));
    assert_non_null(b);
    assert_true(b->at != before);
    assert_int_equal(arena.made, made + 1);
    assert_int_equal(arena.moved, 1);
    assert_int_equal(space_read(dev, b->at), 111);
    assert_int_equal(space_read(dev, b->at + 80 * MIB - 8), 222);
    space_write(dev, before, 333); /* work that was queued before */
    assert_int_equal(space_read(dev, b->at), 333);
    expect_truth();
    acre__arena_ready(&arena, &owners[0]);
    assert_int_equal(space_access_at(dev, before, 0), -1);
    assert_int_equal(space_read(dev, b->at), 333);
    expect_truth();
    struct acre__piece *c = take(NULL, 5 * MIB, 256), *d;
    take(NULL, MIB, 256);
    api_ok(acre__arena_move(c, &owners[0], 9 * MIB, &d)); /* it shares its chunk */
    assert_null(d);
    expect_truth();
}

static void memory_ahead_serves_without_the_driver(void **state) {
    (void)state;
    api_ok(acre__arena_grow_ahead(&arena, 3 * ((uint64_t)1 << 30) / 2));
    uint64_t made = arena.made;
    take(NULL, (size_t)1 << 30, 256);
    take(NULL, 100 * MIB, 256);
    assert_int_equal(arena.made, made);
    uint64_t held = arena.held;
    acre_status status = acre__arena_grow_ahead(&arena, 2 * DEVICE_BYTES);
    assert_true(status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_ADDRESS_SPACE);
    assert_int_equal(arena.held, held);
    expect_truth();
}

/* ---- the same calls ---- */

static uint64_t draw(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Takes and gives at random and in the end gives all; the sum of the addresses in a mix. */
static uint64_t play(uint64_t seed, unsigned count) {
    struct acre__piece *taken[40] = {0};
    uint64_t mix = 0;
    for (unsigned i = 0; i < count; i++) {
        struct acre__piece **at = &taken[draw(&seed) % 40];
        if (*at)
            acre__arena_give(*at, &owners[0]);
        *at = take(&owners[0], (size_t)(MIB + draw(&seed) % (4 * MIB)), 256);
        mix = mix * 31 + ((*at)->at - arena.regions->range.at);
    }
    for (unsigned i = 0; i < 40; i++)
        if (taken[i])
            acre__arena_give(taken[i], &owners[0]);
    return mix;
}

static void the_same_calls_find_the_same_places(void **state) {
    (void)state;
    uint64_t first = play(12345, 2000), made = arena.made;
    assert_false(arena.is_apart);
    assert_int_equal(play(12345, 2000), first);
    assert_int_equal(arena.made, made);
    assert_int_equal(arena.ended, 0);
    expect_truth();
}

/* ---- random operations ---- */

struct random_state {
    struct acre__piece *taken[PIECES];
    uint64_t seed;
};

static size_t random_bytes(uint64_t *seed) {
    uint64_t sort = draw(seed) % 10;
    uint64_t most = sort < 6 ? 4 * MIB : sort < 9 ? 40 * MIB : 300 * MIB;
    return (size_t)(MIB + draw(seed) % most);
}

static void random_step(struct random_state *random) {
    struct acre__piece **at = &random->taken[draw(&random->seed) % PIECES];
    struct acre__holes *own = &owners[draw(&random->seed) % OWNERS];
    uint64_t what = draw(&random->seed) % 64;
    if (what == 0) {
        acre__arena_ready(&arena, own);
    } else if (what == 1) {
        (void)acre__arena_release(&arena, draw(&random->seed) % (200 * MIB));
    } else if (*at && what < 6) {
        (void)acre__arena_extend(*at, own, (size_t)((*at)->bytes + MIB));
    } else if (*at && what < 8) {
        size_t bytes = (size_t)((*at)->bytes + draw(&random->seed) % (30 * MIB));
        struct acre__piece *moved = NULL;
        if (arena.taken < DEVICE_BYTES / 3 &&
            acre__arena_extend_new(*at, own, bytes) == ACRE_E_INTERIOR)
            api_ok(acre__arena_move(*at, own, bytes, &moved));
        *at = moved ? moved : *at;
    } else if (*at && what < 11) {
        acre__arena_cut(*at, own, (size_t)((*at)->bytes / 2));
    } else if (*at) {
        acre__arena_give(*at, own);
        *at = NULL;
    } else if (arena.taken < DEVICE_BYTES / 3) {
        size_t alignment = what > 60 ? 4 * MIB : 256;
        *at = take(own, random_bytes(&random->seed), alignment);
    }
}

static void random_operations_keep_the_records(void **state) {
    (void)state;
    struct random_state random = {.seed = 0x9e3779b97f4a7c15};
    const char *text = getenv("ACRE_TEST_SEED");
    random.seed = text ? strtoull(text, NULL, 0) | 1 : random.seed;
    printf("seed %llu\n", (unsigned long long)random.seed);
    for (unsigned i = 0; i < 6000; i++) {
        random_step(&random);
        if (i % 50 == 0)
            expect_truth();
    }
    assert_true(arena.is_apart);
    for (unsigned i = 0; i < PIECES; i++)
        if (random.taken[i])
            acre__arena_give(random.taken[i], &arena.ready);
    for (unsigned i = 0; i < OWNERS; i++)
        acre__arena_ready(&arena, &owners[i]);
    expect_truth();
    acre__arena_release(&arena, UINT64_MAX);
    assert_int_equal(arena.held, 0);
    assert_null(arena.regions);
    assert_false(arena.is_apart);
}

/* ---- other kinds ---- */

static void blocks_of_other_kinds_are_regions(void **state) {
    (void)state;
    struct acre__arena pinned;
    struct acre__piece *a, *b;
    acre__arena_open(&pinned, dev, ACRE_KIND_PINNED, 2 * MIB, 256, 0, 1 << 16);
    api_ok(acre__arena_take_new(&pinned, NULL, 3 * MIB, 256, &a));
    api_ok(acre__arena_take(&pinned, NULL, MIB, 256, &b));
    assert_int_equal(b->at, acre__piece_end(a));
    memset((void *)(uintptr_t)a->at, 1, 3 * MIB);
    acre__arena_give(a, &pinned.ready);
    assert_int_equal(acre__arena_release(&pinned, UINT64_MAX), 0);
    acre__arena_give(b, &pinned.ready);
    assert_null(acre__arena_fault(&pinned));
    assert_true(acre__arena_release(&pinned, UINT64_MAX) >= 4 * MIB);
    assert_int_equal(pinned.held, 0);
    acre__arena_end(&pinned);
}

#define ARENA_TEST(name) cmocka_unit_test_setup_teardown(name, arena_setup, arena_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        ARENA_TEST(pieces_of_any_size_touch),
        ARENA_TEST(holes_are_their_owners),
        ARENA_TEST(neighbours_that_wait_for_others_stay_apart),
        ARENA_TEST(far_alignments_are_kept),
        ARENA_TEST(pieces_grow_and_shrink_in_place),
        ARENA_TEST(pieces_grow_by_new_memory_behind_them),
        ARENA_TEST(pieces_with_their_own_chunks_move),
        ARENA_TEST(memory_ahead_serves_without_the_driver),
        ARENA_TEST(the_same_calls_find_the_same_places),
        ARENA_TEST(random_operations_keep_the_records),
        ARENA_TEST(blocks_of_other_kinds_are_regions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
