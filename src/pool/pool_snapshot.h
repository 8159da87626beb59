/* Snapshots: what pools, and the rest of acre, have at one moment (acre_snapshot).
 *
 * Collecting copies records under the locks, one pool at a time; writing happens without a lock. */
#ifndef ACRE_POOL_SNAPSHOT_H
#define ACRE_POOL_SNAPSHOT_H

#include "pool/pool.h"
#include "space/book.h"

/* A live block of a pool. */
struct acre__snap_block {
    uint64_t at, bytes, slot_bytes; /* bytes: as requested */
    uint64_t since_ns;              /* 0: unknown */
    acre_stream stream;             /* with a stack */
    uint32_t stack;                 /* 0: unknown */
    uint16_t tag;
    uint8_t is_graph;  /* of a graph capture */
    uint8_t is_shared; /* other streams use it, too */
};

/* A part of a pool's addresses. */
enum acre__snap_state {
    ACRE__SNAP_SLAB,    /* small blocks of one size class */
    ACRE__SNAP_BLOCK,   /* one large block, live or in a thread's cache */
    ACRE__SNAP_FREE,    /* free for any stream */
    ACRE__SNAP_WAITING, /* freed; waits for a stream or an event */
    ACRE__SNAP_GHOST,   /* an old mapping of memory that is mapped elsewhere */
    ACRE__SNAP_LOST     /* being changed, or the driver refuses to unmap it */
};
struct acre__snap_piece {
    uint64_t at, bytes;
    uint64_t slot_bytes; /* of a slab */
    uint32_t slots, live;
    enum acre__snap_state state;
};

/* A chunk where it is mapped, or a block of memory without mappings. */
struct acre__snap_chunk {
    uint64_t at, bytes;
    int is_ghost;
};

struct acre__snap_region {
    uint64_t at, bytes;
    int is_small; /* of slabs */
};

/* Memory outside pools. */
struct acre__snap_object {
    uint64_t at, bytes;
    char device[24];
    acre_kind kind;
    enum acre__owned_by owner;
};

/* A list that grows. */
struct acre__snap_list {
    void *items;
    size_t count, room, item_bytes;
};

struct acre__snap_pool {
    uint32_t id;
    char name[40], device[24];
    acre_kind kind;
    uint64_t held, used, pending, refused;
    struct acre__snap_list blocks, pieces, chunks, regions;
};

struct acre__snapshot {
    struct acre__snap_list pools, objects;
    uint64_t now_ns; /* by CLOCK_MONOTONIC */
    int is_short;    /* out of host memory */
};

/* Collects a snapshot; call it without a lock. Returns ACRE_E_HOST_MEMORY. Drop it in either case.
 */
acre_status acre__snapshot_collect(struct acre__snapshot *snapshot, const acre_device *dev);
void acre__snapshot_drop(struct acre__snapshot *snapshot);

/* Writes a snapshot as JSON to a descriptor. Returns ACRE_E_SYSTEM, ACRE_E_HOST_MEMORY. */
acre_status acre__snapshot_write(const acre_device *dev, int fd);

/* Writes one if ACRE_SNAPSHOT_ON_OOM wants that; call it without a lock. Changes the thread's
 * detail. */
void acre__snapshot_on_oom(const acre_device *dev);

#endif
