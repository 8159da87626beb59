/* Memory and copies together with driver calls of the program: streams blocked by a host function,
 * captures, memory and streams that acre did not create. */
#include <pthread.h>
#include <stdatomic.h>

#include "api/api_memory.h"
#include "fault_device.h"

/* ---- gates ---- */

/* Queues the gate and waits until the stream reaches it. */
static void gate_put(const char *name, acre_stream stream, struct gate *gate) {
    gate_close(gate);
    fault_push(name);
    assert_int_equal(fault_raw(name)->cuLaunchHostFunc(stream, gate_run, gate), 0);
    fault_pop(name);
    assert_true(becomes_true(&gate->is_reached));
}

/* Waits until the stream has passed the gate, which was opened in time. */
static void gate_end(struct gate *gate) {
    assert_true(becomes_true(&gate->is_passed));
    assert_int_equal(gate->is_open, 1);
}

static void *gate_open_soon(void *argument) {
    struct gate *gate = argument;
    sleep_ms(30);
    atomic_store(&gate->is_open, 1);
    return NULL;
}

static pthread_t gate_opener(struct gate *gate) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, gate_open_soon, gate), 0);
    return thread;
}

static acre_stream make_stream(acre_device *device) {
    acre_stream stream;
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
    return stream;
}

static int is_all(const unsigned char *at, size_t bytes, unsigned char value) {
    return at[0] == value && memcmp(at, at + 1, bytes - 1) == 0;
}

/* ---- order ---- */

static void free_waits_for_queued_work(void **state) {
    (void)state;
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream stream = make_stream(device);
        /* Warm-up: work that a driver does at its first call. */
        api_ok(acre_fill_sync(device, api_own, 0, 1));
        for (int sort = 0; sort < SORT_PAGEABLE; sort++) {
            struct api_buffer buffer = api_buffer_make(device, sort, 3 * MIB);
            struct gate gate;
            api_ok(acre_fill_sync(device, buffer.at, 1, buffer.bytes));
            gate_put(name, stream, &gate);
            api_ok(acre_fill(device, buffer.at, 2, buffer.bytes, stream));
            pthread_t opener = gate_opener(&gate);
            unsigned char *own = buffer.sort->is_own ? buffer.at : NULL;
            if (own)
                api_ok(acre_mem_unregister(device, own));
            else
                api_ok(acre_mem_free(device, buffer.at));
            assert_int_equal(gate.is_passed, 1);
            if (own) {
                assert_true(is_all(own, buffer.bytes, 2));
                free(own);
            }
            pthread_join(opener, NULL);
            gate_end(&gate);
        }
        api_ok(acre_device_sync(device));
        api_ok(acre_close(device));
    }
}

static void pageable_copy_to_the_device_is_behind_earlier_work(void **state) {
    (void)state;
    const size_t sizes[] = {4096, 3 * MIB, 20 * MIB + 1};
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream stream = make_stream(device);
        for (size_t i = 0; i < 3; i++) {
            size_t bytes = sizes[i];
            struct api_buffer block = api_buffer_make(device, SORT_DEVICE, bytes);
            struct api_buffer other = api_buffer_make(device, SORT_DEVICE, bytes);
            struct api_buffer page = api_buffer_make(device, SORT_PAGEABLE, bytes);
            struct gate gate;
            api_ok(acre_fill_sync(device, block.at, 9, bytes));
            gate_put(name, stream, &gate);
            pthread_t opener = gate_opener(&gate);
            memset(page.at, 2, bytes);
            api_ok(acre_fill(device, block.at, 1, bytes, stream));
            api_ok(acre_copy(device, other.at, block.at, bytes, stream));
            api_ok(acre_copy(device, block.at, page.at, bytes, stream));
            memset(page.at, 3, bytes); /* the copy has read it */
            api_ok(acre_copy(device, page.at, other.at, bytes, stream));
            assert_int_equal(gate.is_passed, 1); /* the data could not arrive earlier */
            assert_true(is_all(page.at, bytes, 1));
            api_ok(acre_copy(device, page.at, block.at, bytes, stream));
            assert_true(is_all(page.at, bytes, 2));
            pthread_join(opener, NULL);
            gate_end(&gate);
            api_buffer_end(&block);
            api_buffer_end(&other);
            api_buffer_end(&page);
        }
        api_ok(acre_close(device));
    }
}

