/* Pools: declarations shared by the files of src/pool.
 *
 * pool_slab.h describes blocks, pool_stream.h frees on streams, pool_cache.h thread caches. A hit
 * pops from or pushes to a stack (a free list of the calling thread): no lock, no driver call.
 * Stacks are filled and emptied in batches under the pool's lock. */
#ifndef ACRE_POOL_POOL_H
#define ACRE_POOL_POOL_H

#include "acre.h"
#include "arena/arena.h"
#include "base/atomic.h"
#include "base/lock.h"
#include "base/tree.h"
#include "device/device.h"
#include "device/live.h"
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

/* What a pool tries, in this order, when it has no memory for a call (pool_ladder.c). */
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

enum { ACRE__QUARANTINE = 64 }; /* freed blocks kept from reuse for a while, for debugging */

struct acre_pool {
    struct acre__live live; /* first: its address is the handle */
    acre_device *dev;
    acre_kind kind;
    uint32_t flags;
    int is_default;
    struct acre__lock lock;                 /* guards the rest */
    struct acre__account account;           /* totals of both arenas */
    struct acre__arena slabs_in, blocks_in; /* of slabs of small blocks, and of large blocks */
    int is_reserved;                        /* memory was reserved ahead, for both arenas */
    int is_ended; /* ended: only this record is left, for a thread's lanes */
    acre_pool *next_ended;
    struct acre__tree open[ACRE__CLASSES]; /* slabs with fresh or ready slots, by address */
    uint32_t slots[ACRE__CLASSES];         /* of the class, in all slabs */
    struct acre__slab *idle;               /* fully free slabs, newest first */
    struct acre__tree large;               /* large blocks by address, those in caches too */
    struct acre__slab *retired;            /* slab records that a thread may still read */
    uint64_t retired_bytes;                /* their size */
    uint64_t granted, denied;              /* bytes granted to caches; grants denied */
    uint64_t aged;                     /* lane places visited when grants were denied too often */
    struct acre__pool_stream *streams; /* all records, also of ended streams */
    uint32_t forgotten;                /* streams that ended since the last full sweep */
    struct acre__pool_stream *hand;    /* record to settle next, or NULL */
    struct acre__freed *freed;         /* an entry of the ring of lists that have slots, or NULL */
    struct acre__tree handle_streams, thread_streams; /* streams not forgotten, by key */
    struct acre__pool_stream *lost;   /* for frees whose stream is unknown, or NULL */
    acre_stream relays[ACRE__RELAYS]; /* created when needed */
    struct acre__graphs graphs;
    struct acre__uses spare_events;
    struct acre__slab *slabs; /* of small blocks */
    struct acre__slab *spare; /* unused records of large blocks */
    struct acre__tree asked;  /* ACRE_POOL_DEBUG: bytes requested, by address (pool_debug.c) */
    struct acre__slot *quarantine[ACRE__QUARANTINE]; /* latest frees, or NULL */
    unsigned quarantine_next;
    uint64_t overruns, late_writes;
    struct acre__tree uses; /* by address: struct acre__pool_use */
    uint64_t refills, spills, events, waits;
    struct acre__trace_pool trace;   /* fixed: its name in traces */
    struct acre__stats_row *row;     /* fixed: for ACRE_STATS, or NULL */
    acre_pool_stats exported;        /* statistics when they were last counted */
    uint64_t export_due_ns;          /* when to count them again (pool_watch.c) */
    uint64_t used;                   /* bytes of slots that threads have, live or cached */
    uint64_t used_blocks;            /* number of those slots */
    uint64_t soft_bytes, hard_bytes; /* limits of `used`; 0: none */
    uint64_t soft_mark;              /* the pool releases memory when `used` exceeds this */
    uint64_t over_soft;              /* times that it did */
    acre_pool_oom_fn oom;            /* the user's callback, or NULL */
    void *oom_user;
    uint32_t asking;    /* threads inside the callback: they keep the pool alive */
    acre_stream waiter; /* the host waits for batches on it; NULL before the first time */
    uint64_t served[ACRE__RUNGS], refused;
};

/* The other streams that use a block, until it is freed. */
struct acre__pool_use {
    struct acre__node node; /* key: the block's address */
    struct acre__uses uses;
    uint64_t key; /* XOR of their handles */
};

