/* Memory and addresses of an arena's regions: see arena.h. */
#include <stdlib.h>

#include "arena/arena.h"
#include "base/status.h"
#include "device/device.h"
#include "space/mapped.h"
#include "watch/regions.h"

/* ---- regions of mapped memory ---- */

static acre_status region_by_mapping(struct acre__region *region, size_t bytes, size_t alignment) {
    struct acre__arena *arena = region->arena;
    size_t wanted = bytes > arena->setup.region_bytes ? bytes : arena->setup.region_bytes;
    wanted = acre__round_up(wanted, arena->unit);
    size_t aligned = alignment > arena->unit ? alignment : arena->unit;
    size_t least = acre__round_up(bytes, arena->unit);
    acre_status status = acre__range_take(arena->setup.dev, wanted, aligned, &region->range);
    while (status == ACRE_E_ADDRESS_SPACE && wanted > least) { /* try with fewer addresses */
        wanted = wanted / 2 > least ? acre__round_up(wanted / 2, arena->unit) : least;
        status = acre__range_take(arena->setup.dev, wanted, aligned, &region->range);
    }
    region->end = region->range.at;
    return status;
}

acre_status acre__region_access(const struct acre__region *region, uint64_t at, size_t bytes) {
    acre_device *dev = region->arena->setup.dev;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, dev->device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return acre__mapped_access(dev, at, bytes, &access, 1);
}

/* Maps a chunk at an unused address of the region, without access. */
static acre_status part_make(struct acre__region *region, uint64_t at, unsigned sort,
                             struct acre__chunk *chunk, struct acre__region_part **out) {
    struct acre__region_part *part = calloc(1, sizeof *part);
    if (!part)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a chunk");
    acre_status status = acre__mapping_make(chunk, at, &region->block, &part->mapping);
    if (status) {
        free(part);
        return status;
    }
    part->node.key = at;
    part->bytes = chunk->bytes;
    part->sort = sort;
    acre__tree_insert(&region->mappings, &part->node);
    *out = part;
    return ACRE_OK;
}

acre_status acre__region_map(struct acre__region *region, uint64_t at, size_t bytes, unsigned sort,
                             int *is_lost) {
    struct acre__arena *arena = region->arena;
    struct acre__chunk *chunk;
    struct acre__region_part *part;
    *is_lost = 0;
    acre_status status = acre__chunk_take(arena->setup.dev, bytes, ACRE__CHUNK_SHAREABLE, &chunk);
    if (status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_LIMIT)
        acre__account_refused(arena->setup.account, bytes);
    if (status)
        return status;
    status = part_make(region, at, sort, chunk, &part);
    acre__chunk_drop(chunk); /* the mapping holds its own reference */
    if (status)
        return status;
    part->is_counted = 1;
    acre__arena_count_held(arena, bytes, 0);
    arena->made++;
    status = acre__region_access(region, at, bytes);
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        *is_lost = !acre__region_unmap(region, part);
        return acre__said_fail(status, &said);
    }
    return ACRE_OK;
}

acre_status acre__region_room(const struct acre__region *region, uint64_t bytes, uint64_t chunk) {
    const struct acre__arena *arena = region->arena;
    acre_status status = bytes > chunk ? acre__chunk_check_room(arena->setup.dev, bytes) : ACRE_OK;
    if (status)
        acre__account_refused(arena->setup.account, bytes);
    return status;
}

acre_status acre__region_alias(struct acre__region *region, uint64_t at, unsigned sort,
                               struct acre__region_part *of) {
    struct acre__region_part *part;
    acre_status status = part_make(region, at, sort, of->mapping->chunk, &part);
    if (status)
        return status;
    part->older = of;
    of->newer = part;
    return ACRE_OK;
}

