/*
 * Conformance: ordering. Group order tests work on streams with gates, and with fills whose final
 * value shows the order. Group wait tests which host calls wait for running work: it makes them on
 * a second thread while a gate is closed.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

/* Streams, events and memory that most cases use. */
static struct {
    CUstream blocking, free1, free2; /* free: CU_STREAM_NON_BLOCKING */
    CUevent event, event2;
    CUdeviceptr ptr; /* two chunks */
    void *host;
    struct conf_gate gate;
} order;

static int order_make(void) {
    memset(&order, 0, sizeof order);
    if (conf_need("stream", conf.drv->cuStreamCreate(&order.blocking, CU_STREAM_DEFAULT)) != 0 ||
        conf_need("stream", conf.drv->cuStreamCreate(&order.free1, CU_STREAM_NON_BLOCKING)) != 0 ||
        conf_need("stream", conf.drv->cuStreamCreate(&order.free2, CU_STREAM_NON_BLOCKING)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&order.event, CU_EVENT_DISABLE_TIMING)) != 0 ||
        conf_need("event", conf.drv->cuEventCreate(&order.event2, CU_EVENT_DISABLE_TIMING)) != 0 ||
        conf_need("alloc", conf.drv->cuMemAlloc(&order.ptr, 4 << 20)) != 0 ||
        conf_need("host", conf.drv->cuMemHostAlloc(&order.host, 1 << 20, 0)) != 0)
        return -1;
    /* The first fill may load code, which must not happen while a gate is closed. */
    conf_need("fill", conf.drv->cuMemsetD32Async(order.ptr, 0, 1024, order.blocking));
    memset(order.host, 0, 1 << 20);
    return conf_need("sync", conf.drv->cuCtxSynchronize());
}

static void order_drop(void) {
    conf_gate_open(&order.gate);
    conf_need("sync", conf.drv->cuCtxSynchronize());
    conf_need("destroy", conf.drv->cuStreamDestroy(order.blocking));
    conf_need("destroy", conf.drv->cuStreamDestroy(order.free1));
    conf_need("destroy", conf.drv->cuStreamDestroy(order.free2));
    conf_need("destroy", conf.drv->cuEventDestroy(order.event));
    conf_need("destroy", conf.drv->cuEventDestroy(order.event2));
    conf_need("free", conf.drv->cuMemFree(order.ptr));
    conf_need("free", conf.drv->cuMemFreeHost(order.host));
}

static CUresult order_fill(uint32_t value, CUstream stream) {
    return conf.drv->cuMemsetD32Async(order.ptr, value, 1, stream);
}

/* ---- streams --------------------------------------------------------------------------------- */

static void order_same_stream(void) {
    if (order_make() == 0 && conf_gate_close(&order.gate, order.free1) == 0) {
        conf_code("fill", order_fill(1, order.free1));
        conf_code("copy", conf.drv->cuMemcpyDtoDAsync(order.ptr + 4096, order.ptr, 4, order.free1));
        conf_code("fill", order_fill(2, order.free1));
        conf_code("query", conf.drv->cuStreamQuery(order.free1));
        conf_code("query-other", conf.drv->cuStreamQuery(order.free2));
        conf_fact("gate-holds", conf_gate_holds(&order.gate));
        conf_gate_open(&order.gate);
        conf_code("sync", conf.drv->cuStreamSynchronize(order.free1));
        conf_code("query", conf.drv->cuStreamQuery(order.free1));
        conf_fact("copied", conf_peek(order.ptr + 4096));
        conf_fact("last", conf_peek(order.ptr));
    }
    order_drop();
}

/* Streams without an order do not wait for each other. */
static void order_independent(void) {
    if (order_make() == 0 && conf_gate_close(&order.gate, order.free1) == 0) {
        conf_code("fill", order_fill(3, order.free2));
        conf_code("sync", conf.drv->cuStreamSynchronize(order.free2));
        conf_fact("gate-holds", conf_gate_holds(&order.gate));
    }
    order_drop();
}

static void order_event_wait(void) {
    if (order_make() == 0 && conf_gate_close(&order.gate, order.free1) == 0) {
        conf_code("fill", order_fill(4, order.free1));
        conf_code("record", conf.drv->cuEventRecord(order.event, order.free1));
        conf_code("wait", conf.drv->cuStreamWaitEvent(order.free2, order.event, 0));
        conf_code("copy", conf.drv->cuMemcpyDtoHAsync(order.host, order.ptr, 4, order.free2));
        conf_code("query", conf.drv->cuStreamQuery(order.free2));
        conf_fact("gate-holds", conf_gate_holds(&order.gate));
        conf_gate_open(&order.gate);
        conf_code("sync", conf.drv->cuStreamSynchronize(order.free2));
        conf_fact("copied", *(volatile uint32_t *)order.host);
        conf_code("event", conf.drv->cuEventQuery(order.event));
    }
    order_drop();
}

