/* Reports of pools to the trace, the table of call stacks and the statistics file. A report that is
 * off costs one branch. */
#ifndef ACRE_POOL_WATCH_H
#define ACRE_POOL_WATCH_H

#include "pool/pool.h"
#include "watch/origin.h"
#include "watch/regions.h"
#include "watch/stats_file.h"
#include "watch/trace.h"

/* Returns the name of a kind of memory, such as "device". */
const char *acre__pool_kind_name(acre_kind kind);

/* Called when a pool is created, and when it is destroyed. */
void acre__pool_watch_begin(acre_pool *pool);
void acre__pool_watch_end(acre_pool *pool);

/* The following record calls in the trace and with the call stacks of blocks, whichever is on.
 *
 * Records an alloc with its status. An invalid pool is not reported. */
void acre__pool_watch_alloc(acre_pool *pool, size_t bytes, acre_stream stream, acre_status status,
                            const void *p);
/* What acre__pool_watch_free recorded. */
struct acre__pool_watched {
    acre_pool *pool;     /* NULL: nothing in the trace */
    acre_pool *counted;  /* NULL: no statistics */
    int is_marked;       /* the block was live in the table of call stacks */
    size_t region_bytes; /* of the block, if it was a region of NVTX (watch/regions.h) */
    acre_device *region_dev;
};
/* Records a free before it happens. */
struct acre__pool_watched acre__pool_watch_free(const void *p, acre_stream stream);
/* Takes the record back if the free failed. Returns `status`. */
acre_status acre__pool_watch_freed(const struct acre__pool_watched *watched, const void *p,
                                   acre_stream stream, acre_status status);
/* Records that the block moved to `p`, before the old address is freed; and takes it back. */
void acre__pool_watch_realloc(acre_pool *pool, const void *before, const void *p, size_t bytes,
                              acre_stream stream);
void acre__pool_watch_unrealloc(const void *before, const void *p, acre_stream stream);

/* Logs the live blocks of a pool with their call stacks, and forgets them. Returns 0 if stacks are
 * off. */
int acre__pool_log_leaks(const acre_pool *pool);

/* Lock held: the blocks in quarantine. */
struct acre__cached acre__pool_quarantined(const acre_pool *pool);
/* Lock held: all statistics of the pool (pool.c). */
void acre__pool_stats(acre_pool *pool, acre_pool_stats *stats);

void acre__pool_export_now(acre_pool *pool, int is_locked);

/* No lock held: stores the pool's statistics for ACRE_STATS. Those that are slow to count, and the
 * device's, are stored at most every 20 ms. */
static inline void acre__pool_export(acre_pool *pool) {
    if (acre__stats_is_on() && pool->row)
        acre__pool_export_now(pool, 0);
}

#endif
