/* Replays events on a pool; see replay.h.
 *
 * One thread makes the calls, in the order of the file, each on the stream of the device that
 * stands for the trace's. The clock runs during a call alone; what reading it costs is measured
 * and taken off. After each call the device is asked how much memory it has free: what is reserved
 * is what the driver says, not what the pool believes. */
#include "replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/driver.h"

struct replay {
    acre_device *device;
    const struct acre__driver *drv;
    enum replay_pool which;
    const char *path;
    const struct events *events;
    acre_device_info info;
    acre_pool *pool;
    acre_stream *streams;
    void **blocks;       /* by id; NULL for one that is not live */
    uint32_t *stream_of; /* by id: the stream that it was asked for */
    uint64_t *ns;        /* by operation */
    uint64_t clock_ns;   /* of reading the clock */
    uint64_t free_bytes; /* before the pool was made */
    unsigned passes;
    uint64_t shown_ns; /* when progress was last shown */
};

int replay_has(acre_device *device, enum replay_pool which) {
    const struct acre__driver *drv = acre_driver(device);
    return which == REPLAY_ACRE || (drv && !drv->missing[ACRE__ENTRY_cuMemAllocAsync] &&
                                    !drv->missing[ACRE__ENTRY_cuMemFreeAsync]);
}

/* ---- one call -------------------------------------------------------------------------------- */

static acre_status replay_status(CUresult code) {
    return code == CUDA_SUCCESS               ? ACRE_OK
           : code == CUDA_ERROR_OUT_OF_MEMORY ? ACRE_E_DEVICE_MEMORY
                                              : ACRE_E_DRIVER;
}

/* The driver's pool has no realloc: a program takes a new block, copies and frees. */
static acre_status replay_driver_call(const struct replay *replay, const struct event *event,
                                      uint64_t old_bytes, void **block) {
    const struct acre__driver *drv = replay->drv;
    acre_stream stream = replay->streams[event->stream];
    CUdeviceptr old = (CUdeviceptr)(uintptr_t)*block, fresh = 0;
    CUresult code = CUDA_SUCCESS;
    if (event->kind != EVENT_FREE) {
        code = drv->cuMemAllocAsync(&fresh, event->bytes, stream);
    }
    if (code == CUDA_SUCCESS && event->kind == EVENT_REALLOC) {
        size_t kept = event->bytes < old_bytes ? event->bytes : old_bytes;
        code = drv->cuMemcpyDtoDAsync(fresh, old, kept, stream);
    }
    if (code == CUDA_SUCCESS && event->kind != EVENT_ALLOC) {
        code = drv->cuMemFreeAsync(old, stream);
    }
    if (code == CUDA_SUCCESS) {
        *block = (void *)(uintptr_t)fresh;
    }
    return replay_status(code);
}

static acre_status replay_call(const struct replay *replay, const struct event *event,
                               uint64_t old_bytes, void **block) {
    acre_stream stream = replay->streams[event->stream];
    acre_status status = ACRE_OK;
    void *fresh = NULL;
    if (replay->which == REPLAY_DRIVER) {
        return replay_driver_call(replay, event, old_bytes, block);
    }
    switch (event->kind) {
    case EVENT_ALLOC:
        return acre_pool_alloc(replay->pool, event->bytes, 0, stream, block);
    case EVENT_FREE:
        status = acre_pool_free(replay->pool, *block, stream);
        break;
    default:
        status = acre_pool_realloc(replay->pool, *block, event->bytes, stream, &fresh);
    }
    *block = status == ACRE_OK ? fresh : *block;
    return status;
}

/* ---- progress, on a terminal alone ------------------------------------------------------------
 */

static void replay_show(struct replay *replay, unsigned pass, size_t done, uint64_t now) {
    if (now - replay->shown_ns < 100000000 || !isatty(STDERR_FILENO)) {
        return;
    }
    replay->shown_ns = now;
    fprintf(stderr, "\r%.60s: pass %u of %u, %3zu %%", replay->path, pass, replay->passes,
            100 * done / replay->events->count);
}

