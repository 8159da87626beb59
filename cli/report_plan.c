/* What a plan would have needed for the allocations of a trace; see report.h. The placer's work is
 * counted, not timed, so the same trace gives the same figure on every machine. */
#include <stdlib.h>

#include "cli.h"
#include "report.h"
#include "wishes.h"

enum {
    PLAN_ALIGN = 256, /* of pools and of acre_plan */
    PLAN_NODES = 2000 /* of the placer's search, a few milliseconds; its first plan has no limit */
};

/* Keeps an allocation or a free for the plan. */
void plan_step(struct report *report, const struct report_step *step) {
    struct report_plan *plan = &report->plan;
    const struct trace_record *record = &step->record;
    if ((!step->added && !step->freed) || plan->skipped) {
        return;
    }
    if (plan->events.count >= 2 * (size_t)REPORT_PLAN_MOST) {
        plan->skipped = "the trace has more than 250,000 allocations: use acre plan";
        events_free(&plan->events);
        return;
    }
    struct event *event = events_add(&plan->events);
    *event = (struct event){.kind = !step->added  ? EVENT_FREE
                                    : step->freed ? EVENT_REALLOC
                                                  : EVENT_ALLOC,
                            .id = step->added ? step->added->id : step->freed->id,
                            .bytes = record->bytes};
}

void plan_make(struct report *report) {
    struct report_plan *plan = &report->plan;
    struct wishes wishes;
    struct acre__place_result placed;
    const struct acre__place_options options = {.budget = PLAN_NODES};
    if (plan->skipped) {
        return;
    }
    bool has_any = false;
    for (size_t i = 0; i < plan->events.count; i++) {
        has_any |= plan->events.list[i].kind == EVENT_ALLOC && plan->events.list[i].bytes;
    }
    if (!has_any || events_settle(report->source->name, &plan->events)) {
        plan->skipped = "the trace has no allocations";
        return;
    }
    wishes_from_events(&plan->events, &wishes);
    for (size_t i = 0; i < wishes.count; i++) {
        wishes.list[i].align = PLAN_ALIGN;
    }
    if (acre__place(wishes.list, wishes.count, &options, &placed)) {
        plan->skipped = "the sizes exceed the limits of the placer";
    } else {
        plan->bytes = placed.bytes;
        plan->lower_bound = placed.lower_bound;
        plan->is_optimal = placed.is_optimal;
        plan->buffers = wishes.count;
    }
    wishes_free(&wishes);
}
