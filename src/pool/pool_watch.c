/* Reports of pools to the trace, the call stacks and the statistics file: see pool_watch.h.
 *
 * Counting live blocks visits all thread caches. So it happens at most every 20 ms, and takes at
 * most a fiftieth of the time. In between, the pool's own counts say how live memory changes. While
 * statistics are kept, hits count their calls in the pool's row, and look every 20 ms whether to
 * store the rest. */
#include "pool/pool_watch.h"

#include <pthread.h>
#include <time.h>

#include "base/atomic.h"
#include "pool/pool_tag.h"
#include "watch/trace_clock.h"

enum { EXPORT_LEAST_NS = 20000000, EXPORT_SHARE = 50 };

/* Counters of a pool's row that are added to with each call, behind those of the public list. */
enum {
#define WATCH_PUBLIC(name, meaning) WATCH_##name,
#define WATCH_MORE(name, meaning) WATCH_more_##name,
    ACRE_POOL_STATS_LIST(WATCH_PUBLIC) ACRE__STATS_POOL_MORE(WATCH_MORE)
#undef WATCH_PUBLIC
#undef WATCH_MORE
};

static uint64_t watch_clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The processor's counter: reading the system's clock takes up to 0.4 us in a virtual machine. */
static struct {
    pthread_once_t once;
    struct acre__clock clock;
    uint64_t pause; /* EXPORT_LEAST_NS in units of the clock */
} look = {.once = PTHREAD_ONCE_INIT};

static void look_begin(void) {
    acre__clock_open(&look.clock);
    uint64_t rate = look.clock.rate ? look.clock.rate : (uint64_t)1 << 32;
    look.pause = (uint64_t)((double)EXPORT_LEAST_NS * 4294967296.0 / (double)rate);
}

/* ---- creation and end ---- */

const char *acre__pool_kind_name(acre_kind kind) {
    static const char *const kinds[] = {"", "device", "pinned", "mapped", "managed"};
    return kinds[kind];
}

void acre__pool_watch_begin(acre_pool *pool) {
    acre__trace_pool_init(&pool->trace, "%s %s%s", pool->dev->label,
                          acre__pool_kind_name(pool->kind), pool->is_default ? " default" : "");
    if (acre__stats_is_on())
        pthread_once(&look.once, look_begin);
    pool->row = acre__stats_row_take(ACRE__STATS_POOL, pool->trace.id, pool->trace.name);
}

void acre__pool_watch_end(acre_pool *pool) {
    acre__stats_row_give(pool->row);
    pool->row = NULL;
}

/* ---- regions of NVTX (watch/regions.h) ---- */

/* The tool behind NVTX looks at the current context. */
static void region_change(acre_device *dev, const void *before, const void *p, size_t bytes) {
    struct acre__current current;
    const char *what;
    if (acre__device_push(dev, &current, &what) != CUDA_SUCCESS)
        return;
    acre__regions_change(before, p, bytes);
    acre__device_pop(dev, &current);
}

/* ---- calls ---- */

/* Returns the bytes of a block's slot. */
static size_t watch_real_bytes(const acre_pool *pool, const void *p, size_t bytes) {
    const struct acre__slab *slab = acre__pool_table_find(p);
    if (slab)
        return slab->slot_bytes;
    return acre__round_up(bytes, pool->dev->info.granularity_bytes); /* a spillable block */
}

/* Of default pools, and of the program's own. */
static const struct acre__what pool_blocks[2] = {
    {"acre_alloc", "pool", "block of a pool", "blocks of a pool"},
    {"acre_pool_alloc", "pool", "block of a pool", "blocks of a pool"}};

static const struct acre__what *what_of(const acre_pool *pool) {
    return &pool_blocks[!pool->is_default];
}

/* No lock held: stores the statistics if that was not done for some time. Hits may be all that a
 * program does. */
static void watch_look(acre_pool *pool) {
    uint64_t now = acre__clock_units(&look.clock);
    if (now < acre__load(&pool->look_due, memory_order_relaxed))
        return;
    acre__store(&pool->look_due, now + look.pause, memory_order_relaxed);
    acre__pool_export(pool);
}

static void watch_count(acre_pool *pool, size_t bytes) {
    if (!pool->row)
        return;
    acre__stats_row_add(pool->row, WATCH_more_allocs, 1);
    acre__stats_row_add(pool->row, WATCH_more_alloc_bytes, bytes);
    watch_look(pool);
}

