/* For tests of plans: a device with a stream and a plan, and a record of the log lines. */
#ifndef ACRE_TESTS_API_PLAN_H
#define ACRE_TESTS_API_PLAN_H

#include "api_memory.h"

struct planned {
    acre_device *device;
    acre_stream stream;
    acre_plan *plan;
};

/* NULL `options`: 1 MiB of device memory and 1 MiB of host memory. */
static inline struct planned planned_begin(const char *name, const acre_plan_options *options) {
    acre_plan_options small = {.struct_size = sizeof small, .device_bytes = MIB, .host_bytes = MIB};
    struct planned t = {.device = api_open(name)};
    api_ok(acre_stream_create(t.device, ACRE_STREAM_NON_BLOCKING, &t.stream));
    api_ok(acre_plan_create(t.device, options ? options : &small, &t.plan));
    assert_non_null(t.plan);
    return t;
}

static inline void planned_end(struct planned *t) {
    api_ok(acre_plan_destroy(t->plan));
    api_ok(acre_stream_destroy(t->device, t->stream));
    api_ok(acre_close(t->device));
}

static inline acre_plan_stats planned_stats(acre_plan *plan) {
    acre_plan_stats stats = {.struct_size = sizeof stats};
    api_ok(acre_plan_get_stats(plan, &stats));
    return stats;
}

/* No statistic of the plan has changed, except `nodes`, which counts search nodes. */
static inline void planned_expect_same(acre_plan *plan, const acre_plan_stats *before) {
    acre_plan_stats now = planned_stats(plan);
    now.nodes = before->nodes;
    assert_memory_equal(&now, before, sizeof now);
}

/* ---- the log ---- */

static struct {
    int count;
    char line[512]; /* the last line of area plan */
} planned_log;

static inline void planned_hear(void *user, acre_log_level level, const char *area,
                                const char *line) {
    (void)user, (void)level;
    if (strcmp(area, "plan") != 0)
        return;
    planned_log.count++;
    snprintf(planned_log.line, sizeof planned_log.line, "%s", line);
}

static inline void planned_listen(void) {
    memset(&planned_log, 0, sizeof planned_log);
    api_ok(acre_log_set(planned_hear, NULL, ACRE_LOG_INFO));
}

/* ---- marks a pointer that no call may write ---- */

static char planned_mark;
#define UNWRITTEN ((void *)&planned_mark)

#endif