/* ---- what a thread requests from a pool ---- */

struct acre__want {
    acre_pool *pool;
    acre_stream stream;
    uint64_t id;              /* of the stream, from acre__pool_stream_id or the thread's lane */
    int is_id_known;          /* 0: `id` has yet to be queried */
    uint32_t size_class;      /* ACRE__CLASSES: a large block */
    uint32_t count;           /* slots wanted; at least one is needed */
    uint32_t most;            /* take up to this many if that is less work */
    size_t bytes;             /* of each slot, as the pool rounds them */
    size_t alignment;         /* of a large block */
    struct acre__slots slots; /* result */
    int is_limited;           /* refused because of the pool's limit, not for lack of memory */
    int is_captured;          /* the stream is captured */
    struct acre__pool_stream *graph; /* the capture's record (pool_graph.h) */
};

enum acre__effort {
    ACRE__TAKE_FREE,  /* what is free for the stream */
    ACRE__TAKE_NEW,   /* also what other streams have finished with, and new memory */
    ACRE__TAKE_BEHIND /* what another stream may still use: the stream waits for it */
};

/* ---- pool_limit.c: under the pool's lock ---- */

/* Returns ACRE_OK if the hard limit allows a slot of `bytes`. Lowers *count to what it allows. */
acre_status acre__limit_check(const acre_pool *pool, size_t bytes, uint32_t *count);
/* Count slots that go to a thread, or return from it. */
void acre__limit_charge(acre_pool *pool, uint64_t bytes, uint32_t count);
void acre__limit_credit(acre_pool *pool, uint64_t bytes, uint32_t count);
/* If `used` exceeds the soft limit, releases what the pool can release. Memory freed on the stream
 * stays for it. */
void acre__limit_relieve(acre_pool *pool, acre_stream stream, uint64_t id);
/* Returns ACRE_E_INVALID if they contradict each other. */
acre_status acre__limit_set(acre_pool *pool, uint64_t soft_bytes, uint64_t hard_bytes);

/* ---- pool_ladder.c ---- */

static inline int acre__is_no_memory(acre_status status) {
    return status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_HOST_MEMORY ||
           status == ACRE_E_ADDRESS_SPACE || status == ACRE_E_LIMIT;
}

/* Lock held, but given up in between if need be: gets at least one slot, or returns a status. */
acre_status acre__ladder_take(struct acre__want *want);
/* Releases all unused memory, after waiting for the work before its frees. */
acre_status acre__ladder_give_back(acre_pool *pool);
/* For other users of memory of that kind: releases unused memory of pools. With `wait`, waits for
 * the work before its frees first. Returns the bytes released. */
uint64_t acre__ladder_reclaim(acre_device *dev, acre_kind kind, int wait);
/* Lock held: fills in the counters of limits and of the ladder. */
void acre__ladder_stats(const acre_pool *pool, acre_pool_stats *stats);

/* No lock held: asks the user's callback whether to retry. Returns 0 also if there is none, or if
 * called from inside it. */
int acre__ladder_ask(acre_pool *pool, uint64_t bytes, uint32_t attempt);

/* ---- pool.c ---- */

/* Lock held: drains the caches and releases memory until `keep_bytes` remain. Memory freed on a
 * stream that is being captured stays. */
void acre__pool_trim(acre_pool *pool, uint64_t keep_bytes);
/* Returns 1 if the pool uses the same physical memory as that kind on the device. */
int acre__pool_is_like(const acre_pool *pool, const acre_device *dev, acre_kind kind);
/* No lock held: calls `fn` for every pool but `but`, with the pool's lock held. */
void acre__pools_visit(const acre_pool *but, void (*fn)(acre_pool *pool, void *user), void *user);

/* List lock held: the calling thread ends, and with it its per-thread default stream. */
void acre__pools_leave(uint64_t thread);

/* A thread that ends holds its lock too, so that no pool ends under it. */
extern struct acre__live_list acre__pools;

/* ---- pool_slab.c: under the pool's lock ---- */

