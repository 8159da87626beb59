/* The ways to allocate memory for the case `use`: see pool_use.h. */
#include "pool_use.h"

#include <string.h>

#define USE_MIB ((size_t)1 << 20)
#define USE_GIB ((size_t)1 << 30)

/* Blocks of a pool differ in their place: in new memory, behind a small block, or in memory that
 * other blocks used, whose chunks they inherit. */
static const struct use_way use_ways[] = {
    {.name = "one block", .who = "acre", .kind = USE_POOL},
    {.name = "one block", .who = "driver", .kind = USE_PLAIN},
    {.name = "two blocks", .who = "acre", .kind = USE_POOL, .is_two = true},
    {.name = "two blocks", .who = "driver", .kind = USE_PLAIN, .is_two = true},
    {.name = "aligned to 2 MiB", .who = "acre", .kind = USE_POOL, .alignment = 2 * USE_MIB},
    {.name = "aligned to 1 GiB", .who = "acre", .kind = USE_POOL, .alignment = USE_GIB},
    {.name = "behind 3 MiB", .who = "acre", .kind = USE_POOL, .before_bytes = 3 * USE_MIB},
    {.name = "behind 64 KiB", .who = "acre", .kind = USE_POOL, .before_bytes = 65536},
    {.name = "after 1 GiB blocks", .who = "acre", .kind = USE_POOL, .piece_bytes = USE_GIB},
    {.name = "after 32 MiB blocks", .who = "acre", .kind = USE_POOL, .piece_bytes = 32 * USE_MIB},
    {.name = "acre_mem_alloc", .who = "acre", .kind = USE_MEM},
    {.name = "1 GiB chunks at 1 GiB", .who = "acre", .kind = USE_CHUNKS, .piece_bytes = USE_GIB},
    {.name = "1 GiB chunks at 1 GiB + 2 MiB",
     .who = "acre",
     .kind = USE_CHUNKS,
     .piece_bytes = USE_GIB,
     .behind_1gib = 2 * USE_MIB},
    {.name = "32 MiB chunks at 1 GiB",
     .who = "acre",
     .kind = USE_CHUNKS,
     .piece_bytes = 32 * USE_MIB},
    {.name = "2 MiB chunks at 1 GiB",
     .who = "acre",
     .kind = USE_CHUNKS,
     .piece_bytes = 2 * USE_MIB},
    {.name = "halves 3 MiB apart",
     .who = "driver",
     .kind = USE_PLAIN,
     .distance_bytes = 3 * USE_MIB},
    {.name = "cuMemAllocAsync", .who = "driver", .kind = USE_ASYNC},
};

const struct use_way *use_way(unsigned index) {
    return index < sizeof use_ways / sizeof *use_ways ? &use_ways[index] : NULL;
}

bool use_is_possible(const struct pool_bench *p, const struct use_way *way) {
    return way->kind == USE_ASYNC ? !p->drv->missing[ACRE__ENTRY_cuMemAllocAsync]
                                  : way->kind != USE_CHUNKS || p->info.has_vmm;
}

/* ---- the driver ---- */

static int use_make_driver(struct pool_bench *p, struct use_place *place) {
    const struct use_way *way = place->way;
    size_t bytes = way->is_two ? place->bytes : 2 * place->bytes + way->distance_bytes;
    bench_blame(p->bench, true);
    for (unsigned i = 0; i < (way->is_two ? 2 : 1); i++) {
        if (way->kind == USE_ASYNC ? p->drv->cuMemAllocAsync(&place->plain[i], bytes, p->streams[0])
                                   : p->drv->cuMemAlloc(&place->plain[i], bytes)) {
            return 0;
        }
    }
    place->from = place->plain[0];
    place->to = way->is_two ? place->plain[1] : place->from + bytes - place->bytes;
    return 1;
}

static int use_unmake_driver(struct pool_bench *p, struct use_place *place) {
    int ok = 1;
    for (unsigned i = 0; i < 2 && place->plain[i]; i++) {
        CUresult result = place->way->kind == USE_ASYNC
                              ? p->drv->cuMemFreeAsync(place->plain[i], p->streams[0])
                              : p->drv->cuMemFree(place->plain[i]);
        ok = result == CUDA_SUCCESS && ok;
    }
    return ok && p->drv->cuStreamSynchronize(p->streams[0]) == CUDA_SUCCESS;
}

/* ---- a pool ---- */

/* Allocates all the memory in smaller blocks and frees them. */
static int use_pieces(struct pool_bench *p, struct use_place *place) {
    size_t each = place->way->piece_bytes, count = 2 * place->bytes / each;
    void **pieces = calloc(count + 1, sizeof *pieces);
    int ok = pieces != NULL;
    for (size_t i = 0; ok && i < count; i++) {
        ok = acre_pool_alloc(place->pool, each, 0, p->streams[0], &pieces[i]) == ACRE_OK;
    }
    for (size_t i = 0; ok && i < count; i++) {
        ok = acre_pool_free(place->pool, pieces[i], p->streams[0]) == ACRE_OK;
    }
    free(pieces);
    return ok && acre_stream_sync(p->device, p->streams[0]) == ACRE_OK;
}

