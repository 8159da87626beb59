/* A chunk at an address.
 *
 * A mapping holds one user of its chunk. What the driver refuses to unmap goes to limbo and takes
 * its addresses with it. Who unmaps has waited for every use of the memory. */
#ifndef ACRE_SPACE_MAPPING_H
#define ACRE_SPACE_MAPPING_H

#include <stdint.h>

#include "acre.h"
#include "device/limbo.h"
#include "space/chunk.h"

struct acre__mapping {
    struct acre__limbo_item item; /* waits for being unmapped */
    struct acre__chunk *chunk;
    uint64_t at;
};

/* Maps the chunk, without access for anybody yet. */
acre_status acre__mapping_make(struct acre__chunk *chunk, uint64_t at, struct acre__mapping **out);

/* Ends a mapping, with two tries, since a refusal would cost addresses: 1, or 0 when the driver
 * refuses and it is there as before. The last detail stays. */
int acre__mapping_unmap(struct acre__mapping *mapping);

/* The same. 1: the addresses are the caller's again. 0: they went to limbo with it. */
int acre__mapping_end(struct acre__mapping *mapping);

#endif