/* Copies from pageable to pageable memory, and fills of pageable memory. */
static void pageable_memory_is_touched_after_earlier_work(void **state) {
    (void)state;
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream stream = make_stream(device);
        struct api_buffer pinned = api_buffer_make(device, SORT_PINNED, 4096);
        struct api_buffer page = api_buffer_make(device, SORT_PAGEABLE, 4096);
        struct gate gate;
        gate_put(name, stream, &gate);
        pthread_t opener = gate_opener(&gate);
        api_ok(acre_fill(device, page.at, 4, 2048, stream));
        assert_int_equal(gate.is_passed, 1);
        pthread_join(opener, NULL);
        gate_end(&gate);
        gate_put(name, stream, &gate);
        opener = gate_opener(&gate);
        api_ok(acre_copy(device, page.at + 2048, page.at, 2048, stream));
        assert_int_equal(gate.is_passed, 1);
        assert_true(is_all(page.at, 4096, 4));
        pthread_join(opener, NULL);
        gate_end(&gate);
        api_buffer_end(&pinned);
        api_buffer_end(&page);
        api_ok(acre_close(device));
    }
}

struct held_copy {
    acre_device *device;
    struct api_buffer block, page;
    acre_stream stream;
    acre_status status;
};

static void *held_copy_run(void *argument) {
    struct held_copy *held = argument;
    held->status =
        acre_copy(held->device, held->block.at, held->page.at, held->page.bytes, held->stream);
    return NULL;
}

/* A blocked stream delays only its own copies. */
static void staged_copies_of_other_streams_do_not_wait_for_a_held_one(void **state) {
    (void)state;
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        size_t bytes = 80 * MIB; /* more than all staging buffers */
        struct held_copy held = {device, api_buffer_make(device, SORT_DEVICE, bytes),
                                 api_buffer_make(device, SORT_PAGEABLE, bytes), make_stream(device),
                                 ACRE_E_BUSY};
        acre_stream stream = make_stream(device);
        struct api_buffer block = api_buffer_make(device, SORT_DEVICE, 5 * MIB);
        struct api_buffer page = api_buffer_make(device, SORT_PAGEABLE, 5 * MIB);
        struct gate gate;
        pthread_t thread;
        memset(held.page.at, 6, bytes);
        gate_put(name, held.stream, &gate);
        assert_int_equal(pthread_create(&thread, NULL, held_copy_run, &held), 0);
        sleep_ms(30);
        for (int i = 1; i < 4; i++) {
            memset(page.at, i, page.bytes);
            api_ok(acre_copy(device, block.at, page.at, page.bytes, stream));
            memset(page.at, 0, page.bytes);
            api_ok(acre_copy(device, page.at, block.at, page.bytes, stream));
            assert_true(is_all(page.at, page.bytes, (unsigned char)i));
        }
        assert_int_equal(api_stats(device).copies_staged, 6);
        assert_int_equal(gate.is_passed, 0);
        atomic_store(&gate.is_open, 1);
        pthread_join(thread, NULL);
        api_ok(held.status);
        gate_end(&gate);
        memset(held.page.at, 0, bytes);
        api_ok(acre_copy(device, held.page.at, held.block.at, bytes, held.stream));
        assert_true(is_all(held.page.at, bytes, 6));
        api_buffer_end(&held.block);
        api_buffer_end(&held.page);
        api_buffer_end(&block);
        api_buffer_end(&page);
        api_ok(acre_close(device));
    }
}

