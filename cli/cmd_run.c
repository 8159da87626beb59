/* acre run: runs a program with the shim in front of NVIDIA's driver, so that its device memory
 * comes from acre's pool (or is only recorded, with --watch), or, without a GPU, with acre's
 * stand-ins for NVIDIA's libraries.
 *
 * The stand-ins (standin/) are preloaded by their paths. The loader uses a library that is already
 * loaded for any later request of the same name, whatever the program's RPATH is. The shim (shim/)
 * is preloaded with a gate, which makes the program call the shim.
 *
 * With --limit the shim is in front of whichever driver the program has, and keeps the limit.
 *
 * Without a report or a limit the program replaces this process by execvp, so that signals,
 * terminal and exit code are the program's. With either it runs in a child (run_watch.c), so that
 * the tool can still report after the program has crashed, and keeps the files that the processes
 * share. */
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli.h"
#include "elf_static.h"
#include "run_libraries.h"
#include "run_limit.h"
#include "run_limit_all.h"
#include "run_watch.h"
#include "write_file.h"

enum {
    RUN_KEY_STATS = 's',
    RUN_KEY_LEAKS = 'l',
    RUN_KEY_BYTES = 'b',
    RUN_KEY_ERRORS = 1000, /* long options only */
    RUN_KEY_CHECK,
    RUN_KEY_SUPPRESS,
    RUN_KEY_WATCH,
    RUN_KEY_GATE,
    RUN_KEY_LIMIT,
    RUN_KEY_LIMIT_EACH,
    RUN_KEY_LIMIT_ALL,
    RUN_KEY_FREE,
    RUN_KEY_ZERO,
    RUN_KEY_IPC,
    RUN_KEY_TRACE,
    RUN_NOT_FOUND = 127, /* the exit codes of shells and env(1) */
    RUN_NOT_STARTED = 126
};

enum run_gate { RUN_GATE_BEST, RUN_GATE_AUDIT, RUN_GATE_PRELOAD };

struct run_args {
    const char *device, *bytes, *rules, *out; /* NULL if not given */
    unsigned wants;                           /* enum run_want */
    bool force;
    enum run_gate gate;
    uint64_t limit; /* bytes; 0: none */
    bool limit_each, limit_all;
    bool is_watched; /* --watch: memory stays the driver's */
    bool defers, zeroes, ipc_is_real;
    const char *trace;             /* path; NULL: none */
    char **program;                /* and its arguments, terminated by NULL */
    const struct run_watch *watch; /* NULL without a report or a limit */
    int limit_file;                /* -1: none */
    char *standins, *shim;         /* folders of libraries; NULL: not used */
};

/* ---- options --------------------------------------------------------------------------------- */

