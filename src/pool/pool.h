/* Pools: what the files of src/pool have in common.
 *
 * A slot is what a block is served from. Small blocks have slots of size classes, many in a slab;
 * a large block's slab has one slot, of just its size. Both are pieces of arenas (arena/arena.h):
 * slabs of small blocks in one, large blocks in the other, so that no small block keeps the memory
 * of large ones.
 *
 * A free slot is in exactly one place: in a stack of a thread's cache, for one pool and stream
 * (pool_cache.c); in the pool's lists of what was freed on a stream (pool_stream.c); or among those
 * that are ready for any stream (pool_central.c). A large one that is not in a thread's cache is no
 * slot any more but a hole, of the stream or ready.
 *
 * A hit pops from or pushes to a stack of the calling thread: no lock, no driver call. Stacks are
 * filled and emptied in batches under the pool's lock. */
#ifndef ACRE_POOL_POOL_H
#define ACRE_POOL_POOL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "acre.h"
#include "arena/arena.h"
#include "base/atomic.h"
#include "base/lock.h"
#include "base/tree.h"
#include "driver/device.h"
#include "pool/pool_class.h"
#include "pool/pool_table.h"
#include "space/book.h"
#include "space/uses.h"
#include "watch/stats_file.h"
#include "watch/trace.h"

/* Threads that have nothing to do with each other must not write to one cache line, nor to one that
 * another reads all the time: what a hit touches begins at a line of its own. */
enum { ACRE__LINE = 64 };

/* Zeroed memory that has its lines for itself, to be freed by free; NULL without memory. */
static inline void *acre__pool_lines(size_t bytes) {
    size_t whole = (bytes + ACRE__LINE - 1) / ACRE__LINE * ACRE__LINE;
    void *lines = aligned_alloc(ACRE__LINE, whole);
    return lines ? memset(lines, 0, whole) : NULL;
}

/* ---- slots and slabs ---- */

/* The state of a slot: free, or handed out by a thread whose mark is in the upper bits. Written
 * plainly by the thread that has the slot in its hands; only freeing another thread's block is a
 * race that must have one winner.
 *
 * A byte, so that those of a million slots fit into what a processor has for itself. So marks come
 * round: a thread takes blocks of another with its mark for its own. That is a plain free as well,
 * unless both free one block at once, which is found no better between a block's owner and another
 * thread. */
enum {
    ACRE__SLOT_LIVE = 1,
    ACRE__SLOT_USED = 2,   /* other streams use it as well */
    ACRE__SLOT_TAGGED = 4, /* it was handed out with a tag (pool_tag.h) */
    ACRE__SLOT_MARK = 8,
    ACRE__SLOT_MARKS = 31 /* 0 is nobody's */
};

/* What the pool's lists are made of. A hit does not touch it. */
struct acre__slot {
    struct acre__slot *next; /* in the list that has it; nothing while a stack does */
    void *p;
    _Atomic uint8_t *state; /* in its slab */
};

/* Slots of one size, one behind the other. With a million live blocks every line that a free
 * touches is a miss: hence the states lie together, 64 to a line, behind the one line of the slab
 * that a hit reads, and the records of the slots behind them. */
struct acre__slab {
    uint64_t at;
    uint64_t magic; /* 2^32 / slot_bytes in grains, rounded up: divides offsets of less than 2^16
                       grains; 0 with one slot, which is then the first for any offset */
    uint64_t slot_bytes;
    uint32_t count;      /* slots */
    uint32_t size_class; /* ACRE__CLASSES: it has one, a large block's */
    acre_pool *pool;
    struct acre__slot *slots;         /* behind the states; `p` is set with the first use */
    _Atomic(_Atomic uint16_t *) tags; /* of blocks with ACRE__SLOT_TAGGED; NULL before the first */
    /* The pool's lock guards the rest, which changes: not in the line that every hit reads. */
    _Alignas(ACRE__LINE) uint32_t fresh; /* slots from here on were never used */
    uint32_t idle;             /* slots in the pool's list of those that wait for nothing */
    struct acre__slab *next;   /* of the pool's */
    struct acre__piece *piece; /* where it is */
    size_t bytes;
    _Atomic uint16_t one_tag; /* in place of an array, with one slot */
    _Alignas(ACRE__LINE) _Atomic uint8_t states[];
};

