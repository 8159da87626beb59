/* acre doctor: a list of checks. Each one is ok, warn or problem, with advice. */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

/* ---- the list -------------------------------------------------------------------------------- */

void doctor_add(struct doctor *doctor, const char *area, const char *name,
                enum doctor_result result, const char *advice, const char *format, ...) {
    if (doctor->count == doctor->room) {
        size_t room = doctor->room ? 2 * doctor->room : 32;
        struct doctor_check *checks = cli_alloc(room * sizeof *checks);
        if (doctor->count) {
            memcpy(checks, doctor->checks, doctor->count * sizeof *checks);
        }
        free(doctor->checks);
        doctor->checks = checks;
        doctor->room = room;
    }
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at; at++) { /* values of variables may contain escape codes */
        *at = (unsigned char)*at < ' ' || *at == 127 ? ' ' : *at;
    }
    doctor->checks[doctor->count++] =
        (struct doctor_check){area, cli_format("%s", name), result, cli_format("%s", text),
                              advice ? cli_format("%s", advice) : NULL};
}

static uint64_t doctor_count(const struct doctor *doctor, enum doctor_result result) {
    uint64_t count = 0;
    for (size_t i = 0; i < doctor->count; i++) {
        count += doctor->checks[i].result == result;
    }
    return count;
}

static bool doctor_has_area(const struct doctor *doctor, const char *area) {
    for (size_t i = 0; i < doctor->count; i++) {
        if (strcmp(doctor->checks[i].area, area) == 0) {
            return true;
        }
    }
    return false;
}

static void doctor_free(struct doctor *doctor) {
    for (size_t i = 0; i < doctor->count; i++) {
        free(doctor->checks[i].name);
        free(doctor->checks[i].text);
        free(doctor->checks[i].advice);
    }
    free(doctor->checks);
}

/* ---- configuration --------------------------------------------------------------------------- */

/* The lines that the library logged. It may call the log callback from any thread. */
struct doctor_log {
    pthread_mutex_t lock;
    struct {
        char area[32];
        char line[512];
    } lines[64]; /* further lines are dropped: a flood of them says nothing new */
    size_t count;
};

static struct doctor_log doctor_log = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void doctor_log_line(void *user, acre_log_level level, const char *area, const char *line) {
    (void)user;
    (void)level;
    pthread_mutex_lock(&doctor_log.lock);
    if (doctor_log.count < sizeof doctor_log.lines / sizeof doctor_log.lines[0]) {
        size_t at = doctor_log.count++;
        snprintf(doctor_log.lines[at].area, sizeof doctor_log.lines[at].area, "%s", area);
        snprintf(doctor_log.lines[at].line, sizeof doctor_log.lines[at].line, "%s", line);
    }
    pthread_mutex_unlock(&doctor_log.lock);
}

/* Lists the ACRE_* variables that are set and tries to open the automatic device. */
static void doctor_check_configuration(struct doctor *doctor) {
    static const char area[] = "configuration";
    const char *name, *kind, *meaning;
    size_t set = 0;
    for (size_t i = 0; acre_config_describe(i, &name, &kind, &meaning) == ACRE_OK; i++) {
        const char *value = getenv(name);
        if (value && *value) {
            doctor_add(doctor, area, name, DOCTOR_OK, NULL, "\"%s\": %s", value, meaning);
            set++;
        }
    }
    if (set == 0) {
        doctor_add(doctor, area, "variables", DOCTOR_OK, NULL, "no ACRE_* variable is set");
    }
    acre_device_info info;
    acre_status status = cli_device_look("auto", &info);
    if (status == ACRE_OK) {
        doctor_add(doctor, area, "automatic choice", DOCTOR_OK, NULL, "%s:%" PRIu32 ", %s%s",
                   info.driver, info.ordinal, info.name,
                   strcmp(info.driver, "soft") != 0
                       ? ""
                       : "; it cannot run kernels compiled by nvcc: a program that needs a GPU "
                         "opens its device with ACRE_OPEN_NO_SOFT, or runs with ACRE_DEVICE=cuda");
    } else {
        doctor_add(doctor, area, "automatic choice", DOCTOR_PROBLEM, cli_advice(status),
                   "cannot open auto: %s (%s)", acre_status_text(status), cli_detail());
    }
}

static void doctor_add_log(struct doctor *doctor) {
    pthread_mutex_lock(&doctor_log.lock);
    for (size_t i = 0; i < doctor_log.count; i++) {
        bool config = strcmp(doctor_log.lines[i].area, "config") == 0;
        doctor_add(doctor, config ? "configuration" : "driver", config ? "variables" : "log",
                   DOCTOR_WARN, config ? "'acre --help' lists the variables" : NULL, "%s",
                   doctor_log.lines[i].line);
    }
    pthread_mutex_unlock(&doctor_log.lock);
}

/* ---- output ---------------------------------------------------------------------------------- */

static const char *const doctor_word[] = {"ok", "warn", "problem"};

