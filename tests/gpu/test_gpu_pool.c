/* Pools with real kernels: kernels use blocks on several streams while memory moves from one stream
 * to another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/cases.h"
#include "gpu_fixture.h"

enum {
    BYTES = 1 << 20,
    WORDS = BYTES / sizeof(unsigned), /* words of a block */
    ROUNDS = 400,
    HELD = 64,   /* blocks that are freed while a kernel runs */
    SCARCE = 64, /* more blocks than the pool has when device memory runs out */
    SCARCE_ROUNDS = 8,
    HOG = 256
};

static acre_stream stream_make(struct gpu *gpu) {
    acre_stream stream;
    assert_int_equal(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &stream), ACRE_OK);
    return stream;
}

static void stream_end(struct gpu *gpu, acre_stream stream) {
    assert_int_equal(acre_stream_sync(gpu->dev, stream), ACRE_OK);
    assert_int_equal(acre_stream_destroy(gpu->dev, stream), ACRE_OK);
}

static acre_pool *pool_make(struct gpu *gpu) {
    acre_pool *pool;
    assert_int_equal(acre_pool_create(gpu->dev, NULL, &pool), ACRE_OK);
    return pool;
}

static acre_pool_stats pool_stats(acre_pool *pool) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(acre_pool_get_stats(pool, &stats), ACRE_OK);
    return stats;
}

static void pool_end(acre_pool *pool) {
    assert_int_equal(pool_stats(pool).live_blocks, 0);
    assert_int_equal(acre_pool_destroy(pool, NULL, NULL), ACRE_OK);
}

static void *block_take(acre_pool *pool, size_t bytes, acre_stream stream) {
    void *block;
    assert_int_equal(acre_pool_alloc(pool, bytes, 0, stream, &block), ACRE_OK);
    return block;
}

/* A kernel sets words[i] = value + i. */
static void kernel_write(struct gpu *gpu, void *words, unsigned value, acre_stream stream) {
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)words;
    unsigned long long count = WORDS;
    void *params[] = {&at, &value, &count};
    gpu_launch(gpu, "ground_write", WORDS / 256, 256, stream, params);
}

static void kernel_add(struct gpu *gpu, void *words, unsigned value, acre_stream stream) {
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)words;
    unsigned long long count = WORDS;
    void *params[] = {&at, &value, &count};
    gpu_launch(gpu, "ground_add", WORDS / 256, 256, stream, params);
}

/* A kernel runs until the mailbox is set, or for two seconds. */
static void kernel_wait(struct gpu *gpu, acre_stream stream) {
    void *params[] = {&gpu->mailbox_device};
    gpu->mailbox[0] = 0;
    gpu_launch(gpu, "ground_wait", 1, 1, stream, params);
}

/* Returns 1 under compute-sanitizer, where calls take so long that a waiting kernel times out. */
static int is_too_slow(void) {
    if (!getenv("ACRE_TEST_MEMCHECK"))
        return 0;
    print_message(
        "skipped under compute-sanitizer: calls take so long that the waiting kernel times out\n");
    return 1;
}

static void still_waits(struct gpu *gpu, acre_stream stream) {
    assert_int_equal(acre_stream_query(gpu->dev, stream), ACRE_E_NOT_READY);
}

static void tell(struct gpu *gpu, acre_stream stream) {
    gpu->mailbox[0] = 1;
    assert_int_equal(acre_stream_sync(gpu->dev, stream), ACRE_OK);
}

/* ---- contents ---- */

/* Two streams take turns without a wait on the host: each writes a block, adds to it, copies both
 * ends to pinned memory and frees it. If a stream got a block before the other stream had finished
 * with it, its numbers would be mixed. */
