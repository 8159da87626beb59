/* Slabs and the segments that they are cut from.
 *
 * A segment is an extent where the device maps memory by hand, which can then be given back without
 * waiting for the device; otherwise a block of acre_mem_alloc. Segments begin with 8 MiB and double
 * up to 64 MiB; a slab that is larger has one of its own. */
#include <stdlib.h>

#include "base/status.h"
#include "pool/pool.h"

enum { SEGMENT_UNITS = 32 }; /* of a segment that several slabs share */

static size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

static int is_no_memory(acre_status status) {
    return status == ACRE_E_DEVICE_MEMORY || status == ACRE_E_HOST_MEMORY ||
           status == ACRE_E_ADDRESS_SPACE || status == ACRE_E_LIMIT;
}

/* ---- segments ---- */

static acre_status segment_by_mapping(struct acre__segment *segment, size_t bytes,
                                      size_t alignment) {
    acre_status status = acre__extent_open(&segment->extent, segment->dev, ACRE__CHUNK_SHAREABLE,
                                           bytes, alignment, 0);
    if (status)
        return status;
    status = acre__extent_grow(&segment->extent, bytes);
    segment->at = segment->extent.range.at;
    segment->block = (struct acre__block){.node.key = segment->at,
                                          .dev = segment->dev,
                                          .bytes = bytes,
                                          .kind = ACRE_KIND_DEVICE,
                                          .source = ACRE__FROM_SPACE,
                                          .owner = ACRE__OWNED_BY_POOL,
                                          .extent = &segment->extent};
    if (status == ACRE_OK && !acre__book_add(&segment->block))
        status =
            acre__fail(ACRE_E_REGISTERED, "the addresses of a pool are in acre's book already");
    if (status) {
        struct acre__said said;
        acre__said_keep(&said);
        acre__extent_close(&segment->extent);
        return acre__said_fail(status, &said);
    }
    segment->has_extent = 1;
    return ACRE_OK;
}

/* The driver aligns less than a unit: what is in front of the first whole one is left unused. */
static acre_status segment_by_block(struct acre__segment *segment, acre_kind kind, size_t bytes,
                                    size_t alignment) {
    acre_status status;
    size_t align = alignment > ACRE__SLAB_UNIT ? alignment : ACRE__SLAB_UNIT;
    status = acre_mem_alloc(segment->dev, kind, bytes, 0, &segment->mem);
    if (status == ACRE_OK && (uintptr_t)segment->mem % align) {
        (void)acre_mem_free(segment->dev, segment->mem);
        status = acre_mem_alloc(segment->dev, kind, bytes + align, 0, &segment->mem);
    }
    if (status)
        return status;
    segment->at = round_up((uintptr_t)segment->mem, align);
    segment->pinned = acre__book_pin(segment->dev, segment->mem, &status);
    if (segment->pinned)
        acre__book_pass_on(segment->pinned, ACRE__OWNED_BY_POOL);
    return status;
}

static acre_status segment_make(acre_pool *pool, size_t bytes, size_t alignment,
                                struct acre__segment **out) {
    struct acre__segment *segment = calloc(1, sizeof *segment);
    if (!segment)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a segment");
    segment->dev = pool->dev;
    int can_map = pool->kind == ACRE_KIND_DEVICE && acre__chunk_unit(pool->dev, 0);
    acre_status status = can_map ? segment_by_mapping(segment, bytes, alignment)
                                 : segment_by_block(segment, pool->kind, bytes, alignment);
    if (status) {
        free(segment);
        return status;
    }
    segment->units = bytes / ACRE__SLAB_UNIT;
    segment->next = pool->segments;
    pool->segments = segment;
    pool->held_bytes += bytes;
    *out = segment;
    return ACRE_OK;
}

/* No slab has a part of it. Of device memory by mapping nothing is waited for. */
static void segment_end(acre_pool *pool, struct acre__segment *segment) {
    struct acre__segment **link = &pool->segments;
    while (*link != segment)
        link = &(*link)->next;
    *link = segment->next;
    pool->held_bytes -= segment->units * ACRE__SLAB_UNIT;
    acre_status status;
    if (segment->has_extent) {
        (void)acre__book_remove(pool->dev, (void *)(uintptr_t)segment->at, ACRE__OWNED_BY_POOL,
                                &status);
        acre__extent_close(&segment->extent);
    } else {
        acre__book_pass_on(segment->pinned, ACRE__OWNED_BY_MEM);
        acre__book_unpin(segment->pinned);
        (void)acre_mem_free(pool->dev, segment->mem);
    }
    free(segment);
}