void acre__pool_watch_alloc(acre_pool *pool, size_t bytes, acre_stream stream, acre_status status,
                            const void *p) {
    if (status == ACRE_OK && !p)
        return; /* 0 bytes: there is no block */
    if (status == ACRE_OK && acre__stats_is_on())
        watch_count(pool, bytes);
    uint32_t stack = 0;
    if (status == ACRE_OK)
        stack = acre__origin_add(p, bytes, what_of(pool), pool, pool->dev->label);
    if (stack)
        acre__origin_stream(p, stream);
    if (status == ACRE_OK && acre__regions_are_on())
        region_change(pool->dev, NULL, p, bytes);
    if (!acre__trace_is_on())
        return;
    if (status == ACRE_OK)
        acre__trace_alloc(&pool->trace, p, bytes, watch_real_bytes(pool, p, bytes), stream,
                          acre__tag_now(), stack);
    else if (status != ACRE_E_NULL && status != ACRE_E_HANDLE && status != ACRE_E_FORKED)
        acre__trace_refused(&pool->trace, bytes, stream, acre__tag_now(), status);
}

/* Returns the pool of a block; NULL for an address of no pool. */
static acre_pool *pool_of(const void *p) {
    struct acre__pool_cache *cache = acre__cache_self();
    acre__reader_enter(cache); /* after a double free the slab may be destroyed */
    const struct acre__slab *slab = p ? acre__pool_table_find(p) : NULL;
    acre_pool *pool = slab ? slab->pool : NULL;
    acre__reader_leave(cache);
    return pool;
}

/* Records a free in the trace. Returns the pool; NULL for an address of no pool. */
static acre_pool *trace_free(const void *p, acre_stream stream) {
    acre_pool *pool = pool_of(p);
    if (pool)
        acre__trace_free(&pool->trace, p, stream);
    return pool;
}

/* Ends the region of a block before another thread can get its memory. Sets `region_bytes` to the
 * bytes of the block; 0 if it is not live, and the free will fail. */
static void region_end(struct acre__pool_watched *watched, const void *p) {
    struct acre__pool_cache *cache = acre__cache_self();
    size_t bytes = 0;
    acre__reader_enter(cache);
    struct acre__slab *slab = p ? acre__pool_table_find(p) : NULL;
    const acre__slot_state *state = slab ? acre__slab_state(slab, p) : NULL;
    uint32_t value = state ? acre__load(state, memory_order_relaxed) : 0;
    if (value & ACRE__SLOT_LIVE) {
        bytes = acre__slab_asked(slab, value);
        watched->region_dev = slab->pool->dev;
    }
    acre__reader_leave(cache);
    watched->region_bytes = bytes;
    if (bytes)
        region_change(watched->region_dev, p, NULL, 0);
}

struct acre__pool_watched acre__pool_watch_free(const void *p, acre_stream stream) {
    struct acre__pool_watched watched = {.is_marked = acre__origin_free(p)};
    if (acre__regions_are_on())
        region_end(&watched, p);
    watched.pool = acre__trace_is_on() ? trace_free(p, stream) : NULL;
    watched.counted = acre__stats_is_on() ? pool_of(p) : NULL;
    return watched;
}

acre_status acre__pool_watch_freed(const struct acre__pool_watched *watched, const void *p,
                                   acre_stream stream, acre_status status) {
    if (status)
        acre__origin_unfree(p, watched->is_marked);
    if (status && watched->region_bytes)
        region_change(watched->region_dev, NULL, p, watched->region_bytes);
    if (status && watched->pool)
        acre__trace_free_refused(&watched->pool->trace, p, stream, status);
    if (!status && watched->counted && watched->counted->row)
        watch_look(watched->counted);
    return status;
}

void acre__pool_watch_realloc(acre_pool *pool, const void *before, const void *p, size_t bytes,
                              acre_stream stream) {
    if (before != p)
        (void)acre__origin_free(before);
    if (acre__regions_are_on())
        region_change(pool->dev, before, p, bytes);
    uint32_t stack = acre__origin_add(p, bytes, what_of(pool), pool, pool->dev->label);
    if (!acre__trace_is_on())
        return;
    struct acre__slab *slab = acre__pool_table_find(p);
    const acre__slot_state *state = acre__slab_state(slab, p);
    uint32_t tag = acre__tag_of(slab, state, acre__load(state, memory_order_relaxed));
    acre__trace_realloc(&pool->trace, before, p, bytes, slab->slot_bytes, stream, tag, stack);
}

void acre__pool_watch_unrealloc(const void *before, const void *p, acre_stream stream) {
    acre__origin_unfree(before, acre__origin_free(p));
    if (acre__trace_is_on())
        (void)trace_free(p, stream);
}

int acre__pool_log_leaks(const acre_pool *pool) {
    return acre__origin_log_leaks(pool, NULL);
}

/* ---- statistics ---- */

