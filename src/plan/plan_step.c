/* The steps of a loop: alloc and free at the speed of a comparison. See plan.h, and plan_record.c
 * for how a step is recorded and placed.
 *
 * In a step that is like the recorded one every call is the next op: it is compared, and the
 * address is there. What is not the next op takes the slow way. It may be served by a later op, if
 * everything that would be skipped is no harm: an alloc that does not come, or the free of a block
 * that is not live. A free that has not come yet is never skipped, because what follows may have
 * the same bytes. So blocks that are live are always some of those that were live at this op when
 * it was recorded, and no two of them share bytes. A block that is not freed by the end of a step
 * is *late*: until it is freed, ops whose bytes it has are not served.
 *
 * Everything here belongs to the thread that began the step. What a thread knows of its plan, the
 * one it was in a step of last, stands in its record, so that a hit need not look the handle up. */
#include "base/atomic.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "plan/plan.h"
#include "space/steps.h"

/* Ops that are looked through for one that serves a call: a step that left some out, or does them
 * in another order, is soon followed again, and one that is altogether different costs little. */
enum { LOOP_LOOK = 32 };

static const struct acre__plan_op op_end = {.kind = ACRE__OP_END};

/* ---- who is in a step ---- */

/* 1 if the thread is known to be in a step of this plan. */
static inline int step_is_known(const struct acre__thread *thread, const acre_plan *plan) {
    return thread && plan && thread->plan == plan &&
           thread->plan_ends == acre__load(&acre__plan_ends, memory_order_relaxed);
}

static void step_note(struct acre__thread *thread, acre_plan *plan) {
    thread->plan = plan;
    thread->plan_ends = acre__load(&acre__plan_ends, memory_order_relaxed);
}

/* The slow way of the same: checks everything. */
static acre_status step_check(acre_plan *plan) {
    acre_status status = acre__plan_enter(plan);
    if (status)
        return status;
    struct acre__thread *self = acre__thread_self();
    uint64_t stepper = acre__load(&plan->stepper, memory_order_relaxed);
    if (!stepper)
        return acre__fail(ACRE_E_INVALID, "no step of the plan's loop has begun");
    if (stepper != self->id)
        return acre__fail(ACRE_E_BUSY, "the step of the plan's loop is another thread's");
    step_note(self, plan);
    return ACRE_OK;
}

