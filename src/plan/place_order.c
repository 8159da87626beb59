/* Orders: stable sorts by one letter after another, the last letter first. */
#include "plan/place_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/place_sort.h"

enum { ORDER_ITEM = 32 }; /* units of work to compute a key */

/* Shifts that keep a product of size and time within 64 bits: both factors lose their lowest
 * bits. */
struct order_scale {
    unsigned size_shift, time_shift;
};

static struct order_scale order_scale(const struct place_part *part) {
    uint64_t size = 0, time = 0;
    struct order_scale scale = {0, 0};
    for (uint32_t i = 0; i < part->count; i++) {
        size |= part->items[i].room;
        time |= part->items[i].duration;
    }
    while (size >> scale.size_shift > UINT32_MAX)
        scale.size_shift++;
    while (time >> scale.time_shift > UINT32_MAX)
        scale.time_shift++;
    return scale;
}

static uint64_t order_key(char letter, const struct place_item *item, struct order_scale scale) {
    switch (letter) {
    case 'W':
        return item->duration;
    case 'A':
        return (item->room >> scale.size_shift) * (item->duration >> scale.time_shift);
    case 'T':
        return item->peak;
    case 'Z':
        return item->room;
    case 'L':
        return UINT32_MAX - item->first;
    case 'U':
        return item->end;
    default:
        return 0;
    }
}

int acre__place_order(const struct place_part *part, const char *letters, struct place_meter *meter,
                      uint32_t *order) {
    uint32_t fixed_count = part->fixed_count, count = part->count - fixed_count;
    struct order_scale scale = order_scale(part);
    struct place_row *rows = malloc((2 * (size_t)count + 1) * sizeof *rows);
    if (!rows)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        rows[i].item = fixed_count + i;
    for (size_t k = strlen(letters); k-- > 0 && !place_is_stopped(meter);) {
        for (uint32_t i = 0; i < count; i++)
            rows[i].key = ~order_key(letters[k], &part->items[rows[i].item], scale);
        meter->work += ORDER_ITEM * (uint64_t)count;
        acre__place_sort(rows, rows + count, count, meter);
    }
    for (uint32_t i = 0; i < count; i++)
        order[i] = rows[i].item;
    free(rows);
    return 0;
}

int acre__place_order_promote(uint32_t *order, uint32_t count, uint32_t reach, const uint32_t *heat,
                              struct place_meter *meter) {
    struct place_row *rows = malloc((2 * (size_t)count + 1) * sizeof *rows);
    uint64_t most = 1;
    if (!rows)
        return -ENOMEM;
    for (uint32_t k = 0; k < count; k++)
        most = heat[order[k]] > most ? heat[order[k]] : most;
    for (uint32_t k = 0; k < count; k++)
        rows[k] = (struct place_row){k + reach - (uint64_t)reach * heat[order[k]] / most, order[k]};
    acre__place_sort(rows, rows + count, count, meter);
    for (uint32_t k = 0; k < count; k++)
        order[k] = rows[k].item;
    free(rows);
    return 0;
}
