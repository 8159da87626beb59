/* Pools compared with a shadow model. Virtual threads allocate, free, resize and pass on blocks on
 * several streams, while streams are destroyed and created and other threads trim. Each block is
 * written in stream order after its allocation and before its free, so that the vector clocks of
 * the soft driver report memory that is reused without order. The model records the live blocks:
 * none may overlap another, and a walk must find exactly those. After each run the threads end with
 * full caches.
 *
 * The seed of a world determines its shape, lag and manners. The shape sets the sizes: all sizes,
 * few small ones, so that slabs of one class replace those of another, or few large ones, so that
 * chunks move. The lag is the distance of the device behind the host; it also changes during a run.
 * Without manners the program does not retire the driver's streams before it destroys them, and the
 * next stream, of the driver or of acre, reuses the handle at once.
 *
 * ACRE_TEST_OPS sets the number of operations, ACRE_TEST_SEED the first seed. The same seed gives
 * the same operations in the same order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/cases.h"
#include "acre.h"
#include "acre_soft.h"
#include "device/device.h"
#include "driver/driver.h"
#include "soft/sched.h"
#include "soft/soft.h"
#include "pool/pool.h"
#include "support/rounds.h"
#include "support/random.h"

enum {
    POOLS = 2,
    STREAMS = 5,
    OF_DRIVER = 3,  /* the driver creates this stream, not acre; without manners stream 2 too */
    PER_THREAD = 4, /* one handle, but another stream in each thread */
    THREADS = 3,
    BLOCKS = 160, /* most live blocks */
    STEPS = 200,  /* steps of a thread in one run */
    RUNS = 10,    /* runs in one world; then a new world begins */
    MANY = 6,
    EDGE = 256,     /* bytes written at either end of a block */
    GONE = 8,       /* number of freed addresses to remember */
    UNIT = 2 << 20, /* unit of chunks */
    SIZES = 4,      /* sizes of a world with few */
    TIDE = 512      /* operations until a world with few sizes turns from allocs to frees */
};

enum shape { ALL_SIZES, FEW_SMALL, FEW_LARGE, SHAPES };

/* A thread marks an entry HELD while it works on it, which keeps others away. Threads cannot switch
 * between finding an entry and marking it. */
enum hold { FREE, LIVE, HELD };

struct block {
    enum hold hold;
    int pool;
    char *p;
    size_t bytes;     /* usable bytes */
    acre_event used;  /* recorded after its last work, except work recorded with the pool */
    int is_used_else; /* the pool has recorded work that `used` does not cover */
};

struct stream {
    acre_stream handle;
    int users; /* threads in an operation on it */
    int is_ending;
    void *scratch; /* memory for work that only delays the stream */
};

static struct {
    acre_device *device;
    const struct acre__driver *drv;
    CUcontext context;
    acre_pool *pools[POOLS];
    struct stream streams[STREAMS];
    struct block blocks[BLOCKS];
    struct {
        int pool;
        char *p;
    } gone[GONE];
    unsigned gone_at;
    uint64_t ops, order; /* operations so far, and a hash of their order */
    uint64_t allocs, refused;
    enum shape shape;
    size_t sizes[SIZES]; /* sizes of a world with few */
    size_t block_count;  /* most live blocks in this world */
    int has_manners;     /* the driver's streams are retired before their end */
    int failures;
    char what[512];
} world;

struct walker {
    uint64_t random;
    unsigned number;
};

static void complain(const char *what, const char *detail) {
    if (!world.failures++)
        snprintf(world.what, sizeof world.what, "%s: %s", what, detail);
}

static int expect(acre_status status, const char *what) {
    if (status)
        complain(what, acre_last_detail());
    return status == ACRE_OK;
}

/* ---- the model ---- */

static struct block *block_draw(struct walker *self, enum hold hold) {
    size_t first = (size_t)random_draw(&self->random, world.block_count);
    for (size_t i = 0; i < world.block_count; i++) {
        struct block *block = &world.blocks[(first + i) % world.block_count];
        if (block->hold == hold) {
            block->hold = HELD;
            return block;
        }
    }
    return NULL;
}

