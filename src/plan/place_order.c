/* Orders: sorted by one letter after the other, the last one first, since sorts are stable. */
#include "plan/place_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/place_sort.h"

enum { ORDER_ITEM = 32 }; /* units of work to compute a key */

/* A complete binary tree of maxima over sections: node k has 2k and 2k + 1 below it. */
static uint64_t *order_maxima(const struct place_part *part) {
    size_t leaves = part->sections;
    uint64_t *tree = malloc(2 * leaves * sizeof *tree);
    if (!tree)
        return NULL;
    for (size_t s = 0; s < leaves; s++)
        tree[leaves + s] = part->total[s];
    for (size_t k = leaves - 1; k > 0; k--)
        tree[k] = tree[2 * k] > tree[2 * k + 1] ? tree[2 * k] : tree[2 * k + 1];
    return tree;
}

static uint64_t order_largest(const uint64_t *tree, uint32_t sections,
                              const struct place_item *item) {
    uint64_t most = 0;
    size_t low = (size_t)item->first + sections, high = (size_t)item->end + sections;
    for (; low < high; low /= 2, high /= 2) {
        if (low & 1) {
            most = tree[low] > most ? tree[low] : most;
            low++;
        }
        if (high & 1) {
            high--;
            most = tree[high] > most ? tree[high] : most;
        }
    }
    return most;
}

/* Largest product that does not overflow: both factors lose their lowest bits first. */
struct order_scale {
    unsigned size_shift, time_shift;
};

static struct order_scale order_scale(const struct place_part *part) {
    uint64_t size = 0, time = 0;
    struct order_scale scale = {0, 0};
    for (uint32_t i = 0; i < part->count; i++) {
        size |= part->items[i].room;
        time |= (uint64_t)part->items[i].upper - (uint64_t)part->items[i].lower;
    }
    while (size >> scale.size_shift > UINT32_MAX)
        scale.size_shift++;
    while (time >> scale.time_shift > UINT32_MAX)
        scale.time_shift++;
    return scale;
}

static uint64_t order_key(char letter, const struct place_item *item, struct order_scale scale) {
    uint64_t width = (uint64_t)item->upper - (uint64_t)item->lower;
    switch (letter) {
    case 'W':
        return width;
    case 'A':
        return (item->room >> scale.size_shift) * (width >> scale.time_shift);
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
    uint32_t count = part->count;
    uint64_t *maxima = order_maxima(part);
    struct place_row *rows = malloc(2 * (size_t)count * sizeof *rows);
    int rc = maxima && rows ? 0 : -ENOMEM;
    struct order_scale scale = order_scale(part);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rows[i].item = i;
    for (size_t k = strlen(letters); rc == 0 && k-- > 0 && !place_is_stopped(meter);) {
        for (uint32_t i = 0; i < count; i++) {
            const struct place_item *item = &part->items[rows[i].item];
            rows[i].key = ~(letters[k] == 'T' ? order_largest(maxima, part->sections, item)
                                              : order_key(letters[k], item, scale));
        }
        meter->work += ORDER_ITEM * (uint64_t)count;
        acre__place_sort(rows, rows + count, count, meter);
    }
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        order[i] = rows[i].item;
    free(rows);
    free(maxima);
    return rc;
}

/* ---- shaking ---- */

/* splitmix64: every seed gives another sequence. */
static uint64_t order_random(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Sorts an order by the places that its items should have. */
static void order_move(uint32_t *order, uint32_t count, struct place_row *rows,
                       struct place_meter *meter) {
    for (uint32_t k = 0; k < count; k++)
        rows[k].item = order[k];
    acre__place_sort(rows, rows + count, count, meter);
    for (uint32_t k = 0; k < count; k++)
        order[k] = rows[k].item;
}

int acre__place_order_shake(uint32_t *order, uint32_t count, uint32_t spread, uint64_t seed,
                            struct place_meter *meter) {
    struct place_row *rows = malloc(2 * (size_t)count * sizeof *rows);
    if (!rows)
        return -ENOMEM;
    for (uint32_t k = 0; k < count; k++)
        rows[k].key = k + order_random(&seed) % (spread + UINT64_C(1));
    order_move(order, count, rows, meter);
    free(rows);
    return 0;
}

int acre__place_order_promote(uint32_t *order, uint32_t count, uint32_t reach, const uint32_t *heat,
                              struct place_meter *meter) {
    struct place_row *rows = malloc(2 * (size_t)count * sizeof *rows);
    uint64_t most = 1;
    if (!rows)
        return -ENOMEM;
    for (uint32_t k = 0; k < count; k++)
        most = heat[k] > most ? heat[k] : most;
    for (uint32_t k = 0; k < count; k++)
        rows[k].key = k + reach - (uint64_t)reach * heat[order[k]] / most;
    order_move(order, count, rows, meter);
    free(rows);
    return 0;
}
