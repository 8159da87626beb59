/* Copies and fills between all sorts of memory, on every driver present: every byte arrives where
 * it belongs, and no other byte changes. Also invalid arguments. Tests that need blocked streams or
 * a capture are in tests/fault/test_mem_order.c. */
#include <pthread.h>

#include "api_memory.h"
#include "support/rounds.h"

/* The constants of src/copy. Pageable copies to the device are staged from STAGE_IN bytes on, those
 * from the device from STAGE_FROM on. STAGE_BUFFER is the size of a staging buffer. */
#define STAGE_IN (MIB / 2)
#define STAGE_FROM (2 * MIB)
#define STAGE_BUFFER (4 * MIB)

enum { MARGIN = 64, UNTOUCHED = 0xee };

/* Buffers of all sorts, and the contents of every source. */
struct world {
    acre_device *device;
    struct api_buffer to[SORT_COUNT], from[SORT_COUNT], pinned;
    unsigned char *pattern, *blank;
    size_t bytes;
};

static struct world world_begin(const char *name, size_t bytes, uint64_t *random) {
    struct world world = {.device = api_open(name), .bytes = bytes};
    world.pattern = malloc(bytes);
    world.blank = malloc(bytes);
    assert_true(world.pattern && world.blank);
    api_random_bytes(random, world.pattern, bytes);
    memset(world.blank, UNTOUCHED, bytes);
    world.pinned = api_buffer_make(world.device, SORT_PINNED, bytes);
    for (int i = 0; i < SORT_COUNT; i++) {
        world.to[i] = api_buffer_make(world.device, i, bytes);
        world.from[i] = api_buffer_make(world.device, i, bytes);
        api_buffer_put(&world.from[i], 0, world.pattern, bytes, &world.pinned);
    }
    return world;
}

static void world_end(struct world *world) {
    for (int i = 0; i < SORT_COUNT; i++) {
        api_buffer_end(&world->to[i]);
        api_buffer_end(&world->from[i]);
    }
    api_buffer_end(&world->pinned);
    free(world->pattern);
    free(world->blank);
    api_ok(acre_close(world->device));
}

/* The destination holds the bytes of the source; the bytes around them are unchanged. */
static void expect_copied(struct world *world, int to, int from, size_t to_offset,
                          size_t from_offset, size_t bytes) {
    size_t begin = to_offset - MARGIN, all = bytes + 2 * MARGIN;
    const unsigned char *got = api_buffer_get(&world->to[to], begin, all, &world->pinned);
    if (memcmp(got, world->blank, MARGIN) != 0 ||
        memcmp(got + MARGIN, world->pattern + from_offset, bytes) != 0 ||
        memcmp(got + MARGIN + bytes, world->blank, MARGIN) != 0)
        fail_msg("%s from %s, %zu bytes, offsets %zu and %zu", api_sorts[to].name,
                 api_sorts[from].name, bytes, to_offset, from_offset);
}

static void try_copy(struct world *world, int to, int from, size_t to_offset, size_t from_offset,
                     size_t bytes, acre_stream stream) {
    api_buffer_put(&world->to[to], to_offset - MARGIN, world->blank, bytes + 2 * MARGIN,
                   &world->pinned);
    api_ok(acre_copy(world->device, world->to[to].at + to_offset,
                     world->from[from].at + from_offset, bytes, stream));
    /* A copy to pageable memory is done when it returns. */
    if (api_sorts[to].kind != ACRE_KIND_PAGEABLE)
        api_ok(acre_stream_sync(world->device, stream));
    expect_copied(world, to, from, to_offset, from_offset, bytes);
}

TEST(copies_of_all_pairs_and_sizes_move_every_byte) {
    const size_t small[] = {0, 1, 3, 255, 4 * KIB + 1};
    const size_t large[] = {
        STAGE_IN - 1,        STAGE_IN,         STAGE_IN + 1,         STAGE_FROM - 1,
        STAGE_FROM,          STAGE_FROM + 1,   STAGE_BUFFER - 1,     STAGE_BUFFER,
        STAGE_BUFFER + 1,    2 * STAGE_BUFFER, 3 * STAGE_BUFFER - 1, 3 * STAGE_BUFFER,
        3 * STAGE_BUFFER + 1};
    enum { LARGE = sizeof large / sizeof large[0] };
    const size_t offsets[][2] = {{256, 256}, {257, 256}, {256, 259}, {331, 517}};
    uint64_t random = random_seed("pairs");
    for (API_EACH(name)) {
        struct world world = world_begin(name, 3 * STAGE_BUFFER + 4096, &random);
        acre_stream streams[2] = {NULL, NULL};
        api_ok(acre_stream_create(world.device, ACRE_STREAM_NON_BLOCKING, &streams[1]));
        for (int to = 0; to < SORT_COUNT; to++) {
            for (int from = 0; from < SORT_COUNT; from++) {
                for (size_t i = 0; i < 5; i++)
                    for (size_t k = 0; k < 4; k++)
                        try_copy(&world, to, from, offsets[k][0], offsets[k][1], small[i],
                                 streams[(i + k) % 2]);
                /* The host reads write-combined memory slowly, so it gets one large copy. */
                int is_slow = to == SORT_COMBINED || from == SORT_COMBINED;
                int is_staged = to == SORT_PAGEABLE || from == SORT_PAGEABLE;
                /* The path of a staged copy does not depend on the other side. */
                if (ROUNDS_ARE_FEW)
                    is_staged &= to == SORT_DEVICE || from == SORT_DEVICE;
                for (size_t i = 0; i < LARGE; i++)
                    if (!is_slow && (is_staged || i == 5))
                        try_copy(&world, to, from, offsets[i % 4][0], offsets[i % 4][1], large[i],
                                 streams[i % 2]);
                if (is_slow)
                    try_copy(&world, to, from, 257, 259, STAGE_FROM + 1, streams[1]);
            }
        }
        acre_device_stats stats = api_stats(world.device);
        assert_int_equal(stats.driver_refusals, 0);
        assert_true(stats.copies_staged > 0 && stats.copies_direct > 0);
        assert_true(stats.staging_bytes >= 2 * STAGE_BUFFER);
        api_ok(acre_stream_destroy(world.device, streams[1]));
        world_end(&world);
    }
}

