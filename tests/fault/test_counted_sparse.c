/* The counted loop over sparse ranges: the n-th driver call inside a call fails, alone or with all
 * later ones, for n = 1, 2, ... until a run in which none fails. After each run: the expected
 * status, the committed pieces unchanged with their contents, the caller's context untouched. The
 * same call works once the driver does, and nothing is left after trim. Further tests: order of
 * streams that are held up, captures, refused unmaps, a lost device. */
#include <pthread.h>

#include "api/api_range.h"
#include "fault_counted.h"

enum { PIECES = 8, ADDRESSES = 64 << 20 /* reserved at a time */ };

struct things {
    const char *name;
    acre_device *device;
    acre_stream stream, other;
    acre_range_budget *budget;
    acre_range *range, *second;
};

/* ---- ranges in several states ---- */

/* Pieces 1 and 2 of the range are committed and have contents, and piece 7 of the second one. */
static void make(struct things *t, uint64_t limit) {
    api_ok(acre_range_budget_create(t->device, limit, &t->budget));
    t->range = range_in(t->device, t->budget, PIECES);
    t->second = range_in(t->device, t->budget, PIECES);
    api_ok(piece_commit(t->range, 1, 2, t->stream));
    api_ok(piece_commit(t->second, 7, 1, t->stream));
    piece_stamp(t->device, t->range, 1, 11, t->stream);
    piece_stamp(t->device, t->range, 2, 12, t->stream);
    piece_stamp(t->device, t->second, 7, 17, t->stream);
    api_ok(acre_stream_sync(t->device, t->stream));
}

static void make_some(struct things *t) {
    make(t, 0);
}

/* Pieces 4 and 5 are idle; on a soft device their work is pending. */
static void make_idle(struct things *t) {
    make(t, 0);
    api_ok(piece_commit(t->range, 4, 2, t->other));
    if (strcmp(t->name, "soft") == 0)
        api_ok(acre_soft_set_lag(t->device, 100000, 0));
    piece_stamp(t->device, t->range, 4, 14, t->other);
    api_ok(acre_range_record_use(t->range, t->stream));
    api_ok(piece_decommit(t->range, 4, 2, t->other));
}

/* The budget is used up; three pieces of the second range are idle. */
static void make_full(struct things *t) {
    make(t, 6 * piece);
    api_ok(piece_commit(t->second, 0, 3, t->stream));
    api_ok(piece_decommit(t->second, 0, 3, t->stream));
    api_ok(acre_stream_sync(t->device, t->stream));
}

/* As make_full, and work still uses the idle pieces. */
static void make_busy(struct things *t) {
    make(t, 6 * piece);
    api_ok(piece_commit(t->second, 0, 3, t->stream));
    if (strcmp(t->name, "soft") == 0)
        api_ok(acre_soft_set_lag(t->device, 100000, 0));
    piece_stamp(t->device, t->second, 0, 1, t->stream);
    api_ok(piece_decommit(t->second, 0, 3, t->stream));
}

/* ---- the calls ---- */

/* Needs a reservation of its own. */
static acre_status create(struct things *t) {
    acre_range_options options = {.struct_size = sizeof options, .limit_bytes = piece};
    acre_range *range = (acre_range *)t;
    acre_status status = acre_range_create(t->device, ADDRESSES + piece, &options, &range);
    if (status)
        assert_null(range);
    else
        api_ok(acre_range_destroy(range, t->stream));
    return status;
}
static acre_status commit(struct things *t) {
    return piece_commit(t->range, 0, 4, t->stream); /* 0, 3 and two committed ones */
}
static acre_status commit_all(struct things *t) {
    return piece_commit(t->range, 0, PIECES, t->stream);
}
static acre_status commit_idle(struct things *t) {
    return piece_commit(t->range, 3, 3, t->stream); /* a new one and two idle ones */
}
static acre_status commit_moving(struct things *t) {
    return piece_commit(t->range, 3, 2, t->stream);
}
static acre_status decommit(struct things *t) {
    return piece_decommit(t->range, 1, 1, t->other);
}
static acre_status record(struct things *t) {
    return acre_range_record_use(t->range, t->other);
}
static acre_status trim(struct things *t) {
    return acre_range_trim(t->second, 0);
}
static acre_status destroy(struct things *t) {
    acre_status status = acre_range_destroy(t->range, t->stream);
    if (status == ACRE_OK)
        t->range = NULL;
    return status;
}

