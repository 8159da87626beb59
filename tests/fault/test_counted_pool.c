/* The counted loop over pools: the n-th driver call inside a call fails, alone or with all later
 * ones, for n = 1, 2, ... until a run in which none fails. After each run: the expected status, the
 * same live blocks, the caller's context untouched. The same call works once the driver does, and
 * nothing is left after the pool is destroyed and the device trimmed. Further tests: streams whose
 * last work the driver refuses to mark with an event, a lost device. */
#include "acre_soft.h"
#include "api/api_memory.h"
#include "fault_counted.h"
#include "pool/pool.h"

enum { SMALL = 1000, FULL = 128 }; /* FULL slots fill a thread's stack */

struct things {
    const char *name;
    acre_device *device;
    acre_stream stream, other, brief;
    acre_event event;
    acre_pool *pool;
    void *block;
    void *many[FULL + 1];
    size_t went;     /* blocks freed by a call that failed */
    int is_captured; /* the stream is captured, or its graph exists */
    int is_tagged;   /* blocks have a tag */
    CUgraph graph;
};

/* ---- states ---- */

static void make_kind(struct things *t, acre_kind kind, uint32_t flags) {
    acre_pool_options options = {.struct_size = sizeof options, .kind = kind, .flags = flags};
    api_ok(acre_pool_create(t->device, &options, &t->pool));
}
static void make(struct things *t) {
    make_kind(t, ACRE_KIND_DEVICE, 0);
}
static void make_pinned(struct things *t) {
    make_kind(t, ACRE_KIND_PINNED, 0);
}
static void make_zero(struct things *t) {
    make_kind(t, ACRE_KIND_DEVICE, ACRE_POOL_ZERO);
}
static void make_block(struct things *t) {
    make(t);
    api_ok(acre_pool_alloc(t->pool, SMALL, 0, t->stream, &t->block));
}
static void make_used(struct things *t) {
    make_block(t);
    api_ok(acre_pool_record_use(t->pool, t->block, t->other));
}
static void make_full(struct things *t) {
    make(t);
    api_ok(acre_pool_alloc_many(t->pool, SMALL, FULL + 1, t->stream, t->many));
}
/* Work stays in flight from now on. */
static void fall_behind(struct things *t) {
    if (strncmp(t->name, "soft", 4) == 0)
        api_ok(acre_soft_set_lag(t->device, 100000, 0));
}
/* Memory freed on another stream, which is busy. */
static void make_elsewhere(struct things *t) {
    void *p;
    fall_behind(t);
    make(t);
    api_ok(acre_pool_alloc(t->pool, 30 * MIB, 0, t->other, &p));
    api_ok(acre_fill(t->device, p, 1, 64, t->other));
    api_ok(acre_pool_free(t->pool, p, t->other));
}
static void make_brief(struct things *t) {
    void *p;
    fall_behind(t);
    make(t);
    api_ok(acre_stream_create(t->device, ACRE_STREAM_NON_BLOCKING, &t->brief));
    api_ok(acre_pool_alloc(t->pool, 4 * MIB, 0, t->brief, &p));
    api_ok(acre_fill(t->device, p, 1, 64, t->brief));
    api_ok(acre_pool_free(t->pool, p, t->brief));
}
static void make_freed(struct things *t) {
    make(t);
    api_ok(acre_pool_alloc_many(t->pool, 300000, 40, t->stream, t->many));
    api_ok(acre_pool_free_many(t->pool, t->many, 40, t->stream, NULL));
}
/* A large block with another block behind it. */
static void make_large(struct things *t) {
    make(t);
    api_ok(acre_pool_alloc(t->pool, 6 * MIB, 0, t->stream, &t->block));
    api_ok(acre_pool_alloc(t->pool, 2 * MIB, 0, t->stream, &t->many[0]));
}
/* Large blocks have separate chunks, and a further one needs memory of free chunks. */
static void make_apart(struct things *t) {
    make(t);
    t->pool->blocks_in.slack = 0;
    t->pool->blocks_in.own_bytes = 4 * MIB;
    api_ok(acre_pool_alloc_many(t->pool, 6 * MIB, 40, t->stream, t->many));
    api_ok(acre_pool_free_many(t->pool, t->many, 6, t->stream, NULL));
    api_ok(acre_pool_alloc(t->pool, 70 * MIB, 0, t->stream, &t->block));
    api_ok(acre_pool_free(t->pool, t->block, t->stream));
    assert_false(t->pool->blocks_in.is_joined);
}
/* Live memory has risen and fallen; the free memory is in holes of 16 MiB. */
static void make_joined(struct things *t) {
    make(t);
    t->pool->blocks_in.slack = 0;
    api_ok(acre_pool_alloc_many(t->pool, 16 * MIB, 8, t->stream, t->many));
    api_ok(acre_pool_free_many(t->pool, t->many, 8, t->stream, NULL));
    api_ok(acre_pool_alloc_many(t->pool, 16 * MIB, 8, t->stream, t->many));
    for (int i = 0; i < 8; i += 2) {
        api_ok(acre_fill(t->device, t->many[i], 1, 64, t->stream));
        api_ok(acre_pool_free(t->pool, t->many[i], t->stream));
    }
    assert_true(t->pool->blocks_in.is_joined);
}
/* As make_joined, with work in flight: chunks are mapped a second time. */
static void make_behind(struct things *t) {
    fall_behind(t);
    make_joined(t);
}
static void make_apart_behind(struct things *t) {
    fall_behind(t);
    make_apart(t);
    api_ok(acre_fill(t->device, t->many[39], 1, 64, t->stream));
}
/* The stream is being captured. */
static void make_captured(struct things *t) {
    make_block(t);
    assert_int_equal(
        fault_raw(t->name)->cuStreamBeginCapture(t->stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    t->is_captured = 1;
}
/* As make_captured, with a block that belongs to the graph. */
static void make_graphs(struct things *t) {
    make_captured(t);
    api_ok(acre_pool_alloc(t->pool, 3 * MIB, 0, t->stream, &t->block));
}
/* As make_graphs, after the capture. */
static void make_outside(struct things *t) {
    make_graphs(t);
    assert_int_equal(fault_raw(t->name)->cuStreamEndCapture(t->stream, &t->graph), 0);
}
static void make_freed_pinned(struct things *t) {
    void *p;
    make_pinned(t);
    api_ok(acre_pool_alloc(t->pool, 3 * MIB, 0, t->stream, &p));
    api_ok(acre_pool_free(t->pool, p, t->stream));
}

/* ---- the calls ---- */

static acre_status alloc(struct things *t, size_t bytes, size_t alignment) {
    t->block = t;
    acre_status status = acre_pool_alloc(t->pool, bytes, alignment, t->stream, &t->block);
    if (status)
        assert_null(t->block);
    return status;
}
static acre_status create(struct things *t) {
    acre_pool_options options = {.struct_size = sizeof options, .initial_bytes = 4 * MIB};
    t->pool = (acre_pool *)t;
    acre_status status = acre_pool_create(t->device, &options, &t->pool);
    if (status)
        assert_null(t->pool);
    return status;
}
static acre_status alloc_small(struct things *t) {
    return alloc(t, SMALL, 0);
}
static acre_status alloc_large(struct things *t) {
    return alloc(t, 30 * MIB, 0);
}
static acre_status alloc_far(struct things *t) {
    return alloc(t, SMALL, 8 * MIB);
}
static acre_status alloc_many(struct things *t) {
    return acre_pool_alloc_many(t->pool, SMALL, FULL, t->stream, t->many);
}
static acre_status free_here(struct things *t) {
    return acre_pool_free(t->pool, t->block, t->stream);
}
/* Frees more blocks than a thread's stack holds. Stops at the first block that is refused. */
static acre_status free_many(struct things *t) {
    size_t freed;
    acre_status status =
        acre_pool_free_many(t->pool, t->many + t->went, FULL + 1 - t->went, t->stream, &freed);
    t->went += freed;
    return status;
}
static acre_status free_elsewhere(struct things *t) {
    return acre_pool_free(t->pool, t->block, t->other);
}
static acre_status free_after(struct things *t) {
    return acre_pool_free_after(t->pool, t->block, t->event);
}
static acre_status record(struct things *t) {
    return acre_pool_record_use(t->pool, t->block, t->other);
}
static acre_status record_here(struct things *t) {
    return acre_pool_record_use(t->pool, t->block, t->stream);
}
static acre_status resize(struct things *t) {
    void *p = t;
    acre_status status = acre_pool_realloc(t->pool, t->block, 9 * SMALL, t->stream, &p);
    if (status)
        assert_null(p);
    return status;
}
static acre_status alloc_larger(struct things *t) {
    return alloc(t, 81 * MIB, 0);
}
static acre_status alloc_apart(struct things *t) {
    return alloc(t, 45 * MIB, 0);
}
static acre_status resize_to(struct things *t, size_t bytes) {
    void *p = t;
    acre_status status = acre_pool_realloc(t->pool, t->block, bytes, t->stream, &p);
    if (status)
        assert_null(p);
    assert_true(acre_pool_owns(t->pool, status ? t->block : p));
    return status;
}
static acre_status resize_large(struct things *t) {
    return resize_to(t, 7 * MIB);
}
static acre_status resize_shorter(struct things *t) {
    return resize_to(t, 3 * MIB);
}
static acre_status alloc_gathered(struct things *t) {
    return alloc(t, 40 * MIB, 0);
}
static acre_status retire(struct things *t) {
    return acre_stream_retire(t->device, t->brief);
}
static acre_status trim(struct things *t) {
    return acre_pool_trim(t->pool, 0);
}
static acre_status reserve(struct things *t) {
    return acre_pool_reserve(t->pool, 300 * MIB);
}
static acre_status destroy(struct things *t) {
    acre_status status = acre_pool_destroy(t->pool, NULL, NULL);
    if (status == ACRE_OK)
        t->pool = NULL;
    return status;
}

struct op {
    const char *name;
    acre_status (*call)(struct things *t);
    void (*before)(struct things *t);
};

static const struct op ops[] = {
    {"create", create, NULL},
    {"alloc", alloc_small, make},
    {"alloc large", alloc_large, make},
    {"alloc far aligned", alloc_far, make},
    {"alloc pinned", alloc_small, make_pinned},
    {"alloc zeroed", alloc_small, make_zero},
    {"alloc of another stream", alloc_large, make_elsewhere},
    {"alloc many", alloc_many, make},
    {"free with a spill", free_many, make_full},
    {"free on another stream", free_elsewhere, make_block},
    {"free used", free_here, make_used},
    {"free after", free_after, make_block},
    {"free used after", free_after, make_used},
    {"record use", record, make_block},
    {"record use again", record, make_used},
    {"realloc", resize, make_block},
    {"realloc used", resize, make_used},
    {"alloc larger", alloc_larger, make},
    {"alloc apart", alloc_apart, make_apart},
    {"realloc large", resize_large, make_large},
    {"realloc shorter", resize_shorter, make_large},
    {"alloc apart behind", alloc_apart, make_apart_behind},
    {"alloc gathered", alloc_gathered, make_joined},
    {"alloc gathered behind", alloc_gathered, make_behind},
    {"alloc captured", alloc_small, make_captured},
    {"alloc large captured", alloc_large, make_captured},
    {"record use captured", record_here, make_captured},
    {"realloc captured", resize, make_captured},
    {"free captured", free_here, make_graphs},
    {"free of a graph's block", free_here, make_outside},
    {"free after of a graph's block", free_after, make_outside},
    {"record use of a graph's block", record, make_outside},
    {"retire", retire, make_brief},
    {"trim", trim, make_freed},
    {"trim pinned", trim, make_freed_pinned},
    {"reserve", reserve, make_block},
    {"destroy", destroy, make_used},
    {"destroy pinned", destroy, make_freed_pinned},
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* ---- the loop ---- */

/* All blocks are allocated under this tag, so the tag and the pool have the same counts. */
#define TAG "counted"

static int tag_look(void *user, const acre_tag_info *info) {
    if (strcmp(info->path, TAG) == 0)
        *(acre_tag_info *)user = *info;
    return 0;
}

static void expect_tag_counts(const struct op *op, const struct counted *run,
                              const acre_pool_stats *stats) {
    acre_tag_info tag = {0};
    api_ok(acre_tag_walk(tag_look, &tag));
    if (tag.live_blocks != stats->live_blocks || tag.live_bytes != stats->live_bytes)
        fail_msg(
            "%s with call %u failing: %llu blocks of %llu bytes, their tag counts %llu of %llu",
            op->name, run->nth, (unsigned long long)stats->live_blocks,
            (unsigned long long)stats->live_bytes, (unsigned long long)tag.live_blocks,
            (unsigned long long)tag.live_bytes);
}

static acre_pool_stats stats_of(const struct things *t) {
    acre_pool_stats stats = {.struct_size = sizeof stats};
    if (t->pool)
        api_ok(acre_pool_get_stats(t->pool, &stats));
    return stats;
}

/* No slot is lost: when all blocks are freed, the pool can release all memory. */
static int free_block(void *user, void *p, size_t bytes) {
    void **blocks = user;
    (void)bytes;
    while (*blocks)
        blocks++;
    *blocks = p;
    return 0;
}

static void expect_all_memory_goes(struct things *t) {
    void *left[2 * FULL] = {NULL};
    api_ok(acre_pool_walk(t->pool, free_block, left));
    for (int i = 0; left[i]; i++)
        api_ok(acre_pool_free(t->pool, left[i], t->stream));
    for (int i = 0; i < 1000 && stats_of(t).held_bytes; i++) {
        api_ok(acre_device_sync(t->device));
        api_ok(acre_pool_trim(t->pool, 0));
    }
    assert_int_equal(stats_of(t).live_blocks, 0);
    assert_int_equal(stats_of(t).held_bytes, 0);
}

static void expect_nothing_left(struct things *t) {
    if (strncmp(t->name, "soft", 4) == 0)
        api_ok(acre_soft_set_lag(t->device, 0, 0));
    if (t->is_captured && !t->graph)
        assert_int_equal(fault_raw(t->name)->cuStreamEndCapture(t->stream, &t->graph), 0);
    if (t->graph)
        assert_int_equal(fault_raw(t->name)->cuGraphDestroy(t->graph), 0);
    t->is_captured = 0;
    t->graph = NULL;
    if (t->brief)
        api_ok(acre_stream_destroy(t->device, t->brief));
    t->brief = NULL;
    if (t->pool) {
        expect_all_memory_goes(t);
        api_ok(acre_pool_destroy(t->pool, NULL, NULL));
    }
    t->pool = NULL;
    api_ok(acre_trim(t->device));
    acre_device_stats after = api_stats(t->device);
    assert_int_equal(after.chunks + after.chunk_bytes + after.limbo_count + after.mem_blocks, 0);
    assert_int_equal(after.streams_live, 2);
}

static void run_one(struct things *t, const struct op *op, struct counted *run) {
    t->block = NULL;
    t->went = 0;
    if (t->is_tagged)
        api_ok(acre_tag_push(TAG));
    if (op->before)
        op->before(t);
    acre_pool_stats before = stats_of(t);
    counted_call(run, op->call, t);
    if (run->mode == ACRE__FAULT_FROM && !t->is_captured)
        fault_sync(t->name);
    counted_expect_status(run,
                          counted_is_right(run, COUNTED_DEVICE | COUNTED_HOST | COUNTED_ADDRESSES));
    if (run->status) {
        acre_pool_stats after = stats_of(t);
        uint64_t blocks = after.live_blocks + t->went;
        uint64_t bytes = after.live_bytes + t->went * acre__class_bytes(acre__class_of(SMALL));
        if (blocks != before.live_blocks || bytes != before.live_bytes)
            fail_msg("%s with call %u failing: %llu blocks instead of %llu", op->name, run->nth,
                     (unsigned long long)blocks, (unsigned long long)before.live_blocks);
        if (t->is_tagged)
            expect_tag_counts(op, run, &after);
        api_ok(op->call(t));
    }
    if (t->is_tagged) {
        acre_pool_stats after = stats_of(t);
        expect_tag_counts(op, run, &after);
        api_ok(acre_tag_pop());
    }
    expect_nothing_left(t);
}

static struct things things_begin(const char *name) {
    struct things t = {.name = name, .device = api_open(name)};
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.stream));
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.other));
    api_ok(acre_event_create(t.device, 0, &t.event));
    api_ok(acre_event_record(t.device, t.event, t.stream));
    return t;
}

