/* The counted loop over the space layer and the blocks that use it: the n-th driver call fails,
 * alone or with all later ones, for n = 1, 2, ... until a run in which none fails. After each run:
 * the expected status with a detail, records that match the driver, the same contents, the caller's
 * context and capture mode untouched. The same call works once the driver does, and nothing is left
 * after trim. Last, every call loses the device: acre only updates its records, without a crash or
 * a leak. */
#include <fcntl.h>

#include "soft/soft.h"
#include "fault_counted.h"
#include "space/uses.h"
#include "unit/space_fixture.h"

enum { RESERVE = 16, MAPPED = 3, MARK = 1000 }; /* units of the extent; its words */

/* Arguments of the functions under test; each run creates what it needs. */
struct things {
    const char *name;
    acre_device *device;
    acre_stream stream;
    size_t unit;
    uint64_t free_bytes; /* before the first run */
    struct acre__extent extent;
    int has_extent;
    size_t marked; /* bytes of the extent that hold marks */
    struct acre__moved moved;
    struct acre__chunk *list;
    int fd;
    struct acre__range range;
    struct acre__uses uses;
    int has_uses;
    unsigned char *p; /* a block */
    size_t bytes;     /* of the block; its first and last word are MARK */
    size_t wanted;    /* bytes after acre_mem_realloc */
};

/* ---- states ---- */

static void make_nothing(struct things *t) {
    (void)t;
}

/* Forgets whether the driver supports host chunks. */
static void make_unknown(struct things *t) {
    acre__chunk_end(t->device);
}

static void make_extent(struct things *t) {
    api_ok(
        acre__extent_open(&t->extent, t->device, ACRE__CHUNK_SHAREABLE, RESERVE * t->unit, 0, 0));
    t->has_extent = 1;
    api_ok(acre__extent_grow(&t->extent, t->unit));
    api_ok(acre__extent_grow(&t->extent, MAPPED * t->unit)); /* two chunks */
    t->marked = MAPPED * t->unit;
    space_mark(&t->extent, 0, t->marked, MARK);
}

static void make_list(struct things *t) {
    struct acre__chunk *second;
    api_ok(acre__chunk_take(t->device, 2 * t->unit, ACRE__CHUNK_SHAREABLE, &t->list));
    api_ok(acre__chunk_take(t->device, t->unit, ACRE__CHUNK_SHAREABLE, &second));
    t->list->next = second;
}

static void make_extent_and_list(struct things *t) {
    make_extent(t);
    make_list(t);
}

static void make_moved(struct things *t) {
    make_extent(t);
    api_ok(acre__extent_move_begin(&t->extent, RESERVE * t->unit, &t->moved));
}

static void make_exported(struct things *t) {
    make_list(t);
    api_ok(acre__chunk_export(t->list, &t->fd));
}

static void make_free_range(struct things *t) {
    struct acre__range range;
    api_ok(acre__range_take(t->device, t->unit, t->unit, &range));
    acre__range_give(t->device, range.at, range.bytes);
}

static void make_uses(struct things *t) {
    acre__uses_open(&t->uses, t->device);
    t->has_uses = 1;
}

static void make_recorded(struct things *t) {
    make_uses(t);
    api_ok(acre__uses_record(&t->uses, t->stream));
    api_ok(acre__uses_record(&t->uses, NULL));
}

static void make_block(struct things *t, size_t bytes) {
    void *p;
    api_ok(acre_mem_alloc(t->device, ACRE_KIND_DEVICE, bytes, 0, &p));
    t->p = p;
    t->bytes = bytes;
    space_write(t->device, (uintptr_t)p, MARK);
    space_write(t->device, (uintptr_t)p + bytes - 8, MARK);
}

static void make_large(struct things *t) {
    make_block(t, 2 * t->unit + 4096);
}

/* A block of two chunks. */
static void make_grown(struct things *t) {
    void *p;
    make_block(t, t->unit);
    api_ok(acre_mem_realloc(t->device, t->p, 3 * t->unit, t->stream, &p));
    assert_ptr_equal(p, t->p);
    t->bytes = 3 * t->unit;
    space_write(t->device, (uintptr_t)p + t->bytes - 8, MARK);
}

/* A block of two chunks whose next addresses are taken. */
static void make_enclosed(struct things *t) {
    make_grown(t);
    api_ok(acre__range_take(t->device, t->unit, t->unit, &t->range));
}