/* A dependency through a third stream counts too. */
static void order_event_chain(void) {
    if (order_make() == 0 && conf_gate_close(&order.gate, order.free1) == 0) {
        conf_code("record", conf.drv->cuEventRecord(order.event, order.free1));
        conf_code("wait", conf.drv->cuStreamWaitEvent(order.free2, order.event, 0));
        conf_code("record", conf.drv->cuEventRecord(order.event2, order.free2));
        conf_code("wait", conf.drv->cuStreamWaitEvent(order.blocking, order.event2, 0));
        conf_code("fill", order_fill(5, order.blocking));
        conf_code("query", conf.drv->cuStreamQuery(order.blocking));
        conf_fact("gate-holds", conf_gate_holds(&order.gate));
        conf_gate_open(&order.gate);
        conf_code("sync", conf.drv->cuStreamSynchronize(order.blocking));
        conf_fact("last", conf_peek(order.ptr));
    }
    order_drop();
}

/* A wait uses the record that the event has at that moment; a later record does not change it. */
static void order_wait_keeps_record(void) {
    if (order_make() == 0 && conf_gate_close(&order.gate, order.free1) == 0) {
        conf_code("record", conf.drv->cuEventRecord(order.event, order.free1));
        conf_code("wait", conf.drv->cuStreamWaitEvent(order.free2, order.event, 0));
        conf_code("record-again", conf.drv->cuEventRecord(order.event, order.blocking));
        conf_code("sync", conf.drv->cuEventSynchronize(order.event));
        conf_code("event", conf.drv->cuEventQuery(order.event));
        conf_code("fill", order_fill(6, order.free2));
        conf_code("query", conf.drv->cuStreamQuery(order.free2));
        conf_fact("gate-holds", conf_gate_holds(&order.gate));
        conf_gate_open(&order.gate);
        conf_code("sync", conf.drv->cuStreamSynchronize(order.free2));
    }
    order_drop();
}

/* A wait for an event without a record is a no-op, also if the event is recorded later. */
static void order_wait_before_record(void) {
    if (order_make() == 0 && conf_gate_close(&order.gate, order.free1) == 0) {
        conf_code("wait", conf.drv->cuStreamWaitEvent(order.free2, order.event, 0));
        conf_code("record", conf.drv->cuEventRecord(order.event, order.free1));
        conf_code("fill", order_fill(7, order.free2));
        conf_code("sync", conf.drv->cuStreamSynchronize(order.free2));
        conf_code("event", conf.drv->cuEventQuery(order.event));
        conf_fact("gate-holds", conf_gate_holds(&order.gate));
    }
    order_drop();
}

/* An event destroyed after a wait for it was queued: the wait remains. */
static void order_event_destroyed(void) {
    CUevent event = NULL;

    if (order_make() == 0 && conf_need("event", conf.drv->cuEventCreate(&event, 0)) == 0 &&
        conf_gate_close(&order.gate, order.free1) == 0) {
        conf_code("record", conf.drv->cuEventRecord(event, order.free1));
        conf_code("wait", conf.drv->cuStreamWaitEvent(order.free2, event, 0));
        conf_code("destroy", conf.drv->cuEventDestroy(event));
        conf_code("query", conf.drv->cuStreamQuery(order.free2));
        conf_fact("gate-holds", conf_gate_holds(&order.gate));
        conf_gate_open(&order.gate);
        conf_code("sync", conf.drv->cuStreamSynchronize(order.free2));
    }
    order_drop();
}

/* ---- the legacy stream ----------------------------------------------------------------------- */

static void order_legacy_behind_blocking(void) {
    if (order_make() == 0 && conf_gate_close(&order.gate, order.blocking) == 0) {
        conf_code("fill", order_fill(8, NULL));
        conf_code("query", conf.drv->cuStreamQuery(NULL));
        conf_fact("gate-holds", conf_gate_holds(&order.gate));
        conf_gate_open(&order.gate);
        conf_code("sync", conf.drv->cuStreamSynchronize(NULL));
        conf_fact("last", conf_peek(order.ptr));
    }
    order_drop();
}

