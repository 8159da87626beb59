/* Radix sort, one byte of the keys per pass, from the lowest byte up. Bytes that are equal in all
 * keys need no pass. */
#include "plan/place_sort.h"

#include <string.h>

enum { SORT_PASS = 16 }; /* units of work per row and pass */

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
