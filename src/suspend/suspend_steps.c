/* acre_suspend and acre_resume: the order of their steps.
 *
 * A suspend stops whatever could use or change memory, from the outside inwards: launches of a
 * program under `acre run` (base/pause.h), new memory (is_suspended of the device), allocations of
 * pools (pool/pool_suspend.h), queued work (suspend_quiet.c), and at last copies and mappings (the
 * gate, space/mapped.h). Then it chooses, copies, unmaps and releases. A failure undoes the steps
 * in reverse order: until the last one, physical memory exists and holds its contents.
 *
 * Locks: `suspends.lock` is held through a whole suspend or resume, so that there is one at a time.
 * No pool's lock is taken inside a move: its holder may wait for the move to end. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/pause.h"
#include "base/status.h"
#include "pool/pool_spill.h"
#include "pool/pool_suspend.h"
#include "space/mapped.h"
#include "space/steps.h"
#include "suspend/suspend.h"

enum { SUSPEND_TIMEOUT_MS = 30000 };

static struct {
    struct acre__lock lock;
    uint64_t ids; /* the last id assigned */
} suspends = {.lock = ACRE__LOCK_INIT("suspend", ACRE__RANK_SUSPEND)};

static struct acre__live_list suspendeds = ACRE__LIVE_LIST("a suspend", ACRE__RANK_LEAF);

/* The time in `ms`, or the end of time. */
static uint64_t time_in(uint64_t ms) {
    uint64_t most = UINT64_MAX / 2, now = acre__now_ns();
    return ms < (most - now) / 1000000u ? now + ms * 1000000u : most;
}

/* ---- devices ---- */

static void suspended_free(acre_suspended *suspended) {
    acre__spans_free(&suspended->spans);
    free(suspended);
}

/* When this runs, all objects are destroyed: nothing is left to bring back. */
static void suspend_close(acre_device *dev) {
    acre_suspended *suspended;
    acre__quiet_end(dev);
    while ((suspended = acre__live_take_any(&suspendeds, dev))) {
        suspended_free(suspended);
        acre__pause_go();
    }
    acre__spans_forget(dev);
    acre__store(&dev->is_suspended, 0, memory_order_seq_cst);
    acre__resume_note();
}

static acre_status suspend_trim(acre_device *dev) {
    acre__spans_forget(dev);
    return ACRE_OK;
}

static void suspend_stats(acre_device *dev, acre_device_stats *stats) {
    uint64_t away = acre__away_bytes(dev), spilled = acre__spill_away_bytes(dev);
    stats->suspended_bytes = away > spilled ? away - spilled : 0;
}

static void suspend_use(void) {
    static const struct acre__device_hooks hooks = {.layer = ACRE__HOOK_BELOW,
                                                    .trim = suspend_trim,
                                                    .close = suspend_close,
                                                    .stats = suspend_stats};
    acre__device_hooks_add(&hooks);
}

/* A stream for the copies of contents. It is not destroyed inside a move, since pools look after
 * their frees on it. It is not created before queued work has ended: while a wait for work goes on
 * that was given up, the driver lets no stream be destroyed. */
static acre_status stream_make(acre_device *dev, acre_stream *stream) {
    acre__inner_begin();
    return acre__inner_end(
        acre__stream_create_own(dev, ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE, stream));
}

static void stream_end(acre_device *dev, acre_stream stream) {
    struct acre__said said;
    if (!stream)
        return;
    acre__said_keep(&said);
    acre__inner_begin();
    (void)acre__inner_end(acre__stream_destroy_own(dev, stream));
    (void)acre__said_fail(ACRE_OK, &said);
}

/* ---- suspending ---- */

/* Everything that stays valid through the steps of one suspend. */
struct steps {
    acre_device *dev;
    acre_suspend_options options;
    struct acre__chosen chosen;
    acre_suspended *suspended;
    uint64_t until_ns;
    acre_stream stream; /* for copies of contents; NULL: not created yet */
};

/* Inside a move: work that was queued in between has ended, too. */
static acre_status move_away(struct steps *steps) {
    struct acre__chosen *chosen = &steps->chosen;
    acre_status status = acre__quiet_wait(steps->dev, steps->until_ns, steps->options.timeout_ms);
    if (status == ACRE_OK)
        status = acre__choose_mappings(chosen);
    if (status == ACRE_OK)
        status = acre__spans_keep(&chosen->away, &chosen->spans, steps->options.folder,
                                  steps->stream, &chosen->info);
    if (status == ACRE_OK)
        status = acre__away_unmap(&chosen->away);
    if (status)
        return status;
    for (size_t i = 0; i < chosen->away.count; i++) {
        struct acre__mapping *mapping = chosen->away.mappings[i];
        mapping->suspended_by = steps->suspended->id;
        mapping->chunk->is_waited = (steps->options.flags & ACRE_SUSPEND_WAIT) != 0;
    }
    chosen->info.released_bytes = acre__away_release(&chosen->away);
    return ACRE_OK;
}

