/* Extents: see extent.h.
 *
 * Invariants. Mappings are sorted by address and adjacent. The first begins at the start of the
 * range, and together they have `mapped` bytes. Each holds one user of its chunk. A mapping that
 * the driver refuses to undo goes to limbo and keeps its addresses: the extent's range then ends
 * before it. */
#include "space/extent.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/round.h"
#include "base/status.h"
#include "device/driver_status.h"
#include "space/mapped.h"
#include "watch/trace.h"

/* ---- mappings ---- */

/* Ends the mappings of a range that ends at `end`, the last first. Returns the end of the addresses
 * that still belong to the caller: addresses behind a mapping that went to limbo are released. */
static uint64_t mappings_end(acre_device *dev, struct acre__mapping **mappings, size_t count,
                             uint64_t end) {
    while (count > 0) {
        struct acre__mapping *mapping = mappings[--count];
        uint64_t at = mapping->at, behind = at + mapping->chunk->bytes;
        if (acre__mapping_end(mapping))
            continue;
        acre__range_give(dev, behind, (size_t)(end - behind));
        end = at;
    }
    return end;
}

/* Maps the chunks of a list one behind the other from `at` on and sets access. `mappings` has room
 * for them. All or none. A failure may cost addresses: *left_end is the end of the addresses that
 * the caller still has. */
static acre_status mappings_make(struct acre__extent *extent, struct acre__chunk *list, uint64_t at,
                                 struct acre__mapping **mappings, uint64_t range_end,
                                 uint64_t *left_end) {
    uint64_t begin = at;
    size_t made = 0;
    /* On a lost device mappings end in the records only, so the addresses may still be mapped. */
    acre_status status = acre__device_enter(extent->dev);
    *left_end = range_end;
    for (struct acre__chunk *chunk = list; chunk && status == ACRE_OK; chunk = chunk->next) {
        status = acre__mapping_make(chunk, at, extent, &mappings[made]);
        if (status)
            break;
        made++;
        at += chunk->bytes;
    }
    if (status == ACRE_OK && made && extent->access_count)
        status = acre__mapped_access(extent->dev, begin, (size_t)(at - begin), extent->access,
                                     extent->access_count);
    if (status)
        *left_end = mappings_end(extent->dev, mappings, made, range_end);
    return status;
}

/* ---- opening and closing ---- */

acre_status acre__extent_open(struct acre__extent *extent, acre_device *dev, uint32_t flags,
                              size_t reserve, size_t alignment, size_t least) {
    int ignored;
    memset(extent, 0, sizeof *extent);
    acre_status status = acre__config_flag(ACRE__CONFIG_VMM, 1, &ignored);
    if (status)
        return status;
    size_t unit = acre__chunk_unit(dev, flags);
    if (!unit)
        return acre__fail(ACRE_E_UNSUPPORTED, "%s has no virtual memory management for %s memory",
                          dev->label, flags & ACRE__CHUNK_HOST ? "host" : "device");
    if (reserve > SIZE_MAX - unit || least > SIZE_MAX - unit)
        return acre__fail(ACRE_E_ADDRESS_SPACE, "%zu bytes of addresses requested", reserve);
    extent->dev = dev;
    extent->flags = flags;
    extent->unit = unit;
    extent->least = least > unit ? acre__round_up(least, unit) : unit;
    extent->access[0].location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, dev->device};
    extent->access[0].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    extent->access_count = 1;
    if (flags & ACRE__CHUNK_HOST) {
        extent->access[1].location = acre__step_location(dev, flags);
        extent->access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        extent->access_count = 2;
    }
    atomic_init(&extent->used_bytes, 0);
    atomic_init(&extent->element_bytes, 1);
    if (reserve) {
        size_t aligned = alignment > unit ? alignment : unit;
        status = acre__range_take(dev, acre__round_up(reserve, unit), aligned, &extent->range);
        if (status)
            return status;
    }
    acre__lock_init(&extent->lock, "extent", ACRE__RANK_EXTENT);
    return ACRE_OK;
}

void acre__extent_close(struct acre__extent *extent) {
    uint64_t begin = extent->range.at;
    uint64_t end =
        mappings_end(extent->dev, extent->mappings, extent->count, begin + extent->range.bytes);
    acre__range_give(extent->dev, begin, (size_t)(end - begin));
    acre__lock_destroy(&extent->lock);
    free(extent->mappings);
    extent->mappings = NULL;
}

acre_status acre__extent_create(acre_device *dev, uint32_t flags, size_t reserve,
                                struct acre__extent **extent) {
    *extent = malloc(sizeof **extent);
    if (!*extent)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of addresses");
    acre_status status = acre__extent_open(*extent, dev, flags, reserve, 0, 0);
    if (status) {
        free(*extent);
        *extent = NULL;
    }
    return status;
}

void acre__extent_destroy(struct acre__extent *extent) {
    if (extent)
        acre__extent_close(extent);
    free(extent);
}

/* ---- growing ---- */

