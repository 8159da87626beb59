/* acre top and acre ps: the memory of all programs of the user that publish statistics, of others
 * that NVML knows, and of the cards.
 *
 * On a terminal acre top is a live view (top_screen.c); acre ps, --once, --json and --prometheus
 * print one reading. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "prometheus.h"
#include "top_nvml.h"
#include "top_screen.h"
#include "top_text.h"
#include "write_file.h"

enum {
    TOP_KEY_ONCE = CLI_KEY_LONG,
    TOP_KEY_SORT,
    TOP_KEY_FILTER,
    TOP_KEY_PID,
    TOP_KEY_INTERVAL,
    TOP_KEY_PROMETHEUS
};

struct top_args {
    bool is_once, json, prometheus, force;
    const char *output; /* with --prometheus; NULL: standard output */
    double interval_s;  /* negative: the default */
    struct top_options options;
};

/* ---- options --------------------------------------------------------------------------------- */

static void top_parse_sort(struct argp_state *state, const char *text, struct top_options *out) {
    for (int i = 0; i < TOP_SORTS; i++) {
        if (strcmp(text, top_sort_names[i]) == 0) {
            out->sort = (enum top_sort)i;
            return;
        }
    }
    argp_error(state, "--sort takes held, live, peak, rate, pid or name, not '%.40s'", text);
}

static double top_parse_interval(struct argp_state *state, const char *text) {
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || *end || !(seconds >= 0) || seconds > 3600) {
        argp_error(state, "--interval takes seconds from 0 to 3600, not '%.40s'", text);
    }
    return seconds;
}

static int64_t top_parse_pid(struct argp_state *state, const char *text) {
    char *end;
    long long pid = strtoll(text, &end, 10);
    if (end == text || *end || pid <= 0 || pid > UINT32_MAX) {
        argp_error(state, "--pid takes the number of a process, not '%.40s'", text);
    }
    return pid;
}

static void top_check(struct argp_state *state, const struct top_args *args) {
    if (args->prometheus && (args->json || args->options.pid)) {
        argp_error(state, "--prometheus writes all processes, without --json and --pid; 'acre "
                          "stats --prometheus PID' writes one");
    }
    if (!args->prometheus && (args->output || args->force)) {
        argp_error(state, "--output and --force need --prometheus");
    }
}