TEST(pool_blocks_written_on_two_streams_keep_their_contents) {
    struct gpu *gpu = *state;
    acre_stream streams[2] = {stream_make(gpu), stream_make(gpu)};
    acre_pool *pool = pool_make(gpu);
    void *pinned;
    assert_int_equal(
        acre_mem_alloc(gpu->dev, ACRE_KIND_PINNED, 2 * ROUNDS * sizeof(unsigned), 0, &pinned),
        ACRE_OK);
    unsigned *ends = pinned;
    for (unsigned i = 0; i < ROUNDS; i++) {
        acre_stream own = streams[i % 2];
        unsigned *block = block_take(pool, BYTES, own);
        kernel_write(gpu, block, 1000 * i, own);
        kernel_add(gpu, block, 7, own);
        assert_int_equal(acre_copy(gpu->dev, &ends[2 * i], block, sizeof *ends, own), ACRE_OK);
        assert_int_equal(
            acre_copy(gpu->dev, &ends[2 * i + 1], block + WORDS - 1, sizeof *ends, own), ACRE_OK);
        assert_int_equal(acre_pool_free(pool, block, own), ACRE_OK);
        /* Moves thread-cached blocks to the pool, where any stream can get them. */
        if (i % 16 == 15)
            assert_int_equal(acre_pool_trim(pool, UINT64_MAX), ACRE_OK);
    }
    stream_end(gpu, streams[0]);
    stream_end(gpu, streams[1]);
    for (unsigned i = 0; i < ROUNDS; i++) {
        assert_int_equal(ends[2 * i], 1000 * i + 7);
        assert_int_equal(ends[2 * i + 1], 1000 * i + 7 + WORDS - 1);
    }
    assert_int_equal(acre_mem_free(gpu->dev, pinned), ACRE_OK);
    pool_end(pool);
}

/* A block is filled on one stream, then read and freed on another that waits for the fill. The
 * first stream must not overwrite the block before the second has read it. */
TEST(pool_block_freed_on_its_reader_is_not_overwritten) {
    struct gpu *gpu = *state;
    acre_stream writer = stream_make(gpu), reader = stream_make(gpu);
    acre_pool *pool = pool_make(gpu);
    acre_event written;
    void *pinned;
    assert_int_equal(acre_event_create(gpu->dev, ACRE_EVENT_DEFAULT, &written), ACRE_OK);
    assert_int_equal(
        acre_mem_alloc(gpu->dev, ACRE_KIND_PINNED, ROUNDS * sizeof(unsigned), 0, &pinned), ACRE_OK);
    unsigned *last = pinned;
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned *block = block_take(pool, BYTES, writer);
        kernel_write(gpu, block, 3 * i, writer);
        assert_int_equal(acre_event_record(gpu->dev, written, writer), ACRE_OK);
        assert_int_equal(acre_stream_wait(gpu->dev, reader, written), ACRE_OK);
        kernel_add(gpu, block, 5, reader);
        assert_int_equal(acre_copy(gpu->dev, &last[i], block + WORDS - 1, sizeof *last, reader),
                         ACRE_OK);
        assert_int_equal(acre_pool_free(pool, block, reader), ACRE_OK);
    }
    stream_end(gpu, writer);
    stream_end(gpu, reader);
    for (unsigned i = 0; i < ROUNDS; i++)
        assert_int_equal(last[i], 3 * i + 5 + WORDS - 1);
    assert_int_equal(acre_event_destroy(gpu->dev, written), ACRE_OK);
    assert_int_equal(acre_mem_free(gpu->dev, pinned), ACRE_OK);
    pool_end(pool);
}

/* ---- only memory that another stream freed ---- */

/* Allocates the blocks of one round, which the other stream freed in the round before. */
static void scarce_round(struct gpu *gpu, acre_pool *pool, unsigned round, acre_stream own,
                         unsigned count, unsigned *last) {
    void *blocks[SCARCE];
    for (unsigned i = 0; i < count; i++) {
        blocks[i] = block_take(pool, BYTES, own);
        kernel_write(gpu, blocks[i], 100 * round + i, own);
    }
    for (unsigned i = 0; i < count; i++) {
        kernel_add(gpu, blocks[i], 9, own);
        assert_int_equal(acre_copy(gpu->dev, &last[round * SCARCE + i],
                                   (unsigned *)blocks[i] + WORDS - 1, sizeof *last, own),
                         ACRE_OK);
    }
    assert_int_equal(acre_pool_free_many(pool, blocks, count, own, NULL), ACRE_OK);
    /* Moves the blocks that the thread caches for this stream to the pool. */
    assert_int_equal(acre_pool_trim(pool, UINT64_MAX), ACRE_OK);
}

