/* The heap's core on host memory, one thread: sizes, alignment, exhaustion, reuse, wrong frees. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/cases.h"
#include "support/rounds.h"
#include "unit/heap_fixture.h"

/* Sizes for each allocation path: size classes, pages, segments. */
static const size_t SIZES[] = {
    1,    16,    24,    48,    64,    100,    256,    1000,    1024,          1536,    4096,   5000,
    8192, 20000, 32768, 32769, 65536, 100000, 300000, 1 << 20, (1 << 20) + 1, 2 << 20, 5 << 20};
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

TEST(heap_classes_waste_a_third_at_most) {
    uint32_t before = 0;
    for (uint32_t c = 0; c < ACRE_HEAP_CLASSES; c++) {
        uint32_t bytes = acre__heap_class_bytes(c);
        assert_true(bytes > before && bytes % 16 == 0);
        assert_int_equal(acre__heap_class_of(before + 1), c);
        assert_int_equal(acre__heap_class_of(bytes), c);
        if (bytes > 32)
            assert_true((bytes - before - 1) * 3 <= bytes);
        for (uint32_t spread = 0; spread < 32; spread++) {
            uint32_t pages = 1u << acre__heap_slab_log2(c, spread);
            assert_in_range(acre__heap_slots(c, pages), 8, 64 * ACRE__HEAP_WORDS);
        }
        uint32_t slots = acre__heap_slots(c, 1u << acre__heap_slab_log2(c, 31));
        for (uint32_t i = 0; i < slots; i++) {
            assert_int_equal(acre__heap_slot_of(c, i * bytes), i);
            assert_int_equal(acre__heap_slot_of(c, i * bytes + bytes - 1), i);
        }
        before = bytes;
    }
    assert_int_equal(before, ACRE__HEAP_CLASS_MOST);
}

TEST(heap_large_classes_are_the_smallest_that_fit) {
    uint32_t before = ACRE__HEAP_CLASS_MOST;
    for (uint32_t c = ACRE_HEAP_CLASSES; c < ACRE__HEAP_SORTS; c++) {
        uint32_t bytes = acre__heap_class_bytes(c), slots = acre__heap_slots(c, 16);
        assert_int_equal(bytes, ((1u << 20) / slots) & ~255u);
        assert_true(bytes % 256 == 0 && bytes > before);
        assert_int_equal(acre__heap_slab_log2(c, 1), 4);
        assert_true(acre__heap_slots(c, 1u << acre__heap_slab_log2(c, 0)) >= 2);
        for (uint32_t i = 0; i < slots; i++) {
            assert_int_equal(acre__heap_slot_of(c, i * bytes), i);
            assert_int_equal(acre__heap_slot_of(c, i * bytes + bytes - 1), i);
        }
        for (uint32_t pages = 1; pages <= 16; pages *= 2)
            assert_true(acre__heap_slots(c, pages) * bytes <= pages * ACRE__HEAP_PAGE_BYTES);
        before = bytes;
    }
    assert_int_equal(before, ACRE__HEAP_LARGE_MOST);
    for (size_t bytes = ACRE__HEAP_CLASS_MOST + 1; bytes <= 256 << 10; bytes += 37) {
        uint32_t c = acre__heap_large_class(bytes);
        size_t pages = (bytes + ACRE__HEAP_PAGE_BYTES - 1) / ACRE__HEAP_PAGE_BYTES;
        size_t has =
            c < ACRE__HEAP_SORTS ? acre__heap_class_bytes(c) : pages * ACRE__HEAP_PAGE_BYTES;
        assert_true(has >= bytes && (has - bytes) * 5 <= has + 1280);
        if (c < ACRE__HEAP_SORTS && c > ACRE_HEAP_CLASSES)
            assert_true(acre__heap_class_bytes(c - 1) < bytes);
    }
}

