/* The hot path: allocates a block from a pool and frees it.
 *
 * A hit finds a slot, or room for one, in the calling thread's stack for the pool, stream and
 * class. A lane exists only for a pool that exists, so a hit needs no other check of the handle.
 *
 * There are three paths. The near path serves the lane used last and calls no function: the fewer
 * its instructions, the more cache misses of successive calls overlap. `cache->last` is NULL while
 * the thread has a tag set or the lane needs any check, so the near path checks neither. The far
 * path finds any lane, handles tags, frees blocks of other threads, queries whether the stream is
 * captured, and waits for claims. A miss takes the slow path (pool_slow.h), which checks everything
 * and moves slots between the cache and the pool.
 *
 * A free reads the slab inside the cache: after a double free the slab may be destroyed at any
 * time. */
#include "base/atomic.h"
#include "base/status.h"
#include "base/thread.h"
#include "pool/pool.h"
#include "pool/pool_free.h"
#include "pool/pool_list.h"
#include "pool/pool_slow.h"
#include "pool/pool_tag.h"
#include "pool/pool_watch.h"
#include "watch/probes.h"

static inline struct acre__pool_cache *cache_here(void) {
    const struct acre__thread *thread = acre__thread_pointer;
    return thread ? thread->pool : NULL;
}

/* Enters without waiting and returns the lane used last; NULL if the far path must be taken. The
 * caller leaves the cache in either case. */
static inline struct acre__lane *near_enter(struct acre__pool_cache *cache) {
    acre__cache_mark(cache);
    return acre__cache_is_claimed(cache) ? NULL : cache->last;
}

/* Pops a block; NULL if the stack is empty. */
static inline __attribute__((always_inline)) void *stack_pop(struct acre__stack *stack,
                                                             uint32_t live, size_t bytes) {
    if (!stack->count)
        return NULL;
    struct acre__entry entry = stack->entries[--stack->count];
    stack->used = 1;
    acre__store(entry.state, live | (uint32_t)bytes << ACRE__SLOT_BYTES_SHIFT,
                memory_order_relaxed);
    return entry.p;
}

/* Pushes a block. Returns 0 if the stack is full. */
static inline __attribute__((always_inline)) int stack_push(struct acre__stack *stack, void *p,
                                                            acre__slot_state *state) {
    if (stack->count >= stack->most)
        return 0;
    stack->entries[stack->count++] = (struct acre__entry){p, state};
    stack->used = 1;
    acre__store(state, 0, memory_order_relaxed);
    return 1;
}

/* ---- alloc ---- */

/* Returns 1 for the common case: a small block with an alignment of 0 or 256. */
static inline int alloc_is_plain(size_t bytes, size_t alignment, void *const *p) {
    return p && bytes - 1 < ACRE__SMALL_MOST && (alignment & ~ACRE__GRAIN) == 0;
}

/* Returns 1 if a stack can serve the request: every class but the first is aligned to 512 bytes. */
static inline int alloc_is_small(size_t bytes, size_t alignment, void *const *p) {
    size_t most = bytes > ACRE__GRAIN ? 2 * ACRE__GRAIN : ACRE__GRAIN;
    return p && bytes - 1 < ACRE__SMALL_MOST && !(alignment & (alignment - 1)) && alignment <= most;
}

/* Returns 1 if the lane cannot serve a hit. The program may have destroyed a foreign stream without
 * notifying acre, and another stream may have its handle. The far path queries inside the cache, so
 * that it enters only once. */
static inline int lane_is_barred(const struct acre__lane *lane) {
    return lane->is_checked && (acre__stream_is_captured(lane->pool->dev, lane->stream) ||
                                (lane->is_foreign && acre__lane_is_stale(lane)));
}

static acre_status alloc_slow(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream,
                              void **p) {
    return acre__in_call(acre__pool_alloc_slow(pool, bytes, alignment, stream, 0, p),
                         "acre_pool_alloc");
}

static __attribute__((noinline)) acre_status
alloc_far(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream, void **p) {
    struct acre__pool_cache *cache = cache_here();
    void *block = NULL;
    struct acre__lane *lane = acre__cache_enter_lane(cache, pool, stream);
    if (lane && lane->fast == pool && !lane_is_barred(lane)) {
        struct acre__stack *stack = &lane->stacks[acre__class_of(bytes)];
        block =
            cache->tag ? acre__tag_take(cache, stack, bytes) : stack_pop(stack, cache->live, bytes);
    }
    acre__cache_leave(cache);
    if (!block)
        return alloc_slow(pool, bytes, alignment, stream, p);
    *p = block;
    acre__probe_alloc(pool, block, bytes, stream);
    return ACRE_OK;
}

