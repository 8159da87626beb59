/* Fibers: see fiber.h. One fiber runs at a time, on the thread that entered it. The loop that
 * enters fibers runs on that thread's own stack. Only that thread touches
 * `fiber_current`. */
#include <errno.h>

#include "base/lock.h"
#include "base/thread.h"
#include "soft/fiber.h"
#include "soft/launch_strand.h"
#include "soft/launch_warp.h"
#include "soft/sched.h"
#include "soft/soft_state.h"

enum { FIBER_STACK_BYTES = 448 << 10 };

static struct fiber *fiber_current; /* NULL: the loop runs */

/* ---- switching ---- */

/* Switches from a fiber back to the loop. */
static void fiber_leave(struct fiber *fiber) {
    fiber_current = NULL;
    acre__coroutine_leave(&fiber->coroutine);
}

static void fiber_run(void *user) {
    struct fiber *fiber = user;
    fiber->work.run(fiber->work.user);
    fiber->is_done = 1;
}

void acre__fiber_enter(struct fiber *fiber) {
    struct acre__thread *own = acre__thread_pointer;
    int saved_errno = errno;
    acre__thread_pointer = fiber->thread;
    fiber_current = fiber;
    acre__coroutine_enter(&fiber->coroutine);
    fiber_current = NULL;
    acre__thread_pointer = own;
    errno = saved_errno;
}

int acre__fiber_make(struct fiber *fiber, const struct acre__vthread *work) {
    fiber->work = *work;
    fiber->coroutine.run = fiber_run;
    fiber->coroutine.user = fiber;
    fiber->thread = acre__thread_create();
    return fiber->thread && acre__coroutine_make(&fiber->coroutine, FIBER_STACK_BYTES);
}

void acre__fiber_free(struct fiber *fiber) {
    if (fiber->thread) {
        /* A waiting fiber has released its lock, but the lock is still in its list of held
         * locks. */
        fiber->thread->held_count = 0;
        acre__thread_destroy(fiber->thread);
    }
    acre__coroutine_free(&fiber->coroutine);
}

/* ---- hooks of the base layer ---- */

static int is_fiber(void) {
    return fiber_current && acre__thread_pointer == fiber_current->thread;
}

/* Lanes of a seeded kernel are switched at the same places as virtual threads. */
static int hook_is_virtual(void) {
    return acre__soft_lane_is_seeded() || is_fiber();
}

static void hook_yield(void) {
    if (acre__soft_lane_is_seeded()) {
        acre_soft_yield();
        return;
    }
    fiber_current->is_waiting = 1;
    fiber_leave(fiber_current);
}

/* Half of the points switch to others: often enough to find races between any two points, seldom
 * enough to also run long stretches without a switch. */
static void hook_point(void) {
    if (acre__soft_lane_is_seeded())
        acre__soft_lane_point();
    else if (acre__soft_random() & 1)
        fiber_leave(fiber_current);
}

static const struct acre__sched_hooks sched_hooks = {hook_is_virtual, hook_yield, hook_point};

int acre__fiber_hooks_begin(void) {
    int is_first = !acre__sched_hooks_get();
    if (is_first)
        acre__sched_hooks_set(&sched_hooks);
    return is_first;
}

void acre__fiber_hooks_end(int is_first) {
    if (is_first)
        acre__sched_hooks_set(NULL);
}
