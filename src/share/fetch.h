/* Asking the owner what there is now, and taking the chunks that are new. */
#ifndef ACRE_SHARE_FETCH_H
#define ACRE_SHARE_FETCH_H

#include <stddef.h>
#include <stdint.h>

#include "acre.h"
#include "share/wire.h"
#include "space/extent.h"

/* Who is asked, and what is there already. */
struct acre__asked {
    acre_device *dev;
    int socket;       /* -1: the owner has gone */
    uint32_t wait_ms; /* for each answer */
    size_t unit;      /* what sizes must be multiples of */
    /* Chunks that are mapped here, and the owner's ids of them; NULL: none. */
    struct acre__extent *extent;
    uint64_t *ids;
};

struct acre__fetched {
    struct acre__wire_view view; /* checked: everything in it holds for the chunks as well */
    size_t kept_bytes;           /* of the chunks that stay */
    struct acre__chunk *list;    /* the new ones in order, linked by `next`, one user each */
    uint64_t *ids;               /* of all chunks of the view */
};

/* Asks, and imports what is new. After a failure there is nothing to drop; *is_over says that the
 * connection is of no more use, because the other side has ended or sent nonsense. */
acre_status acre__fetch(const struct acre__asked *asked, struct acre__fetched *fetched,
                        int *is_over);

/* Drops the chunks that are still in the list, and the ids. */
void acre__fetch_drop(struct acre__fetched *fetched);

#endif
