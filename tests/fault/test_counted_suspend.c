/* The counted loop over suspends: the n-th driver call inside a call fails, alone or with all later
 * ones, for n = 1, 2, ... until a run in which none fails. After a failed suspend everything is
 * there with its contents; after a failed resume everything is still away, and a resume that is
 * repeated brings it back; frees of memory that is away succeed or can be repeated. Nothing is left
 * after trim. Further tests: captures and graphs, work that is held up, a lost device. */
#include <pthread.h>

#include "api/api_range.h"
#include "api/api_suspend.h"
#include "fault_counted.h"

/* Few bytes and few chunks: the loop makes and frees all of this a thousand times. */
enum { BLOCKS = 2, SMALLS = 2, STAMPED = 512, FROM_STEP = 5 };
static const size_t block_bytes = 64 * KIB;

struct things {
    const char *name;
    acre_device *device;
    acre_stream stream;
    acre_pool *pool;
    char *blocks[BLOCKS], *smalls[SMALLS], *mem;
    acre_vec *vec;
    acre_range *range;
    acre_suspended *suspended;
};

/* ---- contents: both ends of an object ---- */

static void stamp(acre_device *device, void *p, size_t bytes, uint64_t salt) {
    put(device, p, STAMPED, salt);
    put(device, (char *)p + bytes - STAMPED, STAMPED, salt);
}

static int is_stamped(acre_device *device, void *p, size_t bytes, uint64_t salt) {
    return has(device, p, STAMPED, salt) && has(device, (char *)p + bytes - STAMPED, STAMPED, salt);
}

/* ---- states ---- */

static void make(struct things *t) {
    void *p;
    t->pool = pool_make(t->device, 0);
    for (int i = 0; i < BLOCKS; i++) {
        api_ok(acre_pool_alloc(t->pool, block_bytes, 0, t->stream, &p));
        stamp(t->device, t->blocks[i] = p, block_bytes, 1);
    }
    for (int i = 0; i < SMALLS; i++)
        t->smalls[i] = block_make(t->device, t->pool, 2000, 2);
    api_ok(acre_mem_alloc(t->device, ACRE_KIND_DEVICE, 2 * MIB, 0, &p));
    t->mem = p;
    api_ok(acre_vec_create(t->device, 1, NULL, &t->vec));
    api_ok(acre_vec_grow(t->vec, 8 * KIB, t->stream));
    stamp(t->device, acre_vec_data(t->vec), 8 * KIB, 4);
    t->range = range_in(t->device, NULL, 4);
    api_ok(piece_commit(t->range, 0, 2, t->stream));
    api_ok(piece_decommit(t->range, 0, 1, t->stream));
    api_ok(acre_stream_sync(t->device, t->stream));
}

/* ---- calls ---- */

static acre_status suspend_by(struct things *t, const acre_suspend_options *options) {
    acre_status status = acre_suspend(t->device, options, &t->suspended);
    assert_int_equal(!t->suspended, status != ACRE_OK);
    return status;
}

/* The contents of the pool and of the vec are kept; the memory of large objects is dropped, since
 * their copies would take most of the time. */
static acre_status suspend_kept(struct things *t, uint32_t flags, uint32_t is_unchanged) {
    acre_suspend_rule rules[] = {
        RULE(.object = t->mem, .how = ACRE_SUSPEND_DROP),
        RULE(.object = acre_range_data(t->range), .how = ACRE_SUSPEND_DROP),
        RULE(.is_unchanged = is_unchanged)};
    acre_suspend_options options = suspend_options(ACRE_SUSPEND_KEEP, flags);
    options.rules = rules;
    options.rule_count = 3;
    return suspend_by(t, &options);
}

static acre_status suspend(struct things *t) {
    return suspend_kept(t, 0, 0);
}

static acre_status suspend_unchanged(struct things *t) {
    return suspend_kept(t, ACRE_SUSPEND_RETAIN, 1);
}

static acre_status resume(struct things *t) {
    acre_status status = acre_resume(t->suspended);
    if (status == ACRE_OK)
        t->suspended = NULL;
    return status;
}

static acre_status free_block(struct things *t) {
    acre_status status = acre_pool_free(t->pool, t->blocks[1], t->stream);
    if (status == ACRE_OK)
        t->blocks[1] = NULL;
    return status;
}

static acre_status free_mem(struct things *t) {
    acre_status status = acre_mem_free(t->device, t->mem);
    if (status == ACRE_OK)
        t->mem = NULL;
    return status;
}

