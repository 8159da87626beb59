/* acre bench: runs suites on a device and prints a table with ratios, or JSON (schema
 * acre-bench/1). */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "chart.h"
#include "cli.h"
#include "device/device.h"
#include "write_file.h"

static const struct bench_suite bench_suites[] = {
    {"ground", "streams and events, against the driver", bench_ground, NULL, false},
    {"copy", "copies of pageable and pinned memory, against the driver", bench_copy, NULL, false},
    {"pin", "allocating and freeing pinned memory, against the driver", bench_pin, NULL, false},
    {"grow", "growing an array in place, against allocating and copying", bench_grow, NULL, true},
    {"range", "committing pieces of a sparse range, against the driver", bench_range, NULL, false},
    {"suspend", "releasing memory and bringing it back, against the driver", bench_suspend, NULL,
     false},
    {"pool", "stream-ordered allocation, against cuMemAllocAsync and malloc", bench_pool,
     bench_pool_case, false},
    {"heap", "malloc and free inside kernels, against CUDA's malloc", bench_heap, bench_heap_case,
     true},
    {"plan", "planned memory, against greedy placement, the pool and malloc", bench_plan,
     bench_plan_case, false},
};

enum {
    BENCH_SUITES = sizeof bench_suites / sizeof bench_suites[0],
    BENCH_ROUNDS = 21,
    BENCH_LEAST_ROUNDS = 3
};

/* A case starts no further round after this time, once it has its minimum of rounds. All cases of a
 * suite together should take less than a minute on a GPU and a third of that on a soft device. */
#define BENCH_CASE_NS UINT64_C(1200000000)
#define BENCH_CASE_SOFT_NS UINT64_C(350000000)
/* A soft device copies host memory: larger blocks show nothing more and take seconds. */
#define BENCH_SOFT_BYTES (UINT64_C(256) << 20)

struct bench_figure {
    const char *suite;
    char *name;
    const char *who, *unit;
    double value;
    bool is_detail; /* not in the table */
};

struct bench {
    acre_device *device;
    const acre_device_info *info;
    const struct acre__driver *drv;
    bool is_soft, is_quick;
    const char *suite;
    const char *const *cases; /* selected by --case; case_count 0: all */
    size_t case_count;
    bool wants_chart; /* of the current suite */
    bool has_finding;
    char *chart; /* an SVG document, or NULL */
    struct bench_figure *figures;
    size_t count;
    bool is_others_failure; /* the failed call was not acre's: acre_last_detail does not apply */
    char reason[256];       /* overrides acre_last_detail; empty if not set */
};

acre_device *bench_device(struct bench *bench) {
    return bench->device;
}

const struct acre__driver *bench_driver(struct bench *bench) {
    return bench->drv;
}

static void bench_add(struct bench *bench, struct bench_figure figure) {
    struct bench_figure *longer = cli_alloc((bench->count + 1) * sizeof *longer);
    if (bench->count) {
        memcpy(longer, bench->figures, bench->count * sizeof *longer);
    }
    free(bench->figures);
    longer[bench->count++] = figure;
    bench->figures = longer;
}

void bench_result(struct bench *bench, const char *name, const char *who, double value,
                  const char *unit) {
    bench_add(bench,
              (struct bench_figure){bench->suite, cli_format("%s", name), who, unit, value, false});
}

void bench_detail(struct bench *bench, const char *name, const char *who, double value,
                  const char *unit) {
    bench_add(bench,
              (struct bench_figure){bench->suite, cli_format("%s", name), who, unit, value, true});
}

void bench_blame(struct bench *bench, bool is_other) {
    bench->is_others_failure = is_other;
}

void bench_reason(struct bench *bench, const char *detail) {
    snprintf(bench->reason, sizeof bench->reason, "%s", detail);
}

void bench_finding(struct bench *bench, const char *format, ...) {
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cli_say("%s", text);
    bench->has_finding = true;
}

void bench_chart(struct bench *bench, const struct chart *chart) {
    struct chart noted = *chart;
    size_t bytes = 0;
    FILE *out = bench->wants_chart ? open_memstream(&bench->chart, &bytes) : NULL;
    if (out) {
        char *note = cli_device_note(bench->info);
        noted.note = note;
        chart_write(out, &noted);
        fclose(out);
        free(note);
    }
}

