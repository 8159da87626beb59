/* What threads have of pools: stacks of slots by class, for each pool and stream.
 *
 * The owner marks itself busy with a plain store while it is inside and looks whether somebody has
 * claimed the cache. Who claims it makes every thread of the process pass a barrier (membarrier)
 * and then sees either that the owner is inside, and waits for it, or that it will find the claim.
 * So the owner pays for no barrier, and a sleeping thread's cache can be emptied. Where there is no
 * membarrier, and under the thread sanitizer, both sides use ordinary atomics.
 *
 * Locks: the list of caches has one, of the rank of leaves, held only to walk it; who claims a
 * cache holds the pool's lock, so a pool's lock is never taken inside a cache by its owner: refill
 * and spill leave it first. */
#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/status.h"
#include "base/thread.h"
#include "driver/driver_status.h"
#include "pool/pool.h"

enum {
    STACK_BYTES = 8 << 20, /* of a class that a stack holds at most, and */
    STACK_SLOTS = 128      /* so many slots; one in any case */
};

static struct {
    struct acre__lock lock;
    struct acre__pool_cache *first;
    pthread_once_t once;
    int has_membarrier;
    uint32_t tags; /* given out so far */
} caches = {.lock = ACRE__LOCK_INIT("pool caches", ACRE__RANK_POOL + 1), .once = PTHREAD_ONCE_INIT};

static void cache_end(struct acre__thread *thread);

static void caches_init(void) {
#if !defined(__SANITIZE_THREAD__) && !defined(ACRE_SANITIZE_tsan)
    caches.has_membarrier =
        syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
    acre__thread_at_exit(cache_end);
}

/* ---- in and out ---- */

static void cache_yield(void) {
    const struct acre__sched_hooks *hooks = acre__sched_hooks_get();
    if (hooks && hooks->is_virtual())
        hooks->yield();
    else
        sched_yield();
}

void acre__cache_enter(struct acre__pool_cache *cache) {
    for (;;) {
        if (caches.has_membarrier) {
            acre__store(&cache->busy, 1, memory_order_relaxed);
            atomic_signal_fence(memory_order_seq_cst);
        } else {
            acre__exchange(&cache->busy, 1, memory_order_seq_cst);
        }
        if (!acre__load(&cache->claimed, memory_order_acquire))
            return;
        acre__store(&cache->busy, 0, memory_order_release);
        while (acre__load(&cache->claimed, memory_order_acquire))
            cache_yield();
    }
}

void acre__cache_leave(struct acre__pool_cache *cache) {
    acre__store(&cache->busy, 0, memory_order_release);
}

/* By another thread than the owner, or by the owner from outside. One at a time: the list's lock.
 */
static void cache_claim(struct acre__pool_cache *cache) {
    acre__exchange(&cache->claimed, 1, memory_order_seq_cst);
    if (caches.has_membarrier)
        (void)syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    while (acre__load(&cache->busy, memory_order_seq_cst))
        cache_yield();
}

static void cache_unclaim(struct acre__pool_cache *cache) {
    acre__store(&cache->claimed, 0, memory_order_release);
}

/* ---- lanes ---- */

static unsigned lane_bucket(const acre_pool *pool, acre_stream stream) {
    uint64_t mixed = ((uintptr_t)pool >> 6) ^ ((uintptr_t)stream >> 4) * 0x9e3779b97f4a7c15u;
    return (unsigned)(mixed >> 32) % ACRE__CACHE_LANES;
}

static uint32_t stack_most(uint32_t size_class) {
    size_t count = STACK_BYTES / acre__class_bytes(size_class);
    return (uint32_t)(count < 1 ? 1 : count > STACK_SLOTS ? STACK_SLOTS : count);
}

struct acre__lane *acre__cache_lane(struct acre__pool_cache *cache, const acre_pool *pool,
                                    acre_stream stream) {
    struct acre__lane *lane = cache->lanes[lane_bucket(pool, stream)];
    while (lane && (lane->pool != pool || lane->stream != stream))
        lane = lane->next;
    if (lane)
        cache->last = lane;
    return lane;
}

struct acre__lane *acre__cache_lane_make(struct acre__pool_cache *cache, acre_pool *pool,
                                         acre_stream stream, uint64_t id) {
    struct acre__lane **bucket = &cache->lanes[lane_bucket(pool, stream)];
    struct acre__lane *lane = acre__pool_lines(sizeof *lane);
    if (!lane)
        return NULL;
    lane->pool = pool;
    lane->stream = stream;
    lane->id = id;
    lane->thread = acre__stream_thread(stream);
    lane->is_debugged = (pool->flags & ACRE_POOL_DEBUG) != 0;
    lane->fast = pool->flags ? NULL : pool;
    lane->simple =
        lane->fast && pool->is_default && pool->kind == ACRE_KIND_DEVICE ? pool->dev : NULL;
    for (uint32_t i = 0; i < ACRE__CLASSES; i++)
        lane->stacks[i].most = stack_most(i);
    lane->next = *bucket;
    *bucket = lane;
    cache->last = lane;
    return lane;
}

