/* Lists of freed slots. The pool's lock is held. */
#ifndef ACRE_POOL_FREED_H
#define ACRE_POOL_FREED_H

#include "pool/pool.h"

/* Changes the number of slots by `more`. */
void acre__freed_count(struct acre__freed *freed, int64_t more);
/* Adds slots from a thread to the latest frees of a stream, or to a list of a capture. Large blocks
 * become holes. */
void acre__freed_add(acre_pool *pool, struct acre__freed *freed, uint32_t size_class,
                     struct acre__slots *slots);
/* Moves everything to `to`, which waits for whatever `from` waits for. */
void acre__freed_inherit(struct acre__freed *from, struct acre__freed *to);
/* Moves the slots of bundles to the shares of their slabs. */
void acre__freed_sort(struct acre__freed *freed);
/* Makes all memory in the list ready: any stream may use it. */
void acre__freed_ready(struct acre__freed *freed);
/* Frees only the record. */
void acre__freed_end(struct acre__freed *freed);
/* The bytes in the list. */
uint64_t acre__freed_bytes(const struct acre__freed *freed);
/* Returns slots to the pool that any stream may use at once. */
void acre__central_ready(acre_pool *pool, uint32_t size_class, struct acre__slots *slots);

#endif
