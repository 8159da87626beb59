/* Memory that is copied inside, and the ways in which it is made; shared by pool_use.c and
 * pool_use_ways.c alone. */
#ifndef ACRE_BENCH_POOL_USE_H
#define ACRE_BENCH_POOL_USE_H

#include "pool_parties.h"

enum use_kind {
    USE_PLAIN, /* cuMemAlloc */
    USE_ASYNC, /* cuMemAllocAsync */
    USE_POOL,  /* a pool of acre's, made for it */
    USE_MEM,   /* acre_mem_alloc */
    USE_CHUNKS /* chunks of one size, mapped by hand one behind the other */
};

struct use_way {
    const char *name, *who;
    enum use_kind kind;
    bool is_two;           /* two blocks; else the halves of one */
    size_t alignment;      /* pool: asked for */
    size_t before_bytes;   /* pool: a block that is allocated before and stays */
    size_t piece_bytes;    /* pool: all was in such blocks before; chunks: their size */
    size_t behind_1gib;    /* chunks: the first address is so far behind a multiple of 1 GiB */
    size_t distance_bytes; /* plain: between the end of the first half and the second one */
};

/* Memory that was made; zeroed before. */
struct use_place {
    const struct use_way *way;
    uint64_t from, to;       /* `bytes` each */
    size_t bytes;            /* of a half */
    CUdeviceptr plain[2];    /* what is to be freed: by the driver, */
    void *blocks[2];         /* by the pool or acre_mem_free, */
    void *before;            /* by the pool */
    void *reserved, *mapped; /* and unmapped */
    acre_pool *pool;
};

/* The index-th way, NULL past the last one. The first is a block of a pool, the second one of
 * cuMemAlloc; all others are compared with that one. */
const struct use_way *use_way(unsigned index);

/* Whether the device can have it. */
bool use_is_possible(const struct pool_bench *p, const struct use_way *way);

/* Each returns 0 when something was refused. */
int use_make(struct pool_bench *p, const struct use_way *way, size_t half, struct use_place *place);
int use_unmake(struct pool_bench *p, struct use_place *place);

#endif
