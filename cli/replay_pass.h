/* One pass over the events of a trace; private to replay.c and replay_pass.c. */
#ifndef ACRE_CLI_REPLAY_PASS_H
#define ACRE_CLI_REPLAY_PASS_H

#include "replay.h"
#include "replay_lag.h"

struct acre__driver;
struct replay_team;

/* The counters of the device and the pool at one moment. */
struct replay_counts {
    acre_device_stats device;
    acre_pool_stats pool;
};

struct replay {
    acre_device *device;
    const struct acre__driver *drv;
    const struct replay_how *how;
    const char *path;
    const struct events *events;
    acre_device_info info;
    struct CUctx_st *context; /* the device's */
    acre_pool *pool;
    struct lag *lag;
    acre_stream *streams;
    void **blocks;            /* by id; NULL if not live */
    uint64_t *bytes_of;       /* by id: requested bytes; 0 if not live */
    uint32_t *stream_of;      /* by id: the stream of the block's last operation */
    uint64_t *ns;             /* by operation */
    uint64_t clock_ns;        /* cost of reading the clock */
    uint64_t free_bytes;      /* of the device, before the pool was created */
    uint64_t shown_ns;        /* when progress was last shown */
    struct replay_team *team; /* the threads; NULL: the calling thread replays all events */
};

/* Prints "cannot <what>" with the reason. Returns CLI_CANNOT. */
int replay_cannot(const struct replay *replay, const char *what, acre_status status);

/* Reads the counters. */
acre_status replay_counts(const struct replay *replay, struct replay_counts *counts);

/* Replays all events once. *before has the counters at the start of the pass; at the end of the
 * warm-up they are read again. Returns as replay_run. */
int replay_pass(struct replay *replay, struct replay_counts *before, struct replay_result *result);

/* Frees the blocks that a pass left, each on the stream of its last operation. */
int replay_clear(struct replay *replay);

/* Erases the progress line. */
void replay_show_end(void);

/* Starts one thread for each thread of the trace. Returns NULL after a message on failure. */
struct replay_team *replay_team_begin(struct replay *replay);
void replay_team_end(struct replay_team *team);

#endif
