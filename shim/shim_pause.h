/* Calls of the program that use device memory, and how they are stopped while memory is away
 * (acre_suspend; base/pause.h).
 *
 * A hook of such a call is a *user*: it begins before it calls the driver, and ends after it. While
 * calls are stopped, a hook waits before it begins. A program that is suspended in the middle of a
 * request therefore continues after acre_resume as if nothing had happened. What acre itself calls
 * goes to the driver without a hook, and never waits.
 *
 * Frees do not wait, and neither do calls that touch no memory, such as waiting for a stream.
 *
 * A call that is not stopped pays for two plain stores and a load: every thread has a record of its
 * own, and whoever stops the calls makes all threads execute a barrier (base/inside.h). */
#ifndef ACRE_SHIM_SHIM_PAUSE_H
#define ACRE_SHIM_SHIM_PAUSE_H

#include <stdatomic.h>
#include <stdint.h>

#include "driver/driver.h"

/* A thread's record. Only the thread writes `depth` and `call`. */
struct shim_user {
    _Alignas(64) _Atomic uint32_t depth; /* calls that it is in: a callback may make another call */
    _Atomic int is_strong;               /* it executes a barrier itself, see base/inside.h */
    _Atomic int is_taken;                /* by a thread that has not ended */
    int is_shared;                       /* by threads without a record of their own */
    const char *_Atomic call;            /* the last one */
    struct shim_user *next;
};

extern _Thread_local struct shim_user *acre__user_self __attribute__((tls_model("initial-exec")));
extern _Atomic uint32_t acre__users_are_stopped;

/* Begins a call in all other cases: the thread's first call, or calls are stopped. */
struct shim_user *acre__user_begin_slowly(const char *call);
void acre__user_end_shared(struct shim_user *user);

/* Waits while calls are stopped. Returns what acre__user_end takes. */
static inline struct shim_user *acre__user_begin(const char *call) {
    struct shim_user *self = acre__user_self;
    if (!self || atomic_load_explicit(&self->is_strong, memory_order_relaxed))
        return acre__user_begin_slowly(call);
    uint32_t depth = atomic_load_explicit(&self->depth, memory_order_relaxed);
    atomic_store_explicit(&self->call, call, memory_order_relaxed);
    atomic_store_explicit(&self->depth, depth + 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* the barrier of the other side does the rest */
    /* Relaxed: acre and the driver protect what a resume has written by their own locks. */
    if (depth || !atomic_load_explicit(&acre__users_are_stopped, memory_order_relaxed))
        return self;
    atomic_store_explicit(&self->depth, 0, memory_order_release);
    return acre__user_begin_slowly(call);
}

static inline CUresult acre__user_end(struct shim_user *user, CUresult result) {
    if (user && user->is_shared)
        acre__user_end_shared(user);
    else if (user)
        atomic_store_explicit(&user->depth,
                              atomic_load_explicit(&user->depth, memory_order_relaxed) - 1,
                              memory_order_release);
    return result;
}

/* Begins a call unless calls are stopped. Returns 0 then. */
int acre__user_try(const char *call, struct shim_user **user_out);

/* From now on acre_suspend stops the calls. Called once, when the shim serves. */
void acre__users_set(void);
/* In a forked child. */
void acre__users_forget(void);

/* Finds an object of the program that has the address of a launch or a copy of the driver: its
 * calls are not stopped (shim_around.c). Returns 0 if there is none; `text` names both. */
int acre__around_find(char *text, size_t bytes);

#endif
