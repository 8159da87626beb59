/* A mapping: one chunk at one address.
 *
 * A mapping holds one user of its chunk. While it is away (mapped.h), it has no memory. A mapping
 * that the driver refuses to undo goes to limbo and keeps its addresses. Whoever unmaps has waited
 * for every use of the memory. */
#ifndef ACRE_SPACE_MAPPING_H
#define ACRE_SPACE_MAPPING_H

#include <stdint.h>

#include "acre.h"
#include "base/tree.h"
#include "device/limbo.h"
#include "space/chunk.h"

struct acre__mapping {
    struct acre__limbo_item item; /* for limbo, if the driver refuses to unmap it */
    struct acre__chunk *chunk;
    uint64_t at;
    /* What it belongs to, as suspend_choose.c compares it: an extent, or a block of the book. */
    const void *owner;
    struct acre__node node;    /* in the tree of all mappings (mapped.c); key: `at` */
    uint64_t readers, writers; /* devices that have access, as bits by number */
    uint64_t suspended_by;     /* id of the suspend that took it away */
    int is_listed;             /* 1: in the tree */
    int is_away;               /* 1: suspended */
    int is_stuck;              /* 1: away, but the driver refused to unmap it: it has its memory */
};

/* Maps the chunk for `owner` (see above). No device has access yet. Returns ACRE_E_SUSPENDED if the
 * device gets no memory now. */
acre_status acre__mapping_make(struct acre__chunk *chunk, uint64_t at, const void *owner,
                               struct acre__mapping **out);

/* Unmaps and frees a mapping. Tries twice, since a refusal would cost addresses. Returns 1, or 0 if
 * the driver refuses and the mapping is unchanged. Keeps the last detail. */
int acre__mapping_unmap(struct acre__mapping *mapping);

/* Leaves a mapping that the driver refuses to undo to limbo. */
void acre__mapping_abandon(struct acre__mapping *mapping);

/* As acre__mapping_unmap, but a refused mapping goes to limbo. Returns 1 if the addresses are the
 * caller's again, 0 if they went to limbo. */
int acre__mapping_end(struct acre__mapping *mapping);

#endif
