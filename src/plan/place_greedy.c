/* First fit and best fit over lists that are sorted by offset.
 *
 * To place an item one must meet, from the bottom up, all placed ones that live at the same time. A
 * list of all would hold mostly others; a list for each section would be written once for every
 * section that an item lives in. So there are levels: in each, time is cut into blocks of as many
 * sections, four times as many in the next, and every block has a list of the items that touch it.
 * An item is looked for in the lowest level where it touches two blocks at most; what these hold
 * beyond its own neighbours is what lives nearby, for the most part the same items.
 *
 * The first levels have blocks of several sections, since few items begin or end within them. */
#include "plan/place_greedy.h"

#include <stdlib.h>
#include <string.h>

enum {
    GREEDY_FIRST_SHIFT = 6, /* 64 sections */
    GREEDY_SHIFT = 2,       /* four times as many in the next level */
    GREEDY_LEVELS = 14      /* enough for 2^32 sections */
};

struct greedy_entry {
    uint64_t offset, end;
    uint32_t first, last; /* sections [first, last) */
};

struct greedy_list {
    struct greedy_entry *entries;
    uint32_t count;
};

struct place_greedy {
    const struct place_part *part;
    struct greedy_entry *entries; /* of all lists */
    struct greedy_list *lists;
    struct greedy_list *levels[GREEDY_LEVELS];
    uint32_t level_count;
};

static uint32_t greedy_shift(uint32_t level) {
    return GREEDY_FIRST_SHIFT + GREEDY_SHIFT * level;
}

/* Gives each list as much room as there are items that touch its block. */
static int greedy_lay_out(struct place_greedy *greedy, size_t list_count) {
    const struct place_part *part = greedy->part;
    size_t entry_count = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct place_item *item = &part->items[i];
        for (uint32_t level = 0; level < greedy->level_count; level++) {
            uint32_t shift = greedy_shift(level);
            for (uint32_t b = item->first >> shift; b <= (item->end - 1) >> shift; b++) {
                greedy->levels[level][b].count++;
                entry_count++;
            }
        }
    }
    greedy->entries = malloc(entry_count * sizeof *greedy->entries);
    if (!greedy->entries)
        return 0;
    struct greedy_entry *next = greedy->entries;
    for (size_t l = 0; l < list_count; l++) {
        greedy->lists[l].entries = next;
        next += greedy->lists[l].count;
    }
    return 1;
}

struct place_greedy *acre__place_greedy_create(const struct place_part *part) {
    struct place_greedy *greedy = calloc(1, sizeof *greedy);
    if (!greedy)
        return NULL;
    greedy->part = part;
    size_t list_count = 0, starts[GREEDY_LEVELS];
    do {
        starts[greedy->level_count] = list_count;
        list_count += ((part->sections - 1) >> greedy_shift(greedy->level_count)) + 1;
        greedy->level_count++;
    } while ((part->sections - 1) >> greedy_shift(greedy->level_count - 1));
    greedy->lists = calloc(list_count, sizeof *greedy->lists);
    if (!greedy->lists) {
        acre__place_greedy_destroy(greedy);
        return NULL;
    }
    for (uint32_t level = 0; level < greedy->level_count; level++)
        greedy->levels[level] = greedy->lists + starts[level];
    if (!greedy_lay_out(greedy, list_count)) {
        acre__place_greedy_destroy(greedy);
        return NULL;
    }
    return greedy;
}

void acre__place_greedy_destroy(struct place_greedy *greedy) {
    if (greedy) {
        free(greedy->entries);
        free(greedy->lists);
        free(greedy);
    }
}

static void greedy_empty(struct place_greedy *greedy) {
    for (uint32_t level = 0; level < greedy->level_count; level++) {
        uint32_t blocks = ((greedy->part->sections - 1) >> greedy_shift(level)) + 1;
        for (uint32_t b = 0; b < blocks; b++)
            greedy->levels[level][b].count = 0;
    }
}