static const struct op {
    const char *name;
    acre_status (*call)(struct things *t);
    void (*before)(struct things *t);
    int is_limited;
} ops[] = {
    {"create", create, make_some, 0},         {"commit", commit, make_some, 0},
    {"commit all", commit_all, make_some, 0}, {"commit idle", commit_idle, make_idle, 0},
    {"move", commit_moving, make_full, 1},    {"wait and move", commit_moving, make_busy, 1},
    {"decommit", decommit, make_some, 0},     {"decommit again", decommit, make_idle, 0},
    {"record use", record, make_idle, 0},     {"trim", trim, make_full, 0},
    {"destroy", destroy, make_some, 0},       {"destroy busy", destroy, make_idle, 0},
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* ---- the loop ---- */

/* Bits of the committed pieces of a range. */
static int committed_add(void *user, const acre_range_part *part) {
    for (uint64_t at = part->offset; part->is_committed && at < part->offset + part->bytes;
         at += piece)
        *(unsigned *)user |= 1u << at / piece;
    return 0;
}

static unsigned committed(acre_range *range) {
    unsigned bits = 0;
    if (range)
        api_ok(acre_range_walk(range, committed_add, &bits));
    return bits;
}

static void expect_contents(struct things *t) {
    piece_check(t->device, t->second, 7, 17, t->stream);
    for (unsigned i = 1; t->range && i < 3; i++)
        if (committed(t->range) >> i & 1)
            piece_check(t->device, t->range, i, (unsigned char)(10 + i), t->stream);
}

static void expect_nothing_left(struct things *t) {
    if (strcmp(t->name, "soft") == 0)
        api_ok(acre_soft_set_lag(t->device, 0, 0));
    api_ok(acre_range_destroy(t->range, t->stream));
    api_ok(acre_range_destroy(t->second, t->stream));
    api_ok(acre_range_budget_destroy(t->budget));
    t->range = t->second = NULL;
    t->budget = NULL;
    api_ok(acre_trim(t->device));
    acre_device_stats after = api_stats(t->device);
    assert_int_equal(after.ranges + after.chunks + after.chunk_bytes + after.limbo_count, 0);
    assert_int_equal(after.range_bytes + after.range_idle_bytes, 0);
}

static void run_one(struct things *t, const struct op *op, struct counted *run) {
    op->before(t);
    unsigned before = committed(t->range);
    counted_call(run, op->call, t);
    if (run->mode == ACRE__FAULT_FROM)
        fault_sync(t->name);
    counted_expect_status(
        run, counted_is_right(run, COUNTED_DEVICE | COUNTED_HOST | COUNTED_ADDRESSES) ||
                 (op->is_limited && run->status == ACRE_E_LIMIT));
    if (run->status)
        assert_int_equal(committed(t->range), before);
    acre_range_stats all = budget_stats(t->budget);
    assert_true(!all.limit_bytes || all.peak_bytes <= all.limit_bytes);
    expect_contents(t);
    if (run->status) {
        api_ok(op->call(t));
        expect_contents(t);
    }
    expect_nothing_left(t);
}

static struct things things_begin(const char *name) {
    struct things t = {.name = name, .device = api_open(name)};
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.stream));
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.other));
    return t;
}

static void things_end(struct things *t) {
    api_ok(acre_stream_destroy(t->device, t->stream));
    api_ok(acre_stream_destroy(t->device, t->other));
    api_ok(acre_close(t->device));
}

TEST(range_calls_bear_every_refusal_and_change_nothing) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        for (size_t i = 0; i < OPS; i++) {
            const struct counted run = {.name = name, .device = t.device, .op = ops[i].name};
            counted_keeps_memory(run, run_one, &t, &ops[i]);
        }
        things_end(&t);
    }
}

/* ---- order ---- */

static void gate_put(const char *name, acre_stream stream, struct gate *gate) {
    gate_close(gate);
    fault_push(name);
    assert_int_equal(fault_raw(name)->cuLaunchHostFunc(stream, gate_run, gate), 0);
    fault_pop(name);
    assert_true(becomes_true(&gate->is_reached));
}

