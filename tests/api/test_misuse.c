/* Invalid arguments: each call returns its own status, sets a line of detail, and changes
 * nothing. */
#include "api_calls.h"
#include "api_devices.h"

static struct api_arguments make_arguments(const char *name) {
    struct api_arguments with = {.device = api_open(name)};
    api_ok(acre_stream_create(with.device, ACRE_STREAM_NON_BLOCKING, &with.stream));
    api_ok(acre_event_create(with.device, ACRE_EVENT_TIMING, &with.event));
    api_ok(api_arguments_memory(&with));
    return with;
}

/* The detail begins with the name of the call. */
static void expect_name(const char *name) {
    const char *detail = acre_last_detail();
    if (strncmp(detail, name, strlen(name)) != 0 || strncmp(detail + strlen(name), ": ", 2) != 0)
        fail_msg("%s: %s", name, detail);
}

/* Every call returns this status, with a detail that names the call. */
static void expect_from_all(const struct api_arguments *with, acre_status wanted) {
    for (size_t i = 0; i < API_CALLS; i++) {
        if (!with->device && strcmp(api_calls[i].name, "acre_close") == 0)
            continue; /* closing NULL is a no-op */
        acre_status got = api_calls[i].call(with);
        if (got != wanted)
            fail_msg("%s: %s", api_calls[i].name, acre_status_name(got));
        expect_name(api_calls[i].name);
    }
}

TEST(device_null_is_refused_by_every_call) {
    for (API_EACH(name)) {
        struct api_arguments with = make_arguments(name), bad = with;
        bad.device = NULL;
        expect_from_all(&bad, ACRE_E_NULL);
        api_ok(acre_close(NULL));
        api_ok(acre_close(with.device));
    }
}

TEST(device_that_is_none_is_refused_by_every_call) {
    for (API_EACH(name)) {
        struct api_arguments with = make_arguments(name), bad = with;
        char *handle = (char *)with.device;
        void *wrong[] = {&with, handle + 8, handle - 8, handle + 1, (void *)8, (void *)UINTPTR_MAX};
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            bad.device = wrong[i];
            expect_from_all(&bad, ACRE_E_HANDLE);
        }
        assert_int_equal(api_stats(with.device).streams_live, 1);
        api_ok(acre_close(with.device));
        expect_from_all(&with, ACRE_E_HANDLE); /* the device is closed */
    }
}

TEST(output_null_is_refused) {
    for (API_EACH(name)) {
        struct api_arguments with = make_arguments(name);
        api_expect(acre_open(name, NULL, NULL), ACRE_E_NULL);
        api_expect(acre_device_get_info(with.device, NULL), ACRE_E_NULL);
        api_expect(acre_device_get_stats(with.device, NULL), ACRE_E_NULL);
        api_expect(acre_stream_create(with.device, 0, NULL), ACRE_E_NULL);
        api_expect(acre_stream_get_id(with.device, with.stream, NULL), ACRE_E_NULL);
        api_expect(acre_event_create(with.device, 0, NULL), ACRE_E_NULL);
        api_expect(acre_event_elapsed(with.device, with.event, with.event, NULL), ACRE_E_NULL);
        api_expect(acre_event_record(with.device, NULL, with.stream), ACRE_E_NULL);
        api_expect(acre_event_query(with.device, NULL), ACRE_E_NULL);
        api_expect(acre_event_sync(with.device, NULL), ACRE_E_NULL);
        api_expect(acre_stream_wait(with.device, with.stream, NULL), ACRE_E_NULL);
        acre_device_stats stats = api_stats(with.device);
        assert_int_equal(stats.streams_created, 1);
        assert_int_equal(stats.events_created, 1);
        assert_int_equal(stats.driver_refusals, 0); /* no call reached the driver */
        api_ok(acre_close(with.device));
    }
}

API_TEST(flags_unknown_are_refused) {
    for (uint32_t bit = 2; bit < 32; bit++) {
        acre_stream stream = (acre_stream)1;
        acre_event event = (acre_event)1;
        api_expect(acre_stream_create(device, (uint32_t)1 << bit, &stream), ACRE_E_INVALID);
        api_expect(acre_event_create(device, (uint32_t)1 << (bit - 1), &event), ACRE_E_INVALID);
        assert_null(stream);
        assert_null(event);
    }
    assert_int_equal(api_stats(device).streams_created, 0);
}

TEST(destroy_twice_is_refused) {
    for (API_EACH(name)) {
        struct api_arguments with = make_arguments(name);
        api_ok(acre_stream_destroy(with.device, with.stream));
        api_expect(acre_stream_destroy(with.device, with.stream), ACRE_E_HANDLE);
        api_ok(acre_event_destroy(with.device, with.event));
        api_expect(acre_event_destroy(with.device, with.event), ACRE_E_HANDLE);
        api_expect(acre_close((acre_device *)with.event), ACRE_E_HANDLE);
        api_ok(acre_close(with.device));
        api_expect(acre_close(with.device), ACRE_E_HANDLE);
        api_expect(acre_stream_destroy(with.device, with.stream), ACRE_E_HANDLE);
    }
}