struct acre__slots { /* a list that can be joined to another */
    struct acre__slot *first, *last;
    uint32_t count;
};

/* ---- streams of a pool ---- */

/* A stream whose id could not be asked for is taken for the one that the handle meant before. */
#define ACRE__ID_UNKNOWN UINT64_MAX

static inline int acre__id_differs(uint64_t a, uint64_t b) {
    return a != b && a != ACRE__ID_UNKNOWN && b != ACRE__ID_UNKNOWN;
}

/* The per-thread default stream has the same handle in all threads: the calling thread's id for it,
 * 0 for others. Only the thread itself can ask the driver about its own. */
uint64_t acre__stream_thread(acre_stream stream);

/* What is free and waits for the same thing. */
struct acre__freed {
    struct acre__slots slots[ACRE__CLASSES];
    struct acre__holes holes; /* of large blocks */
    uint64_t count;           /* slots */
};

static inline int acre__freed_has(const struct acre__freed *freed) {
    return freed->count || freed->holes.bytes || freed->holes.ghosts;
}

/* What was freed on a stream up to one event. */
struct acre__generation {
    struct acre__freed *freed;
    struct acre__uses mark; /* the event, on one stream */
    int is_covered;         /* it is behind everything in `freed` */
};

/* A stream, or one that ended and whose memory still waits (pool_stream.c). */
struct acre__pool_stream {
    struct acre__node node; /* key: the handle, or the thread of a per-thread default stream */
    struct acre__pool_stream *next; /* of the pool's */
    acre_stream stream;
    uint64_t id;      /* of the stream */
    uint64_t thread;  /* acre__stream_thread of who freed */
    int is_foreign;   /* made with CUDA: it may be destroyed without a word */
    int is_over;      /* it ended: nothing may be asked of the handle */
    int is_forgotten; /* it is found by no key any more */
    struct acre__generation generations[2], *recent, *marked;
};

/* What is done, in this order, when a pool has no memory for a call (pool_ladder.h). */
enum acre__rung {
    ACRE__RUNG_CACHES,
    ACRE__RUNG_DONE,
    ACRE__RUNG_MOVED,
    ACRE__RUNG_BEHIND,
    ACRE__RUNG_POOLS,
    ACRE__RUNG_CALLBACK,
    ACRE__RUNG_WAITING,
    ACRE__RUNGS
};

enum { ACRE__RELAYS = 8 };

enum {
    ACRE__QUARANTINE = 64
}; /* blocks that are kept from being used again at once, for debugging */

