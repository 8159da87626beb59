/* The calls that declare, satisfy, commit and release requests. A call checks everything first,
 * then enters its requests under the plan's lock, and removes them again if they cannot be
 * satisfied. */
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/status.h"
#include "plan/plan.h"
#include "space/mapped.h"

enum { WISH_NAME_BYTES = 64 };

/* ---- checks ---- */

static int is_power_of_two(uint64_t value) {
    return value && !(value & (value - 1));
}

static acre_status wish_too_large(const acre_plan_wish *wish, uint64_t bytes) {
    return acre__fail(wish->place == ACRE_PLACE_HOST ? ACRE_E_HOST_MEMORY : ACRE_E_DEVICE_MEMORY,
                      "plan request: %llu bytes are more than any memory has",
                      (unsigned long long)bytes);
}

static acre_status wish_check(const acre_plan_wish *wish) {
    if (!wish->p)
        return acre__fail(ACRE_E_NULL, "plan request: p is NULL");
    if (wish->place >= ACRE__PLAN_PLACES)
        return acre__fail(ACRE_E_INVALID, "plan request: invalid place %u", wish->place);
    if (wish->bytes > ACRE__PLAN_BYTES_MOST)
        return wish_too_large(wish, wish->bytes);
    if (wish->alignment &&
        (!is_power_of_two(wish->alignment) || wish->alignment > ACRE__PLAN_ALIGN_MOST))
        return acre__fail(ACRE_E_INVALID,
                          "plan request: alignment %llu is not a power of two up to 1 GiB",
                          (unsigned long long)wish->alignment);
    if (wish->flags & ~(ACRE_WISH_STEPS | ACRE_WISH_FIXED))
        return acre__fail(ACRE_E_INVALID, "plan request: unknown flags 0x%x", wish->flags);
    if (wish->flags & ACRE_WISH_STEPS &&
        (wish->first_step > wish->last_step || wish->last_step >= INT64_MAX))
        return acre__fail(ACRE_E_INVALID, "plan request: invalid steps %llu to %llu",
                          (unsigned long long)wish->first_step,
                          (unsigned long long)wish->last_step);
    if (wish->flags & ACRE_WISH_FIXED &&
        (wish->offset % ACRE__PLAN_GRAIN || wish->offset > ACRE__PLAN_BYTES_MOST))
        return acre__fail(ACRE_E_INVALID,
                          "plan request: offset %llu is not a multiple of 256, or too large",
                          (unsigned long long)wish->offset);
    return ACRE_OK;
}

/* Checks a request against the previous one of its adjacent group. */
static acre_status wish_check_adjacent(const acre_plan_wish *wish, const acre_plan_wish *before) {
    int is_alike = wish->place == before->place &&
                   (wish->flags & ACRE_WISH_STEPS) == (before->flags & ACRE_WISH_STEPS) &&
                   (!(wish->flags & ACRE_WISH_STEPS) || (wish->first_step == before->first_step &&
                                                         wish->last_step == before->last_step));
    if (!is_alike)
        return acre__fail(ACRE_E_INVALID,
                          "plan request: adjacent requests must have the same place and steps");
    if (wish->flags & ACRE_WISH_FIXED)
        return acre__fail(
            ACRE_E_INVALID,
            "plan request: only the first of adjacent requests may have a fixed offset");
    return ACRE_OK;
}

/* ---- entering ---- */

/* The requests of a call, linked by `next`. */
struct batch {
    struct acre__plan_wish *first, *last;
    size_t count;
};

static void batch_free(struct batch *batch) {
    while (batch->first) {
        struct acre__plan_wish *next = batch->first->next;
        free(batch->first);
        batch->first = next;
    }
}

/* Sets up a request without a group. */
static void wish_alone(struct acre__plan_wish *wish) {
    uint64_t alignment = wish->alignment;
    wish->head = wish;
    wish->piece.alignment = alignment < ACRE__PLAN_GRAIN ? ACRE__PLAN_GRAIN : alignment;
    wish->piece.bytes = acre__round_up(wish->bytes, ACRE__PLAN_GRAIN);
}

