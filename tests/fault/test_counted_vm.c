/* The counted loop over virtual memory by hand: the n-th driver call of a function fails, alone or
 * with all later ones, for n = 1, 2, ... until a run in which none fails. After each run: the
 * expected status, no output, everything unchanged, the caller's context and capture mode
 * untouched. The same call works once the driver does, and at the end all memory is free. Further
 * tests: acre_close, lost devices, and devices without virtual memory. */
#include "acre_soft.h"
#include "api/api_memory.h"
#include "device/device.h"
#include "fault_counted.h"

/* Arguments of the functions under test. */
struct things {
    const char *name;
    acre_device *device;
    size_t unit;
    char *at;             /* a reservation of 4 units */
    acre_vm_chunk *chunk; /* a unit */
    acre_vm_chunk *host;  /* a unit of host memory */
    /* results */
    size_t minimum, recommended, real;
    acre_vm_chunk *made;
    void *reserved;
    acre_access access;
};

static void things_begin(struct things *t, const char *name) {
    void *at;
    *t = (struct things){.name = name, .device = api_open(name)};
    api_ok(acre_vm_granularity(t->device, 0, &t->unit, NULL));
    api_ok(acre_vm_reserve(t->device, 4 * t->unit, 0, NULL, &at, NULL));
    t->at = at;
    api_ok(acre_vm_create(t->device, t->unit, 0, &t->chunk, NULL));
    api_ok(acre_vm_create(t->device, t->unit, ACRE_VM_HOST, &t->host, NULL));
}

static void things_end(struct things *t) {
    api_ok(acre_vm_release(t->device, t->chunk));
    api_ok(acre_vm_release(t->device, t->host));
    api_ok(acre_vm_address_free(t->device, t->at));
    api_ok(acre_close(t->device));
}

static acre_access access_at(const struct things *t, size_t offset, acre_device *peer) {
    acre_access access = (acre_access)2;
    api_ok(acre_vm_get_access(t->device, t->at + offset, peer, &access));
    return access;
}

/* ---- the functions: preparation, call, check after failure, check after success, undo ---- */

static void nothing(struct things *t) {
    (void)t;
}

static acre_status granularity(struct things *t) {
    t->minimum = t->recommended = 1;
    return acre_vm_granularity(t->device, ACRE_VM_SHAREABLE, &t->minimum, &t->recommended);
}
static void granularity_none(struct things *t) {
    assert_int_equal(t->minimum + t->recommended, 0);
}
static void granularity_done(struct things *t) {
    assert_int_equal(t->minimum, t->unit);
    assert_true(t->recommended >= t->unit);
}

static acre_status create(struct things *t) {
    t->made = t->chunk;
    t->real = 1;
    return acre_vm_create(t->device, t->unit, ACRE_VM_SHAREABLE, &t->made, &t->real);
}
static acre_status create_host(struct things *t) {
    t->made = t->chunk;
    t->real = 1;
    return acre_vm_create(t->device, t->unit, ACRE_VM_HOST, &t->made, &t->real);
}
static void create_none(struct things *t) {
    assert_null(t->made);
    assert_int_equal(t->real, 0);
}
static void create_done(struct things *t) {
    assert_non_null(t->made);
    assert_int_equal(t->real, t->unit);
}
static void create_undo(struct things *t) {
    api_ok(acre_vm_release(t->device, t->made));
}

static void release_before(struct things *t) {
    api_ok(create(t));
}
static acre_status release(struct things *t) {
    return acre_vm_release(t->device, t->made);
}
static void release_none(struct things *t) { /* the handle can still be mapped */
    api_ok(acre_vm_map(t->device, t->at, t->made));
    api_ok(acre_vm_unmap(t->device, t->at, t->unit));
}
static void release_done(struct things *t) {
    api_expect(acre_vm_map(t->device, t->at, t->made), ACRE_E_HANDLE);
}

static acre_status reserve(struct things *t) {
    t->reserved = t;
    t->real = 1;
    return acre_vm_reserve(t->device, 2 * t->unit, 4 * t->unit, NULL, &t->reserved, &t->real);
}
static void reserve_none(struct things *t) {
    assert_null(t->reserved);
    assert_int_equal(t->real, 0);
}
static void reserve_done(struct things *t) {
    assert_non_null(t->reserved);
    assert_int_equal(t->real, 2 * t->unit);
}
static void reserve_undo(struct things *t) {
    api_ok(acre_vm_address_free(t->device, t->reserved));
}