TEST(heap_blocks_are_aligned_and_their_own) {
    struct heap_fixture f;
    heap_begin(&f, 16, 16);
    void *blocks[SIZE_COUNT][4];
    for (int i = 0; i < SIZE_COUNT; i++)
        for (int k = 0; k < 4 && SIZES[i] <= 1 << 20; k++) {
            char *p = blocks[i][k] = acre_heap_malloc(f.h, SIZES[i]);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 16, 0);
            assert_true(acre_heap_usable_size(f.h, p) >= SIZES[i]);
            assert_true(acre_heap_owns(f.h, p));
            memset(p, i * 4 + k + 1, SIZES[i]);
        }
    heap_expect_sound(f.h);
    for (int i = 0; i < SIZE_COUNT; i++)
        for (int k = 0; k < 4 && SIZES[i] <= 1 << 20; k++) {
            const unsigned char *p = blocks[i][k];
            assert_int_equal(p[0], i * 4 + k + 1);
            assert_int_equal(p[SIZES[i] - 1], i * 4 + k + 1);
            acre_heap_free(f.h, blocks[i][k]);
            assert_int_equal(acre_heap_usable_size(f.h, p), 0);
        }
    heap_expect_empty(&f);
    assert_int_equal(heap_wrong_frees(&f) + f.h.control->failed, 0);
    heap_end(&f);
}

TEST(heap_malloc_of_nothing_is_a_block_of_its_own) {
    struct heap_fixture f;
    heap_begin(&f, 2, 2);
    void *a = acre_heap_malloc(f.h, 0), *b = acre_heap_malloc(f.h, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    acre_heap_free(f.h, a);
    acre_heap_free(f.h, b);
    acre_heap_free(f.h, NULL);
    assert_int_equal(heap_wrong_frees(&f), 0);
    heap_expect_empty(&f);
    heap_end(&f);
}

/* Allocates blocks of one size until NULL. */
static size_t fill(struct heap_fixture *f, size_t bytes, void **blocks) {
    size_t count = 0;
    void *p;
    while ((p = acre_heap_malloc(f->h, bytes)))
        blocks[count++] = p;
    return count;
}

TEST(heap_everything_freed_is_allocatable_again_in_every_size) {
    enum { SEGMENTS = ROUNDS(20, 3) };
    struct heap_fixture f;
    heap_begin(&f, SEGMENTS, SEGMENTS);
    size_t all = SEGMENTS * ACRE__HEAP_SEGMENT_BYTES;
    void **blocks = malloc(all / 16 * sizeof *blocks);
    assert_non_null(blocks);
    for (int i = 0; i < 2 * SIZE_COUNT; i++) {
        size_t bytes = SIZES[i % SIZE_COUNT];
        size_t count = fill(&f, bytes, blocks);
        heap_expect_sound(f.h);
        size_t usable = acre_heap_usable_size(f.h, blocks[0]);
        /* Runs of pages do not fill a segment to its end, nor do runs of segments fill the heap. */
        size_t least = usable > ACRE__HEAP_CLASS_MOST ? all / 10 * 9 : all / 100 * 97;
        if (count * usable < least)
            fail_msg("%zu blocks of %zu bytes use %zu of %zu", count, bytes, count * usable, all);
        for (size_t k = 0; k < count; k++) /* every second one first */
            acre_heap_free(f.h, blocks[k * 2 < count ? k * 2 : (k - (count + 1) / 2) * 2 + 1]);
        assert_int_equal(heap_wrong_frees(&f), 0);
        heap_expect_sound(f.h);
    }
    heap_expect_empty(&f);
    free(blocks);
    heap_end(&f);
}

TEST(heap_above_32_kib_loses_a_fifth_at_most) {
    enum { SEGMENTS = 8 };
    static const size_t sizes[] = {32769,  33 << 10, 37377,  45569,    55041,     65 << 10,
                                   65537,  80641,    95233,  116481,   128 << 10, 131073,
                                   149761, 174593,   209665, 256 << 10};
    struct heap_fixture f;
    heap_begin(&f, SEGMENTS, SEGMENTS);
    size_t all = SEGMENTS * ACRE__HEAP_SEGMENT_BYTES;
    void **blocks = malloc(all / 32768 * sizeof *blocks);
    assert_non_null(blocks);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t count = fill(&f, sizes[i], blocks);
        if (count * sizes[i] < all / 1000 * 798)
            fail_msg("%zu blocks of %zu bytes in %zu", count, sizes[i], all);
        heap_expect_sound(f.h);
        while (count > 0)
            acre_heap_free(f.h, blocks[--count]);
        heap_expect_sound(f.h);
    }
    heap_expect_empty(&f);
    free(blocks);
    heap_end(&f);
}

