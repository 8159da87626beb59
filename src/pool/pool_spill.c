/* Spillable blocks: see pool_spill.h and acre/spill.h.
 *
 * A block is in one of two lists: live blocks, the one used longest ago first, or freed blocks,
 * whose work may still run. One lock guards both, and is held while blocks leave or come back. The
 * allocation of a block and reclaiming do not hold it, because they make blocks leave.
 *
 * A block that is away is a suspended mapping of its own (space/away.h), with its contents in host
 * pages. A block that acre_suspend took away is not touched here. */
#include "pool/pool_spill.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/round.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/held.h"
#include "pool/pool_limit.h"
#include "space/away.h"
#include "space/extent.h"
#include "space/host_pages.h"
#include "space/mapped.h"
#include "space/steps.h"

struct spill {
    struct acre__block block; /* its entry in the book */
    struct acre__node node;   /* of a live one; key: its address */
    struct spill *before, *after;
    acre_pool *pool;
    struct acre__extent *extent;
    struct acre__uses uses; /* work that uses it, from acre_bring_end and the free */
    unsigned held;          /* calls of acre_bring that have not ended */
    void *host;             /* its contents while it is away; NULL: it is on the device */
    size_t host_bytes;
};

struct spill_list {
    struct spill *first, *last;
};

/* How long a block that is to leave waits for copies of other threads. */
#define SPILL_WAIT_NS ((uint64_t)30000000000u)

static struct {
    struct acre__lock lock;
    struct spill_list live, freed;
    struct acre__tree by_address; /* the live ones */
    _Atomic uint64_t count;       /* blocks in both lists */
} spills = {.lock = ACRE__LOCK_INIT("spillable blocks", ACRE__RANK_SPILL)};

/* ---- lists ---- */

static void list_put(struct spill_list *list, struct spill *spill) {
    spill->before = list->last;
    spill->after = NULL;
    if (list->last)
        list->last->after = spill;
    else
        list->first = spill;
    list->last = spill;
}

static void list_take(struct spill_list *list, struct spill *spill) {
    if (spill->before)
        spill->before->after = spill->after;
    else
        list->first = spill->after;
    if (spill->after)
        spill->after->before = spill->before;
    else
        list->last = spill->before;
}

static struct spill *live_find(const void *p) {
    struct acre__node *node = acre__tree_find(&spills.by_address, (uintptr_t)p);
    return node ? acre__tree_entry(node, struct spill, node) : NULL;
}

static size_t spill_bytes(const struct spill *spill) {
    return spill->extent->mapped;
}

/* ---- the pool's counts ---- */

/* Lock of the pool held: the memory is not of the pool's arenas, so it is none of their idle
 * memory. */
static void count_charge(acre_pool *pool, uint64_t bytes) {
    acre__limit_charge(pool, bytes, 1);
    acre__account_idle(&pool->account, bytes, 0);
}

static void count_credit(acre_pool *pool, uint64_t bytes) {
    acre__account_idle(&pool->account, 0, bytes);
    acre__limit_credit(pool, bytes, 1);
}

static void count_device(acre_pool *pool, int64_t bytes) {
    acre__lock_take(&pool->lock);
    if (bytes > 0)
        count_charge(pool, (uint64_t)bytes);
    else
        count_credit(pool, (uint64_t)-bytes);
    acre__lock_give(&pool->lock);
}

/* ---- the end of a block ---- */

/* Frees a block that is in no list and that no work uses. */
static void spill_free(struct spill *spill) {
    if (spill->host)
        acre__host_pages_free(spill->host, spill->host_bytes);
    acre__extent_destroy(spill->extent);
    acre__uses_close(&spill->uses);
    free(spill);
    acre__fetch_sub(&spills.count, 1, memory_order_release);
}

/* Lock held: frees the freed blocks of a device (NULL: of all) whose work is done, or waits for it.
 * Returns the bytes released. */