TEST(destroy_of_a_foreign_handle_is_refused) {
    for (API_EACH(name)) {
        struct api_arguments with = make_arguments(name);
        long not_one = 0;
        api_expect(acre_stream_destroy(with.device, (acre_stream)&not_one), ACRE_E_HANDLE);
        api_expect(acre_stream_destroy(with.device, (acre_stream)1), ACRE_E_HANDLE);
        api_expect(acre_stream_destroy(with.device, (acre_stream)2), ACRE_E_HANDLE);
        api_expect(acre_event_destroy(with.device, (acre_event)&not_one), ACRE_E_HANDLE);
        api_expect(acre_event_destroy(with.device, (acre_event)with.stream), ACRE_E_HANDLE);
        api_expect(acre_stream_destroy(with.device, (acre_stream)with.event), ACRE_E_HANDLE);
        api_ok(acre_stream_sync(with.device, with.stream));
        api_ok(acre_event_query(with.device, with.event));
        api_ok(acre_close(with.device));
    }
}

/* acre passes dead streams and events that it has no record of to the driver. The soft driver
 * detects them. */
TEST(use_of_dead_handles_is_refused_on_soft) {
    struct api_arguments with = make_arguments("soft");
    api_ok(acre_stream_destroy(with.device, with.stream));
    api_expect(acre_stream_sync(with.device, with.stream), ACRE_E_HANDLE);
    api_expect(acre_stream_query(with.device, with.stream), ACRE_E_HANDLE);
    api_expect(acre_event_record(with.device, with.event, with.stream), ACRE_E_HANDLE);
    api_ok(acre_event_destroy(with.device, with.event));
    api_expect(acre_event_query(with.device, with.event), ACRE_E_HANDLE);
    api_expect(acre_event_sync(with.device, with.event), ACRE_E_HANDLE);
    api_expect(acre_event_record(with.device, with.event, NULL), ACRE_E_HANDLE);
    api_expect(acre_stream_wait(with.device, NULL, with.event), ACRE_E_HANDLE);
    api_ok(acre_close(with.device));
}

static int has_same_driver(acre_device *a, acre_device *b) {
    acre_device_info of_a = {.struct_size = sizeof of_a}, of_b = {.struct_size = sizeof of_b};
    api_ok(acre_device_get_info(a, &of_a));
    api_ok(acre_device_get_info(b, &of_b));
    return strcmp(of_a.driver, of_b.driver) == 0;
}

/* Passes streams and events of one device to another. */
static void expect_foreign(acre_device *device, acre_stream own, const struct api_arguments *of) {
    uint64_t id;
    float ms;
    api_expect(acre_stream_destroy(device, of->stream), ACRE_E_HANDLE);
    api_expect(acre_stream_sync(device, of->stream), ACRE_E_HANDLE);
    api_expect(acre_stream_query(device, of->stream), ACRE_E_HANDLE);
    api_expect(acre_stream_get_id(device, of->stream, &id), ACRE_E_HANDLE);
    /* A stream may wait for an event of another device, but not of another driver. */
    int is_same_driver = has_same_driver(device, of->device);
    api_expect(acre_stream_wait(device, own, of->event), is_same_driver ? ACRE_OK : ACRE_E_HANDLE);
    api_expect(acre_event_destroy(device, of->event), ACRE_E_HANDLE);
    api_expect(acre_event_record(device, of->event, own), ACRE_E_HANDLE);
    api_expect(acre_event_query(device, of->event), ACRE_E_HANDLE);
    api_expect(acre_event_sync(device, of->event), ACRE_E_HANDLE);
    api_expect(acre_event_elapsed(device, of->event, of->event, &ms), ACRE_E_HANDLE);
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

TEST(handles_of_another_device_are_refused) {
    acre_device *devices[2];
    api_open_two(devices);
    struct api_arguments of[3] = {{.device = devices[0]}, {.device = devices[1]}};
    size_t count = 2;
    if (api_devices()[1])
        of[count++].device = api_open("cuda");
    for (size_t i = 0; i < count; i++) {
        api_ok(acre_stream_create(of[i].device, ACRE_STREAM_DEFAULT, &of[i].stream));
        api_ok(acre_event_create(of[i].device, ACRE_EVENT_TIMING, &of[i].event));
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (i != j)
                expect_foreign(of[i].device, of[i].stream, &of[j]);
    for (size_t i = 0; i < count; i++) {
        api_ok(acre_event_record(of[i].device, of[i].event, of[i].stream));
        api_ok(acre_event_sync(of[i].device, of[i].event));
        api_ok(acre_close(of[i].device));
    }
}

TEST(stats_and_info_refuse_bad_sizes) {
    acre_device *device = api_open("soft");
    acre_device_stats stats;
    memset(&stats, 0x55, sizeof stats);
    stats.struct_size = 3;
    api_expect(acre_device_get_stats(device, &stats), ACRE_E_OPTIONS);
    stats.struct_size = offsetof(acre_device_stats, streams_created);
    api_ok(acre_device_get_stats(device, &stats));
    assert_int_equal(stats.events_live, 0);
    assert_true(stats.streams_created == 0x5555555555555555u);
    api_ok(acre_close(device));
}

int main(void) {
    return tests_run("misuse");
}
