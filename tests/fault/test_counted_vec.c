/* The counted loop over vecs: the n-th driver call inside a call fails, alone or with all later
 * ones, for n = 1, 2, ... until a run in which none fails. After each run: the expected status, the
 * vec unchanged with its contents, the caller's context untouched. The same call works once the
 * driver does, and nothing is left after trim. Further tests: captured streams, a lost device,
 * access of peers. */
#include "api/api_memory.h"
#include "fault_counted.h"

static const size_t chunk = 2 << 20;
enum { STAMP = 4096 }; /* bytes at the beginning that must stay */

struct things {
    const char *name;
    acre_device *device;
    acre_stream stream;
    struct api_buffer pinned, page;
    acre_vec *vec, *behind;
};

static unsigned char stamp_byte(size_t i) {
    return (unsigned char)(i * 37 + 11);
}

/* ---- vecs in several states ---- */

/* Creates a vec of `filled` bytes. With `is_held`, `behind` takes the addresses after it. */
static void make(struct things *t, const acre_vec_options *options, size_t filled, int is_held) {
    api_ok(acre_vec_create(t->device, 1, options, &t->vec));
    if (is_held)
        api_ok(acre_vec_create(t->device, 1, options, &t->behind));
    for (size_t i = 0; i < STAMP; i++)
        t->page.at[i] = stamp_byte(i);
    if (!filled)
        return;
    api_ok(acre_vec_append(t->vec, t->page.at, STAMP, t->stream));
    while (acre_vec_size(t->vec) < filled) {
        size_t left = filled - acre_vec_size(t->vec);
        api_ok(acre_vec_grow(t->vec, left < chunk ? left : chunk, t->stream));
    }
}

static void make_empty(struct things *t) {
    make(t, NULL, 0, 0);
}
static void make_some(struct things *t) {
    make(t, NULL, 3 * chunk, 0);
}
static void make_full(struct things *t) {
    acre_vec_options options = {.struct_size = sizeof options, .address_bytes = 2 * chunk};
    make(t, &options, 2 * chunk, 1);
}
static void make_extensible(struct things *t) {
    acre_vec_options options = {.struct_size = sizeof options, .address_bytes = 2 * chunk};
    make(t, &options, 2 * chunk, 0);
}
static void make_copying(struct things *t) {
    acre_vec_options options = {.struct_size = sizeof options, .strategy = ACRE_VEC_COPY};
    make(t, &options, chunk, 0);
}
static void make_pinned(struct things *t) {
    acre_vec_options options = {.struct_size = sizeof options, .kind = ACRE_KIND_PINNED};
    make(t, &options, 2 * chunk, 0);
}
static void make_managed(struct things *t) {
    acre_vec_options options = {
        .struct_size = sizeof options, .kind = ACRE_KIND_MANAGED, .address_bytes = chunk};
    make(t, &options, chunk, 0);
}

/* ---- the calls ---- */

static acre_status create(struct things *t) {
    t->vec = (acre_vec *)t;
    acre_status status = acre_vec_create(t->device, 1, NULL, &t->vec);
    if (status)
        assert_null(t->vec);
    return status;
}
static acre_status grow(struct things *t) {
    return acre_vec_grow(t->vec, 2 * chunk, t->stream);
}
static acre_status reserve(struct things *t) {
    return acre_vec_reserve(t->vec, 64 * chunk, t->stream);
}
static acre_status append_pinned(struct things *t) {
    return acre_vec_append(t->vec, t->pinned.at, chunk, t->stream);
}
static acre_status append_page(struct things *t) {
    return acre_vec_append(t->vec, t->page.at, STAMP, t->stream);
}
static acre_status shrink(struct things *t) {
    return acre_vec_shrink(t->vec, acre_vec_size(t->vec) - STAMP, t->stream);
}
static acre_status fit(struct things *t) {
    return acre_vec_shrink_to_fit(t->vec, t->stream);
}
static acre_status record(struct things *t) {
    return acre_vec_record_use(t->vec, t->stream);
}
static acre_status destroy(struct things *t) {
    acre_status status = acre_vec_destroy(t->vec, t->stream);
    if (status == ACRE_OK)
        t->vec = NULL;
    return status;
}
static void make_unfit(struct things *t) {
    make_some(t);
    api_ok(acre_vec_clear(t->vec));
    api_ok(acre_vec_append(t->vec, t->page.at, STAMP, t->stream));
}

