/* For tests with two processes: this program started again, with a pipe to it and one from it, over
 * which single letters go. Nobody waits for ever: what does not come within half a minute is '\0'.
 */
#ifndef ACRE_TESTS_API_PEER_H
#define ACRE_TESTS_API_PEER_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "api_memory.h"

enum { API_PEER_WAIT_MS = 30000, API_PEER_IN = 3, API_PEER_OUT = 4 };

struct api_peer {
    pid_t pid;
    int to, from;
};

static inline char api_hear(int fd) {
    struct pollfd at = {.fd = fd, .events = POLLIN};
    char letter = '\0';
    if (poll(&at, 1, API_PEER_WAIT_MS) != 1 || read(fd, &letter, 1) != 1)
        return '\0';
    return letter;
}

static inline void api_tell(int fd, char letter) {
    ssize_t ignored = write(fd, &letter, 1);
    (void)ignored; /* the other side may have been killed */
}

/* Starts this program with `argument`, `path` and `device` as its arguments. */
static inline struct api_peer api_peer_start(const char *argument, const char *path,
                                             const char *device) {
    int to[2], from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    /* Read by a new program alone; set here, since other threads may hold locks at the fork. */
    char asan[512];
    const char *before = getenv("ASAN_OPTIONS");
    if (!before || !strstr(before, "detect_leaks=0")) {
        snprintf(asan, sizeof asan, "%s:detect_leaks=0", before ? before : "");
        setenv("ASAN_OPTIONS", asan, 1);
    }
    fflush(NULL);
    signal(SIGPIPE, SIG_IGN);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        /* Away from the numbers that the ends are to have. */
        int in = fcntl(to[0], F_DUPFD_CLOEXEC, 10), out = fcntl(from[1], F_DUPFD_CLOEXEC, 10);
        if (dup2(in, API_PEER_IN) == API_PEER_IN && dup2(out, API_PEER_OUT) == API_PEER_OUT)
            execl("/proc/self/exe", "peer", argument, path, device, (char *)NULL);
        _exit(126);
    }
    close(to[0]);
    close(from[1]);
    return (struct api_peer){pid, to[1], from[0]};
}

/* Waits for its end; what waitpid gave. */
static inline int api_peer_end(struct api_peer *peer) {
    int state = -1;
    close(peer->to);
    close(peer->from);
    assert_int_equal(waitpid(peer->pid, &state, 0), peer->pid);
    return state;
}

#define api_peer_ok(peer)                                                                          \
    do {                                                                                           \
        int state_ = api_peer_end(peer);                                                           \
        assert_true(WIFEXITED(state_));                                                            \
        assert_int_equal(WEXITSTATUS(state_), 0);                                                  \
    } while (0)

#endif
