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

/* What a pool has of it. The pool's lock guards it. */
struct acre__graphs {
    struct acre__graph_memory *memories;
    struct acre__graph_binding *bindings; /* streams whose captures share memory */
    struct acre__tree blocks;             /* handed out to captures, by address */
    uint64_t gone;                        /* graphs that were gone at the last look */
    int is_waiting;                       /* memory of some waits for streams */
};

/* No lock held: a block for work that is captured. As acre__ladder_take. */
acre_status acre__graph_take(struct acre__want *want, struct acre__slot **out);
/* No lock held: a block with ACRE__SLOT_GRAPH is freed; `event`: when that has passed, instead of
 * on a stream. `before` is what its state was. */
acre_status acre__graph_free(struct acre__slab *slab, struct acre__slot *slot, uint32_t before,
                             acre_stream stream, acre_event event);
/* No lock held: an ordinary block that other streams use is freed on a captured stream. It is free
 * again when they have passed and the graph is gone. */
acre_status acre__graph_park(struct acre__slab *slab, struct acre__slot *slot, acre_stream stream);
/* No lock held: freeing the block failed; marks it live again. */
void acre__graph_restore(acre_pool *pool, struct acre__slot *slot, uint32_t before);
/* No lock held: frees a block that no work uses. The pool reuses it when the graph is gone. */
void acre__graph_discard(struct acre__slab *slab, struct acre__slot *slot);
/* Lock held: work of a stream uses a block, and one of the two has to do with a capture. The block
 * is not used again before the graph is gone. */
acre_status acre__graph_use(acre_pool *pool, struct acre__slot *slot, acre_stream stream);

/* Lock held: takes the memory of graphs that are gone. */
void acre__graphs_settle(acre_pool *pool);
/* Lock held: 1 if there is memory that only graphs may use. */
static inline int acre__graphs_have(const struct acre__graphs *graphs) {
    return graphs->memories != NULL;
}
/* Frees all records. */
void acre__graphs_end(acre_pool *pool);

#endif