struct acre_pool {
    struct acre__node node; /* in the list of pools; key: its own address */
    acre_device *dev;
    acre_kind kind;
    uint32_t flags;
    int is_default;
    struct acre__lock lock;                  /* guards the rest */
    struct acre__account account;            /* of both arenas */
    struct acre__arena slabs_in, blocks_in;  /* where slabs of small blocks are, and large blocks */
    int is_reserved;                         /* memory was taken ahead, for both */
    struct acre__slots ready[ACRE__CLASSES]; /* wait for nothing */
    struct acre__slab *fresh[ACRE__CLASSES]; /* the slab with slots that were never used, or NULL */
    uint32_t slots[ACRE__CLASSES];           /* in all slabs of the class */
    struct acre__pool_stream *streams;       /* all, those that ended too */
    struct acre__tree handle_streams, thread_streams; /* those that did not, by key */
    struct acre__pool_stream *lost;                   /* frees whose stream nobody knows, or NULL */
    acre_stream relays[ACRE__RELAYS];                 /* made when needed */
    struct acre__uses spare_events;
    struct acre__slab *slabs; /* of small blocks */
    struct acre__slab *spare; /* records of large blocks, to be used again */
    struct acre__tree asked;  /* with ACRE_POOL_DEBUG, by address: bytes asked for (pool_debug.c) */
    struct acre__slot *quarantine[ACRE__QUARANTINE]; /* freed last, or NULL */
    unsigned quarantine_next;
    uint64_t overruns, late_writes;
    struct acre__tree uses; /* by address: who else uses a block (struct pool_use) */
    uint64_t refills, spills, events, waits;
    struct acre__trace_pool trace;   /* fixed: what it is called in traces */
    struct acre__stats_row *row;     /* fixed: for ACRE_STATS, or NULL */
    acre_pool_stats exported;        /* when it was last counted, */
    uint64_t export_due_ns;          /* and when that is to be done again (pool_watch.c) */
    uint64_t used;                   /* bytes of slots that threads have, live or in caches */
    uint64_t soft_bytes, hard_bytes; /* limits of that; 0: none */
    uint64_t soft_mark;              /* the pool gives back when more than this is used */
    uint64_t over_soft;              /* times that it did */
    acre_pool_oom_fn oom;            /* the user's callback, or NULL, */
    void *oom_user;
    uint32_t asking;    /* threads inside it: the pool stays meanwhile */
    acre_stream waiter; /* on which the host waits for batches; NULL before the first time */
    uint64_t served[ACRE__RUNGS], refused;
};

/* Who else uses a block, until it is freed. */
struct acre__pool_use {
    struct acre__node node; /* key: the block's address */
    struct acre__uses uses;
    uint64_t key; /* of their handles together */
};

/* ---- what a thread wants of a pool ---- */

struct acre__want {
    acre_pool *pool;
    acre_stream stream;
    uint64_t id;              /* as acre__pool_stream_id gave it */
    uint32_t size_class;      /* ACRE__CLASSES: a large block */
    uint32_t count;           /* slots at most; at least one */
    size_t bytes;             /* of each, as the pool rounds them */
    size_t alignment;         /* of a large block */
    struct acre__slots slots; /* those that were found */
    int is_limited;           /* the pool's own limit is in the way, not its memory */
};

enum acre__effort {
    ACRE__TAKE_FREE,  /* what is free for the stream */
    ACRE__TAKE_NEW,   /* that, what other streams are known to be done with, and new memory */
    ACRE__TAKE_BEHIND /* what another stream may still use: the stream waits for it */
};

/* ---- pool_limit.c: under the pool's lock ---- */

/* ACRE_OK if one more slot of so many bytes is within the hard limit; *count becomes smaller if so
 * many are not. */
acre_status acre__limit_check(const acre_pool *pool, size_t bytes, uint32_t *count);
/* Slots go to a thread, or come back. */
void acre__limit_charge(acre_pool *pool, uint64_t bytes);
void acre__limit_credit(acre_pool *pool, uint64_t bytes);
/* Gives back what can be given back if more is used than the soft limit; what was freed on the
 * stream stays for it. */
void acre__limit_relieve(acre_pool *pool, acre_stream stream, uint64_t id);
/* ACRE_E_INVALID if they contradict each other. */
acre_status acre__limit_set(acre_pool *pool, uint64_t soft_bytes, uint64_t hard_bytes);

/* ---- pool_ladder.c ---- */

static inline int acre__is_no_memory(acre_status status) {
    return status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_HOST_MEMORY ||
           status == ACRE_E_ADDRESS_SPACE || status == ACRE_E_LIMIT;
}

/* Lock held, and left meanwhile if need be: at least one slot for the wish, or a status. */
acre_status acre__ladder_take(struct acre__want *want);
/* Gives all memory back that nobody has, and waits for the work that it was freed behind. */
acre_status acre__ladder_give_back(acre_pool *pool);
/* Lock held: fills in what limits and the ladder count. */
void acre__ladder_stats(const acre_pool *pool, acre_pool_stats *stats);

