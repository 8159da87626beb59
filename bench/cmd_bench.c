/* acre bench: runs suites on a device, prints a table with ratios, or JSON (schema acre-bench/1).
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "cli.h"

static const struct bench_suite bench_suites[] = {
    {"ground", "streams and events against the driver's own calls", bench_ground},
};

enum { BENCH_SUITES = sizeof bench_suites / sizeof bench_suites[0], BENCH_ROUNDS = 21 };

struct bench_figure {
    const char *suite;
    char *name;
    const char *who, *unit;
    double value;
};

struct bench {
    acre_device *device;
    const struct acre__driver *drv;
    const char *suite;
    struct bench_figure *figures;
    size_t count;
};

acre_device *bench_device(struct bench *bench) {
    return bench->device;
}

const struct acre__driver *bench_driver(struct bench *bench) {
    return bench->drv;
}

void bench_result(struct bench *bench, const char *name, const char *who, double value,
                  const char *unit) {
    struct bench_figure *longer = cli_alloc((bench->count + 1) * sizeof *longer);
    if (bench->count) {
        memcpy(longer, bench->figures, bench->count * sizeof *longer);
    }
    free(bench->figures);
    longer[bench->count++] =
        (struct bench_figure){bench->suite, cli_format("%s", name), who, unit, value};
    bench->figures = longer;
}

static int bench_less(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int bench_compare(const bench_loop_fn *loops, void *user, unsigned loop_count, uint64_t count,
                  double *ns) {
    double *times = cli_alloc(loop_count * BENCH_ROUNDS * sizeof *times);
    for (unsigned round = 0; round < BENCH_ROUNDS + 1; round++) {
        for (unsigned i = 0; i < loop_count; i++) {
            uint64_t begin = cli_now_ns();
            if (!loops[i](user, count)) {
                free(times);
                return 0;
            }
            double each = (double)(cli_now_ns() - begin) / (double)count;
            if (round > 0) { /* the first one warms up */
                times[i * BENCH_ROUNDS + round - 1] = each;
            }
        }
    }
    for (unsigned i = 0; i < loop_count; i++) {
        qsort(times + i * BENCH_ROUNDS, BENCH_ROUNDS, sizeof *times, bench_less);
        ns[i] = times[i * BENCH_ROUNDS + BENCH_ROUNDS / 2];
    }
    free(times);
    return 1;
}

/* ---- printing ---- */

static void bench_print_json(const struct bench *bench, const acre_device_info *info) {
    json_t *root = cli_json_begin("acre-bench/1");
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
    cli_json_end(root);
}

/* acre's figure for the same case, or NULL. */
static const struct bench_figure *bench_ours(const struct bench *bench,
                                             const struct bench_figure *other) {
    for (size_t i = 0; i < bench->count; i++) {
        const struct bench_figure *figure = &bench->figures[i];
        if (figure != other && strcmp(figure->who, "acre") == 0 &&
            strcmp(figure->suite, other->suite) == 0 && strcmp(figure->name, other->name) == 0) {
            return figure;
        }
    }
    return NULL;
}

static void bench_print_table(const struct bench *bench) {
    static const char *const titles[] = {"SUITE", "CASE", "WHO", ">VALUE", "UNIT", ">ACRE IS"};
    struct cli_table table;
    cli_table_begin(&table, titles, sizeof titles / sizeof titles[0]);
    for (size_t i = 0; i < bench->count; i++) {
        const struct bench_figure *figure = &bench->figures[i];
        const struct bench_figure *ours = bench_ours(bench, figure);
        cli_table_cell(&table, CLI_DIM, "%s", figure->suite);
        cli_table_cell(&table, CLI_PLAIN, "%s", figure->name);
        cli_table_cell(&table, ours ? CLI_PLAIN : CLI_BOLD, "%s", figure->who);
        cli_table_cell(&table, CLI_PLAIN, "%.4g", figure->value);
        cli_table_cell(&table, CLI_PLAIN, "%s", figure->unit);
        if (ours && figure->value > 0) {
            cli_table_cell(&table, CLI_PLAIN, "%.2fx", ours->value / figure->value);
        } else {
            cli_table_cell(&table, CLI_DIM, "%s", "");
        }
    }
    cli_table_end(&table);
}

/* ---- the command ---- */

struct bench_args {
    bool json;
    const char *device;
    unsigned char wanted[BENCH_SUITES];
    bool some;
};

static error_t bench_parse(int key, char *arg, struct argp_state *state) {
    struct bench_args *args = state->input;
    switch (key) {
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case CLI_KEY_DEVICE:
        args->device = arg;
        return 0;
    case ARGP_KEY_ARG:
        for (size_t i = 0; i < BENCH_SUITES; i++) {
            if (strcmp(arg, bench_suites[i].name) == 0) {
                args->wanted[i] = 1;
                args->some = true;
                return 0;
            }
        }
        argp_error(state, "there is no suite '%s'", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

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
    char *whole = cli_format("%s\nExamples:\n  acre bench\n  acre bench ground --device soft\n"
                             "  acre bench --json | jq '.results[] | select(.who == \"acre\")'\n",
                             help);
    free(help);
    return whole;
}

/* Runs the suites with the device's context current, as a program that uses CUDA has it. */
static int bench_run(struct bench *bench, const struct bench_args *args,
                     const acre_device_info *info) {
    CUdevice device;
    CUcontext context;
    if (bench->drv->cuDeviceGet(&device, (int)info->ordinal) ||
        bench->drv->cuDevicePrimaryCtxRetain(&context, device)) {
        cli_say("the driver gives no context");
        return CLI_CANNOT;
    }
    int code = CLI_OK;
    if (bench->drv->cuCtxSetCurrent(context)) {
        cli_say("the driver does not make its context current");
        code = CLI_CANNOT;
    }
    for (size_t i = 0; i < BENCH_SUITES && code == CLI_OK; i++) {
        if (args->some && !args->wanted[i]) {
            continue;
        }
        bench->suite = bench_suites[i].name;
        if (bench_suites[i].run(bench)) {
            const char *detail = acre_last_detail();
            cli_say("suite %s could not be measured: %s", bench->suite,
                    *detail ? detail : "the driver refused one of its own calls");
            code = CLI_CANNOT;
        }
    }
    bench->drv->cuCtxSetCurrent(NULL);
    bench->drv->cuDevicePrimaryCtxRelease(device);
    return code;
}

int cmd_bench(int argc, char **argv) {
    static const struct argp_option options[] = {
        {"json", CLI_KEY_JSON, NULL, 0, "print JSON (schema acre-bench/1)", 0},
        {"device", CLI_KEY_DEVICE, "NAME", 0, "on this one: auto, cuda, cuda:1, soft, soft:1", 0},
        {0}};
    const struct argp argp = {.options = options,
                              .parser = bench_parse,
                              .args_doc = "[SUITE...]",
                              .doc = "Measures acre against the driver and other peers, each case "
                                     "for all of them in one run.\v",
                              .help_filter = bench_help_filter};
    struct bench_args args = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0) {
        return CLI_USAGE;
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
        return CLI_CANNOT;
    }
    bench.drv = acre_driver(bench.device);
    int code = bench_run(&bench, &args, &info);
    if (code == CLI_OK && args.json) {
        bench_print_json(&bench, &info);
    } else if (code == CLI_OK) {
        bench_print_table(&bench);
    }
    for (size_t i = 0; i < bench.count; i++) {
        free(bench.figures[i].name);
    }
    free(bench.figures);
    acre_close(bench.device);
    return code;
}
