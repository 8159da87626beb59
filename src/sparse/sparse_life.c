/* Creates and destroys ranges and budgets; the hooks of devices. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/log.h"
#include "base/options.h"
#include "base/round.h"
#include "base/run.h"
#include "base/status.h"
#include "sparse/sparse.h"
#include "watch/origin.h"

#define SPARSE_PIECE_BYTES ((uint64_t)2 << 20)

static const struct acre__what range_what = {"acre_range_create", "range", "range", "ranges"};

/* ---- freeing ---- */

/* Frees a budget that has no ranges and is in no list. */
static void budget_free(acre_range_budget *budget) {
    acre__sparse_marks_trim(budget);
    if (budget->waiter && !acre__device_is_lost(budget->dev))
        (void)acre__stream_destroy_own(budget->dev, budget->waiter);
    acre__lock_destroy(&budget->lock);
    free(budget);
}

/* Unmaps all pieces, committed ones too, and releases the addresses. A piece that the driver
 * refuses to unmap goes to limbo with its addresses. The lock is held. */
static void range_empty(acre_range *range) {
    uint64_t begin = range->addresses.at, end = begin + range->addresses.bytes;
    for (size_t i = 0; i < range->piece_count; i++) {
        struct acre__sparse_piece *piece = &range->pieces[i];
        if (piece->state == ACRE__SPARSE_COMMITTED)
            acre__sparse_piece_decommit(piece, NULL);
        if (piece->state == ACRE__SPARSE_EMPTY || acre__sparse_piece_empty(piece))
            continue;
        uint64_t at = range->addresses.at + i * range->piece_bytes;
        acre__range_give(range->dev, begin, (size_t)(at - begin));
        begin = at + range->piece_bytes;
        acre__sparse_piece_abandon(piece);
    }
    acre__range_give(range->dev, begin, (size_t)(end - begin));
}

static void range_record_free(acre_range *range) {
    free(range->pieces);
    free((void *)range->committed);
    free(range);
}

/* Frees a range that is in no list, and whose work is done. */
static void range_free(acre_range *range) {
    acre_range_budget *budget = range->budget;
    acre__lock_take(&budget->lock);
    range_empty(range);
    acre__sparse_mark_drop(budget, range->used);
    acre__sparse_count(range, &budget->past);
    acre_range **link = &budget->ranges;
    while (*link != range)
        link = &(*link)->next;
    *link = range->next;
    acre__lock_give(&budget->lock);
    range_record_free(range);
    acre_status ignored;
    if (budget->is_private && acre__live_take(&acre__sparse_budgets, budget, &ignored))
        budget_free(budget);
}

/* ---- devices ---- */

/* Destroys the ranges and budgets that are left when the program closes the device. */
static void sparse_close(acre_device *dev) {
    unsigned long long count = 0, bytes = 0;
    for (acre_range *range; (range = acre__live_take_any(&acre__sparse_ranges, dev)); count++) {
        acre_status ignored;
        bytes += acre__load(&range->block.range_bytes, memory_order_relaxed);
        (void)acre__book_remove(dev, (void *)(uintptr_t)range->addresses.at, ACRE__OWNED_BY_RANGE,
                                &ignored);
        if (!acre__device_is_lost(dev)) /* the streams that use the range are unknown */
            (void)acre__step_quiesce_users(dev);
        range_free(range);
    }
    for (acre_range_budget *budget; (budget = acre__live_take_any(&acre__sparse_budgets, dev));)
        budget_free(budget);
    if (!count || acre__origin_log_leaks(dev, &range_what))
        return;
    acre__log(ACRE_LOG_WARN, "range", "%s: closed with %llu ranges not destroyed (%llu bytes)",
              dev->label, count, bytes);
    acre__run_leaked("acre_range_create", count, bytes, NULL);
}

/* Returns the budget of the device after `before` (NULL: the first), in use by the caller until
 * acre__live_unuse; NULL after the last. */