TEST(copies_of_random_sizes_and_offsets_move_every_byte) {
    uint64_t random = random_seed("sizes");
    for (API_EACH(name)) {
        struct world world = world_begin(name, 4 * STAGE_BUFFER, &random);
        for (int i = 0; i < ROUNDS(60, 20); i++) {
            int is_out = (int)random_draw(&random, 2);
            int known = (int)random_draw(&random, SORT_PAGEABLE);
            size_t to_offset = MARGIN + random_draw(&random, 10000);
            size_t from_offset = random_draw(&random, 10000);
            size_t bytes =
                random_draw(&random, world.bytes - 10000 - 2 * MARGIN) >> random_draw(&random, 8);
            known = known == SORT_COMBINED ? SORT_DEVICE : known;
            try_copy(&world, is_out ? SORT_PAGEABLE : known, is_out ? known : SORT_PAGEABLE,
                     to_offset, from_offset, bytes, NULL);
        }
        world_end(&world);
    }
}

/* Copies whose pieces all fill a staging buffer, and sizes one byte off. */
TEST(copies_of_many_whole_buffers_move_every_byte) {
    const size_t sizes[] = {16 * STAGE_BUFFER - 1, 16 * STAGE_BUFFER, 16 * STAGE_BUFFER + 1,
                            17 * STAGE_BUFFER + 4097};
    uint64_t random = random_seed("whole buffers");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        struct api_buffer block = api_buffer_make(device, SORT_DEVICE, 18 * STAGE_BUFFER);
        struct api_buffer page = api_buffer_make(device, SORT_PAGEABLE, 18 * STAGE_BUFFER);
        struct api_buffer back = api_buffer_make(device, SORT_PAGEABLE, 18 * STAGE_BUFFER);
        api_random_bytes(&random, page.at, page.bytes);
        for (size_t i = ROUNDS(0, 2); i < 4; i++) {
            api_ok(acre_copy(device, block.at + 3, page.at + 1, sizes[i], NULL));
            memset(back.at, UNTOUCHED, back.bytes);
            api_ok(acre_copy(device, back.at + 2, block.at + 3, sizes[i], NULL));
            assert_memory_equal(back.at + 2, page.at + 1, sizes[i]);
            assert_int_equal(back.at[1], UNTOUCHED);
            assert_int_equal(back.at[2 + sizes[i]], UNTOUCHED);
        }
        api_buffer_end(&block);
        api_buffer_end(&page);
        api_buffer_end(&back);
        api_ok(acre_close(device));
    }
}

TEST(copy_sync_has_the_data_there) {
    uint64_t random = random_seed("sync");
    for (API_EACH(name)) {
        struct world world = world_begin(name, 3 * MIB, &random);
        for (int to = 0; to < SORT_COUNT; to++)
            for (int from = 0; from < SORT_COUNT; from++) {
                if (to == SORT_COMBINED || from == SORT_COMBINED)
                    continue;
                api_buffer_put(&world.to[to], 0, world.blank, world.bytes, &world.pinned);
                api_ok(acre_copy_sync(world.device, world.to[to].at + MARGIN, world.from[from].at,
                                      world.bytes - 2 * MARGIN));
                expect_copied(&world, to, from, MARGIN, 0, world.bytes - 2 * MARGIN);
            }
        world_end(&world);
    }
}

/* ---- in order ---- */

