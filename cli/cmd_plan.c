/* acre plan: packs buffers with lifetimes into as few bytes as possible, or checks an existing
 * plan. For a trace it also measures the memory that a pool reserves for the same allocations.
 *
 * The placer needs no device. The pool runs on a soft device that is large enough for the trace,
 * unless --device names another one. */
#include "cmd_plan.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "events_file.h"
#include "picture.h"
#include "replay.h"
#include "wishes.h"
#include "write_file.h"

enum {
    PLAN_TRACE_ALIGN = 256 /* the alignment of pools and of acre_plan */
};

struct plan_args {
    bool json, force;
    const char *device;               /* NULL: soft */
    uint64_t capacity, budget, align; /* 0: not given */
    const char *out, *svg, *check;
    const char *inputs[2]; /* with --out or --svg: the FILE, and OFFSETS or NULL */
    char **files;
    size_t file_count;
};

/* The contents of one file. */
struct plan_input {
    const char *path; /* as messages show it */
    const char *source;
    struct file_bytes packed, text; /* names may point into either */
    struct wishes wishes;
    struct events events; /* of a trace; settled */
    bool is_trace;
};

/* ---- options --------------------------------------------------------------------------------- */

enum {
    PLAN_KEY_CAPACITY = 'c',
    PLAN_KEY_ALIGN = 'a',
    PLAN_KEY_CHECK = 'k',
    PLAN_KEY_BUDGET = CLI_KEY_LONG,
    PLAN_KEY_SVG
};

static const struct argp_option plan_options[] = {
    {"json", CLI_KEY_JSON, NULL, 0, "print JSON (schema acre-plan/1) instead of tables", 0},
    {"capacity", PLAN_KEY_CAPACITY, "BYTES", 0,
     "accept the first plan of at most BYTES and stop the search; if none is found, the exit "
     "status is 1 (default: search for the smallest plan)",
     0},
    {"budget", PLAN_KEY_BUDGET, "NODES", 0,
     "search at most NODES nodes, each about a microsecond; a larger budget never gives a larger "
     "plan (default: 1 million, or 2 million with --capacity)",
     0},
    {"align", PLAN_KEY_ALIGN, "BYTES", 0,
     "align all offsets that are not fixed to this power of two; the column alignment can require "
     "more (default: 1; for a trace 256)",
     0},
    {"out", CLI_KEY_OUTPUT, "FILE", 0,
     "write the plan to FILE as CSV: id,offset in the order of the input. Not written if the plan "
     "does not fit",
     0},
    {"output", 0, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 0},
    {"svg", PLAN_KEY_SVG, "FILE", 0,
     "draw the plan into FILE as SVG: time to the right, addresses upwards, one box per buffer, "
     "coloured by size; below it the live bytes",
     0},
    {"check", PLAN_KEY_CHECK, "OFFSETS", 0,
     "do not place: check the plan in the file OFFSETS, which has the columns id and offset; other "
     "columns are ignored",
     0},
    {"force", CLI_KEY_FORCE, NULL, 0,
     "replace an input or a file that acre did not write with --out or --svg", 0},
    {"device", CLI_KEY_DEVICE, "NAME", 0,
     "device of the pool on which a trace is replayed (default: a soft device; without "
     "ACRE_SOFT_BYTES twice as large as the trace needs)",
     0},
    {0}};

static uint64_t plan_parse_bytes(struct argp_state *state, const char *name, const char *text) {
    uint64_t value = 0;
    if (acre__parse_bytes(text, &value) != 0 || value == 0) {
        argp_error(state, "%s takes a size of at least 1, such as 4096, 512M or 2GiB, not '%s'",
                   name, text);
    }
    return value;
}

static uint64_t plan_parse_align(struct argp_state *state, const char *text) {
    uint64_t value = plan_parse_bytes(state, "--align", text);
    if (value & (value - 1)) {
        argp_error(state, "--align takes a power of two, not '%s'", text);
    }
    return value;
}

