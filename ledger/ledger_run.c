/* Support of libcuda.so.1 for `acre run`. The variable ACRE_RUN contains words that are separated
 * by commas:
 *
 *   1234             the id of the program's process; other processes are started by it
 *   stats, leaks, errors, check, json
 *                    what to report (RUN_WANTS in report/run_file.h)
 *   file=1200/5      the file for records: descriptor 5 of process 1200, which is `acre run`
 *   out=1200/6       where JSON goes; default: stderr
 *   watch            the shim reports, not a stand-in, which may be the driver under the shim
 *   serve, defer, zero, ipc=driver
 *                    memory comes from acre's pool (struct serve_options in shim/shim_serve.h)
 *   trace=2f746d70   the path of a trace, in hexadecimal (ledger_trace.c)
 *   soft             the program runs on the soft device
 *   limit=1200/7     the file of the memory limit (report/limit_file.h), which the shim keeps
 *
 * With `leaks` and `trace`, and by ACRE_STACKS, the shim finds who called NVIDIA's library that
 * called the driver (shim/shim_stack.c).
 *
 *   at an out-of-memory error  prints who holds the card's memory, in the shim (ledger_oom.h)
 *   at exit      prints the report of every process that has used CUDA. Says if the program has not
 *                used it, or has gone around the shim.
 *   at a fault   prints which memory the host must not access
 *
 * Without a file `acre run` has become the program by execvp, and nobody reads records. Without
 * ACRE_RUN this file does nothing. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acre.h"

#include "base/config.h"
#include "ledger.h"
#include "ledger_oom.h"

enum { RUN_PATH_BYTES = 64, RUN_LINE = 1024, RUN_PLACE = 256, RUN_SIZE = 32 };

static struct {
    pid_t program, begun;     /* `begun`: this process, unless it is a forked child of that one */
    unsigned wants;           /* enum run_want */
    int is_recorded;          /* a report was requested */
    int is_limited;           /* by the shim */
    int says_unused;          /* the other library, if there is one, does not */
    _Atomic int has_forked;   /* a child may use CUDA */
    struct stat stderr_was;   /* at the start; st_ino 0: not open */
    long children;            /* run_children() at the start: `acre run` may have had some */
    int is_preloaded_driver;  /* a stand-in, which every process has */
    char out[RUN_PATH_BYTES]; /* path for JSON; empty: stderr */
} run;

/* ---- findings of the soft driver ---- */

/* Returns the first address in a text, such as 0xfff0e0200000; 0 if there is none. */
static uint64_t run_address_in(const char *text) {
    const char *at = strstr(text, " 0x");
    return at ? strtoull(at + 1, NULL, 16) : 0;
}

/* The soft driver, that of this library or of a libacre in the program, calls this with its lock
 * held: this function must not call the driver. acre__ledger_find gives up if it cannot have the
 * ledger's lock soon. */
LEDGER_EXPORT void acre_ledger_wrong(const char *line) {
    char text[RUN_TEXT_BYTES], place[RUN_PLACE];
    struct ledger_entry entry;
    if (!run.is_recorded)
        return;
    uint64_t address = run_address_in(line);
    if (address && acre__ledger_find(address, &entry))
        snprintf(text, sizeof text,
                 "%s; 0x%" PRIx64 " is byte %" PRIu64 " of %zu bytes from %s, called at %s", line,
                 address, address - entry.node.key, entry.bytes,
                 entry.caller.call ? entry.caller.call : "a call",
                 acre__record_line(entry.caller.address, place, sizeof place));
    else
        snprintf(text, sizeof text, "%s", line);
    acre__record_wrong(text);
}

/* ---- at exit ---- */

/* Prints errors that the soft driver has found, if no report was requested; with ACRE_SOFT_CHECK
 * also unordered uses of memory. */
static size_t run_say_reports(void) {
    char text[1024];
    size_t count = acre__ledger_findings(text, sizeof text);
    if (count)
        fprintf(stderr, "acre: wrong uses of memory: %zu; the first: %s\n", count, text);
    return count;
}

/* Returns 1 if the program could not use CUDA and allocated nothing: "no leaks" would prove
 * nothing. */
static int run_is_void(void) {
    uint64_t made = 0;
    for (int kind = 0; kind < RUN_KIND_COUNT; kind++)
        made += acre__ledger_count((enum run_kind)kind).made;
    return acre__ledger_has_failed() && !made;
}

