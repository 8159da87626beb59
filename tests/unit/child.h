/* Runs a function in a child process, for tests of fork and of aborts. The child leaves by _exit,
 * so it neither flushes the parent's buffers nor runs its leak check. */
#ifndef ACRE_TESTS_UNIT_CHILD_H
#define ACRE_TESTS_UNIT_CHILD_H

#include <sys/wait.h>
#include <unistd.h>

#include "support/leave.h"

/* Forks a child that exits with run()'s result. Returns the child's wait status, or -1 if fork or
 * waitpid failed. */
static inline int child_run(int (*run)(void)) {
    pid_t pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0)
        leave(run());
    int state = -1;
    return waitpid(pid, &state, 0) == pid ? state : -1;
}

/* Ends the child with its line number (modulo 255) as the exit code if the condition is false. */
#define CHILD_EXPECT(condition)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return 1 + __LINE__ % 255;                                                             \
    } while (0)

#define assert_child_ok(run)                                                                       \
    do {                                                                                           \
        int state_ = child_run(run);                                                               \
        assert_true(WIFEXITED(state_));                                                            \
        assert_int_equal(WEXITSTATUS(state_), 0);                                                  \
    } while (0)

#endif