static acre_range_budget *budget_next(const acre_device *dev, acre_range_budget *before) {
    acre__lock_take(&acre__sparse_budgets.lock);
    acre_range_budget *budget = acre__live_next(&acre__sparse_budgets, before);
    while (budget && budget->dev != dev)
        budget = acre__live_next(&acre__sparse_budgets, budget);
    if (budget)
        budget->live.users++;
    acre__lock_give(&acre__sparse_budgets.lock);
    if (before)
        acre__live_unuse(&acre__sparse_budgets, &before->live);
    return budget;
}

/* Waits for all work that uses idle pieces. The lock is held, and released meanwhile. */
static void budget_settle(acre_range_budget *budget) {
    struct acre__sparse_mark *last = NULL;
    acre_status status = ACRE_OK;
    for (struct acre__sparse_piece *piece = budget->oldest; piece && status == ACRE_OK;
         piece = piece->next) {
        if (piece->mark == last || acre__sparse_mark_is_done(budget, piece->mark))
            continue;
        last = piece->mark;
        status = acre__sparse_wait_add(budget, last);
    }
    if (last && status == ACRE_OK)
        (void)acre__sparse_wait(budget);
}

static uint64_t sparse_reclaim(acre_device *dev, acre_kind kind, int wait) {
    uint64_t bytes = 0;
    if (kind != ACRE_KIND_DEVICE && kind != ACRE_KIND_MANAGED)
        return 0;
    for (acre_range_budget *budget = NULL; (budget = budget_next(dev, budget));) {
        acre__lock_take(&budget->lock);
        if (wait)
            budget_settle(budget);
        bytes += acre__sparse_trim(budget, NULL, 0);
        acre__lock_give(&budget->lock);
    }
    return bytes;
}

static acre_status sparse_trim(acre_device *dev) {
    (void)sparse_reclaim(dev, ACRE_KIND_DEVICE, 0);
    return ACRE_OK;
}

static void sparse_use(void) {
    static const struct acre__device_hooks hooks = {.close = sparse_close,
                                                    .trim = sparse_trim,
                                                    .reclaim = sparse_reclaim,
                                                    .stats = acre__sparse_device_stats};
    acre__device_hooks_add(&hooks);
    acre__book_set_range(acre__sparse_describe);
}

/* ---- budgets ---- */

static acre_range_budget *budget_make(acre_device *dev, uint64_t limit_bytes, int is_private) {
    acre_range_budget *budget = calloc(1, sizeof *budget);
    if (!budget) {
        (void)acre__fail(ACRE_E_HOST_MEMORY, "no memory for a budget's record");
        return NULL;
    }
    budget->dev = dev;
    budget->is_private = is_private;
    budget->limit_bytes = limit_bytes ? limit_bytes : UINT64_MAX;
    acre__lock_init(&budget->lock, "budget of ranges", ACRE__RANK_SPARSE);
    acre__live_add(&acre__sparse_budgets, &budget->live, dev);
    return budget;
}

static acre_status budget_create(acre_device *device, uint64_t limit_bytes,
                                 acre_range_budget **budget) {
    if (budget)
        *budget = NULL;
    acre_status status = acre__device_enter(device);
    if (status || (status = acre__not_null(budget, "budget")))
        return status;
    sparse_use();
    *budget = budget_make(device, limit_bytes, 0);
    return *budget ? ACRE_OK : ACRE_E_HOST_MEMORY;
}

acre_status acre_range_budget_create(acre_device *device, uint64_t limit_bytes,
                                     acre_range_budget **budget) {
    return acre__in_call(budget_create(device, limit_bytes, budget), "acre_range_budget_create");
}

/* Removes a budget from the list, unless ranges use it. */
static acre_status budget_take(acre_range_budget *budget) {
    acre_status status = acre__live_check(&acre__sparse_budgets, budget);
    if (status)
        return status;
    acre__lock_take(&budget->lock);
    if (budget->ranges)
        status = acre__fail(ACRE_E_BUSY, "ranges use the budget: destroy them first");
    acre__lock_give(&budget->lock);
    if (status == ACRE_OK)
        (void)acre__live_take(&acre__sparse_budgets, budget, &status);
    return status;
}

