/* The driver's own pools: the structs that their files (soft_pool*.c) share with those that
 * look into them (soft_state.c, soft_view.c, soft_range.c, soft_pointer.c).
 *
 *   pool      a handle of the program, or the default one of a device
 *   segment   whole chunks of a pool in one run of addresses
 *   gap       a part of a segment that is free, and behind which work
 *
 * An allocation is a range of kind SOFT_POOLED in a segment, which has it from the call that made
 * it to the call that freed it; gaps are all the rest. So the books change when a call is made, and
 * `freed` says from when on the bytes may change hands. Guarded by acre__soft.lock. */
#ifndef ACRE_SOFT_POOL_TYPES_H
#define ACRE_SOFT_POOL_TYPES_H

#include "soft/soft_types.h"

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

#endif
