/* What the driver's own pools have: segments, their gaps, and which of them a stream gets.
 *
 * Memory that was freed on a stream is there for the next allocation on it. Another stream gets it
 * as the pool's attributes allow: if it is known to come after the free, if the free is done, and,
 * when there is no other memory left, by waiting for it.
 *
 * A pool grows by whole chunks, a segment for what did not fit. Segments that nobody uses go at a
 * sync, as far as the release threshold lets them. A pool that is shared with other processes has
 * one segment over a file of its own, which grows and never shrinks. */
#include <stdlib.h>
#include <string.h>

#include "soft/soft_pool.h"

static struct soft_gap *gap_of(struct acre__node *node) {
    return acre__tree_entry(node, struct soft_gap, node);
}

/* ---- gaps ---- */

static void gap_end(struct soft_gap *gap) {
    acre__soft_marker_drop(gap->freed);
    free(gap);
}

/* Neighbours that nobody has to tell apart: free for all, or of one stream and equally far. */
static int gaps_are_one(const struct soft_gap *a, const struct soft_gap *b) {
    if (!a || !b || a->node.key + a->bytes != b->node.key)
        return 0;
    if (!a->freed || !b->freed)
        return a->freed == b->freed;
    return a->freed->place.stream == b->freed->place.stream && a->freed->done == b->freed->done;
}

/* `b` becomes a part of `a`; of two frees on a stream the later one counts. */
static void gap_absorb(struct soft_segment *segment, struct soft_gap *a, struct soft_gap *b) {
    if (a->freed && a->freed->place.step < b->freed->place.step) {
        struct soft_marker *later = b->freed;
        b->freed = a->freed;
        a->freed = later;
    }
    a->bytes += b->bytes;
    acre__tree_remove(&segment->gaps, &b->node);
    gap_end(b);
}

void acre__soft_gap_put(struct soft_segment *segment, struct soft_gap *gap) {
    struct soft_gap *before = gap_of(acre__tree_floor(&segment->gaps, gap->node.key));
    struct soft_gap *after = gap_of(acre__tree_find(&segment->gaps, gap->node.key + gap->bytes));
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
        gap_end(gap_of(node));
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
        if (gap_of(node)->freed && !gap_of(node)->freed->done)
            return 0;
    return 1;
}

int acre__soft_pool_is_idle(const struct CUmemPoolHandle_st *pool) {
    if (pool->live_count)
        return 0;
    for (const struct soft_segment *segment = pool->segments; segment; segment = segment->next)
        if (!pool->is_imported && !segment_is_idle(segment))
            return 0;
    return 1;
}

