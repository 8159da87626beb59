/*
 * The runner of the conformance suite.
 *
 *   conformance --driver soft|cuda [--group a,b] [--check FILE] [--out FILE]
 *
 * Prints one line per case, or with --check only the differences from the stored lines. Each group
 * runs in separate processes, which are started with exec, never forked from a process that used
 * CUDA. So each group begins with a fresh driver, and a case that crashes costs one line
 * ("group.case: died=SIGSEGV"), not the run. Such a process (--serve) prints each line at once. So
 * the parent knows which case crashed, and starts the next process after that case.
 *
 * Exit: 0 done, or all as stored; 1 differences; 2 could not run; 64 usage; 77 no such driver or
 * no device (2 instead if ACRE_REQUIRE_CUDA is set).
 */
#include "conformance.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf_run.h"
#include "driver/driver_fault.h"
#include "soft/soft.h"
#include "support/leave.h"

extern char **environ;

static const struct conf_group *const groups[] = {
    &conf_group_before, &conf_group_device,    &conf_group_context, &conf_group_limits,
    &conf_group_chunk,  &conf_group_map,       &conf_group_access,  &conf_group_share,
    &conf_group_plain,  &conf_group_host,      &conf_group_managed, &conf_group_pointer,
    &conf_group_copy,   &conf_group_fill,      &conf_group_stream,  &conf_group_event,
    &conf_group_order,  &conf_group_wait,      &conf_group_capture, &conf_group_graph,
    &conf_group_null,   &conf_group_sticky,    &conf_group_launch,  &conf_group_pool,
    &conf_group_async,  &conf_group_poolshare, &conf_group_plane,   &conf_group_own,
    &conf_group_reset,
};

enum { GROUPS = sizeof groups / sizeof groups[0], NO_DRIVER = 77, NO_START = 3 };

/* ---- inside a serving process ---------------------------------------------------------------- */

static int open_driver(const char *driver, unsigned flags) {
    conf.driver = driver;
    if (strcmp(driver, "soft") == 0)
        conf.drv = acre__driver_soft();
    else if (acre__driver_cuda(&conf.drv) != ACRE_OK) {
        fprintf(stderr, "conformance: %s\n", acre_last_detail());
        return NO_DRIVER;
    }
    if (flags & CONF_FAULT && conf.drv->is_soft)
        conf.drv = acre__fault_wrap(conf.drv);
    return 0;
}

static int start_failed(const char *call, CUresult code) {
    fprintf(stderr, "conformance: %s: %s\n", call, acre__driver_error_name(code));
    return code == CUDA_ERROR_NO_DEVICE ? NO_DRIVER : NO_START;
}

