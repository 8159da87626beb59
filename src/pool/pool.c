/* Pools: creation, destruction, and every call that is neither a plain alloc nor a plain free. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/log.h"
#include "base/options.h"
#include "base/run.h"
#include "base/status.h"
#include "base/thread.h"
#include "mem/mem_block.h"
#include "pool/pool_debug.h"
#include "pool/pool_free.h"
#include "pool/pool_ladder.h"
#include "pool/pool_list.h"
#include "pool/pool_slab_make.h"
#include "pool/pool_slow.h"
#include "pool/pool_spill.h"
#include "pool/pool_trim.h"
#include "pool/pool_tag.h"
#include "pool/pool_watch.h"
#include "space/mapped.h"

enum { POOL_KINDS = ACRE_KIND_MANAGED + 1 };

/* Destroyed pools whose records stay, because lanes may still refer to them. The lock of the list
 * of pools guards this list. */
static acre_pool *ended;

/* The last pools that were destroyed, whose records are not reused yet: a handle is an address, and
 * calls with the handle of a destroyed pool must not reach the next one. The lock of the list of
 * pools guards them. */
enum { POOLS_GONE = 16 };
static struct {
    acre_pool *list[POOLS_GONE];
    unsigned next;
} gone;

static _Atomic(acre_pool *) defaults[ACRE__DEVICE_SLOTS][POOL_KINDS];

/* ---- destruction ---- */

struct walk {
    acre_pool_walk_fn fn;
    void *user;
    int is_ended;
};

/* Visits the live blocks of a slab. */
static void walk_slab(void *user, struct acre__piece *piece) {
    struct walk *walk = user;
    const struct acre__slab *slab = piece->user;
    for (uint32_t i = 0; i < slab->fresh && !walk->is_ended; i++)
        if (acre__load(slab->slots[i].state, memory_order_relaxed) & ACRE__SLOT_LIVE)
            walk->is_ended = walk->fn(walk->user, slab->slots[i].p, slab->slot_bytes);
}

static void pool_walk_live(acre_pool *pool, acre_pool_walk_fn fn, void *user) {
    struct walk walk = {.fn = fn, .user = user};
    acre__slabs_walk(pool, walk_slab, &walk);
}

static void pool_end_record(acre_pool *pool) {
    acre__lock_destroy(&pool->lock);
    acre__lock_take(&acre__pools.lock);
    acre_pool **place = &gone.list[gone.next++ % POOLS_GONE], *oldest = *place;
    *place = pool;
    acre__lock_give(&acre__pools.lock);
    free(oldest);
}

static void pool_free(acre_pool *pool) {
    acre__slab_end_all(pool);
    acre__account_idle_in(&pool->account, NULL); /* blocks that leaked count as used */
    struct acre__node *node;
    while ((node = acre__tree_first(&pool->uses)))
        acre__pool_use_end(pool, acre__tree_entry(node, struct acre__pool_use, node));
    acre__graphs_end(pool);
    acre__pool_streams_end(pool);
    if (pool->waiter)
        (void)acre__stream_destroy_own(pool->dev, pool->waiter);
    acre__pool_watch_end(pool);
    if (pool->is_ended) { /* a thread's cache could not be claimed and has lanes of the pool */
        acre__lock_take(&acre__pools.lock);
        pool->next_ended = ended;
        ended = pool;
        acre__lock_give(&acre__pools.lock);
        return;
    }
    pool_end_record(pool);
}

/* Removes a pool from the list, whose lock is held, and drains all caches. Then no call finds the
 * pool, and no thread that exits has slots of it. If a cache could not be claimed, sets
 * is_ended. */
static void pool_leave(acre_pool *pool) {
    acre__live_remove(&acre__pools, &pool->live);
    acre__lock_take(&pool->lock);
    pool->is_ended = !acre__cache_drain(pool, NULL, 1, ACRE__GIVE_ALL);
    acre__lock_give(&pool->lock);
}

struct leaks {
    uint64_t blocks, bytes;
};

static int leak_count(void *user, void *p, size_t bytes) {
    struct leaks *leaks = user;
    (void)p;
    leaks->blocks++;
    leaks->bytes += bytes;
    return 0;
}

