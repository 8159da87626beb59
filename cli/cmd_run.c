/* acre run: runs a program with acre's stand-ins for NVIDIA's libraries.
 *
 * The stand-ins (standin/) are preloaded by their paths. The loader uses a library that is already
 * loaded for any later request of the same name, whatever the program's RPATH is.
 *
 * Without a report the program replaces this process by execvp, so that signals, terminal and exit
 * code are the program's. With a report it runs in a child (run_watch.c), so that the tool can
 * still report after the program has crashed. */
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
#include "run_watch.h"

/* Path from the folder of the installed tool to the library folder; the build sets it. */
#ifndef ACRE_TO_LIBRARIES
#define ACRE_TO_LIBRARIES "../lib"
#endif

enum {
    RUN_KEY_STATS = 's',
    RUN_KEY_LEAKS = 'l',
    RUN_KEY_BYTES = 'b',
    RUN_KEY_ERRORS = 1000, /* long options only */
    RUN_KEY_CHECK,
    RUN_KEY_SUPPRESS,
    RUN_NOT_FOUND = 127, /* the exit codes of shells and env(1) */
    RUN_NOT_STARTED = 126,
    RUN_FIRST_FD = 100 /* programs may rely on low descriptor numbers being free */
};

static const char *const run_libraries[] = {"libcuda.so.1", "libcudart.so.13"};
enum { RUN_LIBRARIES = sizeof run_libraries / sizeof run_libraries[0] };

struct run_args {
    const char *device, *bytes, *rules, *out; /* NULL if not given */
    unsigned wants;                           /* enum run_want */
    bool force;
    char **program;                /* and its arguments, terminated by NULL */
    const struct run_watch *watch; /* NULL without a report */
    const char *folder;            /* of the libraries */
};

/* ---- options --------------------------------------------------------------------------------- */

