/* Sparse ranges under many schedules, against a shadow model. Virtual threads commit and decommit
 * pieces of ranges with one small budget on several streams, queue work on pieces that is still
 * pending when they are decommitted, and trim. Whatever the order of streams and threads: every
 * committed piece holds the model's value, the statistics match the model, the budget is never
 * exceeded, and the vector clocks report nothing. acre_range_record_use records work on a stream
 * that no call names; without it the clocks do report. */
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
#include "base/atomic.h"
#include "base/lock.h"
#include "soft/sched.h"
#include "soft/soft.h"
#include "schedule.h"
#include "support/rounds.h"
#include "support/random.h"

enum {
    STREAMS = 3,
    RANGES = 3,
    THREADS = 3,
    STEPS = 24,
    PIECES = 6,    /* of a range: all ranges together need more than the budget */
    LIMIT = 10,    /* pieces */
    TOUCHED = 512, /* bytes of a piece that work touches */
    LAG = 64       /* operations */
};

static const uint64_t piece = 2 << 20;

struct model {
    struct acre__lock lock;
    acre_range *range;
    acre_event used;              /* recorded after the range's last work */
    unsigned char values[PIECES]; /* 0: not committed */
};

struct world {
    acre_device *device;
    acre_range_budget *budget;
    acre_stream streams[STREAMS];
    struct model ranges[RANGES];
    int is_planted; /* planted bug: uses are not recorded */
    int is_ordered; /* a decommit's stream is ordered after all work: no uses are recorded */
    uint64_t order; /* hash of the operations in their order */
    acre_range_stats sum;
    uint64_t refused;
    _Atomic int failures;
    char what[256];
};

struct walker {
    struct world *world;
    uint64_t random;
    unsigned number;
};

static void expect(struct world *world, acre_status status, const char *what) {
    if (status == ACRE_OK)
        return;
    acre__fetch_add(&world->failures, 1, memory_order_relaxed);
    snprintf(world->what, sizeof world->what, "%s: %s", what, acre_last_detail());
}

static char *piece_at(const struct model *model, size_t i) {
    return (char *)acre_range_data(model->range) + i * piece;
}

/* ---- steps; the model's lock is held ---- */

/* Queues work on committed pieces of [from, to). The stream is ordered after their last work. */
static void work(struct walker *self, struct model *model, size_t from, size_t to,
                 acre_stream stream) {
    struct world *world = self->world;
    for (size_t i = from; i < to; i++) {
        if (!model->values[i])
            continue;
        model->values[i] = (unsigned char)(1 + random_draw(&self->random, 255));
        expect(world,
               acre_fill(world->device, piece_at(model, i), model->values[i], TOUCHED, stream),
               "fill");
    }
}

/* At the limit the call may be refused; then nothing may have changed. The stream is not ordered
 * after earlier work: only the commit orders it after the work that used the pieces before. */
static void step_commit(struct walker *self, struct model *model, acre_stream stream) {
    struct world *world = self->world;
    size_t from = random_draw(&self->random, PIECES);
    size_t to = from + 1 + random_draw(&self->random, PIECES - from);
    acre_status status = acre_range_commit(model->range, from * piece, (to - from) * piece, stream);
    if (status == ACRE_E_LIMIT) {
        world->refused++;
        return;
    }
    expect(world, status, "commit");
    for (size_t i = from; i < to; i++) {
        if (model->values[i])
            continue;
        model->values[i] = 1;
        work(self, model, i, i + 1, stream);
    }
}

/* The stream of the decommit is often not the one with the last queued work. */
static void step_decommit(struct walker *self, struct model *model, acre_stream worker,
                          acre_stream stream) {
    size_t from = random_draw(&self->random, PIECES);
    size_t to = from + 1 + random_draw(&self->random, PIECES - from);
    struct world *world = self->world;
    work(self, model, from, to, worker);
    if (world->is_ordered) {
        expect(world, acre_event_record(world->device, model->used, worker), "record");
        expect(world, acre_stream_wait(world->device, stream, model->used), "wait");
    } else if (!world->is_planted) {
        expect(world, acre_range_record_use(model->range, worker), "record use");
    }
    expect(world, acre_range_decommit(model->range, from * piece, (to - from) * piece, stream),
           "decommit");
    memset(model->values + from, 0, to - from);
}

