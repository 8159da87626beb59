/* The owner's side of a share: a thread that answers importers.
 *
 * It has all sockets to itself and never blocks on one of them: an importer that is slow, silent or
 * hostile costs the others nothing but its turn. */
#ifndef ACRE_SHARE_SERVE_H
#define ACRE_SHARE_SERVE_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "space/extent.h"

struct acre__server;

/* What is offered, and to whom. */
struct acre__offer {
    acre_device *dev;
    struct acre__extent *extent; /* stays until the server has stopped */
    uint32_t flags;              /* ACRE_SHARE_* */
    uint32_t importers;          /* at a time */
    const uint32_t *uids;        /* who may; copied */
    uint32_t uid_count;
    uint32_t patience_ms; /* with an importer that is silent in the middle of something; 10 s */
};

/* Starts the thread; the listening socket is the server's after success. */
acre_status acre__serve_start(const struct acre__offer *offer, int listener,
                              struct acre__server **server);

/* Ends the thread, waits for it and closes all its sockets. */
void acre__serve_stop(struct acre__server *server);

/* The chunks of an extent at one moment, in order, each kept until it is dropped. */
struct acre__taken {
    struct acre__chunk **chunks;
    size_t count;
    uint64_t element_bytes, used_bytes, mapped_bytes, reserved_bytes;
};
acre_status acre__serve_take(struct acre__extent *extent, struct acre__taken *taken);
void acre__serve_drop(struct acre__taken *taken);

#endif
