/* Lanes of kernels: runs single lanes, and implements the collective calls of a warp.
 *
 * The last lane to arrive at a call with a mask computes the results of all lanes in the mask.
 * activemask has no mask that names its lanes: the lanes that wait at the same call return together
 * when no lane of the warp has anything else to do.
 *
 * With a seed, a lane may continue on another real thread. So nothing here reads thread-local
 * variables after a switch. Only the member that a lane belongs to touches it. */
#include <sched.h>

#include "base/thread.h"
#include "soft/launch_block.h"
#include "soft/launch_strand.h"
#include "soft/launch_types.h"
#include "soft/launch_warp.h"
#include "soft/soft.h"
#include "soft/soft_state.h"

/* Lanes that keep each other busy must not delay activemask forever: it returns after this many
 * passes. */
enum { ACTIVE_PASSES = 64 };

/* ---- one lane ---- */

static struct soft_lane *warp_of(const struct soft_lane *lane) {
    return lane->block->lanes + (lane->thread - lane->thread % lane->block->launch->warp_lanes);
}

static uint32_t warp_count(const struct soft_lane *first) {
    const struct soft_launch *launch = first->block->launch;
    uint32_t left = launch->threads - first->thread;
    return left < launch->warp_lanes ? left : launch->warp_lanes;
}

static uint32_t lane_number(const struct soft_lane *lane) {
    return lane->thread % lane->block->launch->warp_lanes;
}

static const char *collective_name(enum soft_collective call) {
    static const char *const names[] = {[LANE_MATCH] = "acre_soft_match_any",
                                        [LANE_SHFL] = "acre_soft_shfl",
                                        [LANE_BALLOT] = "acre_soft_ballot",
                                        [LANE_SYNC] = "acre_soft_syncwarp"};
    return names[call];
}

/* Reports lanes that wait for this lane, which has ended. */
static void lane_check_waited_for(const struct soft_lane *ended) {
    const struct soft_lane *first = warp_of(ended);
    uint32_t count = warp_count(first), bit = (uint32_t)1 << lane_number(ended);
    for (uint32_t i = 0; i < count; i++)
        if (first[i].state == LANE_WAITS && first[i].mask & bit)
            acre__soft_launch_mistake(
                &first[i], "%s with mask 0x%08x waits for lane %u, which has ended",
                collective_name(first[i].call), first[i].mask, lane_number(ended));
}

/* Runs the lane until it waits, yields or ends, and updates its block. */
static void lane_run(struct soft_lane *lane) {
    acre__soft_lane_enter(lane);
    if (lane->state == LANE_BARRIER) {
        acre__soft_block_arrive(lane);
    } else if (lane->state == LANE_ENDED) {
        lane_check_waited_for(lane);
        acre__soft_block_lane_ended(lane);
    }
}

/* Parks a lane of an aborted launch, which never runs its lanes again. */
static void lane_stay(struct soft_lane *lane) {
    for (;;)
        acre__soft_lane_leave(lane, LANE_WAITS);
}

void acre__soft_lane_point(void) {
    struct soft_lane *lane = acre__soft_lane_now;
    if (acre__soft_random() & 1)
        acre__soft_lane_leave(lane, LANE_READY);
}

/* ---- calls with a mask ---- */

/* Returns the mask of lanes that have ended or do not exist. */
static uint32_t warp_gone(const struct soft_lane *first) {
    uint32_t count = warp_count(first), gone = count < 32 ? ~(((uint32_t)1 << count) - 1) : 0;
    for (uint32_t i = 0; i < count; i++)
        if (first[i].state == LANE_ENDED)
            gone |= (uint32_t)1 << i;
    return gone;
}

static uint64_t collective_result(const struct soft_lane *first, const struct soft_lane *lane) {
    uint32_t result = 0;
    if (lane->call == LANE_SHFL)
        return first[lane->from].value;
    for (uint32_t i = 0; i < SOFT_WARP_LANES && lane->call != LANE_SYNC; i++)
        if (lane->mask >> i & 1 &&
            (lane->call == LANE_MATCH ? first[i].value == lane->value : first[i].value != 0))
            result |= (uint32_t)1 << i;
    return result;
}

