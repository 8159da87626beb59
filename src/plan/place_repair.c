/* Repair: items that end too high are taken out and put where they cost least.
 *
 * On large problems a greedy plan is often right but for a handful of items. Those are taken out
 * and wait. The largest that waits goes into a gap if there is one, and else to the place where the
 * least is in its way; what was in its way waits in turn. An item costs its size, more each time it
 * was moved, so that two do not push each other out for ever, and more if it belongs to a section
 * that is almost full, where only a gap of exactly its size could take it again.
 *
 * A step looks at all items that live together with one: it is charged a node for each
 * REPAIR_LOOKED of them. */
#include "plan/place_repair.h"

#include <stdlib.h>
#include <string.h>

enum {
    REPAIR_LOOKED = 64,     /* what is looked at in the time of a node */
    REPAIR_FULL = 16,       /* times the cost, in sections that are almost full */
    REPAIR_FULL_SHIFT = 10, /* that is, up to 1/1024 of the capacity */
    REPAIR_MOVES = 1000,    /* moves of an item that are counted, so that no cost overflows */
    REPAIR_WAITING = 64     /* more than at the beginning are too many: it does not converge */
};

/* Something that is true of places for an item from `at` on: that it costs more or less, or that it
 * is a place to be tried. In this order where several are at one place. */
struct repair_event {
    uint64_t at;
    uint64_t cost;
    uint32_t kind;
};

enum { REPAIR_LESS, REPAIR_MORE, REPAIR_TRY };

/* The cost of a fixed item. Others cost up to 2^38 (their size as up to 24 bits), so that those of
 * 2^24 can be summed up. */
#define REPAIR_NEVER UINT64_MAX
#define REPAIR_LARGEST 0xffffff

struct place_repair {
    const struct place_part *part;
    struct place_lists *lists;
    uint64_t *cost;  /* of each item, if it was never moved */
    uint32_t *moves; /* of each item */
    uint32_t *waiting;
    uint32_t waiting_count;
    uint32_t *met; /* also the order in which lists are filled */
    struct repair_event *events;
};

struct place_repair *acre__place_repair_create(const struct place_part *part,
                                               struct place_lists *lists) {
    struct place_repair *repair = calloc(1, sizeof *repair);
    size_t n = part->count;
    if (!repair)
        return NULL;
    repair->part = part;
    repair->lists = lists;
    repair->cost = malloc(n * sizeof *repair->cost);
    repair->moves = malloc(n * sizeof *repair->moves);
    repair->waiting = malloc(n * sizeof *repair->waiting);
    repair->met = malloc(n * sizeof *repair->met);
    repair->events = malloc((3 * n + 1) * sizeof *repair->events);
    if (!repair->cost || !repair->moves || !repair->waiting || !repair->met || !repair->events) {
        acre__place_repair_destroy(repair);
        return NULL;
    }
    return repair;
}

void acre__place_repair_destroy(struct place_repair *repair) {
    if (repair) {
        free(repair->cost);
        free(repair->moves);
        free(repair->waiting);
        free(repair->met);
        free(repair->events);
        free(repair);
    }
}

/* ---- beginning ---- */

/* The fullest section of each item decides whether it is one that is hard to place. The sections
 * that are full are few, so that they are counted before each section. */
static int repair_price(struct place_repair *repair, uint64_t capacity) {
    const struct place_part *part = repair->part;
    uint32_t *full = malloc((part->sections + 1) * sizeof *full);
    if (!full)
        return 0;
    uint64_t largest = 0, least = capacity - (capacity >> REPAIR_FULL_SHIFT);
    full[0] = 0;
    for (uint32_t s = 0; s < part->sections; s++)
        full[s + 1] = full[s] + (part->total[s] >= least);
    for (uint32_t i = 0; i < part->count; i++)
        largest |= part->items[i].room;
    unsigned shift = 0;
    while (largest >> shift > REPAIR_LARGEST)
        shift++;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct place_item *item = &part->items[i];
        uint64_t cost = (item->room >> shift) + 1;
        repair->cost[i] = full[item->end] > full[item->first] ? REPAIR_FULL * cost : cost;
        repair->moves[i] = 0;
    }
    free(full);
    return 1;
}

struct repair_row {
    uint64_t offset;
    uint32_t item;
};

