/* The public calls that change a range: commit, decommit, record use, trim. sparse.h explains
 * pieces, marks and the lock.
 *
 * A commit of pieces that are still mapped makes no driver call but two queries about the stream,
 * if the stream is that of the decommit. */
#include "base/status.h"
#include "device/driver_status.h"
#include "space/chunk.h"
#include "space/mapped.h"
#include "sparse/sparse.h"

/* Waits of one commit at its limit: other threads may take the memory that became free. */
enum { COMMIT_WAITS = 64 };

/* ---- arguments ---- */

/* Returns ACRE_E_CAPTURING while the stream is captured, else its id; 0 if the driver has none. */
static acre_status stream_ask(acre_device *dev, acre_stream stream, unsigned long long *id) {
    struct acre__current call;
    acre_status status =
        acre__stream_not_captured(dev, stream,
                                  "the stream is being captured: commit before the capture begins, "
                                  "and decommit after the graph's last launch");
    *id = 0;
    if (status || !ACRE__DRIVER_HAS(dev->drv, cuStreamGetId))
        return status;
    if ((uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD) { /* needs no context */
        CUresult code = dev->drv->cuStreamGetId(stream, id);
        return code ? acre__stream_fail(dev, stream, code, "cuStreamGetId") : ACRE_OK;
    }
    if (acre__device_call(dev, &call))
        call.code = dev->drv->cuStreamGetId(stream, id);
    return acre__stream_done(dev, stream, &call, "cuStreamGetId");
}

/* Converts bytes to pieces. */
static acre_status want_make(acre_range *range, uint64_t offset, uint64_t bytes,
                             struct acre__sparse_want *want) {
    uint64_t all = range->addresses.bytes, unit = range->piece_bytes;
    if (offset % unit || bytes % unit)
        return acre__fail(
            ACRE_E_INVALID, "offset %llu and size %llu must be multiples of the piece size, %llu",
            (unsigned long long)offset, (unsigned long long)bytes, (unsigned long long)unit);
    if (offset > all || bytes > all - offset)
        return acre__fail(ACRE_E_RANGE, "%llu bytes at offset %llu extend past the range's %llu",
                          (unsigned long long)bytes, (unsigned long long)offset,
                          (unsigned long long)all);
    want->range = range;
    want->first = (size_t)(offset / unit);
    want->end = (size_t)((offset + bytes) / unit);
    return ACRE_OK;
}

/* ---- committing. The lock is held. ---- */

/* 1 if no piece needs memory, access or a wait: each is committed, or was decommitted on this very
 * stream and the device is within its limit. */
static int commit_is_easy(const struct acre__sparse_want *want) {
    int is_over = acre__held_over(want->range->dev) != 0;
    for (size_t i = want->first; i < want->end; i++) {
        const struct acre__sparse_piece *piece = &want->range->pieces[i];
        if (piece->state == ACRE__SPARSE_COMMITTED)
            continue;
        if (is_over || piece->state == ACRE__SPARSE_EMPTY || piece->is_bare || !piece->mark ||
            !want->id || piece->mark->id != want->id || piece->mark->before)
            return 0;
    }
    return 1;
}

/* Commits pieces that are all mapped; nothing can fail any more. */
static void commit_end(const struct acre__sparse_want *want) {
    for (size_t i = want->first; i < want->end; i++)
        if (want->range->pieces[i].state == ACRE__SPARSE_IDLE)
            acre__sparse_piece_commit(&want->range->pieces[i]);
    want->range->counts.commits++;
}

/* Makes the stream wait for the work of other streams that still uses the pieces. */
static acre_status commit_join(const struct acre__sparse_want *want) {
    acre_range *range = want->range;
    const struct acre__sparse_mark *last = NULL;
    acre_status status = ACRE_OK;
    int is_waiting = 0;
    for (size_t i = want->first; i < want->end && status == ACRE_OK; i++) {
        struct acre__sparse_mark *mark = range->pieces[i].mark;
        if (range->pieces[i].state != ACRE__SPARSE_IDLE || !mark || mark == last)
            continue;
        last = mark;
        if (acre__sparse_mark_is_before(range->budget, mark, want->id))
            continue;
        status = acre__sparse_mark_join(mark, want->stream);
        is_waiting = 1;
    }
    range->counts.stream_waits += status == ACRE_OK && is_waiting;
    return status;
}

static size_t commit_idle_count(const struct acre__sparse_want *want) {
    size_t count = 0;
    for (size_t i = want->first; i < want->end; i++)
        count += want->range->pieces[i].state == ACRE__SPARSE_IDLE;
    return count;
}

/* While acre holds more than the limit of the device: unmaps idle pieces, and refuses the commit if
 * that is too little, even one of idle pieces alone. */
static acre_status within_device_limit(const struct acre__sparse_want *want) {
    acre_range *range = want->range;
    if (!acre__held_over(range->dev))
        return ACRE_OK;
    (void)acre__sparse_trim(range->budget, NULL, 0);
    return acre__chunk_within_limit(range->dev, (want->end - want->first) * range->piece_bytes);
}

static acre_status commit_once(const struct acre__sparse_want *want) {
    acre_range *range = want->range;
    acre_status status = within_device_limit(want);
    if (status)
        return status;
    size_t reused = commit_idle_count(want);
    status = acre__sparse_fill(want);
    if (status)
        return status;
    status = commit_join(want);
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        for (size_t i = want->first; i < want->end; i++) { /* unmaps what was just mapped */
            struct acre__sparse_piece *piece = &range->pieces[i];
            if (piece->state == ACRE__SPARSE_IDLE && !piece->mark)
                (void)acre__sparse_piece_empty(piece);
        }
        return acre__said_fail(status, &said);
    }
    range->counts.pieces_reused += reused;
    commit_end(want);
    return ACRE_OK;
}

