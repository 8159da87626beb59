/* Plans compared with a shadow model, under seeded schedules. Virtual threads, each with its own
 * plan, run rounds of requests, work and release, and loop steps that mostly repeat the first step.
 * Work relies only on the order that the plan guarantees. So the vector clocks of the soft driver
 * report a round that starts before the work of the previous round is done, and a step that is not
 * ordered after the previous step. The model records all buffers: buffers that live at the same
 * time must not overlap, and a failed call must change nothing.
 *
 * ACRE_TEST_OPS sets the number of operations, ACRE_TEST_SEED the first seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/cases.h"
#include "acre.h"
#include "soft/sched.h"
#include "soft/soft.h"
#include "support/rounds.h"
#include "support/random.h"

enum {
    STREAMS = 4,
    THREADS = 3,
    RUNS = 4, /* runs of all threads in one world; then a new world begins */
    ROUNDS_EACH = 3,
    WISHES = 20, /* most requests of a round */
    STEPS_OF_TIME = 6,
    BLOCKS = 12, /* most live blocks of a loop */
    CALLS = 40,  /* calls of a step */
    EDGE = 64    /* bytes written at either end */
};

struct wish {
    char *p; /* NULL: not placed yet, or the request failed */
    size_t bytes, alignment;
    uint32_t place;
    uint64_t first, last;
};

struct block {
    char *p;
    size_t bytes;
};

struct walker {
    uint64_t random;
    unsigned number;
    acre_plan *plan;
    int is_deferred;
    struct wish wishes[WISHES];
    size_t wish_count;
    int has_worked;  /* in this round; the thread's event is recorded after the work */
    uint64_t script; /* seed of the calls that the steps of its loop share */
    int has_recorded;
    struct block blocks[BLOCKS];
};

static struct {
    acre_device *device;
    acre_pool *pool;
    acre_stream streams[STREAMS];
    acre_event events[THREADS];
    uint64_t ops, hits, misses, refused, waits;
    int failures;
    char what[512];
} world;

static void complain(const char *what, const char *detail) {
    if (!world.failures++)
        snprintf(world.what, sizeof world.what, "%s: %s", what, detail);
}

static int expect(acre_status status, const char *what) {
    world.ops++;
    if (status)
        complain(what, acre_last_detail());
    return status == ACRE_OK;
}

static acre_stream stream_draw(struct walker *self) {
    return world.streams[random_draw(&self->random, STREAMS)];
}

static acre_plan_stats stats_of(struct walker *self) {
    acre_plan_stats stats = {.struct_size = sizeof stats};
    expect(acre_plan_get_stats(self->plan, &stats), "stats");
    return stats;
}

/* Writes both ends of the memory, in stream order. */
static void work(char *p, size_t bytes, acre_stream stream) {
    size_t edge = bytes < EDGE ? bytes : EDGE;
    expect(acre_fill(world.device, p, 1, edge, stream), "fill");
    expect(acre_fill(world.device, p + bytes - edge, 2, edge, stream), "fill");
}

/* ---- requests ---- */

static int wishes_meet(const struct wish *a, const struct wish *b) {
    return a->place == b->place && a->first <= b->last && b->first <= a->last;
}

/* Checks that all placed requests are aligned and do not overlap those that live at the same
 * time. */
static void check_wishes(const struct walker *self) {
    for (size_t i = 0; i < self->wish_count; i++) {
        const struct wish *a = &self->wishes[i];
        if (!a->p)
            continue;
        if ((uintptr_t)a->p % (a->alignment < 256 ? 256 : a->alignment))
            complain("a request", "is not aligned");
        for (size_t j = 0; j < i; j++) {
            const struct wish *b = &self->wishes[j];
            if (b->p && wishes_meet(a, b) && a->p < b->p + b->bytes && b->p < a->p + a->bytes)
                complain("two requests", "overlap");
        }
    }
}

