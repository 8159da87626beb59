/* Debug builds of the heap: poison, canaries, tags, leaks by tag, and blocks that pass between
 * debug code and other code. Other code is called by its internal names (acre__heap_plain_*). */
#include "api_warps.h"

#define ACRE_HEAP_DEBUG
#define ACRE_HEAP_TAG 7
#include "acre_heap.h"

enum { THREADS = 64, BLOCKS = 2, ALL = THREADS * BLOCKS };

struct job {
    acre_heap_handle h;
    acre_heap *heap;
    unsigned char *at[ALL];
    uint32_t bad;
};

static uint32_t index_now(void) {
    return acre_soft_block_index(0) * THREADS + acre_soft_thread_index(0);
}

static size_t size_of(uint32_t i) {
    static const size_t sizes[] = {1, 16, 33, 100, 1000, 5000, 40000, 100000};
    return i == 5 ? 3u << 20 : sizes[i % 8] + i;
}

static void count_bad(struct job *job, int is_bad) {
    if (is_bad)
        __atomic_fetch_add(&job->bad, 1, __ATOMIC_RELAXED);
}

static void job_begin(struct job *job) {
    memset(job, 0, sizeof *job);
    acre_heap_options options = {.struct_size = sizeof options, .initial_bytes = 32 << 20};
    api_ok(acre_heap_create(device, &options, &job->heap));
    api_ok(acre_heap_get_handle(job->heap, &job->h));
}

static acre_heap_stats job_stats(struct job *job) {
    acre_heap_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_heap_get_stats(job->heap, &stats));
    return stats;
}

static void job_run(struct job *job, acre_soft_kernel kernel, uint32_t blocks, uint32_t threads) {
    const uint32_t grid[3] = {blocks, 1, 1}, block[3] = {threads, 1, 1};
    api_ok(acre_soft_launch(device, NULL, kernel, grid, block, 0, job));
    api_ok(acre_stream_sync(device, NULL));
    assert_int_equal(job->bad, 0);
}

static void job_end(struct job *job) {
    acre_heap_stats stats = job_stats(job);
    assert_int_equal(stats.live_blocks, 0);
    api_ok(acre_heap_destroy(job->heap, NULL, NULL));
}

/* ---- kernels of this file, which are debug builds ---- */

static void kernel_take(void *arg) {
    struct job *job = arg;
    uint32_t i = index_now(), is_new = 1;
    size_t bytes = size_of(i);
    unsigned char *p = i % 3 ? acre_heap_malloc(job->h, bytes)
                             : acre_heap_malloc_tagged(job->h, bytes, 100 + i % 2);
    for (size_t k = 0; k < bytes; k++)
        is_new &= p[k] == 0xa5;
    count_bad(job, !is_new || acre_heap_usable_size(job->h, p) != bytes);
    memset(p, (int)i, bytes);
    job->at[i] = p;
}

static void kernel_give(void *arg) {
    struct job *job = arg;
    uint32_t i = index_now();
    unsigned char *p = job->at[i];
    acre_heap_free(job->h, p);
    count_bad(job, size_of(i) > 100 && p[50] != 0xdd);
}

static void kernel_overrun(void *arg) {
    struct job *job = arg;
    uint32_t i = index_now();
    if (i == 17 || i == 5)
        job->at[i][size_of(i)] = 0;
    if (i == 18)
        job->at[i][size_of(i) + 3] ^= 1;
}

static void kernel_twice(void *arg) {
    struct job *job = arg;
    acre_heap_free(job->h, job->at[0]); /* every thread frees it */
    if (index_now() == 0)
        acre_heap_free(job->h, job->at[1] + 16);
}

static void kernel_more(void *arg) {
    struct job *job = arg;
    uint32_t i = index_now();
    unsigned char *p = acre_heap_calloc(job->h, 10, 10), *q;
    count_bad(job, p[0] || p[99] || acre_heap_usable_size(job->h, p) != 100);
    memset(p, 3, 100);
    q = acre_heap_realloc(job->h, p, 90);
    count_bad(job, q == p || q[89] != 3 || acre_heap_usable_size(job->h, q) != 90);
    q = acre_heap_realloc(job->h, q, 5000);
    count_bad(job, q[0] != 3 || q[89] != 3 || q[90] != 0xa5);
    acre_heap_free(job->h, q);
    p = acre_heap_aligned_malloc(job->h, 100, 4096);
    count_bad(job, (uintptr_t)p % 4096 || acre_heap_usable_size(job->h, p) != 100);
    acre_heap_free(job->h, p);
    p = acre_heap_malloc(job->h, 0);
    count_bad(job, !p || acre_heap_malloc(job->h, SIZE_MAX) ||
                       acre_heap_malloc(job->h, SIZE_MAX - 8) ||
                       acre_heap_aligned_malloc(job->h, 8, 3));
    acre_heap_set_tag(job->h, p, i);
    acre_heap_set_tag(job->h, NULL, 1);
    job->at[i] = p;
}

