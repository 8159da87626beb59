/* Random numbers for tests (splitmix64). A seed determines the whole sequence. */
#ifndef ACRE_TESTS_RANDOM_H
#define ACRE_TESTS_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline uint64_t random_next(uint64_t *state) {
    uint64_t x = (*state += 0x9e3779b97f4a7c15u);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t random_draw(uint64_t *state, uint64_t below) {
    return random_next(state) % below;
}

/* Returns the seed of a test and prints it: always the same one, so that a failure is due to the
 * change under test; that of ACRE_TEST_SEED; or with ACRE_TEST_SEED=random a new one. */
static inline uint64_t random_seed(const char *name) {
    const char *text = getenv("ACRE_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : 20261117;
    if (text && strcmp(text, "random") == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        seed = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec;
    }
    printf("%s: ACRE_TEST_SEED=%llu\n", name, (unsigned long long)seed);
    return seed;
}

#endif
