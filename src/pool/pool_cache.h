/* Thread caches: free slots that a thread has at hand, so that a hit needs no lock.
 *
 * A thread has one cache. In it are lanes, one for each pool and stream that the thread uses, and
 * in a lane one stack of free slots for each size class, and a few large blocks.
 *
 * How much a stack may hold is granted by the pool, from a budget for all caches together
 * (pool_lane.c). Grants begin at nothing, double while a stack is in use, and are taken back from
 * stacks that are not.
 *
 * The owner works in its cache without a lock. Others claim the cache first (pool_claim.c): then
 * the owner waits outside. "Inside" below means the owner between acre__cache_enter and
 * acre__cache_leave, "claimed" a thread between acre__caches_claim and acre__caches_unclaim. */
#ifndef ACRE_POOL_CACHE_H
#define ACRE_POOL_CACHE_H

#include "pool/pool_slab.h"

/* ---- lanes ---- */

/* A free slot in a stack: what a hit needs of it, so that it need not look at the slot's record. */
struct acre__entry {
    void *p;
    acre__slot_state *state;
};

struct acre__stack {
    struct acre__entry *entries; /* made with the first grant, NULL before */
    uint32_t count;
    uint16_t most; /* slots granted; a hit fills the stack up to this */
    uint8_t used;  /* by a hit, since the stack's age was looked at last */
};

enum { ACRE__KEPT = 8 }; /* large blocks that a lane keeps at most */

struct acre__kept {
    struct acre__slab *slab;
    size_t bytes; /* of the slab */
};

/* What a thread has of one pool for one stream. */
struct acre__lane {
    acre_pool *pool;
    acre_stream stream;
    acre_pool *fast;     /* the pool, if its blocks need nothing done when they are handed out, else
                            none */
    acre_device *simple; /* the device, if that pool is its default one of device memory */
    uint64_t id;         /* of the stream, when it was last asked */
    uint64_t thread;     /* acre__stream_thread of the owner */
    uint8_t is_debugged; /* ACRE_POOL_DEBUG */
    uint8_t is_checked;  /* the stream may be captured at any time: hits have to ask */
    uint8_t is_foreign;
    uint8_t kept_used;   /* as a stack's `used` */
    uint32_t slow_calls; /* misses, at most 255 */
    uint32_t kept_count;
    int64_t large_live; /* large blocks handed out by the lane, less those freed into it */
    uint64_t kept_bytes, kept_room; /* of large blocks: kept now, and granted */
    struct acre__kept kept[ACRE__KEPT];
    uint64_t granted[(ACRE__CLASSES + 63) / 64]; /* bits: stacks with `most` or `count` */
    uint32_t room[ACRE__CLASSES]; /* entries of the stacks: more than `most` after a long capture */
    struct acre__stack stacks[ACRE__CLASSES + 1]; /* the last, of large blocks, is always full */
};

struct acre__lane_place { /* in a cache's hash table */
    uint64_t hash;
    struct acre__lane *lane; /* NULL: empty */
};

struct acre__pool_cache {
    _Atomic uint32_t busy;     /* the owner is inside */
    _Atomic uint32_t claimed;  /* enum acre__claim */
    uint32_t live;             /* the state of slots that were handed out to the owner */
    uint16_t tag;              /* set by the owner, or 0 (pool_tag.h) */
    uint8_t is_tag_full;       /* a block of that tag was refused: no hits until one is not */
    _Atomic uint8_t is_strong; /* the owner enters with full barriers (pool_claim.c) */
    struct acre__lane *last;   /* used last, if its hits need no check of any kind; else NULL */
    struct acre__lane_place *lanes; /* hash table with open addressing */
    uint32_t lane_mask;             /* its places less one; 0: it has none */
    uint32_t lane_count;
    uint32_t hand;                         /* place of the lane whose age is looked at next, */
    uint32_t misses;                       /* and when */
    _Atomic uint32_t is_waiting;           /* the owner sleeps until it is unclaimed */
    uint8_t is_mine;                       /* claimed by whoever holds the list's lock */
    uint8_t is_asking;                     /* the owner is in a callback for want of memory */
    uint64_t granted;                      /* bytes, of all its lanes */
    struct acre__pool_cache *next, **link; /* in the list of all */
    struct acre__tag_thread *tags;         /* what it counts of them; NULL before the first */
    struct acre__oom *oom;                 /* its last refusal; NULL before the first */
};