/* ---- kernels as compiled without ACRE_HEAP_DEBUG ---- */

static void kernel_take_plain(void *arg) {
    struct job *job = arg;
    uint32_t i = index_now();
    job->at[i] = acre__heap_plain_malloc(job->h, size_of(i));
    memset(job->at[i], 0x11, acre__heap_plain_usable_size(job->h, job->at[i]));
}

static void kernel_give_plain(void *arg) {
    struct job *job = arg;
    acre__heap_plain_free(job->h, job->at[index_now()]);
}

/* ---- tests ---- */

struct seen {
    uint64_t blocks, marked, overruns, asked, tags[8];
};

static int see(void *user, const acre_heap_block *block) {
    struct seen *seen = user;
    assert_true(block->asked_bytes <= block->bytes);
    seen->blocks++;
    seen->marked += (block->flags & ACRE_HEAP_BLOCK_MARKED) != 0;
    seen->overruns += (block->flags & ACRE_HEAP_BLOCK_OVERRUN) != 0;
    seen->asked += block->asked_bytes;
    seen->tags[block->tag >= 100 ? block->tag - 100 : block->tag < 8 ? block->tag : 6]++;
    return 0;
}

static struct seen job_see(struct job *job) {
    struct seen seen = {0};
    api_ok(acre_heap_inspect(job->heap, see, &seen));
    return seen;
}

static void heap_debug_poisons_and_tags_its_blocks(void **state) {
    (void)state;
    struct job job;
    uint64_t asked = 0;
    job_begin(&job);
    for (int round = 0; round < 2; round++) {
        job_run(&job, kernel_take, BLOCKS, THREADS);
        struct seen seen = job_see(&job);
        for (uint32_t i = 0; i < ALL && !round; i++)
            asked += size_of(i);
        assert_int_equal(seen.blocks, ALL);
        assert_int_equal(seen.marked, ALL);
        assert_int_equal(seen.overruns, 0);
        assert_int_equal(seen.asked, asked);
        assert_int_equal(seen.tags[7], ALL - (ALL + 2) / 3);
        assert_int_equal(seen.tags[0] + seen.tags[1], (ALL + 2) / 3);
        job_run(&job, kernel_give, BLOCKS, THREADS);
        assert_int_equal(job_see(&job).blocks, 0);
    }
    acre_heap_stats stats = job_stats(&job);
    assert_int_equal(stats.overruns + stats.overrun_at + stats.unmarked_frees, 0);
    job_end(&job);
}

static void heap_debug_finds_writes_past_the_end(void **state) {
    (void)state;
    struct job job;
    job_begin(&job);
    job_run(&job, kernel_take, BLOCKS, THREADS);
    job_run(&job, kernel_overrun, BLOCKS, THREADS);
    assert_int_equal(job_see(&job).overruns, 3);
    job_run(&job, kernel_give, BLOCKS, THREADS);
    acre_heap_stats stats = job_stats(&job);
    assert_int_equal(stats.overruns, 3);
    assert_true(stats.overrun_at == (uintptr_t)job.at[17] ||
                stats.overrun_at == (uintptr_t)job.at[5] ||
                stats.overrun_at == (uintptr_t)job.at[18]);
    assert_int_equal(stats.unmarked_frees, 0);
    job_end(&job);
}

static void heap_debug_counts_wrong_frees_as_ever(void **state) {
    (void)state;
    struct job job;
    job_begin(&job);
    job_run(&job, kernel_take, BLOCKS, THREADS);
    job_run(&job, kernel_twice, BLOCKS, THREADS);
    acre_heap_stats stats = job_stats(&job);
    assert_int_equal(stats.double_frees, ALL - 1);
    assert_int_equal(stats.interior_frees, 1);
    assert_int_equal(stats.live_blocks, ALL - 1);
    assert_int_equal(stats.overruns, 0);
    job.at[0] = NULL;
    job_run(&job, kernel_give_plain, BLOCKS, THREADS);
    job_end(&job);
}

