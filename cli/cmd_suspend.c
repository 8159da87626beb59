/* acre suspend: takes the memory of a running program off its devices, over its control socket. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "control_ask.h"
#include "suspend_ask.h"
#include "top_model.h"

enum { SUSPEND_KEY_KEEP = 0x600, SUSPEND_KEY_DROP, SUSPEND_KEY_STAY, SUSPEND_KEY_UNCHANGED };
enum { SUSPEND_KEY_REST = 0x610, SUSPEND_KEY_FOLDER, SUSPEND_KEY_TIMEOUT, SUSPEND_KEY_RETAIN };
static const double SUSPEND_TIMEOUT_MOST = 86400;

struct suspend_args {
    bool json, uses_file, is_retained;
    long pid; /* 0: not given */
    const char *rest, *folder;
    double timeout_s; /* 0: not given */
    char *rules;      /* fields of the request, as src/suspend/suspend_control.c reads them */
};

static const struct argp_option suspend_options[] = {
    {"keep", SUSPEND_KEY_KEEP, "TAG=host|file", 0,
     "keep the contents of blocks with this tag, in host memory or in a file", 0},
    {"drop", SUSPEND_KEY_DROP, "TAG", 0,
     "drop the contents of blocks with this tag: they are undefined afterwards", 0},
    {"stay", SUSPEND_KEY_STAY, "TAG", 0, "leave blocks with this tag on the device", 0},
    {"unchanged", SUSPEND_KEY_UNCHANGED, "TAG", 0,
     "keep blocks with this tag in host memory, and do not copy them again if an earlier suspend "
     "with --retain has: the program has not written them since",
     0},
    {"rest", SUSPEND_KEY_REST, "HOW", 0,
     "what happens to all other memory: keep (the default), file, drop or stay", 0},
    {"folder", SUSPEND_KEY_FOLDER, "DIR", 0, "where files are created, without a name", 0},
    {"timeout", SUSPEND_KEY_TIMEOUT, "SECONDS", 0,
     "how long to wait for the program's work on the device (default 30)", 0},
    {"retain", SUSPEND_KEY_RETAIN, NULL, 0,
     "keep the copies after the resume: the next suspend is faster", 0},
    {"json", CLI_KEY_JSON, NULL, 0, "print JSON (schema acre-suspend/1)", 0},
    {0}};

static const char suspend_doc[] =
    "Takes a running program's memory off its devices; 'acre resume' brings it back."
    "\v"
    "The program must use acre with ACRE_CONTROL=1, or a GPU under 'acre run'. Its\n"
    "contents are kept in host memory, kept in a file, or dropped. Addresses stay\n"
    "valid, and the device's memory is free for other programs.\n"
    "\n"
    "The command waits for the work that is running. While the memory is away,\n"
    "calls of the program that need it wait: under 'acre run' all launches, copies\n"
    "and allocations; in a program that calls acre, allocations and acre's copies.\n"
    "Frees do not wait. The program may be suspended at any moment except during\n"
    "a capture of a graph, for which the command waits.\n"
    "\n"
    "Rules choose memory by its tag (acre_tag_push), with all tags below it; the\n"
    "first one that matches applies. What stays on the device is printed: the CUDA\n"
    "context, loaded code, and memory that acre did not allocate.\n"
    "\n"
    "Examples:\n"
    "  acre run -- python3 serve.py &\n"
    "  acre suspend $!\n"
    "  acre suspend 4711 --keep weights=host --drop kv\n"
    "  acre suspend 4711 --rest file --folder /var/tmp\n"
    "  acre suspend --json 4711 | jq .released_bytes\n"
    "\n"
    "Exit status:\n"
    "  0   the memory has left\n"
    "  2   there is no such process, it does not answer, is suspended already, or\n"
    "      cannot be suspended; all memory is where it was\n"
    "  64  wrong usage\n";

/* ---- arguments ------------------------------------------------------------------------------- */

static void suspend_add(struct argp_state *state, struct suspend_args *args, const char *how,
                        const char *tag) {
    if (!*tag || strlen(tag) > 4096 || strpbrk(tag, "\t\n")) {
        argp_error(state, "TAG is a tag of acre_tag_push, such as weights or step/forward");
    }
    char *rules = cli_format("%s\t%s=%s", args->rules, how, tag);
    free(args->rules);
    args->rules = rules;
}