/* No lock held: asks the user's callback whether to try again; 0 also if there is none, or inside
 * it. */
int acre__ladder_ask(acre_pool *pool, uint64_t bytes, uint32_t attempt);

/* ---- pool.c ---- */

/* Lock held: drains the caches and gives memory back until `keep_bytes` remain. What was freed on a
 * stream that is captured right now stays. */
void acre__pool_trim(acre_pool *pool, uint64_t keep_bytes);
/* No lock held: calls `fn` with the lock of every pool but one. */
void acre__pools_visit(const acre_pool *but, void (*fn)(acre_pool *pool, void *user), void *user);

/* All pools; also held by a thread that ends, so that no pool ends under it. */
extern struct acre__lock acre__pool_list_lock;

/* ---- pool_slab.c ---- */

/* The state of the slot that begins at `p`, in the slab that has the address; NULL when none does.
 */
static inline _Atomic uint8_t *acre__slab_state(struct acre__slab *slab, const void *p) {
    uint64_t offset = (uintptr_t)p - slab->at;
    uint32_t index = (uint32_t)(offset / ACRE__GRAIN * slab->magic >> 32);
    int is_first = index * slab->slot_bytes == offset && index < slab->count;
    return is_first ? &slab->states[index] : NULL;
}
/* The same for its record. */
static inline struct acre__slot *acre__slab_slot(struct acre__slab *slab, const void *p) {
    const _Atomic uint8_t *state = acre__slab_state(slab, p);
    return state ? &slab->slots[state - slab->states] : NULL;
}
/* The record of a slab of `count` slots, without memory and in no list; NULL without memory for it.
 */
struct acre__slab *acre__slab_record(uint64_t at, size_t bytes, size_t slot_bytes, size_t count);
/* Ends a record that is in no list. */
void acre__slab_drop(struct acre__slab *slab);
/* Lock held: the next slot that was never used; there must be one. */
struct acre__slot *acre__slab_fresh(struct acre__slab *slab);
/* Lock held: the slab of this pool that an address is in; NULL if none is. Any value is safe. */
struct acre__slab *acre__slab_of(const acre_pool *pool, const void *p);
/* The slot that holds any address of the slab; NULL behind the last one. */
struct acre__slot *acre__slab_around(struct acre__slab *slab, const void *p);

/* Lock held: another slab of the class, entered everywhere. */
acre_status acre__slab_make(acre_pool *pool, uint32_t size_class, struct acre__slab **slab);
/* Lock held: gives slabs back all of whose slots wait for nothing, and memory that nothing lies in,
 * as long as more than `keep` bytes remain. */
void acre__slab_trim(acre_pool *pool, uint64_t keep);
/* Lock held: takes memory until the pool has `bytes`. */
acre_status acre__slab_reserve(acre_pool *pool, uint64_t bytes);
/* Ends all slabs and large blocks of a pool, whatever their slots are, and gives the memory back.
 */
void acre__slab_end_all(acre_pool *pool);

static inline uint64_t acre__pool_held(const acre_pool *pool) {
    return pool->account.held;
}

/* ---- pool_large.c: blocks of more than ACRE__SMALL_MOST bytes, or far alignments ---- */

static inline int acre__slab_is_large(const struct acre__slab *slab) {
    return slab->size_class == ACRE__CLASSES;
}

/* The bytes that a large block gets. */
size_t acre__large_bytes(size_t bytes);
/* Lock held: a large block's slot. As acre__central_take. */
acre_status acre__large_take(struct acre__want *want, enum acre__effort effort);
/* Lock held: the block becomes a hole that waits for what `to` waits for; its slot is gone. */
void acre__large_give(acre_pool *pool, struct acre__slab *slab, const struct acre__reach *to);

/* ---- pool_central.c: under the pool's lock ---- */

/* Slots for work of a stream, as far as the effort goes. ACRE_OK without slots: there were none,
 * but for ACRE__TAKE_NEW, which says why. */
