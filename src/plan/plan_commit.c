/* Places the requests of a plan: see plan.h.
 *
 * A call first places everything, then waits for the previous round, and only then writes
 * addresses. A call that fails has therefore written none: it undoes its placements in reverse
 * order and frees the memory that it allocated. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/status.h"
#include "plan/place.h"
#include "plan/plan.h"
#include "space/steps.h"
#include "watch/origin.h"

/* Default budget of search nodes for a commit into memory of a given size: about a second, because
 * other threads wait for the plan's lock. */
#define COMMIT_BUDGET (UINT64_C(1) << 20)

/* ---- waiting ---- */

acre_status acre__plan_wait(acre_plan *plan) {
    acre_status status = ACRE_OK;
    if (!plan->must_wait)
        return ACRE_OK;
    if (plan->must_wait_all)
        status = acre__step_quiesce_users(plan->dev);
    if (status == ACRE_OK)
        status = acre__uses_wait(&plan->uses);
    if (status)
        return status;
    plan->must_wait = plan->must_wait_all = 0;
    /* Earlier loops have left their events; one is enough for the next loop. */
    acre__uses_lend(&plan->uses, &plan->loop_uses);
    acre__uses_close(&plan->uses);
    plan->waits++;
    return ACRE_OK;
}

/* ---- requests for all steps ---- */

/* The placements of a call, kept or undone as a whole. */
struct placing {
    acre_plan *plan;
    struct acre__plan_wish **heads; /* of the waiting requests, in the order of placement */
    struct acre__plan_wish *one;    /* used instead of an array for a single request */
    size_t count, taken;
    struct acre__plan_segment *last[ACRE__PLAN_PLACES]; /* segments behind these are new */
};

/* Fixed requests first, because others must not overlap them; then the largest alignments, which
 * leaves little padding; then call order. */
static int heads_compare(const void *a, const void *b) {
    const struct acre__plan_wish *x = *(struct acre__plan_wish *const *)a;
    const struct acre__plan_wish *y = *(struct acre__plan_wish *const *)b;
    int fixed_x = (x->flags & ACRE_WISH_FIXED) != 0, fixed_y = (y->flags & ACRE_WISH_FIXED) != 0;
    if (fixed_x != fixed_y)
        return fixed_y - fixed_x;
    if (x->piece.alignment != y->piece.alignment)
        return x->piece.alignment < y->piece.alignment ? 1 : -1;
    return x->number < y->number ? -1 : 1;
}

static acre_status placing_begin(struct placing *placing, acre_plan *plan) {
    *placing = (struct placing){.plan = plan, .count = plan->waiting.count};
    for (uint32_t i = 0; i < ACRE__PLAN_PLACES; i++)
        placing->last[i] = acre__plan_arena_last(&plan->arenas[i]);
    placing->one = plan->waiting.first;
    placing->heads = &placing->one;
    if (placing->count <= 1)
        return ACRE_OK;
    placing->heads = malloc(placing->count * sizeof(void *));
    if (!placing->heads)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory to sort %zu requests", placing->count);
    size_t i = 0;
    for (struct acre__plan_wish *wish = plan->waiting.first; wish; wish = wish->wait)
        placing->heads[i++] = wish;
    qsort(placing->heads, placing->count, sizeof(void *), heads_compare);
    return ACRE_OK;
}

static void placing_free(struct placing *placing) {
    if (placing->heads != &placing->one)
        free(placing->heads);
}

/* Undoes all placements; keeps the detail of the failure. */
static void placing_undo(struct placing *placing) {
    struct acre__said said;
    acre__said_keep(&said);
    while (placing->taken)
        acre__plan_arena_untake(&placing->heads[--placing->taken]->piece);
    for (uint32_t i = 0; i < ACRE__PLAN_PLACES; i++)
        acre__plan_arena_cut(&placing->plan->arenas[i], placing->last[i]);
    placing_free(placing);
    (void)acre__said_fail(ACRE_E_INVALID, &said);
}

/* Returns the bytes that the requests from `from` on need in this arena: behind the last piece of
 * its only segment, or, where memory is allocated as needed, in a new segment. */
