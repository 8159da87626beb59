/* The calls that matter: a block out of a pool and back into it.
 *
 * A hit finds a slot in the calling thread's stack for the pool, stream and class, or room in it.
 * A lane exists only for a pool that exists, so a hit needs no other check of the handle.
 *
 * There are three ways. The near one serves the lane that was used last and calls nothing: how many
 * instructions it has decides how many misses of one call and the next the processor can wait for
 * at a time. The far one finds any lane, knows tags, and waits for whoever has claimed the cache;
 * while the thread has a tag set there is no lane used last, so that the near one need not look for
 * it, and a tagged block's state is not what the near one expects. What is not a hit goes to the
 * slow way (pool_slow.h), which checks everything and fetches or gives a batch. */
#include "base/atomic.h"
#include "base/thread.h"
#include "pool/pool.h"
#include "pool/pool_slow.h"
#include "pool/pool_tag.h"
#include "pool/pool_watch.h"

static inline struct acre__pool_cache *cache_here(void) {
    const struct acre__thread *thread = acre__thread_pointer;
    return thread ? thread->pool : NULL;
}

/* Goes in plainly, and gives the lane used last; NULL when the far way has to be taken. The caller
 * leaves in any case. */
static inline struct acre__lane *near_enter(struct acre__pool_cache *cache) {
    acre__cache_mark(cache);
    return acre__cache_is_claimed(cache) ? NULL : cache->last;
}

/* A block of the stack; NULL when it is empty. */
static inline void *stack_pop(struct acre__stack *stack, uint8_t live) {
    if (!stack->count)
        return NULL;
    struct acre__entry entry = stack->entries[--stack->count];
    acre__store(entry.state, live, memory_order_relaxed);
    return entry.p;
}

/* 0 when it is full. */
static inline int stack_push(struct acre__stack *stack, void *p, _Atomic uint8_t *state) {
    if (stack->count >= stack->most)
        return 0;
    stack->entries[stack->count++] = (struct acre__entry){p, state};
    acre__store(state, 0, memory_order_relaxed);
    return 1;
}

/* ---- alloc ---- */

static inline int alloc_is_plain(size_t bytes, size_t alignment, void *const *p) {
    return p && bytes - 1 < ACRE__SMALL_MOST && (alignment & ~ACRE__GRAIN) == 0;
}

static __attribute__((noinline)) acre_status
alloc_far(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream, void **p) {
    struct acre__pool_cache *cache = cache_here();
    void *block = NULL;
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
    if (lane && lane->fast == pool) {
        struct acre__stack *stack = &lane->stacks[acre__class_of(bytes)];
        block = cache->tag ? acre__tag_take(cache, stack) : stack_pop(stack, cache->live);
    }
    acre__cache_leave(cache);
    if (!block)
        return acre__pool_alloc_slow(pool, bytes, alignment, stream, 0, p);
    *p = block;
    return ACRE_OK;
}

/* A large block that the thread keeps. With a tag its limit has to be looked at. */
static __attribute__((noinline)) acre_status
alloc_large(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream, void **p) {
    struct acre__pool_cache *cache = cache_here();
    struct acre__slab *slab = NULL;
    if (cache && !cache->tag && p && bytes - 1 < ACRE__BYTES_MOST &&
        (alignment & ~ACRE__GRAIN) == 0) {
        acre__cache_enter(cache);
        struct acre__lane *lane = acre__cache_lane(cache, pool, stream);
        slab = lane && lane->fast == pool ? acre__lane_kept(lane, bytes) : NULL;
        if (slab)
            acre__store(&slab->states[0], cache->live, memory_order_relaxed);
        acre__cache_leave(cache);
    }
    if (!slab)
        return acre__pool_alloc_slow(pool, bytes, alignment, stream, 0, p);
    *p = slab->slots[0].p;
    return ACRE_OK;
}

/* Without a word to the trace; inlined in all places, as free_near is. */
static inline __attribute__((always_inline)) acre_status
alloc_untraced(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream, void **p) {
    struct acre__pool_cache *cache = cache_here();
    if (!cache || !p || !alloc_is_plain(bytes, alignment, p))
        return alloc_large(pool, bytes, alignment, stream, p);
    void *block = NULL;
    struct acre__lane *lane = near_enter(cache);
    if (lane && lane->fast == pool && lane->stream == stream)
        block = stack_pop(&lane->stacks[acre__class_of(bytes)], cache->live);
    acre__cache_leave(cache);
    if (!block)
        return alloc_far(pool, bytes, alignment, stream, p);
    *p = block;
    return ACRE_OK;
}

static __attribute__((noinline)) acre_status
alloc_traced(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream, void **p) {
    acre_status status = alloc_untraced(pool, bytes, alignment, stream, p);
    acre__pool_trace_alloc(pool, bytes, stream, status, p ? *p : NULL);
    return status;
}

acre_status acre_pool_alloc(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream,
                            void **p) {
    return acre__trace_is_on() ? alloc_traced(pool, bytes, alignment, stream, p)
                               : alloc_untraced(pool, bytes, alignment, stream, p);
}

static __attribute__((noinline)) acre_status alloc_default(acre_device *device, size_t bytes,
                                                           acre_stream stream, void **p) {
    acre_pool *pool;
    if (p)
        *p = NULL;
    acre_status status = acre_pool_default(device, ACRE_KIND_DEVICE, &pool);
    return status ? status : acre_pool_alloc(pool, bytes, 0, stream, p);
}

