/* The ways to allocate the memory of the case `use`; private to pool_use.c and pool_use_ways.c. */
#ifndef ACRE_BENCH_POOL_USE_H
#define ACRE_BENCH_POOL_USE_H

#include "pool_parties.h"

enum use_kind {
    USE_PLAIN, /* cuMemAlloc */
    USE_ASYNC, /* cuMemAllocAsync */
    USE_POOL,  /* a new pool of acre */
    USE_MEM,   /* acre_mem_alloc */
    USE_CHUNKS /* chunks of one size, mapped one after the other with acre_vm */
};

struct use_way {
    const char *name, *who;
    enum use_kind kind;
    bool is_two;         /* two blocks; else the two halves of one block */
    size_t alignment;    /* pool: requested alignment */
    size_t before_bytes; /* pool: size of a block that is allocated first and stays live */
    size_t piece_bytes;  /* pool: size of blocks that used the memory before; chunks: their size */
    size_t behind_1gib;  /* chunks: distance of the first address from a multiple of 1 GiB */
    size_t distance_bytes; /* plain: gap between the two halves */
};

/* Allocated memory; zeroed first. */
struct use_place {
    const struct use_way *way;
    uint64_t from, to;       /* `bytes` each */
    size_t bytes;            /* of a half */
    CUdeviceptr plain[2];    /* freed by the driver */
    void *blocks[2];         /* freed by the pool or acre_mem_free */
    void *before;            /* freed by the pool */
    void *reserved, *mapped; /* addresses to free, and to unmap */
    acre_pool *pool;
};

/* Returns the index-th way, NULL past the last one. The first is a block of a pool. The second is a
 * block of cuMemAlloc, with which all others are compared. */
const struct use_way *use_way(unsigned index);

/* Returns true if the device supports the way. */
bool use_is_possible(const struct pool_bench *p, const struct use_way *way);

/* Allocate and free the memory of a way. Each returns 0 on failure. */
int use_make(struct pool_bench *p, const struct use_way *way, size_t half, struct use_place *place);
int use_unmake(struct pool_bench *p, struct use_place *place);

#endif