static uint64_t placing_desired(const struct placing *placing, size_t from,
                                const struct acre__plan_arena *arena, uint64_t *alignment) {
    static const struct acre__plan_segment empty;
    const struct acre__plan_segment *segment = arena->segments;
    if (arena->size == ACRE__PLAN_NEEDED)
        segment = &empty;
    uint64_t end = segment->cursor;
    for (size_t i = from; i < placing->count; i++) {
        const struct acre__plan_piece *piece = &placing->heads[i]->piece;
        if (placing->heads[i]->place != arena->place)
            continue;
        end = acre__plan_segment_would_end(arena, segment, end, piece->bytes, piece->alignment);
        if (end > ACRE__PLAN_BYTES_MOST) /* too large; further sums could wrap around */
            return end;
        *alignment = piece->alignment > *alignment ? piece->alignment : *alignment;
    }
    return end > segment->end ? end : segment->end;
}

static acre_status placing_one(struct placing *placing, size_t index) {
    struct acre__plan_wish *wish = placing->heads[index];
    struct acre__plan_arena *arena = &placing->plan->arenas[wish->place];
    acre_status status = acre__plan_arena_ready(arena);
    if (status)
        return status;
    if (wish->flags & ACRE_WISH_FIXED)
        return acre__plan_arena_take_at(arena, &wish->piece, wish->fixed)
                   ? ACRE_OK
                   : acre__plan_not_clear(arena, &wish->piece, wish->fixed);
    if (acre__plan_arena_take(arena, &wish->piece))
        return ACRE_OK;
    uint64_t alignment = ACRE__PLAN_GRAIN;
    uint64_t desired = placing_desired(placing, index, arena, &alignment);
    int ahead = !(placing->plan->flags & ACRE_PLAN_DEFERRED);
    return acre__plan_arena_grow(arena, &wish->piece, desired, alignment, ahead);
}

/* Places all waiting requests. After a failure nothing is placed. */
static acre_status placing_run(struct placing *placing, acre_plan *plan) {
    acre_status status = placing_begin(placing, plan);
    if (status)
        return status;
    while (status == ACRE_OK && placing->taken < placing->count) {
        status = placing_one(placing, placing->taken);
        placing->taken += status == ACRE_OK;
    }
    if (status)
        placing_undo(placing);
    return status;
}

/* Writes the addresses of a request and of those adjacent to it. */
static void wish_write(acre_plan *plan, struct acre__plan_wish *head) {
    for (struct acre__plan_wish *wish = head; wish; wish = wish->with) {
        uint64_t at = head->piece.segment->at + head->piece.node.key + wish->inner;
        *wish->out = (void *)(uintptr_t)at;
        wish->is_placed = 1;
        plan->waiting_count--;
    }
}

static void placing_end(struct placing *placing) {
    for (size_t i = 0; i < placing->count; i++)
        wish_write(placing->plan, placing->heads[i]);
    placing->plan->waiting = (struct acre__plan_queue){0};
    placing_free(placing);
}

acre_status acre__plan_satisfy(acre_plan *plan) {
    struct placing placing;
    if (!plan->waiting.count)
        return ACRE_OK;
    acre_status status = placing_run(&placing, plan);
    if (status)
        return status;
    status = acre__plan_wait(plan);
    if (status)
        placing_undo(&placing);
    else
        placing_end(&placing);
    return status;
}

/* ---- requests for some steps ---- */

acre_status acre__plan_placer_fail(int error) {
    if (error == -ENOMEM)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory to place the requests");
    return acre__fail(ACRE_E_INVALID, "the requests cannot be placed: %s",
                      error == -EOVERFLOW ? "they are too large or too many"
                                          : "requests with fixed offsets overlap");
}

/* The requests of one place as the placer sees them. Existing pieces come first, as fixed
 * buffers. */
struct timed {
    acre_plan *plan;
    struct acre__plan_arena *arena;
    struct acre__plan_segment *segment; /* their segment; NULL: to be allocated */
    struct acre__place_buffer *buffers;
    size_t fixed_count, count; /* fixed buffers of pieces; requests */
    uint64_t shift;            /* from offsets in the segment to the placer's, which are aligned */
    uint64_t alignment;        /* the largest alignment */
    int64_t begin, end;        /* first step, and the one after the last */
    uint64_t least;            /* bytes of the smallest request */
    uint64_t bound;            /* lower bound for the segment's contents */
    struct acre__place_result result;
};

