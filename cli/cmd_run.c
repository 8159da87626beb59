/* acre run: runs a program with acre's stand-ins for NVIDIA's libraries.
 *
 * The stand-ins (standin/) are preloaded by their paths. The loader uses a library that is already
 * loaded for any later request of the same name, whatever the program's RPATH is. The program then
 * replaces this process by execvp, so that signals, terminal and exit code are the program's. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli.h"
#include "elf_static.h"

/* Path from the folder of the installed tool to the library folder; the build sets it. */
#ifndef ACRE_TO_LIBRARIES
#define ACRE_TO_LIBRARIES "../lib"
#endif

enum {
    RUN_KEY_STATS = 's',
    RUN_KEY_LEAKS = 'l',
    RUN_KEY_BYTES = 'b',
    RUN_NOT_FOUND = 127, /* the exit codes of shells and env(1) */
    RUN_NOT_STARTED = 126,
    RUN_FIRST_FD = 100 /* programs may rely on low descriptor numbers being free */
};

static const char *const run_libraries[] = {"libcuda.so.1", "libcudart.so.13"};
enum { RUN_LIBRARIES = sizeof run_libraries / sizeof run_libraries[0] };

struct run_args {
    const char *device, *bytes; /* NULL if not given */
    bool stats, leaks;
    char **program; /* and its arguments, terminated by NULL */
};

/* ---- options --------------------------------------------------------------------------------- */

static const struct argp_option run_options[] = {
    {"device", CLI_KEY_DEVICE, "NAME", 0,
     "required: soft, a device in software (the only one supported)", 0},
    {"stats", RUN_KEY_STATS, NULL, 0,
     "when the program exits, print a table of its memory on stderr: for each kind, the number of "
     "allocations and frees, the peak, and what is left",
     0},
    {"leaks", RUN_KEY_LEAKS, NULL, 0,
     "when the program exits, list memory that was not freed on stderr, grouped by call and "
     "caller; if there is any, exit status 0 becomes 1",
     0},
    {"bytes", RUN_KEY_BYTES, "BYTES", 0,
     "memory of the device, such as 8GiB; 2MiB to 16TiB (default: ACRE_SOFT_BYTES, or a quarter of "
     "RAM)",
     0},
    {0}};

static const char run_doc[] =
    "Runs a program that uses CUDA's memory, streams and events on a machine without a GPU."
    "\v"
    "acre preloads its own libcuda.so.1 and libcudart.so.13 under the program. They\n"
    "implement the calls for memory, streams and events in software. Results and\n"
    "error codes match those of an H200, with a few exceptions that\n"
    "docs/conformance.md lists. Neither a GPU nor NVIDIA's software is needed.\n"
    "\n"
    "Programs:\n"
    "  The program must be linked with the shared CUDA 13 runtime (nvcc -cudart\n"
    "  shared) or with the driver library, or load them at run time. It can be\n"
    "  built without NVIDIA's toolkit, with acre's headers in include/soft. A\n"
    "  program that is linked statically does not see the soft device; programs\n"
    "  that it starts do.\n"
    "\n"
    "Limits:\n"
    "  Kernels need a GPU: a launch fails with cudaErrorNotSupported. So do all\n"
    "  calls outside of memory, streams and events. A line on standard error names\n"
    "  each such call, the first time.\n"
    "\n"
    "Faults:\n"
    "  Host code that accesses device memory or freed memory faults, as it does\n"
    "  with a GPU. A line on standard error names the allocation, the offset in it,\n"
    "  and where it was allocated and freed. A program that handles SIGSEGV itself\n"
    "  gets no such line.\n"
    "\n"
    "Reports:\n"
    "  --stats and --leaks print when the program exits. A program that ends by a\n"
    "  signal or by _exit prints neither. --leaks also lists memory that was still\n"
    "  allocated when its context was destroyed or reset. 'addr2line -e PROGRAM\n"
    "  0x11d8' shows the source line of program+0x11d8.\n"
    "  Processes that the program starts have their own soft devices. They print\n"
    "  their own reports, with their process number.\n"
    "  With ACRE_SOFT_CHECK=yes, uses of memory that nothing orders are reported at\n"
    "  exit.\n"
    "\n"
    "Examples:\n"
    "  acre run --device soft -- ./program --its --arguments\n"
    "  acre run --device soft --leaks --bytes 2GiB -- ctest\n"
    "  ACRE_SOFT_CHECK=yes acre run --device soft -- ./program\n"
    "\n"
    "Exit status:\n"
    "  The exit status is the program's, with these exceptions:\n"
    "  1    the program returned 0, and --leaks or ACRE_SOFT_CHECK found something\n"
    "  2    the program could not use CUDA, or the device or libraries are missing\n"
    "  64   wrong usage\n"
    "  126  the program cannot be started\n"
    "  127  there is no such program\n";

