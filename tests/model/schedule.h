/* Runs a scenario under many schedules, one per seed, and reports the first seed that finds
 * something. The same seed finds it again.
 *
 * ACRE_TEST_SEED=N tries only seed N. ACRE_TEST_SEEDS=N sets the number of seeds (default 1000). */
#ifndef ACRE_TESTS_SCHEDULE_H
#define ACRE_TESTS_SCHEDULE_H

#include <stdint.h>

#include "driver/driver.h"

/* Runs the scenario once under `seed`. Returns 1 if it found something, and then writes a
 * description to `what`. */
typedef int (*schedule_scenario)(uint64_t seed, char *what, unsigned what_bytes);

/* Returns how many seeds found something. *first is the first of them; the function prints it with
 * its report. */
unsigned schedule_try(const char *name, schedule_scenario scenario, uint64_t *first);

/* Starts the soft driver with `seed`, with the vector clocks on and with `devices` devices of 64
 * MiB. The context of device 0 is current. */
const struct acre__driver *schedule_driver_begin(uint64_t seed, uint32_t devices);
void schedule_driver_end(void);

/* Returns the first seed to try: ACRE_TEST_SEED alone, or `count` (or ACRE_TEST_SEEDS) seeds from 1
 * on. `*end` is the seed after the last. */
uint64_t schedule_seeds(unsigned count, uint64_t *end);

#endif
