/* Copies and fills under many schedules. Virtual threads move values between device, pinned and
 * managed blocks and pageable memory on several streams, each use ordered after the block's last
 * one. Whatever the order of streams and threads, every block holds the model's value, and the
 * vector clocks report nothing. Pageable memory may change as soon as a copy from it returns.
 *
 * All pageable copies are staged, however small, so that the staging buffers and events are reused
 * many times. acre_trim releases them in between. */
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
#include "driver/driver_fault.h"
#include "soft/sched.h"
#include "soft/soft.h"
#include "schedule.h"
#include "support/rounds.h"
#include "support/random.h"

enum { STREAMS = 3, BLOCKS = 6, THREADS = 3, STEPS = 14, BLOCK_BYTES = 4096 };

static const acre_kind block_kinds[BLOCKS] = {ACRE_KIND_DEVICE, ACRE_KIND_DEVICE,
                                              ACRE_KIND_DEVICE, ACRE_KIND_PINNED,
                                              ACRE_KIND_MAPPED, ACRE_KIND_MANAGED};

struct world {
    acre_device *device;
    acre_stream streams[STREAMS];
    struct {
        struct acre__lock lock; /* locked in the order of blocks */
        void *at;
        acre_event used;
        unsigned char value;
    } blocks[BLOCKS];
    uint64_t order; /* hash of the operations in their order */
    _Atomic int failures;
    char what[256];
};

struct walker {
    struct world *world;
    uint64_t random;
    unsigned number;
    unsigned char page[BLOCK_BYTES];
};

static void expect(struct world *world, acre_status status, const char *what) {
    if (status == ACRE_OK)
        return;
    acre__fetch_add(&world->failures, 1, memory_order_relaxed);
    snprintf(world->what, sizeof world->what, "%s: %s", what, acre_last_detail());
}

static int is_all(const unsigned char *at, unsigned char value) {
    return at[0] == value && memcmp(at, at + 1, BLOCK_BYTES - 1) == 0;
}

static void behind(struct world *world, unsigned block, acre_stream stream) {
    expect(world, acre_stream_wait(world->device, stream, world->blocks[block].used), "wait");
}

static void used(struct world *world, unsigned block, acre_stream stream) {
    expect(world, acre_event_record(world->device, world->blocks[block].used, stream), "record");
}

static void fill_one(struct walker *self, unsigned to, acre_stream stream, unsigned char value) {
    struct world *world = self->world;
    expect(world, acre_fill(world->device, world->blocks[to].at, value, BLOCK_BYTES, stream),
           "fill");
    world->blocks[to].value = value;
}

/* acre_copy has read the page when it returns: the page may change at once. */
static void copy_in(struct walker *self, unsigned to, acre_stream stream, unsigned char value) {
    struct world *world = self->world;
    memset(self->page, value, BLOCK_BYTES);
    expect(world, acre_copy(world->device, world->blocks[to].at, self->page, BLOCK_BYTES, stream),
           "copy in");
    memset(self->page, 0xff, BLOCK_BYTES);
    world->blocks[to].value = value;
}

/* acre_copy has written the page when it returns. */
static void copy_out(struct walker *self, unsigned from, acre_stream stream) {
    struct world *world = self->world;
    memset(self->page, 0xff, BLOCK_BYTES);
    expect(world, acre_copy(world->device, self->page, world->blocks[from].at, BLOCK_BYTES, stream),
           "copy out");
    if (!is_all(self->page, world->blocks[from].value))
        expect(world, ACRE_E_INVALID, "the copied bytes differ from the model");
}

