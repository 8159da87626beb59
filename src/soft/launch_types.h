/* Kernels of the soft device: the structs that their files (launch*.c) share.
 *
 *   launch    one kernel over its grid
 *   block     a place where one block runs after the other: its lanes, barrier and shared memory
 *   lane      one thread of the block that runs there now
 *   strand    the stack that a lane runs on
 *
 * A block's lanes belong to the members of its team, real threads: lane i to member i modulo the
 * team's size. With warps of 32 a team is one thread. Only its member touches a lane; what members
 * share is under the block's lock. With a seed there are no members: acre__soft.lock is held and
 * one lane at a time runs on whichever thread runs the stream's step. */
#ifndef ACRE_SOFT_LAUNCH_TYPES_H
#define ACRE_SOFT_LAUNCH_TYPES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre_soft.h"
#include "base/lock.h"

enum soft_lane_state {
    LANE_READY,
    LANE_YIELDED, /* it can run, but others should first */
    LANE_ACTIVE,  /* waits in acre_soft_activemask */
    LANE_WAITS,   /* waits for the lanes of a mask */
    LANE_BARRIER, /* waits for the block */
    LANE_ENDED,
};

enum soft_collective { LANE_MATCH, LANE_SHFL, LANE_BALLOT, LANE_SYNC };

struct soft_device;
struct soft_strand;

struct soft_lane {
    struct soft_block *block;
    struct soft_strand *strand;
    uint32_t thread;   /* number in the block */
    uint32_t index[3]; /* the same as x, y, z */
    enum soft_lane_state state;
    uint64_t barrier; /* the block's barrier that it waits at */
    /* What it waits for, and what it gave. */
    enum soft_collective call;
    uint32_t mask;
    uint32_t from; /* of a shuffle: the lane whose value is wanted */
    uint64_t value;
    const void *site; /* of activemask: where it was called */
    uint64_t result;  /* what the call returns when the lane goes on */
    unsigned passes;  /* of a warp's first lane: since activemask was last answered */
};

struct soft_block {
    struct soft_launch *launch;
    uint32_t sm;       /* number of this place in the launch */
    uint32_t index[3]; /* of the block that runs here */
    char *shared;
    struct soft_lane *lanes;
    uint32_t team;          /* real threads that run the lanes */
    struct acre__lock lock; /* guards the rest */
    struct acre__cond moved;
    _Atomic uint64_t barrier; /* barriers passed since the block began */
    uint32_t alive, arrived;  /* threads that have not ended, and those of them at the barrier */
    uint32_t idle;            /* members that wait for the next block */
    uint64_t round;           /* blocks begun here */
    int has_block;            /* 0: there was no block left */
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
    int ordinal;                /* of the device that runs it */
    struct soft_device *device; /* whose views it has opened; NULL: none */
    struct soft_block *blocks;
    uint32_t place_count; /* of blocks */
    _Atomic uint64_t next_block;
    _Atomic int is_over; /* a mistake was found: nothing more is run */
    struct acre__lock lock;
    char mistake[256]; /* the first one; guarded by lock */
};

static inline int soft_launch_is_over(struct soft_launch *launch) {
    return atomic_load_explicit(&launch->is_over, memory_order_acquire);
}

#endif