/* Makes room for `more` mappings. */
static acre_status extent_room(struct acre__extent *extent, size_t more) {
    if (extent->count + more <= extent->room)
        return ACRE_OK;
    size_t room = 2 * extent->room > extent->count + more ? 2 * extent->room : extent->count + more;
    struct acre__mapping **mappings =
        realloc(extent->mappings, room * sizeof(struct acre__mapping *));
    if (!mappings)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of %zu mappings", room);
    extent->mappings = mappings;
    extent->room = room;
    return ACRE_OK;
}

static size_t list_count(const struct acre__chunk *list, size_t *bytes) {
    size_t count = 0;
    *bytes = 0;
    for (; list; list = list->next) {
        count++;
        *bytes += list->bytes;
    }
    return count;
}

/* Lock held. */
static acre_status extent_add(struct acre__extent *extent, struct acre__chunk *list) {
    size_t bytes, count = list_count(list, &bytes);
    if (bytes > extent->range.bytes - extent->mapped)
        return acre__fail(ACRE_E_ADDRESS_SPACE,
                          "%zu bytes requested, %zu bytes of addresses are left", bytes,
                          extent->range.bytes - extent->mapped);
    acre_status status = extent_room(extent, count);
    if (status)
        return status;
    uint64_t left_end, begin = extent->range.at;
    status = mappings_make(extent, list, begin + extent->mapped, extent->mappings + extent->count,
                           begin + extent->range.bytes, &left_end);
    extent->range.bytes = (size_t)(left_end - begin);
    if (!extent->range.bytes)
        extent->range.at = 0; /* the addresses no longer belong to the extent */
    if (status)
        return status;
    extent->count += count;
    extent->mapped += bytes;
    return ACRE_OK;
}

acre_status acre__extent_add(struct acre__extent *extent, struct acre__chunk *list) {
    if (!list)
        return ACRE_OK;
    acre__lock_take(&extent->lock);
    acre_status status = extent_add(extent, list);
    acre__chunk_drop_list(list); /* each mapping has its own user now */
    acre__lock_give(&extent->lock);
    return status;
}

acre_status acre__extent_more(struct acre__extent *extent, size_t bytes) {
    struct acre__chunk *list;
    acre_status status = acre__chunk_cover(extent->dev, bytes, extent->least, extent->flags, &list);
    return status ? status : acre__extent_add(extent, list);
}

acre_status acre__extent_grow(struct acre__extent *extent, size_t bytes) {
    if (bytes <= extent->mapped)
        return ACRE_OK;
    if (bytes > extent->range.bytes)
        return acre__fail(ACRE_E_ADDRESS_SPACE,
                          "%zu bytes requested, %zu bytes of addresses reserved", bytes,
                          extent->range.bytes);
    size_t left = extent->range.bytes - extent->mapped;
    size_t more = acre__round_up(bytes - extent->mapped, extent->unit);
    more = more < extent->least ? extent->least : more;
    return acre__extent_more(extent, more > left ? left : more);
}

/* ---- shrinking ---- */

/* A chunk that the driver refuses to unmap stays, with all chunks before it: the next shrink
 * retries. */
size_t acre__extent_shrink(struct acre__extent *extent, size_t bytes) {
    acre__lock_take(&extent->lock);
    size_t before = extent->mapped;
    while (extent->count > 0) {
        struct acre__mapping *last = extent->mappings[extent->count - 1];
        size_t last_bytes = last->chunk->bytes;
        if (last->at - extent->range.at < bytes || !acre__mapping_unmap(last))
            break;
        extent->count--;
        extent->mapped -= last_bytes;
    }
    size_t went = before - extent->mapped;
    acre__lock_give(&extent->lock);
    return went;
}

/* ---- addresses ---- */

int acre__extent_extend(struct acre__extent *extent, size_t bytes) {
    size_t wanted = acre__round_up(bytes, extent->unit);
    if (wanted < bytes || !extent->range.bytes)
        return 0;
    if (wanted <= extent->range.bytes)
        return 1;
    acre__lock_take(&extent->lock);
    int is_done = acre__range_extend(extent->dev, &extent->range, wanted);
    acre__lock_give(&extent->lock);
    return is_done;
}

void acre__extent_trim_addresses(struct acre__extent *extent, size_t bytes) {
    size_t keep = acre__round_up(bytes, extent->unit);
    acre__lock_take(&extent->lock);
    keep = keep < extent->mapped ? extent->mapped : keep;
    if (keep < extent->range.bytes) {
        acre__range_give(extent->dev, extent->range.at + keep, extent->range.bytes - keep);
        extent->range.bytes = keep;
    }
    acre__lock_give(&extent->lock);
}

/* ---- moving ---- */

struct acre__chunk *acre__extent_chunks(const struct acre__extent *extent, size_t first, size_t end,
                                        struct acre__chunk *rest) {
    while (end > first) {
        struct acre__chunk *chunk = extent->mappings[--end]->chunk;
        acre__chunk_keep(chunk);
        chunk->next = rest;
        rest = chunk;
    }
    return rest;
}

