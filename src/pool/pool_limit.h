/* Limits of a pool. The pool's lock is held. */
#ifndef ACRE_POOL_LIMIT_H
#define ACRE_POOL_LIMIT_H

#include "pool/pool.h"

/* Returns ACRE_OK if the limit allows a slot of `bytes`. Lowers *count to the slots that it
 * allows. */
acre_status acre__limit_check(const acre_pool *pool, size_t bytes, uint32_t *count);
/* Count slots that a thread takes, or returns. */
void acre__limit_charge(acre_pool *pool, uint64_t bytes, uint32_t count);
void acre__limit_credit(acre_pool *pool, uint64_t bytes, uint32_t count);
/* While acre holds more than the limit of the device: reserves `bytes` of the limit, and adds them
 * to *reserved, or returns ACRE_E_DEVICE_MEMORY. The caller gives them back once it has charged
 * what it took, or has taken nothing. */
acre_status acre__limit_reserve(acre_pool *pool, uint64_t bytes, uint64_t *reserved);
void acre__limit_unreserve(acre_pool *pool, uint64_t reserved);

#endif