static void check_same(struct walker *self, const acre_plan_stats *before) {
    acre_plan_stats now = stats_of(self);
    now.nodes = before->nodes;
    if (memcmp(&now, before, sizeof now) != 0)
        complain("a failed call", "changed the plan's statistics");
}

static int is_refusal(acre_status status) {
    world.refused += status != ACRE_OK;
    return status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_HOST_MEMORY;
}

/* Makes one request. If it fails for lack of memory, nothing may change. */
static void do_want(struct walker *self) {
    struct wish *wish = &self->wishes[self->wish_count];
    acre_plan_stats before = stats_of(self);
    *wish = (struct wish){.bytes = 1 + random_draw(&self->random, 60000),
                          .alignment = random_draw(&self->random, 4)
                                           ? 0
                                           : (size_t)256 << random_draw(&self->random, 6),
                          .place = random_draw(&self->random, 5) == 0,
                          .last = UINT64_MAX};
    acre_status status;
    if (random_draw(&self->random, 2)) {
        wish->first = random_draw(&self->random, STEPS_OF_TIME);
        wish->last = wish->first + random_draw(&self->random, 3);
        status = acre_plan_want_for(self->plan, wish->place, wish->bytes, wish->alignment,
                                    wish->first, wish->last, (void **)&wish->p);
    } else {
        status = acre_plan_want(self->plan, wish->place, wish->bytes, wish->alignment,
                                (void **)&wish->p);
    }
    world.ops++;
    self->wish_count += status == ACRE_OK;
    if (status == ACRE_OK)
        return;
    if (!is_refusal(status))
        complain("want", acre_last_detail());
    if (wish->p)
        complain("want", "failed, but wrote an address");
    check_same(self, &before);
}

/* Places the pending requests; cancels them if there is no memory. */
static void do_place(struct walker *self, acre_status (*place)(acre_plan *plan), const char *what) {
    acre_plan_stats before = stats_of(self);
    acre_status status = place(self->plan);
    world.ops++;
    if (status == ACRE_OK)
        return;
    if (!is_refusal(status))
        complain(what, acre_last_detail());
    check_same(self, &before);
    expect(acre_plan_cancel(self->plan), "cancel");
}

/* Uses the placed buffers, step after step, on one stream that is ordered after this round's work
 * so far. Then another stream works in between, and the first stream waits for it. The plan must
 * order the round after the previous one. */
static void work_steps(struct walker *self, acre_stream stream) {
    if (self->has_worked)
        expect(acre_stream_wait(world.device, stream, world.events[self->number]), "wait");
    self->has_worked = 1;
    for (uint64_t step = 0; step < STEPS_OF_TIME + 2; step++)
        for (size_t i = 0; i < self->wish_count; i++) {
            const struct wish *wish = &self->wishes[i];
            if (wish->p && wish->first <= step && step <= wish->last &&
                random_draw(&self->random, 2))
                work(wish->p, wish->bytes, stream);
        }
    acre_stream other = stream_draw(self);
    acre_event event = world.events[self->number];
    expect(acre_event_record(world.device, event, stream), "record");
    expect(acre_stream_wait(world.device, other, event), "wait");
    for (size_t i = 0; i < self->wish_count; i++)
        if (self->wishes[i].p && self->wishes[i].last == UINT64_MAX)
            work(self->wishes[i].p, self->wishes[i].bytes, other);
    expect(acre_event_record(world.device, event, other), "record");
    expect(acre_stream_wait(world.device, stream, event), "wait");
}

static void do_round(struct walker *self) {
    self->wish_count = 0;
    self->has_worked = 0;
    size_t count = 1 + (size_t)random_draw(&self->random, WISHES - 1);
    for (size_t i = 0; i < count && !world.failures; i++) {
        do_want(self);
        if (self->is_deferred && random_draw(&self->random, 6) == 0)
            do_place(self, acre_plan_satisfy, "satisfy");
    }
    if (random_draw(&self->random, 8))
        do_place(self, acre_plan_commit, "commit");
    check_wishes(self);
    acre_stream stream = stream_draw(self);
    work_steps(self, stream);
}