static void heap_debug_serves_all_forms(void **state) {
    (void)state;
    struct job job;
    job_begin(&job);
    job_run(&job, kernel_more, 1, 8);
    struct seen seen = job_see(&job);
    assert_int_equal(seen.blocks, 8);
    assert_int_equal(seen.asked, 8);
    for (int i = 0; i < 8; i++)
        assert_int_equal(seen.tags[i], 1);
    job_run(&job, kernel_give_plain, 1, 8);
    assert_int_equal(job_stats(&job).bad_alignment, 8);
    job_end(&job);
}

static void heap_debug_blocks_pass_to_and_from_other_code(void **state) {
    (void)state;
    struct job job;
    job_begin(&job);
    for (int round = 0; round < 2; round++) {
        job_run(&job, kernel_take, BLOCKS, THREADS);
        job_run(&job, kernel_give_plain, BLOCKS, THREADS);
        job_run(&job, kernel_take_plain, BLOCKS, THREADS);
        struct seen seen = job_see(&job);
        assert_int_equal(seen.blocks, ALL);
        assert_int_equal(seen.marked + seen.overruns, 0);
        for (uint32_t i = 0; i < ALL; i++)
            count_bad(&job, !job.at[i]);
        job_run(&job, kernel_twice, 1, 1); /* one debug free of a block without a mark */
        job.at[0] = NULL;
        job_run(&job, kernel_give_plain, BLOCKS, THREADS);
        acre_heap_stats stats = job_stats(&job);
        assert_int_equal(stats.unmarked_frees, round + 1);
        assert_int_equal(stats.double_frees + stats.overruns + stats.live_blocks, 0);
    }
    job_end(&job);
}

/* ---- the log when a heap is destroyed ---- */

static char said[4096];

static void hear(void *user, acre_log_level level, const char *area, const char *line) {
    (void)user, (void)level;
    size_t used = strlen(said);
    if (strcmp(area, "heap") == 0)
        (void)snprintf(said + used, sizeof said - used, "%s\n", line);
}

static void heap_debug_tells_leaks_by_tag(void **state) {
    (void)state;
    struct job job;
    uint64_t blocks, bytes;
    said[0] = '\0';
    job_begin(&job);
    job_run(&job, kernel_take, 1, 9);
    job_run(&job, kernel_overrun, 1, 9);
    api_ok(acre_log_set(hear, NULL, ACRE_LOG_WARN));
    api_ok(acre_heap_destroy(job.heap, &blocks, &bytes));
    api_ok(acre_log_set(NULL, NULL, ACRE_LOG_WARN));
    assert_int_equal(blocks, 9);
    assert_non_null(strstr(said, "heap destroyed with 9 blocks"));
    assert_non_null(strstr(said, "tag 7: 6 blocks not freed"));
    assert_non_null(strstr(said, "tag 100: 2 blocks not freed"));
    assert_non_null(strstr(said, "tag 101: 1 blocks not freed"));
    assert_non_null(strstr(said, "1 written past their end"));
}

static void heap_inspect_refuses_what_it_cannot_do(void **state) {
    (void)state;
    struct job job;
    struct seen seen = {0};
    job_begin(&job);
    assert_int_equal(acre_heap_inspect(job.heap, NULL, NULL), ACRE_E_NULL);
    assert_int_equal(acre_heap_inspect(NULL, see, &seen), ACRE_E_NULL);
    assert_int_equal(acre_heap_inspect((acre_heap *)&job, see, &seen), ACRE_E_HANDLE);
    assert_int_equal(seen.blocks, 0);
    job_end(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(heap_debug_poisons_and_tags_its_blocks),
        BOTH(heap_debug_finds_writes_past_the_end),
        BOTH(heap_debug_counts_wrong_frees_as_ever),
        BOTH(heap_debug_serves_all_forms),
        BOTH(heap_debug_blocks_pass_to_and_from_other_code),
        BOTH(heap_debug_tells_leaks_by_tag),
        BOTH(heap_inspect_refuses_what_it_cannot_do),
    };
    return cmocka_run_group_tests_name("heap_debug", tests, NULL, NULL);
}
