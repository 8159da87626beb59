/* acre run: runs a program with acre's stand-ins for NVIDIA's libraries, or, with --watch, with the
 * shim in front of NVIDIA's driver.
 *
 * The stand-ins (standin/) are preloaded by their paths. The loader uses a library that is already
 * loaded for any later request of the same name, whatever the program's RPATH is. The shim (shim/)
 * is preloaded with a gate, which makes the program call the shim.
 *
 * Without a report the program replaces this process by execvp, so that signals, terminal and exit
 * code are the program's. With a report it runs in a child (run_watch.c), so that the tool can
 * still report after the program has crashed. */
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
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
    RUN_KEY_WATCH,
    RUN_KEY_GATE,
    RUN_NOT_FOUND = 127, /* the exit codes of shells and env(1) */
    RUN_NOT_STARTED = 126,
    RUN_FIRST_FD = 100 /* programs may rely on low descriptor numbers being free */
};

/* Libraries that are in one folder. */
struct run_set {
    const char *names[3]; /* the rest is NULL */
    const char *folder;   /* beside the tool, or below lib/acre */
    const char *variable; /* names another folder */
};

static const struct run_set run_standins = {
    {"libcuda.so.1", "libcudart.so.13", NULL}, "soft", "ACRE_SOFT_LIBRARIES"};
static const struct run_set run_shim = {
    {"libacre_shim.so", "libacre_gate.so", "libacre_dlsym.so"}, "shim", "ACRE_SHIM_LIBRARIES"};

enum run_gate { RUN_GATE_BEST, RUN_GATE_AUDIT, RUN_GATE_PRELOAD };

struct run_args {
    const char *device, *bytes, *rules, *out; /* NULL if not given */
    unsigned wants;                           /* enum run_want */
    bool force;
    enum run_gate gate;
    char **program;                /* and its arguments, terminated by NULL */
    const struct run_watch *watch; /* NULL without a report */
    const char *folder;            /* of the libraries */
};

/* ---- options --------------------------------------------------------------------------------- */

