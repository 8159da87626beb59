/* The calling thread's record: found through one initial-exec TLS pointer, created on first use,
 * freed at thread exit.
 *
 * Virtual host threads (soft/sched.h) run on one real thread and swap this pointer. So each of them
 * has its own record, and with it its own caches and context stack. */
#ifndef ACRE_BASE_THREAD_H
#define ACRE_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "acre.h"

enum { ACRE__DETAIL_BYTES = 512, ACRE__HELD_LOCKS = 16 };

struct acre__lock;

struct acre__thread {
    char detail[ACRE__DETAIL_BYTES];
    uint64_t id;                                     /* never reused; 0: the shared record */
    const struct acre__lock *held[ACRE__HELD_LOCKS]; /* held locks, oldest first (debug builds) */
    unsigned held_count;
    void *pool;  /* thread-local cache of pool memory (pool/pool.h), created on first use */
    void *trace; /* trace writer (watch/trace_writer.h), created on first use */
    void *plan;  /* plan whose step the thread is in (plan/plan.h), if `plan_ends` is current */
    uint64_t plan_ends;
    int inner;          /* depth of public functions that acre itself calls */
    const void *about;  /* address of the block that the last failure is about, or NULL */
    int is_told;        /* the failure of the call was logged with more than its detail */
    void *stacks;       /* call stacks captured last (base/stack_memo.h), created on first use */
    int wait_forbidden; /* calls inside another one of acre's that holds a lock: they do not wait */
    int may_wait;       /* the last ACRE_E_SUSPENDED is one to wait for (space/mapped.h) */
    int uses_idle;      /* the thread may copy free memory of pools (space/book.h) */
    void *soft;         /* the soft driver's record of this thread, created on first use */
};

/* Initial-exec: an access takes few loads and never allocates. The attribute is written here so
 * that it does not depend on a compiler flag. */
extern _Thread_local struct acre__thread *acre__thread_pointer
    __attribute__((tls_model("initial-exec")));

/* Returns the calling thread's record, never NULL. Out of memory, and in the last round of
 * destructors at thread exit, it returns a shared record with id 0 and a detail that says so.
 * Several threads may get the shared record at the same time, so it is read-only. */
struct acre__thread *acre__thread_self(void);

/* Creates a record for a virtual thread; NULL if out of memory. */
struct acre__thread *acre__thread_create(void);
/* Runs the exit hooks for the record and frees it. No thread may be using the record. */
void acre__thread_destroy(struct acre__thread *thread);

/* Registers `hook` to run at the exit of every thread that has a record, with acre__thread_pointer
 * set to that record. Hooks run newest first. At most 8; register each once, at load or under the
 * caller's pthread_once. */
void acre__thread_at_exit(void (*hook)(struct acre__thread *thread));

/* As pthread_create, for threads of the library: they block all signals, which go to the program's
 * threads. */
int acre__thread_start(pthread_t *thread, void *(*fn)(void *user), void *user);

/* Number of processors that the calling thread may run on; at least 1. */
unsigned acre__cpu_count(void);

/* Makes the library unusable in children forked from now on, because a driver does not survive a
 * fork. acre_open, acre_device_count and acre_trace_start call it. Returns ACRE_E_HOST_MEMORY when
 * the fork handler cannot be registered. */
acre_status acre__watch_fork(void);

/* Returns ACRE_OK, or ACRE_E_FORKED in a child forked after acre__watch_fork. Public functions call
 * it before they take a lock, which a thread of the parent may have held at the fork. Most call it
 * through acre__device_enter, acre__live_check or acre__live_use. Hits of pools and plans do not
 * call it: the fork handler makes them miss. */
acre_status acre__enter(void);

#endif
