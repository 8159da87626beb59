/* Pools: declarations shared by the files of src/pool.
 *
 * pool_slab.h describes blocks, pool_stream.h frees on streams, pool_cache.h thread caches. A hit
 * pops a block from, or pushes one to, a stack: a free list of the calling thread. It takes no
 * lock. It calls the driver only to query a stream that may be captured or that is foreign. Misses
 * fill and empty stacks in batches, under the pool's lock. */
#ifndef ACRE_POOL_POOL_H
#define ACRE_POOL_POOL_H

#include "acre.h"
#include "arena/arena.h"
#include "base/atomic.h"
#include "base/lock.h"
#include "base/tree.h"
#include "device/device.h"
#include "device/held.h"
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

/* The steps that a pool tries, in this order, when it is out of memory (pool_ladder.c). */
enum acre__rung {
    ACRE__RUNG_CACHES,
    ACRE__RUNG_DONE,
    ACRE__RUNG_MOVED,
    ACRE__RUNG_BEHIND,
    ACRE__RUNG_POOLS,
    ACRE__RUNG_CALLBACK,
    ACRE__RUNG_WAITING,
    ACRE__RUNG_SPILL,
    ACRE__RUNGS
};

enum { ACRE__RELAYS = 8 };

enum { ACRE__QUARANTINE = 64 }; /* most freed blocks in quarantine (ACRE_POOL_DEBUG) */

/* Spillable blocks of a pool (pool_spill.h): live ones and those of them that are away now; what
 * left and came back so far, and the time that it took. */
struct acre__spilled {
    uint64_t blocks, bytes, away_bytes;
    uint64_t left_blocks, left_bytes, brought_blocks, brought_bytes;
    uint64_t wait_ns, copy_ns;
};

struct acre_pool {
    struct acre__live live; /* first: its address is the handle */
    acre_device *dev;
    acre_kind kind;
    uint32_t flags;
    int is_default;
    struct acre__lock lock;                 /* guards the rest */
    struct acre__account account;           /* totals of both arenas */
    struct acre__arena slabs_in, blocks_in; /* of slabs of small blocks, and of large blocks */
    int is_reserved;                        /* memory was reserved in advance, for both arenas */
    /* Not 0: no allocations, empty thread caches (space/mapped.h). Changed with the lock held. */
    _Atomic uint32_t is_suspended;
    int is_ended; /* destroyed: only this record is left, because lanes refer to it */
    acre_pool *next_ended;
    struct acre__tree open[ACRE__CLASSES]; /* slabs with fresh or ready slots, by address */
    uint32_t slots[ACRE__CLASSES];         /* slots of the class in all slabs */
    struct acre__slab *idle;               /* fully free slabs, newest first */
    struct acre__tree large;               /* large blocks by address, those in caches too */
    struct acre__slab *retired;            /* slab records that a thread may still read */
    uint64_t retired_bytes;                /* host bytes of these records */
    uint64_t granted, denied;              /* bytes granted to caches; grants denied */
    uint64_t aged;                         /* table entries visited when all caches aged last */
    struct acre__pool_stream *streams;     /* all records, also of destroyed streams */
    uint32_t forgotten;                    /* streams destroyed since the last full sweep */
    struct acre__pool_stream *hand;        /* record to settle next, or NULL */
    struct acre__freed *freed; /* an entry of the ring of lists that have slots, or NULL */
    struct acre__tree handle_streams, thread_streams; /* streams not forgotten, by key */
    struct acre__pool_stream *lost;   /* for frees whose stream is unknown, or NULL */
    acre_stream relays[ACRE__RELAYS]; /* created lazily */
    struct acre__graphs graphs;
    struct acre__uses spare_events;
    struct acre__slab *slabs;                        /* of small blocks */
    struct acre__slab *spare;                        /* unused records of large blocks */
    struct acre__slot *quarantine[ACRE__QUARANTINE]; /* latest frees, or NULL */
    unsigned quarantine_next;
    uint64_t overruns, late_writes;
    struct acre__tree uses; /* by address: struct acre__pool_use */
    uint64_t refills, spills, events, waits;
    struct acre__trace_pool trace;    /* set at creation: its name in traces */
    struct acre__stats_row *row;      /* set at creation: for ACRE_STATS, or NULL */
    acre_pool_stats exported;         /* statistics when they were last counted */
    uint64_t export_due_ns;           /* when to count them again (pool_watch.c) */
    uint64_t idle_bytes, idle_blocks; /* used but not live when they were counted */
    _Atomic uint64_t
        look_due;         /* when a hit looks at `export_due_ns` again, in units of its clock */
    uint64_t used;        /* bytes of slots that are live or in thread caches */
    uint64_t used_blocks; /* number of those slots */
    uint64_t soft_limit_bytes, limit_bytes; /* limits of `used`; 0: none */
    uint64_t soft_mark;                     /* the pool releases memory when `used` exceeds this */
    uint64_t over_soft;                     /* times that `used` exceeded `soft_mark` */
    acre_pool_oom_fn oom;                   /* the user's callback, or NULL */
    void *oom_user;
    uint32_t asking;    /* threads inside the callback: they keep the pool alive */
    acre_stream waiter; /* stream through which the host waits for frees; created lazily */
    uint64_t served[ACRE__RUNGS], refused;
    struct acre__spilled spilled;
};

/* Returns by how many bytes the device's memory exceeds its limit (device/held.h). Then the pool
 * serves only what acre__limit_reserve allows, and grants thread caches nothing. */
static inline uint64_t acre__pool_over(const acre_pool *pool) {
    return pool->kind == ACRE_KIND_DEVICE ? acre__held_over(pool->dev) : 0;
}

/* Other streams that use a block, recorded until the block is freed. */
struct acre__pool_use {
    struct acre__node node; /* key: the block's address */
    struct acre__uses uses;
    uint64_t key; /* XOR of their handles */
};

static inline struct acre__pool_use *acre__pool_use_find(const acre_pool *pool, const void *p) {
    return acre__tree_entry(acre__tree_find(&pool->uses, (uintptr_t)p), struct acre__pool_use,
                            node);
}
static inline void acre__pool_use_end(acre_pool *pool, struct acre__pool_use *use) {
    acre__tree_remove(&pool->uses, &use->node);
    acre__uses_close(&use->uses);
    free(use);
}

/* ---- requests to a pool ---- */

struct acre__want {
    acre_pool *pool;
    struct acre__pool_cache *cache; /* the calling thread's, or NULL */
    acre_stream stream;
    uint64_t id;              /* of the stream, from acre__pool_stream_id or the thread's lane */
    int is_id_known;          /* 0: `id` has yet to be queried */
    uint32_t size_class;      /* ACRE__CLASSES: a large block */
    uint32_t count;           /* slots requested; at least one is needed */
    uint32_t most;            /* take up to this many if one bundle has them */
    size_t asked;             /* bytes that the program requested; 0: unknown */
    size_t bytes;             /* of each slot, as the pool rounds them */
    size_t alignment;         /* of a large block */
    struct acre__slots slots; /* result */
    int is_limited;           /* refused because of the pool's limit, not for lack of memory */
    int is_captured;          /* the stream is captured */
    struct acre__pool_stream *graph; /* the capture's record (pool_graph.h) */
};

enum acre__effort {
    ACRE__TAKE_FREE,  /* memory that is free for the stream */
    ACRE__TAKE_NEW,   /* also memory that other streams have finished with, and new memory */
    ACRE__TAKE_ANY,   /* free memory of any hole that is large enough, of either arena */
    ACRE__TAKE_BEHIND /* memory that another stream may still use: the stream waits for it */
};

#endif
