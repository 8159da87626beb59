/* See run_libraries.h. */
#include "run_libraries.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

/* Path from the folder of the installed tool to the library folder; the build sets it. */
#ifndef ACRE_TO_LIBRARIES
#define ACRE_TO_LIBRARIES "../lib"
#endif

enum { RUN_FIRST_FD = 48 }; /* programs may rely on low descriptor numbers being free */

const struct run_set run_standins = {
    {"libcuda.so.1", "libcudart.so.13", NULL}, "soft", "ACRE_SOFT_LIBRARIES"};
const struct run_set run_shim = {
    {"libacre_shim.so", "libacre_gate.so", "libacre_dlsym.so"}, "shim", "ACRE_SHIM_LIBRARIES"};

/* Returns the first library that the folder lacks, or NULL if it has all. */
static const char *run_missing(const struct run_set *set, const char *folder) {
    for (size_t i = 0; i < sizeof set->names / sizeof set->names[0] && set->names[i]; i++) {
        char *path = cli_format("%s/%s", folder, set->names[i]);
        bool is_there = access(path, R_OK) == 0;
        free(path);
        if (!is_there) {
            return set->names[i];
        }
    }
    return NULL;
}

/* Returns NULL after a message if there is no such folder. */
static char *run_find_folder(const struct run_set *set) {
    const char *named = getenv(set->variable);
    if (named && *named) {
        const char *missing = run_missing(set, named);
        char *folder = missing ? NULL : realpath(named, NULL);
        if (!folder) {
            cli_say("%s=%s: there is no %s", set->variable, named,
                    missing ? missing : "such folder");
        }
        return folder;
    }
    char tool[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", tool, sizeof tool - 1);
    if (length < 0) {
        cli_say("cannot find the path of the tool: %s; set %s to the folder of %s", strerror(errno),
                set->variable, set->names[0]);
        return NULL;
    }
    tool[length] = '\0';
    *strrchr(tool, '/') = '\0';
    static const char *const places[] = {"", ACRE_TO_LIBRARIES "/acre/"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char *folder = cli_format("%s/%s%s", tool, places[i], set->folder);
        if (!run_missing(set, folder)) {
            return folder;
        }
        free(folder);
    }
    cli_say("%s and %s are neither in %s/%s nor in %s/%s%s; set %s to their folder", set->names[0],
            set->names[1], tool, set->folder, tool, places[1], set->folder, set->variable);
    return NULL;
}

/* Replaces a path with characters that are special in LD_PRELOAD by /proc/self/fd/N, with a
 * descriptor that the program inherits. Frees or returns `folder`. */
static char *run_plain_folder(char *folder) {
    if (!strpbrk(folder, " \t\n:;$")) {
        return folder;
    }
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int kept = fd < 0 ? -1 : fcntl(fd, F_DUPFD, RUN_FIRST_FD);
    free(folder);
    if (kept < 0) {
        cli_say("cannot open the folder of acre's libraries: %s", strerror(errno));
        return NULL;
    }
    close(fd);
    return cli_format("/proc/self/fd/%d", kept);
}

char *run_find_libraries(const struct run_set *set) {
    char *folder = run_find_folder(set);
    return folder ? run_plain_folder(folder) : NULL;
}

static bool run_has_device(void) {
    int (*init)(unsigned) = NULL, (*get_count)(int *) = NULL, count = 0;
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found[2] = {library ? dlsym(library, "cuInit") : NULL,
                      library ? dlsym(library, "cuDeviceGetCount") : NULL};
    if (!found[0] || !found[1]) {
        return false;
    }
    memcpy(&init, &found[0], sizeof init);
    memcpy(&get_count, &found[1], sizeof get_count);
    return init(0) == 0 && get_count(&count) == 0 && count > 0;
}

/* The driver itself is asked only without the files of its devices: its start takes a tenth of a
 * second. Then in a process of its own: it starts threads and opens files that the tool does not
 * need. */
bool run_has_gpu(void) {
    int status = 1;
    if (access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0) {
        return true;
    }
    pid_t child = fork();
    if (child == 0) {
        _exit(run_has_device() ? 0 : 1);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
