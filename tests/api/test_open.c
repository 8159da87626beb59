/* Open and close devices, and query them. */
#include "api_devices.h"

static void open_by_name_gives_that_driver(void **state) {
    (void)state;
    for (API_EACH(name)) {
        char numbered[16];
        snprintf(numbered, sizeof numbered, "%s:0", name);
        acre_device *plain = api_open(name), *first = api_open(numbered);
        assert_ptr_equal(plain, first);
        acre_device_info info = {.struct_size = sizeof info};
        api_ok(acre_device_get_info(plain, &info));
        assert_string_equal(info.driver, name);
        assert_int_equal(info.ordinal, 0);
        api_ok(acre_close(first));
        api_ok(acre_close(plain));
    }
}

static void open_auto_takes_the_gpu_if_there_is_one(void **state) {
    (void)state;
    const char *const *names = api_devices();
    const char *wanted = names[1] ? names[1] : names[0];
    const char *asked[] = {"auto", NULL};
    for (size_t i = 0; i < 2; i++) {
        acre_device *device = api_open(asked[i]);
        acre_device_info info = {.struct_size = sizeof info};
        api_ok(acre_device_get_info(device, &info));
        assert_string_equal(info.driver, wanted);
        api_ok(acre_close(device));
    }
}

static void open_auto_obeys_acre_device(void **state) {
    (void)state;
    acre_device *device;
    setenv("ACRE_DEVICE", "soft:0", 1);
    device = api_open("auto");
    acre_device_info info = {.struct_size = sizeof info};
    api_ok(acre_device_get_info(device, &info));
    assert_string_equal(info.driver, "soft");
    api_ok(acre_close(device));

    setenv("ACRE_DEVICE", "soft:9", 1);
    api_expect(acre_open(NULL, NULL, &device), ACRE_E_NO_DEVICE);
    setenv("ACRE_DEVICE", "toaster", 1);
    api_expect(acre_open(NULL, NULL, &device), ACRE_E_CONFIG);
    assert_non_null(strstr(acre_last_detail(), "ACRE_DEVICE=toaster"));
    assert_null(device);
    api_ok(acre_open("soft", NULL, &device)); /* named: ACRE_DEVICE is not read */
    api_ok(acre_close(device));
    setenv("ACRE_DEVICE", "auto", 1);
    api_ok(acre_open("auto", NULL, &device));
    api_ok(acre_close(device));
    unsetenv("ACRE_DEVICE");
}

static void open_again_gives_the_same_handle_counted(void **state) {
    (void)state;
    for (API_EACH(name)) {
        acre_device *first = api_open(name), *second = api_open(name);
        assert_ptr_equal(first, second);
        acre_device_info info = {.struct_size = sizeof info};
        api_ok(acre_device_get_info(first, &info));
        assert_int_equal(info.open_count, 2);
        api_ok(acre_close(first));
        api_ok(acre_device_get_info(second, &info));
        assert_int_equal(info.open_count, 1);
        api_ok(acre_close(second));
        api_expect(acre_close(second), ACRE_E_HANDLE);
        assert_int_not_equal(acre_device_get_info(second, &info), ACRE_OK);
    }
}

static void open_several_gives_several(void **state) {
    (void)state;
    acre_device *devices[2], *third, *cuda = NULL;
    api_open_two(devices);
    assert_ptr_not_equal(devices[0], devices[1]);
    uint32_t count = 0;
    api_ok(acre_device_count("soft", &count));
    assert_int_equal(count, 2);
    api_expect(acre_open("soft:2", NULL, &third), ACRE_E_NO_DEVICE);
    assert_non_null(strstr(acre_last_detail(), "soft:1")); /* lists the devices */
    assert_null(third);
    if (api_devices()[1])
        cuda = api_open("cuda");
    assert_true(cuda != devices[0] && cuda != devices[1]);
    acre_device_info a = {.struct_size = sizeof a}, b = a;
    api_ok(acre_device_get_info(devices[0], &a));
    api_ok(acre_device_get_info(devices[1], &b));
    assert_int_equal(b.ordinal, 1);
    assert_memory_not_equal(a.uuid, b.uuid, sizeof a.uuid);
    api_ok(acre_close(cuda));
    api_ok(acre_close(devices[0]));
    api_ok(acre_device_sync(devices[1])); /* the other device still works */
    api_ok(acre_close(devices[1]));
}

