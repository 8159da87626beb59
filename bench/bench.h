/* The interface between `acre bench` and its suites.
 *
 * A suite measures cases. Each case is measured for several parties ("who") in the same run: acre,
 * the driver's own calls, a floor (a lower bound), or another peer. The ratios of their figures are
 * therefore meaningful. acre is measured through the public API with default options. */
#ifndef ACRE_BENCH_H
#define ACRE_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "driver/driver.h"

struct bench;
struct chart; /* chart.h */

/* Runs a suite. Returns 0, or 1 if a call failed. */
typedef int (*bench_suite_fn)(struct bench *bench);

struct bench_suite {
    const char *name;
    const char *help; /* one line */
    bench_suite_fn run;
    const char *(*case_at)(size_t index); /* names for --case; NULL: there are none */
    bool has_chart;
};

int bench_ground(struct bench *bench);
int bench_copy(struct bench *bench);
int bench_pin(struct bench *bench);
int bench_grow(struct bench *bench);
int bench_range(struct bench *bench);
int bench_suspend(struct bench *bench);
int bench_pool(struct bench *bench);
int bench_heap(struct bench *bench);
int bench_plan(struct bench *bench);

/* Return the name of the index-th case of the suite, NULL past the last one. */
const char *bench_pool_case(size_t index);
const char *bench_heap_case(size_t index);
const char *bench_plan_case(size_t index);

/* Return the device under test and its driver. The context is current while a suite runs. */
acre_device *bench_device(struct bench *bench);
const struct acre__driver *bench_driver(struct bench *bench);

/* ---- sizes ---- */

/* The memory that a suite needs at the same time, in blocks of its largest size. */
struct bench_room {
    unsigned device_blocks, host_blocks;
};

enum { BENCH_SIZES = 8 };

/* Writes the sizes to measure, ascending, into `sizes`: `wanted`, limited to the memory of the
 * device and the host, to 256 MiB on a soft device and to `quick_bytes` in a quick run. Prints a
 * message if it limits them, except in a quick run. Returns their number; 0 if there is not enough
 * memory for any. */
size_t bench_sizes(struct bench *bench, const uint64_t *wanted, size_t count,
                   const struct bench_room *room, uint64_t quick_bytes,
                   uint64_t sizes[BENCH_SIZES]);

/* Returns true with --quick: few rounds of small sizes, which only test that the suite works. */
bool bench_is_quick(const struct bench *bench);

/* Returns false if --case selects other cases only. */
bool bench_is_case_wanted(const struct bench *bench, const char *name);

enum { BENCH_NAME_BYTES = 64 };

/* Writes "<what> 4KiB" into `name` and returns it. */
const char *bench_case_name(const char *what, uint64_t bytes, char name[BENCH_NAME_BYTES]);

/* ---- figures ---- */

/* Adds one figure. Larger is better for units that end in "/s", smaller for times. Other units
 * (bytes, moves, share, times, ratio) are not compared. `who` is acre, driver, floor, malloc or
 * another peer. */
void bench_result(struct bench *bench, const char *name, const char *who, double value,
                  const char *unit);

/* Adds a figure that is in the JSON only, not in the table. */
void bench_detail(struct bench *bench, const char *name, const char *who, double value,
                  const char *unit);

/* Sorts the values and returns the median. */
double bench_median(double *values, size_t count);

/* Declares whose calls follow. If `is_other`, a failure is not acre's, and acre_last_detail does
 * not explain it. bench_rounds does this itself. */
void bench_blame(struct bench *bench, bool is_other);

/* Stores the reason of a failure that acre_last_detail of this thread does not have, for example of
 * a failure in another thread. */
void bench_reason(struct bench *bench, const char *detail);

/* Reports an error in the results as one line on stderr. The suite continues, and the exit code
 * becomes CLI_FINDING. */
void bench_finding(struct bench *bench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns the command line as it was typed, quoted where the shell needs it. Call it before argp,
 * which reorders the words. The caller frees it. */
char *bench_command(int argc, char **argv);

/* Adds the date, the host, the commit and the command to a result. */
struct json_t;
void bench_where(struct json_t *root, const char *command);

/* Draws a chart if --chart selects this suite. The file is written after all suites. */
void bench_chart(struct bench *bench, const struct chart *chart);

/* Runs one party's turn in a round and writes its times in nanoseconds to ns[0 .. figures). Returns
 * 0 on failure. */
typedef int (*bench_turn_fn)(void *user, unsigned party, double *ns);

enum { BENCH_PARTIES = 4, BENCH_FIGURES = 2 };

/* Runs rounds in which each party has its turn, so that drift of the machine affects all alike.
 * Writes the medians to `ns`. After one warm-up round there are as many rounds as fit into about a
 * second, at least 3 and at most 21. Returns 0 on failure. */
int bench_rounds(struct bench *bench, bench_turn_fn turn, void *user, unsigned parties,
                 unsigned figures, double ns[BENCH_PARTIES][BENCH_FIGURES]);

/* Runs an operation `count` times. Returns 0 on failure. */
typedef int (*bench_loop_fn)(void *user, uint64_t count);

/* Runs rounds as bench_rounds does, for loops. `ns` gets the time of one iteration. */
int bench_compare(struct bench *bench, const bench_loop_fn *loops, void *user, unsigned loop_count,
                  uint64_t count, double *ns);

#endif