static void walker_step(struct walker *self) {
    struct world *world = self->world;
    struct model *model = &world->ranges[random_draw(&self->random, RANGES)];
    acre_stream stream = world->streams[random_draw(&self->random, STREAMS)];
    acre_stream other = world->streams[random_draw(&self->random, STREAMS)];
    unsigned how = (unsigned)random_draw(&self->random, 8);
    acre__lock_take(&model->lock);
    world->order = world->order * 31 + self->number * 100 + how;
    if (how < 4)
        step_commit(self, model, stream);
    expect(world, acre_stream_wait(world->device, stream, model->used), "wait");
    if (how < 4)
        work(self, model, 0, PIECES, stream);
    else if (how < 7)
        step_decommit(self, model, stream, other);
    else
        work(self, model, 0, PIECES, stream);
    /* Uses on this stream that the next decommit, on any stream, must not overtake. */
    if (!world->is_planted && !world->is_ordered)
        expect(world, acre_range_record_use(model->range, stream), "record use");
    expect(world, acre_event_record(world->device, model->used, stream), "record");
    acre__lock_give(&model->lock);
}

static void walker_run(void *user) {
    struct walker *self = user;
    for (int i = 0; i < STEPS; i++) {
        walker_step(self);
        if (random_draw(&self->random, 16) == 0)
            expect(self->world, acre_trim(self->world->device), "trim");
        if (random_draw(&self->random, 16) == 0)
            expect(self->world, acre_range_budget_trim(self->world->budget, 2 * piece), "trim");
    }
}

/* ---- worlds ---- */

static void world_begin(struct world *world, uint64_t seed, int is_planted) {
    char text[32];
    acre_open_options options = {
        .struct_size = sizeof options, .soft_bytes = (uint64_t)64 << 20, .soft_devices = 1};
    memset(world, 0, sizeof *world);
    world->is_planted = is_planted;
    world->is_ordered = !is_planted && seed % 4 < 2;
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    setenv("ACRE_SOFT_SEED", text, 1);
    assert_int_equal(acre_open("soft", &options, &world->device), ACRE_OK);
    /* Every other world lags behind, so that work is often pending when its pieces are reused. */
    assert_int_equal(acre_soft_set_lag(world->device, seed % 2 ? 0 : LAG, 0), ACRE_OK);
    assert_int_equal(acre_range_budget_create(world->device, LIMIT * piece, &world->budget), 0);
    for (int i = 0; i < STREAMS; i++)
        assert_int_equal(
            acre_stream_create(world->device, ACRE_STREAM_NON_BLOCKING, &world->streams[i]), 0);
    for (int i = 0; i < RANGES; i++) {
        acre_range_options in = {.struct_size = sizeof in, .budget = world->budget};
        acre__lock_init(&world->ranges[i].lock, "range of the model", 1 + i);
        assert_int_equal(
            acre_range_create(world->device, PIECES * piece, &in, &world->ranges[i].range), 0);
        assert_int_equal(acre_event_create(world->device, 0, &world->ranges[i].used), 0);
    }
}

static void check_pieces(struct world *world, const struct model *model, uint64_t seed) {
    unsigned char found[TOUCHED];
    uint64_t committed = 0;
    acre_range_stats stats = {.struct_size = sizeof stats};
    for (size_t i = 0; i < PIECES; i++) {
        if (!model->values[i])
            continue;
        committed += piece;
        assert_int_equal(acre_copy_sync(world->device, found, piece_at(model, i), TOUCHED), 0);
        if (found[0] != model->values[i] || memcmp(found, found + 1, TOUCHED - 1) != 0)
            fail_msg("ACRE_TEST_SEED=%llu: piece %zu holds %u instead of %u",
                     (unsigned long long)seed, i, found[0], model->values[i]);
    }
    assert_int_equal(acre_range_get_stats(model->range, &stats), 0);
    assert_int_equal(stats.committed_bytes, committed);
}

