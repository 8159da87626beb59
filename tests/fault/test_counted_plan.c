/* The counted loop over plans: the n-th driver call inside a call fails, alone or with all later
 * ones, for n = 1, 2, ... until a run in which none fails. After each run: the expected status, the
 * plan unchanged and no address written, the caller's context untouched. The same call works once
 * the driver does, and nothing is left after trim. If a loop cannot be placed, the pool serves it,
 * and a later step places it. Further tests: captured streams, a lost device. */
#include "api/api_plan.h"
#include "fault_counted.h"

enum { VARIABLES = 6 };

struct things {
    const char *name;
    acre_device *device;
    acre_stream stream;
    acre_plan *plan;
    void *p[VARIABLES];
    uint32_t places; /* places of a step's blocks; with 2 a round takes three times as long */
};

static const acre_plan_options given = {
    .struct_size = sizeof given, .device_bytes = 4 * MIB, .host_bytes = MIB};
static const acre_plan_options needed = {.struct_size = sizeof needed,
                                         .device_bytes = ACRE_PLAN_AS_NEEDED,
                                         .host_bytes = ACRE_PLAN_AS_NEEDED};

/* ---- plans in several states ---- */

static void make(struct things *t, const acre_plan_options *like, uint32_t flags) {
    acre_plan_options options = *like;
    options.flags = flags;
    api_ok(acre_plan_create(t->device, &options, &t->plan));
}

static void make_given(struct things *t) {
    make(t, &given, 0);
}
static void make_needed(struct things *t) {
    make(t, &needed, 0);
}
/* Four requests wait for satisfy. */
static void make_waiting(struct things *t) {
    make(t, &needed, ACRE_PLAN_DEFERRED);
    for (uint32_t i = 0; i < 4; i++)
        api_ok(acre_plan_want(t->plan, i % 2, 3 * MIB, 0, &t->p[i]));
}
/* Four requests wait for satisfy, and two for commit. */
static void make_timed(struct things *t) {
    make_waiting(t);
    for (uint32_t i = 0; i < 2; i++)
        api_ok(acre_plan_want_for(t->plan, i, 2 * MIB, 0, i, 3, &t->p[4 + i]));
}
/* One round is released, and its work may still be in flight. */
static void make_released(struct things *t) {
    void *p;
    make(t, &given, 0);
    api_ok(acre_plan_want(t->plan, ACRE_PLACE_DEVICE, MIB, 0, &p));
    api_ok(acre_fill(t->device, p, 1, MIB, t->stream));
    api_ok(acre_plan_release(t->plan, t->stream));
}
static void make_released_all(struct things *t) {
    make(t, &given, 0);
    api_ok(acre_plan_release(t->plan, NULL));
}

static acre_status one_step(struct things *t) {
    acre_status status = acre_plan_step_begin(t->plan, t->stream);
    for (uint32_t place = 0; place < t->places && status == ACRE_OK; place++) {
        void *p;
        status = acre_plan_alloc(t->plan, place, 70000, 0, &p);
        if (status == ACRE_OK)
            status = acre_plan_free(t->plan, p);
    }
    return status ? status : acre_plan_step_end(t->plan);
}
/* A step is recorded but not placed. */
static void make_recorded(struct things *t) {
    make(t, &needed, 0);
    api_ok(one_step(t));
}
static void make_looping(struct things *t) {
    make_recorded(t);
    api_ok(one_step(t));
}
static void make_in_step(struct things *t) {
    make_looping(t);
    api_ok(acre_plan_step_begin(t->plan, t->stream));
}

/* ---- the calls ---- */

