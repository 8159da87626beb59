/* Heaps inside kernels: blocks of all sizes and alignments, their contents, and misuse.
 * heap_world.h says on which devices this runs. */
#include <string.h>

#include "heap_world.h"

/* Allocates, checks and frees one block per thread, twice; the second round reuses freed memory.
 * Allocation and checks are separate kernels, so that all blocks are live at once. */
static void take_and_give(struct heap_world *w, const char *take) {
    for (uint32_t round = 0; round < 2; round++) {
        w->job.salt++;
        heap_run(w, take);
        assert_int_equal(w->counts[HEAP_NULLS], 0);
        assert_int_equal(heap_stats(w).live_blocks, w->job.threads);
        heap_run(w, "heap_verify");
        heap_run(w, "heap_give");
        assert_int_equal(heap_stats(w).live_blocks, 0);
    }
}

TEST(heap_blocks_of_every_class_are_apart) {
    struct heap_world *w = *state;
    heap_begin(w, w->bytes, 0);
    for (uint32_t c = 0; c < ACRE__HEAP_SORTS; c++) {
        uint64_t bytes = acre__heap_class_bytes(c);
        w->job.threads = heap_threads_for(w, bytes, w->bytes / 4);
        /* Only sizes of this size class, and of runs of pages between two large ones. */
        heap_sizes(w, c ? acre__heap_class_bytes(c - 1) + 1 : 0, bytes, 0);
        take_and_give(w, "heap_take");
    }
    heap_end(w, 0);
}

TEST(heap_blocks_of_mixed_sizes_are_apart) {
    struct heap_world *w = *state;
    static const struct {
        uint64_t low, high;
        uint32_t is_log;
    } sizes[] = {
        {0, 4096, 0},    {0, 32768, 1},     {1, 200000, 1},
        {32769, MIB, 0}, {MIB, 2 * MIB, 0}, {2 * MIB, 7 * MIB, 0},
    };
    heap_begin(w, w->bytes, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t high = sizes[i].high > MIB ? (sizes[i].high + MIB) / (2 * MIB) * 2 * MIB + 2 * MIB
                                            : sizes[i].high;
        w->job.threads = heap_threads_for(w, high, w->bytes / 2);
        heap_sizes(w, sizes[i].low, sizes[i].high, sizes[i].is_log);
        take_and_give(w, "heap_take");
    }
    heap_end(w, 0);
}

TEST(heap_blocks_are_aligned_as_asked) {
    struct heap_world *w = *state;
    heap_begin(w, w->bytes, 0);
    /* 1/22 of the threads allocate 4 MiB each, another 1/22 half of that, and so on. */
    w->job.threads = heap_threads_for(w, 8 * MIB / 22, w->bytes / 2);
    assert_true(w->job.threads >= 32);
    heap_sizes(w, 0, 5000, 1);
    take_and_give(w, "heap_aligned");
    w->job.threads = heap_threads_for(w, 1, 1 << 12);
    heap_run(w, "heap_refused");
    acre_heap_stats stats = heap_stats(w);
    assert_int_equal(stats.bad_alignment, w->job.threads);
    assert_int_equal(stats.live_blocks, 0);
    heap_end(w, 0);
}

TEST(heap_zeroed_blocks_are_zero_where_others_were) {
    struct heap_world *w = *state;
    heap_begin(w, w->bytes, 0);
    w->job.threads = heap_threads_for(w, 3 * 4096, w->bytes / 2);
    heap_sizes(w, 1, 4096, 0);
    take_and_give(w, "heap_take");
    take_and_give(w, "heap_zeroed");
    heap_end(w, 0);
}

TEST(heap_realloc_keeps_contents) {
    struct heap_world *w = *state;
    heap_begin(w, w->bytes, 0);
    w->job.threads = heap_threads_for(w, 40 * KIB, w->bytes);
    heap_run(w, "heap_change");
    assert_int_equal(w->counts[HEAP_NULLS], 0);
    assert_int_equal(heap_stats(w).interior_frees, w->job.threads);
    heap_end(w, w->job.threads);
}

