/* A device lost to a sticky error: every call returns ACRE_E_DEVICE_LOST. Calls that free only
 * update acre's records and make no driver call. acre_close works, other devices still work, and
 * the program exits normally. */
#include "fault_device.h"

/* Loses the device at a sync, as a failed kernel would. */
static struct api_arguments lose(const char *name, CUresult code) {
    struct api_arguments with = fault_arguments(name);
    fault_on("cuStreamSynchronize", 1, ACRE__FAULT_STICKY, code);
    api_expect(acre_stream_sync(with.device, with.stream), ACRE_E_DEVICE_LOST);
    return with;
}

TEST(lost_device_says_so_in_every_call) {
    for (API_EACH(name)) {
        struct api_arguments with = lose(name, CUDA_ERROR_ILLEGAL_ADDRESS);
        acre_device *again;
        uint64_t calls = acre__fault_count();
        for (size_t i = 0; i < API_CALLS; i++) {
            acre_status wanted = api_calls[i].gives_back ? ACRE_OK : ACRE_E_DEVICE_LOST;
            if (strcmp(api_calls[i].name, "acre_close") == 0)
                break;
            if (!api_call_is_for(&api_calls[i], name))
                continue;
            acre_status got = api_calls[i].call(&with);
            if (got != wanted)
                fail_msg("%s: %s", api_calls[i].name, acre_status_name(got));
            if (wanted)
                assert_non_null(strstr(acre_last_detail(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
        }
        acre_device_stats stats = api_stats(with.device);
        assert_int_equal(stats.streams_live + stats.events_live + stats.limbo_count, 0);
        assert_int_equal(acre__fault_count(), calls); /* no driver call was made */
        api_expect(acre_open(name, NULL, &again), ACRE_E_DEVICE_LOST);
        assert_null(again);
        calls = acre__fault_count();
        api_ok(acre_close(with.device));
        assert_int_equal(acre__fault_count(), calls);
        fault_off();

        /* The injected fault is off, so the device can be opened again. Nothing is left. */
        acre_device *device = api_open(name);
        api_ok(acre_device_sync(device));
        assert_int_equal(api_stats(device).limbo_count, 0);
        api_ok(acre_close(device));
        assert_int_equal(fault_context_is_active(name), 0);
    }
}

TEST(lost_device_is_recognised_by_every_sticky_code) {
    const CUresult sticky[] = {
        CUDA_ERROR_ECC_UNCORRECTABLE,
        CUDA_ERROR_NVLINK_UNCORRECTABLE,
        CUDA_ERROR_CONTAINED,
        CUDA_ERROR_ILLEGAL_ADDRESS,
        CUDA_ERROR_LAUNCH_TIMEOUT,
        CUDA_ERROR_ASSERT,
        CUDA_ERROR_HARDWARE_STACK_ERROR,
        CUDA_ERROR_ILLEGAL_INSTRUCTION,
        CUDA_ERROR_MISALIGNED_ADDRESS,
        CUDA_ERROR_INVALID_ADDRESS_SPACE,
        CUDA_ERROR_INVALID_PC,
        CUDA_ERROR_LAUNCH_FAILED,
        CUDA_ERROR_TENSOR_MEMORY_LEAK,
        CUDA_ERROR_MPS_CLIENT_TERMINATED,
        CUDA_ERROR_EXTERNAL_DEVICE,
    };
    for (size_t i = 0; i < sizeof sticky / sizeof sticky[0]; i++) {
        struct api_arguments with = lose("soft", sticky[i]);
        api_expect(acre_device_sync(with.device), ACRE_E_DEVICE_LOST);
        api_ok(acre_close(with.device));
        fault_off();
    }
    /* Other errors of the same range do not lose the device. */
    const CUresult ordinary[] = {CUDA_ERROR_JIT_COMPILER_NOT_FOUND,
                                 CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                                 CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CUDA_ERROR_TIMEOUT};
    acre_device *device = api_open("soft");
    for (size_t i = 0; i < sizeof ordinary / sizeof ordinary[0]; i++) {
        fault_on("cuCtxSynchronize", 1, ACRE__FAULT_ONCE, ordinary[i]);
        api_expect(acre_device_sync(device), ACRE_E_DRIVER);
        fault_off();
        api_ok(acre_device_sync(device));
    }
    api_ok(acre_close(device));
}

TEST(lost_device_leaves_others_alone) {
    acre_device *devices[2];
    api_open_two(devices);
    fault_on("cuCtxSynchronize", 1, ACRE__FAULT_ONCE, CUDA_ERROR_LAUNCH_FAILED);
    api_expect(acre_device_sync(devices[0]), ACRE_E_DEVICE_LOST);
    fault_off();
    api_expect(acre_device_sync(devices[0]), ACRE_E_DEVICE_LOST);
    api_ok(acre_device_sync(devices[1]));
    api_ok(acre_close(devices[0]));

    /* The lost device's context waits in limbo. Failing to release it must not mark the other
     * device as lost. */
    assert_int_equal(api_stats(devices[1]).limbo_count, 1);
    fault_on("cuDevicePrimaryCtxRelease", 1, ACRE__FAULT_ONCE, CUDA_ERROR_LAUNCH_FAILED);
    api_ok(acre_trim(devices[1]));
    assert_int_equal(fault_off(), 1);
    assert_int_equal(api_stats(devices[1]).limbo_count, 0);
    api_ok(acre_device_sync(devices[1]));
    api_ok(acre_close(devices[1]));
    /* The reference that acre dropped. */
    assert_int_equal(fault_raw("soft")->cuDevicePrimaryCtxRelease(0), 0);
}

/* The device is lost while something is in limbo: acre drops it with the device. */
TEST(lost_device_drops_its_limbo) {
    struct api_arguments with = fault_arguments("soft");
    fault_on("cuEventDestroy", 1, ACRE__FAULT_ONCE, CUDA_ERROR_UNKNOWN);
    api_ok(acre_event_destroy(with.device, with.event));
    fault_off();
    fault_on("cuEventDestroy", 1, ACRE__FAULT_STICKY, CUDA_ERROR_LAUNCH_FAILED);
    api_expect(acre_trim(with.device), ACRE_E_DEVICE_LOST);
    api_expect(acre_trim(with.device), ACRE_E_DEVICE_LOST);
    assert_int_equal(api_stats(with.device).limbo_count, 1);
    api_ok(acre_stream_destroy(with.device, with.stream));
    api_ok(acre_close(with.device));
    fault_off();
    acre_device *device = api_open("soft");
    assert_int_equal(api_stats(device).limbo_count, 0);
    api_ok(acre_close(device));
    assert_int_equal(fault_context_is_active("soft"), 0);
}

/* ---- in a separate process: the error stays until the process exits ---- */

TEST(lost_device_does_not_spoil_the_exit) {
    for (API_EACH(name)) {
        char setting[64];
        snprintf(setting, sizeof setting, "ACRE_TEST_DEVICE=%s", name);
        api_started_ok("closed", setting, "ACRE_FAULT=cuStreamSynchronize:1:sticky:719");
        api_started_ok("open", setting, "ACRE_FAULT=cuStreamSynchronize:1:sticky:719");
        /* The first driver call already fails: a status, not a crash. */
        api_started_ok("nothing", setting, "ACRE_FAULT=cuDevicePrimaryCtxRetain:1:sticky:700");
    }
}

static int lose_and_exit(const char *how) {
    const char *name = getenv("ACRE_TEST_DEVICE");
    acre_device *device;
    acre_stream stream;
    if (strcmp(how, "nothing") == 0) {
        api_must(acre_open(name, NULL, &device) == ACRE_E_DEVICE_LOST && !device);
        api_must(acre_open(name, NULL, &device) == ACRE_E_DEVICE_LOST && !device);
        return 0;
    }
    api_must(acre_open(name, NULL, &device) == ACRE_OK);
    api_must(acre_stream_create(device, ACRE_STREAM_DEFAULT, &stream) == ACRE_OK);
    api_must(acre_stream_sync(device, stream) == ACRE_E_DEVICE_LOST);
    if (strcmp(how, "open") == 0)
        return 0;
    api_must(acre_stream_destroy(device, stream) == ACRE_OK);
    api_must(acre_close(device) == ACRE_OK);
    api_must(acre_open(name, NULL, &device) == ACRE_E_DEVICE_LOST && !device);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1)
        return lose_and_exit(argv[1]);
    fault_begin();
    return tests_run("lost_device");
}
