/* Heaps inside kernels that use all of their memory: exhaustion, allocation after it, growth while
 * a kernel runs, and a soak. heap_world.h says on which devices this runs. The printed figures are
 * for the reader; the test checks only their bounds. ACRE_TEST_SOAK_SECONDS sets the duration of
 * the soak. */
#include <stdlib.h>
#include <time.h>

#include "heap_world.h"
#include "support/rounds.h"

static double share(uint64_t bytes, uint64_t of) {
    return (double)bytes / (double)of;
}

/* Returns the usable bytes of a block of this size. */
static uint64_t bytes_of(uint64_t bytes) {
    if (bytes <= ACRE__HEAP_CLASS_MOST)
        return acre__heap_class_bytes(acre__heap_class_of(bytes));
    uint64_t unit = bytes <= ACRE__HEAP_RUN_MOST ? ACRE__HEAP_PAGE_BYTES : ACRE__HEAP_SEGMENT_BYTES;
    return (bytes + unit - 1) / unit * unit;
}

/* All threads allocate blocks until NULL, then free them. On a soft device the time depends on the
 * number of blocks: with few rounds, blocks are larger. */
static void fill_and_drain(struct heap_world *w, uint64_t bytes, uint64_t room) {
    heap_sizes(w, bytes, bytes, 0);
    heap_run(w, "heap_fill");
    uint64_t count = w->counts[HEAP_BLOCKS];
    double got = share(count * bytes_of(bytes), room), ms = w->ms;
    acre_heap_stats stats = heap_stats(w);
    assert_int_equal(w->counts[HEAP_NULLS], w->job.threads);
    assert_int_equal(stats.live_blocks, count);
    assert_int_equal(stats.live_bytes, count * bytes_of(bytes));
    assert_int_equal(stats.asks, 0);
    print_message("%8llu B: %9llu blocks, %.4f of the heap, in %.2f ms; the longest NULL %.3f ms\n",
                  (unsigned long long)bytes, (unsigned long long)count, got, ms,
                  (double)w->counts[HEAP_NULL_NS] / 1e6);
    assert_true(got >= 0.97);
    heap_run(w, "heap_drain");
    assert_int_equal(w->counts[HEAP_BLOCKS], count);
}

