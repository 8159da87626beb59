/* Lanes of kernels: the stacks they run on, and what they do together in a warp.
 *
 * A lane runs on a strand, a fiber with a small stack, and leaves it where it has to wait; who runs
 * the warp goes on with the next lane. Strands are kept for later lanes, since a grid has many: a
 * strand whose lane has ended waits at the top of its loop for another one. A lane that never ends,
 * because its launch was given up, takes its strand with it.
 *
 * Calls with a mask are done by the lane that comes last, which computes everybody's result.
 * activemask has no mask to say who is meant: those that wait at one call go on together when no
 * lane of the warp has anything else to do.
 *
 * A strand begins by setcontext and is then switched by _setjmp and _longjmp, which make no system
 * call, unlike swapcontext; with sanitizers, which follow jumps in ways of their own, by
 * swapcontext all the time. A strand may go on on another real thread than before (with a seed), so
 * nothing here looks at the TLS pointer after a switch. The pool of strands has a leaf lock of its
 * own. */
#undef _FORTIFY_SOURCE /* whose longjmp only jumps upwards on one stack */
#include <sched.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/thread.h"
#include "soft/launch.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LANE_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define LANE_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define LANE_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define LANE_TSAN 1
#endif
#ifdef LANE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef LANE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum {
#if defined(LANE_ASAN) || defined(LANE_TSAN)
    STRAND_STACK_BYTES = 256 << 10, /* sanitizers make frames larger */
#else
    STRAND_STACK_BYTES = 64 << 10,
#endif
    STRANDS_KEPT = 2048, /* two of the largest blocks */
    /* Lanes that are kept busy by each other must not hold activemask up for ever. */
    ACTIVE_PASSES = 64,
};

_Thread_local struct soft_lane *acre__soft_lane_now;

/* ---- strands ---- */

struct soft_strand {
    struct soft_strand *next;
    ucontext_t context, loop; /* its own, and that of who runs it */
    jmp_buf context_jump, loop_jump;
    char *stack;            /* above its guard page */
    struct soft_lane *lane; /* NULL: between lanes */
    int is_begun, is_ending;
    void *own_sanitizer, *loop_sanitizer; /* TSan's fibers, or ASan's fake stacks */
    const void *loop_stack;               /* told by ASan */
    size_t loop_stack_bytes;
};

static struct {
    struct acre__lock lock;
    struct soft_strand *first;
    size_t count;
} strands = {.lock = ACRE__LOCK_INIT("strands", ACRE__RANK_LEAF)};

static size_t strand_guard_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

#if defined(LANE_ASAN) || defined(LANE_TSAN)

static void strand_leave(struct soft_strand *strand) {
#ifdef LANE_ASAN
    __sanitizer_start_switch_fiber(strand->is_ending ? NULL : &strand->own_sanitizer,
                                   strand->loop_stack, strand->loop_stack_bytes);
#else
    __tsan_switch_to_fiber(strand->loop_sanitizer, 0);
#endif
    swapcontext(&strand->context, &strand->loop);
#ifdef LANE_ASAN
    __sanitizer_finish_switch_fiber(strand->own_sanitizer, &strand->loop_stack,
                                    &strand->loop_stack_bytes);
#endif
}

static void strand_switch_to(struct soft_strand *strand) {
#ifdef LANE_ASAN
    __sanitizer_start_switch_fiber(&strand->loop_sanitizer, strand->stack, STRAND_STACK_BYTES);
#else
    strand->loop_sanitizer = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(strand->own_sanitizer, 0);
#endif
    swapcontext(&strand->loop, &strand->context);
#ifdef LANE_ASAN
    __sanitizer_finish_switch_fiber(strand->loop_sanitizer, NULL, NULL);
#endif
}

#else

static void strand_leave(struct soft_strand *strand) {
    if (!_setjmp(strand->context_jump))
        _longjmp(strand->loop_jump, 1);
}

static void strand_switch_to(struct soft_strand *strand) {
    if (_setjmp(strand->loop_jump))
        return;
    if (strand->is_begun)
        _longjmp(strand->context_jump, 1);
    strand->is_begun = 1;
    setcontext(&strand->context);
}

#endif

static void strand_main(void) {
    struct soft_strand *strand = acre__soft_lane_now->strand;
#ifdef LANE_ASAN
    __sanitizer_finish_switch_fiber(NULL, &strand->loop_stack, &strand->loop_stack_bytes);
#endif
    while (!strand->is_ending) {
        struct soft_lane *lane = strand->lane;
        lane->block->launch->fn(lane->block->launch->arg);
        strand->lane = NULL;
        lane->state = LANE_ENDED;
        strand_leave(strand);
    }
    strand_leave(strand);
}

/* A strand begins with the signal mask of the thread that enters it first, so that nothing changes
 * for that thread. */
static void strand_begin(struct soft_strand *strand) {
    getcontext(&strand->context); /* does not fail */
    strand->context.uc_stack.ss_sp = strand->stack;
    strand->context.uc_stack.ss_size = STRAND_STACK_BYTES;
    strand->context.uc_link = NULL;
    makecontext(&strand->context, strand_main, 0);
}

static void strand_enter(struct soft_strand *strand) {
    if (!strand->is_begun)
        strand_begin(strand);
    strand_switch_to(strand);
    strand->is_begun = 1;
}

