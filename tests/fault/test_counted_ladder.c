/* The counted loop over every rung: a device of 64 MiB is in a state where only one rung can serve
 * a request. The n-th driver call of that request fails, alone or with all later ones, for n = 1,
 * 2, ... until a run in which none fails. After each run: the expected status, the same number of
 * blocks, the caller's context and capture mode untouched. The same call works once the driver
 * does, and all memory is released. */
#include "fault_counted.h"
#include "fault_ladder.h"

/* So many fills of a block take longer than the next allocation. They fill one block, since the
 * first touch of a page costs more than the fill. */
enum { WORK = 16 };

struct things {
    struct small s;
    struct sleeper sleeper;
    int is_sleeping;
    void *blocks[12];
    void *p, *given;
};

/* ---- states ---- */

/* Allocates all but `left` bytes of the device. */
static void fill_but(struct things *t, size_t left) {
    (void)small_alloc(t->s.second, LADDER_BYTES - left, t->s.stream);
}

static void sleep_on(struct things *t, acre_stream stream) {
    t->sleeper = (struct sleeper){.s = &t->s, .stream = stream, .bytes = MIB, .count = 8};
    t->is_sleeping = 1;
    sleeper_begin(&t->sleeper);
    fill_but(t, 8 * MIB);
}
static void before_caches(struct things *t) {
    sleep_on(t, t->s.stream);
}
static void before_done(struct things *t) {
    sleep_on(t, t->s.other);
}

/* Small blocks that were freed; their stream may still be busy. */
static void freed_blocks(struct things *t, acre_pool *pool, acre_stream stream, int is_done) {
    struct small *s = &t->s;
    fill_but(t, 12 * MIB);
    api_ok(acre_pool_alloc_many(pool, MIB, 12, stream, t->blocks));
    for (int i = 0; i < WORK && !is_done; i++)
        api_ok(acre_fill(s->device, t->blocks[0], 1, MIB, stream));
    api_ok(acre_pool_free_many(pool, t->blocks, 12, stream, NULL));
    if (is_done)
        api_ok(acre_stream_sync(s->device, stream));
}
static void before_moved(struct things *t) {
    freed_blocks(t, t->s.pool, t->s.stream, 1);
}
static void before_pools(struct things *t) {
    freed_blocks(t, t->s.second, t->s.stream, 1);
}
static void before_waiting(struct things *t) {
    freed_blocks(t, t->s.pool, t->s.other, 0);
}
static void before_waiting_elsewhere(struct things *t) {
    freed_blocks(t, t->s.second, t->s.other, 0);
}
static void before_behind(struct things *t) {
    struct small *s = &t->s;
    void *p = small_alloc(s->pool, 40 * MIB, s->other);
    for (int i = 0; i < WORK; i++)
        api_ok(acre_fill(s->device, p, 1, MIB, s->other));
    api_ok(acre_pool_free(s->pool, p, s->other));
}

/* The callback may run while the driver refuses everything. Then its free fails, and it
 * returns 0. */
static int give(void *user, acre_pool *pool, uint64_t wanted_bytes, uint32_t attempt) {
    struct things *t = user;
    (void)wanted_bytes;
    (void)attempt;
    if (!t->given || acre_pool_free(pool, t->given, t->s.stream))
        return 0;
    t->given = NULL;
    return 1;
}
static void before_callback(struct things *t) {
    t->given = small_alloc(t->s.pool, 40 * MIB, t->s.stream);
    api_ok(acre_pool_set_callback(t->s.pool, give, t));
}
static void before_limit(struct things *t) {
    api_ok(acre_pool_set_limits(t->s.pool, 10 * MIB, 50 * MIB));
    before_callback(t);
}

/* ---- the call ---- */

static acre_status alloc_one(struct things *t) {
    return acre_pool_alloc(t->s.pool, MIB, 0, t->s.stream, &t->p);
}
static acre_status alloc_eight(struct things *t) {
    return acre_pool_alloc(t->s.pool, 8 * MIB, 0, t->s.stream, &t->p);
}
static acre_status alloc_forty(struct things *t) {
    return acre_pool_alloc(t->s.pool, 40 * MIB, 0, t->s.stream, &t->p);
}

static const struct op {
    const char *name;
    void (*before)(struct things *t);
    acre_status (*call)(struct things *t);
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

static int count_block(void *user, void *p, size_t bytes) {
    (void)p;
    (void)bytes;
    ++*(uint64_t *)user;
    return 0;
}

static uint64_t blocks_of(const struct things *t) {
    uint64_t count = 0;
    api_ok(acre_pool_walk(t->s.pool, count_block, &count));
    return count + (t->given == NULL); /* counts the block that the callback freed */
}

static void things_end(struct things *t) {
    if (t->is_sleeping)
        sleeper_end(&t->sleeper);
    small_end(&t->s); /* checks that nothing is left */
}

static void run_one(struct things *t, const struct op *op, struct counted *run) {
    *t = (struct things){.s = small_begin(NULL)};
    run->device = t->s.device;
    op->before(t);
    uint64_t before = blocks_of(t);
    counted_call(run, op->call, t);
    /* The device was out of memory before the driver failed. */
    counted_expect_status(run, counted_is_right(run, 0) || counted_memory(run->status));
    acre_pool_stats stats = small_stats(t->s.pool);
    assert_int_equal(stats.used_bytes >= stats.live_bytes, 1);
    if (run->status) {
        assert_null(t->p);
        assert_int_equal(blocks_of(t), before);
        api_ok(op->call(t));
    }
    things_end(t);
}

TEST(ladder_bears_every_refusal_and_loses_nothing) {
    struct things t;
    for (size_t i = 0; i < OPS; i++) {
        /* A step of 5: most skipped runs fail at the same driver calls anyway. */
        const struct counted run = {.name = "soft", .op = ops[i].name, .from_step = 5};
        assert_true(counted_loop(run, COUNTED_ALL, run_one, &t, &ops[i]) > 0);
    }
}

int main(void) {
    fault_begin();
    return tests_run("counted_ladder");
}
