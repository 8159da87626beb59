/* Normalizes buffers into parts that can be placed one by one.
 *
 * Times become sections. The problem is split where no lifetime crosses, so two parts never overlap
 * in time. */
#include "plan/place_problem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/place_sort.h"
#include "plan/place_tree.h"

/* Limit of the sum of sizes: no offset overflows, even with a size added. */
#define PLACE_MOST_BYTES (UINT64_C(1) << 62)
#define PLACE_MOST_BUFFERS (UINT32_C(1) << 30)

/* Units of work per item in one pass. */
enum { PLACE_PASS = 16 };

/* ---- sections ---- */

uint32_t acre__place_sections(const struct acre__place_buffer *buffers, uint32_t count,
                              struct place_life *lives, struct place_meter *meter) {
    struct place_row *begins = malloc((3 * (size_t)count + 1) * sizeof *begins);
    if (!begins)
        return 0;
    struct place_row *ends = begins + count, *spare = ends + count;
    for (uint32_t i = 0; i < count; i++) {
        begins[i] = (struct place_row){place_time_key(buffers[i].lower), i};
        ends[i] = (struct place_row){place_time_key(buffers[i].upper), i};
    }
    acre__place_sort(begins, spare, count, meter);
    acre__place_sort(ends, spare, count, meter);
    uint32_t section = 0, was_end = 0;
    for (uint32_t b = 0, e = 0; e < count;) {
        if (b < count && begins[b].key < ends[e].key) {
            section += was_end;
            lives[begins[b++].item].first = section;
            was_end = 0;
        } else {
            lives[ends[e++].item].end = section + 1;
            was_end = 1;
        }
    }
    meter->work += PLACE_PASS * (uint64_t)count;
    free(begins);
    return section + 1;
}

/* ---- from buffers to items ---- */

/* Returns the largest power of two that divides the buffer's offset, wherever it is placed. */
static uint64_t place_grain(const struct acre__place_buffer *buffer) {
    if (!buffer->is_fixed)
        return buffer->align ? buffer->align : 1;
    return buffer->offset ? buffer->offset & (~buffer->offset + 1) : PLACE_MOST_BYTES;
}

static int place_check(const struct acre__place_buffer *buffer) {
    uint64_t align = buffer->align ? buffer->align : 1;
    if (buffer->size == 0 || buffer->upper <= buffer->lower || (align & (align - 1)))
        return -EINVAL;
    if (buffer->is_fixed && buffer->offset & (align - 1))
        return -EINVAL;
    if (buffer->size >= PLACE_MOST_BYTES || align >= PLACE_MOST_BYTES ||
        (buffer->is_fixed && buffer->offset >= PLACE_MOST_BYTES))
        return -EOVERFLOW;
    return 0;
}

/* Checks all buffers, sums up what the worst plan could need, and creates the items. */
static int place_items(struct place_problem *problem, const struct acre__place_buffer *buffers) {
    uint64_t sum = 0, least = PLACE_MOST_BYTES;
    for (uint32_t i = 0; i < problem->count; i++) {
        const struct acre__place_buffer *buffer = &buffers[i];
        int rc = place_check(buffer);
        if (rc)
            return rc;
        struct place_item *item = &problem->items[i];
        *item = (struct place_item){.size = buffer->size,
                                    .align = buffer->align ? buffer->align : 1,
                                    .grain = place_grain(buffer),
                                    .offset = buffer->is_fixed ? buffer->offset : 0,
                                    .duration = (uint64_t)buffer->upper - (uint64_t)buffer->lower,
                                    .id = i,
                                    .is_fixed = buffer->is_fixed != 0};
        least = item->grain < least ? item->grain : least;
        if (item->is_fixed && item->offset + item->size > problem->bound)
            problem->bound = item->offset + item->size;
        sum += item->size + (item->offset ? item->grain : item->align) - 1;
        if (sum + problem->bound >= PLACE_MOST_BYTES)
            return -EOVERFLOW;
    }
    problem->unit = least == PLACE_MOST_BYTES ? 1 : least;
    for (uint32_t i = 0; i < problem->count; i++)
        problem->items[i].room = place_align_up(problem->items[i].size, problem->unit);
    return 0;
}

