/* Normalising: from buffers to parts that can be placed one by one.
 *
 * Three things are done that lose nothing. Times become sections. What nothing crosses in time is
 * split: two parts never meet. And an item that lives as long as its whole part is peeled off: all
 * others are entirely below or above it, so that it may as well lie at the bottom, below a part
 * that is smaller and often splits again. That is so only where what is above can move down by the
 * item's room, which must therefore be a multiple of every alignment in the part; and with fixed
 * items, which do not move, only those at the very bottom are peeled. Only the topmost item of a
 * plan need not be rounded up to the unit of alignment, and that might be one of those: in small
 * parts the one that would gain most is left in, in large ones less than a unit is given away. */
#include "plan/place_problem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/place_sort.h"

/* Sums of sizes stay below it, so that no offset overflows, nor one plus a size. */
#define PLACE_MOST_BYTES (UINT64_C(1) << 62)
#define PLACE_MOST_BUFFERS (UINT32_C(1) << 30)

/* Peeling and splitting again costs a sort of what is left, so that after some rounds it must have
 * been worth it: a pyramid of lifetimes would be sorted once an item. */
enum { PLACE_ROUNDS = 8, PLACE_WORTH = 16 };

/* Units of work that a pass over the items takes for each. */
enum { PLACE_PASS = 16 };

/* Items of a part in which what might be topmost is not peeled. */
enum { PLACE_SMALL = 64 };

/* ---- sections ---- */

/* Numbers the sections of all items by their times. Returns how many there are, 0 without memory.
 */
static uint32_t place_sections(struct place_item *items, uint32_t count,
                               struct place_meter *meter) {
    struct place_row *begins = malloc(3 * (size_t)count * sizeof *begins);
    if (!begins)
        return 0;
    struct place_row *ends = begins + count, *spare = ends + count;
    for (uint32_t i = 0; i < count; i++) {
        begins[i] = (struct place_row){place_time_key(items[i].lower), i};
        ends[i] = (struct place_row){place_time_key(items[i].upper), i};
    }
    acre__place_sort(begins, spare, count, meter);
    acre__place_sort(ends, spare, count, meter);
    uint32_t section = 0, was_end = 0;
    for (uint32_t b = 0, e = 0; e < count;) {
        if (b < count && begins[b].key < ends[e].key) {
            section += was_end;
            items[begins[b++].item].first = section;
            was_end = 0;
        } else {
            items[ends[e++].item].end = section + 1;
            was_end = 1;
        }
    }
    meter->work += PLACE_PASS * (uint64_t)count;
    free(begins);
    return section + 1;
}

/* The same for some of these items, from the sections that they had. `marks` has room for as many
 * sections as these. */
static uint32_t place_renumber(struct place_item *items, uint32_t count, uint32_t *marks,
                               struct place_meter *meter) {
    enum { BEGINS = 1, ENDS = 2 };
    uint32_t low = UINT32_MAX, high = 0, section = 0, was_end = 0;
    for (uint32_t i = 0; i < count; i++) {
        low = items[i].first < low ? items[i].first : low;
        high = items[i].end > high ? items[i].end : high;
    }
    memset(marks, 0, (high - low + (size_t)1) * sizeof *marks);
    for (uint32_t i = 0; i < count; i++) {
        marks[items[i].first - low] |= BEGINS;
        marks[items[i].end - low] |= ENDS;
    }
    for (uint32_t s = 0; s < high - low; s++) {
        was_end |= marks[s] & ENDS;
        if (marks[s] & BEGINS) {
            section += was_end != 0;
            was_end = 0;
        }
        marks[s] = section;
    }
    for (uint32_t i = 0; i < count; i++) {
        items[i].first = marks[items[i].first - low];
        items[i].end = marks[items[i].end - 1 - low] + 1;
    }
    meter->work += PLACE_PASS * ((uint64_t)count + (high - low));
    return section + 1;
}

/* ---- from buffers to items ---- */

static uint64_t place_lowest_bit(uint64_t value) {
    return value & (~value + 1);
}

/* The largest power of two that the item's offset is a multiple of, whatever it will be. */
static uint64_t place_grain(uint64_t align, uint64_t offset, uint32_t is_fixed) {
    if (!is_fixed)
        return align;
    return offset ? place_lowest_bit(offset) : PLACE_MOST_BYTES;
}