static struct stream *stream_draw(struct walker *self) {
    /* With few sizes each thread prefers one stream for a while, so that slabs belong to one
     * stream. */
    int is_drawn = world.shape == ALL_SIZES || random_draw(&self->random, 3) == 0;
    struct stream *stream =
        &world.streams[is_drawn ? random_draw(&self->random, STREAMS)
                                : (self->number + world.ops / TIDE / 2) % STREAMS];
    for (int i = 0; stream->is_ending; i++)
        stream = &world.streams[i]; /* at most two streams end at once */
    stream->users++;
    return stream;
}

/* Records an allocated block and checks it: no overlap, alignment, size, ownership. */
static void block_begin(struct block *block, int pool, void *p, size_t bytes, size_t alignment) {
    char *at = p;
    acre_pool *of = world.pools[pool];
    size_t has = acre_pool_usable_size(of, p);
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct block *other = &world.blocks[i];
        if (other->p && at < other->p + other->bytes && other->p < at + has)
            complain("memory was allocated twice", other->p == at ? "same address" : "overlap");
    }
    if ((uintptr_t)at % (alignment ? alignment : 256))
        complain("alloc", "the block is not aligned");
    if (has < bytes)
        complain("alloc", "the block is too small");
    if (world.ops % 4 == 0 && (!acre_pool_owns(of, at) || !acre_pool_owns(of, at + bytes - 1)))
        complain("owns", "the pool does not know a live block");
    *block = (struct block){HELD, pool, at, has, block->used, 0};
}

/* Removes the block from the model. Call this before the free, since another thread may get the
 * memory at once. */
static char *block_end(struct block *block) {
    char *p = block->p;
    block->p = NULL;
    return p;
}

static void block_gone(int pool, char *p) {
    world.gone[world.gone_at++ % GONE].p = p;
    world.gone[(world.gone_at - 1) % GONE].pool = pool;
}

/* ---- work ---- */

static void driver_expect(CUresult code, const char *what) {
    if (code)
        complain(what, acre__driver_error_name(code));
}

/* Uses the driver directly, since only the pool is under test. The context is current in each
 * thread. */
static void fill(void *p, size_t bytes, acre_stream stream) {
    driver_expect(world.drv->cuMemsetD8Async((CUdeviceptr)(uintptr_t)p, 1, bytes, stream), "fill");
}

static void wait_for(acre_event event, acre_stream stream) {
    driver_expect(world.drv->cuStreamWaitEvent(stream, event, 0), "wait");
}

static void record(acre_event event, acre_stream stream) {
    driver_expect(world.drv->cuEventRecord(event, stream), "record");
}

/* Writes the start of a block and sometimes its end, so that blocks of other sizes at the same
 * address conflict with it. With few small sizes it writes all of the block, with few large ones
 * also where chunks may begin. */
static void touch(const struct block *block, acre_stream stream) {
    size_t edge = block->bytes < 2 * EDGE ? block->bytes : EDGE;
    if (world.shape == FEW_SMALL)
        edge = block->bytes;
    fill(block->p, edge, stream);
    if (edge < block->bytes && world.ops % 4 == 0)
        fill(block->p + block->bytes - EDGE, EDGE, stream);
    if (world.shape != FEW_LARGE)
        return;
    uintptr_t at = ((uintptr_t)block->p + EDGE + UNIT - 1) / UNIT * UNIT;
    for (; at + EDGE <= (uintptr_t)block->p + block->bytes; at += UNIT)
        fill((void *)at, EDGE, stream);
}

/* Queues work on a block, ordered after its last work. */
static void work(struct block *block, acre_stream stream) {
    wait_for(block->used, stream);
    fill(block->p, block->bytes < EDGE ? block->bytes : EDGE, stream);
}

static void work_new(struct block *block, acre_stream stream) {
    touch(block, stream);
    record(block->used, stream);
}

/* ---- operations ---- */

static size_t draw_bytes(struct walker *self) {
    if (world.shape != ALL_SIZES)
        return world.sizes[random_draw(&self->random, SIZES)];
    unsigned shift = (unsigned)random_draw(&self->random, 40);
    shift = shift < 29 ? shift % 8 : shift < 36 ? shift % 6 + 8 : 14; /* seldom up to 4 MiB */
    return 1 + (size_t)random_draw(&self->random, (size_t)256 << shift);
}