/* Computes the sections, and allocates arrays for their sums. */
static int place_cut(struct place_problem *problem, const struct acre__place_buffer *buffers,
                     struct place_meter *meter) {
    struct place_life *lives = malloc(problem->count * sizeof *lives);
    if (!lives)
        return -ENOMEM;
    problem->sections = acre__place_sections(buffers, problem->count, lives, meter);
    for (uint32_t i = 0; problem->sections && i < problem->count; i++) {
        problem->items[i].first = lives[i].first;
        problem->items[i].end = lives[i].end;
    }
    free(lives);
    problem->total = malloc((problem->sections + (size_t)1) * sizeof *problem->total);
    problem->slack = malloc((problem->sections + (size_t)1) * sizeof *problem->slack);
    return problem->sections && problem->total && problem->slack ? 0 : -ENOMEM;
}

/* ---- the lower bound ---- */

/* Computes the sums of sections and the bound that follows from them, for all items whose offsets
 * are multiples of `unit`. Sizes are rounded up to `unit`, because each item begins at a multiple
 * at or above the end of the one below. Only the topmost item of a section need not be rounded
 * up. */
static int place_sum(struct place_problem *problem, uint64_t unit, struct place_meter *meter) {
    struct place_tree slack;
    if (acre__place_tree_create(&slack, problem->sections))
        return -ENOMEM;
    memset(problem->total, 0, (problem->sections + (size_t)1) * sizeof *problem->total);
    for (uint32_t i = 0; i < problem->count; i++) {
        const struct place_item *item = &problem->items[i];
        if (item->grain < unit)
            continue;
        uint64_t room = place_align_up(item->size, unit);
        problem->total[item->first] += room;
        problem->total[item->end] -= room; /* a difference modulo 2^64 */
        if (room != item->size)
            acre__place_tree_raise(&slack, item->first, item->end, room - item->size);
    }
    for (uint32_t s = 0; s < problem->sections; s++) {
        problem->total[s] += s ? problem->total[s - 1] : 0;
        problem->slack[s] = acre__place_tree_most(&slack, s, s + 1);
        uint64_t tight = problem->total[s] - problem->slack[s];
        problem->bound = tight > problem->bound ? tight : problem->bound;
    }
    meter->work += 2 * PLACE_PASS * ((uint64_t)problem->count + problem->sections);
    acre__place_tree_destroy(&slack);
    return 0;
}

/* Computes the bound: the highest one for any alignment. Items with a large alignment waste space
 * between each other, even where items with small alignments fill the gaps. */
static int place_bound(struct place_problem *problem, struct place_meter *meter) {
    uint64_t grains = 0;
    int rc = 0;
    for (uint32_t i = 0; i < problem->count; i++)
        grains |= problem->items[i].grain;
    /* Above all alignments there are only fixed items at the bottom. The unit is the smallest
     * alignment; its sums come last and stay. */
    for (uint64_t grain = PLACE_MOST_BYTES / 2; rc == 0 && grain > problem->unit; grain /= 2) {
        if (grains & grain && !place_is_stopped(meter))
            rc = place_sum(problem, grain, meter);
    }
    return rc ? rc : place_sum(problem, problem->unit, meter);
}

/* ---- parts ---- */

/* Writes the part of each section, and creates parts that know their sections. Returns 0 or
 * -ENOMEM. */
static int place_split(struct place_problem *problem, uint32_t *part_of) {
    uint32_t crossing = 0;
    for (uint32_t i = 0; i < problem->count; i++) {
        /* Differences: the number of items that cross the border before each section. */
        part_of[problem->items[i].first + 1]++;
        part_of[problem->items[i].end]--;
    }
    for (uint32_t s = 0; s < problem->sections; s++) {
        crossing += s ? part_of[s] : 0;
        problem->part_count += crossing == 0;
        part_of[s] = problem->part_count - 1;
    }
    problem->parts = calloc(problem->part_count, sizeof *problem->parts);
    for (uint32_t s = 0; problem->parts && s < problem->sections; s++) {
        struct place_part *part = &problem->parts[part_of[s]];
        uint64_t total = problem->total[s];
        if (part->sections++ == 0) {
            part->unit = problem->unit;
            part->total = problem->total + s;
            part->slack = problem->slack + s;
        }
        part->loose_bound = total > part->loose_bound ? total : part->loose_bound;
    }
    return problem->parts ? 0 : -ENOMEM;
}