/* Counts the requests of the place and computes their common bounds. */
static void timed_measure(struct timed *timed) {
    timed->begin = INT64_MAX;
    timed->least = UINT64_MAX;
    timed->alignment = ACRE__PLAN_GRAIN;
    for (const struct acre__plan_wish *wish = timed->plan->timed.first; wish; wish = wish->wait) {
        if (wish->place != timed->arena->place)
            continue;
        const struct acre__plan_piece *piece = &wish->piece;
        int64_t first = (int64_t)wish->first, behind = (int64_t)wish->last + 1;
        timed->count++;
        timed->begin = first < timed->begin ? first : timed->begin;
        timed->end = behind > timed->end ? behind : timed->end;
        timed->least = piece->bytes < timed->least ? piece->bytes : timed->least;
        if (piece->alignment > timed->alignment)
            timed->alignment = piece->alignment;
    }
}

static void timed_fix(struct timed *timed, uint64_t from, uint64_t to) {
    timed->buffers[timed->fixed_count++] = (struct acre__place_buffer){.size = to - from,
                                                                       .lower = timed->begin,
                                                                       .upper = timed->end,
                                                                       .offset = from,
                                                                       .is_fixed = 1};
}

/* Adds the segment's pieces as fixed buffers that live for all steps. Pieces whose gap no request
 * fits into are merged, which leaves few buffers. */
static void timed_add_pieces(struct timed *timed) {
    uint64_t from = 0, to = timed->shift;
    struct acre__node *node = acre__tree_first(&timed->segment->pieces);
    for (; node; node = acre__tree_next(&timed->segment->pieces, node)) {
        const struct acre__plan_piece *piece =
            acre__tree_entry(node, struct acre__plan_piece, node);
        uint64_t begin = node->key + timed->shift;
        if (begin - to >= timed->least) {
            if (to > from)
                timed_fix(timed, from, to);
            from = begin;
        }
        to = begin + piece->bytes;
    }
    if (to > from)
        timed_fix(timed, from, to);
}

static void timed_add_wishes(struct timed *timed) {
    struct acre__place_buffer *buffer = timed->buffers + timed->fixed_count;
    for (const struct acre__plan_wish *wish = timed->plan->timed.first; wish; wish = wish->wait) {
        if (wish->place != timed->arena->place)
            continue;
        int is_fixed = (wish->flags & ACRE_WISH_FIXED) != 0;
        *buffer++ = (struct acre__place_buffer){.size = wish->piece.bytes,
                                                .align = is_fixed ? 1 : wish->piece.alignment,
                                                .lower = (int64_t)wish->first,
                                                .upper = (int64_t)wish->last + 1,
                                                .offset = is_fixed ? wish->fixed + timed->shift : 0,
                                                .is_fixed = is_fixed};
    }
}

/* Runs the placer for offsets in a segment, or, if it is NULL, in as few bytes as possible. */
static acre_status timed_place(struct timed *timed, struct acre__plan_segment *segment) {
    size_t wishes = timed->count;
    struct acre__place_options options = {.budget = timed->plan->budget};
    if (segment && !options.budget)
        options.budget = COMMIT_BUDGET;
    timed->segment = segment;
    timed->fixed_count = 0;
    timed->shift = 0;
    if (segment) {
        timed->shift = segment->at & (timed->alignment - 1);
        options.capacity = segment->bytes + timed->shift;
    }
    free(timed->buffers);
    size_t room = wishes + 1 + (segment ? segment->pieces.count : 0);
    timed->buffers = calloc(room, sizeof *timed->buffers);
    if (!timed->buffers)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory to place %zu requests", wishes);
    if (segment)
        timed_add_pieces(timed);
    timed_add_wishes(timed);
    int error = acre__place(timed->buffers, timed->fixed_count + wishes, &options, &timed->result);
    if (error)
        return acre__plan_placer_fail(error);
    timed->plan->nodes += timed->result.nodes;
    timed->bound = timed->result.lower_bound - timed->shift;
    return ACRE_OK;
}

/* Returns the segment with the most room at its end; NULL if there is none. */
static struct acre__plan_segment *arena_roomiest(const struct acre__plan_arena *arena) {
    struct acre__plan_segment *best = arena->segments, *segment = best;
    for (; segment; segment = segment->next)
        if (segment->bytes - segment->end > best->bytes - best->end)
            best = segment;
    return best;
}