/* Copies the block as one piece or as rows. */
static void copy_across(struct walker *self, unsigned to, unsigned from, acre_stream stream) {
    struct world *world = self->world;
    void *target = world->blocks[to].at, *source = world->blocks[from].at;
    if (random_next(&self->random) % 2)
        expect(world, acre_copy(world->device, target, source, BLOCK_BYTES, stream), "across");
    else
        for (size_t half = 0; half < 2; half++)
            expect(world,
                   acre_copy_2d(world->device, (char *)target + half * 32, 64,
                                (char *)source + half * 32, 64, 32, BLOCK_BYTES / 64, stream),
                   "rows across");
    world->blocks[to].value = world->blocks[from].value;
}

static void walker_step(struct walker *self) {
    struct world *world = self->world;
    unsigned a = (unsigned)(random_next(&self->random) % BLOCKS);
    unsigned b = (unsigned)((a + 1 + random_next(&self->random) % (BLOCKS - 1)) % BLOCKS);
    unsigned low = a < b ? a : b, high = a < b ? b : a;
    acre_stream stream = world->streams[random_next(&self->random) % STREAMS];
    unsigned char value = (unsigned char)(random_next(&self->random) % 255);
    unsigned how = (unsigned)(random_next(&self->random) % 5);
    acre__lock_take(&world->blocks[low].lock);
    acre__lock_take(&world->blocks[high].lock);
    world->order = world->order * 31 + self->number * 1000 + a * 100 + b * 10 + how;
    behind(world, a, stream);
    behind(world, b, stream);
    if (how == 0)
        fill_one(self, a, stream, value);
    else if (how == 1)
        copy_across(self, a, b, stream);
    else if (how == 2)
        copy_out(self, a, stream);
    else
        copy_in(self, a, stream, value);
    used(world, a, stream);
    used(world, b, stream);
    acre__lock_give(&world->blocks[high].lock);
    acre__lock_give(&world->blocks[low].lock);
}

static void walker_run(void *user) {
    struct walker *self = user;
    struct world *world = self->world;
    for (int i = 0; i < STEPS; i++) {
        walker_step(self);
        if (random_next(&self->random) % 16 == 0)
            expect(world, acre_trim(world->device), "trim");
        if (random_next(&self->random) % 8 == 0)
            expect(world, acre_stream_sync(world->device, world->streams[0]), "sync");
    }
}

static void world_begin(struct world *world, uint64_t seed) {
    char text[32];
    acre_open_options options = {
        .struct_size = sizeof options, .soft_bytes = (uint64_t)64 << 20, .soft_devices = 1};
    memset(world, 0, sizeof *world);
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    setenv("ACRE_SOFT_SEED", text, 1);
    assert_int_equal(acre_open("soft", &options, &world->device), ACRE_OK);
    for (int i = 0; i < STREAMS; i++)
        assert_int_equal(
            acre_stream_create(world->device, ACRE_STREAM_NON_BLOCKING, &world->streams[i]), 0);
    for (int i = 0; i < BLOCKS; i++) {
        /* Ranks below all ranks of the library, in rising order. */
        acre__lock_init(&world->blocks[i].lock, "block of the model", 1 + i);
        assert_int_equal(
            acre_mem_alloc(world->device, block_kinds[i], BLOCK_BYTES, 0, &world->blocks[i].at), 0);
        assert_int_equal(acre_fill_sync(world->device, world->blocks[i].at, 0, BLOCK_BYTES), 0);
        assert_int_equal(acre_event_create(world->device, 0, &world->blocks[i].used), 0);
    }
    assert_int_equal(acre_device_sync(world->device), 0);
}

static void world_check(struct world *world, uint64_t seed) {
    unsigned char page[BLOCK_BYTES];
    char what[512] = "";
    assert_int_equal(acre_device_sync(world->device), 0);
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(acre_copy_sync(world->device, page, world->blocks[i].at, BLOCK_BYTES), 0);
        if (!is_all(page, world->blocks[i].value))
            fail_msg("ACRE_TEST_SEED=%llu: block %d does not hold %u", (unsigned long long)seed, i,
                     world->blocks[i].value);
        assert_int_equal(acre_mem_free(world->device, world->blocks[i].at), 0);
    }
    if (acre__soft_reports(what, sizeof what))
        fail_msg("ACRE_TEST_SEED=%llu: %s", (unsigned long long)seed, what);
    acre_device_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(acre_device_get_stats(world->device, &stats), 0);
    assert_int_equal(stats.mem_blocks + stats.limbo_count + stats.driver_refusals, 0);
    assert_true(stats.copies_staged > 0);
}

