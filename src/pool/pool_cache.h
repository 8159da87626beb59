/* Thread caches: free slots of one thread, so that a hit needs no lock.
 *
 * A thread has one cache. It consists of lanes, one for each pool and stream that the thread uses.
 * A lane has one stack (free list) for each size class, and keeps a few large blocks.
 *
 * The pool grants how much a stack may hold, from a budget for all caches together (pool_lane.c).
 * Grants start at zero, double while a stack is in use, and are revoked from unused stacks when a
 * lane ages.
 *
 * The owner works in its cache without a lock. Other threads claim the cache first (pool_claim.c):
 * then the owner waits outside. "Inside" below means the owner between acre__cache_enter and
 * acre__cache_leave, "claimed" a thread between acre__caches_claim and acre__caches_unclaim. */
#ifndef ACRE_POOL_CACHE_H
#define ACRE_POOL_CACHE_H

#include "pool/pool_slab.h"

/* ---- lanes ---- */

/* A free slot in a stack. A hit needs only these two fields and does not read the slot's record. */
struct acre__entry {
    void *p;
    acre__slot_state *state;
};

struct acre__stack {
    struct acre__entry *entries; /* NULL before the first grant */
    uint32_t count;
    uint16_t most; /* slots granted; a hit fills the stack up to this */
    uint8_t used;  /* by a hit, since the stack last aged */
};

enum { ACRE__KEPT = 8 }; /* most large blocks that a lane keeps */

struct acre__kept {
    struct acre__slab *slab;
    size_t bytes; /* of the slab */
};

/* The cache of a thread for one pool and one stream. */
struct acre__lane {
    acre_pool *pool;
    acre_stream stream;
    acre_pool *fast;     /* the pool if its allocs need no extra work; else an address of no pool */
    acre_device *simple; /* the device if the pool is its default pool of device memory */
    uint64_t id;         /* of the stream, when last queried */
    uint64_t thread;     /* acre__stream_thread of the owner */
    uint8_t is_debugged; /* ACRE_POOL_DEBUG */
    uint8_t is_checked;  /* the stream may be captured at any time: hits must query it */
    uint8_t is_foreign;
    uint8_t kept_used;   /* as a stack's `used` */
    uint32_t slow_calls; /* misses; saturates at 255 */
    uint32_t kept_count;
    int64_t large_live; /* large blocks allocated by the lane, less those freed into it */
    uint64_t kept_bytes, kept_room; /* of large blocks: kept, and granted */
    struct acre__kept kept[ACRE__KEPT];
    struct acre__class_set granted; /* stacks with `most` or `count` */
    uint32_t room[ACRE__CLASSES];   /* capacity of the stacks: above `most` after a long capture */
    struct acre__stack stacks[ACRE__CLASSES + 1]; /* the last, for large blocks, never has room */
};

struct acre__lane_place { /* entry of a cache's hash table */
    uint64_t hash;
    struct acre__lane *lane; /* NULL: empty */
};

struct acre__pool_cache {
    _Atomic uint32_t busy;     /* the owner is inside, or about to be */
    _Atomic uint32_t claimed;  /* enum acre__claim */
    uint32_t live;             /* state of slots that the owner allocates */
    uint16_t tag;              /* set by the owner, or 0 (pool_tag.h) */
    uint8_t is_tag_full;       /* an alloc with that tag was refused: no hits until one succeeds */
    _Atomic uint8_t is_strong; /* the owner enters with full barriers (pool_claim.c) */
    struct acre__lane *last;   /* the lane used last, if its hits need no checks; else NULL */
    struct acre__lane_place *lanes; /* hash table with open addressing */
    uint32_t lane_mask;             /* its size minus one; 0: no table */
    uint32_t lane_count;
    uint32_t hand;                         /* index of the lane that ages next */
    uint32_t misses;                       /* count of misses; decides when a lane ages */
    _Atomic uint32_t is_waiting;           /* the owner sleeps until it is unclaimed */
    uint8_t is_mine;                       /* claimed by the thread that holds the list's lock */
    uint8_t is_asking;                     /* the owner is inside an out-of-memory callback */
    struct acre__pool_cache *next, **link; /* in the list of all caches */
    struct acre__tag_thread *tags;         /* its counters; NULL before the first tag */
    struct acre__oom *oom; /* its last out-of-memory report; NULL before the first */
};

/* ---- pool_claim.c ---- */

enum acre__claim {
    ACRE__CLAIM_NONE,
    ACRE__CLAIM_TAKEN, /* another thread is inside, or about to be: the owner waits */
    ACRE__CLAIM_WEAK   /* a claim failed: the owner must become strong */
};

