/* The drop-in: two lines route malloc and free of this file's kernels to a heap, while host code
 * still calls the C library. test_heap_languages.sh compiles a C++ and an nvcc version. */
#include "api_warps.h"

/* Members with the names of functions. */
struct hooks {
    void *(*malloc)(size_t bytes);
    void (*free)(void *p);
};

#define ACRE_HEAP_AS_MALLOC
#include "acre_heap.h"

enum { THREADS = 64, BLOCKS = 4, ALL = THREADS * BLOCKS };

struct job {
    unsigned char *at[ALL], *aligned[ALL];
    uint32_t dirty;
};

static acre_heap_stats stats_of(acre_heap *heap) {
    acre_heap_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_heap_get_stats(heap, &stats));
    return stats;
}

static void run(acre_soft_kernel kernel, struct job *job) {
    const uint32_t grid[3] = {BLOCKS, 1, 1}, block[3] = {THREADS, 1, 1};
    api_ok(acre_soft_launch(device, NULL, kernel, grid, block, 0, job));
    api_ok(acre_stream_sync(device, NULL));
}

static uint32_t index_now(void) {
    return acre_soft_block_index(0) * THREADS + acre_soft_thread_index(0);
}

/* A kernel as written for CUDA. */
static void kernel_take(void *arg) {
    struct job *job = arg;
    uint32_t i = index_now();
    job->at[i] = malloc(123);
    if (job->at[i])
        memset(job->at[i], 0, 123);
    job->aligned[i] = __nv_aligned_device_malloc(100, 256);
}

static void kernel_use(void *arg) {
    struct job *job = arg;
    uint32_t i = index_now(), dirty = 0;
    for (int k = 0; k < 123; k++)
        dirty |= job->at[i][k];
    if (dirty)
        __atomic_fetch_add(&job->dirty, 1, __ATOMIC_RELAXED);
    memset(job->at[i], (int)i, 123);
    memset(job->aligned[i], (int)i, 100);
}

/* Each block holds what its own thread wrote, so no two blocks overlap. */
static void kernel_look(void *arg) {
    struct job *job = arg;
    uint32_t i = index_now();
    if (job->at[i][0] != i || job->at[i][122] != i || job->aligned[i][99] != i)
        __atomic_fetch_add(&job->dirty, 1, __ATOMIC_RELAXED);
}

static void kernel_give(void *arg) {
    struct job *job = arg;
    uint32_t i = index_now();
    free(job->at[i]);
    free(job->aligned[i]);
    free(NULL);
}

static acre_heap *heap_make(void) {
    acre_heap *heap;
    api_ok(acre_heap_create(device, NULL, &heap));
    return heap;
}

static void heap_end(acre_heap *heap) {
    uint64_t blocks, bytes;
    acre_heap_stats stats = stats_of(heap);
    assert_int_equal(stats.double_frees + stats.foreign_frees + stats.interior_frees, 0);
    api_ok(acre_heap_destroy(heap, &blocks, &bytes));
    assert_int_equal(blocks + bytes, 0);
}

static void heap_dropin_serves_kernels_and_leaves_the_host_alone(void **state) {
    (void)state;
    struct job job = {.dirty = 0};
    acre_heap *heap = heap_make();
    const struct hooks hooks = {malloc, free}; /* the C library's functions */
    acre_heap_handle h;
    api_ok(acre_heap_get_handle(heap, &h));
    api_ok(acre_heap_as_malloc(heap));
    char *mine = malloc(100);
    char *hooked = (hooks.malloc)(100);
    char *cleared = calloc(10, 10);
    assert_false(acre_heap_owns(h, mine) || acre_heap_owns(h, hooked) ||
                 acre_heap_owns(h, cleared));
    run(kernel_take, &job);
    for (uint32_t i = 0; i < ALL; i++) {
        assert_true(acre_heap_owns(h, job.at[i]) && acre_heap_owns(h, job.aligned[i]));
        assert_int_equal((uintptr_t)job.at[i] % 16, 0);
        assert_int_equal((uintptr_t)job.aligned[i] % 256, 0);
    }
    assert_int_equal(stats_of(heap).live_blocks, 2 * ALL);
    run(kernel_use, &job);
    assert_int_equal(job.dirty, 0);
    run(kernel_look, &job);
    assert_int_equal(job.dirty, 0);
    run(kernel_give, &job);
    cleared = realloc(cleared, 1000);
    assert_int_equal(cleared[99], 0);
    free(cleared);
    free(mine);
    (hooks.free)(hooked);
    assert_int_equal(stats_of(heap).live_blocks, 0);
    assert_null(__nv_aligned_device_malloc(16, 16)); /* for device code only */
    api_ok(acre_heap_as_malloc(NULL));
    heap_end(heap);
}

static void heap_dropin_without_a_heap_gives_null(void **state) {
    (void)state;
    struct job job = {.dirty = 0};
    memset(job.at, 1, sizeof job.at);
    api_ok(acre_heap_as_malloc(NULL));
    run(kernel_take, &job);
    for (uint32_t i = 0; i < ALL; i++)
        assert_true(!job.at[i] && !job.aligned[i]);
    run(kernel_give, &job);
    assert_int_equal(acre_heap_as_malloc((acre_heap *)&job), ACRE_E_HANDLE);
}

static void heap_dropin_changes_heaps_between_launches(void **state) {
    (void)state;
    struct job first = {.dirty = 0}, second = first;
    acre_heap *heaps[2] = {heap_make(), heap_make()};
    api_ok(acre_heap_as_malloc(heaps[0]));
    run(kernel_take, &first);
    api_ok(acre_heap_as_malloc(heaps[1]));
    run(kernel_take, &second);
    for (int i = 0; i < 2; i++)
        assert_int_equal(stats_of(heaps[i]).live_blocks, 2 * ALL);
    run(kernel_give, &second);
    assert_int_equal(stats_of(heaps[1]).live_blocks, 0);
    run(kernel_give, &first); /* blocks of the other heap: counted, otherwise a no-op */
    assert_int_equal(stats_of(heaps[1]).foreign_frees, 2 * ALL);
    assert_int_equal(stats_of(heaps[0]).live_blocks, 2 * ALL);
    api_ok(acre_heap_as_malloc(heaps[0]));
    run(kernel_give, &first);
    api_ok(acre_heap_as_malloc(NULL));
    heap_end(heaps[0]);
    api_ok(acre_heap_destroy(heaps[1], NULL, NULL));
}

static void kernel_where(void *arg) {
    __atomic_fetch_add((uint32_t *)arg, acre_soft_in_kernel() == 1, __ATOMIC_RELAXED);
}

static void soft_kernels_know_that_they_are_kernels(void **state) {
    (void)state;
    uint32_t count = 0;
    const uint32_t grid[3] = {BLOCKS, 1, 1}, block[3] = {THREADS, 1, 1};
    assert_int_equal(acre_soft_in_kernel(), 0);
    api_ok(acre_soft_launch(device, NULL, kernel_where, grid, block, 0, &count));
    api_ok(acre_stream_sync(device, NULL));
    assert_int_equal(count, ALL);
    assert_int_equal(acre_soft_in_kernel(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(heap_dropin_serves_kernels_and_leaves_the_host_alone),
        BOTH(heap_dropin_without_a_heap_gives_null),
        BOTH(heap_dropin_changes_heaps_between_launches),
        BOTH(soft_kernels_know_that_they_are_kernels),
    };
    return cmocka_run_group_tests_name("heap_dropin", tests, NULL, NULL);
}
