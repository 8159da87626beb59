/* The overhead of acre's checks and bookkeeping on streams and events: acre's functions against the
 * driver's own, with the context current. */
#include <stddef.h>

#include "bench.h"

struct ground {
    acre_device *device;
    const struct acre__driver *drv;
    acre_stream stream;
    acre_event event;
};

static int acre_record(void *user, uint64_t count) {
    struct ground *g = user;
    for (uint64_t i = 0; i < count; i++)
        if (acre_event_record(g->device, g->event, g->stream))
            return 0;
    return acre_stream_sync(g->device, g->stream) == ACRE_OK;
}

static int driver_record(void *user, uint64_t count) {
    struct ground *g = user;
    for (uint64_t i = 0; i < count; i++)
        if (g->drv->cuEventRecord(g->event, g->stream))
            return 0;
    return g->drv->cuStreamSynchronize(g->stream) == CUDA_SUCCESS;
}

static int acre_query(void *user, uint64_t count) {
    struct ground *g = user;
    for (uint64_t i = 0; i < count; i++)
        if (acre_event_query(g->device, g->event))
            return 0;
    return 1;
}

static int driver_query(void *user, uint64_t count) {
    struct ground *g = user;
    for (uint64_t i = 0; i < count; i++)
        if (g->drv->cuEventQuery(g->event))
            return 0;
    return 1;
}

static int acre_wait(void *user, uint64_t count) {
    struct ground *g = user;
    for (uint64_t i = 0; i < count; i++)
        if (acre_stream_wait(g->device, g->stream, g->event))
            return 0;
    return acre_stream_sync(g->device, g->stream) == ACRE_OK;
}

static int driver_wait(void *user, uint64_t count) {
    struct ground *g = user;
    for (uint64_t i = 0; i < count; i++)
        if (g->drv->cuStreamWaitEvent(g->stream, g->event, 0))
            return 0;
    return g->drv->cuStreamSynchronize(g->stream) == CUDA_SUCCESS;
}

static int acre_sync(void *user, uint64_t count) {
    struct ground *g = user;
    for (uint64_t i = 0; i < count; i++)
        if (acre_stream_sync(g->device, g->stream))
            return 0;
    return 1;
}

static int driver_sync(void *user, uint64_t count) {
    struct ground *g = user;
    for (uint64_t i = 0; i < count; i++)
        if (g->drv->cuStreamSynchronize(g->stream))
            return 0;
    return 1;
}

int bench_ground(struct bench *bench) {
    static const struct {
        const char *name;
        bench_loop_fn loops[2];
    } cases[] = {
        {"event record", {acre_record, driver_record}},
        {"event query, done", {acre_query, driver_query}},
        {"stream wait", {acre_wait, driver_wait}},
        {"stream sync, idle", {acre_sync, driver_sync}},
    };
    struct ground g = {bench_device(bench), bench_driver(bench), NULL, NULL};
    int failed = 1;
    if (acre_stream_create(g.device, ACRE_STREAM_NON_BLOCKING, &g.stream) ||
        acre_event_create(g.device, ACRE_EVENT_DEFAULT, &g.event))
        goto out;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double ns[2];
        if (!bench_compare(bench, cases[i].loops, &g, 2, 1000, ns))
            goto out;
        bench_result(bench, cases[i].name, "acre", ns[0], "ns");
        bench_result(bench, cases[i].name, "driver", ns[1], "ns");
    }
    failed = 0;
out:
    acre_event_destroy(g.device, g.event);
    acre_stream_destroy(g.device, g.stream);
    return failed;
}