static void run_parse_bytes(struct argp_state *state, const char *text) {
    uint64_t value = 0;
    if (acre__parse_bytes(text, &value) != 0 || value < (uint64_t)2 << 20 ||
        value > (uint64_t)1 << 44) {
        argp_error(state, "--bytes takes a size from 2MiB to 16TiB, not '%s'", text);
    }
}

static error_t run_parse(int key, char *arg, struct argp_state *state) {
    struct run_args *args = state->input;
    switch (key) {
    case CLI_KEY_DEVICE:
        args->device = arg;
        return 0;
    case RUN_KEY_STATS:
        args->stats = true;
        return 0;
    case RUN_KEY_LEAKS:
        args->leaks = true;
        return 0;
    case RUN_KEY_BYTES:
        run_parse_bytes(state, arg);
        args->bytes = arg;
        return 0;
    case ARGP_KEY_ARGS:
        args->program = state->argv + state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no program given");
        return 0;
    case ARGP_KEY_END:
        if (!args->device) {
            argp_error(state, "--device soft is missing");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- the libraries --------------------------------------------------------------------------- */

/* Returns the first library that the folder lacks, or NULL if it has all. */
static const char *run_missing(const char *folder) {
    for (size_t i = 0; i < RUN_LIBRARIES; i++) {
        char *path = cli_format("%s/%s", folder, run_libraries[i]);
        bool is_there = access(path, R_OK) == 0;
        free(path);
        if (!is_there) {
            return run_libraries[i];
        }
    }
    return NULL;
}

/* Finds the folder of the stand-ins; the caller frees it. Returns NULL after a message if there is
 * none. */
static char *run_find_libraries(void) {
    const char *named = getenv("ACRE_SOFT_LIBRARIES");
    if (named && *named) {
        const char *missing = run_missing(named);
        char *folder = missing ? NULL : realpath(named, NULL);
        if (!folder) {
            cli_say("ACRE_SOFT_LIBRARIES=%s: there is no %s", named,
                    missing ? missing : "such folder");
        }
        return folder;
    }
    char tool[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", tool, sizeof tool - 1);
    if (length < 0) {
        cli_say("cannot find the path of the tool: %s; set ACRE_SOFT_LIBRARIES to the folder of %s",
                strerror(errno), run_libraries[0]);
        return NULL;
    }
    tool[length] = '\0';
    *strrchr(tool, '/') = '\0';
    static const char *const places[] = {"soft", ACRE_TO_LIBRARIES "/acre/soft"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char *folder = cli_format("%s/%s", tool, places[i]);
        if (!run_missing(folder)) {
            return folder;
        }
        free(folder);
    }
    cli_say("%s and %s are neither in %s/%s nor in %s/%s; set ACRE_SOFT_LIBRARIES to their folder",
            run_libraries[0], run_libraries[1], tool, places[0], tool, places[1]);
    return NULL;
}

/* Replaces a path with characters that are special in LD_PRELOAD by /proc/self/fd/N, with a
 * descriptor that the program inherits. Frees or returns `folder`. */
static char *run_plain_folder(char *folder) {
    if (!strpbrk(folder, " \t\n:;$")) {
        return folder;
    }
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int kept = fd < 0 ? -1 : fcntl(fd, F_DUPFD, RUN_FIRST_FD);
    free(folder);
    if (kept < 0) {
        cli_say("cannot open the folder of %s: %s", run_libraries[0], strerror(errno));
        return NULL;
    }
    close(fd);
    return cli_format("/proc/self/fd/%d", kept);
}

/* ---- the program ----------------------------------------------------------------------------- */

static void run_set(const char *name, char *value) {
    if (setenv(name, value, 1) != 0) {
        cli_say("out of memory");
        exit(CLI_CANNOT);
    }
    free(value);
}

/* Returns VALUE followed by the current value of the variable. */
static char *run_in_front(const char *value, const char *name) {
    const char *before = getenv(name);
    return cli_format("%s%s%s", value, before && *before ? ":" : "", before ? before : "");
}

/* Sets the environment of the program. Libraries that are already preloaded stay in front, since a
 * sanitizer's library must be the first. If the program itself links the sanitizer,
 * verify_asan_link_order=0 keeps it from complaining that it is not the first. Programs that open
 * libcuda.so by that name find it through LD_LIBRARY_PATH: it is the library already loaded. */
static void run_set_environment(const struct run_args *args, const char *folder) {
    const char *before = getenv("LD_PRELOAD");
    run_set("LD_PRELOAD",
            cli_format("%s%s%s/%s:%s/%s", before ? before : "", before && *before ? ":" : "",
                       folder, run_libraries[0], folder, run_libraries[1]));
    run_set("LD_LIBRARY_PATH", run_in_front(folder, "LD_LIBRARY_PATH"));
    run_set("ASAN_OPTIONS", run_in_front("verify_asan_link_order=0", "ASAN_OPTIONS"));
    run_set("ACRE_RUN", cli_format("%ld%s%s", (long)getpid(), args->stats ? ",stats" : "",
                                   args->leaks ? ",leaks" : ""));
    if (args->bytes) {
        run_set("ACRE_SOFT_BYTES", cli_format("%s", args->bytes));
    }
}

static bool run_can_start(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* Whether the program is linked statically, so that no loader preloads the libraries. Searches PATH
 * as execvp does. */
static bool run_is_static(const char *program) {
    const char *folders = getenv("PATH");
    if (strchr(program, '/')) {
        return elf_is_static(program);
    }
    for (folders = folders ? folders : "/bin:/usr/bin";; folders++) {
        size_t length = strcspn(folders, ":");
        char *path =
            cli_format("%.*s/%s", length ? (int)length : 1, length ? folders : ".", program);
        bool is_there = run_can_start(path), is_static = is_there && elf_is_static(path);
        free(path);
        folders += length;
        if (is_there || !*folders) {
            return is_static;
        }
    }
}

int cmd_run(int argc, char **argv) {
    static const struct argp argp = {.options = run_options,
                                     .parser = run_parse,
                                     .args_doc = "[--] PROGRAM [ARGUMENT...]",
                                     .doc = run_doc};
    struct run_args args = {0};
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &args) != 0) {
        return CLI_USAGE;
    }
    if (strcmp(args.device, "soft") != 0 && strcmp(args.device, "soft:0") != 0) {
        cli_say("--device '%.40s' is not supported yet: use --device soft", args.device);
        return CLI_CANNOT;
    }
    if (run_is_static(args.program[0])) {
        cli_say("%.200s is linked statically: acre cannot preload libraries, so the program does "
                "not see the soft device (programs that it starts do); link it dynamically",
                args.program[0]);
    }
    char *folder = run_find_libraries();
    folder = folder ? run_plain_folder(folder) : NULL;
    if (!folder) {
        return CLI_CANNOT;
    }
    run_set_environment(&args, folder);
    free(folder);
    execvp(args.program[0], args.program);
    int error = errno;
    cli_say("cannot run %.200s: %s", args.program[0], strerror(error));
    return error == ENOENT ? RUN_NOT_FOUND : RUN_NOT_STARTED;
}
