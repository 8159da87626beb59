/* Streams and events with work in flight: a host function blocks a stream until the test opens the
 * gate. Also streams that acre did not create. */
#include "device/device.h"
#include "fault_device.h"

static void gate_queue(const char *name, acre_stream stream, struct gate *gate) {
    gate_close(gate);
    fault_push(name);
    assert_int_equal(fault_raw(name)->cuLaunchHostFunc(stream, gate_run, gate), 0);
    fault_pop(name);
}

TEST(query_says_not_ready_until_the_work_is_done) {
    for (API_EACH(name)) {
        struct api_arguments with = fault_arguments(name);
        struct gate gate;
        gate_queue(name, with.stream, &gate);
        api_ok(acre_event_record(with.device, with.event, with.stream));
        api_expect(acre_stream_query(with.device, with.stream), ACRE_E_NOT_READY);
        api_expect(acre_event_query(with.device, with.event), ACRE_E_NOT_READY);
        float ms = 1;
        api_expect(acre_event_elapsed(with.device, with.event, with.event, &ms), ACRE_E_NOT_READY);
        /* Not ready is not a refusal. */
        assert_int_equal(api_stats(with.device).driver_refusals, 0);
        atomic_store(&gate.is_open, 1);
        api_ok(acre_event_sync(with.device, with.event));
        assert_int_equal(gate.is_passed, 1);
        api_ok(acre_event_query(with.device, with.event));
        api_ok(acre_stream_sync(with.device, with.stream));
        api_ok(acre_stream_query(with.device, with.stream));
        api_ok(acre_close(with.device));
    }
}

TEST(wait_orders_one_stream_behind_another) {
    for (API_EACH(name)) {
        struct api_arguments with = fault_arguments(name);
        acre_stream behind;
        acre_event after;
        struct gate gate;
        api_ok(acre_stream_create(with.device, ACRE_STREAM_NON_BLOCKING, &behind));
        api_ok(acre_event_create(with.device, ACRE_EVENT_DEFAULT, &after));
        gate_queue(name, with.stream, &gate);
        api_ok(acre_event_record(with.device, with.event, with.stream));
        api_ok(acre_stream_query(with.device, behind)); /* not ordered yet */
        api_ok(acre_stream_wait(with.device, behind, with.event));
        api_ok(acre_event_record(with.device, after, behind));
        api_expect(acre_stream_query(with.device, behind), ACRE_E_NOT_READY);
        api_expect(acre_event_query(with.device, after), ACRE_E_NOT_READY);
        atomic_store(&gate.is_open, 1);
        api_ok(acre_stream_sync(with.device, behind));
        assert_int_equal(gate.is_passed, 1);
        api_ok(acre_close(with.device));
    }
}

TEST(device_sync_waits_for_all_streams) {
    for (API_EACH(name)) {
        struct api_arguments with = fault_arguments(name);
        struct gate gate;
        gate_queue(name, with.stream, &gate);
        atomic_store(&gate.is_open, 1);
        api_ok(acre_device_sync(with.device));
        assert_int_equal(gate.is_passed, 1);
        api_ok(acre_close(with.device));
    }
}

TEST(destroyed_streams_work_still_runs) {
    for (API_EACH(name)) {
        struct api_arguments with = fault_arguments(name);
        struct gate gate;
        gate_queue(name, with.stream, &gate);
        api_ok(acre_event_record(with.device, with.event, with.stream));
        uint64_t old_id, new_id;
        api_ok(acre_stream_get_id(with.device, with.stream, &old_id));
        api_ok(acre_stream_destroy(with.device, with.stream));
        /* The driver may reuse the handle at once, but never the id. */
        api_ok(acre_stream_create(with.device, ACRE_STREAM_NON_BLOCKING, &with.stream));
        api_ok(acre_stream_get_id(with.device, with.stream, &new_id));
        assert_true(old_id != new_id);
        api_expect(acre_event_query(with.device, with.event), ACRE_E_NOT_READY);
        atomic_store(&gate.is_open, 1);
        api_ok(acre_event_sync(with.device, with.event));
        assert_int_equal(gate.is_passed, 1);
        api_ok(acre_close(with.device));
    }
}

/* acre can use streams created with CUDA, but refuses to destroy them. */
TEST(streams_of_the_program_are_served) {
    for (API_EACH(name)) {
        struct api_arguments with = fault_arguments(name);
        const struct acre__driver *raw = fault_raw(name);
        CUstream own;
        uint64_t id;
        fault_push(name);
        assert_int_equal(raw->cuStreamCreate(&own, CU_STREAM_NON_BLOCKING), 0);
        api_ok(acre_event_record(with.device, with.event, own));
        api_ok(acre_stream_wait(with.device, own, with.event));
        api_ok(acre_stream_sync(with.device, own));
        api_ok(acre_stream_query(with.device, own));
        api_ok(acre_stream_get_id(with.device, own, &id));
        api_expect(acre_stream_destroy(with.device, own), ACRE_E_HANDLE);
        assert_int_equal(raw->cuStreamDestroy(own), 0);
        fault_pop(name);
        api_ok(acre_close(with.device));
    }
}

/* The program destroys a stream of acre with the driver. The driver reuses the handle, and acre's
 * records must follow. On the soft device only: the driver of a GPU may crash on a bug here. */