/* Returns 1 if all lanes of the mask have arrived; then sets their results and makes them ready. */
static int warp_meets(struct soft_lane *first, const struct soft_lane *lane) {
    uint32_t mask = lane->mask;
    for (uint32_t left = mask; left; left &= left - 1) {
        const struct soft_lane *other = &first[__builtin_ctz(left)];
        if (other->state != LANE_WAITS || other->call != lane->call || other->mask != mask)
            return 0;
    }
    for (uint32_t left = mask; left; left &= left - 1) {
        struct soft_lane *other = &first[__builtin_ctz(left)];
        other->result = collective_result(first, other);
        other->state = LANE_READY;
    }
    return 1;
}

static void collective_check(const struct soft_lane *lane) {
    const char *name = collective_name(lane->call);
    uint32_t number = lane_number(lane), gone = lane->mask & warp_gone(warp_of(lane));
    if (!(lane->mask >> number & 1))
        acre__soft_launch_mistake(lane,
                                  "%s with mask 0x%08x, which does not include the caller, lane %u",
                                  name, lane->mask, number);
    else if (gone)
        acre__soft_launch_mistake(lane, "%s with mask 0x%08x, of which lanes 0x%08x have ended",
                                  name, lane->mask, gone);
    else if (lane->call == LANE_SHFL && !(lane->mask >> lane->from & 1))
        acre__soft_launch_mistake(lane, "%s with mask 0x%08x wants lane %u, which is not in it",
                                  name, lane->mask, lane->from);
}

static uint64_t lane_collect(enum soft_collective call, uint32_t mask, uint64_t value,
                             uint32_t from) {
    struct soft_lane *lane = acre__soft_lane_now;
    struct soft_lane *first = warp_of(lane);
    struct soft_launch *launch = lane->block->launch;
    if (launch->is_seeded)
        acre__soft_lane_point();
    lane->call = call;
    lane->mask = mask;
    lane->value = value;
    lane->from = from;
    collective_check(lane);
    if (soft_launch_is_over(launch))
        lane_stay(lane);
    lane->state = LANE_WAITS;
    if (!warp_meets(first, lane))
        acre__soft_lane_leave(lane, LANE_WAITS);
    return lane->result;
}

/* ---- running a warp ---- */

/* Makes the lanes that wait in activemask at this call site return together. */
static void warp_release(struct soft_lane *first, const void *site) {
    uint32_t count = warp_count(first), mask = 0;
    for (uint32_t i = 0; i < count; i++)
        if (first[i].state == LANE_ACTIVE && first[i].site == site)
            mask |= (uint32_t)1 << i;
    for (uint32_t left = mask; left; left &= left - 1) {
        struct soft_lane *lane = &first[__builtin_ctz(left)];
        lane->result = mask;
        lane->state = LANE_READY;
    }
}

static int warp_release_all(struct soft_lane *first) {
    uint32_t count = warp_count(first);
    int is_any = 0;
    for (uint32_t i = 0; i < count; i++)
        if (first[i].state == LANE_ACTIVE) {
            warp_release(first, first[i].site);
            is_any = 1;
        }
    return is_any;
}

static int lane_can_run(struct soft_lane *lane) {
    if (lane->state == LANE_BARRIER &&
        atomic_load_explicit(&lane->block->barrier, memory_order_acquire) != lane->barrier)
        lane->state = LANE_READY;
    return lane->state == LANE_READY || lane->state == LANE_YIELDED;
}

static uint32_t warp_in_state(const struct soft_lane *first, enum soft_lane_state state) {
    uint32_t count = warp_count(first), mask = 0;
    for (uint32_t i = 0; i < count; i++)
        mask |= (uint32_t)(first[i].state == state) << i;
    return mask;
}

/* Reports a deadlock: no lane can run, and a lane waits for a mask. Lanes at the barrier stay there
 * until the waiting lane arrives, too. */
static void warp_check_stuck(const struct soft_lane *first) {
    uint32_t waiting = warp_in_state(first, LANE_WAITS);
    if (!waiting)
        return;
    const struct soft_lane *lane = &first[__builtin_ctz(waiting)];
    acre__soft_launch_mistake(
        lane,
        "deadlock in %s with mask 0x%08x: lanes 0x%08x wait at a barrier, lanes 0x%08x in warp "
        "calls that do not match",
        collective_name(lane->call), lane->mask, warp_in_state(first, LANE_BARRIER), waiting);
}