void acre__soft_pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep) {
    if (pool->is_imported || soft_pool_is_shared(pool))
        return; /* others may use what looks idle here */
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
        struct soft_gap *gap = gap_of(node);
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

/* ---- growing ---- */

/* The one segment of a shared pool, larger by that much. */
static CUresult shared_grow(struct CUmemPoolHandle_st *pool, size_t bytes, struct soft_gap *gap) {
    struct soft_device *device = &acre__soft.devices[pool->device];
    struct soft_segment *segment = pool->segments;
    if (bytes > segment->backing->bytes - segment->bytes || !acre__soft_device_has(device, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    gap->node.key = segment->node.key + segment->bytes;
    segment->bytes += bytes;
    device->used_bytes += bytes;
    acre__soft_gap_put(segment, gap);
    return CUDA_SUCCESS;
}

static CUresult own_grow(struct CUmemPoolHandle_st *pool, size_t bytes, struct soft_gap *gap) {
    struct soft_device *device = &acre__soft.devices[pool->device];
    struct soft_backing *backing;
    struct soft_segment *segment;
    CUresult result = device->fd < 0 ? acre__soft_device_start(device) : CUDA_SUCCESS;
    if (result || (result = acre__soft_backing_create(device, bytes, &backing)))
        return result;
    if ((result = acre__soft_segment_make(pool, backing, &segment))) {
        acre__soft_backing_drop(backing);
        return result;
    }
    segment->bytes = bytes;
    gap->node.key = segment->node.key;
    acre__soft_gap_put(segment, gap);
    return CUDA_SUCCESS;
}

/* Within the pool's largest size; what it keeps and nobody uses goes first. */
static int pool_may_grow(struct CUmemPoolHandle_st *pool, size_t bytes) {
    if (!pool->props.maxSize || pool->props.maxSize > acre__soft.config.bytes)
        return 1;
    size_t most = soft_round_up(pool->props.maxSize, SOFT_CHUNK_BYTES);
    if (pool->reserved_bytes + bytes > most)
        acre__soft_pool_trim(pool, 0);
    return pool->reserved_bytes + bytes <= most;
}

static CUresult pool_grow(struct CUmemPoolHandle_st *pool, size_t bytes) {
    size_t whole = soft_round_up(bytes, SOFT_CHUNK_BYTES);
    if (!pool_may_grow(pool, whole))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct soft_gap *gap = calloc(1, sizeof *gap);
    if (!gap)
        return CUDA_ERROR_OUT_OF_MEMORY;
    gap->bytes = whole;
    CUresult result =
        soft_pool_is_shared(pool) ? shared_grow(pool, whole, gap) : own_grow(pool, whole, gap);
    if (result)
        free(gap);
    else
        acre__soft_pool_count(pool, (int64_t)whole, 0);
    return result;
}

void acre__soft_pools_reclaim(const struct soft_device *device) {
    struct acre__node *node = acre__tree_first(&acre__soft.pools);
    for (; node; node = acre__tree_next(&acre__soft.pools, node)) {
        struct CUmemPoolHandle_st *pool = acre__tree_entry(node, struct CUmemPoolHandle_st, node);
        if (pool->device == soft_ordinal(device))
            acre__soft_pool_trim(pool, 0);
    }
}

/* ---- choosing ---- */

/* What a stream has to do for a gap, the least first. */
enum reuse { REUSE_NOW, REUSE_FOLLOW, REUSE_DONE, REUSE_WAIT, REUSE_NEVER };

static enum reuse gap_reuse(const struct CUmemPoolHandle_st *pool, const struct soft_gap *gap,
                            const struct soft_stream *stream) {
    if (!gap->freed || gap->freed->place.stream == stream->id)
        return REUSE_NOW;
    if (pool->may_follow && acre__soft_past_knows(stream, gap->freed))
        return REUSE_FOLLOW;
    if (pool->may_be_opportunistic && gap->freed->done)
        return REUSE_DONE;
    return pool->may_depend ? REUSE_WAIT : REUSE_NEVER;
}

static void fit_better(struct soft_fit *best, const struct soft_fit *other, size_t bytes) {
    if (other->first && other->bytes >= bytes && (!best->first || other->bytes < best->bytes))
        *best = *other;
}

/* The smallest run of gaps that serves, of those that ask for no more than `most`. */
static int fit_search(const struct CUmemPoolHandle_st *pool, const struct soft_stream *stream,
                      size_t bytes, enum reuse most, struct soft_fit *best) {
    *best = (struct soft_fit){0};
    for (struct soft_segment *segment = pool->segments; segment; segment = segment->next) {
        struct soft_fit run = {.segment = segment};
        struct acre__node *node = acre__tree_first(&segment->gaps);
        for (; node; node = acre__tree_next(&segment->gaps, node)) {
            struct soft_gap *gap = gap_of(node);
            int is_taken = gap_reuse(pool, gap, stream) <= most;
            if (is_taken && run.first && run.first->node.key + run.bytes == node->key) {
                run.bytes += gap->bytes;
                continue;
            }
            fit_better(best, &run, bytes);
            run.first = is_taken ? gap : NULL;
            run.bytes = gap->bytes;
        }
        fit_better(best, &run, bytes);
    }
    return best->first != NULL;
}

CUresult acre__soft_fit_find(struct CUmemPoolHandle_st *pool, const struct soft_stream *stream,
                             size_t bytes, struct soft_fit *fit) {
    for (enum reuse most = REUSE_NOW; most <= REUSE_DONE; most++)
        if (fit_search(pool, stream, bytes, most, fit))
            return CUDA_SUCCESS;
    CUresult result = pool_grow(pool, bytes);
    if (fit_search(pool, stream, bytes, result ? REUSE_WAIT : REUSE_NOW, fit))
        return CUDA_SUCCESS;
    return result;
}

static struct soft_gap *gap_next(const struct soft_fit *fit, const struct soft_gap *gap) {
    return gap_of(acre__tree_next(&fit->segment->gaps, &gap->node));
}

CUresult acre__soft_fit_wait(struct soft_stream *stream, const struct soft_fit *fit, size_t bytes) {
    CUresult result = CUDA_SUCCESS;
    size_t passed = 0;
    for (struct soft_gap *gap = fit->first; !result && passed < bytes; gap = gap_next(fit, gap)) {
        if (gap_reuse(fit->segment->pool, gap, stream) == REUSE_WAIT)
            result = acre__soft_wait_for(stream, gap->freed);
        passed += gap->bytes;
    }
    return result;
}

/* Where a free is done already, the operation comes after it because the pool has seen that. */
void acre__soft_fit_take(const struct soft_fit *fit, size_t bytes, struct soft_op *op) {
    struct soft_gap *gap = fit->first, *next;
    fit->segment->free_bytes -= bytes;
    for (; bytes; gap = next) {
        size_t here = gap->bytes < bytes ? gap->bytes : bytes;
        next = gap_next(fit, gap);
        acre__tree_remove(&fit->segment->gaps, &gap->node);
        if (gap->freed && gap->freed->done)
            acre__soft_clock_join(&op->known, &gap->freed->clock);
        if (here == gap->bytes) {
            gap_end(gap);
        } else {
            gap->node.key += here;
            gap->bytes -= here;
            acre__tree_insert(&fit->segment->gaps, &gap->node);
        }
        bytes -= here;
    }
}
