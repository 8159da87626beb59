/* What the files of the limit share: the records of this process, and the account. */
#ifndef ACRE_SHIM_SHIM_LIMIT_RECORDS_H
#define ACRE_SHIM_SHIM_LIMIT_RECORDS_H

#include <pthread.h>
#include <stdint.h>

#include "base/tree.h"
#include "driver/driver.h"

enum { LIMIT_DEVICES = 64 };

/* A pool of the driver. */
struct limit_pool {
    struct acre__node node; /* key: handle */
    uint64_t held;          /* bytes charged, with `pending` */
    uint64_t pending;       /* bytes charged for calls in progress, which may make the pool grow */
    uint64_t reserved;      /* what the driver said last */
    uint64_t step;          /* it grows by multiples of this, as far as is known */
    uint64_t begun;         /* calls that have begun */
    unsigned calls;         /* of those, in progress */
    uint64_t tight_most;    /* not 0: requests of this size made the pool grow beyond the limit */
    int64_t tight_again_ms; /* until then; guarded by `tight`, as the line before */
    unsigned live;          /* blocks that are allocated */
    int is_host;            /* its memory does not count */
    int is_made;            /* by cuMemPoolCreate */
    int is_unsure;          /* its handle may be stale: the driver may not check it */
    int is_ended;           /* destroyed: its memory goes with its last block */
};

/* Memory of cuMemCreate, or imported. */
struct limit_chunk {
    struct acre__node node; /* key: handle, while `handles` is not 0 */
    uint64_t bytes;         /* charged; 0: imported, and not mapped yet */
    unsigned handles, mappings;
    int is_host;  /* does not count: its bytes are 0 */
    int is_acres; /* created by acre, not by the program */
};

/* An address: a block of plain memory or of a pool, or a mapping of a chunk. */
struct limit_block {
    struct acre__node node; /* key: first address */
    uint64_t bytes;
    struct limit_pool *pool;   /* NULL: not of a pool that is charged by what it has reserved */
    struct limit_chunk *chunk; /* of a mapping */
    struct limit_block *next;  /* in a list of mappings that were taken together */
};

/* An array, by its handle. The driver does not check a stale handle, so the record has the context
 * with which the array ends. */
struct limit_array {
    struct acre__node node; /* key: handle */
    uint64_t bytes;
    CUcontext ctx;
    CUdevice primary_of; /* the device whose primary context this is, or -1 */
};

struct limit_records {
    pthread_mutex_t lock;
    pthread_mutex_t tight; /* of one call for which the limit has no reserve; before `lock` */
    struct acre__tree blocks, mappings, chunks, pools, arrays;
    uint64_t graph_bytes[LIMIT_DEVICES]; /* charged for graphs, by device */
    const struct acre__driver *inner;    /* set once, before any thread sees the table */
};
extern struct limit_records acre__limit;

/* ---- the account (shim_limit_account.c); never with the lock of the records held ---- */

/* Charges bytes, and returns 1. If the limit is reached, idle memory of the driver's pools is
 * released first, as the driver does. Returns 0 after it has noted the reason for the report. */
int acre__limit_take(uint64_t bytes);
/* Charges as acre__limit_take, and notes nothing. */
int acre__limit_squeeze(uint64_t bytes);
void acre__limit_give(uint64_t bytes);
/* Charges bytes that the driver has reserved already, whatever the limit. */
void acre__limit_force(uint64_t bytes);
/* Does what acre__limit_take does, but releases nothing. May be called with the lock held. */
int acre__limit_try(uint64_t bytes);

/* ---- queries while something is captured (shim_limit.c) ----
 *
 * A query of pools is one of the calls that invalidate the captures of other streams, unless the
 * thread's mode is relaxed. Around queries of the limit's own: */
CUstreamCaptureMode acre__limit_relax(void);
void acre__limit_restore(CUstreamCaptureMode mode);

/* ---- plain memory (shim_limit.c); with the lock held ---- */

/* Adds a block. A record that is there already is stale: the driver has returned its address again.
 */
void acre__limit_add_block(struct limit_block *block);

/* ---- pools (shim_limit_pool.c) ---- */

void acre__limit_wrap_pools(struct acre__driver *table);
/* Charges all pools by what they have reserved now; `trim`: after idle memory was released. */
void acre__limit_settle_pools(int trim);
/* Asks the driver no more about pools that the program has created until it uses them again: the
 * end of a primary context may have destroyed them. With the lock held. */
void acre__limit_doubt_pools(void);
/* Ends a block of a pool; with the lock held. Returns the bytes to refund. */
uint64_t acre__limit_end_pool_block(struct limit_pool *pool);

/* ---- chunks (shim_limit_chunk.c) ---- */

void acre__limit_wrap_chunks(struct acre__driver *table);
/* In a forked child, which has none. */
void acre__limit_forget_chunks(void);

/* ---- arrays (shim_limit_array.c) ---- */

/* Refunds the arrays of a context that was destroyed, and what graphs of a device had: `ctx`, or
 * the primary context of `dev`. With the lock held. */
void acre__limit_end_arrays(CUcontext ctx, CUdevice dev);
/* Looks whether graphs have less than they had. Without the lock. */
void acre__limit_shrink_graphs(void);

#endif
