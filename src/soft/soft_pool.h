/* The driver's own pools: what their files share with those that look into them (soft_view.c,
 * soft_range.c, soft_pointer.c).
 *
 *   pool      a handle of the program, or the default one of a device
 *   segment   whole chunks of a pool in one run of addresses
 *   gap       a part of a segment that is free, and behind which work
 *
 * An allocation is a range of kind SOFT_POOLED in a segment, which has it from the call that made
 * it to the call that freed it; gaps are all the rest. So the books change when a call is made, and
 * `freed` says from when on the bytes may change hands. Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_SOFT_POOL_H
#define ACRE_SOFT_SOFT_POOL_H

#include "soft/soft_state.h"

enum { SOFT_POOL_UNIT = 512 }; /* bytes; allocations begin at multiples of it */

struct soft_gap {
    struct acre__node node; /* key: address */
    size_t bytes;
    struct soft_marker *freed; /* where in its stream it was freed; NULL: for everybody to take */
};

struct soft_segment {
    struct acre__node node;    /* key: address; in acre__soft.segments */
    struct soft_segment *next; /* of the pool */
    struct CUmemPoolHandle_st *pool;
    struct soft_backing *backing;
    size_t bytes;      /* that the pool has; the one segment of a shared pool grows */
    size_t free_bytes; /* of all gaps */
    struct acre__tree gaps;
    struct soft_view view; /* of the whole backing */
};

struct CUmemPoolHandle_st {
    struct acre__node node; /* key: own address; in acre__soft.pools */
    int device;
    int is_default;
    int is_imported;  /* has one segment, without gaps: the bytes are another pool's */
    int is_destroyed; /* no handle any more; goes when its last allocation has gone */
    CUmemPoolProps props;
    unsigned char access[ACRE__SOFT_DEVICES_MAX];                  /* CU_MEM_ACCESS_FLAGS_PROT_* */
    int may_follow, may_be_opportunistic, may_depend;              /* CU_MEMPOOL_ATTR_REUSE_* */
    uint64_t threshold;                                            /* bytes kept at a sync */
    uint64_t reserved_bytes, reserved_high, used_bytes, used_high; /* CU_MEMPOOL_ATTR_* */
    size_t live_count;                                             /* allocations */
    struct soft_segment *segments;
};

/* Made for other processes to import from? */
static inline int soft_pool_is_shared(const struct CUmemPoolHandle_st *pool) {
    return (pool->props.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
}

static inline struct CUmemPoolHandle_st *soft_pool_of(struct acre__node *node) {
    return acre__tree_entry(node, struct CUmemPoolHandle_st, node);
}

static inline struct soft_gap *soft_gap_of(struct acre__node *node) {
    return acre__tree_entry(node, struct soft_gap, node);
}

/* ---- pools (soft_pool.c) ---- */

/* The pool of a handle that the program may use; NULL: none. */
struct CUmemPoolHandle_st *acre__soft_pool_find(CUmemoryPool handle);
CUresult acre__soft_pool_make(const CUmemPoolProps *props, struct CUmemPoolHandle_st **out);
/* Ends the pool with its segments; it has no allocations. */
void acre__soft_pool_end(struct CUmemPoolHandle_st *pool);
/* Adds to what the pool has, and to what of it is in use. */
void acre__soft_pool_count(struct CUmemPoolHandle_st *pool, int64_t reserved, int64_t used);
/* The pool that allocations of the device's streams come from. */
CUresult acre__soft_pool_current(struct soft_device *device, struct CUmemPoolHandle_st **out);
/* Ends the destroyed pools that can go now. */
void acre__soft_pools_tend(void);

/* ---- what they have (soft_pool_memory.c) ---- */

/* A segment over that much of the backing, without gaps and uncounted; takes over the reference. On
 * failure the caller still has it. */
CUresult acre__soft_segment_make(struct CUmemPoolHandle_st *pool, struct soft_backing *backing,
                                 struct soft_segment **out);
void acre__soft_segment_end(struct soft_segment *segment);
/* The one that holds the address, or NULL. */
struct soft_segment *acre__soft_segment_find(uint64_t address);
/* Frees the record of a gap that is in no segment. */
void acre__soft_gap_end(struct soft_gap *gap);
void acre__soft_gap_put(struct soft_segment *segment, struct soft_gap *gap);

/* Gaps side by side: the first of them, and what they have together. */
struct soft_fit {
    struct soft_segment *segment;
    struct soft_gap *first;
    size_t bytes;
};

/* Memory of the pool that the stream may have, for the least that it has to do; the pool may grow.
 * CUDA_ERROR_OUT_OF_MEMORY: none. Nothing is taken yet. */
CUresult acre__soft_fit_find(struct CUmemPoolHandle_st *pool, const struct soft_stream *stream,
                             size_t bytes, struct soft_fit *fit);
/* Queues the waits that it has to do. */
CUresult acre__soft_fit_wait(struct soft_stream *stream, const struct soft_fit *fit, size_t bytes);
/* Takes the bytes out of their gaps, for the operation, which is queued, to begin them. */
void acre__soft_fit_take(const struct soft_fit *fit, size_t bytes, struct soft_op *op);

/* Gives back whole segments that nobody uses, as long as `keep` bytes stay. */
void acre__soft_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep);
/* Is none of its memory in use any more, not even by work before a free? */
int acre__soft_pool_is_idle(const struct CUmemPoolHandle_st *pool);
/* What the host has seen done since is for everybody to take. With a device all of its work was
 * waited for, that of ended streams too. */
void acre__soft_pool_settle(struct CUmemPoolHandle_st *pool, const struct CUctx_st *ctx);

#endif