/* Fill, copy and fill on one stream, then back on another stream, ordered by an event. */
TEST(copies_are_in_order_with_fills_and_events) {
    const size_t sizes[] = {100, STAGE_FROM + 3, 2 * STAGE_BUFFER + 1};
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream one, two;
        acre_event event;
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &one));
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &two));
        api_ok(acre_event_create(device, ACRE_EVENT_DEFAULT, &event));
        for (size_t i = 0; i < 3; i++) {
            size_t bytes = sizes[i];
            struct api_buffer a = api_buffer_make(device, SORT_DEVICE, bytes);
            struct api_buffer b = api_buffer_make(device, SORT_DEVICE, bytes);
            struct api_buffer page = api_buffer_make(device, SORT_PAGEABLE, bytes);
            struct api_buffer back = api_buffer_make(device, SORT_PAGEABLE, bytes);
            for (int round = 1; round <= 5; round++) {
                uint8_t value = (uint8_t)(round * 16);
                memset(page.at, value, bytes);
                api_ok(acre_fill(device, a.at, (uint8_t)(value + 1), bytes, one));
                api_ok(acre_copy(device, b.at, a.at, bytes, one)); /* value + 1 */
                api_ok(acre_copy(device, a.at, page.at, bytes, one));
                memset(page.at, 0, bytes); /* the copy has read it */
                api_ok(acre_copy(device, back.at, b.at, bytes, one));
                assert_int_equal(back.at[0], value + 1);
                assert_int_equal(back.at[bytes - 1], value + 1);
                api_ok(acre_copy(device, b.at, a.at, bytes, one)); /* value */
                api_ok(acre_event_record(device, event, one));
                api_ok(acre_fill(device, a.at, 0, bytes, one));
                api_ok(acre_stream_wait(device, two, event));
                api_ok(acre_copy(device, back.at, b.at, bytes, two));
                for (size_t k = 0; k < bytes; k += bytes / 97 + 1)
                    assert_int_equal(back.at[k], value);
                assert_int_equal(back.at[bytes - 1], value);
                api_ok(acre_event_record(device, event, two));
                api_ok(acre_stream_wait(device, one, event));
            }
            api_buffer_end(&a);
            api_buffer_end(&b);
            api_buffer_end(&page);
            api_buffer_end(&back);
        }
        api_ok(acre_close(device));
    }
}

/* Copies without a wait between them reuse staging buffers while transfers of the copy before may
 * be in flight. */
TEST(copies_close_together_do_not_mix) {
    enum { BLOCKS = 12 };
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream streams[2];
        struct api_buffer blocks[BLOCKS], page;
        size_t bytes = STAGE_FROM + 77;
        page = api_buffer_make(device, SORT_PAGEABLE, bytes);
        for (int i = 0; i < 2; i++)
            api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &streams[i]));
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = api_buffer_make(device, SORT_DEVICE, bytes);
        for (int round = 0; round < ROUNDS(10, 3); round++) {
            for (int i = 0; i < BLOCKS; i++) {
                memset(page.at, round * BLOCKS + i, bytes);
                api_ok(acre_copy(device, blocks[i].at, page.at, bytes, streams[i % 2]));
            }
            for (int i = 0; i < BLOCKS; i++) {
                memset(page.at, 255, bytes);
                api_ok(acre_copy(device, page.at, blocks[i].at, bytes, streams[i % 2]));
                uint8_t value = (uint8_t)(round * BLOCKS + i);
                assert_int_equal(page.at[0], value);
                assert_memory_equal(page.at, page.at + 1, bytes - 1);
            }
        }
        for (int i = 0; i < BLOCKS; i++)
            api_buffer_end(&blocks[i]);
        api_buffer_end(&page);
        api_ok(acre_close(device));
    }
}

/* ---- 2-D ---- */

struct plane {
    size_t width, rows, to_pitch, from_pitch;
};

static size_t plane_span(size_t pitch, const struct plane *plane) {
    return plane->rows ? (plane->rows - 1) * pitch + plane->width : 0;
}

/* Compares acre_copy_2d with a loop of memcpy. */
static void try_plane(struct world *world, int to, int from, const struct plane *plane,
                      acre_stream stream) {
    size_t to_span = plane_span(plane->to_pitch, plane);
    size_t from_span = plane_span(plane->from_pitch, plane);
    assert_true(to_span + 2 * MARGIN <= world->bytes && from_span <= world->bytes);
    size_t from_offset = world->bytes - from_span;
    unsigned char *expected = malloc(to_span + 2 * MARGIN);
    assert_non_null(expected);
    memset(expected, UNTOUCHED, to_span + 2 * MARGIN);
    for (size_t i = 0; i < plane->rows; i++)
        memcpy(expected + MARGIN + i * plane->to_pitch,
               world->pattern + from_offset + i * plane->from_pitch, plane->width);
    api_buffer_put(&world->to[to], 0, world->blank, to_span + 2 * MARGIN, &world->pinned);
    api_ok(acre_copy_2d(world->device, world->to[to].at + MARGIN, plane->to_pitch,
                        world->from[from].at + from_offset, plane->from_pitch, plane->width,
                        plane->rows, stream));
    if (api_sorts[to].kind != ACRE_KIND_PAGEABLE)
        api_ok(acre_stream_sync(world->device, stream));
    const unsigned char *got =
        api_buffer_get(&world->to[to], 0, to_span + 2 * MARGIN, &world->pinned);
    if (memcmp(got, expected, to_span + 2 * MARGIN) != 0)
        fail_msg("%s from %s: %zu rows of %zu, pitches %zu and %zu", api_sorts[to].name,
                 api_sorts[from].name, plane->rows, plane->width, plane->to_pitch,
                 plane->from_pitch);
    free(expected);
}

