/* Mappings: see mapping.h. */
#include "space/mapping.h"

#include <stdlib.h>

#include "base/status.h"
#include "device/strays.h"
#include "space/mapped.h"
#include "space/range.h"
#include "watch/trace.h"

/* Unmaps it, with the context current. If the driver does not know the address, someone unmapped it
 * without acre. */
static CUresult mapping_give_back(const struct acre__driver *drv, struct acre__limbo_item *item) {
    const struct acre__mapping *mapping = (const struct acre__mapping *)item;
    CUresult code = acre__strays_wait();
    if (code)
        return code;
    code = drv->cuMemUnmap(mapping->at, mapping->chunk->bytes);
    return code == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : code;
}

/* Releases the addresses, which belonged to the item in limbo. */
static void mapping_forget(struct acre__limbo_item *item) {
    struct acre__mapping *mapping = (struct acre__mapping *)item;
    acre_device *dev = mapping->chunk->dev;
    if (acre__trace_is_on())
        acre__trace_chunk(ACRE__TRACE_CHUNK_UNMAP, mapping->at, mapping->chunk->bytes);
    acre__range_give(dev, mapping->at, mapping->chunk->bytes);
    acre__chunk_drop(mapping->chunk);
    free(mapping);
}

static const struct acre__limbo_kind mapping_kind = {"cuMemUnmap", mapping_give_back,
                                                     mapping_forget};

acre_status acre__mapping_make(struct acre__chunk *chunk, uint64_t at, const void *owner,
                               struct acre__mapping **out) {
    struct acre__mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a mapping");
    mapping->item.kind = &mapping_kind;
    mapping->chunk = chunk;
    mapping->at = at;
    mapping->owner = owner;
    acre__gate_enter(ACRE__GATE_MAP);
    acre_status status = acre__chunk_is_away(chunk)
                             ? acre__fail(acre__chunk_suspended(chunk), "the memory is suspended")
                             : ACRE_OK;
    if (status == ACRE_OK && !(chunk->flags & ACRE__CHUNK_HOST))
        status = acre__device_has_memory(chunk->dev);
    if (status == ACRE_OK)
        status = acre__step_map(chunk->dev, at, chunk->bytes, chunk->handle);
    if (status == ACRE_OK) {
        acre__chunk_keep(chunk);
        acre__mapped_add(mapping);
        *out = mapping;
    }
    acre__gate_leave(ACRE__GATE_MAP);
    if (status)
        free(mapping);
    return status;
}

/* Inside the gate: unmaps, or notes that a mapping without memory has ended. Returns 0 if the
 * driver refuses. */
static int mapping_undo(struct acre__mapping *mapping) {
    acre_device *dev = mapping->chunk->dev;
    size_t bytes = mapping->chunk->bytes;
    int is_gone = (mapping->is_away && !mapping->is_stuck) || acre__device_is_lost(dev) ||
                  acre__step_unmap(dev, mapping->at, bytes) == ACRE_OK ||
                  acre__step_unmap(dev, mapping->at, bytes) == ACRE_OK || acre__device_is_lost(dev);
    if (is_gone && mapping->is_away)
        acre__away_count(dev, -(int64_t)bytes);
    return is_gone;
}

int acre__mapping_unmap(struct acre__mapping *mapping) {
    struct acre__said said;
    acre__said_keep(&said);
    acre__gate_enter(ACRE__GATE_MAP);
    int is_gone = mapping_undo(mapping);
    if (is_gone)
        acre__mapped_remove(mapping);
    acre__gate_leave(ACRE__GATE_MAP);
    (void)acre__said_fail(ACRE_OK, &said);
    if (!is_gone)
        return 0;
    acre__chunk_drop(mapping->chunk);
    free(mapping);
    return 1;
}

void acre__mapping_abandon(struct acre__mapping *mapping) {
    acre__mapped_remove(mapping); /* nobody uses it, so it is neither kept nor brought back */
    acre__limbo_let_go(mapping->chunk->dev, &mapping->item);
}

int acre__mapping_end(struct acre__mapping *mapping) {
    if (acre__mapping_unmap(mapping))
        return 1;
    acre__mapping_abandon(mapping);
    return 0;
}
