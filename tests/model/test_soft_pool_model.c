/* The soft driver's own pools under seeded schedules. Virtual threads, each with a stream,
 * allocate, fill, pass on with events, read back and free blocks. The pool is so small that every
 * path of allocation is taken. Blocks never overlap, bytes are those that were written, the pool's
 * records are consistent, and the vector clocks report nothing.
 *
 * With a planted bug, a pool that forgets which work its memory waits for, the clocks do report
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cases.h"
#include "base/round.h"
#include "soft/sched.h"
#include "soft/soft_op.h"
#include "soft/soft_pool_types.h"
#include "soft/soft_state.h"
#include "schedule.h"
#include "support/rounds.h"
#include "support/random.h"

enum {
    THREADS = 3,
    BLOCKS = 5, /* most blocks of a thread */
    STEPS = 40,
    POOL_BYTES = 8 << 20,
    BLOCK_BYTES = 3 << 19, /* most bytes of a block */
};

struct block {
    CUdeviceptr at; /* 0: none */
    size_t bytes;
    unsigned char value;
};

static struct {
    const struct acre__driver *drv;
    CUcontext ctx;
    CUmemoryPool pool;
    struct block held[THREADS][BLOCKS];
    struct block offered; /* free to take, after `ready` */
    CUevent ready;
    uint64_t random[THREADS];
    int is_planted;
    const char *wrong;
} model;

/* Guards the offered block and its event. */
static struct acre__lock offer = ACRE__LOCK_INIT("offer", ACRE__RANK_DEVICE);

static uint64_t draw(unsigned me, uint64_t below) {
    return random_draw(&model.random[me], below);
}

static void check(int is_right, const char *wrong) {
    if (!is_right && !model.wrong)
        model.wrong = wrong;
}

/* ---- the pool's records ---- */

static size_t segment_live_bytes(const struct soft_segment *segment) {
    size_t bytes = 0;
    struct acre__node *node = acre__tree_ceil(&acre__soft.ranges, segment->node.key);
    for (; node && node->key < segment->node.key + segment->bytes;
         node = acre__tree_next(&acre__soft.ranges, node))
        bytes +=
            acre__round_up(acre__tree_entry(node, struct soft_range, node)->bytes, SOFT_POOL_UNIT);
    return bytes;
}

static int segment_is_valid(const struct soft_segment *segment) {
    size_t bytes = 0;
    uint64_t end = segment->node.key;
    struct acre__node *node = acre__tree_first(&segment->gaps);
    for (; node; node = acre__tree_next(&segment->gaps, node)) {
        const struct soft_gap *gap = acre__tree_entry(node, struct soft_gap, node);
        const struct soft_range *range = acre__soft_range_find(node->key);
        if (node->key < end || !gap->bytes || range)
            return 0;
        bytes += gap->bytes;
        end = node->key + gap->bytes;
    }
    return end <= segment->node.key + segment->bytes && bytes == segment->free_bytes &&
           bytes + segment_live_bytes(segment) == segment->bytes;
}

static void books_check(void) {
    acre__lock_take(&acre__soft.lock);
    uint64_t reserved = 0, used = 0;
    for (struct soft_segment *segment = model.pool->segments; segment; segment = segment->next) {
        check(segment_is_valid(segment), "a segment disagrees with its gaps");
        reserved += segment->bytes;
        used += segment->bytes - segment->free_bytes;
    }
    check(reserved == model.pool->reserved_bytes, "reserved bytes are wrong");
    check(used == model.pool->used_bytes, "used bytes are wrong");
    check(reserved <= POOL_BYTES, "the pool exceeds its maximum");
    acre__lock_give(&acre__soft.lock);
}

/* Plants the bug: freed memory no longer waits for its stream. */
static void plant(void) {
    acre__lock_take(&acre__soft.lock);
    for (struct soft_segment *segment = model.pool->segments; segment; segment = segment->next) {
        struct acre__node *node = acre__tree_first(&segment->gaps);
        for (; node; node = acre__tree_next(&segment->gaps, node)) {
            struct soft_gap *gap = acre__tree_entry(node, struct soft_gap, node);
            acre__soft_marker_drop(gap->freed);
            gap->freed = NULL;
        }
    }
    acre__lock_give(&acre__soft.lock);
}

/* ---- operations of a thread ---- */

static int overlaps(const struct block *a, const struct block *b) {
    return a->at && b->at && a->at < b->at + b->bytes && b->at < a->at + a->bytes;
}

/* Only the ends of a block are written, since touching new pages takes most of the time. */
static size_t end_bytes(const struct block *block) {
    return block->bytes < 1000 ? block->bytes : 1000;
}