TEST(planes_of_chosen_shapes_match_the_model) {
    const struct plane planes[] = {
        {1, 1, 1, 1},
        {100, 0, 100, 100},
        {0, 100, 10, 10},
        {17, 5, 17, 17},                                       /* packed rows */
        {STAGE_FROM, 3, STAGE_FROM, STAGE_FROM},               /* packed rows, staged */
        {1, 20000, 97, 131},                                   /* narrow rows */
        {3, 30000, 150, 3},                                    /* narrow rows, one side packed */
        {1000, 3000, 1024, 1001},                              /* staged, rows packed */
        {STAGE_BUFFER - 1, 3, STAGE_BUFFER + 5, STAGE_BUFFER}, /* one row per buffer */
        {STAGE_BUFFER, 3, STAGE_BUFFER + 1, STAGE_BUFFER + 2}, /* a row fills a buffer */
        {STAGE_BUFFER + 1, 3, STAGE_BUFFER + 300, STAGE_BUFFER + 7}, /* two pieces per row */
        {STAGE_BUFFER / 2, 5, STAGE_BUFFER / 2 + 1, STAGE_BUFFER / 2 + 3},
    };
    uint64_t random = random_seed("planes");
    for (API_EACH(name)) {
        struct world world = world_begin(name, 4 * STAGE_BUFFER, &random);
        for (size_t i = 0; i < sizeof planes / sizeof planes[0]; i++) {
            try_plane(&world, SORT_DEVICE, SORT_PAGEABLE, &planes[i], NULL);
            try_plane(&world, SORT_PAGEABLE, SORT_DEVICE, &planes[i], NULL);
            if (ROUNDS_ARE_FEW && planes[i].width >= STAGE_BUFFER / 2)
                continue; /* only staging has buffers that such rows fill */
            try_plane(&world, SORT_PAGEABLE, SORT_PAGEABLE, &planes[i], NULL);
            try_plane(&world, SORT_PINNED, SORT_DEVICE, &planes[i], NULL);
            try_plane(&world, SORT_DEVICE, SORT_REGISTERED, &planes[i], NULL);
            try_plane(&world, SORT_PAGEABLE, SORT_MAPPED, &planes[i], NULL);
        }
        world_end(&world);
    }
}

TEST(planes_of_random_shapes_match_the_model) {
    uint64_t random = random_seed("random planes");
    for (API_EACH(name)) {
        struct world world = world_begin(name, 3 * STAGE_BUFFER, &random);
        for (int i = 0; i < ROUNDS(120, 20); i++) {
            size_t room = (world.bytes - 2 * MARGIN) >> random_draw(&random, 10);
            struct plane plane = {.width = 1 + random_draw(&random, 1 + room / 8)};
            plane.to_pitch = plane.width + random_draw(&random, 100);
            plane.from_pitch = plane.width + random_draw(&random, 100);
            size_t pitch = plane.to_pitch > plane.from_pitch ? plane.to_pitch : plane.from_pitch;
            plane.rows = random_draw(&random, (world.bytes - 2 * MARGIN) / pitch);
            plane.rows = plane.rows > 5000 ? 5000 : plane.rows;
            int to = (int)random_draw(&random, SORT_COUNT),
                from = (int)random_draw(&random, SORT_COUNT);
            to = to == SORT_COMBINED ? SORT_PAGEABLE : to;
            from = from == SORT_COMBINED ? SORT_PAGEABLE : from;
            try_plane(&world, to, from, &plane, NULL);
        }
        world_end(&world);
    }
}

API_TEST(planes_that_cannot_be_are_refused) {
    struct api_buffer a = api_buffer_make(device, SORT_DEVICE, 4096);
    struct api_buffer b = api_buffer_make(device, SORT_PINNED, 4096);
    void *to = a.at, *from = b.at;
    api_expect(acre_copy_2d(device, to, 9, from, 10, 10, 2, NULL), ACRE_E_INVALID);
    api_expect(acre_copy_2d(device, to, 10, from, 9, 10, 2, NULL), ACRE_E_INVALID);
    api_ok(acre_copy_2d(device, to, 0, from, 0, 10, 1, NULL)); /* one row needs no pitch */
    api_expect(acre_copy_2d(device, to, SIZE_MAX, from, SIZE_MAX, 10, 3, NULL), ACRE_E_INVALID);
    api_expect(acre_copy_2d(device, to, 16, from, 16, 16, SIZE_MAX, NULL), ACRE_E_INVALID);
    api_expect(acre_copy_2d(device, to, 16, from, 16, 10, SIZE_MAX / 16 + 2, NULL), ACRE_E_INVALID);
    api_expect(acre_copy_2d(device, to, 100, from, 64, 64, 42, NULL), ACRE_E_RANGE);
    api_expect(acre_copy_2d(device, to, 64, from, 100, 64, 42, NULL), ACRE_E_RANGE);
    api_ok(acre_copy_2d(device, to, 100, from, 64, 64, 41, NULL)); /* ends at 4064 */
    api_expect(acre_copy_2d(device, NULL, 64, from, 64, 64, 2, NULL), ACRE_E_NULL);
    api_expect(acre_copy_2d(device, to, 64, NULL, 64, 64, 2, NULL), ACRE_E_NULL);
    api_ok(acre_copy_2d(device, NULL, 0, NULL, 0, 0, 2, NULL));
    api_ok(acre_copy_2d(device, NULL, 0, NULL, 0, 2, 0, NULL));
    assert_int_equal(api_stats(device).driver_refusals, 0);
    api_buffer_end(&a);
    api_buffer_end(&b);
}