static size_t draw_alignment(struct walker *self) {
    unsigned how = (unsigned)random_draw(&self->random, 64);
    if (how > 6)
        return 0;
    return how < 6 ? (size_t)1 << (4 + 2 * how) : (size_t)1 << (20 + random_draw(&self->random, 3));
}

/* Returns 1 if the allocation succeeded. Out of memory is allowed: the device is small. */
static int alloced(acre_status status) {
    world.allocs++;
    world.refused += status == ACRE_E_DEVICE_MEMORY;
    if (status == ACRE_E_DEVICE_MEMORY)
        return 0;
    return expect(status, "alloc");
}

static void do_alloc(struct walker *self, struct stream *stream) {
    struct block *block = block_draw(self, FREE);
    void *p = NULL;
    int pool = (int)random_draw(&self->random, POOLS);
    size_t bytes = draw_bytes(self), alignment = draw_alignment(self);
    unsigned how = (unsigned)random_draw(&self->random, 8);
    if (!block)
        return;
    acre_status status =
        how == 0 ? acre_pool_alloc_zeroed(world.pools[pool], bytes, alignment, stream->handle, &p)
        : how == 1 && pool == 0
            ? acre_alloc(world.device, bytes, stream->handle, &p)
            : acre_pool_alloc(world.pools[pool], bytes, alignment, stream->handle, &p);
    if (!alloced(status)) {
        block->hold = FREE;
        return;
    }
    block_begin(block, pool, p, bytes, how == 1 && pool == 0 ? 0 : alignment);
    work_new(block, stream->handle);
    block->hold = LIVE;
}

static void do_free(struct walker *self, struct stream *stream) {
    struct block *block = block_draw(self, LIVE);
    if (!block)
        return;
    acre_pool *pool = world.pools[block->pool];
    acre_status status;
    unsigned how = (unsigned)random_draw(&self->random, 8);
    if (block->is_used_else) /* the pool waits for that work */
        wait_for(block->used, stream->handle);
    else
        work(block, stream->handle);
    if (how == 0 && !block->is_used_else)
        record(block->used, stream->handle);
    char *p = block_end(block);
    if (how == 0)
        status = acre_pool_free_after(pool, p, block->used);
    else
        status = how == 1 ? acre_free(p, stream->handle) : acre_pool_free(pool, p, stream->handle);
    expect(status, "free");
    block_gone(block->pool, p);
    block->hold = FREE;
}

/* Queues work on another stream. The model records it as the block's last work, or the pool records
 * the use. */
static void do_use(struct walker *self, struct stream *stream) {
    struct block *block = block_draw(self, LIVE);
    if (!block)
        return;
    if (!block->is_used_else) {
        work(block, stream->handle);
        if (random_draw(&self->random, 2)) {
            record(block->used, stream->handle);
        } else {
            block->is_used_else = 1;
            expect(acre_pool_record_use(world.pools[block->pool], block->p, stream->handle), "use");
        }
    }
    block->hold = LIVE;
}

static void do_realloc(struct walker *self, struct stream *stream) {
    struct block *block = block_draw(self, LIVE);
    void *p = NULL;
    size_t bytes = draw_bytes(self);
    if (!block)
        return;
    if (block->is_used_else) {
        block->hold = LIVE;
        return;
    }
    work(block, stream->handle);
    char *before = block_end(block);
    acre_status status =
        acre_pool_realloc(world.pools[block->pool], before, bytes, stream->handle, &p);
    if (alloced(status)) {
        block_begin(block, block->pool, p, bytes, 0);
    } else {
        if (p)
            complain("realloc", "failed, but wrote an address");
        block_begin(block, block->pool, before, 1, 0);
    }
    work_new(block, stream->handle);
    block->hold = LIVE;
}