/* Calls cuInit, makes the primary context of device 0 current, and queries what cases need. */
static int open_device(void) {
    CUmemAllocationProp prop;
    CUresult code = conf.drv->cuInit(0);

    if (code != CUDA_SUCCESS)
        return start_failed("cuInit", code);
    if ((code = conf.drv->cuDeviceGet(&conf.dev, 0)) != CUDA_SUCCESS)
        return start_failed("cuDeviceGet", code);
    if ((code = conf.drv->cuDevicePrimaryCtxRetain(&conf.ctx, conf.dev)) != CUDA_SUCCESS)
        return start_failed("cuDevicePrimaryCtxRetain", code);
    if ((code = conf.drv->cuCtxSetCurrent(conf.ctx)) != CUDA_SUCCESS)
        return start_failed("cuCtxSetCurrent", code);
    if ((code = conf.drv->cuDeviceTotalMem(&conf.device_bytes, conf.dev)) != CUDA_SUCCESS)
        return start_failed("cuDeviceTotalMem", code);
    prop = conf_prop();
    code = conf.drv->cuMemGetAllocationGranularity(&conf.chunk_bytes, &prop,
                                                   CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (code != CUDA_SUCCESS)
        return start_failed("cuMemGetAllocationGranularity", code);
    return 0;
}

/* After each case: all work is done without errors, and our context is still current. */
static void check_clean(const struct conf_group *group, const struct conf_case *test) {
    CUcontext current = NULL;
    CUresult code;

    if (group->flags & CONF_BARE || test->flags & CONF_ALONE)
        return;
    if (conf.drv->cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != conf.ctx)
        conf_word("after", "another-context");
    code = conf.drv->cuCtxSynchronize();
    if (code != CUDA_SUCCESS)
        conf_code("after", code);
}

static int serve(const char *driver, const struct conf_group *group, size_t first, size_t count) {
    size_t i;
    int status;

    if (group->flags & CONF_EAGER)
        setenv("CUDA_MODULE_LOADING", "EAGER", 1);
    status = open_driver(driver, group->flags);
    if (status == 0 && !(group->flags & CONF_BARE))
        status = open_device();
    if (status != 0)
        return status;
    for (i = first; i < first + count && i < group->count; i++) {
        const struct conf_case *test = &group->cases[i];

        alarm(CONF_CASE_SECONDS);
        conf_line_begin();
        test->run();
        check_clean(group, test);
        printf("%s%s.%s:%s\n", test->flags & CONF_CUDA ? "[cuda] " : "", group->name, test->name,
               conf_line());
        if (fflush(stdout) != 0)
            return 2;
    }
    /* Skips exit handlers: after a sticky error or with a broken driver they may hang. */
    leave(0);
}

/* ---- starting serving processes -------------------------------------------------------------- */

struct options {
    const char *driver, *only, *check, *out;
};

/* Starts this program again with the arguments. *read_fd reads the child's output. */
static pid_t start(char *const argv[], int *read_fd) {
    posix_spawn_file_actions_t actions;
    int pipe_fd[2];
    pid_t pid = -1;

    if (pipe(pipe_fd) != 0)
        return -1;
    if (posix_spawn_file_actions_init(&actions) == 0) {
        posix_spawn_file_actions_adddup2(&actions, pipe_fd[1], STDOUT_FILENO);
        posix_spawn_file_actions_addclose(&actions, pipe_fd[0]);
        posix_spawn_file_actions_addclose(&actions, pipe_fd[1]);
        if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ) != 0)
            pid = -1;
        posix_spawn_file_actions_destroy(&actions);
    }
    close(pipe_fd[1]);
    if (pid < 0)
        close(pipe_fd[0]);
    else
        *read_fd = pipe_fd[0];
    return pid;
}

static int wait_for(pid_t pid) {
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

/* Runs cases first .. first + count - 1 in one process. Sets *done to the number of lines it
 * printed. */
static int serve_elsewhere(const struct options *options, const struct conf_group *group,
                           size_t first, size_t count, struct conf_lines *lines, size_t *done) {
    char from[24], number[24], text[4200];
    char *argv[] = {(char *)(uintptr_t) "conformance",
                    (char *)(uintptr_t) "--driver",
                    (char *)(uintptr_t)options->driver,
                    (char *)(uintptr_t) "--serve",
                    (char *)(uintptr_t)group->name,
                    from,
                    number,
                    NULL};
    int read_fd = -1, status;
    pid_t pid;
    FILE *file;

    snprintf(from, sizeof from, "%zu", first);
    snprintf(number, sizeof number, "%zu", count);
    *done = 0;
    fflush(NULL);
    pid = start(argv, &read_fd);
    if (pid < 0)
        return -1;
    file = fdopen(read_fd, "r");
    if (file == NULL) {
        close(read_fd);
    } else {
        while (fgets(text, sizeof text, file) != NULL) {
            size_t length = strcspn(text, "\n");

            if (text[length] == '\n' && conf_lines_add(lines, text, length) == 0)
                ++*done;
        }
        fclose(file);
    }
    status = wait_for(pid);
    return file == NULL ? -1 : status;
}

static void say_died(const struct conf_group *group, const struct conf_case *test, int status,
                     struct conf_lines *lines) {
    char text[200], how[40];

    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(how, sizeof how, "hung");
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "SIG%s", sigabbrev_np(WTERMSIG(status)));
    else
        snprintf(how, sizeof how, "exit-%d", WEXITSTATUS(status));
    snprintf(text, sizeof text, "%s%s.%s: died=%s", test->flags & CONF_CUDA ? "[cuda] " : "",
             group->name, test->name, how);
    conf_lines_add(lines, text, strlen(text));
}

/* Returns how many cases from `first` on may share a process. */
static size_t stretch(const struct conf_group *group, size_t first, int soft) {
    size_t end = first;

    while (end < group->count && !(group->cases[end].flags & CONF_ALONE) &&
           !(soft && group->cases[end].flags & CONF_CUDA))
        end++;
    return end > first ? end - first : 1;
}