static void greedy_list_insert(struct greedy_list *list, const struct greedy_entry *entry) {
    uint32_t low = 0, high = list->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (list->entries[middle].offset <= entry->offset)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(&list->entries[low + 1], &list->entries[low],
            (list->count - low) * sizeof *list->entries);
    list->entries[low] = *entry;
    list->count++;
}

static void greedy_insert(struct place_greedy *greedy, const struct place_item *item,
                          uint64_t offset) {
    struct greedy_entry entry = {offset, offset + item->size, item->first, item->end};
    for (uint32_t level = 0; level < greedy->level_count; level++) {
        uint32_t shift = greedy_shift(level);
        for (uint32_t b = item->first >> shift; b <= (item->end - 1) >> shift; b++)
            greedy_list_insert(&greedy->levels[level][b], &entry);
    }
}

/* ---- looking for a gap ---- */

/* The walk over the entries of two lists by offset. An item in both is met twice, which does no
 * harm. */
struct greedy_walk {
    const struct greedy_entry *at[2], *end[2];
};

static void greedy_walk_begin(struct greedy_walk *walk, const struct place_greedy *greedy,
                              const struct place_item *item) {
    uint32_t level = 0, last = item->end - 1;
    while ((last >> greedy_shift(level)) - (item->first >> greedy_shift(level)) > 1)
        level++;
    const struct greedy_list *lists = greedy->levels[level];
    const struct greedy_list *one = &lists[item->first >> greedy_shift(level)];
    const struct greedy_list *two = &lists[last >> greedy_shift(level)];
    walk->at[0] = one->entries;
    walk->end[0] = one->entries + one->count;
    walk->at[1] = two->entries;
    walk->end[1] = two->entries + (one == two ? 0 : two->count);
}

static const struct greedy_entry *greedy_walk_next(struct greedy_walk *walk) {
    int second = walk->at[1] != walk->end[1] &&
                 (walk->at[0] == walk->end[0] || walk->at[1]->offset < walk->at[0]->offset);
    return walk->at[second] == walk->end[second] ? NULL : walk->at[second]++;
}

static uint64_t greedy_find(const struct place_greedy *greedy, const struct place_item *item,
                            enum place_fit fit) {
    struct greedy_walk walk;
    greedy_walk_begin(&walk, greedy, item);
    uint64_t top = 0, best = 0, best_gap = UINT64_MAX;
    const struct greedy_entry *entry;
    while ((entry = greedy_walk_next(&walk))) {
        if (entry->first >= item->end || entry->last <= item->first)
            continue;
        if (entry->offset > top) {
            uint64_t begin = place_align_up(top, item->align);
            uint64_t gap = entry->offset - top;
            if (begin + item->size <= entry->offset && gap < best_gap) {
                best = begin;
                best_gap = gap;
                if (fit == PLACE_FIRST_FIT)
                    return best;
            }
        }
        top = entry->end > top ? entry->end : top;
    }
    return best_gap != UINT64_MAX ? best : place_align_up(top, item->align);
}

uint64_t acre__place_greedy_run(struct place_greedy *greedy, const uint32_t *order,
                                enum place_fit fit, uint64_t limit, uint64_t *offsets) {
    const struct place_part *part = greedy->part;
    uint64_t height = 0;
    greedy_empty(greedy);
    for (uint32_t i = 0; part->fixed_count && i < part->count; i++) {
        const struct place_item *item = &part->items[i];
        if (item->is_fixed) {
            offsets[i] = item->offset;
            greedy_insert(greedy, item, item->offset);
            height = item->offset + item->size > height ? item->offset + item->size : height;
        }
    }
    for (uint32_t k = 0; k < part->count; k++) {
        const struct place_item *item = &part->items[order[k]];
        if (item->is_fixed)
            continue;
        uint64_t offset = greedy_find(greedy, item, fit), end = offset + item->size;
        if (end > limit)
            return UINT64_MAX;
        offsets[order[k]] = offset;
        greedy_insert(greedy, item, offset);
        height = end > height ? end : height;
    }
    return height;
}
