/* A descent: the heights of all sections are a skyline, and its lowest stretch is filled first.
 *
 * An item on a stretch of one height wastes nothing. So the descent takes the lowest stretch, and
 * places the first item in the order that lives entirely within it. If there is none, no item will
 * ever lie there: the stretch rises to its lower neighbour and joins it. Every item is looked up
 * once and every stretch rises once, so the time depends on the lookup of the first item within a
 * stretch. Items are points (first, end) in the plane, kept in a k-d tree of boxes that each know
 * their first item.
 *
 * A fixed item joins the skyline when the lowest stretch reaches its offset. Until then a stretch
 * does not rise above the next fixed item in it. Below a fixed item that covers the stretch, the
 * lookup finds only items that are small enough. Otherwise, an item that would overlap a fixed item
 * is parked outside the tree until the fixed item is part of the skyline. When the total number of
 * parkings reaches a limit, items are parked until all fixed items are part of the skyline.
 *
 * A descent that is stopped stacks the remaining items on top, so that there is always a plan. */
#include "plan/place_descend.h"

#include <stdlib.h>
#include <string.h>

#define DESCENT_NONE UINT32_MAX

enum {
    /* Boxes visited in a descent. An item that is not found within its share of them is skipped,
     * and found again when its stretch is wider. Parts of 100,000 items rarely need as many. */
    DESCENT_LOOKS = 1 << 26,
    DESCENT_LOOKS_LEAST = 128,
    DESCENT_LOOK = 8,   /* units of work per visited box or item */
    DESCENT_STEP = 256, /* units of work to change the skyline */
    DESCENT_LEAF = 8,   /* items in the smallest boxes: fewer only make the tree larger */
    DESCENT_PARKS = 6   /* per item, on average, before parked items wait for all fixed ones */
};

/* A box of items in an implicit tree; box k has the children 2k + 1 and 2k + 2. */
struct descent_box {
    uint64_t size; /* smallest size of an unplaced item */
    uint32_t low_first, high_first, low_end, high_end;
    uint32_t rank;         /* lowest rank of an unplaced item; DESCENT_NONE: none */
    uint32_t begin, count; /* its items */
};

struct descent_tree {
    const struct place_item *items;
    struct place_meter *meter;
    struct descent_box *boxes;
    uint32_t *points; /* items, grouped by box */
    uint32_t *box_of; /* by item: its leaf box */
    uint32_t *rank;   /* by item; DESCENT_NONE once it is placed */
    uint32_t count;   /* of points */
};

/* A query to a tree; the bounds are inclusive. */
struct descent_query {
    uint32_t low_first, high_first, low_end, high_end;
    uint32_t looks; /* boxes that may still be visited */
    uint64_t size;  /* largest allowed size */
};

/* A stretch of sections of one height. */
struct descent_run {
    uint64_t height;
    uint32_t end;      /* the section after it, where the next stretch begins */
    uint32_t previous; /* where the previous stretch begins; DESCENT_NONE: it is the leftmost */
    uint32_t heap_at;
};

struct place_descent {
    const struct place_part *part;
    struct place_meter *meter;
    struct descent_tree loose; /* items that are not fixed; ranks are positions in the order */
    struct descent_tree fixed; /* ranks are indices, since they are sorted by offset */
    uint32_t fixed_laid;       /* fixed items in the skyline */
    const uint32_t *order; /* of loose items; parked items are identified by their position in it */
    uint32_t *parked;      /* by fixed item, and one for all: the first item that waits for it */
    uint32_t *parked_next; /* by item: the next one that waits for the same fixed item */
    struct descent_run *runs; /* by the section where they begin */
    uint32_t *heap;           /* of stretches: the lowest first, the leftmost among equals */
    uint32_t heap_count;
    uint32_t looks; /* boxes to visit per lookup */
    uint64_t parks; /* how often an item may still be parked for a single fixed item */
};

/* ---- the trees of boxes ---- */

