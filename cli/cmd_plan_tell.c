/* Prints the results of `acre plan` as tables or as JSON (schema acre-plan/1). */
#include <inttypes.h>

#include "cmd_plan.h"

double plan_ratio(const struct plan_answer *answer) {
    const struct acre__place_result *placed = &answer->placed;
    return placed->lower_bound ? (double)placed->bytes / (double)placed->lower_bound : 1;
}

/* Returns the share of the pool's memory that the plan saves; negative if the plan needs more. */
static double plan_saved(const struct plan_answer *answer) {
    return 1 - (double)answer->placed.bytes / (double)answer->pool_bytes;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void plan_verdict(struct cli_table *table, const struct plan_answer *answer) {
    const struct acre__place_result *placed = &answer->placed;
    if (answer->offsets) {
        cli_table_cell(table, answer->wrong ? CLI_RED : CLI_GREEN, "%s",
                       answer->wrong ? "invalid" : "valid");
    } else if (!placed->is_fitting) {
        cli_table_cell(table, CLI_RED, "does not fit");
    } else if (placed->is_optimal) {
        cli_table_cell(table, CLI_GREEN, "optimal");
    } else {
        cli_table_cell(table, CLI_PLAIN, "%s%s", answer->capacity_bytes ? "fits" : "best found",
                       answer->is_interrupted ? ", interrupted" : "");
    }
}

static void plan_row(struct cli_table *table, const struct plan_answer *answer) {
    char text[CLI_NUMBER_BYTES];
    cli_table_cell(table, CLI_PLAIN, "%s", answer->path);
    cli_table_cell(table, CLI_PLAIN, "%zu", answer->buffers);
    cli_table_cell(table, CLI_PLAIN, "%" PRIu64, answer->placed.bytes);
    cli_table_cell(table, CLI_DIM, "%" PRIu64, answer->placed.lower_bound);
    cli_table_cell(table, CLI_BOLD, "%.4f", plan_ratio(answer));
    if (answer->offsets) {
        cli_table_cell(table, CLI_DIM, "-");
        cli_table_cell(table, CLI_DIM, "-");
    } else {
        cli_table_cell(table, CLI_PLAIN, "%" PRIu64, answer->placed.nodes);
        cli_table_cell(table, CLI_PLAIN, "%s", cli_duration(answer->time_ns, text));
    }
    plan_verdict(table, answer);
}

static void plan_trace_row(struct cli_table *table, const struct plan_answer *answer) {
    char text[CLI_NUMBER_BYTES];
    cli_table_cell(table, CLI_PLAIN, "%s", answer->path);
    cli_table_cell(table, CLI_PLAIN, "%" PRIu64, answer->ops);
    cli_table_cell(table, CLI_PLAIN, "%s", cli_bytes(answer->peak_live_bytes, text));
    cli_table_cell(table, CLI_PLAIN, "%s", cli_bytes(answer->placed.bytes, text));
    cli_table_cell(table, CLI_PLAIN, "%.4f",
                   (double)answer->placed.bytes / (double)answer->peak_live_bytes);
    if (answer->pool_bytes == 0) {
        for (unsigned i = 0; i < 3; i++) {
            cli_table_cell(table, CLI_RED, "-");
        }
        return;
    }
    cli_table_cell(table, CLI_PLAIN, "%s", cli_bytes(answer->pool_bytes, text));
    cli_table_cell(table, CLI_PLAIN, "%.4f",
                   (double)answer->pool_bytes / (double)answer->peak_live_bytes);
    cli_table_cell(table, CLI_BOLD, "%.1f %%", 100 * plan_saved(answer));
}

void plan_print(const struct plan_answers *answers) {
    static const char *const titles[] = {"FILE",   ">BUFFERS", ">BYTES", ">LOWER BOUND",
                                         ">RATIO", ">NODES",   ">TIME",  "RESULT"};
    static const char *const trace_titles[] = {"TRACE",      ">OPS",  ">LIVE",      ">PLAN",
                                               ">PLAN/LIVE", ">POOL", ">POOL/LIVE", ">SAVED"};
    struct cli_table table;
    bool has_traces = false;
    if (answers->count == 0) {
        return;
    }
    cli_table_begin(&table, titles, sizeof titles / sizeof titles[0]);
    for (size_t i = 0; i < answers->count; i++) {
        plan_row(&table, &answers->list[i]);
        has_traces = has_traces || answers->list[i].is_trace;
    }
    cli_table_end(&table);
    if (!has_traces) {
        return;
    }
    putchar('\n');
    cli_table_begin(&table, trace_titles, sizeof trace_titles / sizeof trace_titles[0]);
    for (size_t i = 0; i < answers->count; i++) {
        if (answers->list[i].is_trace) {
            plan_trace_row(&table, &answers->list[i]);
        }
    }
    cli_table_end(&table);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *plan_trace_json(const struct plan_answer *answer) {
    json_t *trace = json_object();
    cli_json_set(trace, "operations", cli_json_number(answer->ops));
    cli_json_set(trace, "peak_live_bytes", cli_json_number(answer->peak_live_bytes));
    if (answer->pool_bytes) {
        cli_json_set(trace, "pool_bytes", cli_json_number(answer->pool_bytes));
        cli_json_set(trace, "saved", json_real(plan_saved(answer)));
    }
    return trace;
}

static json_t *plan_check_json(const struct plan_answer *answer) {
    json_t *check = json_object(), *ids = json_array();
    cli_json_set(check, "file", cli_json_text(answer->offsets));
    cli_json_set(check, "right", json_boolean(!answer->wrong));
    if (answer->wrong) {
        for (size_t i = 0; i < 2 && answer->wrong_ids[i]; i++) {
            cli_json_append(ids, cli_json_text(answer->wrong_ids[i]));
        }
        cli_json_set(check, "wrong", cli_json_text(answer->wrong));
        cli_json_set(check, "buffers", ids);
    } else {
        json_decref(ids);
    }
    return check;
}

static json_t *plan_answer_json(const struct plan_answer *answer) {
    const struct acre__place_result *placed = &answer->placed;
    json_t *json = json_object();
    cli_json_set(json, "file", cli_json_text(answer->path));
    cli_json_set(json, "format", cli_json_text(answer->format));
    cli_json_set(json, "buffers", cli_json_number(answer->buffers));
    cli_json_set(json, "align_bytes", cli_json_number(answer->align_bytes));
    cli_json_set(json, "bytes", cli_json_number(placed->bytes));
    cli_json_set(json, "lower_bound_bytes", cli_json_number(placed->lower_bound));
    cli_json_set(json, "ratio", json_real(plan_ratio(answer)));
    if (answer->capacity_bytes) {
        cli_json_set(json, "capacity_bytes", cli_json_number(answer->capacity_bytes));
    }
    cli_json_set(json, "fits", json_boolean(placed->is_fitting));
    if (answer->offsets) {
        cli_json_set(json, "check", plan_check_json(answer));
    } else {
        cli_json_set(json, "optimal", json_boolean(placed->is_optimal));
        cli_json_set(json, "nodes", cli_json_number(placed->nodes));
        cli_json_set(json, "time_ns", cli_json_number(answer->time_ns));
        cli_json_set(json, "interrupted", json_boolean(answer->is_interrupted));
    }
    if (answer->is_trace) {
        cli_json_set(json, "trace", plan_trace_json(answer));
    }
    return json;
}

void plan_print_json(const struct plan_answers *answers) {
    json_t *root = cli_json_begin("acre-plan/1"), *list = json_array();
    for (size_t i = 0; i < answers->count; i++) {
        cli_json_append(list, plan_answer_json(&answers->list[i]));
    }
    cli_json_set(root, "results", list);
    cli_json_end(root);
}