static const struct argp_option run_options[] = {
    {"device", CLI_KEY_DEVICE, "NAME", 0,
     "soft, a device in software: the default, and the only one supported", 0},
    {"stats", RUN_KEY_STATS, NULL, 0,
     "when the program exits, print a table of its memory on stderr: for each kind, the number of "
     "allocations and frees, the peak, and what is left",
     0},
    {"leaks", RUN_KEY_LEAKS, NULL, 0,
     "when the program exits, list memory that was not freed on stderr, grouped by call and "
     "caller; if there is any, exit status 0 becomes 1",
     0},
    {"errors", RUN_KEY_ERRORS, NULL, 0,
     "when the program exits, list CUDA calls that returned an error on stderr, grouped by call, "
     "error and caller; if there is any, exit status 0 becomes 1",
     0},
    {"check", RUN_KEY_CHECK, NULL, 0,
     "report races between streams: uses of the same memory that nothing orders, as with "
     "ACRE_SOFT_CHECK=yes; if there is any, exit status 0 becomes 1",
     0},
    {"suppress", RUN_KEY_SUPPRESS, "FILE", 0,
     "leave out findings that match a line of FILE, such as leak:libfoo.so", 0},
    {"json", CLI_KEY_JSON, "FILE", OPTION_ARG_OPTIONAL,
     "write the reports as JSON, one line for each process, to FILE (default: stderr; -: stdout)",
     0},
    {"force", CLI_KEY_FORCE, NULL, 0,
     "with --json=FILE: replace FILE even if it is the file of suppressions or acre did not write "
     "it",
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
    "  --stats, --leaks, --errors, --check and --json print when the program\n"
    "  exits. If it calls abort or _exit, or a signal kills it, acre prints its\n"
    "  report afterwards. --leaks lists the largest leaks first. It also lists\n"
    "  memory that was still allocated when its context was destroyed or reset and,\n"
    "  of a program that uses acre itself, devices that are still open and blocks\n"
    "  that were not freed before acre_close. Memory that libacre.so holds for an\n"
    "  open device is not listed. With any report, calls that the soft device does\n"
    "  not support are listed at exit, too. --errors does not count\n"
    "  cudaErrorNotReady, nor a query of an address that CUDA does not know.\n"
    "  A call is shown as program+0x11d8, with its function and line if the program\n"
    "  has debug information (cc -g) and libdw.so.1 is installed. Messages about\n"
    "  faults have no lines: 'acre symbolize ./program+0x11d8' prints the line.\n"
    "  Processes that the program starts have their own soft devices. They print\n"
    "  their own reports, with their process number.\n"
    "  --json=FILE writes FILE when the program has ended. An existing file is\n"
    "  replaced only if acre run wrote it, unless --force is given.\n"
    "\n"
    "Races:\n"
    "  --check finds two copies or fills that use the same memory, of which at\n"
    "  least one writes it, if neither stream order nor an event or a\n"
    "  synchronization puts one after the other. It finds them in whatever order\n"
    "  they ran.\n"
    "  It does not check host code: a read or write by the host of memory that a\n"
    "  copy or a kernel still uses is not found.\n"
    "\n"
    "Suppressions:\n"
    "  Each line of the file is leak:PATTERN, error:PATTERN or race:PATTERN. '#'\n"
    "  begins a comment. The pattern must match the call (cudaMalloc), its place\n"
    "  (libfoo.so+0x11d8), its module (libfoo.so) or the error\n"
    "  (cudaErrorInvalidValue) entirely; for a race, its text. '*' matches any\n"
    "  text. A line at exit names each suppression that matched nothing.\n"
    "\n"
    "Signals:\n"
    "  With a report the program runs in a child of acre. acre forwards signals\n"
    "  that it gets from other processes to the program. If a signal kills the\n"
    "  program, acre prints the report and ends by the same signal.\n"
    "\n"
    "Examples:\n"
    "  acre run -- ./program --its --arguments\n"
    "  acre run --leaks --errors --check -- ./program\n"
    "  acre run --leaks --bytes 2GiB -- ctest\n"
    "  acre run --errors --suppress known.txt --json=report.json -- ./program\n"
    "\n"
    "Exit status:\n"
    "  The exit status is the program's, with these exceptions:\n"
    "  1    the program returned 0, and --leaks, --errors, --check or\n"
    "       ACRE_SOFT_CHECK found something in it or in a process that it started\n"
    "  2    the program could not use CUDA, the device or libraries are missing, or\n"
    "       a file cannot be read or written\n"
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
        args->wants |= RUN_WANT_STATS;
        return 0;
    case RUN_KEY_LEAKS:
        args->wants |= RUN_WANT_LEAKS;
        return 0;
    case RUN_KEY_ERRORS:
        args->wants |= RUN_WANT_ERRORS;
        return 0;
    case RUN_KEY_CHECK:
        args->wants |= RUN_WANT_CHECK;
        return 0;
    case RUN_KEY_SUPPRESS:
        args->rules = arg;
        return 0;
    case CLI_KEY_JSON:
        args->wants |= RUN_WANT_JSON;
        args->out = arg;
        return 0;
    case CLI_KEY_FORCE:
        args->force = true;
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
        if (args->rules && !args->wants) {
            argp_error(state, "--suppress needs --leaks, --errors or --check");
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

/* Returns the value of ACRE_RUN; standin/driver_run.c describes it. */
static char *run_words(const struct run_args *args) {
    char *words = cli_format("%ld", (long)getpid());
    const struct {
        const char *word;
        unsigned want;
    } rows[] = {
#define RUN_WANT(want, word, bit) {word, bit},
        RUN_WANTS(RUN_WANT)
#undef RUN_WANT
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (args->wants & rows[i].want) {
            char *more = cli_format("%s,%s", words, rows[i].word);
            free(words);
            words = more;
        }
    }
    if (args->watch) {
        long tool = (long)getppid();
        char *out = args->watch->out < 0 ? cli_format("%s", "")
                                         : cli_format(",out=%ld/%d", tool, args->watch->out);
        char *more = cli_format("%s,file=%ld/%d%s", words, tool, args->watch->file, out);
        free(words);
        free(out);
        words = more;
    }
    return words;
}

/* Sets the environment of the program. Libraries that are already preloaded stay in front, since a
 * sanitizer's library must be the first. If the program itself links the sanitizer,
 * verify_asan_link_order=0 keeps it from complaining that it is not the first. Programs that open
 * libcuda.so by that name find it through LD_LIBRARY_PATH: it is the library already loaded. */
static void run_set_environment(const struct run_args *args) {
    const char *folder = args->folder;
    const char *before = getenv("LD_PRELOAD");
    run_set("LD_PRELOAD",
            cli_format("%s%s%s/%s:%s/%s", before ? before : "", before && *before ? ":" : "",
                       folder, run_libraries[0], folder, run_libraries[1]));
    run_set("LD_LIBRARY_PATH", run_in_front(folder, "LD_LIBRARY_PATH"));
    run_set("ASAN_OPTIONS", run_in_front("verify_asan_link_order=0", "ASAN_OPTIONS"));
    run_set("ACRE_RUN", run_words(args));
    if (args->wants & RUN_WANT_CHECK) {
        run_set("ACRE_SOFT_CHECK", cli_format("yes"));
    }
    if (args->wants & (RUN_WANT_CHECK | RUN_WANT_LEAKS)) {
        setenv("ACRE_STACKS", "8",
               0); /* races and acre's blocks name calls; the user's value stays */
    }
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

/* Replaces this process by the program. Returns an exit code if that fails. */
static int run_start(const void *user) {
    const struct run_args *args = user;
    run_set_environment(args);
    execvp(args->program[0], args->program);
    int error = errno;
    cli_say("cannot run %.200s: %s", args->program[0], strerror(error));
    return error == ENOENT ? RUN_NOT_FOUND : RUN_NOT_STARTED;
}

int cmd_run(int argc, char **argv) {
    static const struct argp argp = {.options = run_options,
                                     .parser = run_parse,
                                     .args_doc = "[--] PROGRAM [ARGUMENT...]",
                                     .doc = run_doc};
    struct run_args args = {.device = "soft"};
    if (cli_argp_parse(&argp, argc, argv, ARGP_IN_ORDER, &args) != 0) {
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
    struct run_watch watch = {
        .wants = args.wants, .rules = args.rules, .json = args.out, .force = args.force};
    int code = args.wants ? run_watch_begin(&watch) : CLI_OK;
    args.folder = folder;
    if (code == CLI_OK && args.wants) {
        args.watch = &watch;
        code = run_watch_program(&watch, run_start, &args);
    } else if (code == CLI_OK) {
        code = run_start(&args);
    }
    free(folder);
    return code;
}
