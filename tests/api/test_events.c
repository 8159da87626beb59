/* Events: record, wait, query, elapsed time. Tests that need work in flight are in
 * tests/fault/test_device_order.c, which can queue some. */
#include <math.h>
#include <time.h>

#include "api_devices.h"

API_TEST(event_never_recorded_is_done) {
    acre_event event;
    acre_stream stream;
    api_ok(acre_event_create(device, ACRE_EVENT_DEFAULT, &event));
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
    api_ok(acre_event_query(device, event));
    api_ok(acre_event_sync(device, event));
    api_ok(acre_stream_wait(device, stream, event));
    api_ok(acre_stream_sync(device, stream));
    api_ok(acre_event_destroy(device, event));
    api_ok(acre_event_destroy(device, NULL));
    api_ok(acre_stream_destroy(device, stream));
}

API_TEST(event_recorded_is_done_after_its_stream) {
    acre_event first, second;
    acre_stream a, b;
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &a));
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &b));
    api_ok(acre_event_create(device, ACRE_EVENT_DEFAULT, &first));
    api_ok(acre_event_create(device, ACRE_EVENT_TIMING, &second));
    assert_int_equal(api_stats(device).events_live, 2);
    for (int i = 0; i < 50; i++) {
        api_ok(acre_event_record(device, first, a));
        api_ok(acre_stream_wait(device, b, first));
        api_ok(acre_event_record(device, second, b));
        api_ok(acre_event_sync(device, second));
        /* the stream of `second` waited for `first`, so both are done */
        api_ok(acre_event_query(device, second));
        api_ok(acre_event_query(device, first));
    }
    api_ok(acre_event_destroy(device, first));
    api_ok(acre_event_destroy(device, second));
    assert_int_equal(api_stats(device).events_live, 0);
    assert_int_equal(api_stats(device).events_created, 2);
    api_ok(acre_stream_destroy(device, a));
    api_ok(acre_stream_destroy(device, b));
}

API_TEST(elapsed_measures_what_passed) {
    acre_event begin, end;
    api_ok(acre_event_create(device, ACRE_EVENT_TIMING, &begin));
    api_ok(acre_event_create(device, ACRE_EVENT_TIMING, &end));
    api_ok(acre_event_record(device, begin, NULL));
    api_ok(acre_event_sync(device, begin));
    struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    nanosleep(&pause, NULL);
    api_ok(acre_event_record(device, end, NULL));
    api_ok(acre_event_sync(device, end));
    float ms = -1;
    api_ok(acre_event_elapsed(device, begin, end, &ms));
    assert_true(ms > 15.0f && ms < (float)PATIENCE_MS);
    api_ok(acre_event_elapsed(device, begin, begin, &ms));
    assert_true(fabsf(ms) < 0.001f);
}

API_TEST(elapsed_refuses_events_without_time) {
    acre_event plain, timed, fresh;
    api_ok(acre_event_create(device, ACRE_EVENT_DEFAULT, &plain));
    api_ok(acre_event_create(device, ACRE_EVENT_TIMING, &timed));
    api_ok(acre_event_create(device, ACRE_EVENT_TIMING, &fresh));
    api_ok(acre_event_record(device, plain, NULL));
    api_ok(acre_event_record(device, timed, NULL));
    api_ok(acre_device_sync(device));
    float ms = 1;
    api_expect(acre_event_elapsed(device, plain, timed, &ms), ACRE_E_INVALID);
    assert_true(ms == 0.0f);
    api_expect(acre_event_elapsed(device, timed, fresh, &ms), ACRE_E_INVALID);
    api_expect(acre_event_elapsed(device, timed, timed, NULL), ACRE_E_NULL);
    api_expect(acre_event_elapsed(device, NULL, timed, &ms), ACRE_E_NULL);
    api_expect(acre_event_elapsed(device, timed, NULL, &ms), ACRE_E_NULL);
}

int main(void) {
    return tests_run("events");
}
