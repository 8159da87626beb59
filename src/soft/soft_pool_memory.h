/* What pools have: segments and gaps, and how they give memory back (soft_pool_memory.c). Guarded
 * by acre__soft.lock. */
#ifndef ACRE_SOFT_POOL_MEMORY_H
#define ACRE_SOFT_POOL_MEMORY_H

#include "soft/soft_pool_types.h"

/* Has the device that many bytes to give? Pools give up what nobody uses, if need be. */
int acre__soft_device_has(const struct soft_device *device, size_t bytes);
/* acre__soft_backing_create, for which pools give up what nobody uses, if need be. */
CUresult acre__soft_chunk_create(struct soft_device *device, size_t bytes,
                                 struct soft_backing **out);

/* Ends the pool with its segments; it has no allocations. */
void acre__soft_pool_end(struct CUmemPoolHandle_st *pool);
/* Adds to what the pool has, and to what of it is in use. */
void acre__soft_pool_count(struct CUmemPoolHandle_st *pool, int64_t reserved, int64_t used);
/* Ends the destroyed pools that can go now. */
void acre__soft_pools_tend(void);

/* A segment over that much of the backing, without gaps and uncounted; takes over the reference. On
 * failure the caller still has it. */
CUresult acre__soft_segment_make(struct CUmemPoolHandle_st *pool, struct soft_backing *backing,
                                 struct soft_segment **out);
void acre__soft_segment_end(struct soft_segment *segment);
/* Frees the record of a gap that is in no segment. */
void acre__soft_gap_end(struct soft_gap *gap);
void acre__soft_gap_put(struct soft_segment *segment, struct soft_gap *gap);

/* Gives back whole segments that nobody uses, as long as `keep` bytes stay. */
void acre__soft_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep);
/* What the host has seen done since is for everybody to take. With a context all of its work was
 * waited for, that of ended streams too. */
void acre__soft_pool_settle(struct CUmemPoolHandle_st *pool, const struct CUctx_st *ctx);

#endif
