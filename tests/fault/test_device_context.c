/* No call changes the calling thread's current context or the depth of its context stack. Tested
 * without a current context, with the device's own context, with another context, and while the
 * driver refuses to pop. */
#include "fault_device.h"

/* Makes every call with `before` current. Afterwards the stack must be the same. */
static void expect_untouched(const char *name, CUcontext before, const char *refused,
                             enum acre__fault_mode mode) {
    const struct acre__driver *raw = fault_raw(name);
    CUcontext popped = NULL;
    /* Keeps the context: opening a GPU again each time is slow. */
    acre_device *kept = api_open(name);
    for (size_t i = 0; i < API_CALLS; i++) {
        struct api_arguments with = fault_arguments(name);
        if (before)
            assert_int_equal(raw->cuCtxPushCurrent(before), 0);
        if (refused)
            fault_on(refused, 1, mode, CUDA_ERROR_UNKNOWN);
        (void)api_calls[i].call(&with);
        fault_off();
        if (fault_current(name) != before)
            fail_msg("%s changed the current context", api_calls[i].name);
        if (before && mode == ACRE__FAULT_ONCE) {
            assert_int_equal(raw->cuCtxPopCurrent(&popped), 0);
            assert_ptr_equal(popped, before);
            assert_null(fault_current(name));
        }
        while (fault_current(name)) /* a pop that never worked leaves a copy below */
            assert_int_equal(raw->cuCtxPopCurrent(&popped), 0);
        if (strcmp(api_calls[i].name, "acre_close") == 0)
            with.device = api_open(name);
        fault_arguments_end(&with);
    }
    api_ok(acre_close(kept));
}

static void expect_untouched_always(const char *name, CUcontext before) {
    expect_untouched(name, before, NULL, ACRE__FAULT_ONCE);
    expect_untouched(name, before, "cuCtxPopCurrent", ACRE__FAULT_ONCE);
    expect_untouched(name, before, "cuCtxPushCurrent", ACRE__FAULT_ONCE);
    expect_untouched(name, before, "cuCtxPopCurrent", ACRE__FAULT_FROM);
}

TEST(context_none_stays_none) {
    for (API_EACH(name))
        expect_untouched_always(name, NULL);
}

TEST(context_of_the_device_stays_current) {
    for (API_EACH(name)) {
        CUcontext context;
        acre_device *device = api_open(name);
        assert_int_equal(fault_raw(name)->cuDevicePrimaryCtxRetain(&context, 0), 0);
        expect_untouched_always(name, context);
        assert_int_equal(fault_raw(name)->cuDevicePrimaryCtxRelease(0), 0);
        api_ok(acre_close(device));
    }
}

TEST(context_of_another_device_stays_current) {
    acre_device *devices[2];
    CUcontext other;
    api_open_two(devices);
    assert_int_equal(fault_raw("soft")->cuDevicePrimaryCtxRetain(&other, 1), 0);
    expect_untouched_always("soft", other);
    assert_int_equal(fault_raw("soft")->cuDevicePrimaryCtxRelease(1), 0);
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

TEST(context_is_untouched_by_open_and_close) {
    for (API_EACH(name)) {
        const struct acre__driver *raw = fault_raw(name);
        CUcontext mine;
        api_ok(acre_close(api_open(name))); /* initialises the driver */
        assert_int_equal(raw->cuDevicePrimaryCtxRetain(&mine, 0), 0);
        assert_int_equal(raw->cuCtxPushCurrent(mine), 0);
        acre_device *device = api_open(name);
        assert_ptr_equal(fault_current(name), mine);
        api_ok(acre_close(device));
        /* The reference of the program keeps the context alive. */
        assert_int_equal(fault_context_is_active(name), 1);
        assert_ptr_equal(fault_current(name), mine);
        assert_int_equal(raw->cuCtxSynchronize(), 0);
        assert_int_equal(raw->cuCtxPopCurrent(&mine), 0);
        assert_int_equal(raw->cuDevicePrimaryCtxRelease(0), 0);
        assert_int_equal(fault_context_is_active(name), 0);
    }
}

int main(void) {
    fault_begin();
    return tests_run("device_context");
}