static void make_small(struct things *t) {
    make_block(t, 4096);
}

/* ---- the functions ---- */

static acre_status do_open(struct things *t) {
    acre_status status = acre__extent_open(&t->extent, t->device, 0, RESERVE * t->unit, 0, 0);
    t->has_extent = status == ACRE_OK;
    return status;
}
static acre_status do_open_host(struct things *t) {
    acre_status status =
        acre__extent_open(&t->extent, t->device, ACRE__CHUNK_HOST, 4 * t->unit, 0, 0);
    t->has_extent = status == ACRE_OK;
    return status;
}
static acre_status do_grow(struct things *t) {
    return acre__extent_grow(&t->extent, 5 * t->unit);
}
static acre_status do_add(struct things *t) {
    struct acre__chunk *first = t->list, *second = first->next;
    acre__chunk_keep(first);
    acre__chunk_keep(second);
    acre_status status = acre__extent_add(&t->extent, first);
    if (status) { /* the list is still ours */
        first->next = second;
        return status;
    }
    acre__chunk_drop(first);
    acre__chunk_drop(second);
    t->list = NULL;
    return ACRE_OK;
}
static acre_status do_shrink(struct things *t) {
    size_t went = acre__extent_shrink(&t->extent, t->unit);
    assert_int_equal(went + t->extent.mapped, MAPPED * t->unit); /* refused chunks stay mapped */
    t->marked = t->extent.mapped;
    return ACRE_OK;
}
static acre_status do_move_begin(struct things *t) {
    uint64_t at = t->extent.range.at;
    acre_status status = acre__extent_move_begin(&t->extent, 2 * RESERVE * t->unit, &t->moved);
    assert_int_equal(t->moved.dev == NULL, status != ACRE_OK);
    assert_int_equal(t->extent.range.at == at, status != ACRE_OK);
    return status;
}
static acre_status do_move_end(struct things *t) {
    acre__extent_move_end(&t->moved);
    return ACRE_OK;
}
static acre_status do_access(struct things *t) {
    return acre__extent_set_access(&t->extent, t->device, CU_MEM_ACCESS_FLAGS_PROT_READ);
}
static acre_status do_close(struct things *t) {
    acre__extent_close(&t->extent);
    t->has_extent = 0;
    return ACRE_OK;
}
static acre_status do_take(struct things *t) {
    t->list = (struct acre__chunk *)t;
    acre_status status = acre__chunk_take(t->device, 2 * t->unit, 0, &t->list);
    if (status)
        assert_null(t->list);
    return status;
}
static acre_status do_cover(struct things *t) {
    t->list = (struct acre__chunk *)t;
    acre_status status = acre__chunk_cover(t->device, 3 * t->unit, 0, 0, &t->list);
    if (status)
        assert_null(t->list);
    return status;
}
static acre_status do_drop(struct things *t) {
    while (t->list) {
        struct acre__chunk *next = t->list->next;
        acre__chunk_drop(t->list);
        t->list = next;
    }
    return ACRE_OK;
}
static acre_status do_export(struct things *t) {
    acre_status status = acre__chunk_export(t->list, &t->fd);
    assert_int_equal(t->fd == -1, status != ACRE_OK);
    return status;
}
static acre_status do_import(struct things *t) {
    struct acre__chunk *chunk;
    acre_status status =
        acre__chunk_import(t->device, t->fd, 2 * t->unit, ACRE__CHUNK_SHAREABLE, &chunk);
    assert_int_equal(chunk == NULL, status != ACRE_OK);
    if (chunk) {
        chunk->next = t->list;
        t->list = chunk;
    }
    return status;
}
static acre_status do_range(struct things *t) {
    acre_status status = acre__range_take(t->device, 3 * t->unit, t->unit, &t->range);
    assert_int_equal(t->range.bytes, status ? 0 : 3 * t->unit);
    return status;
}
static acre_status do_range_trim(struct things *t) {
    acre__range_trim(t->device);
    return ACRE_OK;
}
static acre_status do_chunk_unit(struct things *t) {
    (void)acre__chunk_unit(t->device, ACRE__CHUNK_HOST);
    return ACRE_OK;
}
static acre_status do_record(struct things *t) {
    return acre__uses_record(&t->uses, t->stream);
}
static acre_status do_wait(struct things *t) {
    return acre__uses_wait(&t->uses);
}
static acre_status do_uses_close(struct things *t) {
    acre__uses_close(&t->uses);
    t->has_uses = 0;
    return ACRE_OK;
}
static acre_status do_quiesce(struct things *t) {
    return acre__step_quiesce(t->device);
}
static acre_status do_alloc(struct things *t) {
    void *p = t;
    acre_status status = acre_mem_alloc(t->device, ACRE_KIND_DEVICE, 5 * t->unit, 0, &p);
    assert_int_equal(p == NULL, status != ACRE_OK);
    if (p)
        api_ok(acre_mem_free(t->device, p)); /* the driver may still refuse calls */
    return status;
}
static acre_status do_free(struct things *t) {
    acre_status status = acre_mem_free(t->device, t->p);
    t->p = NULL;
    return status;
}
static acre_status do_mem_access(struct things *t) {
    return acre_mem_set_access(t->device, t->p, t->device, ACRE_ACCESS_READ_WRITE);
}