int acre__region_unmap(struct acre__region *region, struct acre__region_part *part) {
    struct acre__arena *arena = region->arena;
    if (part->older)
        part->older->newer = part->newer;
    if (part->newer)
        part->newer->older = part->older;
    if (part->is_counted && part->older) { /* the older mapping still holds the memory */
        part->older->is_counted = 1;
    } else if (part->is_counted) {
        acre__arena_count_held(arena, 0, part->bytes);
        arena->ended++;
    }
    acre__tree_remove(&region->mappings, &part->node);
    /* The arena has kept the chunk long enough, so the chunk bypasses the cache of chunks. */
    atomic_store_explicit(&part->mapping->chunk->is_alone, 1, memory_order_relaxed);
    int is_ours = acre__mapping_end(part->mapping);
    free(part);
    return is_ours;
}

void acre__piece_unmap(struct acre__piece *piece) {
    struct acre__region *region = piece->region;
    piece->state = ACRE__PIECE_LOST;
    if (acre__region_unmap(region, acre__part_of(acre__tree_find(&region->mappings, piece->at))))
        acre__bare_make(piece);
}

void acre__region_settle(struct acre__region *region) {
    acre__region_shorten(region);
    (void)acre__region_note(region);
    if (region->end == region->range.at)
        acre__region_end(region);
}

/* ---- regions of one block ---- */

/* Allocates the block of a region. If the driver's alignment is too small, allocates more and
 * leaves the bytes before an aligned address unused. */
static acre_status region_by_block(struct acre__region *region, size_t bytes, size_t alignment) {
    const struct acre__arena *arena = region->arena;
    acre_status status =
        arena->setup.alloc(arena->setup.dev, arena->setup.kind, bytes, 0, &region->mem);
    region->mem_bytes = bytes;
    if (status == ACRE_OK && (uintptr_t)region->mem % alignment) {
        (void)acre_mem_free(arena->setup.dev, region->mem);
        region->mem_bytes = bytes + alignment;
        status = arena->setup.alloc(arena->setup.dev, arena->setup.kind, region->mem_bytes, 0,
                                    &region->mem);
    }
    if (status)
        return status;
    region->range.at = acre__round_up((uintptr_t)region->mem, alignment);
    region->range.bytes = bytes;
    region->end = region->range.at;
    region->pinned = acre__book_pin(arena->setup.dev, region->mem, &status);
    if (region->pinned)
        acre__book_pass_on(region->pinned, ACRE__OWNED_BY_POOL);
    else
        (void)acre_mem_free(arena->setup.dev, region->mem);
    return status;
}

/* Allocates a block for several pieces, twice as large each time. If memory is short, allocates
 * only the requested bytes. */
static acre_status region_by_some_block(struct acre__region *region, size_t bytes,
                                        size_t alignment) {
    struct acre__arena *arena = region->arena;
    size_t wanted = arena->block_bytes, most = (size_t)64 << 20;
    if (wanted > bytes) {
        acre_status status = region_by_block(region, wanted, alignment);
        if (status == ACRE_OK)
            arena->block_bytes = 2 * wanted > most ? most : 2 * wanted;
        if (!acre__is_too_much(status))
            return status;
    }
    return region_by_block(region, acre__round_up(bytes, (size_t)2 << 20), alignment);
}

/* Tells compute-sanitizer about the memory (watch/regions.h). */
static void region_register(const struct acre__region *region, int is_new) {
    acre_device *dev = region->arena->setup.dev;
    struct acre__current current;
    const char *what;
    if (!acre__regions_are_on() || acre__device_push(dev, &current, &what) != CUDA_SUCCESS)
        return;
    if (is_new)
        acre__regions_add_heap(region->mem, region->mem_bytes);
    else
        acre__regions_end_heap(region->mem);
    acre__device_pop(dev, &current);
}

/* ---- both kinds ---- */

