/* Slots of a pool for work of a stream. Under the pool's lock. */
#ifndef ACRE_POOL_CENTRAL_H
#define ACRE_POOL_CENTRAL_H

#include "pool/pool.h"

/* Takes slots for work of a stream, as far as `effort` allows. Returns ACRE_OK without slots if
 * there are none; ACRE__TAKE_NEW returns the reason instead. */
acre_status acre__central_take(struct acre__want *want, enum acre__effort effort);

#endif