/* Slabs of large blocks need adjacent pages, which are rare where many small slabs are left. */
TEST(heap_gives_a_large_block_the_last_pages_that_fit) {
    enum { COUNT = 64 };
    struct heap_fixture f;
    heap_begin(&f, 2, 2);
    void *pages[COUNT];
    for (int i = 0; i < COUNT; i++)
        assert_non_null(pages[i] = acre_heap_malloc(f.h, ACRE__HEAP_PAGE_BYTES));
    assert_null(acre_heap_malloc(f.h, 150 << 10));
    for (int i = 0; i < 3; i++) /* three adjacent pages, not four */
        for (int k = 0; k < COUNT; k++)
            if (pages[k] == f.h.base + ((size_t)(8 + i) << ACRE__HEAP_PAGE_LOG2)) {
                acre_heap_free(f.h, pages[k]);
                pages[k] = NULL;
            }
    void *block = acre_heap_malloc(f.h, 150 << 10);
    assert_ptr_equal(block, f.h.base + ((size_t)8 << ACRE__HEAP_PAGE_LOG2));
    assert_int_equal(f.h.control->failed, 1);
    acre_heap_free(f.h, block);
    for (int k = 0; k < COUNT; k++)
        acre_heap_free(f.h, pages[k]);
    heap_expect_empty(&f);
    heap_end(&f);
}

/* Allocates rounds of blocks and keeps 1 of 16, until the heap is full. */
static double survivors(size_t bytes, uint32_t segments, size_t round) {
    struct heap_fixture f;
    heap_begin(&f, segments, segments);
    void **blocks = malloc(round * sizeof *blocks);
    assert_non_null(blocks);
    uint64_t seed = 4711, live = 0;
    for (int is_full = 0; !is_full;) {
        size_t count = 0;
        while (count < round && (blocks[count] = acre_heap_malloc(f.h, bytes)))
            count++;
        is_full = count < round;
        for (size_t i = 0; i < count; i++) {
            if (!is_full && heap_random(&seed) % 16)
                acre_heap_free(f.h, blocks[i]);
            else
                live++;
        }
    }
    heap_expect_sound(f.h);
    double share = (double)(live * bytes) / (double)(segments * ACRE__HEAP_SEGMENT_BYTES);
    free(blocks);
    heap_end(&f);
    return share;
}

TEST(heap_slots_are_reused_without_their_neighbours) {
    double small = survivors(64, ROUNDS(8, 2), 1 << ROUNDS(12, 10));
    double middle = survivors(1024, ROUNDS(32, 8), 1 << ROUNDS(12, 10));
    print_message("live at the first NULL: %.1f %% (64 B), %.1f %% (1 KiB)\n", small * 100,
                  middle * 100);
    assert_true(small > 0.95 && middle > 0.95);
}

TEST(heap_counts_and_ignores_wrong_frees) {
    struct heap_fixture f;
    heap_begin(&f, 8, 8);
    char *small = acre_heap_malloc(f.h, 100), *next = acre_heap_malloc(f.h, 100);
    char *run = acre_heap_malloc(f.h, 200000), *large = acre_heap_malloc(f.h, 5 << 20);
    char outside[16];
    char *wrong[] = {outside,       small + 16,        small + 1,         run + 16, run + 65536,
                     large + 16,    f.h.base - 16,     next + 16384, /* never allocated */
                     large + 65536, large + (2 << 20), f.h.base + f.bytes};
    enum { WRONG = sizeof wrong / sizeof wrong[0] };
    for (int i = 0; i < WRONG; i++) {
        acre_heap_free(f.h, wrong[i]);
        assert_int_equal(heap_wrong_frees(&f), i + 1);
        heap_expect_sound(f.h);
    }
    assert_true(f.h.control->foreign_frees >= 3 && f.h.control->interior_frees >= 4);
    char *right[] = {small, run, large, next};
    for (int i = 0; i < 4; i++) {
        acre_heap_free(f.h, right[i]);
        assert_int_equal(heap_wrong_frees(&f), WRONG + i);
        acre_heap_free(f.h, right[i]); /* a double free */
        assert_int_equal(heap_wrong_frees(&f), WRONG + i + 1);
    }
    heap_expect_empty(&f);
    heap_end(&f);
}