static uint64_t descent_key(const struct place_item *item, int by_end, uint32_t index) {
    uint64_t coordinate = by_end ? item->end : item->first;
    return coordinate << 32 | index;
}

/* Moves the items with the smallest keys into the first half: quickselect with the middle element
 * as pivot. */
static void descent_halve(const struct place_item *items, uint32_t *points, uint32_t count,
                          int by_end) {
    uint32_t low = 0, high = count - 1, half = count / 2;
    while (low < high) {
        uint32_t middle = points[low + (high - low) / 2], i = low, k = high;
        uint64_t pivot = descent_key(&items[middle], by_end, middle);
        for (;;) {
            while (descent_key(&items[points[i]], by_end, points[i]) < pivot)
                i++;
            while (descent_key(&items[points[k]], by_end, points[k]) > pivot)
                k--;
            if (i >= k)
                break;
            uint32_t swapped = points[i];
            points[i++] = points[k];
            points[k--] = swapped;
        }
        if (half <= k)
            high = k;
        else
            low = k + 1;
    }
}

static void descent_build(struct descent_tree *tree, uint32_t box, uint32_t begin, uint32_t count,
                          int by_end) {
    struct descent_box *it = &tree->boxes[box];
    *it = (struct descent_box){
        .low_first = UINT32_MAX, .low_end = UINT32_MAX, .begin = begin, .count = count};
    for (uint32_t k = begin; k < begin + count; k++) {
        const struct place_item *item = &tree->items[tree->points[k]];
        it->low_first = item->first < it->low_first ? item->first : it->low_first;
        it->high_first = item->first > it->high_first ? item->first : it->high_first;
        it->low_end = item->end < it->low_end ? item->end : it->low_end;
        it->high_end = item->end > it->high_end ? item->end : it->high_end;
        tree->box_of[tree->points[k]] = box;
    }
    tree->meter->work += DESCENT_LOOK * (uint64_t)count;
    if (count <= DESCENT_LEAF || place_is_stopped(tree->meter))
        return;
    descent_halve(tree->items, tree->points + begin, count, by_end);
    /* The depth is logarithmic in the number of items. */
    descent_build(tree, 2 * box + 1, begin, count / 2, !by_end);
    descent_build(tree, 2 * box + 2, begin + count / 2, count - count / 2, !by_end);
}

/* Builds a tree of the items [begin, end). Returns 0 when out of memory. */
static int descent_tree_create(struct descent_tree *tree, const struct place_part *part,
                               uint32_t begin, uint32_t end, struct place_meter *meter) {
    size_t boxes = 2, n = part->count;
    tree->items = part->items;
    tree->meter = meter;
    tree->count = end - begin;
    /* Halves the count until boxes are small; the tree has twice as many boxes as leaves. */
    for (size_t k = tree->count; k > DESCENT_LEAF; k -= k / 2)
        boxes *= 2;
    tree->boxes = malloc(boxes * sizeof *tree->boxes);
    tree->points = calloc(n, sizeof *tree->points);
    tree->box_of = malloc(n * sizeof *tree->box_of);
    tree->rank = malloc(n * sizeof *tree->rank);
    if (!tree->boxes || !tree->points || !tree->box_of || !tree->rank)
        return 0;
    for (uint32_t i = begin; i < end; i++)
        tree->points[i - begin] = i;
    descent_build(tree, 0, 0, tree->count, 0);
    return 1;
}

static void descent_tree_destroy(struct descent_tree *tree) {
    free(tree->boxes);
    free(tree->points);
    free(tree->box_of);
    free(tree->rank);
}

static int descent_is_leaf(const struct descent_box *box) {
    return box->count <= DESCENT_LEAF;
}

