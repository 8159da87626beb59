/* The calling thread's record: made on first use, found by one TLS pointer, freed at thread exit;
 * and the check that the process is not a forked child.
 *
 * Invariants. A real thread's own record is the value of one pthread key, whose destructor frees
 * it; acre__thread_pointer is that record, or, while the seeded scheduler runs a virtual thread on
 * it, the virtual thread's. A record is touched by one thread at a time. A thread that calls into
 * acre after its record went (from the destructor of a later key) gets a new one, and the C library
 * runs our destructor again, PTHREAD_DESTRUCTOR_ITERATIONS times in all: in the last round it gets
 * none.
 *
 * Nothing is locked: ids, hooks and the fork state are atomics. */
#include "base/thread.h"

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"

enum { THREAD_HOOKS = 8 };

/* Of the process, as acre__enter sees it. */
enum thread_process { PROCESS_NEW = 0, PROCESS_WATCHED, PROCESS_FORKED };

typedef void (*thread_hook)(struct acre__thread *thread);

_Thread_local struct acre__thread *acre__thread_pointer;
static _Thread_local unsigned thread_ends; /* times that the destructor ran */

static struct {
    pthread_once_t once; /* makes the key */
    pthread_key_t key;
    int has_key;
    _Atomic uint64_t ids;        /* given out so far */
    _Atomic unsigned hook_count; /* slots claimed in hooks */
    _Atomic(thread_hook) hooks[THREAD_HOOKS];
    _Atomic int process; /* enum thread_process */
} threads = {.once = PTHREAD_ONCE_INIT};

static struct acre__thread thread_shared = {
    .detail = "no host memory was left to note what went wrong in this thread",
};

static void thread_run_hooks(struct acre__thread *thread) {
    unsigned count = atomic_load_explicit(&threads.hook_count, memory_order_relaxed);
    if (count > THREAD_HOOKS)
        count = THREAD_HOOKS;
    while (count > 0) {
        thread_hook hook = atomic_load_explicit(&threads.hooks[--count], memory_order_acquire);
        if (hook)
            hook(thread); /* NULL: the slot is claimed, the hook not yet in it */
    }
}

/* The key's destructor. By now the C library has set the key's value to NULL. */
static void thread_exit(void *value) {
    acre__thread_pointer = NULL;
    acre__thread_destroy(value);
    thread_ends++;
}

static void thread_make_key(void) {
    threads.has_key = pthread_key_create(&threads.key, thread_exit) == 0;
}

struct acre__thread *acre__thread_create(void) {
    struct acre__thread *thread = calloc(1, sizeof *thread);
    if (thread)
        thread->id = atomic_fetch_add_explicit(&threads.ids, 1, memory_order_relaxed) + 1;
    return thread;
}

void acre__thread_destroy(struct acre__thread *thread) {
    if (!thread)
        return;
    struct acre__thread *caller = acre__thread_pointer;
    acre__thread_pointer = thread;
    thread_run_hooks(thread);
    acre__thread_pointer = caller;
    free(thread);
}

struct acre__thread *acre__thread_self(void) {
    if (acre__thread_pointer)
        return acre__thread_pointer;

    /* Without a key the record could never be freed; then it is not made. */
    pthread_once(&threads.once, thread_make_key);
    if (!threads.has_key || thread_ends + 1 >= PTHREAD_DESTRUCTOR_ITERATIONS)
        return &thread_shared;
    struct acre__thread *thread = acre__thread_create();
    if (!thread)
        return &thread_shared;
    if (pthread_setspecific(threads.key, thread) != 0) {
        free(thread);
        return &thread_shared;
    }
    acre__thread_pointer = thread;
    return thread;
}

void acre__thread_at_exit(void (*hook)(struct acre__thread *thread)) {
    unsigned slot = atomic_fetch_add_explicit(&threads.hook_count, 1, memory_order_relaxed);
    assert(slot < THREAD_HOOKS);
    if (slot < THREAD_HOOKS)
        atomic_store_explicit(&threads.hooks[slot], hook, memory_order_release);
}

int acre__thread_start(pthread_t *thread, void *(*fn)(void *user), void *user) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(thread, NULL, fn, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

unsigned acre__cpu_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (unsigned)CPU_COUNT(&set);
    long cores = sysconf(_SC_NPROCESSORS_ONLN); /* more than a cpu_set_t has room for */
    return cores > 0 ? (unsigned)cores : 1;
}

/* The child's one thread loses what a call might use without asking anything else. */
static void thread_in_child(void) {
    if (acre__thread_pointer) {
        acre__thread_pointer->pool = NULL;
        acre__thread_pointer->plan = NULL;
    }
    atomic_store_explicit(&threads.process, PROCESS_FORKED, memory_order_relaxed);
}

/* Two threads may both come here and register the handler twice, which does no harm; a lock around
 * it might be held at a fork by a thread the child lacks. */
acre_status acre__watch_fork(void) {
    if (atomic_load_explicit(&threads.process, memory_order_relaxed) != PROCESS_NEW)
        return ACRE_OK;
    if (pthread_atfork(NULL, NULL, thread_in_child) != 0)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory to register the fork handler");
    int expected = PROCESS_NEW;
    atomic_compare_exchange_strong_explicit(&threads.process, &expected, PROCESS_WATCHED,
                                            memory_order_relaxed, memory_order_relaxed);
    return ACRE_OK;
}

acre_status acre__enter(void) {
    /* Relaxed: a child has one thread, which ran the handler itself, and WATCHED guards no data. */
    if (atomic_load_explicit(&threads.process, memory_order_relaxed) != PROCESS_FORKED)
        return ACRE_OK;
    return acre__fail(ACRE_E_FORKED, "this process is a fork of one that had opened a device: only "
                                     "a program newly started (exec) can use acre");
}