/* Sorts the items by part, the fixed ones first, by offset. `rows` has room for twice as many. */
static void place_sort_items(const struct place_problem *problem, const uint32_t *part_of,
                             struct place_row *rows, struct place_meter *meter) {
    const struct place_item *items = problem->items;
    uint32_t count = problem->count;
    for (uint32_t i = 0; i < count; i++)
        rows[i] = (struct place_row){items[i].is_fixed ? items[i].offset : PLACE_MOST_BYTES, i};
    acre__place_sort(rows, rows + count, count, meter);
    for (uint32_t k = 0; k < count; k++)
        rows[k].key = part_of[items[rows[k].item].first];
    acre__place_sort(rows, rows + count, count, meter);
}

/* Assigns the items to their parts. */
static int place_fill_parts(struct place_problem *problem, const struct place_row *rows,
                            struct place_meter *meter) {
    struct place_tree totals;
    struct place_item *sorted = malloc(problem->count * sizeof *sorted);
    int rc = acre__place_tree_create(&totals, problem->sections);
    for (uint32_t s = 0; rc == 0 && s < problem->sections; s++)
        acre__place_tree_raise(&totals, s, s + 1, problem->total[s]);
    for (uint32_t k = 0; rc == 0 && sorted && k < problem->count; k++) {
        struct place_part *part = &problem->parts[rows[k].key];
        struct place_item *item = &sorted[k];
        *item = problem->items[rows[k].item];
        item->peak = acre__place_tree_most(&totals, item->first, item->end);
        item->first -= (uint32_t)(part->total - problem->total);
        item->end -= (uint32_t)(part->total - problem->total);
        part->items = part->count++ ? part->items : item;
        part->fixed_count += item->is_fixed;
        if (item->is_fixed && item->offset + item->size > part->loose_bound)
            part->loose_bound = item->offset + item->size;
    }
    meter->work += 4 * PLACE_PASS * (uint64_t)problem->count;
    acre__place_tree_destroy(&totals);
    if (!sorted)
        return -ENOMEM;
    free(problem->items);
    problem->items = sorted;
    return rc;
}

static int place_make_parts(struct place_problem *problem, struct place_meter *meter) {
    uint32_t *part_of = calloc(problem->sections + (size_t)1, sizeof *part_of);
    struct place_row *rows = malloc(2 * (size_t)problem->count * sizeof *rows);
    int rc = part_of && rows ? place_split(problem, part_of) : -ENOMEM;
    if (rc == 0) {
        place_sort_items(problem, part_of, rows, meter);
        rc = place_fill_parts(problem, rows, meter);
    }
    free(part_of);
    free(rows);
    return rc;
}

/* ---- the problem ---- */

int acre__place_problem_create(struct place_problem *problem,
                               const struct acre__place_buffer *buffers, size_t count,
                               uint64_t capacity, struct place_meter *meter) {
    *problem = (struct place_problem){.count = (uint32_t)count};
    if (count > PLACE_MOST_BUFFERS)
        return -EOVERFLOW;
    if (count == 0)
        return 0;
    problem->items = malloc(count * sizeof *problem->items);
    int rc = problem->items ? place_items(problem, buffers) : -ENOMEM;
    meter->work += 2 * PLACE_PASS * (uint64_t)count;
    if (rc == 0)
        rc = place_cut(problem, buffers, meter);
    if (rc == 0)
        rc = place_bound(problem, meter);
    if (rc || (capacity && problem->bound > capacity))
        return rc;
    return place_make_parts(problem, meter);
}

void acre__place_problem_destroy(struct place_problem *problem) {
    free(problem->parts);
    free(problem->total);
    free(problem->slack);
    free(problem->items);
    *problem = (struct place_problem){0};
}
