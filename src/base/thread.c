/* The calling thread's record: created on first use, found through one TLS pointer, freed at thread
 * exit. Also the check for a forked child.
 *
 * Invariants. A real thread's record is the value of one pthread key, whose destructor frees it.
 * acre__thread_pointer points to that record or, while the seeded scheduler runs a virtual thread,
 * to the virtual thread's record. One thread at a time touches a record. A thread that calls acre
 * after its record was freed (from the destructor of a later key) gets a new one, and the C library
 * runs our destructor again. It does so PTHREAD_DESTRUCTOR_ITERATIONS times in all: in the last
 * round the thread gets the shared record.
 *
 * Nothing takes a lock: ids, hooks and the fork state are atomics. */
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

/* State of the process, as acre__enter sees it. */
enum thread_process { PROCESS_NEW = 0, PROCESS_WATCHED, PROCESS_FORKED };

typedef void (*thread_hook)(struct acre__thread *thread);

_Thread_local struct acre__thread *acre__thread_pointer;
static _Thread_local unsigned thread_ends; /* how often the destructor ran in this thread */

static struct {
    pthread_once_t once; /* creates the key */
    pthread_key_t key;
    int has_key;
    _Atomic uint64_t ids;        /* ids assigned so far */
    _Atomic unsigned hook_count; /* slots claimed in hooks */
    _Atomic(thread_hook) hooks[THREAD_HOOKS];
    _Atomic int process; /* enum thread_process */
} threads = {.once = PTHREAD_ONCE_INIT};

static struct acre__thread thread_shared = {
    .detail = "no host memory was left to store the detail of a failure in this thread",
};

static void thread_run_hooks(struct acre__thread *thread) {
    unsigned count = atomic_load_explicit(&threads.hook_count, memory_order_relaxed);
    if (count > THREAD_HOOKS)
        count = THREAD_HOOKS;
    while (count > 0) {
        thread_hook hook = atomic_load_explicit(&threads.hooks[--count], memory_order_acquire);
        if (hook)
            hook(thread); /* NULL: the slot is claimed but the hook is not stored yet */
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

    /* Without a key nothing would free the record, so none is created. */
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
    long cores = sysconf(_SC_NPROCESSORS_ONLN); /* the machine has more than a cpu_set_t holds */
    return cores > 0 ? (unsigned)cores : 1;
}

/* Clears the child's thread-local pool cache and plan, which a hit uses without calling
 * acre__enter: the hit then misses. */
static void thread_in_child(void) {
    if (acre__thread_pointer) {
        acre__thread_pointer->pool = NULL;
        acre__thread_pointer->plan = NULL;
    }
    atomic_store_explicit(&threads.process, PROCESS_FORKED, memory_order_relaxed);
}

/* Two threads may register the handler twice, which is harmless. A lock could be held at a fork by
 * a thread that does not exist in the child. */
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
    return acre__fail(ACRE_E_FORKED,
                      "this process was forked after its parent had started to use acre; only "
                      "a program started with exec can use acre");
}