static int place_check_buffer(const struct acre__place_buffer *buffer) {
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

/* Checks all and sums up what the worst plan could need. */
static int place_check(const struct acre__place_buffer *buffers, size_t count, uint64_t *unit) {
    uint64_t sum = 0, fixed_end = 0, least = PLACE_MOST_BYTES;
    for (size_t i = 0; i < count; i++) {
        int rc = place_check_buffer(&buffers[i]);
        if (rc)
            return rc;
        uint64_t align = buffers[i].align ? buffers[i].align : 1;
        uint64_t offset = buffers[i].is_fixed ? buffers[i].offset : 0;
        uint64_t grain = place_grain(align, offset, buffers[i].is_fixed != 0);
        least = grain < least ? grain : least;
        if (offset + buffers[i].size > fixed_end)
            fixed_end = offset + buffers[i].size;
        sum += buffers[i].size + (offset ? grain : align) - 1;
        if (sum + fixed_end >= PLACE_MOST_BYTES)
            return -EOVERFLOW;
    }
    *unit = least == PLACE_MOST_BYTES ? 1 : least;
    return 0;
}

static void place_items(struct place_problem *problem, const struct acre__place_buffer *buffers,
                        uint64_t unit) {
    for (uint32_t i = 0; i < problem->count; i++) {
        problem->items[i] = (struct place_item){
            .size = buffers[i].size,
            .room = place_align_up(buffers[i].size, unit),
            .align = buffers[i].align ? buffers[i].align : 1,
            .offset = buffers[i].is_fixed ? buffers[i].offset : 0,
            .lower = buffers[i].lower,
            .upper = buffers[i].upper,
            .id = i,
            .is_fixed = buffers[i].is_fixed != 0,
        };
    }
}

/* ---- peeling and splitting ---- */

/* A range of the items that waits to be looked at. */
struct place_range {
    uint32_t begin, end, rounds;
    uint64_t base;
    uint32_t is_exact;
};

struct place_splitter {
    struct place_problem *problem;
    struct place_meter *meter;
    struct place_range *waiting; /* at most one an item */
    uint32_t waiting_count;
    struct place_item *spare; /* as many as items */
    uint32_t *marks;          /* one for each possible section */
    uint64_t unit;
};

/* The largest slack of an item in each section: a complete binary tree over sections, where an item
 * is noted in the few nodes that make up its life. */
static int place_sum_slack(struct place_part *part, uint64_t unit, struct place_meter *meter) {
    size_t leaves = part->sections;
    uint64_t *tree = calloc(2 * leaves, sizeof *tree);
    if (!tree)
        return -ENOMEM;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct place_item *item = &part->items[i];
        uint64_t slack = place_align_up(item->size, unit) - item->size;
        if (slack == 0 || place_grain(item->align, item->offset, item->is_fixed) < unit)
            continue;
        size_t low = item->first + leaves, high = item->end + leaves;
        for (; low < high; low = (low + 1) / 2, high /= 2) {
            if (low & 1)
                tree[low] = slack > tree[low] ? slack : tree[low];
            if (high & 1)
                tree[high - 1] = slack > tree[high - 1] ? slack : tree[high - 1];
        }
        meter->work += 2 * PLACE_PASS;
    }
    for (size_t k = 2; k < 2 * leaves; k++)
        tree[k] = tree[k / 2] > tree[k] ? tree[k / 2] : tree[k];
    memcpy(part->slack, tree + leaves, leaves * sizeof *tree);
    free(tree);
    return 0;
}

/* Sums of sections, and what follows from them: of all items whose offsets are multiples of `unit`,
 * with sizes rounded up to it, since each begins at a multiple at or above the end of the one
 * below.
 */
static int place_sum(struct place_part *part, uint64_t unit, struct place_meter *meter) {
    uint32_t has_slack = 0;
    memset(part->slack, 0, part->sections * sizeof *part->slack);
    memset(part->total, 0, (part->sections + (size_t)1) * sizeof *part->total);
    part->fixed_count = 0;
    part->bound = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct place_item *item = &part->items[i];
        part->fixed_count += item->is_fixed;
        if (item->is_fixed && item->offset + item->size > part->bound)
            part->bound = item->offset + item->size;
        if (place_grain(item->align, item->offset, item->is_fixed) < unit)
            continue;
        uint64_t room = place_align_up(item->size, unit);
        part->total[item->first] += room;
        part->total[item->end] -= room; /* a difference, modulo 2^64 */
        has_slack |= room != item->size;
    }
    meter->work += PLACE_PASS * ((uint64_t)part->count + part->sections);
    if (has_slack && place_sum_slack(part, unit, meter))
        return -ENOMEM;
    part->loose_bound = part->bound;
    for (uint32_t s = 0; s < part->sections; s++) {
        uint64_t total = part->total[s] += s ? part->total[s - 1] : 0;
        uint64_t tight = total - part->slack[s];
        part->bound = tight > part->bound ? tight : part->bound;
        part->loose_bound = total > part->loose_bound ? total : part->loose_bound;
    }
    return 0;
}

/* Arrays for the sums of a part. Returns 0 without memory. */
static int place_make_sums(struct place_part *part) {
    part->slack = malloc((2 * (size_t)part->sections + 1) * sizeof *part->slack);
    part->total = part->slack ? part->slack + part->sections : NULL;
    return part->slack != NULL;
}