acre_status acre__central_take(struct acre__want *want, enum acre__effort effort);
/* The record of the wish's stream; NULL and *status otherwise. */
struct acre__pool_stream *acre__central_stream(const struct acre__want *want, acre_status *status);
/* Slots that were freed on the stream, by the call that names it. 0 when that cannot be noted: they
 * stay the caller's. */
int acre__central_give(acre_pool *pool, uint32_t size_class, acre_stream stream, uint64_t id,
                       struct acre__slots *slots);
/* The same for slots that a thread has had since the stream had that id, which may be dead by now.
 * `thread`: acre__stream_thread of it. */
int acre__central_give_old(acre_pool *pool, uint32_t size_class, acre_stream stream,
                           uint64_t thread, uint64_t id, struct acre__slots *slots);
/* Slots that a thread had, and that wait for nothing. */
void acre__central_ready(acre_pool *pool, uint32_t size_class, struct acre__slots *slots);
/* Puts slots that a thread had to what was freed on a stream last; large ones, of any class above
 * the small ones, become holes. */
void acre__freed_put(acre_pool *pool, struct acre__pool_stream *stream, uint32_t size_class,
                     struct acre__slots *slots);
/* All of it waits for nothing any more. */
void acre__freed_ready(acre_pool *pool, struct acre__freed *freed);

/* ---- pool_stream.c: under the pool's lock ---- */

/* The record of a stream that the caller names, made now if there is none; NULL and *status
 * otherwise. */
struct acre__pool_stream *acre__stream_find(acre_pool *pool, acre_stream handle, uint64_t thread,
                                            uint64_t id, acre_status *status);
/* 1 if the handle is known to belong to a stream with another id by now. */
int acre__stream_is_gone(acre_pool *pool, acre_stream handle, uint64_t thread, uint64_t id);
/* Takes the place of a stream that nobody knows; NULL without memory. */
struct acre__pool_stream *acre__stream_lost(acre_pool *pool);
/* The holes that the stream may use. */
struct acre__reach acre__stream_reach(const struct acre__pool_stream *stream);
/* Slots were freed on the stream; `is_named`: by a call that names it, so that it exists. */
void acre__stream_put(acre_pool *pool, struct acre__pool_stream *stream, uint32_t size_class,
                      struct acre__slots *slots, int is_named);
/* A block is freed that other streams use as well (acre_pool_record_use). */
acre_status acre__stream_put_used(acre_pool *pool, struct acre__slot *slot, uint32_t size_class,
                                  acre_stream stream);
/* A block is freed when an event has passed. */
acre_status acre__stream_put_after(acre_pool *pool, struct acre__slot *slot, uint32_t size_class,
                                   acre_event event);
/* 1 if a stream that the caller names has nothing under way, so that what was freed on it waits for
 * nothing. */
int acre__stream_is_idle(acre_pool *pool, const struct acre__pool_stream *stream);
/* Records an event behind what was freed on the stream, if its handle may be touched, and takes
 * what events have passed. */
void acre__stream_settle(acre_pool *pool, struct acre__pool_stream *stream, int is_named);
/* The same for all streams, or some of them; `own` is named by the caller, or NULL. */
void acre__streams_settle(acre_pool *pool, const struct acre__pool_stream *own, int all);
/* Makes a stream wait for the event of a generation; ACRE_E_NOT_READY without detail: there is
 * none, and the stream may be dead. */
acre_status acre__stream_join(acre_pool *pool, struct acre__pool_stream *stream,
                              struct acre__generation *generation, acre_stream waiter);
/* Makes a stream wait for the first thing that memory of the pool waits for; *is_over: there is
 * none. */
