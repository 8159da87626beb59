/* Marks: points in stream order, from the events of space/uses.h.
 *
 * The mark of a decommit has one event, on the stream of the call. Its `before` is the mark of the
 * uses recorded for the range until then, which later decommits may share. Unused marks keep their
 * events, so that a decommit creates none in the long run.
 *
 * The host never waits for an event of a mark itself, since other threads may record the event
 * again while it waits without the lock. Instead the waiter, a stream of the budget, waits for the
 * event, and the host waits for the waiter. */
#include <stdlib.h>

#include "base/status.h"
#include "sparse/sparse.h"

struct acre__sparse_mark *acre__sparse_mark_make(acre_range_budget *budget) {
    struct acre__sparse_mark *mark = budget->unused;
    if (mark) {
        budget->unused = mark->next;
    } else {
        mark = calloc(1, sizeof *mark);
        if (!mark)
            return NULL;
        acre__uses_open(&mark->uses, budget->dev);
    }
    mark->next = NULL;
    mark->refs = 1;
    return mark;
}

void acre__sparse_mark_drop(acre_range_budget *budget, struct acre__sparse_mark *mark) {
    while (mark && --mark->refs == 0) {
        struct acre__sparse_mark *before = mark->before;
        acre__uses_forget(&mark->uses);
        mark->before = NULL;
        mark->id = 0;
        mark->next = budget->unused;
        budget->unused = mark;
        mark = before;
    }
}

void acre__sparse_marks_trim(acre_range_budget *budget) {
    while (budget->unused) {
        struct acre__sparse_mark *mark = budget->unused;
        budget->unused = mark->next;
        acre__uses_close(&mark->uses);
        free(mark);
    }
}

/* Forgets the marks before this one if all their work is done. Returns 1 if none is left. */
static int mark_prune(acre_range_budget *budget, struct acre__sparse_mark *mark) {
    for (struct acre__sparse_mark *at = mark->before; at; at = at->before)
        if (!acre__uses_are_done(&at->uses))
            return 0;
    acre__sparse_mark_drop(budget, mark->before);
    mark->before = NULL;
    return 1;
}

int acre__sparse_mark_is_done(acre_range_budget *budget, struct acre__sparse_mark *mark) {
    return !mark || acre__device_is_lost(budget->dev) ||
           (acre__uses_are_done(&mark->uses) && mark_prune(budget, mark));
}

int acre__sparse_mark_is_before(acre_range_budget *budget, struct acre__sparse_mark *mark,
                                unsigned long long id) {
    if (mark && id && mark->id == id && mark_prune(budget, mark))
        return 1;
    return acre__sparse_mark_is_done(budget, mark);
}

acre_status acre__sparse_mark_join(struct acre__sparse_mark *mark, acre_stream stream) {
    acre_status status = ACRE_OK;
    for (; mark && status == ACRE_OK; mark = mark->before)
        status = acre__uses_join(&mark->uses, stream);
    return status;
}

/* ---- waiting on the host ---- */

acre_status acre__sparse_wait_add(acre_range_budget *budget, struct acre__sparse_mark *mark) {
    acre_status status = ACRE_OK;
    if (!budget->waiter)
        status = acre__stream_create_own(
            budget->dev, ACRE_STREAM_NON_BLOCKING | ACRE_STREAM_NO_CAPTURE, &budget->waiter);
    return status ? status : acre__sparse_mark_join(mark, budget->waiter);
}

acre_status acre__sparse_wait(acre_range_budget *budget) {
    struct acre__uses behind;
    acre__uses_open(&behind, budget->dev);
    acre_status status = acre__uses_record(&behind, budget->waiter);
    if (status == ACRE_OK) {
        acre__lock_give(&budget->lock);
        status = acre__uses_wait(&behind);
        acre__lock_take(&budget->lock);
    }
    acre__uses_close(&behind);
    return status;
}