/* The data arrives although the stream is destroyed right after the copy returns. */
static void staged_copy_outlives_its_stream(void **state) {
    (void)state;
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        struct api_buffer block = api_buffer_make(device, SORT_DEVICE, 9 * MIB);
        struct api_buffer page = api_buffer_make(device, SORT_PAGEABLE, 9 * MIB);
        for (int i = 1; i < 6; i++) {
            acre_stream stream = make_stream(device);
            memset(page.at, i, page.bytes);
            api_ok(acre_copy(device, block.at, page.at, page.bytes, stream));
            api_ok(acre_stream_destroy(device, stream));
            api_ok(acre_device_sync(device));
            memset(page.at, 0, page.bytes);
            api_ok(acre_copy_sync(device, page.at, block.at, page.bytes));
            assert_true(is_all(page.at, page.bytes, (unsigned char)i));
        }
        api_buffer_end(&block);
        api_buffer_end(&page);
        api_ok(acre_close(device));
    }
}

/* ---- captures ---- */

static void capture_begin(const char *name, acre_stream stream) {
    fault_push(name);
    assert_int_equal(fault_raw(name)->cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
                     0);
    fault_pop(name);
}

/* The capture is still valid and ends with a graph. */
static void capture_end(const char *name, acre_stream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUgraph graph = NULL;
    fault_push(name);
    assert_int_equal(fault_raw(name)->cuStreamIsCapturing(stream, &status), 0);
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(fault_raw(name)->cuStreamEndCapture(stream, &graph), 0);
    assert_non_null(graph);
    assert_int_equal(fault_raw(name)->cuGraphDestroy(graph), 0);
    fault_pop(name);
}

static void captured_stream_refuses_pageable_memory_and_takes_the_rest(void **state) {
    (void)state;
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream stream = make_stream(device);
        struct api_buffer block = api_buffer_make(device, SORT_DEVICE, 3 * MIB);
        struct api_buffer pinned = api_buffer_make(device, SORT_PINNED, 3 * MIB);
        struct api_buffer page = api_buffer_make(device, SORT_PAGEABLE, 3 * MIB);
        const size_t sizes[] = {1, 4096, 3 * MIB};
        api_ok(acre_fill_sync(device, block.at, 1, block.bytes));
        memset(pinned.at, 2, pinned.bytes);
        memset(page.at, 3, page.bytes);
        capture_begin(name, stream);
        for (size_t i = 0; i < 3; i++) {
            size_t bytes = sizes[i];
            api_expect(acre_copy(device, block.at, page.at, bytes, stream), ACRE_E_CAPTURING);
            api_expect(acre_copy(device, page.at, block.at, bytes, stream), ACRE_E_CAPTURING);
            api_expect(acre_copy(device, page.at, pinned.at, bytes, stream), ACRE_E_CAPTURING);
            api_expect(acre_fill(device, page.at, 4, bytes, stream), ACRE_E_CAPTURING);
            api_expect(acre_copy_2d(device, block.at, 8, page.at, 8, 4, 9, stream),
                       ACRE_E_CAPTURING);
            api_ok(acre_copy(device, block.at, pinned.at, bytes, stream));
            api_ok(acre_copy(device, pinned.at, block.at, bytes, stream));
            api_ok(acre_fill(device, block.at, 4, bytes, stream));
        }
        capture_end(name, stream);
        /* The capture recorded the work; none of it ran. */
        assert_true(is_all(pinned.at, pinned.bytes, 2));
        assert_true(is_all(page.at, page.bytes, 3));
        api_ok(acre_copy(device, page.at, block.at, page.bytes, stream));
        assert_true(is_all(page.at, page.bytes, 1));
        assert_int_equal(api_stats(device).driver_refusals, 0);
        api_buffer_end(&block);
        api_buffer_end(&pinned);
        api_buffer_end(&page);
        api_ok(acre_close(device));
    }
}