/* Idle pieces outside a request, in bytes. */
struct idle_found {
    uint64_t done, pending;
};

/* Makes the waiter wait for the work that uses as many idle pieces outside the request as the
 * request has, those that were decommitted first. */
static acre_status wait_for_idle(const struct acre__sparse_want *want, struct idle_found *found) {
    acre_range *range = want->range;
    acre_range_budget *budget = range->budget;
    uint64_t bytes = (want->end - want->first) * range->piece_bytes;
    struct acre__sparse_mark *last = NULL; /* the waiter waits for it */
    acre_status status = ACRE_OK;
    for (struct acre__sparse_piece *piece = budget->oldest;
         piece && found->pending < bytes && status == ACRE_OK; piece = piece->next) {
        if (piece->range == range && piece >= range->pieces + want->first &&
            piece < range->pieces + want->end)
            continue;
        if (!last || piece->mark != last) {
            if (acre__sparse_mark_is_done(budget, piece->mark)) {
                found->done += piece->range->piece_bytes;
                continue;
            }
            last = piece->mark;
            status = acre__sparse_wait_add(budget, last);
        }
        found->pending += piece->range->piece_bytes;
    }
    return status;
}

/* Waits on the host for idle pieces, after a refusal at the limit. Returns ACRE_OK if another
 * attempt may succeed: also if the work ended since the last one, or the driver failed to say so.
 * `tries` counts the attempts. */
static acre_status commit_wait(const struct acre__sparse_want *want, int tries) {
    const acre_range_budget *budget = want->range->budget;
    struct idle_found found = {0};
    struct acre__said said;
    uint64_t needed, fixed = acre__sparse_fixed_bytes(want, &needed);
    if (needed > budget->limit_bytes || fixed > budget->limit_bytes - needed)
        return ACRE_E_LIMIT; /* all idle pieces together are too little */
    acre__said_keep(&said);
    acre_status status = wait_for_idle(want, &found);
    if (status == ACRE_OK && found.pending) {
        status = acre__sparse_wait(want->range->budget);
        want->range->counts.host_waits += status == ACRE_OK;
    } else if (status == ACRE_OK && (!found.done || tries > 1)) {
        status = acre__said_fail(ACRE_E_LIMIT, &said);
    }
    return status;
}

/* Retries while memory can be had: at the limit by waiting for idle pieces, and when the device is
 * full by making other ranges and pools release idle memory. */
