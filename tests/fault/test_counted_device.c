/* The counted loop over devices, streams and events: the n-th driver call fails, for n = 1, 2, ...
 * until a run in which none fails. After each run: the expected status, no output, the records and
 * the driver's state unchanged, the caller's context untouched. The same call works once the driver
 * does. */
#include "fault_device.h"

/* Injected codes, and the status that the caller must get. */
static const struct {
    CUresult code;
    acre_status status;
} refusals[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, ACRE_E_DEVICE_MEMORY},
    {CUDA_ERROR_UNKNOWN, ACRE_E_DRIVER},
};

enum { REFUSALS = sizeof refusals / sizeof refusals[0] };

/* ---- open and close ---- */

TEST(open_fails_at_every_call_and_leaves_nothing) {
    for (API_EACH(name)) {
        for (size_t i = 0; i < REFUSALS; i++) {
            uint32_t nth = 1;
            for (;; nth++) {
                acre_device *device = (acre_device *)&device;
                fault_on(NULL, nth, ACRE__FAULT_ONCE, refusals[i].code);
                acre_status status = acre_open(name, NULL, &device);
                if (fault_off() == 0) {
                    api_ok(status);
                    api_ok(acre_close(device));
                    break;
                }
                api_expect(status, refusals[i].status);
                assert_null(device);
                assert_int_equal(fault_context_is_active(name), 0);
                assert_null(fault_current(name));
            }
            print_message("%s: %u driver calls in an open\n", name, nth - 1);
            assert_true(nth > 10); /* every call of an open failed once */
            assert_int_equal(fault_context_is_active(name), 0);
        }
    }
}

/* From call n on everything fails, also the release of the context. The context stays in limbo, and
 * the next open releases it. */
TEST(open_that_cannot_undo_is_undone_by_the_next) {
    for (API_EACH(name)) {
        uint32_t nth = 1;
        int had_orphan = 0;
        for (;; nth++) {
            acre_device *device;
            fault_on(NULL, nth, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
            acre_status status = acre_open(name, NULL, &device);
            uint64_t fired = fault_off();
            had_orphan |= fault_context_is_active(name);
            /* A refused pop leaves the context current. */
            assert_int_equal(fault_raw(name)->cuCtxSetCurrent(NULL), 0);
            if (fired == 0) {
                api_ok(status);
                api_ok(acre_close(device));
                break;
            }
            api_expect(status, ACRE_E_DRIVER);
            assert_null(device);
            device = api_open(name);
            assert_int_equal(api_stats(device).limbo_count, 0);
            api_ok(acre_close(device));
            assert_int_equal(fault_context_is_active(name), 0);
        }
        assert_true(had_orphan);
    }
}

TEST(close_ends_the_handle_whatever_fails) {
    const enum acre__fault_mode modes[] = {ACRE__FAULT_ONCE, ACRE__FAULT_FROM};
    for (API_EACH(name)) {
        for (size_t i = 0; i < 2; i++) {
            for (uint32_t nth = 1;; nth++) {
                struct api_arguments with = fault_arguments(name);
                fault_on(NULL, nth, modes[i], CUDA_ERROR_UNKNOWN);
                acre_status status = acre_close(with.device);
                uint64_t fired = fault_off();
                api_ok(status);
                api_expect(acre_device_sync(with.device), ACRE_E_HANDLE);
                if (modes[i] == ACRE__FAULT_ONCE)
                    assert_null(fault_current(name));
                assert_int_equal(fault_raw(name)->cuCtxSetCurrent(NULL), 0);
                if (fired == 0)
                    break;
                /* The next device starts clean, and closing it leaves nothing. */
                acre_device *device = api_open(name);
                acre_device_stats stats = api_stats(device);
                assert_int_equal(stats.limbo_count + stats.streams_live + stats.events_live, 0);
                api_ok(acre_close(device));
                assert_int_equal(fault_context_is_active(name), 0);
            }
        }
    }
}

TEST(count_fails_with_the_reason) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name); /* the soft driver is queried only while it is open */
        uint32_t wanted = 0;
        api_ok(acre_device_count(name, &wanted));
        assert_true(wanted >= 1);
        for (uint32_t nth = 1;; nth++) {
            uint32_t count = 99;
            fault_on(NULL, nth, ACRE__FAULT_ONCE, CUDA_ERROR_NO_DEVICE);
            acre_status status = acre_device_count(name, &count);
            if (fault_off() == 0) {
                api_ok(status);
                assert_int_equal(count, wanted);
                break;
            }
            api_expect(status, ACRE_E_NO_DEVICE);
            assert_int_equal(count, 0);
        }
        api_ok(acre_close(device));
    }
}

/* ---- other calls, one driver function at a time ---- */