static acre_status create_given(struct things *t) {
    t->plan = (acre_plan *)t;
    acre_status status = acre_plan_create(t->device, &given, &t->plan);
    if (status)
        assert_null(t->plan);
    return status;
}
/* A default size queries the free memory. */
static acre_status create_default(struct things *t) {
    t->plan = (acre_plan *)t;
    acre_status status = acre_plan_create(t->device, NULL, &t->plan);
    if (status)
        assert_null(t->plan);
    return status;
}
static acre_status want_device(struct things *t) {
    return acre_plan_want(t->plan, ACRE_PLACE_DEVICE, 3 * MIB, 0, &t->p[0]);
}
static acre_status want_host(struct things *t) {
    return acre_plan_want(t->plan, ACRE_PLACE_HOST, 3 * MIB / 4, 0, &t->p[0]);
}
static acre_status satisfy(struct things *t) {
    return acre_plan_satisfy(t->plan);
}
static acre_status commit(struct things *t) {
    return acre_plan_commit(t->plan);
}
static acre_status release(struct things *t) {
    return acre_plan_release(t->plan, t->stream);
}
static acre_status step_begin(struct things *t) {
    return acre_plan_step_begin(t->plan, t->stream);
}
static acre_status step_end(struct things *t) {
    return acre_plan_step_end(t->plan);
}
static acre_status destroy(struct things *t) {
    acre_status status = acre_plan_destroy(t->plan);
    t->plan = NULL;
    return status;
}

static const struct op {
    const char *name;
    acre_status (*call)(struct things *t);
    void (*before)(struct things *t); /* or NULL */
} ops[] = {
    {"create", create_given, NULL},
    {"create with default sizes", create_default, NULL},
    {"want", want_device, make_needed},
    {"want of the host", want_host, make_needed},
    {"want after release", want_device, make_released},
    {"want after release of all", want_device, make_released_all},
    {"satisfy", satisfy, make_waiting},
    {"commit", commit, make_timed},
    {"release", release, make_given},
    {"step begin", step_begin, make_looping},
    {"step end", step_end, make_in_step},
    {"destroy", destroy, make_looping},
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* ---- the loop ---- */

static acre_plan_stats stats_of(const struct things *t) {
    acre_plan_stats stats = {.struct_size = sizeof stats};
    if (t->plan)
        stats = planned_stats(t->plan);
    return stats;
}

static void expect_unchanged(const struct things *t, const struct counted *run,
                             acre_plan_stats before) {
    acre_plan_stats after = stats_of(t);
    after.nodes = before.nodes;
    after.waits = before.waits; /* a round that was waited for stays so */
    if (memcmp(&after, &before, sizeof after) != 0)
        fail_msg("%s with call %u failing: the plan has changed", run->op, run->nth);
    for (int i = 0; i < VARIABLES; i++)
        assert_ptr_equal(t->p[i], UNWRITTEN);
}

static void expect_nothing_left(struct things *t) {
    api_ok(acre_plan_destroy(t->plan));
    t->plan = NULL;
    api_ok(acre_stream_sync(t->device, t->stream)); /* pools hold memory that queued work may use */
    acre_pool *pool;
    for (acre_kind kind = ACRE_KIND_DEVICE; kind <= ACRE_KIND_PINNED; kind++) {
        api_ok(acre_pool_default(t->device, kind, &pool));
        api_ok(acre_pool_trim(pool, 0));
    }
    api_ok(acre_trim(t->device));
    acre_device_stats after = api_stats(t->device);
    assert_int_equal(after.chunks + after.chunk_bytes + after.limbo_count, 0);
    assert_int_equal(after.mem_blocks, 0);
}

static void run_one(struct things *t, const struct op *op, struct counted *run) {
    for (int i = 0; i < VARIABLES; i++)
        t->p[i] = UNWRITTEN;
    if (op->before)
        op->before(t);
    acre_plan_stats before = stats_of(t);
    counted_call(run, op->call, t);
    if (run->mode == ACRE__FAULT_FROM)
        fault_sync(t->name);
    counted_expect_status(run,
                          counted_is_right(run, COUNTED_DEVICE | COUNTED_HOST | COUNTED_ADDRESSES));
    if (run->status) {
        expect_unchanged(t, run, before);
        api_ok(op->call(t));
    }
    expect_nothing_left(t);
}

static struct things things_begin(const char *name) {
    struct things t = {.name = name, .device = api_open(name), .places = 1};
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.stream));
    return t;
}

static void things_end(struct things *t) {
    api_ok(acre_stream_destroy(t->device, t->stream));
    api_ok(acre_close(t->device));
}

TEST(plan_calls_bear_every_refusal_and_change_nothing) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        for (size_t i = 0; i < OPS; i++) {
            const struct counted run = {.name = name, .device = t.device, .op = ops[i].name};
            counted_keeps_memory(run, run_one, &t, &ops[i]);
        }
        things_end(&t);
    }
}

