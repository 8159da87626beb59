/* Mutexes with ranks, condition variables, and the hooks by which the seeded scheduler replaces
 * them.
 *
 * Invariant, checked in debug builds: a thread takes locks in strictly rising rank, so locks cannot
 * deadlock. The list of held locks is in the thread's record and so follows a virtual thread
 * through its switches. A violation is a bug of the library, never of its input: only then, and
 * only in debug builds, this file prints and aborts.
 *
 * A virtual thread must not block in the kernel, since all virtual threads run on one real thread.
 * It calls trylock and yields until it succeeds. */
#include "base/lock.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#ifdef ACRE_DEBUG
#include <stdio.h>
#include <stdlib.h>

#include "base/thread.h"
#endif

static _Atomic(const struct acre__sched_hooks *) lock_hooks;

/* The hooks if the caller is a virtual thread, else NULL. */
static const struct acre__sched_hooks *lock_virtual(void) {
    const struct acre__sched_hooks *hooks = acre__sched_hooks_get();
    return hooks && hooks->is_virtual() ? hooks : NULL;
}

#ifdef ACRE_DEBUG

/* Locks taken by threads without a record (out of host memory). Once this is not 0, releasing a
 * lock that is not in the list proves nothing. */
static _Atomic unsigned lock_unlisted;

static void lock_check_rank(const struct acre__lock *lock) {
    const struct acre__thread *self = acre__thread_self();
    for (unsigned i = 0; i < self->held_count; i++) {
        if (self->held[i]->rank < lock->rank)
            continue;
        fprintf(stderr, "acre: lock '%s' (rank %d) taken while holding '%s' (rank %d)\n",
                lock->name, lock->rank, self->held[i]->name, self->held[i]->rank);
        abort();
    }
    if (self->held_count == ACRE__HELD_LOCKS) {
        fprintf(stderr, "acre: lock '%s' taken while holding %d others\n", lock->name,
                (int)ACRE__HELD_LOCKS);
        abort();
    }
}

static void lock_note_taken(const struct acre__lock *lock) {
    struct acre__thread *self = acre__thread_self();
    if (self->id == 0)
        atomic_fetch_add_explicit(&lock_unlisted, 1, memory_order_relaxed);
    else
        self->held[self->held_count++] = lock;
}

/* Locks may be released in any order, so the rest of the list moves up. */
static void lock_note_given(const struct acre__lock *lock) {
    struct acre__thread *self = acre__thread_self();
    unsigned i = 0;
    while (i < self->held_count && self->held[i] != lock)
        i++;
    if (i == self->held_count) {
        if (atomic_load_explicit(&lock_unlisted, memory_order_relaxed) > 0)
            return;
        fprintf(stderr, "acre: lock '%s' released by a thread that does not hold it\n", lock->name);
        abort();
    }
    self->held_count--;
    for (; i < self->held_count; i++)
        self->held[i] = self->held[i + 1];
    self->held[i] = NULL;
}

#else

static void lock_check_rank(const struct acre__lock *lock) {
    (void)lock;
}
static void lock_note_taken(const struct acre__lock *lock) {
    (void)lock;
}
static void lock_note_given(const struct acre__lock *lock) {
    (void)lock;
}

#endif

static void lock_take_virtual(struct acre__lock *lock, const struct acre__sched_hooks *hooks) {
    while (pthread_mutex_trylock(&lock->mutex) != 0)
        hooks->yield();
}

/* An adaptive mutex: locks are held briefly, so a thread tries some hundred times before it sleeps.
 * glibc's initialisers of mutexes and condition variables cannot fail with these attributes. */
void acre__lock_init(struct acre__lock *lock, const char *name, int rank) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    pthread_mutex_init(&lock->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    lock->name = name;
    lock->rank = rank;
}

void acre__lock_destroy(struct acre__lock *lock) {
    pthread_mutex_destroy(&lock->mutex);
}

void acre__lock_take(struct acre__lock *lock) {
    lock_check_rank(lock);
    const struct acre__sched_hooks *hooks = lock_virtual();
    if (hooks)
        lock_take_virtual(lock, hooks);
    else
        pthread_mutex_lock(&lock->mutex);
    lock_note_taken(lock);
}

void acre__lock_give(struct acre__lock *lock) {
    lock_note_given(lock);
    pthread_mutex_unlock(&lock->mutex);
}

void acre__cond_init(struct acre__cond *cond) {
    pthread_cond_init(&cond->cond, NULL);
}

void acre__cond_destroy(struct acre__cond *cond) {
    pthread_cond_destroy(&cond->cond);
}

/* The lock stays in the list of held locks: the waiting thread cannot take another lock before it
 * has this one again. */
void acre__cond_wait(struct acre__cond *cond, struct acre__lock *lock) {
    const struct acre__sched_hooks *hooks = lock_virtual();
    if (!hooks) {
        int before; /* a thread cancelled in the wait would hold the lock forever */
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
        pthread_cond_wait(&cond->cond, &lock->mutex);
        pthread_setcancelstate(before, &before);
        return;
    }
    pthread_mutex_unlock(&lock->mutex);
    hooks->yield();
    lock_take_virtual(lock, hooks);
}

void acre__cond_wait_until(struct acre__cond *cond, struct acre__lock *lock, uint64_t ns) {
    struct timespec until = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_cond_clockwait(&cond->cond, &lock->mutex, CLOCK_MONOTONIC, &until);
    pthread_setcancelstate(before, &before);
}

void acre__cond_wake(struct acre__cond *cond) {
    pthread_cond_broadcast(&cond->cond);
}

void acre__sched_hooks_set(const struct acre__sched_hooks *hooks) {
    atomic_store_explicit(&lock_hooks, hooks, memory_order_release);
}

const struct acre__sched_hooks *acre__sched_hooks_get(void) {
    return atomic_load_explicit(&lock_hooks, memory_order_acquire);
}

void acre__sched_point(void) {
    const struct acre__sched_hooks *hooks = lock_virtual();
    if (hooks)
        hooks->point();
}