TEST(heap_aligns_as_asked_and_refuses_what_cannot_be) {
    struct heap_fixture f;
    heap_begin(&f, 24, 24);
    for (size_t align = 1; align <= ACRE__HEAP_ALIGN_MOST; align *= 2)
        for (int i = 0; i < SIZE_COUNT; i++) {
            void *p = acre_heap_aligned_malloc(f.h, SIZES[i], align);
            void *q = acre_heap_aligned_malloc(f.h, SIZES[i], align);
            assert_non_null(p);
            assert_non_null(q);
            assert_int_equal((uintptr_t)p % align + (uintptr_t)q % align, 0);
            assert_true(acre_heap_usable_size(f.h, p) >= SIZES[i]);
            acre_heap_free(f.h, p);
            acre_heap_free(f.h, q);
        }
    static const size_t bad[] = {0, 3, 48, 4 << 20, SIZE_MAX, (size_t)1 << 63};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_null(acre_heap_aligned_malloc(f.h, 16, bad[i]));
    assert_int_equal(f.h.control->bad_alignment, sizeof bad / sizeof bad[0]);
    assert_int_equal(f.h.control->failed, 0);
    heap_expect_empty(&f);
    heap_end(&f);
}

TEST(heap_too_much_is_null_and_counted) {
    struct heap_fixture f;
    heap_begin(&f, 4, 4);
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, (size_t)1 << 62, (8 << 20) + 1};
    for (size_t i = 0; i < 4; i++)
        assert_null(acre_heap_malloc(f.h, sizes[i]));
    assert_null(acre_heap_calloc(f.h, SIZE_MAX / 2, 3));
    assert_null(acre_heap_calloc(f.h, 3, SIZE_MAX / 2));
    assert_int_equal(f.h.control->failed, 6);
    void *all = acre_heap_malloc(f.h, 8 << 20);
    assert_ptr_equal(all, f.h.base);
    assert_null(acre_heap_malloc(f.h, 1));
    acre_heap_free(f.h, all);
    heap_expect_empty(&f);
    heap_end(&f);
}

TEST(heap_calloc_and_realloc_keep_what_they_promise) {
    struct heap_fixture f;
    heap_begin(&f, 32, 32);
    unsigned char *p = acre_heap_malloc(f.h, 3000);
    memset(p, 0xff, 3000);
    acre_heap_free(f.h, p);
    p = acre_heap_calloc(f.h, 300, 10);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(p[i], 0);
    size_t before = 3000;
    for (int i = 0; i < SIZE_COUNT; i++) {
        memset(p, i + 1, before);
        p = acre_heap_realloc(f.h, p, SIZES[i]);
        assert_non_null(p);
        size_t kept = before < SIZES[i] ? before : SIZES[i];
        assert_int_equal(p[0], i + 1);
        assert_int_equal(p[kept - 1], i + 1);
        before = SIZES[i];
    }
    assert_null(acre_heap_realloc(f.h, p, (size_t)1 << 40));
    assert_int_equal(p[0], SIZE_COUNT);
    assert_null(acre_heap_realloc(f.h, p + 1, 10));
    acre_heap_free(f.h, p);
    assert_null(acre_heap_realloc(f.h, p, 10));
    assert_int_equal(heap_wrong_frees(&f), 2);
    p = acre_heap_realloc(f.h, NULL, 10);
    assert_non_null(p);
    acre_heap_free(f.h, p);
    heap_expect_empty(&f);
    heap_end(&f);
}