static uint64_t plan_parse_budget(struct argp_state *state, const char *text) {
    uint64_t value = 0;
    if (acre__parse_number(text, &value) != 0 || value == 0) {
        argp_error(state, "--budget takes a number of nodes of at least 1, not '%s'", text);
    }
    return value;
}

static void plan_parse_end(struct argp_state *state, struct plan_args *args) {
    bool to_stdout = write_is_stdout(args->out) || write_is_stdout(args->svg);
    if (args->file_count > 1 && (args->out || args->svg || args->check)) {
        argp_error(state, "--out, --svg and --check take one FILE, not %zu", args->file_count);
    }
    if (args->check && (args->out || args->budget)) {
        argp_error(state, "--check places nothing: it cannot be combined with --out or --budget");
    }
    if (args->out && args->svg && strcmp(args->out, args->svg) == 0) {
        argp_error(state, "--out and --svg name the same file");
    }
    if (args->json && to_stdout) {
        argp_error(state, "--json and '-' both write to standard output: choose one");
    }
    if (args->file_count == 1 && write_is_stdout(args->files[0]) && write_is_stdout(args->check)) {
        argp_error(state, "FILE and --check cannot both be standard input");
    }
    args->inputs[0] = args->file_count == 1 ? args->files[0] : NULL;
    args->inputs[1] = args->check;
}