acre_status acre__streams_join_one(acre_pool *pool, acre_stream waiter, int *is_over);
/* Makes a stream wait for everything that was freed, as far as there are events. */
acre_status acre__streams_join(acre_pool *pool, acre_stream waiter);
/* How many streams have memory that is not ready. */
uint32_t acre__streams_pending(const acre_pool *pool);
/* The stream is about to end. */
acre_status acre__stream_retire(acre_pool *pool, acre_stream handle);
/* The calling thread ends, and with it its own default stream. */
void acre__stream_leave(acre_pool *pool, uint64_t thread);
/* Waits for the device, if there is memory that only this brings back. */
void acre__streams_recover(acre_pool *pool);
/* 1 for a stream of the pool's own that stands for several others, or for events. */
int acre__stream_is_relay(const acre_pool *pool, acre_stream stream);
/* Frees all records. */
void acre__pool_streams_end(acre_pool *pool);

static inline void acre__slots_push(struct acre__slots *slots, struct acre__slot *slot) {
    slot->next = slots->first;
    slots->first = slot;
    if (!slots->last)
        slots->last = slot;
    slots->count++;
}
static inline void acre__slots_join(struct acre__slots *to, struct acre__slots *from) {
    if (!from->first)
        return;
    from->last->next = to->first;
    if (!to->last)
        to->last = from->last;
    to->first = from->first;
    to->count += from->count;
    *from = (struct acre__slots){0};
}
/* Moves up to `count` from the front of one list to another. */
void acre__slots_move(struct acre__slots *to, struct acre__slots *from, uint32_t count);

/* ---- pool_cache.c: what a thread has ---- */

enum { ACRE__CACHE_LANES = 16 }; /* buckets by pool and stream */

/* A free slot in a stack: what a hit needs of it, so that it need not look at the slot's record. */
struct acre__entry {
    void *p;
    _Atomic uint8_t *state;
};

struct acre__stack {
    struct acre__entry *entries; /* made with the first slots, NULL before */
    uint32_t count;
    uint32_t most; /* that a hit fills it to; 0 without entries */
};

/* What a thread has of one pool for one stream. */
struct acre__lane {
    struct acre__lane *next;
    acre_pool *pool;
    acre_stream stream;
    uint64_t id;     /* of the stream, when it was last asked */
    uint64_t thread; /* acre__stream_thread of the owner */
    int is_debugged; /* ACRE_POOL_DEBUG */
    acre_pool
        *fast; /* the pool, if its blocks need nothing done when they are handed out, else none */
    acre_device *simple; /* the device, if that pool is its default one of device memory */
    struct acre__stack stacks[ACRE__CLASSES + 1]; /* the last, of large blocks, is always full */
    uint32_t room[ACRE__CLASSES]; /* entries of the stacks: more than `most` after a long capture */
    struct acre__slab *kept[ACRE__KEPT];      /* large blocks, by class */
    struct acre__slab *more[ACRE__KEPT_MORE]; /* that go to the pool together, when it is asked */
    uint32_t more_count;
    uint32_t kept_count; /* both */
    int64_t large_live;  /* handed out by the lane, less those freed into it */
};

struct acre__pool_cache {
    _Atomic uint32_t busy;    /* the owner is inside */
    _Atomic uint32_t claimed; /* somebody else wants in, or is */
    uint8_t live;             /* the state of slots that were handed out to the owner */
    uint16_t tag;             /* set by the owner, or 0 (pool_tag.h) */
    uint8_t is_tag_full;      /* a block of that tag was refused: no hits until one is not */
    struct acre__lane *last;  /* used last, not one for debugging; always NULL without membarrier,
                                 and while a tag is set */
    struct acre__lane *lanes[ACRE__CACHE_LANES];
    struct acre__pool_cache *next, **link; /* in the list of all */
    int is_asking;                         /* the owner is in a callback for want of memory */
    struct acre__tag_thread *tags;         /* what it counts of them; NULL before the first */
    struct acre__oom *oom;                 /* its last refusal; NULL before the first */
};

/* The calling thread's cache, made now if it has none; NULL without memory. */
struct acre__pool_cache *acre__cache_self(void);

