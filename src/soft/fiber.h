/* Fibers: virtual host threads of the seeded scheduler. Each fiber has its own stack and thread
 * record.
 *
 * A fiber switches back to the loop that entered it at scheduling points, when it has to wait, and
 * when it finishes. The base layer's hooks trigger these switches. Fibers and the lanes of seeded
 * kernels share the hooks, because both are switched at the same places. */
#ifndef ACRE_SOFT_FIBER_H
#define ACRE_SOFT_FIBER_H

#include "soft/coroutine.h"
#include "soft/sched.h"

struct acre__thread;

struct fiber {
    struct coroutine coroutine;
    struct acre__vthread work;
    struct acre__thread *thread;
    int is_done, is_waiting;
};

/* Creates a fiber. Returns 0 when out of memory. In both cases the caller calls acre__fiber_free,
 * which also frees a partly created fiber. */
int acre__fiber_make(struct fiber *fiber, const struct acre__vthread *work);
void acre__fiber_free(struct fiber *fiber);
/* Runs a fiber until it switches back. */
void acre__fiber_enter(struct fiber *fiber);

/* acre__fiber_hooks_begin sets the base layer's hooks if none are set and returns 1 if it did.
 * acre__fiber_hooks_end removes the hooks if `is_first` is 1. Callers are the scheduler's loop and
 * each step of a seeded kernel, which holds acre__soft.lock. Points inside such a step switch the
 * kernel's lanes. */
int acre__fiber_hooks_begin(void);
void acre__fiber_hooks_end(int is_first);

#endif
