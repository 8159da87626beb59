/* For tests with two processes: starts this program again, with one pipe to it and one from it. The
 * processes exchange single letters. A read times out after PATIENCE_MS and returns '\0'. */
#ifndef ACRE_TESTS_API_PEER_H
#define ACRE_TESTS_API_PEER_H

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "api_memory.h"

enum { API_PEER_IN = 3, API_PEER_OUT = 4 };

struct api_peer {
    pid_t pid;
    int to, from;
};

static inline char api_hear(int fd) {
    struct pollfd at = {.fd = fd, .events = POLLIN};
    char letter = '\0';
    if (poll(&at, 1, PATIENCE_MS) != 1 || read(fd, &letter, 1) != 1)
        return '\0';
    return letter;
}

static inline void api_tell(int fd, char letter) {
    ssize_t ignored = write(fd, &letter, 1);
    (void)ignored; /* the other side may have been killed */
}

/* Starts this program with the arguments `argument`, `path` and `device`. */
static inline struct api_peer api_peer_start(const char *argument, const char *path,
                                             const char *device) {
    int to[2], from[2];
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from, O_CLOEXEC), 0);
    /* Only the new program reads this variable. It is set before the fork, since other threads may
     * hold locks at the fork. */
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
        /* Moves both ends to descriptors from 10 on, away from the two target descriptors. */
        int in = fcntl(to[0], F_DUPFD_CLOEXEC, 10), out = fcntl(from[1], F_DUPFD_CLOEXEC, 10);
        if (dup2(in, API_PEER_IN) == API_PEER_IN && dup2(out, API_PEER_OUT) == API_PEER_OUT)
            execl("/proc/self/exe", "peer", argument, path, device, (char *)NULL);
        _exit(126);
    }
    close(to[0]);
    close(from[1]);
    return (struct api_peer){pid, to[1], from[0]};
}

/* Waits until the peer exits. Returns the status of waitpid. */
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
