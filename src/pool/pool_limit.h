/* Limits of a pool. Under its lock. */
#ifndef ACRE_POOL_LIMIT_H
#define ACRE_POOL_LIMIT_H

#include "pool/pool.h"

/* Returns ACRE_OK if the limit allows a slot of `bytes`. Lowers *count to what it allows. */
acre_status acre__limit_check(const acre_pool *pool, size_t bytes, uint32_t *count);
/* Count slots that go to a thread, or return from it. */
void acre__limit_charge(acre_pool *pool, uint64_t bytes, uint32_t count);
void acre__limit_credit(acre_pool *pool, uint64_t bytes, uint32_t count);

#endif