static void replay_show_end(void) {
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r%*s\r", 100, "");
    }
}

/* ---- what went wrong ------------------------------------------------------------------------- */

/* Memory that is not there is found by a replay; anything else keeps it from running. */
static int replay_code(acre_status status) {
    switch (status) {
    case ACRE_E_DEVICE_MEMORY:
    case ACRE_E_ADDRESS_SPACE:
    case ACRE_E_LIMIT:
    case ACRE_E_INVALID: /* more bytes than any block can have */
        return CLI_FINDING;
    default:
        return CLI_CANNOT;
    }
}

static int replay_cannot(const struct replay *replay, const char *what, acre_status status) {
    char *text = cli_format("%s: cannot %s", replay->path, what);
    cli_say_failure(text, status);
    free(text);
    return CLI_CANNOT;
}

static int replay_failed(const struct replay *replay, size_t index, uint64_t live,
                         acre_status status, struct replay_result *result) {
    static const char *const verbs[] = {"allocate", "free", "reallocate to"};
    const struct event *event = &replay->events->list[index];
    const char *detail = replay->which == REPLAY_ACRE ? acre_last_detail() : "";
    char text[4][CLI_NUMBER_BYTES];
    result->failed =
        cli_format("pass %u, event %zu of %zu: cannot %s %s: %s%s%s%s", result->pass, index + 1,
                   replay->events->count, verbs[event->kind], cli_bytes(event->bytes, text[0]),
                   acre_strstatus(status), *detail ? " (" : "", detail, *detail ? ")" : "");
    replay_show_end();
    cli_say("%s: %s", replay->path, result->failed);
    cli_say("%s: %s were live then, and the trace has up to %s; the device has %s, of which %s "
            "were free at the start",
            replay->path, cli_bytes(live, text[0]), cli_bytes(replay->events->peak_bytes, text[1]),
            cli_bytes(replay->info.total_bytes, text[2]), cli_bytes(replay->free_bytes, text[3]));
    return replay_code(status);
}

/* ---- one pass -------------------------------------------------------------------------------- */

static int replay_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t replay_clock_ns(void) {
    enum { READS = 1001 };
    uint64_t took[READS];
    for (size_t i = 0; i < READS; i++) {
        uint64_t begin = cli_now_ns();
        took[i] = cli_now_ns() - begin;
    }
    qsort(took, READS, sizeof *took, replay_compare);
    return took[READS / 2];
}

static acre_status replay_sample(struct replay *replay, struct replay_result *result) {
    acre_status status = acre_device_get_info(replay->device, &replay->info);
    if (status == ACRE_OK && replay->info.free_bytes < replay->free_bytes) {
        uint64_t reserved = replay->free_bytes - replay->info.free_bytes;
        if (reserved > result->peak_reserved_bytes) {
            result->peak_reserved_bytes = reserved;
        }
    }
    return status;
}

static void replay_count(const struct event *event, struct replay_result *result) {
    result->allocs += event->kind == EVENT_ALLOC;
    result->frees += event->kind == EVENT_FREE;
    result->reallocs += event->kind == EVENT_REALLOC;
    result->ops++;
}

static void replay_percentiles(struct replay *replay, struct replay_result *result) {
    uint64_t count = result->ops;
    qsort(replay->ns, count, sizeof *replay->ns, replay_compare);
    result->ns_p50 = replay->ns[count / 2];
    result->ns_p99 = replay->ns[count - 1 - (count - 1) / 100];
}

