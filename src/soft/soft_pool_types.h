/* The driver's memory pools: the structs that soft_pool*.c share with the files that inspect them
 * (soft_state.c, soft_view.c, soft_range.c, soft_pointer.c).
 *
 *   pool      a handle of the program, or the default pool of a device
 *   segment   whole chunks of a pool in one run of addresses
 *   gap       a free part of a segment, and the free in stream order that its users must follow
 *
 * An allocation is a range of kind SOFT_POOLED in a segment, from the call that allocates it to the
 * call that frees it. Gaps are the rest of the segment. So the records change when a call is made,
 * and a gap's `freed` marker says from when on the bytes may be reused. Guarded by
 * acre__soft.lock. */
#ifndef ACRE_SOFT_POOL_TYPES_H
#define ACRE_SOFT_POOL_TYPES_H

#include "soft/soft_types.h"

enum { SOFT_POOL_UNIT = 512 }; /* bytes; allocations begin at multiples of it */

/* The largest `usage` of a pool's properties. Its flags ask for hardware, such as the decompressor,
 * that the soft device does not have. So they have no effect. */
enum { SOFT_POOL_USAGE_MOST = 3 };

struct soft_gap {
    struct acre__node node; /* key: address */
    size_t bytes;
    struct soft_marker *freed; /* where in its stream it was freed; NULL: any stream may take it */
};

struct soft_segment {
    struct acre__node node;    /* key: address; in acre__soft.segments */
    struct soft_segment *next; /* of the pool */
    struct CUmemPoolHandle_st *pool;
    struct soft_backing *backing;
    size_t bytes;      /* that the pool has reserved; the one segment of a shared pool grows */
    size_t free_bytes; /* of all gaps */
    struct acre__tree gaps;
    struct soft_view view; /* of the whole backing */
};

struct CUmemPoolHandle_st {
    struct acre__node node; /* key: own address; in acre__soft.pools */
    int device;
    int is_default;
    int is_imported;  /* has one segment without gaps: the bytes belong to another pool */
    int is_destroyed; /* the handle is invalid; freed when the pool is idle */
    CUmemPoolProps props;
    unsigned char access[ACRE__SOFT_DEVICES_MAX];     /* CU_MEM_ACCESS_FLAGS_PROT_* */
    int may_follow, may_be_opportunistic, may_depend; /* CU_MEMPOOL_ATTR_REUSE_* */
    uint64_t threshold;                               /* release threshold: bytes kept at a sync */
    uint64_t reserved_bytes, reserved_high, used_bytes, used_high; /* CU_MEMPOOL_ATTR_* */
    size_t live_count;                                             /* allocations */
    struct soft_segment *segments;
};

/* Returns 1 if other processes may import from the pool. */
static inline int soft_pool_is_shared(const struct CUmemPoolHandle_st *pool) {
    return (pool->props.handleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
}

static inline struct CUmemPoolHandle_st *soft_pool_of(struct acre__node *node) {
    return acre__tree_entry(node, struct CUmemPoolHandle_st, node);
}

static inline struct soft_gap *soft_gap_of(struct acre__node *node) {
    return acre__tree_entry(node, struct soft_gap, node);
}

#endif