/* Returns the calling thread's cache and creates it if need be; NULL if out of host memory. */
struct acre__pool_cache *acre__cache_self(void);

/* Registers with the kernel for memory barriers, before the first cache exists. Registration takes
 * milliseconds in a process with several threads. So it runs when a pool is created, not when a
 * thread allocates its first block. When a thread exits, `empty` returns the slots in its cache to
 * their pools. */
void acre__cache_init(void (*empty)(struct acre__pool_cache *cache, uint64_t thread));

/* Marks the owner as inside. The owner is inside only if acre__cache_is_claimed then returns 0.
 * With membarrier the claiming thread orders the accesses of both threads, so plain accesses
 * suffice here. An acquire would delay all later loads on some processors. The fences only restrain
 * the compiler. */
static inline void acre__cache_mark(struct acre__pool_cache *cache) {
    acre__store(&cache->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}
static inline int acre__cache_is_claimed(struct acre__pool_cache *cache) {
    uint32_t claimed = acre__load(&cache->claimed, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    return claimed != ACRE__CLAIM_NONE;
}

/* Enters the cache as its owner, after waiting for a claim to end; leaves the cache. */
void acre__cache_enter(struct acre__pool_cache *cache);
static inline void acre__cache_leave(struct acre__pool_cache *cache) {
    acre__store(&cache->busy, 0, memory_order_release);
}

/* Claims every thread's cache, and keeps threads from creating or destroying caches. Then no owner
 * is inside, and no thread without a cache is between acre__reader_enter and acre__reader_leave.
 * Returns 0 if the kernel refuses the barrier that some cache needs. acre__cache_first and
 * acre__cache_next skip a cache that could not be claimed. */
int acre__caches_claim(void);
void acre__caches_unclaim(void);
/* Iterate over the claimed caches. */
struct acre__pool_cache *acre__cache_first(void);
struct acre__pool_cache *acre__cache_next(const struct acre__pool_cache *cache);
/* Claims all caches and calls `fn` for each. */
void acre__caches_visit(void (*fn)(struct acre__pool_cache *cache, void *user), void *user);

/* Between these calls no slab record in the table is freed, even if the caller owns no block of it.
 * `cache` may be NULL. The caller is not inside the cache. */
void acre__reader_enter(struct acre__pool_cache *cache);
void acre__reader_leave(struct acre__pool_cache *cache);

/* ---- pool_lane.c: caller is inside, or has claimed the cache ---- */

/* Finds the lane of a pool and stream; NULL if there is none. */
struct acre__lane *acre__cache_lane(struct acre__pool_cache *cache, const acre_pool *pool,
                                    acre_stream stream);
/* Enters the cache as its owner and finds the lane. The caller must leave the cache even if the
 * result is NULL. */
static inline struct acre__lane *acre__cache_enter_lane(struct acre__pool_cache *cache,
                                                        const acre_pool *pool, acre_stream stream) {
    acre__cache_enter(cache);
    return acre__cache_lane(cache, pool, stream);
}
/* Creates a lane; NULL if out of host memory. */
struct acre__lane *acre__cache_lane_make(struct acre__pool_cache *cache, acre_pool *pool,
                                         acre_stream stream, uint64_t id);
/* Destroys an empty lane and returns its grants. The pool's lock is held. */
void acre__cache_lane_end(struct acre__pool_cache *cache, struct acre__lane *lane);

/* Pushes all slots onto the stack of their class. Returns 0 and changes nothing if out of host
 * memory. */
int acre__lane_put(struct acre__lane *lane, uint32_t size_class, struct acre__slots *slots);
/* Moves all but `left` slots of a stack to a list. */
void acre__lane_take(struct acre__lane *lane, uint32_t size_class, uint32_t left,
                     struct acre__slots *slots);
/* Doubles the grant of a stack, if the pool's budget allows. The pool's lock is held. */
void acre__lane_grow(struct acre__lane *lane, uint32_t size_class);
/* As acre__lane_grow, for large blocks: grants room for one more of `bytes`. */
void acre__lane_grow_kept(struct acre__lane *lane, size_t bytes);

/* Takes a kept large block of at least `bytes`, and at most a 64th more; NULL if there is none. */
struct acre__slab *acre__lane_kept(struct acre__lane *lane, size_t bytes);
/* Keeps a large block that is being freed. Returns 1, or 0 if the block must return to the pool. If
 * *is_last is set, all kept blocks must return too: a thread without live large blocks keeps at
 * most one, so that a repeated sequence of calls finds the pool in the same state. */
int acre__lane_keep(struct acre__lane *lane, struct acre__slab *slab, int *is_last);
/* Moves all kept blocks to a list. */
void acre__lane_take_kept(struct acre__lane *lane, struct acre__slots *slots);
/* Puts back slots that were just taken, when the pool has no host memory to record them. */
void acre__lane_put_back(struct acre__lane *lane, uint32_t size_class, struct acre__slots *slots);

/* How hard a drain tries to return the slots of a cache to the pool. The pool's lock is held. */
enum acre__give {
    ACRE__GIVE_GENTLY, /* keeps slots that the pool could reuse only when the device is idle */
    ACRE__GIVE,        /* keeps slots only if out of host memory to record them */
    ACRE__GIVE_ALL     /* keeps none: if out of host memory, waits for the device */
};
/* Moves all but the first `left` slots of a class, or all large blocks (ACRE__CLASSES), to the
 * pool. Returns 0 if some had to stay. */
int acre__lane_give(struct acre__lane *lane, uint32_t size_class, uint32_t left,
                    enum acre__give how);
/* Prefetches the records of all slots but the first `left` of a stack into the processor's
 * cache. */
void acre__lane_prefetch(const struct acre__lane *lane, uint32_t size_class, uint32_t left);
/* Ages a lane: moves the slots of stacks that had no hit since the last call to the pool, and
 * revokes the grants of these stacks. Trims the other stacks to `share` bytes. The pool's lock is
 * held. Returns 1 if the lane is then unused. */
int acre__lane_age(struct acre__lane *lane, uint64_t share);
/* Return the budget in bytes of all caches of a pool, and the number of stacks of a lane with a
 * grant. */
uint64_t acre__lane_budget(const acre_pool *pool);
uint32_t acre__lane_stacks(const struct acre__lane *lane);
/* Revokes all grants of an empty lane, as if it were new. */
void acre__lane_reset(struct acre__lane *lane);
/* A number of free blocks in caches or in quarantine. */
struct acre__cached {
    uint64_t bytes, blocks;
};
/* Adds the blocks in the lane to `cached`, a struct acre__cached. */
void acre__lane_count(struct acre__lane *lane, void *cached);

/* ---- pool_cache.c: the pool's lock is held ---- */

/* Called by the owner on a miss. Now and then ages one lane of the pool, and destroys it if it is
 * unused and not the lane of `stream`. Ages all caches if the pool has denied too many grants. */
void acre__cache_age(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream);
/* Moves the large blocks that the owner keeps for a stream to the pool. `id` comes from
 * acre__pool_stream_id. */
void acre__cache_flush_kept(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                            uint64_t id);
/* Counts another large block allocated by the owner. */
void acre__cache_count_large(struct acre__pool_cache *cache, const acre_pool *pool,
                             acre_stream stream);

/* Called by the owner with the current id of the stream's handle. If the lane has slots of an
 * earlier stream with that handle, moves them to the pool. */
void acre__cache_renew(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                       uint64_t id);

/* Drains all caches: moves the pool's slots of one stream, or with `any` of all streams, to the
 * pool. ACRE__GIVE_ALL destroys the lanes too. Returns 0 if a cache could not be claimed. */
int acre__cache_drain(acre_pool *pool, acre_stream stream, int any, enum acre__give how);

/* Counts the blocks of the pool in all caches. */
struct acre__cached acre__caches_count(const acre_pool *pool);

/* Called when the thread with that id exits: returns all slots in its cache to their pools. */
void acre__cache_empty(struct acre__pool_cache *cache, uint64_t thread);

/* Returns 1 if another stream has the lane's handle now. The caller knows that the stream is not
 * captured. */
int acre__lane_is_stale(const struct acre__lane *lane);

/* What a lane says about its pool and stream. A lane exists only while both do, unless the stream
 * is foreign. So a call that finds a lane need not check them again. */
struct acre__known {
    int is_known;
    int is_checked; /* the stream may be captured */
    uint64_t id;    /* of the stream */
};
/* Reads the calling thread's lane. Any handles are safe; `cache` may be NULL. */
struct acre__known acre__cache_knows(struct acre__pool_cache *cache, const acre_pool *pool,
                                     acre_stream stream);
/* Creates the calling thread's lane if there is none. This queries the stream's id, which fails for
 * a captured stream. With `may_be_captured` the lane then gets an unknown id. Returns ACRE_OK also
 * if out of host memory for a lane. */
acre_status acre__cache_ensure(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                               int may_be_captured);
/* Pushes slots onto the calling thread's stack. Returns 0 if there is no lane, or if out of host
 * memory. */
int acre__cache_put(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                    uint32_t size_class, struct acre__slots *slots);

#endif
