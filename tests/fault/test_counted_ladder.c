/* The counted loop over every rung: a card of 64 MiB is brought to where one rung alone can serve,
 * and driver call 1, 2, ... of the call that climbs there fails, alone or with all after it, until
 * a run in which none did. After each: a right status, as many blocks as before, the caller's
 * context and capture mode untouched; the same call works once the driver does, and all memory
 * goes. */
#include "fault_ladder.h"

struct scene {
    struct small s;
    struct sleeper sleeper;
    int is_sleeping;
    void *blocks[12];
    void *p, *given;
};

/* ---- before ---- */

/* As much as leaves `left` bytes of the card. */
static void fill_but(struct scene *scene, size_t left) {
    (void)small_alloc(scene->s.second, LADDER_BYTES - left, scene->s.stream);
}

static void sleep_on(struct scene *scene, acre_stream stream) {
    scene->sleeper = (struct sleeper){.s = &scene->s, .stream = stream, .bytes = MIB, .count = 8};
    scene->is_sleeping = 1;
    sleeper_begin(&scene->sleeper);
    fill_but(scene, 8 * MIB);
}
static void before_caches(struct scene *scene) {
    sleep_on(scene, scene->s.stream);
}
static void before_done(struct scene *scene) {
    sleep_on(scene, scene->s.other);
}

/* Small blocks that were freed; their stream may not be done. */
static void freed_blocks(struct scene *scene, acre_pool *pool, acre_stream stream, int is_done) {
    struct small *s = &scene->s;
    fill_but(scene, 12 * MIB);
    api_ok(acre_pool_alloc_many(pool, MIB, 12, stream, scene->blocks));
    for (int i = 0; i < 12 && !is_done; i++)
        api_ok(acre_fill(s->device, scene->blocks[i], 1, MIB, stream));
    api_ok(acre_pool_free_many(pool, scene->blocks, 12, stream, NULL));
    if (is_done)
        api_ok(acre_stream_sync(s->device, stream));
}
static void before_moved(struct scene *scene) {
    freed_blocks(scene, scene->s.pool, scene->s.stream, 1);
}
static void before_pools(struct scene *scene) {
    freed_blocks(scene, scene->s.second, scene->s.stream, 1);
}
static void before_waiting(struct scene *scene) {
    freed_blocks(scene, scene->s.pool, scene->s.other, 0);
}
static void before_waiting_elsewhere(struct scene *scene) {
    freed_blocks(scene, scene->s.second, scene->s.other, 0);
}
static void before_behind(struct scene *scene) {
    struct small *s = &scene->s;
    void *p = small_alloc(s->pool, 40 * MIB, s->other);
    api_ok(acre_fill(s->device, p, 1, 40 * MIB, s->other));
    api_ok(acre_pool_free(s->pool, p, s->other));
}

/* It may be called while the driver refuses everything: then there is nothing to give. */
static int give(void *user, acre_pool *pool, uint64_t wanted_bytes, uint32_t attempt) {
    struct scene *scene = user;
    (void)wanted_bytes;
    (void)attempt;
    if (!scene->given || acre_pool_free(pool, scene->given, scene->s.stream))
        return 0;
    scene->given = NULL;
    return 1;
}
static void before_callback(struct scene *scene) {
    scene->given = small_alloc(scene->s.pool, 40 * MIB, scene->s.stream);
    api_ok(acre_pool_set_callback(scene->s.pool, give, scene));
}
static void before_limit(struct scene *scene) {
    api_ok(acre_pool_set_limits(scene->s.pool, 10 * MIB, 50 * MIB));
    before_callback(scene);
}

/* ---- the call ---- */

static acre_status alloc_one(struct scene *scene) {
    return acre_pool_alloc(scene->s.pool, MIB, 0, scene->s.stream, &scene->p);
}
static acre_status alloc_eight(struct scene *scene) {
    return acre_pool_alloc(scene->s.pool, 8 * MIB, 0, scene->s.stream, &scene->p);
}
static acre_status alloc_forty(struct scene *scene) {
    return acre_pool_alloc(scene->s.pool, 40 * MIB, 0, scene->s.stream, &scene->p);
}

