/* First fit and best fit over one list of all placed items, sorted by offset.
 *
 * Descents are better and faster unless there are fixed items. A descent fills from the bottom up:
 * an item that does not fit below a fixed item wastes the space up to it. So fits are for parts
 * with fixed items that are small enough to compare every pair of items. */
#include "plan/place_fit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIT_PAIR = 2 }; /* units of work per pair */

struct fit_placed {
    uint64_t offset, end;
    uint32_t first, last; /* sections [first, last) */
};

static void fit_insert(struct fit_placed *placed, uint32_t count, const struct place_item *item,
                       uint64_t offset) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (placed[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(&placed[low + 1], &placed[low], (count - low) * sizeof *placed);
    placed[low] = (struct fit_placed){offset, offset + item->size, item->first, item->end};
}

static uint64_t fit_find(const struct fit_placed *placed, uint32_t count,
                         const struct place_item *item, enum place_fit fit) {
    uint64_t top = 0, best = 0, best_bytes = UINT64_MAX;
    for (uint32_t k = 0; k < count; k++) {
        const struct fit_placed *entry = &placed[k];
        if (entry->first >= item->end || entry->last <= item->first)
            continue;
        uint64_t begin = place_align_up(top, item->align);
        if (entry->offset > top && begin + item->size <= entry->offset &&
            entry->offset - top < best_bytes) {
            best = begin;
            best_bytes = entry->offset - top;
            if (fit == PLACE_FIRST_FIT)
                break;
        }
        top = entry->end > top ? entry->end : top;
    }
    return best_bytes != UINT64_MAX ? best : place_align_up(top, item->align);
}

int acre__place_fit(const struct place_part *part, const uint32_t *order, enum place_fit fit,
                    struct place_meter *meter, uint64_t *offsets) {
    struct fit_placed *placed = malloc((part->count + (size_t)1) * sizeof *placed);
    uint32_t count = 0;
    if (!placed)
        return -ENOMEM;
    for (; count < part->fixed_count; count++)
        fit_insert(placed, count, &part->items[count], part->items[count].offset);
    for (; count < part->count; count++) {
        uint32_t i = order[count - part->fixed_count];
        offsets[i] = PLACE_NOWHERE;
        if (place_is_stopped(meter))
            continue;
        meter->work += FIT_PAIR * (uint64_t)count;
        offsets[i] = fit_find(placed, count, &part->items[i], fit);
        fit_insert(placed, count, &part->items[i], offsets[i]);
    }
    free(placed);
    return 0;
}
