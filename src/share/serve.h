/* The owner's side of a share: a thread that answers importers.
 *
 * The thread alone uses the sockets and never blocks on one of them. An importer that is slow,
 * silent or hostile delays the others only by its turn. */
#ifndef ACRE_SHARE_SERVE_H
#define ACRE_SHARE_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "space/extent.h"

struct acre__server;

/* The shared extent, and who may import it. */
struct acre__offer {
    acre_device *dev;
    struct acre__extent *extent; /* must outlive the server */
    uint32_t flags;              /* ACRE_SHARE_* */
    uint32_t importers;          /* at a time */
    const uint32_t *uids;        /* allowed users; copied */
    uint32_t uid_count;
    uint32_t patience_ms; /* for a whole request, and between the messages of an answer; 0: 10 s */
};

/* Starts the thread. After success the server owns the listening socket. */
acre_status acre__serve_start(const struct acre__offer *offer, int listener,
                              struct acre__server **server);

/* Stops and joins the thread, and closes all its sockets. */
void acre__serve_stop(struct acre__server *server);

/* A snapshot of an extent's chunks, in order. Each chunk is kept until acre__serve_drop. */
struct acre__taken {
    struct acre__chunk **chunks;
    size_t count;
    uint64_t element_bytes, used_bytes, mapped_bytes, reserved_bytes;
};
acre_status acre__serve_take(struct acre__extent *extent, struct acre__taken *taken);
void acre__serve_drop(struct acre__taken *taken);

#endif
