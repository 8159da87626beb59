/* Searches of the heap's core: they find every free block, however many segments they look at, and
 * end even if records were damaged. The heap is in host memory, and its threads are warps of one
 * lane. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "heap_fixture.h"
#include "support/cases.h"

enum { SEGMENTS = 4300, PAGE = ACRE__HEAP_PAGE_BYTES };

/* Fills a heap with runs of `pages` pages, in the order of their addresses. */
static void **fill_runs(struct heap_fixture *f, uint32_t segments, uint32_t pages) {
    size_t count = (size_t)segments * 32 / pages;
    void **runs = calloc(count, sizeof *runs);
    assert_non_null(runs);
    heap_begin(f, segments, segments);
    for (size_t i = 0; i < count; i++) {
        char *p = acre_heap_malloc(f->h, (size_t)pages * PAGE);
        assert_non_null(p);
        runs[(size_t)(p - f->h.base) / PAGE / pages] = p;
    }
    assert_null(acre_heap_malloc(f->h, PAGE));
    return runs;
}

/* Every segment has two holes that are too small, and are hinted at; one has a larger hole. */
TEST(heap_finds_the_only_hole_that_is_large_enough) {
    struct heap_fixture f;
    void **runs = fill_runs(&f, SEGMENTS, 4);
    for (size_t i = 0; i < (size_t)SEGMENTS * 8; i += 4) {
        acre_heap_free(f.h, runs[i]);
        acre_heap_free(f.h, runs[i + 1]);
    }
    assert_null(acre_heap_malloc(f.h, 12 * PAGE));
    acre_heap_free(f.h, runs[(SEGMENTS - 1) * 8 + 6]);
    assert_ptr_equal(acre_heap_malloc(f.h, 12 * PAGE), runs[(SEGMENTS - 1) * 8 + 4]);
    heap_expect_sound(f.h);
    free(runs);
    heap_end(&f);
}

/* Every segment has a hole of two pages that is not aligned to two; one has one that is. */
TEST(heap_finds_the_only_aligned_hole) {
    struct heap_fixture f;
    void **pages = fill_runs(&f, SEGMENTS, 1);
    for (size_t i = 0; i < SEGMENTS; i++) {
        acre_heap_free(f.h, pages[i * 32 + 1]);
        acre_heap_free(f.h, pages[i * 32 + 2]);
    }
    assert_null(acre_heap_aligned_malloc(f.h, 2 * PAGE, 2 * PAGE));
    acre_heap_free(f.h, pages[(SEGMENTS - 1) * 32 + 30]);
    acre_heap_free(f.h, pages[(SEGMENTS - 1) * 32 + 31]);
    assert_ptr_equal(acre_heap_aligned_malloc(f.h, 2 * PAGE, 2 * PAGE),
                     pages[(SEGMENTS - 1) * 32 + 30]);
    heap_expect_sound(f.h);
    free(pages);
    heap_end(&f);
}

/* A hint to a segment that is not free any more does not hide the free segments beside it. */
TEST(heap_finds_segments_beside_a_stale_hint) {
    for (uint32_t stale = 4; stale < 8; stale++) {
        struct heap_fixture f;
        void **wholes = fill_runs(&f, 8, 32);
        for (uint32_t i = stale - 4; i < stale; i++)
            acre_heap_free(f.h, wholes[i]);
        acre__heap_tree_set(acre__heap_of(f.h), ACRE__HEAP_RUNS - 1, stale);
        for (uint32_t i = stale + 1; i < 8 && i < stale + 3; i++)
            acre_heap_free(f.h, wholes[i]);
        assert_ptr_equal(acre_heap_malloc(f.h, (size_t)4 << ACRE__HEAP_SEGMENT_LOG2),
                         wholes[stale - 4]);
        heap_expect_sound(f.h);
        free(wholes);
        heap_end(&f);
    }
}

/* The first page of the slab of a block. */
static uint32_t slab_of(const struct heap_fixture *f, const void *block) {
    uint32_t page = (uint32_t)((const char *)block - f->h.base) / PAGE;
    return page - ACRE__HEAP_BACK(acre__heap_page_of(acre__heap_of(f->h), page)->info);
}

/* Frees a block, but loses its bit, as two frees that race with the reuse of the block can do. */
static void free_and_lose(struct heap_fixture *f, void *block) {
    acre_heap_free(f->h, block);
    memset(acre__heap_bits_of(acre__heap_of(f->h), slab_of(f, block)), 0,
           ACRE__HEAP_WORDS * sizeof(uint64_t));
}

/* Searches for slots that are not there end, and the block comes from another slab. */
TEST(heap_search_for_a_slot_that_is_not_there_ends) {
    struct heap_fixture f;
    void *blocks[4096], *good;
    size_t count = 0, lost = 0;
    heap_begin(&f, 1, 1);
    alarm(200);
    while ((blocks[count] = acre_heap_malloc(f.h, 1000)))
        count++;
    free_and_lose(&f, blocks[0]);
    assert_null(acre_heap_malloc(f.h, 1000));
    assert_int_equal(f.h.control->lost_slots, 1);
    for (size_t i = 1; i < count && lost < 5; i++)
        if (slab_of(&f, blocks[i]) != slab_of(&f, blocks[i - 1])) {
            free_and_lose(&f, blocks[i]);
            lost++;
        }
    assert_int_equal(lost, 5);
    good = blocks[count - 1];
    acre_heap_free(f.h, good);
    assert_ptr_equal(acre_heap_malloc(f.h, 1000), good);
    assert_in_range(f.h.control->lost_slots, 1, 6);
    alarm(0);
    heap_end(&f);
}

/* A warp that opens segments raises `opened` before it has written their records: a block in front
 * of them must not grow into them, whatever the records hold. */
TEST(heap_realloc_does_not_take_segments_that_are_being_opened) {
    struct heap_fixture f;
    size_t segment = (size_t)1 << ACRE__HEAP_SEGMENT_LOG2;
    heap_begin(&f, 4, 8);
    char *p = acre_heap_malloc(f.h, 4 * segment);
    assert_non_null(p);
    f.h.control->committed = f.h.control->opened = 6;
    f.h.segments[4].free_pages = f.h.segments[5].free_pages = 0xffffffffu; /* from before a trim */
    assert_null(acre_heap_realloc(f.h, p, 5 * segment));
    assert_int_equal(f.h.segments[4].free_pages, 0xffffffffu);
    acre__heap_note_whole(4, 2, acre__heap_of(f.h), 1); /* the warp is done */
    assert_ptr_equal(acre_heap_realloc(f.h, p, 5 * segment), p);
    assert_int_equal(f.h.segments[4].free_pages, 0);
    heap_end(&f);
}

int main(void) {
    return tests_run("heap_search");
}