static void *gate_open_soon(void *argument) {
    struct gate *gate = argument;
    sleep_ms(30);
    atomic_store(&gate->is_open, 1);
    return NULL;
}

/* Work that is held up still uses the decommitted piece. A commit on the same stream continues at
 * once, one on another stream returns at once, too, but its work runs later. */
TEST(range_piece_committed_on_another_stream_waits_in_stream_order) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        struct gate gate;
        unsigned char found[64];
        make_some(&t);
        gate_put(name, t.stream, &gate);
        api_ok(acre_fill(t.device, piece_at(t.range, 1), 99, 64, t.stream));
        api_ok(piece_decommit(t.range, 1, 1, t.stream));
        api_ok(piece_commit(t.range, 1, 1, t.stream));
        assert_int_equal(range_stats(t.range).stream_waits, 0);
        api_ok(piece_decommit(t.range, 1, 1, t.stream));
        api_ok(piece_commit(t.range, 1, 1, t.other));
        assert_int_equal(range_stats(t.range).stream_waits, 1);
        assert_int_equal(range_stats(t.range).host_waits, 0);
        api_ok(acre_fill(t.device, piece_at(t.range, 1), 55, 64, t.other));
        assert_int_equal(atomic_load(&gate.is_passed), 0);
        assert_int_equal(acre_stream_query(t.device, t.other), ACRE_E_NOT_READY);
        atomic_store(&gate.is_open, 1);
        api_ok(acre_copy(t.device, found, piece_at(t.range, 1), 64, t.other));
        api_ok(acre_stream_sync(t.device, t.other));
        for (size_t i = 0; i < 64; i++)
            assert_int_equal(found[i], 55);
        expect_nothing_left(&t);
        things_end(&t);
    }
}

/* At the limit, memory of a piece that work still uses goes to another range after that work: the
 * commit waits. Work recorded by acre_range_record_use counts like that of the decommit's stream.
 * Trim does not wait. */
static void move_after_gate(const char *name, int is_recorded) {
    struct things t = things_begin(name);
    struct gate gate;
    pthread_t opener;
    make(&t, 3 * piece);
    gate_put(name, t.stream, &gate);
    api_ok(acre_fill(t.device, piece_at(t.range, 1), 99, 64, t.stream));
    if (is_recorded)
        api_ok(acre_range_record_use(t.range, t.stream));
    api_ok(piece_decommit(t.range, 1, 1, is_recorded ? t.other : t.stream));
    api_ok(acre_range_budget_trim(t.budget, 0));
    assert_int_equal(range_stats(t.range).idle_bytes, piece);
    api_expect(piece_commit(t.second, 0, 2, t.other), ACRE_E_LIMIT); /* waiting would not help */
    assert_int_equal(atomic_load(&gate.is_passed), 0);
    assert_int_equal(pthread_create(&opener, NULL, gate_open_soon, &gate), 0);
    api_ok(piece_commit(t.second, 0, 1, t.other));
    assert_int_equal(atomic_load(&gate.is_passed), 1);
    assert_int_equal(range_stats(t.second).host_waits, 1);
    assert_int_equal(range_stats(t.range).pieces_moved, 1);
    assert_int_equal(pthread_join(opener, NULL), 0);
    api_ok(acre_stream_sync(t.device, t.stream));
    expect_nothing_left(&t);
    things_end(&t);
}

TEST(range_memory_moves_only_after_its_work) {
    for (API_EACH(name)) {
        move_after_gate(name, 0);
        move_after_gate(name, 1);
    }
}

TEST(range_destroy_waits_for_its_work) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        struct gate gate;
        pthread_t opener;
        make_some(&t);
        gate_put(name, t.stream, &gate);
        api_ok(acre_fill(t.device, piece_at(t.range, 1), 99, 64, t.stream));
        api_ok(piece_decommit(t.range, 1, 1, t.stream));
        assert_int_equal(pthread_create(&opener, NULL, gate_open_soon, &gate), 0);
        api_ok(destroy(&t)); /* the wait for stream `stream` */
        assert_int_equal(atomic_load(&gate.is_passed), 1);
        assert_int_equal(pthread_join(opener, NULL), 0);
        expect_nothing_left(&t);
        things_end(&t);
    }
}

/* ---- captures ---- */

