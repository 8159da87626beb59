/* Streams: create, destroy, wait, ids, threads. */
#include <pthread.h>

#include "api_devices.h"

API_TEST(stream_lives_from_create_to_destroy) {
    const uint32_t flags[] = {ACRE_STREAM_DEFAULT, ACRE_STREAM_NON_BLOCKING};
    for (size_t i = 0; i < 2; i++) {
        acre_stream stream = NULL;
        api_ok(acre_stream_create(device, flags[i], &stream));
        assert_non_null(stream);
        assert_int_equal(api_stats(device).streams_live, 1);
        api_ok(acre_stream_query(device, stream));
        api_ok(acre_stream_sync(device, stream));
        api_ok(acre_stream_destroy(device, stream));
        assert_int_equal(api_stats(device).streams_live, 0);
    }
    assert_int_equal(api_stats(device).streams_created, 2);
    assert_int_equal(api_stats(device).driver_refusals, 0);
}

API_TEST(stream_null_is_the_legacy_stream) {
    uint64_t id = 0;
    api_ok(acre_stream_sync(device, NULL));
    api_ok(acre_stream_query(device, NULL));
    api_ok(acre_stream_get_id(device, NULL, &id));
    api_ok(acre_stream_destroy(device, NULL)); /* a no-op */
    acre_event event;
    api_ok(acre_event_create(device, ACRE_EVENT_DEFAULT, &event));
    api_ok(acre_event_record(device, event, NULL));
    api_ok(acre_stream_wait(device, NULL, event));
    api_ok(acre_device_sync(device));
    api_ok(acre_event_destroy(device, event));
}

TEST(stream_ids_differ_though_handles_are_reused) {
    enum { ROUNDS = 20 };
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        uint64_t ids[2 * ROUNDS];
        for (size_t i = 0; i < ROUNDS; i++) {
            acre_stream a, b;
            uint64_t again = 0;
            api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &a));
            api_ok(acre_stream_create(device, ACRE_STREAM_DEFAULT, &b));
            assert_ptr_not_equal(a, b);
            api_ok(acre_stream_get_id(device, a, &ids[2 * i]));
            api_ok(acre_stream_get_id(device, b, &ids[2 * i + 1]));
            api_ok(acre_stream_get_id(device, a, &again));
            assert_true(again == ids[2 * i]);
            api_ok(acre_stream_destroy(device, a));
            api_ok(acre_stream_destroy(device, b));
        }
        for (size_t i = 0; i < 2 * ROUNDS; i++)
            for (size_t j = 0; j < i; j++)
                assert_true(ids[i] != ids[j]);
        api_ok(acre_close(device));
    }
}

TEST(close_ends_streams_and_events_left) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        for (int i = 0; i < 5; i++) {
            acre_stream stream;
            acre_event event;
            api_ok(acre_stream_create(device, ACRE_STREAM_DEFAULT, &stream));
            api_ok(acre_event_create(device, ACRE_EVENT_DEFAULT, &event));
            api_ok(acre_event_record(device, event, stream));
        }
        assert_int_equal(api_stats(device).streams_live, 5);
        assert_int_equal(api_stats(device).events_live, 5);
        api_ok(acre_close(device));
        device = api_open(name);
        assert_int_equal(api_stats(device).streams_live, 0);
        assert_int_equal(api_stats(device).limbo_count, 0);
        api_ok(acre_close(device));
    }
}

API_TEST(trim_with_nothing_to_do_is_counted) {
    api_ok(acre_trim(device));
    api_ok(acre_trim(device));
    acre_device_stats stats = api_stats(device);
    assert_int_equal(stats.trims, 2);
    assert_int_equal(stats.limbo_count, 0);
    assert_int_equal(stats.limbo_retired, 0);
}

/* ---- threads; only the main thread may use cmocka's assertions ---- */

enum { THREADS = 8, ROUNDS_OF_A_THREAD = 100 };

struct worker {
    acre_device *device;
    int failed_line;
};

#define worker_must(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            worker->failed_line = __LINE__;                                                        \
            return NULL;                                                                           \
        }                                                                                          \
    } while (0)

static void *create_and_destroy(void *argument) {
    struct worker *worker = argument;
    acre_device *device = worker->device;
    for (int i = 0; i < ROUNDS_OF_A_THREAD; i++) {
        acre_stream streams[3];
        acre_event event;
        for (size_t j = 0; j < 3; j++)
            worker_must(!acre_stream_create(device, (uint32_t)j & 1, &streams[j]));
        worker_must(!acre_event_create(device, ACRE_EVENT_DEFAULT, &event));
        worker_must(!acre_event_record(device, event, streams[0]));
        worker_must(!acre_stream_wait(device, streams[1], event));
        worker_must(!acre_stream_sync(device, streams[1]));
        worker_must(!acre_event_query(device, event));
        worker_must(!acre_event_destroy(device, event));
        for (size_t j = 0; j < 3; j++)
            worker_must(!acre_stream_destroy(device, streams[j]));
        worker_must(!acre_trim(device));
        acre_device_stats stats = {.struct_size = sizeof stats};
        worker_must(!acre_device_get_stats(device, &stats));
    }
    return NULL;
}

static void run_workers(struct worker *workers, void *(*run)(void *)) {
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, &workers[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(workers[i].failed_line, 0);
}

API_TEST(streams_of_many_threads_keep_the_books_right) {
    struct worker workers[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        workers[i] = (struct worker){device, 0};
    run_workers(workers, create_and_destroy);
    acre_device_stats stats = api_stats(device);
    assert_int_equal(stats.streams_live, 0);
    assert_int_equal(stats.events_live, 0);
    assert_int_equal(stats.streams_created, 3 * THREADS * ROUNDS_OF_A_THREAD);
    assert_int_equal(stats.events_created, THREADS * ROUNDS_OF_A_THREAD);
    assert_int_equal(stats.trims, THREADS * ROUNDS_OF_A_THREAD);
    assert_int_equal(stats.driver_refusals, 0);
}

static void *open_and_close(void *argument) {
    struct worker *worker = argument;
    for (int i = 0; i < ROUNDS_OF_A_THREAD; i++) {
        acre_device *device;
        acre_stream stream;
        worker_must(!acre_open("soft", NULL, &device));
        worker_must(!acre_stream_create(device, ACRE_STREAM_DEFAULT, &stream));
        worker_must(!acre_stream_destroy(device, stream));
        worker_must(!acre_close(device));
    }
    return NULL;
}

TEST(open_and_close_by_many_threads_agree) {
    struct worker workers[THREADS] = {0};
    run_workers(workers, open_and_close);
    acre_device *device = api_open("soft");
    /* A new record: the last close destroyed the old one. */
    assert_int_equal(api_stats(device).streams_created, 0);
    api_ok(acre_close(device));
}

int main(void) {
    return tests_run("streams");
}
