/* Delivers messages of the library to the program's log callback, and prints them where ACRE_LOG
 * says.
 *
 * `callback.level` and `print.level` are the switches: 0 is off. They are stored last, so a thread
 * that reads a level also reads what belongs to it. The caller must not replace one callback by
 * another while other threads log (acre.h says so).
 *
 * Nothing here takes a lock, since messages are sent under locks of every rank. A message is one
 * write to a file opened for appending, so messages of several threads and processes do not mix.
 * Printed
 * lines are remembered in a table that only grows: a thread claims an entry by storing the hash,
 * and publishes the text behind it with `is_ready`. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/config.h"
#include "base/hash.h"
#include "base/own_file.h"
#include "base/parse.h"
#include "base/status.h"
#include "base/thread.h"

enum {
    LOG_SEEN = 512,      /* lines remembered; a program with more repeats further ones */
    LOG_SEEN_TEXT = 160, /* bytes of a line that are remembered */
    LOG_PROBES = 16,
    LOG_LINES = 100 /* of one message */
};

static struct {
    _Atomic int level; /* highest acre_log_level sent, 0 = off */
    acre_log_fn fn;
    void *user;
} callback;

struct seen {
    _Atomic uint64_t hash; /* 0: unused */
    _Atomic uint64_t repeats;
    _Atomic int is_ready; /* `text` is complete */
    char text[LOG_SEEN_TEXT];
};

static struct {
    pthread_once_t once;
    _Atomic int level;          /* highest acre_log_level printed, 0 = off */
    struct acre__own_file file; /* unless `path` is "": then standard error */
    char path[PATH_MAX];        /* absolute: a program may change its folder */
    int is_debug;               /* ACRE_DEBUG */
    acre_status status;
    char detail[ACRE__DETAIL_BYTES]; /* of `status` */
    struct seen *seen;               /* NULL if out of host memory: nothing is counted */
} print = {.once = PTHREAD_ONCE_INIT, .file = ACRE__OWN_FILE_NONE};

/* ---- printing ---- */

static const char *level_name(acre_log_level level) {
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    return names[level];
}

/* Of all lines, since two messages may differ in their call stacks alone; never 0. */
static uint64_t lines_hash(char (*lines)[ACRE__LOG_LINE], unsigned count) {
    uint64_t hash = ACRE__HASH_BEGIN;
    for (unsigned i = 0; i < count; i++)
        hash = acre__hash_bytes(hash, lines[i], strlen(lines[i]));
    return hash ? hash : 1;
}

/* Returns 1 the first time that a message comes; else counts it. Lines that find the table full
 * count as new each time. */
static int is_new(char (*lines)[ACRE__LOG_LINE], unsigned count) {
    uint64_t hash = lines_hash(lines, count);
    for (unsigned i = 0; print.seen && i < LOG_PROBES; i++) {
        struct seen *seen = &print.seen[(hash + i) % LOG_SEEN];
        uint64_t before = 0;
        if (atomic_compare_exchange_strong_explicit(&seen->hash, &before, hash,
                                                    memory_order_relaxed, memory_order_relaxed)) {
            snprintf(seen->text, sizeof seen->text, "%s", lines[0]);
            atomic_store_explicit(&seen->is_ready, 1, memory_order_release);
            return 1;
        }
        if (before == hash) {
            atomic_fetch_add_explicit(&seen->repeats, 1, memory_order_relaxed);
            return 0;
        }
    }
    return 1;
}

/* O_NONBLOCK: opening a pipe would wait for a reader. Writing may wait for it. */
static int log_open(const char *path) {
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    if (fd >= 0)
        (void)fcntl(fd, F_SETFL, O_APPEND);
    return fd;
}

/* Writes all parts at once, so that messages of several threads and processes do not mix. Failures
 * are ignored: there is no other place to report them to. */
static void write_parts(int fd, struct iovec *parts, int count) {
    while (count > 0) {
        ssize_t done = writev(fd, parts, count);
        if (done < 0 && errno != EINTR)
            return;
        for (; count > 0 && done >= (ssize_t)parts->iov_len; parts++, count--)
            done -= (ssize_t)parts->iov_len;
        if (count > 0 && done > 0) {
            parts->iov_base = (char *)parts->iov_base + done;
            parts->iov_len -= (size_t)done;
        }
    }
}