static void address_free_before(struct things *t) {
    api_ok(reserve(t));
}
static acre_status address_free(struct things *t) {
    return acre_vm_address_free(t->device, t->reserved);
}
static void address_free_none(struct things *t) { /* the addresses are still reserved */
    api_ok(acre_vm_map(t->device, t->reserved, t->chunk));
    api_ok(acre_vm_unmap(t->device, t->reserved, t->unit));
}
static void address_free_done(struct things *t) {
    api_expect(acre_vm_map(t->device, t->reserved, t->chunk), ACRE_E_RANGE);
}

static acre_status map(struct things *t) {
    return acre_vm_map(t->device, t->at, t->chunk);
}
static void map_none(struct things *t) {
    acre_access access;
    api_expect(acre_vm_get_access(t->device, t->at, t->device, &access), ACRE_E_POINTER);
}
static void map_done(struct things *t) {
    assert_int_equal(access_at(t, 0, t->device), ACRE_ACCESS_NONE);
}
static void map_undo(struct things *t) {
    api_ok(acre_vm_unmap(t->device, t->at, t->unit));
}

/* Maps the chunk at two adjacent addresses. */
static void map_two(struct things *t) {
    api_ok(acre_vm_map(t->device, t->at, t->chunk));
    api_ok(acre_vm_map(t->device, t->at + t->unit, t->chunk));
}
static void map_two_open(struct things *t) {
    map_two(t);
    api_ok(acre_vm_set_access(t->device, t->at, 2 * t->unit, t->device, ACRE_ACCESS_READ_WRITE));
}
static acre_status unmap(struct things *t) {
    return acre_vm_unmap(t->device, t->at, 2 * t->unit);
}
static void unmap_none(struct things *t) {
    assert_int_equal(access_at(t, 0, t->device), ACRE_ACCESS_READ_WRITE);
    assert_int_equal(access_at(t, t->unit, t->device), ACRE_ACCESS_READ_WRITE);
}
static void unmap_undo(struct things *t) {
    api_ok(unmap(t));
}

static acre_status set_access(struct things *t) {
    return acre_vm_set_access(t->device, t->at, 2 * t->unit, t->device, ACRE_ACCESS_READ_WRITE);
}
static void set_access_none(struct things *t) {
    assert_int_equal(access_at(t, 0, t->device), ACRE_ACCESS_NONE);
    assert_int_equal(access_at(t, t->unit, t->device), ACRE_ACCESS_NONE);
}
static acre_status get_access(struct things *t) {
    t->access = (acre_access)2;
    return acre_vm_get_access(t->device, t->at + t->unit, t->device, &t->access);
}
static void get_access_none(struct things *t) {
    assert_int_equal(t->access, ACRE_ACCESS_NONE);
}
static void get_access_done(struct things *t) {
    assert_int_equal(t->access, ACRE_ACCESS_READ_WRITE);
}

static void map_host(struct things *t) {
    api_ok(acre_vm_map(t->device, t->at, t->host));
}
static acre_status set_access_host(struct things *t) {
    return acre_vm_set_access(t->device, t->at, t->unit, NULL, ACRE_ACCESS_READ_WRITE);
}
static void set_access_host_none(struct things *t) {
    assert_int_equal(access_at(t, 0, NULL), ACRE_ACCESS_NONE);
}
static void set_access_host_done(struct things *t) {
    t->at[t->unit - 1] = 1;
    assert_int_equal(access_at(t, 0, NULL), ACRE_ACCESS_READ_WRITE);
}

