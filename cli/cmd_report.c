/* acre report: writes a page that shows what a program did with memory, from its trace. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli.h"
#include "report.h"
#include "report_write.h"
#include "write_file.h"

enum { REPORT_KEY_AGAINST = CLI_KEY_LONG };

struct report_args {
    bool json, force;
    const char *output, *inputs[2]; /* the trace, and the other one or NULL */
};

/* Reads and analyses one file. Returns as source_open. */
static int report_read(const char *path, struct report_source *source, struct report *report) {
    int code = source_open(source, path);
    if (code == CLI_CANNOT) {
        return code;
    }
    report_make(report, source);
    const struct trace_fault *fault = &source->reader.fault;
    if (fault->what && report->events == 0) {
        cli_say("%s: byte %zu: %s", source->name, fault->offset, fault->what);
        return CLI_CANNOT;
    }
    if (fault->what) {
        cli_say("%s: byte %zu: %s; the report has the %" PRIu64 " events before the damage",
                source->name, fault->offset, fault->what, report->events);
        return CLI_FINDING;
    }
    if (report->events == 0) {
        cli_say("%s: the trace has no events", source->name);
        return CLI_CANNOT;
    }
    return code;
}

static int report_output(const struct report_args *args, struct write_file *file,
                         const struct report *report, const struct report *against) {
    if (args->json) {
        cli_json_end(report_json(report, false));
        return CLI_OK;
    }
    report_write(write_begin(file), report, against);
    fflush(file->stream);
    char bytes[CLI_NUMBER_BYTES];
    cli_bytes(file->bytes, bytes);
    int code = write_end(file);
    if (code == CLI_OK && !write_is_stdout(args->output)) {
        cli_say("%s: %s, with %" PRIu64 " events; open it in a browser", args->output, bytes,
                report->events);
    }
    return code;
}

static int report_run(const struct report_args *args) {
    static struct report report, against; /* too large for a stack */
    struct report_source source = {0}, other = {0};
    struct write_file file = {.path = args->output,
                              .kind = WRITE_REPORT,
                              .force = args->force,
                              .inputs = args->inputs,
                              .input_count = 2};
    int code = CLI_OK;
    if (!args->json) {
        code = report_can_write() ? write_check(&file) : CLI_CANNOT;
    }
    if (code == CLI_OK) {
        code = report_read(args->inputs[0], &source, &report);
    }
    if (code != CLI_CANNOT && args->inputs[1]) {
        int read = report_read(args->inputs[1], &other, &against);
        code = read > code ? read : code;
    }
    if (code != CLI_CANNOT) {
        int written = report_output(args, &file, &report, args->inputs[1] ? &against : NULL);
        code = written > code ? written : code;
    }
    report_end(&report);
    report_end(&against);
    source_close(&source);
    source_close(&other);
    return code == CLI_OK ? CLI_OK : CLI_CANNOT; /* a part is not the whole */
}

static void report_parse_end(struct argp_state *state, const struct report_args *args) {
    if (args->inputs[1] && args->json) {
        argp_error(state, "--json prints one report: it cannot be combined with --against");
    }
    if (args->inputs[1] && write_is_stdout(args->inputs[0]) && write_is_stdout(args->inputs[1])) {
        argp_error(state, "FILE and --against cannot both be standard input");
    }
}

static error_t report_parse(int key, char *arg, struct argp_state *state) {
    struct report_args *args = state->input;
    switch (key) {
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case CLI_KEY_FORCE:
        args->force = true;
        return 0;
    case CLI_KEY_OUTPUT:
        args->output = arg;
        return 0;
    case REPORT_KEY_AGAINST:
        args->inputs[1] = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (args->inputs[0]) {
            argp_error(state, "more than one file given; --against compares two");
        }
        args->inputs[0] = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no file given");
        return 0;
    case ARGP_KEY_END:
        report_parse_end(state, args);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char report_doc[] =
    "Writes a page that shows what a program did with memory, from its trace.\v"
    "The page is one file. It opens in any browser, without a network. FILE is a\n"
    "trace that a program wrote with ACRE_TRACE=FILE, or another file that acre\n"
    "replay reads: a memory snapshot of PyTorch with its call stacks, or RMM's log;\n"
    "or a snapshot of acre (acre snapshot), which has one moment only.\n"
    "FILE may be compressed with gzip. FILE '-' is standard input, OUT '-' is\n"
    "standard output.\n"
    "\n"
    "The page shows:\n"
    "  the first sentence   the peak, when it was, who held it, what failed\n"
    "  memory over time     live memory by tag, call stack, pool, stream or size;\n"
    "                       reserved memory; peak, failures and marks. Drag, or\n"
    "                       Ctrl and the wheel, zoom; Shift and drag, or arrow\n"
    "                       keys, move\n"
    "  holders              what was live at the peak and at the end, and what was\n"
    "                       allocated most, as a table and as a flame graph\n"
    "  address map          blocks, chunks and holes at a chosen instant\n"
    "  sizes, streams       allocations by size; waits that the pool inserted\n"
    "  plan                 what a plan for the same allocations would have needed\n"
    "  comparison           with --against: figures and curves of two traces\n"
    "\n"
    "A page has at most 65,536 samples of memory over time and 60,000 blocks; every\n"
    "peak is among them. If a trace is damaged or cut, the page has the events\n"
    "before the damage and says at which byte it is, and the exit status is 2.\n"
    "\n"
    "Examples:\n"
    "  ACRE_TRACE=program.trace ACRE_STACKS=8 ./program\n"
    "  acre report program.trace\n"
    "  acre report program.trace -o program.html\n"
    "  acre report after.trace --against before.trace -o change.html\n"
    "  acre report snapshot.pickle\n"
    "  acre report --json program.trace | jq .lead\n"
    "\n"
    "Exit status:\n"
    "  0   success\n"
    "  2   FILE is damaged (the page has what came before) or has no event that can\n"
    "      be read, or OUT cannot be written\n"
    "  64  wrong usage\n";

int cmd_report(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"output", CLI_KEY_OUTPUT, "OUT", 0, "write the page to OUT (default: report.html)", 0},
        {"against", REPORT_KEY_AGAINST, "OTHER", 0,
         "compare FILE with the trace OTHER, which is the earlier one", 0},
        {"json", CLI_KEY_JSON, NULL, 0,
         "print the figures as JSON (schema acre-report/1) and write no page", 0},
        {"force", CLI_KEY_FORCE, NULL, 0, "replace OUT even if it is FILE or acre did not write it",
         0},
        {0}};
    static const struct argp argp = {
        .options = options, .parser = report_parse, .args_doc = "FILE", .doc = report_doc};
    struct report_args args = {.output = "report.html"};
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        return CLI_USAGE;
    }
    return report_run(&args);
}
