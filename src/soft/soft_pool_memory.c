/* Memory of the driver's pools: segments and their gaps, and how pools release memory.
 *
 * A sync releases idle segments down to the release threshold. A pool that is shared with other
 * processes has one segment over its own file, which grows and never shrinks. soft_pool_fit.c
 * chooses the gaps for a stream. Guarded by acre__soft.lock. */
#include <stdlib.h>

#include "base/round.h"
#include "soft/soft_address.h"
#include "soft/soft_op.h"
#include "soft/soft_past.h"
#include "soft/soft_physical.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_pool_types.h"
#include "soft/soft_range.h"
#include "soft/soft_state.h"
#include "soft/soft_view.h"

/* ---- gaps ---- */

void acre__soft_gap_end(struct soft_gap *gap) {
    acre__soft_marker_drop(gap->freed);
    free(gap);
}

/* Returns 1 if adjacent gaps can be merged: both are free for all, or both were freed on the same
 * stream and both frees are done or both are not. */
static int gaps_are_one(const struct soft_gap *a, const struct soft_gap *b) {
    if (!a || !b || a->node.key + a->bytes != b->node.key)
        return 0;
    if (!a->freed || !b->freed)
        return a->freed == b->freed;
    return a->freed->place.stream == b->freed->place.stream && a->freed->done == b->freed->done;
}

/* Merges `b` into `a`. Of two frees on a stream the later one counts. */
static void gap_absorb(struct soft_segment *segment, struct soft_gap *a, struct soft_gap *b) {
    if (a->freed && a->freed->place.step < b->freed->place.step) {
        struct soft_marker *later = b->freed;
        b->freed = a->freed;
        a->freed = later;
    }
    a->bytes += b->bytes;
    acre__tree_remove(&segment->gaps, &b->node);
    acre__soft_gap_end(b);
}

void acre__soft_gap_put(struct soft_segment *segment, struct soft_gap *gap) {
    struct soft_gap *before = soft_gap_of(acre__tree_floor(&segment->gaps, gap->node.key));
    struct soft_gap *after =
        soft_gap_of(acre__tree_find(&segment->gaps, gap->node.key + gap->bytes));
    segment->free_bytes += gap->bytes;
    acre__tree_insert(&segment->gaps, &gap->node);
    if (gaps_are_one(gap, after))
        gap_absorb(segment, gap, after);
    if (gaps_are_one(before, gap))
        gap_absorb(segment, before, gap);
}

/* ---- segments ---- */

CUresult acre__soft_segment_make(struct CUmemPoolHandle_st *pool, struct soft_backing *backing,
                                 struct soft_segment **out) {
    struct soft_segment *segment = calloc(1, sizeof *segment);
    if (!segment)
        return CUDA_ERROR_OUT_OF_MEMORY;
    segment->pool = pool;
    segment->backing = backing;
    segment->node.key = acre__soft_address_take(backing->bytes, SOFT_CHUNK_BYTES, 0);
    if (!segment->node.key || !acre__soft_view_segment(segment)) {
        if (segment->node.key)
            acre__soft_address_give(segment->node.key, backing->bytes);
        free(segment);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    acre__tree_insert(&acre__soft.segments, &segment->node);
    segment->next = pool->segments;
    pool->segments = segment;
    *out = segment;
    return CUDA_SUCCESS;
}

void acre__soft_segment_end(struct soft_segment *segment) {
    struct CUmemPoolHandle_st *pool = segment->pool;
    struct soft_segment **link = &pool->segments;
    struct acre__node *node;
    while (*link != segment)
        link = &(*link)->next;
    *link = segment->next;
    while ((node = acre__tree_first(&segment->gaps))) {
        acre__tree_remove(&segment->gaps, node);
        acre__soft_gap_end(soft_gap_of(node));
    }
    if (!pool->is_imported) {
        acre__soft_pool_count(pool, -(int64_t)segment->bytes, 0);
        if (soft_pool_is_shared(pool))
            acre__soft.devices[pool->device].used_bytes -= segment->bytes;
    }
    acre__tree_remove(&acre__soft.segments, &segment->node);
    (void)acre__soft_view_end(&segment->view, segment->node.key, segment->backing->bytes);
    acre__soft_address_give(segment->node.key, segment->backing->bytes);
    acre__soft_backing_drop(segment->backing);
    free(segment);
}

static int segment_is_idle(const struct soft_segment *segment) {
    if (segment->free_bytes != segment->bytes)
        return 0;
    struct acre__node *node = acre__tree_first(&segment->gaps);
    for (; node; node = acre__tree_next(&segment->gaps, node))
        if (soft_gap_of(node)->freed && !soft_gap_of(node)->freed->done)
            return 0;
    return 1;
}

/* Returns 1 if none of the pool's memory is in use, not even by work before a free. */
static int pool_is_idle(const struct CUmemPoolHandle_st *pool) {
    if (pool->live_count)
        return 0;
    for (const struct soft_segment *segment = pool->segments; segment; segment = segment->next)
        if (!pool->is_imported && !segment_is_idle(segment))
            return 0;
    return 1;
}

void acre__soft_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep) {
    if (pool->is_imported || soft_pool_is_shared(pool))
        return; /* other processes may use memory that looks idle here */
    struct soft_segment *next;
    for (struct soft_segment *segment = pool->segments; segment; segment = next) {
        next = segment->next;
        if (pool->reserved_bytes - segment->bytes >= keep && pool->reserved_bytes > keep &&
            segment_is_idle(segment))
            acre__soft_segment_end(segment);
    }
}

