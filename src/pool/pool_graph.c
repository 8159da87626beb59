/* Memory for graph captures: see pool_graph.h.
 *
 * A graph memory serves one capture, or all captures with the same key. For each captured stream it
 * has a record like that of an ordinary stream (struct acre__pool_stream). These records are in
 * none of the pool's lists: a captured stream cannot be queried, and no event makes its memory
 * ready. A captured stream reuses memory freed on it, because the graph runs in capture order.
 * Memory freed in earlier captures of the key is `common` to all streams of the next capture.
 *
 * A block may also be freed outside the capture, or be used by several streams. Such a block is
 * `outside`: it waits for those streams and for the graph.
 *
 * How the pool learns that a graph is destroyed: the graph under capture retains a user object of
 * the driver. Clones, executables and launches in flight keep the object alive. When none is left,
 * the driver calls the object's destructor. The destructor may not call the driver, so it only
 * counts. The pool reads the count when it needs memory.
 *
 * The pool never moves chunks of graph memory: kernels in the graph contain its addresses. */
#include <stdlib.h>

#include "base/atomic.h"
#include "base/status.h"
#include "device/driver_status.h"
#include "pool/pool.h"
#include "pool/pool_free.h"
#include "pool/pool_freed.h"
#include "pool/pool_graph.h"
#include "pool/pool_list.h"
#include "pool/pool_watch.h"

/* Shared with destructors, which may run after the pool is destroyed. */
struct graph_watch {
    _Atomic uint32_t graphs;     /* not destroyed yet */
    _Atomic uint32_t references; /* of those graphs, and of the memory */
};

struct acre__graph_memory {
    struct acre__graph_memory *next;
    uint64_t key;     /* 0: for one capture only */
    uint64_t capture; /* the capture that takes memory, or took it last; 0: none */
    uint32_t takers;  /* allocations in progress */
    int is_lent;      /* graphs of other captures use its blocks, too */
    struct graph_watch *watch;
    struct acre__generation common;  /* freed in earlier captures */
    struct acre__generation outside; /* freed outside captures, or used by several streams */
    struct acre__pool_stream *streams;
    struct acre__uses uses; /* that `outside` waits for, besides the graphs */
};

/* Binds captures of a stream to the memory of a key. */
struct acre__graph_binding {
    struct acre__graph_binding *next;
    acre_stream stream;
    uint64_t thread; /* acre__stream_thread */
    uint64_t key;
};

struct acre__graph_block {
    struct acre__node node; /* key: address */
    struct acre__graph_memory *memory;
};

/* ---- captures ---- */

struct capture {
    uint64_t id; /* 0: the stream is not captured, or its capture was invalidated */
    CUgraph graph;
    int is_broken;
};

static acre_status capture_ask(acre_device *dev, acre_stream stream, struct capture *capture) {
    struct acre__current current;
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    *capture = (struct capture){0};
    if (!ACRE__DRIVER_HAS(dev->drv, cuStreamGetCaptureInfo) ||
        !ACRE__DRIVER_HAS(dev->drv, cuGraphRetainUserObject))
        return acre__fail(ACRE_E_CAPTURING, "the stream is captured, and the driver is too old to "
                                            "report when the graph is destroyed");
    acre_status status = acre__device_begin_relaxed(dev, &current);
    if (status)
        return status;
    CUresult code =
        dev->drv->cuStreamGetCaptureInfo(stream, &state, &id, &capture->graph, NULL, NULL);
    status = acre__device_end(dev, &current, code, "cuStreamGetCaptureInfo");
    if (status)
        return status;
    capture->is_broken = state == CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    capture->id = state == CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : 0;
    return ACRE_OK;
}

/* As capture_ask, but fails unless the capture is active. */
static acre_status capture_active(acre_device *dev, acre_stream stream, struct capture *capture) {
    acre_status status = capture_ask(dev, stream, capture);
    return status || capture->id
               ? status
               : acre__fail(ACRE_E_CAPTURING,
                            "the stream's capture has failed; end it and capture again");
}

/* As capture_ask, but leaves *capture unchanged if the stream is not captured. */
static acre_status capture_look(acre_device *dev, acre_stream stream, struct capture *capture) {
    int is_captured;
    acre_status status = acre__stream_ask_captured(dev, stream, &is_captured);
    return status || !is_captured ? status : capture_ask(dev, stream, capture);
}

