/* Mappings: see mapping.h. */
#include "space/mapping.h"

#include <stdlib.h>

#include "base/status.h"
#include "space/range.h"
#include "watch/trace.h"

/* Unmaps it, with the context current. If the driver does not know the address, someone unmapped it
 * without acre. */
static CUresult mapping_give_back(const struct acre__driver *drv, struct acre__limbo_item *item) {
    const struct acre__mapping *mapping = (const struct acre__mapping *)item;
    CUresult code = drv->cuMemUnmap(mapping->at, mapping->chunk->bytes);
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

acre_status acre__mapping_make(struct acre__chunk *chunk, uint64_t at, struct acre__mapping **out) {
    struct acre__mapping *mapping = calloc(1, sizeof *mapping);
    if (!mapping)
        return acre__fail(ACRE_E_HOST_MEMORY, "no memory for the record of a mapping");
    mapping->item.kind = &mapping_kind;
    mapping->chunk = chunk;
    mapping->at = at;
    acre_status status = acre__step_map(chunk->dev, at, chunk->bytes, chunk->handle);
    if (status) {
        free(mapping);
        return status;
    }
    acre__chunk_keep(chunk);
    *out = mapping;
    return ACRE_OK;
}

int acre__mapping_unmap(struct acre__mapping *mapping) {
    acre_device *dev = mapping->chunk->dev;
    size_t bytes = mapping->chunk->bytes;
    struct acre__said said;
    acre__said_keep(&said);
    int is_gone = acre__device_is_lost(dev) ||
                  acre__step_unmap(dev, mapping->at, bytes) == ACRE_OK ||
                  acre__step_unmap(dev, mapping->at, bytes) == ACRE_OK || acre__device_is_lost(dev);
    (void)acre__said_fail(ACRE_OK, &said);
    if (!is_gone)
        return 0;
    acre__chunk_drop(mapping->chunk);
    free(mapping);
    return 1;
}

int acre__mapping_end(struct acre__mapping *mapping) {
    if (acre__mapping_unmap(mapping))
        return 1;
    acre__limbo_let_go(mapping->chunk->dev, &mapping->item);
    return 0;
}
