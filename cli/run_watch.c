/* acre run with a report: starts the program as a child and outlives it; see run_watch.h.
 *
 * A process that exits prints its own report (ledger/ledger_run.c). The tool prints the reports of
 * those that could not: they called _exit or abort, or a signal killed them.
 *
 * Processes append JSON to a file in memory, which the tool writes to the user's file at the end.
 * So an earlier report stays until there is a new one.
 *
 * Signals. The program is in the tool's process group, so that the terminal sends Ctrl-C and Ctrl-Z
 * to both: the tool ignores what the terminal sends, and a shell that stops or continues the job
 * stops or continues both. A signal that a process sends to the tool goes on to the program. If the
 * tool is killed by SIGKILL, so is the program. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "run_limit_all.h"
#include "run_report.h"
#include "run_watch.h"
#include "write_file.h"

static const size_t WATCH_BYTES = (size_t)RUN_CHUNK_LIMIT * RUN_CHUNK_BYTES;
static const size_t WATCH_RULES_BYTES = (size_t)1 << 20;

/* ---- the file -------------------------------------------------------------------------------- */

/* Creates the file at its full size. Pages that nobody writes take no memory. The seals keep a
 * process from truncating it, which would crash the tool. */
static int watch_create(struct run_watch *watch) {
    watch->file = memfd_create("acre-run", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *base = MAP_FAILED;
    if (watch->file >= 0 && ftruncate(watch->file, (off_t)WATCH_BYTES) == 0 &&
        fcntl(watch->file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        base = mmap(NULL, WATCH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, watch->file, 0);
    }
    if (base == MAP_FAILED) {
        cli_say("cannot create the file for the report: %s", strerror(errno));
        return CLI_CANNOT;
    }
    watch->base = base;
    watch->base->magic = RUN_MAGIC;
    atomic_store(&watch->base->chunk_count, 1);
    watch->start_failed = mmap(NULL, sizeof *watch->start_failed, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (watch->start_failed == MAP_FAILED) {
        cli_say("out of memory");
        return CLI_CANNOT;
    }
    return CLI_OK;
}

static int watch_read_rules(struct run_watch *watch, const char *path) {
    FILE *in = fopen(path, "re");
    char *text = cli_alloc(WATCH_RULES_BYTES + 1);
    size_t length = in ? fread(text, 1, WATCH_RULES_BYTES + 1, in) : 0;
    if (!in || ferror(in)) {
        cli_say("cannot read %.200s: %s", path, strerror(errno));
    } else if (length > WATCH_RULES_BYTES || strlen(text) < length) {
        cli_say("%.200s is not a file of suppressions", path);
    } else {
        int line = acre__run_rules_read(watch->base, text);
        free(text);
        (void)fclose(in);
        if (line > 0) {
            cli_say("%.200s:%d: a suppression is leak:PATTERN, error:PATTERN or race:PATTERN", path,
                    line);
        } else if (line < 0) {
            cli_say("%.200s has too many suppressions: at most %d, with %d bytes in all", path,
                    (int)RUN_RULE_LIMIT, (int)RUN_RULE_BYTES);
        }
        return line ? CLI_CANNOT : CLI_OK;
    }
    if (in) {
        (void)fclose(in);
    }
    free(text);
    return CLI_CANNOT;
}

/* ---- the file for JSON ----------------------------------------------------------------------- */

static struct write_file watch_json(const struct run_watch *watch) {
    return (struct write_file){.path = watch->json,
                               .kind = WRITE_RUN,
                               .force = watch->force,
                               .inputs = &watch->rules,
                               .input_count = 1};
}

/* Checks whether a new file can be created: the program may run for hours before it is. */
static bool watch_can_create(const char *path) {
    struct stat old;
    const char *slash = strrchr(path, '/');
    if (lstat(path, &old) == 0) {
        return true;
    }
    char *folder = slash ? cli_format("%.*s", (int)(slash - path + 1), path) : cli_format(".");
    bool can = access(folder, W_OK | X_OK) == 0;
    int error = errno;
    free(folder);
    errno = error;
    return can;
}

static int watch_open_json(struct run_watch *watch) {
    const struct write_file file = watch_json(watch);
    int code = write_check(&file);
    if (code) {
        return code;
    }
    if (write_is_stdout(watch->json) || watch_can_create(watch->json)) {
        watch->out = memfd_create(RUN_JSON_NAME, MFD_CLOEXEC);
    }
    if (watch->out < 0 || fcntl(watch->out, F_SETFL, O_APPEND) != 0) {
        cli_say("cannot write %.200s: %s", watch->json, strerror(errno));
        return CLI_CANNOT;
    }
    return CLI_OK;
}

/* Writes what the processes have appended to the user's file, or to standard output. */
static int watch_write_json(const struct run_watch *watch) {
    struct write_file file = watch_json(watch);
    char part[4096];
    ssize_t got;
    if (!watch->json) {
        return CLI_OK;
    }
    FILE *out = write_begin(&file);
    for (off_t at = 0; (got = pread(watch->out, part, sizeof part, at)) > 0; at += got) {
        (void)fwrite(part, 1, (size_t)got, out); /* write_end checks for errors */
    }
    return write_end(&file);
}

int run_watch_begin(struct run_watch *watch) {
    watch->out = -1;
    int code = watch_create(watch);
    if (code == CLI_OK && watch->rules) {
        code = watch_read_rules(watch, watch->rules);
    }
    if (code == CLI_OK && watch->json) {
        code = watch_open_json(watch);
    }
    return code;
}

/* ---- signals --------------------------------------------------------------------------------- */

/* Signals that other processes send to end or notify a program. Job control needs no forwarding: a
 * shell signals the process group. */
static const int watch_signals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                    SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};
enum { WATCH_SIGNALS = sizeof watch_signals / sizeof watch_signals[0] };

static volatile sig_atomic_t watch_child;

static void watch_on_signal(int number, siginfo_t *info, void *context) {
    (void)context;
    int error = errno;
    /* The kernel sends signals of the terminal to the whole process group. */
    if (info->si_code <= 0 && watch_child > 0) {
        (void)kill((pid_t)watch_child, number);
    }
    errno = error;
}

/* Ignored signals, such as SIGHUP under nohup, stay ignored, in the program too. */
static void watch_catch_signals(void) {
    struct sigaction now, action = {.sa_sigaction = watch_on_signal, .sa_flags = SA_SIGINFO};
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < WATCH_SIGNALS; i++) {
        if (sigaction(watch_signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) {
            (void)sigaction(watch_signals[i], &action, NULL);
        }
    }
}

/* Ignores the signals while the tool reports. */
static void watch_ignore_signals(void) {
    for (size_t i = 0; i < WATCH_SIGNALS; i++) {
        (void)signal(watch_signals[i], SIG_IGN);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Starts the program. Signals are blocked until the handlers know the child. */
static pid_t watch_start(const struct run_watch *watch, int (*start)(const void *user),
                         const void *user) {
    sigset_t all, before;
    sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, &before);
    void (*on_child)(int) = signal(SIGCHLD, SIG_DFL); /* ignored, it would make waitpid fail */
    pid_t tool = getpid(), child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != tool) {
            _exit(CLI_CANNOT);
        }
        (void)signal(SIGCHLD, on_child == SIG_IGN ? SIG_IGN : SIG_DFL);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        int code = start(user);
        *watch->start_failed = 1;
        _exit(code);
    }
    watch_child = (sig_atomic_t)child;
    watch_catch_signals();
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return child;
}

/* Ends the tool by the signal that ended the program. The program has written the core file. */
static int watch_die(int number) {
    const struct rlimit none = {0, 0};
    sigset_t one;
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
    return 128 + number;
}

/* ---- reports --------------------------------------------------------------------------------- */

/* Returns true if the process has ended, also if nobody has waited for it yet. */
static bool watch_is_over(int64_t pid) {
    char path[64], text[256];
    if (pid <= 0) {
        return true;
    }
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *in = fopen(path, "re");
    if (!in) {
        return true;
    }
    size_t length = fread(text, 1, sizeof text - 1, in);
    (void)fclose(in);
    text[length] = '\0';
    const char *state = strrchr(text, ')');
    return state && state[1] == ' ' && (state[2] == 'Z' || state[2] == 'X');
}

/* Returns true if the process has a later chunk: it has called exec since. */
static bool watch_has_gone_on(const struct run_watch *watch, uint32_t chunk, int64_t pid) {
    struct run_collection run;
    while ((chunk = acre__run_next(watch->base, chunk))) {
        acre__run_peek(watch->base, chunk, &run);
        if (run.pid == pid) {
            return true;
        }
    }
    return false;
}

/* Describes how a process without a report ended: "_exit", or "SIGABRT". */
static void watch_end(bool is_program, int status, char end[32]) {
    const char *name = is_program && WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : NULL;
    if (is_program && WIFSIGNALED(status)) {
        snprintf(end, 32, "SIG%s", name ? name : "?");
    } else {
        snprintf(end, 32, "%s", is_program ? "_exit" : "unknown");
    }
}

static void watch_print_json(const struct run_watch *watch, const struct run_collection *run,
                             const char *end) {
    char *text = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&text, &length);
    if (memory) {
        acre__run_print_json(memory, run, watch->wants, end);
    }
    if (!memory || fclose(memory) != 0 ||
        write(watch->out < 0 ? STDERR_FILENO : watch->out, text, length) != (ssize_t)length) {
        cli_say("cannot write the report: %s", strerror(errno));
    }
    free(text);
}