/* Destroys a pool that has left the list. Returns its leaks. */
static struct leaks pool_end(acre_pool *pool) {
    struct leaks leaks = {0};
    acre__pool_debug_end(pool);
    acre__spills_end(pool, &leaks.blocks, &leaks.bytes);
    acre__lock_take(&pool->lock);
    pool_walk_live(pool, leak_count, &leaks);
    acre__lock_give(&pool->lock);
    if (acre__device_is_lost(pool->dev)) {
        acre__origin_drop(pool); /* frees fail on a lost device, so these blocks are no leaks */
    } else if (leaks.blocks && !acre__pool_log_leaks(pool)) {
        acre__log(
            ACRE_LOG_WARN, "pool",
            "%s: leak: %llu blocks of a pool, %llu bytes, not freed; ACRE_DEBUG=1 shows where they "
            "were allocated",
            pool->dev->label, (unsigned long long)leaks.blocks, (unsigned long long)leaks.bytes);
        acre__run_leaked(pool->is_default ? "acre_alloc" : "acre_pool_alloc", leaks.blocks,
                         leaks.bytes, NULL);
    }
    pool_free(pool);
    return leaks;
}

static acre_status pool_destroy(acre_pool *pool, uint64_t *leaked_blocks, uint64_t *leaked_bytes) {
    if (leaked_blocks)
        *leaked_blocks = 0;
    if (leaked_bytes)
        *leaked_bytes = 0;
    acre_status status = acre__enter();
    if (status || !pool)
        return status;
    status = acre__pool_check(pool);
    if (status)
        return status;
    if (pool->is_default)
        return acre__fail(ACRE_E_BUSY,
                          "a default pool cannot be destroyed; acre destroys it with its device");
    acre__lock_take(&pool->lock);
    int is_asking = pool->asking != 0;
    acre__lock_give(&pool->lock);
    if (is_asking)
        return acre__fail(ACRE_E_BUSY,
                          "the pool's out-of-memory callback is running; retry after it returns");
    if (!acre__device_is_lost(pool->dev) && (status = acre__step_quiesce_users(pool->dev)) &&
        status != ACRE_E_DEVICE_LOST)
        return status;
    acre__lock_take(&acre__pools.lock);
    pool_leave(pool);
    acre__lock_give(&acre__pools.lock);
    const struct leaks leaks = pool_end(pool);
    if (leaked_blocks)
        *leaked_blocks = leaks.blocks;
    if (leaked_bytes)
        *leaked_bytes = leaks.bytes;
    return ACRE_OK;
}

acre_status acre_pool_destroy(acre_pool *pool, uint64_t *leaked_blocks, uint64_t *leaked_bytes) {
    return acre__in_call(pool_destroy(pool, leaked_blocks, leaked_bytes), "acre_pool_destroy");
}

/* ---- devices ---- */

/* Removes some pool of the device from the list; NULL if there is none left. */
static acre_pool *list_take(const acre_device *dev) {
    acre__lock_take(&acre__pools.lock);
    acre_pool *pool = acre__live_next(&acre__pools, NULL);
    while (pool && pool->dev != dev)
        pool = acre__live_next(&acre__pools, pool);
    if (pool)
        pool_leave(pool);
    acre__lock_give(&acre__pools.lock);
    return pool;
}

static void pools_close(acre_device *dev) {
    for (unsigned i = 0; i < POOL_KINDS; i++)
        acre__store(&defaults[acre__device_index(dev)][i], NULL, memory_order_relaxed);
    acre_pool *pool = list_take(dev);
    if (pool && !acre__device_is_lost(dev))
        (void)acre__step_quiesce_users(dev);
    for (; pool; pool = list_take(dev))
        (void)pool_end(pool);
}

static void pool_trim_one(acre_pool *pool, void *dev) {
    if (pool->dev == dev)
        acre__pool_trim(pool, 0);
}

static acre_status pools_trim(acre_device *dev) {
    acre__pools_visit(NULL, pool_trim_one, dev);
    return ACRE_OK;
}

struct retired {
    const acre_device *dev;
    acre_stream stream;
    acre_status status;
};

