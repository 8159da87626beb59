/* Mutexes with ranks, and conditions.
 *
 * A thread may only take a lock of a higher rank than all it holds; debug builds (ACRE_DEBUG) check
 * that and abort with both names, since it is a bug of ours. Under the seeded scheduler several
 * virtual threads share one real thread: a lock that is taken makes the virtual thread yield
 * instead of sleeping, through the hooks below. */
#ifndef ACRE_BASE_LOCK_H
#define ACRE_BASE_LOCK_H

#include <pthread.h>
#include <stdint.h>

enum acre__rank {
    ACRE__RANK_WATCH = 5,     /* beginning and end of a trace */
    ACRE__RANK_REGISTRY = 10, /* list of open devices */
    ACRE__RANK_VEC = 11,      /* one vec: its changes (appending copies), then its size (+ 1) */
    ACRE__RANK_HEAP = 12, /* one heap's changes, while copies wait; then the list of them (+ 1) */
    ACRE__RANK_STAGING = 14,   /* one direction's staging of a device, and its set inside */
    ACRE__RANK_SHARE = 15,     /* one share or import, and the lists of them */
    ACRE__RANK_PLAN = 15,      /* one plan, or the list of them */
    ACRE__RANK_POOL_LIST = 16, /* all pools; with it held, one's lock is taken */
    ACRE__RANK_POOL = 17,      /* one pool */
    ACRE__RANK_VEC_LIST = 18,  /* all vecs */
    ACRE__RANK_EXTENT = 19,    /* one extent's record */
    ACRE__RANK_DEVICE = 20,    /* one device's streams, events, limbo */
    ACRE__RANK_VM = 30,        /* memory by hand: chunks, reservations, mappings */
    ACRE__RANK_RANGE = 40,     /* one device's addresses */
    ACRE__RANK_CHUNK = 50,     /* one device's chunks */
    ACRE__RANK_BOOK = 60,      /* blocks by address */
    ACRE__RANK_SOFT = 80,      /* all state of the soft driver */
    ACRE__RANK_LEAF = 100      /* holds no other lock inside */
};

struct acre__lock {
    pthread_mutex_t mutex;
    const char *name;
    int rank;
};

#define ACRE__LOCK_INIT(name_, rank_)                                                              \
    { PTHREAD_MUTEX_INITIALIZER, (name_), (rank_) }

void acre__lock_init(struct acre__lock *lock, const char *name, int rank);
void acre__lock_destroy(struct acre__lock *lock);
void acre__lock_take(struct acre__lock *lock);
void acre__lock_give(struct acre__lock *lock);

struct acre__cond {
    pthread_cond_t cond;
};

#define ACRE__COND_INIT                                                                            \
    { PTHREAD_COND_INITIALIZER }

void acre__cond_init(struct acre__cond *cond);
void acre__cond_destroy(struct acre__cond *cond);
/* May return early: callers loop on their condition. */
void acre__cond_wait(struct acre__cond *cond, struct acre__lock *lock);
/* The same, but not beyond a time of CLOCK_MONOTONIC. Not for virtual threads. */
void acre__cond_wait_until(struct acre__cond *cond, struct acre__lock *lock, uint64_t ns);
void acre__cond_wake(struct acre__cond *cond); /* wakes all */

/* Set by the seeded scheduler while it runs virtual threads, NULL otherwise. `yield` runs something
 * else; `point` may. Both are no-ops on threads that are not virtual. */
struct acre__sched_hooks {
    int (*is_virtual)(void); /* is the caller a virtual thread right now? */
    void (*yield)(void);     /* the caller cannot go on: run others, then return */
    void (*point)(void);     /* a place where others may run first */
};
void acre__sched_hooks_set(const struct acre__sched_hooks *hooks);
const struct acre__sched_hooks *acre__sched_hooks_get(void);

/* A marked place between two steps that other threads may come between. */
void acre__sched_point(void);

#endif
