/* What pools tell the trace and the file of statistics. Each of these costs one branch when nobody
 * wants to know. */
#ifndef ACRE_POOL_WATCH_H
#define ACRE_POOL_WATCH_H

#include "pool/pool.h"
#include "watch/stats_file.h"
#include "watch/trace.h"

/* A pool begins and ends. */
void acre__pool_watch_begin(acre_pool *pool);
void acre__pool_watch_end(acre_pool *pool);

/* With a trace: an alloc has ended with that status. A pool that is none is not told about. */
void acre__pool_trace_alloc(acre_pool *pool, size_t bytes, acre_stream stream, acre_status status,
                            const void *p);
/* With a trace: a free begins; NULL for an address that is no pool's. What is returned is for the
 * call below. */
acre_pool *acre__pool_trace_free(const void *p, acre_stream stream);
/* With a trace, at the end of a call: `status` is returned. */
acre_status acre__pool_trace_freed(acre_pool *pool, const void *p, acre_stream stream,
                                   acre_status status);
/* With a trace: the block is at `p` from now on, and the old address will be freed. */
void acre__pool_trace_realloc(acre_pool *pool, const void *before, const void *p, size_t bytes,
                              acre_stream stream);

/* The pool's lock is held: all of its statistics (pool.c). */
void acre__pool_stats(acre_pool *pool, acre_pool_stats *stats);

void acre__pool_export_now(acre_pool *pool, int is_locked);

/* Stores the pool's statistics for ACRE_STATS; those that take long to count, and the device's, now
 * and then. No lock is held. */
static inline void acre__pool_export(acre_pool *pool) {
    if (acre__stats_is_on() && pool->row)
        acre__pool_export_now(pool, 0);
}

#endif