static error_t plan_parse(int key, char *arg, struct argp_state *state) {
    struct plan_args *args = state->input;
    switch (key) {
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case CLI_KEY_DEVICE:
        args->device = arg;
        return 0;
    case CLI_KEY_OUTPUT:
        args->out = arg;
        return 0;
    case CLI_KEY_FORCE:
        args->force = true;
        return 0;
    case PLAN_KEY_SVG:
        args->svg = arg;
        return 0;
    case PLAN_KEY_CHECK:
        args->check = arg;
        return 0;
    case PLAN_KEY_CAPACITY:
        args->capacity = plan_parse_bytes(state, "--capacity", arg);
        return 0;
    case PLAN_KEY_BUDGET:
        args->budget = plan_parse_budget(state, arg);
        return 0;
    case PLAN_KEY_ALIGN:
        args->align = plan_parse_align(state, arg);
        return 0;
    case ARGP_KEY_ARGS:
        args->files = state->argv + state->next;
        args->file_count = (size_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no file given");
        return 0;
    case ARGP_KEY_END:
        plan_parse_end(state, args);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static void plan_input_free(struct plan_input *input) {
    wishes_free(&input->wishes);
    events_free(&input->events);
    free(input->packed.at);
    free(input->text.at);
}

static int plan_read(struct plan_input *input) {
    int code = file_load(input->source, &input->packed);
    const unsigned char *bytes = input->packed.at;
    size_t count = input->packed.count;
    code = code ? code : file_unpack(input->path, &bytes, &count, &input->text);
    if (code) {
        return code;
    }
    if (wishes_are(bytes, count)) {
        return wishes_read(input->path, bytes, count, &input->wishes);
    }
    code = events_parse(input->path, bytes, count, &input->events);
    code = code ? code : events_settle(input->path, &input->events);
    if (code == CLI_OK) {
        input->is_trace = true;
        wishes_from_events(&input->events, &input->wishes);
    }
    return code;
}

/* ---- placing --------------------------------------------------------------------------------- */

static atomic_int plan_stop; /* set by Ctrl-C */

static void plan_interrupt(int signal) {
    (void)signal;
    atomic_store_explicit(&plan_stop, 1, memory_order_relaxed);
}

struct plan_progress {
    const char *path;
    uint64_t begin_ns, shown_ns;
};

/* Shows progress on a terminal, every 200 ms. */
static void plan_show(void *arg, const struct acre__place_result *so_far) {
    struct plan_progress *progress = arg;
    uint64_t now = cli_now_ns();
    char text[CLI_NUMBER_BYTES];
    if (now - progress->shown_ns < 200000000) {
        return;
    }
    progress->shown_ns = now;
    cli_progress("%.40s: %s, %" PRIu64 " nodes, best %" PRIu64 " bytes, lower bound %" PRIu64
                 "; Ctrl-C accepts it",
                 progress->path, cli_duration(now - progress->begin_ns, text), so_far->nodes,
                 so_far->bytes, so_far->lower_bound);
}

/* Returns the first buffer with which sizes, alignments or offsets exceed the placer's limit. */
static size_t plan_too_many(const struct wishes *wishes) {
    const uint64_t most = UINT64_C(1) << 62;
    uint64_t sum = 0;
    size_t i = 0;
    for (; i < wishes->count; i++) {
        const struct acre__place_buffer *buffer = &wishes->list[i];
        if (buffer->size >= most || buffer->align >= most || buffer->offset >= most ||
            buffer->size + buffer->align - 1 >= most - sum) {
            break;
        }
        sum += buffer->size + buffer->align - 1;
    }
    return i;
}

/* Names two fixed buffers that overlap. */
static int plan_clash(const char *path, const struct wishes *wishes) {
    struct wishes fixed = {.list = cli_alloc((wishes->count + 1) * sizeof *fixed.list),
                           .names = cli_alloc((wishes->count + 1) * sizeof *fixed.names)};
    size_t first = 0, second = 0;
    for (size_t i = 0; i < wishes->count; i++) {
        if (wishes->list[i].is_fixed) {
            fixed.names[fixed.count] = wishes->names[i];
            fixed.list[fixed.count++] = wishes->list[i];
        }
    }
    if (acre__place_verify(fixed.list, fixed.count, 0, &first, &second) != 0) {
        char *one = plan_describe(&fixed, first), *other = plan_describe(&fixed, second);
        events_refuse(path, fixed.names[second].line, fixed.names[second].column,
                      "%s overlaps %s, and both are fixed", other, one);
        free(one);
        free(other);
    }
    wishes_free(&fixed);
    return CLI_CANNOT;
}

static int plan_refused(const char *path, const struct wishes *wishes, int error) {
    if (error == -EINVAL) { /* the reader has already rejected all other invalid input */
        return plan_clash(path, wishes);
    }
    size_t i = error == -EOVERFLOW ? plan_too_many(wishes) : wishes->count;
    if (i < wishes->count && wishes->names[i].line) {
        return events_refuse(path, wishes->names[i].line, wishes->names[i].column,
                             "with this buffer the sizes exceed the limit of 2^62 bytes");
    }
    cli_say("%s: %s", path,
            error == -EOVERFLOW ? "the sizes or the number of buffers exceed the placer's limit"
            : error == -ENOMEM  ? "out of memory"
                                : "the placer's plan is invalid: this is a bug in acre");
    return CLI_CANNOT;
}

static void plan_say_misfit(const struct plan_answer *answer) {
    const struct acre__place_result *placed = &answer->placed;
    if (placed->lower_bound > answer->capacity_bytes) {
        cli_say("%s: no plan fits into %" PRIu64 " bytes: at least %" PRIu64 " are needed",
                answer->path, answer->capacity_bytes, placed->lower_bound);
    } else {
        cli_say("%s: no plan was found that fits into %" PRIu64 " bytes: the best has %" PRIu64,
                answer->path, answer->capacity_bytes, placed->bytes);
    }
}

/* Places the buffers. The first Ctrl-C ends the search, a second one ends the program. */
static int plan_place(const struct plan_args *args, struct wishes *wishes,
                      struct plan_answer *answer) {
    struct plan_progress progress = {.path = answer->path, .begin_ns = cli_now_ns()};
    struct sigaction action = {.sa_handler = plan_interrupt, .sa_flags = (int)SA_RESETHAND}, before;
    const struct acre__place_options options = {.capacity = args->capacity,
                                                .budget = args->budget,
                                                .stop = &plan_stop,
                                                .progress = plan_show,
                                                .progress_arg = &progress};
    progress.shown_ns = progress.begin_ns;
    sigaction(SIGINT, &action, &before);
    int error = acre__place(wishes->list, wishes->count, &options, &answer->placed);
    answer->time_ns = cli_now_ns() - progress.begin_ns;
    sigaction(SIGINT, &before, NULL);
    if (progress.shown_ns != progress.begin_ns) {
        cli_progress("%s", "");
    }
    if (error) {
        return plan_refused(answer->path, wishes, error);
    }
    answer->is_interrupted = atomic_load_explicit(&plan_stop, memory_order_relaxed) != 0;
    if (!answer->placed.is_fitting) {
        plan_say_misfit(answer);
        return CLI_FINDING;
    }
    return CLI_OK;
}

/* ---- a pool for comparison ------------------------------------------------------------------- */

/* Opens the device. A soft device only uses host memory that is touched, and a replay touches none,
 * so the device can be as large as the trace needs. A user's ACRE_SOFT_BYTES takes precedence. */
static acre_status plan_open(const struct plan_args *args, uint64_t peak_bytes,
                             acre_device **device) {
    enum { ROOM = 1 << 30 };
    char bytes[CLI_NUMBER_BYTES];
    const char *own = getenv("ACRE_SOFT_BYTES");
    bool is_sized = !args->device && !(own && *own) && peak_bytes < UINT64_MAX / 4;
    if (is_sized) {
        snprintf(bytes, sizeof bytes, "%" PRIu64, 2 * peak_bytes + ROOM);
        is_sized = setenv("ACRE_SOFT_BYTES", bytes, 1) == 0;
    }
    acre_status status = acre_open(args->device ? args->device : "soft", NULL, device);
    if (is_sized) {
        unsetenv("ACRE_SOFT_BYTES");
    }
    return status;
}

/* Replays the trace on a pool. If the device has too little memory, that is not a finding about the
 * plan: the comparison could not be made, so the code is CLI_CANNOT. */
static int plan_replay(const struct plan_args *args, const struct plan_input *input,
                       struct plan_answer *answer, acre_status *said) {
    struct replay_results results = {0};
    acre_device *device = NULL;
    acre_status status = plan_open(args, input->events.peak_bytes, &device);
    if (status) {
        if (*said != status) { /* once for all traces */
            cli_say_failure("cannot open the device for the pool", status);
        }
        *said = status;
        return CLI_CANNOT;
    }
    const struct replay_how how = {.passes = 1};
    int code = replay_run(device, &how, input->path, &input->events, &results);
    if (code == CLI_OK) {
        answer->pool_bytes = results.list[0].peak_reserved_bytes;
    }
    for (size_t i = 0; i < results.count; i++) {
        free(results.list[i].failed);
    }
    free(results.list);
    acre_close(device);
    return code == CLI_OK ? CLI_OK : CLI_CANNOT;
}

/* ---- output files ---------------------------------------------------------------------------- */

/* Describes an output file. The inputs are the FILE and the offsets of --check. */
static struct write_file plan_output(const struct plan_args *args, const char *path,
                                     enum write_kind kind) {
    return (struct write_file){.path = path,
                               .kind = kind,
                               .force = args->force,
                               .inputs = args->inputs,
                               .input_count = sizeof args->inputs / sizeof args->inputs[0]};
}

/* Checks the output files before the search. Returns CLI_OK, or CLI_CANNOT after a message. */
static int plan_check_outputs(const struct plan_args *args) {
    const struct write_file out = plan_output(args, args->out, WRITE_OFFSETS);
    const struct write_file svg = plan_output(args, args->svg, WRITE_SVG);
    int code = args->out ? write_check(&out) : CLI_OK;
    return args->svg && code == CLI_OK ? write_check(&svg) : code;
}

static int plan_write_offsets(const struct plan_args *args, const struct wishes *wishes) {
    struct write_file file = plan_output(args, args->out, WRITE_OFFSETS);
    wishes_write_offsets(write_begin(&file), wishes);
    return write_end(&file);
}

static int plan_draw(const struct plan_args *args, const struct plan_input *input,
                     const struct plan_answer *answer) {
    const char *slash = strrchr(input->path, '/');
    const struct picture picture = {.wishes = &input->wishes,
                                    .title = slash && slash[1] ? slash + 1 : input->path,
                                    .time_unit = input->is_trace ? "time, in events of the trace"
                                                                 : "time, in units of the file",
                                    .bytes = answer->placed.bytes,
                                    .lower_bound = answer->placed.lower_bound,
                                    .capacity = answer->capacity_bytes};
    struct write_file file = plan_output(args, args->svg, WRITE_SVG);
    picture_write(write_begin(&file), &picture);
    return write_end(&file);
}

/* ---- all files ------------------------------------------------------------------------------- */

static int plan_worse(int a, int b) {
    return a > b ? a : b;
}

static struct plan_answer *plan_add(struct plan_answers *answers) {
    struct plan_answer *longer =
        reallocarray(answers->list, answers->count + 1, sizeof *answers->list);
    if (!longer) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    answers->list = longer;
    return &answers->list[answers->count++];
}

/* Raises the alignment of all buffers that are not fixed. */
static void plan_align(struct wishes *wishes, uint64_t align) {
    for (size_t i = 0; i < wishes->count; i++) {
        struct acre__place_buffer *buffer = &wishes->list[i];
        if (!buffer->is_fixed && align > buffer->align) {
            buffer->align = align;
        }
    }
}

/* Places or checks the buffers of a file and adds an answer, also for a plan that is invalid or
 * does not fit. Adds none if there is no plan. */
static int plan_answer(const struct plan_args *args, struct plan_input *input,
                       struct plan_answers *answers) {
    struct plan_answer answer = {.path = input->path,
                                 .format = input->wishes.format,
                                 .buffers = input->wishes.count,
                                 .align_bytes = args->align       ? args->align
                                                : input->is_trace ? PLAN_TRACE_ALIGN
                                                                  : 1,
                                 .capacity_bytes = args->capacity,
                                 .offsets = args->check,
                                 .is_trace = input->is_trace,
                                 .ops = input->events.ops,
                                 .peak_live_bytes = input->events.peak_bytes};
    plan_align(&input->wishes, answer.align_bytes);
    int code = args->check ? plan_check(&input->wishes, &answer)
                           : plan_place(args, &input->wishes, &answer);
    if (code == CLI_CANNOT) {
        return code;
    }
    if (args->out && code == CLI_OK) {
        code = plan_worse(code, plan_write_offsets(args, &input->wishes));
    }
    if (args->svg && answer.wrong && !answer.placed.bytes) {
        cli_say("%s: nothing to draw: not every buffer has a valid offset", args->svg);
    } else if (args->svg && answer.placed.is_refused) {
        cli_say("%s: nothing to draw: nothing was placed", args->svg);
    } else if (args->svg) { /* also draws an invalid plan: the picture shows the overlap */
        code = plan_worse(code, plan_draw(args, input, &answer));
    }
    if (input->is_trace) {
        code = plan_worse(code, plan_replay(args, input, &answer, &answers->open_status));
    }
    *plan_add(answers) = answer;
    return code;
}

static int plan_files(const struct plan_args *args, struct plan_answers *answers) {
    int worst = CLI_OK;
    for (size_t i = 0; i < args->file_count; i++) {
        struct plan_input input = {.path = file_name(args->files[i]), .source = args->files[i]};
        int code = plan_read(&input);
        code = code ? code : plan_answer(args, &input, answers);
        plan_input_free(&input);
        worst = plan_worse(worst, code);
        if (atomic_load_explicit(&plan_stop, memory_order_relaxed) && i + 1 < args->file_count) {
            cli_say("interrupted: %zu files skipped", args->file_count - i - 1);
            return CLI_CANNOT;
        }
    }
    return worst;
}

int cmd_plan(int argc, char **argv) {
    const struct argp argp = {
        .options = plan_options,
        .parser = plan_parse,
        .args_doc = "FILE...",
        .doc = "Packs buffers with known lifetimes into as little memory as possible, or checks "
               "such a plan.\v"
               "Files:\n"
               "  A CSV file has these columns in any order, named in its first line:\n"
               "    id            any text, unique\n"
               "    lower, upper  the buffer is live from lower to before upper; whole numbers\n"
               "                  in any unit\n"
               "    size          bytes\n"
               "    alignment     optional: a power of two\n"
               "    offset        optional: the buffer is fixed there; an empty field leaves\n"
               "                  the buffer to the placer\n"
               "  A trace is a file that 'acre replay' reads. Its blocks are the buffers,\n"
               "  numbered from 0 in the order of their allocation. Time counts the events of\n"
               "  the trace. A block that is not freed is live to the end. A block that\n"
               "  changes its size becomes a second buffer that overlaps the first in time.\n"
               "  A file may be compressed with gzip. Blank lines in CSV files are ignored.\n"
               "\n"
               "Columns:\n"
               "  BUFFERS      number of buffers\n"
               "  BYTES        size of the plan: its highest end\n"
               "  LOWER BOUND  no plan can be smaller: the peak of live bytes, with alignment,\n"
               "               or the end of a fixed buffer\n"
               "  RATIO        BYTES divided by LOWER BOUND\n"
               "  NODES, TIME  cost of the search\n"
               "  RESULT       optimal: it is proven that no plan is smaller; best found;\n"
               "               fits: within --capacity; does not fit; with --check: valid or\n"
               "               invalid\n"
               "For a trace, a second table compares the plan with a pool:\n"
               "  OPS                   operations of the trace\n"
               "  LIVE                  peak of requested bytes that are live\n"
               "  PLAN, POOL            bytes that the plan needs, and that a pool of acre\n"
               "                        reserves for the same operations (see 'acre replay')\n"
               "  PLAN/LIVE, POOL/LIVE  their ratios to LIVE\n"
               "  SAVED                 the share of POOL that the plan saves\n"
               "\n"
               "The same file and budget give the same plan on every machine. A capacity below\n"
               "the lower bound is refused without a search. Ctrl-C ends the search with the\n"
               "best plan so far; a second Ctrl-C ends the program. On a terminal, long\n"
               "searches show their progress.\n"
               "\n"
               "FILE '-' is standard input. --out - or --svg - writes to standard output\n"
               "instead of the tables. An existing file is replaced only if acre wrote it,\n"
               "and an input never, unless --force is given.\n"
               "\n"
               "--out, --svg and --check need exactly one FILE. Otherwise all files are tried,\n"
               "and the exit status is the largest one. A damaged file is refused with its\n"
               "line and column. With --check, a message names the two buffers that overlap,\n"
               "or the buffer that is not aligned, exceeds the capacity, has no offset, or is\n"
               "not at its fixed offset.\n"
               "\n"
               "Examples:\n"
               "  acre plan buffers.csv --out offsets.csv --svg plan.svg\n"
               "  acre plan --capacity 1MiB *.csv\n"
               "  acre plan buffers.csv --check offsets.csv\n"
               "  acre plan training.rmm.csv.gz\n"
               "  acre plan *.csv --json | jq -c '.results[] | [.file, .ratio, .optimal]'\n"
               "\n"
               "Exit status:\n"
               "  0   all plans fit, or are valid\n"
               "  1   a plan does not fit, or is invalid\n"
               "  2   a file is damaged or cannot be written, or a trace could not be replayed\n"
               "  64  wrong usage\n"};
    struct plan_args args = {0};
    struct plan_answers answers = {0};
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        return CLI_USAGE;
    }
    cli_log_to_stderr();
    int code = plan_check_outputs(&args);
    if (code) {
        return code;
    }
    code = plan_files(&args, &answers);
    if (args.json) {
        plan_print_json(&answers);
    } else if (!write_is_stdout(args.out) && !write_is_stdout(args.svg)) {
        plan_print(&answers);
    }
    for (size_t i = 0; i < answers.count; i++) {
        free(answers.list[i].wrong);
        free(answers.list[i].wrong_ids[0]);
        free(answers.list[i].wrong_ids[1]);
    }
    free(answers.list);
    return code;
}