static void info_is_sane(void **state) {
    (void)state;
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_device_info info = {.struct_size = sizeof info};
        api_ok(acre_device_get_info(device, &info));
        assert_true(info.name[0] != '\0');
        assert_true(info.driver_version >= 11000 && info.driver_version < 100000);
        assert_true(info.total_bytes >= (uint64_t)2 << 20);
        assert_true(info.free_bytes <= info.total_bytes);
        assert_true(info.free_bytes > 0);
        if (strcmp(name, "cuda") == 0) {
            assert_true(info.compute_major > 0);
            assert_true(info.multiprocessors > 0);
            assert_true(info.bus_id[0] != '\0');
        }
        uint32_t capabilities[] = {info.has_vmm,      info.has_host_vmm, info.has_fd_sharing,
                                   info.has_fabric,   info.has_rdma,     info.has_managed,
                                   info.is_integrated};
        for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++)
            assert_true(capabilities[i] <= 1);
        assert_int_equal(info.granularity_bytes, info.has_vmm ? 2 << 20 : 0);
        api_ok(acre_device_sync(device));
        api_ok(acre_close(device));
    }
}

static void info_fills_what_the_caller_knows(void **state) {
    (void)state;
    acre_device *device = api_open("soft");
    struct {
        acre_device_info info;
        char tail[32];
    } longer;
    memset(&longer, 0x55, sizeof longer);
    longer.info.struct_size = sizeof longer;
    api_ok(acre_device_get_info(device, &longer.info));
    assert_int_equal(longer.info.struct_size, sizeof longer);
    for (size_t i = 0; i < sizeof longer.tail; i++)
        assert_int_equal(longer.tail[i], 0);

    acre_device_info shorter;
    memset(&shorter, 0x55, sizeof shorter);
    shorter.struct_size = offsetof(acre_device_info, name);
    api_ok(acre_device_get_info(device, &shorter));
    assert_string_equal(shorter.driver, "soft");
    assert_int_equal(shorter.name[0], 0x55);

    shorter.struct_size = 0;
    api_expect(acre_device_get_info(device, &shorter), ACRE_E_OPTIONS);
    api_expect(acre_device_get_info(device, NULL), ACRE_E_NULL);
    api_ok(acre_close(device));
}

