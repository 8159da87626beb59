/* Prints the results of replays as a table or as JSON (schema acre-replay/1). */
#include <inttypes.h>

#include "replay.h"

static double replay_ratio(const struct replay_result *result) {
    return (double)result->peak_reserved_bytes / (double)result->peak_live_bytes;
}

static uint64_t replay_calls(const struct replay_result *result) {
    return result->creates + result->maps + result->accesses + result->unmaps + result->releases +
           result->allocs_plain;
}

static void replay_row(struct cli_table *table, const struct replay_result *result) {
    char text[CLI_NUMBER_BYTES];
    cli_table_cell(table, CLI_PLAIN, "%s", result->path);
    cli_table_cell(table, CLI_PLAIN, "%u", result->pass);
    cli_table_cell(table, CLI_PLAIN, "%" PRIu64, result->ops);
    if (result->failed) {
        for (unsigned i = 0; i < 2; i++) {
            cli_table_cell(table, CLI_RED, "-");
        }
    } else {
        cli_table_cell(table, CLI_PLAIN, "%s", cli_duration(result->ns_p50, text));
        cli_table_cell(table, CLI_PLAIN, "%s", cli_duration(result->ns_p99, text));
    }
    cli_table_cell(table, CLI_PLAIN, "%s", cli_bytes(result->peak_live_bytes, text));
    cli_table_cell(table, CLI_DIM, "%s", cli_bytes(result->lower_bound_bytes, text));
    if (result->failed) {
        cli_table_cell(table, CLI_RED, "-");
        cli_table_cell(table, CLI_RED, "failed");
    } else {
        cli_table_cell(table, CLI_PLAIN, "%s", cli_bytes(result->peak_reserved_bytes, text));
        cli_table_cell(table, CLI_BOLD, "%.3f", replay_ratio(result));
    }
    if (result->has_calls && !result->failed) {
        cli_table_cell(table, CLI_PLAIN, "%" PRIu64, replay_calls(result));
        cli_table_cell(table, CLI_PLAIN, "%s", cli_bytes(result->created_bytes, text));
        cli_table_cell(table, CLI_PLAIN, "%s", cli_bytes(result->released_bytes, text));
        cli_table_cell(table, CLI_PLAIN, "%" PRIu64, result->chunks_moved);
        cli_table_cell(table, CLI_PLAIN, "%" PRIu64, result->waits);
    } else {
        for (unsigned i = 0; i < 5; i++) {
            cli_table_cell(table, CLI_DIM, "-");
        }
    }
}

void replay_print(const struct replay_results *results) {
    static const char *const titles[] = {
        "FILE",      ">PASS",     ">OPS",   ">P50",     ">P99",      ">LIVE",  ">LOWER BOUND",
        ">RESERVED", ">RES/LIVE", ">CALLS", ">CREATED", ">RELEASED", ">MOVED", ">WAITS"};
    struct cli_table table;
    if (results->count == 0) {
        return;
    }
    cli_table_begin(&table, titles, sizeof titles / sizeof titles[0]);
    for (size_t i = 0; i < results->count; i++) {
        replay_row(&table, &results->list[i]);
    }
    cli_table_end(&table);
}

static json_t *replay_calls_json(const struct replay_result *result) {
    json_t *calls = json_object();
    cli_json_set(calls, "create", cli_json_number(result->creates));
    cli_json_set(calls, "map", cli_json_number(result->maps));
    cli_json_set(calls, "access", cli_json_number(result->accesses));
    cli_json_set(calls, "unmap", cli_json_number(result->unmaps));
    cli_json_set(calls, "release", cli_json_number(result->releases));
    cli_json_set(calls, "alloc", cli_json_number(result->allocs_plain));
    cli_json_set(calls, "total", cli_json_number(replay_calls(result)));
    cli_json_set(calls, "created_bytes", cli_json_number(result->created_bytes));
    cli_json_set(calls, "released_bytes", cli_json_number(result->released_bytes));
    return calls;
}

static json_t *replay_result_json(const struct replay_result *result) {
    json_t *json = json_object();
    cli_json_set(json, "file", cli_json_text(result->path));
    cli_json_set(json, "format", cli_json_text(result->format));
    cli_json_set(json, "pass", cli_json_number(result->pass));
    cli_json_set(json, "streams", cli_json_number(result->streams));
    cli_json_set(json, "threads", cli_json_number(result->threads));
    cli_json_set(json, "operations", cli_json_number(result->ops));
    cli_json_set(json, "allocs", cli_json_number(result->allocs));
    cli_json_set(json, "frees", cli_json_number(result->frees));
    cli_json_set(json, "reallocs", cli_json_number(result->reallocs));
    cli_json_set(json, "skipped", cli_json_number(result->skipped));
    cli_json_set(json, "peak_live_bytes", cli_json_number(result->peak_live_bytes));
    cli_json_set(json, "lower_bound_bytes", cli_json_number(result->lower_bound_bytes));
    if (result->failed) {
        cli_json_set(json, "failed", cli_json_text(result->failed));
        return json;
    }
    cli_json_set(json, "ns_p50", cli_json_number(result->ns_p50));
    cli_json_set(json, "ns_p99", cli_json_number(result->ns_p99));
    cli_json_set(json, "peak_reserved_bytes", cli_json_number(result->peak_reserved_bytes));
    cli_json_set(json, "reserved_over_requested", json_real(replay_ratio(result)));
    if (result->has_calls) {
        cli_json_set(json, "driver_calls", replay_calls_json(result));
        cli_json_set(json, "chunks_moved", cli_json_number(result->chunks_moved));
        cli_json_set(json, "waits", cli_json_number(result->waits));
    }
    return json;
}

void replay_print_json(const struct replay_results *results, const acre_device_info *info,
                       const struct replay_how *how) {
    json_t *root = cli_json_begin("acre-replay/1");
    json_t *list = json_array();
    for (size_t i = 0; i < results->count; i++) {
        cli_json_append(list, replay_result_json(&results->list[i]));
    }
    cli_json_set(root, "device", cli_device_json(info));
    cli_json_set(root, "pool", cli_json_text(how->pool == REPLAY_ACRE ? "acre" : "driver"));
    cli_json_set(root, "lag_operations", cli_json_number(how->lag_operations));
    cli_json_set(root, "lag_ns", cli_json_number(how->lag_ns));
    cli_json_set(root, "warmup", cli_json_number(how->warmup));
    cli_json_set(root, "results", list);
    cli_json_end(root);
}
