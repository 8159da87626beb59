/* See limit_file.h. The lock is held for a few instructions, and never while /proc is read: a
 * process that is stopped meanwhile (SIGSTOP) would stop all others. */
#include "limit_file.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- numbers that other processes may have damaged ---- */

static uint64_t limit_load(const _Atomic uint64_t *value) {
    return atomic_load_explicit(value, memory_order_relaxed);
}

static void limit_store(_Atomic uint64_t *value, uint64_t bytes) {
    atomic_store_explicit(value, bytes, memory_order_relaxed);
}

static uint64_t limit_above_zero(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

/* ---- processes ---- */

/* /proc could not be read: the process is out of file descriptors, for example. */
#define LIMIT_UNKNOWN UINT64_MAX

/* Returns when a process started, or 0 if it has ended. Nobody need have waited for it: a zombie
 * has no memory. A main thread that has ended before others is no zombie. */
static uint64_t limit_start_of(int64_t pid) {
    char path[64], text[1024];
    unsigned long long start = 0;
    long threads = 0;
    char state = 0;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *in = fopen(path, "re");
    if (!in) /* without /proc, after chroot, nothing is known */
        return errno == ENOENT && access("/proc/self/stat", F_OK) == 0 ? 0 : LIMIT_UNKNOWN;
    size_t length = fread(text, 1, sizeof text - 1, in);
    fclose(in);
    text[length] = '\0';
    const char *rest = strrchr(text, ')'); /* the name may contain anything */
    if (!rest || sscanf(rest,
                        ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld "
                        "%*d %llu",
                        &state, &threads, &start) != 3)
        return 0;
    return (state == 'Z' || state == 'X') && threads <= 1 ? 0 : start;
}

/* The number of this process in /proc, which others look it up in: in a pid namespace of its own,
 * getpid returns another one. */
static int64_t limit_self(void) {
    char text[32] = "";
    ssize_t length = readlink("/proc/self", text, sizeof text - 1);
    return length > 0 ? strtoll(text, NULL, 10) : getpid();
}

/* ---- the lock ---- */

/* The process that held the lock has died: its sum may be half changed. */
static void limit_repair(struct limit_file *file) {
    uint64_t sum = 0;
    for (int i = 0; i < LIMIT_SLOTS; i++)
        sum += limit_load(&file->slots[i].used);
    limit_store(&file->used, sum);
    (void)pthread_mutex_consistent(&file->lock);
}

static void limit_lock(struct limit_file *file) {
    if (pthread_mutex_lock(&file->lock) == EOWNERDEAD)
        limit_repair(file);
}

static int limit_try_lock(struct limit_file *file) {
    int error = pthread_mutex_trylock(&file->lock);
    if (error == EOWNERDEAD)
        limit_repair(file);
    return !error || error == EOWNERDEAD;
}

static void limit_unlock(struct limit_file *file) {
    (void)pthread_mutex_unlock(&file->lock);
}

/* ---- with the lock held ---- */

static void limit_take_back(struct limit_file *file, struct limit_slot *slot, uint64_t bytes) {
    uint64_t used = limit_load(&slot->used), less = bytes < used ? bytes : used;
    limit_store(&slot->used, used - less);
    limit_store(&file->used, limit_above_zero(limit_load(&file->used), less));
}

/* The bytes go before the pid, so that a process that dies here leaves none in a free slot. */
static void limit_drop(struct limit_file *file, struct limit_slot *slot) {
    limit_take_back(file, slot, UINT64_MAX);
    limit_store(&slot->other, 0);
    atomic_store_explicit(&slot->pid, 0, memory_order_relaxed);
}

static uint64_t limit_left(const struct limit_file *file, const struct limit_slot *slot) {
    const _Atomic uint64_t *used = file->flags & LIMIT_EACH ? &slot->used : &file->used;
    return limit_above_zero(limit_load(&file->limit), limit_load(used));
}

/* Returns the number of the slot with that pid, or -1. */
static int limit_index(const struct limit_file *file, int64_t pid) {
    for (int i = 0; i < LIMIT_SLOTS; i++) {
        if (atomic_load_explicit(&file->slots[i].pid, memory_order_relaxed) == pid)
            return i;
    }
    return -1;
}

/* ---- without the lock ---- */

/* Frees the slots of processes that have ended. */
static void limit_reclaim(struct limit_file *file) {
    int64_t self = limit_self();
    for (int i = 0; i < LIMIT_SLOTS; i++) {
        struct limit_slot *slot = &file->slots[i];
        int64_t pid = atomic_load_explicit(&slot->pid, memory_order_relaxed);
        uint64_t start = limit_load(&slot->start);
        if (!pid || pid == self || !acre__limit_has_ended(slot))
            continue;
        limit_lock(file);
        /* Another process may have got the slot since. */
        if (atomic_load_explicit(&slot->pid, memory_order_relaxed) == pid &&
            limit_load(&slot->start) == start)
            limit_drop(file, slot);
        limit_unlock(file);
    }
}

/* ---- the file ---- */

int acre__limit_init(struct limit_file *file, uint64_t limit, uint32_t flags) {
    pthread_mutexattr_t shared;
    int error = pthread_mutexattr_init(&shared);
    if (error)
        return error;
    error = pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    if (!error)
        error = pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    if (!error)
        error = pthread_mutex_init(&file->lock, &shared);
    (void)pthread_mutexattr_destroy(&shared);
    limit_store(&file->limit, limit);
    file->flags = flags;
    file->magic = LIMIT_MAGIC;
    return error;
}

void acre__limit_set(struct limit_file *file, uint64_t limit) {
    atomic_store_explicit(&file->limit, limit, memory_order_seq_cst);
    atomic_fetch_add_explicit(&file->sequence, 1, memory_order_seq_cst);
    (void)syscall(SYS_futex, &file->sequence, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

struct limit_slot *acre__limit_enter(struct limit_file *file) {
    int64_t pid = limit_self();
    uint64_t start = limit_start_of(pid);
    struct limit_slot *slot = NULL;
    if (limit_index(file, 0) < 0)
        limit_reclaim(file);
    limit_lock(file);
    int at = limit_index(file, pid); /* left by exec, or by another process */
    if (at >= 0)
        limit_drop(file, &file->slots[at]);
    if ((at = limit_index(file, 0)) >= 0) {
        slot = &file->slots[at];
        limit_store(&slot->start, start);
        atomic_store_explicit(&slot->pid, pid, memory_order_relaxed);
    }
    limit_unlock(file);
    return slot;
}

void acre__limit_leave(struct limit_file *file) {
    int64_t pid = limit_self();
    if (limit_index(file, pid) < 0) /* as in nearly all processes that begin */
        return;
    limit_lock(file);
    int at = limit_index(file, pid);
    if (at >= 0)
        limit_drop(file, &file->slots[at]);
    limit_unlock(file);
}

int acre__limit_file_charge(struct limit_file *file, struct limit_slot *slot, uint64_t bytes) {
    if (bytes > limit_left(file, slot) && !(file->flags & LIMIT_EACH))
        limit_reclaim(file);
    limit_lock(file);
    int has_room = bytes <= limit_left(file, slot);
    if (has_room) {
        limit_store(&slot->used, limit_load(&slot->used) + bytes);
        limit_store(&file->used, limit_load(&file->used) + bytes);
    }
    limit_unlock(file);
    return has_room;
}

void acre__limit_file_force(struct limit_file *file, struct limit_slot *slot, uint64_t bytes) {
    limit_lock(file);
    limit_store(&slot->used, limit_load(&slot->used) + bytes);
    limit_store(&file->used, limit_load(&file->used) + bytes);
    limit_unlock(file);
}

void acre__limit_set_other(struct limit_file *file, struct limit_slot *slot, uint64_t used,
                           uint64_t other) {
    if (!limit_try_lock(file))
        return;
    if (limit_load(&slot->used) == used) {
        uint64_t before = limit_load(&slot->other);
        limit_store(&slot->other, other);
        limit_store(&slot->used, limit_above_zero(used, before) + other);
        limit_store(&file->used, limit_above_zero(limit_load(&file->used), before) + other);
    }
    limit_unlock(file);
}

void acre__limit_refund(struct limit_file *file, struct limit_slot *slot, uint64_t bytes) {
    limit_lock(file);
    limit_take_back(file, slot, bytes);
    limit_unlock(file);
}

uint64_t acre__limit_left(struct limit_file *file, const struct limit_slot *slot) {
    static const struct limit_slot none;
    limit_reclaim(file);
    return limit_left(file, slot ? slot : &none);
}

int acre__limit_has_ended(const struct limit_slot *slot) {
    uint64_t now = limit_start_of(atomic_load_explicit(&slot->pid, memory_order_relaxed));
    uint64_t then = limit_load(&slot->start);
    return !now || (now != then && now != LIMIT_UNKNOWN && then != LIMIT_UNKNOWN);
}
