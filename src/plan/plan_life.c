/* Creates and destroys plans; the list of plans and their statistics. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/log.h"
#include "base/options.h"
#include "base/run.h"
#include "base/status.h"
#include "base/thread.h"
#include "plan/plan.h"
#include "space/mapped.h"
#include "pool/pool.h"
#include "pool/pool_list.h"
#include "watch/origin.h"

_Atomic uint64_t acre__plan_ends;

struct acre__live_list acre__plans = ACRE__LIVE_LIST("a plan", ACRE__RANK_PLAN);

/* ---- destroying ---- */

void acre__plan_forget_wishes(acre_plan *plan) {
    while (plan->wishes) {
        struct acre__plan_wish *next = plan->wishes->next;
        free(plan->wishes);
        plan->wishes = next;
    }
    plan->last_wish = NULL;
    plan->waiting = plan->timed = (struct acre__plan_queue){0};
    plan->wish_count = plan->waiting_count = 0;
}

/* Destroys a plan that is in no list any more. Freeing its memory waits for all work of the
 * device. */
static void plan_end(acre_plan *plan) {
    acre__fetch_add(&acre__plan_ends, 1, memory_order_relaxed);
    acre__plan_record_forget(&plan->loop);
    acre__plan_forget_wishes(plan);
    for (uint32_t i = 0; i < ACRE__PLAN_PLACES; i++) {
        acre__plan_arena_cut(&plan->arenas[i], NULL);
        acre__plan_arena_cut(&plan->loop_arenas[i], NULL);
    }
    acre__uses_close(&plan->uses);
    acre__uses_close(&plan->loop_uses);
    acre__lock_destroy(&plan->lock);
    free(plan);
}

static acre_status plan_destroy(acre_plan *plan) {
    acre_status status = acre__enter();
    if (status || !plan)
        return status;
    if (!acre__live_take(&acre__plans, plan, &status))
        return status;
    (void)acre__origin_free(plan);
    plan_end(plan);
    return ACRE_OK;
}

acre_status acre_plan_destroy(acre_plan *plan) {
    return acre__in_call(plan_destroy(plan), "acre_plan_destroy");
}

static const struct acre__what plan_what = {"acre_plan_create", "plan", "plan", "plans"};

/* Destroys the plans that are left when the program closes the device. */
static void plan_close(acre_device *dev) {
    unsigned long long count = 0, bytes = 0;
    for (acre_plan *plan; (plan = acre__live_take_any(&acre__plans, dev)); count++) {
        bytes += acre__plan_held(plan, ACRE_PLACE_DEVICE) + acre__plan_held(plan, ACRE_PLACE_HOST);
        plan_end(plan);
    }
    if (!count || acre__origin_log_leaks(dev, &plan_what))
        return;
    acre__log(ACRE_LOG_WARN, "plan", "%s: closed with %llu plans not destroyed (%llu bytes)",
              dev->label, count, bytes);
    acre__run_leaked("acre_plan_create", count, bytes, NULL);
}

/* Only the thread in a step may end it. A thread that exits in a step marks the step as left; the
 * next caller then ends it. */
static void plan_thread_exit(struct acre__thread *thread) {
    acre__lock_take(&acre__plans.lock);
    for (acre_plan *plan = NULL; (plan = acre__live_next(&acre__plans, plan));)
        if (acre__load(&plan->stepper, memory_order_relaxed) == thread->id)
            acre__store(&plan->stepper, ACRE__PLAN_LEFT, memory_order_release);
    acre__lock_give(&acre__plans.lock);
}

static void plan_watch_threads(void) {
    acre__thread_at_exit(plan_thread_exit);
}

/* ---- creating ---- */

static acre_status options_check(const acre_plan_options *options) {
    if (options->flags & ~ACRE_PLAN_DEFERRED)
        return acre__fail(ACRE_E_OPTIONS, "acre_plan_options: unknown flags 0x%x", options->flags);
    if (options->host_kind && options->host_kind != ACRE_KIND_PINNED &&
        options->host_kind != ACRE_KIND_MAPPED && options->host_kind != ACRE_KIND_PAGEABLE)
        return acre__fail(ACRE_E_INVALID, "acre_plan_options: kind %d is invalid for host memory",
                          (int)options->host_kind);
    const uint64_t bytes[] = {options->device_bytes, options->host_bytes};
    for (int i = 0; i < ACRE__PLAN_PLACES; i++)
        if (bytes[i] != ACRE_PLAN_AS_NEEDED && bytes[i] > ACRE__PLAN_BYTES_MOST)
            return acre__fail(ACRE_E_INVALID, "acre_plan_options: invalid size: %llu bytes",
                              (unsigned long long)bytes[i]);
    return ACRE_OK;
}