static acre_status realloc_to(struct things *t, size_t bytes) {
    void *p = t;
    acre_status status = acre_mem_realloc(t->device, t->p, bytes, t->stream, &p);
    assert_int_equal(p == NULL, status != ACRE_OK);
    if (p) {
        t->p = p;
        t->wanted = bytes;
    }
    return status;
}
static acre_status do_realloc_in_place(struct things *t) {
    return realloc_to(t, 6 * t->unit);
}
static acre_status do_realloc_moving(struct things *t) {
    return realloc_to(t, 20 * t->unit + 8);
}
static acre_status do_realloc_shrinking(struct things *t) {
    return realloc_to(t, t->unit);
}
static acre_status do_realloc_to_small(struct things *t) {
    return realloc_to(t, 65536);
}
static acre_status do_realloc_to_large(struct things *t) {
    return realloc_to(t, 4 * t->unit);
}

enum {
    GIVES_BACK = 1, /* never fails: a refused release waits in limbo */
    HALVES = 2,     /* if out of memory or addresses, retries with less and may succeed */
    PROBES = 4,     /* host chunks: after a refusal they count as unsupported */
    IS_PUBLIC = 8   /* checks first whether the device is lost */
};

static const struct op {
    const char *name;
    void (*before)(struct things *t);
    acre_status (*call)(struct things *t);
    unsigned flags;
} ops[] = {
    {"extent open", make_nothing, do_open, HALVES},
    {"extent open host", make_unknown, do_open_host, HALVES | PROBES},
    {"extent grow", make_extent, do_grow, HALVES},
    {"extent add", make_extent_and_list, do_add, 0},
    {"extent shrink", make_extent, do_shrink, GIVES_BACK},
    {"extent move begin", make_extent, do_move_begin, HALVES},
    {"extent move end", make_moved, do_move_end, GIVES_BACK},
    {"extent access", make_extent, do_access, 0},
    {"extent close", make_extent, do_close, GIVES_BACK},
    {"chunk take", make_nothing, do_take, 0},
    {"chunk cover", make_nothing, do_cover, HALVES},
    {"chunk drop", make_list, do_drop, GIVES_BACK},
    {"chunk export", make_list, do_export, 0},
    {"chunk import", make_exported, do_import, 0},
    {"chunk unit", make_unknown, do_chunk_unit, GIVES_BACK},
    {"range take", make_nothing, do_range, HALVES},
    {"range trim", make_free_range, do_range_trim, GIVES_BACK},
    {"uses record", make_uses, do_record, 0},
    {"uses wait", make_recorded, do_wait, 0},
    {"uses close", make_recorded, do_uses_close, GIVES_BACK},
    {"quiesce", make_nothing, do_quiesce, HALVES},
    {"mem alloc", make_nothing, do_alloc, HALVES | IS_PUBLIC},
    {"mem free", make_large, do_free, GIVES_BACK},
    {"mem free of two", make_grown, do_free, GIVES_BACK},
    {"mem access", make_grown, do_mem_access, IS_PUBLIC},
    {"realloc in place", make_large, do_realloc_in_place, HALVES | IS_PUBLIC},
    {"realloc moving", make_enclosed, do_realloc_moving, HALVES | IS_PUBLIC},
    {"realloc shrinking", make_grown, do_realloc_shrinking, IS_PUBLIC},
    {"realloc to small", make_large, do_realloc_to_small, IS_PUBLIC},
    {"realloc to large", make_small, do_realloc_to_large, HALVES | IS_PUBLIC},
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* ---- checks ---- */

static void expect_status(const struct counted *run, const struct op *op) {
    int is_right = counted_is_right(run, COUNTED_DEVICE | COUNTED_ADDRESSES);
    if (op->flags & PROBES)
        is_right |= run->status == ACRE_E_UNSUPPORTED;
    if (op->flags & GIVES_BACK)
        is_right = run->status == ACRE_OK;
    counted_expect_status(run, is_right);
}

/* The detail is about the call that failed, not about the clean-up after it. */
static void expect_detail(const struct counted *run) {
    const char *const undoing[] = {"cuMemUnmap", "cuMemRelease", "cuMemAddressFree",
                                   "cuEventDestroy", "cuCtxPopCurrent"};
    for (size_t i = 0; i < sizeof undoing / sizeof undoing[0]; i++)
        if (run->mode == ACRE__FAULT_FROM && strstr(acre_last_detail(), undoing[i]))
            fail_msg("%s from call %u on: %s", run->op, run->nth, acre_last_detail());
}

/* The record of the block has its address and size, and the block has its contents. */
static void expect_block(const struct things *t) {
    acre_mem_info info = {.struct_size = sizeof info};
    size_t bytes = t->wanted ? t->wanted : t->bytes;
    api_ok(acre_stream_sync(t->device, t->stream)); /* small blocks are copied in stream order */
    api_ok(acre_mem_query(t->device, t->p, &info));
    assert_ptr_equal(info.base, t->p);
    assert_int_equal(info.bytes, bytes);
    assert_int_equal(space_read(t->device, (uintptr_t)t->p), MARK);
    if (bytes >= t->bytes)
        assert_int_equal(space_read(t->device, (uintptr_t)t->p + t->bytes - 8), MARK);
    space_write(t->device, (uintptr_t)t->p + bytes - 8, MARK); /* all bytes are mapped */
}

static void expect_state(struct things *t, const struct counted *run) {
    if (t->has_extent) {
        space_expect_truth(&t->extent);
        space_expect_marks(&t->extent, 0, t->marked, MARK);
        if (run->mode == ACRE__FAULT_ONCE && t->marked && !t->moved.dev)
            assert_true(t->extent.range.bytes >= RESERVE * t->unit); /* no addresses were lost */
    }
    if (t->p)
        expect_block(t);
}

/* ---- the loop ---- */

static struct things things_begin(const char *name) {
    struct things t = {.name = name, .device = api_open(name), .fd = -1};
    t.unit = acre__chunk_unit(t.device, 0);
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.stream));
    return t;
}

