/* Problems for the placer, determined by a seed. */
#include "place_problems.h"

/* splitmix64. */
uint64_t place_problem_random_number(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void place_problem_random(struct acre__place_buffer *buffers, size_t count, uint64_t align,
                          uint64_t seed) {
    for (size_t i = 0; i < count; i++) {
        uint64_t kind = place_problem_random_number(&seed) % 8;
        uint64_t lower = place_problem_random_number(&seed) % (2 * count);
        uint64_t life = 1 + place_problem_random_number(&seed) % (kind == 0 ? count : 12);
        uint64_t size = UINT64_C(1) << place_problem_random_number(&seed) % 16;
        buffers[i] = (struct acre__place_buffer){
            .size = size + place_problem_random_number(&seed) % size,
            .align = align,
            .lower = (int64_t)lower,
            .upper = (int64_t)(lower + life),
        };
    }
}

void place_problem_packed(struct acre__place_buffer *buffers, size_t count, uint64_t seed) {
    /* During the cutting, `offset` is the position of a piece in the rectangle. */
    buffers[0] = (struct acre__place_buffer){.size = PLACE_PACKED_BYTES, .upper = 1000000};
    for (size_t n = 1; n < count;) {
        struct acre__place_buffer *old = &buffers[place_problem_random_number(&seed) % n];
        struct acre__place_buffer piece = *old;
        uint64_t cut = place_problem_random_number(&seed),
                 life = (uint64_t)(old->upper - old->lower);
        if (cut % 2 && life > 100) {
            old->upper = piece.lower = old->lower + 1 + (int64_t)(cut / 2 % (life - 1));
            buffers[n++] = piece;
        } else if (cut % 2 == 0 && old->size > 4096) {
            uint64_t size = 1024 * (1 + cut / 2 % (old->size / 1024 - 1));
            piece.offset = old->offset + size;
            piece.size = old->size - size;
            old->size = size;
            buffers[n++] = piece;
        }
    }
    for (size_t i = 0; i < count; i++)
        buffers[i].offset = 0;
}

const char *place_problem_worst_name(enum place_worst kind) {
    static const char *const names[PLACE_WORST_KINDS] = {
        "together", "alignments", "chain", "stairs", "pyramid", "halves",
        "equal",    "long",       "parts", "comb",   "fixed",   "slabs"};
    return names[kind];
}

/* Makes buffer i of a binary tree of lives, numbered from the root, over time 0 to 2^30. */
static void worst_halves(struct acre__place_buffer *buffer, uint64_t i) {
    unsigned depth = 0;
    while ((i + 1) >> (depth + 1))
        depth++;
    int64_t life = (INT64_C(1) << 30) >> depth;
    buffer->lower = (int64_t)(i + 1 - (UINT64_C(1) << depth)) * life;
    buffer->upper = buffer->lower + life;
}

static void worst_life(struct acre__place_buffer *buffer, uint64_t lower, uint64_t life) {
    buffer->lower = (int64_t)lower;
    buffer->upper = (int64_t)(lower + life);
}

static void worst_fix(struct acre__place_buffer *buffer, uint64_t offset) {
    buffer->is_fixed = 1;
    buffer->offset = offset;
    buffer->align = 1;
}

void place_problem_worst(struct acre__place_buffer *buffers, size_t count, enum place_worst kind,
                         uint64_t seed) {
    for (size_t k = 0; k < count; k++) {
        struct acre__place_buffer *buffer = &buffers[k];
        uint64_t one = place_problem_random_number(&seed), i = k, n = count;
        uint64_t other = place_problem_random_number(&seed);
        *buffer = (struct acre__place_buffer){.size = 1 + one % 1000, .align = 1};
        worst_life(buffer, one / 1000 % n, 1 + other % n);
        switch (kind) {
        case PLACE_WORST_TOGETHER:
            worst_life(buffer, i % 7, n);
            buffer->align = UINT64_C(1) << other % 13;
            break;
        case PLACE_WORST_ALIGNMENTS:
            buffer->align = UINT64_C(1) << other / n % 16;
            buffer->size = buffer->align * (1 + one % 4) + 1;
            break;
        case PLACE_WORST_CHAIN:
            worst_life(buffer, 2 * i, 3);
            break;
        case PLACE_WORST_STAIRS:
            worst_life(buffer, i, n / 2 + 1);
            buffer->size = 1 + i;
            break;
        case PLACE_WORST_PYRAMID:
            worst_life(buffer, i, 2 * (n - i));
            buffer->align = UINT64_C(1) << other % 5;
            break;
        case PLACE_WORST_HALVES:
            worst_halves(buffer, i);
            break;
        case PLACE_WORST_EQUAL:
            buffer->size = 64;
            break;
        case PLACE_WORST_PARTS:
            worst_life(buffer, i / 12 * 100 + one / 1000 % 40, 1 + other % 50);
            break;
        case PLACE_WORST_COMB:
            if (i % 64)
                worst_life(buffer, one / 1000 % (8 * n), 1 + other % 3);
            else
                worst_life(buffer, one / 1000 % (4 * n), 4 * n);
            break;
        case PLACE_WORST_FIXED:
            worst_life(buffer, 0, n);
            buffer->size = 2 + one % 8;
            if (i % 2)
                worst_fix(buffer, 11 * i);
            break;
        case PLACE_WORST_SLABS:
            if (i % 16 == 0) {
                worst_life(buffer, 0, 2 * n);
                worst_fix(buffer, i * 400);
            }
            break;
        default: /* random */
            break;
        }
    }
}