static const struct op {
    const char *name;
    void (*before)(struct things *t);
    acre_status (*call)(struct things *t);
    void (*none)(struct things *t); /* after a failure: nothing changed */
    void (*done)(struct things *t);
    void (*undo)(struct things *t);
    const char *memory; /* out of memory in this driver function has the status `means` */
    acre_status means;
    /* Driver calls whose failure the caller does not see: the pop and the reset of the capture
     * mode, which acre does in another way, and the query for the host's NUMA node. */
    unsigned unseen;
} ops[] = {
    {"granularity", nothing, granularity, granularity_none, granularity_done, nothing, "", 0, 4},
    {"create", nothing, create, create_none, create_done, create_undo, "", 0, 4},
    {"create host", nothing, create_host, create_none, create_done, create_undo, "cuMemCreate",
     ACRE_E_HOST_MEMORY, 6},
    {"release", release_before, release, release_none, release_done, nothing, "", 0, 2},
    {"reserve", nothing, reserve, reserve_none, reserve_done, reserve_undo, "cuMemAddressReserve",
     ACRE_E_ADDRESS_SPACE, 4},
    {"address_free", address_free_before, address_free, address_free_none, address_free_done,
     nothing, "", 0, 2},
    {"map", nothing, map, map_none, map_done, map_undo, "", 0, 2},
    {"unmap", map_two_open, unmap, unmap_none, map_none, nothing, "", 0, 2},
    {"set_access", map_two, set_access, set_access_none, unmap_none, unmap_undo, "", 0, 2},
    {"get_access", map_two_open, get_access, get_access_none, get_access_done, unmap_undo, "", 0,
     2},
    {"set_access host", map_host, set_access_host, set_access_host_none, set_access_host_done,
     map_undo, "", 0, 3},
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* ---- the loop ---- */

static void run_one(struct things *t, const struct op *op, struct counted *run) {
    op->before(t);
    counted_call(run, op->call, t);
    assert_true(run->refusals <= run->fired);
    assert_int_equal(api_stats(t->device).limbo_count, 0);
    int is_own = op->memory[0] && strstr(acre_last_detail(), op->memory) != NULL;
    counted_expect_status(
        run, counted_is_right(run, is_own ? counted_memory(op->means) : COUNTED_DEVICE));
    if (run->status) {
        op->none(t);
        api_ok(op->call(t)); /* the same call works once the driver does */
    }
    op->done(t);
    op->undo(t);
}

TEST(every_function_bears_every_refusal) {
    for (API_EACH(name)) {
        struct things t;
        things_begin(&t, name);
        uint64_t free_bytes = api_free_bytes(t.device);
        for (size_t i = 0; i < OPS; i++) {
            const struct counted run = {
                .name = name, .device = t.device, .op = ops[i].name, .unseen = &ops[i].unseen};
            assert_true(counted_loop(run, COUNTED_SHORT, run_one, &t, &ops[i]) > 0);
            api_expect_free(t.device, free_bytes);
        }
        things_end(&t);
        assert_int_equal(fault_context_is_active(name), 0);
    }
}

/* ---- devices ---- */

/* Whichever driver call of acre_close fails, acre retries, and no memory is lost. */
TEST(close_with_things_left_bears_every_refusal) {
    struct api_heard heard = {.area = "vm"};
    api_ok(acre_log_set(api_listen, &heard, ACRE_LOG_WARN));
    for (API_EACH(name)) {
        struct things t;
        things_begin(&t, name);
        things_end(&t);
        things_begin(&t, name);
        uint64_t free_bytes = api_free_bytes(t.device);
        things_end(&t);
        uint64_t fired = 1;
        for (uint32_t nth = 1; fired; nth++) {
            things_begin(&t, name);
            map_two_open(&t);
            heard.count = 0;
            fault_on(NULL, nth, ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN);
            api_ok(acre_close(t.device));
            fired = fault_off();
            assert_int_equal(heard.count, 1);
            assert_non_null(strstr(heard.line, "2 mappings, 1 reservations and 2 chunks"));
            assert_non_null(strstr(heard.line, "refused 0"));
            things_begin(&t, name);
            api_expect_free(t.device, free_bytes);
            things_end(&t);
        }
        assert_int_equal(fault_context_is_active(name), 0);
    }
    api_ok(acre_log_set(NULL, NULL, ACRE_LOG_WARN));
}

TEST(device_without_memory_by_hand_says_so) {
    for (API_EACH(name)) {
        struct things t;
        things_begin(&t, name);
        acre_device_info info = t.device->info;
        t.device->info.has_vmm = 0;
        api_expect(granularity(&t), ACRE_E_UNSUPPORTED);
        granularity_none(&t);
        api_expect(create(&t), ACRE_E_UNSUPPORTED);
        create_none(&t);
        api_expect(reserve(&t), ACRE_E_UNSUPPORTED);
        reserve_none(&t);
        api_expect(map(&t), ACRE_E_UNSUPPORTED);
        api_expect(set_access(&t), ACRE_E_UNSUPPORTED);
        api_expect(get_access(&t), ACRE_E_UNSUPPORTED);
        get_access_none(&t);
        t.device->info = info;

        t.device->info.has_host_vmm = t.device->info.has_fd_sharing = t.device->info.has_rdma = 0;
        api_expect(create_host(&t), ACRE_E_UNSUPPORTED);
        api_expect(create(&t), ACRE_E_UNSUPPORTED); /* create requests a shareable chunk */
        api_expect(granularity(&t), ACRE_E_UNSUPPORTED);
        api_ok(acre_vm_create(t.device, t.unit, ACRE_VM_RDMA, &t.made, NULL)); /* only a hint */
        api_ok(acre_vm_release(t.device, t.made));
        assert_int_equal(api_stats(t.device).driver_refusals, 0);
        t.device->info = info;
        things_end(&t);
    }
}

/* Its wait allocates and frees, and a free that the driver refuses goes to limbo. */
TEST(unmap_sync_bears_every_refusal) {
    for (API_EACH(name)) {
        struct things t;
        uint64_t fired = 1;
        uint32_t nth = 1;
        things_begin(&t, name);
        for (; fired; nth++) {
            map_two_open(&t);
            fault_on(NULL, nth, ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN);
            acre_status status = acre_vm_unmap_sync(t.device, t.at, 2 * t.unit);
            fired = fault_off();
            if (status) {
                assert_int_equal(fired, 1);
                unmap_none(&t);
                api_ok(acre_vm_unmap_sync(t.device, t.at, 2 * t.unit));
            }
            map_none(&t);
            api_ok(acre_trim(t.device));
            assert_int_equal(api_stats(t.device).limbo_count, 0);
        }
        assert_true(nth > 3);
        things_end(&t);
    }
}

TEST(unmap_sync_waits_and_leaves_captures_alone) {
    struct things t;
    acre_stream stream, captured;
    CUgraph graph = NULL;
    things_begin(&t, "soft");
    const struct acre__driver *raw = fault_raw("soft");
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &stream));
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &captured));
    map_two_open(&t);
    api_ok(acre_soft_set_lag(t.device, 1000, 0));
    api_ok(acre_fill(t.device, t.at, 1, 2 * t.unit, stream));
    api_expect(acre_stream_query(t.device, stream), ACRE_E_NOT_READY);
    fault_push("soft");
    assert_int_equal(raw->cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    api_ok(acre_vm_unmap_sync(t.device, t.at, 2 * t.unit));
    assert_int_equal(raw->cuStreamEndCapture(captured, &graph), 0);
    fault_pop("soft");
    api_ok(acre_stream_sync(t.device, stream)); /* the fill did not find its memory gone */
    api_ok(acre_soft_set_lag(t.device, 0, 0));
    api_ok(acre_stream_destroy(t.device, captured));
    api_ok(acre_stream_destroy(t.device, stream));
    things_end(&t);
}