acre_status acre_range_budget_destroy(acre_range_budget *budget) {
    acre_status status = acre__enter();
    if (status == ACRE_OK && budget) {
        status = budget_take(budget);
        if (status == ACRE_OK)
            budget_free(budget);
    }
    return acre__in_call(status, "acre_range_budget_destroy");
}

/* ---- creating ranges ---- */

static acre_status options_check(acre_device *dev, uint64_t bytes, acre_range_options *options) {
    size_t unit = acre__chunk_unit(dev, 0);
    if (!unit)
        return acre__fail(ACRE_E_UNSUPPORTED, "%s cannot map device memory", dev->label);
    if (!options->piece_bytes)
        options->piece_bytes = acre__round_up(SPARSE_PIECE_BYTES, unit);
    if (options->piece_bytes % unit || options->piece_bytes > dev->info.total_bytes)
        return acre__fail(ACRE_E_INVALID,
                          "acre_range_options: piece_bytes %llu is not a multiple of %zu, or "
                          "exceeds the memory of %s",
                          (unsigned long long)options->piece_bytes, unit, dev->label);
    if (options->budget && options->limit_bytes)
        return acre__fail(ACRE_E_INVALID,
                          "acre_range_options: limit_bytes must be 0 with a budget, which has its "
                          "own limit");
    if (!bytes)
        return acre__fail(ACRE_E_INVALID, "a range needs at least one piece, 0 bytes requested");
    if (bytes > PTRDIFF_MAX - options->piece_bytes)
        return acre__fail(ACRE_E_ADDRESS_SPACE, "%llu bytes of addresses requested",
                          (unsigned long long)bytes);
    return ACRE_OK;
}

static acre_range *range_make(acre_device *dev, size_t bytes, size_t piece_bytes) {
    acre_range *range = calloc(1, sizeof *range);
    if (!range)
        return NULL;
    range->dev = dev;
    range->piece_bytes = piece_bytes;
    range->piece_count = bytes / piece_bytes;
    range->access.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, dev->device};
    range->access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    /* Large arrays of zeroes cost no memory until they are written. */
    range->pieces = calloc(range->piece_count, sizeof *range->pieces);
    range->committed = calloc(range->piece_count / 64 + 1, sizeof *range->committed);
    if (range->pieces && range->committed)
        return range;
    range_record_free(range);
    return NULL;
}

/* Reserves addresses and enters them into the book. */
static acre_status range_open(acre_range *range, size_t bytes) {
    acre_status status =
        acre__range_take(range->dev, bytes, acre__chunk_unit(range->dev, 0), &range->addresses);
    if (status)
        return status;
    range->block.node.key = range->addresses.at;
    range->block.dev = range->dev;
    range->block.bytes = bytes;
    range->block.kind = ACRE_KIND_DEVICE;
    range->block.source = ACRE__FROM_SPACE;
    range->block.owner = ACRE__OWNED_BY_RANGE;
    range->block.range = range;
    if (acre__book_add(&range->block))
        return ACRE_OK;
    acre__range_give(range->dev, range->addresses.at, bytes);
    return acre__fail(ACRE_E_REGISTERED, "the addresses of the new range are still registered; "
                                         "unregister memory before unmapping it");
}

/* Adds the range to its budget, which the caller keeps in existence, or to a new one. */
static acre_status range_join(acre_range *range, const acre_range_options *options) {
    range->budget =
        options->budget ? options->budget : budget_make(range->dev, options->limit_bytes, 1);
    if (!range->budget)
        return ACRE_E_HOST_MEMORY;
    acre__lock_take(&range->budget->lock);
    range->next = range->budget->ranges;
    range->budget->ranges = range;
    acre__lock_give(&range->budget->lock);
    return ACRE_OK;
}

