/* Graphs: memory of captures, which PyTorch's pools may share. */
#include <sys/wait.h>
#include <unistd.h>

#include "torch_fixture.h"

enum { BYTES = 1 << 20 };

static int dropped;

static int is_captured(void *user, acre_stream stream) {
    CUstreamCaptureStatus status;
    (void)user;
    cu_ok(cuStreamIsCapturing(stream, &status));
    return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static void count_drop(void *user) {
    *(int *)user += 1;
}

/* A graph that fills a block, which it frees unless the program keeps it. */
struct graph {
    CUgraph graph;
    CUgraphExec exec;
    void *p;
};

static struct graph capture(CUstream stream, uint64_t pool, int is_kept, int value) {
    struct graph g = {0};
    if (pool)
        acre_torch_begin_pool(0, 0, pool, is_captured, &dropped, count_drop);
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    g.p = take(BYTES, stream);
    cu_ok(cuMemsetD8Async((CUdeviceptr)g.p, (unsigned char)value, BYTES, stream));
    if (!is_kept)
        acre_torch_free(g.p, BYTES, 0, stream);
    cu_ok(cuStreamEndCapture(stream, &g.graph));
    if (pool)
        acre_torch_end_pool(0, 0, pool);
    cu_ok(cuGraphInstantiate(&g.exec, g.graph, 0));
    return g;
}

static void destroy(struct graph *g) {
    cu_ok(cuGraphExecDestroy(g->exec));
    cu_ok(cuGraphDestroy(g->graph));
}

/* Allocates blocks of a stream, and returns whether one of them is `p`. */
static int gets(void *p, CUstream stream) {
    void *blocks[32];
    int is_there = 0;
    for (int i = 0; i < 32; i++) {
        blocks[i] = take(BYTES, stream);
        is_there |= blocks[i] == p;
    }
    for (int i = 0; i < 32; i++)
        acre_torch_free(blocks[i], BYTES, 0, stream);
    return is_there;
}

static unsigned char first_byte(const void *p) {
    unsigned char byte = 0;
    cu_ok(cuCtxSynchronize());
    cu_ok(cuMemcpyDtoH(&byte, (CUdeviceptr)p, 1));
    return byte;
}

TEST(captures_keep_the_memory_of_a_graph) {
    CUstream stream = stream_make(), other = stream_make();
    struct graph g = capture(stream, 0, 0, 7);
    assert_false(gets(g.p, stream));
    assert_false(gets(g.p, other));
    cu_ok(cuGraphLaunch(g.exec, stream));
    assert_int_equal(first_byte(g.p), 7);
    destroy(&g);
}

TEST(captures_of_one_pool_share_memory) {
    CUstream stream = stream_make();
    dropped = 0;
    struct graph a = capture(stream, 5, 0, 1), b = capture(stream, 5, 0, 2);
    struct graph c = capture(stream, 6, 0, 3), d = capture(stream, 0, 0, 4);
    assert_int_equal(dropped, 3);
    assert_ptr_equal(a.p, b.p);
    assert_ptr_not_equal(a.p, c.p);
    assert_ptr_not_equal(a.p, d.p);
    assert_ptr_not_equal(c.p, d.p);
    cu_ok(cuGraphLaunch(a.exec, stream));
    cu_ok(cuGraphLaunch(b.exec, stream));
    assert_int_equal(first_byte(a.p), 2);
    acre_torch_release_pool(0, 0, 5);
    acre_torch_release_pool(0, 0, 5);
    acre_torch_release_pool(0, 0, 6);
    destroy(&a);
    destroy(&b);
    destroy(&c);
    destroy(&d);
}

TEST(captures_free_a_pool_after_the_last_release) {
    CUstream stream = stream_make();
    struct graph a = capture(stream, 9, 0, 1), b = capture(stream, 9, 0, 2);
    acre_torch_release_pool(0, 0, 9);
    destroy(&a);
    assert_false(gets(b.p, stream));
    cu_ok(cuCtxSynchronize());
    acre_torch_reset();
    uint64_t held = stats_now().held.current;
    acre_torch_release_pool(0, 0, 9);
    acre_torch_reset();
    assert_int_equal(stats_now().held.current, held - 2 * MIB);
    destroy(&b);                      /* as PyTorch: after the release */
    acre_torch_release_pool(0, 0, 9); /* once too often: a no-op */
    acre_torch_end_pool(0, 0, 9);
}

/* A block that lives longer than its graph, as the output of a model does. */
TEST(captures_let_blocks_outlive_their_graph) {
    CUstream stream = stream_make();
    struct graph g = capture(stream, 11, 1, 9);
    cu_ok(cuGraphLaunch(g.exec, stream));
    cu_ok(cuStreamSynchronize(stream));
    acre_torch_release_pool(0, 0, 11);
    destroy(&g);
    assert_false(gets(g.p, stream));
    assert_int_equal(first_byte(g.p), 9);
    acre_torch_free(g.p, BYTES, 0, stream);
}

/* A pool that is released while another capture is in progress: ending it may have to wait. */
TEST(captures_do_not_end_a_pool_inside_a_capture) {
    CUstream stream = stream_make(), other = stream_make();
    struct graph g = capture(other, 13, 0, 5), later = {0};
    acre_torch_begin_pool(0, 0, 14, is_captured, &dropped, count_drop);
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    void *p = take(BYTES, stream);
    acre_torch_release_pool(0, 0, 13); /* its graph exists, so that ending it waits */
    void *q = take(BYTES, stream);
    acre_torch_free(p, BYTES, 0, stream);
    acre_torch_free(q, BYTES, 0, stream);
    cu_ok(cuStreamEndCapture(stream, &later.graph));
    acre_torch_end_pool(0, 0, 14);
    cu_ok(cuGraphInstantiate(&later.exec, later.graph, 0));
    acre_torch_release_pool(0, 0, 14);
    destroy(&g);
    destroy(&later);
    acre_torch_free(take(BYTES, stream), BYTES, 0, stream);
}

/* A captured region: the regions' own pools keep the memory of graphs, too. */
TEST(captures_in_a_region_use_its_pool) {
    acre_pool *own;
    CUstream stream = stream_make();
    int region = acre_torch_region("graphs", ACRE_TORCH_OWN_POOL);
    acre_ok(acre_torch_pool_of(region, 0, &own));
    acre_ok(acre_torch_enter(region));
    struct graph a = capture(stream, 21, 0, 1), b = capture(stream, 21, 0, 2);
    acre_torch_leave();
    assert_ptr_equal(a.p, b.p);
    acre_ok(acre_torch_enter(region));
    assert_false(gets(a.p, stream));
    void *p = take(BYTES, stream);
    acre_torch_leave();
    assert_true(acre_pool_owns(own, p));
    acre_torch_free(p, BYTES, 0, stream);
    acre_torch_release_pool(0, 0, 21);
    acre_torch_release_pool(0, 0, 21);
    destroy(&a);
    destroy(&b);
}

/* PyTorch does not end a capture that failed: the next one of the thread does. */
TEST(captures_that_failed_do_not_keep_others_from_ending) {
    CUstream stream = stream_make();
    CUgraph graph = NULL;
    dropped = 0;
    acre_torch_begin_pool(0, 0, 50, is_captured, &dropped, count_drop);
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    void *p = take(BYTES, stream);
    cu_ok(cuStreamEndCapture(stream, &graph)); /* and no acre_torch_end_pool */
    acre_torch_free(p, BYTES, 0, stream);
    cu_ok(cuGraphDestroy(graph));
    assert_int_equal(dropped, 0);
    struct graph g = capture(stream, 51, 0, 1);
    assert_int_equal(dropped, 2);
    cu_ok(cuCtxSynchronize());
    acre_torch_reset();
    uint64_t held = stats_now().held.current;
    acre_torch_release_pool(0, 0, 51);
    acre_torch_reset();
    assert_true(stats_now().held.current < held);
    destroy(&g);
}

/* A capture of another stream that goes on is not dropped. */
TEST(captures_of_one_thread_may_overlap) {
    CUstream stream = stream_make(), other = stream_make();
    CUgraph graph = NULL;
    dropped = 0;
    acre_torch_begin_pool(0, 0, 60, is_captured, &dropped, count_drop);
    cu_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    void *p = take(BYTES, stream);
    struct graph g = capture(other, 61, 0, 1);
    assert_int_equal(dropped, 1);
    acre_torch_free(p, BYTES, 0, stream);
    cu_ok(cuStreamEndCapture(stream, &graph));
    acre_torch_end_pool(0, 0, 60);
    assert_int_equal(dropped, 2);
    acre_torch_release_pool(0, 0, 60);
    acre_torch_release_pool(0, 0, 61);
    cu_ok(cuGraphDestroy(graph));
    destroy(&g);
}

/* Streams that the filter refuses do not share memory. */
static int is_none(void *user, acre_stream stream) {
    (void)user, (void)stream;
    return 0;
}

TEST(captures_ask_the_filter) {
    CUstream stream = stream_make();
    struct graph graphs[2];
    for (int i = 0; i < 2; i++) {
        acre_torch_begin_pool(0, 30, 0, is_none, NULL, NULL);
        graphs[i] = capture(stream, 0, 0, i);
        acre_torch_end_pool(0, 30, 0);
    }
    assert_ptr_not_equal(graphs[0].p, graphs[1].p);
    for (int i = 0; i < 2; i++) {
        acre_torch_release_pool(0, 30, 0);
        destroy(&graphs[i]);
    }
}

/* ---- forks ---- */

static struct { _Atomic int is_inside, may_leave; } slow;

/* Called with the plug's lock held. */
static int stay(void *user, acre_stream stream) {
    (void)user, (void)stream;
    atomic_store(&slow.is_inside, 1);
    while (!atomic_load(&slow.may_leave))
        sched_yield();
    return 0;
}

static void *alloc_slowly(void *user) {
    acre_torch_free(take(BYTES, user), BYTES, 0, user);
    return NULL;
}

/* The child has a copy of the lock that nobody will unlock. */
TEST(captures_do_not_block_the_frees_of_a_forked_child) {
    CUstream stream = stream_make();
    pthread_t thread;
    int how = -1;
    void *p = take(BYTES, stream);
    acre_torch_record_stream(p, stream_make());
    acre_torch_begin_pool(0, 40, 0, stay, NULL, NULL);
    assert_int_equal(pthread_create(&thread, NULL, alloc_slowly, stream), 0);
    while (!atomic_load(&slow.is_inside))
        sched_yield();
    pid_t child = fork();
    if (!child) {
        alarm(200);
        acre_torch_free(p, BYTES, 0, stream);
        acre_torch_record_stream(p, stream);
        acre_torch_reset();
        _exit(0);
    }
    atomic_store(&slow.may_leave, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    acre_torch_end_pool(0, 40, 0);
    acre_torch_release_pool(0, 40, 0);
    acre_torch_free(p, BYTES, 0, stream);
}

int main(void) {
    card_begin();
    return tests_run("torch_captures");
}
