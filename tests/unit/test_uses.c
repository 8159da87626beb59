/* Uses of memory by streams: a wait covers just the recorded work. Runs on every driver present;
 * host functions block the streams. */
#include <pthread.h>
#include <stdatomic.h>

#include "space/uses.h"
#include "space_fixture.h"

/* ---- gates ---- */

/* Only one stream at a time has closed gates: a driver may run all host functions one after the
 * other. */
static void gate_put(acre_device *dev, acre_stream stream, struct gate *gate) {
    struct acre__current current;
    gate_close(gate);
    space_push(dev, &current);
    assert_int_equal(dev->drv->cuLaunchHostFunc(stream, gate_run, gate), 0);
    acre__device_pop(dev, &current);
}

static void gate_open(struct gate *gate) {
    atomic_store(&gate->is_open, 1);
    assert_true(becomes_true(&gate->is_passed));
}

static acre_stream stream_make(acre_device *dev) {
    acre_stream stream;
    api_ok(acre_stream_create(dev, ACRE_STREAM_NON_BLOCKING, &stream));
    return stream;
}

/* A thread that waits for the uses. */
struct waiter {
    struct acre__uses *uses;
    pthread_t thread;
    acre_status status;
    _Atomic int is_done;
};

static void *waiter_run(void *argument) {
    struct waiter *me = argument;
    me->status = acre__uses_wait(me->uses);
    atomic_store(&me->is_done, 1);
    return NULL;
}

static void waiter_begin(struct waiter *waiter, struct acre__uses *uses) {
    waiter->uses = uses;
    atomic_store(&waiter->is_done, 0);
    assert_int_equal(pthread_create(&waiter->thread, NULL, waiter_run, waiter), 0);
    sleep_ms(30);
    assert_int_equal(atomic_load(&waiter->is_done), 0); /* the thread waits */
}

static void waiter_end(struct waiter *waiter) {
    assert_true(becomes_true(&waiter->is_done));
    pthread_join(waiter->thread, NULL);
    api_ok(waiter->status);
}

/* ---- waiting ---- */

TEST(uses_wait_for_recorded_streams_and_for_no_others) {
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        acre_stream streams[3] = {stream_make(dev), stream_make(dev), stream_make(dev)};
        struct acre__uses uses;
        struct gate gate;
        struct waiter waiter;
        acre__uses_open(&uses, dev);
        api_ok(acre__uses_wait(&uses)); /* no uses are recorded */
        for (int held = 0; held < 3; held++) {
            /* The wait covers the blocked stream, whether it was recorded first or last. */
            gate_put(dev, streams[held], &gate);
            for (int i = 0; i < 3; i++)
                api_ok(acre__uses_record(&uses, streams[i]));
            waiter_begin(&waiter, &uses);
            gate_open(&gate);
            waiter_end(&waiter);
            /* The wait covers neither a stream without a record nor work queued after the
             * record. */
            for (int i = 0; i < 3; i++)
                if (i != held)
                    api_ok(acre__uses_record(&uses, streams[i]));
            gate_put(dev, streams[held], &gate);
            api_ok(acre__uses_wait(&uses));
            assert_int_equal(atomic_load(&gate.is_passed), 0);
            gate_open(&gate);
        }
        acre__uses_close(&uses);
        api_ok(acre_close(dev));
    }
}

TEST(uses_later_mark_of_a_stream_covers_the_earlier) {
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        acre_stream stream = stream_make(dev);
        struct acre__uses uses;
        struct gate first, second;
        struct waiter waiter;
        acre__uses_open(&uses, dev);
        gate_put(dev, stream, &first);
        api_ok(acre__uses_record(&uses, stream));
        gate_put(dev, stream, &second);
        for (int i = 0; i < 100; i++)
            api_ok(acre__uses_record(&uses, stream));
        waiter_begin(&waiter, &uses);
        gate_open(&first);
        sleep_ms(20);
        assert_int_equal(atomic_load(&waiter.is_done), 0);
        gate_open(&second);
        waiter_end(&waiter);
        acre__uses_close(&uses);
        api_ok(acre_close(dev));
    }
}

/* ---- destroyed streams ---- */

TEST(uses_of_a_destroyed_stream_are_waited_for) {
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        acre_stream old = stream_make(dev), reused = NULL;
        struct acre__uses uses;
        struct gate of_old;
        struct waiter waiter;
        acre__uses_open(&uses, dev);
        gate_put(dev, old, &of_old);
        api_ok(acre__uses_record(&uses, old));
        api_ok(acre_stream_destroy(dev, old)); /* its work continues */
        /* Creates streams until the driver reuses the handle, if it does. */
        acre_stream made[64];
        size_t count = 0;
        while (count < 64 && reused != old)
            reused = made[count++] = stream_make(dev);
        api_ok(acre__uses_record(&uses, reused));
        print_message("%s: the driver %s the handle\n", name,
                      reused == old ? "reused" : "did not reuse");
        waiter_begin(&waiter, &uses);
        gate_open(&of_old);
        waiter_end(&waiter);
        acre__uses_close(&uses);
        while (count)
            api_ok(acre_stream_destroy(dev, made[--count]));
        api_ok(acre_close(dev));
    }
}

