/* Fibers: see fiber.h. One fiber runs at a time, on the thread that entered it. The loop that
 * enters fibers runs on that thread's own stack. Only that thread touches `fibers`. */
#include <errno.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/lock.h"
#include "base/thread.h"
#include "soft/fiber.h"
#include "soft/launch_strand.h"
#include "soft/launch_warp.h"
#include "soft/sched.h"
#include "soft/soft_state.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define FIBER_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define FIBER_TSAN 1
#endif
#ifdef FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum { FIBER_STACK_BYTES = 512 << 10, FIBER_GUARD_BYTES = 64 << 10 };

static struct {
    ucontext_t loop;
    void *loop_sanitizer;
    const void *loop_stack; /* of the calling thread, as ASan reports it */
    size_t loop_stack_bytes;
    struct fiber *current;
} fibers;

/* ---- switching ---- */

void acre__fibers_begin(void) {
#ifdef FIBER_TSAN
    fibers.loop_sanitizer = __tsan_get_current_fiber();
#endif
}

/* Switches from a fiber back to the loop. */
static void fiber_leave(struct fiber *fiber) {
    fibers.current = NULL;
#ifdef FIBER_ASAN
    /* A finished fiber frees its fake stack. */
    __sanitizer_start_switch_fiber(fiber->is_done ? NULL : &fiber->sanitizer, fibers.loop_stack,
                                   fibers.loop_stack_bytes);
#endif
#ifdef FIBER_TSAN
    __tsan_switch_to_fiber(fibers.loop_sanitizer, 0);
#endif
    swapcontext(&fiber->context, &fibers.loop);
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(fiber->sanitizer, &fibers.loop_stack, &fibers.loop_stack_bytes);
#endif
}

static void fiber_main(void) {
    struct fiber *fiber = fibers.current;
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(NULL, &fibers.loop_stack, &fibers.loop_stack_bytes);
#endif
    fiber->work.run(fiber->work.user);
    fiber->is_done = 1;
    fiber_leave(fiber);
}

void acre__fiber_enter(struct fiber *fiber) {
    struct acre__thread *own = acre__thread_pointer;
    int saved_errno = errno;
    acre__thread_pointer = fiber->thread;
    fibers.current = fiber;
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(&fibers.loop_sanitizer, fiber->stack + FIBER_GUARD_BYTES,
                                   FIBER_STACK_BYTES - FIBER_GUARD_BYTES);
#endif
#ifdef FIBER_TSAN
    __tsan_switch_to_fiber(fiber->sanitizer, 0);
#endif
    swapcontext(&fibers.loop, &fiber->context);
#ifdef FIBER_ASAN
    __sanitizer_finish_switch_fiber(fibers.loop_sanitizer, NULL, NULL);
#endif
    fibers.current = NULL;
    acre__thread_pointer = own;
    errno = saved_errno;
}

int acre__fiber_make(struct fiber *fiber, const struct acre__vthread *work) {
    void *stack = mmap(NULL, FIBER_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    fiber->stack = stack == MAP_FAILED ? NULL : stack;
    if (fiber->stack) /* a guard at its lower end turns an overflow into a fault */
        mprotect(fiber->stack, FIBER_GUARD_BYTES, PROT_NONE);
    fiber->thread = acre__thread_create();
    fiber->work = *work;
    if (!fiber->stack || !fiber->thread || getcontext(&fiber->context))
        return 0;
    fiber->context.uc_stack.ss_sp = fiber->stack + FIBER_GUARD_BYTES;
    fiber->context.uc_stack.ss_size = FIBER_STACK_BYTES - FIBER_GUARD_BYTES;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, fiber_main, 0);
#ifdef FIBER_TSAN
    fiber->sanitizer = __tsan_create_fiber(0);
#endif
    return 1;
}

void acre__fiber_free(struct fiber *fiber) {
#ifdef FIBER_TSAN
    if (fiber->sanitizer)
        __tsan_destroy_fiber(fiber->sanitizer);
#endif
    if (fiber->thread) {
        /* A waiting fiber has released its lock, but the lock is still in its list of held
         * locks. */
        fiber->thread->held_count = 0;
        acre__thread_destroy(fiber->thread);
    }
    if (fiber->stack)
        munmap(fiber->stack, FIBER_STACK_BYTES);
}

/* ---- hooks of the base layer ---- */

static int is_fiber(void) {
    return fibers.current && acre__thread_pointer == fibers.current->thread;
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
    fibers.current->is_waiting = 1;
    fiber_leave(fibers.current);
}

/* Half of the points switch to others: often enough to find races between any two points, seldom
 * enough to also run long stretches without a switch. */
static void hook_point(void) {
    if (acre__soft_lane_is_seeded())
        acre__soft_lane_point();
    else if (acre__soft_random() & 1)
        fiber_leave(fibers.current);
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
