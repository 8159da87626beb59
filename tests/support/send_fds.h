/* Sends bytes with file descriptors over a Unix socket, also what acre itself would never send. */
#ifndef ACRE_TESTS_SEND_FDS_H
#define ACRE_TESTS_SEND_FDS_H

#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { SEND_FDS_MOST = 253 }; /* the kernel's limit for one message */

/* Raises the limit of open files, where it is low, so that a message with the most descriptors can
 * be received. Returns 0 if the hard limit is too low for that. */
static inline int can_receive_fds(void) {
    enum { FILES = 2 * SEND_FDS_MOST };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 0;
    if (limit.rlim_cur >= FILES)
        return 1;
    limit.rlim_cur = FILES;
    return limit.rlim_max >= FILES && setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* Returns what sendmsg returns. */
static inline ssize_t send_fds(int socket, const void *bytes, size_t count, const int *fds,
                               size_t fd_count, int flags) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(SEND_FDS_MOST * sizeof(int))];
    } control = {.room = {0}};
    struct iovec data = {(void *)(uintptr_t)bytes, count};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd_count) {
        header.msg_control = control.room;
        header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
    }
    return sendmsg(socket, &header, MSG_NOSIGNAL | flags);
}

#endif