static void world_check(struct world *world, uint64_t seed) {
    char what[512] = "";
    acre_range_stats *sum = &world->sum;
    assert_int_equal(acre_device_sync(world->device), 0);
    for (int i = 0; i < RANGES; i++)
        check_pieces(world, &world->ranges[i], seed);
    sum->struct_size = sizeof *sum;
    assert_int_equal(acre_range_budget_get_stats(world->budget, sum), 0);
    assert_true(sum->peak_bytes <= LIMIT * piece);
    for (int i = 0; i < RANGES; i++)
        assert_int_equal(acre_range_destroy(world->ranges[i].range, world->streams[i]), 0);
    assert_int_equal(acre_range_budget_destroy(world->budget), 0);
    assert_int_equal(acre_trim(world->device), 0);
    if (acre__soft_reports(what, sizeof what))
        fail_msg("ACRE_TEST_SEED=%llu: %s", (unsigned long long)seed, what);
    acre_device_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(acre_device_get_stats(world->device, &stats), 0);
    assert_int_equal(stats.ranges + stats.chunks + stats.limbo_count + stats.driver_refusals, 0);
}

/* Runs the walkers and leaves the world open. */
static void world_walk(struct world *world, uint64_t seed, int is_planted) {
    struct walker walkers[THREADS];
    struct acre__vthread threads[THREADS];
    world_begin(world, seed, is_planted);
    for (unsigned i = 0; i < THREADS; i++) {
        walkers[i] = (struct walker){.world = world, .random = 1000 * seed + i, .number = i};
        threads[i] = (struct acre__vthread){walker_run, &walkers[i]};
    }
    assert_int_equal(acre__sched_run(seed, threads, THREADS), ACRE__SCHED_DONE);
}

static void world_end(struct world *world) {
    for (int i = 0; i < RANGES; i++)
        acre__lock_destroy(&world->ranges[i].lock);
    assert_int_equal(acre_close(world->device), 0);
    unsetenv("ACRE_SOFT_SEED");
}

static uint64_t world_run(uint64_t seed, struct world *world) {
    world_walk(world, seed, 0);
    if (atomic_load(&world->failures))
        fail_msg("ACRE_TEST_SEED=%llu: %s", (unsigned long long)seed, world->what);
    world_check(world, seed);
    world_end(world);
    return world->order;
}

TEST(ranges_under_any_schedule_match_the_model) {
    uint64_t end, begin = schedule_seeds(ROUNDS(300, 100), &end);
    acre_range_stats sum = {0};
    uint64_t refused = 0;
    for (uint64_t seed = begin; seed < end; seed++) {
        struct world world;
        (void)world_run(seed, &world);
        sum.pieces_reused += world.sum.pieces_reused;
        sum.pieces_moved += world.sum.pieces_moved;
        sum.pieces_trimmed += world.sum.pieces_trimmed;
        sum.stream_waits += world.sum.stream_waits;
        sum.host_waits += world.sum.host_waits;
        refused += world.refused;
    }
    if (end - begin == 1)
        return;
    print_message("%llu reused, %llu moved, %llu trimmed, %llu stream waits, %llu host waits, %llu "
                  "refused\n",
                  (unsigned long long)sum.pieces_reused, (unsigned long long)sum.pieces_moved,
                  (unsigned long long)sum.pieces_trimmed, (unsigned long long)sum.stream_waits,
                  (unsigned long long)sum.host_waits, (unsigned long long)refused);
    assert_true(sum.pieces_reused && sum.pieces_moved && sum.pieces_trimmed && sum.stream_waits &&
                sum.host_waits && refused);
}

TEST(ranges_with_the_same_seed_change_in_the_same_order) {
    struct world world;
    for (uint64_t seed = 1; seed <= 5; seed++)
        assert_true(world_run(seed, &world) == world_run(seed, &world));
    assert_true(world_run(1, &world) != world_run(2, &world));
}

/* The planted bug: unrecorded work is still queued when its memory is reused. */
TEST(ranges_whose_uses_are_not_recorded_are_found) {
    size_t found = 0;
    for (uint64_t seed = 1; seed <= 50 && !found; seed++) {
        struct world world;
        char what[512] = "";
        world_walk(&world, seed, 1);
        found = acre__soft_reports(what, sizeof what);
        if (found)
            print_message("found with seed %llu: %s\n", (unsigned long long)seed, what);
        world_end(&world);
    }
    assert_true(found > 0);
}

int main(void) {
    return tests_run("sparse_model");
}