int acre__cache_is_old(struct acre__pool_cache *cache, const acre_pool *pool, acre_stream stream,
                       uint64_t id) {
    acre__cache_enter(cache);
    const struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    int is_old = lane && acre__id_differs(lane->id, id);
    acre__cache_leave(cache);
    return is_old;
}

/* ---- caches ---- */

struct acre__pool_cache *acre__cache_self(void) {
    struct acre__thread *thread = acre__thread_self();
    if (thread->pool || !thread->id)
        return thread->pool;
    pthread_once(&caches.once, caches_init);
    struct acre__pool_cache *cache = acre__pool_lines(sizeof *cache);
    if (!cache)
        return NULL;
    acre__lock_take(&caches.lock);
    cache->tag = ++caches.tags * ACRE__SLOT_TAG;
    cache->next = caches.first;
    cache->link = &caches.first;
    if (caches.first)
        caches.first->link = &cache->next;
    caches.first = cache;
    acre__lock_give(&caches.lock);
    thread->pool = cache;
    return cache;
}

/* Takes a stack's slots. */
static struct acre__slots stack_empty(struct acre__stack *stack) {
    struct acre__slots slots = {0};
    while (stack->first) {
        struct acre__slot *slot = stack->first;
        stack->first = slot->next;
        acre__slots_push(&slots, slot);
    }
    stack->count = 0;
    return slots;
}

/* Gives a lane's slots to the pool, whose lock is held. */
static void lane_drain(struct acre__lane *lane) {
    int is_empty = 1;
    for (uint32_t i = 0; i < ACRE__CLASSES; i++) {
        if (!lane->stacks[i].first)
            continue;
        struct acre__slots slots = stack_empty(&lane->stacks[i]);
        if (!acre__central_give_old(lane->pool, i, lane->stream, lane->thread, lane->id, &slots)) {
            lane->stacks[i].first = slots.first; /* no memory for it: they stay */
            lane->stacks[i].count = slots.count;
            is_empty = 0;
        }
    }
    if (is_empty)
        lane->id = ACRE__ID_UNKNOWN; /* what it gets from now on is of whom it means then */
}

static void cache_drain(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                        int any, int end) {
    for (unsigned i = 0; i < ACRE__CACHE_LANES; i++) {
        for (struct acre__lane **link = &cache->lanes[i]; *link;) {
            struct acre__lane *lane = *link;
            if (lane->pool != pool || (!any && lane->stream != stream)) {
                link = &lane->next;
                continue;
            }
            lane_drain(lane);
            if (!end) {
                link = &lane->next;
                continue;
            }
            if (cache->last == lane)
                cache->last = NULL;
            *link = lane->next;
            free(lane);
        }
    }
}

void acre__cache_drain(acre_pool *pool, acre_stream stream, int any, int end) {
    pthread_once(&caches.once, caches_init);
    acre__lock_take(&caches.lock);
    for (struct acre__pool_cache *cache = caches.first; cache; cache = cache->next) {
        cache_claim(cache);
        cache_drain(cache, pool, stream, any, end);
        cache_unclaim(cache);
    }
    acre__lock_give(&caches.lock);
}

/* The thread ends: its slots go to their pools. */
static void cache_end(struct acre__thread *thread) {
    struct acre__pool_cache *cache = thread->pool;
    if (!cache)
        return;
    acre__lock_take(&acre__pool_list_lock);
    for (unsigned i = 0; i < ACRE__CACHE_LANES; i++) {
        while (cache->lanes[i]) {
            acre_pool *pool = cache->lanes[i]->pool;
            acre__lock_take(&pool->lock);
            acre__lock_take(&caches.lock);
            cache_drain(cache, pool, NULL, 1, 1);
            acre__lock_give(&caches.lock);
            acre__central_leave(pool, thread->id);
            acre__lock_give(&pool->lock);
        }
    }
    acre__lock_give(&acre__pool_list_lock);
    acre__lock_take(&caches.lock);
    *cache->link = cache->next;
    if (cache->next)
        cache->next->link = cache->link;
    acre__lock_give(&caches.lock);
    thread->pool = NULL;
    free(cache);
}

/* ---- streams ---- */

acre_status acre__pool_stream_id(acre_device *dev, acre_stream stream, uint64_t *id) {
    struct acre__current current;
    const char *what;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    unsigned long long got = 0;
    *id = ACRE__ID_UNKNOWN;
    CUresult code = acre__device_push(dev, &current, &what);
    if (code)
        return acre__driver_fail(dev, code, what);
    what = "cuStreamIsCapturing";
    code = dev->drv->cuStreamIsCapturing(stream, &state);
    int is_captured = !code && state != CU_STREAM_CAPTURE_STATUS_NONE;
    if (!code && !is_captured && ACRE__DRIVER_HAS(dev->drv, cuStreamGetId)) {
        what = "cuStreamGetId";
        code = dev->drv->cuStreamGetId(stream, &got);
    }
    acre__device_pop(dev, &current);
    if (is_captured)
        return acre__fail(ACRE_E_CAPTURING, "the pool needs memory for a stream that is captured");
    if (code)
        return acre__driver_fail(dev, code, what);
    *id = ACRE__DRIVER_HAS(dev->drv, cuStreamGetId) ? got : ACRE__ID_UNKNOWN;
    return ACRE_OK;
}
