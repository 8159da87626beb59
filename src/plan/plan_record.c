/* Records a step of a loop, and places it: see plan.h.
 *
 * A step is a sequence of ops, calls that allocate and free; the index of an op is its time. A
 * block of the step is a slot: it lives from the op that allocates it to the op that frees it, and
 * the placer lets slots that live at different times share bytes. A block that the step does not
 * free has no end and stays in the pool.
 *
 * A hash table with open addressing maps addresses to slot indices. Slots with the same address
 * form a chain, in which at most one is live. While a step is recorded the live slot is the first,
 * because each new slot is put in front. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "plan/place.h"
#include "plan/plan.h"

enum { RECORD_ROOM = 64 }; /* initial room for ops, slots and the table */

static const struct acre__plan_op op_end = {.kind = ACRE__OP_END};

/* ---- addresses ---- */

/* Returns the table entry of an address, used or free. The table must have a free entry. */
static uint32_t *table_at(const struct acre__plan_loop *loop, const void *p) {
    size_t mask = loop->table_room - 1;
    size_t i = (size_t)(((uintptr_t)p >> 8) * 0x9e3779b97f4a7c15u >> 20) & mask;
    while (loop->table[i] && loop->slots[loop->table[i] - 1].p != p)
        i = (i + 1) & mask;
    return &loop->table[i];
}

static void table_add(struct acre__plan_loop *loop, uint32_t slot) {
    uint32_t *at = table_at(loop, loop->slots[slot].p);
    loop->slots[slot].same = *at;
    *at = slot + 1;
}

/* Rebuilds the table with twice as many entries as there is room for slots. */
static int table_make(struct acre__plan_loop *loop) {
    size_t room = 2 * RECORD_ROOM;
    while (room < 2 * (size_t)loop->slot_room)
        room *= 2;
    uint32_t *table = calloc(room, sizeof *table);
    if (!table)
        return 0;
    free(loop->table);
    loop->table = table;
    loop->table_room = room;
    for (uint32_t i = 0; i < loop->slot_count; i++)
        table_add(loop, i);
    return 1;
}

struct acre__plan_slot *acre__plan_record_find(const struct acre__plan_loop *loop, const void *p) {
    uint32_t number = loop->table ? *table_at(loop, p) : 0;
    for (; number; number = loop->slots[number - 1].same)
        if (loop->live[number - 1])
            return &loop->slots[number - 1];
    return NULL;
}

/* ---- recording ---- */

/* Makes room for one more op and the end marker behind it. */
static int record_room_op(struct acre__plan_loop *loop) {
    if (loop->op_count + 2 <= loop->op_room)
        return 1;
    size_t room = loop->op_room ? 2 * loop->op_room : RECORD_ROOM;
    struct acre__plan_op *ops = realloc(loop->ops, room * sizeof *ops);
    if (!ops)
        return 0;
    loop->ops = ops;
    loop->op_room = room;
    return 1;
}

static int record_room_slot(struct acre__plan_loop *loop) {
    if (loop->slot_count < loop->slot_room)
        return 1;
    if (loop->slot_room > UINT32_MAX / 4)
        return 0;
    uint32_t room = loop->slot_room ? 2 * loop->slot_room : RECORD_ROOM;
    struct acre__plan_slot *slots = realloc(loop->slots, room * sizeof *slots);
    if (!slots)
        return 0;
    loop->slots = slots;
    uint8_t *live = realloc(loop->live, room);
    if (!live)
        return 0;
    loop->live = live;
    loop->slot_room = room;
    return table_make(loop);
}

void acre__plan_record_alloc(struct acre__plan_loop *loop, uint32_t place, size_t bytes,
                             size_t alignment, void *p) {
    if (loop->is_broken || !record_room_op(loop) || !record_room_slot(loop)) {
        loop->is_broken = 1;
        return;
    }
    uint32_t slot = loop->slot_count++;
    loop->slots[slot] = (struct acre__plan_slot){
        .p = p,
        .bytes = acre__round_up(bytes, ACRE__PLAN_GRAIN),
        .alignment = alignment < ACRE__PLAN_GRAIN ? ACRE__PLAN_GRAIN : alignment,
        .begin = loop->op_count,
        .place = place};
    loop->live[slot] = 1;
    table_add(loop, slot);
    loop->ops[loop->op_count++] = (struct acre__plan_op){.p = p,
                                                         .bytes = bytes,
                                                         .alignment = alignment,
                                                         .slot = slot,
                                                         .place = (uint8_t)place,
                                                         .kind = ACRE__OP_ALLOC};
}

/* A block from before the step has no slot and is ignored. */
void acre__plan_record_free(struct acre__plan_loop *loop, void *p) {
    struct acre__plan_slot *slot = loop->is_broken ? NULL : acre__plan_record_find(loop, p);
    if (!slot)
        return;
    uint32_t number = (uint32_t)(slot - loop->slots);
    loop->live[number] = 0;
    if (!record_room_op(loop)) {
        loop->is_broken = 1;
        return;
    }
    slot->end = loop->op_count;
    loop->ops[loop->op_count++] =
        (struct acre__plan_op){.p = p, .slot = number, .kind = ACRE__OP_FREE};
}

void acre__plan_record_end(struct acre__plan_loop *loop) {
    if (loop->is_broken || !loop->slot_count || !record_room_op(loop)) {
        acre__plan_record_forget(loop); /* the next step will be recorded instead */
        return;
    }
    loop->ops[loop->op_count] = op_end;
    loop->recorded = loop->slot_count;
    loop->state = ACRE__LOOP_RECORDED;
}

void acre__plan_record_forget(struct acre__plan_loop *loop) {
    free(loop->ops);
    free(loop->slots);
    free(loop->live);
    free(loop->table);
    free(loop->late);
    *loop = (struct acre__plan_loop){.next = &op_end};
}