/* Blocks of pages and of segments grow and shrink where they are, while there is room behind. */
TEST(heap_realloc_stays_in_place_where_there_is_room) {
    const struct {
        size_t small, large, too_large;
    } sizes[] = {{70000, 600000, 800000}, {3 << 20, 9 << 20, 40 << 20}};
    for (int i = 0; i < 2; i++) {
        struct heap_fixture f;
        heap_begin(&f, 16, 16);
        char *all = acre_heap_malloc(f.h, 32 << 20); /* opens every segment */
        acre_heap_free(f.h, all);
        char *p = acre_heap_malloc(f.h, sizes[i].large);
        assert_non_null(p);
        p[0] = 1;
        p[sizes[i].small - 1] = 2;
        assert_ptr_equal(acre_heap_realloc(f.h, p, sizes[i].small), p);
        heap_expect_sound(f.h);
        assert_true(acre_heap_usable_size(f.h, p) < sizes[i].small + ((size_t)2 << 20));
        assert_ptr_equal(acre_heap_realloc(f.h, p, sizes[i].large), p);
        assert_int_equal(p[0], 1);
        assert_int_equal(p[sizes[i].small - 1], 2);
        assert_true(acre_heap_usable_size(f.h, p) >= sizes[i].large);
        heap_expect_sound(f.h);
        /* A neighbour is in the way: the block moves. */
        assert_ptr_equal(acre_heap_realloc(f.h, p, sizes[i].small), p);
        char *neighbours[600];
        size_t count = 0;
        while (count < 600 && (neighbours[count] = acre_heap_malloc(f.h, 65536)))
            count++;
        assert_true(count < 600);
        assert_null(acre_heap_realloc(f.h, p, sizes[i].large));
        assert_int_equal(p[sizes[i].small - 1], 2);
        for (size_t k = 0; k < count; k++)
            if (neighbours[k] < p || neighbours[k] > p + sizes[i].large)
                acre_heap_free(f.h, neighbours[k]);
        char *moved = acre_heap_realloc(f.h, p, sizes[i].large);
        assert_non_null(moved);
        assert_ptr_not_equal(moved, p);
        assert_int_equal(moved[sizes[i].small - 1], 2);
        for (size_t k = 0; k < count; k++)
            if (neighbours[k] >= p && neighbours[k] <= p + sizes[i].large)
                acre_heap_free(f.h, neighbours[k]);
        assert_null(acre_heap_realloc(f.h, moved, sizes[i].too_large << 10));
        acre_heap_free(f.h, moved);
        heap_expect_empty(&f);
        heap_end(&f);
    }
}

TEST(heap_group_forms_work_for_a_group_of_one) {
    struct heap_fixture f;
    heap_begin(&f, 4, 4);
    void *slot = NULL, *whole;
    char *a = acre_heap_warp_malloc(f.h, 1, 100), *b = acre_heap_block_malloc(f.h, 200, &slot);
    char *c = acre_heap_coalesced_malloc(f.h, 1, 33, &whole);
    assert_true(a && b && c && c == whole);
    for (size_t from = 0; from < 17; from++)
        for (size_t bytes = 0; bytes < 40; bytes++) {
            memset(b, 1, 100);
            assert_ptr_equal(acre_heap_memset(b + from, 0x1fe, bytes), b + from);
            for (size_t i = 0; i < 100; i++)
                assert_int_equal((unsigned char)b[i], i >= from && i < from + bytes ? 0xfe : 1);
            assert_ptr_equal(acre_heap_warp_memcpy(1, a, b, 100), a);
            assert_memory_equal(a, b, 100);
            memset(a, 7, 100);
            assert_ptr_equal(acre_heap_memcpy(a + from, b, bytes), a + from);
            assert_memory_equal(a + from, b, bytes);
            assert_int_equal(a[from + bytes], 7);
        }
    (void)acre_heap_block_memset(a, 0, 100);
    (void)acre_heap_block_memcpy(b, a, 100);
    (void)acre_heap_warp_memset(1, b, 0, 100);
    assert_memory_equal(a, b, 100);
    for (size_t bytes = 50; bytes < 500000; bytes *= 3) { /* both stay, move and grow in place */
        a[0] = b[0] = 5;
        a[49] = b[49] = 6;
        a = acre_heap_warp_realloc(f.h, 1, a, bytes);
        b = acre_heap_block_realloc(f.h, b, bytes, &slot);
        assert_true(a && b && a != b && acre_heap_usable_size(f.h, a) >= bytes);
        assert_int_equal(a[0] + b[0] + a[49] + b[49], 22);
    }
    acre_heap_warp_free(f.h, 1, a);
    acre_heap_block_free(f.h, b);
    a = acre_heap_warp_calloc(f.h, 1, 100, 9);
    b = acre_heap_block_calloc(f.h, 9, 100, &slot);
    assert_true(a && b);
    for (int i = 0; i < 900; i++)
        assert_int_equal(a[i] + b[i], 0);
    assert_null(acre_heap_warp_calloc(f.h, 1, SIZE_MAX / 2, 3));
    assert_null(acre_heap_block_calloc(f.h, SIZE_MAX / 2, 3, &slot));
    assert_null(acre_heap_warp_realloc(f.h, 1, a + 1, 10));
    assert_null(acre_heap_block_realloc(f.h, b + 1, 10, &slot));
    acre_heap_warp_free(f.h, 1, a);
    acre_heap_block_free(f.h, b);
    acre_heap_free(f.h, whole);
    heap_expect_empty(&f);
    heap_end(&f);
}