/* Opens the tool's file for reports. The tool may have ended, and another process may have its
 * number. */
static int run_open_out(void) {
    static const char wanted[] = "/memfd:" RUN_JSON_NAME;
    char target[sizeof wanted] = "";
    if (readlink(run.out, target, sizeof target - 1) < 0)
        return -1;
    if (strcmp(target, wanted) != 0) {
        errno = ESTALE;
        return -1;
    }
    return open(run.out, O_WRONLY | O_APPEND | O_CLOEXEC);
}

/* Prints the report as JSON, with one write, so that lines of several processes do not mix. */
static uint64_t run_report_json(void) {
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (!memory)
        return 0;
    uint64_t found = acre__record_report(memory, run.wants);
    int fd = run.out[0] ? run_open_out() : STDERR_FILENO;
    if (fclose(memory) != 0 || fd < 0 || write(fd, text, length) != (ssize_t)length)
        fprintf(stderr, "acre: cannot write the report: %s\n", strerror(errno));
    if (fd > STDERR_FILENO)
        close(fd);
    free(text);
    return found;
}

/* Of the libacre in the program: reports the blocks of devices that are still open. */
static _Atomic(void (*)(void)) run_blocks_left;

LEDGER_EXPORT void acre_ledger_at_exit(void (*fn)(void)) {
    atomic_store_explicit(&run_blocks_left, fn, memory_order_release);
}

/* Prints the report of this process. Returns the number of findings. */
static uint64_t run_report(int is_program) {
    /* Flushes the program's output first, unless another thread holds the lock of stdout. */
    if (ftrylockfile(stdout) == 0) {
        fflush_unlocked(stdout);
        funlockfile(stdout);
    }
    if (!run.is_recorded)
        return run_say_reports();
    void (*blocks_left)(void) = atomic_load_explicit(&run_blocks_left, memory_order_acquire);
    if (blocks_left)
        blocks_left();
    if (run.wants & RUN_WANT_JSON)
        return run_report_json();
    if (!is_program)
        fprintf(stderr, "acre: process %ld, %s:\n", (long)getpid(), program_invocation_short_name);
    return acre__record_report(stderr, run.wants);
}

/* Returns a number that grows with every process that this one has waited for. */
static long run_children(void) {
    struct rusage usage;
    return getrusage(RUSAGE_CHILDREN, &usage) == 0 ? usage.ru_minflt : 0;
}

static void run_note_fork(void) {
    atomic_store_explicit(&run.has_forked, 1, memory_order_relaxed);
}

/* Returns 1 if no other process can have used CUDA in the program's place. */
static int run_was_alone(void) {
    return !atomic_load_explicit(&run.has_forked, memory_order_relaxed) &&
           run_children() == run.children;
}

/* Returns 1 if somebody has initialised the driver behind acre's back. */
static int run_has_gone_around(void) {
    return !run.is_preloaded_driver && acre__ledger_is_driver_loaded() &&
           acre__ledger_is_driver_initialised();
}

/* Says that acre has not seen calls of CUDA, or none of a part of the program. */
static void run_say_unseen(int is_program, int is_used) {
    const char *name = program_invocation_short_name;
    const char *limit = run.is_limited ? "; its memory is not limited" : "";
    int is_first = getpid() == run.begun, is_in_base = 0;
    int is_called = is_used || acre__ledger_is_called();
    if (is_first && (run.is_limited || run.wants || !is_used) &&
        acre__ledger_has_second_driver(&is_in_base))
        fprintf(stderr, "acre: %s has loaded a %s, whose calls acre does not see%s\n", name,
                is_in_base ? "second libcuda.so.1"
                           : "libcuda.so.1 in a namespace of its own (dlmopen)",
                limit);
    else if (!is_called && (is_program || (run.is_limited && is_first)) && run_has_gone_around())
        fprintf(stderr,
                "acre: %s has loaded libcuda.so.1, but acre saw no call of cuInit%s; 'acre doctor "
                "-- PROGRAM' looks for the reason\n",
                name, limit);
    else if (!is_called && is_program && run.says_unused && (run.wants || run_was_alone()))
        fprintf(stderr, "acre: %s has not used CUDA\n", name);
}