/* Destroys everything that a run created. */
static void run_end(struct things *t) {
    acre__extent_move_end(&t->moved);
    if (t->has_extent)
        acre__extent_close(&t->extent);
    (void)do_drop(t);
    if (t->fd >= 0)
        close(t->fd);
    acre__range_give(t->device, t->range.at, t->range.bytes);
    if (t->has_uses)
        acre__uses_close(&t->uses);
    if (t->p)
        api_ok(acre_mem_free(t->device, t->p));
    struct things again = {.name = t->name, .device = t->device, .stream = t->stream, .fd = -1};
    again.unit = t->unit;
    again.free_bytes = t->free_bytes;
    *t = again;
}

/* Checks for leaks. */
static void expect_empty(struct things *t, const struct counted *run) {
    uint64_t count, bytes, cached, reserved, taken;
    api_ok(acre_trim(t->device));
    acre__chunk_count(t->device, &count, &bytes, &cached);
    acre__range_count(t->device, &reserved, &taken);
    acre_device_stats stats = api_stats(t->device);
    if (count || bytes || cached || reserved || taken || stats.limbo_count || stats.mem_blocks)
        fail_msg("%s with call %u failing leaves %llu chunks, %llu bytes of addresses, %llu in "
                 "limbo, %llu blocks",
                 run->op, run->nth, (unsigned long long)count, (unsigned long long)reserved,
                 (unsigned long long)stats.limbo_count, (unsigned long long)stats.mem_blocks);
    uint64_t now = space_free_bytes(t->device);
    if (now < t->free_bytes)
        fail_msg("%s with call %u failing loses %llu bytes", run->op, run->nth,
                 (unsigned long long)(t->free_bytes - now));
}