static void pool_retire(acre_pool *pool, void *user) {
    struct retired *retired = user;
    if (pool->dev != retired->dev)
        return;
    (void)acre__cache_drain(pool, retired->stream, 0, ACRE__GIVE_ALL);
    acre__graph_retire(pool, retired->stream);
    acre_status status = acre__stream_retire(pool, retired->stream);
    retired->status = status ? status : retired->status;
}

static acre_status pools_retire(acre_device *dev, acre_stream stream) {
    struct retired retired = {dev, stream, ACRE_OK};
    acre__pools_visit(NULL, pool_retire, &retired);
    return retired.status;
}

static void pool_synced(acre_pool *pool, void *dev) {
    if (pool->dev == dev)
        acre__streams_recover(pool);
}

static void pools_synced(acre_device *dev) {
    acre__pools_visit(NULL, pool_synced, dev);
}

/* ---- acre_mem_query ---- */

/* Describes the live block around an address of the slab. The caller holds the lock or is a reader,
 * so the slab stays. Returns 0 if there is no live block. */
static int slot_describe(struct acre__slab *slab, const void *p, acre_mem_info *info) {
    const struct acre__slot *slot = acre__slab_around(slab, p);
    uint32_t state = slot ? acre__load(slot->state, memory_order_relaxed) : 0;
    if (!(state & ACRE__SLOT_LIVE))
        return 0;
    info->pool = slab->pool;
    info->base = acre__slab_begin(slab, slot);
    info->bytes = acre__slab_asked(slab, state);
    /* The program must not use the red zone of a debugged block. */
    info->usable_bytes = slab->pool->flags & ACRE_POOL_DEBUG ? info->bytes : slab->slot_bytes;
    return 1;
}

/* Describes the live block around an address. The caller need not own the block: the lock keeps its
 * slab. */
static int pool_describe(acre_pool *pool, const void *p, acre_mem_info *info) {
    acre__lock_take(&pool->lock);
    struct acre__slab *slab = acre__slab_of(pool, p);
    int is_found = slab && slot_describe(slab, p, info);
    acre__lock_give(&pool->lock);
    return is_found;
}

/* Finds small blocks without a lock, and large ones through their pool. */
static void describe_block(const void *p, acre_pool *pool, acre_mem_info *info) {
    struct acre__pool_cache *cache = acre__cache_self();
    acre__reader_enter(cache);
    struct acre__slab *slab = acre__pool_table_find(p);
    int is_found = slab && !acre__slab_is_large(slab) && (uintptr_t)p - slab->at < slab->bytes &&
                   slot_describe(slab, p, info);
    acre__reader_leave(cache);
    if (is_found)
        return;
    acre__lock_take(&acre__pools.lock);
    for (acre_pool *at = NULL; !is_found && (at = acre__live_next(&acre__pools, at));)
        is_found = (!pool || at == pool) && pool_describe(at, p, info);
    acre__lock_give(&acre__pools.lock);
}

static void pool_export(acre_pool *pool, void *ignored) {
    (void)ignored;
    acre__pool_export_now(pool, 1);
}

/* For acre_stats_export. */
static void pools_export(void) {
    acre__pools_visit(NULL, pool_export, NULL);
    acre__tags_export(1);
}

static void pools_use(void) {
    static const struct acre__device_hooks hooks = {.layer = ACRE__HOOK_ABOVE,
                                                    .trim = pools_trim,
                                                    .reclaim = acre__ladder_reclaim,
                                                    .close = pools_close,
                                                    .retire = pools_retire,
                                                    .synced = pools_synced};
    acre__device_hooks_add(&hooks);
    acre__book_set_parts(describe_block);
    acre__cache_init(acre__cache_empty);
    if (acre__stats_is_on()) {
        acre__stats_source_add(pools_export);
        acre__tags_use();
    }
}

/* ---- creation ---- */

/* Releases memory that one arena does not use, for the other arena: small and large blocks need
 * memory at different times. */