static void order_blocking_behind_legacy(void) {
    if (order_make() == 0 && conf_gate_close(&order.gate, NULL) == 0) {
        conf_code("fill", order_fill(9, order.blocking));
        conf_code("query", conf.drv->cuStreamQuery(order.blocking));
        conf_code("fill-free", conf.drv->cuMemsetD32Async(order.ptr + 4096, 9, 1, order.free1));
        conf_code("sync-free", conf.drv->cuStreamSynchronize(order.free1));
        conf_fact("gate-holds", conf_gate_holds(&order.gate));
        conf_gate_open(&order.gate);
        conf_code("sync", conf.drv->cuStreamSynchronize(order.blocking));
        conf_fact("last", conf_peek(order.ptr));
    }
    order_drop();
}

static void order_legacy_beside_free(void) {
    if (order_make() == 0 && conf_gate_close(&order.gate, order.free1) == 0) {
        conf_code("fill", order_fill(10, NULL));
        conf_code("sync", conf.drv->cuStreamSynchronize(NULL));
        conf_code("query", conf.drv->cuStreamQuery(NULL));
        conf_fact("read", conf_peek(order.ptr));
        conf_fact("gate-holds", conf_gate_holds(&order.gate));
    }
    order_drop();
}

/* Two blocking streams with work on the legacy stream between them. */
static void order_blocking_through_legacy(void) {
    CUstream second = NULL;

    if (order_make() == 0 &&
        conf_need("stream", conf.drv->cuStreamCreate(&second, CU_STREAM_DEFAULT)) == 0 &&
        conf_gate_close(&order.gate, order.blocking) == 0) {
        conf_code("fill-second", order_fill(11, second));
        conf_code("sync-second", conf.drv->cuStreamSynchronize(second));
        conf_code("fill-legacy", order_fill(12, NULL));
        conf_code("fill-second", order_fill(13, second));
        conf_code("query-second", conf.drv->cuStreamQuery(second));
        conf_fact("gate-holds", conf_gate_holds(&order.gate));
        conf_gate_open(&order.gate);
        conf_code("sync-second", conf.drv->cuStreamSynchronize(second));
        conf_fact("last", conf_peek(order.ptr));
    }
    conf_need("destroy", conf.drv->cuStreamDestroy(second));
    order_drop();
}

