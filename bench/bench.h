/* Benchmarks: what a suite is, and how it says what it measured.
 *
 * A suite measures cases; each case is measured for several parties ("who"): acre, and in the same
 * run the driver's own calls, a floor or another peer, so that ratios can be taken. Everything of
 * acre's goes through the public API with default options. */
#ifndef ACRE_BENCH_H
#define ACRE_BENCH_H

#include <stdint.h>

#include "acre.h"
#include "driver/driver.h"

struct bench;

/* Returns 0, or 1 after it has said what could not be measured. */
typedef int (*bench_suite_fn)(struct bench *bench);

struct bench_suite {
    const char *name;
    const char *help; /* one line */
    bench_suite_fn run;
};

int bench_ground(struct bench *bench);

/* The device under test; its context is current while a suite runs. */
acre_device *bench_device(struct bench *bench);
const struct acre__driver *bench_driver(struct bench *bench);

/* One figure. `who` is acre, driver, floor, malloc or another peer. */
void bench_result(struct bench *bench, const char *name, const char *who, double value,
                  const char *unit);

/* Something that is done `count` times in a row; 0 when it failed. */
typedef int (*bench_loop_fn)(void *user, uint64_t count);

/* Measures several loops against each other: rounds in turn, so that drifts of the machine meet all
 * of them alike; the medians, in nanoseconds for one of `count`, go to `ns`. Returns 0 on failure.
 */
int bench_compare(const bench_loop_fn *loops, void *user, unsigned loop_count, uint64_t count,
                  double *ns);

#endif