/* Returns 0, or the exit status if no case could run. */
static int run_group(const struct options *options, const struct conf_group *group,
                     struct conf_lines *lines) {
    int soft = strcmp(options->driver, "soft") == 0;
    size_t at = 0;

    while (at < group->count) {
        size_t count = stretch(group, at, soft), done;
        int status;

        if (soft && group->cases[at].flags & CONF_CUDA) {
            at++;
            continue;
        }
        status = serve_elsewhere(options, group, at, count, lines, &done);
        if (status == -1) {
            fprintf(stderr, "conformance: cannot start a process: %s\n", strerror(errno));
            return 2;
        }
        if (WIFEXITED(status) && (WEXITSTATUS(status) == NO_DRIVER ||
                                  WEXITSTATUS(status) == NO_START || WEXITSTATUS(status) == 64))
            return WEXITSTATUS(status);
        at += done;
        if (done < count) {
            say_died(group, &group->cases[at], status, lines);
            at++;
        }
    }
    return 0;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int usage(void) {
    fprintf(stderr, "usage: conformance --driver soft|cuda [--group a,b,...] [--check FILE] "
                    "[--out FILE]\n");
    return 64;
}

static const struct conf_group *find_group(const char *name) {
    size_t i;

    for (i = 0; i < GROUPS; i++)
        if (strcmp(groups[i]->name, name) == 0)
            return groups[i];
    return NULL;
}

static int write_lines(FILE *file, const struct conf_lines *lines) {
    size_t i;

    for (i = 0; i < lines->count; i++)
        fprintf(file, "%s\n", lines->line[i]);
    return fflush(file);
}

static int finish(const struct options *options, const struct conf_lines *lines) {
    int different;

    if (options->out != NULL) {
        FILE *file = fopen(options->out, "w");

        if (file == NULL || write_lines(file, lines) != 0 || fclose(file) != 0) {
            fprintf(stderr, "conformance: cannot write %s\n", options->out);
            return 2;
        }
    }
    if (options->check == NULL)
        return options->out == NULL && write_lines(stdout, lines) != 0 ? 2 : 0;
    different =
        conf_compare(lines, options->check, strcmp(options->driver, "soft") == 0, options->only);
    if (different < 0)
        fprintf(stderr, "conformance: cannot read %s\n", options->check);
    /* Under compute-sanitizer some calls wait that otherwise do not. That run is for memory errors
     * only; other runs compare the codes. */
    if (getenv("ACRE_TEST_MEMCHECK") != NULL && different > 0)
        return 0;
    return different < 0 ? 2 : different > 0;
}

static int run(const struct options *options) {
    struct conf_lines lines = {NULL, 0};
    const char *require = getenv("ACRE_REQUIRE_CUDA");
    size_t i;
    int status = 0;

    for (i = 0; i < GROUPS && status == 0; i++)
        if (conf_in_list(options->only, groups[i]->name, strlen(groups[i]->name)))
            status = run_group(options, groups[i], &lines);
    if (status == NO_DRIVER && require != NULL && strcmp(require, "1") == 0)
        status = 2;
    if (status == NO_DRIVER)
        puts("skipped: no driver, or no device");
    if (status == NO_START)
        status = 2;
    if (status == 0)
        status = finish(options, &lines);
    conf_lines_free(&lines);
    return status;
}

static int start_serving(const char *driver, int argc, char **argv) {
    const struct conf_group *group = find_group(argv[0]);

    if (argc != 3 || group == NULL)
        return usage();
    return serve(driver, group, strtoul(argv[1], NULL, 10), strtoul(argv[2], NULL, 10));
}

int main(int argc, char **argv) {
    struct options options = {NULL, NULL, NULL, NULL};
    int i;

    for (i = 1; i + 1 < argc; i += 2) {
        const char *word = argv[i];

        if (strcmp(word, "--driver") == 0)
            options.driver = argv[i + 1];
        else if (strcmp(word, "--group") == 0)
            options.only = argv[i + 1];
        else if (strcmp(word, "--check") == 0)
            options.check = argv[i + 1];
        else if (strcmp(word, "--out") == 0)
            options.out = argv[i + 1];
        else if (strcmp(word, "--serve") == 0 && options.driver != NULL)
            return start_serving(options.driver, argc - i - 1, argv + i + 1);
        else if (strcmp(word, "--import") == 0 && options.driver != NULL) {
            int status = open_driver(options.driver, 0);

            alarm(CONF_CASE_SECONDS);
            return status != 0 ? status : conf_share_child(atoi(argv[i + 1]));
        } else
            return usage();
    }
    if (i != argc || options.driver == NULL ||
        (strcmp(options.driver, "soft") != 0 && strcmp(options.driver, "cuda") != 0))
        return usage();
    return run(&options);
}
