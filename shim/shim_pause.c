/* See shim_pause.h.
 *
 * Locks: `stop` is held by a thread that stops the calls or lets them go, also while it waits;
 * `lock` guards the list of records, and is the one that waiting calls use. Records are never
 * freed: a thread that ends leaves its record to another one. */
#include "shim_pause.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/inside.h"
#include "base/pause.h"
#include "base/status.h"
#include "shim_limit.h"
#include "shim_serve.h"

enum { PAUSE_POLL_NS = 50000, PAUSE_CAPTURE_NS = 1000000 };

_Thread_local struct shim_user *acre__user_self;
_Atomic uint32_t acre__users_are_stopped;

static struct {
    pthread_mutex_t stop, lock;
    pthread_cond_t go;
    pthread_once_t once;
    pthread_key_t key; /* a thread's record, to return it at the end */
    int has_key;
    struct shim_user *_Atomic first;
    struct shim_user shared;
    unsigned stops; /* stops that have not ended */
} users = {.stop = PTHREAD_MUTEX_INITIALIZER,
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .go = PTHREAD_COND_INITIALIZER,
           .once = PTHREAD_ONCE_INIT,
           .shared = {.is_strong = 1, .is_shared = 1}};

/* ---- records of threads ---- */

static void pause_leave_thread(void *record) {
    struct shim_user *user = record;
    acre__user_self = NULL;
    atomic_store_explicit(&user->is_taken, 0, memory_order_release);
}

static void pause_make_key(void) {
    users.has_key = pthread_key_create(&users.key, pause_leave_thread) == 0;
}

/* Takes the record of a thread that has ended, or a new one. Returns NULL without memory. */
static struct shim_user *pause_take(void) {
    struct shim_user *user = atomic_load_explicit(&users.first, memory_order_relaxed);
    while (user && atomic_load_explicit(&user->is_taken, memory_order_acquire))
        user = user->next;
    if (!user && (user = aligned_alloc(_Alignof(struct shim_user), sizeof *user))) {
        *user = (struct shim_user){.next = atomic_load(&users.first)};
        atomic_store_explicit(&users.first, user, memory_order_release);
    }
    if (user)
        atomic_store_explicit(&user->is_taken, 1, memory_order_relaxed);
    return user;
}

/* Gives the thread a record. If that fails, it uses the shared one. */
static struct shim_user *pause_record(void) {
    pthread_once(&users.once, pause_make_key);
    if (!users.has_key)
        return &users.shared;
    pthread_mutex_lock(&users.lock);
    struct shim_user *user = pause_take();
    pthread_mutex_unlock(&users.lock);
    if (!user)
        return &users.shared;
    if (pthread_setspecific(users.key, user)) {
        atomic_store_explicit(&user->is_taken, 0, memory_order_release);
        return &users.shared;
    }
    return acre__user_self = user;
}

/* ---- calls ---- */

/* Marks the thread as inside, with a full barrier before the flag is read. Returns 0, and takes the
 * mark back, if calls are stopped. */
static int pause_mark(struct shim_user *user, const char *call) {
    atomic_store_explicit(&user->call, call, memory_order_relaxed);
    uint32_t depth = atomic_fetch_add_explicit(&user->depth, 1, memory_order_seq_cst);
    if ((depth && !user->is_shared) ||
        !atomic_load_explicit(&acre__users_are_stopped, memory_order_seq_cst))
        return 1;
    atomic_fetch_sub_explicit(&user->depth, 1, memory_order_seq_cst);
    return 0;
}

static struct shim_user *pause_self(void) {
    struct shim_user *user = acre__user_self ? acre__user_self : pause_record();
    /* Outside of a call only: the mark of a call in progress was made without a barrier. */
    if (!user->is_shared && !atomic_load_explicit(&user->depth, memory_order_relaxed))
        atomic_store_explicit(&user->is_strong,
                              !atomic_load_explicit(&acre__inside_is_cheap, memory_order_relaxed),
                              memory_order_seq_cst);
    return user;
}

int acre__user_try(const char *call, struct shim_user **user_out) {
    *user_out = NULL;
    if (!acre__serve.options.is_on)
        return 1;
    struct shim_user *user = pause_self();
    if (!pause_mark(user, call))
        return 0;
    *user_out = user;
    return 1;
}

struct shim_user *acre__user_begin_slowly(const char *call) {
    struct shim_user *user;
    int before;
    while (!acre__user_try(call, &user)) {
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE,
                                     &before); /* a launch is no such point */
        pthread_mutex_lock(&users.lock);
        while (atomic_load(&acre__users_are_stopped))
            pthread_cond_wait(&users.go, &users.lock);
        pthread_mutex_unlock(&users.lock);
        (void)pthread_setcancelstate(before, NULL);
    }
    return user;
}

