/* One pass over the events of a trace; shared by replay.c and replay_pass.c alone. */
#ifndef ACRE_CLI_REPLAY_PASS_H
#define ACRE_CLI_REPLAY_PASS_H

#include "replay.h"
#include "replay_lag.h"

struct acre__driver;
struct replay_team;

/* What the driver and the pool counted so far. */
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
    void **blocks;            /* by id; NULL for one that is not live */
    uint64_t *bytes_of;       /* by id: requested; 0 for one that is not live */
    uint32_t *stream_of;      /* by id: the stream that it was asked for */
    uint64_t *ns;             /* by operation */
    uint64_t clock_ns;        /* of reading the clock */
    uint64_t free_bytes;      /* before the pool was made */
    uint64_t shown_ns;        /* when progress was last shown */
    struct replay_team *team; /* the trace's threads; NULL: the calling thread does it all */
};

/* Says what cannot be done; returns CLI_CANNOT. */
int replay_cannot(const struct replay *replay, const char *what, acre_status status);

/* Reads the counters. */
acre_status replay_counts(const struct replay *replay, struct replay_counts *counts);

/* Replays all events once. *before are the counts when the pass began; they become those after its
 * warm-up. Returns as replay_run. */
int replay_pass(struct replay *replay, struct replay_counts *before, struct replay_result *result);

/* Frees what a pass left, each on the stream that used it last. */
int replay_clear(struct replay *replay);

/* Takes the line that shows progress away. */
void replay_show_end(void);

/* A thread for each of the trace's; NULL when the system refuses one, which was said. */
struct replay_team *replay_team_begin(struct replay *replay);
void replay_team_end(struct replay_team *team);

#endif