TEST(heap_takes_in_what_the_host_adds) {
    struct heap_fixture f;
    heap_begin(&f, 2, 100);
    void **blocks = malloc(((size_t)100 << 5) * sizeof *blocks);
    assert_int_equal(fill(&f, 65536, blocks), 64);
    f.h.control->committed = 3; /* as after the host's answer */
    assert_int_equal(fill(&f, 65536, blocks + 64), 32);
    f.h.control->committed = 100;
    void *large = acre_heap_malloc(f.h, (size_t)90 << 21);
    assert_non_null(large);
    size_t count = 96 + fill(&f, 65536, blocks + 96);
    assert_int_equal(count, 320);
    heap_expect_sound(f.h);
    for (size_t i = 0; i < count; i++)
        acre_heap_free(f.h, blocks[i]);
    acre_heap_free(f.h, large);
    heap_expect_empty(&f);
    large = acre_heap_malloc(f.h, (size_t)100 << 21);
    assert_ptr_equal(large, f.h.base);
    free(blocks);
    heap_end(&f);
}

/* Flushing takes milliseconds while thousands of warps do it, so a heap that can grow does not. */
TEST(heap_grows_before_it_detaches_slabs) {
    struct heap_fixture f;
    acre__heap_wish wish = {0};
    heap_begin(&f, 1, 4);
    f.h.control->host = (uintptr_t)&wish;
    void *first = acre_heap_malloc(f.h, 16), *pages[31];
    for (int i = 0; i < 31; i++)
        assert_non_null(pages[i] = acre_heap_malloc(f.h, 65536));
    wish.committed = 2; /* the host has answered, but no kernel has read it */
    wish.answers = 1 << 1;
    void *small = acre_heap_malloc(f.h, 1000), *large = acre_heap_malloc(f.h, 65536);
    assert_true(small && large);
    assert_int_equal(f.h.control->flushes, 0);
    assert_ptr_equal(acre_heap_malloc(f.h, 16), (char *)first + 16); /* its slab is still there */
    wish.answers |= 1; /* at its limit a heap uses what its arenas have */
    for (int i = 0; i < 30; i++)
        assert_non_null(acre_heap_malloc(f.h, 65536));
    assert_null(acre_heap_malloc(f.h, 65536));
    assert_in_range(f.h.control->flushes, 1, 3);
    heap_expect_sound(f.h);
    heap_end(&f);
}

TEST(heap_waits_for_the_host_but_not_for_ever) {
    struct heap_fixture f;
    acre__heap_wish wish = {0};
    heap_begin(&f, 1, 4);
    f.h.control->host = (uintptr_t)&wish;
    f.h.control->wait_ns = 20000000;
    assert_non_null(acre_heap_malloc(f.h, 2 << 20));
    uint64_t begin = acre__heap_time_ns();
    assert_null(acre_heap_malloc(f.h, 100)); /* the host does not answer */
    assert_true(acre__heap_time_ns() - begin >= 20000000);
    assert_int_equal(wish.number, 1);
    assert_true(wish.bytes >= 100);
    assert_int_equal(f.h.control->waits, 1);
    wish.answers = 1 << 1 | 1; /* the host's answer: no more memory */
    f.h.control->wait_ns = UINT64_C(200000000000);
    assert_null(acre_heap_malloc(f.h, 100)); /* without a wait */
    assert_int_equal(f.h.control->waits, 1);
    heap_end(&f);
}

int main(void) {
    return tests_run("heap_core");
}