static void things_end(struct things *t) {
    api_ok(acre_event_destroy(t->device, t->event));
    api_ok(acre_stream_destroy(t->device, t->stream));
    api_ok(acre_stream_destroy(t->device, t->other));
    api_ok(acre_close(t->device));
}

static void every_call_is_refused(int is_tagged) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        t.is_tagged = is_tagged;
        for (size_t i = 0; i < OPS; i++) {
            const struct counted run = {.name = name, .device = t.device, .op = ops[i].name};
            counted_keeps_memory(run, run_one, &t, &ops[i]);
        }
        things_end(&t);
    }
}

TEST(pool_calls_bear_every_refusal_and_lose_nothing) {
    every_call_is_refused(0);
}

TEST(pool_calls_with_a_tag_bear_every_refusal_and_count_right) {
    every_call_is_refused(1);
}

/* ---- number of driver calls ---- */

/* Hits make no driver call, and the pool reuses events of recorded uses. */
TEST(pool_hits_and_loops_ask_the_driver_for_nothing_new) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        acre_stream checked = t.stream;
        uint32_t flags = ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE;
        api_ok(acre_stream_create(t.device, flags, &t.stream));
        make_block(&t);
        api_ok(free_here(&t));
        fault_on(NULL, 0, ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN);
        for (int i = 0; i < 1000; i++) {
            api_ok(alloc_small(&t));
            api_ok(free_here(&t));
        }
        assert_int_equal(acre__fault_count(), 0);
        fault_on("cuEventCreate", 0, ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN);
        for (int i = 0; i < 1000; i++) {
            api_ok(alloc_small(&t));
            api_ok(record(&t));
            api_ok(free_here(&t));
            api_ok(acre_device_sync(t.device));
            api_ok(acre_pool_trim(t.pool, UINT64_MAX));
        }
        assert_in_range(acre__fault_count(), 1, 8);
        (void)fault_off();
        api_ok(acre_pool_destroy(t.pool, NULL, NULL));
        t.pool = NULL;
        api_ok(acre_stream_destroy(t.device, t.stream));
        t.stream = checked;
        expect_nothing_left(&t);
        things_end(&t);
    }
}