static void open_refuses_what_is_no_name(void **state) {
    (void)state;
    static const struct {
        const char *name;
        acre_status wanted;
    } cases[] = {
        {"", ACRE_E_INVALID},
        {"gpu", ACRE_E_INVALID},
        {"Soft", ACRE_E_INVALID},
        {"soft:", ACRE_E_INVALID},
        {"soft:-1", ACRE_E_INVALID},
        {"soft:+0", ACRE_E_INVALID},
        {"soft:00", ACRE_E_INVALID},
        {"soft:0x0", ACRE_E_INVALID},
        {"soft:0 ", ACRE_E_INVALID},
        {" soft", ACRE_E_INVALID},
        {"softer", ACRE_E_INVALID},
        {"soft0", ACRE_E_INVALID},
        {"auto:0", ACRE_E_INVALID},
        {"cuda:", ACRE_E_INVALID},
        {"cuda:1e", ACRE_E_INVALID},
        {"soft:1", ACRE_E_NO_DEVICE},
        {"soft:4294967296", ACRE_E_NO_DEVICE},
        {"soft:99999999999999999999999", ACRE_E_NO_DEVICE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        acre_device *device = (acre_device *)&device;
        api_expect(acre_open(cases[i].name, NULL, &device), cases[i].wanted);
        assert_null(device);
        assert_non_null(strstr(acre_last_detail(), "soft:0"));
    }
}

static void open_refuses_bad_options(void **state) {
    (void)state;
    acre_device *device;
    acre_open_options options = {.struct_size = sizeof options};
    api_ok(acre_open("soft", &options, &device));
    api_ok(acre_close(device));

    options.struct_size = 0;
    api_expect(acre_open("soft", &options, &device), ACRE_E_OPTIONS);
    options = (acre_open_options){.struct_size = sizeof options, .flags = 2};
    api_expect(acre_open("soft", &options, &device), ACRE_E_OPTIONS);
    assert_string_equal(acre_last_detail(), "acre_open: acre_open_options: unknown flags 0x2");
    options = (acre_open_options){.struct_size = sizeof options, .soft_devices = 17};
    api_expect(acre_open("soft", &options, &device), ACRE_E_INVALID);
    options = (acre_open_options){.struct_size = sizeof options, .soft_bytes = 4096};
    api_expect(acre_open("soft", &options, &device), ACRE_E_INVALID);
    options.soft_bytes = UINT64_MAX;
    api_expect(acre_open("soft", &options, &device), ACRE_E_INVALID);
    assert_null(device);

    struct {
        acre_open_options options;
        uint64_t tail;
    } newer = {.options = {.struct_size = sizeof newer}, .tail = 0};
    api_ok(acre_open("soft", &newer.options, &device));
    api_ok(acre_close(device));
    newer.tail = 1;
    api_expect(acre_open("soft", &newer.options, &device), ACRE_E_OPTIONS);
    assert_null(device);
}

/* ACRE_OPEN_NO_SOFT: a GPU, or the reason why there is none; never the soft device. */
static void open_without_soft_devices_opens_a_gpu_or_nothing(void **state) {
    (void)state;
    acre_device *device = (acre_device *)&device;
    acre_open_options options = {.struct_size = sizeof options, .flags = ACRE_OPEN_NO_SOFT};
    api_expect(acre_open("soft", &options, &device), ACRE_E_NO_DEVICE);
    assert_null(device);
    assert_string_equal(
        acre_last_detail(),
        "acre_open: soft asks for a soft device, which ACRE_OPEN_NO_SOFT refuses: the program "
        "needs a GPU");
    const char *const names[] = {"auto", NULL};
    for (int i = 0; i < 2; i++) {
        setenv("ACRE_DEVICE", "soft:0", 1);
        api_expect(acre_open(names[i], &options, &device), ACRE_E_NO_DEVICE);
        assert_null(device);
        assert_string_equal(
            acre_last_detail(),
            "acre_open: ACRE_DEVICE=soft:0 asks for a soft device, which ACRE_OPEN_NO_SOFT "
            "refuses: the program needs a GPU");
        unsetenv("ACRE_DEVICE");
        acre_status status = acre_open(names[i], &options, &device);
        if (api_devices()[1]) { /* there is a GPU */
            api_ok(status);
            acre_device_info info = {.struct_size = sizeof info};
            api_ok(acre_device_get_info(device, &info));
            assert_string_equal(info.driver, "cuda");
            api_ok(acre_close(device));
            continue;
        }
        char found[512];
        snprintf(found, sizeof found, "%s", acre_last_detail());
        assert_null(device);
        assert_int_equal(status, acre_open("cuda", &options, &device));
        assert_true(status == ACRE_E_NO_DRIVER || status == ACRE_E_NO_DEVICE ||
                    status == ACRE_E_DRIVER_OLD);
        char wanted[1024];
        snprintf(wanted, sizeof wanted,
                 "acre_open: no GPU is usable, and ACRE_OPEN_NO_SOFT refuses the soft device: %s",
                 acre_last_detail() + strlen("acre_open: "));
        assert_string_equal(found, wanted);
    }
}

static void open_with_another_soft_setting_is_busy(void **state) {
    (void)state;
    uint64_t mib = 1 << 20;
    acre_open_options options = {.struct_size = sizeof options, .soft_bytes = 128 * mib};
    acre_device *device, *other;
    api_ok(acre_open("soft", &options, &device));
    acre_device_info info = {.struct_size = sizeof info};
    api_ok(acre_device_get_info(device, &info));
    assert_int_equal(info.total_bytes, 128 * mib);

    api_ok(acre_open("soft", &options, &other)); /* same setting */
    api_ok(acre_close(other));
    api_ok(acre_open("soft", NULL, &other)); /* no setting requested */
    api_ok(acre_close(other));
    options.soft_bytes = 256 * mib;
    api_expect(acre_open("soft", &options, &other), ACRE_E_BUSY);
    assert_null(other);
    options = (acre_open_options){.struct_size = sizeof options, .soft_devices = 2};
    api_expect(acre_open("soft:1", &options, &other), ACRE_E_BUSY);
    api_ok(acre_device_sync(device)); /* the device is unchanged */
    api_ok(acre_close(device));

    options = (acre_open_options){.struct_size = sizeof options, .soft_bytes = 256 * mib};
    api_ok(acre_open("soft", &options, &device));
    api_ok(acre_device_get_info(device, &info));
    assert_int_equal(info.total_bytes, 256 * mib);
    api_ok(acre_close(device));
}

static void open_refuses_unreadable_configuration(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"ACRE_SOFT_BYTES", "much"},    {"ACRE_SOFT_BYTES", "1"},
        {"ACRE_SOFT_DEVICES", "0"},     {"ACRE_SOFT_DEVICES", "17"},
        {"ACRE_SOFT_DEVICES", "-1"},    {"ACRE_SOFT_SEED", "lucky"},
        {"ACRE_SOFT_CHECK", "perhaps"}, {"ACRE_ADDRESS_BYTES", "8 miles"},
        {"ACRE_FAULT", "cuNothing:1"},  {"ACRE_FAULT", "cuInit"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char *before = getenv(wrong[i][0]) ? strdup(getenv(wrong[i][0])) : NULL;
        setenv(wrong[i][0], wrong[i][1], 1);
        acre_device *device = (acre_device *)&device;
        api_expect(acre_open("soft", NULL, &device), ACRE_E_CONFIG);
        assert_null(device);
        if (before)
            setenv(wrong[i][0], before, 1);
        else
            unsetenv(wrong[i][0]);
        free(before);
    }
    api_ok(acre_close(api_open("soft")));
}

