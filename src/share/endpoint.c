/* Socket addresses of shares: see endpoint.h. */
#include "share/endpoint.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "share/wire.h"

enum {
    ENDPOINT_BACKLOG = 64,
    ENDPOINT_NAP_NS = 1000000,      /* first pause between two attempts to connect; doubles */
    ENDPOINT_NAP_MOST_NS = 20000000 /* longest pause */
};

acre_status acre__endpoint_from(const char *path, struct acre__endpoint *endpoint) {
    memset(endpoint, 0, sizeof *endpoint);
    if (!path)
        return acre__fail(ACRE_E_NULL, "the path is NULL");
    size_t length = strnlen(path, sizeof endpoint->address.sun_path);
    endpoint->is_file = path[0] != '@';
    if (length < (endpoint->is_file ? 1u : 2u))
        return acre__fail(ACRE_E_INVALID, "the path is empty");
    if (length >= sizeof endpoint->address.sun_path)
        return acre__fail(ACRE_E_INVALID,
                          "the path is longer than %zu bytes, the limit of a socket address",
                          sizeof endpoint->address.sun_path - 1);
    snprintf(endpoint->name, sizeof endpoint->name, "%s", path);
    acre__one_line(endpoint->name);
    endpoint->address.sun_family = AF_UNIX;
    memcpy(endpoint->address.sun_path, path, length);
    endpoint->address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    if (endpoint->is_file)
        endpoint->address_bytes++; /* with the terminating NUL */
    else
        endpoint->address.sun_path[0] = '\0';
    return ACRE_OK;
}

/* ---- listening ---- */

/* bind has created the file with the socket's mode less the umask. Sets the exact mode and records
 * the file's identity. */
static acre_status endpoint_own(struct acre__endpoint *endpoint, mode_t mode) {
    struct stat file;
    const char *path = endpoint->address.sun_path;
    if (lstat(path, &file) != 0)
        return acre__wire_system(errno, "lstat of the socket");
    endpoint->device = file.st_dev;
    endpoint->inode = file.st_ino;
    if ((file.st_mode & 0777) != mode && chmod(path, mode) != 0)
        return acre__wire_system(errno, "chmod of the socket");
    return ACRE_OK;
}

/* Removes the file that a killed owner left: a socket of this user without a listener. Returns 1 if
 * it was removed. */
static int endpoint_sweep(const struct acre__endpoint *endpoint) {
    const char *path = endpoint->address.sun_path;
    struct stat file;
    if (!endpoint->is_file || lstat(path, &file) != 0 || !S_ISSOCK(file.st_mode) ||
        file.st_uid != geteuid())
        return 0;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    int is_dead =
        connect(fd, (const struct sockaddr *)&endpoint->address, endpoint->address_bytes) != 0 &&
        errno == ECONNREFUSED;
    close(fd);
    return is_dead && unlink(path) == 0;
}

static int endpoint_bind(const struct acre__endpoint *endpoint, int fd) {
    const struct sockaddr *address = (const struct sockaddr *)&endpoint->address;
    if (bind(fd, address, endpoint->address_bytes) == 0)
        return 0;
    int code = errno;
    if (code == EADDRINUSE && endpoint_sweep(endpoint))
        code = bind(fd, address, endpoint->address_bytes) == 0 ? 0 : errno;
    return code;
}

acre_status acre__endpoint_listen(struct acre__endpoint *endpoint, mode_t mode, int *out) {
    int code = 0, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *out = -1;
    if (fd < 0)
        return acre__wire_system(errno, "socket");
    acre_status status = ACRE_OK;
    if (endpoint->is_file && fchmod(fd, mode) != 0) /* so that bind does not create a wider mode */
        status = acre__wire_system(errno, "fchmod of the socket");
    if (status == ACRE_OK && (code = endpoint_bind(endpoint, fd)) != 0) {
        status = code == EADDRINUSE
                     ? acre__fail(ACRE_E_BUSY, "%s is already in use", endpoint->name)
                     : acre__wire_system(code, endpoint->name);
    } else if (status == ACRE_OK) {
        if (endpoint->is_file)
            status = endpoint_own(endpoint, mode);
        if (status == ACRE_OK && listen(fd, ENDPOINT_BACKLOG) != 0)
            status = acre__wire_system(errno, "listen");
        if (status)
            acre__endpoint_remove(endpoint);
    }
    if (status) {
        close(fd);
        return status;
    }
    *out = fd;
    return ACRE_OK;
}

void acre__endpoint_remove(const struct acre__endpoint *endpoint) {
    struct stat file;
    const char *path = endpoint->address.sun_path;
    if (endpoint->is_file && lstat(path, &file) == 0 && file.st_dev == endpoint->device &&
        file.st_ino == endpoint->inode)
        (void)unlink(path);
}

/* ---- connecting ---- */

/* Maps connect's errno to a status; ACRE_E_NOT_READY: worth a retry. */
static acre_status connect_fail(const struct acre__endpoint *endpoint, int code) {
    switch (code) {
    case ENOENT:
    case ECONNREFUSED:
    case EAGAIN: /* the backlog is full */
    case EINTR:
        return ACRE_E_NOT_READY;
    case EACCES:
    case EPERM:
        return acre__fail(ACRE_E_PEER, "%s: this user has no permission to connect",
                          endpoint->name);
    case EPROTOTYPE:
        return acre__fail(ACRE_E_PROTOCOL, "%s is a socket of another type", endpoint->name);
    default:
        return acre__wire_system(code, endpoint->name);
    }
}

acre_status acre__endpoint_connect(const struct acre__endpoint *endpoint, int64_t deadline_ns,
                                   int *out) {
    const struct sockaddr *address = (const struct sockaddr *)&endpoint->address;
    *out = -1;
    for (int64_t nap_ns = ENDPOINT_NAP_NS;;) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return acre__wire_system(errno, "socket");
        if (connect(fd, address, endpoint->address_bytes) == 0) {
            *out = fd;
            return ACRE_OK;
        }
        acre_status status = connect_fail(endpoint, errno);
        close(fd);
        if (status != ACRE_E_NOT_READY)
            return status;
        int64_t left_ns = deadline_ns - acre__wire_now_ns();
        if (left_ns <= 0)
            return acre__fail(ACRE_E_GONE, "%s: no process shares memory there", endpoint->name);
        int64_t now_ns = left_ns < nap_ns ? left_ns : nap_ns;
        struct timespec nap = {.tv_sec = 0, .tv_nsec = (long)now_ns};
        nanosleep(&nap, NULL);
        nap_ns = 2 * nap_ns > ENDPOINT_NAP_MOST_NS ? ENDPOINT_NAP_MOST_NS : 2 * nap_ns;
    }
}