static void pool_reclaim(struct acre__account *account, const struct acre__arena *asking,
                         uint64_t bytes) {
    acre_pool *pool = (acre_pool *)(void *)((char *)account - offsetof(acre_pool, account));
    if (asking == &pool->blocks_in) {
        (void)acre__cache_drain(pool, NULL, 1,
                                ACRE__GIVE_GENTLY); /* one cached slot keeps a slab in use */
        acre__streams_settle(pool, NULL, 0);
        (void)acre__slabs_end_idle(pool, NULL, UINT64_MAX);
    }
    (void)acre__arena_release(asking == &pool->blocks_in ? &pool->slabs_in : &pool->blocks_in,
                              bytes);
}

/* Reserves memory. Before it fails, releases unused memory of all pools, this one included. */
static acre_status pool_reserve(acre_pool *pool, uint64_t bytes) {
    acre_status status = ACRE_OK;
    int tries = 0;
    do {
        acre__lock_take(&pool->lock);
        status = acre__slab_reserve(pool, bytes);
        acre__lock_give(&pool->lock);
    } while (status && acre__device_reclaim(pool->dev, pool->kind, bytes, status, tries++));
    return status;
}

static acre_status limit_set(acre_pool *pool, uint64_t soft_limit_bytes, uint64_t limit_bytes) {
    if (soft_limit_bytes && limit_bytes && soft_limit_bytes > limit_bytes)
        return acre__fail(ACRE_E_INVALID,
                          "the soft limit of %llu bytes exceeds the limit of %llu bytes",
                          (unsigned long long)soft_limit_bytes, (unsigned long long)limit_bytes);
    pool->soft_limit_bytes = soft_limit_bytes;
    pool->soft_mark = soft_limit_bytes;
    pool->limit_bytes = limit_bytes;
    return ACRE_OK;
}

static acre_pool *pool_make(acre_device *dev, acre_kind kind, uint32_t flags, int is_default) {
    acre_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->dev = dev;
    pool->kind = kind;
    pool->flags = flags | (acre__debug_is_on() ? ACRE_POOL_DEBUG : 0u);
    pool->is_default = is_default;
    pool->account.reclaim = pool_reclaim;
    struct acre__arena_setup setup = {.dev = dev,
                                      .kind = kind,
                                      .step = (size_t)16 << 20,
                                      .chunk_most = (size_t)64 << 20,
                                      .region_bytes = dev->info.total_bytes,
                                      .alignment = (size_t)1 << ACRE__TABLE_UNIT_BITS,
                                      .prepare = acre__pool_table_prepare,
                                      .alloc = acre__mem_alloc,
                                      .account = &pool->account,
                                      .pool = pool};
    acre__arena_open(&pool->blocks_in, &setup);
    setup.step = setup.chunk_most = (size_t)2 << 20; /* so that few blocks hold little memory */
    setup.region_bytes = dev->info.total_bytes / 8;
    setup.is_simple = 1;
    acre__arena_open(&pool->slabs_in, &setup);
    acre__lock_init(&pool->lock, "pool", ACRE__RANK_POOL);
    acre__uses_open(&pool->spare_events, dev);
    acre__pool_watch_begin(pool);
    return pool;
}

static acre_status kind_check(const acre_device *dev, acre_kind kind) {
    if ((int)kind < ACRE_KIND_DEVICE || kind > ACRE_KIND_MANAGED)
        return acre__fail(ACRE_E_INVALID, "a pool cannot be of kind %d", (int)kind);
    if (kind == ACRE_KIND_MANAGED && !dev->info.has_managed)
        return acre__fail(ACRE_E_UNSUPPORTED, "%s has no managed memory", dev->label);
    return ACRE_OK;
}

/* Adds a new pool; the list's lock is held. A suspend that is at work has stopped the pools that
 * were in the list. */
static void pool_insert(acre_pool *pool) {
    acre_device *dev = pool->dev;
    uint32_t how = acre__load(&dev->is_suspending, memory_order_seq_cst)
                       ? (uint32_t)ACRE__SUSPEND_WAITS
                       : acre__load(&dev->is_suspended, memory_order_seq_cst);
    acre__store(&pool->is_suspended, pool->kind == ACRE_KIND_DEVICE ? how : 0,
                memory_order_seq_cst);
    if (pool->kind == ACRE_KIND_DEVICE && !how)
        acre__account_idle_in(&pool->account, &dev->pool_idle_bytes);
    acre__live_insert(&acre__pools, &pool->live, dev);
}