static void segment_settle(struct soft_segment *segment, const struct CUctx_st *ctx) {
    struct acre__node *node = acre__tree_first(&segment->gaps), *next;
    struct soft_gap *before = NULL;
    for (; node; node = next) {
        struct soft_gap *gap = soft_gap_of(node);
        next = acre__tree_next(&segment->gaps, node);
        if (gap->freed && acre__soft_past_is_observed(gap->freed, ctx)) {
            acre__soft_marker_drop(gap->freed);
            gap->freed = NULL;
        }
        if (gaps_are_one(before, gap))
            gap_absorb(segment, before, gap);
        else
            before = gap;
    }
}

void acre__soft_pool_settle(struct CUmemPoolHandle_st *pool, const struct CUctx_st *ctx) {
    for (struct soft_segment *segment = pool->segments; segment; segment = segment->next)
        segment_settle(segment, ctx);
}

/* ---- pools ---- */

void acre__soft_pool_count(struct CUmemPoolHandle_st *pool, int64_t reserved, int64_t used) {
    pool->reserved_bytes += (uint64_t)reserved;
    pool->used_bytes += (uint64_t)used;
    if (pool->reserved_bytes > pool->reserved_high)
        pool->reserved_high = pool->reserved_bytes;
    if (pool->used_bytes > pool->used_high)
        pool->used_high = pool->used_bytes;
}

void acre__soft_pool_end(struct CUmemPoolHandle_st *pool) {
    while (pool->segments)
        acre__soft_segment_end(pool->segments);
    acre__tree_remove(&acre__soft.pools, &pool->node);
    free(pool);
}

void acre__soft_pools_tend(void) {
    struct acre__node *node = acre__tree_first(&acre__soft.pools), *next;
    for (; node; node = next) {
        struct CUmemPoolHandle_st *pool = soft_pool_of(node);
        next = acre__tree_next(&acre__soft.pools, node);
        if (pool->is_destroyed && pool_is_idle(pool))
            acre__soft_pool_end(pool);
    }
}

/* ---- frees ---- */

void acre__soft_pool_take_back(struct soft_range *range, struct soft_marker *freed) {
    struct CUmemPoolHandle_st *pool = range->pool;
    struct soft_gap *gap = range->gap;
    size_t whole = acre__round_up(range->bytes, SOFT_POOL_UNIT);
    uint64_t address = range->node.key;
    range->gap = NULL;
    acre__soft_range_remove(range);
    acre__soft_pool_count(pool, pool->is_imported ? -(int64_t)whole : 0, -(int64_t)whole);
    pool->live_count--;
    if (gap) {
        *gap = (struct soft_gap){.node = {.key = address}, .bytes = whole, .freed = freed};
        acre__soft_gap_put(acre__soft_segment_find(address), gap);
    } else { /* imported: the bytes belong to the exporting pool */
        acre__soft_marker_drop(freed);
    }
    acre__soft_pools_tend();
}

void acre__soft_graph_memory_settle(void) {
    while (acre__soft.graph_memory_over) {
        struct soft_graph_memory *memory = acre__soft.graph_memory_over;
        acre__soft.graph_memory_over = memory->next;
        if (memory->range)
            memory->range->graph = NULL;
        if (memory->range && !memory->is_live)
            acre__soft_pool_take_back(memory->range, memory->freed);
        else
            acre__soft_marker_drop(memory->freed);
        free(memory);
    }
}

/* ---- releasing memory ---- */

/* Releases idle memory of the device's pools, because the device is out of memory. */
static void pools_reclaim(const struct soft_device *device) {
    struct acre__node *node = acre__tree_first(&acre__soft.pools);
    for (; node; node = acre__tree_next(&acre__soft.pools, node)) {
        struct CUmemPoolHandle_st *pool = soft_pool_of(node);
        if (pool->device == soft_ordinal(device))
            acre__soft_pool_trim(pool, 0);
    }
}

/* Pools release idle memory for any request, except one that is larger than the device. */
int acre__soft_device_has(const struct soft_device *device, size_t bytes) {
    if (bytes > acre__soft.config.bytes - device->used_bytes && bytes <= acre__soft.config.bytes)
        pools_reclaim(device);
    return bytes <= acre__soft.config.bytes - device->used_bytes;
}

CUresult acre__soft_chunk_create(struct soft_device *device, size_t bytes,
                                 struct soft_backing **out) {
    return acre__soft_device_has(device, bytes) ? acre__soft_backing_create(device, bytes, out)
                                                : CUDA_ERROR_OUT_OF_MEMORY;
}