/* A reader of a pipe may have ended: that must not kill the program. */
static void write_without_signal(int fd, struct iovec *parts, int count) {
    sigset_t pipe_signal, before, pending;
    const struct timespec now = {0, 0};
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigemptyset(&pending);
    (void)sigpending(&pending);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    errno = 0;
    write_parts(fd, parts, count);
    if (errno == EPIPE && !sigismember(&pending, SIGPIPE))
        (void)sigtimedwait(&pipe_signal, NULL, &now);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A program that has closed acre's descriptor gets the file opened again for each message. */
static void print_parts(struct iovec *parts, int count) {
    /* A new file may have got the number of a log that was removed, but is rarely appended to. */
    int is_kept = !print.path[0] ||
                  (acre__own_file_is_open(&print.file) && fcntl(print.file.fd, F_GETFL) & O_APPEND);
    int fd = !print.path[0] ? STDERR_FILENO : is_kept ? print.file.fd : log_open(print.path);
    if (fd < 0)
        return;
    write_without_signal(fd, parts, count);
    if (!is_kept)
        close(fd);
}

static struct iovec part_of(const char *text) {
    return (struct iovec){(void *)(uintptr_t)text, strlen(text)};
}

static void print_lines(acre_log_level level, const char *area, char (*lines)[ACRE__LOG_LINE],
                        unsigned count) {
    struct iovec parts[3 * LOG_LINES];
    char head[64];
    int used = 0;
    if (!is_new(lines, count))
        return;
    snprintf(head, sizeof head, "acre: %s: %s: ", level_name(level), area);
    for (unsigned i = 0; i < count && i < LOG_LINES; i++) {
        parts[used++] = part_of(i ? "acre:     " : head);
        parts[used++] = part_of(lines[i]);
        parts[used++] = part_of("\n");
    }
    print_parts(parts, used);
}

void acre__log_end(void) {
    if (atomic_load_explicit(&print.level, memory_order_acquire) <= 0)
        return;
    for (unsigned i = 0; print.seen && i < LOG_SEEN; i++) {
        struct seen *seen = &print.seen[i];
        uint64_t repeats = atomic_exchange_explicit(&seen->repeats, 0, memory_order_relaxed);
        if (!repeats || !atomic_load_explicit(&seen->is_ready, memory_order_acquire))
            continue;
        char head[64];
        snprintf(head, sizeof head,
                 "acre: repeated %llu more times: ", (unsigned long long)repeats);
        struct iovec parts[] = {part_of(head), part_of(seen->text), part_of("\n")};
        print_parts(parts, 3);
    }
}

/* ---- ACRE_LOG and ACRE_DEBUG ---- */

static acre_status print_open(const char *text, size_t path_bytes) {
    char path[ACRE__PATH_BYTES];
    if (path_bytes == strlen("stderr") && strncmp(text, "stderr", path_bytes) == 0)
        return ACRE_OK;
    if (acre__parse_path(text, path_bytes, path))
        return acre__fail(ACRE_E_CONFIG, "ACRE_LOG: the name of the file is too long");
    print.file = acre__own_file(log_open(path));
    if (print.file.fd < 0)
        return acre__fail(ACRE_E_CONFIG,
                          "ACRE_LOG is '%.80s': %s; expected stderr or a file, then :error, :warn, "
                          ":info or :debug",
                          text, strerror(errno));
    if (!realpath(path, print.path)) /* a pipe has none */
        snprintf(print.path, sizeof print.path, "%s", path);
    return ACRE_OK;
}

static acre_status print_configure(void) {
    size_t path_bytes = 0;
    int level = 0;
    acre_status status = acre__config_flag(ACRE__CONFIG_DEBUG, 0, &print.is_debug);
    const char *text = acre__config_string(ACRE__CONFIG_LOG);
    if (!text && print.is_debug)
        text = "stderr";
    if (status || !text)
        return status;
    if (acre__parse_log(text, &path_bytes, &level))
        return acre__fail(ACRE_E_CONFIG,
                          "ACRE_LOG is '%.80s': expected stderr or a file, then :error, :warn, "
                          ":info or :debug",
                          text);
    status = print_open(text, path_bytes);
    if (status)
        return status;
    print.seen = calloc(LOG_SEEN, sizeof *print.seen);
    atomic_store_explicit(&print.level, level ? level : ACRE_LOG_WARN, memory_order_release);
    return ACRE_OK;
}

static void print_begin(void) {
    struct acre__said said; /* a message must not change the detail of the thread's failure */
    acre__said_keep(&said);
    print.status = print_configure();
    snprintf(print.detail, sizeof print.detail, "%s", acre_last_detail());
    (void)acre__said_fail(ACRE_OK, &said);
}

acre_status acre__log_begin(void) {
    pthread_once(&print.once, print_begin);
    return print.status ? acre__fail(print.status, "%s", print.detail) : ACRE_OK;
}

int acre__debug_is_on(void) {
    pthread_once(&print.once, print_begin);
    return print.is_debug;
}

/* ---- messages ---- */

static acre_status log_set(acre_log_fn fn, void *user, acre_log_level level) {
    acre_status status = acre__enter();
    if (status != ACRE_OK)
        return status;
    if (fn && ((int)level < ACRE_LOG_ERROR || (int)level > ACRE_LOG_DEBUG))
        return acre__fail(ACRE_E_INVALID, "acre_log_set: level %d is not between %d and %d",
                          (int)level, ACRE_LOG_ERROR, ACRE_LOG_DEBUG);
    atomic_store_explicit(&callback.level, 0, memory_order_relaxed);
    callback.fn = fn;
    callback.user = user;
    atomic_store_explicit(&callback.level, fn ? (int)level : 0, memory_order_release);
    return ACRE_OK;
}

acre_status acre_log_set(acre_log_fn fn, void *user, acre_log_level level) {
    return acre__in_call(log_set(fn, user, level), "acre_log_set");
}

static int is_printed(acre_log_level level) {
    pthread_once(&print.once, print_begin);
    return (int)level <= atomic_load_explicit(&print.level, memory_order_acquire);
}

static int is_called_back(acre_log_level level) {
    return (int)level <= atomic_load_explicit(&callback.level, memory_order_acquire);
}

int acre__log_wanted(acre_log_level level) {
    return is_called_back(level) || is_printed(level);
}

void acre__log_lines(acre_log_level level, const char *area, char (*lines)[ACRE__LOG_LINE],
                     unsigned count) {
    int saved_errno = errno; /* callers often log a failure before they read errno */
    for (unsigned i = 0; i < count && is_called_back(level); i++)
        callback.fn(callback.user, level, area, lines[i]);
    if (is_printed(level))
        print_lines(level, area, lines, count);
    errno = saved_errno;
}

void acre__log(acre_log_level level, const char *area, const char *format, ...) {
    if (!acre__log_wanted(level))
        return;
    int saved_errno = errno;
    char line[1][ACRE__LOG_LINE];
    va_list args;
    va_start(args, format);
    if (vsnprintf(line[0], sizeof line[0], format, args) < 0)
        line[0][0] = '\0';
    va_end(args);
    acre__one_line(line[0]);
    acre__log_lines(level, area, line, 1);
    errno = saved_errno;
}
