/* What a pool tries, step by step, when it has no memory for a call. */
#ifndef ACRE_POOL_LADDER_H
#define ACRE_POOL_LADDER_H

#include "pool/pool.h"

/* Lock held, but given up in between if need be: gets at least one slot, or returns a status. */
acre_status acre__ladder_take(struct acre__want *want);
/* For other users of memory of that kind: releases unused memory of pools. With `wait`, waits for
 * the work before its frees first. Returns the bytes released. */
uint64_t acre__ladder_reclaim(acre_device *dev, acre_kind kind, int wait);
/* No lock held: asks the user's callback whether to retry. Returns 0 also if there is none, or if
 * called from inside it. */
int acre__ladder_ask(acre_pool *pool, uint64_t bytes, uint32_t attempt);

#endif
