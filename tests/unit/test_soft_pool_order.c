/* Pools and the vector clocks. Pool memory must be used between its allocation and its free, by the
 * same stream or with an edge to it. Memory that a pool reuses is ordered after its earlier uses.
 * Each scenario runs with workers and under several seeds. */
#include "soft_fixture.h"

#include "soft/soft_op.h"
#include "soft/soft_pool_types.h"
#include "soft/soft_stream.h"

#define BLOCK ((size_t)4096)

enum { SEEDS = 20 };

static void expect_reports(void (*scenario)(void), size_t reports, const char *name) {
    for (int seed = 0; seed <= SEEDS; seed++) {
        struct acre__soft_config config = soft_config(64 * MIB, 1);
        char text[512] = "";
        void *state = NULL;
        config.check = 1;
        config.seeded = seed > 0;
        config.seed = (uint64_t)seed;
        soft_begin_with(&config);
        scenario();
        drv->cuCtxSynchronize();
        size_t count = acre__soft_reports(text, sizeof text);
        if (count != reports)
            fail_msg("%s, seed %d: %zu reports instead of %zu; the first: %s", name, seed, count,
                     reports, text);
        soft_teardown(&state);
    }
}

#define EXPECT_REPORTS(scenario, reports) expect_reports(scenario, reports, #scenario)

/* After a report the device is lost, and later calls fail. */
static void ok_or_lost(CUresult result) {
    assert_true(result == CUDA_SUCCESS || result == CUDA_ERROR_LAUNCH_FAILED);
}

static CUstream stream_make(void) {
    return soft_stream(CU_STREAM_NON_BLOCKING);
}

/* Allocates a whole segment, so that the pool has no other free memory. */
static CUdeviceptr take(CUstream stream) {
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAllocAsync(&at, CHUNK, stream));
    return at;
}

static void give(CUdeviceptr at, CUstream stream) {
    ok_or_lost(drv->cuMemFreeAsync(at, stream));
}

static void fill(CUdeviceptr at, CUstream stream) {
    ok_or_lost(drv->cuMemsetD8Async(at, 1, BLOCK, stream));
}