static void run_one(struct things *t, const struct op *op, struct counted *run) {
    op->before(t);
    counted_call(run, op->call, t);
    expect_status(run, op);
    if (run->status)
        expect_detail(run);
    expect_state(t, run);
    if (run->status) {
        if (run->mode == ACRE__FAULT_FROM) {
            api_ok(acre_trim(t->device)); /* releases the addresses in limbo */
            if (t->has_extent)
                assert_int_equal(acre__extent_extend(&t->extent, RESERVE * t->unit), 1);
        }
        api_ok(op->call(t));
        expect_state(t, run);
    }
    run_end(t);
    expect_empty(t, run);
}

static void every_function_bears_every_refusal(const char *cache_bytes) {
    setenv("ACRE_CHUNK_CACHE_BYTES", cache_bytes, 1);
    for (API_EACH(name)) {
        struct things t = things_begin(name);
        for (size_t i = 0; i < OPS; i++) {
            ops[i].before(&t); /* warm-up: a driver keeps memory after its first use */
            run_end(&t);
            api_ok(acre_trim(t.device));
            t.free_bytes = space_free_bytes(t.device);
            const struct counted run = {.name = name, .device = t.device, .op = ops[i].name};
            /* With a cache there may be no driver call. */
            (void)counted_loop(run, COUNTED_ALL, run_one, &t, &ops[i]);
        }
        api_ok(acre_stream_destroy(t.device, t.stream));
        api_ok(acre_close(t.device));
        assert_int_equal(fault_context_is_active(name), 0);
    }
}

TEST(functions_without_a_cache_bear_every_refusal) {
    every_function_bears_every_refusal("0");
}

TEST(functions_with_a_cache_bear_every_refusal) {
    every_function_bears_every_refusal("64MiB");
}

/* ---- a lost device ---- */

/* The device is lost from driver call `nth` on. Returns 0 if no call failed. */
static int lose_one(const char *name, const struct op *op, uint32_t nth) {
    struct things t = things_begin(name);
    op->before(&t);
    fault_on(NULL, nth, ACRE__FAULT_STICKY, CUDA_ERROR_LAUNCH_FAILED);
    acre_status status = op->call(&t);
    uint64_t fired = acre__fault_fired();
    if (op->flags & GIVES_BACK)
        api_ok(status);
    if (status && status != ACRE_E_DEVICE_LOST && !(op->flags & PROBES))
        fail_msg("%s lost at call %u: %s: %s", op->name, nth, acre_status_name(status),
                 acre_last_detail());
    if (t.has_extent)
        assert_null(extent_fault(&t.extent));
    if (status && op->flags & IS_PUBLIC)
        api_expect(op->call(&t), ACRE_E_DEVICE_LOST);
    else if (status)
        (void)op->call(&t); /* may work without the driver */
    run_end(&t);            /* the driver still fails */
    api_ok(acre_close(t.device));
    fault_off();
    counted_restore_thread(name);
    return fired != 0;
}

TEST(functions_that_lose_the_device_keep_books) {
    const char *const caches[] = {"0", "64MiB"};
    for (API_EACH(name)) {
        int is_soft = fault_raw(name)->is_soft != 0;
        for (size_t i = 0; i < 2 * OPS; i++) {
            setenv("ACRE_CHUNK_CACHE_BYTES", caches[i % 2], 1);
            /* The contents of a lost device are lost. On a GPU a sample of the calls is enough. */
            for (uint32_t nth = 1; lose_one(name, &ops[i / 2], nth); nth += is_soft ? 1 : 7)
                if (is_soft)
                    acre__soft_reset();
            if (is_soft)
                acre__soft_reset();
        }
        acre_device *device = api_open(name); /* releases the contexts */
        acre_device_stats stats = api_stats(device);
        assert_int_equal(stats.chunks + stats.chunk_bytes + stats.address_bytes, 0);
        api_ok(acre_close(device));
        assert_int_equal(fault_context_is_active(name), 0);
    }
}

int main(void) {
    unsetenv("ACRE_VMM");
    setenv("ACRE_COPY_THREADS", "1", 1);
    setenv("ACRE_SOFT_BYTES", "256MiB", 1);
    fault_begin();
    return tests_run("counted_space");
}