static void watch_print(const struct run_watch *watch, const struct run_collection *run,
                        const char *end) {
    if (watch->wants & RUN_WANT_JSON) {
        watch_print_json(watch, run, end);
        return;
    }
    if (run->state & RUN_PROCESS_LEFT) {
        cli_say("process %lld, %s, left its report to acre run:", (long long)run->pid,
                run->program);
    } else if (strcmp(end, "exec") == 0) {
        cli_say("%s called exec:", run->program);
    } else if (strcmp(end, "_exit") == 0) {
        cli_say("%s ended without its exit handlers (_exit, quick_exit or exec)", run->program);
    } else if (strncmp(end, "SIG", 3) == 0) {
        cli_say("%s was killed by %s", run->program, end);
    } else {
        cli_say("process %lld, %s, ended without a report:", (long long)run->pid, run->program);
    }
    if (run->state & RUN_PROCESS_USED || run->call_rows) {
        acre__run_print(stderr, run, watch->wants);
    } else {
        cli_say("%s has not used CUDA", run->program);
    }
}

/* Returns true if some process has used CUDA. */
static bool watch_is_used(const struct run_watch *watch) {
    struct run_collection run;
    for (uint32_t chunk = 0; (chunk = acre__run_next(watch->base, chunk));) {
        acre__run_peek(watch->base, chunk, &run);
        if (run.state & RUN_PROCESS_USED) {
            return true;
        }
    }
    return false;
}