TEST(heap_knows_its_blocks) {
    struct heap_world *w = *state;
    heap_begin(w, w->bytes, 0);
    for (uint64_t high = 16; high <= 4 * MIB; high *= 64) {
        w->job.threads = heap_threads_for(w, 2 * high, w->bytes / 2);
        heap_sizes(w, high / 16, high, 1);
        heap_run(w, "heap_take");
        assert_int_equal(w->counts[HEAP_NULLS], 0);
        heap_run(w, "heap_ask");
        heap_run(w, "heap_asked");
    }
    heap_end(w, 0);
}

TEST(heap_groups_share_blocks) {
    struct heap_world *w = *state;
    heap_begin(w, w->bytes, 0);
    for (int round = 0; round < 3; round++) {
        heap_run(w, "heap_groups");
        assert_int_equal(w->counts[HEAP_NULLS], 0);
        assert_int_equal(heap_stats(w).live_blocks, 0);
    }
    heap_end(w, 0);
}

TEST(heap_arenas_are_freed_at_once) {
    struct heap_world *w = *state;
    heap_begin(w, w->bytes, 0);
    heap_run(w, "heap_arena");
    assert_int_equal(w->counts[HEAP_NULLS], 0);
    assert_int_equal(heap_stats(w).live_blocks, 0);
    heap_end(w, 0);
}

TEST(heap_lanes_may_part) {
    struct heap_world *w = *state;
    heap_begin(w, w->bytes, 0);
    for (uint32_t round = 0; round < heap_pick(w, 50, 5, 5); round++) {
        w->job.salt = round;
        heap_run(w, "heap_diverge");
        assert_int_equal(w->counts[HEAP_NULLS], 0);
    }
    assert_int_equal(heap_stats(w).live_blocks, w->job.threads);
    heap_run(w, "heap_give");
    heap_end(w, 0);
}

TEST(heap_lanes_may_part_in_functions) {
    struct heap_world *w = *state;
    heap_begin(w, w->bytes, 0);
    for (uint32_t round = 0; round < heap_pick(w, 50, 5, 5); round++) {
        w->job.salt = round;
        heap_run(w, "heap_outline");
        assert_int_equal(heap_stats(w).live_blocks, 0);
    }
    heap_end(w, 0);
}

/* ---- the host ---- */

/* The host reads what kernels wrote, and kernels read what the host wrote. */
TEST(heap_blocks_go_to_the_host_and_back) {
    struct heap_world *w = *state;
    static uint64_t at[64], words[6000];
    heap_begin(w, w->bytes, 0);
    w->job.threads = 64;
    heap_sizes(w, 1, 40000, 1);
    heap_run(w, "heap_take");
    assert_int_equal(acre_copy_sync(w->dev, at, w->job.at, sizeof at), ACRE_OK);
    for (uint32_t i = 0; i < 64; i++) {
        void *block = (void *)(uintptr_t)at[i];
        uint64_t asked = heap_bytes(&w->job, i), bytes = asked / 8 * 8;
        assert_int_equal(acre_fill(w->dev, words, 0xee, bytes, w->stream), ACRE_OK);
        assert_int_equal(acre_copy(w->dev, words, block, bytes, w->stream), ACRE_OK);
        assert_int_equal(acre_stream_sync(w->dev, w->stream), ACRE_OK);
        assert_true(heap_is_right(words, bytes, i, 1));
        assert_int_equal(acre_fill(w->dev, block, 0x33, bytes, w->stream), ACRE_OK);
        assert_int_equal(acre_copy(w->dev, words, block, bytes, w->stream), ACRE_OK);
        assert_int_equal(acre_stream_sync(w->dev, w->stream), ACRE_OK);
        for (uint64_t k = 0; k < bytes / 8; k++)
            assert_int_equal(words[k], 0x3333333333333333);
        heap_write(words, bytes, i, 1);
        if (w->gpu && i % 2)
            assert_int_equal(w->gpu->drv->cuMemcpyHtoD(at[i], words, bytes), CUDA_SUCCESS);
        else
            assert_int_equal(acre_copy_sync(w->dev, block, words, bytes), ACRE_OK);
    }
    heap_run(w, "heap_give");
    heap_end(w, 0);
}

/* Visits a block of acre_heap_walk: blocks come in rising order and do not overlap. */
static int see(void *user, void *block, uint64_t bytes) {
    uint64_t *seen = user;
    assert_true((uintptr_t)block >= seen[0]); /* rising, no overlap */
    seen[0] = (uintptr_t)block + bytes;
    seen[1]++;
    seen[2] += bytes;
    return 0;
}