/* Runs in a thread that captures nothing. Returns NULL, or the step that failed. */
static void *use_everything(void *argument) {
    acre_device *device = argument;
    static unsigned char page[5 << 20];
    acre_stream stream = NULL;
    void *block = NULL;
    if (acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream) ||
        acre_mem_alloc(device, ACRE_KIND_DEVICE, sizeof page, 0, &block))
        return (void *)"setting up";
    for (int i = 0; i < 3; i++) {
        memset(page, i + 1, sizeof page);
        if (acre_copy(device, block, page, sizeof page, stream))
            return (void *)"a staged copy to the device";
        memset(page, 0, sizeof page);
        if (acre_copy(device, page, block, sizeof page, stream) ||
            !is_all(page, sizeof page, (unsigned char)(i + 1)))
            return (void *)"a staged copy from the device";
        if (acre_copy(device, page, page + 1024, 1024, stream) ||
            acre_fill(device, page, 1, 100, stream))
            return (void *)"pageable memory alone";
        if (acre_trim(device))
            return (void *)"a trim";
        for (int sort = 0; sort < SORT_REGISTERED; sort++) {
            void *p = NULL;
            if (acre_mem_alloc(device, api_sorts[sort].kind, 100000, api_sorts[sort].flags, &p) ||
                acre_mem_free(device, p))
                return (void *)api_sorts[sort].name;
        }
        if (acre_mem_register(device, page, sizeof page, 0) || acre_mem_unregister(device, page))
            return (void *)"registering";
    }
    if (acre_mem_free(device, block) || acre_stream_destroy(device, stream))
        return (void *)"cleaning up";
    return NULL;
}

/* Staged copies use threads of acre, which must not break a capture either. */
static void captures_of_another_thread_are_left_alone(void **state) {
    (void)state;
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream stream = make_stream(device);
        pthread_t thread;
        void *wrong = NULL;
        /* Warm-up: work that a driver does at its first call. */
        assert_null(use_everything(device));
        capture_begin(name, stream);
        assert_int_equal(pthread_create(&thread, NULL, use_everything, device), 0);
        pthread_join(thread, &wrong);
        if (wrong)
            fail_msg("under a capture of another thread: %s", (const char *)wrong);
        api_ok(acre_trim(device));
        capture_end(name, stream);
        assert_int_equal(api_stats(device).driver_refusals, 0);
        api_ok(acre_close(device));
    }
}

/* ---- a staged copy whose stream is blocked while it waits for its turn ---- */

struct turn_taker {
    acre_device *device;
    struct api_buffer block, page;
    acre_stream stream;
    acre_status status;
};

static void *turn_run(void *user) {
    struct turn_taker *me = user;
    me->status = acre_copy(me->device, me->block.at, me->page.at, me->page.bytes, me->stream);
    return NULL;
}

static _Atomic int turn_gate_is_open;

static void turn_gate(void *unused) {
    (void)unused;
    (void)becomes_true(&turn_gate_is_open);
}

/* One long copy holds the staging set. A second copy, on the legacy stream, waits for its turn.
 * Then a blocking stream is held up, and with it the legacy stream. A third copy must still
 * complete, since the gate opens only after it. */
