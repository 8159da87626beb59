/* A mapping: one chunk at one address.
 *
 * A mapping holds one user of its chunk. A mapping that the driver refuses to undo goes to limbo
 * and keeps its addresses. Whoever unmaps has waited for every use of the memory. */
#ifndef ACRE_SPACE_MAPPING_H
#define ACRE_SPACE_MAPPING_H

#include <stdint.h>

#include "acre.h"
#include "device/limbo.h"
#include "space/chunk.h"

struct acre__mapping {
    struct acre__limbo_item item; /* for limbo, if the driver refuses to unmap it */
    struct acre__chunk *chunk;
    uint64_t at;
};

/* Maps the chunk. No device has access yet. */
acre_status acre__mapping_make(struct acre__chunk *chunk, uint64_t at, struct acre__mapping **out);

/* Unmaps and frees a mapping. Tries twice, since a refusal would cost addresses. Returns 1, or 0 if
 * the driver refuses and the mapping is unchanged. Keeps the last detail. */
int acre__mapping_unmap(struct acre__mapping *mapping);

/* As acre__mapping_unmap, but a refused mapping goes to limbo. Returns 1 if the addresses are the
 * caller's again, 0 if they went to limbo. */
int acre__mapping_end(struct acre__mapping *mapping);

#endif