/* Allocates all memory below the limit, in large blocks and then in small ones. */
static unsigned hog_take(struct gpu *gpu, void **hog) {
    unsigned count = 0;
    for (size_t bytes = (size_t)64 << 20; bytes >= (size_t)2 << 20; bytes /= 2)
        while (count < HOG &&
               acre_mem_alloc(gpu->dev, ACRE_KIND_DEVICE, bytes, 0, &hog[count]) == ACRE_OK)
            count++;
    assert_true(count < HOG);
    return count;
}

/* Two streams take turns with all memory of the pool, and there is no other memory, so each round
 * must wait for the one before. A kernel blocks the first stream until all rounds are queued. */
TEST(pool_scarce_memory_goes_from_stream_to_stream_in_order) {
    struct gpu *gpu = *state;
    acre_stream streams[2] = {stream_make(gpu), stream_make(gpu)};
    acre_pool *pool = pool_make(gpu);
    void *hog[HOG], *blocks[SCARCE], *pinned;
    unsigned count = 0;
    assert_int_equal(acre_mem_alloc(gpu->dev, ACRE_KIND_PINNED,
                                    SCARCE_ROUNDS * SCARCE * sizeof(unsigned), 0, &pinned),
                     ACRE_OK);
    blocks[count++] = block_take(pool, BYTES, streams[0]);
    unsigned hogs = hog_take(gpu, hog);
    while (count < SCARCE && acre_pool_alloc(pool, BYTES, 0, streams[0], &blocks[count]) == ACRE_OK)
        count++;
    assert_true(count < SCARCE);
    kernel_wait(gpu, streams[0]);
    assert_int_equal(acre_pool_free_many(pool, blocks, count, streams[0], NULL), ACRE_OK);
    for (unsigned round = 0; round < SCARCE_ROUNDS; round++)
        scarce_round(gpu, pool, round, streams[round % 2], count, pinned);
    assert_true(pool_stats(pool).waits > 0);
    still_waits(gpu, streams[0]);
    still_waits(gpu, streams[1]);
    tell(gpu, streams[0]);
    stream_end(gpu, streams[1]);
    stream_end(gpu, streams[0]);
    for (unsigned round = 0; round < SCARCE_ROUNDS; round++)
        for (unsigned i = 0; i < count; i++)
            assert_int_equal(((unsigned *)pinned)[round * SCARCE + i],
                             100 * round + i + 9 + WORDS - 1);
    for (unsigned i = 0; i < hogs; i++)
        assert_int_equal(acre_mem_free(gpu->dev, hog[i]), ACRE_OK);
    assert_int_equal(acre_mem_free(gpu->dev, pinned), ACRE_OK);
    pool_end(pool);
}

/* ---- a long-running kernel ---- */

/* Frees a block that was allocated on `own` and that kernels on `busy` use. */
typedef acre_status (*give_fn)(struct gpu *gpu, acre_pool *pool, void *block, acre_stream own,
                               acre_stream busy);

/* Returns how many of the blocks are among the held ones. */
static unsigned count_same(void *const *blocks, void *const *held) {
    unsigned same = 0;
    for (unsigned i = 0; i < HELD; i++)
        for (unsigned k = 0; k < HELD; k++)
            same += blocks[i] == held[k];
    return same;
}

static void blocks_take(acre_pool *pool, acre_stream stream, void **blocks) {
    for (unsigned i = 0; i < HELD; i++)
        blocks[i] = block_take(pool, BYTES, stream);
}

static void blocks_free(acre_pool *pool, acre_stream stream, void **blocks) {
    assert_int_equal(acre_pool_free_many(pool, blocks, HELD, stream, NULL), ACRE_OK);
}

/* Frees blocks behind a running kernel. While the kernel runs, another stream gets none of them and
 * does not wait. When the kernel is done, the other stream gets each of them once. */