/* ---- placing ---- */

/* Writes buffers for the slots of one place that are freed in the step. */
static size_t slots_buffers(const struct acre__plan_loop *loop, uint32_t place,
                            struct acre__place_buffer *buffers) {
    size_t count = 0;
    for (uint32_t i = 0; i < loop->slot_count; i++) {
        const struct acre__plan_slot *slot = &loop->slots[i];
        if (slot->place != place || !slot->end)
            continue;
        buffers[count++] = (struct acre__place_buffer){.size = slot->bytes,
                                                       .align = slot->alignment,
                                                       .lower = (int64_t)slot->begin,
                                                       .upper = (int64_t)slot->end};
    }
    return count;
}

static acre_status solve_place(acre_plan *plan, uint32_t place,
                               struct acre__place_buffer *buffers) {
    struct acre__plan_loop *loop = &plan->loop;
    struct acre__place_options options = {.budget = plan->budget};
    struct acre__place_result result;
    size_t count = slots_buffers(loop, place, buffers), next = 0;
    loop->whole[place] = 0;
    loop->alignment[place] = ACRE__PLAN_GRAIN;
    if (!count)
        return ACRE_OK;
    int error = acre__place(buffers, count, &options, &result);
    if (error)
        return acre__plan_placer_fail(error);
    for (uint32_t i = 0; i < loop->slot_count; i++) {
        struct acre__plan_slot *slot = &loop->slots[i];
        if (slot->place != place || !slot->end)
            continue;
        slot->offset = buffers[next++].offset;
        if (slot->alignment > loop->alignment[place])
            loop->alignment[place] = slot->alignment;
    }
    loop->whole[place] = acre__round_up(result.bytes, ACRE__PLAN_GRAIN);
    loop->bound += result.lower_bound;
    plan->nodes += result.nodes;
    return ACRE_OK;
}

/* Computes the offsets of all slots; only once, however often allocating memory for them fails. */
static acre_status record_solve(acre_plan *plan) {
    struct acre__plan_loop *loop = &plan->loop;
    if (loop->is_solved)
        return ACRE_OK;
    struct acre__place_buffer *buffers = calloc(loop->slot_count + 1u, sizeof *buffers);
    uint32_t *late = calloc(loop->slot_count + 1u, sizeof *late);
    acre_status status = ACRE_OK;
    loop->bound = 0;
    if (!buffers || !late)
        status = acre__fail(ACRE_E_HOST_MEMORY, "no memory to place a loop");
    for (uint32_t i = 0; i < ACRE__PLAN_PLACES && status == ACRE_OK; i++)
        status = solve_place(plan, i, buffers);
    free(buffers);
    if (status) {
        free(late);
        return status;
    }
    loop->late = late;
    loop->is_solved = 1;
    return ACRE_OK;
}

/* Allocates the loop's piece in the arena. When memory is short, the pool releases the memory that
 * served the recorded step. */
static acre_status record_take(acre_plan *plan, struct acre__plan_arena *arena) {
    uint32_t place = arena->place;
    struct acre__plan_piece *piece = &plan->loop.pieces[place];
    *piece = (struct acre__plan_piece){.bytes = plan->loop.whole[place],
                                       .alignment = plan->loop.alignment[place]};
    if (!piece->bytes)
        return ACRE_OK;
    return acre__plan_arena_get(arena, piece);
}

/* Sets the final addresses of slots and ops, and rebuilds the table. */
static void record_address(struct acre__plan_loop *loop) {
    for (uint32_t i = 0; i < loop->slot_count; i++) {
        struct acre__plan_slot *slot = &loop->slots[i];
        const struct acre__plan_piece *piece = &loop->pieces[slot->place];
        slot->p = slot->end
                      ? (void *)(uintptr_t)(piece->segment->at + piece->node.key + slot->offset)
                      : NULL;
        loop->live[i] = 0;
    }
    for (size_t i = 0; i < loop->op_count; i++) {
        struct acre__plan_op *op = &loop->ops[i];
        op->p = loop->slots[op->slot].p;
        if (op->kind == ACRE__OP_ALLOC && !op->p)
            op->kind = ACRE__OP_POOL;
    }
    memset(loop->table, 0, loop->table_room * sizeof *loop->table);
    for (uint32_t i = 0; i < loop->slot_count; i++)
        if (loop->slots[i].p)
            table_add(loop, i);
}

/* The arena for the loop's piece. */
static struct acre__plan_arena *record_arena(acre_plan *plan, uint32_t place) {
    struct acre__plan_arena *arena = &plan->arenas[place];
    int is_unused = arena->size == ACRE__PLAN_DEFAULT && !arena->segments;
    return is_unused ? &plan->loop_arenas[place] : arena;
}

acre_status acre__plan_record_place(acre_plan *plan) {
    struct acre__plan_loop *loop = &plan->loop;
    struct acre__plan_arena *device = record_arena(plan, ACRE_PLACE_DEVICE);
    struct acre__plan_segment *last = acre__plan_arena_last(device);
    acre_status status = record_solve(plan);
    if (status == ACRE_OK)
        status = acre__plan_wait(plan);
    if (status == ACRE_OK)
        status = record_take(plan, device);
    if (status)
        return status;
    status = record_take(plan, record_arena(plan, ACRE_PLACE_HOST));
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        if (loop->pieces[ACRE_PLACE_DEVICE].segment)
            acre__plan_arena_untake(&loop->pieces[ACRE_PLACE_DEVICE]);
        acre__plan_arena_cut(device, last);
        return acre__said_fail(status, &said);
    }
    if (loop->slot_count)
        record_address(loop);
    loop->state = ACRE__LOOP_PLACED;
    return ACRE_OK;
}
