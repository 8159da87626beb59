/* Lookup of addresses: the tree of ranges, and the tree of mappings. A mapping may reach from one
 * reservation into the next. Guarded by acre__soft.lock. */
#include <stdlib.h>

#include "base/round.h"
#include "soft/soft_address.h"
#include "soft/soft_op.h"
#include "soft/soft_physical.h"
#include "soft/soft_pool_types.h"
#include "soft/soft_range.h"
#include "soft/soft_state.h"
#include "soft/soft_view.h"

CUresult acre__soft_range_add(enum soft_range_kind kind, uint64_t address, size_t bytes, int device,
                              struct soft_backing *backing, size_t offset,
                              struct soft_range **out) {
    struct soft_range *range = calloc(1, sizeof *range);
    if (!range)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range->node.key = address;
    range->kind = kind;
    range->bytes = bytes;
    range->device = device;
    range->id = backing ? acre__soft_next_id() : 0;
    range->backing = backing;
    range->offset = offset;
    if (!acre__tree_insert(&acre__soft.ranges, &range->node)) {
        /* Host pages at an address that is still registered: the program unmapped the old pages
         * without unregistering them. */
        free(range);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    if (out)
        *out = range;
    return CUDA_SUCCESS;
}

void acre__soft_range_remove(struct soft_range *range) {
    acre__tree_remove(&acre__soft.ranges, &range->node);
    if (soft_range_is_large(range))
        (void)acre__soft_view_end(&range->view, range->node.key, range->backing->bytes);
    acre__soft_backing_drop(range->backing);
    if (range->kind == SOFT_RESERVED)
        acre__soft_address_give(range->node.key, range->bytes);
    else if (soft_range_is_large(range))
        acre__soft_address_give(range->node.key, acre__round_up(range->bytes, SOFT_CHUNK_BYTES));
    free(range->advice);
    acre__soft_marker_drop(range->born);
    if (range->graph)
        range->graph->range = NULL;
    free(range->gap);
    free(range);
}

int acre__soft_mapping_is_open(const struct soft_mapping *mapping) {
    int is_open = mapping->host_access;
    for (int i = 0; i < ACRE__SOFT_DEVICES_MAX; i++)
        is_open |= mapping->access[i];
    return is_open != 0;
}

void acre__soft_mapping_remove(struct soft_mapping *mapping) {
    acre__tree_remove(&acre__soft.mappings, &mapping->node);
    (void)acre__soft_view_end(&mapping->view, mapping->node.key, mapping->bytes);
    acre__soft_backing_drop(mapping->backing);
    free(mapping->uses);
    free(mapping);
}

static CUresult pieces_add(struct soft_pieces *pieces, const struct soft_piece *piece) {
    if (pieces->count == pieces->room) {
        size_t room = pieces->room ? pieces->room * 2 : 8;
        struct soft_piece *at = realloc(pieces->at, room * sizeof *at);
        if (!at)
            return CUDA_ERROR_OUT_OF_MEMORY;
        pieces->at = at;
        pieces->room = room;
    }
    pieces->at[pieces->count++] = *piece;
    return CUDA_SUCCESS;
}

void acre__soft_pieces_free(struct soft_pieces *pieces) {
    free(pieces->at);
    *pieces = (struct soft_pieces){0};
}

static int is_allowed(unsigned access, int is_write) {
    unsigned need = is_write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
    return (access & need) == need;
}

static CUresult resolve_mapped(uint64_t address, size_t bytes, int device, int is_write,
                               struct soft_pieces *pieces) {
    while (bytes) {
        const struct soft_mapping *mapping = acre__soft_mapping_find(address);
        if (!mapping || !is_allowed(mapping->access[device], is_write))
            return CUDA_ERROR_INVALID_VALUE;
        size_t offset = address - mapping->node.key;
        size_t here = mapping->bytes - offset < bytes ? mapping->bytes - offset : bytes;
        struct soft_piece piece = {mapping->backing, offset, here, address, mapping->id};
        CUresult result = pieces_add(pieces, &piece);
        if (result)
            return result;
        address += here;
        bytes -= here;
    }
    return CUDA_SUCCESS;
}

CUresult acre__soft_range_resolve(uint64_t address, size_t bytes, int device, int is_write,
                                  struct soft_pieces *pieces) {
    const struct soft_range *range = acre__soft_range_find(address);
    if (range && range->kind == SOFT_RESERVED)
        return resolve_mapped(address, bytes, device, is_write, pieces);
    if (!range || bytes > range->bytes - (address - range->node.key) ||
        (range->pool && !is_allowed(range->pool->access[device], is_write)))
        return CUDA_ERROR_INVALID_VALUE;
    struct soft_piece piece = {range->backing, range->offset + (address - range->node.key), bytes,
                               address, range->id};
    return pieces_add(pieces, &piece);
}

CUresult acre__soft_range_resolve_late(uint64_t address, size_t bytes, int device, int is_write,
                                       struct soft_pieces *pieces) {
    const struct soft_segment *segment = acre__soft_segment_find(address);
    if (!segment)
        return acre__soft_range_resolve(address, bytes, device, is_write, pieces);
    size_t offset = address - segment->node.key;
    if (bytes > segment->bytes - offset || !is_allowed(segment->pool->access[device], is_write))
        return CUDA_ERROR_INVALID_VALUE;
    struct soft_piece piece = {segment->backing, offset, bytes, address, segment->backing->id};
    return pieces_add(pieces, &piece);
}