static error_t top_parse(int key, char *arg, struct argp_state *state) {
    struct top_args *args = state->input;
    switch (key) {
    case TOP_KEY_ONCE:
        args->is_once = true;
        return 0;
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case TOP_KEY_PROMETHEUS:
        args->prometheus = true;
        return 0;
    case CLI_KEY_OUTPUT:
        args->output = arg;
        return 0;
    case CLI_KEY_FORCE:
        args->force = true;
        return 0;
    case TOP_KEY_SORT:
        top_parse_sort(state, arg, &args->options);
        return 0;
    case TOP_KEY_FILTER:
        snprintf(args->options.filter, sizeof args->options.filter, "%s", arg);
        stats_text_clean(args->options.filter, sizeof args->options.filter);
        return 0;
    case TOP_KEY_PID:
        args->options.pid = top_parse_pid(state, arg);
        return 0;
    case TOP_KEY_INTERVAL:
        args->interval_s = top_parse_interval(state, arg);
        return 0;
    case ARGP_KEY_END:
        top_check(state, args);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option top_options[] = {
    {"once", TOP_KEY_ONCE, NULL, 0, "print the list once, as 'acre ps' does", 0},
    {"json", CLI_KEY_JSON, NULL, 0, "print JSON once (schema acre-top/1)", 0},
    {"pid", TOP_KEY_PID, "PID", 0, "show the devices, pools and tags of one process", 0},
    {"sort", TOP_KEY_SORT, "KEY", 0,
     "sort by held (the default), live, peak, rate, pid or name; the largest first", 0},
    {"filter", TOP_KEY_FILTER, "TEXT", 0,
     "show only processes that have TEXT in their number, command, card, pools or tags", 0},
    {"interval", TOP_KEY_INTERVAL, "SECONDS", 0,
     "time between two readings (default 1; once: 0.25, and 0 prints no rates)", 0},
    {"prometheus", TOP_KEY_PROMETHEUS, NULL, 0,
     "print the metrics of all processes once, in Prometheus' text format", 0},
    {"output", CLI_KEY_OUTPUT, "FILE", 0,
     "with --prometheus: write them to FILE, which is replaced in one step", 0},
    {"force", CLI_KEY_FORCE, NULL, 0, "replace FILE even if acre did not write it", 0},
    {0}};

#define TOP_COMMON                                                                                 \
    "Programs publish their statistics if they run with ACRE_STATS=1 or under 'acre\n"             \
    "run', in $XDG_RUNTIME_DIR/acre or, without that variable, below /dev/shm.\n"                  \
    "Lists all of your processes that publish. For other GPU processes it shows\n"                 \
    "what NVML reports: the memory that they hold.\n"                                              \
    "\n"                                                                                           \
    "  LIVE     device memory that the program uses\n"                                             \
    "  HELD     device memory that it has from the driver\n"                                       \
    "  PEAK     the highest HELD so far\n"                                                         \
    "  STATE    suspended while 'acre suspend' has its memory off the device\n"                    \
    "  AWAY     how much of it\n"                                                                  \
    "  ALLOC/S  allocations per second, and BYTES/S the bytes that they asked for\n"               \
    "\n"

#define TOP_STATUS                                                                                 \
    "\n"                                                                                           \
    "Exit status:\n"                                                                               \
    "  0   success\n"                                                                              \
    "  2   the process of --pid does not publish, a file cannot be written, or this\n"             \
    "      terminal has no live view\n"                                                            \
    "  64  wrong usage\n"

static const char top_doc[] =
    "Shows the memory of all running programs and of the cards, live.\v" TOP_COMMON
    "On a terminal the list is refreshed every second. A process opens with Enter:\n"
    "its devices, pools and tags. Otherwise the list is printed once.\n"
    "\n"
    "Keys:\n"
    "  up, down, j, k, PgUp, PgDn, Home, End   move\n"
    "  Enter, right                            open a process\n"
    "  Esc, left, Backspace                    back to the list; clear the filter\n"
    "  s, S, r                                 next or previous order, reverse it\n"
    "  /                                       filter; Enter keeps, Esc clears it\n"
    "  +, -                                    read more or less often\n"
    "  space                                   pause, and continue\n"
    "  ?, q                                    help, quit\n"
    "\n"
    "Examples:\n"
    "  acre top\n"
    "  acre top --sort rate --filter python\n"
    "  acre top --json | jq '.processes[] | {pid, held_bytes}'\n" TOP_STATUS;

static const char ps_doc[] =
    "Lists the memory of all running programs and of the cards once, as 'acre top --once' "
    "does.\v" TOP_COMMON "Examples:\n"
    "  acre ps\n"
    "  acre ps --pid $!\n"
    "  acre ps --json | jq '.processes[] | {pid, held_bytes}'\n"
    "  acre ps --prometheus --output /var/lib/node_exporter/acre.prom\n" TOP_STATUS;

/* ---- metrics --------------------------------------------------------------------------------- */

/* The processes that have been added, to number the files of one. */
struct top_metrics {
    struct prometheus document;
    uint32_t *pids;
    size_t count, room;
};

static void metrics_add(void *user, const struct stats_view *view) {
    struct top_metrics *metrics = user;
    unsigned part = 0;
    for (size_t i = 0; i < metrics->count; i++) {
        part += metrics->pids[i] == view->header.pid;
    }
    if (metrics->count == metrics->room) {
        metrics->room = metrics->room ? 2 * metrics->room : 64;
        uint32_t *pids = cli_alloc(metrics->room * sizeof *pids);
        if (metrics->count) {
            memcpy(pids, metrics->pids, metrics->count * sizeof *pids);
        }
        free(metrics->pids);
        metrics->pids = pids;
    }
    metrics->pids[metrics->count++] = view->header.pid;
    prometheus_add_file(&metrics->document, view, part, true);
}

static int top_write_metrics(const struct top_args *args) {
    struct top_metrics metrics = {0};
    struct top_files found;
    struct top_nvml nvml;
    char note[512];
    struct write_file file = {
        .path = args->output ? args->output : "-", .kind = WRITE_PROMETHEUS, .force = args->force};
    int code = write_check(&file);
    if (code) {
        return code;
    }
    top_files_read(metrics_add, &metrics, &found);
    free(metrics.pids);
    if (top_nvml_look(&nvml)) {
        for (size_t i = 0; i < nvml.card_count; i++) {
            prometheus_add_card(&metrics.document, &nvml.cards[i]);
        }
    }
    free(nvml.uses);
    if (top_note(&found, note, sizeof note)) {
        cli_say("%s", note);
    }
    prometheus_write(&metrics.document, write_begin(&file));
    return write_end(&file);
}

/* ---- the commands ---------------------------------------------------------------------------- */

static int top_once(const struct top_args *args) {
    const struct top_options *options = &args->options;
    struct top_state state = {0};
    double interval_s = args->interval_s < 0 ? 0.25 : args->interval_s;
    top_look(&state);
    if (interval_s > 0 && state.process_count) {
        cli_sleep(interval_s);
        top_look(&state);
    }
    top_sort(&state, options->sort, options->is_reversed);
    int code = args->json ? top_print_json(&state, options->filter, options->pid, interval_s)
                          : top_print(&state, options->filter, options->pid);
    top_end(&state);
    return code;
}

static int top_run(const struct argp *argp, int argc, char **argv, bool is_once) {
    struct top_args args = {.is_once = is_once, .interval_s = -1};
    if (cli_argp_parse(argp, argc, argv, 0, &args) != 0) {
        return CLI_USAGE;
    }
    if (args.prometheus) {
        return top_write_metrics(&args);
    }
    if (args.is_once || args.json || !cli_is_terminal(stdout) || !cli_is_terminal(stdin)) {
        return top_once(&args);
    }
    args.options.interval_s = args.interval_s < 0     ? 1
                              : args.interval_s < 0.1 ? 0.1
                                                      : args.interval_s;
    return top_screen(&args.options);
}

int cmd_top(int argc, char **argv) {
    static const struct argp argp = {.options = top_options, .parser = top_parse, .doc = top_doc};
    return top_run(&argp, argc, argv, false);
}

int cmd_ps(int argc, char **argv) {
    static const struct argp argp = {.options = top_options, .parser = top_parse, .doc = ps_doc};
    return top_run(&argp, argc, argv, true);
}