/* ---- destruction of graphs ---- */

static void watch_drop(struct graph_watch *watch) {
    if (atomic_fetch_sub_explicit(&watch->references, 1, memory_order_acq_rel) == 1)
        free(watch);
}

static _Atomic uint64_t graphs_gone; /* graphs destroyed so far */

/* The destructor. The driver calls it in a thread of the driver. */
static void graph_is_gone(void *user) {
    struct graph_watch *watch = user;
    atomic_fetch_sub_explicit(&watch->graphs, 1, memory_order_release);
    atomic_fetch_add_explicit(&graphs_gone, 1, memory_order_release);
    watch_drop(watch);
}

/* Keeps the memory in use until this graph is destroyed too. */
static acre_status memory_retain(acre_device *dev, const struct acre__graph_memory *memory,
                                 CUgraph graph) {
    struct acre__current current;
    const struct acre__driver *drv = dev->drv;
    const char *what;
    CUuserObject object = NULL;
    acre_status status = acre__device_begin_relaxed(dev, &current);
    if (status)
        return status;
    atomic_fetch_add_explicit(&memory->watch->references, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&memory->watch->graphs, 1, memory_order_relaxed);
    what = "cuUserObjectCreate";
    CUresult code = drv->cuUserObjectCreate(&object, memory->watch, graph_is_gone, 1,
                                            CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    if (code) {
        graph_is_gone(memory->watch);
    } else {
        what = "cuGraphRetainUserObject";
        code = drv->cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
        if (code)
            (void)drv->cuUserObjectRelease(object, 1); /* calls the destructor */
    }
    return acre__device_end(dev, &current, code, what);
}

/* Lends a block to another capture's graph. From then on memory in `outside` stays until all graphs
 * are destroyed. */
static acre_status memory_lend(acre_device *dev, struct acre__graph_memory *memory, CUgraph graph) {
    acre_status status = memory_retain(dev, memory, graph);
    memory->is_lent |= status == ACRE_OK;
    return status;
}

static int memory_has_graphs(const struct acre__graph_memory *memory) {
    return acre__load(&memory->watch->graphs, memory_order_acquire) != 0;
}

/* ---- records ---- */

static void graph_stream_free(struct acre__pool_stream *stream) {
    acre__freed_end(stream->recent->freed);
    free(stream);
}

uint64_t acre__graphs_free_bytes(const acre_pool *pool) {
    uint64_t bytes = 0;
    for (const struct acre__graph_memory *at = pool->graphs.memories; at; at = at->next) {
        bytes += acre__freed_bytes(at->common.freed) + acre__freed_bytes(at->outside.freed);
        for (const struct acre__pool_stream *stream = at->streams; stream; stream = stream->next)
            bytes += acre__freed_bytes(stream->recent->freed);
    }
    return bytes;
}

/* Frees the record. Its lists are empty, or their slabs are destroyed. */
static void memory_free(struct acre__graph_memory *memory) {
    while (memory->streams) {
        struct acre__pool_stream *next = memory->streams->next;
        graph_stream_free(memory->streams);
        memory->streams = next;
    }
    acre__freed_end(memory->common.freed);
    acre__freed_end(memory->outside.freed);
    acre__uses_close(&memory->uses);
    if (memory->watch)
        watch_drop(memory->watch);
    free(memory);
}

static struct graph_watch *watch_make(void) {
    struct graph_watch *watch = calloc(1, sizeof *watch);
    if (watch)
        watch->references = 1;
    return watch;
}

static struct acre__graph_memory *memory_make(acre_pool *pool, uint64_t key) {
    struct acre__graph_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return NULL;
    memory->key = key;
    acre__uses_open(&memory->uses, pool->dev);
    memory->watch = watch_make();
    memory->common.freed = calloc(1, sizeof *memory->common.freed);
    memory->outside.freed = calloc(1, sizeof *memory->outside.freed);
    if (!memory->watch || !memory->common.freed || !memory->outside.freed) {
        memory_free(memory);
        return NULL;
    }
    memory->next = pool->graphs.memories;
    pool->graphs.memories = memory;
    return memory;
}

/* Finds or creates the record of a captured stream; NULL if out of host memory. */
static struct acre__pool_stream *graph_stream(struct acre__graph_memory *memory,
                                              acre_stream handle) {
    uint64_t thread = acre__stream_thread(handle);
    struct acre__pool_stream *stream = memory->streams;
    while (stream && (stream->stream != handle || stream->thread != thread))
        stream = stream->next;
    if (stream || !(stream = calloc(1, sizeof *stream)))
        return stream;
    struct acre__generation *recent = &stream->generations[0];
    recent->freed = calloc(1, sizeof *recent->freed);
    if (!recent->freed) {
        free(stream);
        return NULL;
    }
    acre__stream_turn(stream, recent, &memory->common);
    stream->stream = handle;
    stream->thread = thread;
    stream->graph = memory;
    stream->next = memory->streams;
    memory->streams = stream;
    return stream;
}

/* ---- captures and their memory ---- */

static struct acre__graph_memory *memory_of_key(const acre_pool *pool, uint64_t key) {
    struct acre__graph_memory *memory = pool->graphs.memories;
    while (memory && memory->key != key)
        memory = memory->next;
    return memory;
}

static struct acre__graph_binding *binding_find(const acre_pool *pool, acre_stream stream) {
    uint64_t thread = acre__stream_thread(stream);
    struct acre__graph_binding *at = pool->graphs.bindings;
    while (at && (at->stream != stream || at->thread != thread))
        at = at->next;
    return at;
}

/* Starts a capture. Memory that earlier captures freed becomes common to all its streams. So does
 * memory freed outside, if it waits for nothing. */
static acre_status memory_begin(acre_pool *pool, struct acre__graph_memory *memory,
                                const struct capture *capture) {
    acre_status status = memory_retain(pool->dev, memory, capture->graph);
    if (status)
        return status;
    for (struct acre__pool_stream *at = memory->streams; at; at = at->next)
        acre__freed_inherit(at->recent->freed, memory->common.freed);
    if (!memory->is_lent && acre__uses_are_done(&memory->uses))
        acre__freed_inherit(memory->outside.freed, memory->common.freed);
    memory->capture = capture->id;
    return ACRE_OK;
}

/* Finds or creates the memory of a capture. Returns NULL and sets *status on failure. */
static struct acre__graph_memory *memory_for(acre_pool *pool, acre_stream stream,
                                             const struct capture *capture, acre_status *status) {
    struct acre__graph_memory *memory = pool->graphs.memories;
    *status = ACRE_OK;
    while (memory && memory->capture != capture->id)
        memory = memory->next;
    if (memory)
        return memory;
    const struct acre__graph_binding *binding = binding_find(pool, stream);
    if (binding)
        memory = memory_of_key(pool, binding->key);
    if (!memory)
        memory = memory_make(pool, binding ? binding->key : 0);
    *status = memory ? memory_begin(pool, memory, capture)
                     : acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a graph");
    return *status ? NULL : memory; /* the next settle frees an empty one */
}

/* ---- alloc ---- */

static void block_enter(acre_pool *pool, struct acre__graph_block *block,
                        const struct acre__slot *slot) {
    block->node.key = (uintptr_t)slot->p;
    acre__tree_insert(&pool->graphs.blocks, &block->node);
}

acre_status acre__graph_begin(struct acre__want *want, struct acre__graph_block **out) {
    acre_pool *pool = want->pool;
    struct capture capture;
    struct acre__graph_memory *memory = NULL;
    struct acre__graph_block *block = calloc(1, sizeof *block);
    if (!block)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a block");
    acre_status status = capture_active(pool->dev, want->stream, &capture);
    acre__lock_take(&pool->lock);
    acre__graphs_settle(pool);
    if (status == ACRE_OK)
        memory = memory_for(pool, want->stream, &capture, &status);
    if (memory && !(want->graph = graph_stream(memory, want->stream)))
        status = acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a stream");
    if (!memory || status) {
        acre__lock_give(&pool->lock);
        free(block);
        return status;
    }
    block->memory = memory;
    memory->takers++; /* the lock may be released meanwhile */
    *out = block;
    return ACRE_OK;
}

void acre__graph_end(struct acre__want *want, struct acre__graph_block *block, acre_status status) {
    acre_pool *pool = want->pool;
    block->memory->takers--;
    if (status == ACRE_OK)
        block_enter(pool, block, want->slots.first);
    else
        free(block);
    acre__lock_give(&pool->lock);
    acre__pool_export(pool);
}

/* ---- free ---- */

static struct acre__graph_block *block_find(const acre_pool *pool, const void *p) {
    return acre__tree_entry(acre__tree_find(&pool->graphs.blocks, (uintptr_t)p),
                            struct acre__graph_block, node);
}

static void block_put(acre_pool *pool, struct acre__graph_block *block, struct acre__slot *slot,
                      uint32_t size_class, struct acre__freed *freed) {
    struct acre__slots one = acre__slots_of(slot);
    acre__tree_remove(&pool->graphs.blocks, &block->node);
    acre__freed_add(pool, freed, size_class, &one);
    free(block);
}

static acre_status block_adopt(acre_pool *pool, struct acre__slot *slot, acre_stream stream,
                               const struct capture *capture);

/* Records what the block waits for, besides its graphs. *freed is the list that it goes to. */
static acre_status free_order(acre_pool *pool, struct acre__graph_memory *memory,
                              const struct capture *capture, acre_stream stream, int is_used,
                              struct acre__freed **freed) {
    *freed = memory->outside.freed;
    if (capture->is_broken)
        return ACRE_OK; /* the graph is never launched */
    if (!capture->id)
        return acre__uses_record(&memory->uses, stream);
    if (capture->id != memory->capture)
        return memory_lend(pool->dev, memory, capture->graph);
    struct acre__pool_stream *own = is_used ? NULL : graph_stream(memory, stream);
    if (own)
        *freed = own->recent->freed;
    return ACRE_OK;
}

acre_status acre__graph_free(struct acre__slab *slab, struct acre__slot *slot, uint32_t before,
                             acre_stream stream, acre_event event) {
    acre_pool *pool = slab->pool;
    struct acre__freed *freed;
    struct capture capture = {0};
    acre_status status = event ? ACRE_OK : capture_look(pool->dev, stream, &capture);
    if (status)
        return status;
    acre__lock_take(&pool->lock);
    struct acre__graph_block *block = block_find(pool, slot->p);
    if (!block) { /* the graph was just destroyed */
        if (event)
            status = acre__stream_put_after(pool, slot, slab->size_class, event);
        else if (before & ACRE__SLOT_USED)
            status = acre__stream_put_used(pool, slot, slab->size_class, stream);
        acre__lock_give(&pool->lock);
        return event || before & ACRE__SLOT_USED ? status
                                                 : acre__pool_free_plain(slab, slot, stream);
    }
    struct acre__graph_memory *memory = block->memory;
    if (event) {
        freed = memory->outside.freed;
        status = acre__stream_record_event(pool, &memory->uses, event);
    } else {
        status = free_order(pool, memory, &capture, stream, before & ACRE__SLOT_USED, &freed);
    }
    if (status == ACRE_OK)
        block_put(pool, block, slot, slab->size_class, freed);
    acre__lock_give(&pool->lock);
    return status;
}

acre_status acre__graph_park(struct acre__slab *slab, struct acre__slot *slot, acre_stream stream) {
    acre_pool *pool = slab->pool;
    struct capture capture;
    acre_status status = capture_active(pool->dev, stream, &capture);
    if (status)
        return status;
    acre__lock_take(&pool->lock);
    status = block_adopt(pool, slot, stream, &capture);
    if (status == ACRE_OK) {
        struct acre__graph_block *block = block_find(pool, slot->p);
        block_put(pool, block, slot, slab->size_class, block->memory->outside.freed);
    }
    acre__lock_give(&pool->lock);
    return status;
}

void acre__graph_restore(acre_pool *pool, struct acre__slot *slot, uint32_t before) {
    acre__lock_take(&pool->lock);
    if (!block_find(pool, slot->p))
        before &= ~(uint32_t)ACRE__SLOT_GRAPH;
    acre__store(slot->state, before, memory_order_release);
    acre__lock_give(&pool->lock);
}

void acre__graph_discard(struct acre__slab *slab, struct acre__slot *slot) {
    acre_pool *pool = slab->pool;
    acre__lock_take(&pool->lock);
    struct acre__graph_block *block = block_find(pool, slot->p);
    struct acre__slots one = acre__slots_of(slot);
    if (block)
        block_put(pool, block, slot, slab->size_class, block->memory->outside.freed);
    else /* the graph was just destroyed */
        acre__central_ready(pool, slab->size_class, &one);
    acre__lock_give(&pool->lock);
}

/* ---- uses by other streams ---- */

/* Makes an ordinary block part of the capture's memory. The memory then waits for the block's other
 * users. */
static acre_status block_adopt(acre_pool *pool, struct acre__slot *slot, acre_stream stream,
                               const struct capture *capture) {
    acre_status status;
    struct acre__graph_memory *memory = memory_for(pool, stream, capture, &status);
    struct acre__graph_block *block = memory ? calloc(1, sizeof *block) : NULL;
    if (!memory)
        return status;
    if (!block)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a block");
    struct acre__pool_use *use = acre__pool_use_find(pool, slot->p);
    if (use) {
        acre__uses_append(&memory->uses, &use->uses);
        acre__pool_use_end(pool, use);
    }
    block->memory = memory;
    block_enter(pool, block, slot);
    return ACRE_OK;
}

acre_status acre__graph_use(acre_pool *pool, struct acre__slot *slot, acre_stream stream) {
    struct capture capture = {0};
    const struct acre__graph_block *block = block_find(pool, slot->p);
    acre_status status = capture_look(pool->dev, stream, &capture);
    if (status)
        return status;
    if (capture.is_broken)
        return ACRE_OK; /* the graph is never launched */
    if (!capture.id && !block)
        return acre__pool_note_use(pool, slot, stream); /* graph destroyed, or capture ended */
    if (!capture.id)
        status = acre__uses_record(&block->memory->uses, stream);
    else if (!block)
        status = block_adopt(pool, slot, stream, &capture);
    else if (block->memory->capture != capture.id)
        status = memory_lend(pool->dev, block->memory, capture.graph);
    if (status == ACRE_OK)
        atomic_fetch_or_explicit(slot->state, ACRE__SLOT_USED | ACRE__SLOT_GRAPH,
                                 memory_order_release);
    return status;
}

/* ---- memory of destroyed graphs ---- */

/* Turns blocks that are still live into ordinary ones. */
static void blocks_release(acre_pool *pool, const struct acre__graph_memory *memory) {
    for (struct acre__node *node = acre__tree_first(&pool->graphs.blocks), *next; node;
         node = next) {
        struct acre__graph_block *block = acre__tree_entry(node, struct acre__graph_block, node);
        next = acre__tree_next(&pool->graphs.blocks, node);
        if (block->memory != memory)
            continue;
        const void *p = (const void *)(uintptr_t)node->key;
        acre__slot_state *state = acre__slab_state(acre__pool_table_find(p), p);
        uint32_t value = acre__load(state, memory_order_relaxed);
        while (value & ACRE__SLOT_GRAPH &&
               !acre__cas(state, &value, value & ~(uint32_t)ACRE__SLOT_GRAPH, memory_order_acq_rel,
                          memory_order_relaxed))
            ;
        acre__tree_remove(&pool->graphs.blocks, node);
        free(block);
    }
}

static void memory_ready(acre_pool *pool, struct acre__graph_memory *memory) {
    blocks_release(pool, memory);
    while (memory->streams) {
        struct acre__pool_stream *stream = memory->streams;
        memory->streams = stream->next;
        acre__freed_ready(stream->recent->freed);
        graph_stream_free(stream);
    }
    acre__freed_ready(memory->common.freed);
    acre__freed_ready(memory->outside.freed);
    memory->capture = 0;
    memory->is_lent = 0;
}

/* A no-op unless a graph was destroyed, or memory waits for streams. */
void acre__graphs_settle(acre_pool *pool) {
    uint64_t gone = acre__load(&graphs_gone, memory_order_acquire);
    if (gone == pool->graphs.gone && !pool->graphs.is_waiting)
        return;
    pool->graphs.gone = gone;
    pool->graphs.is_waiting = 0;
    for (struct acre__graph_memory **link = &pool->graphs.memories; *link;) {
        struct acre__graph_memory *memory = *link;
        int is_gone = !memory_has_graphs(memory);
        int is_over = is_gone && !memory->takers && acre__uses_are_done(&memory->uses);
        pool->graphs.is_waiting |= is_gone && !is_over;
        if (is_over)
            memory_ready(pool, memory);
        if (!is_over || memory->key) {
            link = &memory->next;
            continue;
        }
        *link = memory->next;
        memory_free(memory);
    }
}

void acre__graphs_end(acre_pool *pool) {
    struct acre__node *node;
    while ((node = acre__tree_first(&pool->graphs.blocks))) {
        acre__tree_remove(&pool->graphs.blocks, node);
        free(acre__tree_entry(node, struct acre__graph_block, node));
    }
    while (pool->graphs.memories) {
        struct acre__graph_memory *next = pool->graphs.memories->next;
        memory_free(pool->graphs.memories);
        pool->graphs.memories = next;
    }
    while (pool->graphs.bindings) {
        struct acre__graph_binding *next = pool->graphs.bindings->next;
        free(pool->graphs.bindings);
        pool->graphs.bindings = next;
    }
}

/* ---- keys ---- */

static void binding_remove(acre_pool *pool, const struct acre__graph_binding *binding) {
    struct acre__graph_binding **link = &pool->graphs.bindings;
    while (*link != binding)
        link = &(*link)->next;
    *link = binding->next;
    free((void *)(uintptr_t)binding);
}

/* Lock held: binds captures of the stream to the key; with key 0 removes the binding. */
static acre_status binding_set(acre_pool *pool, acre_stream stream, uint64_t key) {
    struct acre__graph_binding *binding = binding_find(pool, stream);
    if (!key) {
        if (binding)
            binding_remove(pool, binding);
        return ACRE_OK;
    }
    if (!binding) {
        if (!(binding = calloc(1, sizeof *binding)))
            return acre__fail(ACRE_E_HOST_MEMORY, "no memory to record the stream of a graph");
        binding->stream = stream;
        binding->thread = acre__stream_thread(stream);
        binding->next = pool->graphs.bindings;
        pool->graphs.bindings = binding;
    }
    binding->key = key;
    return ACRE_OK;
}

/* The next stream with this handle shares nothing. */
void acre__graph_retire(acre_pool *pool, acre_stream stream) {
    struct acre__graph_binding *binding = binding_find(pool, stream);
    if (binding)
        binding_remove(pool, binding);
}

static acre_status pool_graph_share(acre_pool *pool, acre_stream stream, uint64_t key) {
    acre_status status = acre__pool_enter(pool);
    if (status == ACRE_OK)
        status = acre__stream_check(pool->dev, stream);
    if (status)
        return status;
    acre__lock_take(&pool->lock);
    status = binding_set(pool, stream, key);
    acre__lock_give(&pool->lock);
    return status;
}

acre_status acre_pool_graph_share(acre_pool *pool, acre_stream stream, uint64_t key) {
    return acre__in_call(pool_graph_share(pool, stream, key), "acre_pool_graph_share");
}

/* Called when the user declares that these graphs are never launched again. Their user objects may
 * still exist, and must not count for later graphs. */
static acre_status memory_detach(struct acre__graph_memory *memory) {
    struct graph_watch *watch = watch_make();
    if (!watch)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a graph");
    watch_drop(memory->watch);
    memory->watch = watch;
    return ACRE_OK;
}

static acre_status pool_graph_end(acre_pool *pool, uint64_t key) {
    acre_status status = acre__pool_enter(pool);
    if (status)
        return status;
    if (!key)
        return acre__fail(ACRE_E_INVALID, "acre_pool_graph_end: the key is 0");
    acre__lock_take(&pool->lock);
    struct acre__graph_memory *memory = memory_of_key(pool, key);
    if (memory && memory->takers)
        status = acre__fail(ACRE_E_BUSY, "a capture is allocating memory of key %llu",
                            (unsigned long long)key);
    if (memory && status == ACRE_OK && memory_has_graphs(memory)) {
        status = acre__step_quiesce(pool->dev); /* the last launch may be in flight */
        if (status == ACRE_OK)
            status = memory_detach(memory);
    }
    for (struct acre__graph_binding *at = pool->graphs.bindings, *next; at && !status; at = next) {
        next = at->next;
        if (at->key == key)
            binding_remove(pool, at);
    }
    if (memory && status == ACRE_OK) {
        memory->key = 0; /* freed as soon as nothing uses it */
        pool->graphs.is_waiting = 1;
        acre__graphs_settle(pool);
    }
    acre__lock_give(&pool->lock);
    return status;
}

acre_status acre_pool_graph_end(acre_pool *pool, uint64_t key) {
    return acre__in_call(pool_graph_end(pool, key), "acre_pool_graph_end");
}
