/* Radix sort, a byte of the keys at a time, from the lowest byte up. Bytes that are the same in all
 * keys cost nothing. Few rows are sorted by insertion instead. */
#include "plan/place_sort.h"

#include <string.h>

enum {
    SORT_FEW = 48, /* rows: below that, insertion is faster */
    SORT_PASS = 16 /* units of work a row and pass */
};

static void sort_insert(struct place_row *rows, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        struct place_row row = rows[i];
        uint32_t k = i;
        for (; k > 0 && rows[k - 1].key > row.key; k--)
            rows[k] = rows[k - 1];
        rows[k] = row;
    }
}

static void sort_pass(const struct place_row *from, struct place_row *to, uint32_t count,
                      unsigned shift) {
    uint32_t begin[256] = {0}, sum = 0;
    for (uint32_t i = 0; i < count; i++)
        begin[from[i].key >> shift & 0xff]++;
    for (unsigned b = 0; b < 256; b++) {
        uint32_t here = begin[b];
        begin[b] = sum;
        sum += here;
    }
    for (uint32_t i = 0; i < count; i++)
        to[begin[from[i].key >> shift & 0xff]++] = from[i];
}

void acre__place_sort(struct place_row *rows, struct place_row *spare, uint32_t count,
                      struct place_meter *meter) {
    uint64_t any = 0, all = UINT64_MAX;
    meter->work += 2 * (uint64_t)count;
    if (count <= SORT_FEW) {
        meter->work += (uint64_t)count * count / 4;
        sort_insert(rows, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        any |= rows[i].key;
        all &= rows[i].key;
    }
    struct place_row *from = rows, *to = spare;
    for (unsigned shift = 0; shift < 64; shift += 8) {
        if (((any ^ all) >> shift & 0xff) == 0)
            continue;
        sort_pass(from, to, count, shift);
        meter->work += SORT_PASS * (uint64_t)count + 256;
        struct place_row *other = from;
        from = to;
        to = other;
    }
    if (from != rows)
        memcpy(rows, spare, count * sizeof *rows);
}
