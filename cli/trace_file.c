/* Loads the file of a trace: see trace_file.h. */
#include "trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "cli.h"

enum { TRACE_STEP = 1 << 20 };

/* A small gzip file can unpack to any number of bytes. */
#define TRACE_BYTES_MOST ((size_t)16 << 30)

static int bytes_grow(struct file_bytes *bytes) {
    if (bytes->count < bytes->room) {
        return 1;
    }
    size_t room = bytes->room ? 2 * bytes->room : TRACE_STEP;
    unsigned char *longer = room > TRACE_BYTES_MOST ? NULL : realloc(bytes->at, room);
    if (!longer) {
        return 0;
    }
    bytes->at = longer;
    bytes->room = room;
    return 1;
}

int trace_file_read(const char *path, int fd, struct file_bytes *bytes) {
    gzFile file = gzdopen(fd, "rb");
    if (!file) {
        close(fd);
        cli_say("%s: out of memory", path);
        return CLI_CANNOT;
    }
    int got = 1;
    while (got > 0) {
        if (!bytes_grow(bytes)) {
            cli_say("%s: the trace is too large: out of memory, or more than 16 GiB unpacked",
                    path);
            gzclose(file);
            return CLI_CANNOT;
        }
        size_t room = bytes->room - bytes->count;
        got =
            gzread(file, bytes->at + bytes->count, room > TRACE_STEP ? TRACE_STEP : (unsigned)room);
        bytes->count += got > 0 ? (size_t)got : 0;
    }
    int code;
    const char *why = gzerror(file, &code);
    int is_good = got == 0 && (code == Z_OK || code == Z_STREAM_END);
    if (!is_good) {
        cli_say("%s: byte %zu: cannot read: %s", path, bytes->count,
                code == Z_ERRNO ? strerror(errno) : why);
    }
    gzclose(file);
    return is_good ? CLI_OK : bytes->count ? CLI_FINDING : CLI_CANNOT;
}

int trace_file_open(const char *path, int *fd, bool *is_written) {
    struct stat now;
    if (strcmp(path, "-") == 0) {
        *fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        if (*fd < 0) {
            cli_say("%s: %s", file_name(path), strerror(errno));
        }
        return *fd < 0 ? CLI_CANNOT : CLI_OK;
    }
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 || fstat(*fd, &now)) {
        cli_say("%s: %s", path, strerror(errno));
        if (*fd >= 0) {
            close(*fd);
        }
        return CLI_CANNOT;
    }
    if (!S_ISREG(now.st_mode)) {
        cli_say("%s: not a regular file", path);
        close(*fd);
        return CLI_CANNOT;
    }
    *is_written = flock(*fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    if (!*is_written) {
        flock(*fd, LOCK_UN); /* a program that is about to write must not find the file locked */
    }
    return CLI_OK;
}