/* Orders later work of `after` behind the work queued on `before` so far. */
static void order(CUstream before, CUstream after) {
    CUevent event = NULL;
    ok_or_lost(drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ok_or_lost(drv->cuEventRecord(event, before));
    ok_or_lost(drv->cuStreamWaitEvent(after, event, 0));
}

/* Waits until the stream is done, without a sync or query of the host. With a seed, driver calls
 * let it run. */
static void let_run(CUstream stream) {
    int device;
    uint64_t left = 1;
    struct soft_stream *found;
    while (left) {
        assert_ok(drv->cuCtxGetDevice(&device));
        acre__lock_take(&acre__soft.lock);
        assert_ok(acre__soft_stream_locate(stream, &found));
        left = found->submitted - found->completed;
        acre__lock_give(&acre__soft.lock);
    }
}

/* ---- uses ---- */

static void use_on_its_stream(void) {
    CUstream one = stream_make();
    CUdeviceptr at = take(one);
    fill(at, one);
    give(at, one);
}

static void use_elsewhere(void) {
    CUstream one = stream_make(), two = stream_make();
    fill(take(one), two);
}

static void use_elsewhere_after_an_event(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr at = take(one);
    order(one, two);
    fill(at, two);
}

static void use_elsewhere_after_a_sync(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr at = take(one);
    assert_ok(drv->cuStreamSynchronize(one));
    fill(at, two);
}

static void free_elsewhere(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr at = take(one);
    fill(at, one);
    give(at, two);
}

static void free_elsewhere_after_an_event(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr at = take(one);
    fill(at, one);
    order(one, two);
    give(at, two);
}

/* Two streams read the block; the free waits for only one of them. */
static void free_with_a_reader_forgotten(void) {
    CUstream one = stream_make(), two = stream_make(), three = stream_make();
    CUdeviceptr at = take(one), copy = 0;
    assert_ok(drv->cuMemAlloc(&copy, 2 * BLOCK));
    fill(at, one);
    order(one, two);
    order(one, three);
    ok_or_lost(drv->cuMemcpyDtoDAsync(copy, at, BLOCK, two));
    ok_or_lost(drv->cuMemcpyDtoDAsync(copy + BLOCK, at, BLOCK, three));
    order(two, one);
    give(at, one);
}

static void use_by_the_legacy_stream(void) {
    CUstream blocking = soft_stream(CU_STREAM_DEFAULT);
    CUdeviceptr at = take(blocking);
    fill(at, NULL);
    give(at, blocking);
}

TEST(pool_memory_is_used_between_alloc_and_free) {
    EXPECT_REPORTS(use_on_its_stream, 0);
    EXPECT_REPORTS(use_elsewhere, 1);
    EXPECT_REPORTS(use_elsewhere_after_an_event, 0);
    EXPECT_REPORTS(use_elsewhere_after_a_sync, 0);
    EXPECT_REPORTS(free_elsewhere, 1);
    EXPECT_REPORTS(free_elsewhere_after_an_event, 0);
    EXPECT_REPORTS(free_with_a_reader_forgotten, 1);
    EXPECT_REPORTS(use_by_the_legacy_stream, 0);
}

/* ---- reuse ---- */

static void reuse_on_its_stream(void) {
    CUstream one = stream_make();
    CUdeviceptr at = take(one);
    fill(at, one);
    give(at, one);
    assert_int_equal(take(one), at);
    fill(at, one);
}

static void reuse_after_an_event(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr at = take(one);
    fill(at, one);
    give(at, one);
    order(one, two);
    assert_int_equal(take(two), at);
    fill(at, two);
}

/* The pool has seen that the free is done; the host has not. */
static void reuse_of_what_is_done(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr at = take(one);
    fill(at, one);
    give(at, one);
    let_run(one);
    assert_int_equal(take(two), at);
    fill(at, two);
}

static void reuse_after_a_sync(void) {
    CUmemoryPool pool = NULL;
    uint64_t all = UINT64_MAX;
    CUstream one = stream_make(), two = stream_make();
    assert_ok(drv->cuDeviceGetDefaultMemPool(&pool, 0));
    assert_ok(drv->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    CUdeviceptr at = take(one);
    fill(at, one);
    give(at, one);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_int_equal(take(two), at);
    fill(at, two);
}

/* Two streams held the whole device: the third stream waits for both. */
static void reuse_of_what_is_waited_for(void) {
    CUstream one = stream_make(), two = stream_make(), three = stream_make();
    CUdeviceptr first = 0, second = 0, all = 0;
    assert_ok(drv->cuMemAllocAsync(&all, 64 * MIB, one));
    give(all, one);
    order(one, two);
    assert_ok(drv->cuMemAllocAsync(&first, 32 * MIB, one));
    assert_ok(drv->cuMemAllocAsync(&second, 32 * MIB, two));
    fill(first, one);
    fill(second, two);
    give(first, one);
    give(second, two);
    assert_ok(drv->cuMemAllocAsync(&all, 64 * MIB, three));
    fill(all, three);
    fill(all + 32 * MIB, three);
}

/* Two streams freed parts of the segment; one of the streams is done. */
static void reuse_of_a_mixture(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr whole = 0;
    assert_ok(drv->cuMemAllocAsync(&whole, 2 * MIB, one));
    give(whole, one);
    CUdeviceptr at[4];
    for (int i = 0; i < 4; i++) {
        assert_ok(drv->cuMemAllocAsync(&at[i], MIB / 2, one));
        fill(at[i], one);
    }
    order(one, two);
    for (int i = 0; i < 4; i++)
        give(at[i], i % 2 ? one : two);
    let_run(two);
    for (int i = 0; i < 3; i++) {
        CUdeviceptr again = 0;
        assert_ok(drv->cuMemAllocAsync(&again, MIB / 2 + (size_t)i * 512, i % 2 ? one : two));
        fill(again, i % 2 ? one : two);
    }
}

TEST(pool_memory_changes_hands_in_order) {
    EXPECT_REPORTS(reuse_on_its_stream, 0);
    EXPECT_REPORTS(reuse_after_an_event, 0);
    EXPECT_REPORTS(reuse_of_what_is_done, 0);
    EXPECT_REPORTS(reuse_after_a_sync, 0);
    EXPECT_REPORTS(reuse_of_what_is_waited_for, 0);
    EXPECT_REPORTS(reuse_of_a_mixture, 0);
}

/* ---- freed by the host ---- */

static void host_free_after_a_sync(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr at = take(one);
    fill(at, one);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_ok(drv->cuMemFree(at));
    assert_int_equal(take(two), at);
    fill(at, two);
}

/* The use is done, but the host has not waited for it. */
static void host_free_too_early(void) {
    CUstream one = stream_make();
    CUdeviceptr at = take(one);
    fill(at, one);
    let_run(one);
    assert_ok(drv->cuMemFree(at));
}

/* The block was never used: the next allocation is ordered after this block's allocation only. */
static void host_free_of_what_was_never_used(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr at = take(one);
    assert_ok(drv->cuMemFree(at));
    fill(take(two), two);
    fill(take(one), one);
}

/* The previous allocation was used on two streams and is not done; this one was not used. */
static void host_free_of_what_another_used(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr at = take(one), copy = 0;
    assert_ok(drv->cuMemAlloc(&copy, BLOCK));
    fill(at, one);
    order(one, two);
    assert_ok(drv->cuMemcpyDtoDAsync(copy, at, BLOCK, two));
    order(two, one);
    give(at, one);
    assert_int_equal(take(one), at);
    assert_ok(drv->cuMemFree(at));
    fill(take(two), two);
}

/* Queued work still uses the block. */
static void host_free_under_queued_work(void) {
    struct gate gate;
    CUstream one = stream_make();
    CUdeviceptr at = take(one);
    int is_seeded = acre__soft.config.seeded;
    if (!is_seeded)
        soft_gate_put(&gate, one);
    assert_ok(drv->cuMemsetD8Async(at, 1, BLOCK, one));
    assert_ok(drv->cuMemFree(at));
    if (!is_seeded)
        soft_gate_open(&gate);
}

/* Addresses of plain memory can be reused as soon as the stream reaches the free. */
static void plain_memory_freed_in_order(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr stays = 0, at = 0, again = 0;
    /* A second block, so that the chunk is not released and created again. */
    assert_ok(drv->cuMemAlloc(&stays, BLOCK));
    assert_ok(drv->cuMemAlloc(&at, BLOCK));
    fill(at, one);
    give(at, one);
    let_run(one);
    assert_ok(drv->cuMemAlloc(&again, BLOCK));
    assert_int_equal(again, at);
    fill(again, two);
}

static void plain_memory_freed_elsewhere(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAlloc(&at, 4 * MIB));
    fill(at, one);
    let_run(one);
    give(at, two);
}

TEST(pool_memory_freed_by_the_host_is_done_with) {
    EXPECT_REPORTS(host_free_after_a_sync, 0);
    EXPECT_REPORTS(host_free_too_early, 1);
    EXPECT_REPORTS(host_free_of_what_was_never_used, 0);
    EXPECT_REPORTS(host_free_of_what_another_used, 0);
    EXPECT_REPORTS(host_free_under_queued_work, 1);
    EXPECT_REPORTS(plain_memory_freed_in_order, 0);
    EXPECT_REPORTS(plain_memory_freed_elsewhere, 1);
}

/* ---- planted bugs are found ---- */

/* Plants a bug: the pool forgets which free its memory waits for. */
static void plant_forgotten_frees(void) {
    acre__lock_take(&acre__soft.lock);
    struct acre__node *node = acre__tree_first(&acre__soft.segments);
    for (; node; node = acre__tree_next(&acre__soft.segments, node)) {
        struct acre__tree *gaps = &acre__tree_entry(node, struct soft_segment, node)->gaps;
        struct acre__node *at = acre__tree_first(gaps);
        for (; at; at = acre__tree_next(gaps, at)) {
            struct soft_gap *gap = acre__tree_entry(at, struct soft_gap, node);
            acre__soft_marker_drop(gap->freed);
            gap->freed = NULL;
        }
    }
    acre__lock_give(&acre__soft.lock);
}

static void planted_reuse_without_order(void) {
    CUstream one = stream_make(), two = stream_make();
    CUdeviceptr at = take(one), again = 0;
    fill(at, one);
    give(at, one);
    plant_forgotten_frees();
    ok_or_lost(drv->cuMemAllocAsync(&again, CHUNK, two));
    assert_true(again == at || again == 0);
}

TEST(pool_memory_that_changes_hands_too_early_is_found) {
    EXPECT_REPORTS(planted_reuse_without_order, 1);
}

int main(void) {
    return tests_run("soft_pool_order");
}
