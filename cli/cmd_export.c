/* acre export: converts a trace to the formats of other tools. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "events_file.h"
#include "export.h"
#include "write_file.h"

enum {
    EXPORT_KEY_FORMAT = CLI_KEY_LONG,
    EXPORT_KEY_AT,
    EXPORT_KEY_BLOCKS,
    EXPORT_SLICES = 2000,
    EXPORT_SLICES_MOST = 1000000
};

struct export_format {
    const char *name;
    void (*write)(FILE *out, const struct export_job *job);
    bool has_names;     /* it has texts, tags or frames */
    bool has_addresses; /* it has addresses of blocks */
    bool is_binary;
};

static const struct export_format export_formats[] = {
    {"memory_viz", export_memory_viz, true, true, true},
    {"perfetto", export_perfetto, true, true, false},
    {"folded", export_folded, true, false, false},
    {"rmm", export_rmm, false, true, false},
    {"plan", export_plan, false, false, false},
};

enum { EXPORT_FORMAT_COUNT = sizeof export_formats / sizeof export_formats[0] };

struct export_args {
    bool json, force, has_at, has_blocks;
    const char *path, *output;
    const struct export_format *format;
    struct export_job job;
};

/* ---- the command ---- */

/* What was written, for messages and --json. */
struct export_sums {
    uint64_t allocations, frees, peak_bytes;
};

static struct export_sums export_count(const struct events *events) {
    struct export_sums sums = {.peak_bytes = events->peak_bytes};
    for (size_t i = 0; i < events->count; i++) {
        uint8_t kind = events->list[i].kind;
        sums.allocations += kind == EVENT_ALLOC || kind == EVENT_REALLOC;
        sums.frees += kind == EVENT_FREE || kind == EVENT_REALLOC;
    }
    return sums;
}

static void export_json(const struct export_args *args, const struct events *events,
                        const struct export_sums *sums, bool is_part) {
    json_t *root = cli_json_begin("acre-export/1");
    cli_json_set(root, "file", cli_json_text(file_name(args->path)));
    cli_json_set(root, "input_format", cli_json_text(events->format));
    cli_json_set(root, "format", cli_json_text(args->format->name));
    cli_json_set(root, "output", cli_json_text(args->output));
    cli_json_set(root, "is_damaged", json_boolean(is_part));
    cli_json_set(root, "allocations", cli_json_number(sums->allocations));
    cli_json_set(root, "frees", cli_json_number(sums->frees));
    cli_json_set(root, "peak_bytes", cli_json_number(sums->peak_bytes));
    cli_json_end(root);
}

static void export_say(const struct export_args *args, const struct export_sums *sums,
                       bool is_part) {
    char peak[CLI_NUMBER_BYTES];
    if (is_part) {
        cli_say("%s: the output has the %llu allocations and %llu frees before the damage",
                file_name(args->path), (unsigned long long)sums->allocations,
                (unsigned long long)sums->frees);
    } else if (!write_is_stdout(args->output)) {
        cli_say("%s: %s with %llu allocations and %llu frees, peak %s", args->output,
                args->format->name, (unsigned long long)sums->allocations,
                (unsigned long long)sums->frees, cli_bytes(sums->peak_bytes, peak));
    }
}

/* Prepares the events for the format. Returns CLI_OK, or CLI_CANNOT after a message; then the
 * events are freed. */
static int export_prepare(const struct export_args *args, struct events *events) {
    int code = events_settle(file_name(args->path), events);
    if (code) {
        return code;
    }
    if (args->format->has_addresses && !export_place(events)) {
        cli_say("%s: the blocks are larger than 2^62 bytes together, and have no addresses; the "
                "formats plan and folded need none",
                file_name(args->path));
        events_free(events);
        return CLI_CANNOT;
    }
    if (args->format->has_names) {
        export_clean(events);
    }
    return CLI_OK;
}

static int export_run(struct export_args *args) {
    struct write_file file = {.path = args->output,
                              .kind = WRITE_EXPORT,
                              .force = args->force,
                              .inputs = &args->path,
                              .input_count = 1};
    struct events events;
    bool is_part = false;
    int code = write_check(&file);
    code = code ? code : events_read_part(args->path, &events, &is_part);
    code = code ? code : export_prepare(args, &events);
    if (code) {
        return code;
    }
    char *source = export_clean_text(file_name(args->path));
    args->job.source = source;
    args->job.events = &events;
    code = write_open(&file);
    if (code == CLI_OK) {
        args->format->write(file.stream, &args->job);
        code = write_close(&file);
    }
    if (code == CLI_OK) {
        struct export_sums sums = export_count(&events);
        if (args->json) {
            export_json(args, &events, &sums, is_part);
        }
        if (is_part || !args->json) {
            export_say(args, &sums, is_part);
        }
    }
    free(source);
    events_free(&events);
    return is_part ? CLI_CANNOT : code;
}

/* ---- options ---- */

static void parse_format(struct argp_state *state, struct export_args *args, const char *name) {
    for (size_t i = 0; i < EXPORT_FORMAT_COUNT; i++) {
        if (strcmp(name, export_formats[i].name) == 0) {
            args->format = &export_formats[i];
            return;
        }
    }
    argp_error(
        state,
        "there is no format '%.40s'; the formats are memory_viz, perfetto, folded, rmm and plan",
        name);
}