TEST(heap_blocks_live_across_launches) {
    struct heap_world *w = *state;
    uint64_t seen[3] = {0, 0, 0};
    heap_begin(w, w->bytes, 0);
    w->job.threads = heap_threads_for(w, 20000, w->bytes / 4);
    heap_sizes(w, 1, 20000, 1);
    heap_run(w, "heap_take");
    struct heap_job kept = w->job;
    w->job.at = w->job.more;
    heap_sizes(w, 100, 100, 0);
    for (int round = 0; round < 3; round++) {
        heap_run(w, "heap_take");
        assert_int_equal(w->counts[HEAP_NULLS], 0);
        assert_int_equal(heap_stats(w).live_blocks, 2 * w->job.threads);
        heap_run(w, "heap_give");
    }
    w->job = kept;
    acre_heap_stats stats = heap_stats(w);
    assert_int_equal(acre_heap_walk(w->heap, see, seen), ACRE_OK);
    assert_int_equal(seen[1], w->job.threads);
    assert_int_equal(seen[1], stats.live_blocks);
    assert_int_equal(seen[2], stats.live_bytes);
    heap_run(w, "heap_give");
    heap_end(w, 0);
}

/* ---- misuse ---- */

static void misuse(struct heap_world *w, uint64_t low, uint64_t high, uint64_t *wrong) {
    acre_heap_stats before = heap_stats(w);
    uint64_t none = 0;
    w->job.threads = heap_threads_for(w, high, w->bytes / 2);
    heap_sizes(w, low, high, 0);
    heap_run(w, "heap_take");
    assert_int_equal(w->counts[HEAP_NULLS], 0);
    heap_run(w, "heap_misuse");
    acre_heap_stats stats = heap_stats(w);
    assert_int_equal(stats.live_blocks, w->job.threads - 1);
    assert_int_equal(stats.double_frees - before.double_frees, w->job.threads - 1);
    assert_int_equal(stats.interior_frees - before.interior_frees, 2 * w->job.threads);
    assert_int_equal(stats.foreign_frees - before.foreign_frees, 3 * w->job.threads);
    *wrong += 6 * w->job.threads - 1;
    assert_int_equal(acre_copy_sync(w->dev, w->job.at, &none, sizeof none), ACRE_OK);
    heap_run(w, "heap_verify");
    heap_run(w, "heap_give");
}

TEST(heap_wrong_frees_are_counted_and_change_nothing) {
    struct heap_world *w = *state;
    uint64_t wrong = 0;
    heap_begin(w, w->bytes, 0);
    misuse(w, 32, 4000, &wrong);
    misuse(w, 100, 100, &wrong);
    misuse(w, 40000, 300000, &wrong);
    misuse(w, 3 * MIB, 4 * MIB, &wrong);
    heap_end(w, wrong);
}

TEST(heap_several_heaps_stay_apart) {
    struct heap_world *w = *state;
    heap_begin(w, w->bytes / 2, 0);
    acre_heap *second = w->heap;
    w->job.other = w->job.h;
    heap_begin(w, w->bytes / 4, 0);
    heap_sizes(w, 16, 10000, 1);
    w->job.threads = heap_threads_for(w, 10000, w->bytes / 8);
    uint32_t threads = w->job.threads;
    heap_run(w, "heap_mistake");
    assert_int_equal(w->counts[HEAP_NULLS], 0);
    assert_int_equal(heap_stats(w).foreign_frees, threads);
    /* Pools and acre_mem_free refuse a heap's block. */
    assert_int_equal(acre_free(w->job.h.base, w->stream), ACRE_E_KIND);
    assert_int_equal(acre_mem_free(w->dev, w->job.h.base), ACRE_E_KIND);
    heap_end(w, threads);
    w->heap = second;
    w->job.h = w->job.other;
    assert_int_equal(heap_stats(w).foreign_frees, threads);
    heap_end(w, threads);
}

int main(int argc, char **argv) {
    heap_arguments(argc, argv);
    return tests_run_with("gpu_heap", heap_setup, heap_teardown);
}
