/* Files that other programs read: see watch_file.h. No state; the only locks are those on the
 * files. */
#include "watch/watch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

/* Checks that the file is empty or an earlier file of this kind, locks it and truncates it. */
static acre_status file_check(const char *path, int fd, const char magic[8]) {
    struct stat now;
    char begin[8];
    if (fstat(fd, &now))
        return acre__fail(ACRE_E_SYSTEM, "%.120s: %s", path, strerror(errno));
    if (!S_ISREG(now.st_mode))
        return acre__fail(ACRE_E_INVALID, "%.120s is not a regular file", path);
    if (flock(fd, LOCK_EX | LOCK_NB))
        return errno == EWOULDBLOCK
                   ? acre__fail(ACRE_E_BUSY,
                                "another program is writing %.120s; %%p in the name gives each "
                                "process its own file",
                                path)
                   : acre__fail(ACRE_E_SYSTEM, "%.120s: %s", path, strerror(errno));
    if (now.st_size && (pread(fd, begin, sizeof begin, 0) != (ssize_t)sizeof begin ||
                        memcmp(begin, magic, sizeof begin) != 0))
        return acre__fail(ACRE_E_INVALID, "%.120s is a file of another kind; not overwritten",
                          path);
    if (ftruncate(fd, 0))
        return acre__fail(ACRE_E_SYSTEM, "%.120s: %s", path, strerror(errno));
    return ACRE_OK;
}

acre_status acre__watch_open(const char *path, const char magic[8], int *fd) {
    *fd = -1;
    /* O_NONBLOCK: opening a pipe would wait for a reader. */
    int made = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    if (made < 0)
        return acre__fail(ACRE_E_SYSTEM, "%.120s: %s", path, strerror(errno));
    acre_status status = file_check(path, made, magic);
    if (status) {
        close(made);
        return status;
    }
    *fd = made;
    return ACRE_OK;
}

int acre__watch_grow(int fd, uint64_t begin, uint64_t end) {
    struct rlimit limit;
    /* Growing past the limit would send a signal that kills the program. */
    if (end > INT64_MAX || (getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
                            limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur))
        return EFBIG;
    int code;
    do
        code = posix_fallocate(fd, (off_t)begin, (off_t)(end - begin));
    while (code == EINTR);
    return code;
}