static const struct op {
    const char *name;
    acre_status (*call)(struct things *t);
    void (*before)(struct things *t); /* or NULL */
} ops[] = {
    {"create", create, NULL},
    {"grow", grow, make_some},
    {"grow empty", grow, make_empty},
    {"grow in place", grow, make_extensible},
    {"grow moving", grow, make_full},
    {"grow copying", grow, make_copying},
    {"grow pinned", grow, make_pinned},
    {"grow managed", grow, make_managed},
    {"reserve moving", reserve, make_full},
    {"reserve copying", reserve, make_copying},
    {"append pinned", append_pinned, make_some},
    {"append page", append_page, make_some},
    {"append moving", append_pinned, make_full},
    {"append copying", append_pinned, make_copying},
    {"shrink", shrink, make_some},
    {"shrink pinned", shrink, make_pinned},
    {"shrink to fit", fit, make_unfit},
    {"record use", record, make_some},
    {"destroy", destroy, make_some},
    {"destroy copying", destroy, make_copying},
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* ---- the loop ---- */

static acre_vec_info info_of(const struct things *t) {
    acre_vec_info info = {.struct_size = sizeof info};
    if (t->vec)
        api_ok(acre_vec_get_info(t->vec, &info));
    return info;
}

/* Memory that the driver refused to unmap keeps its addresses, so the vec loses them. If the driver
 * refused to wait for the copy of an append, the memory of the append stays mapped. */
static void expect_unchanged(const struct counted *run, const acre_vec_info *before,
                             acre_vec_info after) {
    if (run->mode == ACRE__FAULT_FROM && after.capacity < before->capacity)
        after.capacity = before->capacity;
    if (run->mode == ACRE__FAULT_FROM && !before->mapped_bytes && !after.data)
        after.data = before->data; /* the vec has lost all its addresses */
    if (run->mode == ACRE__FAULT_FROM && strncmp(run->op, "append", 6) == 0 &&
        after.mapped_bytes > before->mapped_bytes && after.size == before->size)
        return;
    if (memcmp(&after, before, sizeof after) != 0)
        fail_msg("%s with call %u failing: the vec has changed: size %llu, mapped %llu, capacity "
                 "%llu, moves %llu, at %p",
                 run->op, run->nth, (unsigned long long)after.size,
                 (unsigned long long)after.mapped_bytes, (unsigned long long)after.capacity,
                 (unsigned long long)after.moves, after.data);
}

static void expect_stamp(struct things *t, size_t bytes) {
    if (!t->vec || !bytes)
        return;
    bytes = bytes < STAMP ? bytes : STAMP;
    api_ok(acre_stream_sync(t->device, t->stream)); /* an append may still read the buffer */
    memset(t->pinned.at, 0, bytes);
    api_ok(acre_copy(t->device, t->pinned.at, acre_vec_data(t->vec), bytes, t->stream));
    api_ok(acre_stream_sync(t->device, t->stream));
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(t->pinned.at[i], stamp_byte(i));
}

static void expect_nothing_left(struct things *t) {
    if (t->vec)
        api_ok(acre_vec_destroy(t->vec, t->stream));
    if (t->behind)
        api_ok(acre_vec_destroy(t->behind, t->stream));
    t->vec = t->behind = NULL;
    api_ok(acre_trim(t->device));
    acre_device_stats after = api_stats(t->device);
    assert_int_equal(after.vecs + after.chunks + after.chunk_bytes + after.limbo_count, 0);
    assert_int_equal(after.mem_blocks, 1); /* the pinned buffer */
}

static void run_one(struct things *t, const struct op *op, struct counted *run) {
    if (op->before)
        op->before(t);
    api_ok(acre_stream_sync(t->device, t->stream));
    acre_vec_info before = info_of(t);
    counted_call(run, op->call, t);
    if (run->mode == ACRE__FAULT_FROM)
        fault_sync(t->name);
    counted_expect_status(run,
                          counted_is_right(run, COUNTED_DEVICE | COUNTED_HOST | COUNTED_ADDRESSES));
    if (run->status)
        expect_unchanged(run, &before, info_of(t));
    expect_stamp(t, before.size);
    if (run->status) {
        api_ok(op->call(t));
        expect_stamp(t, before.size);
    }
    expect_nothing_left(t);
}

static struct things things_begin(const char *name) {
    struct things t = {.name = name, .device = api_open(name)};
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.stream));
    t.pinned = api_buffer_make(t.device, SORT_PINNED, chunk);
    t.page = api_buffer_make(t.device, SORT_PAGEABLE, STAMP);
    return t;
}

static void things_end(struct things *t) {
    api_buffer_end(&t->pinned);
    api_buffer_end(&t->page);
    api_ok(acre_stream_destroy(t->device, t->stream));
    api_ok(acre_close(t->device));
}

TEST(vec_calls_bear_every_refusal_and_change_nothing) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        for (size_t i = 0; i < OPS; i++) {
            const struct counted run = {.name = name, .device = t.device, .op = ops[i].name};
            counted_keeps_memory(run, run_one, &t, &ops[i]);
        }
        things_end(&t);
    }
}

/* ---- captures ---- */