static int replay_pass(struct replay *replay, struct replay_result *result) {
    const struct events *events = replay->events;
    uint64_t *bytes_of = cli_alloc(events->blocks * sizeof *bytes_of), live = 0;
    int code = CLI_OK;
    for (size_t i = 0; i < events->count && code == CLI_OK; i++) {
        const struct event *event = &events->list[i];
        if (event->kind == EVENT_OTHER) {
            continue;
        }
        uint64_t *own = &bytes_of[event->id];
        uint64_t begin = cli_now_ns();
        acre_status status = replay_call(replay, event, *own, &replay->blocks[event->id]);
        uint64_t end = cli_now_ns(), took = end - begin;
        if (status) {
            code = replay_failed(replay, i, live, status, result);
            break;
        }
        replay->ns[result->ops] = took > replay->clock_ns ? took - replay->clock_ns : 0;
        replay_count(event, result);
        live -= *own;
        *own = event->kind == EVENT_FREE ? 0 : event->bytes;
        live += *own;
        replay->stream_of[event->id] = (uint32_t)event->stream;
        status = replay_sample(replay, result);
        if (status) {
            code = replay_cannot(replay, "ask the device for its free memory", status);
        }
        replay_show(replay, result->pass, i, end);
    }
    free(bytes_of);
    if (code == CLI_OK) {
        replay_percentiles(replay, result);
    }
    return code;
}

/* Frees what a pass left, each on the stream that used it last. */
static int replay_clear(const struct replay *replay) {
    for (size_t id = 0; id < replay->events->blocks; id++) {
        struct event event = {.kind = EVENT_FREE, .id = id, .stream = replay->stream_of[id]};
        if (replay->blocks[id]) {
            acre_status status = replay_call(replay, &event, 0, &replay->blocks[id]);
            if (status) {
                return replay_cannot(replay, "free what is left of a pass", status);
            }
        }
    }
    return CLI_OK;
}

/* ---- all passes ------------------------------------------------------------------------------ */

/* What the driver and the pool counted so far. */
struct replay_counts {
    acre_stats device;
    acre_pool_stats pool;
};

static acre_status replay_counts(const struct replay *replay, struct replay_counts *counts) {
    counts->device.struct_size = sizeof counts->device;
    counts->pool = (acre_pool_stats){.struct_size = sizeof counts->pool};
    acre_status status = acre_get_stats(replay->device, &counts->device);
    if (status == ACRE_OK && replay->pool) {
        status = acre_pool_get_stats(replay->pool, &counts->pool);
    }
    return status;
}

static void replay_note(const struct replay *replay, const struct replay_counts *before,
                        const struct replay_counts *after, struct replay_result *result) {
    result->has_calls = replay->which == REPLAY_ACRE;
    result->creates = after->device.driver_creates - before->device.driver_creates;
    result->maps = after->device.driver_maps - before->device.driver_maps;
    result->accesses = after->device.driver_accesses - before->device.driver_accesses;
    result->unmaps = after->device.driver_unmaps - before->device.driver_unmaps;
    result->releases = after->device.driver_releases - before->device.driver_releases;
    result->allocs_plain = after->device.driver_allocs - before->device.driver_allocs;
    result->waits = after->pool.waits - before->pool.waits;
    result->chunks_moved = after->pool.moved_chunks - before->pool.moved_chunks;
}

static struct replay_result *replay_add(const struct replay *replay, unsigned pass,
                                        struct replay_results *results) {
    const struct events *events = replay->events;
    struct replay_result *longer =
        reallocarray(results->list, results->count + 1, sizeof *results->list);
    if (!longer) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    results->list = longer;
    struct replay_result *result = &results->list[results->count++];
    uint64_t unit = replay->info.granularity_bytes ? replay->info.granularity_bytes : 1;
    uint64_t over = events->peak_bytes % unit;
    *result =
        (struct replay_result){.path = replay->path,
                               .format = events->format,
                               .pass = pass,
                               .streams = events->streams,
                               .threads = events->threads,
                               .skipped = events->count - events->ops,
                               .peak_live_bytes = events->peak_bytes,
                               .lower_bound_bytes = events->peak_bytes + (over ? unit - over : 0)};
    return result;
}

/* A pass is charged with the frees that make way for it too: what they cost is part of going round
 * again. */
