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
    LISTS_CHUNK = 64, /* entries: 2 KB, about what is moved in the time of looking a place up */
    LISTS_SHIFT = 2,  /* four times as many sections in the next level */
    LISTS_LEVELS = 17 /* enough for 2^32 sections */
};

#define LISTS_NONE UINT32_MAX

struct lists_entry {
    uint64_t offset, end;
    uint32_t first, last; /* sections [first, last) */
    uint32_t item;
};

struct lists_chunk {
    uint32_t count;
    uint32_t next_free;
    struct lists_entry entries[LISTS_CHUNK];
};

struct lists_list {
    uint32_t *chunks; /* by offset; none is empty */
    uint32_t count;   /* of chunks */
};

struct place_lists {
    const struct place_part *part;
    struct lists_chunk *chunks; /* of all lists */
    uint32_t chunk_count, used_chunks;
    uint32_t free_chunk; /* the first that was given back, or LISTS_NONE */
    uint32_t *numbers;   /* room for the lists' own arrays */
    struct lists_list *lists;
    struct lists_list *levels[LISTS_LEVELS];
    uint32_t level_count;
    uint32_t first_shift; /* the lowest level's blocks have 1 << first_shift sections */
    size_t list_count;
    uint64_t work; /* entries looked at */
};

static uint32_t lists_shift(const struct place_lists *lists, uint32_t level) {
    return lists->first_shift + LISTS_SHIFT * level;
}

/* See above: the block length is half the number of sections that an item lives in on average. */
static uint32_t lists_first_shift(const struct place_part *part) {
    uint64_t lives = 0;
    uint32_t shift = 0;
    for (uint32_t i = 0; i < part->count; i++)
        lives += part->items[i].end - part->items[i].first;
    while (part->count * (UINT64_C(4) << shift) < lives)
        shift++;
    return shift;
}

/* Chunks that a list of so many entries can have at most. */
static size_t lists_most_chunks(size_t entry_count) {
    return 2 * (entry_count / (LISTS_CHUNK / 2)) + 2;
}

/* Gives each list as much room as the items that touch its block may need. */
static int lists_lay_out(struct place_lists *lists) {
    const struct place_part *part = lists->part;
    size_t chunk_count = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        const struct place_item *item = &part->items[i];
        for (uint32_t level = 0; level < lists->level_count; level++) {
            uint32_t shift = lists_shift(lists, level);
            for (uint32_t b = item->first >> shift; b <= (item->end - 1) >> shift; b++)
                lists->levels[level][b].count++;
        }
    }
    for (size_t l = 0; l < lists->list_count; l++)
        chunk_count += lists_most_chunks(lists->lists[l].count);
    if (chunk_count > UINT32_MAX / 2)
        return 0;
    lists->chunk_count = (uint32_t)chunk_count;
    lists->chunks = malloc(chunk_count * sizeof *lists->chunks);
    lists->numbers = malloc(chunk_count * sizeof *lists->numbers);
    if (!lists->chunks || !lists->numbers)
        return 0;
    uint32_t *next = lists->numbers;
    for (size_t l = 0; l < lists->list_count; l++) {
        lists->lists[l].chunks = next;
        next += lists_most_chunks(lists->lists[l].count);
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
    lists->first_shift = lists_first_shift(part);
    do {
        starts[lists->level_count] = lists->list_count;
        lists->list_count += ((part->sections - 1) >> lists_shift(lists, lists->level_count)) + 1;
        lists->level_count++;
    } while ((part->sections - 1) >> lists_shift(lists, lists->level_count - 1));
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
        free(lists->chunks);
        free(lists->numbers);
        free(lists->lists);
        free(lists);
    }
}

/* Chunks that were never used are not even touched: free_chunk goes up to them when the list of
 * those given back is empty. */
void acre__place_lists_clear(struct place_lists *lists) {
    for (size_t l = 0; l < lists->list_count; l++)
        lists->lists[l].count = 0;
    lists->free_chunk = LISTS_NONE;
    lists->used_chunks = 0;
}

/* ---- putting in and taking out ---- */

/* Makes room for another chunk in the list. */
static struct lists_chunk *lists_add_chunk(struct place_lists *lists, struct lists_list *list,
                                           uint32_t at) {
    uint32_t number = lists->free_chunk;
    if (number == LISTS_NONE)
        number = lists->used_chunks++;
    else
        lists->free_chunk = lists->chunks[number].next_free;
    memmove(&list->chunks[at + 1], &list->chunks[at], (list->count - at) * sizeof *list->chunks);
    list->chunks[at] = number;
    list->count++;
    lists->chunks[number].count = 0;
    return &lists->chunks[number];
}