static acre_status free_vec(struct things *t) {
    acre_status status = acre_vec_destroy(t->vec, t->stream);
    if (status == ACRE_OK)
        t->vec = NULL;
    return status;
}

static acre_status decommit(struct things *t) {
    acre_status status = piece_decommit(t->range, 0, 4, t->stream);
    return status ? status : acre_range_trim(t->range, 0);
}

static acre_status free_range(struct things *t) {
    acre_status status = acre_range_destroy(t->range, t->stream);
    if (status == ACRE_OK)
        t->range = NULL;
    return status;
}

static acre_status trim(struct things *t) {
    return acre_trim(t->device);
}

static void make_retained(struct things *t) {
    make(t);
    api_ok(suspend_kept(t, ACRE_SUSPEND_RETAIN, 0));
    api_ok(resume(t));
}

static void make_away(struct things *t) {
    make(t);
    api_ok(suspend(t));
}

static const struct op {
    const char *name;
    acre_status (*call)(struct things *t);
    void (*before)(struct things *t);
} ops[] = {
    {"suspend", suspend, make},        {"suspend unchanged", suspend_unchanged, make_retained},
    {"resume", resume, make_away},     {"free block", free_block, make_away},
    {"free mem", free_mem, make_away}, {"destroy vec", free_vec, make_away},
    {"decommit", decommit, make_away}, {"destroy range", free_range, make_away},
    {"trim", trim, make_away},
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* ---- the loop ---- */

static void expect_contents(struct things *t) {
    for (int i = 0; i < BLOCKS; i++)
        assert_true(!t->blocks[i] || is_stamped(t->device, t->blocks[i], block_bytes, 1));
    for (int i = 0; i < SMALLS; i++)
        assert_true(has(t->device, t->smalls[i], 2000, 2));
    assert_true(!t->vec || is_stamped(t->device, acre_vec_data(t->vec), 8 * KIB, 4));
}

/* New work and new memory are possible. */
static void expect_usable(struct things *t) {
    char *more = block_make(t->device, t->pool, 6 * KIB, 8);
    assert_true(has(t->device, more, 6 * KIB, 8));
    api_ok(acre_pool_free(t->pool, more, NULL));
    if (t->vec)
        api_ok(acre_vec_grow(t->vec, MIB, t->stream));
    if (t->mem) {
        stamp(t->device, t->mem, 2 * MIB, 3);
        assert_true(is_stamped(t->device, t->mem, 2 * MIB, 3));
    }
    if (t->range) {
        api_ok(piece_commit(t->range, 0, 2, t->stream));
        stamp(t->device, piece_at(t->range, 0), 2 * piece, 5);
        assert_true(is_stamped(t->device, piece_at(t->range, 0), 2 * piece, 5));
    }
}

static void expect_all_goes(struct things *t) {
    for (int i = 0; i < BLOCKS; i++)
        api_ok(acre_pool_free(t->pool, t->blocks[i], NULL));
    for (int i = 0; i < SMALLS; i++)
        api_ok(acre_pool_free(t->pool, t->smalls[i], NULL));
    api_ok(acre_pool_destroy(t->pool, NULL, NULL));
    api_ok(acre_mem_free(t->device, t->mem));
    api_ok(acre_vec_destroy(t->vec, t->stream));
    api_ok(acre_range_destroy(t->range, t->stream));
    expect_nothing_left(t->device);
}

/* After a failed call: all or nothing. */
static void expect_unchanged(struct things *t, const struct op *op, uint64_t away) {
    if (op->call == resume || !t->suspended)
        assert_int_equal(api_stats(t->device).suspended_bytes, away);
    if (t->suspended)
        api_expect(acre_fill(t->device, t->blocks[0], 1, 1, NULL), ACRE_E_SUSPENDED);
    else
        expect_contents(t);
}

static void run_one(struct things *t, const struct op *op, struct counted *run) {
    t->suspended = NULL;
    op->before(t);
    uint64_t away = api_stats(t->device).suspended_bytes;
    counted_call(run, op->call, t);
    if (run->mode == ACRE__FAULT_FROM)
        fault_sync(t->name);
    counted_expect_status(run, counted_is_right(run, COUNTED_DEVICE | COUNTED_HOST));
    if (run->status) {
        expect_unchanged(t, op, away);
        api_ok(op->call(t));
    }
    if (t->suspended)
        api_ok(resume(t));
    assert_int_equal(api_stats(t->device).suspended_bytes, 0);
    expect_contents(t);
    expect_usable(t);
    expect_all_goes(t);
}

static struct things things_begin(const char *name) {
    struct things t = {.name = name, .device = api_open(name)};
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.stream));
    return t;
}