static uint64_t freed_settle(const acre_device *dev, int wait) {
    uint64_t went = 0;
    for (struct spill *spill = spills.freed.first, *after; spill; spill = after) {
        after = spill->after;
        if (dev && spill->block.dev != dev)
            continue;
        if (wait)
            (void)acre__uses_wait(&spill->uses);
        if (!acre__device_is_lost(spill->block.dev) && !acre__uses_are_done(&spill->uses))
            continue;
        list_take(&spills.freed, spill);
        went += spill->host ? 0 : spill_bytes(spill);
        spill_free(spill);
    }
    return went;
}

static uint64_t spill_reclaim(acre_device *dev, acre_kind kind, int wait) {
    uint64_t went = 0;
    if (kind != ACRE_KIND_DEVICE || !acre__load(&spills.count, memory_order_acquire))
        return 0;
    acre__lock_take(&spills.lock);
    went = freed_settle(dev, wait);
    acre__lock_give(&spills.lock);
    return went;
}

static acre_status spill_trim(acre_device *dev) {
    (void)spill_reclaim(dev, ACRE_KIND_DEVICE, 0);
    return ACRE_OK;
}

static uint64_t spill_for_all(acre_device *dev, uint64_t bytes) {
    return acre__spill_out(dev, NULL, bytes);
}

/* Lock held: removes a live block from book and counts. */
static void live_end(struct spill *spill) {
    acre_pool *pool = spill->pool;
    size_t bytes = spill_bytes(spill);
    list_take(&spills.live, spill);
    acre__tree_remove(&spills.by_address, &spill->node);
    acre__book_change(&spill->block, 0, 0);
    acre__lock_take(&pool->lock);
    if (!spill->host)
        count_credit(pool, bytes);
    else
        pool->spilled.away_bytes -= bytes;
    pool->spilled.blocks--;
    pool->spilled.bytes -= bytes;
    acre__lock_give(&pool->lock);
}

int acre__spill_free(const acre_pool *pool, void *p, acre_stream stream, acre_status *status) {
    if (!acre__load(&spills.count, memory_order_acquire))
        return 0;
    acre__lock_take(&spills.lock);
    struct spill *spill = live_find(p);
    if (!spill || (pool && spill->pool != pool)) {
        acre__lock_give(&spills.lock);
        return 0;
    }
    *status = spill->held ? acre__fail(ACRE_E_BUSY, "%p is still needed: call acre_bring_end", p)
              : acre__device_is_lost(spill->block.dev) ? ACRE_OK
                                                       : acre__uses_record(&spill->uses, stream);
    if (*status == ACRE_OK) {
        if (acre__trace_is_on())
            acre__trace_free(&spill->pool->trace, p, stream);
        live_end(spill);
        list_put(&spills.freed, spill);
        (void)freed_settle(NULL, 0);
    }
    acre__lock_give(&spills.lock);
    return 1;
}

void acre__spills_end(const acre_pool *pool, uint64_t *blocks, uint64_t *bytes) {
    if (!acre__load(&spills.count, memory_order_acquire))
        return;
    acre__lock_take(&spills.lock);
    for (struct spill *spill = spills.live.first, *after; spill; spill = after) {
        after = spill->after;
        if (spill->pool != pool)
            continue;
        *blocks += 1;
        *bytes += spill_bytes(spill);
        live_end(spill);
        list_put(&spills.freed, spill);
    }
    (void)freed_settle(pool->dev, 1);
    acre__lock_give(&spills.lock);
}

/* ---- leaving ---- */

static int is_suspended(const struct spill *spill) {
    struct acre__said said;
    acre__said_keep(&said);
    acre__gate_enter(ACRE__GATE_MAP);
    acre_status status =
        acre__away_check((void *)(uintptr_t)spill->block.node.key, spill_bytes(spill), "block");
    acre__gate_leave(ACRE__GATE_MAP);
    (void)acre__said_fail(ACRE_OK, &said);
    return status != ACRE_OK;
}

static int may_leave(const struct spill *spill, const acre_device *dev, const acre_pool *only) {
    return spill->block.dev == dev && (!only || spill->pool == only) && !spill->held &&
           !spill->host && !is_suspended(spill);
}