static void held_by_kernel(struct gpu *gpu, acre_stream own, acre_stream busy, give_fn give) {
    acre_stream other = stream_make(gpu);
    acre_pool *pool = pool_make(gpu);
    void *held[HELD], *taken[HELD], *more[HELD];
    blocks_take(pool, own, held);
    kernel_wait(gpu, busy);
    for (unsigned i = 0; i < HELD; i++) {
        kernel_write(gpu, held[i], i, busy);
        assert_int_equal(give(gpu, pool, held[i], own, busy), ACRE_OK);
    }
    blocks_take(pool, other, taken);
    assert_int_equal(count_same(taken, held), 0);
    for (unsigned i = 0; i < HELD; i++)
        kernel_write(gpu, taken[i], 100 + i, other);
    assert_int_equal(acre_stream_sync(gpu->dev, other), ACRE_OK);
    assert_int_equal(pool_stats(pool).waits, 0); /* the pool has other memory */
    still_waits(gpu, busy);
    tell(gpu, busy);
    blocks_free(pool, other, taken);
    assert_int_equal(acre_pool_trim(pool, UINT64_MAX), ACRE_OK); /* caches drained, all kept */
    uint64_t bytes = pool_stats(pool).held_bytes;
    blocks_take(pool, other, taken);
    blocks_take(pool, other, more);
    assert_int_equal(count_same(taken, held) + count_same(more, held), HELD);
    assert_int_equal(pool_stats(pool).held_bytes, bytes);
    blocks_free(pool, other, taken);
    blocks_free(pool, other, more);
    stream_end(gpu, other);
    pool_end(pool);
}

static acre_status give_plain(struct gpu *gpu, acre_pool *pool, void *block, acre_stream own,
                              acre_stream busy) {
    (void)gpu;
    (void)busy;
    return acre_pool_free(pool, block, own);
}

TEST(pool_freed_behind_a_kernel_stays_until_it_ends) {
    struct gpu *gpu = *state;
    if (is_too_slow())
        return;
    acre_stream busy = stream_make(gpu);
    held_by_kernel(gpu, busy, busy, give_plain);
    stream_end(gpu, busy);
}

static acre_status give_after_use(struct gpu *gpu, acre_pool *pool, void *block, acre_stream own,
                                  acre_stream busy) {
    (void)gpu;
    acre_status status = acre_pool_record_use(pool, block, busy);
    return status ? status : acre_pool_free(pool, block, own);
}

TEST(pool_recorded_use_holds_a_block_until_the_kernel_ends) {
    struct gpu *gpu = *state;
    if (is_too_slow())
        return;
    acre_stream busy = stream_make(gpu), own = stream_make(gpu);
    held_by_kernel(gpu, own, busy, give_after_use);
    stream_end(gpu, busy);
    stream_end(gpu, own);
}

/* The caller owns the event and may destroy it at once. */
static acre_status give_after_event(struct gpu *gpu, acre_pool *pool, void *block, acre_stream own,
                                    acre_stream busy) {
    acre_event behind;
    (void)own;
    assert_int_equal(acre_event_create(gpu->dev, ACRE_EVENT_DEFAULT, &behind), ACRE_OK);
    assert_int_equal(acre_event_record(gpu->dev, behind, busy), ACRE_OK);
    acre_status status = acre_pool_free_after(pool, block, behind);
    assert_int_equal(acre_event_destroy(gpu->dev, behind), ACRE_OK);
    return status;
}

TEST(pool_freed_after_an_event_stays_until_it_has_passed) {
    struct gpu *gpu = *state;
    if (is_too_slow())
        return;
    acre_stream busy = stream_make(gpu), own = stream_make(gpu);
    held_by_kernel(gpu, own, busy, give_after_event);
    stream_end(gpu, busy);
    stream_end(gpu, own);
}

/* Destroys the stream while its kernel runs. Blocks freed on the stream must still wait for the
 * kernel. */
TEST(pool_freed_on_a_destroyed_stream_stays_until_its_kernel_ends) {
    struct gpu *gpu = *state;
    if (is_too_slow())
        return;
    acre_stream busy = stream_make(gpu);
    acre_pool *pool = pool_make(gpu);
    void *held[HELD], *taken[HELD];
    blocks_take(pool, busy, held);
    kernel_wait(gpu, busy);
    blocks_free(pool, busy, held);
    assert_int_equal(acre_stream_destroy(gpu->dev, busy), ACRE_OK);
    acre_stream other = stream_make(gpu); /* probably the same handle */
    blocks_take(pool, other, taken);
    assert_int_equal(count_same(taken, held), 0);
    gpu->mailbox[0] = 1;
    assert_int_equal(acre_device_sync(gpu->dev), ACRE_OK);
    blocks_free(pool, other, taken);
    stream_end(gpu, other);
    pool_end(pool);
}