static int place_part_add(struct place_splitter *splitter, const struct place_range *range,
                          uint32_t sections) {
    struct place_problem *problem = splitter->problem;
    struct place_part *part = &problem->parts[problem->part_count++];
    *part = (struct place_part){
        .items = problem->items + range->begin,
        .count = range->end - range->begin,
        .sections = sections,
        .base = range->base,
        .unit = splitter->unit,
        .is_exact = range->is_exact,
    };
    return place_make_sums(part) ? place_sum(part, part->unit, splitter->meter) : -ENOMEM;
}

/* Whether the item may lie at the bottom of the range, for good. */
static int place_may_peel(const struct place_item *item, uint32_t count, uint32_t sections,
                          uint64_t align, uint32_t has_fixed) {
    if (item->first != 0 || item->end != sections || item->room & (align - 1))
        return 0;
    if (has_fixed)
        return item->is_fixed && item->offset == 0;
    return item->room == item->size || count == 1 || count > PLACE_SMALL;
}

/* Moves items of the whole span to the front of the range, stacks them, and leaves the rest in it.
 * Returns how many. One fixed item at a time: the next one may then be at the bottom. */
static uint32_t place_peel(struct place_splitter *splitter, struct place_range *range,
                           uint32_t sections) {
    struct place_problem *problem = splitter->problem;
    struct place_item *items = problem->items;
    uint64_t align = 1;
    uint32_t count = range->end - range->begin, has_fixed = 0, peeled = 0, rest = 0;
    for (uint32_t i = range->begin; i < range->end; i++) {
        align = items[i].align > align ? items[i].align : align;
        has_fixed |= items[i].is_fixed;
    }
    uint64_t base = range->base;
    for (uint32_t i = range->begin; i < range->end; i++) {
        if ((has_fixed && peeled) ||
            !place_may_peel(&items[i], count, sections, align, has_fixed)) {
            splitter->spare[rest++] = items[i];
            continue;
        }
        struct place_item item = items[i];
        problem->offsets[item.id] = base;
        /* What lies below it could not lie elsewhere, or would have to lie above it. */
        if (range->is_exact && base + item.size > problem->bound)
            problem->bound = base + item.size;
        if (base + item.size > problem->peeled_end)
            problem->peeled_end = base + item.size;
        base += item.room;
        range->is_exact &= item.is_fixed || item.room == item.size || count == 1;
        items[range->begin + peeled++] = item;
    }
    for (uint32_t i = 0; i < rest; i++) {
        if (splitter->spare[i].is_fixed)
            splitter->spare[i].offset -= base - range->base;
        items[range->begin + peeled + i] = splitter->spare[i];
    }
    range->begin += peeled;
    range->base = base;
    return peeled;
}

/* Sorts the range by connected parts, which are left waiting. Returns 0 if it is one already. */
static uint32_t place_split(struct place_splitter *splitter, const struct place_range *range,
                            uint32_t sections) {
    struct place_item *items = splitter->problem->items;
    uint32_t *marks = splitter->marks;
    memset(marks, 0, (sections + 1) * sizeof *marks);
    for (uint32_t i = range->begin; i < range->end; i++) {
        /* Differences: how many items cross the border before each section. */
        marks[items[i].first + 1]++;
        marks[items[i].end]--;
    }
    uint32_t parts = 1, crossing = 0;
    marks[0] = 0;
    for (uint32_t s = 1; s < sections; s++) {
        crossing += marks[s];
        parts += crossing == 0;
        marks[s] = parts - 1;
    }
    if (parts == 1)
        return 0;
    uint32_t first_range = splitter->waiting_count;
    for (uint32_t p = 0; p < parts; p++) {
        splitter->waiting[splitter->waiting_count++] =
            (struct place_range){.base = range->base, .is_exact = range->is_exact};
    }
    struct place_range *found = splitter->waiting + first_range;
    for (uint32_t i = range->begin; i < range->end; i++)
        found[marks[items[i].first]].end++;
    uint32_t at = range->begin;
    for (uint32_t p = 0; p < parts; p++) {
        uint32_t in_part = found[p].end;
        /* One of half the size pays for its own rounds. */
        found[p].rounds = in_part > (range->end - range->begin) / 2 ? range->rounds + 1 : 0;
        found[p].begin = found[p].end = at;
        at += in_part;
    }
    memcpy(splitter->spare, items + range->begin, (range->end - range->begin) * sizeof *items);
    for (uint32_t i = 0; i < range->end - range->begin; i++)
        items[found[marks[splitter->spare[i].first]].end++] = splitter->spare[i];
    return 1;
}