/* Reports one process, unless it has reported itself. Returns its exit code: CLI_FINDING if there
 * are findings, CLI_CANNOT if it could not use CUDA. */
static int watch_report(const struct run_watch *watch, uint32_t chunk, pid_t child, int status) {
    struct run_collection run;
    char end[32];
    acre__run_peek(watch->base, chunk, &run);
    bool is_program = run.pid == (int64_t)child;
    if (run.state & RUN_PROCESS_REPORTED) {
        return run.state & RUN_PROCESS_FOUND ? CLI_FINDING : CLI_OK;
    }
    if (!is_program && !watch_is_over(run.pid)) {
        return CLI_OK;
    }
    acre__run_collect(watch->base, chunk, &run);
    int code = acre__run_found(&run, watch->wants) ? CLI_FINDING : CLI_OK;
    if (watch_has_gone_on(watch, chunk, run.pid)) {
        snprintf(end, sizeof end, "exec");
    } else {
        watch_end(is_program, status, end);
    }
    if (run.state & RUN_PROCESS_FAILED && !run.counts[RUN_KIND_COUNT].made) {
        cli_say("%s could not use CUDA", run.program);
        code = CLI_CANNOT;
    } else if (run.state & RUN_PROCESS_USED || run.call_rows ||
               (is_program && strcmp(end, "exec") != 0 &&
                !(strcmp(end, "_exit") == 0 && watch_is_used(watch)))) {
        /* A shell that started the program, or became it, is not reported. */
        watch_print(watch, &run, end);
    }
    acre__run_drop(&run);
    return code;
}

