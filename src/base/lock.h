/* Mutexes with ranks, and condition variables.
 *
 * A thread may only take a lock of a higher rank than all locks it holds. Debug builds (ACRE_DEBUG)
 * check this and abort with both names, since a violation is a bug of acre. Under the seeded
 * scheduler several virtual threads share one real thread. A virtual thread that finds a lock taken
 * yields through the hooks below instead of sleeping. */
#ifndef ACRE_BASE_LOCK_H
#define ACRE_BASE_LOCK_H

#include <pthread.h>
#include <stdint.h>

enum acre__rank {
    ACRE__RANK_SUSPEND = 4,   /* a whole suspend or resume */
    ACRE__RANK_WATCH = 5,     /* start, stop and flush of a trace */
    ACRE__RANK_REGISTRY = 10, /* list of open devices */
    ACRE__RANK_VEC = 11, /* one vec: held through a change (an append copies); its size (+ 1) */
    ACRE__RANK_HEAP =
        12, /* one heap: held through a change and its copies; the list of heaps (+ 1) */
    ACRE__RANK_SHARE = 14,     /* one import, or the lists of shares and imports */
    ACRE__RANK_PLAN = 14,      /* one plan, or the list of them */
    ACRE__RANK_SPILL = 15,     /* spillable blocks: held while they leave or come back */
    ACRE__RANK_POOL_LIST = 16, /* the list of pools; may be held while a pool's lock is taken */
    ACRE__RANK_POOL = 17,      /* one pool; the list of thread caches (+ 1) */
    ACRE__RANK_STAGING = 18,   /* staging of one device and direction; its set of buffers (+ 1) */
    ACRE__RANK_VEC_LIST = 18,  /* the list of vecs */
    ACRE__RANK_SPARSES = 18,   /* the lists of sparse ranges and of their budgets */
    ACRE__RANK_SPARSE = 19,    /* one budget with its ranges: held while pieces are mapped */
    ACRE__RANK_EXTENT = 19,    /* one extent's record */
    ACRE__RANK_DEVICE = 20,    /* one device's streams, events, limbo */
    ACRE__RANK_VM = 30,        /* acre_vm_*: chunks, reservations, mappings */
    ACRE__RANK_RANGE = 40,     /* address ranges of one device */
    ACRE__RANK_CHUNK = 50,     /* chunk store of one device */
    ACRE__RANK_BOOK = 60,      /* blocks by address */
    ACRE__RANK_STRAYS = 70,    /* transfers of failed copies: held while acre waits for them */
    ACRE__RANK_SOFT = 80,      /* all state of the soft driver */
    ACRE__RANK_LEAF = 100      /* no other lock is taken while it is held */
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
/* May return spuriously: callers loop on their condition. */
void acre__cond_wait(struct acre__cond *cond, struct acre__lock *lock);
/* As acre__cond_wait, but returns at time `ns` of CLOCK_MONOTONIC at the latest. Not for virtual
 * threads. */
void acre__cond_wait_until(struct acre__cond *cond, struct acre__lock *lock, uint64_t ns);
void acre__cond_wake(struct acre__cond *cond); /* wakes all waiters */

/* The seeded scheduler sets these hooks while it runs virtual threads; NULL otherwise. Callers
 * check is_virtual first: `yield` and `point` work on virtual threads only. */
struct acre__sched_hooks {
    int (*is_virtual)(void); /* is the caller a virtual thread right now? */
    void (*yield)(void);     /* the caller is blocked: run other threads, then return */
    void (*point)(void);     /* may run other threads first */
};
void acre__sched_hooks_set(const struct acre__sched_hooks *hooks);
const struct acre__sched_hooks *acre__sched_hooks_get(void);

/* A scheduling point: other virtual threads may run here. A no-op on real threads. */
void acre__sched_point(void);

#endif