/* The memory was destroyed with the context; releasing it only updates acre's records. */
TEST(lost_device_keeps_books_only) {
    struct api_heard heard = {.area = "vm"};
    api_ok(acre_log_set(api_listen, &heard, ACRE_LOG_WARN));
    for (API_EACH(name)) {
        struct things t;
        things_begin(&t, name);
        map_two_open(&t);
        fault_on("cuCtxSynchronize", 1, ACRE__FAULT_STICKY, CUDA_ERROR_ILLEGAL_ADDRESS);
        api_expect(acre_device_sync(t.device), ACRE_E_DEVICE_LOST);
        uint64_t calls = acre__fault_count();
        api_expect(granularity(&t), ACRE_E_DEVICE_LOST);
        api_expect(create(&t), ACRE_E_DEVICE_LOST);
        api_expect(reserve(&t), ACRE_E_DEVICE_LOST);
        api_expect(map(&t), ACRE_E_DEVICE_LOST);
        api_expect(set_access(&t), ACRE_E_DEVICE_LOST);
        api_expect(get_access(&t), ACRE_E_DEVICE_LOST);
        api_ok(acre_vm_release(t.device, t.chunk));
        api_expect(acre_vm_release(t.device, t.chunk), ACRE_E_HANDLE);
        api_expect(acre_vm_address_free(t.device, t.at), ACRE_E_BUSY);
        api_ok(acre_vm_unmap_sync(t.device, t.at, t.unit));
        api_ok(acre_vm_unmap(t.device, t.at + t.unit, t.unit));
        api_expect(unmap(&t), ACRE_E_POINTER);
        api_ok(acre_vm_address_free(t.device, t.at));
        heard.count = 0;
        api_ok(acre_close(t.device));
        assert_int_equal(acre__fault_count(), calls); /* no driver call was made */
        assert_int_equal(heard.count, 1);
        assert_non_null(strstr(heard.line, "0 mappings, 0 reservations and 1 chunks"));
        fault_off();
    }
    api_ok(acre_log_set(NULL, NULL, ACRE_LOG_WARN));
}

int main(void) {
    fault_begin();
    return tests_run("counted_vm");
}
