/* Planted bugs that the seeded scheduler and the vector clocks must find within 1000 seeds, and
 * find again from the seed alone. Without the bug the same programs must give no report. The bugs
 * are typical of allocators: memory reused on another stream without an edge, an edge lost because
 * it was kept per address while the chunk moved, a lost update between two threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/cases.h"
#include "base/atomic.h"
#include "soft/sched.h"
#include "soft/soft.h"
#include "schedule.h"

#define CHUNK ((size_t)2 << 20)
#define BLOCK ((size_t)4096)

static int report_is_there(char *what, unsigned what_bytes) {
    return acre__soft_reports(what, what_bytes) > 0;
}

/* ---- 1. memory reused on another stream ---- */

/* A cache of one block, as in a pool: the block is freed on one stream and allocated on another. If
 * the event of the free is not done, the second stream must wait for it. The bug: it does not wait.
 * Only schedules in which the first stream is late show the bug. */
static void reuse_block(const struct acre__driver *drv, int has_mistake) {
    CUstream one, two;
    CUevent event;
    CUdeviceptr block;
    drv->cuStreamCreate(&one, CU_STREAM_NON_BLOCKING);
    drv->cuStreamCreate(&two, CU_STREAM_NON_BLOCKING);
    drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
    drv->cuMemAlloc(&block, BLOCK);
    drv->cuMemsetD8Async(block, 1, BLOCK, one);
    drv->cuEventRecord(event, one); /* freed on stream one */
    if (drv->cuEventQuery(event) != CUDA_SUCCESS && !has_mistake)
        drv->cuStreamWaitEvent(two, event, 0);
    drv->cuMemsetD8Async(block, 2, BLOCK, two); /* allocated on stream two */
    drv->cuCtxSynchronize();
}

static int reuse_with_mistake(uint64_t seed, char *what, unsigned what_bytes) {
    reuse_block(schedule_driver_begin(seed, 1), 1);
    int found = report_is_there(what, what_bytes);
    schedule_driver_end();
    return found;
}

static int reuse_without_mistake(uint64_t seed, char *what, unsigned what_bytes) {
    reuse_block(schedule_driver_begin(seed, 1), 0);
    int found = report_is_there(what, what_bytes);
    schedule_driver_end();
    return found;
}

/* ---- 2. an edge lost through a moved chunk ---- */

static CUdeviceptr map_chunk(const struct acre__driver *drv, CUmemGenericAllocationHandle chunk) {
    CUdeviceptr at = 0;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    drv->cuMemAddressReserve(&at, CHUNK, 0, 0, 0);
    drv->cuMemMap(at, CHUNK, 0, chunk, 0);
    drv->cuMemSetAccess(at, CHUNK, &access, 1);
    return at;
}

/* One stream uses a chunk at one address; then the chunk moves to another address for another
 * stream. Events are kept per address. The bug: the new address has no event, so the wait is
 * skipped. The old mapping is removed only after the first stream is done, so only the chunk's
 * clocks can show the bug. */
static void move_chunk(const struct acre__driver *drv, int has_mistake) {
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle chunk;
    CUstream one, two;
    CUevent used;
    drv->cuStreamCreate(&one, CU_STREAM_NON_BLOCKING);
    drv->cuStreamCreate(&two, CU_STREAM_NON_BLOCKING);
    drv->cuEventCreate(&used, CU_EVENT_DISABLE_TIMING);
    drv->cuMemCreate(&chunk, CHUNK, &prop, 0);
    CUdeviceptr old = map_chunk(drv, chunk);
    drv->cuMemsetD8Async(old, 1, BLOCK, one);
    drv->cuEventRecord(used, one);
    CUdeviceptr new = map_chunk(drv, chunk);
    if (!has_mistake)
        drv->cuStreamWaitEvent(two, used, 0);
    drv->cuMemsetD8Async(new, 2, BLOCK, two);
    drv->cuStreamSynchronize(one);
    drv->cuMemUnmap(old, CHUNK);
    drv->cuCtxSynchronize();
    drv->cuMemUnmap(new, CHUNK);
}

static int move_with_mistake(uint64_t seed, char *what, unsigned what_bytes) {
    move_chunk(schedule_driver_begin(seed, 1), 1);
    int found = report_is_there(what, what_bytes);
    schedule_driver_end();
    return found;
}