static void staged_copy_in_line_does_not_wait_for_later_work(void **state) {
    (void)state;
    const size_t small = (size_t)4 << 20, large = (size_t)192 << 20;
    acre_device *device = api_open("soft");
    acre_stream blocking, own;
    api_ok(acre_stream_create(device, ACRE_STREAM_DEFAULT, &blocking));
    api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &own));
    struct turn_taker takers[3];
    for (int i = 0; i < 3; i++) {
        size_t bytes = i == 0 ? large : small;
        takers[i] = (struct turn_taker){device, api_buffer_make(device, SORT_DEVICE, bytes),
                                        api_buffer_make(device, SORT_PAGEABLE, bytes),
                                        i == 1 ? NULL : own, ACRE_E_BUSY};
    }
    pthread_t threads[2];
    atomic_store(&turn_gate_is_open, 0);
    assert_int_equal(pthread_create(&threads[0], NULL, turn_run, &takers[0]), 0);
    sleep_ms(5);
    assert_int_equal(pthread_create(&threads[1], NULL, turn_run, &takers[1]), 0);
    sleep_ms(5);
    fault_push("soft");
    assert_int_equal(fault_raw("soft")->cuLaunchHostFunc(blocking, turn_gate, NULL), 0);
    fault_pop("soft");
    turn_run(&takers[2]); /* in time, or the gate times out */
    int was_in_time = acre_stream_query(device, blocking) == ACRE_E_NOT_READY;
    atomic_store(&turn_gate_is_open, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(was_in_time);
    for (int i = 0; i < 3; i++) {
        api_ok(takers[i].status);
        api_buffer_end(&takers[i].block);
        api_buffer_end(&takers[i].page);
    }
    api_ok(acre_close(device));
}

/* ---- memory that the program allocated with the driver ---- */

enum { OWN_BYTES = 100000 };

static void expect_own(acre_device *device, unsigned char *at, acre_kind kind) {
    acre_mem_info info = {.struct_size = sizeof info};
    struct api_buffer page = api_buffer_make(device, SORT_PAGEABLE, OWN_BYTES + 1);
    void *p;
    for (size_t offset = 0; offset < OWN_BYTES; offset += OWN_BYTES / 2 - 1) {
        api_ok(acre_mem_query(device, at + offset, &info));
        assert_int_equal(info.kind, kind);
        assert_ptr_equal(info.base, at);
        assert_int_equal(info.bytes, OWN_BYTES);
        assert_null(info.device);
        assert_int_equal(info.ordinal, 0);
        assert_int_equal(info.flags + info.is_registered, 0);
    }
    memset(page.at, 5, OWN_BYTES);
    api_ok(acre_copy_sync(device, at, page.at, OWN_BYTES));
    memset(page.at, 0, OWN_BYTES);
    api_ok(acre_copy_sync(device, page.at, at, OWN_BYTES));
    assert_true(is_all(page.at, OWN_BYTES, 5));
    api_ok(acre_fill_sync(device, at, 6, OWN_BYTES));
    /* The byte behind the block may be memory that acre freed before. */
    acre_status status = acre_copy(device, at, page.at, OWN_BYTES + 1, NULL);
    assert_true(status == ACRE_E_RANGE || status == ACRE_E_POINTER);
    status = acre_fill(device, at + 1, 0, OWN_BYTES, NULL);
    assert_true(status == ACRE_E_RANGE || status == ACRE_E_POINTER);
    api_ok(acre_mem_device_pointer(device, at, &p));
    assert_ptr_equal(p, at);
    api_expect(acre_mem_free(device, at), ACRE_E_POINTER);
    api_expect(acre_mem_unregister(device, at), ACRE_E_POINTER);
    assert_true(acre_mem_register(device, at, OWN_BYTES, 0) != ACRE_OK);
    assert_int_equal(api_stats(device).mem_registered, 0);
    api_buffer_end(&page);
}

