/* acre_mem_realloc with streams blocked by a host function: it waits only for its own stream, and
 * only if it releases memory. On captured streams it is refused, and other captures stay valid. */
#include <pthread.h>
#include <stdatomic.h>

#include "api/api_memory.h"
#include "soft/soft.h"
#include "fault_device.h"

/* ---- blocked streams ---- */

static void gate_put(const char *name, acre_stream stream, struct gate *gate) {
    gate_close(gate);
    fault_push(name);
    assert_int_equal(fault_raw(name)->cuLaunchHostFunc(stream, gate_run, gate), 0);
    fault_pop(name);
}

static void gate_open(struct gate *gate) {
    atomic_store(&gate->is_open, 1);
    assert_true(becomes_true(&gate->is_passed));
}

/* ---- a realloc in another thread ---- */

struct change {
    acre_device *device;
    void *p, *to;
    size_t bytes;
    acre_stream stream;
    acre_status status;
    _Atomic int is_done;
};

static void *change_run(void *argument) {
    struct change *me = argument;
    me->status = acre_mem_realloc(me->device, me->p, me->bytes, me->stream, &me->to);
    atomic_store(&me->is_done, 1);
    return NULL;
}

static const struct {
    const char *name;
    /* Allocated with `before` bytes and grown, so that it has two chunks. */
    size_t before, from, to;
    int is_enclosed; /* the addresses behind it are taken */
    int waits;
} cases[] = {
    {"in place", 2 * MIB, 4 * MIB, 8 * MIB, 0, 0},
    {"within its memory", 4 * MIB, 6 * MIB, 5 * MIB, 0, 0},
    {"moving", 2 * MIB, 4 * MIB, 24 * MIB, 1, 1},
    {"shrinking", 2 * MIB, 8 * MIB, 2 * MIB, 0, 1},
    {"to a small one", 2 * MIB, 8 * MIB, 4096, 0, 1},
    {"of small ones", 2048, 4096, 8192, 0, 1},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void *make(acre_device *device, size_t i, void **next) {
    void *p = NULL;
    *next = NULL;
    api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, cases[i].before, 0, &p));
    api_ok(acre_mem_realloc(device, p, cases[i].from, NULL, &p));
    if (cases[i].is_enclosed)
        api_ok(acre_mem_alloc(device, ACRE_KIND_DEVICE, 2 * MIB, 0, next));
    return p;
}

TEST(realloc_waits_for_its_stream_where_memory_goes) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream stream;
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
        for (size_t i = 0; i < CASES; i++) {
            struct gate gate;
            void *next;
            struct change change = {.device = device,
                                    .bytes = cases[i].to,
                                    .stream = stream,
                                    .p = make(device, i, &next)};
            pthread_t thread;
            gate_put(name, stream, &gate);
            api_ok(acre_fill(device, change.p, (uint8_t)(i + 1), cases[i].from, stream));
            assert_int_equal(pthread_create(&thread, NULL, change_run, &change), 0);
            if (cases[i].waits) {
                sleep_ms(20);
                if (atomic_load(&change.is_done))
                    fail_msg("%s does not wait", cases[i].name);
            } else if (!becomes_true(&change.is_done)) {
                fail_msg("%s waits", cases[i].name);
            }
            gate_open(&gate);
            pthread_join(thread, NULL);
            api_ok(change.status);
            api_ok(acre_stream_sync(device, stream));
            unsigned char byte = 0;
            api_ok(acre_copy_sync(device, &byte, change.to, 1));
            assert_int_equal(byte, i + 1);
            api_ok(acre_mem_free(device, change.to));
            api_ok(acre_mem_free(device, next));
        }
        api_ok(acre_close(device));
    }
    char text[256] = "";
    if (acre__soft_reports(text, sizeof text))
        fail_msg("%s", text);
}

/* Blocks of chunks do not wait for other streams. Small blocks do, as cudaFree does. */
TEST(realloc_does_not_wait_for_other_streams) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream stream, held;
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream));
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &held));
        for (size_t i = 0; i < 4; i++) {
            struct gate gate;
            void *next, *p = make(device, i, &next), *to = NULL;
            gate_put(name, held, &gate);
            api_ok(acre_mem_realloc(device, p, cases[i].to, stream, &to));
            assert_int_equal(atomic_load(&gate.is_passed), 0);
            gate_open(&gate);
            api_ok(acre_mem_free(device, to));
            api_ok(acre_mem_free(device, next));
        }
        api_ok(acre_close(device));
    }
}

TEST(realloc_on_a_captured_stream_is_refused) {
    for (API_EACH(name)) {
        acre_device *device = api_open(name);
        acre_stream captured, plain;
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        CUgraph graph = NULL;
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &captured));
        api_ok(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &plain));
        void *blocks[CASES], *next[CASES];
        for (size_t i = 0; i < CASES; i++)
            blocks[i] = make(device, i, &next[i]);
        fault_push(name);
        assert_int_equal(
            fault_raw(name)->cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL), 0);
        fault_pop(name);
        for (size_t i = 0; i < CASES; i++) {
            void *to = device;
            api_expect(acre_mem_realloc(device, blocks[i], cases[i].to, captured, &to),
                       ACRE_E_CAPTURING);
            assert_null(to);
            /* On another stream the call succeeds, and the capture stays valid. */
            api_ok(acre_mem_realloc(device, blocks[i], cases[i].to, plain, &to));
            blocks[i] = to;
        }
        fault_push(name);
        assert_int_equal(fault_raw(name)->cuStreamIsCapturing(captured, &status), 0);
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
        assert_int_equal(fault_raw(name)->cuStreamEndCapture(captured, &graph), 0);
        assert_int_equal(fault_raw(name)->cuGraphDestroy(graph), 0);
        fault_pop(name);
        for (size_t i = 0; i < CASES; i++) {
            api_ok(acre_mem_free(device, blocks[i]));
            api_ok(acre_mem_free(device, next[i]));
        }
        api_ok(acre_close(device));
    }
}

int main(void) {
    unsetenv("ACRE_VMM");
    return tests_run("realloc_order");
}
