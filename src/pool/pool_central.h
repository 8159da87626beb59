/* Takes small slots from a pool for a stream. The pool's lock is held. */
#ifndef ACRE_POOL_CENTRAL_H
#define ACRE_POOL_CENTRAL_H

#include "pool/pool.h"

/* Takes slots for a stream, with the given effort. If none are free, returns ACRE_OK without slots;
 * ACRE__TAKE_NEW returns the error instead. */
acre_status acre__central_take(struct acre__want *want, enum acre__effort effort);

#endif