/* Says what the limit has refused, unless a report lists it. */
static void run_say_refused(void) {
    struct ledger_limit at;
    char limit[RUN_SIZE], last[RUN_SIZE];
    if (!run.is_limited || run.wants & RUN_WANT_ERRORS || !acre__ledger_limit(&at) || !at.refused)
        return;
    fprintf(stderr, "acre: %s: the limit of %s refused %" PRIu64 " request%s, the last one of %s\n",
            program_invocation_short_name, acre__run_bytes(at.limit, limit, RUN_SIZE), at.refused,
            at.refused == 1 ? "" : "s", acre__run_bytes(at.refused_bytes, last, RUN_SIZE));
}

int acre__ledger_has_stderr(void) {
    struct stat now;
    return run.stderr_was.st_ino && fstat(STDERR_FILENO, &now) == 0 &&
           now.st_dev == run.stderr_was.st_dev && now.st_ino == run.stderr_was.st_ino;
}

void acre__ledger_say(const char *format, ...) {
    char line[RUN_LINE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (acre__ledger_has_stderr())
        fprintf(stderr, "acre: %s\n", line);
}

/* Runs after the exit handlers of the program and of its libraries, which may free memory. */
static void run_at_exit(int code, void *nothing) {
    (void)nothing;
    /* Then the tool reports. A signal handler that exits may have interrupted the ledger, or a call
     * of the driver inside malloc, which the report uses. */
    if (acre__ledger_caller().call || !acre__ledger_is_free() || !acre__record_is_free() ||
        !acre__ledger_has_stderr()) {
        acre__record_leave();
        return;
    }
    int is_program = getpid() == run.program, is_void = run_is_void();
    int is_used = acre__ledger_is_used() || acre__ledger_count(RUN_OPENED).made;
    int is_refused = acre__record_has_refusals() && (is_program || run.wants & RUN_WANT_ERRORS);
    if (is_void)
        fprintf(stderr, "acre: %s could not use CUDA\n", program_invocation_short_name);
    else
        run_say_unseen(is_program, is_used);
    run_say_refused();
    if (is_void || !is_used) /* "everything was freed" would prove nothing */
        run.wants &= ~(unsigned)(RUN_WANT_LEAKS | RUN_WANT_STATS);
    uint64_t wrong = is_used || is_refused ? run_report(is_program) : 0;
    acre__record_end();
    if (code == 0 && (is_void || wrong) && !acre__ledger_watches) /* else the tool's code says it */
        exit(is_void ? 2 : 1); /* glibc continues with the remaining exit handlers */
}

/* ---- faults ---- */

static const char *run_call(const struct acre_ledger_caller *caller) {
    return caller->call ? caller->call : "a call";
}

/* Describes the memory that the host accessed. */
static const char *run_say_what(const struct ledger_entry *entry, char text[RUN_LINE]) {
    char place[RUN_PLACE];
    if (entry->is_lost)
        return "which was freed with its context";
    if (!entry->is_freed)
        return entry->kind == RUN_ADDRESSES ? "which is an address with no memory mapped to it"
                                            : "which is device memory";
    snprintf(text, RUN_LINE, "which was freed by %s, called at %s", run_call(&entry->freer),
             acre__record_place(entry->freer.address, place, sizeof place));
    return text;
}

/* `is_unmapped` is 1 if nothing is mapped at the address. If something is, it may be the program's
 * own pages, which the system has placed where freed pages were. */
static void run_say_fault(uint64_t address, int is_unmapped) {
    enum { LINE = 2 * RUN_LINE };
    char line[LINE], what[RUN_LINE], place[RUN_PLACE];
    struct ledger_entry entry;
    if (!acre__ledger_find(address, &entry))
        return;
    int is_past = entry.is_freed || entry.is_lost;
    int is_pages = entry.kind == RUN_PINNED || entry.kind == RUN_MANAGED;
    if (is_past && is_pages && !is_unmapped)
        return;
    int length = snprintf(
        line, LINE,
        "acre: the host touched 0x%" PRIx64 ", %s: byte %" PRIu64 " of %zu from %s, called at %s\n",
        address, run_say_what(&entry, what), address - entry.node.key, entry.bytes,
        run_call(&entry.caller), acre__record_place(entry.caller.address, place, sizeof place));
    if (length > 0 && write(STDERR_FILENO, line, (size_t)(length < LINE ? length : LINE - 1)) < 0)
        return;
}

/* Prints the message. The default action follows when the handler returns: the same signal is
 * queued for this thread. The instruction, repeated, could succeed: pages may have been mapped at
 * the address meanwhile. */
static void run_on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    signal(number, SIG_DFL);
    if (info->si_code > 0)
        run_say_fault((uintptr_t)info->si_addr, info->si_code == SEGV_MAPERR);
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info) != 0)
        raise(number);
}