/* Puts the requests behind the contents of a segment; returns 0 if they do not fit. */
static int timed_goes_behind(struct timed *timed, struct acre__plan_segment *segment) {
    uint64_t at = acre__round_up(segment->at + segment->end, timed->alignment);
    if (at + timed->result.bytes > segment->at + segment->bytes)
        return 0;
    timed->segment = segment;
    timed->shift = segment->at - at; /* the placer's offset 0 is at this address */
    return 1;
}

/* For memory that is allocated as needed: puts the requests behind the contents of a segment, or
 * into a new segment of the size that the placer found. */
static acre_status timed_append(struct timed *timed) {
    acre_status status = timed_place(timed, NULL);
    if (status)
        return status;
    struct acre__plan_segment *segment = arena_roomiest(timed->arena);
    if (segment && timed_goes_behind(timed, segment))
        return ACRE_OK;
    status = acre__plan_arena_more(timed->arena, timed->result.bytes, timed->alignment, 0);
    if (status == ACRE_OK)
        (void)timed_goes_behind(timed, acre__plan_arena_last(timed->arena));
    return status;
}

static acre_status timed_run(struct timed *timed) {
    timed_measure(timed);
    if (!timed->count)
        return ACRE_OK;
    if (timed->arena->size == ACRE__PLAN_NEEDED)
        return timed_append(timed);
    acre_status status = acre__plan_arena_ready(timed->arena);
    if (status == ACRE_OK)
        status = timed_place(timed, timed->arena->segments);
    if (status || timed->result.is_fitting)
        return status;
    return acre__plan_not_enough(timed->arena, timed->result.bytes - timed->shift);
}

static void timed_write(struct timed *timed) {
    struct acre__plan_segment *segment = timed->segment;
    if (!timed->buffers) /* no requests */
        return;
    const struct acre__place_buffer *buffer = timed->buffers + timed->fixed_count;
    for (struct acre__plan_wish *wish = timed->plan->timed.first; wish; wish = wish->wait) {
        if (wish->place != timed->arena->place)
            continue;
        wish->piece.segment = segment;
        wish->piece.node.key = buffer->offset - timed->shift;
        wish_write(timed->plan, wish);
        uint64_t end = wish->piece.node.key + wish->piece.bytes;
        segment->end = end > segment->end ? end : segment->end;
        buffer++;
    }
    segment->cursor = segment->end; /* later pieces, of a loop, go behind all of them */
}

/* ---- commit ---- */

static void commit_log(const acre_plan *plan) {
    const struct acre__plan_arena *device = &plan->arenas[ACRE_PLACE_DEVICE];
    const struct acre__plan_arena *host = &plan->arenas[ACRE_PLACE_HOST];
    acre__origin_resize(plan, acre__plan_held(plan, ACRE_PLACE_DEVICE) +
                                  acre__plan_held(plan, ACRE_PLACE_HOST));
    acre__log(ACRE_LOG_INFO, "plan",
              "plan: committed, %llu of %llu MB on device, %llu of %llu MB on host",
              acre__plan_in_mb(acre__plan_arena_used(device)), acre__plan_in_mb(device->held),
              acre__plan_in_mb(acre__plan_arena_used(host)), acre__plan_in_mb(host->held));
}

static void commit_end(acre_plan *plan, struct timed *timed) {
    plan->is_optimal = 1;
    for (uint32_t i = 0; i < ACRE__PLAN_PLACES; i++) {
        timed_write(&timed[i]);
        plan->bound[i] = timed[i].bound;
        plan->is_optimal &= !timed[i].count || timed[i].result.is_optimal;
    }
    plan->timed = (struct acre__plan_queue){0};
    plan->is_committed = 1;
    commit_log(plan);
}

acre_status acre__plan_commit(acre_plan *plan) {
    struct placing placing;
    struct timed timed[ACRE__PLAN_PLACES];
    acre_status status = placing_run(&placing, plan);
    if (status)
        return status;
    for (uint32_t i = 0; i < ACRE__PLAN_PLACES; i++) {
        timed[i] = (struct timed){.plan = plan, .arena = &plan->arenas[i]};
        if (status == ACRE_OK)
            status = timed_run(&timed[i]);
    }
    if (status == ACRE_OK)
        status = acre__plan_wait(plan);
    if (status) {
        placing_undo(&placing);
    } else {
        placing_end(&placing);
        commit_end(plan, timed);
    }
    for (uint32_t i = 0; i < ACRE__PLAN_PLACES; i++)
        free(timed[i].buffers);
    return status;
}