/* ---- loops ---- */

static void check_block(const struct walker *self, const struct block *block) {
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct block *other = &self->blocks[i];
        if (other != block && other->p && block->p < other->p + other->bytes &&
            other->p < block->p + block->bytes)
            complain("two blocks of a step", "overlap");
    }
    for (size_t i = 0; i < self->wish_count; i++) {
        const struct wish *wish = &self->wishes[i];
        if (wish->p && block->p < wish->p + wish->bytes && wish->p < block->p + block->bytes)
            complain("a block of a step", "overlaps a request");
    }
}

static void do_call(struct walker *self, size_t index, size_t bytes, acre_stream stream) {
    struct block *block = &self->blocks[index];
    if (block->p) {
        work(block->p, block->bytes, stream);
        expect(acre_plan_free(self->plan, block->p), "plan free");
        block->p = NULL;
        return;
    }
    block->bytes = bytes;
    if (!expect(acre_plan_alloc(self->plan, ACRE_PLACE_DEVICE, bytes, 0, (void **)&block->p),
                "plan alloc"))
        return;
    check_block(self, block);
    work(block->p, block->bytes, stream);
}

/* Runs a step. The first one follows the script; later ones sometimes skip calls, request other
 * sizes, or use other blocks. */
static void do_step(struct walker *self, int is_last) {
    uint64_t script = self->script;
    acre_stream stream = stream_draw(self);
    int is_like = !self->has_recorded || random_draw(&self->random, 3) == 0;
    if (!expect(acre_plan_step_begin(self->plan, stream), "step begin"))
        return;
    for (int i = 0; i < CALLS && !world.failures && !is_last; i++) {
        size_t index = (size_t)random_draw(&script, BLOCKS),
               bytes = 256 * (1 + random_draw(&script, 40));
        uint64_t odds = is_like ? 9 : random_draw(&self->random, 20);
        if (odds == 0)
            continue;
        if (odds == 1)
            bytes = 256 * (1 + random_draw(&self->random, 40));
        if (odds == 2)
            index = (size_t)random_draw(&self->random, BLOCKS);
        do_call(self, index, bytes, stream);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        if (self->blocks[i].p && (is_last || is_like || random_draw(&self->random, 10)))
            do_call(self, i, 0, stream);
    self->has_recorded = 1;
    expect(acre_plan_step_end(self->plan), "step end");
}

static void do_steps(struct walker *self) {
    int count = (int)random_draw(&self->random, 6);
    if (!self->has_recorded)
        self->script = random_draw(&self->random, UINT64_MAX);
    for (int i = 0; i < count && !world.failures; i++)
        do_step(self, 0);
    do_step(self, 1);
}

/* ---- threads and worlds ---- */

static void walker_run(void *user) {
    struct walker *self = user;
    for (int i = 0; i < ROUNDS_EACH && !world.failures; i++) {
        do_round(self);
        do_steps(self);
        acre_stream stream = stream_draw(self);
        /* acre_plan_release gets a stream that is ordered after all of the round's work. */
        work_steps(self, stream);
        self->has_recorded = 0;
        expect(acre_plan_release(self->plan, random_draw(&self->random, 4) ? stream : NULL),
               "release");
        self->wish_count = 0;
    }
}

static void walker_begin(struct walker *self, uint64_t seed, unsigned number) {
    *self = (struct walker){.random = seed, .number = number};
    self->is_deferred = random_draw(&self->random, 2) != 0;
    acre_plan_options options = {.struct_size = sizeof options,
                                 .device_bytes = ACRE_PLAN_AS_NEEDED,
                                 .host_bytes = 200000,
                                 .host_kind = ACRE_KIND_PAGEABLE,
                                 .flags = self->is_deferred ? ACRE_PLAN_DEFERRED : 0};
    if (random_draw(&self->random, 3))
        options.device_bytes = 150000 + random_draw(&self->random, 700000);
    assert_int_equal(acre_plan_create(world.device, &options, &self->plan), ACRE_OK);
}

static void walker_end(struct walker *self) {
    acre_plan_stats stats = stats_of(self);
    world.hits += stats.hits;
    world.misses += stats.misses;
    world.waits += stats.waits;
    expect(acre_plan_destroy(self->plan), "destroy");
}

static void world_begin(uint64_t seed) {
    char text[32];
    acre_open_options options = {
        .struct_size = sizeof options, .soft_bytes = (uint64_t)64 << 20, .soft_devices = 1};
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    setenv("ACRE_SOFT_SEED", text, 1);
    assert_int_equal(acre_open("soft", &options, &world.device), ACRE_OK);
    assert_int_equal(acre_pool_default(world.device, ACRE_KIND_DEVICE, &world.pool), ACRE_OK);
    for (int i = 0; i < STREAMS; i++)
        assert_int_equal(
            acre_stream_create(world.device, ACRE_STREAM_NON_BLOCKING, &world.streams[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(acre_event_create(world.device, 0, &world.events[i]), 0);
}

static void world_fail(uint64_t seed) {
    char what[480] = "";
    if (acre__soft_reports(what, sizeof what)) { /* the report says more than its consequences */
        world.failures = 0;
        complain("the clocks", what);
    }
    if (world.failures)
        fail_msg("ACRE_TEST_SEED=%llu: after %llu operations: %s", (unsigned long long)seed,
                 (unsigned long long)world.ops, world.what);
}

/* Expects that no memory is left on the device, and closes it. */
static void world_end(uint64_t seed) {
    acre_device_stats stats = {.struct_size = sizeof stats};
    expect(acre_pool_trim(world.pool, 0), "trim");
    expect(acre_trim(world.device), "trim");
    expect(acre_device_get_stats(world.device, &stats), "stats");
    if (stats.chunks || stats.limbo_count || stats.mem_blocks)
        complain("the end", "memory is left on the device");
    world_fail(seed);
    assert_int_equal(acre_close(world.device), ACRE_OK);
}

static void world_run(uint64_t seed) {
    static struct walker walkers[THREADS];
    world_begin(seed);
    for (uint64_t run = 0; run < RUNS; run++) {
        struct acre__vthread threads[THREADS];
        for (unsigned i = 0; i < THREADS; i++) {
            walker_begin(&walkers[i], (seed << 16) + run * THREADS + i, i);
            threads[i] = (struct acre__vthread){walker_run, &walkers[i]};
        }
        if (acre__sched_run(seed + run, threads, THREADS) != ACRE__SCHED_DONE)
            complain("the threads", "are stuck");
        world_fail(seed);
        for (unsigned i = 0; i < THREADS; i++)
            walker_end(&walkers[i]);
    }
    world_end(seed);
}

static uint64_t number_from(const char *name, uint64_t unset) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : unset;
}

TEST(plans_under_any_schedule_match_the_model) {
    uint64_t seed = number_from("ACRE_TEST_SEED", 1);
    uint64_t ops = number_from("ACRE_TEST_OPS", ROUNDS(300000, 30000));
    print_message("ACRE_TEST_SEED=%llu ACRE_TEST_OPS=%llu\n", (unsigned long long)seed,
                  (unsigned long long)ops);
    while (world.ops < ops)
        world_run(seed++);
    print_message("%llu hits, %llu misses, %llu failed for lack of memory, %llu waits\n",
                  (unsigned long long)world.hits, (unsigned long long)world.misses,
                  (unsigned long long)world.refused, (unsigned long long)world.waits);
    assert_true(world.hits > world.misses && world.misses && world.refused && world.waits);
}

int main(void) {
    return tests_run("plan_model");
}