/* ---- start ---- */

/* Returns the text after `word` among the words, or NULL. */
static const char *run_find_word(const char *words, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length) {
        if (at == words || at[-1] == ',')
            return at + length;
    }
    return NULL;
}

static int run_has_word(const char *words, const char *word) {
    const char *end = run_find_word(words, word);
    return end && (*end == ',' || *end == '\0');
}

static char *run_first_words;

static void run_copy_words(void) {
    const char *words = acre__config_string(ACRE__CONFIG_RUN);
    run_first_words = words ? strdup(words) : NULL;
}

/* Returns the words with which the process began, or NULL: the program may change its environment
 * later. */
static const char *run_words(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, run_copy_words);
    return run_first_words;
}

const char *acre__ledger_word(const char *word) {
    const char *words = run_words();
    return words ? run_find_word(words, word) : NULL;
}

int acre__ledger_program(void) {
    const char *words = run_words();
    return words ? (int)strtol(words, NULL, 10) : 0;
}

/* Formats the path of the descriptor after `word`, such as file=1200/5. Empty without such a word.
 */
static void run_find_path(const char *words, const char *word, char path[RUN_PATH_BYTES]) {
    const char *at = run_find_word(words, word);
    long process = 0, fd = 0;
    path[0] = '\0';
    if (at && sscanf(at, "%ld/%ld", &process, &fd) == 2)
        snprintf(path, RUN_PATH_BYTES, "/proc/%ld/fd/%ld", process, fd);
}

static void run_begin_records(const char *words) {
    char path[RUN_PATH_BYTES];
    run_find_path(words, "file=", path);
    run_find_path(words, "out=", run.out);
    if (!acre__record_begin(path, !acre__ledger_watches)) {
        fprintf(stderr, "acre: no report: out of memory\n");
        run.wants = 0;
        return;
    }
    run.is_recorded = 1;
    /* The tool reports for the program if it ends before it has used CUDA, too. */
    if (getpid() == run.program)
        acre__record_state(RUN_PROCESS_IS_PROGRAM);
}

__attribute__((constructor)) static void run_begin(void) {
    const char *words = run_words();
    if (fstat(STDERR_FILENO, &run.stderr_was) != 0)
        run.stderr_was.st_ino = 0;
    if (!words)
        return;
    (void)pthread_atfork(run_note_fork, NULL, NULL);
    int is_soft = run_has_word(words, "soft");
    int is_reporter = run_has_word(words, "watch") == acre__ledger_watches;
    run.program = (pid_t)strtol(words, NULL, 10);
    run.begun = getpid();
    run.children = run_children();
    run.is_limited = acre__ledger_watches && run_find_word(words, "limit=");
    run.is_preloaded_driver = is_soft;
    /* A stand-in may be in place of NVIDIA's driver, under the shim. */
    run.says_unused = acre__ledger_watches ? is_reporter || !is_soft : is_reporter && is_soft;
    if (is_reporter || acre__ledger_watches)
        on_exit(run_at_exit, NULL);
    if (!is_reporter)
        return;
#define RUN_WANT(want, word, bit) run.wants |= run_has_word(words, word) ? (bit) : 0u;
    RUN_WANTS(RUN_WANT)
#undef RUN_WANT
    if (run.wants)
        run_begin_records(words);
    if (run.is_recorded && acre__ledger_watches) /* a program on a stand-in has no card */
        acre__oom_begin();
    acre__ledger_use_stacks(
        acre__ledger_stack_depth((run.wants & RUN_WANT_LEAKS) || run_find_word(words, "trace=")));
    if (acre__ledger_watches) /* the signals of a program on a GPU are its own */
        return;
    struct sigaction now, action = {.sa_sigaction = run_on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        sigaction(SIGSEGV, &action, NULL);
}
