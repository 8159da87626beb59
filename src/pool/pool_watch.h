/* Reports of pools to the trace and the statistics file. A report that is off costs one branch. */
#ifndef ACRE_POOL_WATCH_H
#define ACRE_POOL_WATCH_H

#include "pool/pool.h"
#include "watch/stats_file.h"
#include "watch/trace.h"

/* Returns the name of a kind of memory, such as "device". */
const char *acre__pool_kind_name(acre_kind kind);

/* Called when a pool is created, and when it is destroyed. */
void acre__pool_watch_begin(acre_pool *pool);
void acre__pool_watch_end(acre_pool *pool);

/* With a trace: records an alloc with its status. An invalid pool is not reported. */
void acre__pool_trace_alloc(acre_pool *pool, size_t bytes, acre_stream stream, acre_status status,
                            const void *p);
/* With a trace: records a free before it happens. Returns the pool for acre__pool_trace_freed; NULL
 * for an address of no pool. */
acre_pool *acre__pool_trace_free(const void *p, acre_stream stream);
/* With a trace: records a free that failed. Returns `status`. */
acre_status acre__pool_trace_freed(acre_pool *pool, const void *p, acre_stream stream,
                                   acre_status status);
/* With a trace: records that the block moved to `p`, before the old address is freed. */
void acre__pool_trace_realloc(acre_pool *pool, const void *before, const void *p, size_t bytes,
                              acre_stream stream);

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
