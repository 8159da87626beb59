/* Orders: keys are computed once and sorted, ties decided by index. */
#include "plan/place_order.h"

#include <errno.h>
#include <stdlib.h>

struct order_row {
    uint64_t keys[PLACE_LETTERS]; /* the larger one comes first */
    uint32_t item;
};

static int order_rows(const void *a, const void *b) {
    const struct order_row *x = a, *y = b;
    for (int k = 0; k < PLACE_LETTERS; k++) {
        if (x->keys[k] != y->keys[k])
            return x->keys[k] > y->keys[k] ? -1 : 1;
    }
    return (x->item > y->item) - (x->item < y->item);
}

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

int acre__place_order(const struct place_part *part, const char *letters, uint32_t *order) {
    uint64_t *maxima = order_maxima(part);
    struct order_row *rows = calloc(part->count, sizeof *rows);
    int rc = maxima && rows ? 0 : -ENOMEM;
    struct order_scale scale = order_scale(part);
    for (uint32_t i = 0; rc == 0 && i < part->count; i++) {
        rows[i].item = i;
        for (int k = 0; k < PLACE_LETTERS && letters[k]; k++) {
            rows[i].keys[k] = letters[k] == 'T'
                                  ? order_largest(maxima, part->sections, &part->items[i])
                                  : order_key(letters[k], &part->items[i], scale);
        }
    }
    if (rc == 0)
        qsort(rows, part->count, sizeof *rows, order_rows);
    for (uint32_t i = 0; rc == 0 && i < part->count; i++)
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

static int order_by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts an order by keys of which only the lower 32 bits, the old places, are left to the caller.
 */
static int order_by_keys(uint32_t *order, uint32_t count, uint64_t *keys) {
    uint32_t *old = malloc(((size_t)count + 1) * sizeof *old);
    if (!old)
        return -ENOMEM;
    for (uint32_t k = 0; k < count; k++)
        old[k] = order[k];
    qsort(keys, count, sizeof *keys, order_by_value);
    for (uint32_t k = 0; k < count; k++)
        order[k] = old[(uint32_t)keys[k]];
    free(old);
    return 0;
}

int acre__place_order_shake(uint32_t *order, uint32_t count, uint32_t spread, uint64_t seed) {
    uint64_t *keys = malloc(((size_t)count + 1) * sizeof *keys);
    if (!keys)
        return -ENOMEM;
    /* Places are below 2^30, so that a key has room for the shaken place and the old one. */
    for (uint32_t k = 0; k < count; k++)
        keys[k] = (k + order_random(&seed) % (spread + UINT64_C(1))) << 32 | k;
    int rc = order_by_keys(order, count, keys);
    free(keys);
    return rc;
}

int acre__place_order_promote(uint32_t *order, uint32_t count, uint32_t reach,
                              const uint32_t *heat) {
    uint64_t *keys = malloc(((size_t)count + 1) * sizeof *keys), most = 1;
    if (!keys)
        return -ENOMEM;
    for (uint32_t k = 0; k < count; k++)
        most = heat[k] > most ? heat[k] : most;
    for (uint32_t k = 0; k < count; k++)
        keys[k] = (k + reach - reach * heat[order[k]] / most) << 32 | k;
    int rc = order_by_keys(order, count, keys);
    free(keys);
    return rc;
}