static int bench_less(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count) {
    qsort(values, count, sizeof *values, bench_less);
    return values[count / 2];
}

int bench_rounds(struct bench *bench, bench_turn_fn turn, void *user, unsigned parties,
                 unsigned figures, double ns[BENCH_PARTIES][BENCH_FIGURES]) {
    static double times[BENCH_PARTIES][BENCH_FIGURES][BENCH_ROUNDS];
    unsigned most = bench->is_quick ? BENCH_LEAST_ROUNDS : BENCH_ROUNDS, done = 0;
    uint64_t limit = bench->is_soft ? BENCH_CASE_SOFT_NS : BENCH_CASE_NS, begin = cli_now_ns();
    for (unsigned round = 0; done < most; round++) {
        for (unsigned i = 0; i < parties; i++) {
            double took[BENCH_FIGURES] = {0};
            if (!turn(user, i, took)) {
                bench->is_others_failure = i > 0; /* acre is the first party */
                return 0;
            }
            for (unsigned k = 0; k < figures; k++) {
                times[i][k][done] = took[k]; /* round 1 overwrites the warm-up round */
            }
        }
        done = round;
        if (done >= BENCH_LEAST_ROUNDS && cli_now_ns() - begin > limit) {
            break;
        }
    }
    for (unsigned i = 0; i < parties; i++) {
        for (unsigned k = 0; k < figures; k++) {
            ns[i][k] = bench_median(times[i][k], done);
        }
    }
    return 1;
}

struct bench_loops {
    const bench_loop_fn *loops;
    void *user;
    uint64_t count;
};

static int bench_loop_turn(void *user, unsigned party, double *ns) {
    const struct bench_loops *all = user;
    uint64_t begin = cli_now_ns();
    int ok = all->loops[party](all->user, all->count);
    *ns = (double)(cli_now_ns() - begin) / (double)all->count;
    return ok;
}

int bench_compare(struct bench *bench, const bench_loop_fn *loops, void *user, unsigned loop_count,
                  uint64_t count, double *ns) {
    struct bench_loops all = {loops, user, count};
    double medians[BENCH_PARTIES][BENCH_FIGURES];
    if (!bench_rounds(bench, bench_loop_turn, &all, loop_count, 1, medians)) {
        return 0;
    }
    for (unsigned i = 0; i < loop_count; i++) {
        ns[i] = medians[i][0];
    }
    return 1;
}

/* ---- sizes ---- */

bool bench_is_quick(const struct bench *bench) {
    return bench->is_quick;
}

bool bench_is_case_wanted(const struct bench *bench, const char *name) {
    for (size_t i = 0; i < bench->case_count; i++) {
        if (strcmp(bench->cases[i], name) == 0) {
            return true;
        }
    }
    return bench->case_count == 0;
}

const char *bench_case_name(const char *what, uint64_t bytes, char name[BENCH_NAME_BYTES]) {
    char number[CLI_NUMBER_BYTES], *unit = number;
    cli_bytes(bytes, number);
    (void)strsep(&unit, " ");
    snprintf(name, BENCH_NAME_BYTES, "%s %s%s", what, number, unit ? unit : "");
    return name;
}

/* Returns half of the host's available memory, leaving the rest to other programs; UINT64_MAX if it
 * is unknown. */
static uint64_t bench_host_bytes(void) {
    uint64_t kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) {
        return UINT64_MAX;
    }
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1) {
            break;
        }
    }
    fclose(file);
    return kib ? kib << 9 : UINT64_MAX;
}

/* Returns the largest power of two of which all blocks fit into memory. */
static uint64_t bench_room_bytes(const struct bench *bench, const struct bench_room *room) {
    acre_device_info info = {.struct_size = sizeof info};
    if (acre_device_get_info(bench->device, &info) != ACRE_OK) {
        return 0;
    }
    uint64_t device_each = info.free_bytes / 2 / (room->device_blocks ? room->device_blocks : 1);
    unsigned host_blocks = room->host_blocks + (bench->is_soft ? room->device_blocks : 0);
    uint64_t host_each = host_blocks ? bench_host_bytes() / host_blocks : UINT64_MAX;
    uint64_t each = room->device_blocks && device_each < host_each ? device_each : host_each;
    uint64_t bytes = 1;
    while (bytes <= each / 2) {
        bytes *= 2;
    }
    return bytes;
}