static acre_status range_create_in(acre_device *device, uint64_t bytes,
                                   const acre_range_options *options, acre_range **range) {
    size_t whole = (size_t)acre__round_up(bytes, options->piece_bytes);
    acre_range *made = range_make(device, whole, (size_t)options->piece_bytes);
    if (!made)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a range of %zu bytes",
                          whole);
    acre_status status = range_open(made, whole);
    if (status) {
        range_record_free(made);
        return status;
    }
    status = range_join(made, options);
    if (status) {
        acre_status ignored;
        (void)acre__book_remove(device, (void *)(uintptr_t)made->addresses.at, ACRE__OWNED_BY_RANGE,
                                &ignored);
        acre__range_give(device, made->addresses.at, whole);
        range_record_free(made);
        return status;
    }
    acre__live_add(&acre__sparse_ranges, &made->live, device);
    (void)acre__origin_add(made, 0, &range_what, device, device->label);
    *range = made;
    return ACRE_OK;
}

static acre_status range_create(acre_device *device, uint64_t bytes,
                                const acre_range_options *options, acre_range **range) {
    acre_range_options wishes;
    if (range)
        *range = NULL;
    acre_status status = acre__device_enter(device);
    if (status || (status = acre__not_null(range, "range")) ||
        (status = acre__options_in(&wishes, sizeof wishes, options, "acre_range_options")) ||
        (status = options_check(device, bytes, &wishes)))
        return status;
    sparse_use();
    if (!wishes.budget)
        return range_create_in(device, bytes, &wishes, range);
    if (!acre__live_use(&acre__sparse_budgets, wishes.budget, &status))
        return status;
    if (wishes.budget->dev != device)
        status = acre__fail(ACRE_E_HANDLE, "the budget belongs to %s, not to %s",
                            wishes.budget->dev->label, device->label);
    else
        status = range_create_in(device, bytes, &wishes, range);
    acre__live_unuse(&acre__sparse_budgets, &wishes.budget->live);
    return status;
}

acre_status acre_range_create(acre_device *device, uint64_t bytes,
                              const acre_range_options *options, acre_range **range) {
    return acre__in_call(range_create(device, bytes, options, range), "acre_range_create");
}

/* ---- destroying ranges ---- */

/* Waits for all work that may use the range. The lock is held, and released meanwhile. */
static acre_status destroy_wait(acre_range *range, acre_stream stream) {
    acre_range_budget *budget = range->budget;
    struct acre__sparse_mark *last = NULL, *mark = acre__sparse_mark_make(budget);
    if (!mark)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of an event");
    acre_status status = acre__uses_record(&mark->uses, stream);
    if (status == ACRE_OK)
        status = acre__sparse_wait_add(budget, mark);
    if (status == ACRE_OK)
        status = acre__sparse_wait_add(budget, range->used);
    for (size_t i = 0; i < range->piece_count && status == ACRE_OK; i++)
        if (range->pieces[i].mark && range->pieces[i].mark != last)
            status = acre__sparse_wait_add(budget, last = range->pieces[i].mark);
    if (status == ACRE_OK)
        status = acre__sparse_wait(budget);
    acre__sparse_mark_drop(budget, mark);
    return status;
}

static acre_status range_destroy(acre_range *range, acre_stream stream) {
    acre_status status = acre__enter();
    if (status || !range || (status = acre__live_check(&acre__sparse_ranges, range)))
        return status;
    if (acre__load(&range->block.range_bytes, memory_order_relaxed) &&
        !acre__device_is_lost(range->dev)) {
        acre__lock_take(&range->budget->lock);
        status = destroy_wait(range, stream);
        acre__lock_give(&range->budget->lock);
        /* A device that was lost meanwhile has no work in flight either. */
        if (status && !acre__device_is_lost(range->dev))
            return status;
    }
    (void)acre__book_remove(range->dev, (void *)(uintptr_t)range->addresses.at,
                            ACRE__OWNED_BY_RANGE, &status);
    if (status || !acre__live_take(&acre__sparse_ranges, range, &status))
        return status;
    (void)acre__origin_free(range);
    range_free(range);
    return ACRE_OK;
}

acre_status acre_range_destroy(acre_range *range, acre_stream stream) {
    return acre__in_call(range_destroy(range, stream), "acre_range_destroy");
}