static void do_alloc_many(struct walker *self, struct stream *stream) {
    struct block *blocks[MANY];
    void *p[MANY];
    size_t count = 0, bytes = draw_bytes(self) % 8192 + 1;
    int pool = (int)random_draw(&self->random, POOLS);
    while (count < MANY && (blocks[count] = block_draw(self, FREE)))
        count++;
    int is_there =
        alloced(acre_pool_alloc_many(world.pools[pool], bytes, count, stream->handle, p));
    for (size_t i = 0; i < count && is_there; i++)
        block_begin(blocks[i], pool, p[i], bytes, 0);
    for (size_t i = 0; i < count; i++) {
        if (is_there)
            work_new(blocks[i], stream->handle);
        blocks[i]->hold = is_there ? LIVE : FREE;
    }
}

static void do_free_many(struct walker *self, struct stream *stream) {
    struct block *blocks[MANY];
    void *p[MANY];
    int pool = (int)random_draw(&self->random, POOLS);
    size_t count = 0, freed = 0;
    for (int i = 0; i < MANY; i++) {
        struct block *block = block_draw(self, LIVE);
        if (block && (block->pool != pool || block->is_used_else)) {
            block->hold = LIVE;
            continue;
        }
        if (block)
            blocks[count++] = block;
    }
    for (size_t i = 0; i < count; i++)
        work(blocks[i], stream->handle);
    for (size_t i = 0; i < count; i++)
        p[i] = block_end(blocks[i]);
    expect(acre_pool_free_many(world.pools[pool], p, count, stream->handle, &freed), "free many");
    if (freed != count)
        complain("free many", "not all were freed");
    for (size_t i = 0; i < count; i++)
        blocks[i]->hold = FREE;
}

/* Sets the lag of the device. With few sizes it is long, so that freed memory waits for its
 * stream. */
static void lag_set(uint64_t random) {
    static const uint64_t lags[] = {0, 10, 100, 1000};
    uint64_t lag = lags[world.shape == ALL_SIZES ? random % 4 : 2 + random % 2];
    expect(acre_soft_set_lag(world.device, lag, 0), "lag");
}

/* Queues work that only takes time, so that the stream lags behind the host; sometimes changes the
 * lag. */
static void do_lag(struct walker *self, struct stream *stream) {
    if (random_draw(&self->random, 8) == 0)
        lag_set(random_draw(&self->random, 4));
    size_t count = stream->scratch ? 8 + (size_t)random_draw(&self->random, 16) : 0;
    for (size_t i = 0; i < count; i++)
        fill(stream->scratch, 64, stream->handle);
}

static void do_trim(struct walker *self) {
    unsigned how = (unsigned)random_draw(&self->random, 4);
    acre_pool *pool = world.pools[random_draw(&self->random, POOLS)];
    if (how == 0)
        expect(acre_trim(world.device), "trim");
    else if (how == 1)
        expect(acre_pool_reserve(pool, (uint64_t)2 << 20), "reserve");
    else
        expect(acre_pool_trim(pool, how == 2 ? 0 : (uint64_t)8 << 20), "trim");
}

/* ---- destroyed streams ---- */

static int is_of_driver(int i) {
    return i == OF_DRIVER || (i == 2 && !world.has_manners);
}

static void stream_make(int i) {
    struct stream *stream = &world.streams[i];
    if (i == PER_THREAD) {
        stream->handle = (acre_stream)CU_STREAM_PER_THREAD;
        return;
    }
    if (!is_of_driver(i)) {
        uint32_t flags = i ? ACRE_STREAM_NON_BLOCKING : ACRE_STREAM_DEFAULT;
        expect(acre_stream_create(world.device, flags, &stream->handle), "stream");
        return;
    }
    driver_expect(world.drv->cuStreamCreate(&stream->handle, CU_STREAM_NON_BLOCKING), "stream");
}

static void stream_end(int i) {
    struct stream *stream = &world.streams[i];
    if (i == PER_THREAD)
        return;
    if (i == 1 || (is_of_driver(i) && world.has_manners))
        expect(acre_stream_retire(world.device, stream->handle), "retire");
    if (!is_of_driver(i))
        expect(acre_stream_destroy(world.device, stream->handle), "stream destroy");
    else
        driver_expect(world.drv->cuStreamDestroy(stream->handle), "stream destroy");
}

