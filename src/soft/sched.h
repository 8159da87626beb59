/* The seeded scheduler: streams of the soft driver and virtual host threads, one step at a time, in
 * an order drawn from a seed. The same seed gives the same order, so any interleaving that was seen
 * once can be seen again.
 *
 * Virtual threads are fibers of the calling thread. Each has a thread record of its own (base's
 * thread.h), so caches and context stacks are per virtual thread. They are switched when a driver
 * call begins, where a lock is taken or something is waited for, and, in builds with
 * ACRE_TEST_POINTS, before every atomic operation (base/atomic.h). */
#ifndef ACRE_SOFT_SCHED_H
#define ACRE_SOFT_SCHED_H

#include <stddef.h>
#include <stdint.h>

struct acre__vthread {
    void (*run)(void *user);
    void *user;
};

enum acre__sched_end {
    ACRE__SCHED_DONE = 0,      /* all virtual threads returned */
    ACRE__SCHED_STUCK = 1,     /* those left all wait, and no stream can go on */
    ACRE__SCHED_NO_MEMORY = 2, /* nothing was run */
};

/* Runs the virtual threads to their end, together with the soft driver's streams if it is in its
 * seeded mode. No other thread may use the library meanwhile. Not to be nested. Stuck threads are
 * abandoned with what they hold. */
enum acre__sched_end acre__sched_run(uint64_t seed, const struct acre__vthread *threads,
                                     size_t count);

/* A call begins: with a seed, others may run first. No lock is held. */
void acre__soft_sched_border(void);

#endif
