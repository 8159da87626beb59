/* The heap's core under threads, each a warp of one lane: threads pass blocks to each other, memory
 * is scarce, and at the end all memory is accounted for. Under the thread sanitizer this test
 * checks the memory orders. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/cases.h"
#include "support/rounds.h"
#include "unit/heap_fixture.h"

enum { THREADS = 8, PLACES = 512, STEPS = ROUNDS(100000, 10000) };

struct shared {
    struct heap_fixture f;
    _Atomic(uint64_t *) places[PLACES]; /* blocks that any thread may take and free */
    size_t most;                        /* bytes of a block */
    _Atomic uint64_t nulls, damaged;
};

struct worker {
    struct shared *shared;
    uint64_t seed;
};

/* Writes the size to the first word and patterns of it to the middle and last words, instead of
 * filling the whole block. */
static void block_mark(uint64_t *block, size_t bytes) {
    size_t words = bytes / 8;
    block[0] = bytes;
    block[words - 1] = words == 1 ? bytes : ~(uint64_t)bytes;
    if (words > 2)
        block[words / 2] = words / 2 == words - 1 ? block[words - 1] : bytes ^ 0x5555;
}

static int block_is_whole(const uint64_t *block) {
    size_t bytes = (size_t)block[0], words = bytes / 8;
    if (words == 1)
        return 1;
    return block[words - 1] == ~(uint64_t)bytes &&
           (words == 2 || block[words / 2] == (bytes ^ 0x5555));
}

static size_t pick_bytes(struct worker *w) {
    uint32_t log2 = 3 + heap_random(&w->seed) % 18;
    size_t bytes = ((size_t)1 << log2) + heap_random(&w->seed) % ((size_t)1 << log2);
    bytes = bytes / 8 * 8;
    return bytes < w->shared->most ? bytes : w->shared->most;
}

static void *work(void *user) {
    struct worker *w = user;
    struct shared *shared = w->shared;
    for (int i = 0; i < STEPS; i++) {
        uint32_t place = heap_random(&w->seed) % PLACES;
        uint64_t *block = NULL;
        if (heap_random(&w->seed) % 8 < 5) {
            size_t bytes = pick_bytes(w);
            block = acre_heap_malloc(shared->f.h, bytes);
            if (block)
                block_mark(block, bytes);
            else
                atomic_fetch_add_explicit(&shared->nulls, 1, memory_order_relaxed);
        }
        block = atomic_exchange_explicit(&shared->places[place], block, memory_order_acq_rel);
        if (block && !block_is_whole(block))
            atomic_fetch_add_explicit(&shared->damaged, 1, memory_order_relaxed);
        acre_heap_free(shared->f.h, block);
    }
    return NULL;
}

static void run_threads(uint32_t segments, size_t most, int wants_nulls) {
    struct shared *shared = calloc(1, sizeof *shared);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    assert_non_null(shared);
    heap_begin(&shared->f, segments, segments);
    shared->most = most;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){shared, (uint64_t)i * 77 + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    heap_expect_sound(shared->f.h);
    assert_int_equal(shared->damaged, 0);
    assert_int_equal(heap_wrong_frees(&shared->f), 0);
    assert_int_equal(shared->f.h.control->failed, shared->nulls);
    if (!wants_nulls)
        assert_int_equal(shared->nulls, 0);
    else
        assert_true(shared->nulls > 0);
    for (int i = 0; i < PLACES; i++)
        acre_heap_free(shared->f.h, shared->places[i]);
    heap_expect_empty(&shared->f);
    heap_end(&shared->f);
    free(shared);
}

TEST(heap_threads_pass_small_blocks_around) {
    run_threads(16, 2048, 0);
}

TEST(heap_threads_pass_blocks_of_all_sizes_around) {
    run_threads(256, (size_t)1 << 20, 0);
}

TEST(heap_threads_bear_exhaustion) {
    run_threads(4, 65536, 1);
    run_threads(24, (size_t)3 << 20, 1);
}

