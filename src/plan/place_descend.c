/* A descent: the heights of all sections are a skyline, and its lowest stretch is filled first.
 *
 * An item that lies down on a stretch that is nowhere lower or higher than another wastes nothing.
 * So the lowest stretch is taken, and of the items that live entirely within it the first one in
 * the order; when there is none, nothing will ever lie there, and the stretch rises to the lower
 * one of its neighbours and is one with it. Every item is asked for once and every stretch rises
 * once, so that all depends on how fast the first item within a stretch is found: items are points
 * (first, end) in the plane, kept in a balanced tree of boxes that each know their first item. */
#include "plan/place_descend.h"

#include <stdlib.h>
#include <string.h>

#define DESCENT_NONE UINT32_MAX

enum { DESCENT_LEAF = 8 }; /* items in the smallest boxes: fewer only make the tree larger */

/* A box of items, in an implicit tree: box k has 2k + 1 and 2k + 2 inside it. */
struct descent_box {
    uint32_t low_first, high_first, low_end, high_end;
    uint32_t rank;         /* the least of an item to come, DESCENT_NONE: none */
    uint32_t begin, count; /* its items */
};

/* A stretch of sections of one height. */
struct descent_run {
    uint64_t height;
    uint32_t end;      /* the section after it; where the next stretch begins */
    uint32_t previous; /* where the one before begins, DESCENT_NONE at the left */
    uint32_t heap_at;
};

struct place_descent {
    const struct place_part *part;
    struct descent_box *boxes;
    uint32_t *points;         /* items, sorted into boxes */
    uint32_t *box_of;         /* of each item: its smallest box */
    uint32_t *rank;           /* of each item; DESCENT_NONE when it is placed */
    struct descent_run *runs; /* by the section where they begin */
    uint32_t *heap;           /* of stretches: the lowest, and of those the leftmost, first */
    uint32_t heap_count, box_count;
};

/* ---- the tree of boxes ---- */

struct descent_sort {
    const struct place_item *items;
    int by_end;
};

static uint64_t descent_key(const struct place_item *item, int by_end, uint32_t index) {
    uint64_t coordinate = by_end ? item->end : item->first;
    return coordinate << 32 | index;
}

/* Puts the items with the smallest keys into the first half: quickselect, the pivot in the middle.
 */
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

static void descent_build(struct place_descent *descent, uint32_t box, uint32_t begin,
                          uint32_t count, int by_end) {
    const struct place_item *items = descent->part->items;
    struct descent_box *it = &descent->boxes[box];
    *it = (struct descent_box){
        .low_first = UINT32_MAX, .low_end = UINT32_MAX, .begin = begin, .count = count};
    for (uint32_t k = begin; k < begin + count; k++) {
        const struct place_item *item = &items[descent->points[k]];
        it->low_first = item->first < it->low_first ? item->first : it->low_first;
        it->high_first = item->first > it->high_first ? item->first : it->high_first;
        it->low_end = item->end < it->low_end ? item->end : it->low_end;
        it->high_end = item->end > it->high_end ? item->end : it->high_end;
        descent->box_of[descent->points[k]] = box;
    }
    if (count <= DESCENT_LEAF)
        return;
    descent_halve(items, descent->points + begin, count, by_end);
    /* Deep by the logarithm of the number of items. */
    descent_build(descent, 2 * box + 1, begin, count / 2, !by_end);
    descent_build(descent, 2 * box + 2, begin + count / 2, count - count / 2, !by_end);
}

static int descent_is_leaf(const struct descent_box *box) {
    return box->count <= DESCENT_LEAF;
}

static void descent_sum_up(struct place_descent *descent, uint32_t box) {
    struct descent_box *it = &descent->boxes[box];
    if (!descent_is_leaf(it)) {
        uint32_t one = descent->boxes[2 * box + 1].rank, two = descent->boxes[2 * box + 2].rank;
        it->rank = one < two ? one : two;
        return;
    }
    it->rank = DESCENT_NONE;
    for (uint32_t k = it->begin; k < it->begin + it->count; k++) {
        uint32_t rank = descent->rank[descent->points[k]];
        it->rank = rank < it->rank ? rank : it->rank;
    }
}

static void descent_sum_all(struct place_descent *descent, uint32_t box) {
    if (!descent_is_leaf(&descent->boxes[box])) {
        descent_sum_all(descent, 2 * box + 1);
        descent_sum_all(descent, 2 * box + 2);
    }
    descent_sum_up(descent, box);
}

static void descent_drop(struct place_descent *descent, uint32_t item) {
    uint32_t box = descent->box_of[item], rank = descent->rank[item];
    descent->rank[item] = DESCENT_NONE;
    descent_sum_up(descent, box);
    while (box) {
        box = (box - 1) / 2;
        if (descent->boxes[box].rank != rank)
            break; /* another one came first there, and above it as well */
        descent_sum_up(descent, box);
    }
}

