/* Claims: which thread may work in a thread's cache, and when.
 *
 * Owners enter their caches with the protocol of base/inside.h. So another thread can drain the
 * cache of a sleeping thread. Hits of a strong owner do not take the near path (pool_hit.c). When
 * membarrier fails, a claim skips the caches of owners that are not strong, and marks those caches.
 * Their owners become strong at their next call.
 *
 * Locks: a claim holds the lock of the list of caches. A pool's lock may be held outside it. The
 * owner never takes a lock inside its cache. */
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/inside.h"
#include "base/thread.h"
#include "pool/pool.h"
#include "pool/pool_tag.h"

static struct {
    struct acre__lock lock;
    struct acre__pool_cache *first;
    pthread_once_t once;
    uint32_t mark; /* the last mark assigned */
    /* Returns all slots of a cache to their pools. */
    void (*_Atomic empty)(struct acre__pool_cache *cache, uint64_t thread);
} caches = {.lock = ACRE__LOCK_INIT("pool caches", ACRE__RANK_POOL + 1), .once = PTHREAD_ONCE_INIT};

static void cache_end(struct acre__thread *thread);

static void caches_init(void) {
    acre__inside_init();
    acre__thread_at_exit(cache_end);
}

void acre__cache_init(void (*empty)(struct acre__pool_cache *cache, uint64_t thread)) {
    pthread_once(&caches.once, caches_init);
    acre__store(&caches.empty, empty, memory_order_release);
}

/* ---- waiting ---- */

static void claim_wait(struct acre__pool_cache *cache) {
    const struct acre__sched_hooks *hooks = acre__sched_hooks_get();
    if (hooks && hooks->is_virtual()) {
        hooks->yield();
        return;
    }
    acre__store(&cache->is_waiting, 1, memory_order_seq_cst);
    (void)syscall(__NR_futex, &cache->claimed, FUTEX_WAIT_PRIVATE, ACRE__CLAIM_TAKEN, NULL, NULL,
                  0);
    acre__store(&cache->is_waiting, 0, memory_order_relaxed);
}

/* Wakes the owner after `claimed` has changed. The list's lock is held, so the cache still exists.
 * Only the owner clears `is_waiting`: it may be about to sleep, and the end of the next claim must
 * wake it. */
