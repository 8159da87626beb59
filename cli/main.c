/* The `acre` tool: looks up the command in one table and runs it.
 *
 * Options before the command belong to the tool, options after it to the command. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct main_command {
    const char *name;
    const char *help; /* one line */
    int (*run)(int argc, char **argv);
};

static const struct main_command main_commands[] = {
    {"info", "list devices and their capabilities", cmd_info},
    {"doctor", "check this machine and say what to fix", cmd_doctor},
    {"demo", "try every part of acre and write a page with the results", cmd_demo},
    {"replay", "replay allocation traces on a pool", cmd_replay},
    {"plan", "pack buffers with known lifetimes into little memory", cmd_plan},
    {"bench", "benchmark acre against the driver and other allocators", cmd_bench},
    {"trace", "show what a program did with memory, from its trace", cmd_trace},
    {"report", "write a page about a program's memory, from its trace", cmd_report},
    {"export", "convert a trace to the formats of other tools", cmd_export},
    {"stats", "show the statistics of a running program", cmd_stats},
    {"top", "show the memory of all running programs, live", cmd_top},
    {"ps", "list the memory of all running programs once", cmd_ps},
    {"snapshot", "save a snapshot of a running program's memory", cmd_snapshot},
    {"symbolize", "replace addresses in a text by functions and lines", cmd_symbolize},
    {"run", "run a CUDA program on acre: on a GPU, or without one", cmd_run},
    {"limit", "show or change the memory limit of a program", cmd_limit},
    {"suspend", "take a program's memory off its devices, and keep the contents", cmd_suspend},
    {"resume", "bring the memory of a suspended program back", cmd_resume},
};

enum { MAIN_COMMAND_COUNT = sizeof main_commands / sizeof main_commands[0] };

static void main_version(FILE *stream, struct argp_state *state) {
    (void)state;
    fprintf(stream, "acre %s\n", acre_version());
}

/* Variables that users do not set: `acre run` sets them for its program, or the tests of acre do.
 * --help leaves them out. test_cli_help.sh checks that each one exists. */
static const char *const main_internal[] = {
    "ACRE_SOFT_LIBRARIES", "ACRE_SHIM_LIBRARIES", "ACRE_RUN",
    "ACRE_FAULT",          "ACRE_REQUIRE_CUDA",   "ACRE_DATA"};

