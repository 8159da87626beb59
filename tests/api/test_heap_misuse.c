/* Heaps and other parts of acre: addresses and handles passed to the wrong function are refused or
 * counted, and change nothing. */
#include <pthread.h>

#include "api_devices.h"

#include "acre_heap.h"

#define MIB ((size_t)1 << 20)
enum { THREADS = 64 };

struct world {
    acre_device *device;
    acre_heap *heap;
    acre_heap_handle h;
    char *small, *large; /* blocks of the heap */
    void *foreign;       /* freed by kernel_free_foreign */
    _Atomic uint32_t is_running, may_end;
};

static void run(struct world *w, acre_soft_kernel kernel, uint32_t threads) {
    const uint32_t grid[3] = {1, 1, 1}, block[3] = {threads, 1, 1};
    api_ok(acre_soft_launch(w->device, NULL, kernel, grid, block, 0, w));
    api_ok(acre_stream_sync(w->device, NULL));
}

static void kernel_make(void *arg) {
    struct world *w = arg;
    w->small = acre_heap_malloc(w->h, 100);
    w->large = acre_heap_malloc(w->h, 3 * MIB);
    memset(w->small, 0x55, 100);
    memset(w->large, 0x66, 3 * MIB);
}

static void kernel_free(void *arg) {
    struct world *w = arg;
    acre_heap_free(w->h, w->small);
    acre_heap_free(w->h, w->large);
}

static void world_begin(struct world *w) {
    memset(w, 0, sizeof *w);
    acre_heap_options options = {
        .struct_size = sizeof options, .initial_bytes = 8 * MIB, .limit_bytes = 16 * MIB};
    w->device = api_open("soft");
    api_ok(acre_heap_create(w->device, &options, &w->heap));
    api_ok(acre_heap_get_handle(w->heap, &w->h));
    run(w, kernel_make, 1);
}

static acre_heap_stats stats_of(struct world *w) {
    acre_heap_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_heap_get_stats(w->heap, &stats));
    return stats;
}

/* The blocks hold their contents, and nothing is left after they are freed. */
static void world_end(struct world *w, uint64_t foreign_frees) {
    unsigned char back[100];
    uint64_t blocks, bytes;
    api_ok(acre_copy_sync(w->device, back, w->small, sizeof back));
    for (size_t i = 0; i < sizeof back; i++)
        assert_int_equal(back[i], 0x55);
    api_ok(acre_copy_sync(w->device, back, w->large + 3 * MIB - sizeof back, sizeof back));
    for (size_t i = 0; i < sizeof back; i++)
        assert_int_equal(back[i], 0x66);
    acre_heap_stats stats = stats_of(w);
    assert_int_equal(stats.live_blocks, 2);
    assert_int_equal(stats.foreign_frees, foreign_frees);
    assert_int_equal(stats.double_frees + stats.interior_frees, 0);
    run(w, kernel_free, 1);
    api_ok(acre_heap_destroy(w->heap, &blocks, &bytes));
    assert_int_equal(blocks + bytes, 0);
    api_ok(acre_trim(w->device));
    assert_int_equal(api_stats(w->device).chunk_bytes, 0);
    api_ok(acre_close(w->device));
}

TEST(heap_blocks_are_not_freed_by_others) {
    struct world w;
    acre_pool *pool;
    world_begin(&w);
    api_ok(acre_pool_create(w.device, NULL, &pool));
    void *const addresses[] = {w.small, w.large, w.small + 1, w.h.base, w.h.control, w.h.segments};
    acre_device_stats before = api_stats(w.device);
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        void *p = addresses[i], *moved = &w;
        api_expect(acre_free(p, NULL), ACRE_E_KIND);
        api_expect(acre_pool_free(pool, p, NULL), ACRE_E_KIND);
        api_expect(acre_mem_free(w.device, p), ACRE_E_KIND);
        api_expect(acre_mem_realloc(w.device, p, 8 * MIB, NULL, &moved), ACRE_E_KIND);
        assert_null(moved);
        assert_int_not_equal(acre_mem_unregister(w.device, p), ACRE_OK);
    }
    acre_device_stats after = api_stats(w.device);
    assert_int_equal(after.chunk_bytes, before.chunk_bytes);
    assert_int_equal(after.mem_blocks, before.mem_blocks);
    api_ok(acre_pool_destroy(pool, NULL, NULL));
    world_end(&w, 0);
}

TEST(heap_blocks_are_device_memory_that_can_be_asked_about) {
    struct world w;
    world_begin(&w);
    acre_mem_info info = {.struct_size = sizeof info};
    api_ok(acre_mem_query(w.device, w.small + 3, &info));
    assert_int_equal(info.kind, ACRE_KIND_DEVICE);
    assert_ptr_equal(info.base, w.h.base);
    assert_int_equal(info.bytes, 8 * MIB);
    assert_ptr_equal(info.device, w.device);
    /* A copy may go from block to block, but not past the heap's memory. */
    api_ok(acre_copy_sync(w.device, w.large + 100, w.small, 100));
    api_ok(acre_fill_sync(w.device, w.large, 0x66, 1000));
    api_expect(acre_fill_sync(w.device, w.large, 0, 16 * MIB), ACRE_E_RANGE);
    world_end(&w, 0);
}

