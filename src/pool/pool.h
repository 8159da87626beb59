/* Pools: what the files of src/pool have in common.
 *
 * pool_slab.h has what blocks are made of, pool_stream.h what was freed on streams, pool_cache.h
 * what threads have at hand. A hit pops from or pushes to a stack of the calling thread: no lock,
 * no driver call. Stacks are filled and emptied in batches under the pool's lock. */
#ifndef ACRE_POOL_POOL_H
#define ACRE_POOL_POOL_H

#include "acre.h"
#include "arena/arena.h"
#include "base/atomic.h"
#include "base/lock.h"
#include "base/tree.h"
#include "driver/device.h"
#include "pool/pool_cache.h"
#include "pool/pool_class.h"
#include "pool/pool_graph.h"
#include "pool/pool_slab.h"
#include "pool/pool_stream.h"
#include "pool/pool_table.h"
#include "space/book.h"
#include "space/uses.h"
#include "watch/stats_file.h"
#include "watch/trace.h"

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
    struct acre__lock lock;                 /* guards the rest */
    struct acre__account account;           /* of both arenas */
    struct acre__arena slabs_in, blocks_in; /* where slabs of small blocks are, and large blocks */
    int is_reserved;                        /* memory was taken ahead, for both */
    int is_ended;                           /* only the record is left, for a thread's lanes */
    struct acre__tree open[ACRE__CLASSES];  /* slabs with fresh or ready slots, by address */
    uint32_t slots[ACRE__CLASSES];          /* in all slabs of the class */
    struct acre__slab *idle;                /* slabs that are wholly free, newest first */
    struct acre__tree large;                /* large blocks by address, those in caches too */
    struct acre__slab *retired;             /* records that a thread may still be reading, */
    uint64_t retired_bytes;                 /* and their size */
    uint64_t granted, denied;          /* bytes that caches may hold; times that more was wanted */
    uint64_t aged;                     /* places of lanes looked at when that was too often */
    struct acre__pool_stream *streams; /* all, those that ended too */
    uint32_t forgotten;                /* streams that ended since all were looked at */
    struct acre__pool_stream *hand;    /* of these the one to look at next, or NULL */
    struct acre__freed *freed;         /* some member of the ring of what has slots, or NULL */
    struct acre__tree handle_streams, thread_streams; /* those that did not, by key */
    struct acre__pool_stream *lost;                   /* frees whose stream nobody knows, or NULL */
    acre_stream relays[ACRE__RELAYS];                 /* made when needed */
    struct acre__graphs graphs;
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
    uint64_t used;                   /* bytes of slots that threads have, live or in caches, */
    uint64_t used_blocks;            /* and how many */
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
    uint64_t id;                     /* as acre__pool_stream_id gave it, or the thread's lane; */
    int is_id_known;                 /* 0: it is to be asked for */
    uint32_t size_class;             /* ACRE__CLASSES: a large block */
    uint32_t count;                  /* slots; at least one, */
    uint32_t most;                   /* and so many where that is less work */
    size_t bytes;                    /* of each, as the pool rounds them */
    size_t alignment;                /* of a large block */
    struct acre__slots slots;        /* those that were found */
    int is_limited;                  /* the pool's own limit is in the way, not its memory */
    int is_captured;                 /* the stream is, and */
    struct acre__pool_stream *graph; /* its record (pool_graph.h) */
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
void acre__limit_charge(acre_pool *pool, uint64_t bytes, uint32_t count);
void acre__limit_credit(acre_pool *pool, uint64_t bytes, uint32_t count);
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
/* For other users of memory of that kind: gives back what pools have and do not use, after waiting
 * for the work that it was freed behind if `wait`. Returns how many bytes went. */
uint64_t acre__ladder_reclaim(acre_device *dev, acre_kind kind, int wait);
/* Lock held: fills in what limits and the ladder count. */
void acre__ladder_stats(const acre_pool *pool, acre_pool_stats *stats);

/* No lock held: asks the user's callback whether to try again; 0 also if there is none, or inside
 * it. */
