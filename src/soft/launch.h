/* Kernels of the soft device: the structs that launch.c, launch_block.c and launch_warp.c share.
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
#ifndef ACRE_SOFT_LAUNCH_H
#define ACRE_SOFT_LAUNCH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acre_soft.h"
#include "base/lock.h"
#include "soft/soft_state.h"

enum soft_lane_state {
    LANE_READY,
    LANE_YIELDED, /* it can run, but others should first */
    LANE_ACTIVE,  /* waits in acre_soft_activemask */
    LANE_WAITS,   /* waits for the lanes of a mask */
    LANE_BARRIER, /* waits for the block */
    LANE_ENDED,
};

enum soft_collective { LANE_MATCH, LANE_SHFL, LANE_BALLOT, LANE_SYNC };

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

/* The lane that the calling thread runs; NULL outside of kernels. */
extern _Thread_local struct soft_lane *acre__soft_lane_now
    __attribute__((tls_model("initial-exec")));

/* ---- strands (launch_strand.c) ---- */

/* Stacks for `count` lanes, kept until they are given back. 0 without memory. */
int acre__soft_strands_take(struct soft_lane *lanes, size_t count);
/* A lane that has not ended gives up what is on its stack. */
void acre__soft_strands_give(struct soft_lane *lanes, size_t count);

/* Runs the lane until it leaves its strand, or ends. */
void acre__soft_lane_enter(struct soft_lane *lane);
/* Leaves the lane for who runs it, to go on later. Called on the lane's stack. */
void acre__soft_lane_leave(struct soft_lane *lane, enum soft_lane_state state);

/* ---- lanes and warps (launch_warp.c) ---- */

enum soft_pass {
    PASS_NOTHING, /* every lane has ended or stands at the barrier */
    PASS_YIELDED, /* all that could run has yielded */
    PASS_MOVED,
};
/* Runs every lane of the warp that can run, once, and lets those that wait together go on. */
enum soft_pass acre__soft_warp_pass(struct soft_lane *first);
/* With a seed: how many things can happen next in the warp, and the one with that number. */
uint32_t acre__soft_warp_choices(struct soft_lane *first);
void acre__soft_warp_choose(struct soft_lane *first, uint32_t choice);

/* For the scheduler's hooks: is the caller a lane that a seed runs? */
static inline int acre__soft_lane_is_seeded(void) {
    const struct soft_lane *lane = acre__soft_lane_now;
    return lane && lane->block->launch->is_seeded;
}
void acre__soft_lane_point(void); /* others may run first */

/* ---- blocks (launch_block.c) ---- */

int acre__soft_block_make(struct soft_launch *launch, struct soft_block *block, uint32_t sm);
void acre__soft_block_free(struct soft_block *block);
/* Takes the next block of the grid; 0: there is none. */
int acre__soft_block_begin(struct soft_block *block);
/* A lane has come to the barrier, or has ended. */
void acre__soft_block_arrive(struct soft_lane *lane);
void acre__soft_block_lane_ended(struct soft_lane *lane);
/* Notes a mistake of the kernel, found in this lane, and ends the launch. */
void acre__soft_launch_mistake(const struct soft_lane *lane, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- launches (launch.c) ---- */

/* A kernel that is not queued yet, with warps of 0 lanes. NULL without memory. */
struct soft_launch *acre__soft_launch_make(acre_soft_kernel fn, const uint32_t grid[3],
                                           const uint32_t block[3], size_t shared_bytes, void *arg);
void acre__soft_launch_free(struct soft_launch *launch);
/* The same kernel, not begun: for a graph that is launched. NULL without memory. */
struct soft_launch *acre__soft_launch_copy(const struct soft_launch *from);

static inline int soft_launch_is_over(struct soft_launch *launch) {
    return atomic_load_explicit(&launch->is_over, memory_order_acquire);
}

#endif