TEST(stream_destroyed_without_acre_is_replaced) {
    struct api_arguments with = fault_arguments("soft");
    fault_push("soft");
    assert_int_equal(fault_raw("soft")->cuStreamDestroy(with.stream), 0);
    fault_pop("soft");
    acre_stream next;
    api_ok(acre_stream_create(with.device, ACRE_STREAM_DEFAULT, &next));
    assert_ptr_equal(next, with.stream);
    assert_int_equal(api_stats(with.device).streams_live, 1);
    api_ok(acre_stream_sync(with.device, next));
    api_ok(acre_stream_destroy(with.device, next));
    api_expect(acre_stream_destroy(with.device, next), ACRE_E_HANDLE);
    assert_int_equal(api_stats(with.device).streams_live, 0);
    api_ok(acre_close(with.device));
}

TEST(capture_in_progress_is_said) {
    for (API_EACH(name)) {
        struct api_arguments with = fault_arguments(name);
        const struct acre__driver *raw = fault_raw(name);
        CUgraph graph = NULL;
        fault_push(name);
        assert_int_equal(raw->cuStreamBeginCapture(with.stream, CU_STREAM_CAPTURE_MODE_RELAXED), 0);
        api_expect(acre_stream_query(with.device, with.stream), ACRE_E_CAPTURING);
        (void)raw->cuStreamEndCapture(with.stream, &graph); /* the query invalidated the capture */
        if (graph)
            (void)raw->cuGraphDestroy(graph);
        fault_pop(name);
        api_ok(acre_stream_sync(with.device, with.stream));
        api_ok(acre_close(with.device));
    }
}

static CUresult no_ids(CUstream stream, unsigned long long *id) {
    (void)stream;
    (void)id;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* An older driver without stream ids: acre numbers its own streams, and has no ids for others. */
TEST(stream_ids_are_acres_own_where_the_driver_has_none) {
    struct api_arguments with = fault_arguments("soft");
    const struct acre__driver *whole = with.device->drv;
    struct acre__driver older = *whole;
    older.missing[ACRE__ENTRY_cuStreamGetId] = 1;
    older.cuStreamGetId = no_ids;
    with.device->drv = &older;
    uint64_t first = 0, again = 0, second = 0;
    acre_stream next;
    api_ok(acre_stream_get_id(with.device, with.stream, &first));
    api_ok(acre_stream_get_id(with.device, with.stream, &again));
    assert_true(first == again);
    api_ok(acre_stream_destroy(with.device, with.stream));
    api_ok(acre_stream_create(with.device, ACRE_STREAM_DEFAULT, &next));
    api_ok(acre_stream_get_id(with.device, next, &second));
    assert_true(first != second);
    api_expect(acre_stream_get_id(with.device, NULL, &again), ACRE_E_UNSUPPORTED);
    assert_int_equal(again, 0);
    with.device->drv = whole;
    api_ok(acre_close(with.device));
}

static CUresult (*plain_query)(CUstream);
static unsigned query_count;

static CUresult count_query(CUstream stream) {
    query_count++;
    return plain_query(stream);
}

/* Destroyed streams that stay busy do not keep acre from using idle ones again: of 2000 streams,
 * one after the other, few are new. Each one takes a bounded number of queries, and a busy stream
 * is no error. */
TEST(stream_create_finds_idle_streams_behind_busy_ones) {
    enum { BUSY = 40, ROUNDS = 2000, FEW = 2 * BUSY, QUERIES = 8 };
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        const struct acre__driver *whole = device->drv;
        struct acre__driver counting = *whole;
        char detail[256];
        plain_query = whole->cuStreamQuery;
        counting.cuStreamQuery = count_query;
        device->drv = &counting;
        acre_stream busy[BUSY], seen[ROUNDS];
        struct gate gates[BUSY];
        size_t seen_count = 0;
        for (int i = 0; i < BUSY; i++) {
            api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &busy[i]));
            gate_queue(name, busy[i], &gates[i]);
        }
        for (int i = 0; i < BUSY; i++)
            api_ok(acre_stream_destroy(device, busy[i]));
        api_expect(acre_pool_free(NULL, NULL, NULL), ACRE_E_NULL);
        snprintf(detail, sizeof detail, "%s", acre_last_detail());
        for (int i = 0; i < ROUNDS; i++) {
            acre_stream stream;
            query_count = 0;
            api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
            assert_true(query_count <= QUERIES);
            assert_string_equal(acre_last_detail(), detail);
            api_ok(acre_stream_query(device, stream));
            api_ok(acre_stream_destroy(device, stream));
            size_t at = 0;
            while (at < seen_count && seen[at] != stream)
                at++;
            seen[at] = stream;
            seen_count += at == seen_count;
        }
        assert_true(seen_count <= FEW);
        for (int i = 0; i < BUSY; i++)
            atomic_store(&gates[i].is_open, 1);
        api_ok(acre_device_sync(device));
        for (int i = 0; i < BUSY; i++) {
            assert_int_equal(gates[i].is_passed, 1);
        }
        api_ok(acre_close(device));
    }
}

int main(void) {
    /* With a seed, the calling thread itself would run the host function and wait for its own
     * gate. */
    unsetenv("ACRE_SOFT_SEED");
    fault_begin();
    return tests_run("device_order");
}