static uint64_t units_mask(size_t first, size_t count) {
    uint64_t all = count >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1;
    return all << first;
}

/* Units that are free one behind the other; the segment's count if there are none. */
static size_t segment_find(const struct acre__segment *segment, size_t units) {
    for (size_t i = 0; segment->units <= 64 && i + units <= segment->units; i++)
        if (!(segment->taken & units_mask(i, units)))
            return i;
    return segment->units;
}

/* Units for a slab, in a segment that has them or in a new one. */
static acre_status units_take(acre_pool *pool, size_t bytes, size_t alignment,
                              struct acre__segment **out, size_t *first) {
    size_t units = bytes / ACRE__SLAB_UNIT;
    *first = 0;
    if (units <= SEGMENT_UNITS && alignment <= ACRE__SLAB_UNIT) {
        for (struct acre__segment *at = pool->segments; at; at = at->next) {
            *first = segment_find(at, units);
            if (*first < at->units) {
                at->taken |= units_mask(*first, units);
                *out = at;
                return ACRE_OK;
            }
        }
        *first = 0;
        size_t wanted = pool->segment_bytes > bytes ? pool->segment_bytes : bytes;
        acre_status status = segment_make(pool, wanted, alignment, out);
        if (status == ACRE_OK) {
            (*out)->taken = units_mask(0, units);
            size_t most = SEGMENT_UNITS * ACRE__SLAB_UNIT;
            pool->segment_bytes = 2 * pool->segment_bytes > most ? most : 2 * pool->segment_bytes;
            return ACRE_OK;
        }
        if (!is_no_memory(status))
            return status;
    }
    acre_status status = segment_make(pool, bytes, alignment, out);
    if (status == ACRE_OK)
        (*out)->taken = units_mask(0, units > 64 ? 64 : units);
    return status;
}

static void units_give(struct acre__slab *slab) {
    struct acre__segment *segment = slab->segment;
    size_t units = slab->bytes / ACRE__SLAB_UNIT;
    size_t first = (size_t)((slab->at - segment->at) / ACRE__SLAB_UNIT);
    segment->taken &= ~units_mask(first, units > 64 ? 64 : units);
}

/* ---- slabs ---- */

/* How many slots a slab of a class has: enough that its end is little waste. */
static size_t slab_slots(size_t slot_bytes) {
    if (slot_bytes <= 64 << 10)
        return ACRE__SLAB_UNIT / slot_bytes;
    if (slot_bytes <= 256 << 10)
        return 2 * ACRE__SLAB_UNIT / slot_bytes;
    if (slot_bytes <= 1 << 20)
        return 8 * ACRE__SLAB_UNIT / slot_bytes;
    return slot_bytes <= 4 << 20 ? 4 : 1;
}

struct acre__slab *acre__slab_record(uint64_t at, size_t bytes, size_t slot_bytes, size_t count) {
    struct acre__slab *slab;
    size_t states_bytes = round_up(count * sizeof slab->states[0], ACRE__LINE);
    slab = acre__pool_lines(sizeof *slab + states_bytes + count * sizeof *slab->slots);
    if (!slab)
        return NULL;
    uint64_t slot_grains = slot_bytes / ACRE__GRAIN;
    slab->at = at;
    slab->magic = count > 1 ? (((uint64_t)1 << 32) + slot_grains - 1) / slot_grains : 0;
    slab->slot_bytes = slot_bytes;
    slab->count = (uint32_t)count;
    slab->slots = (struct acre__slot *)((char *)slab->states + states_bytes);
    slab->bytes = bytes;
    for (size_t i = 0; i < count; i++) /* now: who asks about an address has no lock */
        slab->slots[i].state = &slab->states[i];
    return slab;
}

struct acre__slot *acre__slab_fresh(struct acre__slab *slab) {
    uint32_t index = slab->fresh++;
    struct acre__slot *slot = &slab->slots[index];
    slot->p = (void *)(uintptr_t)(slab->at + index * slab->slot_bytes);
    return slot;
}

static acre_status slab_build(acre_pool *pool, uint32_t size_class, size_t count, size_t alignment,
                              struct acre__slab **out) {
    size_t slot_bytes = acre__class_bytes(size_class), first;
    size_t bytes = round_up(count * slot_bytes, ACRE__SLAB_UNIT);
    struct acre__slab *slab = acre__slab_record(0, bytes, slot_bytes, count);
    if (!slab)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of %zu blocks", count);
    acre_status status = units_take(pool, slab->bytes, alignment, &slab->segment, &first);
    if (status) {
        free(slab);
        return status;
    }
    slab->at = slab->segment->at + first * ACRE__SLAB_UNIT;
    slab->size_class = size_class;
    slab->pool = pool;
    if (!acre__pool_table_add(slab)) {
        units_give(slab);
        if (!slab->segment->taken)
            segment_end(pool, slab->segment);
        free(slab);
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the table of addresses");
    }
    slab->next = pool->slabs;
    pool->slabs = slab;
    *out = slab;
    return ACRE_OK;
}

