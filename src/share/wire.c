/* Messages of sharing: see wire.h. */
#include "share/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"

/* ---- building ---- */

size_t acre__wire_bytes(uint32_t type, uint32_t count) {
    switch (type) {
    case ACRE__WIRE_REQUEST:
        return count > ACRE__WIRE_IDS
                   ? 0
                   : offsetof(struct acre__wire_request, ids) + count * sizeof(uint64_t);
    case ACRE__WIRE_CHUNKS:
        return count == 0 || count > ACRE__WIRE_FDS ? 0
                                                    : offsetof(struct acre__wire_chunks, chunks) +
                                                          count * sizeof(struct acre__wire_chunk);
    case ACRE__WIRE_VIEW:
        return count ? 0 : sizeof(struct acre__wire_view);
    case ACRE__WIRE_MORE:
        return count ? 0 : sizeof(struct acre__wire_head);
    case ACRE__WIRE_REFUSED:
        return count ? 0 : sizeof(struct acre__wire_refused);
    default:
        return 0;
    }
}

void acre__wire_begin(union acre__wire_message *message, enum acre__wire_type type,
                      uint32_t count) {
    memset(message, 0, sizeof *message);
    message->head.magic = ACRE__WIRE_MAGIC;
    message->head.version = ACRE__WIRE_VERSION;
    message->head.type = (uint16_t)type;
    message->head.count = count;
    message->head.bytes = (uint32_t)acre__wire_bytes(type, count);
}

void acre__wire_refuse(union acre__wire_message *message, acre_status status, const char *text) {
    acre__wire_begin(message, ACRE__WIRE_REFUSED, 0);
    message->refused.status = status;
    snprintf(message->refused.text, sizeof message->refused.text, "%s", text);
}

/* ---- checking ---- */

static acre_status check_request(const struct acre__wire_request *request) {
    if (request->total > ACRE__WIRE_CHUNK_MOST)
        return acre__fail(ACRE_E_PROTOCOL, "invalid request: %u ids", request->total);
    if (request->first > request->total || request->head.count > request->total - request->first)
        return acre__fail(ACRE_E_PROTOCOL, "invalid request: ids %u + %u of %u", request->first,
                          request->head.count, request->total);
    if (request->total && !request->head.count)
        return acre__fail(ACRE_E_PROTOCOL, "invalid request: none of its %u ids", request->total);
    return ACRE_OK;
}

static acre_status check_view(const struct acre__wire_view *view) {
    if (view->chunk_count > ACRE__WIRE_CHUNK_MOST || view->keep_count > view->chunk_count)
        return acre__fail(ACRE_E_PROTOCOL, "invalid view: %u chunks, of which %u are kept",
                          view->chunk_count, view->keep_count);
    if (view->reserved_bytes > ACRE__WIRE_BYTES_MOST || view->mapped_bytes > view->reserved_bytes ||
        view->used_bytes > view->mapped_bytes || !view->mapped_bytes != !view->chunk_count)
        return acre__fail(ACRE_E_PROTOCOL,
                          "invalid view: %llu used, %llu mapped, %llu reserved bytes in %u chunks",
                          (unsigned long long)view->used_bytes,
                          (unsigned long long)view->mapped_bytes,
                          (unsigned long long)view->reserved_bytes, view->chunk_count);
    if (!view->element_bytes || view->element_bytes > ACRE__WIRE_BYTES_MOST)
        return acre__fail(ACRE_E_PROTOCOL, "invalid view: elements of %llu bytes",
                          (unsigned long long)view->element_bytes);
    if (view->flags & ~ACRE_SHARE_READ_ONLY || view->zero)
        return acre__fail(ACRE_E_PROTOCOL, "invalid view: flags 0x%x", view->flags);
    return ACRE_OK;
}