/* Puts a request behind another one of its group. */
static void wish_behind(struct acre__plan_wish *wish, struct acre__plan_wish *before) {
    struct acre__plan_piece *piece = &before->head->piece;
    uint64_t alignment = wish->alignment ? wish->alignment : ACRE__PLAN_GRAIN;
    wish->head = before->head;
    wish->inner = acre__round_up(before->inner + before->bytes, alignment);
    before->with = wish;
    piece->alignment = alignment > piece->alignment ? alignment : piece->alignment;
    piece->bytes = acre__round_up(wish->inner + wish->bytes, ACRE__PLAN_GRAIN);
}

static struct acre__plan_wish *wish_make(const acre_plan_wish *asked) {
    size_t length = asked->name ? strnlen(asked->name, WISH_NAME_BYTES - 1) : 0;
    struct acre__plan_wish *wish = calloc(1, sizeof *wish + length + 1);
    if (!wish)
        return NULL;
    if (length)
        memcpy(wish->name, asked->name, length);
    wish->out = asked->p;
    wish->bytes = asked->bytes;
    wish->alignment = asked->alignment;
    wish->place = asked->place;
    wish->flags = asked->flags;
    wish->fixed = asked->offset;
    if (asked->flags & ACRE_WISH_STEPS) {
        wish->first = asked->first_step;
        wish->last = asked->last_step;
    }
    return wish;
}

static acre_status batch_add(struct batch *batch, const acre_plan_wish *asked, int is_adjacent) {
    struct acre__plan_wish *wish = wish_make(asked);
    if (!wish)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for a request's record");
    if (is_adjacent && batch->last)
        wish_behind(wish, batch->last);
    else
        wish_alone(wish);
    *(batch->last ? &batch->last->next : &batch->first) = wish;
    batch->last = wish;
    batch->count++;
    uint64_t bytes = wish->head->piece.bytes;
    return bytes <= ACRE__PLAN_BYTES_MOST ? ACRE_OK : wish_too_large(asked, bytes);
}

static void queue_add(struct acre__plan_queue *queue, struct acre__plan_wish *wish) {
    wish->wait = NULL;
    *(queue->last ? &queue->last->wait : &queue->first) = wish;
    queue->last = wish;
    queue->count++;
}

/* Removes everything behind the first `count` entries. */
static void queue_cut(struct acre__plan_queue *queue, struct acre__plan_wish *last, size_t count) {
    queue->last = last;
    queue->count = count;
    *(last ? &last->wait : &queue->first) = NULL;
}

/* 1 if `b` is fixed and overlaps the fixed request `a` in bytes and steps. A request without steps
 * lives for all of them. */
static int wish_meets(const struct acre__plan_wish *a, const struct acre__plan_wish *b) {
    int is_timed = a->flags & b->flags & ACRE_WISH_STEPS;
    return b->flags & ACRE_WISH_FIXED && a->place == b->place &&
           a->fixed < b->fixed + b->piece.bytes && b->fixed < a->fixed + a->piece.bytes &&
           (!is_timed || (a->first <= b->last && b->first <= a->last));
}

static int queue_meets(const struct acre__plan_queue *queue, const struct acre__plan_wish *wish) {
    const struct acre__plan_wish *other = queue->first;
    while (other && !wish_meets(wish, other))
        other = other->wait;
    return other != NULL;
}

/* Checks that a fixed request lies in existing memory and overlaps neither a placed nor a waiting
 * request. */
static acre_status wish_keep_clear(acre_plan *plan, struct acre__plan_wish *wish) {
    struct acre__plan_arena *arena = &plan->arenas[wish->place];
    acre_status status = acre__plan_arena_ready(arena);
    if (status)
        return status;
    struct acre__plan_kept *kept = arena->kept;
    arena->kept = NULL; /* kept ranges are in a queue, and may share bytes in other steps */
    int is_clear = acre__plan_arena_take_at(arena, &wish->piece, wish->fixed);
    if (is_clear)
        acre__plan_arena_untake(&wish->piece);
    arena->kept = kept;
    if (!is_clear || queue_meets(&plan->timed, wish) || queue_meets(&plan->waiting, wish))
        return acre__plan_not_clear(arena, &wish->piece, wish->fixed);
    if (wish->flags & ACRE_WISH_STEPS) { /* pieces placed before the commit keep clear of it */
        wish->kept = (struct acre__plan_kept){arena->kept, wish->fixed, wish->piece.bytes};
        arena->kept = &wish->kept;
    }
    return ACRE_OK;
}