TEST(heap_filled_and_freed_is_filled_again) {
    struct heap_world *w = *state;
    uint64_t least = heap_pick(w, 16, 16, ROUNDS(16, 64));
    uint64_t small = heap_pick(w, 64, 64, ROUNDS(64, 256));
    const uint64_t sizes[] = {small, small, 1024,  1024,    least, 4096,
                              8192,  24576, 65536, 2 * MIB, small};
    uint64_t room = heap_pick(w, 2 * GIB, 32 * MIB, 2 * MIB);
    heap_begin(w, room, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        fill_and_drain(w, sizes[i], room);
    heap_end(w, 0);
}

/* Kernels fill a heap, its memory leaves the device and comes back, and kernels find every block.
 */
TEST(heap_suspended_keeps_its_blocks) {
    struct heap_world *w = *state;
    uint64_t room = heap_pick(w, 256 * MIB, 32 * MIB, 4 * MIB);
    acre_suspended *suspended;
    heap_begin(w, room, 0);
    heap_sizes(w, 1024, 1024, 0);
    for (int i = 0; i < 3; i++) {
        heap_run(w, "heap_fill");
        uint64_t count = w->counts[HEAP_BLOCKS];
        assert_true(count > 0);
        assert_int_equal(acre_suspend(w->dev, NULL, &suspended), ACRE_OK);
        acre_heap_stats stats = {.struct_size = sizeof stats};
        assert_int_equal(acre_heap_get_stats(w->heap, &stats), ACRE_E_SUSPENDED);
        assert_int_equal(acre_resume(suspended), ACRE_OK);
        assert_int_equal(heap_stats(w).live_blocks, count);
        heap_run(w, "heap_drain");
        assert_int_equal(w->counts[HEAP_BLOCKS], count);
    }
    heap_end(w, 0);
}

/* Allocates all sizes at once. Each size class ends with a slab that is not full, which is a large
 * part of a small heap. */
TEST(heap_filled_with_mixed_sizes_is_filled_again) {
    struct heap_world *w = *state;
    uint64_t room = heap_pick(w, 2 * GIB, 32 * MIB, 8 * MIB);
    heap_begin(w, room, 0);
    heap_sizes(w, 16, 4096, 0);
    for (uint32_t round = 0; round < 3; round++) {
        w->job.salt = round;
        heap_run(w, "heap_fill");
        acre_heap_stats stats = heap_stats(w);
        double got = share(stats.live_bytes, room);
        print_message("16 .. 4096 B: %llu blocks, %.4f of the heap, in %.2f ms\n",
                      (unsigned long long)stats.live_blocks, got, w->ms);
        assert_int_equal(stats.live_blocks, w->counts[HEAP_BLOCKS]);
        assert_true(got >= (!w->gpu ? 0.80 : w->is_memcheck ? 0.70 : 0.95));
        heap_run(w, "heap_drain");
    }
    heap_end(w, 0);
}

/* Allocates rounds of blocks and frees 15 of 16 at random, until an allocation fails. */
static void thin(struct heap_world *w, uint64_t bytes, uint64_t room, uint32_t threads) {
    heap_begin(w, room, 0);
    w->job.threads = threads;
    heap_sizes(w, bytes, bytes, 0);
    uint32_t rounds = 0;
    for (;; rounds++) {
        w->job.salt = rounds;
        heap_run(w, "heap_round");
        if (w->counts[HEAP_NULLS])
            break;
        heap_run(w, "heap_thin");
        assert_true(rounds < 100000);
    }
    double got = share(heap_stats(w).live_bytes, room);
    print_message("%8llu B: %u rounds of %u blocks, 15/16 freed: %.4f of the heap is live at the "
                  "first NULL\n",
                  (unsigned long long)bytes, rounds, threads, got);
    assert_true(got >= 0.80);
    heap_run(w, "heap_thin");
    heap_run(w, "heap_drain");
    heap_end(w, 0);
}

TEST(heap_thinned_at_random_is_still_used) {
    struct heap_world *w = *state;
    uint32_t threads = (uint32_t)heap_pick(w, 1 << 16, 1 << 11, 1 << ROUNDS(10, 8));
    uint64_t small = heap_pick(w, 64, 64, ROUNDS(256, 1024));
    thin(w, small, heap_pick(w, 256 * MIB, 2 * MIB, 2 * MIB), threads);
    uint64_t large = heap_pick(w, 1024, 1024, ROUNDS(1024, 4096));
    thin(w, large, heap_pick(w, 2 * GIB, 32 * MIB, ROUNDS(6, 2) * MIB), threads);
}

/* ---- growth ---- */

/* compute-sanitizer does not see memory that is mapped while a kernel runs, only what was mapped
 * when the kernel began. */
static int is_no_growth(const struct heap_world *w) {
    if (w->is_memcheck)
        print_message("skipped under compute-sanitizer: it does not see memory mapped after the "
                      "kernel's start\n");
    return w->is_memcheck;
}

/* Uses more threads than the GPU can run at once, so that every multiprocessor is busy while memory
 * is added. */
static void grow(struct heap_world *w, acre_stream stream, uint64_t bytes) {
    uint64_t room = heap_pick(w, 2 * GIB, 0, 16 * MIB);
    heap_begin(w, heap_pick(w, 8 * MIB, 0, 2 * MIB), room + room / 4);
    heap_sizes(w, bytes, bytes, 0);
    w->job.threads = heap_threads_for(w, bytes, room);
    w->job.most = room / w->job.threads / bytes;
    heap_run_on(w, "heap_fill", stream);
    acre_heap_stats stats = heap_stats(w);
    print_message("%8llu B: to %llu MiB inside one kernel, %llu steps, in %.2f ms\n",
                  (unsigned long long)bytes, (unsigned long long)(stats.mapped_bytes / MIB),
                  (unsigned long long)stats.grows, w->ms);
    assert_int_equal(w->counts[HEAP_NULLS], 0);
    assert_int_equal(w->counts[HEAP_BLOCKS], w->job.most * w->job.threads);
    assert_int_equal(stats.live_blocks, w->counts[HEAP_BLOCKS]);
    assert_true(stats.mapped_bytes >= room);
    assert_true(stats.grows > 1 && stats.grows <= stats.asks);
    heap_run_on(w, "heap_drain", stream);
    heap_end(w, 0);
}

TEST(heap_grows_while_a_kernel_runs) {
    struct heap_world *w = *state;
    if (is_no_growth(w))
        return;
    grow(w, w->stream, 1024);
    grow(w, w->stream, heap_pick(w, 128, 128, 512));
    grow(w, w->stream, 65536);
}

/* Programs launch on the legacy stream by default. The heap's internal copies must not wait for
 * it. */
TEST(heap_grows_while_a_kernel_runs_on_the_legacy_stream) {
    struct heap_world *w = *state;
    if (is_no_growth(w))
        return;
    grow(w, NULL, 2048);
}

TEST(heap_at_its_maximum_says_so_at_once) {
    struct heap_world *w = *state;
    if (is_no_growth(w))
        return;
    uint64_t most = heap_pick(w, 256 * MIB, 0, 12 * MIB);
    heap_begin(w, heap_pick(w, 8 * MIB, 0, 2 * MIB), most);
    heap_sizes(w, 1000, 1000, 0);
    heap_run(w, "heap_fill");
    acre_heap_stats full = heap_stats(w);
    assert_int_equal(full.mapped_bytes, most);
    assert_true(share(full.live_bytes, most) >= 0.97);
    heap_run(w, "heap_round"); /* again: no thread asks the host */
    acre_heap_stats stats = heap_stats(w);
    assert_int_equal(w->counts[HEAP_NULLS], w->job.threads);
    assert_int_equal(stats.asks, full.asks);
    assert_int_equal(stats.live_blocks, full.live_blocks);
    print_message("%u threads got NULL in %.3f ms\n", w->job.threads, w->ms);
    heap_run(w, "heap_drain");
    heap_end(w, 0);
}

/* A request above the maximum fails at once and does not stop other requests. */
TEST(heap_too_large_a_wish_stops_nobody) {
    struct heap_world *w = *state;
    if (is_no_growth(w))
        return;
    uint64_t most = heap_pick(w, 256 * MIB, 0, 12 * MIB);
    heap_begin(w, 2 * MIB, most);
    w->job.threads = 32;
    w->job.most = 1;
    heap_sizes(w, most + 1, most + 1, 0);
    heap_run(w, "heap_fill");
    assert_int_equal(w->counts[HEAP_NULLS], 32);
    assert_int_equal(heap_stats(w).asks, 0);
    heap_sizes(w, most / 64, most / 64, 0);
    heap_run(w, "heap_fill");
    assert_int_equal(w->counts[HEAP_NULLS], 0);
    heap_run(w, "heap_drain");
    heap_end(w, 0);
}

/* ---- soak ---- */

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

TEST(heap_soaked_is_whole_again) {
    struct heap_world *w = *state;
    const char *told = getenv("ACRE_TEST_SOAK_SECONDS");
    double most = told ? atof(told) : (double)heap_pick(w, 60, 5, 1), begin = seconds_now();
    uint64_t initial = heap_pick(w, 64 * MIB, 256 * MIB, 4 * MIB), blocks = 0, nulls = 0;
    uint32_t rounds = 0;
    heap_begin(w, initial, heap_pick(w, 2 * GIB, 256 * MIB, 32 * MIB));
    /* Sizes up to a page and more, seldom many pages; now and then the requests exceed the heap. */
    for (; rounds < 8 || seconds_now() - begin < most; rounds++) {
        w->job.salt = rounds;
        if (rounds % 64 == 63)
            heap_sizes(w, MIB, 3 * MIB, 0);
        else
            heap_sizes(w, 0, rounds % 8 ? 64 * KIB : 8 * KIB, 1);
        w->job.threads = rounds % 64 == 63 ? 64 : w->threads;
        heap_run(w, "heap_soak");
        blocks += w->counts[HEAP_BLOCKS];
        nulls += w->counts[HEAP_NULLS];
    }
    acre_heap_stats stats = heap_stats(w);
    print_message("soak: %u launches, %llu blocks, %llu NULLs, %llu MiB mapped, %llu MiB live\n",
                  rounds, (unsigned long long)blocks, (unsigned long long)nulls,
                  (unsigned long long)(stats.mapped_bytes / MIB),
                  (unsigned long long)(stats.live_bytes / MIB));
    w->job.threads = w->threads;
    heap_run(w, "heap_soaked");
    heap_end(w, 0);
}

int main(int argc, char **argv) {
    heap_arguments(argc, argv);
    return tests_run_with("gpu_heap_room", heap_setup, heap_teardown);
}
