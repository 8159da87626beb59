/* The soft driver's vector clocks: two uses of memory without an edge that orders them give a
 * report; with an edge they give none. Moved chunks, removed mappings and destroyed streams do not
 * hide a use. Each scenario runs with workers and under several seeds: a report must depend on the
 * edges, never on which work ran first. */
#include "soft_fixture.h"

#define BLOCK ((size_t)4096)

enum { SEEDS = 20 };

static CUevent make_event(void) {
    CUevent event = NULL;
    assert_ok(drv->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static CUdeviceptr make_block(void) {
    CUdeviceptr made = 0;
    assert_ok(drv->cuMemAlloc(&made, BLOCK));
    return made;
}

/* Orders later work of `to` after the work queued on `from` so far. */
static void edge(CUstream from, CUstream to) {
    CUevent event = make_event();
    assert_ok(drv->cuEventRecord(event, from));
    assert_ok(drv->cuStreamWaitEvent(to, event, 0));
}

static void fill(CUdeviceptr to, CUstream stream) {
    assert_ok(drv->cuMemsetD8Async(to, 1, BLOCK, stream));
}

/* Fills the block. An earlier operation may have reported the race already: then the device is
 * lost. */
static void fill_or_lost(CUdeviceptr to, CUstream stream) {
    CUresult result = drv->cuMemsetD8Async(to, 1, BLOCK, stream);
    assert_true(result == CUDA_SUCCESS || result == CUDA_ERROR_LAUNCH_FAILED);
}

static CUstream free_stream(void) {
    return soft_stream(CU_STREAM_NON_BLOCKING);
}

/* Waits until only `streams` streams are left. With a seed, the driver calls let destroyed streams
 * run. */
static void wait_for_end(size_t streams) {
    int device;
    assert_true(soft_eventually(drv->cuCtxGetDevice(&device) == CUDA_SUCCESS &&
                                soft_stream_count(0) == streams));
}

/* Every scenario has a block and two unordered streams. */
static CUdeviceptr at;
static CUstream one, two;

static void things_make(void) {
    at = make_block();
    one = free_stream();
    two = free_stream();
}

static void clocks_begin(int seed) {
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.check = 1;
    config.seeded = seed > 0;
    config.seed = (uint64_t)seed;
    soft_begin_with(&config);
    things_make();
}

static void clocks_end(void) {
    void *state = NULL;
    soft_teardown(&state);
}

/* Runs the scenario with workers and with each seed; each run must give `reports` reports. */
static void expect_reports(void (*scenario)(void), size_t reports, const char *name) {
    for (int seed = 0; seed <= SEEDS; seed++) {
        char text[512] = "";
        clocks_begin(seed);
        scenario();
        drv->cuCtxSynchronize();
        size_t count = acre__soft_reports(text, sizeof text);
        if (count != reports)
            fail_msg("%s, seed %d: %zu reports instead of %zu; the first: %s", name, seed, count,
                     reports, text);
        clocks_end();
    }
}

#define EXPECT_REPORTS(scenario, reports) expect_reports(scenario, reports, #scenario)

/* ---- edges ---- */

static void no_edge(void) {
    fill(at, one);
    fill_or_lost(at, two);
}

static void same_stream(void) {
    fill(at, one);
    fill(at, one);
}

static void event_wait(void) {
    fill(at, one);
    edge(one, two);
    fill(at, two);
}

static void event_wait_recorded_too_early(void) {
    CUevent event = make_event();
    assert_ok(drv->cuEventRecord(event, one));
    fill(at, one);
    assert_ok(drv->cuStreamWaitEvent(two, event, 0));
    fill_or_lost(at, two);
}

static void event_wait_on_wrong_stream(void) {
    CUstream three = free_stream();
    fill(at, one);
    edge(one, three);
    fill_or_lost(at, two);
}

static void event_chain(void) {
    CUstream three = free_stream();
    fill(at, one);
    edge(one, two);
    edge(two, three);
    fill(at, three);
}

static void event_sync(void) {
    CUevent event = make_event();
    fill(at, one);
    assert_ok(drv->cuEventRecord(event, one));
    assert_ok(drv->cuEventSynchronize(event));
    fill(at, two);
}

static void event_query(void) {
    CUevent event = make_event();
    fill(at, one);
    assert_ok(drv->cuEventRecord(event, one));
    assert_true(soft_eventually(drv->cuEventQuery(event) == CUDA_SUCCESS));
    fill(at, two);
}

static void stream_sync(void) {
    fill(at, one);
    assert_ok(drv->cuStreamSynchronize(one));
    fill(at, two);
}

static void stream_sync_of_the_other(void) {
    fill(at, one);
    assert_ok(drv->cuStreamSynchronize(two));
    fill_or_lost(at, two);
}

/* The host queued the second use before it waited for the first: the wait comes too late. */
static void stream_sync_after_submission(void) {
    fill(at, one);
    fill_or_lost(at, two);
    drv->cuStreamSynchronize(one);
}

static void stream_query(void) {
    fill(at, one);
    assert_true(soft_eventually(drv->cuStreamQuery(one) == CUDA_SUCCESS));
    fill(at, two);
}

static void context_sync(void) {
    fill(at, one);
    assert_ok(drv->cuCtxSynchronize());
    fill(at, two);
}

static void pageable_copy_waits(void) {
    char byte;
    fill(at, one);
    assert_ok(drv->cuMemcpyDtoHAsync(&byte, at, 1, one));
    fill(at, two);
}

static void legacy_after_blocking(void) {
    fill(at, soft_stream(CU_STREAM_DEFAULT));
    fill(at, NULL);
}

static void blocking_after_legacy(void) {
    one = soft_stream(CU_STREAM_DEFAULT);
    fill(at, NULL);
    fill(at, one);
}

static void non_blocking_after_legacy(void) {
    fill(at, NULL);
    fill_or_lost(at, one);
}

static void legacy_after_non_blocking(void) {
    fill(at, free_stream());
    fill_or_lost(at, NULL);
}

static void two_blocking(void) {
    one = soft_stream(CU_STREAM_DEFAULT);
    two = soft_stream(CU_STREAM_DEFAULT);
    fill(at, one);
    fill_or_lost(at, two);
}

/* The second block reuses the first one's address: cuMemFree has waited for the last use. */
static void plain_free_and_again(void) {
    CUdeviceptr stays = make_block();
    fill(at, one);
    assert_ok(drv->cuMemFree(at));
    CUdeviceptr again = make_block();
    assert_int_equal(again, at);
    fill(again, two);
    fill(stays, one);
}

static void context_event(void) {
    CUevent event = make_event();
    fill(at, one);
    assert_ok(drv->cuCtxRecordEvent(NULL, event));
    assert_ok(drv->cuStreamWaitEvent(two, event, 0));
    fill(at, two);
}

static void context_event_not_waited_for(void) {
    CUevent event = make_event();
    fill(at, one);
    assert_ok(drv->cuCtxRecordEvent(NULL, event));
    fill_or_lost(at, two);
}

SOFT_TEST_BARE(clocks_every_edge_takes_the_report_away) {
    EXPECT_REPORTS(no_edge, 1);
    EXPECT_REPORTS(same_stream, 0);
    EXPECT_REPORTS(event_wait, 0);
    EXPECT_REPORTS(event_wait_recorded_too_early, 1);
    EXPECT_REPORTS(event_wait_on_wrong_stream, 1);
    EXPECT_REPORTS(event_chain, 0);
    EXPECT_REPORTS(event_sync, 0);
    EXPECT_REPORTS(event_query, 0);
    EXPECT_REPORTS(stream_sync, 0);
    EXPECT_REPORTS(stream_sync_of_the_other, 1);
    EXPECT_REPORTS(stream_sync_after_submission, 1);
    EXPECT_REPORTS(stream_query, 0);
    EXPECT_REPORTS(context_sync, 0);
    EXPECT_REPORTS(pageable_copy_waits, 0);
    EXPECT_REPORTS(plain_free_and_again, 0);
    EXPECT_REPORTS(context_event, 0);
    EXPECT_REPORTS(context_event_not_waited_for, 1);
}

SOFT_TEST_BARE(clocks_know_the_legacy_rule) {
    EXPECT_REPORTS(legacy_after_blocking, 0);
    EXPECT_REPORTS(blocking_after_legacy, 0);
    EXPECT_REPORTS(non_blocking_after_legacy, 1);
    EXPECT_REPORTS(legacy_after_non_blocking, 1);
    EXPECT_REPORTS(two_blocking, 1);
}

/* ---- kinds of use ---- */

static void two_reads(void) {
    CUdeviceptr one_to = make_block(), two_to = make_block();
    assert_ok(drv->cuMemcpyDtoDAsync(one_to, at, BLOCK, one));
    assert_ok(drv->cuMemcpyDtoDAsync(two_to, at, BLOCK, two));
}

static void read_then_write(void) {
    CUdeviceptr to = make_block();
    assert_ok(drv->cuMemcpyDtoDAsync(to, at, BLOCK, one));
    fill_or_lost(at, two);
}

static void write_then_read(void) {
    CUdeviceptr to = make_block();
    fill(at, one);
    drv->cuMemcpyDtoDAsync(to, at, BLOCK, two);
}

/* Two streams read; the writer waits for only one of them. */
static void write_after_one_of_two_reads(void) {
    CUdeviceptr one_to = make_block(), two_to = make_block();
    CUstream three = free_stream();
    assert_ok(drv->cuMemcpyDtoDAsync(one_to, at, BLOCK, one));
    assert_ok(drv->cuMemcpyDtoDAsync(two_to, at, BLOCK, two));
    edge(two, three);
    fill_or_lost(at, three);
}

static void neighbours(void) {
    assert_ok(drv->cuMemsetD8Async(at, 1, 100, one));
    assert_ok(drv->cuMemsetD8Async(at + 100, 1, BLOCK - 100, two));
}

static void one_byte_in_common(void) {
    assert_ok(drv->cuMemsetD8Async(at, 1, 101, one));
    drv->cuMemsetD8Async(at + 100, 1, BLOCK - 100, two);
}

static void rows_that_interlace(void) {
    assert_ok(drv->cuMemsetD2D8Async(at, 128, 1, 64, 32, one));
    assert_ok(drv->cuMemsetD2D8Async(at + 64, 128, 1, 64, 32, two));
}

static void pinned_without_edge(void) {
    void *pinned = NULL;
    assert_ok(drv->cuMemHostAlloc(&pinned, BLOCK, 0));
    fill((CUdeviceptr)(uintptr_t)pinned, one);
    fill_or_lost((CUdeviceptr)(uintptr_t)pinned, two);
}

SOFT_TEST_BARE(clocks_compare_what_is_used) {
    EXPECT_REPORTS(two_reads, 0);
    EXPECT_REPORTS(read_then_write, 1);
    EXPECT_REPORTS(write_then_read, 1);
    EXPECT_REPORTS(write_after_one_of_two_reads, 1);
    EXPECT_REPORTS(neighbours, 0);
    EXPECT_REPORTS(one_byte_in_common, 1);
    EXPECT_REPORTS(rows_that_interlace, 0);
    EXPECT_REPORTS(pinned_without_edge, 1);
}

/* ---- chunks ---- */

static void chunk_mapped_twice(void) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr here = soft_map(chunk, CHUNK, 0), there = soft_map(chunk, CHUNK, 0);
    fill(here, one);
    fill_or_lost(there, two);
}

/* Uses a chunk through two mappings on two streams, and waits for the first use before unmapping.
 * Only the edge between the two streams is missing. */
static void chunk_moved(void) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr here = soft_map(chunk, CHUNK, 0), there = soft_map(chunk, CHUNK, 0);
    fill(here, one);
    fill_or_lost(there, two);
    if (!drv->cuStreamSynchronize(one))
        assert_ok(drv->cuMemUnmap(here, CHUNK));
}