acre_status acre__slab_make(acre_pool *pool, uint32_t size_class, size_t alignment,
                            struct acre__slab **slab) {
    size_t count = alignment > ACRE__SLAB_UNIT ? 1 : slab_slots(acre__class_bytes(size_class));
    acre_status status = slab_build(pool, size_class, count, alignment, slab);
    if (is_no_memory(status) && count > 1)
        status = slab_build(pool, size_class, 1, alignment, slab);
    return status;
}

/* A slab that the table has may be another pool's, which ends it as it likes: only what lies in a
 * segment of this one is looked at. */
struct acre__slab *acre__slab_of(const acre_pool *pool, const void *p) {
    for (const struct acre__segment *at = pool->segments; at; at = at->next)
        if ((uintptr_t)p - at->at < at->units * ACRE__SLAB_UNIT)
            return acre__pool_table_find(p);
    return NULL;
}

struct acre__slot *acre__slab_around(struct acre__slab *slab, const void *p) {
    uint64_t index = ((uintptr_t)p - slab->at) / slab->slot_bytes;
    return index < slab->count ? &slab->slots[index] : NULL;
}

acre_status acre__slab_reserve(acre_pool *pool, uint64_t bytes) {
    struct acre__segment *segment, *before = pool->segments;
    size_t most = 64 * ACRE__SLAB_UNIT; /* so many units of one can be told apart */
    while (pool->held_bytes < bytes) {
        uint64_t more = bytes - pool->held_bytes;
        size_t step = more < most ? round_up((size_t)more, ACRE__SLAB_UNIT) : most;
        acre_status status = segment_make(pool, step, 0, &segment);
        if (status == ACRE_OK)
            continue;
        struct acre__said said;
        acre__said_keep(&said);
        while (pool->segments != before)
            segment_end(pool, pool->segments);
        return acre__said_fail(status, &said);
    }
    return ACRE_OK;
}

/* ---- giving back ---- */

/* Takes the slots of slabs that end out of the list of those that wait for nothing. */
static void ready_filter(acre_pool *pool, uint32_t size_class) {
    struct acre__slots kept = {0};
    struct acre__slot *slot = pool->ready[size_class].first;
    while (slot) {
        struct acre__slot *next = slot->next;
        if (acre__pool_table_find(slot->p))
            acre__slots_push(&kept, slot);
        slot = next;
    }
    pool->ready[size_class] = kept;
}

static void slab_end(struct acre__slab *slab) {
    units_give(slab);
    free(slab);
}

/* Segments that no slab is cut from. */
static void segments_trim(acre_pool *pool, uint64_t keep) {
    for (struct acre__segment *at = pool->segments, *next; at; at = next) {
        next = at->next;
        uint64_t bytes = at->units * ACRE__SLAB_UNIT;
        if (!at->taken && pool->held_bytes - bytes >= keep)
            segment_end(pool, at);
    }
}

void acre__slab_trim(acre_pool *pool, uint64_t keep) {
    struct acre__slab *ended = NULL;
    uint64_t left = pool->held_bytes;
    for (struct acre__slab **link = &pool->slabs; *link;) {
        struct acre__slab *slab = *link;
        if (slab->idle + (slab->count - slab->fresh) < slab->count || left <= keep ||
            left - slab->bytes < keep) {
            link = &slab->next;
            continue;
        }
        *link = slab->next;
        left -= slab->bytes;
        acre__pool_table_remove(slab);
        if (pool->fresh[slab->size_class] == slab)
            pool->fresh[slab->size_class] = NULL;
        slab->next = ended;
        ended = slab;
    }
    for (struct acre__slab *slab = ended; slab; slab = slab->next)
        if (slab->idle)
            ready_filter(pool, slab->size_class);
    while (ended) {
        struct acre__slab *next = ended->next;
        slab_end(ended);
        ended = next;
    }
    segments_trim(pool, keep);
}

void acre__slab_end_all(acre_pool *pool) {
    while (pool->slabs) {
        struct acre__slab *slab = pool->slabs;
        pool->slabs = slab->next;
        acre__pool_table_remove(slab);
        slab_end(slab);
    }
    segments_trim(pool, 0);
}
