/* The seeded scheduler: see sched.h.
 *
 * The scheduler's loop runs on the calling thread's own stack and enters one fiber at a time
 * (fiber.c). It does not draw a waiting fiber again until something else has made progress. If
 * nothing makes progress, all fibers are stuck. */
#include <stdlib.h>

#include "base/thread.h"
#include "soft/fiber.h"
#include "soft/sched.h"
#include "soft/soft_run.h"
#include "soft/soft_state.h"

enum {
    /* A fiber may wake another one and then wait itself, so "all wait" does not prove that all are
     * stuck. The loop retries all waiting fibers this many times in a row. */
    SCHED_TRIES = 5000,
};

static struct {
    struct fiber *fibers;
    size_t count;
    unsigned tries; /* retries in a row in which all fibers waited */
} sched;

void acre__soft_sched_border(void) {
    if (!atomic_load_explicit(&acre__soft.is_seeded, memory_order_relaxed))
        return;
    const struct acre__sched_hooks *hooks = acre__sched_hooks_get();
    if (hooks && hooks->is_virtual()) {
        hooks->point();
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

/* Runs one step. Returns 0 if no step is possible. */
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
        acre__fiber_enter(fiber);
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
    acre__thread_self(); /* creates the loop's own record before fibers swap the pointer */
    sched.fibers = calloc(count ? count : 1, sizeof *sched.fibers);
    if (!sched.fibers)
        return end;
    sched.count = count;
    size_t made = 0;
    while (made < count && acre__fiber_make(&sched.fibers[made], &threads[made]))
        made++;
    if (made == count) {
        acre__soft.random = seed;
        sched.tries = 0;
        int is_first = acre__fiber_hooks_begin();
        while (fibers_left(0) && sched_step())
            ;
        acre__fiber_hooks_end(is_first);
        end = fibers_left(0) ? ACRE__SCHED_STUCK : ACRE__SCHED_DONE;
    }
    for (size_t i = 0; i < count; i++)
        acre__fiber_free(&sched.fibers[i]);
    free(sched.fibers);
    sched.fibers = NULL;
    sched.count = 0;
    return end;
}
