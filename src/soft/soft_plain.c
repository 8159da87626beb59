/* Plain device memory: placement. The driver calls are in soft_memory.c.
 *
 * Small plain allocations share 2 MiB chunks (slabs) in units of 512 bytes. Larger allocations have
 * their own chunk, as with the real driver. Guarded by acre__soft.lock. */
#include <stdlib.h>

#include "base/round.h"
#include "soft/soft_address.h"
#include "soft/soft_physical.h"
#include "soft/soft_plain.h"
#include "soft/soft_pool_memory.h"
#include "soft/soft_range.h"
#include "soft/soft_state.h"
#include "soft/soft_view.h"

/* ---- slabs ---- */

/* Returns the first run of `units` free units of a slab, or -1. */
static int slab_search(const struct soft_slab *slab, unsigned units) {
    unsigned run = 0;
    for (unsigned i = 0; i < SOFT_PLAIN_UNITS; i++) {
        if (i % 64 == 0 && slab->used[i / 64] == UINT64_MAX) {
            run = 0;
            i += 63;
            continue;
        }
        run = (slab->used[i / 64] >> (i % 64)) & 1 ? 0 : run + 1;
        if (run == units)
            return (int)(i + 1 - units);
    }
    return -1;
}

static void slab_mark(struct soft_slab *slab, unsigned first, unsigned units, int is_used) {
    for (unsigned i = first; i < first + units; i++) {
        if (is_used)
            slab->used[i / 64] |= (uint64_t)1 << (i % 64);
        else
            slab->used[i / 64] &= ~((uint64_t)1 << (i % 64));
    }
    slab->used_units = is_used ? slab->used_units + units : slab->used_units - units;
}

void acre__soft_slab_free(struct CUctx_st *ctx, struct soft_slab *slab) {
    struct soft_slab **link = &ctx->slabs;
    while (*link != slab)
        link = &(*link)->next;
    *link = slab->next;
    (void)acre__soft_view_end(&slab->view, slab->address, SOFT_CHUNK_BYTES);
    acre__soft_backing_drop(slab->backing);
    acre__soft_address_give(slab->address, SOFT_CHUNK_BYTES);
    free(slab);
}

static CUresult slab_make(struct CUctx_st *ctx, struct soft_slab **out) {
    struct soft_slab *slab = calloc(1, sizeof *slab);
    if (!slab)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result =
        acre__soft_chunk_create(&acre__soft.devices[ctx->device], SOFT_CHUNK_BYTES, &slab->backing);
    if (!result) {
        slab->address = acre__soft_address_take(SOFT_CHUNK_BYTES, SOFT_CHUNK_BYTES, 0);
        if (!slab->address) {
            acre__soft_backing_drop(slab->backing);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (result) {
        free(slab);
        return result;
    }
    slab->next = ctx->slabs;
    ctx->slabs = slab;
    if (!acre__soft_view_plain(&slab->view, slab->address, slab->backing)) {
        acre__soft_slab_free(ctx, slab);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = slab;
    return CUDA_SUCCESS;
}

/* ---- allocations ---- */

static CUresult plain_small(struct CUctx_st *ctx, size_t bytes, CUdeviceptr *out) {
    unsigned units = (unsigned)((bytes + SOFT_PLAIN_UNIT - 1) / SOFT_PLAIN_UNIT);
    struct soft_slab *slab = ctx->slabs;
    int first = -1;
    for (; slab; slab = slab->next)
        if (slab->used_units + units <= SOFT_PLAIN_UNITS && (first = slab_search(slab, units)) >= 0)
            break;
    if (!slab) {
        CUresult result = slab_make(ctx, &slab);
        if (result)
            return result;
        first = 0;
    }
    size_t offset = (size_t)first * SOFT_PLAIN_UNIT;
    struct soft_range *range;
    CUresult result = acre__soft_range_add(SOFT_PLAIN, slab->address + offset, bytes, ctx->device,
                                           slab->backing, offset, &range);
    if (result) {
        if (!slab->used_units)
            acre__soft_slab_free(ctx, slab);
        return result;
    }
    range->ctx = ctx;
    acre__soft_backing_keep(slab->backing);
    slab_mark(slab, (unsigned)first, units, 1);
    *out = slab->address + offset;
    return CUDA_SUCCESS;
}

static CUresult plain_large(struct CUctx_st *ctx, size_t bytes, CUdeviceptr *out) {
    if (bytes > acre__soft.config.bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t whole = acre__round_up(bytes, SOFT_CHUNK_BYTES);
    struct soft_backing *backing;
    CUresult result = acre__soft_chunk_create(&acre__soft.devices[ctx->device], whole, &backing);
    if (result)
        return result;
    uint64_t address = acre__soft_address_take(whole, SOFT_CHUNK_BYTES, 0);
    if (!address) {
        acre__soft_backing_drop(backing);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct soft_range *range;
    result = acre__soft_range_add(SOFT_PLAIN, address, bytes, ctx->device, backing, 0, &range);
    if (result) {
        acre__soft_backing_drop(backing);
        acre__soft_address_give(address, whole);
        return result;
    }
    range->ctx = ctx;
    if (!acre__soft_view_plain(&range->view, address, backing)) {
        acre__soft_range_remove(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = address;
    return CUDA_SUCCESS;
}

CUresult acre__soft_plain_alloc(struct CUctx_st *ctx, size_t bytes, CUdeviceptr *out) {
    return bytes < SOFT_CHUNK_BYTES / 2 ? plain_small(ctx, bytes, out)
                                        : plain_large(ctx, bytes, out);
}

void acre__soft_plain_free(struct soft_range *range) {
    struct CUctx_st *ctx = range->ctx;
    if (soft_range_is_large(range)) {
        acre__soft_range_remove(range);
        return;
    }
    struct soft_slab *slab = ctx->slabs;
    while (slab->backing != range->backing)
        slab = slab->next;
    unsigned units = (unsigned)((range->bytes + SOFT_PLAIN_UNIT - 1) / SOFT_PLAIN_UNIT);
    slab_mark(slab, (unsigned)(range->offset / SOFT_PLAIN_UNIT), units, 0);
    acre__soft_range_remove(range);
    if (!slab->used_units)
        acre__soft_slab_free(ctx, slab);
}