size_t bench_sizes(struct bench *bench, const uint64_t *wanted, size_t count,
                   const struct bench_room *room, uint64_t quick_bytes,
                   uint64_t sizes[BENCH_SIZES]) {
    uint64_t most = bench_room_bytes(bench, room);
    const char *why = "there is not enough memory for more";
    if (bench->is_soft && most > BENCH_SOFT_BYTES) {
        most = BENCH_SOFT_BYTES;
        why = "larger ones show nothing more on a soft device";
    }
    if (bench->is_quick && most > quick_bytes) {
        most = quick_bytes;
        why = NULL; /* the user requested it */
    }
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = wanted[i] < most ? wanted[i] : most;
        if (bytes >= wanted[0] && (found == 0 || bytes > sizes[found - 1])) {
            sizes[found++] = bytes;
        }
    }
    char text[CLI_NUMBER_BYTES];
    if (why && wanted[count - 1] > most) {
        cli_say("suite %s: sizes limited to %s: %s", bench->suite, cli_bytes(most, text), why);
    }
    return found;
}

/* ---- printing ---- */

static json_t *bench_json(const struct bench *bench, const acre_device_info *info,
                          const char *command) {
    json_t *root = cli_json_begin("acre-bench/1");
    bench_where(root, command);
    cli_json_set(root, "device", cli_device_json(info));
    json_t *results = json_array();
    for (size_t i = 0; i < bench->count; i++) {
        const struct bench_figure *figure = &bench->figures[i];
        json_t *result = json_object();
        cli_json_set(result, "suite", cli_json_text(figure->suite));
        cli_json_set(result, "case", cli_json_text(figure->name));
        cli_json_set(result, "who", cli_json_text(figure->who));
        cli_json_set(result, "value", json_real(figure->value));
        cli_json_set(result, "unit", cli_json_text(figure->unit));
        cli_json_append(results, result);
    }
    cli_json_set(root, "results", results);
    return root;
}

static int bench_write_json(const struct bench *bench, struct write_file *file,
                            const acre_device_info *info, const char *command) {
    json_t *root = bench_json(bench, info, command);
    FILE *out = write_begin(file);
    (void)json_dumpf(root, out, JSON_INDENT(2)); /* out keeps its error flag */
    fputc('\n', out);
    json_decref(root);
    return write_end(file);
}

static int bench_write_chart(const struct bench *bench, struct write_file *file) {
    if (!bench->chart) {
        cli_say("cannot write %s: nothing to draw", file->path);
        return CLI_CANNOT;
    }
    fputs(bench->chart, write_begin(file));
    return write_end(file);
}

/* Returns acre's figure for the same case and unit, or NULL. */
static const struct bench_figure *bench_ours(const struct bench *bench,
                                             const struct bench_figure *other) {
    for (size_t i = 0; i < bench->count; i++) {
        const struct bench_figure *figure = &bench->figures[i];
        if (figure != other && strcmp(figure->who, "acre") == 0 &&
            strcmp(figure->suite, other->suite) == 0 && strcmp(figure->name, other->name) == 0 &&
            strcmp(figure->unit, other->unit) == 0) {
            return figure;
        }
    }
    return NULL;
}

static bool bench_is_rate(const char *unit) {
    size_t length = strlen(unit);
    return length > 2 && strcmp(unit + length - 2, "/s") == 0;
}

/* Whether a unit is a rate or a time, which can be faster or slower. */
static bool bench_is_speed(const char *unit) {
    static const char *const times[] = {"ns", "ns/pair", "ns/op", "us", "ms", "s"};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (strcmp(unit, times[i]) == 0) {
            return true;
        }
    }
    return bench_is_rate(unit);
}

/* Describes acre's figure as "2.1x faster" or "slower": larger is better for some units, smaller
 * for others. */