static void things_end(struct things *t) {
    api_ok(acre_stream_destroy(t->device, t->stream));
    api_ok(acre_close(t->device));
}

TEST(suspend_calls_bear_every_refusal_all_or_nothing) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        for (size_t i = 0; i < OPS; i++) {
            const struct counted run = {
                .name = name, .device = t.device, .op = ops[i].name, .from_step = FROM_STEP};
            counted_keeps_memory(run, run_one, &t, &ops[i]);
        }
        things_end(&t);
    }
}

/* One function of the driver is refused throughout. */
TEST(suspend_bears_each_function_refused_throughout) {
    static const char *const functions[] = {
        "cuMemUnmap",        "cuMemRelease",     "cuMemMap",
        "cuMemSetAccess",    "cuMemCreate",      "cuMemcpyDtoHAsync",
        "cuMemcpyHtoDAsync", "cuCtxSynchronize", "cuStreamSynchronize"};
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
            make(&t);
            fault_on(functions[i], 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
            acre_status status = suspend(&t);
            (void)fault_off();
            if (status) {
                assert_int_equal(api_stats(t.device).suspended_bytes, 0);
                expect_contents(&t);
                api_ok(suspend(&t));
            }
            fault_on(functions[i], 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
            status = resume(&t);
            (void)fault_off();
            if (status)
                api_ok(resume(&t));
            expect_contents(&t);
            expect_usable(&t);
            expect_all_goes(&t);
        }
        things_end(&t);
    }
}

/* The driver refuses to unmap after a failed resume, and then the memory is freed. */
TEST(resume_that_could_not_be_undone_can_be_freed) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        make_away(&t);
        uint64_t away = api_stats(t.device).suspended_bytes;
        fault_on("cuMemSetAccess", 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
        api_expect(resume(&t), ACRE_E_DRIVER);
        (void)fault_off();
        assert_int_equal(api_stats(t.device).suspended_bytes, away);
        assert_int_equal(api_stats(t.device).chunk_bytes, 0);
        api_ok(free_vec(&t));
        api_ok(free_mem(&t));
        api_ok(resume(&t));
        expect_contents(&t);
        expect_all_goes(&t);
        things_end(&t);
    }
}

/* ---- captures ---- */

TEST(suspend_while_a_stream_is_captured_is_refused_and_the_capture_goes_on) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        const struct acre__driver *raw = fault_raw(name);
        CUgraph graph = NULL;
        make(&t);
        assert_int_equal(raw->cuStreamBeginCapture(t.stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
        api_expect(suspend(&t), ACRE_E_CAPTURING);
        assert_int_equal(raw->cuStreamEndCapture(t.stream, &graph), 0);
        assert_non_null(graph);
        assert_int_equal(raw->cuGraphDestroy(graph), 0);
        expect_contents(&t);
        api_ok(suspend(&t));
        api_ok(resume(&t));
        expect_contents(&t);
        expect_all_goes(&t);
        things_end(&t);
    }
}

TEST(resume_while_a_stream_is_captured_is_refused_and_the_capture_goes_on) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        const struct acre__driver *raw = fault_raw(name);
        CUgraph graph = NULL;
        make_away(&t);
        assert_int_equal(raw->cuStreamBeginCapture(t.stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
        api_expect(resume(&t), ACRE_E_CAPTURING);
        assert_int_equal(raw->cuStreamEndCapture(t.stream, &graph), 0);
        assert_int_equal(raw->cuGraphDestroy(graph), 0);
        api_ok(resume(&t));
        expect_contents(&t);
        expect_all_goes(&t);
        things_end(&t);
    }
}

/* acre does not know streams that the program created itself. Their captures go on. */
TEST(suspend_does_not_disturb_a_capture_of_a_stream_of_the_program) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        const struct acre__driver *raw = fault_raw(name);
        CUstream stream = NULL;
        CUgraph graph = NULL;
        make(&t);
        fault_push(name);
        assert_int_equal(raw->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), 0);
        assert_int_equal(raw->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
        fault_pop(name);
        api_ok(suspend(&t));
        api_ok(resume(&t));
        fault_push(name);
        assert_int_equal(raw->cuStreamEndCapture(stream, &graph), 0);
        assert_non_null(graph);
        assert_int_equal(raw->cuGraphDestroy(graph), 0);
        assert_int_equal(raw->cuStreamDestroy(stream), 0);
        fault_pop(name);
        expect_contents(&t);
        expect_all_goes(&t);
        things_end(&t);
    }
}

