/* Makes a device lag behind the host: see replay_lag.h. */
#include "replay_lag.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "acre_soft.h"
#include "cli.h"
#include "device/device.h"
#include "driver/driver.h"

enum {
    LAG_STEP = 100, /* operations of a stream between two gates, on a GPU */
    LAG_STREAMS = 1024,
    LAG_PATIENCE_MS = 20 /* after this time without an operation, the host must be waiting */
};

/* Blocks the stream that it is queued on. */
struct lag_gate {
    struct lag *lag;
    uint64_t opens_at; /* number of operations */
    uint64_t opens_ns;
    struct lag_gate *next;
};

/* When the last gate of a stream was queued. */
struct lag_stream {
    acre_stream stream;
    uint64_t operation, ns;
};

struct lag {
    acre_device *device;
    const struct acre__driver *drv;
    uint64_t operations, ns;
    pthread_mutex_t lock; /* guards the fields below; only a GPU needs it */
    pthread_cond_t moved;
    uint64_t done;   /* operations of the host */
    uint64_t opened; /* gates with opens_at up to this are open, whatever `done` is */
    struct lag_gate *gates;
    struct lag_stream streams[LAG_STREAMS];
    size_t stream_count;
};

/* ---- gates ---- */

static struct timespec lag_time(uint64_t ns) {
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

/* Runs on a thread of the driver. If the host makes no operation for LAG_PATIENCE_MS, it waits for
 * the device, and all gates open. */
static void lag_gate_wait(void *user) {
    struct lag_gate *gate = user;
    struct lag *lag = gate->lag;
    pthread_mutex_lock(&lag->lock);
    uint64_t seen = lag->done;
    while (lag->done < gate->opens_at && lag->opened < gate->opens_at) {
        struct timespec until = lag_time(cli_now_ns() + LAG_PATIENCE_MS * UINT64_C(1000000));
        pthread_cond_clockwait(&lag->moved, &lag->lock, CLOCK_MONOTONIC, &until);
        if (lag->done == seen &&
            (uint64_t)until.tv_sec * 1000000000u + (uint64_t)until.tv_nsec <= cli_now_ns()) {
            lag->opened = lag->done + lag->operations;
        }
        seen = lag->done;
    }
    pthread_mutex_unlock(&lag->lock);
    uint64_t now = cli_now_ns();
    if (gate->opens_ns > now) {
        struct timespec pause = lag_time(gate->opens_ns - now);
        nanosleep(&pause, NULL);
    }
}

static struct lag_stream *lag_stream(struct lag *lag, acre_stream stream) {
    size_t i = 0;
    while (i < lag->stream_count && lag->streams[i].stream != stream) {
        i++;
    }
    if (i == lag->stream_count && i < LAG_STREAMS) {
        lag->streams[lag->stream_count++] = (struct lag_stream){.stream = stream};
    }
    return i < LAG_STREAMS ? &lag->streams[i] : NULL;
}

/* Creates a gate if the stream needs one now. Returns NULL if the last gate is recent enough. */
static struct lag_gate *lag_gate(struct lag *lag, acre_stream stream) {
    struct lag_stream *own = lag_stream(lag, stream);
    uint64_t now = cli_now_ns();
    if (!own) {
        return NULL;
    }
    uint64_t step = lag->operations < LAG_STEP ? lag->operations : LAG_STEP;
    int is_due = lag->operations ? lag->done - own->operation >= step || !own->operation
                                 : now - own->ns >= lag->ns / 10;
    if (!is_due) {
        return NULL;
    }
    own->operation = lag->done;
    own->ns = now;
    struct lag_gate *gate = cli_alloc(sizeof *gate);
    *gate = (struct lag_gate){.lag = lag, .next = lag->gates};
    gate->opens_at = lag->operations ? lag->done + lag->operations : 0;
    gate->opens_ns = lag->ns ? now + lag->ns : 0;
    lag->gates = gate;
    return gate;
}

static acre_status lag_gpu_work(struct lag *lag, acre_stream stream) {
    pthread_mutex_lock(&lag->lock);
    lag->done++;
    struct lag_gate *gate = lag_gate(lag, stream);
    pthread_cond_broadcast(&lag->moved);
    pthread_mutex_unlock(&lag->lock);
    if (!gate) {
        return ACRE_OK;
    }
    return lag->drv->cuLaunchHostFunc(stream, lag_gate_wait, gate) ? ACRE_E_DRIVER : ACRE_OK;
}

/* ---- interface ---- */

acre_status lag_begin(acre_device *device, uint64_t operations, uint64_t ns, struct lag **out) {
    const struct acre__driver *drv = device->drv;
    acre_status status = ACRE_OK;
    *out = NULL;
    if (drv->is_soft) {
        status = acre_soft_set_lag(device, operations, ns);
    } else if (operations > LAG_GPU_OPERATIONS) {
        cli_say("a GPU can lag at most %d operations: more do not fit into its queue",
                LAG_GPU_OPERATIONS);
        status = ACRE_E_UNSUPPORTED;
    }
    if (status) {
        return status;
    }
    struct lag *lag = cli_alloc(sizeof *lag);
    lag->device = device;
    lag->drv = drv;
    lag->operations = operations;
    lag->ns = ns;
    pthread_mutex_init(&lag->lock, NULL);
    pthread_cond_init(&lag->moved, NULL);
    *out = lag;
    return ACRE_OK;
}

acre_status lag_work(struct lag *lag, acre_stream stream, void *block, size_t bytes) {
    if (!lag->operations && !lag->ns) {
        return ACRE_OK;
    }
    if (!lag->drv->is_soft) {
        return lag_gpu_work(lag, stream);
    }
    /* Writes the first byte or, every other time, the last byte, where blocks of other sizes may
     * begin. */
    char *at = ++lag->done % 2 ? block : (char *)block + bytes - 1;
    return acre_fill(lag->device, at, 0, 1, stream);
}

void lag_end(struct lag *lag) {
    if (!lag) {
        return;
    }
    if (lag->drv->is_soft) {
        (void)acre_soft_set_lag(lag->device, 0, 0);
    } else {
        pthread_mutex_lock(&lag->lock);
        lag->opened = UINT64_MAX;
        pthread_cond_broadcast(&lag->moved);
        pthread_mutex_unlock(&lag->lock);
        (void)acre_device_sync(lag->device);
    }
    while (lag->gates) {
        struct lag_gate *next = lag->gates->next;
        free(lag->gates);
        lag->gates = next;
    }
    pthread_cond_destroy(&lag->moved);
    pthread_mutex_destroy(&lag->lock);
    free(lag);
}