/* All threads fill the heap together, then free each other's blocks, a few times: nothing leaks. */
struct filler {
    struct heap_fixture *f;
    void **blocks;
    size_t bytes, count;
};

static void *fill(void *user) {
    struct filler *filler = user;
    void *p;
    while ((p = acre_heap_malloc(filler->f->h, filler->bytes)))
        filler->blocks[filler->count++] = p;
    return NULL;
}

static void *drain(void *user) {
    struct filler *filler = user;
    while (filler->count)
        acre_heap_free(filler->f->h, filler->blocks[--filler->count]);
    return NULL;
}

static void all_threads(struct filler *fillers, void *(*run)(void *), int shift) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, &fillers[(i + shift) % THREADS]),
                         0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

TEST(heap_threads_fill_it_again_and_again) {
    static const size_t sizes[] = {ROUNDS(16, 64), 200, 1024, 8192, 32768, 150000};
    struct heap_fixture f;
    struct filler fillers[THREADS];
    heap_begin(&f, 8, 8);
    size_t all = 8 * ACRE__HEAP_SEGMENT_BYTES;
    for (int i = 0; i < THREADS; i++) {
        fillers[i] = (struct filler){.f = &f, .blocks = malloc(all / 16 * sizeof(void *))};
        assert_non_null(fillers[i].blocks);
    }
    for (size_t round = 0; round < 2 * sizeof sizes / sizeof sizes[0]; round++) {
        size_t bytes = sizes[round % (sizeof sizes / sizeof sizes[0])], count = 0, usable = 0;
        for (int i = 0; i < THREADS; i++)
            fillers[i].bytes = bytes;
        all_threads(fillers, fill, 0);
        heap_expect_sound(f.h);
        for (int i = 0; i < THREADS; i++) {
            count += fillers[i].count;
            if (fillers[i].count) /* a thread may have come too late to get a block */
                usable = acre_heap_usable_size(f.h, fillers[i].blocks[0]);
        }
        if (count * usable < all / 100 * 90)
            fail_msg("round %zu: only %zu blocks of %zu bytes fit", round, count, bytes);
        all_threads(fillers, drain, 3);
        heap_expect_sound(f.h);
    }
    heap_expect_empty(&f);
    assert_int_equal(heap_wrong_frees(&f), 0);
    for (int i = 0; i < THREADS; i++)
        free(fillers[i].blocks);
    heap_end(&f);
}

/* ---- memory that becomes free while a request waits for the host ---- */

struct waiting {
    struct heap_fixture f;
    acre__heap_wish wish;
    void *got[2];
    uint32_t delay_us;
};

static void *waiting_get(void *user) {
    struct waiting *w = user;
    usleep(w->delay_us);
    return acre_heap_malloc(w->f.h, 65536);
}

/* Two pages are free, in arenas. Both requests wait for a host that does not answer. The first one
 * collects both pages; the second one must look again, although there is nothing left to collect.
 */
TEST(heap_requests_find_what_others_collect_while_they_wait) {
    struct waiting w = {.delay_us = 0};
    pthread_t thread;
    heap_begin(&w.f, 1, 4);
    w.f.h.control->host = (uintptr_t)&w.wish;
    w.f.h.control->wait_ns = 60000000;
    acre_heap_free(w.f.h, acre_heap_malloc(w.f.h, 16));
    acre_heap_free(w.f.h, acre_heap_malloc(w.f.h, 1000));
    for (int i = 0; i < 30; i++)
        assert_non_null(acre_heap_malloc(w.f.h, 65536));
    assert_int_equal(pthread_create(&thread, NULL, waiting_get, &w), 0);
    usleep(20000);
    w.got[0] = acre_heap_malloc(w.f.h, 65536);
    pthread_join(thread, &w.got[1]);
    assert_non_null(w.got[0]);
    assert_non_null(w.got[1]);
    assert_int_equal(w.f.h.control->failed, 0);
    heap_end(&w.f);
}

int main(void) {
    return tests_run("heap_threads");
}
