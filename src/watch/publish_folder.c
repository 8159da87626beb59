/* The folder of published statistics: see publish_folder.h. No state; the only locks are those on
 * the files. */
#include "watch/publish_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "watch/stats_format.h"

/* A program locks its file at once; one that is older and not locked was killed in between. */
enum { PUBLISH_FRESH_S = 60 };

static int folder_path(unsigned index, int is_writer, char path[ACRE__PATH_BYTES]) {
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    struct stat owner; /* with sudo, the variable may be that of another user */
    int has_runtime = runtime && runtime[0] == '/' && strlen(runtime) < ACRE__PATH_BYTES - 8 &&
                      (stat(runtime, &owner) != 0 || owner.st_uid == geteuid());
    if (!has_runtime)
        index++;
    unsigned long user = (unsigned long)geteuid();
    struct stat space;
    switch (index) {
    case 0:
        snprintf(path, ACRE__PATH_BYTES, "%s/acre", runtime);
        return 1;
    case 1:
        /* In memory: creating and touching a file of a disk can take milliseconds. Containers that
         * share /dev/shm use the same process ids, so each pid namespace has a folder. */
        if (stat("/proc/self/ns/pid", &space))
            space.st_ino = 0;
        snprintf(path, ACRE__PATH_BYTES, "/dev/shm/acre-%lu-%lx", user,
                 (unsigned long)space.st_ino);
        return 1;
    case 2:
        snprintf(path, ACRE__PATH_BYTES, "/tmp/acre-%lu", user);
        return 1;
    case 3: /* where a program with the variable publishes, for a reader without it */
        if (is_writer)
            return 0;
        snprintf(path, ACRE__PATH_BYTES, "/run/user/%lu/acre", user);
        return 1;
    default:
        return 0;
    }
}

int acre__publish_folder(unsigned index, char path[ACRE__PATH_BYTES]) {
    return folder_path(index, 0, path);
}

int acre__publish_folder_open(const char *path, int is_made) {
    struct stat now;
    if (is_made && mkdir(path, 0700) && errno != EEXIST)
        return -1;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &now) || now.st_uid != geteuid() || (now.st_mode & 077)) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

int acre__publish_folder_next(unsigned *index, char path[ACRE__PATH_BYTES]) {
    char next[ACRE__PATH_BYTES];
    int error = ENOENT;
    while (folder_path(*index, 1, next)) {
        ++*index;
        int folder = acre__publish_folder_open(next, 1);
        if (folder >= 0 || error != EPERM) /* the one to name is the first that is refused */
            memcpy(path, next, sizeof next);
        if (folder >= 0)
            return folder;
        error = error == EPERM ? error : errno;
    }
    errno = error;
    return -1;
}

/* ---- files ---- */

void acre__publish_names(long pid, uint64_t started_ns, char fresh[ACRE__PUBLISH_NAME],
                         char name[ACRE__PUBLISH_NAME]) {
    snprintf(fresh, ACRE__PUBLISH_NAME, ".%ld-%llx.new", pid, (unsigned long long)started_ns);
    snprintf(name, ACRE__PUBLISH_NAME, "%ld-%llx.stats", pid, (unsigned long long)started_ns);
}

static int name_ends(const char *name, const char *end) {
    size_t pid = strspn(name, "0123456789");
    if (!pid || name[pid] != '-')
        return 0;
    size_t time = strspn(name + pid + 1, "0123456789abcdef");
    return time && strcmp(name + pid + 1 + time, end) == 0;
}

int acre__publish_is_name(const char *name) {
    return strlen(name) < ACRE__PUBLISH_NAME && name_ends(name, ".stats");
}

void acre__publish_control_name(long pid, uint64_t started_ns, char name[ACRE__PUBLISH_NAME]) {
    snprintf(name, ACRE__PUBLISH_NAME, "%ld-%llx.control", pid, (unsigned long long)started_ns);
}

long acre__publish_control_pid(const char *name) {
    return strlen(name) < ACRE__PUBLISH_NAME && name_ends(name, ".control") ? strtol(name, NULL, 10)
                                                                            : -1;
}

/* Returns 1 if nobody writes the file any more. */
static int file_is_dead(int fd, int is_fresh) {
    struct stat now;
    char magic[sizeof ACRE__STATS_MAGIC - 1];
    if (fstat(fd, &now) || !S_ISREG(now.st_mode) || flock(fd, LOCK_SH | LOCK_NB))
        return 0;
    if (is_fresh)
        return time(NULL) - now.st_mtime > PUBLISH_FRESH_S;
    return pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic &&
           memcmp(magic, ACRE__STATS_MAGIC, sizeof magic) == 0;
}

/* The socket of a process that has ended without removing it. */
static int socket_is_dead(const char *name) {
    long pid = acre__publish_control_pid(name);
    return pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

int acre__publish_remove_dead(int folder, const char *name) {
    if (socket_is_dead(name))
        return unlinkat(folder, name, 0) == 0;
    int is_fresh = name[0] == '.' && name_ends(name + 1, ".new");
    if (!is_fresh && !acre__publish_is_name(name))
        return 0;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return 0;
    int is_removed = file_is_dead(fd, is_fresh) && unlinkat(folder, name, 0) == 0;
    close(fd);
    return is_removed;
}

void acre__publish_sweep(int folder) {
    int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = own >= 0 ? fdopendir(own) : NULL;
    const struct dirent *entry;
    if (!list) {
        if (own >= 0)
            close(own);
        return;
    }
    for (int i = 0; i < ACRE__PUBLISH_ENTRIES && (entry = readdir(list)); i++)
        (void)acre__publish_remove_dead(folder, entry->d_name);
    closedir(list);
}
