/* acre snapshot: asks a running program for everything that its pools have (acre_snapshot), over
 * its control socket. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "control_ask.h"
#include "write_file.h"

struct snapshot_args {
    long pid;         /* 0: not given */
    const char *path; /* NULL: acre-PID.snapshot.json */
    bool force;
};

static const struct argp_option snapshot_options[] = {
    {"output", 'o', "FILE", 0, "write to FILE (default: acre-PID.snapshot.json); '-': stdout", 0},
    {"force", 'f', NULL, 0, "replace FILE even if it is no snapshot", 0},
    {0}};

static const char snapshot_doc[] =
    "Writes everything that a running program has from acre to a file."
    "\v"
    "The program must use acre with ACRE_CONTROL=1, or a GPU under 'acre run'. It\n"
    "answers without a call of the GPU's driver and continues meanwhile; a pool\n"
    "waits while it is copied, about 0.1 s for a million blocks. The file is JSON\n"
    "(schema acre-snapshot/1): every live block with address, size and tag, and\n"
    "with ACRE_STACKS its call stack, stream and age; free memory, and what it\n"
    "waits for; physical memory; memory outside pools.\n"
    "\n"
    "'acre report FILE' shows it as a map of addresses. A program can write one\n"
    "itself with acre_snapshot, or when it is out of memory with\n"
    "ACRE_SNAPSHOT_ON_OOM=FOLDER.\n"
    "\n"
    "Examples:\n"
    "  acre run -- python3 train.py &\n"
    "  acre snapshot $!\n"
    "  acre snapshot -o - $! | jq '[.pools[].blocks[].bytes] | add'\n"
    "\n"
    "Exit status:\n"
    "  0   the file was written\n"
    "  2   there is no such process, it does not answer, or the file cannot be\n"
    "      written\n"
    "  64  wrong usage\n";

static error_t snapshot_parse(int key, char *arg, struct argp_state *state) {
    struct snapshot_args *args = state->input;
    switch (key) {
    case 'o':
        args->path = arg;
        return 0;
    case 'f':
        args->force = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num) {
            argp_error(state, "too many arguments");
        }
        args->pid = control_parse_pid(state, arg);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no process given");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cmd_snapshot(int argc, char **argv) {
    static const struct argp argp = {.options = snapshot_options,
                                     .parser = snapshot_parse,
                                     .args_doc = "PID",
                                     .doc = snapshot_doc};
    struct snapshot_args args = {0};
    if (cli_argp_parse(&argp, argc, argv, 0, &args) != 0) {
        return CLI_USAGE;
    }
    char *path =
        args.path ? cli_format("%s", args.path) : cli_format("acre-%ld.snapshot.json", args.pid);
    struct write_file file = {.path = path, .kind = WRITE_SNAPSHOT, .force = args.force};
    char *text = NULL;
    size_t bytes = 0;
    int code = write_check(&file);
    if (code == CLI_OK) {
        code = control_ask(args.pid, "snapshot", &text, &bytes) ? CLI_OK : CLI_CANNOT;
    }
    if (code == CLI_OK) {
        (void)fwrite(text, 1, bytes, write_begin(&file));
        code = write_end(&file);
    }
    if (code == CLI_OK && !write_is_stdout(path)) {
        cli_say("%s: %zu bytes", path, bytes);
    }
    free(text);
    free(path);
    return code;
}
