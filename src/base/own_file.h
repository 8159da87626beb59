/* Files that the library keeps open. A program may close all descriptors, as daemons do, and get
 * the same numbers for its own files: check before each use. */
#ifndef ACRE_BASE_OWN_FILE_H
#define ACRE_BASE_OWN_FILE_H

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct acre__own_file {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
};

#define ACRE__OWN_FILE_NONE                                                                        \
    { .fd = -1 }

/* Moves a descriptor to a high number, if there is one: programs may rely on low ones being free.
 * But below 64: for more, the kernel enlarges the table of a process, and if that has threads waits
 * until all of them have seen it, for some 20 ms. */
static inline int acre__own_file_high(int fd) {
    enum { FIRST = 48 };
    int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, FIRST) : -1;
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

/* Takes over a descriptor. */
static inline struct acre__own_file acre__own_file(int fd) {
    struct stat now;
    struct acre__own_file file = ACRE__OWN_FILE_NONE;
    if (fd >= 0 && fstat(fd, &now) == 0)
        file = (struct acre__own_file){fd, now.st_dev, now.st_ino};
    return file;
}

/* Returns 1 if the descriptor is still that of the file. */
static inline int acre__own_file_is_open(const struct acre__own_file *file) {
    struct stat now;
    return file->fd >= 0 && fstat(file->fd, &now) == 0 && now.st_dev == file->device &&
           now.st_ino == file->inode;
}

static inline void acre__own_file_close(struct acre__own_file *file) {
    if (acre__own_file_is_open(file))
        close(file->fd);
    file->fd = -1;
}

#endif
