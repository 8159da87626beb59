/* Finds memory of a pool for a stream: chooses gaps, and grows the pool.
 *
 * A stream can reuse memory that was freed on it at once. Another stream gets that memory as the
 * pool's attributes allow: if it is known to come after the free, if the free is done, or, when no
 * other memory is left, by waiting for the free. A pool grows by whole chunks: each request that
 * does not fit adds a segment. Guarded by acre__soft.lock. */
#include <stdlib.h>

#include "base/round.h"
#include "soft/soft_clock.h"
#include "soft/soft_past.h"
#include "soft/soft_physical.h"
#include "soft/soft_pool_fit.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_pool_types.h"
#include "soft/soft_queue.h"
#include "soft/soft_range.h"
#include "soft/soft_state.h"

/* ---- growing ---- */

/* Grows the one segment of a shared pool. */
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
    if (result || (result = acre__soft_chunk_create(device, bytes, &backing)))
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

/* Checks the pool's maximum size. Releases idle memory of the pool first if needed. */
static int pool_may_grow(struct CUmemPoolHandle_st *pool, size_t bytes) {
    if (!pool->props.maxSize || pool->props.maxSize > acre__soft.config.bytes)
        return 1;
    size_t most = acre__round_up(pool->props.maxSize, SOFT_CHUNK_BYTES);
    if (pool->reserved_bytes + bytes > most)
        acre__soft_pool_trim(pool, 0);
    return pool->reserved_bytes + bytes <= most;
}

static CUresult pool_grow(struct CUmemPoolHandle_st *pool, size_t bytes) {
    size_t whole = acre__round_up(bytes, SOFT_CHUNK_BYTES);
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

/* ---- choosing ---- */

/* What a stream needs before it may use a gap, weakest requirement first. */
enum reuse { REUSE_NOW, REUSE_FOLLOW, REUSE_DONE, REUSE_WAIT, REUSE_NEVER };

static enum reuse gap_reuse(const struct CUmemPoolHandle_st *pool, const struct soft_gap *gap,
                            const struct soft_stream *stream) {
    if (!gap->freed || (stream && gap->freed->place.stream == stream->id))
        return REUSE_NOW;
    if (!stream)
        return REUSE_NEVER;
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

/* Finds the smallest run of gaps that is large enough, among gaps that need no more than `most`. */
static int fit_search(const struct CUmemPoolHandle_st *pool, const struct soft_stream *stream,
                      size_t bytes, enum reuse most, struct soft_fit *best) {
    *best = (struct soft_fit){0};
    for (struct soft_segment *segment = pool->segments; segment; segment = segment->next) {
        struct soft_fit run = {.segment = segment};
        struct acre__node *node = acre__tree_first(&segment->gaps);
        for (; node; node = acre__tree_next(&segment->gaps, node)) {
            struct soft_gap *gap = soft_gap_of(node);
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
    return soft_gap_of(acre__tree_next(&fit->segment->gaps, &gap->node));
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

/* If a free is already done, the operation's clock joins that of the free: the pool has seen it
 * done. */
static void fit_take(const struct soft_fit *fit, size_t bytes, struct soft_op *op) {
    struct soft_gap *gap = fit->first, *next;
    fit->segment->free_bytes -= bytes;
    for (; bytes; gap = next) {
        size_t here = gap->bytes < bytes ? gap->bytes : bytes;
        next = gap_next(fit, gap);
        acre__tree_remove(&fit->segment->gaps, &gap->node);
        if (gap->freed && gap->freed->done)
            acre__soft_clock_join(&op->known, &gap->freed->clock);
        if (here == gap->bytes) {
            acre__soft_gap_end(gap);
        } else {
            gap->node.key += here;
            gap->bytes -= here;
            acre__tree_insert(&fit->segment->gaps, &gap->node);
        }
        bytes -= here;
    }
}

CUresult acre__soft_fit_range(const struct soft_fit *fit, size_t bytes, struct soft_range **out) {
    struct CUmemPoolHandle_st *pool = fit->segment->pool;
    struct soft_backing *backing = fit->segment->backing;
    uint64_t address = fit->first->node.key;
    struct soft_gap *gap = calloc(1, sizeof *gap);
    CUresult result = gap ? acre__soft_range_add(SOFT_POOLED, address, bytes, pool->device, backing,
                                                 address - fit->segment->node.key, out)
                          : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        free(gap);
        return result;
    }
    acre__soft_backing_keep(backing);
    (*out)->pool = pool;
    (*out)->gap = gap;
    return CUDA_SUCCESS;
}

void acre__soft_fit_give(const struct soft_fit *fit, size_t whole, struct soft_op *op) {
    struct CUmemPoolHandle_st *pool = fit->segment->pool;
    fit_take(fit, whole, op);
    acre__soft_pool_count(pool, 0, (int64_t)whole);
    pool->live_count++;
}
