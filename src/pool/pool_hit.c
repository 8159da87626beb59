/* The calls that matter: a block out of a pool and back into it.
 *
 * A hit finds a slot in the calling thread's stack for the pool, stream and class, or room in it.
 * What is not a hit goes to the slow way (pool_slow.h), which checks everything and fetches or
 * gives a batch. A lane exists only for a pool that exists, so a hit needs no other check of the
 * handle. */
#include "base/atomic.h"
#include "base/thread.h"
#include "pool/pool.h"
#include "pool/pool_slow.h"

static inline struct acre__pool_cache *cache_here(void) {
    const struct acre__thread *thread = acre__thread_pointer;
    return thread ? thread->pool : NULL;
}

/* The lane used last, or another one of the thread's. */
static inline struct acre__lane *lane_here(struct acre__pool_cache *cache, const acre_pool *pool,
                                           acre_stream stream) {
    struct acre__lane *lane = cache->last;
    return lane && lane->pool == pool && lane->stream == stream
               ? lane
               : acre__cache_lane(cache, pool, stream);
}

static inline struct acre__slot *stack_pop(struct acre__stack *stack, uint32_t tag) {
    struct acre__slot *slot = stack->first;
    if (!slot)
        return NULL;
    stack->first = slot->next;
    stack->count--;
    acre__store(&slot->state, tag | ACRE__SLOT_LIVE, memory_order_relaxed);
    return slot;
}

static inline int alignment_is_plain(size_t alignment) {
    return alignment == 0 || alignment == ACRE__GRAIN;
}

acre_status acre_pool_alloc(acre_pool *pool, size_t bytes, size_t alignment, acre_stream stream,
                            void **p) {
    struct acre__pool_cache *cache = cache_here();
    if (cache && p && bytes - 1 < ACRE__CLASS_BYTES_MOST && alignment_is_plain(alignment)) {
        struct acre__slot *slot = NULL;
        acre__cache_enter(cache);
        struct acre__lane *lane = lane_here(cache, pool, stream);
        if (lane && lane->fast)
            slot = stack_pop(&lane->stacks[acre__class_of(bytes)], cache->tag);
        acre__cache_leave(cache);
        if (slot) {
            *p = slot->p;
            return ACRE_OK;
        }
    }
    return acre__pool_alloc_slow(pool, bytes, alignment, stream, 0, p);
}

acre_status acre_alloc(acre_device *device, size_t bytes, acre_stream stream, void **p) {
    struct acre__pool_cache *cache = cache_here();
    if (cache && p && bytes - 1 < ACRE__CLASS_BYTES_MOST) {
        struct acre__slot *slot = NULL;
        acre__cache_enter(cache);
        struct acre__lane *lane = cache->last;
        if (lane && lane->simple == device && lane->stream == stream && device)
            slot = stack_pop(&lane->stacks[acre__class_of(bytes)], cache->tag);
        acre__cache_leave(cache);
        if (slot) {
            *p = slot->p;
            return ACRE_OK;
        }
    }
    acre_pool *pool;
    if (p)
        *p = NULL;
    acre_status status = acre_pool_default(device, ACRE_KIND_DEVICE, &pool);
    return status ? status : acre_pool_alloc(pool, bytes, 0, stream, p);
}

/* 1 if the block went into the calling thread's stack. A block that the thread itself was handed is
 * its own, so no other thread may touch the state at the same time; the rest is for the slow way.
 */
static inline int free_hit(struct acre__slab *slab, void *p, acre_stream stream) {
    struct acre__pool_cache *cache = cache_here();
    struct acre__slot *slot = cache ? acre__slab_slot(slab, p) : NULL;
    if (!slot || acre__load(&slot->state, memory_order_relaxed) != (cache->tag | ACRE__SLOT_LIVE))
        return 0;
    int is_hit = 0;
    acre__cache_enter(cache);
    struct acre__lane *lane = lane_here(cache, slab->pool, stream);
    if (lane && !lane->is_debugged) {
        struct acre__stack *stack = &lane->stacks[slab->size_class];
        is_hit = stack->count < stack->most;
        if (is_hit) {
            acre__store(&slot->state, 0, memory_order_relaxed);
            slot->next = stack->first;
            stack->first = slot;
            stack->count++;
        }
    }
    acre__cache_leave(cache);
    return is_hit;
}

acre_status acre_pool_free(acre_pool *pool, void *p, acre_stream stream) {
    struct acre__slab *slab = acre__pool_table_find(p);
    if (slab && slab->pool == pool && pool && free_hit(slab, p, stream))
        return ACRE_OK;
    return pool ? acre__pool_free_slow(pool, p, stream) : acre__pool_check(pool);
}

acre_status acre_free(void *p, acre_stream stream) {
    struct acre__slab *slab = acre__pool_table_find(p);
    if (slab && free_hit(slab, p, stream))
        return ACRE_OK;
    return acre__pool_free_slow(NULL, p, stream);
}