/* Takes a kept large block, or a small one of another alignment. With a tag set, the slow path
 * checks its limit. */
static __attribute__((noinline)) acre_status
alloc_other(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream, void **p) {
    struct acre__pool_cache *cache = cache_here();
    struct acre__slab *slab = NULL;
    if (cache && alloc_is_small(bytes, alignment, p))
        return alloc_far(pool, bytes, alignment, stream, p);
    if (cache && !cache->tag && p && bytes - 1 < ACRE__BYTES_MOST &&
        !(alignment & (alignment - 1)) && alignment <= ACRE__PIECE_GRAIN) {
        struct acre__lane *lane = acre__cache_enter_lane(cache, pool, stream);
        if (lane && lane->fast == pool && lane->kept_count && !lane_is_barred(lane))
            slab = acre__lane_kept(lane, bytes);
        if (slab) {
            acre__store(&slab->asked, bytes, memory_order_relaxed);
            acre__store(&slab->states[0], cache->live, memory_order_relaxed);
        }
        acre__cache_leave(cache);
    }
    if (!slab)
        return alloc_slow(pool, bytes, alignment, stream, p);
    *p = slab->slots[0].p;
    acre__probe_alloc(pool, *p, bytes, stream);
    return ACRE_OK;
}

/* Alloc without records of the call. Inlined everywhere, as free_near is. */
static inline __attribute__((always_inline)) acre_status
alloc_unwatched(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream, void **p) {
    struct acre__pool_cache *cache = cache_here();
    if (!cache || !p || !alloc_is_plain(bytes, alignment, p))
        return alloc_other(pool, bytes, alignment, stream, p);
    void *block = NULL;
    struct acre__lane *lane = near_enter(cache);
    if (lane && lane->fast == pool && lane->stream == stream)
        block = stack_pop(&lane->stacks[acre__class_of(bytes)], cache->live, bytes);
    acre__cache_leave(cache);
    if (!block)
        return alloc_far(pool, bytes, alignment, stream, p);
    *p = block;
    acre__probe_alloc(pool, block, bytes, stream);
    return ACRE_OK;
}

static __attribute__((noinline)) acre_status
alloc_watched(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream, void **p) {
    acre_status status = alloc_unwatched(pool, bytes, alignment, stream, p);
    acre__pool_watch_alloc(pool, bytes, stream, status, p ? *p : NULL);
    return status;
}

acre_status acre_pool_alloc(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream,
                            void **p) {
    return acre__is_watched() ? alloc_watched(pool, bytes, alignment, stream, p)
                              : alloc_unwatched(pool, bytes, alignment, stream, p);
}

static __attribute__((noinline)) acre_status alloc_default(acre_device *device, size_t bytes,
                                                           acre_stream stream, void **p) {
    acre_pool *pool;
    if (p)
        *p = NULL;
    acre__inner_begin();
    acre_status status = acre_pool_default(device, ACRE_KIND_DEVICE, &pool);
    if (status == ACRE_OK)
        status = acre_pool_alloc(pool, bytes, 0, stream, p);
    return acre__in_call(acre__inner_end(status), "acre_alloc");
}

acre_status acre_alloc(acre_device *device, size_t bytes, acre_stream stream, void **p) {
    struct acre__pool_cache *cache = cache_here();
    if (!cache || !device || acre__is_watched() || !alloc_is_plain(bytes, 0, p))
        return alloc_default(device, bytes, stream, p);
    void *block = NULL;
    struct acre__lane *lane = near_enter(cache);
    if (lane && lane->simple == device && lane->stream == stream)
        block = stack_pop(&lane->stacks[acre__class_of(bytes)], cache->live, bytes);
    acre__cache_leave(cache);
    if (!block)
        return alloc_default(device, bytes, stream, p);
    *p = block;
    acre__probe_alloc(lane->pool, block, bytes, stream);
    return ACRE_OK;
}

/* ---- free ---- */

enum freed { FREED, FREED_BUT_NOT_PUT, FREED_NOT };

/* Marks a live block as free: with a plain store if it is the thread's own, else with a
 * compare-and-swap, which one of several such threads wins. pool_slab.h describes the races. Blocks
 * with uses or of a graph take the slow path. */
static int far_unlive(const struct acre__pool_cache *cache, acre__slot_state *state,
                      uint32_t *value) {
    *value = acre__load(state, memory_order_relaxed);
    uint32_t who = *value & ACRE__SLOT_WHO;
    if (!(who & ACRE__SLOT_LIVE) || who & (ACRE__SLOT_USED | ACRE__SLOT_GRAPH))
        return 0;
    if ((who & ~(uint32_t)ACRE__SLOT_TAGGED) == cache->live) {
        acre__store(state, 0, memory_order_relaxed);
        return 1;
    }
    return acre__cas(state, value, 0, memory_order_acq_rel, memory_order_relaxed);
}