/* Returns the status of a call whose n-th call of this driver function was refused. */
static acre_status expected(const struct api_call *call, const char *entry, uint32_t nth,
                            size_t refusal, int has_parked) {
    /* acre retries a refused pop in another way, so the caller does not see it. The capture mode
     * changes only while acre frees, and while it asks whether a parked stream is idle. */
    if (strcmp(entry, "cuCtxPopCurrent") == 0 ||
        strcmp(entry, "cuThreadExchangeStreamCaptureMode") == 0)
        return ACRE_OK;
    /* Without an answer about a parked stream acre creates a new one. */
    if (strcmp(call->name, "acre_stream_create") == 0 && has_parked)
        return ACRE_OK;
    /* A refused release waits in limbo. A stream whose capture status is unknown is destroyed. */
    if (call->gives_back || strcmp(entry, "cuStreamDestroy") == 0 ||
        strcmp(entry, "cuEventDestroy") == 0 || strcmp(entry, "cuStreamIsCapturing") == 0)
        return ACRE_OK;
    /* The create calls of the list also destroy; the second push belongs to the destroy. */
    if (strstr(call->name, "_create") && nth > 1)
        return ACRE_OK;
    return refusals[refusal].status;
}

/* Refuses the n-th call of `entry`. Returns 0 if there was no such call. */
static int fail_one(const char *name, const struct api_call *call, const char *entry, uint32_t nth,
                    size_t refusal) {
    struct api_arguments with = fault_arguments(name);
    acre_device_stats before = api_stats(with.device);
    fault_on(entry, nth, ACRE__FAULT_ONCE, refusals[refusal].code);
    acre_status status = call->call(&with);
    uint64_t fired = fault_off();
    acre_status wanted =
        fired ? expected(call, entry, nth, refusal, before.streams_parked > 0) : ACRE_OK;
    if (status != wanted)
        fail_msg("%s with %s:%u failing: %s: %s", call->name, entry, nth, acre_status_name(status),
                 acre_last_detail());
    assert_null(fault_current(name));

    acre_device_stats after = api_stats(with.device);
    int ends_stream = strcmp(call->name, "acre_stream_destroy") == 0;
    int ends_event = strcmp(call->name, "acre_event_destroy") == 0;
    assert_int_equal(after.streams_live, before.streams_live - (uint64_t)ends_stream);
    assert_int_equal(after.events_live, before.events_live - (uint64_t)ends_event);
    assert_int_equal(after.driver_refusals, before.driver_refusals + fired);
    if (status != ACRE_OK)
        assert_int_equal(after.limbo_count, 0);
    assert_true(after.limbo_count <= fired);

    /* The call works once the driver does, and leaks nothing. */
    if (status != ACRE_OK)
        api_ok(call->call(&with));
    api_ok(acre_trim(with.device));
    after = api_stats(with.device);
    assert_int_equal(after.limbo_count, 0);
    fault_arguments_end(&with);
    return fired != 0;
}

/* test_counted_mem.c has the loop over memory and copies, test_counted_pool.c the one over
 * pools. */
static int is_of_memory(const struct api_call *call) {
    return strncmp(call->name, "acre_mem_", 9) == 0 || strncmp(call->name, "acre_copy", 9) == 0 ||
           strncmp(call->name, "acre_fill", 9) == 0 || strncmp(call->name, "acre_pool_", 10) == 0 ||
           strcmp(call->name, "acre_alloc") == 0 || strcmp(call->name, "acre_stream_retire") == 0;
}

TEST(calls_fail_at_every_driver_call_and_recover) {
    for (API_EACH(name)) {
        acre_device *kept = api_open(name); /* keeps the context, so that opening again is fast */
        size_t refused = 0;
        for (size_t i = 0; i < API_CALLS; i++) {
            const struct api_call *call = &api_calls[i];
            if (strcmp(call->name, "acre_close") == 0 || is_of_memory(call) ||
                !api_call_is_for(call, name))
                continue;
            size_t refused_here = 0;
            for (int entry = 0; entry < ACRE__ENTRY_COUNT; entry++) {
                const char *text = acre__driver_entry_name((enum acre__driver_entry)entry);
                for (size_t refusal = 0; refusal < REFUSALS; refusal++)
                    for (uint32_t nth = 1; fail_one(name, call, text, nth, refusal); nth++)
                        refused_here++;
            }
            if (!refused_here && strcmp(call->name, "acre_device_get_stats") != 0 &&
                strcmp(call->name, "acre_device_set_limits") != 0 &&
                strcmp(call->name, "acre_stream_get_id") != 0 && /* acre's own number */
                strcmp(call->name, "acre_trim") != 0)
                fail_msg("%s made no driver call", call->name);
            refused += refused_here;
        }
        assert_true(refused > 50);
        api_ok(acre_close(kept));
    }
}

/* ---- limbo ---- */

static void limbo_fill(acre_device *device, int count) {
    for (int i = 0; i < count; i++) {
        acre_event event;
        api_ok(acre_event_create(device, ACRE_EVENT_DEFAULT, &event));
        fault_on("cuEventDestroy", 1, ACRE__FAULT_FROM, CUDA_ERROR_OUT_OF_MEMORY);
        api_ok(acre_event_destroy(device, event));
        assert_int_equal(fault_off(), 1);
        /* The handle is dead for the caller anyway. */
        api_expect(acre_event_destroy(device, event), ACRE_E_HANDLE);
    }
}

