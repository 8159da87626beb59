/* Collects a snapshot: see pool_snapshot.h. */
#include "pool/pool_snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/status.h"
#include "pool/pool_freed.h"
#include "pool/pool_list.h"
#include "pool/pool_tag.h"
#include "watch/origin.h"

/* ---- lists ---- */

enum { SNAP_FIRST = 64 };

/* Adds an item; sets is_short if out of memory. */
static void snap_add(struct acre__snapshot *snapshot, struct acre__snap_list *list,
                     const void *item, size_t bytes) {
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : SNAP_FIRST;
        void *more = realloc(list->items, room * bytes);
        if (!more) {
            snapshot->is_short = 1;
            return;
        }
        list->items = more;
        list->room = room;
    }
    memcpy((char *)list->items + list->count++ * bytes, item, bytes);
}

/* ---- a pool, whose lock is held ---- */

struct snap_visit {
    struct acre__snapshot *snapshot;
    struct acre__snap_pool *pool;
    const acre_device *dev; /* NULL: all */
    int is_small;
};

static void snap_block(const struct snap_visit *visit, struct acre__slab *slab,
                       const struct acre__slot *slot, uint32_t state) {
    struct acre__origin origin;
    struct acre__snap_block block = {.at = (uintptr_t)slot->p,
                                     .bytes = acre__slab_asked(slab, state),
                                     .slot_bytes = slab->slot_bytes,
                                     .tag = (uint16_t)acre__tag_of(slab, slot->state, state),
                                     .is_graph = (state & ACRE__SLOT_GRAPH) != 0,
                                     .is_shared = (state & ACRE__SLOT_USED) != 0};
    if (acre__stacks_are_on() && acre__origin_find(slot->p, &origin) && origin.is_live) {
        block.since_ns = origin.since_ns;
        block.stream = origin.stream;
        block.stack = origin.allocated;
    }
    snap_add(visit->snapshot, &visit->pool->blocks, &block, sizeof block);
}

/* Adds the live blocks of a slab. Returns their number. */
static uint32_t snap_slots(const struct snap_visit *visit, struct acre__slab *slab) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < slab->fresh; i++) {
        uint32_t state = acre__load(slab->slots[i].state, memory_order_acquire);
        if (state & ACRE__SLOT_LIVE) {
            snap_block(visit, slab, &slab->slots[i], state);
            live++;
        }
    }
    return live;
}

static enum acre__snap_state snap_state(const struct acre__arena *arena,
                                        const struct acre__piece *piece) {
    switch (piece->state) {
    case ACRE__PIECE_HOLE:
        return piece->holes == &arena->ready ? ACRE__SNAP_FREE : ACRE__SNAP_WAITING;
    case ACRE__PIECE_GHOST:
        return ACRE__SNAP_GHOST;
    default:
        return ACRE__SNAP_LOST;
    }
}

static void snap_piece(const struct snap_visit *visit, const struct acre__arena *arena,
                       const struct acre__piece *piece) {
    struct acre__snap_piece part = {.at = piece->at, .bytes = piece->bytes};
    if (piece->state == ACRE__PIECE_BARE)
        return;
    if (piece->state == ACRE__PIECE_TAKEN && piece->user) {
        struct acre__slab *slab = piece->user;
        part.live = snap_slots(visit, slab);
        part.slots = slab->count;
        part.slot_bytes = slab->slot_bytes;
        part.state = acre__slab_is_large(slab) ? ACRE__SNAP_BLOCK : ACRE__SNAP_SLAB;
    } else {
        part.state = snap_state(arena, piece);
    }
    snap_add(visit->snapshot, &visit->pool->pieces, &part, sizeof part);
}