/* Puts a free slot into the lane. Returns 0 if there is no room. */
static int far_put(struct acre__lane *lane, struct acre__slab *slab, void *p,
                   acre__slot_state *state) {
    int is_last;
    if (acre__slab_is_large(slab))
        return acre__lane_keep(lane, slab, &is_last);
    return stack_push(&lane->stacks[slab->size_class], p, state);
}

/* Frees a block on the far path. `pool` NULL: the pool that has the address. If the lane has no
 * room for the freed block, the caller must put it elsewhere: *out is its slab, and *value its old
 * state. */
static enum freed far_free(struct acre__pool_cache *cache, acre_pool *pool, void *p,
                           acre_stream stream, struct acre__slab **out, uint32_t *value) {
    enum freed freed = FREED_NOT;
    acre__cache_enter(cache);
    struct acre__slab *slab = acre__pool_table_find(p);
    struct acre__lane *lane =
        slab && (!pool || slab->pool == pool) ? acre__cache_lane(cache, slab->pool, stream) : NULL;
    acre__slot_state *state = lane && !lane->is_debugged ? acre__slab_state(slab, p) : NULL;
    if (state && far_unlive(cache, state, value)) {
        uint32_t tag = acre__tag_of(slab, state, *value);
        if (tag)
            acre__tag_count(cache, tag, -(int64_t)slab->slot_bytes, -1);
        freed = far_put(lane, slab, p, state) ? FREED : FREED_BUT_NOT_PUT;
        *out = slab;
    }
    acre__cache_leave(cache);
    return freed;
}

static acre_status free_anyhow(acre_pool *pool, void *p, acre_stream stream) {
    struct acre__pool_cache *cache = cache_here();
    struct acre__slab *slab;
    uint32_t value;
    enum freed freed = cache ? far_free(cache, pool, p, stream, &slab, &value) : FREED_NOT;
    if (freed == FREED)
        return ACRE_OK;
    if (freed == FREED_NOT)
        return acre__pool_free_slow(pool, p, stream);
    struct acre__slot *slot = acre__slab_slot(slab, p);
    acre_status status = acre__pool_free_plain(slab, slot, stream);
    if (status) {
        acre__tag_change(acre__tag_of(slab, slot->state, value), (int64_t)slab->slot_bytes, 1);
        acre__store(slot->state, value, memory_order_release);
    }
    return status;
}

static __attribute__((noinline)) acre_status free_far(acre_pool *pool, void *p,
                                                      acre_stream stream) {
    return acre__in_call(free_anyhow(pool, p, stream), pool ? "acre_pool_free" : "acre_free");
}

/* Inlined everywhere: a call would be a tenth of its cost. */
static inline __attribute__((always_inline)) acre_status free_near(acre_pool *pool, void *p,
                                                                   acre_stream stream) {
    struct acre__pool_cache *cache = cache_here();
    if (!cache)
        return free_far(pool, p, stream);
    int is_hit = 0;
    struct acre__lane *lane = near_enter(cache);
    struct acre__slab *slab = lane ? acre__pool_table_find(p) : NULL;
    if (slab && lane->pool == slab->pool && lane->stream == stream &&
        (!pool || lane->pool == pool)) {
        acre__slot_state *state = acre__slab_state(slab, p);
        if (state && (acre__load(state, memory_order_relaxed) & ACRE__SLOT_WHO) == cache->live)
            is_hit = stack_push(&lane->stacks[slab->size_class], p, state);
    }
    acre__cache_leave(cache);
    return is_hit ? ACRE_OK : free_far(pool, p, stream);
}

acre_status acre__pool_free_unwatched(acre_pool *pool, void *p, acre_stream stream) {
    acre__probe_free(p, stream);
    return free_near(pool, p, stream);
}

static __attribute__((noinline)) acre_status free_watched(acre_pool *pool, void *p,
                                                          acre_stream stream) {
    const struct acre__pool_watched watched = acre__pool_watch_free(p, stream);
    return acre__pool_watch_freed(&watched, p, stream, free_near(pool, p, stream));
}

acre_status acre_pool_free(acre_pool *pool, void *p, acre_stream stream) {
    acre__probe_free(p, stream);
    if (!pool)
        return acre__in_call(acre__pool_check(pool), "acre_pool_free");
    return acre__is_watched() ? free_watched(pool, p, stream) : free_near(pool, p, stream);
}

acre_status acre_free(void *p, acre_stream stream) {
    acre__probe_free(p, stream);
    return acre__is_watched() ? free_watched(NULL, p, stream) : free_near(NULL, p, stream);
}