/* Lock held. */
static acre_status extent_move(struct acre__extent *extent, const struct acre__range *range,
                               struct acre__moved *moved) {
    struct acre__mapping **mappings = calloc(extent->count + 1, sizeof(void *));
    struct acre__chunk *list = acre__extent_chunks(extent, 0, extent->count, NULL);
    uint64_t left_end = range->at + range->bytes;
    acre_status status =
        mappings ? mappings_make(extent, list, range->at, mappings, left_end, &left_end)
                 : acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of %zu mappings",
                              extent->count);
    acre__chunk_drop_list(list);
    if (status) {
        free(mappings);
        acre__range_give(extent->dev, range->at, (size_t)(left_end - range->at));
        return status;
    }
    if (acre__trace_is_on())
        acre__trace_chunk_move(extent->range.at, range->at, extent->mapped);
    *moved = (struct acre__moved){extent->dev, extent->range, extent->mappings, extent->count};
    extent->range = *range;
    extent->mappings = mappings;
    extent->room = extent->count + 1;
    return ACRE_OK;
}

acre_status acre__extent_move_begin(struct acre__extent *extent, size_t reserve,
                                    struct acre__moved *moved) {
    struct acre__range range;
    memset(moved, 0, sizeof *moved);
    size_t bytes = acre__round_up(reserve, extent->unit);
    if (bytes < reserve)
        return acre__fail(ACRE_E_ADDRESS_SPACE, "%zu bytes of addresses requested", reserve);
    bytes = bytes < extent->mapped ? extent->mapped : bytes;
    acre_status status = acre__range_take(extent->dev, bytes, extent->unit, &range);
    if (status)
        return status;
    acre__lock_take(&extent->lock);
    status = extent_move(extent, &range, moved);
    acre__lock_give(&extent->lock);
    return status;
}

void acre__extent_move_end(struct acre__moved *moved) {
    if (!moved->dev)
        return;
    uint64_t begin = moved->range.at;
    uint64_t end =
        mappings_end(moved->dev, moved->mappings, moved->count, begin + moved->range.bytes);
    acre__range_give(moved->dev, begin, (size_t)(end - begin));
    free(moved->mappings);
    memset(moved, 0, sizeof *moved);
}

/* ---- access ---- */

/* Lock held: index of a device's entry, or of the first free one. */
static size_t access_find(const struct acre__extent *extent, CUdevice device) {
    size_t i = 0;
    while (i < extent->access_count &&
           (extent->access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            extent->access[i].location.id != device))
        i++;
    return i;
}

/* Checked before anything is recorded: memory that is added later must not fail because of it. */
static acre_status access_check(const struct acre__extent *extent, const acre_device *peer) {
    acre_device *dev = extent->dev;
    int can = peer->device == dev->device || extent->flags & ACRE__CHUNK_HOST;
    if (can)
        return ACRE_OK;
    CUresult code = dev->drv->cuDeviceCanAccessPeer(&can, peer->device, dev->device);
    if (code)
        return acre__driver_fail(dev, code, "cuDeviceCanAccessPeer");
    return can ? ACRE_OK
               : acre__fail(ACRE_E_UNSUPPORTED, "%s cannot access memory of %s", peer->label,
                            dev->label);
}

/* Lock held. */
static acre_status extent_set_access(struct acre__extent *extent, const acre_device *peer,
                                     unsigned access) {
    size_t i = access_find(extent, peer->device);
    if (access == CU_MEM_ACCESS_FLAGS_PROT_NONE && i == extent->access_count)
        return ACRE_OK; /* it has no access */
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, peer->device}, (CUmemAccess_flags)access};
    if (i == ACRE__EXTENT_DEVICES)
        return acre__fail(ACRE_E_LIMIT, "%d devices have access, which is the limit",
                          (int)ACRE__EXTENT_DEVICES);
    acre_status status = access_check(extent, peer);
    if (status == ACRE_OK && extent->mapped)
        status = acre__mapped_access(extent->dev, extent->range.at, extent->mapped, &desc, 1);
    if (status)
        return status;
    if (access != CU_MEM_ACCESS_FLAGS_PROT_NONE) {
        extent->access[i] = desc;
        extent->access_count += i == extent->access_count;
    } else if (i < extent->access_count) {
        extent->access[i] = extent->access[--extent->access_count];
    }
    return ACRE_OK;
}

acre_status acre__extent_set_access(struct acre__extent *extent, const acre_device *peer,
                                    unsigned access) {
    if (peer->drv != extent->dev->drv)
        return acre__fail(ACRE_E_HANDLE, "%s and %s belong to different drivers", peer->label,
                          extent->dev->label);
    acre__lock_take(&extent->lock);
    acre_status status = extent_set_access(extent, peer, access);
    acre__lock_give(&extent->lock);
    return status;
}

int acre__extent_has_access(struct acre__extent *extent, const acre_device *dev) {
    if (!extent->dev || dev->drv != extent->dev->drv) /* a vec that copies has no extent */
        return 0;
    acre__lock_take(&extent->lock);
    int has_access = access_find(extent, dev->device) < extent->access_count;
    acre__lock_give(&extent->lock);
    return has_access;
}
