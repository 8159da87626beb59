/* Large blocks: more than ACRE__SMALL_MOST bytes, or aligned to more than 64 KiB. */
#ifndef ACRE_POOL_LARGE_H
#define ACRE_POOL_LARGE_H

#include "pool/pool.h"

/* The size of a large block, rounded up. */
size_t acre__large_bytes(size_t bytes);
/* Lock held: takes a large block. Returns as acre__central_take does. */
acre_status acre__large_take(struct acre__want *want, enum acre__effort effort);

#endif