static void parse_at(struct argp_state *state, struct export_args *args, const char *word) {
    static const char *const words[] = {"peak", "end", "churn"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i]) == 0) {
            args->job.when = (enum export_when)i;
            args->has_at = true;
            return;
        }
    }
    argp_error(state, "--at is peak, end or churn, not '%.40s'", word);
}

static void parse_blocks(struct argp_state *state, struct export_args *args, const char *word) {
    char *end;
    unsigned long number = strtoul(word, &end, 10);
    if (*word < '0' || *word > '9' || *end || number > EXPORT_SLICES_MOST) {
        argp_error(state, "--blocks is a number up to %d, not '%.40s'", EXPORT_SLICES_MOST, word);
    }
    args->job.slices = number;
    args->has_blocks = true;
}

/* Checks the options together. */
static void parse_end(struct argp_state *state, const struct export_args *args) {
    if (!args->format) {
        argp_error(state, "no format given: --format memory_viz, perfetto, folded, rmm or plan");
    } else if (args->has_at && args->format->write != export_folded) {
        argp_error(state, "--at is for --format folded");
    } else if (args->has_blocks && args->format->write != export_perfetto) {
        argp_error(state, "--blocks is for --format perfetto");
    } else if (args->json && write_is_stdout(args->output)) {
        argp_error(state, "--json prints to standard output: give a file with --output");
    } else if (args->format->is_binary && write_is_stdout(args->output) && isatty(STDOUT_FILENO)) {
        argp_error(state, "memory_viz is binary: give a file with --output");
    }
}

static error_t export_parse(int key, char *arg, struct argp_state *state) {
    struct export_args *args = state->input;
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
    case EXPORT_KEY_FORMAT:
        parse_format(state, args, arg);
        return 0;
    case EXPORT_KEY_AT:
        parse_at(state, args, arg);
        return 0;
    case EXPORT_KEY_BLOCKS:
        parse_blocks(state, args, arg);
        return 0;
    case ARGP_KEY_ARG:
        if (args->path) {
            argp_error(state, "more than one file given");
        }
        args->path = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no file given");
        return 0;
    case ARGP_KEY_END:
        parse_end(state, args);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char export_doc[] =
    "Converts a trace to the format of another tool.\v"
    "FILE is a trace of acre (ACRE_TRACE), a memory snapshot of PyTorch\n"
    "(torch.cuda.memory._dump_snapshot), a log of RMM, or a table of lifetimes. Its\n"
    "contents determine its format, and it may be compressed with gzip. '-' is\n"
    "standard input or output. Nothing in a snapshot is executed.\n"
    "\n"
    "Formats:\n"
    "  memory_viz  a snapshot that PyTorch's page memory_viz and\n"
    "              torch.cuda._memory_viz open: segments, blocks, and every\n"
    "              allocation and free with its call stack\n"
    "  perfetto    JSON for Perfetto and Chrome: live memory, physical memory and\n"
    "              the largest tags over time, the largest blocks as slices, marks\n"
    "              and failed allocations\n"
    "  folded      one line for each tag and call stack with its bytes, for\n"
    "              flamegraph.pl and speedscope\n"
    "  rmm         the log of RAPIDS Memory Manager, as CSV\n"
    "  plan        lifetimes as CSV, for acre plan\n"
    "\n"
    "Names with control characters or marks that change the direction of text are\n"
    "written with escapes, such as \\x1b or \\u202e.\n"
    "\n"
    "If FILE is damaged, OUT has the events before the damage, a message says at\n"
    "which byte it is, and the exit status is 2. A damaged snapshot of PyTorch has\n"
    "no such part.\n"
    "\n"
    "Examples:\n"
    "  acre export --format memory_viz -o program.pickle program.trace\n"
    "  acre export --format perfetto -o program.json program.trace\n"
    "  acre export --format folded --at end program.trace | flamegraph.pl >end.svg\n"
    "  acre export --format plan snapshot.pickle | acre plan -\n"
    "\n"
    "Exit status:\n"
    "  0   success\n"
    "  2   FILE is damaged or cannot be read, or OUT cannot be written\n"
    "  64  wrong usage\n";

int cmd_export(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"format", EXPORT_KEY_FORMAT, "FORMAT", 0,
         "memory_viz, perfetto, folded, rmm or plan; see below", 0},
        {"output", CLI_KEY_OUTPUT, "OUT", 0, "write to OUT (default: standard output)", 0},
        {"at", EXPORT_KEY_AT, "WHEN", 0,
         "folded: memory that is live at the peak or at the end, or churn: all that was "
         "allocated (default: peak)",
         0},
        {"blocks", EXPORT_KEY_BLOCKS, "N", 0,
         "perfetto: show the lifetimes of the N largest blocks (default: 2000)", 0},
        {"json", CLI_KEY_JSON, NULL, 0, "print what was written as JSON (schema acre-export/1)", 0},
        {"force", CLI_KEY_FORCE, NULL, 0, "replace OUT even if it is FILE or acre did not write it",
         0},
        {0}};
    static const struct argp argp = {
        .options = options, .parser = export_parse, .args_doc = "FILE", .doc = export_doc};
    struct export_args args = {.output = "-", .job = {.slices = EXPORT_SLICES}};
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        return CLI_USAGE;
    }
    return export_run(&args);
}
