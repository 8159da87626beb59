/* What the library knows about the calling thread: one record, found by one initial-exec TLS
 * pointer, made on first use, given back at thread exit.
 *
 * Virtual host threads (soft/sched.h) run on one real thread and swap this pointer, so that
 * each has a record, and with it caches and a context stack, of its own. */
#ifndef ACRE_BASE_THREAD_H
#define ACRE_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "acre.h"

enum { ACRE__DETAIL_BYTES = 256, ACRE__HELD_LOCKS = 16 };

struct acre__lock;

struct acre__thread {
    char detail[ACRE__DETAIL_BYTES];
    uint64_t id;                                     /* never reused; 0: the shared record */
    const struct acre__lock *held[ACRE__HELD_LOCKS]; /* locks taken, oldest first (debug) */
    unsigned held_count;
    void *pool;  /* the thread's cache of pools' memory (pool/pool.h), made on first use */
    void *trace; /* its writer of the trace (watch/trace_writer.h), made on first use */
    void *plan;  /* whose step the thread is in, as of `plan_ends` ends of plans (plan/plan.h) */
    uint64_t plan_ends;
    void *soft; /* the soft driver's record of this thread, made by it on first use */
};

/* Few loads on every call, and no allocation behind the library's back: hence initial-exec, said
 * here so that it does not hang on a compiler flag. */
extern _Thread_local struct acre__thread *acre__thread_pointer
    __attribute__((tls_model("initial-exec")));

/* The calling thread's record. Never NULL: if no memory is left for a new one, a shared record is
 * returned, with id 0 and a detail line that says so. Several threads may have that one at a time:
 * it is only read. */
struct acre__thread *acre__thread_self(void);

/* A record that belongs to no real thread yet, for a virtual one; NULL without memory. */
struct acre__thread *acre__thread_create(void);
/* Runs the exit hooks for the record and frees it. The pointer must not be in use. */
void acre__thread_destroy(struct acre__thread *thread);

/* `hook` runs at the exit of every thread that has a record, with acre__thread_pointer set to it;
 * hooks run newest first. At most 8, registered once, at load or under the caller's own once. */
void acre__thread_at_exit(void (*hook)(struct acre__thread *thread));

/* As pthread_create, for a thread of the library's own: signals are for the program's threads. */
int acre__thread_start(pthread_t *thread, void *(*fn)(void *user), void *user);

/* Processors that the calling thread may run on; at least 1. */
unsigned acre__cpu_count(void);

/* From now on a child made by fork cannot use the library: a driver was asked for something. Called
 * by the first open. ACRE_E_HOST_MEMORY when it cannot be watched for. */
acre_status acre__watch_fork(void);

/* ACRE_OK, or ACRE_E_FORKED in a child made after acre__watch_fork. Every public
 * function begins with it, before it takes a lock that a thread of the parent may have held. */
acre_status acre__enter(void);

#endif