/* Destroys the stream and creates another one in its place, often with the same handle. A stream
 * that is not retired has no scratch memory, and nothing orders the next stream after it. */
static void stream_replace(int i, int other) {
    acre_event done[2];
    const int both[] = {i, other};
    int count = other < 0 ? 1 : 2;
    for (int k = 0; k < count; k++) {
        /* The next stream's work on this scratch memory must not race with the old stream's. */
        expect(acre_event_create(world.device, 0, &done[k]), "event");
        record(done[k], world.streams[both[k]].handle);
        stream_end(both[k]);
    }
    for (int k = 0; k < count; k++) { /* the driver reuses the last freed handle first */
        stream_make(both[k]);
        if (world.streams[both[k]].scratch)
            wait_for(done[k], world.streams[both[k]].handle);
        expect(acre_event_destroy(world.device, done[k]), "event destroy");
    }
}

static void do_new_stream(struct walker *self) {
    int i = (int)random_draw(&self->random, PER_THREAD),
        other = (int)random_draw(&self->random, PER_THREAD);
    for (int k = 0; k < STREAMS; k++)
        if (world.streams[k].is_ending)
            return;
    if (world.streams[i].users)
        return;
    if (other == i || world.streams[other].users || world.has_manners)
        other = -1;
    world.streams[i].is_ending = 1;
    if (other >= 0)
        world.streams[other].is_ending = 1;
    stream_replace(i, other);
    world.streams[i].is_ending = 0;
    if (other >= 0)
        world.streams[other].is_ending = 0;
}

/* ---- threads ---- */

static void walker_step(struct walker *self) {
    unsigned how = (unsigned)random_draw(&self->random, 256);
    int is_ebb = world.shape != ALL_SIZES && world.ops / TIDE % 2;
    world.order = (world.order * 31 + self->number) * 31 + how;
    world.ops++;
    if (how == 0 || (how == 1 && !world.has_manners)) {
        do_new_stream(self);
        return;
    }
    if (how < 6) {
        do_trim(self);
        return;
    }
    struct stream *stream = stream_draw(self);
    if (how < (is_ebb ? 60 : 100))
        do_alloc(self, stream);
    else if (how < 192)
        do_free(self, stream);
    else if (how < 216)
        do_use(self, stream);
    else if (how < 232)
        do_realloc(self, stream);
    else if (how < 239)
        do_alloc_many(self, stream);
    else if (how < 248)
        do_free_many(self, stream);
    else
        do_lag(self, stream);
    stream->users--;
}

static void walker_run(void *user) {
    driver_expect(world.drv->cuCtxSetCurrent(world.context), "context");
    for (int i = 0; i < STEPS && !world.failures; i++)
        walker_step(user);
}

/* ---- checks while no thread runs ---- */

struct walk {
    size_t found, unknown;
    int pool;
};

static int walk_block(void *user, void *p, size_t bytes) {
    struct walk *walk = user;
    for (size_t i = 0; i < BLOCKS; i++)
        if (world.blocks[i].p == p && world.blocks[i].pool == walk->pool &&
            world.blocks[i].bytes == bytes) {
            walk->found++;
            return 0;
        }
    walk->unknown++;
    return 0;
}

static void check_walk(void) {
    for (int pool = 0; pool < POOLS; pool++) {
        struct walk walk = {.pool = pool};
        acre_pool_stats stats = {.struct_size = sizeof stats};
        size_t live = 0;
        for (size_t i = 0; i < BLOCKS; i++)
            live += world.blocks[i].p && world.blocks[i].pool == pool;
        expect(acre_pool_walk(world.pools[pool], walk_block, &walk), "walk");
        expect(acre_pool_get_stats(world.pools[pool], &stats), "stats");
        if (walk.found != live || walk.unknown || stats.live_blocks != live)
            complain("walk", "the walk differs from the live blocks");
    }
}

static int is_live(const char *p) {
    for (size_t i = 0; i < BLOCKS; i++)
        if (world.blocks[i].p && p >= world.blocks[i].p &&
            p < world.blocks[i].p + world.blocks[i].bytes)
            return 1;
    return 0;
}