static const char *bench_ratio(const struct bench_figure *ours, const struct bench_figure *other,
                               char text[CLI_NUMBER_BYTES]) {
    double faster =
        bench_is_rate(other->unit) ? ours->value / other->value : other->value / ours->value;
    double times = faster < 1 ? 1 / faster : faster;
    int digits = times < 10 ? 2 : times < 100 ? 1 : 0;
    if (times < 1.005) {
        snprintf(text, CLI_NUMBER_BYTES, "as fast");
    } else {
        snprintf(text, CLI_NUMBER_BYTES, "%.*fx %s", digits, times,
                 faster < 1 ? "slower" : "faster");
    }
    return text;
}

static void bench_print_table(const struct bench *bench) {
    static const char *const titles[] = {"SUITE", "CASE", "WHO", ">VALUE", "UNIT", "ACRE IS"};
    struct cli_table table;
    cli_table_begin(&table, titles, sizeof titles / sizeof titles[0]);
    for (size_t i = 0; i < bench->count; i++) {
        const struct bench_figure *figure = &bench->figures[i];
        const struct bench_figure *ours = bench_ours(bench, figure);
        if (figure->is_detail) {
            continue;
        }
        cli_table_cell(&table, CLI_DIM, "%s", figure->suite);
        cli_table_cell(&table, CLI_PLAIN, "%s", figure->name);
        cli_table_cell(&table, ours ? CLI_PLAIN : CLI_BOLD, "%s", figure->who);
        cli_table_cell(&table, CLI_PLAIN, "%.4g", figure->value);
        cli_table_cell(&table, CLI_PLAIN, "%s", figure->unit);
        if (ours && ours->value > 0 && figure->value > 0 && bench_is_speed(figure->unit)) {
            char text[CLI_NUMBER_BYTES];
            cli_table_cell(&table, CLI_PLAIN, "%s", bench_ratio(ours, figure, text));
        } else {
            cli_table_cell(&table, CLI_DIM, "%s", "");
        }
    }
    cli_table_end(&table);
}

/* ---- the command ---- */

enum {
    BENCH_KEY_QUICK = 'q',
    BENCH_KEY_CASE = 'C',
    BENCH_KEY_CHART = CLI_KEY_LONG,
    BENCH_CASES = 32
};

struct bench_args {
    bool json, quick, force;
    const char *device, *output, *chart;
    unsigned char wanted[BENCH_SUITES];
    bool some;
    const char *cases[BENCH_CASES];
    size_t case_count;
};

/* Returns the selected suite if there is exactly one, else NULL. */
static const struct bench_suite *bench_only(const struct bench_args *args) {
    const struct bench_suite *only = NULL;
    for (size_t i = 0; i < BENCH_SUITES; i++) {
        if (args->wanted[i]) {
            if (only) {
                return NULL;
            }
            only = &bench_suites[i];
        }
    }
    return only;
}

/* Returns the suite whose chart --chart draws: the first selected one that has a chart. */
static const struct bench_suite *bench_charted(const struct bench_args *args) {
    for (size_t i = 0; i < BENCH_SUITES; i++) {
        if (bench_suites[i].has_chart && (args->wanted[i] || !args->some)) {
            return &bench_suites[i];
        }
    }
    return NULL;
}

/* Reports an unknown suite, with those that exist. */
static void bench_refuse_suite(struct argp_state *state, const char *word) {
    char *names = cli_format("%s", "");
    for (size_t i = 0; i < BENCH_SUITES; i++) {
        char *longer = cli_format("%s%s%s", names, i ? ", " : "", bench_suites[i].name);
        free(names);
        names = longer;
    }
    argp_error(state, "there is no suite '%.40s'; the suites are: %s", word, names);
}

/* Reports an unknown case, with those of the suite. */
static void bench_refuse_case(struct argp_state *state, const struct bench_suite *suite,
                              const char *word) {
    char *names = cli_format("%s", "");
    for (size_t i = 0; suite->case_at(i); i++) {
        char *longer = cli_format("%s%s%s", names, i ? ", " : "", suite->case_at(i));
        free(names);
        names = longer;
    }
    argp_error(state, "the suite %s has no case '%.40s'; its cases are: %s", suite->name, word,
               names);
}

