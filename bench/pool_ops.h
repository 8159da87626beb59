/* A list of allocations and frees, drawn in advance. Measures the memory that a pool reserves for
 * it, relative to live memory, and the time, with or without a lag of the device. */
#ifndef ACRE_BENCH_POOL_OPS_H
#define ACRE_BENCH_POOL_OPS_H

#include "pool_parties.h"

struct pool_op {
    uint32_t block; /* each is allocated once */
    uint32_t bytes; /* 0: free */
};

struct pool_ops {
    struct pool_op *list;
    size_t count, room;
    uint32_t blocks; /* drawn so far */
    uint64_t live, peak_live;
};

/* Append an operation. pool_ops_alloc returns the number of the block. */
uint32_t pool_ops_alloc(struct pool_ops *ops, uint32_t bytes);
void pool_ops_free(struct pool_ops *ops, uint32_t block, uint32_t bytes);
void pool_ops_end(struct pool_ops *ops);

/* Runs the list on one stream for all parties except malloc, each with an empty pool. Reports the
 * ratio of reserved to live memory and the nanoseconds per operation under `name`. Reserved memory
 * is the drop of free memory that the driver reports after each operation, outside of the timed
 * part. A lag that the device does not support is skipped with a message. Returns 0 on failure. */
int pool_ops_measure(struct pool_bench *p, const char *name, struct pool_ops *ops, uint64_t lag);

#endif
