/* The seeded scheduler: see sched.h.
 *
 * The scheduler's loop runs on the calling thread's own stack and switches to one fiber at a time;
 * a fiber switches back at points, when it has to wait, and at its end. A fiber that waits is not
 * drawn again until something else has moved; when nothing ever moves, all are stuck. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/thread.h"
#include "soft/launch.h"
#include "soft/sched.h"
#include "soft/soft_state.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SCHED_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define SCHED_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SCHED_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define SCHED_TSAN 1
#endif
#ifdef SCHED_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SCHED_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum {
    FIBER_STACK_BYTES = 512 << 10,
    FIBER_GUARD_BYTES = 64 << 10,
    /* A fiber may do something that another waits for and then wait itself, so that all wait is no
     * proof that all are stuck: they are tried so many times in a row. */
    SCHED_TRIES = 5000,
};

struct fiber {
    ucontext_t context;
    struct acre__vthread work;
    struct acre__thread *thread;
    char *stack;
    int is_done, is_waiting;
    void *sanitizer; /* TSan's fiber, or ASan's fake stack while it is not running */
};

static struct {
    ucontext_t loop;
    void *loop_sanitizer;
    const void *loop_stack; /* of the calling thread, told by ASan */
    size_t loop_stack_bytes;
    struct fiber *fibers;
    size_t count;
    struct fiber *current;
    unsigned tries; /* of fibers that all waited, since something else than waiting happened */
} sched;

/* ---- switching ---- */

/* Leaves a fiber for the loop. */
static void fiber_leave(struct fiber *fiber) {
    sched.current = NULL;
#ifdef SCHED_ASAN
    /* A finished fiber gives its fake stack up. */
    __sanitizer_start_switch_fiber(fiber->is_done ? NULL : &fiber->sanitizer, sched.loop_stack,
                                   sched.loop_stack_bytes);
#endif
#ifdef SCHED_TSAN
    __tsan_switch_to_fiber(sched.loop_sanitizer, 0);
#endif
    swapcontext(&fiber->context, &sched.loop);
#ifdef SCHED_ASAN
    __sanitizer_finish_switch_fiber(fiber->sanitizer, &sched.loop_stack, &sched.loop_stack_bytes);
#endif
}

static void fiber_main(void) {
    struct fiber *fiber = sched.current;
#ifdef SCHED_ASAN
    __sanitizer_finish_switch_fiber(NULL, &sched.loop_stack, &sched.loop_stack_bytes);
#endif
    fiber->work.run(fiber->work.user);
    fiber->is_done = 1;
    fiber_leave(fiber);
}

/* Runs a fiber until it leaves. */
static void fiber_enter(struct fiber *fiber) {
    struct acre__thread *own = acre__thread_pointer;
    int saved_errno = errno;
    acre__thread_pointer = fiber->thread;
    sched.current = fiber;
#ifdef SCHED_ASAN
    __sanitizer_start_switch_fiber(&sched.loop_sanitizer, fiber->stack + FIBER_GUARD_BYTES,
                                   FIBER_STACK_BYTES - FIBER_GUARD_BYTES);
#endif
#ifdef SCHED_TSAN
    __tsan_switch_to_fiber(fiber->sanitizer, 0);
#endif
    swapcontext(&sched.loop, &fiber->context);
#ifdef SCHED_ASAN
    __sanitizer_finish_switch_fiber(sched.loop_sanitizer, NULL, NULL);
#endif
    sched.current = NULL;
    acre__thread_pointer = own;
    errno = saved_errno;
}

