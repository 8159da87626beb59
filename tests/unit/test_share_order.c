/* Imports and queued work: a call that unmaps memory waits for its stream, a call that only adds
 * memory does not. The soft driver reports memory that is unmapped under queued work. */
#include <stdatomic.h>

#include "api/api_share.h"
#include "device/device.h"
#include "driver/driver.h"
#include "soft/soft.h"

/* A stream with a slow host function, followed by a fill of the import. */
struct held {
    acre_device *device;
    acre_stream stream;
    acre_vec *vec;
    acre_share *share;
    acre_import *import, *next;
    _Atomic int may_pass, has_passed;
    int patience_ms; /* the host function returns after this time */
};

static void nap_ms(long ms) {
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&nap, NULL);
}

static void wait_for_gate(void *user) {
    struct held *held = user;
    for (int i = 0; i < held->patience_ms && !atomic_load(&held->may_pass); i++)
        nap_ms(1);
    atomic_store(&held->has_passed, 1);
}

static void held_begin(struct held *held, uint64_t address_bytes) {
    memset(held, 0, sizeof *held);
    held->patience_ms = 50;
    held->device = api_open("soft");
    held->vec = vec_make(held->device, 1, address_bytes);
    api_ok(acre_stream_create(held->device, ACRE_STREAM_NON_BLOCKING, &held->stream));
    api_ok(acre_vec_grow(held->vec, 2 * MIB, NULL));
    api_ok(acre_vec_grow(held->vec, 2 * MIB, NULL));
    api_ok(acre_share_vec(held->vec, new_path(), NULL, &held->share));
    api_ok(acre_import_open(held->device, path, NULL, &held->import));
    api_ok(acre_import_open(held->device, path, NULL, &held->next));
}

/* Queues the host function and the fill on held->stream, which the owner does not use. */
static void held_queue(struct held *held) {
    const struct acre__driver *drv = held->device->drv;
    CUcontext context;
    assert_int_equal(drv->cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(drv->cuCtxPushCurrent(context), 0);
    assert_int_equal(drv->cuLaunchHostFunc(held->stream, wait_for_gate, held), 0);
    assert_int_equal(drv->cuCtxPopCurrent(&context), 0);
    assert_int_equal(drv->cuDevicePrimaryCtxRelease(0), 0);
    api_ok(acre_fill(held->device, info_of(held->import).data, 5, 4 * MIB, held->stream));
}

static void held_end(struct held *held) {
    char text[256] = "";
    atomic_store(&held->may_pass, 1);
    api_ok(acre_stream_sync(held->device, held->stream));
    if (acre__soft_reports(text, sizeof text))
        fail_msg("%s", text);
    api_ok(acre_import_close(held->import, NULL));
    api_ok(acre_import_close(held->next, NULL));
    api_ok(acre_share_close(held->share));
    api_ok(acre_vec_destroy(held->vec, NULL));
    api_ok(acre_stream_destroy(held->device, held->stream));
    end(held->device);
}

TEST(share_refresh_waits_before_it_unmaps) {
    struct held held;
    held_begin(&held, 0);
    api_ok(acre_vec_shrink(held.vec, 2 * MIB, NULL));
    held_queue(&held);
    api_ok(acre_import_refresh(held.import, held.stream));
    assert_int_equal(atomic_load(&held.has_passed), 1);
    assert_int_equal(info_of(held.import).mapped_bytes, 2 * MIB);
    held_end(&held);
}

TEST(share_refresh_waits_before_it_moves) {
    struct held held;
    held_begin(&held, 4 * MIB);
    void *data = info_of(held.import).data;
    api_ok(acre_vec_grow(held.vec, 12 * MIB, NULL));
    held_queue(&held);
    api_ok(acre_import_refresh(held.import, held.stream));
    assert_int_equal(atomic_load(&held.has_passed), 1);
    assert_ptr_not_equal(info_of(held.import).data, data);
    held_end(&held);
}

TEST(share_refresh_that_only_adds_waits_for_nothing) {
    struct held held;
    held_begin(&held, 0);
    api_ok(acre_vec_grow(held.vec, 2 * MIB, NULL));
    held.patience_ms = 20000;
    held_queue(&held);
    api_ok(acre_import_refresh(held.import, held.stream));
    assert_int_equal(atomic_load(&held.has_passed), 0);
    assert_int_equal(info_of(held.import).mapped_bytes, 6 * MIB);
    held_end(&held);
}

TEST(share_close_waits_for_the_stream) {
    struct held held;
    held_begin(&held, 0);
    held_queue(&held);
    api_ok(acre_import_close(held.import, held.stream));
    held.import = NULL;
    assert_int_equal(atomic_load(&held.has_passed), 1);
    held_end(&held);
}

/* acre_close waits for all work of the device before it releases imports. */
TEST(share_closed_device_waits_for_its_work) {
    struct held held;
    held_begin(&held, 0);
    held_queue(&held);
    api_ok(acre_close(held.device));
    assert_int_equal(atomic_load(&held.has_passed), 1);
    char text[256] = "";
    if (acre__soft_reports(text, sizeof text))
        fail_msg("%s", text);
}

/* acre cannot wait for a captured stream: the call fails and changes nothing. */
TEST(share_refresh_in_a_capture_is_refused) {
    struct held held;
    CUgraph graph;
    held_begin(&held, 0);
    const struct acre__driver *drv = held.device->drv;
    api_ok(acre_vec_shrink(held.vec, 2 * MIB, NULL));
    CUcontext context;
    assert_int_equal(drv->cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(drv->cuCtxPushCurrent(context), 0);
    assert_int_equal(drv->cuStreamBeginCapture(held.stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
    api_expect(acre_import_refresh(held.import, held.stream), ACRE_E_CAPTURING);
    api_expect(acre_import_close(held.import, held.stream), ACRE_E_CAPTURING);
    assert_int_equal(info_of(held.import).mapped_bytes, 4 * MIB);
    assert_int_equal(drv->cuStreamEndCapture(held.stream, &graph), 0);
    assert_int_equal(drv->cuGraphDestroy(graph), 0);
    assert_int_equal(drv->cuCtxPopCurrent(&context), 0);
    assert_int_equal(drv->cuDevicePrimaryCtxRelease(0), 0);
    api_ok(acre_import_refresh(held.import, held.stream));
    assert_int_equal(info_of(held.import).mapped_bytes, 2 * MIB);
    held_end(&held);
}

int main(void) {
    return tests_run("share_order");
}
