/* Ways to grow an array; see grow.h.
 *
 * The time of a growth ends when the contents are in their new place and the old block, if there is
 * one, is freed: each way that copies waits for its stream once per growth. The pool of
 * cudaMallocAsync has default settings and releases memory when a stream is synchronised. Work that
 * is done once per array, such as reserving addresses, is not timed for any way. */
#include <string.h>

#include "cli.h"
#include "grow.h"

/* Managed memory beyond the device's memory may hang a machine, so these arrays stay small. */
#define GROW_MANAGED_MOST (UINT64_C(2) << 30)

const char *grow_who(enum grow_way way) {
    static const char *const names[GROW_WAYS] = {
        [GROW_ACRE] = "acre",
        [GROW_NO_RESERVE] = "acre no reserve",
        [GROW_AHEAD] = "acre ahead",
        [GROW_FLOOR] = "floor",
        [GROW_MALLOC] = "cudaMalloc+copy",
        [GROW_ASYNC] = "cudaMallocAsync+copy",
        [GROW_MANAGED] = "managed+prefetch",
    };
    return names[way];
}

const char *grow_lacks(const struct grow *grow, enum grow_way way) {
    const unsigned char *missing = grow->drv->missing;
    if (way == GROW_FLOOR && !grow->info.has_vmm) {
        return "the device has no virtual memory management";
    }
    if (way == GROW_ASYNC &&
        (missing[ACRE__ENTRY_cuMemAllocAsync] || missing[ACRE__ENTRY_cuMemFreeAsync])) {
        return "the driver lacks cuMemAllocAsync";
    }
    if (way == GROW_MANAGED &&
        (!grow->info.has_managed || missing[ACRE__ENTRY_cuMemPrefetchAsync])) {
        return "the device lacks managed memory or prefetching";
    }
    return NULL;
}

uint64_t grow_reach(const struct grow *grow, enum grow_way way, uint64_t most) {
    /* Old and new block exist at the same time; together they take at most a quarter of the free
     * memory. */
    uint64_t managed = grow->info.free_bytes / 8;
    managed = managed < GROW_MANAGED_MOST ? managed : GROW_MANAGED_MOST;
    return way == GROW_MANAGED && managed < most ? managed : most;
}

static int grow_is_acre(enum grow_way way) {
    return way == GROW_ACRE || way == GROW_NO_RESERVE || way == GROW_AHEAD;
}

/* ---- vecs ---- */

static int grow_vec_begin(struct grow *grow) {
    acre_vec_options options = {.struct_size = sizeof options};
    if (grow->way == GROW_NO_RESERVE) {
        options.address_bytes = grow->unit;
    } else if (grow->way == GROW_AHEAD) {
        options.ahead_bytes = grow->ahead_bytes;
    }
    if (acre_vec_create(grow->device, 1, &options, &grow->vec)) {
        return 0;
    }
    return grow->way != GROW_NO_RESERVE ||
           acre_vec_create(grow->device, 1, &options, &grow->behind) == ACRE_OK;
}

static int grow_vec_to(struct grow *grow, uint64_t bytes) {
    return acre_vec_grow(grow->vec, bytes - grow->bytes, grow->stream) == ACRE_OK;
}

static int grow_vec_end(struct grow *grow) {
    acre_status status = acre_vec_destroy(grow->vec, grow->stream);
    acre_status other = acre_vec_destroy(grow->behind, grow->stream);
    grow->vec = grow->behind = NULL;
    return status == ACRE_OK && other == ACRE_OK;
}

/* ---- the floor ---- */

static int grow_floor_begin(struct grow *grow, uint64_t most) {
    grow->reserved = most;
    return grow->drv->cuMemAddressReserve(&grow->at, most, 0, 0, 0) == CUDA_SUCCESS;
}

static int grow_floor_to(struct grow *grow, uint64_t bytes) {
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, (int)grow->info.ordinal};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = location};
    CUmemAccessDesc access = {location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    uint64_t more = bytes - grow->bytes;
    CUdeviceptr place = grow->at + grow->bytes;
    if (grow->chunk_count == GROW_CHUNKS ||
        grow->drv->cuMemCreate(&handle, more, &prop, 0) != CUDA_SUCCESS) {
        return 0;
    }
    if (grow->drv->cuMemMap(place, more, 0, handle, 0) != CUDA_SUCCESS) {
        grow->drv->cuMemRelease(handle);
        return 0;
    }
    grow->chunks[grow->chunk_count].handle = handle;
    grow->chunks[grow->chunk_count++].bytes = more;
    return grow->drv->cuMemSetAccess(place, more, &access, 1) == CUDA_SUCCESS;
}