static void block_take(unsigned me, struct block *block, CUstream stream) {
    struct block fresh = {.bytes = 1 + (size_t)draw(me, BLOCK_BYTES),
                          .value = (unsigned char)draw(me, 256)};
    CUresult result =
        model.drv->cuMemAllocFromPoolAsync(&fresh.at, fresh.bytes, model.pool, stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return;
    check(!result, "alloc");
    for (unsigned t = 0; t < THREADS; t++)
        for (unsigned i = 0; i < BLOCKS; i++)
            check(!overlaps(&fresh, &model.held[t][i]), "two blocks overlap");
    check(!overlaps(&fresh, &model.offered), "two blocks overlap");
    *block = fresh;
    check(!model.drv->cuMemsetD8Async(fresh.at, fresh.value, end_bytes(&fresh), stream), "fill");
    check(!model.drv->cuMemsetD8Async(fresh.at + fresh.bytes - end_bytes(&fresh), fresh.value,
                                      end_bytes(&fresh), stream),
          "fill");
}

/* Frees a block, sometimes after reading it. A read waits for the stream, which leaves less to the
 * scheduler. */
static void block_give(unsigned me, struct block *block, CUstream stream) {
    unsigned char seen = block->value;
    struct block old = *block;
    if (draw(me, 3) == 0) {
        size_t where = (size_t)draw(me, end_bytes(&old));
        if (draw(me, 2))
            where = old.bytes - 1 - where;
        check(!model.drv->cuMemcpyDtoHAsync(&seen, old.at + where, 1, stream), "copy");
        check(seen == old.value, "wrong bytes");
    }
    block->at = 0;
    check(!model.drv->cuMemFreeAsync(old.at, stream), "free");
}

/* Offers a block, or takes the offered one, ordered after the work of the thread that offered
 * it. */
static void block_hand_over(struct block *block, CUstream stream) {
    acre__lock_take(&offer);
    if (block->at && !model.offered.at) {
        check(!model.drv->cuEventRecord(model.ready, stream), "record");
        model.offered = *block;
        block->at = 0;
    } else if (!block->at && model.offered.at) {
        check(!model.drv->cuStreamWaitEvent(stream, model.ready, 0), "wait");
        *block = model.offered;
        model.offered.at = 0;
    }
    acre__lock_give(&offer);
}

static void do_something_else(unsigned me, CUstream stream) {
    int flag = (int)draw(me, 2);
    uint64_t threshold = draw(me, POOL_BYTES);
    switch (draw(me, 6)) {
    case 0:
        check(!model.drv->cuStreamSynchronize(stream), "sync");
        break;
    case 1:
        check(!model.drv->cuMemPoolTrimTo(model.pool, threshold), "trim");
        break;
    case 2:
        check(!model.drv->cuMemPoolSetAttribute(model.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                                &threshold),
              "threshold");
        break;
    default:
        check(!model.drv->cuMemPoolSetAttribute(model.pool, (CUmemPool_attribute)(1 + draw(me, 3)),
                                                &flag),
              "attribute");
    }
}

static void thread_run(void *user) {
    unsigned me = (unsigned)(uintptr_t)user;
    CUstream stream = NULL;
    check(!model.drv->cuCtxPushCurrent(model.ctx), "push");
    check(!model.drv->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
    for (int step = 0; step < STEPS && !model.wrong; step++) {
        struct block *block = &model.held[me][draw(me, BLOCKS)];
        uint64_t what = draw(me, 10);
        if (what < 6 && block->at)
            block_give(me, block, stream);
        else if (what < 6)
            block_take(me, block, stream);
        else if (what < 8)
            block_hand_over(block, stream);
        else
            do_something_else(me, stream);
        if (model.is_planted && step % 4 == 0)
            plant();
        books_check();
    }
    for (int i = 0; i < BLOCKS && !model.wrong; i++)
        if (model.held[me][i].at)
            block_give(me, &model.held[me][i], stream);
}

/* ---- a schedule ---- */

static void model_end(void) {
    if (model.wrong)
        return;
    check(!model.drv->cuCtxSynchronize(), "the last sync");
    if (model.offered.at)
        check(!model.drv->cuMemFree(model.offered.at), "the last free");
    books_check();
    check(model.pool->used_bytes == 0, "something is still in use");
    check(!model.drv->cuMemPoolTrimTo(model.pool, 0), "the last trim");
    check(model.pool->reserved_bytes == 0, "something is still reserved");
}

static int model_run(uint64_t seed, int is_planted, char *what, unsigned what_bytes) {
    struct acre__vthread threads[THREADS];
    memset(&model, 0, sizeof model);
    model.is_planted = is_planted;
    model.drv = schedule_driver_begin(seed, 1);
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                            .maxSize = POOL_BYTES};
    assert_int_equal(model.drv->cuMemPoolCreate(&model.pool, &props), CUDA_SUCCESS);
    assert_int_equal(model.drv->cuEventCreate(&model.ready, 0), CUDA_SUCCESS);
    assert_int_equal(model.drv->cuCtxGetCurrent(&model.ctx), CUDA_SUCCESS);
    for (uintptr_t i = 0; i < THREADS; i++) {
        threads[i] = (struct acre__vthread){thread_run, (void *)i};
        model.random[i] = seed * THREADS + i;
    }
    check(acre__sched_run(seed, threads, THREADS) == ACRE__SCHED_DONE, "the threads are stuck");
    model_end();
    size_t reports = acre__soft_reports(what, what_bytes);
    if (!reports && model.wrong)
        snprintf(what, what_bytes, "%s", model.wrong);
    schedule_driver_end();
    return reports || model.wrong;
}

static int as_it_is(uint64_t seed, char *what, unsigned what_bytes) {
    return model_run(seed, 0, what, what_bytes);
}

static int with_a_mistake(uint64_t seed, char *what, unsigned what_bytes) {
    return model_run(seed, 1, what, what_bytes);
}

TEST(soft_pool_hands_out_nothing_too_early) {
    uint64_t first;
    assert_int_equal(schedule_try("soft pool", as_it_is, &first), 0);
}

TEST(soft_pool_mistakes_are_found) {
    char what[256] = "";
    unsigned found = 0;
    for (uint64_t seed = 1; seed <= 20; seed++)
        found += (unsigned)with_a_mistake(seed, what, sizeof what);
    assert_true(found >= 15);
    assert_non_null(strstr(what, "without order"));
}

int main(void) {
    return tests_run("soft_pool_model");
}