/* Takes a slot that was never used; there must be one. */
struct acre__slot *acre__slab_fresh(struct acre__slab *slab);
/* The slab of this pool that contains the address, or NULL. Any value is safe. */
struct acre__slab *acre__slab_of(const acre_pool *pool, const void *p);
/* Updates the lists after the number of free slots changed. */
void acre__slab_note(struct acre__slab *slab);
/* Makes another slab of the class, for work of a stream. */
acre_status acre__slab_make(acre_pool *pool, uint32_t size_class,
                            const struct acre__pool_stream *own);
/* Ends slabs that are fully free for the stream (NULL: for any stream), at most `most` bytes of
 * them. Returns their bytes. */
uint64_t acre__slabs_end_idle(acre_pool *pool, const struct acre__pool_stream *own, uint64_t most);
/* Frees the records of ended slabs. All thread caches must have been claimed since they ended. */
void acre__slabs_reap(acre_pool *pool);
/* Releases fully free slabs that wait for nothing, and unused memory, down to `keep` bytes. */
void acre__slab_trim(acre_pool *pool, uint64_t keep);
/* Reserves memory until the pool holds `bytes`. */
acre_status acre__slab_reserve(acre_pool *pool, uint64_t bytes);
/* Ends all slabs and large blocks of a pool, also live ones, and releases the memory. */
void acre__slab_end_all(acre_pool *pool);

static inline uint64_t acre__pool_held(const acre_pool *pool) {
    return pool->account.held;
}

/* ---- pool_large.c: blocks of more than ACRE__SMALL_MOST bytes, or far alignments ---- */

/* The size of a large block, rounded up. */
size_t acre__large_bytes(size_t bytes);
/* Lock held: takes a large block. As acre__central_take. */
acre_status acre__large_take(struct acre__want *want, enum acre__effort effort);
/* Lock held: frees a large block. It becomes a hole that waits for what `to` waits for. */
void acre__large_give(acre_pool *pool, struct acre__slab *slab, const struct acre__reach *to);

/* ---- pool_central.c: under the pool's lock ---- */

/* Takes slots for work of a stream, as far as `effort` allows. Returns ACRE_OK without slots if
 * there are none; ACRE__TAKE_NEW returns the reason instead. */
acre_status acre__central_take(struct acre__want *want, enum acre__effort effort);
/* The record of the stream in `want`; NULL and *status otherwise. */
struct acre__pool_stream *acre__central_stream(const struct acre__want *want, acre_status *status);
/* Gives slots freed on the stream to the pool, in a call that names the stream. Returns 0 without
 * memory; the caller keeps the slots. */
int acre__central_give(acre_pool *pool, uint32_t size_class, acre_stream stream, uint64_t id,
                       struct acre__slots *slots);
/* As acre__central_give, for slots that a thread cached while the stream had that id. The stream
 * may be dead. `thread`: its acre__stream_thread. */
int acre__central_give_old(acre_pool *pool, uint32_t size_class, acre_stream stream,
                           uint64_t thread, uint64_t id, int is_foreign, struct acre__slots *slots);
/* Gives slots that wait for nothing to the pool. */
void acre__central_ready(acre_pool *pool, uint32_t size_class, struct acre__slots *slots);
/* As acre__central_ready, after waiting for the device. Returns 0 if that fails. */
int acre__central_give_after_all(acre_pool *pool, uint32_t size_class, struct acre__slots *slots);
/* Adds slots that a thread had to the latest frees of a stream. Large ones become holes. */
void acre__freed_put(acre_pool *pool, struct acre__pool_stream *stream, uint32_t size_class,
                     struct acre__slots *slots);
/* Changes the number of slots by `more`. */
void acre__freed_count(struct acre__freed *freed, int64_t more);
/* As acre__freed_put, for a list that need not be a stream's. */
void acre__freed_add(acre_pool *pool, struct acre__freed *freed, uint32_t size_class,
                     struct acre__slots *slots);
/* Moves everything to `to`, which waits for whatever `from` waits for. */
void acre__freed_inherit(struct acre__freed *from, struct acre__freed *to);
/* Sorts bundles into the shares of their slabs. */
void acre__freed_sort(struct acre__freed *freed);
/* Makes all of it ready: it waits for nothing any more. */
void acre__freed_ready(acre_pool *pool, struct acre__freed *freed);
/* Frees only the record. */
void acre__freed_end(struct acre__freed *freed);
/* The bytes in the list. */
uint64_t acre__freed_bytes(const struct acre__freed *freed);

#endif
