/* Memory that graphs allocate: when it exists, who frees it, and what the clocks report. Each test
 * runs with the checks on. */
#include "soft_fixture.h"

enum { BYTES = 4096 };

static CUstream one, two;

static int memory_setup(void **state) {
    (void)state;
    struct acre__soft_config config = soft_config(64 * MIB, 1);
    config.check = 1;
    soft_begin_with(&config);
    one = soft_stream(CU_STREAM_NON_BLOCKING);
    two = soft_stream(CU_STREAM_NON_BLOCKING);
    return 0;
}

#define MEMORY_TEST(name) TEST_WITH(name, memory_setup, soft_teardown)

/* ---- graphs ---- */

static void begin(CUstream stream) {
    assert_ok(drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static CUgraph end(CUstream stream) {
    CUgraph graph = NULL;
    assert_ok(drv->cuStreamEndCapture(stream, &graph));
    assert_non_null(graph);
    return graph;
}

static CUgraphExec instantiate(CUgraph graph, unsigned long long flags) {
    CUgraphExec exec = NULL;
    assert_ok(drv->cuGraphInstantiateWithFlags(&exec, graph, flags));
    return exec;
}

static CUdeviceptr take(CUstream stream) {
    CUdeviceptr at = 0;
    assert_ok(drv->cuMemAllocAsync(&at, BYTES, stream));
    assert_true(at != 0);
    return at;
}

/* A graph that allocates memory, fills it, and frees it if `is_freed`. */
static CUgraph filling_graph(unsigned char value, int is_freed, CUdeviceptr *at) {
    begin(one);
    *at = take(one);
    assert_ok(drv->cuMemsetD8Async(*at, value, BYTES, one));
    if (is_freed)
        assert_ok(drv->cuMemFreeAsync(*at, one));
    return end(one);
}

static void launch(CUgraphExec exec, CUstream stream) {
    assert_ok(drv->cuGraphLaunch(exec, stream));
}

static void destroy(CUgraph graph, CUgraphExec exec) {
    if (exec)
        assert_ok(drv->cuGraphExecDestroy(exec));
    if (graph)
        assert_ok(drv->cuGraphDestroy(graph));
}

/* Bytes of the default pool that are in use. */
static uint64_t used(void) {
    CUmemoryPool pool;
    cuuint64_t bytes = 0;
    assert_ok(drv->cuDeviceGetDefaultMemPool(&pool, 0));
    assert_ok(drv->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes));
    return bytes;
}

static void expect_no_reports(void) {
    char text[512] = "";
    assert_ok(drv->cuCtxSynchronize());
    if (acre__soft_reports(text, sizeof text))
        fail_msg("report: %s", text);
}

/* ---- launches ---- */

MEMORY_TEST(graph_memory_is_used_by_every_launch) {
    unsigned char *host = NULL;
    CUdeviceptr at, more;
    assert_ok(drv->cuMemHostAlloc((void **)&host, BYTES, 0));
    begin(one);
    at = take(one);
    more = take(one);
    assert_true(at != more);
    assert_ok(drv->cuMemsetD8Async(at, 7, BYTES, one));
    assert_ok(drv->cuMemcpyDtoDAsync(more, at, BYTES, one));
    assert_ok(drv->cuMemFreeAsync(at, one));
    assert_ok(drv->cuMemcpyDtoHAsync(host, more, BYTES, one));
    assert_ok(drv->cuMemFreeAsync(more, one));
    CUgraph graph = end(one);
    CUgraphExec exec = instantiate(graph, 0);
    for (int i = 0; i < 6; i++) {
        CUstream stream = i % 2 ? two : one;
        memset(host, 0, BYTES);
        launch(exec, stream);
        assert_ok(drv->cuStreamSynchronize(stream));
        assert_int_equal(host[BYTES - 1], 7);
    }
    launch(exec, one); /* launches of one executable follow each other */
    launch(exec, two);
    expect_no_reports();
    destroy(graph, exec);
    assert_int_equal(used(), 0);
}

MEMORY_TEST(graph_memory_is_not_there_before_a_launch) {
    unsigned char byte;
    CUdeviceptr at;
    CUgraph graph = filling_graph(3, 0, &at);
    CUgraphExec exec = instantiate(graph, 0);
    assert_int_equal(drv->cuMemcpyDtoH(&byte, at, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drv->cuMemsetD8(at, 1, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drv->cuMemFreeAsync(at, one), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drv->cuMemFree(at), CUDA_ERROR_INVALID_VALUE);
    launch(exec, one);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_true(soft_is_filled(at, BYTES, 3));
    assert_ok(drv->cuMemFreeAsync(at, one));
    assert_int_equal(drv->cuMemFreeAsync(at, one), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drv->cuMemcpyDtoH(&byte, at, 1), CUDA_ERROR_INVALID_VALUE);
    launch(exec, one);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_ok(drv->cuMemFree(at));
    assert_int_equal(drv->cuMemFree(at), CUDA_ERROR_INVALID_VALUE);
    expect_no_reports();
    destroy(graph, exec);
}

/* The program must free the memory first, or have launches free it. */
MEMORY_TEST(graph_memory_that_is_not_freed_refuses_the_next_launch) {
    CUdeviceptr at;
    CUgraph graph = filling_graph(3, 0, &at);
    CUgraphExec exec = instantiate(graph, 0);
    launch(exec, one);
    assert_int_equal(drv->cuGraphLaunch(exec, one), CUDA_ERROR_INVALID_VALUE);
    assert_ok(drv->cuMemFreeAsync(at, one));
    launch(exec, one);
    assert_ok(drv->cuMemFreeAsync(at, one));
    destroy(NULL, exec);
    exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    for (int i = 0; i < 3; i++)
        launch(exec, one);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_true(soft_is_filled(at, BYTES, 3));
    assert_ok(drv->cuMemFreeAsync(at, one));
    expect_no_reports();
    destroy(graph, exec);
    assert_int_equal(used(), 0);
}

/* Freed on another stream that is still busy: the next launch waits for the free. */
MEMORY_TEST(graph_memory_follows_its_last_free) {
    struct gate gate;
    CUdeviceptr at;
    CUgraph graph = filling_graph(3, 0, &at);
    CUgraphExec exec = instantiate(graph, 0);
    launch(exec, one);
    assert_ok(drv->cuStreamSynchronize(one));
    soft_gate_put(&gate, two);
    assert_ok(drv->cuMemFreeAsync(at, two));
    launch(exec, one);
    assert_int_equal(drv->cuStreamQuery(one), CUDA_ERROR_NOT_READY);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_ok(drv->cuMemFreeAsync(at, one));
    expect_no_reports();
    destroy(graph, exec);
}

MEMORY_TEST(graph_memory_has_one_executable) {
    CUdeviceptr at;
    CUgraph graph = filling_graph(3, 1, &at);
    CUgraphExec exec = instantiate(graph, 0), second = NULL;
    assert_int_equal(drv->cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
    destroy(NULL, exec);
    exec = instantiate(graph, 0);
    destroy(graph, NULL);
    launch(exec, one);
    expect_no_reports();
    destroy(NULL, exec);
}

MEMORY_TEST(graph_memory_can_be_freed_by_another_graph) {
    CUdeviceptr at;
    CUgraph first = filling_graph(3, 0, &at);
    begin(two);
    assert_ok(drv->cuMemsetD8Async(at, 4, BYTES, two));
    assert_ok(drv->cuMemFreeAsync(at, two));
    CUgraph second = end(two);
    CUgraphExec allocates = instantiate(first, 0), frees = instantiate(second, 0);
    assert_int_equal(drv->cuGraphLaunch(frees, one), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 2; i++) {
        launch(allocates, one);
        launch(frees, one);
        assert_int_equal(drv->cuGraphLaunch(frees, one), CUDA_ERROR_INVALID_VALUE);
    }
    expect_no_reports();
    destroy(first, allocates);
    destroy(second, frees);
    assert_int_equal(used(), 0);
}

/* ---- captures ---- */

MEMORY_TEST(graph_memory_is_freed_once_in_a_capture) {
    CUdeviceptr outside = take(one), plain = 0, at, none = 1;
    assert_ok(drv->cuMemAlloc(&plain, BYTES));
    begin(one);
    assert_ok(drv->cuMemAllocAsync(&none, 0, one));
    assert_true(none == 0);
    at = take(one);
    assert_int_equal(drv->cuMemFreeAsync(outside, one), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drv->cuMemFreeAsync(plain, one), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drv->cuMemFreeAsync(at + 512, one), CUDA_ERROR_INVALID_VALUE);
    assert_ok(drv->cuMemFreeAsync(at, one));
    assert_int_equal(drv->cuMemFreeAsync(at, one), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(drv->cuMemAllocAsync(&none, 65 * MIB, one), CUDA_ERROR_OUT_OF_MEMORY);
    destroy(end(one), NULL);
    assert_ok(drv->cuMemFreeAsync(outside, one));
    assert_ok(drv->cuMemFree(plain));
    expect_no_reports();
    assert_int_equal(used(), 0);
}

/* Memory of one capture cannot be freed by another one that is open. */
MEMORY_TEST(graph_memory_belongs_to_its_capture) {
    assert_ok(drv->cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(drv->cuStreamBeginCapture(two, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUdeviceptr at = take(one);
    assert_int_equal(drv->cuMemFreeAsync(at, two), CUDA_ERROR_INVALID_VALUE);
    destroy(end(one), NULL);
    destroy(end(two), NULL);
    assert_int_equal(used(), 0);
}

MEMORY_TEST(graph_memory_of_a_failed_capture_is_returned) {
    CUgraph graph = NULL;
    begin(one);
    (void)take(one);
    assert_int_not_equal(used(), 0);
    assert_int_equal(drv->cuStreamSynchronize(one), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(drv->cuStreamEndCapture(one, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(used(), 0);
    begin(one);
    (void)take(one);
    assert_ok(drv->cuStreamDestroy(one));
    assert_int_equal(used(), 0);
}

/* ---- the end of graphs ---- */

MEMORY_TEST(graph_memory_that_is_live_outlives_its_graph) {
    CUdeviceptr at;
    CUgraph graph = filling_graph(3, 0, &at);
    CUgraphExec exec = instantiate(graph, 0);
    launch(exec, one);
    destroy(graph, exec);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_true(soft_is_filled(at, BYTES, 3));
    assert_int_equal(used(), BYTES);
    assert_ok(drv->cuMemFreeAsync(at, one));
    assert_int_equal(used(), 0);
    expect_no_reports();
}

/* A launch in flight keeps the memory of its executable. */
MEMORY_TEST(graph_memory_is_held_by_a_launch_in_flight) {
    struct gate gate;
    CUdeviceptr at;
    CUgraph graph = filling_graph(3, 1, &at);
    CUgraphExec exec = instantiate(graph, 0);
    soft_gate_put(&gate, one);
    launch(exec, one);
    destroy(graph, exec);
    assert_int_equal(used(), BYTES);
    soft_gate_open(&gate);
    assert_ok(drv->cuStreamSynchronize(one));
    assert_true(soft_eventually(used() == 0));
    expect_no_reports();
}

MEMORY_TEST(graph_memory_ends_with_the_last_context) {
    CUdeviceptr at;
    CUgraph graph = filling_graph(3, 1, &at);
    assert_ok(drv->cuDevicePrimaryCtxReset(0));
    assert_ok(drv->cuDevicePrimaryCtxRetain(&soft_ctx[0], 0));
    assert_ok(drv->cuCtxSetCurrent(soft_ctx[0]));
    one = soft_stream(CU_STREAM_NON_BLOCKING);
    CUgraphExec exec = instantiate(graph, 0);
    assert_int_equal(drv->cuGraphLaunch(exec, one), CUDA_ERROR_INVALID_VALUE);
    destroy(graph, exec);
    assert_int_equal(used(), 0);
}

/* ---- wrong uses ---- */

static void expect_report(const char *part) {
    char text[512] = "";
    assert_int_not_equal(drv->cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(acre__soft_reports(text, sizeof text), 1);
    if (!strstr(text, part))
        fail_msg("the report does not say \"%s\": %s", part, text);
}

MEMORY_TEST(graph_memory_used_after_its_free_is_reported) {
    begin(one);
    CUdeviceptr at = take(one);
    assert_ok(drv->cuMemFreeAsync(at, one));
    assert_ok(drv->cuMemsetD8Async(at, 1, BYTES, one));
    CUgraph graph = end(one);
    CUgraphExec exec = instantiate(graph, 0);
    launch(exec, one);
    expect_report("not allocated");
}

MEMORY_TEST(graph_memory_used_without_order_is_reported) {
    CUdeviceptr at;
    CUgraph graph = filling_graph(3, 0, &at);
    CUgraphExec exec = instantiate(graph, 0);
    launch(exec, one);
    assert_ok(drv->cuMemsetD8Async(at, 1, BYTES, two));
    expect_report("without order");
}

int main(void) {
    return tests_run("soft_graph_memory");
}
