/* Greedy placement: what a programmer would write in an hour. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "plan_bench.h"

struct greedy_life {
    uint32_t lower, upper;
};
struct greedy_span {
    uint64_t begin, end;
};

/* The placed buffers, sorted by `begin`. The search for a gap scans all lifetimes, most of which do
 * not overlap; lifetimes are therefore in a separate, compact array. */
struct greedy_placed {
    struct greedy_life *lives;
    struct greedy_span *spans;
    size_t count;
};

static int greedy_order(const void *a, const void *b) {
    const struct acre__place_buffer *x = *(struct acre__place_buffer *const *)a;
    const struct acre__place_buffer *y = *(struct acre__place_buffer *const *)b;
    if (x->size != y->size) {
        return x->size < y->size ? 1 : -1;
    }
    return (x > y) - (x < y);
}

static uint64_t greedy_find(const struct greedy_placed *placed, struct greedy_life life,
                            uint64_t bytes, bool is_best) {
    uint64_t end = 0, least = UINT64_MAX, at = 0;
    for (size_t i = 0; i < placed->count; i++) {
        if (placed->lives[i].lower >= life.upper || life.lower >= placed->lives[i].upper) {
            continue;
        }
        struct greedy_span span = placed->spans[i];
        if (span.begin >= end + bytes && span.begin - end < least) {
            if (!is_best) {
                return end;
            }
            at = end;
            least = span.begin - end;
        }
        end = span.end > end ? span.end : end;
    }
    return least < UINT64_MAX ? at : end;
}

static void greedy_insert(struct greedy_placed *placed, struct greedy_life life,
                          struct greedy_span span) {
    size_t low = 0, high = placed->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (placed->spans[middle].begin < span.begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    size_t above = placed->count++ - low;
    memmove(&placed->lives[low + 1], &placed->lives[low], above * sizeof life);
    memmove(&placed->spans[low + 1], &placed->spans[low], above * sizeof span);
    placed->lives[low] = life;
    placed->spans[low] = span;
}

uint64_t plan_greedy(struct acre__place_buffer *buffers, size_t count, bool is_best) {
    struct acre__place_buffer **order = cli_alloc(count * sizeof(void *));
    struct greedy_placed placed = {.lives = cli_alloc(count * sizeof *placed.lives),
                                   .spans = cli_alloc(count * sizeof *placed.spans)};
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        order[i] = &buffers[i];
    }
    qsort(order, count, sizeof(void *), greedy_order);
    for (size_t i = 0; i < count; i++) {
        struct acre__place_buffer *b = order[i];
        struct greedy_life life = {(uint32_t)b->lower, (uint32_t)b->upper};
        b->offset = greedy_find(&placed, life, b->size, is_best);
        uint64_t end = b->offset + b->size;
        greedy_insert(&placed, life, (struct greedy_span){b->offset, end});
        bytes = end > bytes ? end : bytes;
    }
    free(order);
    free(placed.lives);
    free(placed.spans);
    return bytes;
}