/* Expects that invalid frees fail. The walk afterwards shows that nothing changed. */
static void check_refused(void) {
    for (unsigned i = 0; i < GONE; i++) {
        char *p = world.gone[i].p;
        acre_pool *pool = world.pools[world.gone[i].pool];
        if (!p || is_live(p))
            continue;
        if (acre_pool_free(pool, p, NULL) != ACRE_E_POINTER || acre_free(p, NULL) != ACRE_E_POINTER)
            complain("double free", "not refused");
        if (acre_pool_owns(pool, p) || acre_pool_usable_size(pool, p))
            complain("owns", "the pool still knows a freed block");
    }
    for (size_t i = 0; i < BLOCKS; i += 8) {
        const struct block *block = &world.blocks[i];
        if (!block->p)
            continue;
        if (acre_free(block->p + 1, NULL) != ACRE_E_INTERIOR ||
            acre_free(block->p + block->bytes - 1, NULL) != ACRE_E_INTERIOR)
            complain("interior free", "not refused");
        if (acre_pool_free(world.pools[!block->pool], block->p, NULL) != ACRE_E_HANDLE)
            complain("free to the wrong pool", "not refused");
    }
}

/* ---- worlds ---- */

/* Draws the world's properties. Of few small sizes, half have many slots per slab and half have one
 * or two, so that a slab that replaces another has slots left for other streams. Large sizes are
 * not multiples of the device's unit. */
static void world_draw(uint64_t seed) {
    static const size_t counts[] = {
        [ALL_SIZES] = BLOCKS, [FEW_SMALL] = BLOCKS / 2, [FEW_LARGE] = BLOCKS / 8};
    uint64_t random = seed * 31;
    world.shape = (enum shape)random_draw(&random, SHAPES);
    world.has_manners = random_draw(&random, 2) == 0;
    world.block_count = counts[world.shape];
    for (int i = 0; i < SIZES; i++) {
        size_t least = world.shape == FEW_LARGE ? (size_t)1 << 20 : (size_t)(i % 2 ? 60 : 2) << 10;
        size_t more = world.shape == FEW_LARGE ? (size_t)8 << 20 : (size_t)(i % 2 ? 68 : 8) << 10;
        world.sizes[i] = least + (size_t)random_draw(&random, more);
    }
    lag_set(random_draw(&random, 4));
}

