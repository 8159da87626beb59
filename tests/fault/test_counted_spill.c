/* The counted loop over spillable blocks: the n-th driver call inside a call fails, alone or with
 * all later ones. After each run: the expected status, every live block brought back with its
 * contents once the driver works, and nothing left after trim. */
#include "api/api_memory.h"
#include "fault_counted.h"

enum { BLOCKS = 3, EDGE = 64 };

struct things {
    const char *name;
    acre_device *device;
    acre_stream stream;
    acre_pool *pool;
    void *blocks[BLOCKS + 1];
    void *ordinary; /* to be freed */
    void *held;     /* acre_bring must end */
};

/* Two blocks fit. The first one is away, the others are on the device. */
static void make(struct things *t) {
    acre_pool_options options = {.struct_size = sizeof options, .limit_bytes = 4 * MIB};
    api_ok(acre_pool_create(t->device, &options, &t->pool));
    for (int i = 0; i < BLOCKS; i++) {
        api_ok(acre_pool_alloc_spillable(t->pool, 2 * MIB, t->stream, &t->blocks[i]));
        char *p = t->blocks[i];
        for (int end = 0; end < 2; end++) /* the pages between have no memory, which is quicker */
            api_ok(acre_fill(t->device, end ? p + 2 * MIB - EDGE : p, (uint8_t)(i + 1), EDGE,
                             t->stream));
    }
    t->blocks[BLOCKS] = NULL;
}

static acre_status alloc_more(struct things *t) {
    acre_status status = acre_pool_alloc_spillable(t->pool, 2 * MIB, t->stream, &t->blocks[BLOCKS]);
    if (status)
        assert_null(t->blocks[BLOCKS]);
    return status;
}
static acre_status alloc_ordinary(struct things *t) {
    return acre_pool_alloc(t->pool, 4 * MIB, 0, t->stream, &t->ordinary);
}
static acre_status bring_away(struct things *t) {
    acre_status status = acre_bring(t->blocks[0], t->stream);
    t->held = status ? NULL : t->blocks[0];
    return status;
}
static acre_status bring_there(struct things *t) {
    acre_status status = acre_bring(t->blocks[2], t->stream);
    t->held = status ? NULL : t->blocks[2];
    return status;
}
static acre_status free_one(struct things *t, int i) {
    acre_status status = acre_pool_free(t->pool, t->blocks[i], t->stream);
    if (status == ACRE_OK)
        t->blocks[i] = NULL;
    return status;
}
static acre_status free_away(struct things *t) {
    return free_one(t, 0);
}
static acre_status free_there(struct things *t) {
    return free_one(t, 1);
}

static const struct op {
    const char *name;
    acre_status (*call)(struct things *t);
} ops[] = {{"alloc", alloc_more},    {"alloc ordinary", alloc_ordinary},
           {"bring", bring_away},    {"bring there", bring_there},
           {"free away", free_away}, {"free there", free_there}};
enum { OPS = sizeof ops / sizeof ops[0] };

/* Ends what the call began. */
static void settle(struct things *t) {
    if (t->held)
        api_ok(acre_bring_end(t->held, t->stream));
    if (t->ordinary) {
        api_ok(acre_pool_free(t->pool, t->ordinary, t->stream));
        api_ok(acre_pool_trim(t->pool, 0));
    }
    t->held = t->ordinary = NULL;
}

static void expect_contents(struct things *t) {
    unsigned char host[2][EDGE];
    for (int i = 0; i < BLOCKS; i++) {
        char *p = t->blocks[i];
        if (!p)
            continue;
        api_ok(acre_bring(p, t->stream));
        api_ok(acre_copy(t->device, host[0], p, EDGE, t->stream));
        api_ok(acre_copy(t->device, host[1], p + 2 * MIB - EDGE, EDGE, t->stream));
        api_ok(acre_stream_sync(t->device, t->stream));
        api_ok(acre_bring_end(p, t->stream));
        for (size_t k = 0; k < (size_t)2 * EDGE; k++)
            assert_int_equal(host[k / EDGE][k % EDGE], i + 1);
    }
}

static void expect_nothing_left(struct things *t) {
    for (int i = 0; i <= BLOCKS; i++)
        if (t->blocks[i])
            api_ok(acre_pool_free(t->pool, t->blocks[i], t->stream));
    acre_pool_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_pool_get_stats(t->pool, &stats));
    assert_int_equal(stats.used_bytes + stats.spillable_bytes + stats.away_bytes, 0);
    api_ok(acre_pool_destroy(t->pool, NULL, NULL));
    api_ok(acre_trim(t->device));
    acre_device_stats after = api_stats(t->device);
    assert_int_equal(after.chunks + after.chunk_bytes + after.limbo_count, 0);
    assert_int_equal(after.suspended_bytes, 0);
}

/* A limit that no block can make room for, since no call of the driver works, is the answer, too.
 */
static void run_one(struct things *t, const struct op *op, struct counted *run) {
    make(t);
    counted_call(run, op->call, t);
    if (run->mode == ACRE__FAULT_FROM)
        fault_sync(t->name);
    counted_expect_status(
        run, counted_is_right(run, COUNTED_DEVICE | COUNTED_HOST | COUNTED_ADDRESSES) ||
                 run->status == ACRE_E_LIMIT);
    settle(t);
    expect_contents(t);
    if (run->status) {
        api_ok(op->call(t));
        settle(t);
    }
    expect_nothing_left(t);
}

TEST(spill_calls_bear_every_refusal) {
    for (API_EACH(name)) {
        struct things t = {.name = name, .device = api_open(name)};
        api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.stream));
        for (size_t i = 0; i < OPS; i++) {
            const struct counted run = {.name = name, .device = t.device, .op = ops[i].name};
            counted_keeps_memory(run, run_one, &t, &ops[i]);
        }
        api_ok(acre_stream_destroy(t.device, t.stream));
        api_ok(acre_close(t.device));
    }
}

int main(void) {
    setenv("ACRE_ADDRESS_BYTES", "64MiB", 1);
    setenv("ACRE_COPY_STAGE_BYTES", "1GiB", 1); /* staging has loops of its own: test_counted_mem */
    fault_begin();
    return tests_run("counted_spill");
}
