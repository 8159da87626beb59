/* Replays events on a pool, pass by pass; see replay.h. replay_pass.c runs one pass. */
#include "replay.h"

#include <stdlib.h>

#include "device/device.h"
#include "driver/driver.h"
#include "replay_pass.h"

int replay_has(acre_device *device, enum replay_pool which) {
    const struct acre__driver *drv = device->drv;
    return which == REPLAY_ACRE || (drv && !drv->missing[ACRE__ENTRY_cuMemAllocAsync] &&
                                    !drv->missing[ACRE__ENTRY_cuMemFreeAsync]);
}

/* ---- all passes ------------------------------------------------------------------------------ */

static void replay_note(const struct replay *replay, const struct replay_counts *before,
                        const struct replay_counts *after, struct replay_result *result) {
    const acre_device_stats *from = &before->device, *to = &after->device;
    result->has_calls = replay->how->pool == REPLAY_ACRE;
    result->creates = to->driver_creates - from->driver_creates;
    result->maps = to->driver_maps - from->driver_maps;
    result->accesses = to->driver_accesses - from->driver_accesses;
    result->unmaps = to->driver_unmaps - from->driver_unmaps;
    result->releases = to->driver_releases - from->driver_releases;
    result->allocs_plain = to->driver_allocs - from->driver_allocs;
    result->created_bytes = to->chunk_created_bytes - from->chunk_created_bytes;
    result->released_bytes = to->chunk_released_bytes - from->chunk_released_bytes;
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

/* The counts of a pass include the frees of the blocks that the previous pass left: they are part
 * of the cost of repeating a trace. */
static int replay_passes(struct replay *replay, struct replay_results *results) {
    struct replay_counts before = {0}, after = {0};
    acre_status status = replay_counts(replay, &before);
    int code = CLI_OK;
    for (unsigned pass = 1; status == ACRE_OK && code == CLI_OK && pass <= replay->how->passes;
         pass++) {
        code = replay_clear(replay);
        if (code == CLI_OK) {
            struct replay_result *result = replay_add(replay, pass, results);
            code = replay_pass(replay, &before, result);
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

/* Creates the pool and streams. Trims first: the new pool would reuse cached memory of the previous
 * file, and that memory would not be counted. */
static acre_status replay_begin(struct replay *replay) {
    const struct events *events = replay->events;
    replay->streams = cli_alloc(events->streams * sizeof(acre_stream));
    replay->blocks = cli_alloc(events->blocks * sizeof *replay->blocks);
    replay->bytes_of = cli_alloc(events->blocks * sizeof *replay->bytes_of);
    replay->stream_of = cli_alloc(events->blocks * sizeof *replay->stream_of);
    replay->ns = cli_alloc(events->ops * sizeof *replay->ns);
    acre_status status = acre_device_sync(replay->device);
    status = status ? status : acre_trim(replay->device);
    for (size_t i = 0; status == ACRE_OK && i < events->streams; i++) {
        /* A trace has no captures. */
        status = acre_stream_create(
            replay->device, ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE, &replay->streams[i]);
    }
    status = status ? status : acre_device_get_info(replay->device, &replay->info);
    replay->free_bytes = replay->info.free_bytes;
    if (status == ACRE_OK && replay->how->pool == REPLAY_ACRE) {
        status = acre_pool_create(replay->device, NULL, &replay->pool);
    }
    return status;
}

/* Starts the lag and the threads. Returns 0 after a message if that fails. */
static int replay_begin_more(struct replay *replay) {
    const struct replay_how *how = replay->how;
    acre_status status = lag_begin(replay->device, how->lag_operations, how->lag_ns, &replay->lag);
    if (status) {
        (void)replay_cannot(replay, "make the device lag", status);
        return 0;
    }
    if (how->threads && replay->events->threads > REPLAY_THREADS) {
        cli_say("%s: --threads can replay at most %d threads, the trace has %zu", replay->path,
                REPLAY_THREADS, replay->events->threads);
        return 0;
    }
    replay->team = how->threads ? replay_team_begin(replay) : NULL;
    return !how->threads || replay->team;
}

static int replay_end(struct replay *replay, int code) {
    if (code != CLI_CANNOT && replay_clear(replay) != CLI_OK) {
        code = CLI_CANNOT;
    }
    lag_end(replay->lag);
    replay_team_end(replay->team);
    acre_status status = acre_pool_destroy(replay->pool, NULL, NULL);
    for (size_t i = 0; i < replay->events->streams; i++) {
        acre_status own = acre_stream_destroy(replay->device, replay->streams[i]);
        status = status ? status : own;
    }
    free(replay->streams);
    free(replay->blocks);
    free(replay->bytes_of);
    free(replay->stream_of);
    free(replay->ns);
    if (status && code != CLI_CANNOT) {
        code = replay_cannot(replay, "release the pool and streams", status);
    }
    return code;
}

/* Makes the device's context current, which direct driver calls need. */
static CUresult replay_enter(struct replay *replay, CUdevice *device) {
    CUresult code = replay->drv->cuDeviceGet(device, (int)replay->info.ordinal);
    code = code ? code : replay->drv->cuDevicePrimaryCtxRetain(&replay->context, *device);
    return code ? code : replay->drv->cuCtxSetCurrent(replay->context);
}

int replay_run(acre_device *device, const struct replay_how *how, const char *path,
               const struct events *events, struct replay_results *results) {
    struct replay replay = {.device = device,
                            .drv = device->drv,
                            .how = how,
                            .path = path,
                            .events = events,
                            .info = {.struct_size = sizeof replay.info},
                            .clock_ns = replay_clock_ns()};
    CUdevice own = 0;
    acre_status status = replay_begin(&replay);
    int code = status ? replay_cannot(&replay, "create a pool", status) : CLI_OK;
    bool entered = code == CLI_OK;
    if (entered && replay_enter(&replay, &own)) {
        cli_say("%s: cannot get a context from the driver", path);
        code = CLI_CANNOT;
    }
    if (code == CLI_OK && !replay_begin_more(&replay)) {
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
