/* Collects the numbers of a failed allocation: see pool_report.h.
 *
 * First it collects the pool's own numbers, under the pool's lock; then, without the lock, those of
 * other pools and the driver's numbers about the card. Other threads continue meanwhile, so on a
 * busy pool the parts may be of slightly different instants. Memory outside acre is the rest of the
 * card. Sums by tag and by size share one static buffer with its own lock, so that a report needs
 * little memory. */
#include "pool/pool_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/log.h"
#include "base/round.h"
#include "base/stack.h"
#include "base/thread.h"
#include "device/held.h"
#include "pool/pool_freed.h"
#include "pool/pool_list.h"
#include "pool/pool_slab_make.h"
#include "pool/pool_snapshot.h"
#include "pool/pool_watch.h"
#include "space/chunk.h"
#include "watch/origin.h"
#include "watch/probes.h"

enum { REPORT_SIZES = 256 }; /* classes up to the largest block */

static struct {
    struct acre__lock lock;
    struct acre__oom_item tags[ACRE__TAGS + 1], sizes[REPORT_SIZES];
} sums = {.lock = ACRE__LOCK_INIT("report", ACRE__RANK_LEAF)};

static uint64_t minus(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static uint64_t plus(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* ---- lists ---- */

static void item_add(struct acre__oom_item *to, uint64_t bytes, uint64_t count) {
    to->bytes += bytes;
    to->count += count;
}

/* Keeps the largest items, sorted, and the sum of the others. */
static void list_add(struct acre__oom_list *list, struct acre__oom_item item) {
    for (int i = 0; i < ACRE__OOM_TOP; i++) {
        if (item.bytes > list->top[i].bytes) {
            struct acre__oom_item smaller = list->top[i];
            list->top[i] = item;
            item = smaller;
        }
    }
    if (item.bytes) {
        list->rest.key++;
        item_add(&list->rest, item.bytes, item.count);
    }
}

/* Adds bytes to the item of a stream, which has several batches. Once the list is full, small
 * streams may be counted twice in `rest`, but their bytes never are. */
static void list_join(struct acre__oom_list *list, uint64_t key, uint64_t bytes) {
    struct acre__oom_item item = {key, bytes, 1};
    for (int i = 0; i < ACRE__OOM_TOP; i++) {
        if (list->top[i].bytes && list->top[i].key == key) {
            item_add(&item, list->top[i].bytes, list->top[i].count);
            for (; i + 1 < ACRE__OOM_TOP; i++)
                list->top[i] = list->top[i + 1];
            list->top[i] = (struct acre__oom_item){0};
        }
    }
    list_add(list, item);
}

/* ---- the pool ---- */

static void sum_slab(void *user, struct acre__piece *piece) {
    struct acre__oom *oom = user;
    struct acre__slab *slab = piece->user;
    uint64_t count = 0;
    for (uint32_t i = 0; i < slab->fresh; i++) {
        uint32_t value = acre__load(slab->slots[i].state, memory_order_acquire);
        if (!(value & ACRE__SLOT_LIVE))
            continue;
        item_add(&sums.tags[acre__tag_of(slab, slab->slots[i].state, value)], slab->slot_bytes, 1);
        count++;
    }
    item_add(&sums.sizes[acre__class_of(slab->slot_bytes)], count * slab->slot_bytes, count);
    oom->live += count * slab->slot_bytes;
    oom->live_blocks += count;
    oom->slots += (slab->count - slab->fresh + slab->ready.count) * slab->slot_bytes;
    oom->ends += slab->bytes - slab->count * slab->slot_bytes;
}

static void collect_live(struct acre__oom *oom, const acre_pool *pool) {
    acre__lock_take(&sums.lock);
    memset(sums.tags, 0, sizeof sums.tags);
    memset(sums.sizes, 0, sizeof sums.sizes);
    acre__slabs_walk(pool, sum_slab, oom);
    for (uint32_t i = 0; i <= ACRE__TAGS; i++) {
        sums.tags[i].key = i;
        list_add(&oom->tags, sums.tags[i]);
    }
    for (uint32_t i = 0; i < REPORT_SIZES; i++) {
        sums.sizes[i].key = acre__class_bytes(i);
        list_add(&oom->sizes, sums.sizes[i]);
    }
    acre__lock_give(&sums.lock);
}

/* Sums the memory freed on each stream that may still be in use. */
static void collect_pending(struct acre__oom *oom, const struct acre__want *want,
                            const struct acre__pool_stream *own) {
    const acre_pool *pool = want->pool;
    for (const struct acre__pool_stream *at = pool->streams; at; at = at->next) {
        uint64_t bytes =
            acre__freed_bytes(at->recent->freed) + acre__freed_bytes(at->marked->freed);
        if (at == own) {
            oom->own += bytes;
            continue;
        }
        int is_relay = acre__stream_is_relay(pool, at->stream);
        oom->pending += bytes;
        list_join(&oom->streams, is_relay ? ACRE__OOM_EVENT : (uintptr_t)at->stream, bytes);
    }
}

/* Finds the longest run of holes, whatever they wait for. */
static void collect_holes(struct acre__oom *oom, const struct acre__arena *arena) {
    for (const struct acre__region *region = arena->regions; region; region = region->next) {
        uint64_t run = 0;
        for (const struct acre__piece *piece = region->first; piece; piece = piece->behind) {
            run = piece->state == ACRE__PIECE_HOLE ? run + piece->bytes : 0;
            oom->largest_run = run > oom->largest_run ? run : oom->largest_run;
        }
    }
    oom->holes += arena->ready.bytes;
}

static void collect_pool(struct acre__oom *oom, const struct acre__want *want) {
    acre_pool *pool = want->pool;
    const struct acre__pool_stream *own = acre__central_stream(want);
    oom->quarantined = acre__pool_quarantined(pool).bytes;
    oom->held = pool->account.held;
    oom->used = pool->used;
    oom->soft_limit_bytes = pool->soft_limit_bytes;
    oom->limit_bytes = pool->limit_bytes;
    collect_live(oom, pool);
    oom->cached = minus(pool->used, oom->live + oom->quarantined);
    oom->graphs = acre__graphs_free_bytes(pool);
    collect_pending(oom, want, own);
    collect_holes(oom, &pool->blocks_in);
    oom->spillable = pool->spilled.bytes - pool->spilled.away_bytes;
    oom->spilled = pool->spilled.away_bytes;
    collect_holes(oom, &pool->slabs_in);
    /* As the ladder has searched: a request that fits a hole does not fail. */
    oom->largest_hole =
        acre__slab_room(pool, own, want->size_class == ACRE__CLASSES, want->alignment);
    oom->is_there =
        want->size_class < ACRE__CLASSES && acre__tree_first(&pool->open[want->size_class]) != NULL;
}

static void collect_stack(void *user, uint32_t stack, uint64_t count, uint64_t bytes) {
    struct acre__oom_item item = {stack, bytes, count};
    list_add(user, item);
}

/* ---- everything else ---- */

struct others {
    struct acre__oom *oom;
    const acre_device *dev;
    uint64_t chunk_bytes; /* held by pools */
};

static void collect_other(acre_pool *pool, void *user) {
    struct others *others = user;
    if (pool->dev != others->dev || pool->kind != ACRE_KIND_DEVICE)
        return;
    uint64_t held = pool->account.held;
    others->oom->held_there += held;
    others->chunk_bytes += pool->blocks_in.unit ? held : 0;
    struct acre__oom_item item = {(uintptr_t)pool, held, minus(held, pool->used)};
    list_add(&others->oom->pools, item);
}

static void card_ask(acre_device *dev, uint64_t *free_bytes, uint64_t *total_bytes) {
    struct acre__current current;
    const char *what;
    size_t free_now = 0, total = (size_t)dev->info.total_bytes;
    if (acre__device_push_relaxed(dev, &current, &what) == CUDA_SUCCESS) {
        (void)dev->drv->cuMemGetInfo(&free_now, &total);
        acre__device_pop(dev, &current);
    }
    *free_bytes = free_now;
    *total_bytes = total;
}

static void collect_limits(struct acre__oom *oom, const acre_pool *pool) {
    acre_device *dev = pool->dev;
    size_t unit = pool->blocks_in.unit ? pool->blocks_in.unit : ACRE__GRAIN;
    oom->whole = acre__round_up(oom->wanted, unit);
    oom->most = acre__held_most(dev);
    oom->device_limit = acre__load(&dev->limit_bytes, memory_order_relaxed);
    oom->device_margin = acre__load(&dev->margin_bytes, memory_order_relaxed);
    oom->device_held = acre__load(&dev->held_bytes, memory_order_relaxed);
    oom->short_of_limit = acre__held_missing(dev, oom->whole, UINT64_MAX, ACRE__HELD_NEW);
    oom->short_of_all = acre__held_missing(dev, oom->whole, oom->free, ACRE__HELD_NEW);
    oom->is_over = acre__pool_over(pool) != 0;
    oom->in_use = acre__held_in_use(dev);
    oom->is_there = oom->is_over && (oom->is_there || oom->largest_hole >= oom->wanted) &&
                    oom->in_use + oom->wanted > oom->device_limit;
}

/* Splits the rest of the card: chunks of vecs and blocks, cached chunks and driver blocks are
 * acre's; the remainder is outside acre. Host chunks count as chunks, so their sum may be too
 * large. */
static void collect_card(struct acre__oom *oom, acre_pool *pool) {
    struct others others = {oom, pool->dev, 0};
    uint64_t count, chunk_bytes, cached;
    if (pool->kind == ACRE_KIND_DEVICE) {
        oom->held_here = oom->held;
        others.chunk_bytes = pool->blocks_in.unit ? oom->held : 0;
    }
    acre__pools_visit(pool, collect_other, &others);
    card_ask(pool->dev, &oom->free, &oom->total);
    collect_limits(oom, pool);
    acre__chunk_count(pool->dev, &count, &chunk_bytes, &cached);
    uint64_t rest = minus(oom->total, oom->free + oom->held_here + oom->held_there);
    oom->acre_bytes = acre__least(rest, minus(chunk_bytes, others.chunk_bytes) +
                                            acre__book_driver_bytes(pool->dev));
    oom->outside = rest - oom->acre_bytes;
}

/* ---- steps that would have helped ---- */

static void step_add(struct acre__oom *oom, enum acre__oom_step_kind kind, uint64_t bytes,
                     uint64_t key) {
    for (int i = 0; i < ACRE__OOM_STEPS; i++)
        if (!oom->steps[i].kind) {
            oom->steps[i] = (struct acre__oom_step){kind, bytes, key};
            return;
        }
}

/* A block needs whole chunks. Memory that is free on the card need not be freed. Above a lowered
 * limit, only memory that is there needs no new chunks. */
static uint64_t bytes_missing(const struct acre__oom *oom) {
    if (oom->is_there)
        return oom->in_use + oom->wanted - oom->device_limit;
    if (oom->is_over)
        return oom->short_of_all;
    int is_of_card = oom->kind == ACRE_KIND_DEVICE && oom->status != ACRE_E_LIMIT;
    uint64_t by_card = is_of_card ? oom->short_of_all : oom->whole;
    return acre__least(by_card, minus(oom->wanted, oom->largest_hole));
}

static void steps_for_memory(struct acre__oom *oom) {
    uint64_t missing = bytes_missing(oom);
    if (oom->pending >= missing && oom->pending)
        step_add(oom, ACRE__STEP_WAIT, oom->largest_run, oom->streams.top[0].key);
    for (int i = 0; i < ACRE__OOM_TOP; i++)
        if (oom->pools.top[i].count >= missing && oom->pools.top[i].count) {
            step_add(oom, ACRE__STEP_TRIM, oom->pools.top[i].count, oom->pools.top[i].key);
            break;
        }
    /* Blocks keep whole chunks. */
    if ((oom->is_over && !oom->is_there ? oom->held : oom->live) >= missing && missing)
        step_add(oom, ACRE__STEP_FREE, missing, oom->stream);
    else if (missing)
        step_add(oom, ACRE__STEP_OTHERS, missing, 0);
}

/* Adds the limit that the request needs, unless the card is too full for it as well. */
static void step_raise_device(struct acre__oom *oom) {
    int is_enough = oom->short_of_all == oom->short_of_limit;
    if (oom->kind == ACRE_KIND_DEVICE && oom->short_of_limit && is_enough)
        step_add(oom, ACRE__STEP_RAISE_DEVICE,
                 oom->is_there ? oom->in_use + oom->wanted : oom->device_held + oom->whole, 0);
}

/* Adds the steps that would help, the smallest first; raising a limit comes last. */
static void collect_steps(struct acre__oom *oom) {
    int is_of_host = oom->kind == ACRE_KIND_PINNED || oom->kind == ACRE_KIND_MAPPED;
    uint64_t most = is_of_host                      ? ACRE__BYTES_MOST
                    : oom->kind == ACRE_KIND_DEVICE ? acre__least(oom->most, oom->total)
                                                    : oom->total;
    if (oom->limit_tag) {
        if (oom->wanted <= oom->tag_limit)
            step_add(oom, ACRE__STEP_FREE, oom->tag_used + oom->wanted - oom->tag_limit, 0);
        step_add(oom, ACRE__STEP_RAISE, plus(oom->tag_used, oom->wanted), 0);
    } else if (oom->is_limited) {
        if (oom->wanted <= oom->limit_bytes)
            step_add(oom, ACRE__STEP_FREE, oom->used + oom->wanted - oom->limit_bytes, 0);
        step_add(oom, ACRE__STEP_RAISE, plus(oom->used, oom->wanted), 0);
    } else if (oom->wanted > most) {
        step_add(oom, ACRE__STEP_LESS, oom->short_of_limit ? oom->device_limit : most, 0);
        step_raise_device(oom);
    } else {
        steps_for_memory(oom);
        step_raise_device(oom);
    }
}

/* ---- entry points ---- */

static void collect(struct acre__oom *oom, const struct acre__want *want, acre_status status,
                    uint32_t limit_tag) {
    acre_pool *pool = want->pool;
    acre__lock_take(&pool->lock);
    collect_pool(oom, want);
    acre__lock_give(&pool->lock);
    oom->status = status;
    memcpy(oom->device, pool->dev->label, sizeof oom->device);
    oom->kind = pool->kind;
    oom->pool = (uintptr_t)pool;
    oom->stream = (uintptr_t)want->stream;
    oom->wanted = want->bytes;
    oom->asked = want->asked ? want->asked : want->bytes;
    oom->alignment = want->size_class == ACRE__CLASSES ? want->alignment : ACRE__GRAIN;
    oom->limit_tag = limit_tag;
    oom->is_limited = want->is_limited && !limit_tag;
    if (limit_tag)
        acre__tag_limit(limit_tag, &oom->tag_used, &oom->tag_limit);
    oom->stack = acre__stack_take();
    acre__origin_by_stack(pool, collect_stack, &oom->stacks);
    collect_card(oom, pool);
    collect_steps(oom);
}

/* With ACRE_DEBUG, logs the whole report: a program may not call acre_oom_report. */
static void report_log(const acre_pool *pool, const struct acre__oom *oom) {
    enum { LINES = 80 };
    size_t bytes = acre__debug_is_on() ? acre__report_text(oom, NULL, 0) : 0;
    char *text = bytes ? malloc(bytes) : NULL, *rest = text;
    char(*lines)[ACRE__LOG_LINE] = text ? calloc(LINES, sizeof *lines) : NULL;
    unsigned count = 0;
    if (lines) {
        (void)acre__report_text(oom, text, bytes);
        rest += strncmp(rest, "acre: ", 6) == 0 ? 6 : 0; /* which the log puts in front */
        for (char *line; count < LINES && (line = strsep(&rest, "\n"));)
            if (*line)
                snprintf(lines[count++], sizeof lines[0], "%s", line);
        acre__log_lines(ACRE_LOG_WARN, "pool", lines, count);
    } else {
        acre__log(ACRE_LOG_WARN, "pool",
                  "%s: out of memory: %.200s; call acre_oom_report for details", pool->dev->label,
                  oom->said.line);
    }
    free(lines);
    free(text);
}

acre_status acre__report_refusal(const struct acre__want *want, acre_status status,
                                 uint32_t limit_tag) {
    acre_pool *pool = want->pool;
    struct acre__pool_cache *cache = want->cache;
    struct acre__said said;
    acre__said_keep(&said);
    pool->refused++;
    acre__probe_refuse(pool, want->asked, status);
    if (cache && !cache->oom)
        cache->oom = malloc(sizeof *cache->oom);
    if (!cache || !cache->oom)
        return status;
    acre__lock_give(&pool->lock);
    memset(cache->oom, 0, sizeof *cache->oom);
    cache->oom->said = said;
    cache->oom->tag = cache->tag;
    collect(cache->oom, want, status, limit_tag);
    if (status == ACRE_E_DEVICE_MEMORY &&
        (strstr(said.line, " are free") || strstr(said.line, " are left of the limit"))) {
        /* The detail is that of the last chunk, which may be a part of the block. */
        (void)acre__held_refuse(pool->dev, cache->oom->asked, cache->oom->whole, cache->oom->free);
        acre__said_keep(&said);
        cache->oom->said = said;
    }
    report_log(pool, cache->oom);
    acre__snapshot_on_oom(pool->dev);
    acre__lock_take(&pool->lock);
    return acre__said_fail(status, &said);
}

static acre_status oom_report(acre_oom_format format, char *buffer, size_t size, size_t *needed) {
    if (needed)
        *needed = 0;
    if (buffer && size)
        buffer[0] = '\0';
    acre_status status = acre__enter();
    if (status)
        return status;
    if (!needed || (!buffer && size))
        return acre__fail(ACRE_E_NULL, "acre_oom_report: %s is NULL", needed ? "buffer" : "needed");
    if (format != ACRE_OOM_TEXT && format != ACRE_OOM_JSON)
        return acre__fail(ACRE_E_INVALID, "acre_oom_report: unknown format %d", (int)format);
    const struct acre__pool_cache *cache = acre__cache_self();
    if (!cache || !cache->oom)
        return acre__fail(ACRE_E_NOT_READY,
                          "no allocation from a pool has failed in this thread yet");
    *needed = format == ACRE_OOM_JSON ? acre__report_json(cache->oom, buffer, size)
                                      : acre__report_text(cache->oom, buffer, size);
    return ACRE_OK;
}

acre_status acre_oom_report(acre_oom_format format, char *buffer, size_t size, size_t *needed) {
    return acre__in_call(oom_report(format, buffer, size, needed), "acre_oom_report");
}
