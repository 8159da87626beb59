/* What bench_plan.c, plan_place.c and plan_calls.c share. */
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

/* Each returns 0 when something was refused. */
int plan_place_cases(struct plan_bench *p);
int plan_loop_cases(struct plan_bench *p);
int plan_want_cases(struct plan_bench *p);

/* The peers of the placer: by size, the largest first, each into the lowest gap that it fits into
 * (`is_best`: the smallest one). Alignment is not looked at; moments have 32 bits.
 * Returns the bytes of the plan. */
uint64_t plan_greedy(struct acre__place_buffer *buffers, size_t count, bool is_best);

#endif
