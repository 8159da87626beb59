/* acre stats: prints the statistics that a program keeps in a file (ACRE_STATS), while the program
 * runs or after it has ended; as a table, as JSON, or as metrics for Prometheus. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "prometheus.h"
#include "stats_read.h"
#include "write_file.h"

enum { STATS_KEY_WATCH = 'w', STATS_KEY_PROMETHEUS = CLI_KEY_LONG };

struct stats_args {
    bool json, prometheus, force;
    const char *output;   /* with --prometheus; NULL: standard output */
    double watch_seconds; /* 0: once */
    const char *what;     /* a file or a process number */
};

static uint64_t stats_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t age_ns(uint64_t then_ns) {
    uint64_t now = stats_now_ns();
    return now > then_ns ? now - then_ns : 0;
}

static bool ends_with(const char *text, const char *end) {
    size_t bytes = strlen(text), end_bytes = strlen(end);
    return bytes >= end_bytes && strcmp(text + bytes - end_bytes, end) == 0;
}

/* ---- text ---- */

static bool is_peak(const char *counter) {
    return strstr(counter, "peak") != NULL;
}

static void print_counter(struct cli_table *table, const char *object, const char *counter,
                          uint64_t value) {
    char text[CLI_NUMBER_BYTES];
    cli_table_cell(table, CLI_BOLD, "%s", object);
    cli_table_cell(table, CLI_PLAIN, "%s", counter);
    if (ends_with(counter, "_bytes")) {
        cli_table_cell(table, CLI_PLAIN, "%s", cli_bytes(value, text));
    } else {
        cli_table_cell(table, CLI_PLAIN, "%" PRIu64, value);
    }
}

/* The lines that fit on the terminal, and the number of those that did not. */
struct stats_lines {
    size_t room, hidden;
};

static bool lines_take(struct stats_lines *lines) {
    bool fits = lines->room > 0;
    lines->room -= fits;
    lines->hidden += !fits;
    return fits;
}

/* Adds the counters of a device or a pool that are not 0, peaks first, as far as there is room. */
static void print_row(struct cli_table *table, const struct acre__stats_names *names,
                      const struct acre__stats_row *row, struct stats_lines *lines) {
    const char *object = row->name;
    bool is_idle = true;
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t i = 0; i < names->count; i++) {
            if (!row->values[i] || is_peak(names->counters[i]) != (pass == 0)) {
                continue;
            }
            is_idle = false;
            if (lines_take(lines)) {
                print_counter(table, object, names->counters[i], row->values[i]);
                object = "";
            }
        }
    }
    if (is_idle && lines_take(lines)) {
        cli_table_cell(table, CLI_BOLD, "%s", object);
        cli_table_cell(table, CLI_DIM, "all counters");
        cli_table_cell(table, CLI_DIM, "0");
    }
}

/* Prints at most `room` lines of counters. Returns true if there are any: acre_close removes those
 * of a device. */
static bool stats_print(const struct stats_view *view, bool is_running, size_t room) {
    static const char *const titles[] = {"OBJECT", "COUNTER", ">VALUE"};
    char text[CLI_NUMBER_BYTES];
    struct acre__stats_row row;
    struct cli_table table;
    struct stats_lines lines = {.room = room};
    printf("process %" PRIu32 "%s, acre %s, last written %s ago\n\n", view->header.pid,
           is_running ? "" : " (ended)", view->header.library,
           cli_duration(age_ns(stats_refreshed_ns(view)), text));
    cli_table_begin(&table, titles, 3);
    for (unsigned kind = 1; kind < ACRE__STATS_KINDS; kind++) {
        for (size_t i = 0; i < view->header.row_count; i++) {
            if (stats_row(view, i, &row) && row.kind == kind) {
                print_row(&table, &view->header.kinds[kind], &row, &lines);
            }
        }
    }
    bool has_rows = table.cell_count != 0;
    if (has_rows) {
        cli_table_end(&table);
    } else {
        puts(is_running ? "no counters: the program has no open device"
                        : "no counters: the program had closed its devices when it ended");
    }
    if (lines.hidden) {
        printf("... and %zu more: the terminal has too few lines\n", lines.hidden);
    }
    if (view->header.rows_missing) {
        printf("\n%" PRIu32 " more devices or pools did not fit into the file\n",
               view->header.rows_missing);
    }
    fflush(stdout);
    return has_rows;
}