acre_status acre__region_make(struct acre__arena *arena, size_t bytes, size_t alignment,
                              struct acre__region **out) {
    struct acre__region *region = calloc(1, sizeof *region);
    if (!region)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a region");
    region->arena = arena;
    acre_status status = arena->unit ? region_by_mapping(region, bytes, alignment)
                                     : region_by_some_block(region, bytes, alignment);
    if (status) {
        free(region);
        return status;
    }
    if (region->mem) {
        region_register(region, 1);
        acre__arena_count_held(arena, region->mem_bytes, 0);
        arena->made++;
    }
    region->next = arena->regions;
    arena->regions = region;
    *out = region;
    return ACRE_OK;
}

acre_status acre__region_note(struct acre__region *region) {
    size_t bytes = (size_t)(region->end - region->range.at);
    if (bytes && !region->arena->setup.prepare(region->range.at, region->end))
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the table of addresses");
    if (region->mem || !bytes)
        return ACRE_OK;
    if (region->is_entered) {
        acre__book_change(&region->block, region->range.at, bytes);
        return ACRE_OK;
    }
    region->block = (struct acre__block){.node.key = region->range.at,
                                         .dev = region->arena->setup.dev,
                                         .bytes = bytes,
                                         .kind = ACRE_KIND_DEVICE,
                                         .source = ACRE__FROM_SPACE,
                                         .owner = ACRE__OWNED_BY_POOL,
                                         .pool = region->arena->setup.pool};
    region->is_entered = acre__book_add(&region->block);
    return region->is_entered ? ACRE_OK
                              : acre__fail(ACRE_E_REGISTERED,
                                           "the addresses of a pool are in acre's book already");
}

/* Releases all addresses but lost ones. Pieces may begin at any byte, lost pieces only at whole
 * units. */
static void region_give_addresses(struct acre__region *region) {
    uint64_t from = region->range.at, end = region->range.at + region->range.bytes;
    for (const struct acre__piece *piece = region->first; piece; piece = piece->behind) {
        if (piece->state != ACRE__PIECE_LOST || piece->at < from || piece->at >= end)
            continue;
        acre__range_give(region->arena->setup.dev, from, (size_t)(piece->at - from));
        from = piece->at + piece->bytes;
    }
    acre__range_give(region->arena->setup.dev, from, (size_t)(end - from));
}

/* Unmaps all parts. A part that the driver refuses to unmap keeps its addresses until limbo
 * releases them. */
static void region_unmap_all(struct acre__region *region) {
    struct acre__node *node;
    while ((node = acre__tree_first(&region->mappings))) {
        struct acre__region_part *part = acre__part_of(node);
        uint64_t at = node->key, behind = at + part->bytes;
        if (acre__region_unmap(region, part))
            continue;
        /* The refused part splits the range: release the addresses in front of it now. */
        struct acre__region front = *region;
        front.range.bytes = (size_t)(at - region->range.at);
        region_give_addresses(&front);
        region->range.bytes -= (size_t)(behind - region->range.at);
        region->range.at = behind;
    }
}

void acre__region_end(struct acre__region *region) {
    struct acre__arena *arena = region->arena;
    struct acre__region **link = &arena->regions;
    acre_status status;
    while (*link != region)
        link = &(*link)->next;
    *link = region->next;
    if (region->is_entered)
        (void)acre__book_remove(arena->setup.dev, (void *)(uintptr_t)region->range.at,
                                ACRE__OWNED_BY_POOL, &status);
    if (region->mem) {
        region_register(region, 0);
        acre__arena_count_held(arena, 0, region->mem_bytes);
        arena->ended++;
        acre__book_pass_on(region->pinned, ACRE__OWNED_BY_MEM);
        acre__book_unpin(region->pinned);
        (void)acre_mem_free(arena->setup.dev, region->mem);
    } else {
        region_unmap_all(region);
        region_give_addresses(region);
    }
    while (region->first) {
        struct acre__piece *next = region->first->behind;
        free(region->first);
        region->first = next;
    }
    free(region);
}