static acre_status commit_slow(const struct acre__sparse_want *want) {
    acre_range *range = want->range;
    acre_range_budget *budget = range->budget;
    int waits = 0, tries = 0, is_again;
    acre_status status = acre__stream_check(range->dev, want->stream);
    if (status)
        return status;
    do {
        status = commit_once(want);
        is_again = 0;
        if (status == ACRE_E_LIMIT && waits < COMMIT_WAITS) {
            status = commit_wait(want, waits++);
            is_again = status == ACRE_OK;
        } else if (acre__is_no_memory(status)) {
            uint64_t bytes = (want->end - want->first) * range->piece_bytes;
            acre__lock_give(&budget->lock);
            is_again =
                acre__device_reclaim(range->dev, ACRE_KIND_DEVICE, bytes, status, tries++) != 0;
            acre__lock_take(&budget->lock);
        }
    } while (is_again);
    return status;
}

/* Returns ACRE_E_SUSPENDED if the device gets no memory, or if idle pieces are away. */
static acre_status commit_is_here(const acre_range *range, uint64_t offset, uint64_t bytes) {
    acre_status status = acre__device_has_memory(range->dev);
    if (status || !bytes)
        return status;
    acre__gate_enter(ACRE__GATE_MAP);
    status = acre__away_check((const char *)(uintptr_t)range->addresses.at + offset, (size_t)bytes,
                              "range");
    acre__gate_leave(ACRE__GATE_MAP);
    return status;
}

static acre_status range_commit(acre_range *range, uint64_t offset, uint64_t bytes,
                                acre_stream stream) {
    struct acre__sparse_want want = {.stream = stream};
    acre_status status = acre__live_enter(&acre__sparse_ranges, range);
    if (status || (status = want_make(range, offset, bytes, &want)) ||
        (status = stream_ask(range->dev, stream, &want.id)) ||
        (status = commit_is_here(range, offset, bytes)))
        return status;
    acre__lock_take(&range->budget->lock);
    if (commit_is_easy(&want)) {
        range->counts.pieces_reused += commit_idle_count(&want);
        commit_end(&want);
    } else {
        status = commit_slow(&want);
    }
    acre__lock_give(&range->budget->lock);
    return status;
}

acre_status acre_range_commit(acre_range *range, uint64_t offset, uint64_t bytes,
                              acre_stream stream) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = range_commit(range, offset, bytes, stream);
    while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_range_commit");
}

/* ---- decommitting ---- */

/* Makes the mark of a decommit. On a lost device no work runs: *mark is NULL. The lock is held. */
static acre_status decommit_mark(const struct acre__sparse_want *want,
                                 struct acre__sparse_mark **mark) {
    acre_range *range = want->range;
    *mark = NULL;
    if (acre__device_is_lost(range->dev))
        return ACRE_OK;
    struct acre__sparse_mark *made = acre__sparse_mark_make(range->budget);
    if (!made)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of an event");
    acre_status status = acre__uses_record(&made->uses, want->stream);
    if (status) {
        acre__sparse_mark_drop(range->budget, made);
        return acre__device_is_lost(range->dev) ? ACRE_OK : status;
    }
    made->id = want->id;
    made->before = range->used;
    if (range->used)
        range->used->refs++;
    *mark = made;
    return ACRE_OK;
}

/* The lock is held. */
static acre_status decommit(const struct acre__sparse_want *want) {
    acre_range *range = want->range;
    struct acre__sparse_mark *mark = NULL;
    size_t committed = 0;
    for (size_t i = want->first; i < want->end; i++)
        committed += range->pieces[i].state == ACRE__SPARSE_COMMITTED;
    acre_status status = committed ? decommit_mark(want, &mark) : ACRE_OK;
    if (status)
        return status;
    /* The last one first: idle pieces are unmapped in this order, and what is committed next is
     * likely to begin where these pieces began. */
    for (size_t i = want->end; i > want->first; i--)
        if (range->pieces[i - 1].state == ACRE__SPARSE_COMMITTED)
            acre__sparse_piece_decommit(&range->pieces[i - 1], mark);
    acre__sparse_mark_drop(range->budget, mark); /* each piece has its own reference */
    range->counts.decommits++;
    return ACRE_OK;
}

