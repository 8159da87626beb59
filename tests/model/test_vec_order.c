/* Vecs under many schedules. Virtual threads grow, shrink, move and append to vecs on several
 * streams, and queue work on elements that is still pending when memory is released or the vec
 * moves. Whatever the order of streams and threads, every element holds the model's value, and the
 * vector clocks report nothing. acre_vec_record_use records work on a stream that no call names;
 * without it the clocks do report. */
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
    VECS = 3,
    THREADS = 3,
    STEPS = 16,
    ELEMENT = 512 << 10, /* four elements fill a chunk */
    TOUCHED = 512,       /* bytes of an element that work touches */
    MOST = 12            /* elements of a vec: all of them fit into the device */
};

struct model {
    struct acre__lock lock;
    acre_vec *vec;
    acre_event used; /* recorded after the vec's last work */
    size_t count;
    unsigned char values[MOST];
};

struct world {
    acre_device *device;
    acre_stream streams[STREAMS];
    struct model vecs[VECS];
    int is_planted; /* planted bug: uses are not recorded */
    uint64_t order; /* hash of the operations in their order */
    uint64_t moves;
    _Atomic int failures;
    char what[256];
};

struct walker {
    struct world *world;
    uint64_t random;
    unsigned number;
};

static unsigned char *pages[THREADS]; /* an element in pageable memory, for each thread */

static void expect(struct world *world, acre_status status, const char *what) {
    if (status == ACRE_OK)
        return;
    acre__fetch_add(&world->failures, 1, memory_order_relaxed);
    snprintf(world->what, sizeof world->what, "%s: %s", what, acre_last_detail());
}

static char *element(const struct model *model, size_t i) {
    return (char *)acre_vec_data(model->vec) + i * ELEMENT;
}

/* ---- steps; the model's lock is held, and the stream is ordered after the vec's last work ---- */

/* Queues work on elements and records the use. */
static void work(struct walker *self, struct model *model, size_t from, size_t to,
                 acre_stream stream) {
    struct world *world = self->world;
    for (size_t i = from; i < to; i++) {
        model->values[i] = (unsigned char)(1 + random_draw(&self->random, 254));
        expect(world,
               acre_fill(world->device, element(model, i), model->values[i], TOUCHED, stream),
               "fill");
    }
    if (!world->is_planted)
        expect(world, acre_vec_record_use(model->vec, stream), "record use");
}

static void step_grow(struct walker *self, struct model *model, acre_stream stream) {
    size_t more = 1 + random_draw(&self->random, MOST - model->count), before = model->count;
    acre_status status = random_draw(&self->random, 2)
                             ? acre_vec_grow(model->vec, more, stream)
                             : acre_vec_resize(model->vec, before + more, stream);
    expect(self->world, status, "grow");
    model->count += more;
    work(self, model, before, model->count, stream);
}

static void step_append(struct walker *self, struct model *model, acre_stream stream) {
    unsigned char value = (unsigned char)(1 + random_draw(&self->random, 254));
    unsigned char *page = pages[self->number];
    memset(page, value, ELEMENT);
    expect(self->world, acre_vec_append(model->vec, page, 1, stream), "append");
    memset(page, 0, ELEMENT); /* acre_vec_append has read it */
    model->values[model->count++] = value;
}

/* The stream is often not the one with the last queued work. */
static void step_shrink(struct walker *self, struct model *model, acre_stream stream) {
    size_t less = 1 + random_draw(&self->random, model->count);
    expect(self->world, acre_vec_shrink(model->vec, less, stream), "shrink");
    model->count -= less;
}

static void step_reserve(struct walker *self, struct model *model, acre_stream stream) {
    size_t more = 1 + random_draw(&self->random, 8);
    expect(self->world, acre_vec_reserve(model->vec, acre_vec_capacity(model->vec) + more, stream),
           "reserve");
}

static void walker_step(struct walker *self) {
    struct world *world = self->world;
    struct model *model = &world->vecs[random_draw(&self->random, VECS)];
    acre_stream stream = world->streams[random_draw(&self->random, STREAMS)];
    acre_stream other = world->streams[random_draw(&self->random, STREAMS)];
    unsigned how = (unsigned)random_draw(&self->random, 8);
    acre__lock_take(&model->lock);
    world->order = world->order * 31 + self->number * 100 + how;
    expect(world, acre_stream_wait(world->device, stream, model->used), "wait");
    if (how < 2 && model->count < MOST)
        step_grow(self, model, stream);
    else if (how == 2 && model->count < MOST)
        step_append(self, model, stream);
    else if (how == 3 && model->count)
        step_shrink(self, model, other);
    else if (how == 4 && acre_vec_capacity(model->vec) < 64)
        step_reserve(self, model, other);
    else if (how == 5)
        expect(world, acre_vec_shrink_to_fit(model->vec, other), "fit");
    else if (model->count)
        work(self, model, random_draw(&self->random, model->count), model->count, stream);
    expect(world, acre_event_record(world->device, model->used, stream), "record");
    acre__lock_give(&model->lock);
}