static int fiber_make(struct fiber *fiber, const struct acre__vthread *work) {
    void *stack = mmap(NULL, FIBER_STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    fiber->stack = stack == MAP_FAILED ? NULL : stack;
    if (fiber->stack) /* a guard at its end, so that an overflow is a fault */
        mprotect(fiber->stack, FIBER_GUARD_BYTES, PROT_NONE);
    fiber->thread = acre__thread_create();
    fiber->work = *work;
    if (!fiber->stack || !fiber->thread || getcontext(&fiber->context))
        return 0;
    fiber->context.uc_stack.ss_sp = fiber->stack + FIBER_GUARD_BYTES;
    fiber->context.uc_stack.ss_size = FIBER_STACK_BYTES - FIBER_GUARD_BYTES;
    fiber->context.uc_link = NULL;
    makecontext(&fiber->context, fiber_main, 0);
#ifdef SCHED_TSAN
    fiber->sanitizer = __tsan_create_fiber(0);
#endif
    return 1;
}

static void fiber_free(struct fiber *fiber) {
#ifdef SCHED_TSAN
    if (fiber->sanitizer)
        __tsan_destroy_fiber(fiber->sanitizer);
#endif
    if (fiber->thread) {
        /* One that waits has given its lock up, but it is still in its list. */
        fiber->thread->held_count = 0;
        acre__thread_destroy(fiber->thread);
    }
    if (fiber->stack)
        munmap(fiber->stack, FIBER_STACK_BYTES);
}

/* ---- hooks of the base layer ---- */

static int is_fiber(void) {
    return sched.current && acre__thread_pointer == sched.current->thread;
}

/* The lanes of a seeded kernel are switched at the same places as virtual threads. */
static int hook_is_virtual(void) {
    return acre__soft_lane_is_seeded() || is_fiber();
}

static void hook_yield(void) {
    if (acre__soft_lane_is_seeded()) {
        acre_soft_yield();
        return;
    }
    sched.current->is_waiting = 1;
    fiber_leave(sched.current);
}

/* Every second point lets others run: often enough to find what can happen between any two, seldom
 * enough to go through long stretches undisturbed, too. */
static void hook_point(void) {
    if (acre__soft_lane_is_seeded())
        acre__soft_lane_point();
    else if (acre__soft_random() & 1)
        fiber_leave(sched.current);
}

static const struct acre__sched_hooks sched_hooks = {hook_is_virtual, hook_yield, hook_point};

int acre__soft_sched_begin(void) {
    int is_first = !acre__sched_hooks_get();
    if (is_first)
        acre__sched_hooks_set(&sched_hooks);
    return is_first;
}

void acre__soft_sched_end(int is_first) {
    if (is_first)
        acre__sched_hooks_set(NULL);
}

void acre__soft_sched_border(void) {
    if (!atomic_load_explicit(&acre__soft.is_seeded, memory_order_relaxed))
        return;
    if (acre__sched_hooks_get() && hook_is_virtual()) {
        hook_point();
        return;
    }
    acre__lock_take(&acre__soft.lock);
    struct soft_stream *stream;
    while (acre__soft.is_initialized && acre__soft_random() & 1 &&
           (stream = acre__soft_ready_pick()))
        acre__soft_run_step(stream);
    acre__lock_give(&acre__soft.lock);
}

/* ---- the loop ---- */

static size_t fibers_left(int and_can_move) {
    size_t left = 0;
    for (size_t i = 0; i < sched.count; i++)
        left += !sched.fibers[i].is_done && !(and_can_move && sched.fibers[i].is_waiting);
    return left;
}

static void fibers_wake(void) {
    for (size_t i = 0; i < sched.count; i++)
        sched.fibers[i].is_waiting = 0;
}

static struct fiber *fiber_at(size_t index) {
    for (size_t i = 0; i < sched.count; i++)
        if (!sched.fibers[i].is_done && !sched.fibers[i].is_waiting && index-- == 0)
            return &sched.fibers[i];
    return NULL;
}

/* Lets one thing happen. 0 when nothing can. */
static int sched_step(void) {
    size_t fibers = fibers_left(1), streams = 0;
    if (atomic_load_explicit(&acre__soft.is_seeded, memory_order_relaxed)) {
        acre__lock_take(&acre__soft.lock);
        streams = acre__soft.is_initialized ? acre__soft_ready_count() : 0;
        acre__lock_give(&acre__soft.lock);
    }
    if (!fibers && !streams) {
        fibers_wake();
        return sched.tries++ < SCHED_TRIES;
    }
    size_t drawn = (size_t)(acre__soft_random() % (fibers + streams));
    if (drawn < fibers) {
        struct fiber *fiber = fiber_at(drawn);
        fiber_enter(fiber);
        if (!fiber->is_waiting) {
            fibers_wake();
            sched.tries = 0;
        }
        return 1;
    }
    acre__lock_take(&acre__soft.lock);
    struct soft_stream *stream = acre__soft_ready_pick();
    if (stream)
        acre__soft_run_step(stream);
    acre__lock_give(&acre__soft.lock);
    fibers_wake();
    sched.tries = 0;
    return 1;
}

enum acre__sched_end acre__sched_run(uint64_t seed, const struct acre__vthread *threads,
                                     size_t count) {
    enum acre__sched_end end = ACRE__SCHED_NO_MEMORY;
    acre__thread_self(); /* the loop's own record, before fibers swap the pointer */
    sched.fibers = calloc(count ? count : 1, sizeof *sched.fibers);
    if (!sched.fibers)
        return end;
    sched.count = count;
    size_t made = 0;
    while (made < count && fiber_make(&sched.fibers[made], &threads[made]))
        made++;
    if (made == count) {
#ifdef SCHED_TSAN
        sched.loop_sanitizer = __tsan_get_current_fiber();
#endif
        acre__soft.random = seed;
        sched.tries = 0;
        acre__sched_hooks_set(&sched_hooks);
        while (fibers_left(0) && sched_step())
            ;
        acre__sched_hooks_set(NULL);
        end = fibers_left(0) ? ACRE__SCHED_STUCK : ACRE__SCHED_DONE;
    }
    for (size_t i = 0; i < count; i++)
        fiber_free(&sched.fibers[i]);
    free(sched.fibers);
    sched.fibers = NULL;
    sched.count = 0;
    return end;
}