/* ---- JSON ---- */

/* Returns true if there are counters. */
static bool stats_json(const struct stats_view *view, bool is_running) {
    struct acre__stats_row row;
    json_t *root = cli_json_begin("acre-stats/1"), *rows = json_array();
    cli_json_set(root, "pid", cli_json_number(view->header.pid));
    cli_json_set(root, "is_running", json_boolean(is_running));
    cli_json_set(root, "library", cli_json_text(view->header.library));
    cli_json_set(root, "started_ns", cli_json_number(view->header.started_ns));
    cli_json_set(root, "refreshed_ns", cli_json_number(stats_refreshed_ns(view)));
    cli_json_set(root, "rows_missing", cli_json_number(view->header.rows_missing));
    for (size_t i = 0; i < view->header.row_count; i++) {
        if (!stats_row(view, i, &row)) {
            continue;
        }
        const struct acre__stats_names *names = &view->header.kinds[row.kind];
        json_t *item = json_object(), *values = json_object();
        for (uint64_t k = 0; k < names->count; k++) {
            cli_json_set(values, names->counters[k], cli_json_number(row.values[k]));
        }
        cli_json_set(item, "kind", cli_json_text(names->name));
        cli_json_set(item, "id", cli_json_number(row.id));
        cli_json_set(item, "name", cli_json_text(row.name));
        cli_json_set(item, "refreshed_ns", cli_json_number(row.refreshed_ns));
        cli_json_set(item, "values", values);
        cli_json_append(rows, item);
    }
    bool has_rows = json_array_size(rows) != 0;
    cli_json_set(root, "rows", rows);
    cli_json_end(root);
    fflush(stdout);
    return has_rows;
}

/* ---- the command ---- */

/* Returns the lines of counters that fit on the terminal below the header; without a terminal there
 * is no limit. */
static size_t stats_room(void) {
    enum { STATS_OTHERS = 7 }; /* header, titles, messages, the cursor */
    size_t height = cli_height(stdout);
    return height > STATS_OTHERS ? height - STATS_OTHERS : height ? 1 : SIZE_MAX;
}

/* Prints once, or with --watch until the program ends. On a terminal --watch repaints in place: all
 * of a screen is written at once, so that it does not flicker. */
static void stats_show(const struct stats_view *view, const struct stats_args *args) {
    bool repaints = args->watch_seconds != 0 && !args->json && cli_is_terminal(stdout);
    if (repaints) {
        (void)setvbuf(stdout, NULL, _IOFBF, 1 << 16);
        fputs("\033[2J", stdout);
    }
    for (;;) {
        bool is_running = stats_is_running(view);
        fputs(repaints ? "\033[H\033[J" : "", stdout);
        bool has_rows = args->json
                            ? stats_json(view, is_running)
                            : stats_print(view, is_running, repaints ? stats_room() : SIZE_MAX);
        if (!is_running) {
            cli_say("process %" PRIu32 " has ended%s", view->header.pid,
                    has_rows ? ": these are its last figures" : "");
        }
        if (args->watch_seconds == 0 || !is_running || ferror(stdout)) {
            return;
        }
        cli_sleep(args->watch_seconds);
        if (!args->json && !repaints) {
            putchar('\n');
        }
    }
}

static int stats_write_metrics(const struct stats_view *view, const struct stats_args *args) {
    struct prometheus document = {0};
    struct write_file file = {.path = args->output ? args->output : "-",
                              .kind = WRITE_PROMETHEUS,
                              .force = args->force,
                              .inputs = &args->what,
                              .input_count = 1};
    int code = write_check(&file);
    if (code) {
        return code;
    }
    prometheus_add_file(&document, view, 0, stats_is_running(view));
    prometheus_write(&document, write_begin(&file));
    return write_end(&file);
}