static void walker_run(void *user) {
    struct walker *self = user;
    for (int i = 0; i < STEPS; i++) {
        walker_step(self);
        if (random_draw(&self->random, 12) == 0)
            expect(self->world, acre_trim(self->world->device), "trim");
    }
}

/* ---- worlds ---- */

static void world_begin(struct world *world, uint64_t seed, int is_planted) {
    char text[32];
    acre_open_options options = {
        .struct_size = sizeof options, .soft_bytes = (uint64_t)64 << 20, .soft_devices = 1};
    acre_vec_options small = {.struct_size = sizeof small, .address_bytes = (uint64_t)2 << 20};
    memset(world, 0, sizeof *world);
    world->is_planted = is_planted;
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    setenv("ACRE_SOFT_SEED", text, 1);
    assert_int_equal(acre_open("soft", &options, &world->device), ACRE_OK);
    for (int i = 0; i < STREAMS; i++)
        assert_int_equal(
            acre_stream_create(world->device, ACRE_STREAM_NON_BLOCKING, &world->streams[i]), 0);
    for (int i = 0; i < VECS; i++) {
        acre__lock_init(&world->vecs[i].lock, "vec of the model", 1 + i);
        assert_int_equal(acre_vec_create(world->device, ELEMENT, &small, &world->vecs[i].vec), 0);
        assert_int_equal(acre_event_create(world->device, 0, &world->vecs[i].used), 0);
    }
}

static void check_elements(struct world *world, const struct model *model, uint64_t seed) {
    unsigned char found[TOUCHED];
    assert_int_equal(acre_vec_size(model->vec), model->count);
    for (size_t i = 0; i < model->count; i++) {
        assert_int_equal(acre_copy_sync(world->device, found, element(model, i), TOUCHED), 0);
        if (found[0] != model->values[i] || memcmp(found, found + 1, TOUCHED - 1) != 0)
            fail_msg("ACRE_TEST_SEED=%llu: element %zu does not hold %u", (unsigned long long)seed,
                     i, model->values[i]);
    }
}

static void world_check(struct world *world, uint64_t seed) {
    char what[512] = "";
    assert_int_equal(acre_device_sync(world->device), 0);
    for (int i = 0; i < VECS; i++) {
        acre_vec_info info = {.struct_size = sizeof info};
        check_elements(world, &world->vecs[i], seed);
        assert_int_equal(acre_vec_get_info(world->vecs[i].vec, &info), 0);
        assert_int_equal(info.copied_bytes, 0);
        world->moves += info.moves;
        assert_int_equal(acre_vec_destroy(world->vecs[i].vec, world->streams[0]), 0);
    }
    assert_int_equal(acre_trim(world->device), 0);
    if (acre__soft_reports(what, sizeof what))
        fail_msg("ACRE_TEST_SEED=%llu: %s", (unsigned long long)seed, what);
    acre_device_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(acre_device_get_stats(world->device, &stats), 0);
    assert_int_equal(stats.vecs + stats.chunks + stats.limbo_count + stats.driver_refusals, 0);
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
    assert_int_equal(acre_close(world->device), ACRE_OK);
    for (int i = 0; i < VECS; i++)
        acre__lock_destroy(&world->vecs[i].lock);
}

static uint64_t world_run(uint64_t seed, uint64_t *moves) {
    struct world world;
    world_walk(&world, seed, 0);
    if (atomic_load(&world.failures))
        fail_msg("ACRE_TEST_SEED=%llu: %s", (unsigned long long)seed, world.what);
    world_check(&world, seed);
    world_end(&world);
    *moves += world.moves;
    return world.order;
}

TEST(vecs_under_any_schedule_match_the_model) {
    uint64_t end, begin = schedule_seeds(ROUNDS(300, 100), &end), moves = 0;
    for (uint64_t seed = begin; seed < end; seed++)
        (void)world_run(seed, &moves);
    assert_true(moves || end - begin == 1);
}

TEST(vecs_with_the_same_seed_change_in_the_same_order) {
    uint64_t moves = 0;
    for (uint64_t seed = 1; seed <= 5; seed++)
        assert_true(world_run(seed, &moves) == world_run(seed, &moves));
    assert_true(world_run(1, &moves) != world_run(2, &moves));
}

/* The planted bug: unrecorded work is still queued when its memory is released. */
TEST(vecs_whose_uses_are_not_recorded_are_found) {
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
    for (int i = 0; i < THREADS; i++)
        if (!(pages[i] = malloc(ELEMENT)))
            return 1;
    int failed = tests_run("vec_order");
    for (int i = 0; i < THREADS; i++)
        free(pages[i]);
    return failed;
}