TEST(limbo_is_emptied_by_trim_when_the_faults_stop) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        limbo_fill(device, 20);
        acre_device_stats stats = api_stats(device);
        assert_int_equal(stats.limbo_count, 20);
        assert_int_equal(stats.streams_live + stats.events_live, 0);

        fault_on(NULL, 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
        api_expect(acre_trim(device), ACRE_E_DRIVER);
        fault_off();
        assert_int_equal(api_stats(device).limbo_count, 20);

        fault_on("cuEventDestroy", 4, ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN);
        api_expect(acre_trim(device), ACRE_E_DRIVER);
        assert_int_equal(fault_off(), 1);
        stats = api_stats(device);
        assert_int_equal(stats.limbo_count, 1);
        assert_int_equal(stats.limbo_retired, 19);

        api_ok(acre_trim(device));
        stats = api_stats(device);
        assert_int_equal(stats.limbo_count, 0);
        assert_int_equal(stats.limbo_retired, 20);
        assert_int_equal(stats.trims, 3);
        api_ok(acre_close(device));
        assert_int_equal(fault_context_is_active(name), 0);
    }
}

TEST(limbo_of_a_closed_device_is_gone) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream stream; /* the driver refuses to destroy it, and the events */
        limbo_fill(device, 3);
        api_ok(acre_stream_create(device, ACRE_STREAM_DEFAULT, &stream));
        api_ok(acre_stream_destroy(device, stream));
        fault_on(NULL, 1, ACRE__FAULT_FROM, CUDA_ERROR_UNKNOWN);
        api_ok(acre_close(device));
        fault_off();
        device = api_open(name);
        assert_int_equal(api_stats(device).limbo_count, 0);
        api_ok(acre_close(device));
        assert_int_equal(fault_context_is_active(name), 0);
    }
}

/* The driver does not know the handle any more: acre does not retry, and returns the error to the
 * caller. */
TEST(destroy_of_what_the_driver_lost_does_not_wait) {
    const CUresult codes[] = {CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_CONTEXT_IS_DESTROYED};
    acre_device *device = api_open("soft");
    for (size_t i = 0; i < 2; i++) {
        acre_event event;
        api_ok(acre_event_create(device, ACRE_EVENT_DEFAULT, &event));
        fault_on("cuEventDestroy", 1, ACRE__FAULT_ONCE, codes[i]);
        api_expect(acre_event_destroy(device, event), ACRE_E_HANDLE);
        fault_off();
    }
    /* The driver is shut down, as at exit: success. */
    acre_event event;
    api_ok(acre_event_create(device, ACRE_EVENT_DEFAULT, &event));
    fault_on(NULL, 1, ACRE__FAULT_FROM, CUDA_ERROR_DEINITIALIZED);
    api_ok(acre_event_destroy(device, event));
    fault_off();
    assert_int_equal(api_stats(device).limbo_count, 0);
    assert_int_equal(api_stats(device).events_live, 0);
    api_ok(acre_close(device));
    assert_int_equal(fault_context_is_active("soft"), 0);
}

/* A context whose release was refused at close waits in the process's limbo. Other devices of the
 * driver count it. */
TEST(context_refused_at_close_waits_for_another_devices_trim) {
    acre_device *devices[2];
    api_open_two(devices);
    fault_on("cuDevicePrimaryCtxRelease", 1, ACRE__FAULT_FROM, CUDA_ERROR_OUT_OF_MEMORY);
    api_ok(acre_close(devices[0]));
    assert_int_equal(fault_context_is_active("soft"), 1);
    assert_int_equal(api_stats(devices[1]).limbo_count, 1);
    api_expect(acre_trim(devices[1]), ACRE_E_DEVICE_MEMORY);
    assert_int_equal(api_stats(devices[1]).limbo_count, 1);
    fault_off();
    api_ok(acre_trim(devices[1]));
    acre_device_stats stats = api_stats(devices[1]);
    assert_int_equal(stats.limbo_count, 0);
    assert_int_equal(stats.limbo_retired, 1);
    assert_int_equal(fault_context_is_active("soft"), 0);
    api_ok(acre_close(devices[1]));
}

/* A refused push says nothing about the event, so the event waits in limbo. */
TEST(destroy_behind_a_refused_push_waits_in_limbo) {
    for (API_EACH(name)) {
        const CUresult codes[] = {CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_HANDLE,
                                  CUDA_ERROR_CONTEXT_IS_DESTROYED};
        for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
            struct api_arguments with = fault_arguments(name);
            fault_on("cuCtxPushCurrent", 1, ACRE__FAULT_ONCE, codes[i]);
            api_ok(acre_event_destroy(with.device, with.event));
            assert_int_equal(fault_off(), 1);
            assert_int_equal(api_stats(with.device).limbo_count, 1);
            api_ok(acre_trim(with.device));
            assert_int_equal(api_stats(with.device).limbo_count, 0);
            api_ok(acre_close(with.device));
        }
    }
}

int main(void) {
    fault_begin();
    return tests_run("counted_device");
}