/* Checks that can refuse a request before anything is placed. */
static acre_status wish_admit(acre_plan *plan, struct acre__plan_wish *head) {
    struct acre__plan_arena *arena = &plan->arenas[head->place];
    int is_fixed = (head->flags & ACRE_WISH_FIXED) != 0;
    if (arena->size != ACRE__PLAN_NEEDED && head->piece.bytes > arena->bytes)
        return acre__plan_not_enough(arena, acre__plan_arena_used(arena) + head->piece.bytes);
    if (is_fixed && arena->size == ACRE__PLAN_NEEDED)
        return acre__fail(
            ACRE_E_INVALID,
            "plan request: a fixed offset in %s memory does not work with ACRE_PLAN_AS_NEEDED",
            acre__plan_place_name(head->place));
    return is_fixed ? wish_keep_clear(plan, head) : ACRE_OK;
}

static void batch_count(acre_plan *plan, struct batch *batch) {
    for (struct acre__plan_wish *wish = batch->first; wish; wish = wish->next)
        wish->number = plan->wish_count++;
    plan->waiting_count += batch->count;
}

/* Enters the requests, and satisfies them unless the plan is deferred. The lock is held. */
static acre_status batch_want(acre_plan *plan, struct batch *batch) {
    struct acre__plan_queue waiting = plan->waiting, timed = plan->timed;
    struct acre__plan_kept *kept[] = {plan->arenas[0].kept, plan->arenas[1].kept};
    struct acre__plan_segment *last[] = {acre__plan_arena_last(&plan->arenas[0]),
                                         acre__plan_arena_last(&plan->arenas[1])};
    size_t wish_count = plan->wish_count, waiting_count = plan->waiting_count;
    acre_status status = ACRE_OK;
    batch_count(plan, batch);
    for (struct acre__plan_wish *wish = batch->first; status == ACRE_OK && wish;
         wish = wish->next) {
        if (wish->head != wish)
            continue;
        status = wish_admit(plan, wish);
        if (status == ACRE_OK)
            queue_add(wish->flags & ACRE_WISH_STEPS ? &plan->timed : &plan->waiting, wish);
    }
    if (status == ACRE_OK && !(plan->flags & ACRE_PLAN_DEFERRED))
        status = acre__plan_satisfy(plan);
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        queue_cut(&plan->waiting, waiting.last, waiting.count);
        queue_cut(&plan->timed, timed.last, timed.count);
        for (int i = 0; i < ACRE__PLAN_PLACES; i++) {
            plan->arenas[i].kept = kept[i];
            acre__plan_arena_cut(&plan->arenas[i], last[i]);
        }
        plan->wish_count = wish_count;
        plan->waiting_count = waiting_count;
        return acre__said_fail(status, &said);
    }
    *(plan->last_wish ? &plan->last_wish->next : &plan->wishes) = batch->first;
    plan->last_wish = batch->last;
    batch->first = NULL; /* the plan owns them now */
    return ACRE_OK;
}

static acre_status plan_not_committed(const acre_plan *plan) {
    return plan->is_committed
               ? acre__fail(ACRE_E_COMMITTED,
                            "the plan is committed: acre_plan_release begins the next round")
               : ACRE_OK;
}

/* ---- declaring ---- */

/* Reads the index-th request of an array. All its requests have the struct_size of the first. */
static acre_status wish_read(const acre_plan_wish *wishes, size_t index, acre_plan_wish *wish) {
    size_t stride;
    memcpy(&stride, wishes, sizeof stride);
    acre_status status = acre__options_in(wish, sizeof *wish, wishes, "acre_plan_wish");
    if (status || !index)
        return status;
    const void *at = (const char *)wishes + index * stride;
    size_t size;
    memcpy(&size, at, sizeof size);
    if (size != stride)
        return acre__fail(ACRE_E_OPTIONS,
                          "acre_plan_wish: struct_size %zu differs from that of the first, %zu",
                          size, stride);
    return acre__options_in(wish, sizeof *wish, at, "acre_plan_wish");
}