static void descent_sum_up(struct descent_tree *tree, uint32_t box) {
    struct descent_box *it = &tree->boxes[box];
    if (!descent_is_leaf(it)) {
        uint32_t one = tree->boxes[2 * box + 1].rank, two = tree->boxes[2 * box + 2].rank;
        uint64_t small = tree->boxes[2 * box + 1].size, other = tree->boxes[2 * box + 2].size;
        it->rank = one < two ? one : two;
        it->size = small < other ? small : other;
        return;
    }
    it->rank = DESCENT_NONE;
    it->size = UINT64_MAX;
    for (uint32_t k = it->begin; k < it->begin + it->count; k++) {
        uint32_t rank = tree->rank[tree->points[k]];
        uint64_t size = tree->items[tree->points[k]].size;
        it->rank = rank < it->rank ? rank : it->rank;
        if (rank != DESCENT_NONE && size < it->size)
            it->size = size;
    }
}

static void descent_sum_all(struct descent_tree *tree, uint32_t box) {
    if (!descent_is_leaf(&tree->boxes[box])) {
        descent_sum_all(tree, 2 * box + 1);
        descent_sum_all(tree, 2 * box + 2);
    }
    descent_sum_up(tree, box);
}

/* Sets an item's rank; DESCENT_NONE removes the item. */
static void descent_set(struct descent_tree *tree, uint32_t item, uint32_t rank) {
    uint32_t box = tree->box_of[item];
    tree->rank[item] = rank;
    for (;; box = (box - 1) / 2) {
        struct descent_box before = tree->boxes[box];
        descent_sum_up(tree, box);
        /* If this box does not change, its parents do not either. */
        if (box == 0 ||
            (tree->boxes[box].rank == before.rank && tree->boxes[box].size == before.size))
            return;
    }
}

/* Returns the lowest rank below `best` of an item that matches the query, or `best`. Stops at the
 * limit of visited boxes. */
static uint32_t descent_first(const struct descent_tree *tree, uint32_t box,
                              struct descent_query *query, uint32_t best) {
    const struct descent_box *it = &tree->boxes[box];
    tree->meter->work += DESCENT_LOOK;
    if (query->looks == 0)
        return best;
    query->looks--;
    if (it->rank >= best || it->size > query->size || it->high_first < query->low_first ||
        it->low_first > query->high_first || it->low_end > query->high_end ||
        it->high_end < query->low_end)
        return best;
    if (it->low_first >= query->low_first && it->high_first <= query->high_first &&
        it->low_end >= query->low_end && it->high_end <= query->high_end &&
        query->size == UINT64_MAX)
        return it->rank;
    if (!descent_is_leaf(it)) {
        /* The box with the lower rank first: its result often rules the other one out. */
        uint32_t one = 2 * box + 1, two = 2 * box + 2;
        uint32_t is_two = tree->boxes[two].rank < tree->boxes[one].rank;
        best = descent_first(tree, is_two ? two : one, query, best);
        return descent_first(tree, is_two ? one : two, query, best);
    }
    tree->meter->work += DESCENT_LOOK / 2 * (uint64_t)it->count;
    for (uint32_t k = it->begin; k < it->begin + it->count; k++) {
        uint32_t point = tree->points[k];
        const struct place_item *item = &tree->items[point];
        if (item->first >= query->low_first && item->first <= query->high_first &&
            item->end >= query->low_end && item->end <= query->high_end &&
            item->size <= query->size && tree->rank[point] < best)
            best = tree->rank[point];
    }
    return best;
}

/* ---- the heap of stretches ---- */

static int descent_is_lower(const struct place_descent *descent, uint32_t a, uint32_t b) {
    uint64_t x = descent->runs[a].height, y = descent->runs[b].height;
    return x != y ? x < y : a < b;
}

static void descent_heap_set(struct place_descent *descent, uint32_t at, uint32_t run) {
    descent->heap[at] = run;
    descent->runs[run].heap_at = at;
}