/* TAG=host, TAG=file, or TAG. */
static void suspend_parse_keep(struct argp_state *state, struct suspend_args *args, char *text) {
    char *where = strrchr(text, '=');
    bool is_file = where && strcmp(where + 1, "file") == 0;
    if (where && !is_file && strcmp(where + 1, "host") != 0) {
        argp_error(state, "contents are kept in 'host' or 'file', not '%s'", where + 1);
    }
    if (where) {
        *where = '\0';
    }
    args->uses_file = args->uses_file || is_file;
    suspend_add(state, args, is_file ? "file" : "keep", text);
}

static void suspend_parse_rest(struct argp_state *state, struct suspend_args *args,
                               const char *text) {
    static const char *const names[] = {"keep", "file", "drop", "stay"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            args->rest = names[i];
        }
    }
    if (!args->rest || strcmp(args->rest, text) != 0) {
        argp_error(state, "HOW is keep, file, drop or stay, not '%s'", text);
    }
    args->uses_file = args->uses_file || strcmp(text, "file") == 0;
}

static void suspend_parse_timeout(struct argp_state *state, struct suspend_args *args,
                                  const char *text) {
    char *end = NULL;
    args->timeout_s = strtod(text, &end);
    if (end == text || *end || !(args->timeout_s >= 0.001) ||
        args->timeout_s > SUSPEND_TIMEOUT_MOST) {
        argp_error(state, "SECONDS is a number from 0.001 to 86400, not '%s'", text);
    }
}

static void suspend_check(struct argp_state *state, const struct suspend_args *args) {
    if (!args->pid) {
        argp_error(state, "no process given");
    }
    if (args->uses_file && !args->folder) {
        argp_error(state, "contents in a file need --folder");
    }
}

