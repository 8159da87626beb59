/* The steps of a loop: a hit compares the call with the next recorded op and returns its address.
 * See plan.h, and plan_record.c for how a step is recorded and placed.
 *
 * In a step that repeats the recorded one, every call is the next op: it is compared with that op,
 * which has the address. A call that is not the next op takes the slow path. A later op may serve
 * it if every op that would be skipped is harmless: an allocation that does not come, or the free
 * of a block that is not live. The free of a live block is never skipped, because later ops may use
 * the same bytes. The live blocks are therefore always a subset of those that were live at this op
 * in the recording, and no two of them share bytes. A block that is not freed by the end of a step
 * is *late*: until it is freed, ops that share its bytes are not served.
 *
 * The state here belongs to the thread that began the step. A thread caches the plan of its last
 * step in its own record, so that a hit needs no handle lookup. */
#include "base/atomic.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "plan/plan.h"
#include "space/steps.h"

/* Ops that a slow call searches. A step that skips or reorders some ops is soon followed again, and
 * an entirely different step costs little. */
enum { LOOP_LOOK = 32 };

static const struct acre__plan_op op_end = {.kind = ACRE__OP_END};

/* ---- the thread in a step ---- */

/* 1 if the thread's record says that it is in a step of this plan. */
static inline int step_is_known(const struct acre__thread *thread, const acre_plan *plan) {
    return thread && plan && thread->plan == plan &&
           thread->plan_ends == acre__load(&acre__plan_ends, memory_order_relaxed);
}

static void step_note(struct acre__thread *thread, acre_plan *plan) {
    thread->plan = plan;
    thread->plan_ends = acre__load(&acre__plan_ends, memory_order_relaxed);
}

/* The slow path of step_is_known: checks everything. */
static acre_status step_check(acre_plan *plan) {
    acre_status status = acre__plan_enter(plan);
    if (status)
        return status;
    struct acre__thread *self = acre__thread_self();
    uint64_t stepper = acre__load(&plan->stepper, memory_order_relaxed);
    if (!stepper)
        return acre__fail(
            ACRE_E_INVALID,
            "no step of the plan's loop is in progress; call acre_plan_step_begin first");
    if (stepper != self->id)
        return acre__fail(ACRE_E_BUSY, "the step of the plan's loop belongs to another thread");
    step_note(self, plan);
    return ACRE_OK;
}

