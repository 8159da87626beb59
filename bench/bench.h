/* Benchmarks: what a suite is, and how it says what it measured.
 *
 * A suite measures cases; each case is measured for several parties ("who"): acre, and in the same
 * run the driver's own calls, a floor or another peer, so that ratios can be taken. Everything of
 * acre's goes through the public API with default options. */
#ifndef ACRE_BENCH_H
#define ACRE_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "driver/driver.h"

struct bench;
struct chart; /* chart.h */

/* Returns 0, or 1 after it has said what could not be measured. */
typedef int (*bench_suite_fn)(struct bench *bench);

struct bench_suite {
    const char *name;
    const char *help; /* one line */
    bench_suite_fn run;
    const char *(*case_at)(size_t index); /* what --case chooses from; NULL: it has no choice */
    bool has_chart;
};

int bench_ground(struct bench *bench);
int bench_copy(struct bench *bench);
int bench_pin(struct bench *bench);
int bench_grow(struct bench *bench);
int bench_pool(struct bench *bench);
int bench_heap(struct bench *bench);
int bench_plan(struct bench *bench);

/* The index-th case of the suite, NULL past the last one. */
const char *bench_pool_case(size_t index);
const char *bench_heap_case(size_t index);
const char *bench_plan_case(size_t index);

/* The device under test; its context is current while a suite runs. */
acre_device *bench_device(struct bench *bench);
const struct acre__driver *bench_driver(struct bench *bench);

/* ---- sizes ---- */

/* What a suite holds at a time, in blocks of its largest size. */
struct bench_room {
    unsigned device_blocks, host_blocks;
};

enum { BENCH_SIZES = 8 };

/* The sizes that can be measured here, ascending, into `sizes`: `wanted` cut to what the device and
 * the host have room for, to 256 MiB on a soft device and to `quick_bytes` in a quick run. What was
 * cut is said. Returns how many there are; 0 when there is no room for any. */
size_t bench_sizes(struct bench *bench, const uint64_t *wanted, size_t count,
                   const struct bench_room *room, uint64_t quick_bytes,
                   uint64_t sizes[BENCH_SIZES]);

/* --quick: few rounds of small sizes. It shows that all works; its figures mean little. */
bool bench_is_quick(const struct bench *bench);

/* False when --case names others. */
bool bench_is_case_wanted(const struct bench *bench, const char *name);

enum { BENCH_NAME_BYTES = 64 };

/* "<what> 4KiB" into `name`, which is returned. */
const char *bench_case_name(const char *what, uint64_t bytes, char name[BENCH_NAME_BYTES]);

/* ---- figures ---- */

/* One figure. Larger is better for units that end in "/s", smaller for times; other units (bytes,
 * moves, share, times, ratio) are not compared. `who` is acre, driver, floor, malloc or another
 * peer. */
void bench_result(struct bench *bench, const char *name, const char *who, double value,
                  const char *unit);

/* A figure for the JSON alone: one of many, of which the table has the sum. */
void bench_detail(struct bench *bench, const char *name, const char *who, double value,
                  const char *unit);

/* Sorts the values and gives the one in the middle. */
double bench_median(double *values, size_t count);

/* What fails next is not acre's call: its detail does not say why. bench_rounds does so itself. */
void bench_blame(struct bench *bench, bool is_other);

/* The detail of a call of acre's that failed in another thread. */
void bench_reason(struct bench *bench, const char *detail);

/* Something that must not be: it is said, as a line of its own, and the program ends with
 * CLI_FINDING, with all figures. */
void bench_finding(struct bench *bench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Draws what --chart asks for, if it does and means this suite; the file is written when all is
 * measured. */
void bench_chart(struct bench *bench, const struct chart *chart);

/* One party's turn in a round; what it took, in nanoseconds, goes to ns[0 .. figures). 0 when it
 * failed. */
typedef int (*bench_turn_fn)(void *user, unsigned party, double *ns);

enum { BENCH_PARTIES = 4, BENCH_FIGURES = 2 };

/* Rounds in which each party has its turn, so that drifts of the machine meet all of them alike;
 * the medians go to `ns`. There are as many rounds as fit into a second or so, but at least three,
 * after one that warms up. Returns 0 on failure. */
int bench_rounds(struct bench *bench, bench_turn_fn turn, void *user, unsigned parties,
                 unsigned figures, double ns[BENCH_PARTIES][BENCH_FIGURES]);

/* Something that is done `count` times in a row; 0 when it failed. */
typedef int (*bench_loop_fn)(void *user, uint64_t count);

/* The same for loops; `ns` is for one of `count`. */
int bench_compare(struct bench *bench, const bench_loop_fn *loops, void *user, unsigned loop_count,
                  uint64_t count, double *ns);

#endif