static acre_status pool_create(acre_device *device, const acre_pool_options *options,
                               acre_pool **pool) {
    acre_pool_options wishes;
    if (pool)
        *pool = NULL;
    acre_status status = acre__device_enter(device);
    if (status)
        return status;
    if (!pool)
        return acre__fail(ACRE_E_NULL, "acre_pool_create: pool is NULL");
    if ((status = acre__options_in(&wishes, sizeof wishes, options, "acre_pool_options")))
        return status;
    if (wishes.flags & ~(ACRE_POOL_ZERO | ACRE_POOL_DEBUG))
        return acre__fail(ACRE_E_OPTIONS, "acre_pool_options: unknown flags in 0x%x", wishes.flags);
    wishes.kind = wishes.kind ? wishes.kind : ACRE_KIND_DEVICE;
    if ((status = kind_check(device, wishes.kind)))
        return status;
    pools_use();
    acre_pool *made = pool_make(device, wishes.kind, wishes.flags, 0);
    if (!made)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a pool's record");
    acre__lock_take(&made->lock);
    status = limit_set(made, wishes.soft_limit_bytes, wishes.limit_bytes);
    acre__lock_give(&made->lock);
    if (status == ACRE_OK)
        status = pool_reserve(made, wishes.initial_bytes);
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        pool_free(made);
        return acre__said_fail(status, &said);
    }
    acre__lock_take(&acre__pools.lock);
    pool_insert(made);
    acre__lock_give(&acre__pools.lock);
    *pool = made;
    return ACRE_OK;
}

acre_status acre_pool_create(acre_device *device, const acre_pool_options *options,
                             acre_pool **pool) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = pool_create(device, options, pool);
    while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_pool_create");
}

static acre_status pool_default(acre_device *device, acre_kind kind, acre_pool **pool) {
    if (pool)
        *pool = NULL;
    acre_status status = acre__device_enter(device);
    if (status)
        return status;
    if (!pool)
        return acre__fail(ACRE_E_NULL, "acre_pool_default: pool is NULL");
    if ((status = kind_check(device, kind)))
        return status;
    _Atomic(acre_pool *) *at = &defaults[acre__device_index(device)][kind];
    *pool = acre__load(at, memory_order_acquire);
    if (*pool)
        return ACRE_OK;
    pools_use();
    acre__lock_take(&acre__pools.lock);
    acre_pool *made = acre__load(at, memory_order_relaxed);
    if (!made && (made = pool_make(device, kind, 0, 1))) {
        pool_insert(made);
        acre__store(at, made, memory_order_release);
    }
    acre__lock_give(&acre__pools.lock);
    *pool = made;
    return made ? ACRE_OK : acre__fail(ACRE_E_HOST_MEMORY, "no memory for a pool's record");
}

acre_status acre_pool_default(acre_device *device, acre_kind kind, acre_pool **pool) {
    return acre__in_call(pool_default(device, kind, pool), "acre_pool_default");
}

/* ---- more ways to alloc and free ---- */

acre_status acre_pool_alloc_zeroed(acre_pool *pool, size_t bytes, size_t alignment,
                                   acre_stream stream, void **p) {
    acre_status status = acre__pool_alloc_slow(pool, bytes, alignment, stream, ACRE__ALLOC_ZERO, p);
    if (acre__is_watched())
        acre__pool_watch_alloc(pool, bytes, stream, status, p ? *p : NULL);
    return acre__in_call(status, "acre_pool_alloc_zeroed");
}

