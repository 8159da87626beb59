/* What others see of ranges: the lists of live ranges and budgets, statistics, the walk, and the
 * book's descriptions of addresses. */
#include "base/atomic.h"
#include "base/options.h"
#include "base/status.h"
#include "sparse/sparse.h"

struct acre__live_list acre__sparse_ranges = ACRE__LIVE_LIST("a range", ACRE__RANK_SPARSES);
struct acre__live_list acre__sparse_budgets =
    ACRE__LIVE_LIST("a budget of ranges", ACRE__RANK_SPARSES);

/* ---- statistics ---- */

void acre__sparse_count(const acre_range *range, acre_range_stats *sum) {
    const acre_range_stats *counts = &range->counts;
    sum->commits += counts->commits;
    sum->decommits += counts->decommits;
    sum->pieces_reused += counts->pieces_reused;
    sum->pieces_mapped += counts->pieces_mapped;
    sum->pieces_moved += counts->pieces_moved;
    sum->pieces_trimmed += counts->pieces_trimmed;
    sum->stream_waits += counts->stream_waits;
    sum->host_waits += counts->host_waits;
}

/* Adds the current values and the counters of a range. The lock is held. */
static void stats_add(const acre_range *range, acre_range_stats *sum) {
    acre__sparse_count(range, sum);
    sum->committed_bytes += acre__load(&range->committed_bytes, memory_order_relaxed);
    sum->idle_bytes += acre__load(&range->idle_bytes, memory_order_relaxed);
    sum->address_bytes += range->addresses.bytes;
    sum->ranges++;
}

static uint64_t stats_limit(const acre_range_budget *budget) {
    return budget->limit_bytes == UINT64_MAX ? 0 : budget->limit_bytes;
}

static acre_status range_get_stats(acre_range *range, acre_range_stats *stats) {
    acre_range_stats now = {0};
    acre_status status = acre__live_check(&acre__sparse_ranges, range);
    if (status || (status = acre__options_out(stats, sizeof now, &now, "acre_range_stats")))
        return status;
    acre__lock_take(&range->budget->lock);
    stats_add(range, &now);
    now.peak_bytes = range->counts.peak_bytes;
    now.limit_bytes = stats_limit(range->budget);
    acre__lock_give(&range->budget->lock);
    return acre__options_out(stats, sizeof now, &now, "acre_range_stats");
}

acre_status acre_range_get_stats(acre_range *range, acre_range_stats *stats) {
    return acre__in_call(range_get_stats(range, stats), "acre_range_get_stats");
}

static acre_status budget_get_stats(acre_range_budget *budget, acre_range_stats *stats) {
    acre_range_stats now = {0};
    acre_status status = acre__live_check(&acre__sparse_budgets, budget);
    if (status || (status = acre__options_out(stats, sizeof now, &now, "acre_range_stats")))
        return status;
    acre__lock_take(&budget->lock);
    now = budget->past;
    for (const acre_range *range = budget->ranges; range; range = range->next)
        stats_add(range, &now);
    now.peak_bytes = budget->peak_bytes;
    now.limit_bytes = stats_limit(budget);
    acre__lock_give(&budget->lock);
    return acre__options_out(stats, sizeof now, &now, "acre_range_stats");
}

acre_status acre_range_budget_get_stats(acre_range_budget *budget, acre_range_stats *stats) {
    return acre__in_call(budget_get_stats(budget, stats), "acre_range_budget_get_stats");
}

void acre__sparse_device_stats(acre_device *dev, acre_device_stats *stats) {
    acre__lock_take(&acre__sparse_ranges.lock);
    const acre_range *range = NULL;
    while ((range = acre__live_next(&acre__sparse_ranges, range))) {
        if (range->dev != dev)
            continue;
        stats->ranges++;
        stats->range_bytes += acre__load(&range->committed_bytes, memory_order_relaxed);
        stats->range_idle_bytes += acre__load(&range->idle_bytes, memory_order_relaxed);
    }
    acre__lock_give(&acre__sparse_ranges.lock);
}

/* ---- the walk ---- */

/* Describes the pieces from `first` on that have the same state; returns the index behind them. */
static size_t part_at(const acre_range *range, size_t first, acre_range_part *part) {
    size_t end = first + 1;
    while (end < range->piece_count && range->pieces[end].state == range->pieces[first].state)
        end++;
    *part = (acre_range_part){
        .struct_size = sizeof *part,
        .address = (void *)(uintptr_t)(range->addresses.at + first * range->piece_bytes),
        .offset = first * range->piece_bytes,
        .bytes = (end - first) * range->piece_bytes,
        .is_committed = range->pieces[first].state == ACRE__SPARSE_COMMITTED};
    return end;
}

static acre_status range_walk(acre_range *range, acre_range_walk_fn fn, void *user) {
    acre_status status = acre__live_check(&acre__sparse_ranges, range);
    if (status || (status = acre__not_null((const void *)(uintptr_t)fn, "fn")))
        return status;
    acre__lock_take(&range->budget->lock);
    for (size_t i = 0; i < range->piece_count;) {
        acre_range_part part;
        int has_memory = range->pieces[i].state != ACRE__SPARSE_EMPTY;
        i = part_at(range, i, &part);
        if (has_memory && fn(user, &part))
            break;
    }
    acre__lock_give(&range->budget->lock);
    return ACRE_OK;
}

acre_status acre_range_walk(acre_range *range, acre_range_walk_fn fn, void *user) {
    return acre__in_call(range_walk(range, fn, user), "acre_range_walk");
}

/* ---- addresses ---- */

static int is_committed(const acre_range *range, size_t index) {
    return acre__load(&range->committed[index / 64], memory_order_relaxed) >> index % 64 & 1;
}

/* 1 if all 64 pieces of a word of bits are committed. */
static int is_word_full(const acre_range *range, size_t index) {
    return acre__load(&range->committed[index / 64], memory_order_relaxed) == UINT64_MAX;
}

/* The index behind the committed pieces from `index` on. */
static size_t run_end(const acre_range *range, size_t index) {
    while (index < range->piece_count && is_committed(range, index))
        index += index % 64 == 0 && is_word_full(range, index) ? 64 : 1;
    return index < range->piece_count ? index : range->piece_count;
}

/* The index of the first of the committed pieces that end before `index`. */
static size_t run_begin(const acre_range *range, size_t index) {
    while (index > 0 && is_committed(range, index - 1))
        index -= index % 64 == 0 && is_word_full(range, index - 1) ? 64 : 1;
    return index;
}

/* Copies call this for every address in a range, so it does not take the budget's lock, which
 * another thread may hold while it maps memory. */
int acre__sparse_describe(const void *p, acre_range *range, acre_mem_info *info) {
    acre_status ignored;
    int is_found = 0;
    if (acre__live_use(&acre__sparse_ranges, range, &ignored)) {
        size_t index = (size_t)(((uintptr_t)p - range->addresses.at) / range->piece_bytes);
        is_found = is_committed(range, index);
        if (is_found) {
            size_t first = run_begin(range, index), end = run_end(range, index);
            info->base = (void *)(uintptr_t)(range->addresses.at + first * range->piece_bytes);
            info->bytes = (end - first) * range->piece_bytes;
        }
        acre__live_unuse(&acre__sparse_ranges, &range->live);
    }
    info->usable_bytes = is_found ? info->bytes : 0;
    return is_found;
}

void *acre_range_data(const acre_range *range) {
    return acre__live_check(&acre__sparse_ranges, range) ? NULL
                                                         : (void *)(uintptr_t)range->addresses.at;
}
