/* The seeded mode itself: correct programs get no report and end with the right bytes, a seed
 * repeats its order, different seeds give different orders, and a deadlock is reported as stuck. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/cases.h"
#include "base/atomic.h"
#include "base/lock.h"
#include "base/thread.h"
#include "soft/sched.h"
#include "soft/soft.h"
#include "schedule.h"
#include "support/random.h"

enum { STREAMS = 4, BLOCKS = 6, THREADS = 3, STEPS = 12, BLOCK_BYTES = 4096 };

/* Blocks that threads use on several streams. Each block has the event of its last use and the
 * value that it must hold; a lock per block makes a use atomic. */
struct world {
    const struct acre__driver *drv;
    CUstream streams[STREAMS];
    struct {
        struct acre__lock lock;
        CUdeviceptr at;
        CUevent used;
        unsigned char value;
    } blocks[BLOCKS];
    uint64_t order; /* hash of (thread, block, stream) in their order */
    _Atomic int failures;
};

struct walker {
    struct world *world;
    uint64_t random;
    unsigned number;
};

static void expect(struct world *world, CUresult result) {
    if (result)
        acre__fetch_add(&world->failures, 1, memory_order_relaxed);
}

/* Uses random blocks on random streams, always ordered after the block's last use. */
static void walker_run(void *user) {
    struct walker *self = user;
    struct world *world = self->world;
    const struct acre__driver *drv = world->drv;
    CUcontext ctx;
    expect(world, drv->cuDevicePrimaryCtxRetain(&ctx, 0));
    expect(world, drv->cuCtxSetCurrent(ctx)); /* each virtual thread has its own context stack */
    for (int i = 0; i < STEPS; i++) {
        unsigned block = (unsigned)(random_next(&self->random) % BLOCKS);
        unsigned stream = (unsigned)(random_next(&self->random) % STREAMS);
        unsigned char value = (unsigned char)random_next(&self->random);
        acre__lock_take(&world->blocks[block].lock);
        world->order = world->order * 31 + self->number * 64 + block * 8 + stream;
        expect(world, drv->cuStreamWaitEvent(world->streams[stream], world->blocks[block].used, 0));
        expect(world, drv->cuMemsetD8Async(world->blocks[block].at, value, BLOCK_BYTES,
                                           world->streams[stream]));
        expect(world, drv->cuEventRecord(world->blocks[block].used, world->streams[stream]));
        world->blocks[block].value = value;
        acre__lock_give(&world->blocks[block].lock);
        if (random_next(&self->random) % 4 == 0)
            expect(world, drv->cuStreamSynchronize(world->streams[stream]));
    }
    expect(world, drv->cuDevicePrimaryCtxRelease(0));
}

static void world_begin(struct world *world, uint64_t seed) {
    memset(world, 0, sizeof *world);
    world->drv = schedule_driver_begin(seed, 1);
    for (int i = 0; i < STREAMS; i++)
        assert_int_equal(world->drv->cuStreamCreate(&world->streams[i], CU_STREAM_NON_BLOCKING), 0);
    for (int i = 0; i < BLOCKS; i++) {
        acre__lock_init(&world->blocks[i].lock, "block of the model", ACRE__RANK_REGISTRY);
        assert_int_equal(world->drv->cuMemAlloc(&world->blocks[i].at, BLOCK_BYTES), 0);
        assert_int_equal(world->drv->cuMemsetD8(world->blocks[i].at, 0, BLOCK_BYTES), 0);
        assert_int_equal(world->drv->cuEventCreate(&world->blocks[i].used, 2), 0);
    }
    assert_int_equal(world->drv->cuCtxSynchronize(), 0);
}

/* Expects that every byte of a block holds the last written value. */
static void world_check(struct world *world) {
    unsigned char bytes[BLOCK_BYTES];
    assert_int_equal(world->drv->cuCtxSynchronize(), 0);
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(world->drv->cuMemcpyDtoH(bytes, world->blocks[i].at, BLOCK_BYTES), 0);
        for (int k = 0; k < BLOCK_BYTES; k++)
            assert_int_equal(bytes[k], world->blocks[i].value);
    }
}

