/* The importer's side of the protocol: queries the owner's current state and imports the new
 * chunks. */
#ifndef ACRE_SHARE_FETCH_H
#define ACRE_SHARE_FETCH_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "share/wire.h"
#include "space/extent.h"

/* The owner, and the importer's current state. */
struct acre__asked {
    acre_device *dev;
    int socket;       /* -1: the connection is closed */
    uint32_t wait_ms; /* for each answer */
    size_t unit;      /* sizes must be multiples of this */
    /* Chunks mapped by the importer, and the owner's ids of them; NULL: none. */
    struct acre__extent *extent;
    uint64_t *ids;
};

struct acre__fetched {
    struct acre__wire_view view; /* checked, also against the chunks */
    size_t kept_bytes;           /* of the chunks that the importer keeps */
    struct acre__chunk *list;    /* the new chunks in order, linked by `next`, one user each */
    uint64_t *ids;               /* of all chunks of the view */
};

/* Queries the owner and imports the new chunks. After a failure there is nothing to drop. *is_over
 * is 1 if the connection is unusable, because the owner closed it or broke the protocol. */
acre_status acre__fetch(const struct acre__asked *asked, struct acre__fetched *fetched,
                        int *is_over);

/* Drops the chunks that are still in the list, and the ids. */
void acre__fetch_drop(struct acre__fetched *fetched);

#endif