static void memory_of_the_program_is_known_by_the_driver(void **state) {
    (void)state;
    static _Alignas(65536) unsigned char pages[131072];
    for (API_EACH(name)) {
        const struct acre__driver *raw = fault_raw(name);
        acre_device *device = api_open(name);
        CUdeviceptr plain, managed;
        void *host;
        fault_push(name);
        assert_int_equal(raw->cuMemAlloc(&plain, OWN_BYTES), 0);
        assert_int_equal(raw->cuMemAllocManaged(&managed, OWN_BYTES, CU_MEM_ATTACH_GLOBAL), 0);
        assert_int_equal(raw->cuMemHostAlloc(&host, OWN_BYTES, 0), 0);
        assert_int_equal(raw->cuMemHostRegister(pages, OWN_BYTES, 0), 0);
        fault_pop(name);
        expect_own(device, (unsigned char *)(uintptr_t)plain, ACRE_KIND_DEVICE);
        expect_own(device, (unsigned char *)(uintptr_t)managed, ACRE_KIND_MANAGED);
        expect_own(device, host, ACRE_KIND_PINNED);
        expect_own(device, pages, ACRE_KIND_PINNED);
        api_expect(acre_mem_register(device, pages + 4096, 4096, 0), ACRE_E_REGISTERED);
        api_ok(acre_mem_prefetch(device, (void *)(uintptr_t)managed, OWN_BYTES, ACRE_PLACE_DEVICE,
                                 NULL));
        api_ok(acre_mem_attach(device, (void *)(uintptr_t)managed, ACRE_ATTACH_GLOBAL, NULL));
        api_ok(acre_device_sync(device));
        fault_push(name);
        assert_int_equal(raw->cuMemFree(plain), 0);
        assert_int_equal(raw->cuMemFree(managed), 0);
        assert_int_equal(raw->cuMemFreeHost(host), 0);
        assert_int_equal(raw->cuMemHostUnregister(pages), 0);
        fault_pop(name);
        acre_mem_info info = {.struct_size = sizeof info};
        api_ok(acre_mem_query(device, pages, &info));
        assert_int_equal(info.kind, ACRE_KIND_PAGEABLE);
        api_ok(acre_close(device));
    }
}

/* The program freed the memory with the driver: acre returns a status and does not retry. */
static void memory_the_driver_does_not_know_any_more_does_not_wait(void **state) {
    (void)state;
    for (API_EACH(name)) {
        const struct acre__driver *raw = fault_raw(name);
        acre_device *device = api_open(name);
        for (int sort = 0; sort < SORT_PAGEABLE; sort++) {
            struct api_buffer buffer = api_buffer_make(device, sort, (size_t)1 << 20);
            fault_push(name);
            if (sort == SORT_DEVICE || sort == SORT_MANAGED)
                assert_int_equal(raw->cuMemFree((CUdeviceptr)(uintptr_t)buffer.at), 0);
            else if (sort == SORT_COMBINED)
                assert_int_equal(raw->cuMemFreeHost(buffer.at), 0);
            else
                assert_int_equal(raw->cuMemHostUnregister(buffer.at), 0);
            fault_pop(name);
            if (buffer.sort->is_own) {
                api_expect(acre_mem_unregister(device, buffer.at), ACRE_E_HANDLE);
                free(buffer.at);
            } else {
                api_expect(acre_mem_free(device, buffer.at), ACRE_E_HANDLE);
            }
        }
        acre_device_stats stats = api_stats(device);
        assert_int_equal(stats.mem_blocks + stats.mem_registered + stats.limbo_count, 0);
        api_ok(acre_trim(device));
        api_ok(acre_close(device));
    }
}

int main(void) {
    /* With a seed, the calling thread itself would run the host function and wait for its own
     * gate. */
    unsetenv("ACRE_SOFT_SEED");
    fault_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(staged_copy_in_line_does_not_wait_for_later_work),
        cmocka_unit_test(free_waits_for_queued_work),
        cmocka_unit_test(pageable_copy_to_the_device_is_behind_earlier_work),
        cmocka_unit_test(pageable_memory_is_touched_after_earlier_work),
        cmocka_unit_test(staged_copies_of_other_streams_do_not_wait_for_a_held_one),
        cmocka_unit_test(staged_copy_outlives_its_stream),
        cmocka_unit_test(captured_stream_refuses_pageable_memory_and_takes_the_rest),
        cmocka_unit_test(captures_of_another_thread_are_left_alone),
        cmocka_unit_test(memory_of_the_program_is_known_by_the_driver),
        cmocka_unit_test(memory_the_driver_does_not_know_any_more_does_not_wait),
    };
    return cmocka_run_group_tests_name("mem_order", tests, NULL, NULL);
}