static acre_status range_decommit(acre_range *range, uint64_t offset, uint64_t bytes,
                                  acre_stream stream) {
    struct acre__sparse_want want = {.stream = stream};
    acre_status status = acre__live_check(&acre__sparse_ranges, range);
    if (status || (status = want_make(range, offset, bytes, &want)))
        return status;
    if (!acre__device_is_lost(range->dev) && (status = stream_ask(range->dev, stream, &want.id)) &&
        !acre__device_is_lost(range->dev))
        return status;
    acre__lock_take(&range->budget->lock);
    status = decommit(&want);
    acre__lock_give(&range->budget->lock);
    return status;
}

acre_status acre_range_decommit(acre_range *range, uint64_t offset, uint64_t bytes,
                                acre_stream stream) {
    return acre__in_call(range_decommit(range, offset, bytes, stream), "acre_range_decommit");
}

/* ---- uses ---- */

/* Records into the range's mark if no decommit shares it, else into a new one, which has the old
 * one before it. The lock is held. */
static acre_status record_use(acre_range *range, acre_stream stream) {
    acre_range_budget *budget = range->budget;
    if (range->used && range->used->refs > 1 && acre__sparse_mark_is_done(budget, range->used)) {
        acre__sparse_mark_drop(budget, range->used);
        range->used = NULL;
    }
    if (range->used && range->used->refs == 1)
        return acre__uses_record(&range->used->uses, stream);
    struct acre__sparse_mark *mark = acre__sparse_mark_make(budget);
    if (!mark)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of an event");
    acre_status status = acre__uses_record(&mark->uses, stream);
    if (status) {
        acre__sparse_mark_drop(budget, mark);
        return status;
    }
    mark->before = range->used; /* takes over the range's reference */
    range->used = mark;
    return ACRE_OK;
}

static acre_status range_record_use(acre_range *range, acre_stream stream) {
    acre_status status = acre__live_enter(&acre__sparse_ranges, range);
    if (status)
        return status;
    acre__lock_take(&range->budget->lock);
    status = record_use(range, stream);
    acre__lock_give(&range->budget->lock);
    return status;
}

acre_status acre_range_record_use(acre_range *range, acre_stream stream) {
    return acre__in_call(range_record_use(range, stream), "acre_range_record_use");
}

/* ---- trimming and limits ---- */

static acre_status range_trim(acre_range *range, uint64_t keep_bytes) {
    acre_status status = acre__live_enter(&acre__sparse_ranges, range);
    if (status)
        return status;
    acre__lock_take(&range->budget->lock);
    (void)acre__sparse_trim(range->budget, range, keep_bytes);
    acre__lock_give(&range->budget->lock);
    return ACRE_OK;
}

acre_status acre_range_trim(acre_range *range, uint64_t keep_bytes) {
    return acre__in_call(range_trim(range, keep_bytes), "acre_range_trim");
}

/* Trims a budget, after changing its limit unless `limit` is NULL. */
static acre_status budget_trim(acre_range_budget *budget, uint64_t keep_bytes,
                               const uint64_t *limit) {
    acre_status status = acre__live_enter(&acre__sparse_budgets, budget);
    if (status)
        return status;
    acre__lock_take(&budget->lock);
    if (limit)
        budget->limit_bytes = *limit;
    if (budget->held_bytes > keep_bytes)
        (void)acre__sparse_trim(budget, NULL, keep_bytes);
    acre__lock_give(&budget->lock);
    return ACRE_OK;
}

acre_status acre_range_budget_trim(acre_range_budget *budget, uint64_t keep_bytes) {
    return acre__in_call(budget_trim(budget, keep_bytes, NULL), "acre_range_budget_trim");
}

acre_status acre_range_budget_set_limit(acre_range_budget *budget, uint64_t limit_bytes) {
    uint64_t limit = limit_bytes ? limit_bytes : UINT64_MAX;
    return acre__in_call(budget_trim(budget, limit, &limit), "acre_range_budget_set_limit");
}