static void world_begin(uint64_t seed) {
    char text[32];
    uint64_t ops = world.ops, order = world.order, allocs = world.allocs, refused = world.refused;
    acre_open_options options = {
        .struct_size = sizeof options, .soft_bytes = (uint64_t)256 << 20, .soft_devices = 1};
    memset(&world, 0, sizeof world);
    world.ops = ops;
    world.order = order;
    world.allocs = allocs;
    world.refused = refused;
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    setenv("ACRE_SOFT_SEED", text, 1);
    assert_int_equal(acre_open("soft", &options, &world.device), ACRE_OK);
    world.drv = world.device->drv;
    world_draw(seed);
    assert_int_equal(world.drv->cuDevicePrimaryCtxRetain(&world.context, 0), 0);
    assert_int_equal(world.drv->cuCtxSetCurrent(world.context), 0);
    assert_int_equal(acre_pool_default(world.device, ACRE_KIND_DEVICE, &world.pools[0]), 0);
    assert_int_equal(acre_pool_create(world.device, NULL, &world.pools[1]), 0);
    /* In one pool large blocks soon get their own chunks, and these chunks move. */
    world.pools[1]->blocks_in.slack = 0;
    world.pools[1]->blocks_in.own_bytes = (uint64_t)2 << 20;
    world.pools[1]->blocks_in.setup.chunk_most = (size_t)4 << 20;
    for (int i = 0; i < STREAMS; i++) {
        stream_make(i);
        if (i == PER_THREAD || (is_of_driver(i) && !world.has_manners))
            continue; /* threads, or streams without order, would share the scratch memory */
        assert_int_equal(
            acre_mem_alloc(world.device, ACRE_KIND_DEVICE, 64, 0, &world.streams[i].scratch), 0);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        assert_int_equal(acre_event_create(world.device, 0, &world.blocks[i].used), 0);
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

/* Frees all blocks and expects that the pools leave nothing on the device. */
static void world_end(uint64_t seed) {
    expect(acre_device_sync(world.device), "sync");
    for (size_t i = 0; i < BLOCKS; i++)
        if (world.blocks[i].p)
            expect(acre_free(world.blocks[i].p, world.streams[i % STREAMS].handle), "last free");
    expect(acre_device_sync(world.device), "sync");
    for (int i = 0; i < STREAMS; i++) {
        stream_end(i);
        expect(acre_mem_free(world.device, world.streams[i].scratch), "free");
    }
    /* Drops the blocks that thread caches hold for destroyed streams. */
    expect(acre_trim(world.device), "trim");
    expect(acre_device_sync(world.device), "sync");
    expect(acre_pool_trim(world.pools[0], 0), "trim");
    expect(acre_pool_destroy(world.pools[1], NULL, NULL), "destroy");
    expect(acre_trim(world.device), "trim");
    acre_device_stats stats = {.struct_size = sizeof stats};
    expect(acre_device_get_stats(world.device, &stats), "stats");
    if (stats.chunks || stats.limbo_count || stats.mem_blocks)
        complain("the end", "memory is left on the device");
    world_fail(seed);
    assert_int_equal(world.drv->cuCtxSetCurrent(NULL), 0);
    assert_int_equal(world.drv->cuDevicePrimaryCtxRelease(0), 0);
    assert_int_equal(acre_close(world.device), 0);
}

static void world_run(uint64_t seed, uint64_t ops) {
    world_begin(seed);
    for (uint64_t run = 0; run < RUNS && world.ops < ops; run++) {
        struct walker walkers[THREADS];
        struct acre__vthread threads[THREADS];
        for (unsigned i = 0; i < THREADS; i++) {
            walkers[i] = (struct walker){(seed << 16) + run * THREADS + i, i};
            threads[i] = (struct acre__vthread){walker_run, &walkers[i]};
        }
        enum acre__sched_end end = acre__sched_run(seed + run, threads, THREADS);
        if (end != ACRE__SCHED_DONE)
            complain("the threads", "are stuck");
        check_walk();
        check_refused();
        check_walk();
        if (run % 4 == 3)
            expect(acre_device_sync(world.device), "sync");
        world_fail(seed);
    }
    world_end(seed);
}

static uint64_t number_from(const char *name, uint64_t unset) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : unset;
}

TEST(pools_under_any_schedule_match_the_model) {
    uint64_t seed = number_from("ACRE_TEST_SEED", 1),
             ops = number_from("ACRE_TEST_OPS", ROUNDS(150000, 20000));
    print_message("ACRE_TEST_SEED=%llu ACRE_TEST_OPS=%llu\n", (unsigned long long)seed,
                  (unsigned long long)ops);
    world.ops = 0;
    while (world.ops < ops)
        world_run(seed++, ops);
    print_message("%llu allocs, %llu failed for lack of memory\n", (unsigned long long)world.allocs,
                  (unsigned long long)world.refused);
    assert_true(world.refused < world.allocs / 4);
}

/* Runs this program again, with other addresses where the system randomises them, and returns the
 * hash of its operations. */
static uint64_t order_of_another(const char *self) {
    char command[4200], line[32] = "";
    snprintf(command, sizeof command, "ASAN_OPTIONS=detect_leaks=0 '%s' order", self);
    FILE *from = popen(command, "r");
    assert_non_null(from);
    assert_non_null(fgets(line, sizeof line, from));
    assert_int_equal(pclose(from), 0);
    return strtoull(line, NULL, 0);
}

TEST(pools_with_the_same_seed_do_the_same) {
    char self[4096] = "";
    if (world.failures) /* the other runs would fail too, or loop in a corrupt list */
        skip();
    if (getenv("ACRE_TEST_OPS")) /* wanted are those operations, not 6,000 more */
        skip();
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    assert_true(order_of_another(self) == order_of_another(self));
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "order") == 0) {
        world_run(7, 3000);
        printf("%llu\n", (unsigned long long)world.order);
        return 0;
    }
    return tests_run("pool_model");
}
