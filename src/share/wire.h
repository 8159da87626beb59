/* The messages of sharing: building, checking, sending and receiving them.
 *
 * Two processes of one machine talk over a Unix socket that preserves message boundaries
 * (SOCK_SEQPACKET). Numbers are in the machine's byte order. A message has a head; its type and
 * count determine its size.
 *
 *   importer                     owner
 *   REQUEST (one or more)  ->                the ids of the importer's chunks, in order, in parts
 *                          <-    VIEW        the current state, and how many leading ids to keep
 *   MORE                   ->                once for each message of chunks
 *                          <-    CHUNKS      with a descriptor for each chunk
 *
 * REFUSED may replace any answer. A new REQUEST cancels an answer in progress. The owner sends
 * chunks only on request, so neither side has to queue messages that the other does not read.
 *
 * A received message is untrusted until acre__wire_check has accepted it; that function only reads
 * the bytes. Sockets never block. There is no state; any thread may call these functions. */
#ifndef ACRE_SHARE_WIRE_H
#define ACRE_SHARE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

enum {
    ACRE__WIRE_MAGIC = 0x45524341, /* "ACRE" */
    ACRE__WIRE_VERSION = 1,
    ACRE__WIRE_FDS = 253,           /* descriptors per message: the kernel's limit */
    ACRE__WIRE_IDS = 1000,          /* per message: 8 KiB, well within any socket's buffer */
    ACRE__WIRE_CHUNK_MOST = 131072, /* per object: 256 GiB of the smallest chunks */
    ACRE__WIRE_TEXT = 160
};

/* Limit for the bytes of one object and of its addresses: 32 TiB, all that a process can reserve on
 * a GPU. */
#define ACRE__WIRE_BYTES_MOST ((uint64_t)1 << 45)

enum acre__wire_type {
    ACRE__WIRE_REQUEST = 1,
    ACRE__WIRE_VIEW = 2,
    ACRE__WIRE_MORE = 3,
    ACRE__WIRE_CHUNKS = 4,
    ACRE__WIRE_REFUSED = 5
};

struct acre__wire_head {
    uint32_t magic;
    uint16_t version, type;
    uint32_t bytes; /* of the whole message */
    uint32_t count; /* of ids or chunks; 0 in other messages */
};

struct acre__wire_request {
    struct acre__wire_head head;
    uint32_t total, first; /* number of all ids, and the index of this message's first one */
    uint64_t ids[ACRE__WIRE_IDS];
};

struct acre__wire_view {
    struct acre__wire_head head;
    uint64_t element_bytes, used_bytes, mapped_bytes, reserved_bytes;
    uint32_t chunk_count; /* mapped chunks */
    uint32_t keep_count;  /* leading chunks that the importer already has */
    uint32_t flags;       /* ACRE_SHARE_READ_ONLY */
    uint32_t zero;
    uint8_t uuid[16]; /* of the device */
};

struct acre__wire_chunk {
    uint64_t id, bytes;
};

struct acre__wire_chunks {
    struct acre__wire_head head;
    uint32_t first, zero; /* index of the first chunk in the view */
    struct acre__wire_chunk chunks[ACRE__WIRE_FDS];
};

struct acre__wire_refused {
    struct acre__wire_head head;
    int32_t status;
    uint32_t zero;
    char text[ACRE__WIRE_TEXT]; /* NUL-terminated */
};

union acre__wire_message {
    struct acre__wire_head head;
    struct acre__wire_request request;
    struct acre__wire_view view;
    struct acre__wire_chunks chunks;
    struct acre__wire_refused refused;
};

/* Bytes of a message with `count` ids or chunks; 0 if there is no such message. */
size_t acre__wire_bytes(uint32_t type, uint32_t count);

/* Zeroes the message and writes its head. */
void acre__wire_begin(union acre__wire_message *message, enum acre__wire_type type, uint32_t count);

/* Writes a REFUSED message; the text is truncated to fit. */
void acre__wire_refuse(union acre__wire_message *message, acre_status status, const char *text);

/* Checks a message of `bytes` bytes with `fd_count` descriptors. After ACRE_OK every number is
 * within its bounds, the numbers of a view are consistent, and a text is NUL-terminated.
 * ACRE_E_PROTOCOL with a detail otherwise. */
acre_status acre__wire_check(const union acre__wire_message *message, size_t bytes,
                             size_t fd_count);

/* Sends a message of acre__wire_begin. The caller keeps the descriptors. ACRE_E_NOT_READY if the
 * socket has no room now, ACRE_E_GONE, ACRE_E_SYSTEM. */
acre_status acre__wire_send(int socket, const union acre__wire_message *message, const int *fds,
                            size_t fd_count);

/* Receives a message and checks it. After success the caller owns the descriptors, which are
 * close-on-exec; otherwise they are closed and *fd_count is 0. ACRE_E_NOT_READY if there is no
 * message now, ACRE_E_GONE, ACRE_E_PROTOCOL, ACRE_E_SYSTEM. */
acre_status acre__wire_receive(int socket, union acre__wire_message *message,
                               int fds[ACRE__WIRE_FDS], size_t *fd_count);

/* The time in nanoseconds on the clock of all deadlines. */
int64_t acre__wire_now_ns(void);

/* acre__wire_send without descriptors and acre__wire_receive, but wait until the deadline;
 * ACRE_E_GONE when it passes. */
acre_status acre__wire_send_by(int socket, const union acre__wire_message *message,
                               int64_t deadline_ns);
acre_status acre__wire_receive_by(int socket, union acre__wire_message *message,
                                  int fds[ACRE__WIRE_FDS], size_t *fd_count, int64_t deadline_ns);

/* Closes descriptors. */
void acre__wire_close(const int *fds, size_t fd_count);

/* ACRE_E_SYSTEM with the text of an errno: "WHAT: No such file or directory". */
acre_status acre__wire_system(int code, const char *what);

#endif
