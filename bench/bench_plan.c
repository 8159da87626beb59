/* Plans: the memory that they need and the time that they take.
 *
 *   place  packs buffers with lifetimes, generated from seeds: acre's placer against greedy
 *          placement by size, into the lowest gap (first fit) or the smallest one (best fit). The
 *          floor is the lower bound (plan_place.c, plan_instances.c, plan_greedy.c)
 *   loop   alloc and free as hits of a recorded loop, against the pool and malloc. The floor is one
 *          comparison and one load (plan_calls.c)
 *   want   requests: queued and then satisfied, satisfied at once, and for some steps with a commit
 *          (plan_calls.c) */
#include "cli.h"
#include "plan_bench.h"

static const struct {
    const char *name;
    int (*run)(struct plan_bench *p);
} plan_cases[] = {
    {"place", plan_place_cases}, {"loop", plan_loop_cases}, {"want", plan_want_cases}};

enum { PLAN_CASES = sizeof plan_cases / sizeof plan_cases[0] };

const char *bench_plan_case(size_t index) {
    return index < PLAN_CASES ? plan_cases[index].name : NULL;
}

int bench_plan(struct bench *bench) {
    struct plan_bench p = {.bench = bench,
                           .device = bench_device(bench),
                           .info = {.struct_size = sizeof p.info},
                           .is_quick = bench_is_quick(bench)};
    if (acre_stream_create(p.device, ACRE_STREAM_NON_BLOCKING, &p.stream)) {
        return 1;
    }
    for (size_t i = 0; i < PLAN_CASES; i++) {
        if (!bench_is_case_wanted(bench, plan_cases[i].name)) {
            continue;
        }
        if (acre_device_get_info(p.device, &p.info) || !plan_cases[i].run(&p)) {
            return 1; /* without cleaning up: more calls could replace the detail */
        }
    }
    bench_blame(bench, false);
    return acre_stream_destroy(p.device, p.stream) != ACRE_OK;
}