static const struct argp_option run_options[] = {
    {"device", CLI_KEY_DEVICE, "NAME", 0,
     "soft, a device in software: the default, and the only one supported", 0},
    {"watch", RUN_KEY_WATCH, NULL, 0,
     "run the program on the GPU, with NVIDIA's driver, and record its memory; without another "
     "report this prints --stats",
     0},
    {"gate", RUN_KEY_GATE, "GATE", 0,
     "with --watch: how calls are intercepted, audit (an audit library of the dynamic linker) or "
     "preload (a preloaded dlsym); default: audit with glibc 2.35 and later",
     0},
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
    "Runs a program that uses CUDA on a machine without a GPU, or watches its memory on one with a "
    "GPU (--watch)."
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
    "Memory on a GPU (--watch):\n"
    "  When a call fails for want of memory, a table on standard error says who\n"
    "  holds the memory of the card. Calls whose memory is not recorded are\n"
    "  counted. --leaks also names the code that called NVIDIA's library which\n"
    "  called the driver; ACRE_STACKS=0 switches that off.\n"
    "  'acre doctor -- PROGRAM' says why the calls of a program are not seen.\n"
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
    "Watching:\n"
    "  With --watch the program runs as it does without acre: on the GPU, with\n"
    "  NVIDIA's driver, linked with the CUDA runtime in any way. acre records the\n"
    "  calls that allocate and free device, pinned, managed, stream-ordered and\n"
    "  mapped memory, by the library that makes them. It does not see arrays,\n"
    "  memory of other processes, or memory that the driver itself allocates, such\n"
    "  as contexts. --errors lists refused calls of these kinds only. A second\n"
    "  libcuda.so.1 in a namespace of its own (dlmopen) is not watched.\n"
    "\n"
    "Examples:\n"
    "  acre run -- ./program --its --arguments\n"
    "  acre run --watch --leaks -- python3 train.py\n"
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

static enum run_gate run_parse_gate(struct argp_state *state, const char *text) {
    if (strcmp(text, "audit") != 0 && strcmp(text, "preload") != 0) {
        argp_error(state, "--gate takes audit or preload, not '%s'", text);
    }
    return strcmp(text, "audit") == 0 ? RUN_GATE_AUDIT : RUN_GATE_PRELOAD;
}

/* Checks the options together. */
static void run_check(struct argp_state *state, struct run_args *args) {
    bool is_watched = args->wants & RUN_WANT_WATCH;
    if (args->rules && !(args->wants & ~(unsigned)RUN_WANT_WATCH)) {
        argp_error(state, "--suppress needs --leaks, --errors or --check");
    }
    if (args->gate && !is_watched) {
        argp_error(state, "--gate needs --watch");
    }
    if (is_watched && (args->device || args->bytes || args->wants & RUN_WANT_CHECK)) {
        argp_error(state, "--device, --bytes and --check are for the soft device, not for --watch");
    }
    if (args->wants == RUN_WANT_WATCH) {
        args->wants |= RUN_WANT_STATS;
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
    case RUN_KEY_WATCH:
        args->wants |= RUN_WANT_WATCH;
        return 0;
    case RUN_KEY_GATE:
        args->gate = run_parse_gate(state, arg);
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
        run_check(state, args);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- the libraries --------------------------------------------------------------------------- */

/* Returns the first library that the folder lacks, or NULL if it has all. */
static const char *run_missing(const struct run_set *set, const char *folder) {
    for (size_t i = 0; i < sizeof set->names / sizeof set->names[0] && set->names[i]; i++) {
        char *path = cli_format("%s/%s", folder, set->names[i]);
        bool is_there = access(path, R_OK) == 0;
        free(path);
        if (!is_there) {
            return set->names[i];
        }
    }
    return NULL;
}

/* Finds the folder of the libraries; the caller frees it. Returns NULL after a message if there is
 * none. */
static char *run_find_libraries(const struct run_set *set) {
    const char *named = getenv(set->variable);
    if (named && *named) {
        const char *missing = run_missing(set, named);
        char *folder = missing ? NULL : realpath(named, NULL);
        if (!folder) {
            cli_say("%s=%s: there is no %s", set->variable, named,
                    missing ? missing : "such folder");
        }
        return folder;
    }
    char tool[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", tool, sizeof tool - 1);
    if (length < 0) {
        cli_say("cannot find the path of the tool: %s; set %s to the folder of %s", strerror(errno),
                set->variable, set->names[0]);
        return NULL;
    }
    tool[length] = '\0';
    *strrchr(tool, '/') = '\0';
    static const char *const places[] = {"", ACRE_TO_LIBRARIES "/acre/"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char *folder = cli_format("%s/%s%s", tool, places[i], set->folder);
        if (!run_missing(set, folder)) {
            return folder;
        }
        free(folder);
    }
    cli_say("%s and %s are neither in %s/%s nor in %s/%s%s; set %s to their folder", set->names[0],
            set->names[1], tool, set->folder, tool, places[1], set->folder, set->variable);
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
        cli_say("cannot open the folder of acre's libraries: %s", strerror(errno));
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

/* Returns the value of ACRE_RUN; ledger/ledger_run.c describes it. */
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

/* Adds a library to those that are preloaded already. These stay in front, since a sanitizer's
 * library must be the first. */
static void run_preload(const char *folder, const char *name) {
    const char *before = getenv("LD_PRELOAD");
    run_set("LD_PRELOAD", cli_format("%s%s%s/%s", before ? before : "",
                                     before && *before ? ":" : "", folder, name));
}

/* Programs that open libcuda.so by that name find the stand-in through LD_LIBRARY_PATH: it is the
 * library already loaded. */
static void run_set_standins(const char *folder) {
    run_preload(folder, run_standins.names[0]);
    run_preload(folder, run_standins.names[1]);
    run_set("LD_LIBRARY_PATH", run_in_front(folder, "LD_LIBRARY_PATH"));
}

/* Before glibc 2.35 an audit library does not see all bindings. */
static void run_set_shim(const char *folder, enum run_gate gate) {
    int major = 0, minor = 0;
    bool has_audit =
        sscanf(gnu_get_libc_version(), "%d.%d", &major, &minor) == 2 && major == 2 && minor >= 35;
    if (gate == RUN_GATE_AUDIT || (gate == RUN_GATE_BEST && has_audit)) {
        char *path = cli_format("%s/%s", folder, run_shim.names[1]);
        run_set("LD_AUDIT", run_in_front(path, "LD_AUDIT"));
        free(path);
    } else {
        run_preload(folder, run_shim.names[2]);
    }
    run_preload(folder, run_shim.names[0]);
}

/* Sets the environment of the program. If the program itself links a sanitizer,
 * verify_asan_link_order=0 keeps it from complaining that it is not the first. */
static void run_set_environment(const struct run_args *args) {
    if (args->wants & RUN_WANT_WATCH) {
        run_set_shim(args->folder, args->gate);
    } else {
        run_set_standins(args->folder);
    }
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
    struct run_args args = {.device = NULL};
    if (cli_argp_parse(&argp, argc, argv, ARGP_IN_ORDER, &args) != 0) {
        return CLI_USAGE;
    }
    if (args.device && strcmp(args.device, "soft") != 0 && strcmp(args.device, "soft:0") != 0) {
        cli_say("--device '%.40s' is not supported: use --device soft, or --watch on a GPU",
                args.device);
        return CLI_CANNOT;
    }
    if (run_is_static(args.program[0])) {
        cli_say("%.200s is linked statically: acre cannot preload libraries, so the program does "
                "not see them (programs that it starts do); link it dynamically",
                args.program[0]);
    }
    char *folder = run_find_libraries(args.wants & RUN_WANT_WATCH ? &run_shim : &run_standins);
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
