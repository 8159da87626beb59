/* A loop that allocates alike in every step: the plan records it once and then serves it.
 *
 * The program declares nothing in advance. A pool serves the first step. From the second step on
 * the same calls return the same addresses, without a call of the pool. One step is different and
 * works too: the pool serves what the plan cannot, and the plan counts a miss. */
#include <acre.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define KIB ((size_t)1 << 10)
enum { STEPS = 8, LAYERS = 5, ODD_STEP = 5 };

static acre_device *device;
static acre_stream stream;
static acre_plan *plan;
static int wrong;

static void need(acre_status status, const char *what) {
    if (status != ACRE_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, acre_status_text(status), acre_last_detail());
        exit(2);
    }
}

static void expect(int is_so, const char *what) {
    if (!is_so) {
        printf("THIS IS WRONG: %s\n", what);
        wrong++;
    }
}

static acre_plan_stats stats_of(void) {
    acre_plan_stats stats = {.struct_size = sizeof stats};
    need(acre_plan_get_stats(plan, &stats), "acre_plan_get_stats");
    return stats;
}

/* Forward and backward pass of a small network; fills stand for kernels. */
static void step(int number) {
    void *kept[LAYERS], *scratch;
    need(acre_plan_step_begin(plan, stream), "acre_plan_step_begin");
    for (size_t i = 0; i < LAYERS; i++) {
        size_t bytes = (i + 1) * 64 * KIB;
        need(acre_plan_alloc(plan, ACRE_PLACE_DEVICE, bytes, 0, &kept[i]), "acre_plan_alloc");
        need(acre_plan_alloc(plan, ACRE_PLACE_DEVICE, 2 * bytes, 0, &scratch), "acre_plan_alloc");
        need(acre_fill(device, scratch, (uint8_t)i, 2 * bytes, stream), "acre_fill");
        need(acre_copy(device, kept[i], scratch, bytes, stream), "acre_copy");
        need(acre_plan_free(plan, scratch), "acre_plan_free");
    }
    if (number == ODD_STEP) { /* an extra measurement in one step */
        need(acre_plan_alloc(plan, ACRE_PLACE_DEVICE, 5 * KIB, 0, &scratch), "acre_plan_alloc");
        need(acre_plan_free(plan, scratch), "acre_plan_free");
    }
    for (size_t i = LAYERS; i-- > 0;) {
        need(acre_plan_free(plan, kept[i]), "acre_plan_free");
    }
    need(acre_plan_step_end(plan), "acre_plan_step_end");
}

int main(void) {
    need(acre_open("auto", NULL, &device), "acre_open");
    need(acre_stream_create(device, ACRE_STREAM_NON_BLOCKING, &stream), "acre_stream_create");
    acre_plan_options options = {.struct_size = sizeof options,
                                 .device_bytes = ACRE_PLAN_AS_NEEDED,
                                 .host_bytes = ACRE_PLAN_AS_NEEDED};
    need(acre_plan_create(device, &options, &plan), "acre_plan_create");

    printf("%-6s %8s %8s %12s\n", "step", "hits", "misses", "pool calls");
    for (int i = 1; i <= STEPS; i++) {
        acre_plan_stats before = stats_of();
        step(i);
        acre_plan_stats after = stats_of();
        uint64_t calls = after.pool_calls - before.pool_calls;
        printf("%-6d %8" PRIu64 " %8" PRIu64 " %12" PRIu64 "%s\n", i, after.hits - before.hits,
               after.misses - before.misses, calls, i == 1 ? "  recorded" : "");
        expect(i == 1 ? calls == (uint64_t)4 * LAYERS : calls == (i == ODD_STEP ? 2u : 0u),
               "only the first step and the extra block use the pool");
    }
    acre_plan_stats stats = stats_of();
    printf("the plan serves the loop with %" PRIu64 " KiB; the lower bound is %" PRIu64 " KiB\n",
           stats.loop_bytes / KIB, stats.loop_bound_bytes / KIB);

    need(acre_plan_destroy(plan), "acre_plan_destroy");
    need(acre_stream_destroy(device, stream), "acre_stream_destroy");
    need(acre_close(device), "acre_close");
    return wrong != 0;
}