static void stats_check(struct argp_state *state, const struct stats_args *args) {
    if (args->prometheus && (args->json || args->watch_seconds != 0)) {
        argp_error(state, "--prometheus writes once, without --json and --watch");
    }
    if (!args->prometheus && (args->output || args->force)) {
        argp_error(state, "--output and --force need --prometheus");
    }
}

static error_t stats_parse(int key, char *arg, struct argp_state *state) {
    struct stats_args *args = state->input;
    char *end;
    switch (key) {
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case STATS_KEY_WATCH:
        args->watch_seconds = strtod(arg, &end);
        if (end == arg || *end || !(args->watch_seconds >= 0.01) || args->watch_seconds > 86400) {
            argp_error(state, "--watch takes seconds from 0.01 to 86400, not '%.40s'", arg);
        }
        return 0;
    case STATS_KEY_PROMETHEUS:
        args->prometheus = true;
        return 0;
    case CLI_KEY_OUTPUT:
        args->output = arg;
        return 0;
    case CLI_KEY_FORCE:
        args->force = true;
        return 0;
    case ARGP_KEY_END:
        stats_check(state, args);
        return 0;
    case ARGP_KEY_ARG:
        if (args->what) {
            argp_error(state, "more than one file or process given");
        }
        args->what = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no file or process given");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option stats_options[] = {
    {"json", CLI_KEY_JSON, NULL, 0,
     "print JSON (schema acre-stats/1); with --watch one document each time", 0},
    {"watch", STATS_KEY_WATCH, "SECONDS", 0,
     "print again every SECONDS (0.01 to 86400) until the program ends; on a terminal in place", 0},
    {"prometheus", STATS_KEY_PROMETHEUS, NULL, 0,
     "print metrics in Prometheus' text format, for a scrape or a textfile collector", 0},
    {"output", CLI_KEY_OUTPUT, "FILE", 0,
     "with --prometheus: write them to FILE, which is replaced in one step", 0},
    {"force", CLI_KEY_FORCE, NULL, 0, "replace FILE even if acre did not write it", 0},
    {0}};

static const char stats_doc[] =
    "Shows the statistics of a running program.\v"
    "The program must run with ACRE_STATS=1, with ACRE_STATS=FILE or under 'acre\n"
    "run'. The argument is that file, or the number of the process; '-' reads the\n"
    "file from standard input. The table has the counters of each device, pool\n"
    "and tag that are not 0, peaks first; --json has all. If the program has\n"
    "ended, the file has its last figures, and a message says so. acre_close\n"
    "removes the figures of a device and its pools. 'acre top' shows all programs\n"
    "together.\n"
    "\n"
    "With --prometheus a metric is called acre_pool_live_bytes, or with _total if\n"
    "it only grows; its labels are the process, the program and the pool, device\n"
    "or tag. For node_exporter, write to a file with the extension .prom in its\n"
    "folder of textfiles.\n"
    "\n"
    "Examples:\n"
    "  ACRE_STATS=program.stats ./program &\n"
    "  acre stats program.stats\n"
    "  acre stats --watch 1 $!\n"
    "  acre stats --json program.stats | jq '.rows[] | {name, values}'\n"
    "  acre stats --prometheus --output /var/lib/node_exporter/acre.prom $!\n"
    "\n"
    "Exit status:\n"
    "  0   success\n"
    "  2   there is no such process, or a file is damaged or cannot be read or\n"
    "      written\n"
    "  64  wrong usage\n";

int cmd_stats(int argc, char **argv) {
    static const struct argp argp = {
        .options = stats_options, .parser = stats_parse, .args_doc = "FILE|PID", .doc = stats_doc};
    struct stats_args args = {0};
    struct stats_view view;
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        return CLI_USAGE;
    }
    /* A number is a process, unless there is a file with that name. */
    bool is_pid = args.what[0] && strspn(args.what, "0123456789") == strlen(args.what) &&
                  access(args.what, F_OK) != 0;
    int code = is_pid ? stats_open_process(strtoull(args.what, NULL, 10), &view)
                      : stats_open(args.what, &view);
    if (code) {
        return code;
    }
    if (args.prometheus) {
        code = stats_write_metrics(&view, &args);
    } else {
        stats_show(&view, &args);
    }
    stats_close(&view);
    return code;
}
