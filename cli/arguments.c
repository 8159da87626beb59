/* Parses the options of a command with argp, and adds those that every command has: -h, --help,
 * --usage, -V, --version.
 *
 * argp's own help option has the letter '?' only. The parser here replaces it, so that -h works in
 * every command and appears in --help. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { OPTIONS_KEY_USAGE = 0x10000 }; /* no letter */

/* argp passes the root parser to its callbacks, from which they find the command's. */
struct options_root {
    struct argp argp; /* the first member: options_parse casts a pointer to it */
    const struct argp *command;
};

static const struct argp_option options_common[] = {
    {"help", CLI_KEY_HELP, NULL, 0, "print this help", -1},
    {NULL, '?', NULL, OPTION_HIDDEN, NULL, -1},
    {"usage", OPTIONS_KEY_USAGE, NULL, 0, "print a short usage message", -1},
    {"version", CLI_KEY_VERSION, NULL, 0, "print the version", -1},
    {0}};

static error_t options_parse(int key, char *arg, struct argp_state *state) {
    const struct options_root *root = (const struct options_root *)(const void *)state->root_argp;
    switch (key) {
    case CLI_KEY_HELP:
    case '?':
        argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
        return 0;
    case OPTIONS_KEY_USAGE:
        argp_state_help(state, state->out_stream, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
        return 0;
    case CLI_KEY_VERSION:
        argp_program_version_hook(state->out_stream, state);
        exit(CLI_OK);
    default:
        return root->command->parser(key, arg, state);
    }
}

static bool option_is_last(const struct argp_option *option) {
    return !option->name && !option->key && !option->doc && !option->group;
}

error_t cli_argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags,
                       void *input) {
    enum { COMMON = sizeof options_common / sizeof options_common[0] };
    size_t count = 0;
    while (argp->options && !option_is_last(&argp->options[count])) {
        count++;
    }
    struct argp_option *options = cli_alloc((count + COMMON) * sizeof *options);
    if (count) {
        memcpy(options, argp->options, count * sizeof *options);
    }
    memcpy(options + count, options_common, sizeof options_common);
    struct options_root root = {*argp, argp};
    root.argp.options = options;
    root.argp.parser = options_parse;
    error_t error = argp_parse(&root.argp, argc, argv, flags | ARGP_NO_HELP, NULL, input);
    free(options);
    return error;
}

/* ---- options that several commands share ----------------------------------------------------- */

static error_t shared_parse(int key, char *arg, struct argp_state *state) {
    struct cli_args *args = state->input;
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
    case CLI_KEY_MEASURE:
        args->measure = true;
        return 0;
    case CLI_KEY_FORCE:
        args->force = true;
        return 0;
    case ARGP_KEY_END:
        if (args->json && args->output && strcmp(args->output, "-") == 0) {
            argp_error(state, "--json and --output - both write to standard output: choose one");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void cli_parse_args(int argc, char **argv, const struct argp_option *options, const char *doc,
                    struct cli_args *args) {
    const struct argp argp = {.options = options, .parser = shared_parse, .doc = doc};
    *args = (struct cli_args){0};
    if (cli_argp_parse(&argp, argc, argv, 0, args) != 0) {
        exit(CLI_USAGE);
    }
}
