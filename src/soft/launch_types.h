/* Kernels of the soft device: the structs that launch*.c share.
 *
 *   launch    one kernel with its grid
 *   block     a slot that runs one block after the other: its lanes, barrier and shared memory
 *   lane      one thread of the block that the slot runs now
 *   strand    the stack that a lane runs on
 *
 * A team of real threads runs the lanes of a block. Lane i belongs to member i modulo the team's
 * size. With warps of 32 lanes a team is one thread. Only its member touches a lane; the block's
 * lock guards what members share. With a seed there are no members: the thread that runs the
 * stream's step holds acre__soft.lock and runs one lane at a time. */
#ifndef ACRE_SOFT_LAUNCH_TYPES_H
#define ACRE_SOFT_LAUNCH_TYPES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre_soft.h"
#include "base/lock.h"

enum soft_lane_state {
    LANE_READY,
    LANE_YIELDED, /* can run, but lets others run first */
    LANE_ACTIVE,  /* waits in acre_soft_activemask */
    LANE_WAITS,   /* waits in a collective for the lanes of its mask */
    LANE_BARRIER, /* waits at the block's barrier */
    LANE_ENDED,
};

enum soft_collective { LANE_MATCH, LANE_SHFL, LANE_BALLOT, LANE_SYNC };

struct soft_device;
struct soft_strand;

struct soft_lane {
    struct soft_block *block;
    struct soft_strand *strand;
    uint32_t thread;   /* index in the block, from 0 */
    uint32_t index[3]; /* `thread` as x, y, z */
    enum soft_lane_state state;
    uint64_t barrier; /* number of the barrier that it waits at */
    /* The collective that the lane waits in, and its arguments. */
    enum soft_collective call;
    uint32_t mask;
    uint32_t from; /* of a shuffle: the lane whose value it reads */
    uint64_t value;
    const void *site; /* of activemask: its return address */
    uint64_t result;  /* what the call returns when the lane continues */
    unsigned passes;  /* of a warp's first lane: passes since activemask last returned */
    uint32_t choices; /* of a warp's first lane, with a seed: its possible next steps */
};

struct soft_block {
    struct soft_launch *launch;
    uint32_t sm;       /* index of this slot in the launch */
    uint32_t index[3]; /* of the block that runs in this slot */
    char *shared;
    struct soft_lane *lanes;
    uint32_t team;          /* real threads that run the lanes */
    struct acre__lock lock; /* guards the fields below */
    struct acre__cond moved;
    _Atomic uint64_t barrier; /* barriers passed since the block began */
    uint32_t alive, arrived;  /* threads that have not ended; those of them at the barrier */
    uint32_t idle;            /* members that wait for the next block */
    uint64_t round;           /* blocks begun here */
    int has_block;            /* 0: no block of the grid was left */
    uint32_t choices;         /* with a seed: its possible next steps, if is_counted */
    int is_counted;
};

struct soft_launch {
    acre_soft_kernel fn;
    void *arg;
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    uint32_t threads;    /* of a block */
    uint32_t warp_lanes; /* 1 or 32 */
    uint64_t block_count;
    int is_seeded;
    int ordinal;                /* of the device that runs the launch */
    struct soft_device *device; /* whose views the launch has opened; NULL: none */
    struct soft_block *blocks;
    uint32_t place_count; /* of blocks */
    _Atomic uint64_t next_block;
    _Atomic int is_over; /* an error was found: no more lanes run */
    struct acre__lock lock;
    char mistake[256]; /* the first error; guarded by lock */
};

static inline int soft_launch_is_over(struct soft_launch *launch) {
    return atomic_load_explicit(&launch->is_over, memory_order_acquire);
}

#endif