static void chunk_moved_with_edge(void) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr here = soft_map(chunk, CHUNK, 0), there = soft_map(chunk, CHUNK, 0);
    CUevent event = make_event();
    fill(here, one);
    assert_ok(drv->cuEventRecord(event, one));
    assert_ok(drv->cuStreamWaitEvent(two, event, 0));
    fill(there, two);
    assert_ok(drv->cuEventSynchronize(event));
    assert_ok(drv->cuMemUnmap(here, CHUNK));
}

/* A new chunk at an old chunk's address is different memory. */
static void address_reused(void) {
    CUmemGenericAllocationHandle old = soft_chunk(CHUNK, 0), new = soft_chunk(CHUNK, 0);
    at = soft_map(old, CHUNK, 0);
    fill(at, one);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_ok(drv->cuMemUnmap(at, CHUNK));
    soft_map_at(at, new, CHUNK, 0);
    fill(at, two);
}

/* The work is done, but the host never waited for it or queried it. */
static void unmap_without_wait(void) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    at = soft_map(chunk, CHUNK, 0);
    fill(at, one);
    assert_ok(drv->cuStreamDestroy(one));
    wait_for_end(1);
    assert_ok(drv->cuMemUnmap(at, CHUNK));
}

static void unmap_after_wait_for_another(void) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr to = make_block();
    at = soft_map(chunk, CHUNK, 0);
    assert_ok(drv->cuMemcpyDtoDAsync(to, at, BLOCK / 2, one));
    assert_ok(drv->cuMemcpyDtoDAsync(to + BLOCK / 2, at, BLOCK / 2, two));
    assert_ok(drv->cuStreamSynchronize(one));
    assert_ok(drv->cuStreamDestroy(two));
    wait_for_end(1);
    assert_ok(drv->cuMemUnmap(at, CHUNK));
}