int acre__ladder_ask(acre_pool *pool, uint64_t bytes, uint32_t attempt);

/* ---- pool.c ---- */

/* Lock held: drains the caches and gives memory back until `keep_bytes` remain. What was freed on a
 * stream that is captured right now stays. */
void acre__pool_trim(acre_pool *pool, uint64_t keep_bytes);
/* 1 if the pool's memory is of the same physical memory as that of the kind on the device. */
int acre__pool_is_like(const acre_pool *pool, const acre_device *dev, acre_kind kind);
/* No lock held: calls `fn` with the lock of every pool but one. */
void acre__pools_visit(const acre_pool *but, void (*fn)(acre_pool *pool, void *user), void *user);

/* List's lock held: the calling thread ends, and with it its own default stream. */
void acre__pools_leave(uint64_t thread);

/* All pools; also held by a thread that ends, so that no pool ends under it. */
extern struct acre__lock acre__pool_list_lock;

/* ---- pool_slab.c: under the pool's lock ---- */

/* A slot that was never used; there must be one. */
struct acre__slot *acre__slab_fresh(struct acre__slab *slab);
/* The slab of this pool that an address is in; NULL if none is. Any value is safe. */
struct acre__slab *acre__slab_of(const acre_pool *pool, const void *p);
/* The number of free slots changed. */
void acre__slab_note(struct acre__slab *slab);
/* Another slab of the class, for work of a stream. */
acre_status acre__slab_make(acre_pool *pool, uint32_t size_class,
                            const struct acre__pool_stream *own);
/* Ends slabs that are wholly free for the stream (NULL: for any), as long as more than `keep` bytes
 * of them remain. Returns their bytes. */
uint64_t acre__slabs_end_idle(acre_pool *pool, const struct acre__pool_stream *own, uint64_t most);
/* Frees the records of slabs that ended. Every thread's cache was claimed since then. */
void acre__slabs_reap(acre_pool *pool);
/* Gives slabs back all of whose slots wait for nothing, and memory that nothing lies in, as long as
 * more than `keep` bytes remain. */
void acre__slab_trim(acre_pool *pool, uint64_t keep);
/* Takes memory until the pool has `bytes`. */
acre_status acre__slab_reserve(acre_pool *pool, uint64_t bytes);
/* Ends all slabs and large blocks of a pool, whatever their slots are, and gives the memory back.
 */
void acre__slab_end_all(acre_pool *pool);

static inline uint64_t acre__pool_held(const acre_pool *pool) {
    return pool->account.held;
}

/* ---- pool_large.c: blocks of more than ACRE__SMALL_MOST bytes, or far alignments ---- */

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
                           uint64_t thread, uint64_t id, int is_foreign, struct acre__slots *slots);
/* Slots that a thread had, and that wait for nothing. */
void acre__central_ready(acre_pool *pool, uint32_t size_class, struct acre__slots *slots);
/* The same after waiting for the device; 0 when that fails. */
int acre__central_give_after_all(acre_pool *pool, uint32_t size_class, struct acre__slots *slots);
/* Puts slots that a thread had to what was freed on a stream last; large ones become holes. */
void acre__freed_put(acre_pool *pool, struct acre__pool_stream *stream, uint32_t size_class,
                     struct acre__slots *slots);
/* So many slots more, or less. */
void acre__freed_count(struct acre__freed *freed, int64_t more);
/* The same, to what waits for something else. */
void acre__freed_add(acre_pool *pool, struct acre__freed *freed, uint32_t size_class,
                     struct acre__slots *slots);
/* Moves all of it: `to` waits for what `from` waits for as well. */
void acre__freed_inherit(struct acre__freed *from, struct acre__freed *to);
/* Spreads lists as threads gave them over their slabs. */
void acre__freed_sort(struct acre__freed *freed);
/* All of it waits for nothing any more. */
void acre__freed_ready(acre_pool *pool, struct acre__freed *freed);
/* Frees the record of what was freed, and nothing else. */
void acre__freed_end(struct acre__freed *freed);
/* Bytes of it. */
uint64_t acre__freed_bytes(const struct acre__freed *freed);

#endif