void acre__user_end_shared(struct shim_user *user) {
    atomic_fetch_sub_explicit(&user->depth, 1, memory_order_seq_cst);
}

/* ---- stopping ---- */

static uint64_t pause_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_sleep(long ns) {
    const struct timespec moment = {.tv_nsec = ns};
    nanosleep(&moment, NULL);
}

static void pause_release(void) {
    pthread_mutex_lock(&users.lock);
    atomic_store(&acre__users_are_stopped, 0);
    pthread_cond_broadcast(&users.go);
    pthread_mutex_unlock(&users.lock);
}

/* Waits until a thread is outside. */
static acre_status pause_wait(const struct shim_user *user, int is_ordered, uint64_t until_ns) {
    if (!is_ordered && !atomic_load(&user->is_strong))
        return acre__fail(ACRE_E_BUSY, "the kernel refuses membarrier, so the program's calls "
                                       "cannot be stopped");
    while (atomic_load(&user->depth)) {
        if (pause_now() >= until_ns)
            return acre__fail(ACRE_E_BUSY, "a call of %s has not returned in time",
                              atomic_load(&user->call));
        pause_sleep(PAUSE_POLL_NS);
    }
    return ACRE_OK;
}

static acre_status pause_await_captures(uint64_t until_ns) {
    while (acre__captures_any()) {
        if (pause_now() >= until_ns)
            return acre__fail(ACRE_E_CAPTURING, "a stream is being captured");
        pause_sleep(PAUSE_CAPTURE_NS);
    }
    return ACRE_OK;
}

/* Stops new calls, and waits for those that are inside. */
static acre_status pause_close(uint64_t until_ns) {
    atomic_store(&acre__users_are_stopped, 1);
    int is_ordered = acre__inside_order();
    pthread_mutex_lock(&users.lock); /* a thread that gets a record later sees the flag */
    const struct shim_user *user = atomic_load(&users.first);
    pthread_mutex_unlock(&users.lock);
    acre_status status = pause_wait(&users.shared, 1, until_ns);
    for (; user && !status; user = user->next)
        status = pause_wait(user, is_ordered, until_ns);
    if (!status && acre__captures_any())
        status = acre__fail(ACRE_E_CAPTURING, "a stream is being captured");
    if (!status && acre__blocks_any_exported())
        status = acre__fail(ACRE_E_BUSY, "memory of this program is shared with another process or "
                                         "device (cuIpcGetMemHandle, "
                                         "cuMemGetHandleForAddressRange); free it first");
    if (status)
        pause_release();
    return status;
}

static acre_status pause_stop(uint64_t until_ns) {
    char object[256];
    pthread_mutex_lock(&users.stop);
    acre_status status = ACRE_OK;
    if (!users.stops && acre__around_find(object, sizeof object))
        status =
            acre__fail(ACRE_E_BUSY, "%s past acre's hooks, so its calls cannot be stopped", object);
    if (!users.stops && !status) {
        /* The threads that capture must be able to end their capture. */
        while ((status = pause_await_captures(until_ns)) == ACRE_OK &&
               (status = pause_close(until_ns)) == ACRE_E_CAPTURING)
            continue;
    }
    users.stops += status ? 0 : 1;
    if (users.stops == 1 && !status) {
        /* What has been freed need not be kept. A thread that closes a device may wait for this
         * suspend, so this does not wait for it. */
        if (acre__serve_try()) {
            acre__captures_drain(0);
            acre__serve_leave();
        }
    }
    pthread_mutex_unlock(&users.stop);
    return status;
}

static void pause_go(void) {
    pthread_mutex_lock(&users.stop);
    if (users.stops && --users.stops == 0)
        pause_release();
    pthread_mutex_unlock(&users.stop);
}

void acre__users_set(void) {
    static const struct acre__pause_hooks hooks = {pause_stop, pause_go, acre__serve_hold,
                                                   acre__serve_release, acre__limit_program_bytes};
    acre__pause_set(&hooks);
}

void acre__users_forget(void) {
    pthread_mutex_init(&users.stop, NULL); /* the parent may have held the locks */
    pthread_mutex_init(&users.lock, NULL);
    pthread_cond_init(&users.go, NULL);
    atomic_store(&users.first, NULL);
    atomic_store(&users.shared.depth, 0);
    atomic_store(&acre__users_are_stopped, 0);
    users.stops = 0;
    acre__user_self = NULL;
}