static void count_says_how_many(void **state) {
    (void)state;
    uint32_t count = 0;
    setenv("ACRE_SOFT_DEVICES", "3", 1);
    api_ok(acre_device_count("soft", &count));
    assert_int_equal(count, 3);
    setenv("ACRE_SOFT_DEVICES", "none", 1);
    api_expect(acre_device_count("soft", &count), ACRE_E_CONFIG);
    assert_int_equal(count, 0);
    unsetenv("ACRE_SOFT_DEVICES");
    api_ok(acre_device_count("soft", &count));
    assert_int_equal(count, 1);

    acre_status status = acre_device_count("cuda", &count);
    if (api_devices()[1]) {
        api_ok(status);
        assert_true(count >= 1);
    } else {
        assert_int_not_equal(status, ACRE_OK);
        assert_int_equal(count, 0);
    }
    count = 7;
    api_expect(acre_device_count("toaster", &count), ACRE_E_INVALID);
    assert_int_equal(count, 0);
    api_expect(acre_device_count(NULL, &count), ACRE_E_NULL);
    api_expect(acre_device_count("soft", NULL), ACRE_E_NULL);
}

static void open_many_times_reuses_slots(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        acre_device *device = api_open("soft");
        assert_int_equal(api_stats(device).driver_refusals, 0);
        api_ok(acre_close(device));
    }
}

