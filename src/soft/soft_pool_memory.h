/* Memory of pools: segments and gaps, and how pools release memory (soft_pool_memory.c). Guarded by
 * acre__soft.lock. */
#ifndef ACRE_SOFT_POOL_MEMORY_H
#define ACRE_SOFT_POOL_MEMORY_H

#include "soft/soft_pool_types.h"

/* Returns 1 if the device has that many free bytes. If needed, pools release idle memory first. */
int acre__soft_device_has(const struct soft_device *device, size_t bytes);
/* Calls acre__soft_backing_create. If needed, pools release idle memory first. */
CUresult acre__soft_chunk_create(struct soft_device *device, size_t bytes,
                                 struct soft_backing **out);

/* Destroys the pool and its segments. The pool has no allocations. */
void acre__soft_pool_end(struct CUmemPoolHandle_st *pool);
/* Adds to the pool's reserved and used bytes. */
void acre__soft_pool_count(struct CUmemPoolHandle_st *pool, int64_t reserved, int64_t used);
/* Frees destroyed pools that have become idle. */
void acre__soft_pools_tend(void);

/* Turns the range into a gap that follows the marker. Takes over the reference to the marker. */
void acre__soft_pool_take_back(struct soft_range *range, struct soft_marker *freed);
/* Returns graph memory to its pool that no node refers to any more. Live memory becomes ordinary
 * memory of the pool, which the program frees. */
void acre__soft_graph_memory_settle(void);

/* Creates a segment over the whole backing, without gaps and not counted. Takes over the reference
 * to the backing; on failure the caller keeps it. */
CUresult acre__soft_segment_make(struct CUmemPoolHandle_st *pool, struct soft_backing *backing,
                                 struct soft_segment **out);
void acre__soft_segment_end(struct soft_segment *segment);
/* Frees the record of a gap that is in no segment. */
void acre__soft_gap_end(struct soft_gap *gap);
void acre__soft_gap_put(struct soft_segment *segment, struct soft_gap *gap);

/* Releases idle segments as long as `keep` bytes stay reserved. */
void acre__soft_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep);
/* Makes gaps available to all streams if the host has waited for their frees. With a context: the
 * host has waited for all of its work, including that of ended streams. */
void acre__soft_pool_settle(struct CUmemPoolHandle_st *pool, const struct CUctx_st *ctx);

#endif