/* A later write through another mapping replaces the use in the chunk's record. The removed mapping
 * was still used without a wait. */
static void unmap_of_use_that_was_overwritten(void) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    CUdeviceptr here = soft_map(chunk, CHUNK, 0), there = soft_map(chunk, CHUNK, 0);
    fill(here, one);
    edge(one, two);
    fill(there, two);
    assert_ok(drv->cuStreamDestroy(one));
    assert_ok(drv->cuStreamDestroy(two));
    wait_for_end(0);
    assert_ok(drv->cuMemUnmap(here, CHUNK));
}

static void unmap_after_wait(void) {
    CUmemGenericAllocationHandle chunk = soft_chunk(CHUNK, 0);
    at = soft_map(chunk, CHUNK, 0);
    fill(at, one);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_ok(drv->cuMemUnmap(at, CHUNK));
}

SOFT_TEST_BARE(clocks_follow_the_chunk) {
    EXPECT_REPORTS(chunk_mapped_twice, 1);
    EXPECT_REPORTS(chunk_moved, 1);
    EXPECT_REPORTS(chunk_moved_with_edge, 0);
    EXPECT_REPORTS(address_reused, 0);
    EXPECT_REPORTS(unmap_without_wait, 1);
    EXPECT_REPORTS(unmap_after_wait_for_another, 1);
    EXPECT_REPORTS(unmap_of_use_that_was_overwritten, 1);
    EXPECT_REPORTS(unmap_after_wait, 0);
}