static void closed_handle_stays_dead_after_another_open(void **state) {
    (void)state;
    acre_device *old = api_open("soft");
    api_ok(acre_close(old));
    acre_device *new = api_open("soft");
    assert_ptr_not_equal(old, new);
    api_expect(acre_device_sync(old), ACRE_E_HANDLE);
    api_ok(acre_close(new));
}

/* ---- without a driver library: in a separate process, since the loader keeps its result ---- */

static void open_without_a_driver_falls_back_and_says_why(void **state) {
    (void)state;
    api_started_ok("no-driver", "ACRE_CUDA_LIBRARY=/nonexistent/libcuda.so.1");
}

static int logged_why;

static void note_line(void *user, acre_log_level level, const char *area, const char *line) {
    (void)user;
    (void)area;
    if (level == ACRE_LOG_INFO && strstr(line, "/nonexistent/libcuda.so.1"))
        logged_why = 1;
}

static int run_without_driver(void) {
    acre_device *device;
    uint32_t count;
    unsetenv("ACRE_DEVICE");
    api_must(acre_log_set(note_line, NULL, ACRE_LOG_INFO) == ACRE_OK);
    api_must(acre_open("cuda", NULL, &device) == ACRE_E_NO_DRIVER);
    api_must(device == NULL);
    api_must(acre_device_count("cuda", &count) == ACRE_E_NO_DRIVER && count == 0);
    api_must(acre_open("auto", NULL, &device) == ACRE_OK);
    api_must(logged_why);
    acre_device_info info = {.struct_size = sizeof info};
    api_must(acre_device_get_info(device, &info) == ACRE_OK);
    api_must(strcmp(info.driver, "soft") == 0);
    api_must(acre_close(device) == ACRE_OK);
    return 0;
}

/* Stream ids are never reused, not even when the soft devices restart with another setting. */
static void stream_ids_differ_across_settings(void **state) {
    (void)state;
    uint64_t ids[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        acre_open_options options = {.struct_size = sizeof options,
                                     .soft_bytes = (uint64_t)(64 + i) << 20};
        acre_device *device;
        acre_stream stream;
        api_ok(acre_open("soft", &options, &device));
        api_ok(acre_stream_create(device, ACRE_STREAM_DEFAULT, &stream));
        api_ok(acre_stream_get_id(device, stream, &ids[i]));
        api_ok(acre_close(device));
    }
    assert_true(ids[0] != ids[1]);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "no-driver") == 0)
        return run_without_driver();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_ids_differ_across_settings),
        cmocka_unit_test(open_by_name_gives_that_driver),
        cmocka_unit_test(open_auto_takes_the_gpu_if_there_is_one),
        cmocka_unit_test(open_auto_obeys_acre_device),
        cmocka_unit_test(open_again_gives_the_same_handle_counted),
        cmocka_unit_test(open_several_gives_several),
        cmocka_unit_test(info_is_sane),
        cmocka_unit_test(info_fills_what_the_caller_knows),
        cmocka_unit_test(open_refuses_what_is_no_name),
        cmocka_unit_test(open_refuses_bad_options),
        cmocka_unit_test(open_without_soft_devices_opens_a_gpu_or_nothing),
        cmocka_unit_test(open_with_another_soft_setting_is_busy),
        cmocka_unit_test(open_refuses_unreadable_configuration),
        cmocka_unit_test(count_says_how_many),
        cmocka_unit_test(open_many_times_reuses_slots),
        cmocka_unit_test(closed_handle_stays_dead_after_another_open),
        cmocka_unit_test(open_without_a_driver_falls_back_and_says_why),
    };
    return cmocka_run_group_tests_name("open", tests, NULL, NULL);
}