/* Finds out what the kernel can do, before the first cache. In a process with threads that takes
 * milliseconds, so it is called when a pool is made, not when a thread wants its first block. */
void acre__cache_init(void);

/* The owner says that it is inside, or will be if nobody has claimed the cache. With membarrier,
 * who claims it orders both sides' accesses (pool_cache.c), and plain ones are enough here; an
 * acquire would hold up all later loads on some processors. The fences hold the compiler. */
static inline void acre__cache_mark(struct acre__pool_cache *cache) {
    acre__store(&cache->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
}
static inline int acre__cache_is_claimed(struct acre__pool_cache *cache) {
    uint32_t claimed = acre__load(&cache->claimed, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    return claimed != 0;
}

/* The owner goes in, waiting for whoever has claimed the cache, and out. */
void acre__cache_enter(struct acre__pool_cache *cache);
static inline void acre__cache_leave(struct acre__pool_cache *cache) {
    acre__store(&cache->busy, 0, memory_order_release);
}

/* Inside, or claimed: puts all of the slots on top of the stack of their class; 0 without memory
 * for so many, when nothing has changed. */
int acre__lane_put(struct acre__lane *lane, uint32_t size_class, struct acre__slots *slots);
/* Inside, or claimed: moves all but `left` of a stack's slots to a list. */
void acre__lane_take(struct acre__lane *lane, uint32_t size_class, uint32_t left,
                     struct acre__slots *slots);

/* Inside: a large block that the lane keeps and that has hardly more than so many bytes, or NULL.
 */
struct acre__slab *acre__lane_kept(struct acre__lane *lane, size_t bytes);
/* Inside: keeps a large block that is freed: 1, or 0 when it must go to the pool; *is_last: with
 * all that the lane keeps. A thread without large blocks keeps one at most, so that what it does
 * again finds the pool as it was. */
int acre__lane_keep(struct acre__lane *lane, struct acre__slab *slab, int *is_last);
/* Inside, or claimed: keeps one again that was taken from it just before. */
void acre__lane_put_kept(struct acre__lane *lane, struct acre__slab *slab);
/* Inside, or claimed: moves what it keeps to a list. */
void acre__lane_take_kept(struct acre__lane *lane, struct acre__slots *slots);

/* Inside: the lane of a pool and stream, or NULL. */
struct acre__lane *acre__cache_lane(struct acre__pool_cache *cache, const acre_pool *pool,
                                    acre_stream stream);
/* Inside: makes one; NULL without memory. */
struct acre__lane *acre__cache_lane_make(struct acre__pool_cache *cache, acre_pool *pool,
                                         acre_stream stream, uint64_t id);

/* Gives the large blocks that the owner keeps for a stream to the pool, whose lock it holds. `id`
 * as acre__pool_stream_id gave it. */
void acre__cache_flush_kept(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                            uint64_t id);
/* The owner was handed another large block. */
void acre__cache_count_large(struct acre__pool_cache *cache, const acre_pool *pool,
                             acre_stream stream);

/* The pool's lock is held, the owner calls: what the cache has for a stream is of the stream with
 * that id from now on. If it is of another one that had the handle before, it goes to the pool. */
void acre__cache_renew(struct acre__pool_cache *cache, acre_pool *pool, acre_stream stream,
                       uint64_t id);

/* Gives everything that any thread's cache has of a pool (of one stream, or of all for `any`) to
 * the pool. With `end` the lanes themselves go too. The pool's lock is held by the caller. */
void acre__cache_drain(acre_pool *pool, acre_stream stream, int any, int end);

/* Calls `fn` with every thread's cache, claimed. */
void acre__caches_visit(void (*fn)(struct acre__pool_cache *cache, void *user), void *user);

/* The id of a stream, ACRE__ID_UNKNOWN where the driver does not tell; ACRE_E_CAPTURING while it is
 * captured, since asking would break the capture. */
acre_status acre__pool_stream_id(acre_device *dev, acre_stream stream, uint64_t *id);

#endif