/* Skips requests of 0 bytes, whose address is NULL. */
static acre_status batch_read(struct batch *batch, const acre_plan_wish *wishes, size_t count,
                              int are_adjacent) {
    acre_plan_wish wish = {0}, before;
    acre_status status = ACRE_OK;
    for (size_t i = 0; status == ACRE_OK && i < count; i++) {
        before = wish;
        status = wish_read(wishes, i, &wish);
        if (status == ACRE_OK)
            status = wish_check(&wish);
        if (status == ACRE_OK && i && are_adjacent)
            status = wish_check_adjacent(&wish, &before);
        if (status == ACRE_OK && wish.bytes)
            status = batch_add(batch, &wish, are_adjacent);
    }
    return status;
}

/* Writes the addresses of the requests of 0 bytes. */
static void batch_write_empty(const acre_plan_wish *wishes, size_t count) {
    acre_plan_wish wish;
    for (size_t i = 0; i < count; i++)
        if (wish_read(wishes, i, &wish) == ACRE_OK && !wish.bytes)
            *wish.p = NULL;
}

static acre_status plan_want_many(acre_plan *plan, const acre_plan_wish *wishes, size_t count,
                                  uint32_t flags) {
    acre_status status = acre__plan_enter(plan);
    if (status)
        return status;
    if (!wishes && count)
        return acre__fail(ACRE_E_NULL, "acre_plan_want_many: wishes is NULL");
    if (flags & ~ACRE_PLAN_ADJACENT)
        return acre__fail(ACRE_E_INVALID, "acre_plan_want_many: unknown flags 0x%x", flags);
    struct batch batch = {0};
    acre__lock_take(&plan->lock);
    status = plan_not_committed(plan);
    if (status == ACRE_OK && count)
        status = batch_read(&batch, wishes, count, (flags & ACRE_PLAN_ADJACENT) != 0);
    if (status == ACRE_OK && batch.count)
        status = batch_want(plan, &batch);
    if (status == ACRE_OK)
        batch_write_empty(wishes, count);
    acre__lock_give(&plan->lock);
    batch_free(&batch);
    return status;
}

acre_status acre_plan_want_many(acre_plan *plan, const acre_plan_wish *wishes, size_t count,
                                uint32_t flags) {
    return acre__in_call(plan_want_many(plan, wishes, count, flags), "acre_plan_want_many");
}

static acre_status plan_want(acre_plan *plan, uint32_t place, size_t bytes, size_t alignment,
                             void **p) {
    acre_plan_wish wish = {
        .struct_size = sizeof wish, .p = p, .bytes = bytes, .alignment = alignment, .place = place};
    return plan_want_many(plan, &wish, 1, 0);
}

acre_status acre_plan_want(acre_plan *plan, uint32_t place, size_t bytes, size_t alignment,
                           void **p) {
    return acre__in_call(plan_want(plan, place, bytes, alignment, p), "acre_plan_want");
}

static acre_status plan_want_for(acre_plan *plan, uint32_t place, size_t bytes, size_t alignment,
                                 uint64_t first_step, uint64_t last_step, void **p) {
    acre_plan_wish wish = {.struct_size = sizeof wish,
                           .p = p,
                           .bytes = bytes,
                           .alignment = alignment,
                           .first_step = first_step,
                           .last_step = last_step,
                           .place = place,
                           .flags = ACRE_WISH_STEPS};
    return plan_want_many(plan, &wish, 1, 0);
}

acre_status acre_plan_want_for(acre_plan *plan, uint32_t place, size_t bytes, size_t alignment,
                               uint64_t first_step, uint64_t last_step, void **p) {
    return acre__in_call(plan_want_for(plan, place, bytes, alignment, first_step, last_step, p),
                         "acre_plan_want_for");
}

/* ---- satisfying, releasing ---- */

static acre_status plan_before_commit(acre_plan *plan, acre_status (*step)(acre_plan *plan)) {
    acre_status status = acre__plan_enter(plan);
    if (status)
        return status;
    acre__lock_take(&plan->lock);
    status = plan_not_committed(plan);
    if (status == ACRE_OK)
        status = step(plan);
    acre__lock_give(&plan->lock);
    return status;
}