static void kernel_free_foreign(void *arg) {
    struct world *w = arg;
    acre_heap_free(w->h, w->foreign);
}

TEST(heap_free_of_others_memory_is_counted) {
    struct world w;
    void *pooled, *mem;
    char local[64];
    world_begin(&w);
    api_ok(acre_alloc(w.device, 1000, NULL, &pooled));
    api_ok(acre_mem_alloc(w.device, ACRE_KIND_DEVICE, 4 * MIB, 0, &mem));
    void *const addresses[] = {pooled,
                               mem,
                               local,
                               (void *)8,
                               (void *)UINTPTR_MAX,
                               w.h.control,
                               w.h.base + 16 * MIB,
                               w.h.base + 12 * MIB /* not mapped yet */};
    enum { COUNT = sizeof addresses / sizeof addresses[0] };
    for (size_t i = 0; i < COUNT; i++) {
        w.foreign = addresses[i];
        run(&w, kernel_free_foreign, THREADS);
    }
    assert_int_equal(stats_of(&w).foreign_frees, COUNT * THREADS);
    api_ok(acre_free(pooled, NULL));
    api_ok(acre_mem_free(w.device, mem));
    world_end(&w, COUNT * THREADS);
}

TEST(heap_free_of_another_heaps_block_is_counted) {
    struct world w;
    acre_heap *second;
    world_begin(&w);
    acre_heap_handle first = w.h;
    api_ok(acre_heap_create(w.device, NULL, &second));
    api_ok(acre_heap_get_handle(second, &w.h));
    run(&w, kernel_free, THREADS);
    w.h = first;
    acre_heap_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_heap_get_stats(second, &stats));
    assert_int_equal(stats.foreign_frees, 2 * THREADS);
    api_ok(acre_heap_destroy(second, NULL, NULL));
    world_end(&w, 0);
}

/* ---- handles ---- */

static int stop_at_once(void *user, void *block, uint64_t bytes) {
    (void)user, (void)block, (void)bytes;
    return 1;
}

static void expect_no_heap(acre_heap *heap) {
    acre_heap_stats stats = {.struct_size = sizeof stats};
    acre_heap_handle h;
    uint64_t bytes = 1;
    api_expect(acre_heap_get_handle(heap, &h), ACRE_E_HANDLE);
    api_expect(acre_heap_grow(heap, 1), ACRE_E_HANDLE);
    api_expect(acre_heap_trim(heap, 1), ACRE_E_HANDLE);
    api_expect(acre_heap_reset(heap), ACRE_E_HANDLE);
    api_expect(acre_heap_get_limit(heap, &bytes), ACRE_E_HANDLE);
    assert_int_equal(bytes, 0);
    api_expect(acre_heap_set_limit(heap, 1), ACRE_E_HANDLE);
    api_expect(acre_heap_get_stats(heap, &stats), ACRE_E_HANDLE);
    api_expect(acre_heap_walk(heap, stop_at_once, NULL), ACRE_E_HANDLE);
    api_expect(acre_heap_destroy(heap, NULL, NULL), ACRE_E_HANDLE);
}

TEST(heap_handles_that_are_none_are_refused) {
    struct world w;
    world_begin(&w);
    expect_no_heap((acre_heap *)&w);
    expect_no_heap((acre_heap *)w.device);
    acre_heap *gone = w.heap;
    run(&w, kernel_free, 1);
    api_ok(acre_heap_destroy(w.heap, NULL, NULL));
    expect_no_heap(gone);
    api_ok(acre_close(w.device));
    expect_no_heap(gone);
}

/* ---- destroy while a kernel runs ---- */

static void kernel_linger(void *arg) {
    struct world *w = arg;
    char *p = acre_heap_malloc(w->h, 1000);
    w->is_running = 1;
    while (!w->may_end)
        acre_soft_yield();
    memset(p, 1, 1000); /* the block is still mapped */
    acre_heap_free(w->h, p);
}

static void *let_end(void *arg) {
    struct world *w = arg;
    while (!w->is_running)
        usleep(100);
    usleep(20000); /* most likely acre_heap_destroy waits by now */
    w->may_end = 1;
    return NULL;
}

TEST(heap_destroy_waits_for_kernels) {
    struct world w;
    pthread_t thread;
    acre_stream stream;
    uint64_t blocks = 0;
    const uint32_t one[3] = {1, 1, 1};
    world_begin(&w);
    api_ok(acre_stream_create(w.device, ACRE_STREAM_NON_BLOCKING, &stream));
    api_ok(acre_soft_launch(w.device, stream, kernel_linger, one, one, 0, &w));
    assert_int_equal(pthread_create(&thread, NULL, let_end, &w), 0);
    api_ok(acre_heap_destroy(w.heap, &blocks, NULL));
    assert_int_equal(w.may_end, 1);
    assert_int_equal(blocks, 2);
    pthread_join(thread, NULL);
    api_ok(acre_stream_destroy(w.device, stream));
    api_ok(acre_close(w.device));
}

int main(void) {
    return tests_run("heap_misuse");
}