/* ---- pool_claim.c ---- */

enum acre__claim {
    ACRE__CLAIM_NONE,
    ACRE__CLAIM_TAKEN, /* somebody else is inside, or about to be: the owner waits */
    ACRE__CLAIM_WEAK   /* somebody could not come in: the owner shall become strong */
};

/* The calling thread's cache, made now if it has none; NULL without memory. */
struct acre__pool_cache *acre__cache_self(void);

/* Finds out what the kernel can do, before the first cache. In a process with threads that takes
 * milliseconds, so it is called when a pool is made, not when a thread wants its first block. */
void acre__cache_init(void);

/* The owner says that it is inside, or will be if nobody has claimed the cache. With membarrier,
 * who claims it orders both sides' accesses, and plain ones are enough here; an acquire would hold
 * up all later loads on some processors. The fences hold the compiler. */
static inline void acre__cache_mark(struct acre__pool_cache *cache) {
    acre__store(&cache->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}
static inline int acre__cache_is_claimed(struct acre__pool_cache *cache) {
    uint32_t claimed = acre__load(&cache->claimed, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    return claimed != ACRE__CLAIM_NONE;
}

/* The owner goes in, waiting for whoever has claimed the cache, and out. */
void acre__cache_enter(struct acre__pool_cache *cache);
static inline void acre__cache_leave(struct acre__pool_cache *cache) {
    acre__store(&cache->busy, 0, memory_order_release);
}

/* Claims every thread's cache, and keeps threads from getting or losing theirs. 0 when one cannot
 * be claimed, for want of a barrier (acre__cache_first leaves it out). No owner is inside, and
 * whoever has no cache is outside of acre__reader_enter. */
int acre__caches_claim(void);
void acre__caches_unclaim(void);
/* The claimed caches. */
struct acre__pool_cache *acre__cache_first(void);
struct acre__pool_cache *acre__cache_next(const struct acre__pool_cache *cache);
/* Calls `fn` with every thread's cache, claimed. */
void acre__caches_visit(void (*fn)(struct acre__pool_cache *cache, void *user), void *user);

/* Between these a slab that the table has is not freed, although the caller has no block of it.
 * `cache` may be NULL. Not inside the cache. */
void acre__reader_enter(struct acre__pool_cache *cache);
void acre__reader_leave(struct acre__pool_cache *cache);

/* ---- pool_lane.c: inside, or claimed ---- */

/* The lane of a pool and stream, or NULL. */
struct acre__lane *acre__cache_lane(struct acre__pool_cache *cache, const acre_pool *pool,
                                    acre_stream stream);
/* Makes one; NULL without memory. */
struct acre__lane *acre__cache_lane_make(struct acre__pool_cache *cache, acre_pool *pool,
                                         acre_stream stream, uint64_t id);
/* Forgets an empty lane and returns its grants. The pool's lock is held. */
void acre__cache_lane_end(struct acre__pool_cache *cache, struct acre__lane *lane);

/* Puts all of the slots on top of the stack of their class; 0 without memory for so many, when
 * nothing has changed. */
int acre__lane_put(struct acre__pool_cache *cache, struct acre__lane *lane, uint32_t size_class,
                   struct acre__slots *slots);
/* Moves all but `left` of a stack's slots to a list. */
void acre__lane_take(struct acre__lane *lane, uint32_t size_class, uint32_t left,
                     struct acre__slots *slots);
/* Doubles what a stack may hold, if the pool's budget allows. The pool's lock is held. */
void acre__lane_grow(struct acre__pool_cache *cache, struct acre__lane *lane, uint32_t size_class);
/* The same for large blocks: room for one more of so many bytes. */
void acre__lane_grow_kept(struct acre__pool_cache *cache, struct acre__lane *lane, size_t bytes);

/* A large block that the lane keeps and that has hardly more than so many bytes, or NULL. */
struct acre__slab *acre__lane_kept(struct acre__lane *lane, size_t bytes);
/* Keeps a large block that is freed: 1, or 0 when it must go to the pool; *is_last: with all that
 * the lane keeps. A thread without large blocks keeps one at most, so that what it does again finds
 * the pool as it was. */
int acre__lane_keep(struct acre__lane *lane, struct acre__slab *slab, int *is_last);
/* Keeps one again that was taken from it just before. */
void acre__lane_put_kept(struct acre__lane *lane, struct acre__slab *slab);
/* Moves what it keeps to a list. */
void acre__lane_take_kept(struct acre__lane *lane, struct acre__slots *slots);

/* Steps through the classes that the lane has something of, from *size_class on; 0 at the end. */
int acre__lane_next(const struct acre__lane *lane, uint32_t *size_class);
/* Gives all slots of a class (ACRE__CLASSES: large blocks) to the pool, whose lock is held: 1, or 0
 * when they had to stay for want of host memory. `must`: waits for the device instead. */
int acre__lane_give(struct acre__pool_cache *cache, struct acre__lane *lane, uint32_t size_class,
                    int must);
/* Gives what was not used since the last call to the pool, whose lock is held, with the grants, and
 * what a stack has beyond its share of the budget. 1 if nothing is left. */
int acre__lane_age(struct acre__pool_cache *cache, struct acre__lane *lane, uint64_t share);
/* What caches may hold of the pool, and how many stacks of a lane have a part of that. */
uint64_t acre__lane_budget(const acre_pool *pool);
uint32_t acre__lane_stacks(const struct acre__lane *lane);
/* Takes all grants of an empty lane back, as if it had been made just now. */
void acre__lane_reset(struct acre__pool_cache *cache, struct acre__lane *lane);
/* Bytes and blocks in the lane. */
uint64_t acre__lane_bytes(const struct acre__lane *lane, uint64_t *blocks);

/* ---- pool_cache.c: the pool's lock is held ---- */

/* The owner looks at the age of some lane of the pool, other than that of the stream. */
void acre__cache_age(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream);
/* Looks at the age of everything that threads have of the pool, if the budget was in the way. */
void acre__caches_age(acre_pool *pool);

/* Gives the large blocks that the owner keeps for a stream to the pool. `id` as
 * acre__pool_stream_id gave it. */
void acre__cache_flush_kept(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                            uint64_t id);
/* The owner was handed another large block. */
void acre__cache_count_large(struct acre__pool_cache *cache, const acre_pool *pool,
                             acre_stream stream);

/* The owner calls: what the cache has for a stream is of the stream with that id from now on. If it
 * is of another one that had the handle before, it goes to the pool. */
void acre__cache_renew(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                       uint64_t id);

/* Gives everything that any thread's cache has of a pool (of one stream, or of all for `any`) to
 * the pool. With `end` the lanes themselves go too. 0 when a cache could not be claimed. */
int acre__cache_drain(acre_pool *pool, acre_stream stream, int any, int end);

/* Bytes and blocks of the pool in all caches. */
uint64_t acre__caches_bytes(const acre_pool *pool, uint64_t *blocks);

/* ---- pool_cache.c ---- */

/* The thread with that id ends: all that its cache has goes to its pools. */
void acre__cache_empty(struct acre__pool_cache *cache, uint64_t thread);
/* Frees an empty cache that is in no list. */
void acre__cache_free(struct acre__pool_cache *cache);

/* 1 if the lane's handle is another stream's by now. The stream is not captured. */
int acre__lane_is_stale(const struct acre__lane *lane);

/* The id of a stream, ACRE__ID_UNKNOWN where the driver does not tell; ACRE_E_CAPTURING while it is
 * captured, since asking would break the capture. */
acre_status acre__pool_stream_id(acre_device *dev, acre_stream stream, uint64_t *id);

#endif