/* Takes the range apart until it is one part that cannot be peeled, or several that wait. */
static int place_take_apart(struct place_splitter *splitter, struct place_range range) {
    uint32_t peeled = 0;
    for (;; range.rounds++) {
        uint32_t count = range.end - range.begin;
        if (count == 0)
            return 0;
        uint32_t sections = place_renumber(splitter->problem->items + range.begin, count,
                                           splitter->marks, splitter->meter);
        splitter->meter->work += 4 * PLACE_PASS * (uint64_t)count;
        if (place_is_stopped(splitter->meter))
            return place_part_add(splitter, &range, sections);
        if (place_split(splitter, &range, sections))
            return 0;
        if (range.rounds >= PLACE_ROUNDS && peeled < count / PLACE_WORTH)
            return place_part_add(splitter, &range, sections);
        peeled = place_peel(splitter, &range, sections);
        if (peeled == 0)
            return place_part_add(splitter, &range, sections);
    }
}

static int place_split_all(struct place_problem *problem, uint64_t unit,
                           struct place_meter *meter) {
    struct place_splitter splitter = {.problem = problem, .meter = meter, .unit = unit};
    size_t count = problem->count;
    splitter.waiting = malloc((count + 1) * sizeof *splitter.waiting);
    splitter.spare = malloc(count * sizeof *splitter.spare);
    splitter.marks = malloc((count + 2) * sizeof *splitter.marks);
    int rc = splitter.waiting && splitter.spare && splitter.marks ? 0 : -ENOMEM;
    if (rc == 0)
        splitter.waiting[splitter.waiting_count++] =
            (struct place_range){.end = problem->count, .is_exact = 1};
    while (rc == 0 && splitter.waiting_count)
        rc = place_take_apart(&splitter, splitter.waiting[--splitter.waiting_count]);
    for (uint32_t p = 0; rc == 0 && p < problem->part_count; p++) {
        const struct place_part *part = &problem->parts[p];
        if (part->is_exact && part->base + part->bound > problem->bound)
            problem->bound = part->base + part->bound;
    }
    free(splitter.waiting);
    free(splitter.spare);
    free(splitter.marks);
    return rc;
}

/* ---- the whole ---- */

/* The bound of the whole is taken before anything is peeled, which forgets which item may lie on
 * top and spare its slack. It is the highest one for any alignment: items with a large one take
 * more than their sizes from each other, even where those with small ones fill the gaps. */
static int place_bound(struct place_problem *problem, uint64_t unit, struct place_meter *meter) {
    struct place_part whole = {.items = problem->items, .count = problem->count};
    uint64_t grains = 0;
    whole.sections = place_sections(problem->items, problem->count, meter);
    int rc = whole.sections && place_make_sums(&whole) ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < problem->count; i++) {
        const struct place_item *item = &problem->items[i];
        grains |= place_grain(item->align, item->offset, item->is_fixed);
    }
    /* Beyond all alignments there are only fixed items at the bottom. */
    for (; rc == 0 && unit && unit < PLACE_MOST_BYTES;
         unit = place_lowest_bit(grains & ~(2 * unit - 1))) {
        if (problem->bound && place_is_stopped(meter))
            break;
        rc = place_sum(&whole, unit, meter);
        problem->bound = whole.bound > problem->bound ? whole.bound : problem->bound;
    }
    free(whole.slack);
    return rc;
}

static int place_problem_fill(struct place_problem *problem,
                              const struct acre__place_buffer *buffers, size_t count,
                              uint64_t capacity, struct place_meter *meter) {
    uint64_t unit;
    if (count > PLACE_MOST_BUFFERS)
        return -EOVERFLOW;
    int rc = place_check(buffers, count, &unit);
    if (rc || count == 0)
        return rc;
    problem->count = (uint32_t)count;
    problem->items = malloc(count * sizeof *problem->items);
    if (!problem->items)
        return -ENOMEM;
    place_items(problem, buffers, unit);
    meter->work += 2 * PLACE_PASS * (uint64_t)count;
    rc = place_bound(problem, unit, meter);
    if (rc || (capacity && problem->bound > capacity))
        return rc;
    problem->offsets = calloc(count, sizeof *problem->offsets);
    problem->parts = calloc(count, sizeof *problem->parts);
    if (!problem->offsets || !problem->parts)
        return -ENOMEM;
    return place_split_all(problem, unit, meter);
}

int acre__place_problem_create(struct place_problem *problem,
                               const struct acre__place_buffer *buffers, size_t count,
                               uint64_t capacity, struct place_meter *meter) {
    *problem = (struct place_problem){0};
    return place_problem_fill(problem, buffers, count, capacity, meter);
}

void acre__place_problem_destroy(struct place_problem *problem) {
    for (uint32_t p = 0; p < problem->part_count; p++)
        free(problem->parts[p].slack);
    free(problem->parts);
    free(problem->offsets);
    free(problem->items);
    *problem = (struct place_problem){0};
}
