/* Problems for the placer, made by a seed. */
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
    /* `offset` is where a piece lies in the rectangle, until all are cut. */
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
