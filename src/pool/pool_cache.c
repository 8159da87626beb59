/* What threads have of pools: stacks of slots by class, for each pool and stream.
 *
 * The owner marks itself busy with a plain store while it is inside and looks whether somebody has
 * claimed the cache. Who claims it makes every thread of the process pass a barrier (membarrier)
 * and then sees either that the owner is inside, and waits for it, or that it will find the claim.
 * So the owner pays for no barrier, and a sleeping thread's cache can be emptied. Where there is no
 * membarrier, and under the thread sanitizer, both sides use ordinary atomics, and no lane is noted
 * as used last, so that no hit takes the near way (pool_hit.c).
 *
 * A stack is an array of addresses and states; the slots' records are looked up when a list is made
 * of them. A slot in a stack is in use, so its slab is in the table.
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
#include "pool/pool_tag.h"

enum {
    STACK_BYTES = 8 << 20, /* of a class that a stack holds at most, and */
    STACK_SLOTS = 128      /* so many slots; one in any case */
};

static struct {
    struct acre__lock lock;
    struct acre__pool_cache *first;
    pthread_once_t once;
    int has_membarrier;
    uint8_t mark; /* given out last */
} caches = {.lock = ACRE__LOCK_INIT("pool caches", ACRE__RANK_POOL + 1), .once = PTHREAD_ONCE_INIT};

static void cache_end(struct acre__thread *thread);

static void caches_init(void) {
#if !defined(__SANITIZE_THREAD__) && !defined(ACRE_SANITIZE_tsan)
    caches.has_membarrier =
        syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
    acre__thread_at_exit(cache_end);
}

void acre__cache_init(void) {
    pthread_once(&caches.once, caches_init);
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
        if (caches.has_membarrier)
            acre__cache_mark(cache);
        else
            acre__exchange(&cache->busy, 1, memory_order_seq_cst);
        if (!acre__load(&cache->claimed, memory_order_acquire))
            return;
        acre__store(&cache->busy, 0, memory_order_release);
        while (acre__load(&cache->claimed, memory_order_acquire))
            cache_yield();
    }
}

