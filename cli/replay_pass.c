/* Runs one pass over the events of a trace; see replay_pass.h.
 *
 * A pass makes the calls in the order of the file. Each stream of the trace has its own stream of
 * the device. One thread makes all calls, or one thread for each thread of the trace; threads take
 * turns. Only the call itself is timed, and the cost of reading the clock is subtracted. After each
 * call the pass queries the device's free memory: reserved memory is what the driver reports, not
 * the pool's own count. */
#include "replay_pass.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver/driver.h"

/* The state of a pass. */
struct pass {
    struct replay *replay;
    struct replay_counts *before;
    struct replay_result *result;
    uint64_t live; /* bytes */
    size_t next;   /* event */
    int code;
};

/* ---- one call -------------------------------------------------------------------------------- */

static acre_status replay_status(CUresult code) {
    return code == CUDA_SUCCESS               ? ACRE_OK
           : code == CUDA_ERROR_OUT_OF_MEMORY ? ACRE_E_DEVICE_MEMORY
                                              : ACRE_E_DRIVER;
}

/* Makes a call on the driver's pool. It has no realloc: the replay allocates, copies and frees. */
static acre_status replay_driver_call(const struct replay *replay, const struct event *event,
                                      void **block) {
    const struct acre__driver *drv = replay->drv;
    acre_stream stream = replay->streams[event->stream];
    CUdeviceptr old = (CUdeviceptr)(uintptr_t)*block, fresh = 0;
    uint64_t old_bytes = replay->bytes_of[event->id];
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

static acre_status replay_call(const struct replay *replay, const struct event *event) {
    acre_stream stream = replay->streams[event->stream];
    void **block = &replay->blocks[event->id], *fresh = NULL;
    acre_status status = ACRE_OK;
    if (replay->how->pool == REPLAY_DRIVER) {
        return replay_driver_call(replay, event, block);
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

/* ---- progress, only on a terminal ------------------------------------------------------------ */

static void replay_show(struct replay *replay, unsigned pass, size_t done, uint64_t now) {
    if (now - replay->shown_ns < 100000000) {
        return;
    }
    replay->shown_ns = now;
    cli_progress("%.60s: pass %u of %u, %3zu %%", replay->path, pass, replay->how->passes,
                 100 * done / replay->events->count);
}

void replay_show_end(void) {
    cli_progress("%s", "");
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Out of memory is a finding of the replay; any other failure means that it could not run. */
static int replay_code(acre_status status) {
    switch (status) {
    case ACRE_E_DEVICE_MEMORY:
    case ACRE_E_ADDRESS_SPACE:
    case ACRE_E_LIMIT:
    case ACRE_E_INVALID: /* larger than any block can be */
        return CLI_FINDING;
    default:
        return CLI_CANNOT;
    }
}

int replay_cannot(const struct replay *replay, const char *what, acre_status status) {
    char *text = cli_format("%s: cannot %s", replay->path, what);
    cli_say_failure(text, status);
    free(text);
    return CLI_CANNOT;
}

static int pass_failed(const struct pass *pass, acre_status status) {
    static const char *const verbs[] = {"allocate", "free", "reallocate to"};
    const struct replay *replay = pass->replay;
    const struct event *event = &replay->events->list[pass->next];
    const char *detail = replay->how->pool == REPLAY_ACRE ? cli_detail() : "";
    char text[4][CLI_NUMBER_BYTES];
    pass->result->failed = cli_format(
        "pass %u, event %zu of %zu: cannot %s %s: %s%s%s%s", pass->result->pass, pass->next + 1,
        replay->events->count, verbs[event->kind], cli_bytes(event->bytes, text[0]),
        acre_status_text(status), *detail ? " (" : "", detail, *detail ? ")" : "");
    replay_show_end();
    cli_say("%s: %s", replay->path, pass->result->failed);
    cli_say("%s: %s were live then; the trace needs up to %s; the device has %s, of which %s "
            "were free at the start",
            replay->path, cli_bytes(pass->live, text[0]),
            cli_bytes(replay->events->peak_bytes, text[1]),
            cli_bytes(replay->info.total_bytes, text[2]), cli_bytes(replay->free_bytes, text[3]));
    return replay_code(status);
}

/* ---- one event ------------------------------------------------------------------------------- */

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

acre_status replay_counts(const struct replay *replay, struct replay_counts *counts) {
    counts->device.struct_size = sizeof counts->device;
    counts->pool = (acre_pool_stats){.struct_size = sizeof counts->pool};
    acre_status status = acre_device_get_stats(replay->device, &counts->device);
    if (status == ACRE_OK && replay->pool) {
        status = acre_pool_get_stats(replay->pool, &counts->pool);
    }
    return status;
}

static void pass_count(struct pass *pass, const struct event *event) {
    struct replay_result *result = pass->result;
    uint64_t *own = &pass->replay->bytes_of[event->id];
    result->allocs += event->kind == EVENT_ALLOC;
    result->frees += event->kind == EVENT_FREE;
    result->reallocs += event->kind == EVENT_REALLOC;
    result->ops++;
    pass->live -= *own;
    *own = event->kind == EVENT_FREE ? 0 : event->bytes;
    pass->live += *own;
    pass->replay->stream_of[event->id] = (uint32_t)event->stream;
}

/* Queues the work of the traced program, which uses a block after it is allocated and before it is
 * freed. */
static acre_status pass_work(const struct replay *replay, const struct event *event) {
    void *block = replay->blocks[event->id];
    return lag_work(replay->lag, replay->streams[event->stream], block,
                    replay->bytes_of[event->id]);
}

static int pass_event(struct pass *pass, const struct event *event) {
    struct replay *replay = pass->replay;
    struct replay_result *result = pass->result;
    acre_status worked = event->kind == EVENT_ALLOC ? ACRE_OK : pass_work(replay, event);
    uint64_t begin = cli_now_ns();
    acre_status status = replay_call(replay, event);
    uint64_t end = cli_now_ns(), took = end - begin;
    if (status) {
        return pass_failed(pass, status);
    }
    replay->ns[result->ops] = took > replay->clock_ns ? took - replay->clock_ns : 0;
    pass_count(pass, event);
    if (event->kind != EVENT_FREE && worked == ACRE_OK) {
        worked = pass_work(replay, event);
    }
    if (worked) {
        return replay_cannot(replay, "queue work", worked);
    }
    status = replay_sample(replay, result);
    if (status == ACRE_OK && result->ops == replay->how->warmup) {
        status = replay_counts(replay, pass->before);
    }
    replay_show(replay, result->pass, pass->next, end);
    return status ? replay_cannot(replay, "query the memory of the device", status) : CLI_OK;
}

/* Replays events up to the next one of a thread other than `thread`; UINT32_MAX replays all. */
static void pass_go_on(struct pass *pass, uint32_t thread) {
    const struct events *events = pass->replay->events;
    while (pass->next < events->count && pass->code == CLI_OK) {
        const struct event *event = &events->list[pass->next];
        if (event->kind != EVENT_OTHER) {
            if (thread != UINT32_MAX && event->thread != thread) {
                return;
            }
            pass->code = pass_event(pass, event);
        }
        pass->next++;
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

struct replay_team {
    const struct replay *replay;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    struct pass *pass; /* the current one, or NULL */
    bool is_over;
    size_t count;
    struct member {
        struct replay_team *team;
        pthread_t thread;
        uint32_t number;
    } members[REPLAY_THREADS];
};

/* Returns the thread whose turn it is; UINT32_MAX if nothing is left to do. */
static uint32_t team_turn(const struct replay_team *team) {
    const struct pass *pass = team->pass;
    if (!pass || pass->code != CLI_OK) {
        return UINT32_MAX;
    }
    const struct events *events = pass->replay->events;
    return pass->next < events->count ? events->list[pass->next].thread : UINT32_MAX;
}

static void *member_run(void *user) {
    struct member *self = user;
    struct replay_team *team = self->team;
    (void)team->replay->drv->cuCtxSetCurrent(team->replay->context);
    pthread_mutex_lock(&team->lock);
    while (!team->is_over) {
        if (team_turn(team) == self->number) {
            pass_go_on(team->pass, self->number);
            pthread_cond_broadcast(&team->turn);
        } else {
            pthread_cond_wait(&team->turn, &team->lock);
        }
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

struct replay_team *replay_team_begin(struct replay *replay) {
    struct replay_team *team = cli_alloc(sizeof *team);
    int error = 0;
    team->replay = replay;
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->turn, NULL);
    while (team->count < replay->events->threads && !error) {
        struct member *member = &team->members[team->count];
        *member = (struct member){.team = team, .number = (uint32_t)team->count};
        error = pthread_create(&member->thread, NULL, member_run, member);
        team->count += !error;
    }
    if (error) {
        cli_say("%s: cannot create more than %zu threads", replay->path, team->count);
        replay_team_end(team);
        return NULL;
    }
    return team;
}

void replay_team_end(struct replay_team *team) {
    if (!team) {
        return;
    }
    pthread_mutex_lock(&team->lock);
    team->is_over = true;
    pthread_cond_broadcast(&team->turn);
    pthread_mutex_unlock(&team->lock);
    for (size_t i = 0; i < team->count; i++) {
        pthread_join(team->members[i].thread, NULL);
    }
    pthread_cond_destroy(&team->turn);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

static void team_run(struct replay_team *team, struct pass *pass) {
    pthread_mutex_lock(&team->lock);
    team->pass = pass;
    pthread_cond_broadcast(&team->turn);
    while (team_turn(team) != UINT32_MAX) {
        pthread_cond_wait(&team->turn, &team->lock);
    }
    team->pass = NULL;
    pthread_mutex_unlock(&team->lock);
}

/* ---- a pass ---------------------------------------------------------------------------------- */

static int replay_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void replay_percentiles(struct replay *replay, struct replay_result *result) {
    uint64_t count = result->ops;
    qsort(replay->ns, count, sizeof *replay->ns, replay_compare);
    result->ns_p50 = replay->ns[count / 2];
    result->ns_p99 = replay->ns[count - 1 - (count - 1) / 100];
}

int replay_pass(struct replay *replay, struct replay_counts *before, struct replay_result *result) {
    struct pass pass = {.replay = replay, .before = before, .result = result, .code = CLI_OK};
    if (replay->team) {
        team_run(replay->team, &pass);
    } else {
        pass_go_on(&pass, UINT32_MAX);
    }
    if (pass.code == CLI_OK) {
        replay_percentiles(replay, result);
    }
    return pass.code;
}

int replay_clear(struct replay *replay) {
    for (size_t id = 0; id < replay->events->blocks; id++) {
        struct event event = {.kind = EVENT_FREE, .id = id, .stream = replay->stream_of[id]};
        if (replay->blocks[id]) {
            acre_status status = replay_call(replay, &event);
            if (status) {
                return replay_cannot(replay, "free the blocks that a pass left", status);
            }
            replay->bytes_of[id] = 0;
        }
    }
    return CLI_OK;
}
