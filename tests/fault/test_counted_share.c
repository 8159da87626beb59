/* The counted loop over sharing: the n-th driver call fails while memory is exported, opened,
 * refreshed or closed, alone or with all later ones, for n = 1, 2, ... until a run in which none
 * fails. Owner and importer are one process here, so calls of both fail. After each run: the
 * expected status, no output, and the import unchanged. The same call works once the driver does,
 * and nothing is left at the end. */
#include "api/api_share.h"
#include "fault_counted.h"

/* A shared vec of two chunks of 2 MiB, and an import of it. */
struct things {
    const char *name;
    acre_device *device;
    acre_stream stream;
    acre_vec *vec;
    acre_share *share;
    acre_import *import, *second;
    int fds[8];
    uint64_t bytes[8];
    size_t count;
};

static void things_begin(struct things *t, uint64_t address_bytes) {
    t->vec = vec_make(t->device, 1, address_bytes ? address_bytes : 64 * MIB);
    t->import = t->second = NULL;
    api_ok(acre_vec_grow(t->vec, 2 * MIB, t->stream));
    api_ok(acre_vec_grow(t->vec, 2 * MIB, t->stream));
    put(t->device, acre_vec_data(t->vec), 4 * MIB, 1);
    api_ok(acre_share_vec(t->vec, new_path(), NULL, &t->share));
}

static void things_open(struct things *t) {
    api_ok(acre_import_open(t->device, path, API_WAIT(PATIENCE_MS), &t->import));
}

static void things_end(struct things *t) {
    api_ok(acre_import_close(t->import, t->stream));
    api_ok(acre_import_close(t->second, t->stream));
    api_ok(acre_share_close(t->share));
    api_ok(acre_vec_destroy(t->vec, t->stream));
    api_ok(acre_trim(t->device));
    acre_device_stats stats = api_stats(t->device);
    assert_int_equal(stats.imports + stats.shares + stats.limbo_count, 0);
    assert_int_equal(stats.chunks, 0);
}

/* ---- the functions ---- */

static void before_nothing(struct things *t) {
    things_begin(t, 0);
}
static void before_grown(struct things *t) {
    things_begin(t, 0);
    things_open(t);
    api_ok(acre_vec_grow(t->vec, 2 * MIB, t->stream));
    put(t->device, acre_vec_data(t->vec), 6 * MIB, 2);
}
static void before_shrunk(struct things *t) {
    things_begin(t, 0);
    things_open(t);
    api_ok(acre_vec_shrink(t->vec, 2 * MIB, t->stream));
}
/* The import's second chunk was replaced in the vec, and a third one follows. */
static void before_replaced(struct things *t) {
    before_shrunk(t);
    api_ok(acre_vec_grow(t->vec, 2 * MIB, t->stream));
    api_ok(acre_vec_grow(t->vec, 2 * MIB, t->stream));
    put(t->device, (char *)acre_vec_data(t->vec), 6 * MIB, 2);
}
/* A second import takes the addresses behind the first. */
static void before_moved(struct things *t) {
    things_begin(t, 4 * MIB);
    things_open(t);
    api_ok(acre_import_open(t->device, path, API_WAIT(PATIENCE_MS), &t->second));
    api_ok(acre_vec_grow(t->vec, 8 * MIB, t->stream));
    put(t->device, acre_vec_data(t->vec), 12 * MIB, 2);
}

static acre_status call_export(struct things *t) {
    t->count = 77;
    return acre_share_export_fds(t->device, acre_vec_data(t->vec), 8, t->fds, t->bytes, &t->count);
}
static acre_status call_open(struct things *t) {
    t->import = (acre_import *)t;
    return acre_import_open(t->device, path, API_WAIT(PATIENCE_MS), &t->import);
}
static acre_status call_refresh(struct things *t) {
    return acre_import_refresh(t->import, t->stream);
}
static acre_status call_close(struct things *t) {
    acre_status status = acre_import_close(t->import, t->stream);
    if (status == ACRE_OK)
        t->import = NULL;
    return status;
}

