/* The results of `acre plan` for each file: filled by cmd_plan.c, printed by cmd_plan_tell.c. */
#ifndef ACRE_CLI_CMD_PLAN_H
#define ACRE_CLI_CMD_PLAN_H

#include "cli.h"
#include "plan/place.h"
#include "wishes.h"

struct plan_answer {
    const char *path, *format;
    size_t buffers;
    uint64_t align_bytes;    /* the smallest alignment of buffers that are not fixed */
    uint64_t capacity_bytes; /* 0: none */
    struct acre__place_result placed;
    uint64_t time_ns;
    bool is_interrupted;
    /* With --check, when the placer does not run. */
    const char *offsets; /* the file with the plan, or NULL */
    char *wrong;         /* what is invalid, or NULL */
    char *wrong_ids[2];  /* the buffers at fault: none, one or two */
    /* For a trace. */
    bool is_trace;
    uint64_t ops, peak_live_bytes;
    uint64_t pool_bytes; /* that a pool reserved for the trace; 0 if unknown */
};

struct plan_answers {
    struct plan_answer *list;
    size_t count;
    acre_status open_status; /* why the device for the pool could not be opened; already reported */
};

/* Checks the plan in the file answer->offsets, stores its offsets in the wishes, and fills the
 * answer. Returns CLI_OK, CLI_FINDING if the plan is invalid, or CLI_CANNOT; the last two after a
 * message. */
int plan_check(struct wishes *wishes, struct plan_answer *answer);

/* Returns "'id' (bytes .. to .., live .. to ..)"; the caller frees it. */
char *plan_describe(const struct wishes *wishes, size_t index);

void plan_print(const struct plan_answers *answers);
void plan_print_json(const struct plan_answers *answers);
/* Returns the size of the plan divided by the lower bound; 1 if there are no buffers. */
double plan_ratio(const struct plan_answer *answer);

#endif