static int replay_passes(struct replay *replay, struct replay_results *results) {
    struct replay_counts before = {0}, after = {0};
    acre_status status = replay_counts(replay, &before);
    int code = CLI_OK;
    for (unsigned pass = 1; status == ACRE_OK && code == CLI_OK && pass <= replay->passes; pass++) {
        code = replay_clear(replay);
        if (code == CLI_OK) {
            struct replay_result *result = replay_add(replay, pass, results);
            code = replay_pass(replay, result);
            status = replay_counts(replay, &after);
            replay_note(replay, &before, &after, result);
            before = after;
        }
    }
    replay_show_end();
    if (status && code == CLI_OK) {
        code = replay_cannot(replay, "read the statistics", status);
    }
    return code;
}

/* ---- before and after ------------------------------------------------------------------------ */

/* Everything that the file before left with the library goes back first: memory that is kept for
 * the next pool would look free of charge. */
static acre_status replay_begin(struct replay *replay) {
    const struct events *events = replay->events;
    replay->streams = cli_alloc(events->streams * sizeof(acre_stream));
    replay->blocks = cli_alloc(events->blocks * sizeof *replay->blocks);
    replay->stream_of = cli_alloc(events->blocks * sizeof *replay->stream_of);
    replay->ns = cli_alloc(events->ops * sizeof *replay->ns);
    acre_status status = acre_device_sync(replay->device);
    status = status ? status : acre_trim(replay->device);
    for (size_t i = 0; status == ACRE_OK && i < events->streams; i++) {
        status = acre_stream_create(replay->device, ACRE_STREAM_NON_BLOCKING, &replay->streams[i]);
    }
    status = status ? status : acre_device_get_info(replay->device, &replay->info);
    replay->free_bytes = replay->info.free_bytes;
    if (status == ACRE_OK && replay->which == REPLAY_ACRE) {
        status = acre_pool_create(replay->device, NULL, &replay->pool);
    }
    return status;
}

static int replay_end(struct replay *replay, int code) {
    if (code != CLI_CANNOT && replay_clear(replay) != CLI_OK) {
        code = CLI_CANNOT;
    }
    acre_status status = acre_pool_destroy(replay->pool, NULL, NULL);
    for (size_t i = 0; i < replay->events->streams; i++) {
        acre_status own = acre_stream_destroy(replay->device, replay->streams[i]);
        status = status ? status : own;
    }
    free(replay->streams);
    free(replay->blocks);
    free(replay->stream_of);
    free(replay->ns);
    if (status && code != CLI_CANNOT) {
        code = replay_cannot(replay, "give everything back", status);
    }
    return code;
}

/* cuMemAllocAsync needs a current context, as a program that uses CUDA has it. */
static CUresult replay_enter(const struct replay *replay, CUdevice *device) {
    CUcontext context;
    CUresult code = replay->drv->cuDeviceGet(device, (int)replay->info.ordinal);
    code = code ? code : replay->drv->cuDevicePrimaryCtxRetain(&context, *device);
    return code ? code : replay->drv->cuCtxSetCurrent(context);
}

int replay_run(acre_device *device, enum replay_pool which, const char *path,
               const struct events *events, unsigned passes, struct replay_results *results) {
    struct replay replay = {.device = device,
                            .drv = acre_driver(device),
                            .which = which,
                            .path = path,
                            .events = events,
                            .info = {.struct_size = sizeof replay.info},
                            .clock_ns = replay_clock_ns(),
                            .passes = passes};
    CUdevice own = 0;
    acre_status status = replay_begin(&replay);
    int code = status ? replay_cannot(&replay, "get a pool", status) : CLI_OK;
    bool entered = code == CLI_OK && which == REPLAY_DRIVER;
    if (entered && replay_enter(&replay, &own)) {
        cli_say("%s: the driver gives no context", path);
        code = CLI_CANNOT;
    }
    if (code == CLI_OK) {
        code = replay_passes(&replay, results);
    }
    code = replay_end(&replay, code);
    if (entered) {
        replay.drv->cuCtxSetCurrent(NULL);
        replay.drv->cuDevicePrimaryCtxRelease(own);
    }
    return code;
}