/* Lock held: copies the contents, in stream order, from or to the device. Does not wait for
 * acre_resume, because of the lock. */
static acre_status block_copy(const struct spill *spill, void *host, acre_stream stream,
                              int to_device) {
    void *p = (void *)(uintptr_t)spill->block.node.key;
    acre__wait_forbid();
    acre__inner_begin();
    acre_status status = acre__inner_end(acre_copy(
        spill->block.dev, to_device ? p : host, to_device ? host : p, spill->block.bytes, stream));
    acre__wait_allow();
    return status;
}

/* Lock held: copies the contents of a block to host memory. */
static acre_status leave_copy(struct spill *spill, acre_stream stream) {
    void *host = NULL;
    acre_status status = acre__host_pages_make(spill->block.bytes, &host, &spill->host_bytes);
    if (status)
        return status;
    status = block_copy(spill, host, stream, 0);
    if (status == ACRE_OK)
        status = acre__uses_wait_stream(spill->block.dev, stream);
    if (status)
        acre__host_pages_free(host, spill->host_bytes);
    else
        spill->host = host;
    return status;
}

/* Lock held: takes the memory of a block away, whose contents are in host memory. */
static acre_status leave_unmap(struct spill *spill) {
    struct acre__away away = {spill->block.dev, spill->extent->mappings, spill->extent->count};
    if (!acre__move_begin(acre__now_ns() + SPILL_WAIT_NS))
        return acre__fail(ACRE_E_BUSY, "copies of other threads have not ended");
    acre_status status =
        away.mappings[0]->is_away
            ? acre__fail(acre__chunk_suspended(away.mappings[0]->chunk), "the block is suspended")
            : acre__away_unmap(&away);
    if (status == ACRE_OK)
        (void)acre__away_release(&away);
    acre__move_end();
    return status;
}

/* Lock held, and all work of the device is done: makes a block leave. Returns the bytes. */
static uint64_t leave(struct spill *spill, acre_stream stream) {
    acre_pool *pool = spill->pool;
    size_t bytes = spill_bytes(spill);
    uint64_t begin = acre__now_ns();
    acre_status status = leave_copy(spill, stream);
    if (status)
        return 0;
    if (leave_unmap(spill)) {
        acre__host_pages_free(spill->host, spill->host_bytes);
        spill->host = NULL;
        return 0;
    }
    count_device(pool, -(int64_t)bytes);
    acre__lock_take(&pool->lock);
    pool->spilled.away_bytes += bytes;
    pool->spilled.left_blocks++;
    pool->spilled.left_bytes += bytes;
    pool->spilled.copy_ns += acre__now_ns() - begin;
    acre__lock_give(&pool->lock);
    return bytes;
}

/* Lock held: the bytes that must leave so that the device has `bytes` free, or with `only` so that
 * its limit has; 0 if that is impossible, or if nothing needs to leave. */
static uint64_t shortage(acre_device *dev, const acre_pool *only, uint64_t bytes) {
    uint64_t sum = 0, missing = bytes;
    size_t free_bytes = 0;
    for (const struct spill *spill = spills.live.first; spill; spill = spill->after)
        sum += may_leave(spill, dev, only) ? spill_bytes(spill) : 0;
    if (!sum)
        return 0;
    if (only) {
        acre_pool *pool = (acre_pool *)(uintptr_t)only;
        acre__lock_take(&pool->lock);
        uint64_t limit = pool->limit_bytes ? pool->limit_bytes : UINT64_MAX;
        missing = bytes > limit                ? UINT64_MAX
                  : pool->used > limit - bytes ? pool->used - (limit - bytes)
                                               : 0;
        acre__lock_give(&pool->lock);
    } else if (acre__held_ask_free(dev, &free_bytes)) {
        missing = acre__held_missing(dev, bytes, free_bytes, ACRE__HELD_NEW);
        missing = missing ? missing : 1;
    }
    return sum >= missing ? missing : 0;
}

