/* The `acre` tool: finds the command in one table and runs it.
 *
 * Options before the command are the tool's own; what follows belongs to the command. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

struct main_command {
    const char *name;
    const char *help; /* one line */
    int (*run)(int argc, char **argv);
};

static const struct main_command main_commands[] = {
    {"info", "which devices there are and what they can do", cmd_info},
    {"doctor", "what is wrong or missing on this machine, and what to do", cmd_doctor},
    {"demo", "try every part of acre and draw what happened", cmd_demo},
    {"replay", "replay traces of allocations on a pool", cmd_replay},
    {"plan", "place buffers with lifetimes in as little memory as can be", cmd_plan},
    {"bench", "measure acre against the driver and other peers", cmd_bench},
    {"trace", "what a program did with memory, from the trace it wrote", cmd_trace},
    {"stats", "the statistics of a running program", cmd_stats},
    {"run", "a program that uses CUDA, on a machine without a GPU", cmd_run},
};

enum { MAIN_COMMAND_COUNT = sizeof main_commands / sizeof main_commands[0] };

static void main_version(FILE *stream, struct argp_state *state) {
    (void)state;
    fprintf(stream, "acre %s\n", acre_version());
}

/* The end of --help: commands, examples, variables and exit codes, each from its own table. */
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
        fprintf(out, "  %-8s %s\n", main_commands[i].name, main_commands[i].help);
    }
    fputs("\n'acre COMMAND --help' says what a command takes.\n", out);
    fputs("\nExamples:\n"
          "  acre info                     all devices, GPUs first\n"
          "  acre info --json | jq -r '.devices[0].driver'\n"
          "  acre doctor                   checks this machine\n"
          "  acre demo --output /tmp/demo  writes /tmp/demo/index.html\n"
          "  acre plan buffers.csv --svg plan.svg\n"
          "  acre run --device soft --leaks -- ./program\n"
          "  ACRE_SOFT_BYTES=64GiB acre info --device soft\n",
          out);
    fputs("\nEnvironment:\n", out);
    const char *name, *kind, *meaning;
    for (size_t i = 0; acre_config_describe(i, &name, &kind, &meaning) == ACRE_OK; i++) {
        fprintf(out, "  %-19s %s\n", name, meaning);
    }
    fputs("  NO_COLOR            no colour, even on a terminal\n", out);
    fputs("\nExit codes: 0 all well, 1 something was found, 2 could not run, 64 wrong use.\n", out);
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
        state->next = state->argc; /* the rest is the command's */
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
    /* Two slips, or half of a short word: further away it is another word, not a slip. */
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
    fputs("; 'acre --help' says what they do\n", stderr);
    return CLI_USAGE;
}

/* Runs a command; argv[0] becomes its name as messages show it. */
static int main_run(const char *word, int argc, char **argv) {
    for (size_t i = 0; i < MAIN_COMMAND_COUNT; i++) {
        if (strcmp(word, main_commands[i].name) == 0) {
            char *program = cli_format("acre %s", word);
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
                                     .doc = "GPU memory, looked at and tried.\v ",
                                     .help_filter = main_help_filter};
    int command_index = 0;

    cli_streams_init();
    argp_err_exit_status = CLI_USAGE;
    argp_program_version_hook = main_version;
    if (argc < 1) { /* execve allows it; argp does not */
        return CLI_USAGE;
    }
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &command_index) != 0) {
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
    return argp_parse(&argp, 2, words, ARGP_IN_ORDER, NULL, &command_index) ? CLI_USAGE : CLI_OK;
}