static uint64_t world_run(uint64_t seed) {
    static struct walker walkers[THREADS];
    struct world world;
    struct acre__vthread threads[THREADS];
    world_begin(&world, seed);
    for (unsigned i = 0; i < THREADS; i++) {
        walkers[i] = (struct walker){.world = &world, .random = 1000 * seed + i, .number = i};
        threads[i] = (struct acre__vthread){walker_run, &walkers[i]};
    }
    assert_int_equal(acre__sched_run(seed, threads, THREADS), ACRE__SCHED_DONE);
    if (atomic_load(&world.failures))
        fail_msg("ACRE_TEST_SEED=%llu: %s", (unsigned long long)seed, world.what);
    world_check(&world, seed);
    assert_int_equal(acre_close(world.device), ACRE_OK);
    for (int i = 0; i < BLOCKS; i++)
        acre__lock_destroy(&world.blocks[i].lock);
    return world.order;
}

TEST(copies_under_any_schedule_match_the_model) {
    uint64_t end, begin = schedule_seeds(ROUNDS(200, 70), &end);
    for (uint64_t seed = begin; seed < end; seed++)
        (void)world_run(seed);
}

TEST(copies_with_the_same_seed_happen_in_the_same_order) {
    for (uint64_t seed = 1; seed <= 5; seed++)
        assert_true(world_run(seed) == world_run(seed));
    assert_true(world_run(1) != world_run(2));
}

/* A staged copy that fails half-way leaves no work in flight, so the program may use the memory at
 * once. */
TEST(copies_that_fail_leave_nothing_under_way) {
    static unsigned char page[1 << 20];
    const struct {
        const char *entry;
        uint32_t nth;
    } faults[] = {{"cuMemcpyAsync", 3},
                  {"cuMemcpyAsync", 4},
                  {"cuEventRecord", 2},
                  {"cuEventSynchronize", 3},
                  {"cuStreamWaitEvent", 1}};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
            struct world world;
            void *block = NULL;
            char what[512] = "";
            world_begin(&world, seed);
            assert_int_equal(acre_mem_alloc(world.device, ACRE_KIND_DEVICE, sizeof page, 0, &block),
                             0);
            struct acre__fault_plan plan = {faults[i].entry, faults[i].nth, CUDA_ERROR_UNKNOWN,
                                            ACRE__FAULT_ONCE};
            assert_int_equal(acre__fault_set(&plan), ACRE_OK);
            assert_int_equal(acre_copy(world.device, block, page, sizeof page, world.streams[0]),
                             ACRE_E_DRIVER);
            assert_int_equal(acre__fault_set(NULL), ACRE_OK);
            assert_int_equal(acre_fill(world.device, block, 7, sizeof page, world.streams[1]), 0);
            memset(page, 1, sizeof page);
            assert_int_equal(acre_copy(world.device, page, block, sizeof page, world.streams[1]),
                             0);
            assert_true(page[0] == 7 && memcmp(page, page + 1, sizeof page - 1) == 0);
            if (acre__soft_reports(what, sizeof what))
                fail_msg("seed %llu: %s", (unsigned long long)seed, what);
            assert_int_equal(acre_close(world.device), ACRE_OK);
        }
    }
}

int main(void) {
    setenv("ACRE_COPY_STAGE_BYTES", "0", 1);
    setenv("ACRE_FAULT", "*:0", 1); /* installs the fault wrapper without a fault */
    return tests_run("copy_order");
}