static acre_status check_chunks(const struct acre__wire_chunks *chunks) {
    if (chunks->first >= ACRE__WIRE_CHUNK_MOST || chunks->zero)
        return acre__fail(ACRE_E_PROTOCOL, "invalid chunks: first %u", chunks->first);
    for (uint32_t i = 0; i < chunks->head.count; i++)
        if (!chunks->chunks[i].bytes || chunks->chunks[i].bytes > ACRE__WIRE_BYTES_MOST)
            return acre__fail(ACRE_E_PROTOCOL, "invalid chunks: a chunk of %llu bytes",
                              (unsigned long long)chunks->chunks[i].bytes);
    return ACRE_OK;
}

static int is_refusal(int32_t status) {
    switch (status) {
#define ACRE__WIRE_STATUS(name, value, text) case value:
        ACRE_STATUS_LIST(ACRE__WIRE_STATUS)
#undef ACRE__WIRE_STATUS
        return status != ACRE_OK;
    default:
        return 0;
    }
}

static acre_status check_refused(const struct acre__wire_refused *refused) {
    if (!is_refusal(refused->status) || refused->zero)
        return acre__fail(ACRE_E_PROTOCOL, "invalid refusal: status %d", (int)refused->status);
    if (!memchr(refused->text, '\0', sizeof refused->text))
        return acre__fail(ACRE_E_PROTOCOL, "invalid refusal: the text is not terminated");
    return ACRE_OK;
}

acre_status acre__wire_check(const union acre__wire_message *message, size_t bytes,
                             size_t fd_count) {
    const struct acre__wire_head *head = &message->head;
    if (bytes < sizeof *head)
        return acre__fail(ACRE_E_PROTOCOL, "invalid message: %zu bytes", bytes);
    if (head->magic != ACRE__WIRE_MAGIC)
        return acre__fail(ACRE_E_PROTOCOL, "invalid message: wrong magic number");
    if (head->version != ACRE__WIRE_VERSION)
        return acre__fail(ACRE_E_PROTOCOL, "protocol version %u, this acre supports version %d",
                          head->version, (int)ACRE__WIRE_VERSION);
    size_t wanted = acre__wire_bytes(head->type, head->count);
    if (!wanted || head->bytes != wanted || bytes != wanted)
        return acre__fail(ACRE_E_PROTOCOL,
                          "invalid message: type %u with %u entries, declares %u bytes, has %zu",
                          head->type, head->count, head->bytes, bytes);
    if (fd_count != (head->type == ACRE__WIRE_CHUNKS ? head->count : 0))
        return acre__fail(ACRE_E_PROTOCOL,
                          "invalid message: type %u with %u entries has %zu descriptors",
                          head->type, head->count, fd_count);
    switch (head->type) {
    case ACRE__WIRE_REQUEST:
        return check_request(&message->request);
    case ACRE__WIRE_VIEW:
        return check_view(&message->view);
    case ACRE__WIRE_CHUNKS:
        return check_chunks(&message->chunks);
    case ACRE__WIRE_REFUSED:
        return check_refused(&message->refused);
    default:
        return ACRE_OK;
    }
}

/* ---- sending and receiving ---- */

acre_status acre__wire_system(int code, const char *what) {
    char room[128];
    return acre__fail(ACRE_E_SYSTEM, "%s: %s", what, strerror_r(code, room, sizeof room));
}

/* Maps an errno of sendmsg or recvmsg to a status. */
static acre_status wire_fail(int code, const char *what) {
    if (code == EAGAIN || code == EWOULDBLOCK)
        return ACRE_E_NOT_READY;
    if (code == EPIPE || code == ECONNRESET || code == ENOTCONN)
        return acre__fail(ACRE_E_GONE, "the other process has closed the connection");
    return acre__wire_system(code, what);
}

/* Room for the descriptors of one message. */
union wire_control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(ACRE__WIRE_FDS * sizeof(int))];
};