/* Says that a process has overwritten records. Those that are left may show no findings where there
 * were some, so that success would be wrong. */
static int watch_report_damage(const struct run_watch *watch, pid_t child, int status) {
    struct run_collection run = {.pid = child, .is_incomplete = 1};
    char end[32];
    if (!watch->wants || !acre__run_is_damaged(watch->base)) {
        return CLI_OK;
    }
    if (watch->wants & RUN_WANT_JSON) {
        snprintf(run.program, sizeof run.program, "%s", watch->program);
        watch_end(true, status, end);
        watch_print_json(watch, &run, end);
    } else {
        cli_say("%s: the report is incomplete: the program has overwritten acre's records",
                watch->program);
    }
    return CLI_CANNOT;
}

static void watch_say_unused_rules(const struct run_watch *watch) {
    char text[RUN_TEXT_BYTES];
    for (uint32_t i = 0; (i = acre__run_rules_unused(watch->base, i, text));) {
        cli_say("%.200s: not used: %s", watch->rules, text);
    }
}

/* Waits for the program. With --limit-all the tool looks at NVML meanwhile. */
static int watch_wait(const struct run_watch *watch, pid_t child) {
    bool looks = watch->limit && watch->limit->flags & LIMIT_ALL;
    int fd = looks ? (int)syscall(SYS_pidfd_open, child, 0) : -1, status = 0;
    while (looks) {
        struct pollfd end = {.fd = fd, .events = POLLIN};
        siginfo_t ended = {0};
        if (poll(&end, 1, RUN_LIMIT_ALL_MS) > 0 ||
            waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT | WNOHANG) != 0 || ended.si_pid) {
            break;
        }
        run_limit_all_look(watch->limit);
    }
    if (fd >= 0) {
        close(fd);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

int run_watch_program(struct run_watch *watch, int (*start)(const void *user), const void *user) {
    pid_t child = watch_start(watch, start, user);
    int status = 0, found = CLI_OK;
    if (child < 0) {
        cli_say("cannot start a process: %s", strerror(errno));
        return CLI_CANNOT;
    }
    status = watch_wait(watch, child);
    watch_child = 0;
    if (*watch->start_failed) {
        return WEXITSTATUS(status);
    }
    watch_ignore_signals();
    for (uint32_t chunk = 0; (chunk = acre__run_next(watch->base, chunk));) {
        int code = watch_report(watch, chunk, child, status);
        found = code > found ? code : found;
    }
    int damage = watch_report_damage(watch, child, status);
    found = damage > found ? damage : found;
    if (watch->rules) {
        watch_say_unused_rules(watch);
    }
    int written = watch_write_json(watch);
    found = written > found ? written : found;
    if (WIFSIGNALED(status)) {
        return watch_die(WTERMSIG(status));
    }
    int code = WEXITSTATUS(status);
    return code ? code : found;
}