/* Checks that a pool for loops belongs to this device and has memory of the right place. */
static acre_status options_check_pool(const acre_device *dev, acre_pool *pool, uint32_t place) {
    if (!pool)
        return ACRE_OK;
    acre_status status = acre__pool_check(pool);
    if (status)
        return status;
    if (pool->dev != dev)
        return acre__fail(ACRE_E_HANDLE, "acre_plan_options: the pool belongs to %s, not to %s",
                          pool->dev->label, dev->label);
    int is_right = place == ACRE_PLACE_DEVICE
                       ? pool->kind == ACRE_KIND_DEVICE
                       : pool->kind == ACRE_KIND_PINNED || pool->kind == ACRE_KIND_MAPPED;
    return is_right ? ACRE_OK
                    : acre__fail(ACRE_E_KIND,
                                 "acre_plan_options: a pool of kind %d cannot serve %s memory",
                                 (int)pool->kind, acre__plan_place_name(place));
}

/* Sets the size of a place. *clipped is the default size if it was reduced to the free memory, else
 * 0. */
static acre_status arena_set(struct acre__plan_arena *arena, acre_device *dev, uint32_t place,
                             acre_kind kind, uint64_t bytes, uint64_t *clipped) {
    uint64_t whole;
    *arena = (struct acre__plan_arena){.dev = dev, .place = place, .kind = kind};
    *clipped = 0;
    if (bytes == ACRE_PLAN_AS_NEEDED) {
        arena->size = ACRE__PLAN_NEEDED;
        return ACRE_OK;
    }
    if (bytes) {
        arena->bytes = acre__round_up(bytes, ACRE__PLAN_GRAIN);
        return acre__plan_arena_ready(arena);
    }
    arena->size = ACRE__PLAN_DEFAULT;
    acre_status status = acre__plan_arena_default(dev, place, &whole, &arena->bytes);
    arena->whole = arena->bytes;
    if (status == ACRE_OK && arena->bytes < whole)
        *clipped = whole;
    return status;
}

/* "4096 MB" or "as needed". */
static const char *size_words(char *words, size_t room, const struct acre__plan_arena *arena) {
    if (arena->size == ACRE__PLAN_NEEDED)
        snprintf(words, room, "as needed");
    else
        snprintf(words, room, "%llu MB", acre__plan_in_mb(arena->bytes));
    return words;
}

static void plan_log(const acre_plan *plan, const uint64_t *clipped) {
    char words[ACRE__PLAN_PLACES][32], said[128] = "";
    for (uint32_t i = 0; i < ACRE__PLAN_PLACES; i++) {
        size_t length = strlen(said);
        if (clipped[i])
            snprintf(said + length, sizeof said - length,
                     "; clipped to what is free: %s of %llu MB", acre__plan_place_name(i),
                     (unsigned long long)(clipped[i] >> 20));
        size_words(words[i], sizeof words[i], &plan->arenas[i]);
    }
    acre__log(ACRE_LOG_INFO, "plan", "plan: %s on device, %s on host%s", words[ACRE_PLACE_DEVICE],
              words[ACRE_PLACE_HOST], said);
}

static acre_status plan_make(acre_device *dev, const acre_plan_options *options, acre_plan **out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    acre_plan *plan = calloc(1, sizeof *plan);
    pthread_once(&once, plan_watch_threads);
    if (!plan)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a plan's record");
    plan->dev = dev;
    plan->flags = options->flags;
    plan->budget = options->budget;
    plan->pools[ACRE_PLACE_DEVICE] = options->device_pool;
    plan->pools[ACRE_PLACE_HOST] = options->host_pool;
    acre__uses_open(&plan->uses, dev);
    acre__uses_open(&plan->loop_uses, dev);
    acre__lock_init(&plan->lock, "plan", ACRE__RANK_PLAN);
    acre__plan_record_forget(&plan->loop);
    uint64_t clipped[ACRE__PLAN_PLACES];
    acre_kind host = options->host_kind ? options->host_kind : ACRE_KIND_PINNED;
    const acre_kind kinds[] = {ACRE_KIND_DEVICE, host};
    const uint64_t bytes[] = {options->device_bytes, options->host_bytes};
    acre_status status = ACRE_OK;
    for (uint32_t i = 0; i < ACRE__PLAN_PLACES && status == ACRE_OK; i++) {
        plan->loop_arenas[i] = (struct acre__plan_arena){
            .dev = dev, .place = i, .kind = kinds[i], .size = ACRE__PLAN_NEEDED};
        status = arena_set(&plan->arenas[i], dev, i, kinds[i], bytes[i], &clipped[i]);
    }
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        plan_end(plan);
        return acre__said_fail(status, &said);
    }
    plan_log(plan, clipped);
    *out = plan;
    return ACRE_OK;
}