acre_status acre__wire_send(int socket, const union acre__wire_message *message, const int *fds,
                            size_t fd_count) {
    union wire_control control;
    struct iovec data = {(void *)(uintptr_t)message, message->head.bytes};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
    if (fd_count) {
        memset(&control, 0, sizeof control);
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return wire_fail(errno, "sendmsg");
    if ((size_t)sent != message->head.bytes)
        return acre__fail(ACRE_E_SYSTEM, "sendmsg: %zd of %u bytes", sent, message->head.bytes);
    return ACRE_OK;
}

/* Takes all descriptors out of a received message. */
static size_t wire_take_fds(struct msghdr *header, int fds[ACRE__WIRE_FDS]) {
    size_t count = 0;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at; at = CMSG_NXTHDR(header, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(at) + i * sizeof fd, sizeof fd);
            if (count < ACRE__WIRE_FDS)
                fds[count++] = fd;
            else
                close(fd);
        }
    }
    return count;
}

/* Calls recvmsg, with retries. A process that closes its end before it has read everything resets
 * the connection. The kernel reports the reset once, before the data that the process sent; the
 * retry reads that data. */
static ssize_t wire_recvmsg(int socket, struct msghdr *header) {
    size_t room = header->msg_controllen;
    for (int resets = 0;;) {
        header->msg_controllen = room;
        header->msg_flags = 0;
        ssize_t got = recvmsg(socket, header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got >= 0 || (errno != EINTR && !(errno == ECONNRESET && resets++ == 0)))
            return got;
    }
}

acre_status acre__wire_receive(int socket, union acre__wire_message *message,
                               int fds[ACRE__WIRE_FDS], size_t *fd_count) {
    union wire_control control;
    struct iovec data = {message, sizeof *message};
    struct msghdr header = {.msg_iov = &data,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control.bytes};
    *fd_count = 0;
    ssize_t got = wire_recvmsg(socket, &header);
    if (got < 0)
        return wire_fail(errno, "recvmsg");
    *fd_count = wire_take_fds(&header, fds);
    acre_status status;
    if (header.msg_flags & MSG_CTRUNC)
        status =
            acre__fail(ACRE_E_SYSTEM,
                       "out of file descriptors: the message has more than this process may open");
    else if (header.msg_flags & MSG_TRUNC)
        status =
            acre__fail(ACRE_E_PROTOCOL, "invalid message: more than %zu bytes", sizeof *message);
    else if (got == 0)
        status = acre__fail(ACRE_E_GONE, "the other process has closed the connection");
    else
        status = acre__wire_check(message, (size_t)got, *fd_count);
    if (status) {
        acre__wire_close(fds, *fd_count);
        *fd_count = 0;
    }
    return status;
}

void acre__wire_close(const int *fds, size_t fd_count) {
    for (size_t i = 0; i < fd_count; i++)
        close(fds[i]);
}

/* ---- waiting ---- */

int64_t acre__wire_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Waits until the socket can be read or written or is closed; the next call on it reports a
 * close. */
static acre_status wire_wait(int socket, short events, int64_t deadline_ns) {
    for (;;) {
        int64_t left_ns = deadline_ns - acre__wire_now_ns();
        if (left_ns <= 0)
            return acre__fail(ACRE_E_GONE, "timeout: the other process did not answer in time");
        int64_t left_ms = left_ns / 1000000 + 1;
        struct pollfd at = {.fd = socket, .events = events};
        int ready = poll(&at, 1, left_ms > 60000 ? 60000 : (int)left_ms);
        if (ready > 0)
            return ACRE_OK;
        if (ready < 0 && errno != EINTR)
            return acre__wire_system(errno, "poll");
    }
}

acre_status acre__wire_send_by(int socket, const union acre__wire_message *message,
                               int64_t deadline_ns) {
    for (;;) {
        acre_status status = acre__wire_send(socket, message, NULL, 0);
        if (status != ACRE_E_NOT_READY)
            return status;
        if ((status = wire_wait(socket, POLLOUT, deadline_ns)))
            return status;
    }
}

acre_status acre__wire_receive_by(int socket, union acre__wire_message *message,
                                  int fds[ACRE__WIRE_FDS], size_t *fd_count, int64_t deadline_ns) {
    for (;;) {
        acre_status status = acre__wire_receive(socket, message, fds, fd_count);
        if (status != ACRE_E_NOT_READY)
            return status;
        if ((status = wire_wait(socket, POLLIN, deadline_ns)))
            return status;
    }
}
