/* For tests of output files: a path in a temporary folder, and a child program that writes to this
 * path. */
#ifndef ACRE_TESTS_API_FILE_H
#define ACRE_TESTS_API_FILE_H

#include "api_devices.h"

static char folder[64], path[128];

/* Run before and after all tests of a program. */
static inline int file_set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/acre-file-XXXXXX");
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static inline int file_tear_down(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* Starts this program again with one argument and `variable` set to the path. `from` reads its
 * standard output. `to` writes to its standard input; with `to` NULL it inherits ours. */
static inline pid_t file_start(const char *variable, const char *argument, int *to, int *from) {
    int in[2] = {-1, -1}, out[2];
    if (to)
        assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv(variable, path, 1);
        if (to)
            dup2(in[0], 0);
        dup2(out[1], 1);
        for (int i = 0; i < 2; i++) {
            close(in[i]);
            close(out[i]);
        }
        execl("/proc/self/exe", "started", argument, (char *)NULL);
        _exit(126);
    }
    close(out[1]);
    *from = out[0];
    if (to) {
        close(in[0]);
        *to = in[1];
    }
    return pid;
}

#endif