static int grow_floor_end(struct grow *grow) {
    int ok = 1;
    CUdeviceptr place = grow->at;
    for (size_t i = 0; i < grow->chunk_count; i++) {
        ok &= grow->drv->cuMemUnmap(place, grow->chunks[i].bytes) == CUDA_SUCCESS;
        ok &= grow->drv->cuMemRelease(grow->chunks[i].handle) == CUDA_SUCCESS;
        place += grow->chunks[i].bytes;
    }
    if (grow->at) {
        ok &= grow->drv->cuMemAddressFree(grow->at, grow->reserved) == CUDA_SUCCESS;
    }
    return ok;
}

/* ---- larger blocks ---- */

static CUresult grow_block_make(struct grow *grow, uint64_t bytes, CUdeviceptr *block) {
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, (int)grow->info.ordinal};
    CUresult code;
    switch (grow->way) {
    case GROW_ASYNC:
        return grow->drv->cuMemAllocAsync(block, bytes, grow->stream);
    case GROW_MANAGED:
        code = grow->drv->cuMemAllocManaged(block, bytes, CU_MEM_ATTACH_GLOBAL);
        return code ? code : grow->drv->cuMemPrefetchAsync(*block, bytes, device, 0, grow->stream);
    default:
        return grow->drv->cuMemAlloc(block, bytes);
    }
}

static int grow_block_free(struct grow *grow) {
    CUresult code = CUDA_SUCCESS;
    if (grow->at && grow->way == GROW_ASYNC) {
        code = grow->drv->cuMemFreeAsync(grow->at, grow->stream);
    } else if (grow->at) {
        code = grow->drv->cuMemFree(grow->at);
    }
    grow->at = 0;
    return code == CUDA_SUCCESS;
}

static int grow_block_to(struct grow *grow, uint64_t bytes) {
    CUdeviceptr block = 0;
    CUresult code = grow_block_make(grow, bytes, &block);
    if (code == CUDA_SUCCESS && grow->at) {
        code = grow->drv->cuMemcpyDtoDAsync(block, grow->at, grow->bytes, grow->stream);
    }
    int ok = code == CUDA_SUCCESS && grow_block_free(grow);
    grow->at = block ? block : grow->at;
    return ok && grow->drv->cuStreamSynchronize(grow->stream) == CUDA_SUCCESS;
}

/* ---- any way ---- */

int grow_begin(struct grow *grow, enum grow_way way, uint64_t most) {
    bench_blame(grow->bench, false);
    if (acre_trim(grow->device)) {
        return 0;
    }
    grow->way = way;
    grow->bytes = grow->moves = 0;
    grow->at = 0;
    grow->chunk_count = 0;
    bench_blame(grow->bench, !grow_is_acre(way));
    if (grow_is_acre(way)) {
        return grow_vec_begin(grow);
    }
    return way != GROW_FLOOR || grow_floor_begin(grow, most);
}

/* Returns the current address of the array. */
static uintptr_t grow_place(const struct grow *grow) {
    return grow_is_acre(grow->way) ? (uintptr_t)acre_vec_data(grow->vec) : (uintptr_t)grow->at;
}

int grow_to(struct grow *grow, uint64_t bytes, double *ns) {
    int ok;
    uintptr_t before = grow->bytes ? grow_place(grow) : 0;
    uint64_t begin = cli_now_ns();
    if (grow_is_acre(grow->way)) {
        ok = grow_vec_to(grow, bytes);
    } else if (grow->way == GROW_FLOOR) {
        ok = grow_floor_to(grow, bytes);
    } else {
        ok = grow_block_to(grow, bytes);
    }
    *ns = (double)(cli_now_ns() - begin);
    if (ok) {
        grow->moves += before && grow_place(grow) != before;
        grow->bytes = bytes;
    }
    return ok;
}

int grow_end(struct grow *grow) {
    if (grow_is_acre(grow->way)) {
        return grow_vec_end(grow);
    }
    return grow->way == GROW_FLOOR ? grow_floor_end(grow) : grow_block_free(grow);
}