static void snap_region(const struct snap_visit *visit, const struct acre__region *region) {
    struct acre__snap_region entry = {region->first ? region->first->at : 0, 0, visit->is_small};
    if (region->first)
        entry.bytes = region->end - region->first->at;
    snap_add(visit->snapshot, &visit->pool->regions, &entry, sizeof entry);
    struct acre__node *node = acre__tree_first(&region->mappings);
    for (; node; node = acre__tree_next(&region->mappings, node)) {
        const struct acre__region_part *part =
            acre__tree_entry(node, struct acre__region_part, node);
        struct acre__snap_chunk chunk = {node->key, part->bytes, part->is_ghost};
        snap_add(visit->snapshot, &visit->pool->chunks, &chunk, sizeof chunk);
    }
    if (region->mem) {
        struct acre__snap_chunk chunk = {(uintptr_t)region->mem, region->mem_bytes, 0};
        snap_add(visit->snapshot, &visit->pool->chunks, &chunk, sizeof chunk);
    }
}

static void snap_arena(struct snap_visit *visit, const struct acre__arena *arena, int is_small) {
    visit->is_small = is_small;
    for (const struct acre__region *region = arena->regions; region; region = region->next) {
        snap_region(visit, region);
        for (const struct acre__piece *piece = region->first; piece; piece = piece->behind)
            snap_piece(visit, arena, piece);
    }
}

static void snap_pool(acre_pool *pool, void *user) {
    struct snap_visit *visit = user;
    if (visit->dev && pool->dev != visit->dev)
        return;
    struct acre__snap_pool made = {.id = pool->trace.id,
                                   .kind = pool->kind,
                                   .held = pool->account.held,
                                   .used = pool->used,
                                   .refused = pool->refused};
    memcpy(made.name, pool->trace.name, sizeof made.name);
    memcpy(made.device, pool->dev->label, sizeof made.device);
    for (const struct acre__pool_stream *at = pool->streams; at; at = at->next)
        made.pending += acre__freed_bytes(at->recent->freed) + acre__freed_bytes(at->marked->freed);
    visit->pool = &made;
    snap_arena(visit, &pool->slabs_in, 1);
    snap_arena(visit, &pool->blocks_in, 0);
    size_t before = visit->snapshot->pools.count;
    snap_add(visit->snapshot, &visit->snapshot->pools, &made, sizeof made);
    if (visit->snapshot->pools.count == before) {
        free(made.blocks.items);
        free(made.pieces.items);
        free(made.chunks.items);
        free(made.regions.items);
    }
}

/* ---- everything ---- */

static void snap_object(void *user, const struct acre__block *block) {
    struct snap_visit *visit = user;
    struct acre__snap_object object = {
        .at = block->node.key, .bytes = block->bytes, .kind = block->kind, .owner = block->owner};
    if (block->owner == ACRE__OWNED_BY_POOL)
        return;
    if (block->owner == ACRE__OWNED_BY_RANGE)
        object.bytes = atomic_load_explicit(&block->range_bytes, memory_order_relaxed);
    memcpy(object.device, block->dev->label, sizeof object.device);
    snap_add(visit->snapshot, &visit->snapshot->objects, &object, sizeof object);
}

acre_status acre__snapshot_collect(struct acre__snapshot *snapshot, const acre_device *dev) {
    struct snap_visit visit = {.snapshot = snapshot, .dev = dev};
    memset(snapshot, 0, sizeof *snapshot);
    snapshot->now_ns = acre__now_ns();
    acre__pools_visit(NULL, snap_pool, &visit);
    acre__book_visit(dev, snap_object, &visit);
    return snapshot->is_short ? acre__fail(ACRE_E_HOST_MEMORY, "no host memory for a snapshot")
                              : ACRE_OK;
}

void acre__snapshot_drop(struct acre__snapshot *snapshot) {
    struct acre__snap_pool *pools = snapshot->pools.items;
    for (size_t i = 0; i < snapshot->pools.count; i++) {
        free(pools[i].blocks.items);
        free(pools[i].pieces.items);
        free(pools[i].chunks.items);
        free(pools[i].regions.items);
    }
    free(pools);
    free(snapshot->objects.items);
    memset(snapshot, 0, sizeof *snapshot);
}