static void bench_parse_cases(struct argp_state *state) {
    const struct bench_args *args = state->input;
    const struct bench_suite *only = bench_only(args);
    if (!only || !only->case_at) {
        argp_error(state, "--case needs exactly one suite: acre bench pool --case frag");
        return;
    }
    for (size_t i = 0; i < args->case_count; i++) {
        const char *known = NULL;
        for (size_t k = 0; (known = only->case_at(k)) && strcmp(known, args->cases[i]) != 0; k++) {
        }
        if (!known) {
            bench_refuse_case(state, only, args->cases[i]);
        }
    }
}

/* Rejects combinations of options that are not supported. */
static void bench_parse_end(struct argp_state *state) {
    const struct bench_args *args = state->input;
    if (args->chart && !bench_charted(args)) {
        argp_error(state, "--chart needs the suite grow or heap");
    }
    if (args->chart && args->output && strcmp(args->chart, args->output) == 0) {
        argp_error(state, "--chart and --output name the same file");
    }
    if (args->json && (write_is_stdout(args->chart) || write_is_stdout(args->output))) {
        argp_error(state, "--json and '-' both write to standard output: choose one");
    }
    if (args->case_count) {
        bench_parse_cases(state);
    }
}

static error_t bench_parse(int key, char *arg, struct argp_state *state) {
    struct bench_args *args = state->input;
    switch (key) {
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case CLI_KEY_DEVICE:
        args->device = arg;
        return 0;
    case CLI_KEY_OUTPUT:
        args->output = arg;
        return 0;
    case CLI_KEY_FORCE:
        args->force = true;
        return 0;
    case BENCH_KEY_QUICK:
        args->quick = true;
        return 0;
    case BENCH_KEY_CHART:
        args->chart = arg;
        return 0;
    case ARGP_KEY_ARG:
        for (size_t i = 0; i < BENCH_SUITES; i++) {
            if (strcmp(arg, bench_suites[i].name) == 0) {
                args->wanted[i] = 1;
                args->some = true;
                return 0;
            }
        }
        bench_refuse_suite(state, arg);
        return 0;
    case BENCH_KEY_CASE:
        if (args->case_count == BENCH_CASES) {
            argp_error(state, "--case can be given at most %d times", BENCH_CASES);
        }
        args->cases[args->case_count++] = arg;
        return 0;
    case ARGP_KEY_END:
        bench_parse_end(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The end of --help. */
static const char bench_details[] =
    "All suites run if none is named. Each case is measured for all parties in\n"
    "turn, round by round; a figure is the median of the rounds. Each suite takes\n"
    "less than a minute on a GPU.\n"
    "\n"
    "Columns:\n"
    "  SUITE, CASE  what is measured\n"
    "  WHO          the party: acre; driver (CUDA's own calls); malloc (glibc);\n"
    "               floor (a lower bound: the same work without an allocator); or\n"
    "               another peer\n"
    "  VALUE, UNIT  the median; larger is better for units in /s, smaller for\n"
    "               times; 'times' and 'ratio' are quotients\n"
    "  ACRE IS      how many times faster or slower acre is than this party\n"
    "The JSON has more figures than the table: every growth of the suite grow, and\n"
    "every number of threads of the suite heap.\n"
    "\n"
    "Cases of the suite pool, for --case:\n"
    "  pair          one allocation and its free, 256 bytes to 64 MiB\n"
    "  random        1000 live blocks of 256 B to 2 MiB, replaced one by one\n"
    "  threads       pairs of 64 KiB by 1 to 16 threads with one pool\n"
    "  cross-thread  one thread allocates, another frees\n"
    "  handover      eight threads allocate, eight others free\n"
    "  cross-stream  allocated on one stream, freed on another\n"
    "  live          1000 to 10^6 live blocks, replaced one by one\n"
    "  busy          the longest call while another stream is blocked for 50 ms\n"
    "  frag          reserved memory / live memory for a long-tailed mix of sizes\n"
    "  drift         reserved memory / live memory if sizes change from step to\n"
    "                step\n"
    "  idle          memory held by idle threads\n"
    "  survivors     memory held for the 2 % of small blocks that survive\n"
    "  streams       pairs on 4096 streams in turn, and in 1000 pools in turn\n"
    "  trim          time of acre_pool_trim after 8 million frees\n"
    "  use           GPU only: bandwidth of kernels and copies in memory of a pool\n"
    "  trace         pairs of 64 KiB with and without a trace\n"
    "\n"
    "Cases of the suite heap, for --case:\n"
    "  alloc    each of 2^10 to 2^20 threads allocates a block, then frees it;\n"
    "           'cold' is the first use of a heap\n"
    "  large    alloc for blocks of 16 KiB to 64 MiB, with fewer threads\n"
    "  scatter  alloc, but each thread frees the block of another one\n"
    "  driver   alloc against CUDA's malloc\n"
    "  churn    allocate, use and free in one kernel, many times\n"
    "  fill     fill a heap, free all, fill it again; time to get NULL when it is\n"
    "           full\n"
    "  rounds   15 of 16 blocks are freed at random until the heap is full\n"
    "  grow     a kernel needs 1 GiB of a heap that starts with 8 MiB\n"
    "  threads  host threads use the heap of a soft device, against malloc\n"
    "\n"
    "Cases of the suite plan, for --case:\n"
    "  place  pack generated buffers, against greedy first fit and best fit\n"
    "  loop   a step of 1000 blocks served by a recorded plan, against the pool and\n"
    "         malloc\n"
    "  want   10,000 requests, queued and satisfied or satisfied at once, against\n"
    "         malloc; and with lifetimes and a commit\n"
    "\n"
    "Sizes are limited by the memory of the device and the host, and to 256 MiB on\n"
    "a soft device. Cases that need more memory are skipped. A message reports\n"
    "both. The suite heap checks the contents of blocks between the timed kernels,\n"
    "and the suite plan checks its plans. Without nvcc at build time there are no\n"
    "kernels for a GPU, and the suite heap is skipped there.\n"
    "\n"
    "Examples:\n"
    "  acre bench\n"
    "  acre bench copy --device cuda\n"
    "  acre bench copy pin --output figures.json\n"
    "  acre bench grow --chart growth.svg\n"
    "  acre bench pool --case frag --case drift\n"
    "  acre bench heap --case alloc --chart heap.svg\n"
    "  acre bench plan --case place\n"
    "  acre bench --json | jq '.results[] | select(.who == \"acre\")'\n"
    "\n"
    "Exit status:\n"
    "  0   success\n"
    "  1   a suite found an error, such as overlapping blocks\n"
    "  2   a suite could not be measured, or a file cannot be written\n"
    "  64  wrong usage\n";

static char *bench_help_filter(int key, const char *text, void *input) {
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC) {
        return (char *)(uintptr_t)text;
    }
    char *help = cli_format("Suites:\n");
    for (size_t i = 0; i < BENCH_SUITES; i++) {
        char *longer =
            cli_format("%s  %-8s %s\n", help, bench_suites[i].name, bench_suites[i].help);
        free(help);
        help = longer;
    }
    char *whole = cli_format("%s\n%s", help, bench_details);
    free(help);
    return whole;
}

static struct write_file bench_output(const struct bench_args *args, const char *path,
                                      enum write_kind kind) {
    return (struct write_file){.path = path, .kind = kind, .force = args->force};
}

/* Checks the output files before the measurements. */
static int bench_check_outputs(const struct bench_args *args) {
    const struct write_file chart = bench_output(args, args->chart, WRITE_SVG);
    const struct write_file output = bench_output(args, args->output, WRITE_BENCH);
    int code = args->chart ? write_check(&chart) : CLI_OK;
    return args->output && code == CLI_OK ? write_check(&output) : code;
}

/* Writes the files, then the JSON or the table, unless a file is standard output. */
static int bench_print(const struct bench *bench, const struct bench_args *args,
                       const acre_device_info *info, const char *command) {
    struct write_file chart = bench_output(args, args->chart, WRITE_SVG);
    struct write_file output = bench_output(args, args->output, WRITE_BENCH);
    int code = args->chart ? bench_write_chart(bench, &chart) : CLI_OK;
    if (args->output && code == CLI_OK) {
        code = bench_write_json(bench, &output, info, command);
    }
    if (code != CLI_OK || write_is_stdout(args->chart) || write_is_stdout(args->output)) {
        return code;
    }
    if (args->json) {
        cli_json_end(bench_json(bench, info, command));
    } else {
        bench_print_table(bench);
    }
    return CLI_OK;
}

/* Runs the suites with the device's context current, as in a program that uses CUDA. */
static int bench_run(struct bench *bench, const struct bench_args *args,
                     const acre_device_info *info) {
    CUdevice device;
    CUcontext context;
    if (bench->drv->cuDeviceGet(&device, (int)info->ordinal) ||
        bench->drv->cuDevicePrimaryCtxRetain(&context, device)) {
        cli_say("cannot get a context from the driver");
        return CLI_CANNOT;
    }
    int code = CLI_OK;
    if (bench->drv->cuCtxSetCurrent(context)) {
        cli_say("cannot make the driver's context current");
        code = CLI_CANNOT;
    }
    for (size_t i = 0; i < BENCH_SUITES && code == CLI_OK; i++) {
        if (args->some && !args->wanted[i]) {
            continue;
        }
        bench->suite = bench_suites[i].name;
        bench->wants_chart = args->chart && bench_charted(args) == &bench_suites[i];
        bench->is_others_failure = false;
        if (bench_suites[i].run(bench)) {
            const char *detail = *bench->reason ? bench->reason : cli_detail();
            cli_say("suite %s could not be measured: %s", bench->suite,
                    bench->is_others_failure || !*detail ? "a call that is not acre's failed"
                                                         : detail);
            code = CLI_CANNOT;
        }
    }
    bench->drv->cuCtxSetCurrent(NULL);
    bench->drv->cuDevicePrimaryCtxRelease(device);
    return code;
}

static const struct argp_option bench_options[] = {
    {"json", CLI_KEY_JSON, NULL, 0, "print JSON (schema acre-bench/1) instead of a table", 0},
    {"device", CLI_KEY_DEVICE, "NAME", 0,
     "device to use: auto, cuda, cuda:1, soft, soft:1, ... (default: auto)", 0},
    {"output", CLI_KEY_OUTPUT, "FILE", 0,
     "write the JSON to FILE; the table goes to standard output. '-' writes the JSON there "
     "instead",
     0},
    {"chart", BENCH_KEY_CHART, "FILE", 0,
     "draw the results of the suite grow or heap into FILE as SVG; if both run, those of grow. '-' "
     "is standard output",
     0},
    {"force", CLI_KEY_FORCE, NULL, 0,
     "replace a file that acre did not write with --output or --chart", 0},
    {"case", BENCH_KEY_CASE, "NAME", 0,
     "run only this case of the suite pool, heap or plan, which must be the only suite; may be "
     "repeated",
     0},
    {"quick", BENCH_KEY_QUICK, NULL, 0,
     "use small sizes and few rounds, to test that all works; the figures mean little", 0},
    {0}};

int cmd_bench(int argc, char **argv) {
    const struct argp argp = {.options = bench_options,
                              .parser = bench_parse,
                              .args_doc = "[SUITE...]",
                              .doc =
                                  "Benchmarks acre against the driver and other allocators, each "
                                  "case for all of them in one run.\v",
                              .help_filter = bench_help_filter};
    struct bench_args args = {0};
    char *command = bench_command(argc, argv);
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        free(command);
        return CLI_USAGE;
    }
    int outputs = bench_check_outputs(&args);
    if (outputs) {
        free(command);
        return outputs;
    }
    cli_log_to_stderr();
    struct bench bench = {0};
    acre_device_info info = {.struct_size = sizeof info};
    acre_status status = acre_open(args.device, NULL, &bench.device);
    if (status == ACRE_OK) {
        status = acre_device_get_info(bench.device, &info);
    }
    if (status != ACRE_OK) {
        cli_say_failure("cannot open the device", status);
        free(command);
        return CLI_CANNOT;
    }
    bench.drv = bench.device->drv;
    bench.is_soft = strcmp(info.driver, "soft") == 0;
    bench.is_quick = args.quick;
    bench.cases = args.cases;
    bench.case_count = args.case_count;
    bench.info = &info;
    int code = bench_run(&bench, &args, &info);
    code = code ? code : bench_print(&bench, &args, &info, command);
    for (size_t i = 0; i < bench.count; i++) {
        free(bench.figures[i].name);
    }
    free(bench.figures);
    free(bench.chart);
    free(command);
    acre_close(bench.device);
    return code == CLI_OK && bench.has_finding ? CLI_FINDING : code;
}
