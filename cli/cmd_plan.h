/* What `acre plan` found out about each file: filled by cmd_plan.c, told by cmd_plan_tell.c. */
#ifndef ACRE_CLI_CMD_PLAN_H
#define ACRE_CLI_CMD_PLAN_H

#include "cli.h"
#include "plan/place.h"
#include "wishes.h"

struct plan_answer {
    const char *path, *format;
    size_t buffers;
    uint64_t align_bytes;    /* that every buffer has at least */
    uint64_t capacity_bytes; /* 0: none */
    struct acre__place_result placed;
    uint64_t time_ns;
    bool is_interrupted;
    /* Somebody's plan: the placer did nothing. */
    const char *offsets; /* the file, or NULL */
    char *wrong;         /* what is wrong with it, or NULL */
    char *wrong_ids[2];  /* the buffers: none, one or both */
    /* A trace. */
    bool is_trace;
    uint64_t ops, peak_live_bytes;
    uint64_t pool_bytes; /* that a pool reserved for it; 0 if that is not known */
};

struct plan_answers {
    struct plan_answer *list;
    size_t count;
};

/* Checks the plan in answer->offsets against the wishes, which get its offsets; fills the answer.
 * Returns CLI_OK, CLI_FINDING when it is wrong, or CLI_CANNOT; the last two have said why. */
int plan_check(struct wishes *wishes, struct plan_answer *answer);

/* 'id' (bytes .. to .., live .. to ..), to be freed. */
char *plan_describe(const struct wishes *wishes, size_t index);

void plan_print(const struct plan_answers *answers);
void plan_print_json(const struct plan_answers *answers);
/* Bytes of the plan over the lower bound; 1 for no buffers. */
double plan_ratio(const struct plan_answer *answer);

#endif