static inline void count_up(_Atomic uint64_t *counter) {
    acre__store(counter, acre__load(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* ---- following the ops ---- */

/* Leaves the ops: from here on every call comes the slow way, with `at` as the next op. */
static void loop_leave(struct acre__plan_loop *loop) {
    if (loop->next >= loop->ops && loop->next <= loop->ops + loop->op_count)
        loop->at = (size_t)(loop->next - loop->ops);
    loop->next = &op_end;
    loop->is_strayed = 1;
}

/* Follows them again from `at` on, unless there are late blocks to look out for. */
static void loop_join(struct acre__plan_loop *loop) {
    while (loop->ops[loop->at].kind == ACRE__OP_FREE && !loop->live[loop->ops[loop->at].slot])
        loop->at++;
    loop->next = loop->late_count ? &op_end : &loop->ops[loop->at];
}

/* No late block has bytes of the slot. */
static int slot_is_clear(const struct acre__plan_loop *loop, const struct acre__plan_slot *slot) {
    for (uint32_t i = 0; i < loop->late_count; i++) {
        const struct acre__plan_slot *late = &loop->slots[loop->late[i]];
        if (late->place == slot->place && late->offset < slot->offset + slot->bytes &&
            slot->offset < late->offset + late->bytes)
            return 0;
    }
    return 1;
}

static inline int op_is(const struct acre__plan_op *op, uint32_t place, size_t bytes,
                        size_t alignment) {
    return op->bytes == bytes && op->alignment == alignment && op->place == place;
}

/* The op that serves an alloc, which is passed then; NULL when the pool has to. */
static const struct acre__plan_op *loop_find(struct acre__plan_loop *loop, uint32_t place,
                                             size_t bytes, size_t alignment) {
    size_t most = loop->at + LOOP_LOOK < loop->op_count ? loop->at + LOOP_LOOK : loop->op_count;
    for (size_t i = loop->at; i < most; i++) {
        const struct acre__plan_op *op = &loop->ops[i];
        if (op->kind == ACRE__OP_FREE) {
            if (loop->live[op->slot])
                return NULL;
            continue;
        }
        if (!op_is(op, place, bytes, alignment))
            continue;
        if (op->kind == ACRE__OP_ALLOC && !slot_is_clear(loop, &loop->slots[op->slot]))
            continue;
        loop->at = i + 1;
        return op->kind == ACRE__OP_ALLOC ? op : NULL;
    }
    return NULL;
}

/* ---- alloc ---- */

/* The pool of a place, asked for once. */
static acre_status loop_pool(acre_plan *plan, uint32_t place, acre_pool **pool) {
    acre_status status = ACRE_OK;
    if (!plan->pools[place])
        status = acre_pool_default(plan->dev,
                                   place == ACRE_PLACE_HOST ? ACRE_KIND_PINNED : ACRE_KIND_DEVICE,
                                   &plan->pools[place]);
    *pool = plan->pools[place];
    return status;
}

static acre_status alloc_by_pool(acre_plan *plan, uint32_t place, size_t bytes, size_t alignment,
                                 void **p) {
    struct acre__plan_loop *loop = &plan->loop;
    acre_pool *pool;
    acre_status status = loop_pool(plan, place, &pool);
    if (status == ACRE_OK)
        status = acre_pool_alloc(pool, bytes, alignment, loop->stream, p);
    if (status)
        return status;
    count_up(&plan->pool_calls);
    if (loop->state == ACRE__LOOP_RECORDING)
        acre__plan_record_alloc(loop, place, bytes, alignment, *p);
    else
        count_up(&plan->misses);
    return ACRE_OK;
}

static __attribute__((noinline)) acre_status alloc_slow(acre_plan *plan, uint32_t place,
                                                        size_t bytes, size_t alignment, void **p) {
    if (p)
        *p = NULL;
    acre_status status = step_check(plan);
    if (status)
        return status;
    if (!p)
        return acre__fail(ACRE_E_NULL, "acre_plan_alloc: p is NULL");
    if (place >= ACRE__PLAN_PLACES)
        return acre__fail(ACRE_E_INVALID, "acre_plan_alloc: %u is no place", place);
    struct acre__plan_loop *loop = &plan->loop;
    if (loop->state != ACRE__LOOP_PLACED)
        return alloc_by_pool(plan, place, bytes, alignment, p);
    loop_leave(loop);
    const struct acre__plan_op *op = loop_find(loop, place, bytes, alignment);
    if (op) /* before its own free may be the next op */
        loop->live[op->slot] = 1;
    loop_join(loop);
    if (!op)
        return alloc_by_pool(plan, place, bytes, alignment, p);
    count_up(&plan->hits);
    *p = op->p;
    return ACRE_OK;
}

acre_status acre_plan_alloc(acre_plan *plan, uint32_t place, size_t bytes, size_t alignment,
                            void **p) {
    if (!step_is_known(acre__thread_pointer, plan) || !p)
        return alloc_slow(plan, place, bytes, alignment, p);
    struct acre__plan_loop *loop = &plan->loop;
    const struct acre__plan_op *op = loop->next;
    if (op->kind != ACRE__OP_ALLOC || !op_is(op, place, bytes, alignment))
        return alloc_slow(plan, place, bytes, alignment, p);
    loop->live[op->slot] = 1;
    loop->next = op + 1;
    count_up(&plan->hits);
    *p = op->p;
    return ACRE_OK;
}

/* ---- free ---- */

/* Does the loop's memory have the address? */
static int loop_owns(const struct acre__plan_loop *loop, const void *p) {
    for (int i = 0; i < ACRE__PLAN_PLACES; i++) {
        const struct acre__plan_piece *piece = &loop->pieces[i];
        if (loop->state == ACRE__LOOP_PLACED && piece->segment &&
            (uintptr_t)p - (piece->segment->at + piece->node.key) < piece->bytes)
            return 1;
    }
    return 0;
}

static void late_remove(struct acre__plan_loop *loop, uint32_t slot) {
    for (uint32_t i = 0; i < loop->late_count; i++)
        if (loop->late[i] == slot) {
            loop->late[i] = loop->late[--loop->late_count];
            return;
        }
}

static acre_status free_own(struct acre__plan_loop *loop, void *p) {
    const struct acre__plan_slot *slot = acre__plan_record_find(loop, p);
    if (!slot)
        return acre__fail(ACRE_E_POINTER, "%p is not a block of the plan's loop that is in use", p);
    uint32_t number = (uint32_t)(slot - loop->slots);
    loop_leave(loop);
    loop->live[number] = 0;
    late_remove(loop, number);
    loop_join(loop);
    return ACRE_OK;
}

static __attribute__((noinline)) acre_status free_slow(acre_plan *plan, void *p) {
    acre_status status = step_check(plan);
    if (status || !p)
        return status;
    struct acre__plan_loop *loop = &plan->loop;
    if (loop_owns(loop, p))
        return free_own(loop, p);
    status = acre_free(p, loop->stream);
    if (status)
        return status;
    count_up(&plan->pool_calls);
    if (loop->state == ACRE__LOOP_RECORDING)
        acre__plan_record_free(loop, p);
    return ACRE_OK;
}

acre_status acre_plan_free(acre_plan *plan, void *p) {
    if (!step_is_known(acre__thread_pointer, plan))
        return free_slow(plan, p);
    struct acre__plan_loop *loop = &plan->loop;
    const struct acre__plan_op *op = loop->next;
    if (op->kind != ACRE__OP_FREE || op->p != p || !loop->live[op->slot])
        return free_slow(plan, p);
    loop->live[op->slot] = 0;
    loop->next = op + 1;
    return ACRE_OK;
}

/* ---- steps ---- */

/* The stream waits for the step before, which another one may have done. A stream that is captured
 * cannot wait for what is outside of its capture. */
static acre_status step_order(acre_plan *plan, acre_stream stream) {
    acre_status status = acre__stream_check(plan->dev, stream);
    if (status || !plan->loop_uses.first)
        return status;
    status = acre__stream_not_captured(plan->dev, stream, "the stream is being captured");
    if (status == ACRE_E_CAPTURING)
        return ACRE_OK;
    return status ? status : acre__uses_join(&plan->loop_uses, stream);
}

/* What cannot be placed is no failure of the step. */
static void step_place(acre_plan *plan) {
    struct acre__plan_loop *loop = &plan->loop;
    acre_status status = acre__plan_record_place(plan);
    if (status && !loop->is_told)
        acre__log(ACRE_LOG_WARN, "plan", "plan: a loop of %zu allocations stays with the pool: %s",
                  (size_t)loop->recorded, acre_last_detail());
    loop->is_told = status != ACRE_OK;
}

/* Notes which blocks the step has not freed. */
static void step_find_late(struct acre__plan_loop *loop) {
    loop->late_count = 0;
    for (uint32_t i = 0; i < loop->slot_count; i++)
        if (loop->live[i])
            loop->late[loop->late_count++] = i;
}

/* The lock is held, and the work of the step is marked or done. */
static void step_close(acre_plan *plan) {
    struct acre__plan_loop *loop = &plan->loop;
    int is_done = loop->next->kind == ACRE__OP_END && !loop->is_strayed;
    if (loop->state == ACRE__LOOP_RECORDING)
        acre__plan_record_end(loop);
    else if (loop->state == ACRE__LOOP_PLACED && !is_done)
        step_find_late(loop);
    loop->next = &op_end;
    plan->steps++;
    acre__store(&plan->stepper, 0, memory_order_relaxed);
}

/* The stream of a step that was left may be gone: no event can be recorded on it. */
acre_status acre__plan_step_is_over(acre_plan *plan, const char *who) {
    uint64_t stepper = acre__load(&plan->stepper, memory_order_acquire);
    if (stepper && stepper != ACRE__PLAN_LEFT)
        return acre__fail(ACRE_E_BUSY, "%s: a step of the plan's loop has begun and not ended",
                          who);
    acre_status status = stepper ? acre__step_quiesce_users(plan->dev) : ACRE_OK;
    if (stepper && status == ACRE_OK)
        step_close(plan);
    return status;
}

/* The lock is held. */
static acre_status step_begin(acre_plan *plan, acre_stream stream, uint64_t self) {
    struct acre__plan_loop *loop = &plan->loop;
    acre_status status = acre__plan_step_is_over(plan, "acre_plan_step_begin");
    if (status)
        return status;
    if (!self)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the thread's record");
    status = step_order(plan, stream);
    if (status)
        return status;
    if (loop->state == ACRE__LOOP_RECORDED)
        step_place(plan);
    if (loop->state == ACRE__LOOP_NEW)
        loop->state = ACRE__LOOP_RECORDING;
    loop->stream = stream;
    loop->is_strayed = 0;
    loop->at = 0;
    if (loop->state == ACRE__LOOP_PLACED)
        loop_join(loop);
    acre__store(&plan->stepper, self, memory_order_relaxed);
    return ACRE_OK;
}

acre_status acre_plan_step_begin(acre_plan *plan, acre_stream stream) {
    acre_status status = acre__plan_enter(plan);
    if (status)
        return status;
    struct acre__thread *self = acre__thread_self();
    acre__lock_take(&plan->lock);
    status = step_begin(plan, stream, self->id);
    acre__lock_give(&plan->lock);
    if (status == ACRE_OK)
        step_note(self, plan);
    return status;
}

acre_status acre_plan_step_end(acre_plan *plan) {
    acre_status status = step_check(plan);
    if (status)
        return status;
    struct acre__plan_loop *loop = &plan->loop;
    acre__lock_take(&plan->lock);
    status = acre__uses_record(&plan->loop_uses, loop->stream);
    if (status == ACRE_E_CAPTURING)
        status = ACRE_OK;
    if (status == ACRE_OK) {
        step_close(plan);
        acre__thread_self()->plan = NULL;
    }
    acre__lock_give(&plan->lock);
    return status;
}