static void claim_wake(struct acre__pool_cache *cache) {
    if (acre__load(&cache->is_waiting, memory_order_seq_cst))
        (void)syscall(__NR_futex, &cache->claimed, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- the owner ---- */

/* Makes the owner strong; the owner is outside. From now on its cache can be claimed without a
 * barrier of the kernel. */
static void cache_strengthen(struct acre__pool_cache *cache) {
    uint32_t weak = ACRE__CLAIM_WEAK;
    cache->last = NULL;
    acre__store(&cache->is_strong, 1, memory_order_seq_cst);
    (void)acre__cas(&cache->claimed, &weak, ACRE__CLAIM_NONE, memory_order_seq_cst,
                    memory_order_seq_cst);
}

void acre__cache_enter(struct acre__pool_cache *cache) {
    for (;;) {
        if (acre__load(&cache->is_strong, memory_order_relaxed))
            acre__exchange(&cache->busy, 1, memory_order_seq_cst);
        else
            acre__cache_mark(cache);
        uint32_t claimed = acre__load(&cache->claimed, memory_order_seq_cst);
        if (claimed == ACRE__CLAIM_NONE)
            return;
        acre__store(&cache->busy, 0, memory_order_release);
        if (claimed == ACRE__CLAIM_WEAK)
            cache_strengthen(cache);
        else
            claim_wait(cache);
    }
}

void acre__reader_enter(struct acre__pool_cache *cache) {
    if (cache)
        acre__cache_enter(cache);
    else
        acre__lock_take(&caches.lock);
}

void acre__reader_leave(struct acre__pool_cache *cache) {
    if (cache)
        acre__cache_leave(cache);
    else
        acre__lock_give(&caches.lock);
}

/* ---- claiming ---- */

/* If the kernel refuses the barrier, this reads `is_strong` racily: an owner that is just becoming
 * strong is skipped once more, or has seen the claim. */
int acre__caches_claim(void) {
    int is_all = 1;
    pthread_once(&caches.once, caches_init);
    acre__lock_take(&caches.lock);
    for (struct acre__pool_cache *at = caches.first; at; at = at->next)
        acre__exchange(&at->claimed, ACRE__CLAIM_TAKEN, memory_order_seq_cst);
    int is_ordered = acre__inside_order();
    for (struct acre__pool_cache *at = caches.first; at; at = at->next) {
        at->is_mine = is_ordered || acre__load(&at->is_strong, memory_order_seq_cst);
        if (at->is_mine) {
            acre__inside_wait(&at->busy);
        } else {
            is_all = 0;
            acre__store(&at->claimed, ACRE__CLAIM_WEAK, memory_order_seq_cst);
            claim_wake(at);
        }
    }
    return is_all;
}

/* An owner that is not strong checks for the claim with a plain load. If that load runs before the
 * barrier, it sees the claim. If it runs after the barrier, so do all later loads, and they see
 * what the claiming thread wrote. Without the barrier this does not hold, so the owner must become
 * strong. */
void acre__caches_unclaim(void) {
    int is_ordered = acre__inside_order();
    for (struct acre__pool_cache *at = caches.first; at; at = at->next) {
        int is_free = is_ordered || acre__load(&at->is_strong, memory_order_seq_cst);
        if (!at->is_mine)
            continue;
        at->is_mine = 0;
        acre__store(&at->claimed, is_free ? ACRE__CLAIM_NONE : ACRE__CLAIM_WEAK,
                    memory_order_seq_cst);
        claim_wake(at);
    }
    acre__lock_give(&caches.lock);
}

static struct acre__pool_cache *skip_others(struct acre__pool_cache *cache) {
    while (cache && !cache->is_mine)
        cache = cache->next;
    return cache;
}

struct acre__pool_cache *acre__cache_first(void) {
    return skip_others(caches.first);
}

struct acre__pool_cache *acre__cache_next(const struct acre__pool_cache *cache) {
    return skip_others(cache->next);
}

void acre__caches_visit(void (*fn)(struct acre__pool_cache *cache, void *user), void *user) {
    (void)acre__caches_claim();
    for (struct acre__pool_cache *at = acre__cache_first(); at; at = acre__cache_next(at))
        fn(at, user);
    acre__caches_unclaim();
}

/* ---- creation and end ---- */

struct acre__pool_cache *acre__cache_self(void) {
    struct acre__thread *thread = acre__thread_self();
    if (thread->pool || !thread->id)
        return thread->pool;
    pthread_once(&caches.once, caches_init);
    struct acre__pool_cache *cache = acre__pool_lines(sizeof *cache);
    if (!cache)
        return NULL;
    acre__lock_take(&caches.lock);
    cache->is_strong = !acre__load(&acre__inside_is_cheap, memory_order_relaxed);
    caches.mark = caches.mark % ACRE__SLOT_MARKS + 1;
    cache->live = caches.mark * ACRE__SLOT_MARK | ACRE__SLOT_LIVE;
    cache->next = caches.first;
    cache->link = &caches.first;
    if (caches.first)
        caches.first->link = &cache->next;
    caches.first = cache;
    acre__lock_give(&caches.lock);
    thread->pool = cache;
    return cache;
}

static void cache_free(struct acre__pool_cache *cache) {
    acre__tag_flush(cache, NULL);
    free(cache->lanes);
    free(cache->tags);
    free(cache->oom);
    free(cache);
}

static void cache_end(struct acre__thread *thread) {
    struct acre__pool_cache *cache = thread->pool;
    if (!cache)
        return;
    void (*empty)(struct acre__pool_cache *, uint64_t) =
        acre__load(&caches.empty, memory_order_acquire);
    if (empty)
        empty(cache, thread->id);
    acre__lock_take(&caches.lock);
    *cache->link = cache->next;
    if (cache->next)
        cache->next->link = cache->link;
    acre__lock_give(&caches.lock);
    thread->pool = NULL;
    cache_free(cache);
}