static int move_without_mistake(uint64_t seed, char *what, unsigned what_bytes) {
    move_chunk(schedule_driver_begin(seed, 1), 0);
    int found = report_is_there(what, what_bytes);
    schedule_driver_end();
    return found;
}

/* ---- 3. an update lost between two virtual host threads ---- */

enum { COUNT_EACH = 3 };

static _Atomic int counter;

static void count_with_mistake(void *unused) {
    (void)unused;
    for (int i = 0; i < COUNT_EACH; i++) {
        int seen = acre__load(&counter, memory_order_relaxed);
        acre__store(&counter, seen + 1, memory_order_relaxed); /* a lost update */
    }
}

static void count_without_mistake(void *unused) {
    (void)unused;
    for (int i = 0; i < COUNT_EACH; i++)
        acre__fetch_add(&counter, 1, memory_order_relaxed);
}

static int count_is_wrong(uint64_t seed, void (*run)(void *), char *what, unsigned what_bytes) {
    struct acre__vthread threads[2] = {{run, NULL}, {run, NULL}};
    atomic_store(&counter, 0);
    if (acre__sched_run(seed, threads, 2) != ACRE__SCHED_DONE)
        fail_msg("the virtual threads are stuck");
    int count = atomic_load(&counter);
    snprintf(what, what_bytes, "counted %d instead of %d", count, 2 * COUNT_EACH);
    return count != 2 * COUNT_EACH;
}

static int lost_with_mistake(uint64_t seed, char *what, unsigned what_bytes) {
    return count_is_wrong(seed, count_with_mistake, what, what_bytes);
}

static int lost_without_mistake(uint64_t seed, char *what, unsigned what_bytes) {
    return count_is_wrong(seed, count_without_mistake, what, what_bytes);
}

/* ---- the tests ---- */

/* Addresses may differ from run to run; streams, steps and chunks may not. */
static void blank_addresses(char *text) {
    for (char *at = strstr(text, "0x"); at; at = strstr(at, "0x"))
        for (*at++ = '-', at++; *at && strchr("0123456789abcdef", *at); at++)
            *at = '-';
}

/* Expects that the bug is found, is found again with the same report, and is not found in the
 * correct program. */
static void expect_found(const char *name, schedule_scenario with, schedule_scenario without) {
    uint64_t seed = 0;
    unsigned found = schedule_try(name, with, &seed);
    assert_true(found > 0);
    char once[1024] = "", again[1024] = "";
    assert_true(with(seed, once, sizeof once));
    assert_true(with(seed, again, sizeof again));
    blank_addresses(once);
    blank_addresses(again);
    assert_string_equal(once, again);
    assert_int_equal(schedule_try("  without the bug", without, &seed), 0);
}

TEST(plants_cross_stream_reuse_is_found) {
    expect_found("reuse on another stream", reuse_with_mistake, reuse_without_mistake);
}

TEST(plants_lost_edge_of_moved_chunk_is_found) {
    expect_found("edge lost through a moved chunk", move_with_mistake, move_without_mistake);
}

TEST(plants_lost_update_is_found) {
    expect_found("lost update between virtual threads", lost_with_mistake, lost_without_mistake);
}

/* The report must name both uses: both streams, both steps, both addresses, the chunk. */
TEST(plants_report_names_both_uses) {
    uint64_t seed = 0;
    char what[1024] = "";
    assert_true(schedule_try("report", move_with_mistake, &seed) > 0);
    assert_true(move_with_mistake(seed, what, sizeof what));
    const char *first = strstr(what, "stream ");
    assert_non_null(first);
    const char *second = strstr(first + 1, "stream ");
    assert_non_null(second);
    unsigned long long a = 0, b = 0, step_a = 0, step_b = 0, at_a = 0, at_b = 0;
    assert_int_equal(sscanf(first, "stream %llu step %llu (fill 0x%llx)", &a, &step_a, &at_a), 3);
    assert_int_equal(sscanf(second, "stream %llu step %llu (fill 0x%llx)", &b, &step_b, &at_b), 3);
    assert_true(a != b);
    assert_true(at_a != at_b); /* two addresses, one chunk */
    assert_non_null(strstr(what, "chunk "));
}

int main(void) {
    return tests_run("plants");
}
