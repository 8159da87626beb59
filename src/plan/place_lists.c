/* Lists of placed items, sorted by offset, and first and best fit over them.
 *
 * To place an item one must meet, from the bottom up, all placed ones that live at the same time. A
 * list of all would hold mostly others; a list for each section would be written once for every
 * section that an item lives in. So there are levels: in each, time is cut into blocks of as many
 * sections, four times as many in the next, and every block has a list of the items that touch it.
 * An item is looked for in the lowest level where it touches two blocks at most; what these hold
 * beyond its own neighbours is what lives nearby, for the most part the same items. The lowest
 * level has blocks of many sections, since few items begin or end within them. */
#include "plan/place_lists.h"

#include <stdlib.h>
#include <string.h>

enum {
    LISTS_FIRST_SHIFT = 6, /* 64 sections */
    LISTS_SHIFT = 2,       /* four times as many in the next level */
    LISTS_LEVELS = 14      /* enough for 2^32 sections */
};

struct lists_entry {
    uint64_t offset, end;
    uint32_t first, last; /* sections [first, last) */
    uint32_t item;
};

struct lists_list {
    struct lists_entry *entries;
    uint32_t count;
};

struct place_lists {
    const struct place_part *part;
    struct lists_entry *entries; /* of all lists */
    struct lists_list *lists;
    struct lists_list *levels[LISTS_LEVELS];
    uint32_t level_count;
    size_t list_count;
};

static uint32_t lists_shift(uint32_t level) {
    return LISTS_FIRST_SHIFT + LISTS_SHIFT * level;
}

/* Gives each list as much room as there are items that touch its block. */
static int lists_lay_out(struct place_lists *lists) {
    const struct place_part *part = lists->part;
    size_t entry_count = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct place_item *item = &part->items[i];
        for (uint32_t level = 0; level < lists->level_count; level++) {
            uint32_t shift = lists_shift(level);
            for (uint32_t b = item->first >> shift; b <= (item->end - 1) >> shift; b++) {
                lists->levels[level][b].count++;
                entry_count++;
            }
        }
    }
    lists->entries = malloc(entry_count * sizeof *lists->entries);
    if (!lists->entries)
        return 0;
    struct lists_entry *next = lists->entries;
    for (size_t l = 0; l < lists->list_count; l++) {
        lists->lists[l].entries = next;
        next += lists->lists[l].count;
    }
    acre__place_lists_clear(lists);
    return 1;
}

struct place_lists *acre__place_lists_create(const struct place_part *part) {
    struct place_lists *lists = calloc(1, sizeof *lists);
    if (!lists)
        return NULL;
    size_t starts[LISTS_LEVELS];
    lists->part = part;
    do {
        starts[lists->level_count] = lists->list_count;
        lists->list_count += ((part->sections - 1) >> lists_shift(lists->level_count)) + 1;
        lists->level_count++;
    } while ((part->sections - 1) >> lists_shift(lists->level_count - 1));
    lists->lists = calloc(lists->list_count, sizeof *lists->lists);
    for (uint32_t level = 0; lists->lists && level < lists->level_count; level++)
        lists->levels[level] = lists->lists + starts[level];
    if (!lists->lists || !lists_lay_out(lists)) {
        acre__place_lists_destroy(lists);
        return NULL;
    }
    return lists;
}

void acre__place_lists_destroy(struct place_lists *lists) {
    if (lists) {
        free(lists->entries);
        free(lists->lists);
        free(lists);
    }
}

void acre__place_lists_clear(struct place_lists *lists) {
    for (size_t l = 0; l < lists->list_count; l++)
        lists->lists[l].count = 0;
}

/* ---- putting in and taking out ---- */