static acre_status alloc_many(acre_pool *pool, size_t bytes, size_t count, acre_stream stream,
                              void **blocks) {
    for (size_t i = 0; blocks && i < count; i++)
        blocks[i] = NULL;
    acre_status status = acre__pool_enter(pool);
    if (status)
        return status;
    if (!blocks && count)
        return acre__fail(ACRE_E_NULL, "blocks is NULL");
    size_t made = 0;
    while (made < count && status == ACRE_OK) {
        acre__inner_begin();
        status = acre__inner_end(acre_pool_alloc(pool, bytes, 0, stream, &blocks[made]));
        made += status == ACRE_OK;
    }
    if (status == ACRE_OK)
        return ACRE_OK;
    struct acre__said said;
    acre__said_keep(&said);
    (void)acre_pool_free_many(pool, blocks, made, stream, NULL);
    for (size_t i = 0; i < count; i++)
        blocks[i] = NULL;
    return acre__said_fail(status, &said);
}

acre_status acre_pool_alloc_many(acre_pool *pool, size_t bytes, size_t count, acre_stream stream,
                                 void **blocks) {
    return acre__in_call(alloc_many(pool, bytes, count, stream, blocks), "acre_pool_alloc_many");
}

acre_status acre_pool_free_many(acre_pool *pool, void *const *blocks, size_t count,
                                acre_stream stream, size_t *freed) {
    size_t done = 0;
    acre_status status = acre__pool_check(pool);
    if (status == ACRE_OK && !blocks && count)
        status = acre__fail(ACRE_E_NULL, "blocks is NULL");
    while (status == ACRE_OK && done < count) {
        acre__inner_begin();
        status = acre__inner_end(acre_pool_free(pool, blocks[done], stream));
        done += status == ACRE_OK;
    }
    if (freed)
        *freed = done;
    return acre__in_call(status, "acre_pool_free_many");
}

static acre_status free_after(acre_pool *pool, void *p, acre_event event) {
    struct acre__slab *slab;
    uint32_t before;
    acre_status status = acre__pool_enter(pool);
    if (status || !p)
        return status;
    if (!event)
        return acre__fail(ACRE_E_NULL, "event is NULL");
    if (pool->flags & ACRE_POOL_DEBUG) {
        if (!acre__pool_block(pool, p, &slab, NULL, &status))
            return status;
        acre__inner_begin();
        status = acre_event_sync(pool->dev, event);
        return acre__inner_end(status ? status : acre_pool_free(pool, p, NULL));
    }
    int is_marked = acre__origin_free(p);
    struct acre__slot *slot = acre__pool_block(pool, p, &slab, &before, &status);
    if (slot)
        status = acre__pool_give(slab, slot, before, NULL, event);
    if (status)
        acre__origin_unfree(p, is_marked);
    if (status == ACRE_OK && acre__trace_is_on())
        acre__trace_free_after(&pool->trace, p, event);
    return status;
}

acre_status acre_pool_free_after(acre_pool *pool, void *p, acre_event event) {
    return acre__in_call(free_after(pool, p, event), "acre_pool_free_after");
}

/* ---- other streams ---- */

static acre_status record_use(acre_pool *pool, void *p, acre_stream stream) {
    struct acre__slab *slab;
    acre_status status = acre__pool_enter(pool);
    if (status)
        return status;
    struct acre__slot *slot = acre__pool_block(pool, p, &slab, NULL, &status);
    if (!slot || (status = acre__stream_check_past(pool->dev, stream)))
        return status;
    int is_captured;
    if ((status = acre__stream_ask_captured(pool->dev, stream, &is_captured)))
        return status;
    acre__lock_take(&pool->lock);
    int is_graphs = acre__load(slot->state, memory_order_relaxed) & ACRE__SLOT_GRAPH;
    status = is_captured || is_graphs ? acre__graph_use(pool, slot, stream)
                                      : acre__pool_note_use(pool, slot, stream);
    acre__lock_give(&pool->lock);
    return status;
}

acre_status acre_pool_record_use(acre_pool *pool, void *p, acre_stream stream) {
    return acre__in_call(record_use(pool, p, stream), "acre_pool_record_use");
}

/* ---- queries ---- */

int acre_pool_owns(acre_pool *pool, const void *p) {
    acre_mem_info ignored;
    return acre__pool_check(pool) == ACRE_OK && pool_describe(pool, p, &ignored);
}