static const struct argp_option run_options[] = {
    {"device", CLI_KEY_DEVICE, "NAME", 0,
     "cuda: the GPU, with NVIDIA's driver; soft: a device in software; default: the GPU if there "
     "is one",
     0},
    {"free", RUN_KEY_FREE, "HOW", 0,
     "wait, the default: cudaFree waits for the GPU's work, as the driver's does; defer: it does "
     "not wait, and the memory is reused after that work",
     0},
    {"zero", RUN_KEY_ZERO, NULL, 0,
     "zero device memory when it is allocated, for programs that read what they never wrote", 0},
    {"ipc", RUN_KEY_IPC, "HOW", 0,
     "acre: handles of cudaIpcGetMemHandle work among programs under acre run (the default); "
     "driver: blocks of 2 MiB and more come from the driver, so that any program can open them",
     0},
    {"watch", RUN_KEY_WATCH, NULL, 0,
     "leave the program's memory to NVIDIA's driver and only record it; without another report "
     "this prints --stats",
     0},
    {"gate", RUN_KEY_GATE, "GATE", 0,
     "how calls of the driver are intercepted, audit (an audit library of the dynamic linker) or "
     "preload (a preloaded dlsym); default: audit with glibc 2.35 and later",
     0},
    {"limit", RUN_KEY_LIMIT, "SIZE", 0,
     "give the program and all processes that it starts at most SIZE of device memory together, "
     "such as 20GiB; on the GPU, or on the soft device if there is none",
     0},
    {"limit-each", RUN_KEY_LIMIT_EACH, NULL, 0,
     "with --limit: each process may have SIZE for itself", 0},
    {"limit-all", RUN_KEY_LIMIT_ALL, NULL, 0,
     "with --limit: contexts, modules and all else that NVML shows of the processes counts, too",
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
    {"trace", RUN_KEY_TRACE, "FILE", 0,
     "write a trace of the program's memory to FILE, for 'acre trace'; processes that it starts "
     "write FILE.PID",
     0},
    {"suppress", RUN_KEY_SUPPRESS, "FILE", 0,
     "leave out findings that match a line of FILE, such as leak:libfoo.so", 0},
    {"json", CLI_KEY_JSON, "FILE", OPTION_ARG_OPTIONAL,
     "write the reports as JSON, one line for each process, to FILE (default: stderr; -: stdout)",
     0},
    {"force", CLI_KEY_FORCE, NULL, 0,
     "with --json=FILE and --trace: replace FILE even if it is the file of suppressions or acre "
     "did "
     "not write it",
     0},
    {"bytes", RUN_KEY_BYTES, "BYTES", 0,
     "memory of the device, such as 8GiB; 2MiB to 16TiB (default: ACRE_SOFT_BYTES, or a quarter of "
     "RAM)",
     0},
    {0}};

static const char run_doc[] =
    "Runs a program that uses CUDA with acre: its device memory comes from acre's pool. Without a "
    "GPU it runs on a device in software."
    "\v"
    "On a GPU acre puts itself in front of NVIDIA's driver. cudaMalloc and cudaFree\n"
    "take a microsecond instead of 55 to 110. Nothing else changes for the program:\n"
    "cudaFree still waits for the GPU, and error codes are the driver's. --watch\n"
    "leaves the memory to the driver, --limit gives the program less of it.\n"
    "\n"
    "Without a GPU acre preloads its own libcuda.so.1 and libcudart.so.13. They\n"
    "implement the calls for memory, streams and events in software. Results and\n"
    "error codes match those of an H200, with a few exceptions that\n"
    "docs/conformance.md lists. Neither a GPU nor NVIDIA's software is needed.\n"
    "\n"
    "On a GPU:\n"
    "  The program may be linked with the CUDA runtime in any way. Device memory of\n"
    "  cudaMalloc, cudaMallocPitch and cuMemAlloc comes from acre's pool, where the\n"
    "  device's primary context is current; everything else is the driver's. Memory\n"
    "  that acre holds idle counts as free, and goes back when the driver needs it.\n"
    "  With --free=defer cudaFree does not wait: do not use it for a program that\n"
    "  relies on cudaFree to wait for kernels or copies. More memory is in use.\n"
    "  Under compute-sanitizer, Nsight Systems and Nsight Compute acre only\n"
    "  watches.\n"
    "\n"
    "Programs on the soft device:\n"
    "  The program must be linked with the shared CUDA 13 runtime (nvcc -cudart\n"
    "  shared) or with the driver library, or load them at run time. It can be\n"
    "  built without NVIDIA's toolkit, with acre's headers in include/soft. A\n"
    "  program that is linked statically does not see the soft device; programs\n"
    "  that it starts do.\n"
    "\n"
    "Limits of the soft device:\n"
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
    "  With a report or --limit the program runs in a child of acre. acre forwards\n"
    "  signals that it gets from other processes to the program. If a signal kills\n"
    "  the program, acre prints the report and ends by the same signal.\n"
    "\n"
    "Watching:\n"
    "  With --watch the program runs as it does without acre: on the GPU, with\n"
    "  NVIDIA's driver, linked with the CUDA runtime in any way. acre records the\n"
    "  calls that allocate and free device, pinned, managed, stream-ordered and\n"
    "  mapped memory and arrays, by the library that makes them. It does not see\n"
    "  memory of other processes, or memory that the driver itself allocates, such\n"
    "  as contexts and the memory of graphs. --errors lists refused calls of these\n"
    "  kinds only.\n"
    "\n"
    "Calls that acre does not see:\n"
    "  Neither --watch nor --limit reaches a libcuda.so.1 in a namespace of its own\n"
    "  (dlmopen), nor, with --gate=preload, libraries loaded with RTLD_DEEPBIND. A\n"
    "  line at exit says if a program has gone around acre, or has not used CUDA.\n"
    "\n"
    "Limits of memory:\n"
    "  With --limit the program sees a smaller GPU. Requests beyond SIZE fail with\n"
    "  CUDA_ERROR_OUT_OF_MEMORY, and cuMemGetInfo, cuDeviceTotalMem and NVML show\n"
    "  the limit. It counts device and managed memory, memory from cuMemCreate and\n"
    "  imported memory, arrays, and what the driver's pools and graphs have\n"
    "  reserved, on all devices together. It does not count pinned memory, nor\n"
    "  contexts and loaded code without --limit-all. With --device soft, --bytes or\n"
    "  --check, or without a GPU, the program runs on the soft device. Memory of a\n"
    "  process that was killed is free again at once.\n"
    "  'acre limit PID' shows who has how much, 'acre limit PID SIZE' changes the\n"
    "  limit while the program runs.\n"
    "\n"
    "Examples:\n"
    "  acre run -- ./program --its --arguments\n"
    "  acre run --stats -- python3 train.py\n"
    "  acre run --watch --leaks -- python3 train.py\n"
    "  acre run --limit 20GiB -- python3 train.py\n"
    "  acre run --trace train.acre -- python3 train.py; acre trace train.acre\n"
    "  acre run --leaks --errors --check -- ./program\n"
    "  acre run --leaks --bytes 2GiB -- ctest\n"
    "  acre run --errors --suppress known.txt --json=report.json -- ./program\n"
    "\n"
    "Exit status:\n"
    "  The exit status is the program's, with these exceptions:\n"
    "  1    the program returned 0, and --leaks, --errors, --check or\n"
    "       ACRE_SOFT_CHECK found something in it or in a process that it started\n"
    "  2    the program could not use CUDA, the device or libraries are missing, a\n"
    "       file cannot be read or written, or the program has overwritten acre's\n"
    "       records, so that a report is incomplete\n"
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

static uint64_t run_parse_limit(struct argp_state *state, const char *text) {
    uint64_t value = 0;
    if (acre__parse_bytes(text, &value) != 0 || value < LIMIT_LEAST || value > LIMIT_MOST) {
        argp_error(state, LIMIT_SIZES, "--limit takes", text);
    }
    return value;
}

static enum run_gate run_parse_gate(struct argp_state *state, const char *text) {
    if (strcmp(text, "audit") != 0 && strcmp(text, "preload") != 0) {
        argp_error(state, "--gate takes audit or preload, not '%s'", text);
    }
    return strcmp(text, "audit") == 0 ? RUN_GATE_AUDIT : RUN_GATE_PRELOAD;
}

/* Returns true for the second of two words. */
static bool run_parse_choice(struct argp_state *state, const char *option, const char *text,
                             const char *first, const char *second) {
    if (strcmp(text, first) != 0 && strcmp(text, second) != 0) {
        argp_error(state, "%s takes %s or %s, not '%s'", option, first, second, text);
    }
    return strcmp(text, second) == 0;
}

/* Checks the options together. */
static void run_check(struct argp_state *state, struct run_args *args) {
    bool is_watched = args->wants & RUN_WANT_WATCH;
    if (args->rules && !(args->wants & ~(unsigned)RUN_WANT_WATCH)) {
        argp_error(state, "--suppress needs --leaks, --errors or --check");
    }
    if (is_watched && (args->defers || args->zeroes || args->ipc_is_real)) {
        argp_error(state, "--free, --zero and --ipc are for memory of acre, not for --watch");
    }
    if ((args->limit_each || args->limit_all) && !args->limit) {
        argp_error(state, "--limit-each and --limit-all need --limit");
    }
    bool is_cuda = is_watched || (args->device && strcmp(args->device, "cuda") == 0);
    bool is_soft = args->device && strcmp(args->device, "cuda") != 0;
    if (is_cuda && (is_soft || args->bytes || args->wants & RUN_WANT_CHECK)) {
        argp_error(state, "--device soft, --bytes and --check are for the soft device, not for "
                          "--watch or --device cuda");
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
        args->is_watched = true;
        return 0;
    case RUN_KEY_FREE:
        args->defers = run_parse_choice(state, "--free", arg, "wait", "defer");
        return 0;
    case RUN_KEY_ZERO:
        args->zeroes = true;
        return 0;
    case RUN_KEY_IPC:
        args->ipc_is_real = run_parse_choice(state, "--ipc", arg, "acre", "driver");
        return 0;
    case RUN_KEY_GATE:
        args->gate = run_parse_gate(state, arg);
        return 0;
    case RUN_KEY_LIMIT:
        args->limit = run_parse_limit(state, arg);
        return 0;
    case RUN_KEY_LIMIT_EACH:
        args->limit_each = true;
        return 0;
    case RUN_KEY_LIMIT_ALL:
        args->limit_all = true;
        return 0;
    case RUN_KEY_TRACE:
        if (write_is_stdout(arg) || !*arg) {
            argp_error(state, "--trace takes a file, not '%s'", arg);
        }
        args->trace = arg;
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

/* Appends text to a string that the caller frees. */
static char *run_append(char *words, char *more) {
    char *all = cli_format("%s%s", words, more);
    free(words);
    free(more);
    return all;
}

/* A program under a limit may start `acre run` itself: the limit stays. */
static char *run_limit_word(const struct run_args *args) {
    const char *before = getenv("ACRE_RUN"), *word = before ? strstr(before, ",limit=") : NULL;
    if (args->limit_file >= 0) {
        return cli_format(",limit=%ld/%d", (long)getppid(), args->limit_file);
    }
    return word ? cli_format(",%.*s", (int)strcspn(word + 1, ","), word + 1) : cli_format("%s", "");
}

/* The path of the trace, from the root and in hexadecimal: it may have any characters. */
static char *run_trace_word(const char *path) {
    char folder[PATH_MAX] = "";
    if (path[0] != '/' && !getcwd(folder, sizeof folder)) {
        cli_say("cannot find the current folder: %s", strerror(errno));
        exit(CLI_CANNOT);
    }
    char *full = path[0] == '/' ? cli_format("%s", path) : cli_format("%s/%s", folder, path);
    char *word = cli_format(",trace=");
    for (const char *at = full; *at; at++) {
        word = run_append(word, cli_format("%02x", (unsigned char)*at));
    }
    free(full);
    return word;
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
            words = run_append(words, cli_format(",%s", rows[i].word));
        }
    }
    if (args->watch) {
        words = run_append(words, cli_format(",file=%ld/%d", (long)getppid(), args->watch->file));
    }
    if (args->watch && args->watch->out >= 0) {
        words = run_append(words, cli_format(",out=%ld/%d", (long)getppid(), args->watch->out));
    }
    if (args->trace) {
        words = run_append(words, run_trace_word(args->trace));
    }
    if (args->standins) {
        words = run_append(words, cli_format(",soft"));
    }
    if (args->shim && !args->standins && !args->is_watched) {
        words = run_append(words, cli_format(",serve%s%s%s", args->defers ? ",defer" : "",
                                             args->zeroes ? ",zero" : "",
                                             args->ipc_is_real ? ",ipc=driver" : ""));
    }
    return run_append(words, run_limit_word(args));
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
    if (args->shim) { /* in front of a stand-in, so that programs find its functions first */
        run_set_shim(args->shim, args->gate);
    }
    if (args->standins) {
        run_set_standins(args->standins);
    }
    run_set("ASAN_OPTIONS", run_in_front("verify_asan_link_order=0", "ASAN_OPTIONS"));
    run_set("ACRE_RUN", run_words(args));
    setenv("ACRE_STATS", "1", 0); /* for `acre top`; the user's value stays */
    setenv("ACRE_CONTROL", "1", 0);
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

/* Empties an earlier trace: the program may end before it writes a new one. */
static void run_empty_trace(const struct run_args *args) {
    char *program = elf_program_path(args->program[0]);
    if (args->trace && program && truncate(args->trace, 0) != 0 && errno != ENOENT) {
        cli_say("cannot write %s: %s", args->trace, strerror(errno));
    }
    free(program);
}

/* Replaces this process by the program. Returns an exit code if that fails. */
static int run_start(const void *user) {
    const struct run_args *args = user;
    run_set_environment(args);
    run_empty_trace(args);
    execvp(args->program[0], args->program);
    int error = errno;
    cli_say("cannot run %.200s: %s", args->program[0], strerror(error));
    return error == ENOENT ? RUN_NOT_FOUND : RUN_NOT_STARTED;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Whether the options require a GPU. */
static bool run_is_cuda(const struct run_args *args) {
    return args->is_watched || (args->device && strcmp(args->device, "cuda") == 0);
}

/* Whether the program runs on the soft device: as the options say, else if there is no GPU. */
static bool run_is_soft(const struct run_args *args) {
    if (run_is_cuda(args)) {
        return false;
    }
    const char *outer = getenv("ACRE_RUN"); /* of an `acre run` that started this one */
    if (args->device || args->bytes || args->wants & RUN_WANT_CHECK ||
        (outer && strstr(outer, ",soft"))) {
        return true;
    }
    bool is_soft = !run_has_gpu();
    if (is_soft && args->limit) {
        cli_say("NVIDIA's driver has no device here: the program runs on the soft device");
    }
    return is_soft;
}

/* Finds the folders of the libraries: the shim on a GPU, the stand-ins for the soft device, and
 * both for a limit on the soft device. The shim's ledger then reports, since only it sees what the
 * limit refuses; but --check needs the stand-in's. Returns an exit code. */
static int run_choose_libraries(struct run_args *args) {
    if (run_is_cuda(args) && !run_has_gpu()) {
        cli_say("%s needs a GPU, and NVIDIA's driver has no device here ('acre doctor' says more); "
                "without it the program runs on the soft device",
                args->is_watched ? "--watch" : "--device cuda");
        return CLI_CANNOT;
    }
    bool is_soft = run_is_soft(args), has_shim = !is_soft || args->limit || args->trace;
    bool is_recorded = args->wants || (args->trace && (is_soft || args->is_watched));
    if (has_shim && is_recorded && !(args->wants & RUN_WANT_CHECK)) {
        args->wants |= RUN_WANT_WATCH;
    }
    if (is_soft && (args->defers || args->zeroes || args->ipc_is_real)) {
        cli_say("--free, --zero and --ipc change nothing on the soft device");
    }
    args->shim = has_shim ? run_find_libraries(&run_shim) : NULL;
    args->standins = is_soft ? run_find_libraries(&run_standins) : NULL;
    return (has_shim && !args->shim) || (is_soft && !args->standins) ? CLI_CANNOT : CLI_OK;
}

/* Runs the program, in a child if there is a report or a limit. */
static int run_program(struct run_args *args) {
    const char *name = strrchr(args->program[0], '/');
    struct run_watch watch = {.wants = args->wants,
                              .rules = args->rules,
                              .json = args->out,
                              .force = args->force,
                              .program = name ? name + 1 : args->program[0]};
    if (args->limit) {
        uint32_t flags = (args->limit_each ? LIMIT_EACH : 0) | (args->limit_all ? LIMIT_ALL : 0);
        if (args->limit_all && !run_limit_all_begin()) {
            return CLI_CANNOT;
        }
        args->limit_file = run_limit_create(args->limit, flags, &watch.limit);
        if (args->limit_file < 0) {
            return CLI_CANNOT;
        }
    }
    if (!args->wants && !args->limit) {
        return run_start(args);
    }
    int code = run_watch_begin(&watch);
    args->watch = &watch;
    code = code == CLI_OK ? run_watch_program(&watch, run_start, args) : code;
    args->watch = NULL;
    return code;
}

/* Returns why the library could not write a trace to an existing file; NULL if it can. */
static const char *run_refuse_trace(const char *path) {
    struct stat old;
    const char *why = NULL;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return errno == ENOENT ? NULL : strerror(errno);
    }
    if (fstat(fd, &old) != 0 || !S_ISREG(old.st_mode)) {
        why = "it is not a regular file";
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        why = "another program is writing a trace to it";
    }
    close(fd);
    return why;
}

/* The library replaces traces and empty files only. Returns an exit code. */
static int run_check_trace(const struct run_args *args) {
    struct write_file trace = {.path = args->trace, .kind = WRITE_RECORDING, .force = args->force};
    int code = write_check(&trace);
    const char *why = code == CLI_OK ? run_refuse_trace(args->trace) : NULL;
    if (why) {
        cli_say("cannot write %s: %s", args->trace, why);
        code = CLI_CANNOT;
    }
    return code;
}

/* A limit within a limit would have to count in both. Returns an exit code. */
static int run_check_limit(const struct run_args *args) {
    const char *outer = getenv("ACRE_RUN");
    if (!args->limit || !outer || !strstr(outer, ",limit=")) {
        return CLI_OK;
    }
    cli_say("this runs under 'acre run --limit' already, and a limit within a limit is not "
            "supported: leave --limit out, or change the limit with 'acre limit PID SIZE'");
    return CLI_CANNOT;
}

int cmd_run(int argc, char **argv) {
    static const struct argp argp = {.options = run_options,
                                     .parser = run_parse,
                                     .args_doc = "[--] PROGRAM [ARGUMENT...]",
                                     .doc = run_doc};
    struct run_args args = {.limit_file = -1};
    if (cli_argp_parse(&argp, argc, argv, ARGP_IN_ORDER, &args) != 0) {
        return CLI_USAGE;
    }
    if (args.device && strcmp(args.device, "auto") == 0) {
        args.device = NULL;
    }
    if (args.device && strcmp(args.device, "soft") != 0 && strcmp(args.device, "soft:0") != 0 &&
        strcmp(args.device, "cuda") != 0) {
        cli_say("--device '%.40s' is not supported: use cuda, for all GPUs that the program sees, "
                "or soft",
                args.device);
        return CLI_CANNOT;
    }
    if (elf_is_static_program(args.program[0])) {
        cli_say("%.200s is linked statically: acre cannot preload libraries, so the program does "
                "not see them (programs that it starts do); link it dynamically",
                args.program[0]);
    }
    int code = run_check_limit(&args);
    code = code == CLI_OK && args.trace ? run_check_trace(&args) : code;
    code = code == CLI_OK ? run_choose_libraries(&args) : code;
    code = code == CLI_OK ? run_program(&args) : code;
    free(args.shim);
    free(args.standins);
    return code;
}
