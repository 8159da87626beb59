/* The soft driver's own pools: when they grow and release chunks, which memory a stream gets, and
 * lifetimes. test_soft_pool_order.c tests that streams reuse each other's memory in order. */
#include "soft_fixture.h"

#include "soft/soft_pool_types.h"
#include "soft/soft_stream.h"

#define BLOCK (64 * KIB)

static CUmemoryPool make_pool(size_t max_bytes) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                            .maxSize = max_bytes};
    CUmemoryPool pool = NULL;
    assert_ok(drv->cuMemPoolCreate(&pool, &props));
    return pool;
}

static uint64_t get(CUmemoryPool pool, CUmemPool_attribute attribute) {
    uint64_t value = 0;
    assert_ok(drv->cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static void set_flag(CUmemoryPool pool, CUmemPool_attribute attribute, int value) {
    assert_ok(drv->cuMemPoolSetAttribute(pool, attribute, &value));
}

static void set_threshold(CUmemoryPool pool, uint64_t bytes) {
    assert_ok(drv->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
}

static CUdeviceptr take(CUmemoryPool pool, size_t bytes, CUstream stream) {
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAllocFromPoolAsync(&at, bytes, pool, stream));
    return at;
}

static void give(CUdeviceptr at, CUstream stream) {
    assert_ok(drv->cuMemFreeAsync(at, stream));
}

static uint64_t reserved(CUmemoryPool pool) {
    return get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

static uint64_t used(CUmemoryPool pool) {
    return get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
}

/* Returns 1 if the stream has done all queued work, without a query that the host would count as a
 * sync. */
static int is_through(CUstream stream) {
    struct soft_stream *found;
    acre__lock_take(&acre__soft.lock);
    assert_ok(acre__soft_stream_locate(stream, &found));
    int is_it = found->completed == found->submitted;
    acre__lock_give(&acre__soft.lock);
    return is_it;
}

/* ---- growing and trimming ---- */

SOFT_TEST(pool_grows_by_chunks_and_gives_them_back_at_a_sync) {
    CUmemoryPool pool = make_pool(0);
    CUstream stream = soft_stream(0);
    CUdeviceptr small = take(pool, 100, stream), large = take(pool, 3 * MIB, stream);
    assert_int_equal(reserved(pool), 6 * MIB);
    assert_int_equal(used(pool), 512 + 3 * MIB);
    assert_int_equal(soft_used_bytes(0), 6 * MIB);
    give(large, stream);
    assert_int_equal(used(pool), 512);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_int_equal(reserved(pool), 2 * MIB);
    give(small, stream);
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(reserved(pool), 0);
    assert_int_equal(soft_used_bytes(0), 0);
    assert_int_equal(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 6 * MIB);
    assert_int_equal(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 512 + 3 * MIB);
    assert_ok(drv->cuMemPoolDestroy(pool));
}

SOFT_TEST(pool_keeps_what_its_threshold_says_and_trims_to_less) {
    CUmemoryPool pool = make_pool(0);
    CUstream stream = soft_stream(0);
    CUdeviceptr at[4];
    set_threshold(pool, 4 * MIB);
    for (int i = 0; i < 4; i++)
        at[i] = take(pool, 2 * MIB, stream);
    for (int i = 0; i < 4; i++)
        give(at[i], stream);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_int_equal(reserved(pool), 4 * MIB);
    /* A trim releases only whole chunks, and keeps at least the given bytes. */
    assert_ok(drv->cuMemPoolTrimTo(pool, 3 * MIB));
    assert_int_equal(reserved(pool), 4 * MIB);
    assert_ok(drv->cuMemPoolTrimTo(pool, 2 * MIB));
    assert_int_equal(reserved(pool), 2 * MIB);
    assert_ok(drv->cuMemPoolTrimTo(pool, 0));
    assert_int_equal(reserved(pool), 0);
}

SOFT_TEST(pool_trims_nothing_under_work_that_is_queued) {
    CUmemoryPool pool = make_pool(0);
    CUstream stream = soft_stream(0);
    struct gate gate;
    CUdeviceptr at = take(pool, MIB, stream);
    set_threshold(pool, UINT64_MAX);
    soft_gate_put(&gate, stream);
    assert_ok(drv->cuMemsetD8Async(at, 7, MIB, stream));
    give(at, stream);
    assert_ok(drv->cuMemPoolTrimTo(pool, 0));
    assert_int_equal(reserved(pool), 2 * MIB);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(stream)); /* the fill found its memory */
    assert_ok(drv->cuMemPoolTrimTo(pool, 0));
    assert_int_equal(reserved(pool), 0);
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
}

SOFT_TEST(pool_high_marks_begin_anew_with_what_there_is) {
    CUmemoryPool pool = make_pool(0);
    CUdeviceptr one = take(pool, MIB, NULL), two = take(pool, 4 * MIB, NULL);
    uint64_t zero = 0, one_byte = 1;
    give(two, NULL);
    assert_ok(drv->cuStreamSynchronize(NULL));
    assert_refused(drv->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one_byte));
    assert_ok(drv->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    assert_ok(drv->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
    assert_int_equal(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), MIB);
    assert_int_equal(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 2 * MIB);
    give(one, NULL);
}

SOFT_TEST(pool_with_a_maximum_ends_there) {
    CUmemoryPool pool = make_pool(5 * MIB); /* whole chunks: 6 MiB */
    CUdeviceptr at = take(pool, 4 * MIB, NULL), more = 0;
    assert_int_equal(drv->cuMemAllocFromPoolAsync(&more, 3 * MIB, pool, NULL),
                     CUDA_ERROR_OUT_OF_MEMORY);
    more = take(pool, 2 * MIB, NULL);
    give(at, NULL);
    give(more, NULL);
}

/* The device has 64 MiB. */
SOFT_TEST(pool_out_of_memory_gives_back_what_others_keep) {
    CUmemoryPool keeper = make_pool(0), pool = make_pool(0);
    CUdeviceptr at = 0;
    set_threshold(keeper, UINT64_MAX);
    give(take(keeper, 40 * MIB, NULL), NULL);
    assert_ok(drv->cuStreamSynchronize(NULL));
    assert_int_equal(reserved(keeper), 40 * MIB);
    assert_int_equal(drv->cuMemAllocFromPoolAsync(&at, 65 * MIB, pool, NULL),
                     CUDA_ERROR_OUT_OF_MEMORY);
    at = take(pool, 40 * MIB, NULL);
    assert_int_equal(reserved(keeper), 0);
    assert_int_equal(soft_used_bytes(0), 40 * MIB);
    assert_int_equal(drv->cuMemAllocFromPoolAsync(&at, 40 * MIB, pool, NULL),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(used(pool), 40 * MIB);
}

/* ---- reuse ---- */

SOFT_TEST(pool_memory_comes_back_on_its_stream_at_once) {
    CUmemoryPool pool = make_pool(0);
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    struct gate gate;
    soft_gate_put(&gate, stream);
    CUdeviceptr first = take(pool, BLOCK, stream);
    assert_ok(drv->cuMemsetD8Async(first, 1, BLOCK, stream));
    give(first, stream);
    CUdeviceptr second = take(pool, BLOCK, stream);
    assert_int_equal(first, second);
    assert_ok(drv->cuMemsetD8Async(second, 2, BLOCK, stream));
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(stream));
    assert_true(soft_is_filled(second, BLOCK, 2));
}

/* A pool with one block freed on a stream that a gate blocks, and another stream. */
struct parted {
    CUmemoryPool pool;
    CUstream freeing, taking;
    CUdeviceptr freed;
    struct gate gate;
};

static void parted_make(struct parted *p) {
    p->pool = make_pool(0);
    p->freeing = soft_stream(CU_STREAM_NON_BLOCKING);
    p->taking = soft_stream(CU_STREAM_NON_BLOCKING);
    p->freed = take(p->pool, 2 * MIB, p->freeing);
    soft_gate_put(&p->gate, p->freeing);
    give(p->freed, p->freeing);
}

static void set_flags(CUmemoryPool pool, int follow, int opportunistic, int depend) {
    set_flag(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, follow);
    set_flag(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, opportunistic);
    set_flag(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, depend);
}

SOFT_TEST(pool_memory_of_a_busy_stream_is_left_alone) {
    struct parted p;
    parted_make(&p);
    CUdeviceptr other = take(p.pool, 2 * MIB, p.taking);
    assert_int_not_equal(other, p.freed);
    soft_gate_open(&p.gate);
}

SOFT_TEST(pool_follows_events) {
    for (int follow = 0; follow < 2; follow++) {
        struct parted p;
        CUevent event = NULL, second = NULL;
        CUstream between = soft_stream(CU_STREAM_NON_BLOCKING);
        parted_make(&p);
        set_flags(p.pool, follow, 0, 0);
        assert_ok(drv->cuEventCreate(&event, 0));
        assert_ok(drv->cuEventCreate(&second, 0));
        assert_ok(drv->cuEventRecord(event, p.freeing));
        assert_ok(drv->cuStreamWaitEvent(between, event, 0));
        assert_ok(drv->cuEventRecord(second, between));
        assert_ok(drv->cuStreamWaitEvent(p.taking, second, 0));
        CUdeviceptr at = take(p.pool, 2 * MIB, p.taking);
        assert_int_equal(at == p.freed, follow);
        soft_gate_open(&p.gate);
        assert_ok(drv->cuStreamSynchronize(p.taking));
    }
}

/* An event recorded before the free does not cover it. */
SOFT_TEST(pool_does_not_follow_events_that_came_before) {
    struct parted p;
    CUevent event = NULL;
    p.pool = make_pool(0);
    p.freeing = soft_stream(CU_STREAM_NON_BLOCKING);
    p.taking = soft_stream(CU_STREAM_NON_BLOCKING);
    p.freed = take(p.pool, 2 * MIB, p.freeing);
    soft_gate_put(&p.gate, p.freeing);
    assert_ok(drv->cuEventCreate(&event, 0));
    assert_ok(drv->cuEventRecord(event, p.freeing));
    give(p.freed, p.freeing);
    assert_ok(drv->cuStreamWaitEvent(p.taking, event, 0));
    assert_int_not_equal(take(p.pool, 2 * MIB, p.taking), p.freed);
    soft_gate_open(&p.gate);
}

/* The pool also follows an event after the wait is done: reuse does not depend on what has run. */
SOFT_TEST(pool_follows_events_that_are_over) {
    struct parted p;
    CUevent event = NULL;
    parted_make(&p);
    set_flags(p.pool, 1, 0, 0);
    assert_ok(drv->cuEventCreate(&event, 0));
    assert_ok(drv->cuEventRecord(event, p.freeing));
    assert_ok(drv->cuStreamWaitEvent(p.taking, event, 0));
    soft_gate_open(&p.gate);
    assert_true(soft_eventually(is_through(p.taking)));
    assert_int_equal(take(p.pool, 2 * MIB, p.taking), p.freed);
}

SOFT_TEST(pool_follows_the_legacy_stream) {
    CUmemoryPool pool = make_pool(0);
    CUstream blocking = soft_stream(0);
    struct gate gate;
    set_flags(pool, 1, 0, 0);
    CUdeviceptr at = take(pool, 2 * MIB, NULL);
    soft_gate_put(&gate, NULL);
    give(at, NULL);
    assert_int_equal(take(pool, 2 * MIB, blocking), at);
    soft_gate_open(&gate);
    assert_ok(drv->cuCtxSynchronize());
}

SOFT_TEST(pool_takes_what_is_done_if_it_may) {
    for (int may = 0; may < 2; may++) {
        struct parted p;
        parted_make(&p);
        set_flags(p.pool, 1, may, 1);
        soft_gate_open(&p.gate);
        assert_true(soft_eventually(is_through(p.freeing)));
        assert_int_equal(take(p.pool, 2 * MIB, p.taking) == p.freed, may);
    }
}

/* After a sync of the host any stream may reuse the memory, whatever the attributes are. */
SOFT_TEST(pool_gives_to_all_what_a_sync_has_seen) {
    for (int way = 0; way < 4; way++) {
        struct parted p;
        CUevent event = NULL;
        parted_make(&p);
        set_flags(p.pool, 0, 0, 0);
        set_threshold(p.pool, UINT64_MAX);
        assert_ok(drv->cuEventCreate(&event, 0));
        assert_ok(drv->cuEventRecord(event, p.freeing));
        if (way == 3) /* sync with a stream that waits for the freeing stream */
            assert_ok(drv->cuStreamWaitEvent(p.taking, event, 0));
        soft_gate_open(&p.gate);
        CUstream other = soft_stream(CU_STREAM_NON_BLOCKING);
        assert_ok(way == 0   ? drv->cuStreamSynchronize(p.freeing)
                  : way == 1 ? drv->cuEventSynchronize(event)
                  : way == 2 ? drv->cuCtxSynchronize()
                             : drv->cuStreamSynchronize(p.taking));
        assert_int_equal(take(p.pool, 2 * MIB, other), p.freed);
    }
}

SOFT_TEST(pool_knows_the_frees_of_ended_streams_after_a_sync) {
    struct parted p;
    parted_make(&p);
    set_flags(p.pool, 0, 0, 0);
    set_threshold(p.pool, UINT64_MAX);
    soft_gate_open(&p.gate);
    assert_true(soft_eventually(is_through(p.freeing)));
    assert_ok(drv->cuStreamDestroy(p.freeing));
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(take(p.pool, 2 * MIB, p.taking), p.freed);
}

/* No other memory is left: the allocating stream waits for the streams that freed the memory. */
SOFT_TEST(pool_waits_for_other_streams_when_there_is_nothing_else) {
    for (int may = 0; may < 2; may++) {
        CUmemoryPool pool = make_pool(8 * MIB);
        CUstream one = soft_stream(CU_STREAM_NON_BLOCKING),
                 two = soft_stream(CU_STREAM_NON_BLOCKING),
                 taking = soft_stream(CU_STREAM_NON_BLOCKING);
        struct gate gate;
        CUdeviceptr whole = take(pool, 8 * MIB, one), at = 0;
        give(whole, one);
        CUdeviceptr first = take(pool, 4 * MIB, one), second = take(pool, 4 * MIB, one);
        assert_int_equal(first, whole);
        assert_int_equal(second, whole + 4 * MIB);
        set_flags(pool, 1, 1, may);
        assert_ok(drv->cuStreamSynchronize(one));
        soft_gate_put(&gate, one);
        give(first, one);
        give(second, two); /* done at once */
        CUresult result = drv->cuMemAllocFromPoolAsync(&at, 8 * MIB, pool, taking);
        assert_int_equal(result, may ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
        if (may) {
            assert_int_equal(at, whole);
            assert_int_equal(drv->cuStreamQuery(taking), CUDA_ERROR_NOT_READY);
        }
        soft_gate_open(&gate);
        assert_ok(drv->cuCtxSynchronize());
    }
}

/* ---- lifetime ---- */

SOFT_TEST(pool_that_is_destroyed_goes_with_its_last_allocation) {
    CUmemoryPool pool = make_pool(0);
    CUstream stream = soft_stream(0);
    struct gate gate;
    CUdeviceptr one = take(pool, BLOCK, stream), two = take(pool, BLOCK, stream);
    assert_ok(drv->cuDeviceSetMemPool(0, pool));
    assert_ok(drv->cuMemPoolDestroy(pool));
    assert_refused(drv->cuMemPoolDestroy(pool));
    assert_refused(drv->cuMemPoolTrimTo(pool, 0));
    CUmemoryPool current = NULL, ours = NULL;
    assert_ok(drv->cuDeviceGetMemPool(&current, 0));
    assert_ok(drv->cuDeviceGetDefaultMemPool(&ours, 0));
    assert_ptr_equal(current, ours);
    assert_ok(drv->cuMemsetD8Async(one, 3, BLOCK, stream)); /* its memory stays valid */
    assert_true(soft_is_filled(one, BLOCK, 3));
    give(one, stream);
    soft_gate_put(&gate, stream);
    give(two, stream);
    assert_int_equal(soft_used_bytes(0), 2 * MIB);
    soft_gate_open(&gate);
    assert_true(soft_eventually(soft_used_bytes(0) == 0)); /* without a sync */
}

SOFT_TEST(pool_memory_goes_with_the_context) {
    CUmemoryPool ours = NULL, pool = make_pool(0);
    CUdeviceptr at = 0;
    assert_ok(drv->cuDeviceGetDefaultMemPool(&ours, 0));
    set_threshold(ours, UINT64_MAX);
    assert_ok(drv->cuMemAllocAsync(&at, BLOCK, NULL));
    (void)take(pool, BLOCK, NULL);
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_int_equal(soft_used_bytes(0), 0);
    assert_int_equal(used(ours), 0);
    assert_int_equal(get(ours, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0);
    assert_refused(drv->cuMemPoolTrimTo(pool, 0));
    assert_refused(drv->cuMemFree(at));
    assert_ok(drv->cuDevicePrimaryCtxRetain(&soft_ctx[0], 0));
    assert_ok(drv->cuMemAllocAsync(&at, BLOCK, NULL));
}

/* A free is queued on a stream of another device, which is lost and released before the free
 * runs. */
SOFT_TEST_BARE(pool_free_that_is_never_reached_counts_as_done) {
    struct acre__soft_config config = soft_config(64 * MIB, 2);
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    CUmemoryPool pool = NULL;
    config.seeded = 1; /* queued work runs only in calls */
    soft_begin_with(&config);
    assert_ok(drv->cuMemPoolCreate(&pool, &props));
    set_threshold(pool, UINT64_MAX);
    CUstream stream = soft_stream(0);
    CUdeviceptr at = take(pool, BLOCK, stream);
    give(at, stream);
    struct soft_stream *found;
    acre__lock_take(&acre__soft.lock);
    assert_ok(acre__soft_stream_locate(stream, &found));
    acre__soft_lose(&acre__soft.devices[0].ctx, CUDA_ERROR_LAUNCH_FAILED);
    int is_queued = found->head != NULL;
    acre__lock_give(&acre__soft.lock);
    assert_true(is_queued);
    assert_ok(drv->cuDevicePrimaryCtxRelease(0));
    assert_int_equal(reserved(pool), 2 * MIB);
    assert_ok(drv->cuMemPoolTrimTo(pool, 0));
    assert_int_equal(reserved(pool), 0);
}

/* Pools belong to the device: they outlive a created context, with the memory freed there, and end
 * with the device's last context. */
SOFT_TEST(pool_memory_outlives_a_context_that_is_not_the_last) {
    CUmemoryPool pool = make_pool(0);
    CUcontext own = NULL;
    set_flags(pool, 0, 0, 0);
    set_threshold(pool, UINT64_MAX);
    assert_ok(drv->cuCtxCreate(&own, NULL, 0, 0));
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr stays = take(pool, CHUNK, stream), goes = take(pool, CHUNK, stream);
    assert_ok(drv->cuMemsetD8Async(stays, 4, CHUNK, stream));
    give(goes, stream);
    assert_ok(drv->cuCtxDestroy(own));
    assert_true(soft_is_filled(stays, CHUNK, 4));
    assert_int_equal(used(pool), CHUNK);
    assert_int_equal(take(pool, CHUNK, NULL), goes); /* destroying a context is a sync */
    assert_ok(drv->cuMemFree(stays));
    give(goes, NULL);
}

SOFT_TEST(pool_wrong_frees_change_nothing) {
    CUmemoryPool pool = make_pool(0);
    CUstream stream = soft_stream(0);
    CUdeviceptr at = take(pool, BLOCK, stream);
    assert_refused(drv->cuMemFreeAsync(at + 512, stream));
    assert_refused(drv->cuMemFree(at + 512));
    assert_ok(drv->cuMemFreeAsync(0, stream));
    assert_int_equal(used(pool), BLOCK);
    give(at, stream);
    assert_refused(drv->cuMemFreeAsync(at, stream));
    assert_refused(drv->cuMemFree(at));
    assert_refused(drv->cuMemsetD8Async(at, 1, BLOCK, stream)); /* the address is invalid now */
    assert_int_equal(used(pool), 0);
    at = take(pool, BLOCK, stream);
    assert_ok(drv->cuMemFree(at)); /* needs no stream, and waits for none */
    assert_refused(drv->cuMemFreeAsync(at, stream));
    assert_int_equal(used(pool), 0);
}

SOFT_TEST(pool_frees_plain_memory_in_stream_order) {
    static const size_t sizes[] = {4096, 4 * MIB};
    CUstream stream = soft_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 2; i++) {
        struct gate gate;
        CUdeviceptr at = 0;
        assert_ok(drv->cuMemAlloc(&at, sizes[i]));
        soft_gate_put(&gate, stream);
        assert_ok(drv->cuMemsetD8Async(at, 1, sizes[i], stream));
        give(at, stream);
        assert_refused(drv->cuMemFreeAsync(at, stream));
        assert_refused(drv->cuMemFree(at));
        assert_int_not_equal(soft_used_bytes(0), 0);
        soft_gate_open(&gate);
        assert_ok(drv->cuStreamSynchronize(stream));
        assert_int_equal(soft_used_bytes(0), 0);
    }
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
}

/* ---- access ---- */

SOFT_TEST_BARE(pool_memory_is_reached_by_whom_it_is_opened_for) {
    soft_begin(64 * MIB, 2);
    CUmemoryPool pool = make_pool(0);
    CUdeviceptr at = take(pool, BLOCK, NULL), there = 0;
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READ};
    assert_ok(drv->cuMemsetD8Async(at, 5, BLOCK, NULL));
    assert_ok(drv->cuStreamSynchronize(NULL));
    assert_ok(drv->cuCtxPushCurrent(soft_ctx[1]));
    assert_ok(drv->cuMemAlloc(&there, BLOCK));
    assert_refused(drv->cuMemcpyDtoD(there, at, BLOCK));
    assert_ok(drv->cuMemPoolSetAccess(pool, &desc, 1));
    assert_ok(drv->cuMemcpyDtoD(there, at, BLOCK));
    assert_true(soft_is_filled(there, BLOCK, 5));
    assert_refused(drv->cuMemcpyDtoD(at, there, BLOCK)); /* read access only */
    desc.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    assert_ok(drv->cuMemPoolSetAccess(pool, &desc, 1));
    assert_ok(drv->cuMemcpyDtoD(at, there, BLOCK));
    /* A stream of one device uses a pool of another. */
    CUdeviceptr far = take(pool, BLOCK, NULL);
    assert_ok(drv->cuMemsetD8Async(far, 6, BLOCK, NULL));
    give(far, NULL);
    assert_ok(drv->cuCtxSynchronize());
    /* If one entry is invalid, the call changes nothing. */
    CUmemAccessDesc both[2] = {{{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_NONE},
                               {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_NONE}};
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    assert_refused(drv->cuMemPoolSetAccess(pool, both, 2));
    assert_ok(drv->cuMemPoolGetAccess(&flags, pool, &both[0].location));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

SOFT_TEST(pool_memory_faults_for_the_host) {
    CUmemoryPool pool = make_pool(0);
    CUdeviceptr at = take(pool, BLOCK, NULL);
    assert_ok(drv->cuCtxSynchronize());
    assert_true(soft_faults(at, 0));
}

/* ---- many threads ---- */

enum { THREADS = 4, TURNS = 300 };

/* Allocates, fills, reads back and frees blocks of all sizes on one stream. Returns NULL if all is
 * well. */
static void *churn(void *user) {
    CUmemoryPool pool = user;
    struct {
        CUdeviceptr at;
        size_t bytes;
        unsigned char value;
    } held[8] = {0};
    uint64_t random = (uint64_t)(uintptr_t)&held;
    CUstream stream = NULL;
    if (drv->cuCtxPushCurrent(soft_ctx[0]) || drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
        return user;
    for (int i = 0; i < TURNS; i++) {
        size_t k = (size_t)random_draw(&random, 8);
        unsigned char ends[2];
        if (!held[k].at) {
            held[k].bytes = 1 + (size_t)random_draw(&random, 3 * BLOCK);
            held[k].value = (unsigned char)random_draw(&random, 256);
            if (drv->cuMemAllocFromPoolAsync(&held[k].at, held[k].bytes, pool, stream) ||
                drv->cuMemsetD8Async(held[k].at, held[k].value, held[k].bytes, stream))
                return user;
            continue;
        }
        if (drv->cuMemcpyDtoHAsync(&ends[0], held[k].at, 1, stream) ||
            drv->cuMemcpyDtoHAsync(&ends[1], held[k].at + held[k].bytes - 1, 1, stream) ||
            ends[0] != held[k].value || ends[1] != held[k].value ||
            drv->cuMemFreeAsync(held[k].at, stream))
            return user;
        held[k].at = 0;
        if (i % 16 == 0 && drv->cuStreamSynchronize(stream))
            return user;
    }
    for (size_t k = 0; k < 8; k++)
        if (held[k].at && drv->cuMemFreeAsync(held[k].at, stream))
            return user;
    return drv->cuStreamSynchronize(stream) ? user : NULL;
}

SOFT_TEST(pool_serves_many_threads) {
    CUmemoryPool pool = make_pool(0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, pool), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong = NULL;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_int_equal(used(pool), 0);
    assert_int_equal(reserved(pool), 0); /* released at the last sync */
}

int main(void) {
    return tests_run("soft_pool");
}