static inline void count_up(_Atomic uint64_t *counter) {
    acre__store(counter, acre__load(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* ---- following the ops ---- */

/* Leaves the ops: from here on every call takes the slow path, with `at` as the next op. */
static void loop_leave(struct acre__plan_loop *loop) {
    if (loop->next >= loop->ops && loop->next <= loop->ops + loop->op_count)
        loop->at = (size_t)(loop->next - loop->ops);
    loop->next = &op_end;
    loop->is_strayed = 1;
}

/* Follows the ops again from `at` on, unless there are late blocks to check. */
static void loop_join(struct acre__plan_loop *loop) {
    while (loop->ops[loop->at].kind == ACRE__OP_FREE && !loop->live[loop->ops[loop->at].slot])
        loop->at++;
    loop->next = loop->late_count ? &op_end : &loop->ops[loop->at];
}

/* 1 if no late block overlaps the slot. */
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

/* Finds and passes the op that serves an allocation; NULL if the pool must serve it. */
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

/* Returns the pool of a place; looks the default pool up once. */
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
    if (status == ACRE_OK) {
        acre__inner_begin();
        status = acre__inner_end(acre_pool_alloc(pool, bytes, alignment, loop->stream, p));
    }
    if (status || !bytes) /* the loop does not record a block of 0 bytes, which is NULL */
        return status;
    count_up(&plan->pool_calls);
    if (loop->state == ACRE__LOOP_RECORDING)
        acre__plan_record_alloc(loop, place, bytes, alignment, *p);
    else
        count_up(&plan->misses);
    return ACRE_OK;
}

static acre_status alloc_anyhow(acre_plan *plan, uint32_t place, size_t bytes, size_t alignment,
                                void **p) {
    if (p)
        *p = NULL;
    acre_status status = step_check(plan);
    if (status)
        return status;
    if (!p)
        return acre__fail(ACRE_E_NULL, "p is NULL");
    if (place >= ACRE__PLAN_PLACES)
        return acre__fail(ACRE_E_INVALID, "invalid place %u", place);
    struct acre__plan_loop *loop = &plan->loop;
    if (!bytes || loop->state != ACRE__LOOP_PLACED)
        return alloc_by_pool(plan, place, bytes, alignment, p);
    loop_leave(loop);
    const struct acre__plan_op *op = loop_find(loop, place, bytes, alignment);
    if (op) /* before loop_join, because its own free may be the next op */
        loop->live[op->slot] = 1;
    loop_join(loop);
    if (!op)
        return alloc_by_pool(plan, place, bytes, alignment, p);
    count_up(&plan->hits);
    *p = op->p;
    return ACRE_OK;
}

static __attribute__((noinline)) acre_status alloc_slow(acre_plan *plan, uint32_t place,
                                                        size_t bytes, size_t alignment, void **p) {
    return acre__in_call(alloc_anyhow(plan, place, bytes, alignment, p), "acre_plan_alloc");
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

/* 1 if the address lies in the loop's memory. */
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
        return acre__fail(
            ACRE_E_POINTER,
            "%p is not a live block of the plan's loop; it may have been freed already", p);
    uint32_t number = (uint32_t)(slot - loop->slots);
    loop_leave(loop);
    loop->live[number] = 0;
    late_remove(loop, number);
    loop_join(loop);
    return ACRE_OK;
}

static acre_status free_anyhow(acre_plan *plan, void *p) {
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

static __attribute__((noinline)) acre_status free_slow(acre_plan *plan, void *p) {
    return acre__in_call(free_anyhow(plan, p), "acre_plan_free");
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

/* Makes the stream wait for the previous step, which may have used another stream. A captured
 * stream cannot wait for work outside its capture. */
static acre_status step_order(acre_plan *plan, acre_stream stream) {
    acre_status status = acre__stream_check(plan->dev, stream);
    if (status || !plan->loop_uses.first)
        return status;
    status = acre__stream_not_captured(plan->dev, stream, "the stream is being captured");
    if (status == ACRE_E_CAPTURING)
        return ACRE_OK;
    return status ? status : acre__uses_join(&plan->loop_uses, stream);
}

/* Places the loop. A failure is logged once and does not fail the step. */
static void step_place(acre_plan *plan) {
    struct acre__plan_loop *loop = &plan->loop;
    acre_status status = acre__plan_record_place(plan);
    if (status && !loop->is_told)
        acre__log(ACRE_LOG_WARN, "plan",
                  "plan: a loop of %zu allocations cannot be placed, the pool serves it: %s",
                  (size_t)loop->recorded, acre_last_detail());
    loop->is_told = status != ACRE_OK;
}

/* Lists the blocks that the step has not freed. */
static void step_find_late(struct acre__plan_loop *loop) {
    loop->late_count = 0;
    for (uint32_t i = 0; i < loop->slot_count; i++)
        if (loop->live[i])
            loop->late[loop->late_count++] = i;
}

/* Ends the step. The lock is held, and the work of the step is marked by an event or done. */
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

/* A step whose thread has exited may have lost its stream, so no event can be recorded on it. */
acre_status acre__plan_step_is_over(acre_plan *plan, const char *who) {
    uint64_t stepper = acre__load(&plan->stepper, memory_order_acquire);
    if (stepper && stepper != ACRE__PLAN_LEFT)
        return acre__fail(ACRE_E_BUSY, "%s: a step of the plan's loop is in progress", who);
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

static acre_status plan_step_begin(acre_plan *plan, acre_stream stream) {
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

acre_status acre_plan_step_begin(acre_plan *plan, acre_stream stream) {
    return acre__in_call(plan_step_begin(plan, stream), "acre_plan_step_begin");
}

static acre_status plan_step_end(acre_plan *plan) {
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

acre_status acre_plan_step_end(acre_plan *plan) {
    return acre__in_call(plan_step_end(plan), "acre_plan_step_end");
}