static void doctor_print_text(const struct doctor *doctor) {
    static const char *const areas[] = {"program", "driver", "device", "host", "configuration"};
    static const enum cli_style styles[] = {CLI_GREEN, CLI_YELLOW, CLI_RED};
    const char *gap = "";
    int width = 0;
    for (size_t i = 0; i < doctor->count; i++) {
        int own = (int)strlen(doctor->checks[i].name);
        width = own > width ? own : width;
    }
    for (size_t a = 0; a < sizeof areas / sizeof areas[0]; a++) {
        if (!doctor_has_area(doctor, areas[a])) {
            continue;
        }
        printf("%s%s%s%s\n", gap, cli_style_begin(stdout, CLI_BOLD), areas[a],
               cli_style_end(stdout));
        gap = "\n";
        for (size_t i = 0; i < doctor->count; i++) {
            const struct doctor_check *check = &doctor->checks[i];
            if (strcmp(check->area, areas[a]) != 0) {
                continue;
            }
            printf("  %s%-7s%s  %-*s  ", cli_style_begin(stdout, styles[check->result]),
                   doctor_word[check->result], cli_style_end(stdout), width, check->name);
            cli_wrap((size_t)width + 13, check->text);
            if (check->advice) {
                printf("  %-7s  %-*s  -> ", "", width, "");
                cli_wrap((size_t)width + 16, check->advice);
            }
        }
    }
    uint64_t problems = doctor_count(doctor, DOCTOR_PROBLEM);
    uint64_t warnings = doctor_count(doctor, DOCTOR_WARN);
    printf("\n%" PRIu64 " checks: %" PRIu64 " problem%s, %" PRIu64 " warning%s\n",
           (uint64_t)doctor->count, problems, problems == 1 ? "" : "s", warnings,
           warnings == 1 ? "" : "s");
}

static void doctor_print_json(const struct doctor *doctor) {
    json_t *root = cli_json_begin("acre-doctor/1");
    json_t *checks = json_array();
    cli_json_set(root, "problems", cli_json_number(doctor_count(doctor, DOCTOR_PROBLEM)));
    cli_json_set(root, "warnings", cli_json_number(doctor_count(doctor, DOCTOR_WARN)));
    cli_json_set(root, "devices_opened", cli_json_number(doctor->devices_opened));
    for (size_t i = 0; i < doctor->count; i++) {
        const struct doctor_check *check = &doctor->checks[i];
        json_t *item = json_object();
        cli_json_set(item, "area", cli_json_text(check->area));
        cli_json_set(item, "name", cli_json_text(check->name));
        cli_json_set(item, "result", cli_json_text(doctor_word[check->result]));
        cli_json_set(item, "text", cli_json_text(check->text));
        cli_json_set(item, "advice", check->advice ? cli_json_text(check->advice) : json_null());
        cli_json_append(checks, item);
    }
    cli_json_set(root, "checks", checks);
    cli_json_end(root);
}

/* ---- the command ----------------------------------------------------------------------------- */

struct doctor_args {
    bool json;
    const char *program; /* NULL: the machine is checked */
};

static const struct argp_option doctor_options[] = {
    {"json", CLI_KEY_JSON, NULL, 0, "print JSON (schema acre-doctor/1) instead of text", 0}, {0}};

static const char doctor_doc[] =
    "Checks this machine and says what to fix.\v"
    "Checks:\n"
    "  driver         GPUs on the PCI bus, device files, kernel module,\n"
    "                 CUDA_VISIBLE_DEVICES, driver library\n"
    "  device         for each device: whether it opens, its free memory and\n"
    "                 capabilities, whether events order two streams\n"
    "  host           memory, limits (addresses, locked memory, open files,\n"
    "                 mappings), overcommit, huge pages, /dev/shm\n"
    "  configuration  ACRE_* variables that are set, and the device that auto\n"
    "                 opens\n"
    "\n"
    "With a program, checks instead whether 'acre run' can see its CUDA calls:\n"
    "  program        file or script, processor, linking, privileges, C library,\n"
    "                 LD_PRELOAD and LD_AUDIT. Nothing of the program is run.\n"
    "  driver         as above\n"
    "\n"
    "The result of a check is ok, warn or problem. Warnings and problems come\n"
    "with advice. The checks change nothing on the machine.\n"
    "\n"
    "Examples:\n"
    "  acre doctor\n"
    "  acre doctor --json | jq '.checks[] | select(.result != \"ok\")'\n"
    "  acre doctor -- python3\n"
    "\n"
    "Exit status:\n"
    "  0   no problem; there may be warnings\n"
    "  1   a check found a problem\n"
    "  2   no device could be opened\n"
    "  64  wrong usage\n";

static error_t doctor_parse(int key, char *arg, struct argp_state *state) {
    struct doctor_args *args = state->input;
    switch (key) {
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (!state->quoted) {
            argp_error(state, "a program comes after --: acre doctor -- %.80s", arg);
        }
        args->program = arg;
        state->next = state->argc; /* the rest is for the program */
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void doctor_check_machine(struct doctor *doctor) {
    doctor_check_driver(doctor);
    doctor_check_devices(doctor);
    doctor_check_host(doctor);
    doctor_check_configuration(doctor);
}

int cmd_doctor(int argc, char **argv) {
    static const struct argp argp = {.options = doctor_options,
                                     .parser = doctor_parse,
                                     .args_doc = "[-- PROGRAM]",
                                     .doc = doctor_doc};
    struct doctor_args args = {0};
    struct doctor doctor = {0};
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        return CLI_USAGE;
    }
    (void)acre_log_set(doctor_log_line, NULL, ACRE_LOG_WARN);
    if (args.program) {
        doctor_check_program(&doctor, args.program);
        doctor_check_driver(&doctor);
    } else {
        doctor_check_machine(&doctor);
    }
    (void)acre_log_set(NULL, NULL, ACRE_LOG_ERROR);
    doctor_add_log(&doctor);
    if (args.json) {
        doctor_print_json(&doctor);
    } else {
        doctor_print_text(&doctor);
    }
    int result = doctor_count(&doctor, DOCTOR_PROBLEM) ? CLI_FINDING : CLI_OK;
    if (doctor.devices_opened == 0 && !args.program) {
        cli_say("no device could be opened");
        result = CLI_CANNOT;
    }
    doctor_free(&doctor);
    return result;
}