TEST(range_calls_on_a_captured_stream_are_refused) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        const struct acre__driver *raw = fault_raw(name);
        CUgraph graph = NULL;
        make_some(&t);
        api_ok(piece_decommit(t.range, 2, 1, t.stream));
        assert_int_equal(raw->cuStreamBeginCapture(t.stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
        api_expect(piece_commit(t.range, 2, 1, t.stream), ACRE_E_CAPTURING);
        api_expect(piece_commit(t.range, 1, 1, t.stream), ACRE_E_CAPTURING);
        api_expect(piece_decommit(t.range, 1, 1, t.stream), ACRE_E_CAPTURING);
        api_expect(record(&t), ACRE_OK); /* on another stream */
        api_expect(acre_range_record_use(t.range, t.stream), ACRE_E_CAPTURING);
        api_expect(destroy(&t), ACRE_E_CAPTURING);
        assert_int_equal(committed(t.range), 2);
        api_ok(piece_commit(t.range, 2, 3, t.other)); /* does not disturb the capture */
        assert_int_equal(raw->cuStreamEndCapture(t.stream, &graph), 0);
        assert_non_null(graph);
        assert_int_equal(raw->cuGraphDestroy(graph), 0);
        expect_contents(&t);
        expect_nothing_left(&t);
        things_end(&t);
    }
}

/* ---- refused unmaps ---- */

/* A failed commit cannot unmap its piece. The piece stays idle, and the next commit uses it. */
API_TEST(range_piece_that_cannot_be_unmapped_is_used_again) {
    acre_range *range = range_in(device, NULL, 4);
    fault_on("cuMemSetAccess", 1, ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN);
    api_expect(piece_commit(range, 0, 2, NULL), ACRE_E_DRIVER);
    assert_int_equal(fault_off(), 1);
    assert_int_equal(range_stats(range).idle_bytes + range_stats(range).committed_bytes, 0);
    api_ok(piece_commit(range, 0, 2, NULL));
    api_ok(piece_decommit(range, 1, 1, NULL));
    api_ok(acre_device_sync(device));
    fault_on("cuMemUnmap", 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
    api_ok(acre_range_trim(range, 0));
    assert_true(fault_off() > 0);
    assert_int_equal(range_stats(range).idle_bytes, piece);
    api_ok(piece_commit(range, 0, 4, NULL));
    assert_int_equal(range_stats(range).pieces_mapped, 4);
    piece_stamp(device, range, 1, 5, NULL);
    piece_check(device, range, 1, 5, NULL);
    /* At the end its addresses go to limbo, and nothing else gets them. */
    char *at = piece_at(range, 0);
    fault_on("cuMemUnmap", 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
    api_ok(acre_range_destroy(range, NULL));
    (void)fault_off();
    assert_int_equal(api_stats(device).limbo_count, 4);
    acre_range *next = range_in(device, NULL, 4);
    char *other = acre_range_data(next);
    assert_true(other >= at + 4 * piece || other + 4 * piece <= at);
    api_ok(acre_range_destroy(next, NULL));
    api_ok(acre_trim(device));
    assert_int_equal(api_stats(device).limbo_count + api_stats(device).chunks, 0);
}

/* ---- a lost device ---- */

TEST(range_of_a_lost_device_can_be_decommitted_and_destroyed) {
    struct things t = things_begin("soft");
    make_idle(&t);
    api_ok(acre_soft_set_lag(t.device, 0, 0));
    fault_on(NULL, 1, ACRE__FAULT_STICKY, CUDA_ERROR_ILLEGAL_ADDRESS);
    (void)acre_device_sync(t.device);
    api_expect(commit(&t), ACRE_E_DEVICE_LOST);
    api_expect(record(&t), ACRE_E_DEVICE_LOST);
    api_expect(trim(&t), ACRE_E_DEVICE_LOST);
    api_ok(decommit(&t));
    assert_int_equal(range_stats(t.range).committed_bytes, piece);
    api_ok(destroy(&t));
    assert_int_equal(api_stats(t.device).ranges, 1);
    (void)acre_stream_destroy(t.device, t.stream);
    (void)acre_stream_destroy(t.device, t.other);
    api_ok(acre_close(t.device)); /* with one live range and its budget */
    (void)fault_off();
}

int main(void) {
    setenv("ACRE_ADDRESS_BYTES", "64MiB", 1);
    fault_begin();
    return tests_run("counted_sparse");
}