/* Lock held. The copies have a stream of their own: the legacy stream would disturb captures. */
static uint64_t spill_out_on(acre_device *dev, const acre_pool *only, uint64_t missing,
                             acre_stream stream, uint64_t waited_ns) {
    uint64_t went = 0;
    struct spill *spill = spills.live.first, *after;
    for (; spill && went < missing; spill = after) {
        after = spill->after;
        if (!may_leave(spill, dev, only))
            continue;
        acre_pool *pool = spill->pool;
        went += leave(spill, stream);
        acre__lock_take(&pool->lock);
        pool->spilled.wait_ns += waited_ns;
        acre__lock_give(&pool->lock);
        waited_ns = 0;
    }
    return went;
}

/* Lock held. Keeps the last detail. */
static uint64_t spill_out(acre_device *dev, const acre_pool *only, uint64_t bytes) {
    struct acre__said said;
    acre_stream stream;
    uint64_t went = 0, missing = shortage(dev, only, bytes), begin = acre__now_ns();
    if (!missing)
        return 0;
    acre__said_keep(&said);
    acre__inner_begin();
    acre_status status = acre__inner_end(
        acre__stream_create_own(dev, ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE, &stream));
    if (status == ACRE_OK) {
        if (acre__step_quiesce_users(dev) == ACRE_OK)
            went = spill_out_on(dev, only, missing, stream, acre__now_ns() - begin);
        acre__inner_begin();
        (void)acre__inner_end(acre__stream_destroy_own(dev, stream));
    }
    (void)acre__said_fail(ACRE_OK, &said);
    return went;
}

/* Charges bytes that are about to be on the device. */
static acre_status charge_once(acre_pool *pool, size_t bytes) {
    uint32_t one = 1;
    acre__lock_take(&pool->lock);
    acre_status status = acre__limit_check(pool, bytes, &one);
    if (status == ACRE_OK)
        count_charge(pool, bytes);
    acre__lock_give(&pool->lock);
    return status;
}

/* Lock held: as charge_once; at the limit, other blocks of the pool leave. */
static acre_status charge(acre_pool *pool, size_t bytes) {
    acre_status status = charge_once(pool, bytes);
    return status == ACRE_E_LIMIT && spill_out(pool->dev, pool, bytes) ? charge_once(pool, bytes)
                                                                       : status;
}

uint64_t acre__spill_out(acre_device *dev, const acre_pool *only, uint64_t bytes) {
    uint64_t went = 0;
    if (!acre__load(&spills.count, memory_order_acquire) || acre__device_is_lost(dev))
        return 0;
    acre__lock_take(&spills.lock);
    if (!acre__load(&dev->is_suspended, memory_order_seq_cst))
        went = spill_out(dev, only, bytes);
    acre__lock_give(&spills.lock);
    return went;
}

uint64_t acre__spill_away_bytes(const acre_device *dev) {
    uint64_t bytes = 0;
    if (!acre__load(&spills.count, memory_order_acquire))
        return 0;
    acre__lock_take(&spills.lock);
    for (const struct spill *spill = spills.live.first; spill; spill = spill->after)
        bytes += spill->block.dev == dev && spill->host ? spill_bytes(spill) : 0;
    acre__lock_give(&spills.lock);
    return bytes;
}

/* ---- coming back ---- */

/* Lock held: maps memory again, unless the driver refused to unmap it after a failure. The contents
 * follow in stream order. Nobody uses the memory, so other copies may go on. */
static acre_status back_map(struct spill *spill) {
    struct acre__away away = {spill->block.dev, spill->extent->mappings, spill->extent->count};
    acre__gate_enter(ACRE__GATE_MAP);
    acre_status status = acre__device_has_memory(spill->block.dev);
    if (status == ACRE_OK && away.mappings[0]->is_away) {
        status = acre__away_map(&away, ACRE__HELD_NEW);
        if (status == ACRE_OK)
            acre__away_end(&away);
    }
    acre__gate_leave(ACRE__GATE_MAP);
    return status;
}