/* ---- destroyed streams ---- */

/* A new stream, perhaps in the destroyed stream's slot, is not ordered after it. */
static void ended_then_new_stream(void) {
    fill(at, one);
    assert_ok(drv->cuStreamDestroy(one));
    wait_for_end(1);
    fill_or_lost(at, free_stream());
}

static void ended_then_context_sync(void) {
    fill(at, one);
    assert_ok(drv->cuStreamDestroy(one));
    wait_for_end(1);
    assert_ok(drv->cuCtxSynchronize());
    fill(at, free_stream());
}

static void ended_then_context_event(void) {
    CUevent event = make_event();
    fill(at, one);
    assert_ok(drv->cuStreamDestroy(one));
    wait_for_end(1);
    assert_ok(drv->cuCtxRecordEvent(NULL, event));
    assert_ok(drv->cuStreamWaitEvent(two, event, 0));
    fill(at, two);
}

static void ended_blocking_then_legacy(void) {
    one = soft_stream(CU_STREAM_DEFAULT);
    fill(at, one);
    assert_ok(drv->cuStreamDestroy(one));
    wait_for_end(2);
    fill(at, NULL);
    assert_true(soft_eventually(drv->cuStreamQuery(NULL) == CUDA_SUCCESS));
    fill(at, free_stream());
}