static bool main_is_internal(const char *name) {
    for (size_t i = 0; i < sizeof main_internal / sizeof main_internal[0]; i++) {
        if (strcmp(name, main_internal[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Prints text from column 26 on and wraps it at column 78: argp would continue at column 0. */
static void main_wrap(FILE *out, const char *text) {
    enum { LEFT = 26, RIGHT = 78 };
    int column = LEFT;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (column > LEFT && column + 1 + length > RIGHT) {
            fprintf(out, "\n%*s", LEFT, "");
            column = LEFT;
        } else if (column > LEFT) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", length, text);
        column += length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

/* Appends commands, devices, examples, variables and exit codes to --help. */
static char *main_help_filter(int key, const char *text, void *input) {
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC) {
        return (char *)(uintptr_t)text;
    }
    char *help = NULL;
    size_t help_bytes = 0;
    FILE *out = open_memstream(&help, &help_bytes);
    if (!out) {
        return NULL;
    }
    fputs("Commands:\n", out);
    for (size_t i = 0; i < MAIN_COMMAND_COUNT; i++) {
        fprintf(out, "  %-9s %s\n", main_commands[i].name, main_commands[i].help);
    }
    fputs("\n'acre COMMAND --help' describes a command and its options.\n", out);
    fputs("\nDevices:\n"
          "  cuda, cuda:1   a GPU, through NVIDIA's driver\n"
          "  soft, soft:1   a soft device: the driver's calls in software, on any machine\n"
          "  auto           the first GPU, or the soft device if there is none\n"
          "\nData goes to standard output, messages to standard error. Sizes accept the\n"
          "suffixes K, M, G, T and KiB, MiB, GiB, TiB (powers of 1024), and KB, MB, GB,\n"
          "TB (powers of 1000).\n",
          out);
    fputs("\nExamples:\n"
          "  acre info                     list all devices, GPUs first\n"
          "  acre info --json | jq -r '.devices[0].driver'\n"
          "  acre doctor                   check this machine\n"
          "  acre demo --output /tmp/demo  write /tmp/demo/index.html\n"
          "  acre plan buffers.csv --svg plan.svg\n"
          "  acre run --device soft --leaks -- ./program\n"
          "  ACRE_SOFT_BYTES=64GiB acre info --device soft\n",
          out);
    fputs("\nEnvironment:\n", out);
    const char *name, *kind, *meaning;
    for (size_t i = 0; acre_config_describe(i, &name, &kind, &meaning) == ACRE_OK; i++) {
        if (!main_is_internal(name)) {
            fprintf(out, "  %-23s ", name);
            main_wrap(out, meaning);
        }
    }
    fputs("  NO_COLOR                if set and not empty: no colour, even on a terminal\n", out);
    fputs("\nA value that cannot be parsed is an error. An unknown variable that begins\n"
          "with ACRE_ causes a warning, in a program's log (ACRE_LOG=stderr).\n",
          out);
    fputs("\nExit status:\n"
          "  0   success\n"
          "  1   the command ran and found a problem\n"
          "  2   the command could not run\n"
          "  64  wrong usage\n",
          out);
    if (fclose(out) != 0) {
        free(help);
        return NULL;
    }
    return help;
}

static error_t main_parse(int key, char *arg, struct argp_state *state) {
    int *command_index = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        (void)arg;
        *command_index = state->next - 1;
        state->next = state->argc; /* the command parses the rest */
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no command given");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int main_unknown(const char *word) {
    size_t best = 0, best_distance = SIZE_MAX;
    for (size_t i = 0; i < MAIN_COMMAND_COUNT; i++) {
        size_t distance = cli_distance(word, main_commands[i].name);
        if (distance < best_distance) {
            best = i;
            best_distance = distance;
        }
    }
    /* A typo changes at most two letters, and at most half of a short word. */
    size_t length = strlen(word);
    bool near = best_distance <= 2 && best_distance * 2 <= length;
    if (near) {
        cli_say("there is no command '%.40s'; did you mean '%s'?", word, main_commands[best].name);
    } else {
        cli_say("there is no command '%.40s'", word);
    }
    fputs("acre: the commands are:", stderr);
    for (size_t i = 0; i < MAIN_COMMAND_COUNT; i++) {
        fprintf(stderr, "%s %s", i == 0 ? "" : ",", main_commands[i].name);
    }
    fputs("; 'acre --help' describes them\n", stderr);
    return CLI_USAGE;
}

/* Runs a command. argv[0] becomes "acre <command>", the name that messages show. */
static int main_run(const char *word, int argc, char **argv) {
    for (size_t i = 0; i < MAIN_COMMAND_COUNT; i++) {
        if (strcmp(word, main_commands[i].name) == 0) {
            char *program = cli_format("acre %s", word), help[] = "--help";
            if (argc > 1 && strcmp(argv[1], "-h") == 0) { /* also for run, which has its own argp */
                argv[1] = help;
            }
            argv[0] = program;
            int result = main_commands[i].run(argc, argv);
            argv[0] = NULL;
            free(program);
            return result;
        }
    }
    return main_unknown(word);
}

int main(int argc, char **argv) {
    static const struct argp argp = {.parser = main_parse,
                                     .args_doc = "COMMAND [OPTION...]",
                                     .doc = "Inspect and test GPU memory.\v ",
                                     .help_filter = main_help_filter};
    int command_index = 0;

    cli_streams_init();
    argp_err_exit_status = CLI_USAGE;
    argp_program_version_hook = main_version;
    if (argc < 1) { /* execve allows an empty argv, argp does not */
        return CLI_USAGE;
    }
    if (cli_argp_parse(&argp, argc, argv, ARGP_IN_ORDER, &command_index) != 0) {
        return CLI_USAGE;
    }
    const char *word = argv[command_index];
    if (strcmp(word, "help") != 0) {
        return main_run(word, argc - command_index, argv + command_index);
    }
    /* "help" and "help COMMAND" are --help and COMMAND --help. */
    char option[] = "--help";
    char *words[] = {argv[0], option, NULL};
    if (command_index + 1 < argc) {
        return main_run(argv[command_index + 1], 2, words);
    }
    return cli_argp_parse(&argp, 2, words, ARGP_IN_ORDER, &command_index) ? CLI_USAGE : CLI_OK;
}