/* A graph that was captured before works after a resume: the addresses are the same. */
TEST(resume_lets_captured_graphs_run) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        const struct acre__driver *raw = fault_raw(name);
        CUgraph graph = NULL;
        CUgraphExec exec = NULL;
        unsigned char found[4096];
        make(&t);
        fault_push(name);
        assert_int_equal(raw->cuStreamBeginCapture(t.stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
        api_ok(acre_fill(t.device, t.blocks[0], 77, 4096, t.stream));
        api_ok(acre_copy(t.device, acre_vec_data(t.vec), t.blocks[0], 4096, t.stream));
        assert_int_equal(raw->cuStreamEndCapture(t.stream, &graph), 0);
        assert_int_equal(raw->cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
        fault_pop(name);
        for (int i = 0; i < 3; i++) {
            api_ok(suspend(&t));
            api_ok(resume(&t));
            if (i == 0)
                expect_contents(&t);
            api_ok(acre_fill_sync(t.device, acre_vec_data(t.vec), 0, 4096));
            fault_push(name);
            assert_int_equal(raw->cuGraphLaunch(exec, t.stream), 0);
            fault_pop(name);
            api_ok(acre_stream_sync(t.device, t.stream));
            api_ok(acre_copy_sync(t.device, found, acre_vec_data(t.vec), 4096));
            for (int k = 0; k < 4096; k++)
                assert_int_equal(found[k], 77);
        }
        fault_push(name);
        assert_int_equal(raw->cuGraphExecDestroy(exec), 0);
        assert_int_equal(raw->cuGraphDestroy(graph), 0);
        fault_pop(name);
        expect_all_goes(&t);
        things_end(&t);
    }
}

/* ---- work that is held up ---- */

static void *gate_open_soon(void *argument) {
    struct gate *gate = argument;
    sleep_ms(30);
    atomic_store(&gate->is_open, 1);
    return NULL;
}

/* A suspend waits for queued work, whose results are kept. */
TEST(suspend_keeps_the_results_of_queued_work) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        struct gate gate;
        pthread_t opener;
        unsigned char found[4096];
        acre_suspend_options options = suspend_options(ACRE_SUSPEND_KEEP, 0);
        options.timeout_ms = 20;
        make(&t);
        gate_close(&gate);
        fault_push(name);
        assert_int_equal(fault_raw(name)->cuLaunchHostFunc(t.stream, gate_run, &gate), 0);
        fault_pop(name);
        api_ok(acre_fill(t.device, t.blocks[0], 99, 4096, t.stream));
        api_expect(suspend_by(&t, &options), ACRE_E_BUSY);
        assert_int_equal(atomic_load(&gate.is_passed), 0);
        assert_int_equal(pthread_create(&opener, NULL, gate_open_soon, &gate), 0);
        api_ok(suspend(&t));
        assert_int_equal(atomic_load(&gate.is_passed), 1);
        assert_int_equal(pthread_join(opener, NULL), 0);
        api_ok(resume(&t));
        api_ok(acre_copy_sync(t.device, found, t.blocks[0], 4096));
        for (int k = 0; k < 4096; k++)
            assert_int_equal(found[k], 99);
        expect_all_goes(&t);
        things_end(&t);
    }
}

/* ---- a lost device ---- */

TEST(suspended_memory_of_a_lost_device_can_be_freed) {
    struct things t = things_begin("soft");
    acre_suspended *none = NULL;
    make_away(&t);
    fault_on(NULL, 1, ACRE__FAULT_STICKY, CUDA_ERROR_ILLEGAL_ADDRESS);
    (void)acre_device_sync(t.device);
    api_expect(acre_suspend(t.device, NULL, &none), ACRE_E_DEVICE_LOST);
    api_expect(resume(&t), ACRE_E_DEVICE_LOST);
    api_ok(acre_pool_free(t.pool, t.blocks[0], NULL));
    api_ok(free_vec(&t));
    api_ok(free_mem(&t));
    (void)acre_stream_destroy(t.device, t.stream);
    acre_log_set(NULL, NULL, ACRE_LOG_ERROR);
    api_ok(acre_close(t.device)); /* with what is left */
    acre_log_set(NULL, NULL, ACRE_LOG_WARN);
    (void)fault_off();
}

int main(void) {
    /* Copies by the driver's own calls: staging has buffers, which trim frees and every run would
     * make again. tests/fault/test_counted_mem.c counts staged copies. */
    setenv("ACRE_COPY_STAGE_BYTES", "1GiB", 1);
    fault_begin();
    return tests_run("counted_suspend");
}
