/* Mapped ranges from paints: see ranges.h.
 *
 * The ends of all paints cut the addresses into cells. Each cell is painted once: `next` leads from
 * a cell to the first one behind it that is not painted yet, with path halving. So the time is
 * O(n log n), whatever the paints are. */
#include "ranges.h"

#include <stdlib.h>

#include "cli.h"

static int cut_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Returns the sorted ends of all paints, without duplicates; the caller frees them. */
static uint64_t *cuts_make(const struct range_paint *paints, size_t count, size_t *cut_count) {
    uint64_t *cuts = cli_alloc(2 * count * sizeof *cuts);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        cuts[2 * i] = paints[i].begin;
        cuts[2 * i + 1] = paints[i].end;
    }
    if (count) {
        qsort(cuts, 2 * count, sizeof *cuts, cut_compare);
    }
    for (size_t i = 0; i < 2 * count; i++) {
        if (kept == 0 || cuts[kept - 1] != cuts[i]) {
            cuts[kept++] = cuts[i];
        }
    }
    *cut_count = kept;
    return cuts;
}

/* Returns the index of a cut, which exists. */
static uint32_t cut_find(const uint64_t *cuts, size_t count, uint64_t at) {
    size_t low = 0;
    for (size_t high = count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (cuts[middle] < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (uint32_t)low;
}

static uint32_t cell_unpainted(uint32_t *next, uint32_t cell) {
    while (next[cell] != cell) {
        next[cell] = next[next[cell]];
        cell = next[cell];
    }
    return cell;
}

size_t ranges_paint(const struct range_paint *paints, size_t count, struct range **ranges) {
    size_t cut_count, found = 0;
    uint64_t *cuts = cuts_make(paints, count, &cut_count);
    uint32_t *next = cli_alloc((cut_count + 1) * sizeof *next);
    uint32_t *owner = cli_alloc((cut_count + 1) * sizeof *owner); /* from 1; 0: none */
    for (uint32_t i = 0; i <= cut_count; i++) {
        next[i] = i;
    }
    for (size_t i = 0; i < count; i++) {
        if (paints[i].begin >= paints[i].end) {
            continue;
        }
        uint32_t end = cut_find(cuts, cut_count, paints[i].end);
        uint32_t cell = cell_unpainted(next, cut_find(cuts, cut_count, paints[i].begin));
        for (; cell < end; cell = cell_unpainted(next, cell)) {
            owner[cell] = (uint32_t)(i + 1);
            next[cell] = cell + 1;
        }
    }
    *ranges = cli_alloc(cut_count * sizeof **ranges);
    for (size_t i = 0; i + 1 < cut_count; i++) {
        if (!owner[i] || !paints[owner[i] - 1].is_mapped) {
            continue;
        }
        if (i > 0 && owner[i] == owner[i - 1]) {
            (*ranges)[found - 1].end = cuts[i + 1];
        } else {
            (*ranges)[found++] = (struct range){cuts[i], cuts[i + 1], owner[i] - 1};
        }
    }
    free(cuts);
    free(next);
    free(owner);
    return found;
}
