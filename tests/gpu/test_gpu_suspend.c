/* Suspending with real kernels: contents that kernels wrote, a captured graph that is launched
 * again after a resume, a kernel that does not end, and spillable blocks. Heaps are in
 * test_gpu_heap_room.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cases.h"
#include "gpu_fixture.h"

#define MIB ((size_t)1 << 20)

enum { WORDS = (64 << 20) / sizeof(unsigned) }; /* words of a block */

static void ok(acre_status status) {
    if (status)
        fail_msg("%s: %s", acre_status_name(status), acre_last_detail());
}

static void kernel(struct gpu *gpu, const char *name, void *words, unsigned value,
                   acre_stream stream) {
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)words;
    unsigned long long number = WORDS;
    void *params[] = {&at, &value, &number};
    gpu_launch(gpu, name, (WORDS + 255) / 256, 256, stream, params);
}

static void words_check(struct gpu *gpu, const void *words, unsigned value) {
    unsigned *host = malloc(WORDS * sizeof *host);
    assert_non_null(host);
    ok(acre_copy_sync(gpu->dev, host, words, WORDS * sizeof *host));
    for (unsigned i = 0; i < WORDS; i++)
        if (host[i] != value + i)
            assert_int_equal(host[i], value + i);
    free(host);
}

static uint64_t free_bytes(struct gpu *gpu) {
    acre_device_info info = {.struct_size = sizeof info};
    ok(acre_device_get_info(gpu->dev, &info));
    return info.free_bytes;
}

/* A graph adds to a block of a pool and to a vec. It is launched before the suspend and after the
 * resume; both blocks are where they were. */
TEST(suspend_a_captured_graph_is_launched_after_resume) {
    struct gpu *gpu = *state;
    acre_stream stream;
    acre_pool *pool;
    acre_vec *vec;
    void *block;
    CUgraph graph;
    CUgraphExec exec;
    acre_suspended *suspended;
    ok(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &stream));
    ok(acre_pool_create(gpu->dev, NULL, &pool));
    ok(acre_pool_alloc(pool, WORDS * sizeof(unsigned), 0, stream, &block));
    ok(acre_vec_create(gpu->dev, sizeof(unsigned), NULL, &vec));
    ok(acre_vec_grow(vec, WORDS, stream));
    kernel(gpu, "ground_write", block, 10, stream);
    kernel(gpu, "ground_write", acre_vec_data(vec), 20, stream);
    assert_int_equal(gpu->drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    kernel(gpu, "ground_add", block, 1, stream);
    kernel(gpu, "ground_add", acre_vec_data(vec), 2, stream);
    assert_int_equal(acre_suspend(gpu->dev, NULL, &suspended), ACRE_E_CAPTURING);
    assert_int_equal(gpu->drv->cuStreamEndCapture(stream, &graph), 0);
    assert_int_equal(gpu->drv->cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    assert_int_equal(gpu->drv->cuGraphLaunch(exec, stream), 0);
    for (unsigned i = 1; i < 4; i++) {
        uint64_t before = free_bytes(gpu);
        ok(acre_suspend(gpu->dev, NULL, &suspended)); /* while the graph runs */
        /* The driver may have taken a few MiB for streams and copies. */
        assert_true(free_bytes(gpu) + 16 * MIB >= before + 2 * WORDS * sizeof(unsigned));
        ok(acre_resume(suspended));
        words_check(gpu, block, 10 + i);
        words_check(gpu, acre_vec_data(vec), 20 + 2 * i);
        assert_int_equal(gpu->drv->cuGraphLaunch(exec, stream), 0);
    }
    ok(acre_stream_sync(gpu->dev, stream));
    words_check(gpu, block, 14);
    assert_int_equal(gpu->drv->cuGraphExecDestroy(exec), 0);
    assert_int_equal(gpu->drv->cuGraphDestroy(graph), 0);
    ok(acre_pool_free(pool, block, stream));
    ok(acre_vec_destroy(vec, stream));
    ok(acre_pool_destroy(pool, NULL, NULL));
    ok(acre_stream_destroy(gpu->dev, stream));
}

/* A kernel that runs for two seconds, or until the mailbox is set. */
TEST(suspend_refuses_while_a_kernel_does_not_end) {
    struct gpu *gpu = *state;
    acre_suspend_options options = {.struct_size = sizeof options, .timeout_ms = 100};
    acre_stream stream;
    acre_suspended *suspended;
    void *p, *params[] = {&gpu->mailbox_device};
    ok(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &stream));
    ok(acre_mem_alloc(gpu->dev, ACRE_KIND_DEVICE, WORDS * sizeof(unsigned), 0, &p));
    kernel(gpu, "ground_write", p, 5, stream);
    gpu->mailbox[0] = 0;
    gpu_launch(gpu, "ground_wait", 1, 1, stream, params);
    assert_int_equal(acre_suspend(gpu->dev, &options, &suspended), ACRE_E_BUSY);
    assert_null(suspended);
    gpu->mailbox[0] = 1;
    ok(acre_stream_sync(gpu->dev, stream));
    words_check(gpu, p, 5);
    ok(acre_suspend(gpu->dev, &options, &suspended));
    ok(acre_resume(suspended));
    words_check(gpu, p, 5);
    ok(acre_mem_free(gpu->dev, p));
    ok(acre_stream_destroy(gpu->dev, stream));
}

/* Kernels use blocks in turn, of which half fit into the pool's limit. */
TEST(spill_blocks_that_kernels_use_in_turn) {
    struct gpu *gpu = *state;
    enum { BLOCKS = 8 };
    acre_pool_options options = {.struct_size = sizeof options,
                                 .limit_bytes = BLOCKS / 2 * WORDS * sizeof(unsigned)};
    acre_pool_stats stats = {.struct_size = sizeof stats};
    acre_stream stream;
    acre_pool *pool;
    void *p[BLOCKS];
    ok(acre_stream_create(gpu->dev, ACRE_STREAM_NON_BLOCKING, &stream));
    ok(acre_pool_create(gpu->dev, &options, &pool));
    for (unsigned i = 0; i < BLOCKS; i++) {
        ok(acre_pool_alloc_spillable(pool, WORDS * sizeof(unsigned), stream, &p[i]));
        ok(acre_bring(p[i], stream));
        kernel(gpu, "ground_write", p[i], 100 * i, stream);
        ok(acre_bring_end(p[i], stream));
    }
    for (unsigned round = 1; round <= 3; round++)
        for (unsigned i = 0; i < BLOCKS; i++) {
            ok(acre_bring(p[i], stream));
            kernel(gpu, "ground_add", p[i], 1, stream);
            ok(acre_stream_sync(gpu->dev, stream));
            words_check(gpu, p[i], 100 * i + round);
            ok(acre_bring_end(p[i], stream));
        }
    ok(acre_pool_get_stats(pool, &stats));
    assert_true(stats.left_blocks > BLOCKS && stats.brought_blocks > BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++)
        ok(acre_free(p[i], stream));
    ok(acre_pool_destroy(pool, NULL, NULL));
    ok(acre_stream_destroy(gpu->dev, stream));
}

int main(void) {
    return tests_run_with("gpu_suspend", gpu_setup, gpu_teardown);
}
