/* The messages of sharing, and how they are sent and received.
 *
 * Two processes of one machine talk over a Unix socket that keeps messages whole (SOCK_SEQPACKET),
 * so numbers are in the machine's own order. A message has a head and exactly as many bytes as
 * follow from its type and count.
 *
 *   importer                     owner
 *   REQUEST (one or more)  ->                the ids of the chunks that it has, in order, in parts
 *                          <-    VIEW        what there is, and how many of those first ids stay
 *   MORE                   ->                once for each message of chunks
 *                          <-    CHUNKS      with a descriptor for each chunk
 *
 * REFUSED may come in place of every answer. A new REQUEST ends an answer that is under way. Since
 * chunks are only sent when asked for, no side ever has to hold back what the other does not read.
 *
 * What arrives is hostile until acre__wire_check has let it pass; that function only reads the
 * bytes. Sockets never block; no state, any thread. */
#ifndef ACRE_SHARE_WIRE_H
#define ACRE_SHARE_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"

enum {
    ACRE__WIRE_MAGIC = 0x45524341, /* "ACRE" */
    ACRE__WIRE_VERSION = 1,
    ACRE__WIRE_FDS = 253,           /* descriptors in a message: the kernel's limit */
    ACRE__WIRE_IDS = 1000,          /* in a message: 8 KiB, well within any socket's buffer */
    ACRE__WIRE_CHUNK_MOST = 131072, /* of one object: 256 GiB of the smallest chunks there are */
    ACRE__WIRE_TEXT = 160
};

/* Bytes of one object, and of its addresses: 32 TiB, all that a process can reserve on a GPU. */
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
    uint32_t count; /* of ids or chunks in it, 0 in others */
};

struct acre__wire_request {
    struct acre__wire_head head;
    uint32_t total, first; /* ids in all, and the place of this message's first one */
    uint64_t ids[ACRE__WIRE_IDS];
};

struct acre__wire_view {
    struct acre__wire_head head;
    uint64_t element_bytes, used_bytes, mapped_bytes, reserved_bytes;
    uint32_t chunk_count; /* that are mapped */
    uint32_t keep_count;  /* the first ones of them that the importer has */
    uint32_t flags;       /* ACRE_SHARE_READ_ONLY */
    uint32_t zero;
    uint8_t uuid[16]; /* of the device */
};

struct acre__wire_chunk {
    uint64_t id, bytes;
};

struct acre__wire_chunks {
    struct acre__wire_head head;
    uint32_t first, zero; /* place of the first one among all chunks of the view */
    struct acre__wire_chunk chunks[ACRE__WIRE_FDS];
};

struct acre__wire_refused {
    struct acre__wire_head head;
    int32_t status;
    uint32_t zero;
    char text[ACRE__WIRE_TEXT]; /* ends with NUL */
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

/* A refusal, its text cut where it is too long. */
void acre__wire_refuse(union acre__wire_message *message, acre_status status, const char *text);

/* Is this, of which `bytes` bytes came with `fd_count` descriptors, a message? Every number in it
 * is then within its bounds, those of a view fit each other, and a text has an end. ACRE_E_PROTOCOL
 * with a detail otherwise. */
acre_status acre__wire_check(const union acre__wire_message *message, size_t bytes,
                             size_t fd_count);

/* Sends a message made by acre__wire_begin. The descriptors stay the caller's. ACRE_E_NOT_READY
 * when there is no room for it now, ACRE_E_GONE, ACRE_E_SYSTEM. */
acre_status acre__wire_send(int socket, const union acre__wire_message *message, const int *fds,
                            size_t fd_count);

/* Receives a message and checks it. The descriptors, close-on-exec, are the caller's after success;
 * otherwise they are closed and *fd_count is 0. ACRE_E_NOT_READY when there is none now,
 * ACRE_E_GONE, ACRE_E_PROTOCOL, ACRE_E_SYSTEM. */
acre_status acre__wire_receive(int socket, union acre__wire_message *message,
                               int fds[ACRE__WIRE_FDS], size_t *fd_count);

/* Nanoseconds of the clock that deadlines are on. */
int64_t acre__wire_now_ns(void);

/* The same two, waiting until the deadline, which is ACRE_E_GONE. */
acre_status acre__wire_send_by(int socket, const union acre__wire_message *message,
                               int64_t deadline_ns);
acre_status acre__wire_receive_by(int socket, union acre__wire_message *message,
                                  int fds[ACRE__WIRE_FDS], size_t *fd_count, int64_t deadline_ns);

/* Closes descriptors that were received or made. */
void acre__wire_close(const int *fds, size_t fd_count);

/* ACRE_E_SYSTEM with the text of an errno: "WHAT: No such file or directory". */
acre_status acre__wire_system(int code, const char *what);

#endif