TEST(vec_on_a_captured_stream_only_does_what_touches_it_not) {
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        const struct acre__driver *raw = fault_raw(name);
        make_full(&t);
        acre_vec_info before = info_of(&t);
        CUgraph graph = NULL;
        assert_int_equal(raw->cuStreamBeginCapture(t.stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
        api_expect(append_pinned(&t), ACRE_E_CAPTURING);
        api_expect(append_page(&t), ACRE_E_CAPTURING);
        api_expect(shrink(&t), ACRE_E_CAPTURING);
        api_expect(reserve(&t), ACRE_E_CAPTURING);
        api_expect(grow(&t), ACRE_E_CAPTURING);
        api_expect(record(&t), ACRE_E_CAPTURING);
        api_expect(destroy(&t), ACRE_E_CAPTURING);
        acre_vec_info after = info_of(&t);
        assert_memory_equal(&after, &before, sizeof after);
        api_ok(acre_vec_shrink(t.vec, 1, t.stream)); /* releases no memory */
        api_ok(acre_vec_grow(t.vec, 1, t.stream));
        api_ok(acre_vec_grow(t.behind, chunk, t.stream));
        assert_int_equal(raw->cuStreamEndCapture(t.stream, &graph), 0);
        expect_stamp(&t, STAMP);
        expect_nothing_left(&t);
        things_end(&t);
    }
}

/* ---- a lost device ---- */

TEST(vec_of_a_lost_device_can_be_destroyed) {
    struct things t = things_begin("soft");
    make_full(&t);
    acre_vec_options copies = {.struct_size = sizeof copies, .strategy = ACRE_VEC_COPY};
    acre_vec *copying;
    api_ok(acre_vec_create(t.device, 1, &copies, &copying));
    api_ok(acre_vec_grow(copying, chunk, t.stream));
    fault_on(NULL, 1, ACRE__FAULT_STICKY, CUDA_ERROR_ILLEGAL_ADDRESS);
    (void)acre_device_sync(t.device);
    api_expect(grow(&t), ACRE_E_DEVICE_LOST);
    api_expect(shrink(&t), ACRE_E_DEVICE_LOST);
    assert_int_equal(acre_vec_size(t.vec), 2 * chunk);
    api_ok(acre_vec_destroy(t.vec, t.stream));
    api_ok(acre_vec_destroy(copying, t.stream));
    assert_int_equal(api_stats(t.device).vecs, 1);
    (void)acre_stream_destroy(t.device, t.stream);
    (void)acre_mem_free(t.device, t.pinned.at);
    free(t.page.at);
    api_ok(acre_close(t.device)); /* with one live vec */
    (void)fault_off();
}

/* ---- access ---- */

static unsigned long long access_of(const void *at, int device) {
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    unsigned long long flags = 99;
    assert_int_equal(
        fault_raw("soft")->cuMemGetAccess(&flags, &location, (CUdeviceptr)(uintptr_t)at), 0);
    return flags;
}

TEST(vec_gives_peers_access_to_what_it_has_and_gets) {
    acre_device *devices[2];
    acre_vec *vec, *behind;
    acre_vec_options options = {.struct_size = sizeof options, .address_bytes = 2 * chunk};
    api_open_two(devices);
    api_ok(acre_vec_create(devices[0], 1, &options, &vec));
    api_ok(acre_vec_create(devices[0], 1, &options, &behind));
    api_ok(acre_vec_grow(vec, chunk, NULL));
    char *at = acre_vec_data(vec);
    assert_int_equal(access_of(at, 0), ACRE_ACCESS_READ_WRITE);
    assert_int_equal(access_of(at, 1), ACRE_ACCESS_NONE);
    api_ok(acre_vec_set_access(vec, devices[1], ACRE_ACCESS_READ));
    assert_int_equal(access_of(at, 1), ACRE_ACCESS_READ);
    api_ok(acre_vec_grow(vec, chunk, NULL));
    assert_int_equal(access_of(at + chunk, 1), ACRE_ACCESS_READ);
    api_ok(acre_vec_grow(vec, chunk, NULL)); /* moves */
    assert_ptr_not_equal(acre_vec_data(vec), at);
    at = acre_vec_data(vec);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(access_of(at + i * chunk, 1), ACRE_ACCESS_READ);
    api_ok(acre_vec_set_access(vec, devices[1], ACRE_ACCESS_NONE));
    assert_int_equal(access_of(at + chunk, 1), ACRE_ACCESS_NONE);
    assert_int_equal(access_of(at + chunk, 0), ACRE_ACCESS_READ_WRITE);
    api_ok(acre_vec_destroy(vec, NULL));
    api_ok(acre_vec_destroy(behind, NULL));
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

int main(void) {
    fault_begin();
    return tests_run("counted_vec");
}
