/* The control socket: see control.h.
 *
 * The address of a socket has at most 107 bytes, so the folder is named by its descriptor. The
 * thread blocks all signals, which belong to the program. A forked child has no such thread, and
 * closes its copy of the socket. */
#include "watch/control.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/own_file.h"
#include "base/status.h"
#include "watch/publish_folder.h"

enum { CONTROL_WAIT_S = 5, CONTROL_QUEUE = 8, CONTROL_BLOCK = 1 << 16 };

static struct {
    struct acre__lock lock; /* guards the words and the beginning */
    int is_begun;
    struct acre__own_file listener; /* the program may close it, or use its number again */
    pid_t owner;
    struct {
        const char *word;
        acre__control_fn fn;
    } words[ACRE__CONTROL_WORDS];
    char path[ACRE__PATH_BYTES]; /* to remove at exit; empty: none */
} control = {.lock = ACRE__LOCK_INIT("control", ACRE__RANK_LEAF), .listener = ACRE__OWN_FILE_NONE};

void acre__control_add(const char *word, acre__control_fn fn) {
    acre__lock_take(&control.lock);
    int i = 0;
    while (i < ACRE__CONTROL_WORDS && control.words[i].word &&
           strcmp(control.words[i].word, word) != 0)
        i++;
    if (i < ACRE__CONTROL_WORDS) {
        control.words[i].word = word;
        control.words[i].fn = fn;
    }
    acre__lock_give(&control.lock);
}

static acre__control_fn control_find(const char *word, size_t length) {
    acre__control_fn fn = NULL;
    acre__lock_take(&control.lock);
    for (int i = 0; i < ACRE__CONTROL_WORDS && control.words[i].word; i++) {
        if (strlen(control.words[i].word) == length &&
            memcmp(control.words[i].word, word, length) == 0)
            fn = control.words[i].fn;
    }
    acre__lock_give(&control.lock);
    return fn;
}

/* ---- one request ---- */

static int control_send(int to, const void *bytes, size_t count) {
    for (size_t sent = 0; sent < count;) {
        ssize_t now = send(to, (const char *)bytes + sent, count - sent, MSG_NOSIGNAL);
        if (now <= 0)
            return 0;
        sent += (size_t)now;
    }
    return 1;
}

/* Sends what was written to the file. */
static void control_send_file(int to, int file) {
    static char block[CONTROL_BLOCK]; /* of the one thread */
    struct stat info;
    char line[64];
    if (fstat(file, &info))
        return;
    int length = snprintf(line, sizeof line, "ok %lld\n", (long long)info.st_size);
    off_t at = 0;
    int is_sent = control_send(to, line, (size_t)length);
    while (is_sent && at < info.st_size) {
        ssize_t got = pread(file, block, sizeof block, at);
        is_sent = got > 0 && control_send(to, block, (size_t)got);
        at += got;
    }
}

static void control_send_error(int to, const char *text) {
    char line[ACRE__CONTROL_LINE];
    int length = snprintf(line, sizeof line - 1, "error %.900s", text);
    for (int i = 0; i < length; i++)
        line[i] = line[i] == '\n' ? ' ' : line[i];
    line[length] = '\n';
    (void)control_send(to, line, (size_t)length + 1);
}

/* Reads a line. Returns 0 if the other end sends none. */
static int control_read(int from, char line[ACRE__CONTROL_LINE]) {
    size_t count = 0;
    while (count < ACRE__CONTROL_LINE - 1) {
        ssize_t got = recv(from, line + count, ACRE__CONTROL_LINE - 1 - count, 0);
        if (got <= 0)
            return 0;
        count += (size_t)got;
        char *end = memchr(line, '\n', count);
        if (end) {
            *end = '\0';
            return 1;
        }
    }
    return 0;
}

static int control_is_allowed(int from) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    return getsockopt(from, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
           (who.uid == geteuid() || who.uid == 0);
}