static const struct op {
    const char *name;
    void (*before)(struct scene *scene);
    acre_status (*call)(struct scene *scene);
} ops[] = {
    {"caches", before_caches, alloc_one},
    {"done", before_done, alloc_one},
    {"moved", before_moved, alloc_eight},
    {"behind", before_behind, alloc_forty},
    {"pools", before_pools, alloc_eight},
    {"callback", before_callback, alloc_forty},
    {"limits", before_limit, alloc_forty},
    {"waiting", before_waiting, alloc_eight},
    {"waiting for another pool", before_waiting_elsewhere, alloc_eight},
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* ---- the loop ---- */

struct plan {
    enum acre__fault_mode mode;
    CUresult code;
};

static void expect_status(const struct op *op, const struct plan *plan, uint32_t nth,
                          acre_status status) {
    int is_memory = status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_HOST_MEMORY ||
                    status == ACRE_E_ADDRESS_SPACE || status == ACRE_E_LIMIT;
    if (status == ACRE_OK || is_memory ||
        (plan->code != CUDA_ERROR_OUT_OF_MEMORY && status == ACRE_E_DRIVER))
        return;
    fail_msg("%s with call %u failing: %s: %s", op->name, nth, acre_status_name(status),
             acre_last_detail());
}

static void restore_thread(void) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    assert_int_equal(fault_raw("soft")->cuThreadExchangeStreamCaptureMode(&mode), 0);
    assert_int_equal(fault_raw("soft")->cuCtxSetCurrent(NULL), 0);
}

static void expect_thread(const struct op *op) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (fault_current("soft"))
        fail_msg("%s left a context", op->name);
    assert_int_equal(fault_raw("soft")->cuThreadExchangeStreamCaptureMode(&mode), 0);
    if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
        fail_msg("%s left the capture mode relaxed", op->name);
}

static void count_block(void *user, void *p, size_t bytes) {
    (void)p;
    (void)bytes;
    ++*(uint64_t *)user;
}

static uint64_t blocks_of(const struct scene *scene) {
    uint64_t count = 0;
    api_ok(acre_pool_walk(scene->s.pool, count_block, &count));
    return count + (scene->given == NULL); /* what the callback gave is not lost */
}

static void end_scene(struct scene *scene) {
    if (scene->is_sleeping)
        sleeper_end(&scene->sleeper);
    small_end(&scene->s); /* sees to it that nothing is left */
}

/* One run with call `nth` failing: 0 when nothing failed any more. */
static int run_one(const struct op *op, const struct plan *plan, uint32_t nth) {
    struct scene scene = {.s = small_begin(NULL)};
    op->before(&scene);
    uint64_t before = blocks_of(&scene);
    fault_on(NULL, nth, plan->mode, plan->code);
    acre_status status = op->call(&scene);
    uint64_t fired = fault_off();
    if (plan->mode == ACRE__FAULT_FROM)
        restore_thread();
    expect_thread(op);
    if (!fired)
        api_ok(status);
    expect_status(op, plan, nth, status);
    acre_pool_stats stats = small_stats(scene.s.pool);
    assert_int_equal(stats.used_bytes >= stats.live_bytes, 1);
    if (status) {
        assert_null(scene.p);
        assert_int_equal(blocks_of(&scene), before);
        api_ok(op->call(&scene));
    }
    end_scene(&scene);
    return fired != 0;
}

static void ladder_bears_every_refusal_and_loses_nothing(void **state) {
    (void)state;
    const struct plan plans[] = {{ACRE__FAULT_ONCE, CUDA_ERROR_OUT_OF_MEMORY},
                                 {ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN},
                                 {ACRE__FAULT_FROM, CUDA_ERROR_OUT_OF_MEMORY},
                                 {ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN}};
    for (size_t i = 0; i < OPS; i++) {
        for (size_t k = 0; k < sizeof plans / sizeof plans[0]; k++) {
            uint32_t nth = 1;
            uint32_t step = plans[k].mode == ACRE__FAULT_FROM ? 5 : 1; /* more fail anyway */
            while (run_one(&ops[i], &plans[k], nth))
                nth += step;
            assert_true(nth > 1);
            if (k == 0)
                print_message("%s: %u driver calls\n", ops[i].name, nth - 1);
        }
    }
}

int main(void) {
    fault_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ladder_bears_every_refusal_and_loses_nothing),
    };
    return cmocka_run_group_tests_name("counted_ladder", tests, NULL, NULL);
}