static void descent_heap_move(struct place_descent *descent, uint32_t at) {
    uint32_t run = descent->heap[at];
    while (at && descent_is_lower(descent, run, descent->heap[(at - 1) / 2])) {
        descent_heap_set(descent, at, descent->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t below = 2 * at + 1;
        if (below >= descent->heap_count)
            break;
        if (below + 1 < descent->heap_count &&
            descent_is_lower(descent, descent->heap[below + 1], descent->heap[below]))
            below++;
        if (!descent_is_lower(descent, descent->heap[below], run))
            break;
        descent_heap_set(descent, at, descent->heap[below]);
        at = below;
    }
    descent_heap_set(descent, at, run);
}

static void descent_add_run(struct place_descent *descent, uint32_t from, uint32_t to,
                            uint64_t height, uint32_t previous) {
    descent->runs[from] = (struct descent_run){height, to, previous, descent->heap_count};
    descent->heap[descent->heap_count++] = from;
    descent_heap_move(descent, descent->heap_count - 1);
    if (to < descent->part->sections)
        descent->runs[to].previous = from;
}

/* Removes the stretch from the heap. The caller then extends the previous stretch or begins another
 * in its place. */
static void descent_drop_run(struct place_descent *descent, uint32_t run) {
    uint32_t at = descent->runs[run].heap_at, last = descent->heap[--descent->heap_count];
    if (last != run) {
        descent_heap_set(descent, at, last);
        descent_heap_move(descent, at);
    }
}

/* Joins the stretch with the next one. */
static void descent_join(struct place_descent *descent, uint32_t run) {
    uint32_t next = descent->runs[run].end, end = descent->runs[next].end;
    descent_drop_run(descent, next);
    descent->runs[run].end = end;
    if (end < descent->part->sections)
        descent->runs[end].previous = run;
}

/* Nothing fits on the stretch: raises it to its lower neighbour, or to the next fixed item. */
static void descent_rise(struct place_descent *descent, uint32_t run, uint64_t ceiling) {
    struct descent_run *it = &descent->runs[run];
    uint64_t left = it->previous == DESCENT_NONE ? UINT64_MAX : descent->runs[it->previous].height;
    uint64_t right =
        it->end == descent->part->sections ? UINT64_MAX : descent->runs[it->end].height;
    it->height = left < right ? left : right;
    it->height = ceiling < it->height ? ceiling : it->height;
    descent_heap_move(descent, it->heap_at);
    if (it->height == right && right != UINT64_MAX)
        descent_join(descent, run);
    if (it->height == left && left != UINT64_MAX)
        descent_join(descent, it->previous);
}

/* Places the item on the stretch: the item's sections rise, the rest of the stretch keeps its
 * height. */
static void descent_lay(struct place_descent *descent, uint32_t run, const struct place_item *item,
                        uint64_t top) {
    struct descent_run old = descent->runs[run];
    descent_drop_run(descent, run);
    uint32_t previous = old.previous;
    if (run < item->first) {
        descent_add_run(descent, run, item->first, old.height, previous);
        previous = run;
    }
    descent_add_run(descent, item->first, item->end, top, previous);
    previous = item->first;
    if (item->end < old.end)
        descent_add_run(descent, item->end, old.end, old.height, previous);
    /* Adjacent stretches of one height are joined. */
    struct descent_run *it = &descent->runs[item->first];
    if (it->end < descent->part->sections && descent->runs[it->end].height == it->height)
        descent_join(descent, item->first);
    if (it->previous != DESCENT_NONE && descent->runs[it->previous].height == it->height)
        descent_join(descent, it->previous);
}

/* ---- fixed items ---- */

/* Returns the lowest fixed item above the skyline that lives in sections [first, end), or
 * DESCENT_NONE. */
static uint32_t descent_ceiling(const struct place_descent *descent, uint32_t first, uint32_t end) {
    struct descent_query query = {.high_first = end - 1,
                                  .low_end = first + 1,
                                  .high_end = UINT32_MAX,
                                  .looks = UINT32_MAX,
                                  .size = UINT64_MAX};
    if (descent->fixed_laid == descent->fixed.count)
        return DESCENT_NONE;
    return descent_first(&descent->fixed, 0, &query, DESCENT_NONE);
}

/* Parks an item: removes it from the tree until the fixed item is part of the skyline; both by
 * rank. When the number of parkings is used up, the item waits until all fixed items are. */
static void descent_park(struct place_descent *descent, uint32_t rank, uint32_t fixed) {
    uint32_t until = descent->parks ? fixed : descent->fixed.count;
    descent->parks -= descent->parks != 0;
    descent->parked_next[rank] = descent->parked[until];
    descent->parked[until] = rank;
    descent_set(&descent->loose, descent->order[rank], DESCENT_NONE);
}

/* Puts all items that are parked until then back into the tree. */
static void descent_wake(struct place_descent *descent, uint32_t until) {
    uint32_t rank = descent->parked[until];
    for (; rank != DESCENT_NONE; rank = descent->parked_next[rank])
        descent_set(&descent->loose, descent->order[rank], rank);
}

/* The stretch has reached the fixed item with this rank: adds that item to the skyline. */
static void descent_lay_fixed(struct place_descent *descent, uint32_t run, uint32_t fixed) {
    const struct place_part *part = descent->part;
    const struct place_item *item = &part->items[fixed];
    descent_set(&descent->fixed, fixed, DESCENT_NONE);
    descent_lay(descent, run, item, place_align_up(item->offset + item->size, part->unit));
    descent_wake(descent, fixed);
    if (++descent->fixed_laid == descent->fixed.count)
        descent_wake(descent, descent->fixed.count);
}

static int descent_create_fixed(struct place_descent *descent) {
    const struct place_part *part = descent->part;
    size_t n = part->count;
    descent->parked = malloc((part->fixed_count + 1) * sizeof *descent->parked);
    descent->parked_next = malloc(n * sizeof *descent->parked_next);
    return descent->parked && descent->parked_next &&
           descent_tree_create(&descent->fixed, part, 0, part->fixed_count, descent->meter);
}

/* ---- the descent ---- */

struct place_descent *acre__place_descent_create(const struct place_part *part,
                                                 struct place_meter *meter) {
    struct place_descent *descent = calloc(1, sizeof *descent);
    if (!descent)
        return NULL;
    descent->part = part;
    descent->meter = meter;
    descent->looks = DESCENT_LOOKS / part->count > DESCENT_LOOKS_LEAST ? DESCENT_LOOKS / part->count
                                                                       : DESCENT_LOOKS_LEAST;
    descent->runs = malloc(part->sections * sizeof *descent->runs);
    descent->heap = malloc(part->sections * sizeof *descent->heap);
    if (!descent->runs || !descent->heap ||
        !descent_tree_create(&descent->loose, part, part->fixed_count, part->count, meter) ||
        (part->fixed_count && !descent_create_fixed(descent))) {
        acre__place_descent_destroy(descent);
        return NULL;
    }
    return descent;
}

void acre__place_descent_destroy(struct place_descent *descent) {
    if (descent) {
        descent_tree_destroy(&descent->loose);
        descent_tree_destroy(&descent->fixed);
        free(descent->parked);
        free(descent->parked_next);
        free(descent->runs);
        free(descent->heap);
        free(descent);
    }
}

static void descent_begin(struct place_descent *descent, const uint32_t *order) {
    const struct place_part *part = descent->part;
    descent->order = order;
    for (uint32_t k = 0; k < descent->loose.count; k++)
        descent->loose.rank[order[k]] = k;
    descent_sum_all(&descent->loose, 0);
    descent->fixed_laid = 0;
    descent->parks = DESCENT_PARKS * (uint64_t)part->count;
    if (part->fixed_count) {
        for (uint32_t i = 0; i < part->fixed_count; i++)
            descent->fixed.rank[i] = i;
        descent_sum_all(&descent->fixed, 0);
        memset(descent->parked, 0xff, (part->fixed_count + 1) * sizeof *descent->parked);
    }
    descent->meter->work += 2 * DESCENT_LOOK * (uint64_t)part->count;
    descent->heap_count = 0;
    descent_add_run(descent, 0, part->sections, 0, DESCENT_NONE);
}

/* Returns the first item that lives within the stretch and is at most `size`, or DESCENT_NONE. */
static uint32_t descent_find(const struct place_descent *descent, uint32_t run, uint64_t size) {
    struct descent_query query = {.low_first = run,
                                  .high_first = UINT32_MAX,
                                  .high_end = descent->runs[run].end,
                                  .looks = descent->looks,
                                  .size = size};
    return descent_first(&descent->loose, 0, &query, DESCENT_NONE);
}

/* 1 if the fixed item's lifetime covers the whole stretch. */
static int descent_covers(const struct place_descent *descent, uint32_t fixed, uint32_t run) {
    const struct place_item *item = &descent->part->items[fixed];
    return item->first <= run && item->end >= descent->runs[run].end;
}

/* Places one item on the lowest stretch, or parks it, or raises the stretch. Returns 1 if an item
 * was placed. */
static int descent_step(struct place_descent *descent, uint64_t *offsets) {
    const struct place_part *part = descent->part;
    uint32_t run = descent->heap[0], end = descent->runs[run].end;
    uint64_t height = descent->runs[run].height, ceiling = UINT64_MAX;
    descent->meter->work += DESCENT_STEP;
    uint32_t fixed = descent_ceiling(descent, run, end);
    if (fixed != DESCENT_NONE)
        ceiling = part->items[fixed].offset;
    if (ceiling == height) {
        descent_lay_fixed(descent, run, fixed);
        return 0;
    }
    /* Beside a fixed item there may be room for an item that is too large to lie below it. */
    int is_below = fixed != DESCENT_NONE && descent_covers(descent, fixed, run);
    uint32_t rank = descent_find(descent, run, is_below ? ceiling - height : UINT64_MAX);
    if (rank == DESCENT_NONE) {
        descent_rise(descent, run, ceiling);
        return 0;
    }
    uint32_t index = descent->order[rank];
    const struct place_item *item = &part->items[index];
    uint64_t offset = place_align_up(height, item->align), top = offset + item->size;
    if (top > ceiling) {
        fixed = descent_ceiling(descent, item->first, item->end);
        if (fixed != DESCENT_NONE && top > part->items[fixed].offset) {
            descent_park(descent, rank, fixed);
            return 0;
        }
    }
    offsets[index] = offset;
    descent_set(&descent->loose, index, DESCENT_NONE);
    descent_lay(descent, run, item, place_align_up(top, part->unit));
    return 1;
}

/* Stacks all unplaced items on top of the others, whatever their lifetimes. */
static void descent_give_up(const struct place_descent *descent, uint64_t *offsets) {
    const struct place_part *part = descent->part;
    uint64_t top = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        uint64_t end = offsets[i] == PLACE_NOWHERE ? 0 : offsets[i] + part->items[i].size;
        top = end > top ? end : top;
    }
    for (uint32_t i = 0; i < part->count; i++) {
        if (offsets[i] == PLACE_NOWHERE) {
            offsets[i] = place_align_up(top, part->items[i].align);
            top = offsets[i] + part->items[i].size;
        }
    }
}

void acre__place_descent_run(struct place_descent *descent, const uint32_t *order,
                             uint64_t *offsets) {
    const struct place_part *part = descent->part;
    uint32_t left = part->count - part->fixed_count;
    for (uint32_t i = part->fixed_count; i < part->count; i++)
        offsets[i] = PLACE_NOWHERE;
    if (!place_is_stopped(descent->meter))
        descent_begin(descent, order);
    while (left && !place_is_stopped(descent->meter))
        left -= (uint32_t)descent_step(descent, offsets);
    if (left)
        descent_give_up(descent, offsets);
}