/* New memory, allocations and work are stopped; undone by the caller. */
static acre_status suspend_stopped(struct steps *steps) {
    acre_status status = acre__quiet_wait(steps->dev, steps->until_ns, steps->options.timeout_ms);
    if (status)
        return status;
    /* Not before: kernels that run may need more memory for their heap. */
    if (steps->suspended->is_whole)
        acre__store(&steps->dev->is_suspended, ACRE__SUSPEND_WAITS, memory_order_seq_cst);
    status = acre__choose_blocks(&steps->chosen);
    if (status == ACRE_OK)
        status = stream_make(steps->dev, &steps->stream);
    if (status)
        return status;
    (void)acre__chunk_trim(steps->dev);
    if (!acre__move_begin(steps->until_ns))
        return acre__fail(ACRE_E_BUSY, "copies on %s have not ended within %llu ms",
                          steps->dev->label, (unsigned long long)steps->options.timeout_ms);
    status = move_away(steps);
    acre__move_end();
    return status;
}

/* Publishes the result. */
static void suspend_publish(struct steps *steps) {
    acre_suspended *suspended = steps->suspended;
    suspended->flags = steps->options.flags;
    suspended->spans = steps->chosen.spans;
    suspended->info = steps->chosen.info;
    steps->chosen.spans = (struct acre__spans){0};
    acre__live_add(&suspendeds, &suspended->live, steps->dev);
}

/* The lock is held. */
static acre_status suspend_all(struct steps *steps) {
    acre_device *dev = steps->dev;
    uint32_t how =
        steps->options.flags & ACRE_SUSPEND_WAIT ? ACRE__SUSPEND_WAITS : ACRE__SUSPEND_REFUSES;
    int is_whole = steps->suspended->is_whole;
    acre_status status = acre__device_has_memory(dev);
    if (status)
        return acre__fail(
            status,
            "memory of %s is suspended already; only ACRE_SUSPEND_STAY with rules for "
            "parts can be suspended one after the other",
            dev->label);
    status = acre__quiet_join(dev, steps->until_ns, steps->options.timeout_ms);
    if (status == ACRE_OK)
        status = acre__pause_stop(steps->until_ns);
    if (status)
        return status;
    acre__pools_suspend(dev);
    status = suspend_stopped(steps);
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        acre__store(&dev->is_suspended, 0, memory_order_seq_cst);
        acre__pools_resume(dev);
        acre__resume_note();
        acre__pause_go();
        return acre__said_fail(status, &said);
    }
    suspend_publish(steps);
    acre__store(&dev->is_suspended, is_whole ? how : 0, memory_order_seq_cst);
    acre__pools_resume(dev); /* those that have nothing away */
    acre__resume_note();
    return ACRE_OK;
}

static acre_status suspend(acre_device *device, const acre_suspend_options *options,
                           acre_suspended **suspended) {
    struct steps steps = {.dev = device};
    if (suspended)
        *suspended = NULL;
    acre_status status = acre__device_enter(device);
    if (status || (status = acre__not_null(suspended, "suspended")) ||
        (status = acre__options_in(&steps.options, sizeof steps.options, options,
                                   "acre_suspend_options")))
        return status;
    suspend_use();
    steps.options.timeout_ms =
        steps.options.timeout_ms ? steps.options.timeout_ms : SUSPEND_TIMEOUT_MS;
    steps.until_ns = time_in(steps.options.timeout_ms);
    status = acre__choose_begin(&steps.chosen, device, &steps.options);
    if (status == ACRE_OK && !(steps.suspended = calloc(1, sizeof *steps.suspended)))
        status = acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a suspend");
    if (status == ACRE_OK) {
        steps.suspended->is_whole = steps.options.how != ACRE_SUSPEND_STAY;
        acre__lock_take(&suspends.lock);
        steps.suspended->id = ++suspends.ids;
        status = suspend_all(&steps);
        stream_end(device, steps.stream);
        acre__lock_give(&suspends.lock);
    }
    acre__choose_end(&steps.chosen);
    if (status)
        free(steps.suspended);
    else
        *suspended = steps.suspended;
    return status;
}

acre_status acre_suspend(acre_device *device, const acre_suspend_options *options,
                         acre_suspended **suspended) {
    return acre__in_call(suspend(device, options, suspended), "acre_suspend");
}

/* ---- resuming ---- */

/* Inside a move: the mappings of this suspend that still exist. */
static acre_status back_list(const acre_suspended *suspended, struct acre__away *away) {
    struct acre__mapping *mapping = NULL;
    size_t count = 0;
    while ((mapping = acre__mapped_next(away->dev, mapping)))
        count++;
    away->count = 0;
    free(away->mappings);
    away->mappings = calloc(count + 1, sizeof(struct acre__mapping *));
    if (!away->mappings)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the list of mappings");
    while ((mapping = acre__mapped_next(away->dev, mapping)))
        if (mapping->is_away && mapping->suspended_by == suspended->id)
            away->mappings[away->count++] = mapping;
    return ACRE_OK;
}

