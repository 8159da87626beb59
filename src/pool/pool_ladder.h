/* The out-of-memory ladder: what a pool tries, step by step, before an allocation fails. */
#ifndef ACRE_POOL_LADDER_H
#define ACRE_POOL_LADDER_H

#include "pool/pool.h"

/* Lock held, but maybe released in between: takes at least one slot, or returns an error. */
acre_status acre__ladder_take(struct acre__want *want);
/* Lock held, but released in between: refuses a request above ACRE__BYTES_MOST, with a report. */
acre_status acre__ladder_refuse_huge(struct acre__want *want);
/* Releases unused memory of all pools that use the same physical memory, for callers outside the
 * ladder. With `wait`, first waits for the work that frees wait for. Returns the bytes released. */
uint64_t acre__ladder_reclaim(acre_device *dev, acre_kind kind, int wait);
/* No lock held: calls the user's out-of-memory callback. Returns 1 if the callback requests a
 * retry. Returns 0 otherwise, also without a callback or when called from inside one. */
int acre__ladder_ask(acre_pool *pool, uint64_t bytes, uint32_t attempt);

#endif