/* The first entry at `offset` or above. */
static uint32_t lists_ceil(const struct lists_list *list, uint64_t offset) {
    uint32_t low = 0, high = list->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list->entries[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void lists_list_insert(struct lists_list *list, const struct lists_entry *entry,
                              int is_last) {
    uint32_t at = is_last ? list->count : lists_ceil(list, entry->offset);
    memmove(&list->entries[at + 1], &list->entries[at], (list->count - at) * sizeof *list->entries);
    list->entries[at] = *entry;
    list->count++;
}

static void lists_list_remove(struct lists_list *list, uint32_t item, uint64_t offset) {
    uint32_t at = lists_ceil(list, offset);
    while (at < list->count && list->entries[at].item != item)
        at++;
    if (at == list->count)
        return;
    list->count--;
    memmove(&list->entries[at], &list->entries[at + 1], (list->count - at) * sizeof *list->entries);
}

static void lists_insert(struct place_lists *lists, uint32_t index, uint64_t offset, int is_last) {
    const struct place_item *item = &lists->part->items[index];
    struct lists_entry entry = {offset, offset + item->size, item->first, item->end, index};
    for (uint32_t level = 0; level < lists->level_count; level++) {
        uint32_t shift = lists_shift(level);
        for (uint32_t b = item->first >> shift; b <= (item->end - 1) >> shift; b++)
            lists_list_insert(&lists->levels[level][b], &entry, is_last);
    }
}

void acre__place_lists_insert(struct place_lists *lists, uint32_t item, uint64_t offset) {
    lists_insert(lists, item, offset, 0);
}

void acre__place_lists_append(struct place_lists *lists, uint32_t item, uint64_t offset) {
    lists_insert(lists, item, offset, 1);
}

void acre__place_lists_remove(struct place_lists *lists, uint32_t index, uint64_t offset) {
    const struct place_item *item = &lists->part->items[index];
    for (uint32_t level = 0; level < lists->level_count; level++) {
        uint32_t shift = lists_shift(level);
        for (uint32_t b = item->first >> shift; b <= (item->end - 1) >> shift; b++)
            lists_list_remove(&lists->levels[level][b], index, offset);
    }
}

/* ---- looking ---- */

/* The walk over the entries of one or two lists by offset. */
struct lists_walk {
    const struct lists_entry *at[2], *end[2];
    uint32_t border; /* what begins before it is in the first list, if it is in the second */
    uint32_t first, last;
};

static void lists_walk_begin(struct lists_walk *walk, const struct place_lists *lists,
                             const struct place_item *item) {
    uint32_t level = 0, last = item->end - 1;
    while ((last >> lists_shift(level)) - (item->first >> lists_shift(level)) > 1)
        level++;
    uint32_t shift = lists_shift(level);
    const struct lists_list *one = &lists->levels[level][item->first >> shift];
    const struct lists_list *two = &lists->levels[level][last >> shift];
    walk->at[0] = one->entries;
    walk->end[0] = one->entries + one->count;
    walk->at[1] = two->entries;
    walk->end[1] = two->entries + (one == two ? 0 : two->count);
    walk->border = last >> shift << shift;
    walk->first = item->first;
    walk->last = item->end;
}

/* The next entry that lives together with the item, or NULL. */
static const struct lists_entry *lists_walk_next(struct lists_walk *walk) {
    const struct lists_entry *one = walk->at[0], *two = walk->at[1];
    while (one != walk->end[0] && (one->first >= walk->last || one->last <= walk->first))
        one++;
    while (two != walk->end[1] && (two->first < walk->border || two->first >= walk->last))
        two++;
    int is_second = two != walk->end[1] && (one == walk->end[0] || two->offset < one->offset);
    const struct lists_entry *next = is_second ? two : one != walk->end[0] ? one : NULL;
    walk->at[0] = next == one ? one + 1 : one;
    walk->at[1] = is_second ? two + 1 : two;
    return next;
}

uint64_t acre__place_lists_find(const struct place_lists *lists, uint32_t index,
                                enum place_fit fit) {
    const struct place_item *item = &lists->part->items[index];
    struct lists_walk walk;
    lists_walk_begin(&walk, lists, item);
    uint64_t top = 0, best = 0, best_gap = UINT64_MAX;
    const struct lists_entry *entry;
    while ((entry = lists_walk_next(&walk))) {
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

uint32_t acre__place_lists_meet(const struct place_lists *lists, uint32_t item, uint32_t *found) {
    struct lists_walk walk;
    const struct lists_entry *entry;
    uint32_t count = 0;
    lists_walk_begin(&walk, lists, &lists->part->items[item]);
    while ((entry = lists_walk_next(&walk)))
        found[count++] = entry->item;
    return count;
}

uint32_t acre__place_lists_fill(struct place_lists *lists, const uint32_t *order,
                                enum place_fit fit, uint64_t limit, int is_strict,
                                uint64_t *offsets) {
    const struct place_part *part = lists->part;
    uint32_t left_out = 0;
    acre__place_lists_clear(lists);
    for (uint32_t i = 0; part->fixed_count && i < part->count; i++) {
        if (part->items[i].is_fixed) {
            offsets[i] = part->items[i].offset;
            acre__place_lists_insert(lists, i, offsets[i]);
        }
    }
    for (uint32_t k = 0; k < part->count && !(left_out && is_strict); k++) {
        uint32_t i = order[k];
        if (part->items[i].is_fixed)
            continue;
        offsets[i] = acre__place_lists_find(lists, i, fit);
        if (offsets[i] + part->items[i].size > limit) {
            offsets[i] = PLACE_NOWHERE;
            left_out++;
        } else {
            acre__place_lists_insert(lists, i, offsets[i]);
        }
    }
    return left_out;
}