static acre_status plan_create(acre_device *device, const acre_plan_options *options,
                               acre_plan **plan) {
    static const struct acre__device_hooks hooks = {.layer = ACRE__HOOK_ABOVE, .close = plan_close};
    acre_plan_options wishes;
    if (plan)
        *plan = NULL;
    acre_status status = acre__device_enter(device);
    if (status)
        return status;
    if (!plan)
        return acre__fail(ACRE_E_NULL, "acre_plan_create: plan is NULL");
    if ((status = acre__options_in(&wishes, sizeof wishes, options, "acre_plan_options")) ||
        (status = options_check(&wishes)) ||
        (status = options_check_pool(device, wishes.device_pool, ACRE_PLACE_DEVICE)) ||
        (status = options_check_pool(device, wishes.host_pool, ACRE_PLACE_HOST)))
        return status;
    acre__device_hooks_add(&hooks);
    acre_plan *made = NULL;
    if ((status = plan_make(device, &wishes, &made)))
        return status;
    acre__live_add(&acre__plans, &made->live, device);
    (void)acre__origin_add(made, 0, &plan_what, device, device->label);
    *plan = made;
    return ACRE_OK;
}

acre_status acre_plan_create(acre_device *device, const acre_plan_options *options,
                             acre_plan **plan) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = plan_create(device, options, plan);
    while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_plan_create");
}

/* ---- statistics ---- */

static void stats_wishes(const acre_plan *plan, acre_plan_stats *stats) {
    for (const struct acre__plan_wish *wish = plan->wishes; wish; wish = wish->next)
        *(wish->place == ACRE_PLACE_HOST ? &stats->host_wanted_bytes
                                         : &stats->device_wanted_bytes) += wish->bytes;
    stats->wishes = plan->wish_count;
    stats->waiting = plan->waiting_count;
}

static uint64_t plan_used(const acre_plan *plan, uint32_t place) {
    return acre__plan_arena_used(&plan->arenas[place]) +
           acre__plan_arena_used(&plan->loop_arenas[place]);
}

static void stats_loop(const acre_plan *plan, acre_plan_stats *stats) {
    const struct acre__plan_loop *loop = &plan->loop;
    stats->recorded = loop->recorded;
    if (loop->state == ACRE__LOOP_PLACED)
        stats->loop_bytes = loop->whole[ACRE_PLACE_DEVICE] + loop->whole[ACRE_PLACE_HOST];
    stats->loop_bound_bytes = loop->bound;
    stats->hits = acre__load(&plan->hits, memory_order_relaxed);
    stats->misses = acre__load(&plan->misses, memory_order_relaxed);
    stats->pool_calls = acre__load(&plan->pool_calls, memory_order_relaxed);
}

static acre_status plan_get_stats(acre_plan *plan, acre_plan_stats *stats) {
    acre_plan_stats told = {.struct_size = sizeof told};
    acre_status status = acre__options_out(stats, sizeof told, &told, "acre_plan_stats");
    if (status == ACRE_OK)
        status = acre__plan_check(plan);
    if (status)
        return status;
    acre__lock_take(&plan->lock);
    told.device_bytes = acre__plan_held(plan, ACRE_PLACE_DEVICE);
    told.host_bytes = acre__plan_held(plan, ACRE_PLACE_HOST);
    told.device_used_bytes = plan_used(plan, ACRE_PLACE_DEVICE);
    told.host_used_bytes = plan_used(plan, ACRE_PLACE_HOST);
    told.device_bound_bytes = plan->bound[ACRE_PLACE_DEVICE];
    told.host_bound_bytes = plan->bound[ACRE_PLACE_HOST];
    told.is_committed = (uint64_t)plan->is_committed;
    told.is_optimal = (uint64_t)plan->is_optimal;
    told.nodes = plan->nodes;
    told.rounds = plan->rounds;
    told.waits = plan->waits;
    told.steps = plan->steps;
    stats_wishes(plan, &told);
    stats_loop(plan, &told);
    acre__lock_give(&plan->lock);
    return acre__options_out(stats, sizeof told, &told, "acre_plan_stats");
}

acre_status acre_plan_get_stats(acre_plan *plan, acre_plan_stats *stats) {
    return acre__in_call(plan_get_stats(plan, stats), "acre_plan_get_stats");
}