static error_t suspend_parse(int key, char *arg, struct argp_state *state) {
    struct suspend_args *args = state->input;
    switch (key) {
    case SUSPEND_KEY_KEEP:
        suspend_parse_keep(state, args, arg);
        return 0;
    case SUSPEND_KEY_DROP:
        suspend_add(state, args, "drop", arg);
        return 0;
    case SUSPEND_KEY_STAY:
        suspend_add(state, args, "stay", arg);
        return 0;
    case SUSPEND_KEY_UNCHANGED:
        suspend_add(state, args, "unchanged", arg);
        return 0;
    case SUSPEND_KEY_REST:
        suspend_parse_rest(state, args, arg);
        return 0;
    case SUSPEND_KEY_FOLDER:
        args->folder = arg;
        return 0;
    case SUSPEND_KEY_TIMEOUT:
        suspend_parse_timeout(state, args, arg);
        return 0;
    case SUSPEND_KEY_RETAIN:
        args->is_retained = true;
        return 0;
    case CLI_KEY_JSON:
        args->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num) {
            argp_error(state, "too many arguments");
        }
        args->pid = control_parse_pid(state, arg);
        return 0;
    case ARGP_KEY_END:
        suspend_check(state, args);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Returns the request, or NULL after a message. The other process has its own current folder. */
static char *suspend_request(const struct suspend_args *args) {
    char timeout[64] = "";
    char *folder = args->folder ? realpath(args->folder, NULL) : NULL;
    if (args->folder && !folder) {
        cli_say("%s: there is no such folder", args->folder);
        return NULL;
    }
    if (folder && strpbrk(folder, "\t\n")) {
        cli_say("%s: its path has a tab or a line break; choose another folder", args->folder);
        free(folder);
        return NULL;
    }
    if (args->timeout_s > 0) {
        snprintf(timeout, sizeof timeout, "\ttimeout_ms=%.0f", args->timeout_s * 1000);
    }
    char *request = cli_format("suspend rest=%s%s%s%s%s%s", args->rest ? args->rest : "keep",
                               args->rules, folder ? "\tfolder=" : "", folder ? folder : "",
                               timeout, args->is_retained ? "\tretain" : "");
    free(folder);
    return request;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* What stays on the cards, in bytes; TOP_UNKNOWN where it is not known. */
struct suspend_stays {
    uint64_t card;    /* according to NVML */
    uint64_t acre;    /* of acre */
    uint64_t pools;   /* of the driver's default pools: cuMemAllocAsync */
    uint64_t program; /* created by the program and its libraries with cuMemCreate: JAX, NCCL */
    uint64_t other;   /* contexts, code, and other memory of the driver */
};

static struct suspend_stays suspend_look(long pid, const struct suspend_answer *answer) {
    struct suspend_stays stays = {.card = TOP_UNKNOWN,
                                  .acre = suspend_sum(answer, "stayed_bytes"),
                                  .pools = suspend_sum(answer, "driver_pool_bytes"),
                                  .program = answer->program_bytes,
                                  .other = TOP_UNKNOWN};
    struct top_state state = {0};
    top_look(&state);
    for (size_t i = 0; i < state.process_count; i++) {
        if (state.processes[i].pid == pid) {
            stays.card = state.processes[i].card_bytes;
        }
    }
    top_end(&state);
    if (stays.card != TOP_UNKNOWN) {
        uint64_t known = stays.acre + stays.pools + stays.program;
        stays.other = stays.card > known ? stays.card - known : 0;
    }
    return stays;
}

static json_t *suspend_json_bytes(uint64_t bytes) {
    return bytes == TOP_UNKNOWN ? json_null() : cli_json_number(bytes);
}

static void suspend_print_json(const struct suspend_args *args, const struct suspend_answer *answer,
                               const struct suspend_stays *stays) {
    json_t *root = suspend_json("acre-suspend/1", args->pid, answer), *left = json_object();
    cli_json_set(left, "card_bytes", suspend_json_bytes(stays->card));
    cli_json_set(left, "acre_bytes", suspend_json_bytes(stays->acre));
    cli_json_set(left, "driver_pool_bytes", suspend_json_bytes(stays->pools));
    cli_json_set(left, "program_bytes", suspend_json_bytes(stays->program));
    cli_json_set(left, "other_bytes", suspend_json_bytes(stays->other));
    cli_json_set(root, "stays", left);
    cli_json_end(root);
}

static void suspend_print_devices(const struct suspend_answer *answer) {
    static const char *const titles[] = {"DEVICE",   ">RELEASED", ">KEPT",   ">COPIED",
                                         ">DROPPED", ">IN HOST",  ">IN FILE"};
    static const char *const fields[] = {"released_bytes", "kept_bytes", "copied_bytes",
                                         "dropped_bytes",  "host_bytes", "file_bytes"};
    char text[CLI_NUMBER_BYTES];
    struct cli_table table;
    cli_table_begin(&table, titles, sizeof titles / sizeof titles[0]);
    for (size_t i = 0; i < json_array_size(answer->devices); i++) {
        const json_t *device = json_array_get(answer->devices, i);
        cli_table_cell(&table, CLI_BOLD, "%s",
                       json_string_value(json_object_get(device, "device")));
        for (size_t k = 0; k < sizeof fields / sizeof fields[0]; k++) {
            cli_table_cell(&table, CLI_PLAIN, "%s",
                           cli_bytes(suspend_number(device, fields[k]), text));
        }
    }
    cli_table_end(&table);
}

static void suspend_print(const struct suspend_args *args, const struct suspend_answer *answer,
                          const struct suspend_stays *stays) {
    char text[CLI_NUMBER_BYTES];
    printf("process %ld suspended in %.2f s\n", args->pid, answer->seconds);
    suspend_print_devices(answer);
    printf("stays on the device: ");
    if (stays->card != TOP_UNKNOWN) {
        printf("%s: ", cli_bytes(stays->card, text));
    }
    printf("%s of acre", cli_bytes(stays->acre, text));
    printf(", %s in the driver's pools", cli_bytes(stays->pools, text));
    printf(", %s that the program created with cuMemCreate", cli_bytes(stays->program, text));
    if (stays->card == TOP_UNKNOWN) {
        printf(
            ", the context, code, and other memory of the driver (NVML does not say how much)\n");
    } else {
        printf(", %s for the context, code, and other memory of the driver\n",
               cli_bytes(stays->other, text));
    }
}

int cmd_suspend(int argc, char **argv) {
    static const struct argp argp = {
        .options = suspend_options, .parser = suspend_parse, .args_doc = "PID", .doc = suspend_doc};
    struct suspend_args args = {.rules = cli_format("%s", "")};
    struct suspend_answer answer = {0};
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        free(args.rules);
        return CLI_USAGE;
    }
    char *request = suspend_request(&args);
    int code = CLI_CANNOT;
    if (request && suspend_ask(args.pid, request, &answer)) {
        code = answer.is_whole ? CLI_OK : CLI_CANNOT;
        if (json_array_size(answer.devices)) {
            struct suspend_stays stays = suspend_look(args.pid, &answer);
            if (args.json) {
                suspend_print_json(&args, &answer, &stays);
            } else {
                suspend_print(&args, &answer, &stays);
            }
        } else if (code == CLI_OK) {
            cli_say("process %ld has no device open", args.pid);
            code = CLI_CANNOT;
        }
    }
    json_decref(answer.devices);
    free(request);
    free(args.rules);
    return code;
}
