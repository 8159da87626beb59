/* The seeded scheduler runs the soft driver's streams and virtual host threads one step at a time,
 * in an order drawn from a seed. The same seed gives the same order, so an interleaving that failed
 * once can be repeated.
 *
 * Virtual threads are fibers of the calling thread. Each has its own thread record (base/thread.h),
 * so caches and context stacks are per virtual thread. The scheduler switches them when a driver
 * call begins, when a lock is contended, and when a thread waits. In builds with ACRE_TEST_POINTS
 * it also switches before every atomic operation (base/atomic.h). */
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
    ACRE__SCHED_STUCK = 1,     /* all remaining threads wait, and no stream can make progress */
    ACRE__SCHED_NO_MEMORY = 2, /* no thread ran */
};

/* Runs the virtual threads until they return, together with the soft driver's streams if the driver
 * is seeded. No other thread may use the library during the run. Runs do not nest. Stuck threads
 * are abandoned with all that they hold. */
enum acre__sched_end acre__sched_run(uint64_t seed, const struct acre__vthread *threads,
                                     size_t count);

/* Scheduling point at the start of a driver call: with a seed, others may run first. The caller
 * holds no lock. */
void acre__soft_sched_border(void);

#endif
