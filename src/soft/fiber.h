/* Fibers: virtual host threads of the seeded scheduler, each with a stack and a thread record of
 * its own.
 *
 * A fiber leaves for the loop that entered it at points, when it has to wait, and at its end. The
 * base layer's hooks say where: fibers and the lanes of seeded kernels, which are switched at the
 * same places, share them. */
#ifndef ACRE_SOFT_FIBER_H
#define ACRE_SOFT_FIBER_H

#include <ucontext.h>

#include "soft/sched.h"

struct acre__thread;

struct fiber {
    ucontext_t context;
    struct acre__vthread work;
    struct acre__thread *thread;
    char *stack;
    int is_done, is_waiting;
    void *sanitizer; /* TSan's fiber, or ASan's fake stack while it is not running */
};

/* 0 without memory; what was made is freed by acre__fiber_free in any case. */
int acre__fiber_make(struct fiber *fiber, const struct acre__vthread *work);
void acre__fiber_free(struct fiber *fiber);
/* The calling thread enters fibers from here on. */
void acre__fibers_begin(void);
/* Runs a fiber until it leaves. */
void acre__fiber_enter(struct fiber *fiber);

/* Sets the base layer's hooks where none are set, and takes them away again where the first call
 * did so. Around the loop, and around a step of a seeded kernel, with acre__soft.lock held: points
 * inside switch its lanes. */
int acre__fiber_hooks_begin(void);
void acre__fiber_hooks_end(int is_first);

#endif