/* Inside a move. */
static acre_status move_back(acre_suspended *suspended, struct acre__away *away, acre_stream stream,
                             uint64_t *bytes) {
    acre_status status = back_list(suspended, away);
    *bytes = 0;
    for (size_t i = 0; i < away->count; i++)
        *bytes += away->mappings[i]->chunk->bytes;
    if (status == ACRE_OK)
        status = acre__away_map(away, ACRE__HELD_RESUMED);
    if (status)
        return status;
    status = acre__spans_bring(away, &suspended->spans, stream);
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        (void)acre__step_quiesce(away->dev); /* a copy may still run */
        acre__away_undo(away);
        return acre__said_fail(status, &said);
    }
    acre__away_end(away);
    return ACRE_OK;
}

/* The lock is held. Out of memory, others that hold idle memory release it. They unmap it, so this
 * happens outside the move. */
static acre_status resume_all(acre_suspended *suspended) {
    acre_device *dev = suspended->live.dev;
    struct acre__away away = {.dev = dev};
    acre_stream stream;
    uint64_t bytes = 0, until_ns = time_in(SUSPEND_TIMEOUT_MS);
    int tries = 0;
    if (acre__streams_any_captured(dev))
        return acre__fail(ACRE_E_CAPTURING, "a stream of %s is being captured", dev->label);
    acre_status status = stream_make(dev, &stream);
    if (status)
        return status;
    do {
        if (!acre__move_begin(until_ns)) {
            status = acre__fail(ACRE_E_BUSY, "copies on %s have not ended within %d ms", dev->label,
                                SUSPEND_TIMEOUT_MS);
            break;
        }
        status = move_back(suspended, &away, stream, &bytes);
        acre__move_end();
    } while (status && acre__device_reclaim(dev, ACRE_KIND_DEVICE, bytes, status, tries++));
    free(away.mappings);
    stream_end(dev, stream);
    return status;
}

static void resume_publish(acre_suspended *suspended) {
    acre_device *dev = suspended->live.dev;
    if (suspended->is_whole)
        acre__store(&dev->is_suspended, 0, memory_order_seq_cst);
    if (suspended->flags & ACRE_SUSPEND_RETAIN)
        acre__spans_retain(dev, &suspended->spans);
    acre__pools_resume(dev);
    suspended_free(suspended);
    acre__resume_note();
    acre__pause_go();
}

static acre_status resume(acre_suspended *handle) {
    acre_status status = acre__live_enter(&suspendeds, handle);
    if (status)
        return status;
    acre__lock_take(&suspends.lock);
    acre_suspended *suspended = acre__live_use(&suspendeds, handle, &status);
    if (suspended) {
        status = resume_all(suspended);
        acre__live_unuse(&suspendeds, &suspended->live);
    }
    if (suspended && status == ACRE_OK)
        suspended = acre__live_take(&suspendeds, handle, &status);
    if (suspended && status == ACRE_OK)
        resume_publish(suspended);
    acre__lock_give(&suspends.lock);
    return status;
}

acre_status acre_resume(acre_suspended *suspended) {
    return acre__in_call(resume(suspended), "acre_resume");
}

/* ---- the rest ---- */

static acre_status get_info(const acre_suspended *handle, acre_suspend_info *info) {
    acre_status status = acre__enter();
    if (status)
        return status;
    const acre_suspended *suspended = acre__live_use(&suspendeds, handle, &status);
    if (!suspended)
        return status;
    status = acre__options_out(info, sizeof suspended->info, &suspended->info, "acre_suspend_info");
    acre__live_unuse(&suspendeds, (struct acre__live *)(uintptr_t)&suspended->live);
    return status;
}

acre_status acre_suspend_get_info(const acre_suspended *suspended, acre_suspend_info *info) {
    return acre__in_call(get_info(suspended, info), "acre_suspend_get_info");
}

static acre_status suspend_read(const acre_suspended *handle, const void *p, size_t bytes,
                                void *to) {
    acre_status status = acre__enter();
    if (status || (bytes && (status = acre__not_null(to, "to"))))
        return status;
    const acre_suspended *suspended = acre__live_use(&suspendeds, handle, &status);
    if (!suspended)
        return status;
    uint64_t at = (uintptr_t)p;
    if (bytes && (bytes > UINT64_MAX - at || !acre__spans_read(&suspended->spans, at, bytes, to)))
        status =
            acre__fail(ACRE_E_POINTER, "the suspend does not keep the %zu bytes at %p", bytes, p);
    acre__live_unuse(&suspendeds, (struct acre__live *)(uintptr_t)&suspended->live);
    return status;
}

acre_status acre_suspend_read(const acre_suspended *suspended, const void *p, size_t bytes,
                              void *to) {
    return acre__in_call(suspend_read(suspended, p, bytes, to), "acre_suspend_read");
}

acre_status acre_suspend_forget(acre_device *device) {
    acre_status status = acre__device_enter_books(device);
    if (status == ACRE_OK)
        status = suspend_trim(device);
    return acre__in_call(status, "acre_suspend_forget");
}