static uint64_t world_run(uint64_t seed) {
    struct world world;
    struct walker walkers[THREADS];
    struct acre__vthread threads[THREADS];
    world_begin(&world, seed);
    for (unsigned i = 0; i < THREADS; i++) {
        walkers[i] = (struct walker){&world, 1000 + i, i};
        threads[i] = (struct acre__vthread){walker_run, &walkers[i]};
    }
    assert_int_equal(acre__sched_run(seed, threads, THREADS), ACRE__SCHED_DONE);
    assert_int_equal(atomic_load(&world.failures), 0);
    world_check(&world);
    char what[512] = "";
    if (acre__soft_reports(what, sizeof what))
        fail_msg("seed %llu: a correct program got a report: %s", (unsigned long long)seed, what);
    schedule_driver_end();
    return world.order;
}

TEST(schedules_right_programs_are_not_blamed) {
    uint64_t end, begin = schedule_seeds(200, &end), first = 0, different = 0;
    for (uint64_t seed = begin; seed < end; seed++) {
        uint64_t order = world_run(seed);
        first = seed == begin ? order : first;
        different += order != first;
    }
    /* seeds must change the order */
    assert_true(end - begin < 10 || different > (end - begin) / 2);
}

TEST(schedules_same_seed_gives_same_order) {
    for (uint64_t seed = 1; seed <= 20; seed++)
        assert_true(world_run(seed) == world_run(seed));
}

/* ---- stuck ---- */

/* A pair of locks per seed, since stuck threads keep theirs. */
enum { PAIRS = 200 };
static struct { struct acre__lock a, b; } pairs[PAIRS];
static unsigned pair;

static void take_both(struct acre__lock *first, struct acre__lock *second) {
    acre__lock_take(first);
    acre__sched_point();
    acre__lock_take(second);
    acre__lock_give(second);
    acre__lock_give(first);
}

static void take_a_then_b(void *unused) {
    (void)unused;
    take_both(&pairs[pair].a, &pairs[pair].b);
}

static void take_b_then_a(void *unused) {
    (void)unused;
    take_both(&pairs[pair].b, &pairs[pair].a);
}

TEST(schedules_locks_in_opposite_order_get_stuck) {
#ifdef ACRE_DEBUG
    skip(); /* in debug builds the lock ranks abort before the deadlock */
#endif
    unsigned stuck = 0;
    for (pair = 0; pair < PAIRS; pair++) {
        struct acre__vthread threads[2] = {{take_a_then_b, NULL}, {take_b_then_a, NULL}};
        acre__lock_init(&pairs[pair].a, "a", 1);
        acre__lock_init(&pairs[pair].b, "b", 2);
        stuck += acre__sched_run(pair, threads, 2) == ACRE__SCHED_STUCK;
    }
    assert_in_range(stuck, 1, PAIRS - 1);
}

TEST(schedules_unrecorded_event_is_not_waited_for) {
    const struct acre__driver *drv = schedule_driver_begin(7, 1);
    CUstream one, two;
    CUevent event;
    assert_int_equal(drv->cuStreamCreate(&one, CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(drv->cuStreamCreate(&two, CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(drv->cuEventCreate(&event, 2), 0);
    assert_int_equal(drv->cuStreamWaitEvent(two, event, 0), 0); /* never recorded: a no-op */
    assert_int_equal(drv->cuStreamSynchronize(two), 0);
    schedule_driver_end();
}

/* ---- identity ---- */

static uint64_t identities[2];

static void note_identity(void *user) {
    uint64_t *place = user;
    *place = acre__thread_self()->id;
    for (int i = 0; i < 10; i++) {
        acre__sched_point();
        if (acre__thread_self()->id != *place)
            *place = 0;
    }
}

TEST(schedules_virtual_threads_have_their_own_record) {
    struct acre__vthread threads[2] = {{note_identity, &identities[0]},
                                       {note_identity, &identities[1]}};
    uint64_t own = acre__thread_self()->id;
    assert_int_equal(acre__sched_run(3, threads, 2), ACRE__SCHED_DONE);
    assert_true(identities[0] && identities[1] && identities[0] != identities[1]);
    assert_true(identities[0] != own && identities[1] != own);
    assert_true(acre__thread_self()->id == own);
}

int main(void) {
    return tests_run("schedules");
}