/* Makes every running thread of the process pass a full barrier. */
static void caches_barrier(void) {
    if (caches.has_membarrier)
        (void)syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

/* By another thread than the owner, or by the owner from outside. One at a time: the list's lock.
 */
static void cache_claim(struct acre__pool_cache *cache) {
    acre__exchange(&cache->claimed, 1, memory_order_seq_cst);
    caches_barrier();
    while (acre__load(&cache->busy, memory_order_seq_cst))
        cache_yield();
}

/* The owner looks for the claim plainly: what it read ahead of that, it read before the barrier,
 * and then the claim was still there. */
static void cache_unclaim(struct acre__pool_cache *cache) {
    caches_barrier();
    acre__store(&cache->claimed, 0, memory_order_release);
}

/* ---- stacks ---- */

static uint32_t stack_most(uint32_t size_class) {
    size_t count = STACK_BYTES / acre__class_bytes(size_class);
    return (uint32_t)(count < 1 ? 1 : count > STACK_SLOTS ? STACK_SLOTS : count);
}

/* Makes room for `count` entries: what a stack may hold at first, then twice as much. */
static int stack_grow(struct acre__lane *lane, uint32_t size_class, uint32_t count) {
    struct acre__stack *stack = &lane->stacks[size_class];
    uint32_t most = stack_most(size_class), twice = 2 * lane->room[size_class];
    uint32_t room = twice > most ? twice : most;
    room = room < count ? count : room;
    struct acre__entry *entries = acre__pool_lines(room * sizeof *entries);
    if (!entries)
        return 0;
    if (stack->count)
        memcpy(entries, stack->entries, stack->count * sizeof *entries);
    free(stack->entries);
    stack->entries = entries;
    stack->most = most;
    lane->room[size_class] = room;
    return 1;
}

int acre__lane_put(struct acre__lane *lane, uint32_t size_class, struct acre__slots *slots) {
    struct acre__stack *stack = &lane->stacks[size_class];
    uint32_t count = stack->count + slots->count;
    if (count > lane->room[size_class] && !stack_grow(lane, size_class, count))
        return 0;
    struct acre__slot *slot = slots->first; /* on top in the end */
    for (uint32_t i = count; i > stack->count; slot = slot->next)
        stack->entries[--i] = (struct acre__entry){slot->p, slot->state};
    stack->count = count;
    *slots = (struct acre__slots){0};
    return 1;
}

void acre__lane_take(struct acre__lane *lane, uint32_t size_class, uint32_t left,
                     struct acre__slots *slots) {
    struct acre__stack *stack = &lane->stacks[size_class];
    while (stack->count > left) {
        void *p = stack->entries[--stack->count].p;
        acre__slots_push(slots, acre__slab_slot(acre__pool_table_find(p), p));
    }
}

/* ---- lanes ---- */

static unsigned lane_bucket(const acre_pool *pool, acre_stream stream) {
    uint64_t mixed = ((uintptr_t)pool >> 6) ^ ((uintptr_t)stream >> 4) * 0x9e3779b97f4a7c15u;
    return (unsigned)(mixed >> 32) % ACRE__CACHE_LANES;
}

/* The near way of a hit takes this lane without looking further, and goes in plainly. */
static void lane_note(struct acre__pool_cache *cache, struct acre__lane *lane) {
    if (lane && caches.has_membarrier && !lane->is_debugged && !cache->tag)
        cache->last = lane;
}

struct acre__lane *acre__cache_lane(struct acre__pool_cache *cache, const acre_pool *pool,
                                    acre_stream stream) {
    struct acre__lane *lane = cache->lanes[lane_bucket(pool, stream)];
    while (lane && (lane->pool != pool || lane->stream != stream))
        lane = lane->next;
    lane_note(cache, lane);
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
    lane->fast = pool->flags ? (acre_pool *)(void *)lane : pool; /* never another pool, nor NULL */
    lane->simple =
        lane->fast == pool && pool->is_default && pool->kind == ACRE_KIND_DEVICE ? pool->dev : NULL;
    lane->next = *bucket;
    *bucket = lane;
    lane_note(cache, lane);
    return lane;
}

static void lane_end(struct acre__lane *lane) {
    for (uint32_t i = 0; i < ACRE__CLASSES; i++)
        free(lane->stacks[i].entries);
    free(lane);
}

/* ---- caches ---- */

struct acre__pool_cache *acre__cache_self(void) {
    struct acre__thread *thread = acre__thread_self();
    if (thread->pool || !thread->id)
        return thread->pool;
    acre__cache_init();
    struct acre__pool_cache *cache = acre__pool_lines(sizeof *cache);
    if (!cache)
        return NULL;
    acre__lock_take(&caches.lock);
    caches.mark = (uint8_t)(caches.mark % ACRE__SLOT_MARKS + 1);
    cache->live = (uint8_t)(caches.mark * ACRE__SLOT_MARK | ACRE__SLOT_LIVE);
    cache->next = caches.first;
    cache->link = &caches.first;
    if (caches.first)
        caches.first->link = &cache->next;
    caches.first = cache;
    acre__lock_give(&caches.lock);
    thread->pool = cache;
    return cache;
}

/* The pool has no memory to note them: they stay. There is room. */
static void lane_put_back(struct acre__lane *lane, uint32_t size_class, struct acre__slots *slots) {
    if (size_class < ACRE__CLASSES) {
        (void)acre__lane_put(lane, size_class, slots);
        return;
    }
    for (struct acre__slot *slot = slots->first, *next; slot; slot = next) {
        next = slot->next;
        acre__lane_put_kept(lane, acre__pool_table_find(slot->p));
    }
}

void acre__cache_flush_kept(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                            uint64_t id) {
    struct acre__slots slots = {0};
    uint64_t lane_id = id;
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    if (lane) {
        acre__lane_take_kept(lane, &slots);
        lane_id = lane->id;
    }
    acre__cache_leave(cache);
    if (!slots.count || (acre__id_differs(lane_id, id)
                             ? acre__central_give_old(pool, ACRE__CLASSES, stream,
                                                      acre__stream_thread(stream), lane_id, &slots)
                             : acre__central_give(pool, ACRE__CLASSES, stream, id, &slots)))
        return;
    acre__cache_enter(cache);
    lane_put_back(lane, ACRE__CLASSES, &slots);
    acre__cache_leave(cache);
}

void acre__cache_count_large(struct acre__pool_cache *cache, const acre_pool *pool,
                             acre_stream stream) {
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    if (lane)
        lane->large_live++;
    acre__cache_leave(cache);
}

/* Where a stream's record cannot be made, all work of the device covers what was freed on it. */
static int give_after_all(acre_pool *pool, uint32_t size_class, struct acre__slots *slots) {
    if (!acre__device_is_lost(pool->dev) && acre__step_quiesce(pool->dev))
        return 0;
    acre__central_ready(pool, size_class, slots);
    return 1;
}

/* Gives a lane's slots to the pool, whose lock is held: 1, or 0 when some had to stay. */
static int lane_drain(struct acre__lane *lane, int must) {
    int is_empty = 1;
    for (uint32_t i = 0; i <= ACRE__CLASSES; i++) {
        struct acre__slots slots = {0};
        if (i == ACRE__CLASSES)
            acre__lane_take_kept(lane, &slots);
        else
            acre__lane_take(lane, i, 0, &slots);
        if (slots.count &&
            !acre__central_give_old(lane->pool, i, lane->stream, lane->thread, lane->id, &slots) &&
            !(must && give_after_all(lane->pool, i, &slots))) {
            lane_put_back(lane, i, &slots);
            is_empty = 0;
        }
    }
    return is_empty;
}

static void cache_drain(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                        int any, int end) {
    uint64_t thread = acre__stream_thread(stream);
    for (unsigned i = 0; i < ACRE__CACHE_LANES; i++) {
        for (struct acre__lane **link = &cache->lanes[i]; *link;) {
            struct acre__lane *lane = *link;
            if (lane->pool != pool ||
                (!any && (lane->stream != stream || lane->thread != thread))) {
                link = &lane->next;
                continue;
            }
            /* A stream's end leaves a lane that is not empty: its id tells that the stream is gone.
             */
            int is_empty = lane_drain(lane, end);
            if (!end || (!any && !is_empty)) {
                link = &lane->next;
                continue;
            }
            if (cache->last == lane)
                cache->last = NULL;
            *link = lane->next;
            lane_end(lane);
        }
    }
}

void acre__cache_drain(acre_pool *pool, acre_stream stream, int any, int end) {
    acre__cache_init();
    acre__lock_take(&caches.lock);
    for (struct acre__pool_cache *cache = caches.first; cache; cache = cache->next) {
        cache_claim(cache);
        cache_drain(cache, pool, stream, any, end);
        cache_unclaim(cache);
    }
    acre__lock_give(&caches.lock);
}

void acre__caches_visit(void (*fn)(struct acre__pool_cache *cache, void *user), void *user) {
    acre__cache_init();
    acre__lock_take(&caches.lock);
    for (struct acre__pool_cache *cache = caches.first; cache; cache = cache->next) {
        cache_claim(cache);
        fn(cache, user);
        cache_unclaim(cache);
    }
    acre__lock_give(&caches.lock);
}

void acre__cache_renew(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                       uint64_t id) {
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    int is_old = lane && acre__id_differs(lane->id, id);
    if (lane && !is_old)
        lane->id = id;
    acre__cache_leave(cache);
    if (!is_old)
        return;
    acre__cache_drain(pool, stream, 0, 0);
    acre__cache_enter(cache);
    lane = acre__cache_lane(cache, pool, stream);
    int is_empty = lane && !lane->kept_count;
    for (uint32_t i = 0; is_empty && i < ACRE__CLASSES; i++)
        is_empty = !lane->stacks[i].count;
    if (is_empty)
        lane->id = id; /* what it gets from now on is of this one */
    acre__cache_leave(cache);
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
            acre__stream_leave(pool, thread->id);
            acre__lock_give(&pool->lock);
        }
    }
    acre__lock_give(&acre__pool_list_lock);
    acre__lock_take(&caches.lock);
    *cache->link = cache->next;
    if (cache->next)
        cache->next->link = cache->link;
    acre__lock_give(&caches.lock);
    acre__tag_flush(cache, NULL);
    thread->pool = NULL;
    free(cache->tags);
    free(cache->oom);
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