static void control_answer(int from) {
    char line[ACRE__CONTROL_LINE];
    if (!control_is_allowed(from) || !control_read(from, line))
        return;
    size_t length = strcspn(line, " ");
    acre__control_fn fn = control_find(line, length);
    if (!fn) {
        control_send_error(
            from,
            "this program does not know that request (its acre is older, or was linked statically "
            "without -Wl,--undefined=acre__suspend_words)");
        return;
    }
    int out = memfd_create("acre-answer", MFD_CLOEXEC);
    if (out < 0) {
        control_send_error(from, strerror(errno));
        return;
    }
    if (fn(out, line[length] ? line + length + 1 : ""))
        control_send_error(from, acre_last_detail());
    else
        control_send_file(from, out);
    close(out);
}

/* ---- the thread ---- */

static void *control_listen(void *unused) {
    const struct timeval wait = {.tv_sec = CONTROL_WAIT_S};
    for (;;) {
        struct pollfd asked = {.fd = control.listener.fd, .events = POLLIN};
        (void)poll(&asked, 1, -1);
        if (!acre__own_file_is_open(&control.listener))
            return unused;
        int from = accept4(control.listener.fd, NULL, NULL, SOCK_CLOEXEC);
        if (from < 0) {
            const struct timespec pause = {.tv_nsec = 100000000};
            if (errno != EINTR && errno != ECONNABORTED)
                nanosleep(&pause, NULL); /* out of descriptors, perhaps */
            continue;
        }
        /* A client that stalls must not keep others waiting. */
        (void)setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        (void)setsockopt(from, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
        control_answer(from);
        close(from);
    }
    return unused;
}

static int control_start(void) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, control_listen, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_detach(thread);
    return error;
}

/* ---- beginning and end ---- */

static void control_in_child(void) {
    acre__own_file_close(&control.listener);
    control.path[0] = '\0';
}

__attribute__((destructor)) static void control_end(void) {
    if (control.path[0] && control.owner == getpid())
        unlink(control.path);
    control.path[0] = '\0';
}

/* Binds the socket in the folder. Returns 0 or errno. */
static int control_bind(int folder, const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timespec now;
    char name[ACRE__PUBLISH_NAME], fresh[ACRE__PUBLISH_NAME];
    clock_gettime(CLOCK_REALTIME, &now);
    acre__publish_control_name((long)getpid(),
                               (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, name);
    snprintf(fresh, sizeof fresh, ".%.60s", name);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", folder, fresh);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0)
        return errno;
    /* A socket that does not listen yet would be taken for that of a program that has ended. */
    if (bind(listener, (struct sockaddr *)&address, sizeof address) ||
        listen(listener, CONTROL_QUEUE) || renameat(folder, fresh, folder, name)) {
        int error = errno;
        (void)unlinkat(folder, fresh, 0);
        close(listener);
        return error;
    }
    control.listener = acre__own_file(acre__own_file_high(listener));
    control.owner = getpid();
    snprintf(control.path, sizeof control.path, "%.*s/%s",
             ACRE__PATH_BYTES - ACRE__PUBLISH_NAME - 2, path, name);
    int error = pthread_atfork(NULL, NULL, control_in_child) ? ENOMEM : control_start();
    if (error) {
        acre__own_file_close(&control.listener);
        control_end();
    }
    return error;
}

static void control_begin(void) {
    char path[ACRE__PATH_BYTES];
    unsigned index = 0;
    int folder, error = 0;
    while ((folder = acre__publish_folder_next(&index, path)) >= 0) {
        error = control_bind(folder, path);
        close(folder);
        if (!error || control.owner)
            break; /* else try the next one: the folder may be full or read-only */
    }
    if (folder < 0 && !error)
        error = errno;
    if (error)
        acre__log(ACRE_LOG_WARN, "control", "no control socket: %.120s: %s", path, strerror(error));
}

acre_status acre__control_begin(void) {
    int is_wanted = 0;
    acre_status status = acre__config_flag(ACRE__CONFIG_CONTROL, 0, &is_wanted);
    if (status || !is_wanted)
        return status;
    acre__lock_take(&control.lock);
    int is_first = !control.is_begun;
    control.is_begun = 1;
    acre__lock_give(&control.lock);
    if (is_first)
        control_begin();
    return ACRE_OK;
}
