/* The analysis of a trace for `acre report`: report_count.c and report_levels.c read the events,
 * report_json.c writes the result, report_write.c the page around it.
 *
 * Memory is bounded by the file: the numbers of samples, blocks and rows that reach the page have
 * limits, so that a page for 10^7 events stays below 20 MB. */
#ifndef ACRE_CLI_REPORT_H
#define ACRE_CLI_REPORT_H

#include <jansson.h>

#include "accounts.h"
#include "report_source.h"

/* What live memory is divided by. */
enum report_key {
    REPORT_BY_TAG,
    REPORT_BY_STACK,
    REPORT_BY_POOL,
    REPORT_BY_STREAM,
    REPORT_BY_SIZE, /* classes: 2^n to 2^(n+1) - 1 bytes; the value is n */
    REPORT_KEYS
};

enum {
    REPORT_GROUPS = 10,       /* areas of a chart, without the rest: more cannot be told apart */
    REPORT_BUCKETS = 1 << 15, /* of the finest level of detail; each has up to two samples */
    REPORT_FACTOR = 8,        /* buckets that the next coarser level merges */
    REPORT_LEVELS = 4,
    REPORT_MARKS = 1000,
    REPORT_FAILURES = 1000,
    REPORT_BLOCKS = 60000, /* of the address map */
    REPORT_MAPPINGS = 20000,
    REPORT_ROWS = 500,        /* of a table */
    REPORT_HOLDERS = 4000,    /* pairs of tag and call stack in the flame graph */
    REPORT_PLAN_MOST = 250000 /* allocations of a trace for which a plan is computed */
};

/* The state after one event. */
struct report_sample {
    uint64_t time_ns, event;
    uint64_t requested, real, reserved, waits;
    uint64_t groups[REPORT_KEYS][REPORT_GROUPS];
};

/* Samples of buckets with equally many events: the state at its largest and at its smallest live
 * memory, in the order in which they happened. */
struct report_level {
    uint64_t events; /* of a bucket */
    struct report_sample *list;
    size_t count;
};

struct report_mark {
    uint64_t time_ns, event;
    char *text;
};

struct report_failure {
    uint64_t time_ns, event, bytes, stream;
    uint32_t tag, stack;
    int status;
    bool is_free;
};

/* A block or a mapping, and when it was there. */
struct report_span {
    struct trace_block block;
    uint64_t begin, end; /* events; end is the number of all steps if it was never freed */
    uint64_t end_ns;
    double weight;
};

/* The heaviest spans: a binary heap with the lightest one at the root. */
struct report_spans {
    struct report_span *list;
    size_t count, most;
    uint64_t all; /* seen */
};

struct report_plan {
    struct events events;
    const char *skipped; /* why there is no plan, or NULL */
    uint64_t bytes, lower_bound, buffers;
    bool is_optimal;
};

struct report {
    struct report_source *source;
    uint64_t kinds[ACRE__TRACE_KINDS];
    uint64_t events, steps; /* steps: with frees that the trace lacks */
    uint64_t duration_ns;
    struct accounts by[REPORT_KEYS];
    struct accounts holders; /* by tag and call stack: tag << 32 | stack */
    struct accounts waits;   /* by stream: allocations are waits */
    uint64_t live_bytes, live_real, live_blocks;
    uint64_t peak_bytes, peak_real, peak_ns, peak_event, peak_blocks;
    uint64_t reserved, reserved_peak, reserved_peak_ns, created, released, moved;
    uint64_t wait_count;
    struct report_mark marks[REPORT_MARKS];
    size_t mark_count;
    struct report_failure failures[REPORT_FAILURES];
    size_t failure_count;
    uint64_t failures_all;
    uint64_t groups[REPORT_KEYS][REPORT_GROUPS]; /* the values of the largest accounts */
    size_t group_count[REPORT_KEYS];
    struct report_level levels[REPORT_LEVELS]; /* the finest first */
    size_t level_count;
    struct report_spans blocks, mappings;
    struct report_plan plan;
};

/* Analyses a source. Nothing of the result refers to the steps; names still come from the source,
 * which must outlive the report. The caller calls report_end. */
void report_make(struct report *report, struct report_source *source);
void report_end(struct report *report);

/* Returns the value of a block's key. */
uint64_t report_value(enum report_key key, const struct trace_block *block);

/* ---- parts of report_make ---- */

/* First reading: figures of the whole trace. */
void report_count(struct report *report);
/* Second reading: samples, the state at the peak, blocks and mappings, events for the plan. */
void report_sample(struct report *report);

/* Adds a span, or drops the lightest one if there are too many. */
void spans_add(struct report_spans *spans, const struct report_span *span);
/* Sorts the spans by their begin. The heap ends. */
void spans_sort(struct report_spans *spans);

/* Follows blocks and mappings of the second reading. */
struct report_map;
struct report_map *map_begin(struct report *report);
void map_step(struct report_map *map, const struct report_step *step, uint64_t event);
void map_end(struct report_map *map);

void plan_step(struct report *report, const struct report_step *step);
void plan_make(struct report *report);

/* ---- results ---- */

/* Returns the first sentences of the page; the caller frees them. */
char *report_lead(const struct report *report);
/* Returns the report as JSON (acre-report/1). `is_whole`: with samples and blocks. */
json_t *report_json(const struct report *report, bool is_whole);

#endif