/* Lock held: the block has memory again, and its contents follow. */
static acre_status back_copy(struct spill *spill, acre_stream stream) {
    acre_status status = block_copy(spill, spill->host, stream, 1);
    if (status == ACRE_OK)
        status = acre__uses_record(&spill->uses, stream);
    if (status == ACRE_OK)
        return ACRE_OK;
    struct acre__said said;
    acre__said_keep(&said);
    (void)acre__step_quiesce(spill->block.dev); /* the copy may run */
    (void)leave_unmap(spill);
    return acre__said_fail(status, &said);
}

/* Lock held: brings a block back that is away. With `is_last`, others leave if memory is short. */
static acre_status back(struct spill *spill, acre_stream stream, int is_last) {
    acre_pool *pool = spill->pool;
    size_t bytes = spill_bytes(spill);
    acre_status status;
    if ((status = acre__device_has_memory(spill->block.dev)) || (status = charge(pool, bytes)))
        return status;
    status = back_map(spill);
    if (is_last && acre__is_no_memory(status) && spill_out(spill->block.dev, NULL, bytes))
        status = back_map(spill);
    if (status == ACRE_OK)
        status = back_copy(spill, stream);
    if (status) {
        count_device(pool, -(int64_t)bytes);
        return status;
    }
    acre__host_pages_free(spill->host, spill->host_bytes);
    spill->host = NULL;
    acre__lock_take(&pool->lock);
    pool->spilled.away_bytes -= bytes;
    pool->spilled.brought_blocks++;
    pool->spilled.brought_bytes += bytes;
    acre__lock_give(&pool->lock);
    return ACRE_OK;
}

/* An address that is not a spillable block: any live block of a pool is always there. */
static acre_status ordinary_check(const void *p) {
    acre_mem_info info;
    if (acre__book_find(p, &info) == ACRE__FOUND_LIVE && info.pool && info.base == p)
        return ACRE_OK;
    return acre__fail(ACRE_E_POINTER, "%p is not a live block of a pool", p);
}

static acre_status bring_once(void *p, acre_stream stream, int is_last, acre_device **dev,
                              size_t *bytes) {
    acre__lock_take(&spills.lock);
    struct spill *spill = live_find(p);
    acre_status status = ACRE_OK;
    *dev = NULL;
    if (spill) {
        *dev = spill->block.dev;
        *bytes = spill_bytes(spill);
        status = acre__stream_check(*dev, stream);
        if (status == ACRE_OK)
            status = acre__stream_not_captured(*dev, stream, "a graph cannot use spillable memory");
        status = status                ? status
                 : spill->host         ? back(spill, stream, is_last)
                 : is_suspended(spill) ? acre__fail(ACRE_E_SUSPENDED, "the block is suspended")
                                       : acre__uses_join(&spill->uses, stream);
        spill->held += status == ACRE_OK;
    }
    acre__lock_give(&spills.lock);
    return spill ? status : ordinary_check(p);
}

/* Out of memory, idle memory is released first. Then other blocks leave, with the lock held:
 * another thread that needs memory for its block cannot get there first. */
static acre_status bring(void *p, acre_stream stream) {
    acre_status status = acre__enter();
    acre_device *dev;
    size_t bytes = 0;
    if (status || (status = acre__not_null(p, "p")))
        return status;
    status = bring_once(p, stream, 0, &dev, &bytes);
    if (!acre__is_no_memory(status) || !dev)
        return status;
    (void)acre__device_reclaim(dev, ACRE_KIND_DEVICE, bytes, status, 1);
    return bring_once(p, stream, 1, &dev, &bytes);
}

acre_status acre_bring(void *p, acre_stream stream) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = bring(p, stream);
    while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_bring");
}