/* Pitches larger than the driver's 2-D copies support. */
TEST(planes_with_huge_pitches_are_copied) {
    size_t pitch = ((size_t)1 << 31) + 4096;
    char *pages = mmap(NULL, 2 * pitch + 8 * MIB, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true((void *)pages != MAP_FAILED);
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        const size_t widths[] = {1000, MIB, 5 * MIB};
        struct api_buffer block = api_buffer_make(device, SORT_DEVICE, 15 * MIB);
        for (size_t i = 0; i < 3; i++) {
            size_t width = widths[i];
            for (size_t row = 0; row < 3; row++)
                memset(pages + row * pitch, (int)(row + 1), width);
            api_ok(acre_copy_2d(device, block.at, width, pages, pitch, width, 3, NULL));
            for (size_t row = 0; row < 3; row++)
                memset(pages + row * pitch, 0, width);
            api_ok(acre_copy_2d(device, pages, pitch, block.at, width, width, 3, NULL));
            for (size_t row = 0; row < 3; row++) {
                assert_int_equal(pages[row * pitch], row + 1);
                assert_int_equal(pages[row * pitch + width - 1], row + 1);
            }
        }
        api_buffer_end(&block);
        api_ok(acre_close(device));
    }
    munmap(pages, 2 * pitch + 8 * MIB);
}

/* ---- fills ---- */

TEST(fills_of_every_sort_set_every_byte) {
    uint64_t random = random_seed("fills");
    const size_t sizes[] = {0, 1, 3, 255, 4 * KIB + 1, STAGE_FROM + 5};
    for (API_EACH(name)) {
        struct world world = world_begin(name, 3 * MIB, &random);
        acre_stream stream;
        api_ok(acre_stream_create(world.device, ACRE_STREAM_NON_BLOCKING, &stream));
        for (int to = 0; to < SORT_COUNT; to++)
            for (size_t i = 0; i < 6; i++) {
                size_t bytes = sizes[i];
                memset(world.pattern, (int)i + 1, bytes);
                api_buffer_put(&world.to[to], 0, world.blank, bytes + 4 * MARGIN, &world.pinned);
                if (i % 2) {
                    api_ok(acre_fill(world.device, world.to[to].at + MARGIN + 1, (uint8_t)(i + 1),
                                     bytes, stream));
                    if (to != SORT_PAGEABLE)
                        api_ok(acre_stream_sync(world.device, stream));
                } else {
                    api_ok(acre_fill_sync(world.device, world.to[to].at + MARGIN + 1,
                                          (uint8_t)(i + 1), bytes));
                }
                expect_copied(&world, to, to, MARGIN + 1, 0, bytes);
            }
        world_end(&world);
    }
}