static int repair_rows(const void *a, const void *b) {
    const struct repair_row *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

/* Fills the lists with what ends below the capacity; the rest waits. */
static int repair_load(struct place_repair *repair, uint64_t capacity, const uint64_t *offsets) {
    const struct place_part *part = repair->part;
    struct repair_row *rows = malloc(part->count * sizeof *rows);
    if (!rows)
        return 0;
    for (uint32_t i = 0; i < part->count; i++)
        rows[i] = (struct repair_row){offsets[i], i};
    qsort(rows, part->count, sizeof *rows, repair_rows);
    acre__place_lists_clear(repair->lists);
    repair->waiting_count = 0;
    for (uint32_t k = 0; k < part->count; k++) {
        uint32_t i = rows[k].item;
        if (part->items[i].is_fixed || offsets[i] + part->items[i].size <= capacity)
            acre__place_lists_append(repair->lists, i, offsets[i]);
        else
            repair->waiting[repair->waiting_count++] = i;
    }
    free(rows);
    return 1;
}

/* ---- a step ---- */

/* The largest that waits, which is the hardest to place. */
static uint32_t repair_take(struct place_repair *repair) {
    const struct place_item *items = repair->part->items;
    uint32_t at = 0;
    for (uint32_t k = 1; k < repair->waiting_count; k++) {
        uint64_t one = items[repair->waiting[k]].room, other = items[repair->waiting[at]].room;
        if (one > other || (one == other && repair->waiting[k] < repair->waiting[at]))
            at = k;
    }
    uint32_t item = repair->waiting[at];
    repair->waiting[at] = repair->waiting[--repair->waiting_count];
    return item;
}

static int repair_events(const void *a, const void *b) {
    const struct repair_event *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* What is in the way of places for the item, as events. Returns how many there are. */
static uint32_t repair_obstacles(struct place_repair *repair, const struct place_item *item,
                                 uint32_t met_count, const uint64_t *offsets) {
    struct repair_event *events = repair->events;
    uint32_t count = 0;
    events[count++] = (struct repair_event){0, 0, REPAIR_TRY};
    for (uint32_t k = 0; k < met_count; k++) {
        uint32_t i = repair->met[k];
        uint64_t begin = offsets[i], end = begin + repair->part->items[i].size;
        uint64_t cost = repair->part->items[i].is_fixed ? REPAIR_NEVER
                                                        : repair->cost[i] * (1 + repair->moves[i]);
        uint64_t from = begin + 1 > item->size ? begin + 1 - item->size : 0;
        events[count++] = (struct repair_event){from, cost, REPAIR_MORE};
        events[count++] = (struct repair_event){end, cost, REPAIR_LESS};
        events[count++] = (struct repair_event){place_align_up(end, item->align), 0, REPAIR_TRY};
    }
    return count;
}

/* The place where the least is in the way, or UINT64_MAX. */
static uint64_t repair_cheapest(struct place_repair *repair, const struct place_item *item,
                                uint32_t event_count, uint64_t capacity) {
    const struct repair_event *events = repair->events;
    uint64_t cost = 0, least = UINT64_MAX, best = UINT64_MAX;
    uint32_t fixed_count = 0;
    qsort(repair->events, event_count, sizeof *events, repair_events);
    for (uint32_t k = 0; k < event_count && events[k].at + item->size <= capacity; k++) {
        uint32_t is_fixed = events[k].cost == REPAIR_NEVER;
        if (events[k].kind == REPAIR_MORE) {
            fixed_count += is_fixed;
            cost += is_fixed ? 0 : events[k].cost;
        } else if (events[k].kind == REPAIR_LESS) {
            fixed_count -= is_fixed;
            cost -= is_fixed ? 0 : events[k].cost;
        } else if (fixed_count == 0 && cost < least) {
            least = cost;
            best = events[k].at;
        }
    }
    return best;
}

/* Lets the item down at `at`; what was there waits. */
static void repair_push_in(struct place_repair *repair, uint32_t index, uint64_t at,
                           uint32_t met_count, uint64_t *offsets) {
    const struct place_item *items = repair->part->items;
    for (uint32_t k = 0; k < met_count; k++) {
        uint32_t i = repair->met[k];
        if (offsets[i] < at + items[index].size && at < offsets[i] + items[i].size) {
            acre__place_lists_remove(repair->lists, i, offsets[i]);
            repair->waiting[repair->waiting_count++] = i;
            repair->moves[i] += repair->moves[i] < REPAIR_MOVES;
        }
    }
    offsets[index] = at;
    acre__place_lists_insert(repair->lists, index, at);
    repair->moves[index] += repair->moves[index] < REPAIR_MOVES;
}

/* Places one of those that wait. Returns the nodes that it took, 0 when there is no place. */
static uint64_t repair_step(struct place_repair *repair, uint64_t capacity, uint64_t *offsets) {
    uint32_t index = repair_take(repair);
    const struct place_item *item = &repair->part->items[index];
    uint64_t offset = acre__place_lists_find(repair->lists, index, PLACE_BEST_FIT);
    uint32_t met_count = acre__place_lists_meet(repair->lists, index, repair->met);
    uint64_t nodes = 1 + met_count / REPAIR_LOOKED;
    if (offset + item->size <= capacity) {
        offsets[index] = offset;
        acre__place_lists_insert(repair->lists, index, offset);
        return nodes;
    }
    uint32_t event_count = repair_obstacles(repair, item, met_count, offsets);
    offset = repair_cheapest(repair, item, event_count, capacity);
    if (offset == UINT64_MAX)
        return 0;
    repair_push_in(repair, index, offset, met_count, offsets);
    return 4 * nodes; /* the events are sorted */
}

int acre__place_repair_run(struct place_repair *repair, uint64_t capacity, uint64_t *nodes,
                           const atomic_int *stop, uint64_t *offsets) {
    if (!repair_price(repair, capacity) || !repair_load(repair, capacity, offsets))
        return 0;
    uint32_t most = 2 * repair->waiting_count + REPAIR_WAITING;
    while (repair->waiting_count) {
        if (*nodes == 0 || repair->waiting_count > most ||
            (stop && atomic_load_explicit(stop, memory_order_relaxed)))
            return 0;
        uint64_t used = repair_step(repair, capacity, offsets);
        if (used == 0)
            return 0;
        *nodes -= used < *nodes ? used : *nodes;
    }
    return 1;
}
