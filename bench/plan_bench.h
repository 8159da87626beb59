/* Shared by bench_plan.c, plan_place.c, plan_greedy.c and plan_calls.c. */
#ifndef ACRE_BENCH_PLAN_BENCH_H
#define ACRE_BENCH_PLAN_BENCH_H

#include "bench.h"
#include "plan/place.h"

struct plan_bench {
    struct bench *bench;
    acre_device *device;
    acre_device_info info;
    acre_stream stream;
    bool is_quick;
};

/* Each runs some cases and returns 0 on failure. */
int plan_place_cases(struct plan_bench *p);
int plan_loop_cases(struct plan_bench *p);
int plan_want_cases(struct plan_bench *p);

/* Places greedily, as a peer of the placer: the largest buffer first, each into the lowest gap that
 * is large enough (with `is_best`: the smallest such gap). Ignores alignment and uses 32 bits of
 * times. Returns the size of the plan. */
uint64_t plan_greedy(struct acre__place_buffer *buffers, size_t count, bool is_best);

#endif