static void strand_free(struct soft_strand *strand) {
    if (strand->is_begun && !strand->lane) { /* returns what sanitizers keep for it */
        strand->is_ending = 1;
        strand_enter(strand);
    }
#ifdef LANE_TSAN
    __tsan_destroy_fiber(strand->own_sanitizer);
#endif
#ifdef LANE_ASAN
    __asan_unpoison_memory_region(strand->stack, STRAND_STACK_BYTES);
#endif
    munmap(strand->stack - strand_guard_bytes(), strand_guard_bytes() + STRAND_STACK_BYTES);
    free(strand);
}

static struct soft_strand *strand_make(void) {
    struct soft_strand *strand = calloc(1, sizeof *strand);
    if (!strand)
        return NULL;
    size_t guard = strand_guard_bytes();
    void *stack = mmap(NULL, guard + STRAND_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        free(strand);
        return NULL;
    }
    strand->stack = (char *)stack + guard;
    /* Stacks grow downwards, so the guard is at the lower end. */
    if (mprotect(stack, guard, PROT_NONE)) {
        munmap(stack, guard + STRAND_STACK_BYTES);
        free(strand);
        return NULL;
    }
#ifdef LANE_TSAN
    strand->own_sanitizer = __tsan_create_fiber(0);
#endif
    return strand;
}

int acre__soft_strands_take(struct soft_lane *lanes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        acre__lock_take(&strands.lock);
        struct soft_strand *strand = strands.first;
        if (strand) {
            strands.first = strand->next;
            strands.count--;
        }
        acre__lock_give(&strands.lock);
        if (!strand && !(strand = strand_make())) {
            acre__soft_strands_give(lanes, i);
            return 0;
        }
        lanes[i].strand = strand;
    }
    return 1;
}

void acre__soft_strands_give(struct soft_lane *lanes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct soft_strand *strand = lanes[i].strand;
        acre__lock_take(&strands.lock);
        int is_kept = !strand->lane && strands.count < STRANDS_KEPT;
        if (is_kept) {
            strand->next = strands.first;
            strands.first = strand;
            strands.count++;
        }
        acre__lock_give(&strands.lock);
        if (!is_kept)
            strand_free(strand);
        lanes[i].strand = NULL;
    }
}

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

/* Another lane waits for this one in vain. */
static void lane_check_waited_for(const struct soft_lane *ended) {
    const struct soft_lane *first = warp_of(ended);
    uint32_t count = warp_count(first), bit = (uint32_t)1 << lane_number(ended);
    for (uint32_t i = 0; i < count; i++)
        if (first[i].state == LANE_WAITS && first[i].mask & bit)
            acre__soft_launch_mistake(
                &first[i], "%s with mask 0x%08x waits for lane %u, which has ended",
                collective_name(first[i].call), first[i].mask, lane_number(ended));
}

void acre__soft_lane_run(struct soft_lane *lane) {
    lane->state = LANE_READY;
    lane->strand->lane = lane;
    acre__soft_lane_now = lane;
    strand_enter(lane->strand);
    acre__soft_lane_now = NULL;
    if (lane->state == LANE_BARRIER) {
        acre__soft_block_arrive(lane);
    } else if (lane->state == LANE_ENDED) {
        lane_check_waited_for(lane);
        acre__soft_block_lane_ended(lane);
    }
}

void acre__soft_lane_leave(struct soft_lane *lane, enum soft_lane_state state) {
    lane->state = state;
    strand_leave(lane->strand);
}

/* A launch that is over does not come back to its lanes. */
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

/* Lanes that have ended or never were. */
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

/* 1 when all lanes of the mask are here: then all have their results, and can go on. */
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
        acre__soft_launch_mistake(lane, "%s with mask 0x%08x, in which the caller, lane %u, is not",
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

/* The lanes that wait in activemask at this place go on together. */
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

/* No lane can run. If one waits for a mask, it does so for ever: a lane at the barrier stays there
 * until this one comes, too. */
static void warp_check_stuck(const struct soft_lane *first) {
    uint32_t waiting = warp_in_state(first, LANE_WAITS);
    if (!waiting)
        return;
    const struct soft_lane *lane = &first[__builtin_ctz(waiting)];
    acre__soft_launch_mistake(
        lane,
        "%s with mask 0x%08x waits for ever: lanes 0x%08x stand at a barrier, 0x%08x in calls with "
        "a mask that do not fit together",
        collective_name(lane->call), lane->mask, warp_in_state(first, LANE_BARRIER), waiting);
}

enum soft_pass acre__soft_warp_pass(struct soft_lane *first) {
    uint32_t count = warp_count(first);
    for (uint32_t i = 0; i < count && !soft_launch_is_over(first->block->launch); i++)
        if (lane_can_run(&first[i]))
            acre__soft_lane_run(&first[i]);
    for (uint32_t i = 0; i < count; i++) /* a later lane may have been the last at the barrier */
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
    uint32_t count = warp_count(first), choices = 0;
    for (uint32_t i = 0; i < count; i++)
        choices += (uint32_t)lane_can_run(&first[i]);
    choices += warp_in_state(first, LANE_ACTIVE) != 0;
    if (!choices)
        warp_check_stuck(first);
    return choices;
}

void acre__soft_warp_choose(struct soft_lane *first, uint32_t choice) {
    uint32_t count = warp_count(first);
    for (uint32_t i = 0; i < count; i++)
        if (lane_can_run(&first[i]) && choice-- == 0) {
            acre__soft_lane_run(&first[i]);
            return;
        }
    /* The last choice: a group in activemask goes on without those that may still come. */
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