static acre_status bring_end(void *p, acre_stream stream) {
    acre_status status = acre__enter();
    if (status || (status = acre__not_null(p, "p")))
        return status;
    acre__lock_take(&spills.lock);
    struct spill *spill = live_find(p);
    if (spill && !spill->held)
        status = acre__fail(ACRE_E_INVALID, "%p was not brought back by acre_bring", p);
    else if (spill && !acre__device_is_lost(spill->block.dev))
        status = acre__uses_record(&spill->uses, stream);
    if (spill && status == ACRE_OK) {
        spill->held--;
        list_take(&spills.live, spill);
        list_put(&spills.live, spill);
    }
    acre__lock_give(&spills.lock);
    return spill || status ? status : ordinary_check(p);
}

acre_status acre_bring_end(void *p, acre_stream stream) {
    return acre__in_call(bring_end(p, stream), "acre_bring_end");
}

/* ---- allocation ---- */

static void spill_use(void) {
    static const struct acre__device_hooks hooks = {
        .trim = spill_trim, .reclaim = spill_reclaim, .spill = spill_for_all};
    acre__device_hooks_add(&hooks);
}

/* Creates the memory of a block. Its bytes are charged. */
static acre_status make_memory(acre_pool *pool, size_t whole, struct spill *spill) {
    acre_status status =
        acre__extent_create(pool->dev, ACRE__CHUNK_SHAREABLE, whole, &spill->extent);
    if (status == ACRE_OK)
        status = acre__extent_grow(spill->extent, whole);
    if (status == ACRE_OK)
        return ACRE_OK;
    struct acre__said said;
    acre__said_keep(&said);
    acre__extent_destroy(spill->extent);
    spill->extent = NULL;
    return acre__said_fail(status, &said);
}

static acre_status make(acre_pool *pool, size_t bytes, struct spill *spill) {
    size_t whole = acre__round_up(bytes, pool->dev->info.granularity_bytes);
    int tries = 0;
    acre__lock_take(&spills.lock);
    acre_status status = charge(pool, whole);
    acre__lock_give(&spills.lock);
    if (status)
        return status;
    do
        status = make_memory(pool, whole, spill);
    while (status && acre__device_reclaim(pool->dev, ACRE_KIND_DEVICE, whole, status, tries++));
    if (status)
        count_device(pool, -(int64_t)whole);
    return status;
}

/* Enters a block with memory into book, list and counts. */
static acre_status enter(acre_pool *pool, size_t bytes, struct spill *spill) {
    size_t whole = spill_bytes(spill);
    spill->block = (struct acre__block){.node.key = spill->extent->range.at,
                                        .dev = pool->dev,
                                        .bytes = bytes,
                                        .kind = ACRE_KIND_DEVICE,
                                        .source = ACRE__FROM_SPACE,
                                        .owner = ACRE__OWNED_BY_SPILL,
                                        .pool = pool,
                                        .extent = spill->extent};
    if (!acre__book_add(&spill->block))
        return acre__fail(ACRE_E_REGISTERED, "the addresses of a new block are in acre's book");
    spill->node.key = spill->block.node.key;
    acre__lock_take(&spills.lock);
    list_put(&spills.live, spill);
    (void)acre__tree_insert(&spills.by_address, &spill->node);
    acre__lock_take(&pool->lock);
    pool->spilled.blocks++;
    pool->spilled.bytes += whole;
    acre__lock_give(&pool->lock);
    acre__lock_give(&spills.lock);
    return ACRE_OK;
}

acre_status acre__spill_alloc(acre_pool *pool, size_t bytes, void **p) {
    struct spill *spill = calloc(1, sizeof *spill);
    if (!spill)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a block");
    spill_use();
    spill->pool = pool;
    acre__uses_open(&spill->uses, pool->dev);
    acre__fetch_add(&spills.count, 1, memory_order_acq_rel);
    acre_status status = make(pool, bytes, spill);
    if (status == ACRE_OK && (status = enter(pool, bytes, spill)))
        count_device(pool, -(int64_t)spill_bytes(spill));
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        spill_free(spill);
        return acre__said_fail(status, &said);
    }
    *p = (void *)(uintptr_t)spill->block.node.key;
    return ACRE_OK;
}