/* ---- placing a loop ---- */

/* Whatever fails while the plan places the loop, the step is served or does not begin. A later step
 * is served from the plan. */
static void place_one(struct things *t, const struct op *op, struct counted *run) {
    (void)op;
    make_recorded(t);
    acre_plan_stats before = stats_of(t);
    counted_call(run, step_begin, t);
    if (run->mode == ACRE__FAULT_FROM)
        fault_sync(t->name);
    counted_expect_status(run,
                          counted_is_right(run, COUNTED_DEVICE | COUNTED_HOST | COUNTED_ADDRESSES));
    if (run->status)
        expect_unchanged(t, run, before);
    else
        api_ok(acre_plan_step_end(t->plan));
    for (int i = 0; i < 2; i++)
        api_ok(one_step(t));
    acre_plan_stats after = stats_of(t);
    assert_int_equal(after.hits, 4);
    assert_int_equal(after.misses, 0);
    assert_int_equal(after.pool_calls, before.pool_calls);
    expect_nothing_left(t);
}

TEST(loop_that_cannot_be_placed_is_placed_by_a_later_step) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        const struct counted run = {.name = name, .device = t.device, .op = "placing a loop"};
        for (int i = 0; i < VARIABLES; i++)
            t.p[i] = UNWRITTEN;
        t.places = 2;
        assert_true(counted_loop(run, COUNTED_SHORT, place_one, &t, NULL) > 0);
        things_end(&t);
    }
}

/* ---- captures ---- */

TEST(plan_in_a_capture_serves_steps_and_breaks_nothing) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        const struct acre__driver *raw = fault_raw(name);
        CUgraph graph = NULL;
        void *p;
        make_looping(&t);
        acre_plan_stats before = stats_of(&t);
        fault_push(name);
        assert_int_equal(raw->cuStreamBeginCapture(t.stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
        fault_pop(name);
        api_ok(one_step(&t)); /* the graph can use its addresses */
        acre_plan_stats after = stats_of(&t);
        assert_int_equal(after.hits - before.hits, 1);
        assert_int_equal(after.pool_calls, before.pool_calls);
        api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 8 * MIB, 0, &p));
        api_ok(acre_plan_commit(t.plan));
        api_expect(acre_plan_release(t.plan, t.stream), ACRE_E_CAPTURING);
        assert_int_equal(stats_of(&t).rounds, 0);
        fault_push(name);
        assert_int_equal(raw->cuStreamEndCapture(t.stream, &graph), 0);
        if (graph)
            assert_int_equal(raw->cuGraphDestroy(graph), 0);
        fault_pop(name);
        api_ok(one_step(&t));
        api_ok(acre_plan_release(t.plan, t.stream));
        expect_nothing_left(&t);
        things_end(&t);
    }
}

/* ---- a lost device ---- */

TEST(plan_of_a_lost_device_can_be_destroyed) {
    struct things t = things_begin("soft");
    void *p;
    make_in_step(&t);
    api_ok(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 100, 0, &p));
    fault_on("cuStreamSynchronize", 1, ACRE__FAULT_STICKY, CUDA_ERROR_LAUNCH_FAILED);
    api_expect(acre_stream_sync(t.device, t.stream), ACRE_E_DEVICE_LOST);
    api_expect(acre_plan_want(t.plan, ACRE_PLACE_DEVICE, 100, 0, &p), ACRE_E_DEVICE_LOST);
    api_expect(acre_plan_commit(t.plan), ACRE_E_DEVICE_LOST);
    api_expect(acre_plan_release(t.plan, t.stream), ACRE_E_DEVICE_LOST);
    api_expect(acre_plan_step_end(t.plan), ACRE_E_DEVICE_LOST);
    assert_int_equal(stats_of(&t).wishes, 1);
    api_ok(acre_plan_destroy(t.plan));
    (void)fault_off();
    (void)acre_stream_destroy(t.device, t.stream);
    api_ok(acre_close(t.device));
}

int main(void) {
    fault_begin();
    return tests_run("counted_plan");
}
