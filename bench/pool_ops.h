/* A list of allocations and frees, drawn before, and what a pool needs for it: memory against what
 * is live, and time; with the device lagging behind the host or not. */
#ifndef ACRE_BENCH_POOL_OPS_H
#define ACRE_BENCH_POOL_OPS_H

#include "pool_parties.h"

struct pool_op {
    uint32_t block; /* each is allocated once */
    uint32_t bytes; /* 0: it is freed */
};

struct pool_ops {
    struct pool_op *list;
    size_t count, room;
    uint32_t blocks; /* drawn so far */
    uint64_t live, peak_live;
};

/* One more operation. An allocation returns the block's number. */
uint32_t pool_ops_alloc(struct pool_ops *ops, uint32_t bytes);
void pool_ops_free(struct pool_ops *ops, uint32_t block, uint32_t bytes);
void pool_ops_end(struct pool_ops *ops);

/* All parties but malloc in turn, each with an empty pool, on one stream: reports `name` as the
 * ratio of reserved to live memory and as nanoseconds an operation. A lag that the device cannot
 * have is skipped, which is said. What is reserved is what the driver says is no longer free, asked
 * after each operation and outside of the clock. Returns 0 when something was refused. */
int pool_ops_measure(struct pool_bench *p, const char *name, struct pool_ops *ops, uint64_t lag);

#endif