enum soft_pass acre__soft_warp_pass(struct soft_lane *first) {
    uint32_t count = warp_count(first);
    for (uint32_t i = 0; i < count && !soft_launch_is_over(first->block->launch); i++)
        if (lane_can_run(&first[i]))
            lane_run(&first[i]);
    for (uint32_t i = 0; i < count; i++) /* a later lane may have opened the barrier */
        (void)lane_can_run(&first[i]);
    uint32_t ready = warp_in_state(first, LANE_READY);
    if ((!ready || ++first->passes >= ACTIVE_PASSES) && warp_release_all(first)) {
        first->passes = 0;
        return PASS_MOVED;
    }
    if (ready)
        return PASS_MOVED;
    if (warp_in_state(first, LANE_YIELDED))
        return PASS_YIELDED;
    warp_check_stuck(first);
    return PASS_NOTHING;
}

uint32_t acre__soft_warp_choices(struct soft_lane *first) {
    uint32_t count = warp_count(first), choices = 0, is_active = 0;
    for (uint32_t i = 0; i < count; i++) {
        choices += (uint32_t)lane_can_run(&first[i]);
        is_active |= first[i].state == LANE_ACTIVE;
    }
    choices += is_active;
    if (!choices)
        warp_check_stuck(first);
    return choices;
}

void acre__soft_warp_choose(struct soft_lane *first, uint32_t choice) {
    uint32_t count = warp_count(first);
    for (uint32_t i = 0; i < count; i++)
        if (lane_can_run(&first[i]) && choice-- == 0) {
            lane_run(&first[i]);
            return;
        }
    /* The last choice: a group in activemask returns without lanes that may still arrive. */
    uint32_t active = warp_in_state(first, LANE_ACTIVE);
    uint64_t drawn = acre__soft_random() % (uint64_t)__builtin_popcount(active);
    while (drawn--)
        active &= active - 1;
    warp_release(first, first[__builtin_ctz(active)].site);
}

/* ---- what kernels call ---- */

uint32_t acre_soft_lane(void) {
    const struct soft_lane *lane = acre__soft_lane_now;
    return lane ? lane_number(lane) : 0;
}

int acre_soft_in_kernel(void) {
    return acre__soft_lane_now != NULL;
}

uint32_t acre_soft_sm(void) {
    const struct soft_lane *lane = acre__soft_lane_now;
    return lane ? lane->block->sm
                : (uint32_t)(acre__thread_self()->id * UINT64_C(0x9e3779b97f4a7c15) >> 57);
}

uint32_t acre_soft_activemask(void) {
    struct soft_lane *lane = acre__soft_lane_now;
    if (!lane || lane->block->launch->warp_lanes == 1)
        return 1;
    lane->site = __builtin_return_address(0);
    acre__soft_lane_leave(lane, LANE_ACTIVE);
    return (uint32_t)lane->result;
}

uint32_t acre_soft_match_any(uint32_t mask, uint64_t value) {
    return acre__soft_lane_now ? (uint32_t)lane_collect(LANE_MATCH, mask, value, 0) : 1;
}

uint64_t acre_soft_shfl(uint32_t mask, uint64_t value, uint32_t lane) {
    return acre__soft_lane_now ? lane_collect(LANE_SHFL, mask, value, lane % SOFT_WARP_LANES)
                               : value;
}

uint32_t acre_soft_ballot(uint32_t mask, int predicate) {
    return acre__soft_lane_now ? (uint32_t)lane_collect(LANE_BALLOT, mask, predicate != 0, 0)
                               : predicate != 0;
}

void acre_soft_syncwarp(uint32_t mask) {
    if (acre__soft_lane_now)
        (void)lane_collect(LANE_SYNC, mask, 0, 0);
}

void acre_soft_yield(void) {
    struct soft_lane *lane = acre__soft_lane_now;
    if (lane)
        acre__soft_lane_leave(lane, LANE_YIELDED);
    else
        sched_yield();
}