acre_status acre_alloc(acre_device *device, size_t bytes, acre_stream stream, void **p) {
    struct acre__pool_cache *cache = cache_here();
    if (!cache || !device || acre__trace_is_on() || !alloc_is_plain(bytes, 0, p))
        return alloc_default(device, bytes, stream, p);
    void *block = NULL;
    struct acre__lane *lane = near_enter(cache);
    if (lane && lane->simple == device && lane->stream == stream)
        block = stack_pop(&lane->stacks[acre__class_of(bytes)], cache->live);
    acre__cache_leave(cache);
    if (!block)
        return alloc_default(device, bytes, stream, p);
    *p = block;
    return ACRE_OK;
}

/* ---- free ---- */

/* A large block that the thread keeps from now on. */
static int keep_hit(struct acre__lane *lane, struct acre__slab *slab) {
    int is_last;
    if (!acre__lane_keep(lane, slab, &is_last))
        return 0;
    acre__store(&slab->states[0], 0, memory_order_relaxed);
    return 1;
}

/* `pool` NULL: whichever has the address. `tag` is the block's, or 0. */
static __attribute__((noinline)) acre_status free_far(acre_pool *pool, struct acre__slab *slab,
                                                      void *p, acre_stream stream, uint32_t tag) {
    struct acre__pool_cache *cache = cache_here();
    int64_t bytes = (int64_t)slab->slot_bytes;
    int is_hit = 0;
    acre__cache_enter(cache);
    struct acre__lane *lane = acre__cache_lane(cache, slab->pool, stream);
    if (lane && !lane->is_debugged && acre__slab_is_large(slab))
        is_hit = keep_hit(lane, slab);
    else if (lane && !lane->is_debugged)
        is_hit = stack_push(&lane->stacks[slab->size_class], p, acre__slab_state(slab, p));
    if (is_hit && tag)
        acre__tag_count(cache, tag, -bytes, -1);
    acre__cache_leave(cache);
    return is_hit ? ACRE_OK : acre__pool_free_slow(pool, p, stream);
}

/* The thread's own block with a tag, or one that is not its own. */
static __attribute__((noinline)) acre_status free_other(acre_pool *pool, struct acre__slab *slab,
                                                        void *p, acre_stream stream) {
    const struct acre__pool_cache *cache = cache_here();
    const _Atomic uint8_t *state = acre__slab_state(slab, p);
    if (!cache || !state ||
        acre__load(state, memory_order_relaxed) != (cache->live | ACRE__SLOT_TAGGED))
        return acre__pool_free_slow(pool, p, stream);
    return free_far(pool, slab, p, stream, acre__tag_of(slab, state, ACRE__SLOT_TAGGED));
}

/* The state of a block that the calling thread itself was handed, which is its own: no other thread
 * may touch the state at the same time. NULL for the rest, which takes the slow way. */
static inline _Atomic uint8_t *state_own(const struct acre__pool_cache *cache,
                                         struct acre__slab *slab, const void *p) {
    _Atomic uint8_t *state = acre__slab_state(slab, p);
    return state && acre__load(state, memory_order_relaxed) == cache->live ? state : NULL;
}

/* Inlined in both places: the call would be a tenth of it. */
static inline __attribute__((always_inline)) acre_status
free_near(acre_pool *pool, struct acre__slab *slab, void *p, acre_stream stream) {
    struct acre__pool_cache *cache = cache_here();
    _Atomic uint8_t *state = cache ? state_own(cache, slab, p) : NULL;
    if (!state)
        return free_other(pool, slab, p, stream);
    int is_hit = 0;
    struct acre__lane *lane = near_enter(cache);
    if (lane && lane->pool == slab->pool && lane->stream == stream)
        is_hit = stack_push(&lane->stacks[slab->size_class], p, state);
    acre__cache_leave(cache);
    return is_hit ? ACRE_OK : free_far(pool, slab, p, stream, 0);
}

static inline __attribute__((always_inline)) acre_status
pool_free_untraced(acre_pool *pool, void *p, acre_stream stream) {
    struct acre__slab *slab = acre__pool_table_find(p);
    if (slab && slab->pool == pool)
        return free_near(pool, slab, p, stream);
    return pool ? acre__pool_free_slow(pool, p, stream) : acre__pool_check(pool);
}

static inline __attribute__((always_inline)) acre_status free_untraced(void *p,
                                                                       acre_stream stream) {
    struct acre__slab *slab = acre__pool_table_find(p);
    return slab ? free_near(NULL, slab, p, stream) : acre__pool_free_slow(NULL, p, stream);
}

static __attribute__((noinline)) acre_status free_traced(acre_pool *pool, void *p,
                                                         acre_stream stream) {
    acre_pool *told = acre__pool_trace_free(p, stream);
    acre_status status = pool_free_untraced(pool, p, stream);
    return acre__pool_trace_freed(told, p, stream, status);
}

acre_status acre_pool_free(acre_pool *pool, void *p, acre_stream stream) {
    return acre__trace_is_on() ? free_traced(pool, p, stream) : pool_free_untraced(pool, p, stream);
}

acre_status acre__pool_free_untraced(acre_pool *pool, void *p, acre_stream stream) {
    return pool_free_untraced(pool, p, stream);
}

static __attribute__((noinline)) acre_status free_any_traced(void *p, acre_stream stream) {
    acre_pool *told = acre__pool_trace_free(p, stream);
    return acre__pool_trace_freed(told, p, stream, free_untraced(p, stream));
}

acre_status acre_free(void *p, acre_stream stream) {
    return acre__trace_is_on() ? free_any_traced(p, stream) : free_untraced(p, stream);
}