static void lists_drop_chunk(struct place_lists *lists, struct lists_list *list, uint32_t at) {
    uint32_t number = list->chunks[at];
    lists->chunks[number].next_free = lists->free_chunk;
    lists->free_chunk = number;
    list->count--;
    memmove(&list->chunks[at], &list->chunks[at + 1], (list->count - at) * sizeof *list->chunks);
}

/* The last chunk that begins below `offset`, or the first one. */
static uint32_t lists_find_chunk(const struct place_lists *lists, const struct lists_list *list,
                                 uint64_t offset) {
    uint32_t low = 0, high = list->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (lists->chunks[list->chunks[middle]].entries[0].offset < offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The first entry at `offset` or above. */
static uint32_t lists_ceil(const struct lists_chunk *chunk, uint64_t offset) {
    uint32_t low = 0, high = chunk->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (chunk->entries[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void lists_list_insert(struct place_lists *lists, struct lists_list *list,
                              const struct lists_entry *entry, int is_last) {
    if (list->count == 0)
        lists_add_chunk(lists, list, 0);
    uint32_t at = is_last ? list->count - 1 : lists_find_chunk(lists, list, entry->offset);
    struct lists_chunk *chunk = &lists->chunks[list->chunks[at]];
    if (chunk->count == LISTS_CHUNK) {
        struct lists_chunk *upper = lists_add_chunk(lists, list, at + 1);
        chunk->count = upper->count = LISTS_CHUNK / 2;
        memcpy(upper->entries, chunk->entries + LISTS_CHUNK / 2, LISTS_CHUNK / 2 * sizeof *entry);
        if (is_last || entry->offset > upper->entries[0].offset)
            chunk = upper;
    }
    uint32_t place = is_last ? chunk->count : lists_ceil(chunk, entry->offset);
    memmove(&chunk->entries[place + 1], &chunk->entries[place],
            (chunk->count - place) * sizeof *entry);
    chunk->entries[place] = *entry;
    chunk->count++;
}

/* Joins the chunk with the next one if both together are small. */
static void lists_join(struct place_lists *lists, struct lists_list *list, uint32_t at) {
    if (at + 1 >= list->count)
        return;
    struct lists_chunk *one = &lists->chunks[list->chunks[at]];
    struct lists_chunk *two = &lists->chunks[list->chunks[at + 1]];
    if (one->count + two->count > LISTS_CHUNK / 2)
        return;
    memcpy(one->entries + one->count, two->entries, two->count * sizeof *two->entries);
    one->count += two->count;
    lists_drop_chunk(lists, list, at + 1);
}

static void lists_list_remove(struct place_lists *lists, struct lists_list *list, uint32_t item,
                              uint64_t offset) {
    /* Items at one offset may go on into the next chunks. */
    for (uint32_t at = lists_find_chunk(lists, list, offset); at < list->count; at++) {
        struct lists_chunk *chunk = &lists->chunks[list->chunks[at]];
        uint32_t place = lists_ceil(chunk, offset);
        while (place < chunk->count && chunk->entries[place].item != item)
            place++;
        if (place == chunk->count)
            continue;
        chunk->count--;
        memmove(&chunk->entries[place], &chunk->entries[place + 1],
                (chunk->count - place) * sizeof *chunk->entries);
        if (chunk->count == 0)
            lists_drop_chunk(lists, list, at);
        else
            lists_join(lists, list, at);
        if (at)
            lists_join(lists, list, at - 1);
        return;
    }
}

static void lists_insert(struct place_lists *lists, uint32_t index, uint64_t offset, int is_last) {
    const struct place_item *item = &lists->part->items[index];
    struct lists_entry entry = {offset, offset + item->size, item->first, item->end, index};
    for (uint32_t level = 0; level < lists->level_count; level++) {
        uint32_t shift = lists_shift(lists, level);
        for (uint32_t b = item->first >> shift; b <= (item->end - 1) >> shift; b++)
            lists_list_insert(lists, &lists->levels[level][b], &entry, is_last);
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
        uint32_t shift = lists_shift(lists, level);
        for (uint32_t b = item->first >> shift; b <= (item->end - 1) >> shift; b++)
            lists_list_remove(lists, &lists->levels[level][b], index, offset);
    }
}

/* ---- looking ---- */

/* The walk over the entries of one list by offset. */
struct lists_cursor {
    const struct lists_entry *at, *end; /* of a chunk */
    const uint32_t *next, *last;        /* chunks that follow */
    const struct lists_chunk *chunks;
};

static int lists_next_chunk(struct lists_cursor *cursor) {
    if (cursor->next == cursor->last)
        return 0;
    const struct lists_chunk *chunk = &cursor->chunks[*cursor->next++];
    cursor->at = chunk->entries;
    cursor->end = chunk->entries + chunk->count;
    return 1;
}

static void lists_begin(struct lists_cursor *cursor, const struct place_lists *lists,
                        const struct lists_list *list) {
    *cursor = (struct lists_cursor){
        .next = list->chunks, .last = list->chunks + list->count, .chunks = lists->chunks};
}

/* The first entry from here on that begins in [low, high) and ends after `end`, or NULL. */
static const struct lists_entry *lists_seek(struct lists_cursor *cursor, uint32_t low,
                                            uint32_t high, uint32_t end) {
    do {
        for (; cursor->at != cursor->end; cursor->at++) {
            const struct lists_entry *entry = cursor->at;
            if (entry->first >= low && entry->first < high && entry->last > end)
                return entry;
        }
    } while (lists_next_chunk(cursor));
    return NULL;
}

/* The walk over the entries of one or two lists by offset that live together with an item. */
struct lists_walk {
    struct lists_cursor one, two;
    uint32_t border; /* what begins before it is in the first list, if it is in the second */
    uint32_t first, last;
};

static void lists_walk_begin(struct lists_walk *walk, const struct place_lists *lists,
                             const struct place_item *item) {
    uint32_t level = 0, last = item->end - 1, shift = lists_shift(lists, 0);
    while ((last >> shift) - (item->first >> shift) > 1)
        shift = lists_shift(lists, ++level);
    const struct lists_list *one = &lists->levels[level][item->first >> shift];
    const struct lists_list *two = &lists->levels[level][last >> shift];
    lists_begin(&walk->one, lists, one);
    if (one == two)
        walk->two = (struct lists_cursor){.chunks = lists->chunks};
    else
        lists_begin(&walk->two, lists, two);
    walk->border = last >> shift << shift;
    walk->first = item->first;
    walk->last = item->end;
}

static const struct lists_entry *lists_walk_next(struct lists_walk *walk) {
    const struct lists_entry *one = lists_seek(&walk->one, 0, walk->last, walk->first);
    const struct lists_entry *two = lists_seek(&walk->two, walk->border, walk->last, 0);
    if (two && (!one || two->offset < one->offset)) {
        walk->two.at++;
        return two;
    }
    if (one)
        walk->one.at++;
    return one;
}

/* The gap that was chosen so far, and the end of all that is below. */
struct lists_gap {
    uint64_t top, best, best_bytes;
    uint64_t work; /* entries looked at */
};

/* Takes the next entry into account. Returns 1 when no other gap need be looked for. */
static int lists_look(struct lists_gap *gap, const struct lists_entry *entry,
                      const struct place_item *item, enum place_fit fit) {
    uint64_t begin = place_align_up(gap->top, item->align), bytes = entry->offset - gap->top;
    if (begin + item->size > entry->offset || bytes >= gap->best_bytes)
        return 0;
    gap->best = begin;
    gap->best_bytes = bytes;
    return fit == PLACE_FIRST_FIT;
}

/* Most items touch one block only, and almost no entry begins a gap: nothing in this loop is hard
 * to foresee but whether an entry lives together with the item, and there is no branch for that. */
static void lists_look_one(struct lists_gap *gap, struct lists_cursor cursor,
                           const struct place_item *item, enum place_fit fit) {
    uint32_t first = item->first, last = item->end;
    uint64_t top = gap->top;
    while (lists_next_chunk(&cursor)) {
        gap->work += (uint64_t)(cursor.end - cursor.at);
        for (; cursor.at != cursor.end; cursor.at++) {
            const struct lists_entry *entry = cursor.at;
            int meets = (entry->first < last) & (entry->last > first);
            if (meets & (entry->offset > top)) {
                gap->top = top;
                if (lists_look(gap, entry, item, fit))
                    return;
            }
            uint64_t end = meets ? entry->end : 0;
            top = end > top ? end : top;
        }
    }
    gap->top = top;
}

uint64_t acre__place_lists_find(struct place_lists *lists, uint32_t index, enum place_fit fit) {
    const struct place_item *item = &lists->part->items[index];
    struct lists_gap gap = {.best_bytes = UINT64_MAX};
    struct lists_walk walk;
    const struct lists_entry *entry;
    lists_walk_begin(&walk, lists, item);
    if (walk.two.next == walk.two.last) {
        lists_look_one(&gap, walk.one, item, fit);
    } else {
        while ((entry = lists_walk_next(&walk))) {
            if (entry->offset > gap.top && lists_look(&gap, entry, item, fit))
                break;
            gap.top = entry->end > gap.top ? entry->end : gap.top;
            gap.work += 4; /* as long as four of the loop above */
        }
    }
    lists->work += gap.work;
    return gap.best_bytes != UINT64_MAX ? gap.best : place_align_up(gap.top, item->align);
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

uint64_t acre__place_lists_work(struct place_lists *lists) {
    uint64_t work = lists->work;
    lists->work = 0;
    return work;
}
