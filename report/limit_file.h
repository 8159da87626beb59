/* The file of `acre run --limit`: how much device memory the processes of one run may have, and how
 * much each of them has.
 *
 * `acre run` creates it as an anonymous file. The shim (shim/shim_limit.c) maps it in every process
 * of the run and charges memory before it calls the driver. `acre limit` reads and changes it.
 *
 * Consistency. `used` is the sum of the slots, and never grows above `limit`. A robust mutex
 * protects both. If a process dies while it holds the mutex, the next one to lock it computes the
 * sum again. A process that is killed leaves its slot behind; a request that would be refused first
 * frees the slots of processes that have ended.
 *
 * A reader trusts no field: any process of the run can write anything to the file. */
#ifndef ACRE_LIMIT_FILE_H
#define ACRE_LIMIT_FILE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define LIMIT_NAME "acre-limit"                  /* of the anonymous file */
#define LIMIT_MAGIC UINT64_C(0x3174696d696c6361) /* "aclimit1" */

enum {
    LIMIT_SLOTS = 1024, /* processes that have used CUDA and have not ended */
    LIMIT_EACH = 1,     /* flag: each process has the whole limit for itself */
    LIMIT_ALL = 2       /* flag: `acre run` charges contexts and modules */
};

struct limit_slot {
    _Atomic int64_t pid;    /* 0: free */
    _Atomic uint64_t start; /* of the process, in clock ticks since boot: a pid may be used again */
    _Atomic uint64_t used;  /* bytes, with `other` */
    _Atomic uint64_t other; /* bytes of contexts, modules and the like (LIMIT_ALL) */
};

struct limit_file {
    uint64_t magic;
    uint32_t flags;
    _Atomic uint32_t sequence; /* changes with the limit; a futex, which acre__limit_set wakes */
    _Atomic uint64_t limit;    /* bytes */
    _Atomic uint64_t used;     /* bytes, of all slots */
    pthread_mutex_t lock;      /* robust, shared by processes */
    struct limit_slot slots[LIMIT_SLOTS];
};

/* Fills a new file, which is zero. Returns 0, or an error of errno. */
int acre__limit_init(struct limit_file *file, uint64_t limit, uint32_t flags);

/* Sets the limit and wakes those who wait for a change of `sequence`. */
void acre__limit_set(struct limit_file *file, uint64_t limit);

/* Gives the calling process a slot without bytes. If the process has one already, it has called
 * exec since, and that slot's bytes are gone. Returns NULL if all slots are taken. */
struct limit_slot *acre__limit_enter(struct limit_file *file);

/* Frees the slot of the calling process, if it has one. */
void acre__limit_leave(struct limit_file *file);

/* Adds bytes to the slot and returns 1, or returns 0 if the limit would be exceeded. */
int acre__limit_file_charge(struct limit_file *file, struct limit_slot *slot, uint64_t bytes);
/* Adds bytes that are in use already, whatever the limit. */
void acre__limit_file_force(struct limit_file *file, struct limit_slot *slot, uint64_t bytes);
/* Sets `other` of a slot, whatever the limit. Does nothing if a process holds the lock, or if the
 * slot has `used` no more. */
void acre__limit_set_other(struct limit_file *file, struct limit_slot *slot, uint64_t used,
                           uint64_t other);
void acre__limit_refund(struct limit_file *file, struct limit_slot *slot, uint64_t bytes);

/* Returns how many bytes a charge to the slot may have now; slot NULL: a process without one. */
uint64_t acre__limit_left(struct limit_file *file, const struct limit_slot *slot);

/* Returns 1 if the process of a slot has ended, and the slot is left. Takes no lock: the tool must
 * not wait for a lock in memory of other users. */
int acre__limit_has_ended(const struct limit_slot *slot);

#endif