/* ---- destroyed streams ---- */

/* The driver refuses to mark the last work of a destroyed stream with an event, and the next stream
 * has the same handle. */
TEST(pool_memory_of_a_stream_that_could_not_be_retired_is_safe) {
    for (API_EACH(name)) {
        for (uint32_t nth = 1; nth < 24; nth++) {
            struct things t = things_begin(name);
            acre_stream again;
            void *p;
            make_brief(&t);
            fault_on(NULL, nth, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
            (void)acre_stream_destroy(t.device, t.brief);
            (void)fault_off();
            counted_restore_thread(name);
            fault_sync(name);
            t.brief = NULL;
            api_ok(acre_trim(t.device)); /* destroys the stream if that was refused */
            api_ok(acre_pool_alloc(t.pool, 4 * MIB, 0, t.other, &p));
            api_ok(acre_pool_free(t.pool, p, t.other));
            api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &again));
            api_ok(acre_pool_alloc(t.pool, 4 * MIB, 0, again, &p));
            api_ok(acre_pool_free(t.pool, p, again));
            api_ok(acre_stream_destroy(t.device, again));
            if (strcmp(name, "soft") == 0) /* the soft driver reuses handles at once */
                expect_all_memory_goes(&t);
            api_ok(acre_pool_destroy(t.pool, NULL, NULL));
            things_end(&t);
        }
    }
}