static struct space_table other;
static unsigned long long told_id;

static CUresult same_id(CUstream stream, unsigned long long *id) {
    (void)stream;
    *id = told_id;
    return CUDA_SUCCESS;
}

/* Two streams have the same handle, one after the other. If their ids differ, each gets its own
 * event. Without ids one event serves both, because the new stream waits for the old recording. The
 * test plays this with one stream and a replaced cuStreamGetId. */
TEST(uses_handle_with_another_id_is_another_stream) {
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        acre_stream stream = stream_make(dev);
        struct acre__uses uses;
        struct gate gate;
        const struct {
            unsigned long long first, second;
            unsigned events; /* number of events needed */
        } cases[] = {{7, 7, 1}, {7, 8, 2}, {0, 0, 1}};
        for (size_t i = 0; i < 3; i++) {
            space_table_begin(&other, dev);
            other.table.cuStreamGetId = same_id;
            acre__uses_open(&uses, dev);
            gate_put(dev, stream, &gate);
            told_id = cases[i].first;
            api_ok(acre__uses_record(&uses, stream));
            const struct acre__use *before = uses.first;
            told_id = cases[i].second;
            api_ok(acre__uses_record(&uses, stream));
            assert_int_equal(uses.first != before, cases[i].events == 2);
            gate_open(&gate);
            api_ok(acre__uses_wait(&uses));
            acre__uses_close(&uses);
            space_table_end(&other, dev);
        }
        api_ok(acre_close(dev));
    }
}

static int events_made;

static CUresult event_counted(CUevent *event, unsigned flags) {
    events_made++;
    return other.real->cuEventCreate(event, flags);
}

/* Events of finished uses are reused, however many streams are recorded. */
TEST(uses_events_are_used_again) {
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        struct acre__uses uses;
        space_table_begin(&other, dev);
        other.table.cuEventCreate = event_counted;
        events_made = 0;
        acre__uses_open(&uses, dev);
        for (int i = 0; i < 200; i++) {
            acre_stream stream = stream_make(dev);
            api_ok(acre__uses_record(&uses, stream));
            api_ok(acre_stream_sync(dev, stream));
            api_ok(acre_stream_destroy(dev, stream));
        }
        api_ok(acre__uses_wait(&uses));
        assert_in_range(events_made, 1, 8);
        acre__uses_close(&uses);
        space_table_end(&other, dev);
        assert_int_equal(api_stats(dev).limbo_count, 0);
        api_ok(acre_close(dev));
    }
}

static CUresult destroy_refused(CUevent event) {
    (void)event;
    return CUDA_ERROR_UNKNOWN;
}

TEST(uses_events_that_are_refused_wait_in_limbo) {
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        struct acre__uses uses;
        acre__uses_open(&uses, dev);
        api_ok(acre__uses_record(&uses, NULL));
        space_table_begin(&other, dev);
        other.table.cuEventDestroy = destroy_refused;
        acre__uses_close(&uses);
        space_table_end(&other, dev);
        assert_null(uses.first);
        assert_int_equal(api_stats(dev).limbo_count, 1);
        api_ok(acre_trim(dev));
        assert_int_equal(api_stats(dev).limbo_count, 0);
        api_ok(acre_close(dev));
    }
}

/* ---- refused streams ---- */

static void capture(acre_device *dev, acre_stream stream, int is_begin) {
    struct acre__current current;
    CUgraph graph = NULL;
    space_push(dev, &current);
    if (is_begin) {
        assert_int_equal(dev->drv->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
    } else {
        assert_int_equal(dev->drv->cuStreamEndCapture(stream, &graph), 0);
        assert_int_equal(dev->drv->cuGraphDestroy(graph), 0);
    }
    acre__device_pop(dev, &current);
}

TEST(uses_of_a_captured_stream_are_refused) {
    for (API_EACH(name)) {
        acre_device *dev = api_open(name);
        acre_stream captured = stream_make(dev), plain = stream_make(dev);
        struct acre__uses uses;
        acre__uses_open(&uses, dev);
        capture(dev, captured, 1);
        api_expect(acre__uses_record(&uses, captured), ACRE_E_CAPTURING);
        assert_null(uses.first);
        /* Uses of other streams still work and do not invalidate the capture. */
        api_ok(acre__uses_record(&uses, plain));
        api_ok(acre__uses_wait(&uses));
        acre__uses_close(&uses);
        capture(dev, captured, 0);
        acre__uses_open(&uses, dev);
        api_ok(acre__uses_record(&uses, captured));
        api_ok(acre__uses_wait(&uses));
        acre__uses_close(&uses);
        api_ok(acre_close(dev));
    }
}

TEST(uses_of_another_devices_stream_are_refused) {
    acre_device *devices[2];
    struct acre__uses uses;
    api_open_two(devices);
    acre_stream stream = stream_make(devices[1]);
    acre__uses_open(&uses, devices[0]);
    api_expect(acre__uses_record(&uses, stream), ACRE_E_HANDLE);
    assert_null(uses.first);
    api_ok(acre__uses_wait(&uses));
    acre__uses_close(&uses);
    api_ok(acre_close(devices[0]));
    api_ok(acre_close(devices[1]));
}

int main(void) {
    return tests_run("uses");
}