/* ---- no call waits ---- */

static int block_ignore(void *user, void *block, size_t bytes) {
    (void)block;
    (void)bytes;
    ++*(unsigned *)user;
    return 0;
}

static void every_call(struct gpu *gpu, acre_pool *pool, acre_stream own, acre_stream busy) {
    void *block, *larger, *many[4];
    unsigned walked = 0;
    acre_event event;
    for (size_t bytes = 256; bytes <= (size_t)64 << 20; bytes *= 2) {
        assert_int_equal(acre_pool_free(pool, block_take(pool, bytes, own), own), ACRE_OK);
        assert_int_equal(acre_pool_free(pool, block_take(pool, bytes, own), busy), ACRE_OK);
        assert_int_equal(acre_pool_free(pool, block_take(pool, bytes, busy), busy), ACRE_OK);
        assert_int_equal(acre_alloc(gpu->dev, bytes, own, &block), ACRE_OK);
        assert_int_equal(acre_free(block, own), ACRE_OK);
    }
    assert_int_equal(acre_pool_alloc(pool, 5000, (size_t)8 << 20, own, &block), ACRE_OK);
    assert_int_equal(acre_pool_record_use(pool, block, busy), ACRE_OK);
    assert_int_equal(acre_pool_free(pool, block, own), ACRE_OK);
    assert_int_equal(acre_pool_alloc_zeroed(pool, BYTES, 0, own, &block), ACRE_OK);
    assert_int_equal(acre_pool_realloc(pool, block, 3 * BYTES, own, &larger), ACRE_OK);
    assert_int_equal(acre_event_create(gpu->dev, ACRE_EVENT_DEFAULT, &event), ACRE_OK);
    assert_int_equal(acre_event_record(gpu->dev, event, busy), ACRE_OK);
    assert_int_equal(acre_pool_free_after(pool, larger, event), ACRE_OK);
    assert_int_equal(acre_event_destroy(gpu->dev, event), ACRE_OK);
    assert_int_equal(acre_pool_alloc_many(pool, BYTES, 4, own, many), ACRE_OK);
    assert_int_equal(acre_pool_walk(pool, block_ignore, &walked), ACRE_OK);
    assert_int_equal(walked, 4);
    assert_int_equal(acre_pool_free_many(pool, many, 4, busy, NULL), ACRE_OK);
    assert_int_equal(acre_pool_reserve(pool, pool_stats(pool).held_bytes + 4 * BYTES), ACRE_OK);
    assert_int_equal(acre_pool_trim(pool, 0), ACRE_OK);
}

/* Makes every call of a pool while a kernel runs on another stream. If any call waited for that
 * kernel, the kernel would be done at the end. Only acre_pool_destroy may wait. */
TEST(pool_no_call_waits_for_a_running_kernel) {
    struct gpu *gpu = *state;
    if (is_too_slow())
        return;
    acre_stream busy = stream_make(gpu), own = stream_make(gpu), ends = stream_make(gpu);
    acre_pool *pool = pool_make(gpu), *second;
    void *block;
    every_call(gpu, pool, own, own); /* first calls may wait while the driver loads code */
    kernel_wait(gpu, busy);
    every_call(gpu, pool, own, busy);
    acre_pool_options options = {.struct_size = sizeof options, .initial_bytes = 8 * BYTES};
    assert_int_equal(acre_pool_create(gpu->dev, &options, &second), ACRE_OK);
    block = block_take(second, BYTES, ends);
    kernel_write(gpu, block, 1, ends);
    assert_int_equal(acre_pool_free(second, block, ends), ACRE_OK);
    assert_int_equal(acre_stream_destroy(gpu->dev, ends), ACRE_OK);
    assert_int_equal(acre_stream_sync(gpu->dev, own), ACRE_OK);
    still_waits(gpu, busy);
    tell(gpu, busy);
    pool_end(second);
    pool_end(pool);
    stream_end(gpu, busy);
    stream_end(gpu, own);
}

int main(void) {
    /* So that a test can exhaust the memory without exhausting the GPU. */
    setenv("ACRE_CHUNK_LIMIT_BYTES", "4GiB", 1);
    return tests_run_with("gpu_pool", gpu_setup, gpu_teardown);
}