/* ---- a lost device ---- */

TEST(pool_of_a_lost_device_can_be_freed_to_and_destroyed) {
    struct things t = things_begin("soft");
    acre_pool *left;
    void *p;
    make_used(&t);
    void *used = t.block;
    api_ok(acre_pool_alloc(t.pool, 9 * SMALL, 0, t.stream, &p));
    api_ok(acre_pool_create(t.device, NULL, &left));
    api_ok(acre_pool_alloc(left, SMALL, 0, t.stream, &t.block));
    fault_on(NULL, 1, ACRE__FAULT_STICKY, CUDA_ERROR_ILLEGAL_ADDRESS);
    (void)acre_device_sync(t.device);
    t.block = NULL;
    api_expect(alloc_large(&t), ACRE_E_DEVICE_LOST);
    api_expect(acre_pool_trim(t.pool, 0), ACRE_E_DEVICE_LOST);
    api_expect(acre_pool_reserve(t.pool, MIB), ACRE_E_DEVICE_LOST);
    api_expect(acre_pool_record_use(t.pool, p, t.other), ACRE_E_DEVICE_LOST);
    api_ok(acre_pool_free(t.pool, p, t.other));
    (void)acre_pool_free(t.pool, used, t.stream);
    api_ok(acre_pool_destroy(t.pool, NULL, NULL));
    (void)acre_stream_destroy(t.device, t.stream);
    (void)acre_stream_destroy(t.device, t.other);
    (void)acre_event_destroy(t.device, t.event);
    api_ok(acre_close(t.device)); /* with a pool and a live block */
    (void)fault_off();
}

int main(void) {
    fault_begin();
    return tests_run("counted_pool");
}