static void order_per_thread(void) {
    if (order_make() == 0 && conf_gate_close(&order.gate, NULL) == 0) {
        conf_code("fill", order_fill(14, CU_STREAM_PER_THREAD));
        conf_code("query", conf.drv->cuStreamQuery(CU_STREAM_PER_THREAD));
        conf_fact("gate-holds", conf_gate_holds(&order.gate));
        conf_gate_open(&order.gate);
        conf_code("sync", conf.drv->cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }
    order_drop();
}

static const struct conf_case order_cases[] = {
    {"same-stream", order_same_stream, 0},
    {"independent", order_independent, 0},
    {"event-wait", order_event_wait, 0},
    {"event-chain", order_event_chain, 0},
    {"wait-keeps-record", order_wait_keeps_record, 0},
    {"wait-before-record", order_wait_before_record, 0},
    {"event-destroyed", order_event_destroyed, 0},
    {"legacy-behind-blocking", order_legacy_behind_blocking, 0},
    {"blocking-behind-legacy", order_blocking_behind_legacy, 0},
    {"legacy-beside-free", order_legacy_beside_free, 0},
    {"blocking-through-legacy", order_blocking_through_legacy, 0},
    {"per-thread", order_per_thread, 0},
};
CONF_GROUP(order, 0);

/* ---- which calls wait ------------------------------------------------------------------------ */

/* Long enough for a call that does not wait to return on a busy machine. */
enum { WAIT_MS = 1000 };

struct wait_call {
    CUresult (*call)(void);
    CUresult code;
    _Atomic int done;
};

static void *wait_thread(void *arg) {
    struct wait_call *wait = arg;

    conf.drv->cuCtxSetCurrent(conf.ctx);
    wait->code = wait->call();
    atomic_store_explicit(&wait->done, 1, memory_order_release);
    return NULL;
}

/* Makes the call while a closed gate blocks `stream`. Prints " label=CODE label-waits=0". */
static void wait_say(const char *label, CUresult (*call)(void), CUstream stream) {
    struct wait_call wait = {.call = call};
    char text[64] = "";
    pthread_t thread;

    if (conf_gate_close(&order.gate, stream) != 0)
        return;
    if (pthread_create(&thread, NULL, wait_thread, &wait) != 0) {
        conf_word("setup-thread", "failed");
    } else {
        int done = conf_wait_flag(&wait.done, WAIT_MS);

        conf_gate_open(&order.gate);
        pthread_join(thread, NULL);
        conf_code(label, wait.code);
        strncat(text, label, sizeof text - 10);
        strcat(text, "-waits");
        conf_fact(text, !done);
    }
    conf_gate_open(&order.gate);
    conf_need("sync", conf.drv->cuStreamSynchronize(stream));
}

/* Objects that the calls below allocate and free. */
static struct {
    CUdeviceptr ptr, base;
    CUmemGenericAllocationHandle handle;
    void *host;
    CUstream stream;
    CUevent event;
} wait_has;

static CUresult wait_alloc(void) {
    return conf.drv->cuMemAlloc(&wait_has.ptr, 8 << 20);
}
static CUresult wait_free(void) {
    return conf.drv->cuMemFree(wait_has.ptr);
}
static CUresult wait_host_alloc(void) {
    return conf.drv->cuMemHostAlloc(&wait_has.host, 1 << 20, 0);
}
static CUresult wait_host_free(void) {
    return conf.drv->cuMemFreeHost(wait_has.host);
}
static CUresult wait_register(void) {
    return conf.drv->cuMemHostRegister(wait_has.host, 1 << 20, 0);
}
static CUresult wait_unregister(void) {
    return conf.drv->cuMemHostUnregister(wait_has.host);
}
static CUresult wait_managed(void) {
    return conf.drv->cuMemAllocManaged(&wait_has.ptr, 1 << 20, CU_MEM_ATTACH_GLOBAL);
}
static CUresult wait_reserve(void) {
    return conf.drv->cuMemAddressReserve(&wait_has.base, conf.chunk_bytes, 0, 0, 0);
}
static CUresult wait_create(void) {
    CUmemAllocationProp prop = conf_prop();

    return conf.drv->cuMemCreate(&wait_has.handle, conf.chunk_bytes, &prop, 0);
}
static CUresult wait_map(void) {
    return conf.drv->cuMemMap(wait_has.base, conf.chunk_bytes, 0, wait_has.handle, 0);
}
static CUresult wait_access(void) {
    return conf_allow(wait_has.base, conf.chunk_bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}
static CUresult wait_unmap(void) {
    return conf.drv->cuMemUnmap(wait_has.base, conf.chunk_bytes);
}
static CUresult wait_release(void) {
    return conf.drv->cuMemRelease(wait_has.handle);
}
static CUresult wait_address_free(void) {
    return conf.drv->cuMemAddressFree(wait_has.base, conf.chunk_bytes);
}
static CUresult wait_stream_create(void) {
    return conf.drv->cuStreamCreate(&wait_has.stream, CU_STREAM_NON_BLOCKING);
}
static CUresult wait_stream_destroy(void) {
    return conf.drv->cuStreamDestroy(wait_has.stream);
}
static CUresult wait_event_create(void) {
    return conf.drv->cuEventCreate(&wait_has.event, 0);
}
static CUresult wait_event_destroy(void) {
    return conf.drv->cuEventDestroy(wait_has.event);
}
static CUresult wait_info(void) {
    size_t bytes;

    return conf.drv->cuMemGetInfo(&bytes, &bytes);
}
static CUresult wait_copy(void) {
    return conf.drv->cuMemcpyHtoD(order.ptr, &(uint32_t){1}, 4);
}
static CUresult wait_copy_back(void) {
    uint32_t word;

    return conf.drv->cuMemcpyDtoH(&word, order.ptr, sizeof word);
}
static CUresult wait_copy_device(void) {
    return conf.drv->cuMemcpyDtoD(order.ptr + 4096, order.ptr, 64);
}
static CUresult wait_fill(void) {
    return conf.drv->cuMemsetD8(order.ptr, 1, 64);
}
static CUresult wait_context_sync(void) {
    return conf.drv->cuCtxSynchronize();
}
static CUresult wait_legacy_sync(void) {
    return conf.drv->cuStreamSynchronize(NULL);
}
static CUresult wait_record(void) {
    return conf.drv->cuCtxRecordEvent(conf.ctx, order.event);
}
static CUresult wait_pageable_small(void) {
    return conf.drv->cuMemcpyHtoDAsync(order.ptr, wait_has.host, 4096, order.free1);
}
static CUresult wait_pageable_large(void) {
    return conf.drv->cuMemcpyHtoDAsync(order.ptr, wait_has.host, 1 << 20, order.free1);
}
static CUresult wait_pageable_back(void) {
    return conf.drv->cuMemcpyDtoHAsync(wait_has.host, order.ptr, 4096, order.free1);
}
static CUresult wait_pinned_back(void) {
    return conf.drv->cuMemcpyDtoHAsync(order.host, order.ptr, 4096, order.free1);
}

/* Makes each pair of calls once without a gate, to warm up the driver. */
static void wait_pair(const char *take, CUresult (*take_call)(void), const char *give,
                      CUresult (*give_call)(void)) {
    if (order_make() == 0 && conf_need(take, take_call()) == 0 &&
        conf_need(give, give_call()) == 0) {
        wait_say(take, take_call, order.free1);
        wait_say(give, give_call, order.free1);
    }
    order_drop();
}

static void wait_plain(void) {
    wait_pair("alloc", wait_alloc, "free", wait_free);
}
static void wait_host(void) {
    wait_pair("alloc", wait_host_alloc, "free", wait_host_free);
}
static void wait_managed_memory(void) {
    wait_pair("alloc", wait_managed, "free", wait_free);
}
static void wait_registered(void) {
    wait_has.host = aligned_alloc(65536, 1 << 20);
    if (wait_has.host == NULL)
        return;
    memset(wait_has.host, 1, 1 << 20);
    wait_pair("register", wait_register, "unregister", wait_unregister);
    free(wait_has.host);
}
static void wait_stream(void) {
    wait_pair("create", wait_stream_create, "destroy", wait_stream_destroy);
}
static void wait_event(void) {
    wait_pair("create", wait_event_create, "destroy", wait_event_destroy);
}

static void wait_by_hand(void) {
    struct conf_range range;

    if (order_make() == 0 && conf_range_make(&range, 1, 1, conf.chunk_bytes) == 0) {
        conf_range_drop(&range);
        wait_say("reserve", wait_reserve, order.free1);
        wait_say("create", wait_create, order.free1);
        wait_say("map", wait_map, order.free1);
        wait_say("access", wait_access, order.free1);
        wait_say("unmap", wait_unmap, order.free1);
        wait_say("release", wait_release, order.free1);
        wait_say("address-free", wait_address_free, order.free1);
    }
    order_drop();
}

static void wait_behind_free(void) {
    if (order_make() == 0) {
        wait_say("info", wait_info, order.free1);
        wait_say("copy", wait_copy, order.free1);
        wait_say("copy-back", wait_copy_back, order.free1);
        wait_say("copy-device", wait_copy_device, order.free1);
        wait_say("fill", wait_fill, order.free1);
        wait_say("legacy-sync", wait_legacy_sync, order.free1);
        wait_say("context-record", wait_record, order.free1);
        wait_say("context-sync", wait_context_sync, order.free1);
    }
    order_drop();
}

static void wait_behind_blocking(void) {
    if (order_make() == 0) {
        wait_say("copy", wait_copy, order.blocking);
        wait_say("copy-back", wait_copy_back, order.blocking);
        wait_say("copy-device", wait_copy_device, order.blocking);
        wait_say("fill", wait_fill, order.blocking);
        wait_say("legacy-sync", wait_legacy_sync, order.blocking);
    }
    order_drop();
}

/* Asynchronous copies of pageable memory: which of them return before they are done? */
static void wait_pageable(void) {
    wait_has.host = malloc(1 << 20);
    if (wait_has.host == NULL)
        return;
    memset(wait_has.host, 1, 1 << 20);
    if (order_make() == 0) {
        wait_say("small", wait_pageable_small, order.free1);
        wait_say("large", wait_pageable_large, order.free1);
        wait_say("back", wait_pageable_back, order.free1);
        wait_say("pinned-back", wait_pinned_back, order.free1);
    }
    order_drop();
    free(wait_has.host);
}

static const struct conf_case wait_cases[] = {
    {"plain", wait_plain, 0},
    {"host", wait_host, 0},
    {"managed", wait_managed_memory, 0},
    {"registered", wait_registered, 0},
    {"stream", wait_stream, 0},
    {"event", wait_event, 0},
    {"by-hand", wait_by_hand, 0},
    {"behind-free", wait_behind_free, 0},
    {"behind-blocking", wait_behind_blocking, 0},
    {"pageable", wait_pageable, 0},
};
CONF_GROUP(wait, 0);
