/* For tests of devices with failing driver calls: the wrapped device and the driver behind it.
 *
 * ACRE_FAULT=*:0 makes acre_open put the fault wrapper in front of the driver without a plan; the
 * tests set plans themselves. `raw` is the table behind the wrapper: calls through it never fail on
 * purpose. */
#ifndef ACRE_TESTS_FAULT_DEVICE_H
#define ACRE_TESTS_FAULT_DEVICE_H

#include "api/api_calls.h"
#include "api/api_devices.h"
#include "driver/driver.h"
#include "driver/driver_fault.h"
#include "soft/soft.h"

/* Call this first in main. The first open of a process reads ACRE_FAULT and starts its plan, so
 * this function opens a device once. */
static inline void fault_begin(void) {
    acre_device *device;
    setenv("ACRE_FAULT", "*:0", 1);
    if (acre_open("soft", NULL, &device) != ACRE_OK) {
        fprintf(stderr, "the soft device does not open: %s\n", acre_last_detail());
        exit(1);
    }
    (void)acre_close(device);
}

static inline const struct acre__driver *fault_raw(const char *name) {
    const struct acre__driver *raw = NULL;
    if (strncmp(name, "soft", 4) == 0)
        return acre__driver_soft();
    api_ok(acre__driver_cuda(&raw));
    return raw;
}

/* Returns 1 if the primary context of device 0 is active. Valid only if this process holds no other
 * reference. */
static inline int fault_context_is_active(const char *name) {
    unsigned flags = 0;
    int active = -1;
    assert_int_equal(fault_raw(name)->cuDevicePrimaryCtxGetState(0, &flags, &active), 0);
    return active;
}

static inline CUcontext fault_current(const char *name) {
    CUcontext current = NULL;
    assert_int_equal(fault_raw(name)->cuCtxGetCurrent(&current), 0);
    return current;
}

static inline void fault_on(const char *entry, uint32_t nth, enum acre__fault_mode mode,
                            CUresult code) {
    struct acre__fault_plan plan = {entry, nth, code, mode};
    api_ok(acre__fault_set(&plan));
}

/* Ends the plan. Returns how many calls it failed. */
static inline uint64_t fault_off(void) {
    uint64_t fired = acre__fault_fired();
    api_ok(acre__fault_set(NULL));
    return fired;
}

/* Make the primary context of device 0 current for raw calls, and restore the previous context. */
static inline void fault_push(const char *name) {
    CUcontext context;
    assert_int_equal(fault_raw(name)->cuDevicePrimaryCtxRetain(&context, 0), 0);
    assert_int_equal(fault_raw(name)->cuCtxPushCurrent(context), 0);
}

static inline void fault_pop(const char *name) {
    CUcontext context;
    assert_int_equal(fault_raw(name)->cuCtxPopCurrent(&context), 0);
    assert_int_equal(fault_raw(name)->cuDevicePrimaryCtxRelease(0), 0);
}

/* Waits until all work of the device is done. */
static inline void fault_sync(const char *name) {
    fault_push(name);
    assert_int_equal(fault_raw(name)->cuCtxSynchronize(), 0);
    fault_pop(name);
}

static inline uint64_t fault_free_bytes(const char *name) {
    size_t free_bytes = 0, total_bytes = 0;
    fault_push(name);
    assert_int_equal(fault_raw(name)->cuMemGetInfo(&free_bytes, &total_bytes), 0);
    fault_pop(name);
    return free_bytes;
}

static inline struct api_arguments fault_arguments(const char *name) {
    struct api_arguments with = {.device = api_open(name)};
    api_ok(acre_stream_create(with.device, ACRE_STREAM_NON_BLOCKING, &with.stream));
    api_ok(acre_event_create(with.device, ACRE_EVENT_TIMING, &with.event));
    api_ok(acre_event_record(with.device, with.event, with.stream));
    api_ok(acre_event_sync(with.device, with.event));
    api_ok(api_arguments_memory(&with));
    return with;
}

/* Destroys the arguments. A call under test may have destroyed some already. The device may stay
 * open. */
static inline void fault_arguments_end(const struct api_arguments *with) {
    (void)acre_mem_unregister(with->device, with->registered);
    (void)acre_mem_free(with->device, with->block);
    (void)acre_event_destroy(with->device, with->event);
    (void)acre_stream_destroy(with->device, with->stream);
    (void)acre_trim(with->device); /* releases what a call under test left in limbo */
    api_ok(acre_close(with->device));
}

#endif