/* The least rank of an item within [from, to), if it is less than `best`. */
static uint32_t descent_first(const struct place_descent *descent, uint32_t box, uint32_t from,
                              uint32_t to, uint32_t best) {
    const struct descent_box *it = &descent->boxes[box];
    if (it->rank >= best || it->high_first < from || it->low_end > to)
        return best;
    if (it->low_first >= from && it->high_end <= to)
        return it->rank;
    if (!descent_is_leaf(it)) {
        best = descent_first(descent, 2 * box + 1, from, to, best);
        return descent_first(descent, 2 * box + 2, from, to, best);
    }
    for (uint32_t k = it->begin; k < it->begin + it->count; k++) {
        uint32_t point = descent->points[k];
        const struct place_item *item = &descent->part->items[point];
        if (item->first >= from && item->end <= to && descent->rank[point] < best)
            best = descent->rank[point];
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

/* Takes the stretch out; the one before it goes on to its end, or the one after it begins where it
 * did, as the caller says next. */
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

/* Nothing fits there any more: up to the lower neighbour. */
static void descent_rise(struct place_descent *descent, uint32_t run) {
    struct descent_run *it = &descent->runs[run];
    uint64_t left = it->previous == DESCENT_NONE ? UINT64_MAX : descent->runs[it->previous].height;
    uint64_t right =
        it->end == descent->part->sections ? UINT64_MAX : descent->runs[it->end].height;
    it->height = left < right ? left : right;
    descent_heap_move(descent, it->heap_at);
    if (it->height == right && right != UINT64_MAX)
        descent_join(descent, run);
    if (it->height == left && left != UINT64_MAX)
        descent_join(descent, it->previous);
}

/* Lays the item on the stretch: what is beside it stays as it is, the item's own part rises. */
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
    /* Stretches of one height side by side are one. */
    struct descent_run *it = &descent->runs[item->first];
    if (it->end < descent->part->sections && descent->runs[it->end].height == it->height)
        descent_join(descent, item->first);
    if (it->previous != DESCENT_NONE && descent->runs[it->previous].height == it->height)
        descent_join(descent, it->previous);
}

/* ---- the whole ---- */

struct place_descent *acre__place_descent_create(const struct place_part *part) {
    struct place_descent *descent = calloc(1, sizeof *descent);
    if (!descent)
        return NULL;
    size_t n = part->count;
    descent->part = part;
    /* The tree is halved until boxes are small: twice as many boxes as a power of two above n. */
    descent->box_count = 2;
    for (size_t k = n; k > DESCENT_LEAF; k -= k / 2)
        descent->box_count *= 2;
    descent->boxes = malloc(descent->box_count * sizeof *descent->boxes);
    descent->points = malloc(n * sizeof *descent->points);
    descent->box_of = malloc(n * sizeof *descent->box_of);
    descent->rank = malloc(n * sizeof *descent->rank);
    descent->runs = malloc(part->sections * sizeof *descent->runs);
    descent->heap = malloc(part->sections * sizeof *descent->heap);
    if (!descent->boxes || !descent->points || !descent->box_of || !descent->rank ||
        !descent->runs || !descent->heap) {
        acre__place_descent_destroy(descent);
        return NULL;
    }
    for (uint32_t i = 0; i < part->count; i++)
        descent->points[i] = i;
    descent_build(descent, 0, 0, part->count, 0);
    return descent;
}

void acre__place_descent_destroy(struct place_descent *descent) {
    if (descent) {
        free(descent->boxes);
        free(descent->points);
        free(descent->box_of);
        free(descent->rank);
        free(descent->runs);
        free(descent->heap);
        free(descent);
    }
}

uint64_t acre__place_descent_run(struct place_descent *descent, const uint32_t *order,
                                 uint64_t *offsets) {
    const struct place_part *part = descent->part;
    uint64_t height = 0;
    for (uint32_t k = 0; k < part->count; k++)
        descent->rank[order[k]] = k;
    descent_sum_all(descent, 0);
    descent->heap_count = 0;
    descent_add_run(descent, 0, part->sections, 0, DESCENT_NONE);
    for (uint32_t left = part->count; left;) {
        uint32_t run = descent->heap[0];
        uint32_t rank = descent_first(descent, 0, run, descent->runs[run].end, DESCENT_NONE);
        if (rank == DESCENT_NONE) {
            descent_rise(descent, run);
            continue;
        }
        uint32_t index = order[rank];
        const struct place_item *item = &part->items[index];
        uint64_t offset = place_align_up(descent->runs[run].height, item->align);
        uint64_t end = offset + item->size;
        offsets[index] = offset;
        height = end > height ? end : height;
        descent_drop(descent, index);
        descent_lay(descent, run, item, place_align_up(end, part->unit));
        left--;
    }
    return height;
}