static void ended_non_blocking_then_legacy(void) {
    fill(at, one);
    assert_ok(drv->cuStreamDestroy(one));
    wait_for_end(1);
    fill_or_lost(at, NULL);
}

/* After a host sync the slot is reused. A use by its new owner is compared like any other. */
static void slot_with_new_owner(void) {
    CUdeviceptr other = make_block();
    fill(at, one);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_ok(drv->cuStreamDestroy(one));
    CUstream heir = free_stream();
    fill(at, heir);
    fill(other, two);
    fill_or_lost(at, two);
}

SOFT_TEST_BARE(clocks_forget_no_ended_stream) {
    EXPECT_REPORTS(ended_then_new_stream, 1);
    EXPECT_REPORTS(ended_then_context_sync, 0);
    EXPECT_REPORTS(ended_then_context_event, 0);
    EXPECT_REPORTS(ended_blocking_then_legacy, 0);
    EXPECT_REPORTS(ended_non_blocking_then_legacy, 1);
    EXPECT_REPORTS(slot_with_new_owner, 1);
}

/* Creates more streams, one after the other, than there are slots. */
SOFT_TEST_BARE(clocks_slots_come_back) {
    clocks_begin(0);
    for (int i = 0; i < 3 * SOFT_SLOTS; i++) {
        CUstream stream = free_stream();
        fill(at, stream);
        assert_ok(drv->cuStreamSynchronize(stream));
        assert_ok(drv->cuStreamDestroy(stream));
    }
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
    assert_true(acre__soft.slot_high < 8);
}

/* A thread waits for a stream while another thread destroys it: the wait still counts. */
static void *sync_in_thread(void *argument) {
    CUstream stream = argument;
    CUresult result = drv->cuCtxPushCurrent(soft_ctx[0]);
    if (!result)
        result = drv->cuStreamSynchronize(stream);
    return result ? argument : NULL;
}

SOFT_TEST_BARE(clocks_join_stream_destroyed_under_the_wait) {
    clocks_begin(0);
    struct gate gate;
    pthread_t thread;
    void *failed = NULL;
    soft_gate_put(&gate, one);
    fill(at, one);
    assert_int_equal(pthread_create(&thread, NULL, sync_in_thread, one), 0);
    assert_true(soft_eventually(soft_waiters() == 1));
    assert_ok(drv->cuStreamDestroy(one));
    soft_gate_open(&gate);
    pthread_join(thread, &failed);
    assert_null(failed);
    fill(at, free_stream());
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
}

SOFT_TEST_BARE(clocks_report_makes_the_device_lost) {
    char text[512] = "";
    clocks_begin(0);
    no_edge();
    assert_int_equal(drv->cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(acre__soft_reports(text, sizeof text), 1);
    assert_non_null(strstr(text, "without order"));
}

#ifndef ACRE_SANITIZE_tsan
/* With the check off, the fills race, which the thread sanitizer would report. */
SOFT_TEST_BARE(clocks_off_report_nothing) {
    soft_begin(64 * MIB, 1);
    things_make();
    no_edge();
    assert_ok(drv->cuCtxSynchronize());
    assert_int_equal(acre__soft_reports(NULL, 0), 0);
}
#endif

int main(void) {
    return tests_run("soft_clocks");
}