/* Sets the statistics that need no counting. */
static void stats_quick(const acre_pool *pool, acre_pool_stats *stats) {
    stats->held_bytes = pool->account.held + pool->spilled.bytes - pool->spilled.away_bytes;
    stats->held_peak_bytes = pool->account.held_peak;
    stats->refills = pool->refills;
    stats->spills = pool->spills;
    stats->events = pool->events;
    stats->waits = pool->waits;
    stats->moved_chunks = pool->blocks_in.moved + pool->slabs_in.moved;
    stats->overruns = pool->overruns;
    stats->late_writes = pool->late_writes;
    stats->used_bytes = pool->used;
    stats->soft_limit_bytes = pool->soft_limit_bytes;
    stats->limit_bytes = pool->limit_bytes;
    stats->over_soft = pool->over_soft;
    stats->served_caches = pool->served[ACRE__RUNG_CACHES];
    stats->served_done = pool->served[ACRE__RUNG_DONE];
    stats->served_moved = pool->served[ACRE__RUNG_MOVED];
    stats->served_behind = pool->served[ACRE__RUNG_BEHIND];
    stats->served_pools = pool->served[ACRE__RUNG_POOLS];
    stats->served_callback = pool->served[ACRE__RUNG_CALLBACK];
    stats->served_waiting = pool->served[ACRE__RUNG_WAITING];
    stats->served_spill = pool->served[ACRE__RUNG_SPILL];
    stats->spillable_bytes = pool->spilled.bytes;
    stats->away_bytes = pool->spilled.away_bytes;
    stats->left_blocks = pool->spilled.left_blocks;
    stats->left_bytes = pool->spilled.left_bytes;
    stats->brought_blocks = pool->spilled.brought_blocks;
    stats->brought_bytes = pool->spilled.brought_bytes;
    stats->spill_wait_ns = pool->spilled.wait_ns;
    stats->spill_copy_ns = pool->spilled.copy_ns;
    stats->refused = pool->refused;
}

struct acre__cached acre__pool_quarantined(const acre_pool *pool) {
    struct acre__cached cached = {0};
    for (unsigned i = 0; i < ACRE__QUARANTINE; i++) {
        const struct acre__slot *slot = pool->quarantine[i];
        cached.blocks += slot != NULL;
        cached.bytes += slot ? acre__pool_table_find(slot->p)->slot_bytes : 0;
    }
    return cached;
}

void acre__pool_stats(acre_pool *pool, acre_pool_stats *stats) {
    const struct acre__cached cached = acre__caches_count(pool);
    const struct acre__cached quarantined = acre__pool_quarantined(pool);
    stats->live_blocks = pool->used_blocks - cached.blocks - quarantined.blocks;
    stats->live_bytes = pool->used - cached.bytes - quarantined.bytes;
    stats_quick(pool, stats);
}

static void export_store(acre_pool *pool) {
#define WATCH_VALUE(name, meaning) pool->exported.name,
    const uint64_t values[] = {ACRE_POOL_STATS_LIST(WATCH_VALUE)};
#undef WATCH_VALUE
    acre__stats_row_store(pool->row, values, sizeof values / sizeof *values);
}

/* Counts live blocks. */
static void export_count(acre_pool *pool) {
    acre__pool_stats(pool, &pool->exported);
    pool->idle_blocks = pool->used_blocks - pool->exported.live_blocks;
    pool->idle_bytes = pool->used - pool->exported.live_bytes;
}

/* What caches held when live blocks were last counted is still idle, about. */
static void export_estimate(acre_pool *pool) {
    pool->exported.live_blocks =
        pool->used_blocks > pool->idle_blocks ? pool->used_blocks - pool->idle_blocks : 0;
    pool->exported.live_bytes = pool->used > pool->idle_bytes ? pool->used - pool->idle_bytes : 0;
}

void acre__pool_export_now(acre_pool *pool, int is_locked) {
    uint64_t begin_ns = watch_clock_ns(CLOCK_MONOTONIC);
    if (!is_locked)
        acre__lock_take(&pool->lock);
    int is_due = is_locked || begin_ns >= pool->export_due_ns;
    if (is_due) {
        export_count(pool);
        uint64_t end_ns = watch_clock_ns(CLOCK_MONOTONIC),
                 pause = (end_ns - begin_ns) * EXPORT_SHARE;
        pool->export_due_ns = end_ns + (pause > EXPORT_LEAST_NS ? pause : EXPORT_LEAST_NS);
    } else {
        export_estimate(pool);
    }
    stats_quick(pool, &pool->exported);
    export_store(pool);
    if (!is_locked)
        acre__lock_give(&pool->lock);
    if (is_due && !is_locked) {
        acre__device_export(pool->dev);
        acre__tags_export(0);
    }
}