acre_status acre_plan_satisfy(acre_plan *plan) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = plan_before_commit(plan, acre__plan_satisfy);
    while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_plan_satisfy");
}

acre_status acre_plan_commit(acre_plan *plan) {
    uint64_t seen = acre__resumes();
    acre_status status;
    do
        status = plan_before_commit(plan, acre__plan_commit);
    while (acre__must_retry(status, &seen));
    return acre__in_call(status, "acre_plan_commit");
}

static acre_status plan_cancel(acre_plan *plan) {
    acre_status status = acre__plan_check(plan);
    if (status)
        return status;
    acre__lock_take(&plan->lock);
    struct acre__plan_wish **link = &plan->wishes, *wish;
    plan->last_wish = NULL;
    while ((wish = *link)) {
        if (wish->is_placed) {
            plan->last_wish = wish;
            link = &wish->next;
            continue;
        }
        *link = wish->next;
        plan->wish_count--;
        free(wish);
    }
    for (int i = 0; i < ACRE__PLAN_PLACES; i++)
        plan->arenas[i].kept = NULL;
    plan->waiting = plan->timed = (struct acre__plan_queue){0};
    plan->waiting_count = 0;
    acre__lock_give(&plan->lock);
    return ACRE_OK;
}

acre_status acre_plan_cancel(acre_plan *plan) {
    return acre__in_call(plan_cancel(plan), "acre_plan_cancel");
}

/* The lock is held. */
static acre_status plan_release(acre_plan *plan, acre_stream stream) {
    acre_status status = acre__plan_step_is_over(plan, "acre_plan_release");
    if (status)
        return status;
    acre__uses_lend(&plan->loop_uses, &plan->uses); /* an idle event may be reused */
    if (stream) {
        status = acre__uses_record(&plan->uses, stream);
        if (status)
            return status;
    } else {
        plan->must_wait_all = 1;
    }
    plan->must_wait = 1;
    acre__uses_append(&plan->uses, &plan->loop_uses);
    acre__plan_record_forget(&plan->loop);
    acre__plan_forget_wishes(plan);
    for (int i = 0; i < ACRE__PLAN_PLACES; i++) {
        acre__plan_arena_clear(&plan->arenas[i]);
        acre__plan_arena_clear(&plan->loop_arenas[i]);
        plan->bound[i] = 0;
    }
    plan->is_committed = plan->is_optimal = 0;
    plan->rounds++;
    return ACRE_OK;
}

static acre_status plan_release_checked(acre_plan *plan, acre_stream stream) {
    acre_status status = acre__plan_enter(plan);
    if (status)
        return status;
    acre__lock_take(&plan->lock);
    status = plan_release(plan, stream);
    acre__lock_give(&plan->lock);
    return status;
}

acre_status acre_plan_release(acre_plan *plan, acre_stream stream) {
    return acre__in_call(plan_release_checked(plan, stream), "acre_plan_release");
}

/* ---- walking ---- */

static acre_status plan_walk(acre_plan *plan, acre_plan_walk_fn fn, void *user) {
    acre_status status = acre__plan_check(plan);
    if (status)
        return status;
    if (!fn)
        return acre__fail(ACRE_E_NULL, "acre_plan_walk: fn is NULL");
    acre__lock_take(&plan->lock);
    int is_ended = 0;
    for (struct acre__plan_wish *wish = plan->wishes; wish && !is_ended; wish = wish->next) {
        acre_plan_placed told = {.struct_size = sizeof told,
                                 .name = wish->name,
                                 .bytes = wish->bytes,
                                 .first_step = wish->first,
                                 .last_step = wish->last,
                                 .place = wish->place,
                                 .flags = wish->flags};
        if (wish->is_placed) {
            const struct acre__plan_piece *piece = &wish->head->piece;
            told.offset = piece->node.key + wish->inner;
            told.p = (void *)(uintptr_t)(piece->segment->at + told.offset);
        }
        is_ended = fn(user, &told);
    }
    acre__lock_give(&plan->lock);
    return ACRE_OK;
}

acre_status acre_plan_walk(acre_plan *plan, acre_plan_walk_fn fn, void *user) {
    return acre__in_call(plan_walk(plan, fn, user), "acre_plan_walk");
}
