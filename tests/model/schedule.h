/* Trying seeds: runs a scenario under many schedules, remembers the first that found something, and
 * shows that the same seed finds it again.
 *
 * ACRE_TEST_SEED=N tries that one seed alone, ACRE_TEST_SEEDS=N that many (default 1000). */
#ifndef ACRE_TESTS_SCHEDULE_H
#define ACRE_TESTS_SCHEDULE_H

#include <stdint.h>

#include "driver/driver.h"

/* A scenario runs once under `seed`; it returns 1 when it found what it looks for and then says
 * so in `what`. */
typedef int (*schedule_scenario)(uint64_t seed, char *what, unsigned what_bytes);

/* How many seeds found something; *first is the first of them. Prints it with its report. */
unsigned schedule_try(const char *name, schedule_scenario scenario, uint64_t *first);

/* The soft driver in its seeded, checking mode with one 64 MiB device, context pushed. */
const struct acre__driver *schedule_driver_begin(uint64_t seed, uint32_t devices);
void schedule_driver_end(void);

/* Seeds to try: ACRE_TEST_SEEDS, else `unset`. */
unsigned schedule_seed_count(unsigned unset);

#endif