API_TEST(fills_with_wrong_arguments_are_refused) {
    for (int i = 0; i < SORT_PAGEABLE; i++) {
        struct api_buffer buffer = api_buffer_make(device, i, 5000);
        api_expect(acre_fill(device, buffer.at, 1, 5001, NULL), ACRE_E_RANGE);
        api_expect(acre_fill_sync(device, buffer.at + 1, 1, 5000), ACRE_E_RANGE);
        api_expect(acre_fill(device, buffer.at, 1, SIZE_MAX, NULL), ACRE_E_RANGE);
        api_buffer_end(&buffer);
    }
    api_expect(acre_fill(device, NULL, 1, 1, NULL), ACRE_E_NULL);
    api_ok(acre_fill(device, NULL, 1, 0, NULL));
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

/* ---- bad input ---- */

API_TEST(direction_that_is_expected_is_checked) {
    for (int to = 0; to < SORT_COUNT; to++) {
        for (int from = 0; from < SORT_COUNT; from++) {
            struct api_buffer a = api_buffer_make(device, to, 4096);
            struct api_buffer b = api_buffer_make(device, from, 4096);
            for (int way = ACRE_HOST_TO_HOST; way <= ACRE_DEVICE_TO_DEVICE; way++) {
                int to_device = way == ACRE_HOST_TO_DEVICE || way == ACRE_DEVICE_TO_DEVICE;
                int from_device = way == ACRE_DEVICE_TO_HOST || way == ACRE_DEVICE_TO_DEVICE;
                int is_right = (to == SORT_MANAGED || (to == SORT_DEVICE) == to_device) &&
                               (from == SORT_MANAGED || (from == SORT_DEVICE) == from_device);
                api_expect(acre_copy_as(device, (acre_direction)way, a.at, b.at, 4096, NULL),
                           is_right ? ACRE_OK : ACRE_E_DIRECTION);
            }
            const int none[] = {0, 5, -1, INT32_MAX, INT32_MIN};
            for (size_t i = 0; i < 5; i++)
                api_expect(acre_copy_as(device, (acre_direction)none[i], a.at, b.at, 4096, NULL),
                           ACRE_E_INVALID);
            api_buffer_end(&a);
            api_buffer_end(&b);
        }
    }
}

API_TEST(overlap_is_refused_and_nothing_is_copied) {
    for (int i = 0; i < SORT_COUNT; i++) {
        struct api_buffer buffer = api_buffer_make(device, i, 8192);
        unsigned char *at = buffer.at;
        api_ok(acre_fill_sync(device, at, 1, 8192));
        api_ok(acre_fill_sync(device, at, 2, 1));
        api_expect(acre_copy(device, at, at, 1, NULL), ACRE_E_OVERLAP);
        api_expect(acre_copy(device, at + 1, at, 4096, NULL), ACRE_E_OVERLAP);
        api_expect(acre_copy(device, at, at + 4095, 4096, NULL), ACRE_E_OVERLAP);
        api_ok(acre_copy(device, at + 4096, at, 4096, NULL));
        api_ok(acre_copy(device, at, at + 4096, 4096, NULL));
        api_ok(acre_copy(device, at, at, 0, NULL));
        /* Adjacent columns share no byte; overlapping columns do. */
        api_ok(acre_copy_2d(device, at + 16, 64, at, 64, 16, 100, NULL));
        api_ok(acre_copy_2d(device, at, 64, at + 48, 64, 16, 100, NULL));
        api_expect(acre_copy_2d(device, at + 15, 64, at, 64, 16, 100, NULL), ACRE_E_OVERLAP);
        api_expect(acre_copy_2d(device, at, 64, at + 49, 64, 16, 100, NULL), ACRE_E_OVERLAP);
        api_expect(acre_copy_2d(device, at + 64, 64, at, 64, 16, 100, NULL), ACRE_E_OVERLAP);
        api_expect(acre_copy_2d(device, at + 20, 65, at, 64, 16, 100, NULL), ACRE_E_OVERLAP);
        api_ok(acre_device_sync(device));
        unsigned char second = 0;
        api_ok(acre_copy_sync(device, &second, at + 1, 1));
        assert_int_equal(second, 1);
        api_buffer_end(&buffer);
    }
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

API_TEST(range_past_a_blocks_end_is_refused_on_either_side) {
    for (int to = 0; to < SORT_COUNT; to++) {
        for (int from = 0; from < SORT_COUNT; from++) {
            struct api_buffer a = api_buffer_make(device, to, 5000);
            struct api_buffer b = api_buffer_make(device, from, 7000);
            int is_known = to != SORT_PAGEABLE;
            if (is_known) {
                api_expect(acre_copy(device, a.at, b.at, 5001, NULL), ACRE_E_RANGE);
                api_expect(acre_copy(device, a.at + 4999, b.at, 2, NULL), ACRE_E_RANGE);
                api_expect(acre_copy_sync(device, a.at, b.at, SIZE_MAX), ACRE_E_RANGE);
            }
            if (from != SORT_PAGEABLE)
                api_expect(acre_copy(device, a.at, b.at + 6999, 2, NULL), ACRE_E_RANGE);
            api_ok(acre_copy(device, a.at, b.at + 2000, 5000, NULL));
            api_expect(acre_copy(device, NULL, b.at, 1, NULL), ACRE_E_NULL);
            api_expect(acre_copy(device, a.at, NULL, 1, NULL), ACRE_E_NULL);
            api_buffer_end(&a);
            api_buffer_end(&b);
        }
    }
    api_ok(acre_copy(device, NULL, NULL, 0, NULL));
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

TEST(streams_of_another_device_are_refused) {
    acre_device *devices[2];
    acre_stream other;
    unsigned char host[64] = {0};
    api_open_two(devices);
    struct api_buffer block = api_buffer_make(devices[0], SORT_DEVICE, 64);
    api_ok(acre_stream_create(devices[1], ACRE_STREAM_DEFAULT, &other));
    api_expect(acre_copy(devices[0], block.at, host, 64, other), ACRE_E_HANDLE);
    api_expect(acre_copy_as(devices[0], ACRE_HOST_TO_DEVICE, block.at, host, 64, other),
               ACRE_E_HANDLE);
    api_expect(acre_copy_2d(devices[0], block.at, 8, host, 8, 4, 4, other), ACRE_E_HANDLE);
    api_expect(acre_fill(devices[0], block.at, 1, 64, other), ACRE_E_HANDLE);
    assert_int_equal(api_stats(devices[0]).driver_refusals, 0);
    api_buffer_end(&block);
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

/* ---- several devices ---- */

TEST(devices_of_one_driver_copy_from_each_other) {
    acre_device *devices[2];
    size_t bytes = 2 * STAGE_BUFFER + 5;
    api_open_two(devices);
    for (int i = 0; i < 2; i++) {
        struct api_buffer here = api_buffer_make(devices[i], SORT_DEVICE, bytes);
        struct api_buffer there = api_buffer_make(devices[1 - i], SORT_DEVICE, bytes);
        struct api_buffer page = api_buffer_make(devices[i], SORT_PAGEABLE, bytes);
        memset(page.at, 5, bytes);
        /* A staged copy to the other device. */
        api_ok(acre_copy(devices[i], there.at, page.at, bytes, NULL));
        api_ok(acre_device_sync(devices[i]));
        api_ok(acre_copy(devices[i], here.at, there.at, bytes, NULL));
        memset(page.at, 0, bytes);
        api_ok(acre_copy(devices[i], page.at, here.at, bytes, NULL));
        assert_int_equal(page.at[0], 5);
        assert_memory_equal(page.at, page.at + 1, bytes - 1);
        memset(page.at, 0, bytes);
        api_ok(acre_copy(devices[1 - i], page.at, here.at, bytes, NULL));
        assert_int_equal(page.at[0], 5);
        assert_memory_equal(page.at, page.at + 1, bytes - 1);
        api_buffer_end(&here);
        api_buffer_end(&there);
        api_buffer_end(&page);
    }
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

TEST(devices_of_another_driver_share_only_host_memory) {
    if (!api_devices()[1])
        return; /* only one driver is present */
    acre_device *soft = api_open("soft"), *cuda = api_open("cuda");
    size_t bytes = STAGE_FROM + 5;
    for (int turn = 0; turn < 2; turn++) {
        acre_device *mine = turn ? soft : cuda, *other = turn ? cuda : soft;
        struct api_buffer own = api_buffer_make(mine, SORT_DEVICE, bytes);
        struct api_buffer page = api_buffer_make(mine, SORT_PAGEABLE, bytes);
        struct api_buffer block = api_buffer_make(other, SORT_DEVICE, bytes);
        api_expect(acre_copy_sync(mine, own.at, block.at, bytes), ACRE_E_HANDLE);
        api_expect(acre_copy_sync(mine, block.at, own.at, bytes), ACRE_E_HANDLE);
        api_expect(acre_copy_sync(mine, block.at, page.at, bytes), ACRE_E_HANDLE);
        api_expect(acre_fill_sync(mine, block.at, 1, bytes), ACRE_E_HANDLE);
        api_buffer_end(&block);
        struct api_buffer pinned = api_buffer_make(other, SORT_PINNED, bytes);
        memset(pinned.at, 9, bytes);
        api_ok(acre_copy(mine, own.at, pinned.at, bytes, NULL));
        memset(pinned.at, 0, bytes); /* pageable to this device: the copy has read it */
        api_ok(acre_copy(mine, pinned.at, own.at, bytes, NULL));
        assert_int_equal(pinned.at[bytes - 1], 9);
        api_buffer_end(&pinned);
        api_buffer_end(&own);
        api_buffer_end(&page);
    }
    api_ok(acre_close(soft));
    api_ok(acre_close(cuda));
}

/* ---- staging: create, free, create again ---- */

TEST(staging_is_given_back_by_trim_and_made_again) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        struct api_buffer block = api_buffer_make(device, SORT_DEVICE, 3 * STAGE_BUFFER);
        struct api_buffer page = api_buffer_make(device, SORT_PAGEABLE, 3 * STAGE_BUFFER);
        assert_int_equal(api_stats(device).staging_bytes, 0);
        for (int round = 1; round < 5; round++) {
            memset(page.at, round, page.bytes);
            api_ok(acre_copy(device, block.at, page.at, page.bytes, NULL));
            uint64_t one_way = api_stats(device).staging_bytes;
            assert_in_range(one_way, 2 * STAGE_BUFFER, 12 * 2 * STAGE_BUFFER);
            if (round % 2) /* also while transfers may be in flight */
                api_ok(acre_trim(device));
            memset(page.at, 0, page.bytes);
            api_ok(acre_copy(device, page.at, block.at, page.bytes, NULL));
            assert_int_equal(page.at[0], round);
            assert_memory_equal(page.at, page.at + 1, page.bytes - 1);
            assert_int_equal(api_stats(device).staging_bytes, round % 2 ? one_way : 2 * one_way);
            api_ok(acre_trim(device));
            acre_device_stats stats = api_stats(device);
            assert_int_equal(stats.staging_bytes + stats.limbo_count, 0);
            assert_int_equal(stats.copies_staged, 2 * round);
        }
        api_buffer_end(&block);
        /* acre_close frees the staging buffers. */
        struct api_buffer again = api_buffer_make(device, SORT_DEVICE, page.bytes);
        api_ok(acre_copy(device, again.at, page.at, page.bytes, NULL));
        api_buffer_end(&again);
        api_buffer_end(&page);
        api_ok(acre_close(device));
        device = api_open(name);
        acre_device_stats stats = api_stats(device);
        assert_int_equal(stats.staging_bytes + stats.copies_staged + stats.copies_direct, 0);
        api_ok(acre_close(device));
    }
}

/* ---- many threads ---- */

struct copier {
    acre_device *device;
    uint64_t random;
    _Atomic int *is_over; /* for the thread that trims */
    const char *wrong;
};

static void *copier_run(void *argument) {
    struct copier *me = argument;
    size_t room = 2 * STAGE_BUFFER;
    unsigned char *out = malloc(room), *back = malloc(room);
    void *block = NULL;
    acre_stream stream = NULL;
    if (!out || !back || acre_mem_alloc(me->device, ACRE_KIND_DEVICE, room, 0, &block) ||
        acre_stream_create(me->device, ACRE_STREAM_NON_BLOCKING, &stream))
        me->wrong = "out of memory, or no stream";
    for (int i = 0; i < ROUNDS(12, 8) && !me->wrong; i++) {
        size_t offset = random_draw(&me->random, 1000);
        size_t bytes = (room - 1000) >> random_draw(&me->random, 4);
        memset(out, (int)random_draw(&me->random, 256), bytes);
        out[0] = (unsigned char)i;
        out[bytes - 1] = (unsigned char)(i + 100);
        memcpy(back, out, bytes);
        if (acre_copy(me->device, (char *)block + offset, back, bytes, stream))
            me->wrong = "a copy to the device failed";
        memset(back, 0, bytes);
        if (acre_copy(me->device, back, (char *)block + offset, bytes, stream))
            me->wrong = "a copy from the device failed";
        if (!me->wrong && memcmp(back, out, bytes) != 0)
            me->wrong = "a copy returned wrong bytes";
    }
    (void)acre_stream_destroy(me->device, stream);
    (void)acre_mem_free(me->device, block);
    free(out);
    free(back);
    return NULL;
}

static void *trimmer_run(void *argument) {
    struct copier *me = argument;
    struct timespec time = {0, 2000000};
    while (!*me->is_over) {
        acre_device_stats stats = {.struct_size = sizeof stats};
        if (acre_trim(me->device) || acre_device_get_stats(me->device, &stats))
            me->wrong = "a trim failed";
        nanosleep(&time, NULL);
    }
    return NULL;
}

TEST(threads_copy_both_ways_at_once) {
    enum { THREADS = 5 };
    uint64_t seed = random_seed("copiers");
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        struct copier copiers[THREADS + 1];
        pthread_t threads[THREADS + 1];
        _Atomic int is_over = 0;
        for (int i = 0; i <= THREADS; i++) {
            copiers[i] = (struct copier){device, random_draw(&seed, UINT64_MAX), &is_over, NULL};
            assert_int_equal(pthread_create(&threads[i], NULL,
                                            i < THREADS ? copier_run : trimmer_run, &copiers[i]),
                             0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        is_over = 1;
        pthread_join(threads[THREADS], NULL);
        for (int i = 0; i <= THREADS; i++)
            if (copiers[i].wrong)
                fail_msg("thread %d: %s", i, copiers[i].wrong);
        api_ok(acre_trim(device));
        acre_device_stats stats = api_stats(device);
        assert_int_equal(stats.mem_blocks + stats.limbo_count + stats.staging_bytes, 0);
        api_ok(acre_close(device));
    }
}

/* Several devices stage at the same time. */
TEST(threads_copy_to_several_devices_at_once) {
    acre_device *devices[2];
    struct copier copiers[4];
    pthread_t threads[4];
    api_open_two(devices);
    for (int i = 0; i < 4; i++) {
        copiers[i] = (struct copier){devices[i % 2], (uint64_t)i, NULL, NULL};
        assert_int_equal(pthread_create(&threads[i], NULL, copier_run, &copiers[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        if (copiers[i].wrong)
            fail_msg("thread %d: %s", i, copiers[i].wrong);
    for (int i = 0; i < 2; i++) {
        assert_true(api_stats(devices[i]).copies_staged > 0);
        api_ok(acre_close(devices[i]));
    }
}

/* ---- settings, each in a separate process ---- */

TEST(settings_change_threads_and_threshold) {
    for (API_EACH(name)) {
        char device[64];
        snprintf(device, sizeof device, "ACRE_TEST_DEVICE=%s", name);
        api_started_ok("lanes:1", device, "ACRE_COPY_THREADS=1");
        api_started_ok("lanes:3", device, "ACRE_COPY_THREADS=3");
        api_started_ok("lanes:12", device, "ACRE_COPY_THREADS=1000");
        api_started_ok("always", device, "ACRE_COPY_STAGE_BYTES=0");
        api_started_ok("never", device, "ACRE_COPY_STAGE_BYTES=16TiB");
        api_started_ok("config", device, "ACRE_COPY_THREADS=many");
        api_started_ok("config", device, "ACRE_COPY_STAGE_BYTES=-1");
    }
}

static acre_status there_and_back(acre_device *device, size_t bytes) {
    unsigned char *page = malloc(bytes);
    void *block = NULL;
    api_must(page && acre_mem_alloc(device, ACRE_KIND_DEVICE, bytes, 0, &block) == ACRE_OK);
    memset(page, 7, bytes);
    acre_status status = acre_copy(device, block, page, bytes, NULL);
    memset(page, 0, bytes);
    if (status == ACRE_OK) {
        api_must(acre_copy(device, page, block, bytes, NULL) == ACRE_OK);
        api_must(page[0] == 7 && memcmp(page, page + 1, bytes - 1) == 0);
    }
    api_must(acre_mem_free(device, block) == ACRE_OK);
    free(page);
    return status;
}

static int with_setting(const char *what) {
    acre_device *device;
    acre_device_stats stats = {.struct_size = sizeof stats};
    api_must(acre_open(getenv("ACRE_TEST_DEVICE"), NULL, &device) == ACRE_OK);
    if (strcmp(what, "config") == 0) {
        api_must(there_and_back(device, 3 * STAGE_BUFFER) == ACRE_E_CONFIG);
    } else {
        api_must(there_and_back(device, 1) == ACRE_OK);
        api_must(there_and_back(device, 3 * STAGE_BUFFER + 1) == ACRE_OK);
        api_must(acre_device_get_stats(device, &stats) == ACRE_OK);
        if (strcmp(what, "always") == 0)
            api_must(stats.copies_staged == 4 && stats.copies_direct == 0);
        if (strcmp(what, "never") == 0)
            api_must(stats.copies_staged == 0 && stats.copies_direct == 4 &&
                     stats.staging_bytes == 0);
        if (strncmp(what, "lanes:", 6) == 0)
            api_must(stats.copies_staged == 2 &&
                     stats.staging_bytes == strtoull(what + 6, NULL, 0) * 2 * 2 * STAGE_BUFFER);
    }
    api_must(acre_close(device) == ACRE_OK);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1)
        return with_setting(argv[1]);
    return tests_run("copy");
}