static const struct op {
    const char *name;
    void (*before)(struct things *t);
    acre_status (*call)(struct things *t);
    size_t has;    /* bytes of the import after success */
    unsigned salt; /* of their pattern */
} ops[] = {
    {"export", before_nothing, call_export, 0, 0},
    {"open", before_nothing, call_open, 4 * MIB, 1},
    {"refresh grown", before_grown, call_refresh, 6 * MIB, 2},
    {"refresh shrunk", before_shrunk, call_refresh, 2 * MIB, 1},
    {"refresh replaced", before_replaced, call_refresh, 6 * MIB, 2},
    {"refresh moved", before_moved, call_refresh, 12 * MIB, 2},
    {"close", before_grown, call_close, 0, 0},
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* ---- the loop ---- */

/* After a failure the import is unchanged. Only if the driver refuses everything from then on
 * may the import lose chunks that it could not map again. It keeps the chunks that the owner
 * still has. */
static void expect_as_before(struct things *t, const struct op *op, const struct counted *run,
                             const acre_import_info *before) {
    if (op->call == call_export) {
        assert_int_equal(t->count, 0);
        return;
    }
    if (op->call == call_open) {
        assert_null(t->import);
        return;
    }
    acre_import_info after = info_of(t->import);
    assert_ptr_equal(after.data, before->data);
    assert_int_equal(after.bytes, before->bytes);
    assert_int_equal(after.refreshed_bytes, before->refreshed_bytes);
    if (run->mode == ACRE__FAULT_FROM && after.mapped_bytes != before->mapped_bytes) {
        assert_int_equal(after.mapped_bytes, 2 * MIB);
        return;
    }
    assert_int_equal(after.mapped_bytes, before->mapped_bytes);
    unsigned char piece[256];
    for (size_t at = 0; at < after.mapped_bytes; at += 2 * MIB)
        api_ok(acre_copy_sync(t->device, piece, (char *)after.data + at, sizeof piece));
}

static void expect_done(struct things *t, const struct op *op) {
    if (op->call == call_export) {
        assert_int_equal(t->count, 2);
        assert_int_equal(t->bytes[0] + t->bytes[1], 4 * MIB);
        close(t->fds[0]);
        close(t->fds[1]);
    }
    if (!op->has)
        return;
    acre_import_info info = info_of(t->import);
    assert_int_equal(info.bytes, op->has);
    assert_int_equal(info.mapped_bytes, op->has);
    if (!has(t->device, info.data, op->has, op->salt))
        fail_msg("%s: the import has wrong bytes", op->name);
}

static void run_one(struct things *t, const struct op *op, struct counted *run) {
    acre_import_info before = {.struct_size = sizeof before};
    op->before(t);
    if (t->import)
        before = info_of(t->import);
    counted_call(run, op->call, t);
    counted_expect_status(run, counted_is_right(run, COUNTED_DEVICE | COUNTED_ADDRESSES));
    if (run->status) {
        expect_as_before(t, op, run, &before);
        api_ok(acre_trim(t->device));
        api_ok(op->call(t)); /* the same call works once the driver does */
    }
    expect_done(t, op);
    things_end(t);
}

TEST(share_bears_every_refusal) {
    for (API_EACH(name)) {
        struct things t = {.name = name, .device = api_open(name)};
        api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.stream));
        before_moved(&t); /* warm-up: a driver keeps memory after its first use */
        things_end(&t);
        uint64_t free_bytes = fault_free_bytes(name);
        size_t fds = open_fds();
        for (size_t i = 0; i < OPS; i++) {
            const struct counted run = {.name = name, .device = t.device, .op = ops[i].name};
            assert_true(counted_loop(run, COUNTED_SHORT, run_one, &t, &ops[i]) > 0);
            assert_true(fault_free_bytes(name) >= free_bytes);
            if (strcmp(name, "soft") == 0)
                assert_int_equal(open_fds(), fds);
        }
        api_ok(acre_stream_destroy(t.device, t.stream));
        api_ok(acre_close(t.device));
    }
}

/* The device is lost during the call: the call returns a status and does not hang, and everything
 * can be closed. */
TEST(share_that_loses_the_device_ends) {
    for (API_EACH(name)) {
        for (size_t i = 0; i < OPS; i++) {
            /* A sample of the calls, since the memory of a lost device stays lost in this
             * process. */
            for (uint32_t nth = 1, is_over = 0; !is_over; nth += (nth + 1) / 2) {
                struct things t = {.name = name, .device = api_open(name)};
                api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.stream));
                ops[i].before(&t);
                fault_on(NULL, nth, ACRE__FAULT_STICKY, CUDA_ERROR_LAUNCH_FAILED);
                acre_status status = ops[i].call(&t);
                is_over = acre__fault_fired() == 0;
                if (status == ACRE_OK)
                    expect_done(&t, &(struct op){.call = ops[i].call});
                else if (ops[i].call == call_open)
                    assert_null(t.import);
                /* Owner and importer use the same device. If the owner detects the loss first, the
                 * importer gets ACRE_E_GONE. */
                assert_true(status == ACRE_OK || status == ACRE_E_DEVICE_LOST ||
                            status == ACRE_E_GONE);
                if (nth % 2 && status) {
                    api_ok(acre_import_close(t.import, t.stream));
                    api_ok(acre_share_close(t.share));
                    api_ok(acre_vec_destroy(t.vec, t.stream));
                }
                fault_sync(name);
                api_ok(acre_close(t.device));
                fault_off();
                counted_restore_thread(name);
            }
        }
        acre_device *device = api_open(name); /* releases the contexts */
        api_ok(acre_close(device));
    }
}

int main(void) {
    setenv("ACRE_ADDRESS_BYTES", "256MiB", 1);
    fault_begin();
    return tests_run("counted_share");
}