static int use_make_pool(struct pool_bench *p, struct use_place *place) {
    const struct use_way *way = place->way;
    size_t bytes = way->is_two ? place->bytes : 2 * place->bytes;
    if (acre_pool_create(p->device, NULL, &place->pool) ||
        (way->before_bytes &&
         acre_pool_alloc(place->pool, way->before_bytes, 0, p->streams[0], &place->before)) ||
        (way->piece_bytes && !use_pieces(p, place))) {
        return 0;
    }
    for (unsigned i = 0; i < (way->is_two ? 2 : 1); i++) {
        if (acre_pool_alloc(place->pool, bytes, way->alignment, p->streams[0], &place->blocks[i])) {
            return 0;
        }
    }
    place->from = (uint64_t)(uintptr_t)place->blocks[0];
    place->to = way->is_two ? (uint64_t)(uintptr_t)place->blocks[1] : place->from + place->bytes;
    return 1;
}

static int use_unmake_pool(struct pool_bench *p, struct use_place *place) {
    for (unsigned i = 0; i < 2; i++) {
        if (acre_pool_free(place->pool, place->blocks[i], p->streams[0])) {
            return 0;
        }
    }
    return acre_pool_free(place->pool, place->before, p->streams[0]) == ACRE_OK &&
           acre_pool_destroy(place->pool, NULL, NULL) == ACRE_OK;
}

/* ---- mapped ---- */

static int use_make_mem(struct pool_bench *p, struct use_place *place) {
    if (acre_mem_alloc(p->device, ACRE_KIND_DEVICE, 2 * place->bytes, 0, &place->blocks[0])) {
        return 0;
    }
    place->from = (uint64_t)(uintptr_t)place->blocks[0];
    place->to = place->from + place->bytes;
    return 1;
}

/* Each chunk's handle is released at once; its memory stays while it is mapped. */
static int use_make_chunks(struct pool_bench *p, struct use_place *place) {
    const struct use_way *way = place->way;
    size_t bytes = 2 * place->bytes;
    if (acre_vm_reserve(p->device, bytes + way->behind_1gib, USE_GIB, NULL, &place->reserved,
                        NULL)) {
        return 0;
    }
    place->mapped = (char *)place->reserved + way->behind_1gib;
    for (size_t at = 0; at < bytes; at += way->piece_bytes) {
        acre_vm_chunk *chunk = NULL;
        if (acre_vm_create(p->device, way->piece_bytes, 0, &chunk, NULL) ||
            acre_vm_map(p->device, (char *)place->mapped + at, chunk) ||
            acre_vm_release(p->device, chunk)) {
            return 0;
        }
    }
    place->from = (uint64_t)(uintptr_t)place->mapped;
    place->to = place->from + place->bytes;
    return acre_vm_set_access(p->device, place->mapped, bytes, p->device, ACRE_ACCESS_READ_WRITE) ==
           ACRE_OK;
}

static int use_unmake_chunks(struct pool_bench *p, struct use_place *place) {
    return acre_vm_unmap(p->device, place->mapped, 2 * place->bytes) == ACRE_OK &&
           acre_vm_address_free(p->device, place->reserved) == ACRE_OK;
}

/* ---- any ---- */

int use_make(struct pool_bench *p, const struct use_way *way, size_t half,
             struct use_place *place) {
    *place = (struct use_place){.way = way, .bytes = half};
    bench_blame(p->bench, false);
    switch (way->kind) {
    case USE_POOL:
        return use_make_pool(p, place);
    case USE_MEM:
        return use_make_mem(p, place);
    case USE_CHUNKS:
        return use_make_chunks(p, place);
    default:
        return use_make_driver(p, place);
    }
}

/* Frees the memory. Also trims acre's cache, so that no way inherits the memory of another. */
int use_unmake(struct pool_bench *p, struct use_place *place) {
    bool is_drivers = place->way->kind == USE_PLAIN || place->way->kind == USE_ASYNC;
    int ok = 0;
    bench_blame(p->bench, is_drivers);
    switch (place->way->kind) {
    case USE_POOL:
        ok = use_unmake_pool(p, place);
        break;
    case USE_MEM:
        ok = acre_mem_free(p->device, place->blocks[0]) == ACRE_OK;
        break;
    case USE_CHUNKS:
        ok = use_unmake_chunks(p, place);
        break;
    default:
        ok = use_unmake_driver(p, place);
    }
    return ok && acre_trim(p->device) == ACRE_OK;
}
