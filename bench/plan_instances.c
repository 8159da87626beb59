/* Generates instances: see plan_instances.h. All arithmetic is on integers, except quantiles. Their
 * results are rounded to few bits, since exp2 may differ between machines. */
#include "plan_instances.h"

#include <math.h>

static uint64_t random_next(uint64_t *state) {
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

/* Returns a number from `least` to `most`, both included. */
static uint64_t random_in(uint64_t *state, uint64_t least, uint64_t most) {
    return least + random_next(state) % (most - least + 1);
}

static void set_life(struct acre__place_buffer *buffer, uint64_t lower, uint64_t upper) {
    buffer->lower = (int64_t)lower;
    buffer->upper = (int64_t)upper;
}

/* ---- tight ---- */

enum {
    TIGHT_UNIT = 1024, /* in bytes, and in time */
    TIGHT_SIDE = 1024, /* size and duration of the whole, in units */
    TIGHT_LEAST = 4    /* smallest part, in units: a length below twice this is not cut */
};

static uint64_t life_of(const struct acre__place_buffer *buffer) {
    return (uint64_t)(buffer->upper - buffer->lower);
}

/* Returns where to cut `length`: a random position from `least` to 100 - `least` percent. */
static uint64_t cut_at(uint64_t *state, uint64_t length, uint64_t least) {
    uint64_t at = length * random_in(state, least, 100 - least) / 100;
    at = at < TIGHT_LEAST ? TIGHT_LEAST : at;
    return at > length - TIGHT_LEAST ? length - TIGHT_LEAST : at;
}

/* Cuts a buffer in two, along time or size. */
static void cut_in_two(struct acre__place_buffer *whole, struct acre__place_buffer *rest,
                       uint64_t *state, int in_time, uint64_t least) {
    *rest = *whole;
    if (in_time) {
        whole->upper = rest->lower = whole->lower + (int64_t)cut_at(state, life_of(whole), least);
    } else {
        rest->size = cut_at(state, whole->size, least);
        whole->size -= rest->size;
        rest->offset += whole->size;
    }
}

/* Cuts a buffer in five, four around one, so that no straight cut separates them. */
static void cut_in_five(struct acre__place_buffer *whole, struct acre__place_buffer rest[4],
                        uint64_t *state) {
    uint64_t life = life_of(whole), bytes = whole->size;
    int64_t early = whole->lower + (int64_t)random_in(state, life / 5, life * 2 / 5);
    int64_t late = whole->lower + (int64_t)random_in(state, life * 3 / 5, life * 4 / 5);
    uint64_t low = random_in(state, bytes / 5, bytes * 2 / 5);
    uint64_t high = random_in(state, bytes * 3 / 5, bytes * 4 / 5);
    for (int i = 0; i < 4; i++) {
        rest[i] = *whole;
    }
    whole->upper = late, whole->size = low;
    rest[0].lower = late, rest[0].size = high;
    rest[1].lower = early, rest[1].size = bytes - high;
    rest[2].upper = early, rest[2].size = bytes - low;
    rest[3].lower = early, rest[3].upper = late, rest[3].size = high - low;
    rest[1].offset += high;
    rest[2].offset += low;
    rest[3].offset += low;
}

/* Chooses the buffer to cut: the one with the largest area, of all (EVEN) or of four at random. */
static size_t cut_which(const struct acre__place_buffer *buffers, size_t count, enum plan_cut cut,
                        uint64_t *state) {
    size_t best = 0, tries = cut == PLAN_EVEN ? count : 4;
    uint64_t most = 0;
    for (size_t i = 0; i < tries; i++) {
        size_t k = cut == PLAN_EVEN ? i : random_in(state, 0, count - 1);
        uint64_t area = life_of(&buffers[k]) * buffers[k].size;
        if (area > most) {
            most = area;
            best = k;
        }
    }
    return best;
}

/* Adds slack: shortens a buffer, unless it is live at one of four times when memory stays full. */
static void trim(struct acre__place_buffer *buffer, enum plan_cut cut, uint64_t *state) {
    uint64_t life = life_of(buffer), draw = random_in(state, 0, 9);
    int64_t loss = (int64_t)random_in(state, 0, cut == PLAN_EVEN ? life * 9 / 10 : life / 3);
    for (int64_t full = TIGHT_SIDE / 8; full < TIGHT_SIDE; full += TIGHT_SIDE / 4) {
        if (buffer->lower <= full && full < buffer->upper) {
            return;
        }
    }
    if (cut != PLAN_EVEN && draw > 5) {
        return;
    }
    if (draw & 1) {
        buffer->lower += loss;
    } else {
        buffer->upper -= loss;
    }
}

static void shuffle(struct acre__place_buffer *buffers, size_t count, uint64_t *state) {
    for (size_t i = count; i > 1; i--) {
        size_t k = random_in(state, 0, i - 1);
        struct acre__place_buffer other = buffers[k];
        buffers[k] = buffers[i - 1];
        buffers[i - 1] = other;
    }
}

void plan_make_tight(struct acre__place_buffer *buffers, size_t count, enum plan_cut cut,
                     uint64_t seed) {
    uint64_t state = seed;
    buffers[0] = (struct acre__place_buffer){.size = TIGHT_SIDE, .upper = TIGHT_SIDE};
    for (size_t made = 1; made < count;) {
        struct acre__place_buffer *whole = &buffers[cut_which(buffers, made, cut, &state)];
        uint64_t life = life_of(whole), least = cut == PLAN_EVEN ? 35 : 10;
        int is_large = life >= 8 * TIGHT_LEAST && whole->size >= 8 * TIGHT_LEAST;
        if (cut == PLAN_KNOTS && is_large && made + 4 <= count && random_in(&state, 0, 3) == 0) {
            cut_in_five(whole, &buffers[made], &state);
            made += 4;
            continue;
        }
        int in_time = cut == PLAN_EVEN ? life > whole->size : (int)random_in(&state, 0, 1);
        if ((in_time ? life : whole->size) >= 2 * TIGHT_LEAST) {
            cut_in_two(whole, &buffers[made++], &state, in_time, least);
        }
    }
    for (size_t i = 0; i < count; i++) {
        trim(&buffers[i], cut, &state);
        buffers[i].size *= TIGHT_UNIT;
        buffers[i].offset *= TIGHT_UNIT;
        buffers[i].lower *= TIGHT_UNIT;
        buffers[i].upper *= TIGHT_UNIT;
    }
    shuffle(buffers, count, &state);
}

/* ---- training ---- */

enum { LAYER_BUFFERS = 8, LAYER_MOMENTS = 4 /* in each pass */ };

/* Returns `most` divided by a random power of two, times 5/8 to 1, rounded up to 512. */
static uint64_t tensor_bytes(uint64_t *state, uint64_t most, unsigned least_shift,
                             unsigned most_shift) {
    uint64_t bytes = most >> random_in(state, least_shift, most_shift);
    bytes = bytes * random_in(state, 5, 8) / 8;
    return (bytes / 512 + 1) * 512;
}

/* Generates the i-th buffer of a layer, whose forward pass is at `there` and backward pass at
 * `back`. */
static void layer_buffer(struct acre__place_buffer *b, unsigned i, uint64_t there, uint64_t back,
                         uint64_t end, uint64_t most, uint64_t *state) {
    static const struct {
        unsigned least_shift, most_shift;
    } sizes[LAYER_BUFFERS] = {{0, 3}, {1, 4}, {0, 5}, {8, 12}, {0, 3}, {0, 5}, {3, 6}, {8, 12}};
    *b = (struct acre__place_buffer){.align = 512};
    b->size = tensor_bytes(state, most, sizes[i].least_shift, sizes[i].most_shift);
    switch (i) {
    case 0: /* activation */
        set_life(b, there + 1, back + 3);
        break;
    case 1: /* also kept for the backward pass */
        set_life(b, there + 2, back + 2);
        break;
    case 2: /* workspace */
        set_life(b, there, there + 2);
        break;
    case 3: /* statistics */
        set_life(b, there + 3, back + 1);
        break;
    case 4: /* gradient, which the previous layer reads */
        set_life(b, back + 1, back + LAYER_MOMENTS + 2);
        break;
    case 5:
        set_life(b, back, back + 2);
        break;
    case 6: /* gradient of weights */
        set_life(b, back + 2, end);
        break;
    default:
        set_life(b, back + 2, back + LAYER_MOMENTS);
        break;
    }
}

void plan_make_training(struct acre__place_buffer *buffers, size_t count, uint64_t most_bytes,
                        uint64_t seed) {
    uint64_t state = seed, layers = (count + LAYER_BUFFERS - 1) / LAYER_BUFFERS;
    uint64_t turn = layers * LAYER_MOMENTS, end = 2 * turn + LAYER_MOMENTS;
    for (size_t i = 0; i < count; i++) {
        uint64_t layer = i / LAYER_BUFFERS, there = layer * LAYER_MOMENTS;
        /* Later layers have smaller activations. */
        uint64_t most = most_bytes >> (layer * 3 / layers);
        layer_buffer(&buffers[i], i % LAYER_BUFFERS, there, 2 * turn - there - LAYER_MOMENTS, end,
                     most, &state);
    }
}

/* ---- graph ---- */

struct quantile {
    double share, log2;
};

/* Returns the value that `share` of all do not exceed; interpolates the logarithms of the table. */
static double quantile_at(const struct quantile *table, double share) {
    while (table[1].share < share) {
        table++;
    }
    double part = (share - table->share) / (table[1].share - table->share);
    return exp2(table->log2 + part * (table[1].log2 - table->log2));
}

static double random_share(uint64_t *state) {
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

/* Returns a small number times a power of two, plus 1. */
static uint64_t graph_bytes(uint64_t *state) {
    static const struct quantile sizes[] = {{0, 1},    {.1, 3.2},   {.25, 7.2},
                                            {.5, 14},  {.75, 17.3}, {.9, 20.2},
                                            {.99, 23}, {.9995, 25}, {1, 28}};
    uint64_t bytes = (uint64_t)quantile_at(sizes, random_share(state)), low = 0;
    while (bytes >> low >= 16) {
        low++;
    }
    return (bytes >> low << low) + 1;
}

void plan_make_graph(struct acre__place_buffer *buffers, size_t count, uint64_t seed) {
    static const struct quantile lives[] = {{0, 1},     {.1, 2},     {.6, 2.2}, {.75, 3.2},
                                            {.9, 12.9}, {.99, 14.7}, {1, 14.7}};
    uint64_t state = seed, end = count * 3 / 2 + 20;
    for (size_t i = 0; i < count; i++) {
        double life = quantile_at(lives, random_share(&state));
        uint64_t lower = random_in(&state, 0, end - 16), latest = end, draw = random_next(&state);
        if (life >
            16) { /* the table is for 44,681 steps; only long lives scale with the instance */
            life = 16 + (life - 16) * (double)end / 44681;
            lower = lower * 45 / 100;
            latest = end * 62 / 100;
        } else if (draw % 14 == 0) {
            lower = 0;
        }
        uint64_t upper = lower + (uint64_t)(life + 0.5);
        buffers[i] = (struct acre__place_buffer){.size = graph_bytes(&state)};
        set_life(&buffers[i], lower, upper > latest ? latest : upper);
    }
}