size_t acre_pool_usable_size(acre_pool *pool, const void *p) {
    acre_mem_info info;
    if (acre__pool_check(pool) || !pool_describe(pool, p, &info) || info.base != p)
        return 0;
    return pool->flags & ACRE_POOL_DEBUG ? info.bytes : info.usable_bytes;
}

static acre_status pool_reserve_checked(acre_pool *pool, uint64_t bytes) {
    acre_status status = acre__pool_enter(pool);
    if (status)
        return status;
    return pool_reserve(pool, bytes);
}

acre_status acre_pool_reserve(acre_pool *pool, uint64_t bytes) {
    return acre__in_call(pool_reserve_checked(pool, bytes), "acre_pool_reserve");
}

static acre_status pool_trim(acre_pool *pool, uint64_t keep_bytes) {
    acre_status status = acre__pool_enter(pool);
    if (status)
        return status;
    acre__pool_debug_flush(pool);
    acre__lock_take(&pool->lock);
    acre__pool_trim(pool, keep_bytes);
    acre__lock_give(&pool->lock);
    return ACRE_OK;
}

acre_status acre_pool_trim(acre_pool *pool, uint64_t keep_bytes) {
    return acre__in_call(pool_trim(pool, keep_bytes), "acre_pool_trim");
}

static acre_status pool_walk(acre_pool *pool, acre_pool_walk_fn fn, void *user) {
    acre_status status = acre__pool_check(pool);
    if (status)
        return status;
    if (!fn)
        return acre__fail(ACRE_E_NULL, "acre_pool_walk: fn is NULL");
    acre__lock_take(&pool->lock);
    pool_walk_live(pool, fn, user);
    acre__lock_give(&pool->lock);
    return ACRE_OK;
}

acre_status acre_pool_walk(acre_pool *pool, acre_pool_walk_fn fn, void *user) {
    return acre__in_call(pool_walk(pool, fn, user), "acre_pool_walk");
}

static acre_status pool_get_stats(acre_pool *pool, acre_pool_stats *stats) {
    acre_pool_stats now = {.struct_size = sizeof now};
    acre_status status = acre__options_out(stats, sizeof now, &now, "acre_pool_stats");
    if (status == ACRE_OK)
        status = acre__pool_check(pool);
    if (status)
        return status;
    acre__lock_take(&pool->lock);
    acre__pool_stats(pool, &now);
    acre__lock_give(&pool->lock);
    return acre__options_out(stats, sizeof now, &now, "acre_pool_stats");
}

acre_status acre_pool_get_stats(acre_pool *pool, acre_pool_stats *stats) {
    return acre__in_call(pool_get_stats(pool, stats), "acre_pool_get_stats");
}

static acre_status pool_get_info(acre_pool *pool, acre_pool_info *info) {
    acre_pool_info now = {.struct_size = sizeof now};
    acre_status status = acre__options_out(info, sizeof now, &now, "acre_pool_info");
    if (status == ACRE_OK)
        status = acre__pool_check(pool);
    if (status)
        return status;
    now.device = pool->dev;
    now.kind = pool->kind;
    now.flags = pool->flags;
    now.is_default = pool->is_default != 0;
    return acre__options_out(info, sizeof now, &now, "acre_pool_info");
}

acre_status acre_pool_get_info(acre_pool *pool, acre_pool_info *info) {
    return acre__in_call(pool_get_info(pool, info), "acre_pool_get_info");
}

static acre_status pool_set_limits(acre_pool *pool, uint64_t soft_limit_bytes,
                                   uint64_t limit_bytes) {
    acre_status status = acre__pool_check(pool);
    if (status)
        return status;
    acre__lock_take(&pool->lock);
    status = limit_set(pool, soft_limit_bytes, limit_bytes);
    if (status == ACRE_OK && limit_bytes && pool->used > limit_bytes)
        (void)acre__cache_drain(pool, NULL, 1, ACRE__GIVE); /* hits check no limit */
    acre__lock_give(&pool->lock);
    return status;
}

acre_status acre_pool_set_limits(acre_pool *pool, uint64_t soft_limit_bytes, uint64_t limit_bytes) {
    return acre__in_call(pool_set_limits(pool, soft_limit_bytes, limit_bytes),
                         "acre_pool_set_limits");
}
