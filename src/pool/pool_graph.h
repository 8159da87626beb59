/* Memory for graph captures (pool_graph.c).
 *
 * A block allocated on a captured stream belongs to the graph. The capture may reuse the block
 * after a free. No other stream may, until the graph and everything instantiated from it are
 * destroyed: a graph can be launched at any time. Graphs that never run concurrently can share
 * memory under a key that the user chooses. */
#ifndef ACRE_POOL_GRAPH_H
#define ACRE_POOL_GRAPH_H

#include "pool/pool_slab.h"

struct acre__want;
struct acre__graph_memory;
struct acre__graph_binding;
struct acre__graph_block;

/* The graph memory of a pool. The pool's lock guards it. */
struct acre__graphs {
    struct acre__graph_memory *memories;
    struct acre__graph_binding *bindings; /* streams whose captures share memory */
    struct acre__tree blocks;             /* allocated by captures, by address */
    uint64_t gone;  /* value of the count of destroyed graphs at the last check */
    int is_waiting; /* some memory waits for streams */
};

/* Begin and end an allocation from the capture's memory. acre__graph_begin takes the pool's lock
 * and creates the record *block. The caller then fills want->slots with acre__ladder_take.
 * acre__graph_end releases the lock. If acre__graph_begin fails, the caller does not call
 * acre__graph_end. */
acre_status acre__graph_begin(struct acre__want *want, struct acre__graph_block **block);
void acre__graph_end(struct acre__want *want, struct acre__graph_block *block, acre_status status);
/* No lock held: frees a block with ACRE__SLOT_GRAPH on the stream or, if `event` is set, once the
 * event has passed. `before` is the state before the free. */
acre_status acre__graph_free(struct acre__slab *slab, struct acre__slot *slot, uint32_t before,
                             acre_stream stream, acre_event event);
/* No lock held: frees an ordinary block that other streams use, on a captured stream. The pool
 * reuses the block when those streams have passed and the graph is destroyed. */
acre_status acre__graph_park(struct acre__slab *slab, struct acre__slot *slot, acre_stream stream);
/* No lock held: marks a block live again whose free failed. */
void acre__graph_restore(acre_pool *pool, struct acre__slot *slot, uint32_t before);
/* No lock held: frees a block that no work uses. The pool reuses it when the graph is destroyed. */
void acre__graph_discard(struct acre__slab *slab, struct acre__slot *slot);
/* Lock held: records that work of a stream uses a block, when either belongs to a capture. The pool
 * does not reuse the block before the graph is destroyed. */
acre_status acre__graph_use(acre_pool *pool, struct acre__slot *slot, acre_stream stream);

/* Lock held: makes the memory of destroyed graphs ready. */
void acre__graphs_settle(acre_pool *pool);
/* Lock held: returns the free bytes that only captures of the same key may use. */
uint64_t acre__graphs_free_bytes(const acre_pool *pool);
/* Frees all records. */
void acre__graphs_end(acre_pool *pool);
/* Forgets which key the captures of a stream have. The lock is held. */
void acre__graph_retire(acre_pool *pool, acre_stream stream);

#endif
